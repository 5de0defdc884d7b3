// Kernels for programs without Sinter: their machine code, one behind the other, and for each kernel at fixed extents
// the numbers that a small run-time reads to call it. That run-time is C++11 source (runtime_source.hpp), for one
// thread. Knows Kernels and Geometries; must not know plans or files.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Which function of the run-time takes a kernel: run_loop(), run_product() or run_scatter().
enum class KernelRunner : std::uint8_t { loop, product, scatter };

/// A kernel at fixed extents, as the run-time takes it.
struct ExportedKernel {
  KernelRunner runner = KernelRunner::loop;
  std::vector<std::int64_t> numbers;  // in the order that runtime_source.hpp says
  std::size_t scratch_bytes = 0;
};

class KernelExport {
 public:
  explicit KernelExport(Isa isa) : isa_(isa) {}
  /// Nothing where there is no code for the kernel; `why` then says why. The kernel has something to store.
  Optional<ExportedKernel> add(const Kernel& kernel, const BoundGeometry& geometry, std::string& why);
  /// All that was added. Functions begin at multiples of 64.
  std::span<const std::byte> code() const { return code_; }

 private:
  std::int64_t place(std::span<const std::byte> function);
  Optional<ExportedKernel> add_loop(const Kernel& kernel, const BoundGeometry& geometry, std::string& why);
  Optional<ExportedKernel> add_product(const Kernel& kernel, const BoundGeometry& geometry, std::string& why);
  Optional<ExportedKernel> add_scatter(const Kernel& kernel, const BoundGeometry& geometry, std::string& why);

  Isa isa_;
  std::vector<std::byte> code_;
  std::map<std::vector<std::byte>, std::int64_t> known_;
};

}  // namespace x86
SINTER_NAMESPACE_END
