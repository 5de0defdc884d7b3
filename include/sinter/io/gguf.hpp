// GGUF files (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), versions 2 and 3: read as mapped memory.
#pragma once

#include <sinter/expr/quantization.hpp>
#include <sinter/io/tensors.hpp>

SINTER_NAMESPACE_BEGIN
namespace io {

/// What a file holds. Metadata are text: numbers in decimal, arrays as JSON.
struct GgufFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
  std::map<std::string, QuantizedWeight> weights{};  // matrices that stay quantised
};
struct GgufOptions {
  /// Matrices of Q8_0 and Q4_0 become `weights` of quantized_matmul, in groups of 32 with f16 scales: a matrix [n, k]
  /// of the file is the weight [k, n].
  bool keep_quantized = false;
};

/// Reads a GGUF file. Shapes are row-major, the last axis contiguous: reversed as against the file. f16, bf16, f32, f64
/// and integers share the mapped file; Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and IQ4_XS become f32. Other
/// quantised types are an IoError.
GgufFile load_gguf(const std::string& path, Location where = std::source_location::current());
GgufFile load_gguf(const std::string& path, GgufOptions options, Location where = std::source_location::current());

}  // namespace io
SINTER_NAMESPACE_END
