// Files that others read and write: safetensors go to Python's package and back in every dtype that both have, and the
// quantised types of GGUF have the values that the package gguf gives them.
#include "../files_and_errors.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/sinter.hpp>

#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const std::string stored = std::string(SINTER_SOURCE_DIR) + "/tests/unit/io_files/";

Tensor counts(DType dtype) {
  const Tensor x = arange(6).reshape({2, 3});
  if (dtype == DType::bool_) return x % 2 == 1;
  return is_complex(dtype) ? complex(x.to(DType::f32), x.to(DType::f32) * 2).to(dtype) : x.to(dtype);
}

std::string bits(const Tensor& x) {
  const Ref<TensorImpl> dense = dense_value(In(x), "test");
  const std::int64_t bytes = dense->type.shape.numel().value() * size_of(dense->type.dtype);
  return {static_cast<const char*>(dense->data()), static_cast<std::size_t>(bytes)};
}

void require_same_bits(const Tensor& found, const Tensor& wanted) {
  REQUIRE(found.dtype() == wanted.dtype());
  REQUIRE(found.shape().text() == wanted.shape().text());
  REQUIRE((bits(found) == bits(wanted)));
}

/// A GGUF file of one tensor with this type and row length, and these bytes of data.
std::string gguf_file(std::uint32_t type, std::uint64_t columns, const std::string& data) {
  std::string file = "GGUF";
  const auto add = [&](std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) file += static_cast<char>(value >> (8 * i) & 0xff);
  };
  add(3, 4), add(1, 8), add(0, 8);
  add(1, 8), file += "x", add(1, 4), add(columns, 8), add(type, 4), add(0, 8);
  file.resize((file.size() + 31) / 32 * 32);
  return file + data;
}
}  // namespace

TEST_CASE("safetensors go to Python and back in every dtype", "[io]") {
  const Folder folder;
  io::TensorMap all;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype != DType::c128) all.emplace(std::string(name(dtype)), counts(dtype));
  }
  all.emplace("number", full({}, 7));
  all.emplace("nothing", zeros({0, 4}));
  io::save_safetensors(folder / "from.safetensors", all, {{"k\u00e9", "v\"\t"}});
  const char* const python = std::getenv("SINTER_TEST_PYTHON");  // another than the first one of the PATH
  const std::string command = std::string(python != nullptr ? python : "python3") + " '" + stored + "exchange.py' '" +
                              folder.path + "/from.safetensors' '" + folder.path + "/back.safetensors' '" +
                              folder.path + "/made.safetensors' > '" + folder.path + "/said' 2>&1";
  const int status = std::system(command.c_str());
  const std::string said = read_file(folder / "said");
  if (WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127))
    SINTER_SKIP("Python has no package safetensors, or no NumPy");
  INFO(said);
  REQUIRE(status == 0);
  std::istringstream words(said);
  std::vector<std::string> names;
  for (std::string word; words >> word;) names.push_back(word);
  CHECK(names.size() >= 13);
  const io::SafeTensors back = io::read_safetensors(folder / "back.safetensors");
  const io::TensorMap made = io::load_safetensors(folder / "made.safetensors");
  CHECK(back.metadata == std::map<std::string, std::string>{{"k\u00e9", "v\"\t"}});
  CHECK(made.size() == names.size());
  for (const std::string& name : names) {
    INFO(name);
    require_same_bits(back.tensors.at(name), all.at(name));
    require_same_bits(made.at(name), all.at(name));
  }
  require_same_bits(back.tensors.at("number"), all.at("number"));
  require_same_bits(back.tensors.at("nothing"), all.at("nothing"));
}

TEST_CASE("the quantised types of GGUF files have the values that the package gguf gives", "[io]") {
  const io::GgufFile file = io::load_gguf(stored + "quantized.gguf");
  const io::TensorMap values = io::load_npz(stored + "quantized.expected");
  CHECK(values.size() == 12);
  for (const auto& [name, wanted] : values) {
    INFO(name);
    const Tensor& found = file.tensors.at(name);
    REQUIRE((found.dtype() == DType::f32 && found.shape().text() == "(2, 512)"));
    CHECK(item<float>(sum(abs(wanted))) > 0.f);
#ifdef __x86_64__
    require_same_bits(found, wanted);
#else  // a product and a sum may be one operation
    CHECK(allclose(found, wanted, {.rtol = 1e-6, .atol = 1e-6}));
#endif
  }
  require_same_bits(file.tensors.at("BF16"), counts(DType::bf16));

  // Those of products stay quantised where that is asked for, the others become f32.
  const io::GgufFile kept = io::load_gguf(stored + "quantized.gguf", {.keep_quantized = true});
  CHECK((kept.weights.size() == 2 && kept.weights.count("Q4_0") == 1 && kept.weights.count("Q8_0") == 1));
  require_same_bits(kept.tensors.at("Q6_K"), file.tensors.at("Q6_K"));
}

TEST_CASE("quantised types of GGUF files: what does not fit is an error", "[io]") {
  const Folder folder;
  const std::string path = folder / "x.gguf";
  const auto said = [&](std::uint32_t type, std::uint64_t columns, std::size_t bytes) {
    write_file(path, gguf_file(type, columns, std::string(bytes, '\0')));
    return error_of<IoError>([&] { io::load_gguf(path); });
  };
  CHECK_CONTAINS(said(14, 128, 210), "no whole number of Q6_K blocks of 256");
  CHECK_CONTAINS(said(3, 40, 20), "no whole number of Q4_1 blocks of 32");
  CHECK_CONTAINS(said(12, 256, 143), "x.gguf: byte ");
  CHECK_CONTAINS(said(16, 256, 66), "quantised type 16");
  CHECK_CONTAINS(said(16, 256, 66), "F16, BF16 or one of Q4_0, Q4_1, Q5_0");
  write_file(path, gguf_file(12, 256, std::string(144, '\0')));
  CHECK(item<float>(sum(io::load_gguf(path).tensors.at("x"))) == 0.f);
  write_file(path, gguf_file(12, 0, ""));
  CHECK(io::load_gguf(path).tensors.at("x").shape().text() == "(0,)");
}
