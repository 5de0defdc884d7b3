// Operands of a kernel against inaccessible pages, so that generated code, which no sanitizer sees, stops at a read or
// write past their ends.
#pragma once

#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/guarded_memory.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

namespace sinter_test {

using sinter::tensor_detail::GuardPages;

/// Memory between two inaccessible pages, the data against one of them.
class GuardedBuffer {
 public:
  GuardedBuffer(std::size_t bytes, GuardPages guards)
      : bytes_(bytes), guards_(guards), data_(sinter::tensor_detail::guarded_block(bytes, guards)) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  GuardedBuffer(GuardedBuffer&& other) noexcept
      : bytes_(other.bytes_), guards_(other.guards_), data_(std::exchange(other.data_, nullptr)) {}
  ~GuardedBuffer() {
    if (data_ != nullptr) sinter::tensor_detail::free_guarded_block(data_, bytes_, guards_);
  }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  GuardPages guards_;
  void* data_;
};

/// Elements [0, count) that the accesses of an operand reach; strides are not negative.
inline std::int64_t elements_reached(const sinter::Kernel& kernel, const sinter::BoundGeometry& geometry,
                                     std::size_t operand) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    if (kernel.accesses[i].operand != operand) continue;
    std::int64_t highest = geometry.accesses[i].offset;
    for (std::size_t a = 0; a < kernel.axes.size(); ++a)
      highest += geometry.accesses[i].stride[a] * std::max<std::int64_t>(geometry.extent[a] - 1, 0);
    count = std::max(count, highest + 1);
  }
  return count;
}

/// Copies of operands between inaccessible pages.
class GuardedOperands {
 public:
  explicit GuardedOperands(GuardPages guards) : guards_(guards) {}
  template <class T>
  void add(std::span<T> values) {
    copies_.emplace_back(values.size_bytes(), guards_);
    originals_.push_back(std::as_writable_bytes(values));
  }
  /// On copies of the operands as they are now; what it wrote is in the originals afterwards.
  void run(sinter::Launch& launch) const {
    std::vector<void*> operands;
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      operands.push_back(copies_[i].data());
      if (!originals_[i].empty()) std::memcpy(operands[i], originals_[i].data(), originals_[i].size());
    }
    launch.run(operands.data());
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (!originals_[i].empty()) std::memcpy(originals_[i].data(), copies_[i].data(), originals_[i].size());
  }

 private:
  GuardPages guards_;
  std::vector<GuardedBuffer> copies_;
  std::vector<std::span<std::byte>> originals_;
};

/// Runs a kernel whose operands are these; each has room for all that its accesses reach, and maybe more.
template <class T>
void run_guarded(sinter::Launch& launch, const sinter::Kernel& kernel, const sinter::BoundGeometry& geometry,
                 std::vector<std::vector<T>>& operands, GuardPages guards) {
  GuardedOperands memory(guards);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto reached = static_cast<std::size_t>(elements_reached(kernel, geometry, i));
    memory.add(std::span(operands[i]).first(std::min(reached, operands[i].size())));
  }
  memory.run(launch);
}

}  // namespace sinter_test
