// A pointwise kernel behind a launch whose one result only it reads: launches that make their result part by part can
// run it on each part while that is in the cache, and need not store the result. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstdint>
#include <memory>

SINTER_NAMESPACE_BEGIN

struct FollowingKernel {
  const Kernel& kernel;
  const BoundGeometry& geometry;
  std::uint16_t result;  // the operand that is the launch's result, which is not written
};

/// A launch that may take in the kernel that follows it. Its operands end with its one result.
class FollowableLaunch : public Launch {
 public:
  /// In the place of both, with their bits. Its operands are those of this launch, then those of the kernel; in the
  /// place of the result nothing is read or written. The kernel writes nothing that this launch reads. Null: they stay
  /// apart.
  virtual std::unique_ptr<Launch> followed_by(const FollowingKernel& next) const = 0;
  TypeKey type() const final { return type_key<FollowableLaunch>(); }
};

/// Null: it is none.
inline FollowableLaunch* as_followable(Launch& launch) {
  return launch.type() == type_key<FollowableLaunch>() ? static_cast<FollowableLaunch*>(&launch) : nullptr;
}

SINTER_NAMESPACE_END
