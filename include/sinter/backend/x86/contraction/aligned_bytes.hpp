// Memory for packed panels and unfinished sums: bytes that begin on a cache line.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <new>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// Memory on a cache line, freed with its owner.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t bytes) { reserve(bytes); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  ~AlignedBytes() { release(); }
  std::byte* data() const { return data_; }
  /// At least `bytes`; what was there is lost when it grows.
  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    release();
    data_ = static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
    size_ = bytes;
  }

 private:
  void release() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{64});
    data_ = nullptr;
    size_ = 0;
  }
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
