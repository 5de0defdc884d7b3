// What follows a convolution: a pointwise kernel, seen over [image, channel, position]. It runs as a loop over some
// channels of an image that have just been computed, or becomes the epilogue of the product that computes them.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/following_kernel.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Results, row-major. `channels` are those of all groups.
struct ResultExtents {
  std::int64_t images = 1, channels = 1, positions = 1;
  DType dtype = DType::f32;
};

/// How an access of the kernel moves along each axis of the results, elements.
struct FollowingAccess {
  std::int64_t offset = 0, image = 0, channel = 0, position = 0;
  bool is_result = false;
};

/// The kernel with the extents of a result.
class Following {
 public:
  /// Nothing where it does not go through the result element by element, in the result's order.
  static std::optional<Following> find(const FollowingKernel& next, const ResultExtents& extents);

  const Kernel& kernel() const { return kernel_; }
  const ResultExtents& extents() const { return extents_; }
  const std::vector<FollowingAccess>& accesses() const { return accesses_; }

 private:
  Kernel kernel_;
  ResultExtents extents_;
  std::vector<FollowingAccess> accesses_;
};

/// Channels of an image of which all positions are computed, or some successive ones.
struct ChannelsOfImage {
  std::int64_t image, first, count;
  const void* sums;
  std::int64_t channel_bytes;            // from one channel's sums to the next one's
  std::int64_t position = 0, some = -1;  // those computed, from there on; -1: all
};

/// As code, which any number of threads run at once.
class FollowingLoop {
 public:
  /// Null where there is no code for it.
  static std::shared_ptr<const FollowingLoop> make(const Following& following, Isa isa);
  double nanoseconds_per_element() const { return code_->nanoseconds_per_element(); }

 private:
  friend class FollowingRun;
  struct Place {
    std::uint16_t operand = 0;
    bool is_result = false;
    std::int64_t offset = 0, image = 0, channel = 0, position = 0;  // bytes
  };
  std::shared_ptr<const LoopCode> code_;
  std::vector<Place> places_;
  std::int64_t positions_ = 0;
};
/// One thread's.
class FollowingRun {
 public:
  /// `operands` are the kernel's.
  FollowingRun(const FollowingLoop& loop, void* const* operands);
  void operator()(const ChannelsOfImage& done);

 private:
  const FollowingLoop& loop_;
  void* const* operands_;
  LoopArgs args_;
  LoopArgs::Status status_;
};

/// A product over [image, group, output, position, k] that stores its sums and nothing else, with the kernel as its
/// epilogue. Operands are the weight, the image, and those of the kernel.
struct FollowedProduct {
  FollowedProduct(const Kernel& product, const BoundGeometry& numbers, const Following& following);
  Kernel kernel;
  BoundGeometry geometry;
};

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
