// What the source generator gives the runtime: for bound extents, the text of a kernel's CUDA C functions and the list
// of launches as plain data. The runtime compiles the text, fills in addresses and values, and enqueues; the generator
// never sees a stream, the runtime never sees a loop. Knows Kernels; no driver types.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What the generator may count on.
struct Target {
  int capability = 90;  // 80 for sm_80
  int multiprocessors = 132;
  std::size_t shared_bytes = 227 * 1024;  // per block, with opt-in
  int registers = 65536;                  // per multiprocessor
  bool has_bulk_copies = false;           // of boxes of tensors (TensorMap), and products by `wgmma`: sm_90a
  bool runs_blocks_at_once = true;        // cooperative launches
  bool uses_library = false;              // large products may go to cuBLASLt, where it can be opened
  std::string architecture() const { return "sm_" + std::to_string(capability); }
};

/// Who computes a product of matrices: a generated kernel on the ordinary units, one on tensor cores, one by `wgmma` of
/// sm_90a, or cuBLASLt, which also computes what follows where it can (LibraryProduct::Epilogue); where it can, it may
/// also leave that to a kernel.
enum class GemmAlgorithm : std::uint8_t { fma, tensor_cores, wgmma, library, library_then_kernel };
constexpr std::string_view name_of(GemmAlgorithm algorithm) {
  switch (algorithm) {
    case GemmAlgorithm::fma: return "fma";
    case GemmAlgorithm::tensor_cores: return "tensor_cores";
    case GemmAlgorithm::wgmma: return "wgmma";
    case GemmAlgorithm::library: return "library";
    case GemmAlgorithm::library_then_kernel: return "library_then_kernel";
  }
  return "?";
}

/// An 8-byte field of a launch's parameters that the runtime writes before the launch.
struct ParameterPatch {
  enum class Kind : std::uint8_t {
    operand,  // address of operand `index` plus `byte_offset`
    value,    // operand `index` lives on the host: its bits from `byte_offset` on (see GeneratedKernel::bind, by_value)
    workspace,   // address of the launch list's workspace plus `byte_offset`
    fault,       // address of the fault record: long long[4], see below
    tag,         // a number that names this launch in the fault record, never 0
    tensor_map,  // 128 bytes instead of 8: GpuLaunch::tensor_maps[at / 128] of operand `index` from `byte_offset` on
  };
  Kind kind = Kind::operand;
  std::uint16_t index = 0;
  std::uint32_t at = 0;  // byte in GpuLaunch::parameters
  std::int64_t byte_offset = 0;
};
/// A kernel that meets a gather index outside its axis does, once:
///   if (atomicCAS((unsigned long long*)fault, 0ull, tag) == 0) { fault[1] = index; fault[2] = extent; }
/// and goes on with a zero. The runtime throws IndexError at the next synchronisation. Of a pivot of lu_solve, fault[3]
/// becomes 1.

/// What the bulk copy engine must know of an operand to copy boxes of it to shared memory: rows of 128 bytes along the
/// innermost axis, swizzled as `wgmma` reads them; zeros outside the operand.
struct TensorMap {
  DType dtype = DType::f32;  // f16, bf16 or f32
  int rank = 0;
  std::array<std::uint64_t, 5> extent{}, byte_stride{};  // innermost axis first, its stride an element
  std::array<std::uint32_t, 5> box{};
  const void* address = nullptr;  // for which the parameter holds it
};

/// One kernel launch, but for addresses.
struct GpuLaunch {
  std::uint16_t entry = 0;  // of GeneratedKernel::entries
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::uint32_t shared_bytes = 0;  // dynamic
  bool is_cooperative = false;
  /// The one parameter of every entry: a struct passed by value.
  std::vector<std::uint64_t> parameters;
  std::vector<ParameterPatch> patches;
  std::vector<TensorMap> tensor_maps;  // at the start of the parameter
};

/// A call of a library (cuBLASLt) in place of launches. Its functions want the context of its device to be current.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  /// `stream` is a CUstream. `operands` as for Launch::run; `workspace` has LaunchList::workspace_bytes, then
  /// scratch_bytes().
  virtual void run(void* const* operands, void* workspace, void* stream) = 0;
  /// At most so many of the library's own algorithms for it, its best guess first, as bytes that also a later process
  /// understands.
  /// None: it cannot do it.
  virtual std::vector<std::string> algorithms(int most) = 0;
  /// Takes one of them, which may be of an earlier process or of other extents. False: it does not fit, nothing
  /// changed.
  virtual bool use(const std::string& algorithm) = 0;
  /// What the algorithm needs; does not change once run.
  virtual std::size_t scratch_bytes() = 0;
  /// The program runs it, and not a measurement: its next processes will need the library.
  virtual void note_use() const {}
  /// "product + bias".
  virtual std::string text() const = 0;
};

/// What a kernel does for bound extents. Launches run in order; an empty list does nothing. The text depends on how the
/// kernel is bound (which axes merge, how wide accesses are, what stays in registers), but on sizes only through a few
/// such choices: texts recur, and compiled code is kept by text.
struct LaunchList {
  std::string source;  // include-free CUDA C; extern "C" __global__ entries; empty: library call only
  std::vector<std::string> entries;
  std::vector<GpuLaunch> launches;
  std::size_t workspace_bytes = 0;  // scratch, its contents undefined at the start, 256-byte aligned
  bool needs_alignment = false;     // operands' addresses must be multiples of 16; else bind again without `is_aligned`
  std::unique_ptr<LibraryCall> call;       // runs before the launches
  std::optional<GemmAlgorithm> algorithm;  // of a product of matrices
};

inline bool is_of_library(GemmAlgorithm algorithm) {
  return algorithm == GemmAlgorithm::library || algorithm == GemmAlgorithm::library_then_kernel;
}

/// A product of matrices and the GEMM algorithms open for it; all compute within what the kernel's precision allows.
struct GemmProblem {
  std::vector<GemmAlgorithm> algorithms;  // the generator's preference first
  /// Of them, in that order, those that may be the fastest: each one more costs a compilation of 50 to 200 ms.
  std::vector<GemmAlgorithm> worth_measuring;
  /// What decides how fast each of them is: the kernel and its extents, rounded, so that sizes which differ little
  /// share one measurement.
  std::string text;
  double operations = 0;         // additions and multiplications
  bool may_use_library = false;  // where it can be opened
};

/// Made once per kernel and schedule; immutable.
class GeneratedKernel {
 public:
  virtual ~GeneratedKernel() = default;
  /// From geometry to text and launches, in tens of microseconds. `by_value` bit i: operand i is on the host and must
  /// be passed by value; only ever set for operands that are read, never written, through accesses whose strides are
  /// all zero. `algorithm`: how a product is computed, where that one is open; else, and by default, the generator's
  /// own preference. `is_grouped`: the same text for many sizes is worth more than the best one for each, for then
  /// launches are merged (source/merge.hpp).
  virtual LaunchList bind(const BoundGeometry& geometry, std::uint64_t by_value, bool is_aligned = true,
                          std::optional<GemmAlgorithm> algorithm = {}, bool is_grouped = false) const = 0;
  /// What is to choose about a product of these extents. No algorithms: it is none. Without `with_library` the library
  /// is not asked for, which would open it, and its algorithms are left out.
  virtual GemmProblem product(const BoundGeometry&, std::uint64_t /*by_value*/, bool /*is_aligned*/ = true,
                              bool /*with_library*/ = true) const {
    return {};
  }
};

}  // namespace cuda
SINTER_NAMESPACE_END
