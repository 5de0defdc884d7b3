// The kernel's axes are taken apart and joined to the three of the results.
#pragma once

#include <sinter/backend/x86/convolution/following.hpp>

#include <sinter/backend/x86/nest/loop.ipp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/builder.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_convolution_detail {

/// Walks the axes of a kernel from the innermost element on, in steps that need not be whole axes.
class AxisWalk {
 public:
  AxisWalk(const Kernel& kernel, const BoundGeometry& geometry)
      : geometry_(geometry), axis_(kernel.rank() - 1), left_(geometry.extent[as_index(axis_)]) {}

  /// The strides of all accesses along the next `count` elements. False where one of them has no such stride.
  bool take(std::int64_t count, std::vector<std::int64_t>& strides) {
    strides.assign(geometry_.accesses.size(), 0);
    for (std::int64_t taken = 1; taken < count;) {
      while (left_ == 1) {
        if (axis_ == 0) return false;
        left_ = geometry_.extent[as_index(--axis_)];
        inside_ = 1;
      }
      const std::int64_t wanted = count / taken, step = left_ % wanted == 0 ? wanted : left_;
      if (wanted % step != 0) return false;
      for (std::size_t i = 0; i < strides.size(); ++i) {
        const std::int64_t stride = geometry_.accesses[i].stride[as_index(axis_)] * inside_;
        if (taken == 1) strides[i] = stride;
        else if (stride != strides[i] * taken) return false;
      }
      taken *= step;
      left_ /= step;
      inside_ *= step;
    }
    return true;
  }
  bool is_at_end() const {
    const auto* const begin = geometry_.extent.data();
    return left_ == 1 && std::all_of(begin, begin + axis_, [](std::int64_t extent) { return extent == 1; });
  }

 private:
  const BoundGeometry& geometry_;
  int axis_;
  std::int64_t left_, inside_ = 1;  // of the axis: what is still to be taken, and what has been
};

/// The body knows no place but by its accesses.
inline bool follows_anywhere(const Kernel& kernel) {
  if (kernel.kind != KernelKind::pointwise) return false;
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::index || inst.prim == Prim::gather || inst.prim == Prim::guarded_load ||
        inst.prim == Prim::random_bits || inst.prim == Prim::fold)
      return false;
  return std::all_of(kernel.stores.begin(), kernel.stores.end(),
                     [](const Store& store) { return store.index == no_inst; });
}

SINTER_DECL std::optional<Following> Following::find(const FollowingKernel& next, const ResultExtents& extents) {
  const Kernel& kernel = next.kernel;
  const std::int64_t last = next.geometry.extent[as_index(kernel.rank() - 1)];
  if (!follows_anywhere(kernel) || extents.positions <= 1 || last <= 1) return std::nullopt;
  if (kernel.accesses.size() + 2 > as_index(max_accesses)) return std::nullopt;  // of a product
  if (kernel.operands[next.result].dtype != extents.dtype || kernel.operands[next.result].written) return std::nullopt;
  AxisWalk walk(kernel, next.geometry);
  std::vector<std::int64_t> position, channel, image;
  if (!walk.take(extents.positions, position) || !walk.take(extents.channels, channel) ||
      !walk.take(extents.images, image) || !walk.is_at_end())
    return std::nullopt;
  Following found;
  found.kernel_ = kernel;
  found.extents_ = extents;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    const FollowingAccess access{next.geometry.accesses[i].offset, image[i], channel[i], position[i],
                                 kernel.accesses[i].operand == next.result};
    const bool is_row_major = access.offset == 0 && access.position == 1 &&
                              (extents.channels == 1 || access.channel == extents.positions) &&
                              (extents.images == 1 || access.image == extents.positions * extents.channels);
    if (access.is_result && !is_row_major) return std::nullopt;
    found.accesses_.push_back(access);
  }
  return found;
}

/// Code for the kernels that followed last.
inline std::shared_ptr<const LoopCode> following_code(const Kernel& kernel, Isa isa) {
  struct Known {
    Kernel kernel;
    Isa isa;
    std::shared_ptr<const LoopCode> code;
  };
  struct Cache {
    ForkSafeMutex mutex;
    std::vector<Known> known;
  };
  constexpr std::size_t most_known = 64;
  Cache& cache = process_object([] { return new Cache; });
  const std::lock_guard lock(cache.mutex);
  const auto found = std::find_if(cache.known.begin(), cache.known.end(),
                                  [&](const Known& each) { return each.isa == isa && each.kernel == kernel; });
  if (found != cache.known.end()) return found->code;
  if (cache.known.size() == most_known) cache.known.erase(cache.known.begin());
  cache.known.push_back({kernel, isa, compile_loop(kernel, {}, isa)});
  return cache.known.back().code;
}

SINTER_DECL std::shared_ptr<const FollowingLoop> FollowingLoop::make(const Following& following, Isa isa) {
  const Kernel& kernel = following.kernel();
  auto loop = std::make_shared<FollowingLoop>();
  loop->code_ = following_code(kernel, isa);
  loop->positions_ = following.extents().positions;
  if (loop->code_ == nullptr || loop->code_->scratch_bytes(loop->positions_) != 0) return nullptr;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    const FollowingAccess& access = following.accesses()[i];
    const std::uint16_t operand = kernel.accesses[i].operand;
    const std::int64_t size = size_of(kernel.operands[operand].dtype);
    loop->places_.push_back({operand, access.is_result, access.offset * size, access.image * size,
                             access.channel * size, access.position * size});
  }
  return loop;
}

SINTER_DECL FollowingRun::FollowingRun(const FollowingLoop& loop, void* const* operands)
    : loop_(loop), operands_(operands) {
  args_.status = &status_;
  for (std::size_t i = 0; i < loop.places_.size(); ++i) {
    args_.pointer[i].column_stride = loop.places_[i].position;
    args_.pointer[i].outer_stride = loop.places_[i].channel;
  }
}

SINTER_DECL void FollowingRun::operator()(const ChannelsOfImage& done) {
  args_.columns = done.some < 0 ? loop_.positions_ : done.some;
  for (std::size_t i = 0; i < loop_.places_.size(); ++i) {
    const FollowingLoop::Place& place = loop_.places_[i];
    LoopArgs::Pointer& pointer = args_.pointer[i];
    if (place.is_result) {
      pointer.base = static_cast<char*>(const_cast<void*>(done.sums));
      pointer.outer_stride = done.channel_bytes;
      continue;
    }
    pointer.base = static_cast<char*>(operands_[place.operand]) + place.offset + done.image * place.image +
                   done.first * place.channel + done.position * place.position;
  }
  loop_.code_->function()(&args_, 0, done.count);
}

/// Of an access of the epilogue along an axis that is not the last one.
inline StrideClass class_of(std::int64_t stride) { return stride == 0 ? StrideClass::zero : StrideClass::any; }

SINTER_DECL FollowedProduct::FollowedProduct(const Kernel& product, const BoundGeometry& numbers,
                                             const Following& following)
    : kernel(product), geometry(numbers) {
  constexpr std::size_t image = 0, group = 1, output = 2, position = 3;
  const Kernel& next = following.kernel();
  const InstId sum = kernel.stores[0].value;
  const std::int64_t outputs = geometry.extent[output];
  kernel.operands.resize(2);
  kernel.accesses.resize(2);
  kernel.stores.clear();
  geometry.accesses.resize(2);
  kernel.operands.insert(kernel.operands.end(), next.operands.begin(), next.operands.end());
  std::vector<std::uint16_t> access_of(next.accesses.size());
  for (std::size_t i = 0; i < next.accesses.size(); ++i) {
    const FollowingAccess& access = following.accesses()[i];
    if (access.is_result) continue;
    access_of[i] = static_cast<std::uint16_t>(kernel.accesses.size());
    Access& made = kernel.accesses.emplace_back();
    made.operand = static_cast<std::uint16_t>(next.accesses[i].operand + 2);
    made.stride[image] = class_of(access.image);
    made.stride[group] = made.stride[output] = class_of(access.channel);
    made.stride[position] = next.accesses[i].stride[as_index(next.rank() - 1)];
    auto& moves = geometry.accesses.emplace_back();
    moves.offset = access.offset;
    moves.stride[image] = access.image;
    moves.stride[group] = access.channel * outputs;
    moves.stride[output] = access.channel;
    moves.stride[position] = access.position;
  }
  std::vector<InstId> made_of(next.body.size(), no_inst);
  for (std::size_t i = 0; i < next.body.size(); ++i) {
    Inst inst = next.body[i];
    if (inst.prim == Prim::load && following.accesses()[inst.access].is_result) {
      made_of[i] = sum;
      continue;
    }
    if (inst.prim == Prim::load) inst.access = access_of[inst.access];
    for (int k = 0; k < arity(inst.prim); ++k) inst.args[as_index(k)] = made_of[inst.args[as_index(k)]];
    made_of[i] = static_cast<InstId>(kernel.body.size());
    kernel.body.push_back(inst);
  }
  for (const Store& store : next.stores)
    kernel.stores.push_back({.access = access_of[store.access], .value = made_of[store.value]});
}

}  // namespace x86_convolution_detail
}  // namespace x86
SINTER_NAMESPACE_END
