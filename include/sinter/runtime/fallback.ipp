// What a launch touches, and the copies.
#pragma once

#include <sinter/runtime/fallback.hpp>

#include <sinter/base/index.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// The elements of an operand that a kernel may touch: from `first` to before `end`, from the operand's base.
struct ElementRange {
  std::int64_t first = 0, end = 0;
  void include(const BoundGeometry::AccessNumbers& access, const BoundGeometry& geometry, int rank) {
    std::int64_t low = access.offset, high = access.offset;
    const auto stretch = [&](std::int64_t extent, std::int64_t stride) {
      (stride < 0 ? low : high) += (extent - 1) * stride;
    };
    for (int axis = 0; axis < rank; ++axis) stretch(geometry.extent[as_index(axis)], access.stride[as_index(axis)]);
    if (access.gather_extent > 0) stretch(access.gather_extent, access.gather_stride);
    first = first == end ? low : std::min(first, low);
    end = std::max(end, high + 1);
  }
};

/// Memory of one operand that may be touched.
struct TouchedMemory {
  std::int64_t first = 0;  // bytes from the operand's base
  std::size_t bytes = 0;
  bool is_written = false;
};

/// Waits, copies what a launch of the host may touch there, runs it, and copies back what it writes.
class OnCopies final : public Launch {
 public:
  OnCopies(std::vector<TouchedMemory> touched, std::unique_ptr<Launch> launch, const StepContext& step, Device device)
      : memory_(device_memory(device, step.name)),
        device_(device),
        host_operands_(step.host_operands),
        launch_(std::move(launch)),
        touched_(std::move(touched)),
        places_(touched_.size()) {
    for (const TouchedMemory& operand : touched_) buffers_.emplace_back(operand.bytes + 64);
  }

  void run(void* const* operands) override {
    for (std::size_t i = 0; i < touched_.size(); ++i) {
      places_[i] = operands[i];
      if (is_here(i)) continue;
      places_[i] = buffers_[i].data() - touched_[i].first;
      // What is written is copied, too: there may be gaps.
      memory_.copy(buffers_[i].data(), Device::cpu(), static_cast<char*>(operands[i]) + touched_[i].first, device_,
                   touched_[i].bytes);
    }
    launch_->run(places_.data());
    for (std::size_t i = 0; i < touched_.size(); ++i)
      if (touched_[i].is_written && !is_here(i))
        memory_.copy(static_cast<char*>(operands[i]) + touched_[i].first, device_, buffers_[i].data(), Device::cpu(),
                     touched_[i].bytes);
  }
  void prepare() override { launch_->prepare(); }

 private:
  bool is_here(std::size_t operand) const { return host_operands_.has(operand); }

  DeviceMemory& memory_;
  Device device_;
  OperandSet host_operands_;
  std::unique_ptr<Launch> launch_;
  std::vector<TouchedMemory> touched_;
  std::vector<std::vector<char>> buffers_;
  std::vector<void*> places_;
};

inline TouchedMemory touched_by(const ElementRange& range, DType dtype, bool is_written) {
  return {range.first * size_of(dtype), as_index((range.end - range.first) * size_of(dtype)), is_written};
}

}  // namespace runtime_detail

SINTER_DECL std::unique_ptr<Launch> bind_host_kernel(const Kernel& kernel, const BoundGeometry& geometry,
                                                     const Executable& executable, const StepContext& step,
                                                     Device device) {
  using namespace runtime_detail;
  bool is_empty = false;  // a reduced axis without elements: nothing is read
  BoundGeometry touched = geometry;
  for (int axis = 0; axis < kernel.rank(); ++axis) {
    std::int64_t& extent = touched.extent[as_index(axis)];
    is_empty |= extent == 0;
    extent = std::max<std::int64_t>(extent, 1);
  }
  std::vector<ElementRange> ranges(kernel.operands.size());
  for (std::size_t a = 0; a < kernel.accesses.size(); ++a) {
    const std::uint16_t operand = kernel.accesses[a].operand;
    if (!is_empty || kernel.operands[operand].written)
      ranges[operand].include(geometry.accesses[a], touched, kernel.rank());
  }
  std::vector<TouchedMemory> memory;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    memory.push_back(touched_by(ranges[i], kernel.operands[i].dtype, kernel.operands[i].written));
  return std::make_unique<OnCopies>(std::move(memory), executable.bind(geometry), step, device);
}

SINTER_NAMESPACE_END
