// From a kernel and its numbers to CUDA C: include-free text, how to launch it, and the bytes of its one parameter. A
// pure function: needs no GPU, no driver and no compiler. The text depends on extents only through a few choices (form,
// vector width, threads), so that sizes which are run alike share compiled code. Must not know modules, streams, memory.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What the choices depend on.
struct DeviceFacts {
  int sm = 90;                     // compute capability, 10 * major + minor
  int multiprocessors = 132;
  int shared_bytes = 48 << 10;     // per block
};

/// One kernel of the text. Those of one launch run in order on one stream.
struct CudaStep {
  std::string entry;
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;       // dynamic
};

/// Argument i of the parameter: operands[operand] + byte_offset.
struct CudaPointer {
  std::uint16_t operand = 0;
  std::int64_t byte_offset = 0;
};

/// May the text assume that memory begins at multiples of 16 bytes?
enum class Alignment : std::uint8_t { by_16, by_element };

struct CudaCode {
  std::string text;
  std::vector<CudaStep> steps;           // none: nothing to compute
  std::vector<CudaPointer> pointers;
  /// The parameter of every step, passed by value: pointers, workspace, fault, numbers. Places of pointers are zero.
  std::vector<std::byte> arguments;
  std::int64_t workspace_bytes = 0;      // scratch memory, aligned to 256 bytes; its content does not matter
  bool needs_alignment = false;          // for pointers that are no multiples of 16, ask again with Alignment::by_element

  std::size_t workspace_place() const { return 8 * pointers.size(); }
  /// Of a pointer to three i64, zero before the run. An index out of range makes them 1, the index, the extent.
  std::size_t fault_place() const { return workspace_place() + 8; }
};

/// Nothing where the kernel is declined, with the reason in `why_declined`. Whether it is follows from the kernel alone.
std::optional<CudaCode> make_code(const Kernel& kernel, const Schedule& schedule, const BoundGeometry& geometry, const DeviceFacts& device,
                                  Alignment alignment = Alignment::by_16, std::string* why_declined = nullptr);

}  // namespace cuda
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/backend/cuda/source.ipp>
#endif
