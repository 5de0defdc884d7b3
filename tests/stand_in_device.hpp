// A device for tests on machines that have none: it takes the place of cuda:0. Its addresses are not those of the host, so
// that whoever mistakes one for the other crashes; its work waits in a queue until somebody waits for it, so that whoever
// reads too early reads what was there before; what was freed is overwritten. Kernels are those of the reference back end.
#pragma once

#include <sinter/backend/reference/reference.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/runtime/host_ops.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace sinter_test {

class StandInMemory final : public sinter::DeviceMemory {
 public:
  int waits = 0, copies_from_host = 0;   // counted

  static void* there(void* host) { return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) | far); }
  static void* here(const void* device) {
    const auto address = reinterpret_cast<std::uintptr_t>(device);
    if ((address & far) == 0) throw sinter::InternalError("stand-in device: an address of the host");
    return reinterpret_cast<void*>(address & ~far);
  }

  void enqueue(std::function<void()> work) { queue_.push_back(std::move(work)); }
  void flush() {
    ++waits;
    while (!queue_.empty()) {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
  }

  void check(sinter::Device device, std::string_view op, sinter::Location where) override {
    if (device.index != 0) throw sinter::DeviceError(op, "device " + device.text() + " is not there", where);
  }
  sinter::DeviceBlock allocate(std::size_t bytes, sinter::Device) override {
    void* block = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    std::memset(block, 0xA5, bytes);
    blocks_.insert(block);
    return {there(block), reinterpret_cast<void*>(bytes)};
  }
  void free(sinter::DeviceBlock block, sinter::Device) noexcept override {
    enqueue([this, block] {
      std::memset(here(block.data), 0x5A, reinterpret_cast<std::size_t>(block.block));
      blocks_.erase(here(block.data));
      std::free(here(block.data));
    });
  }
  void copy(void* to, sinter::Device to_device, const void* from, sinter::Device from_device, std::size_t bytes) override {
    if (bytes == 0) return;
    if (to_device == sinter::Device::cpu()) {
      flush();
      std::memcpy(to, here(from), bytes);
    } else if (from_device == sinter::Device::cpu()) {
      ++copies_from_host;
      std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
      enqueue([to, staged = std::move(staged)] { std::memcpy(here(to), staged.data(), staged.size()); });
    } else {
      enqueue([to, from, bytes] { std::memcpy(here(to), here(from), bytes); });
    }
  }
  void synchronise(sinter::Device) override { flush(); }
  void drain(sinter::Device) noexcept override { flush(); }
  std::uint64_t current_queue(sinter::Device) override { return 1; }
  void* native_queue(sinter::Device) override { return this; }
  void run_after(sinter::Device, std::uint64_t) override {}
  sinter::MemoryStats stats(sinter::Device) override { return {}; }
  void set_limit(sinter::Device, std::int64_t) override {}
  void reset_peak(sinter::Device) override {}
  void release_cached(sinter::Device) override {}

 private:
  static constexpr std::uintptr_t far = std::uintptr_t{1} << 60;
  std::deque<std::function<void()>> queue_;
  std::set<void*> blocks_;   // of idle frames, too: a leak checker sees no pointer in an address that is not the host's
};

/// A launch of the reference back end, enqueued.
class StandInLaunch final : public sinter::Launch {
 public:
  StandInLaunch(StandInMemory& memory, std::unique_ptr<sinter::Launch> launch, std::vector<std::size_t> bytes, std::uint64_t host_operands)
      : memory_(memory), launch_(std::move(launch)), bytes_(std::move(bytes)), host_operands_(host_operands) {}
  void run(void* const* operands) override {
    std::vector<void*> places;
    std::vector<std::int64_t> numbers(bytes_.size());
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool is_number = (host_operands_ >> i & 1) != 0;
      places.push_back(is_number || operands[i] == nullptr ? nullptr : StandInMemory::here(operands[i]));
      if (is_number) std::memcpy(&numbers[i], operands[i], bytes_[i]);   // now: the host may change it
    }
    memory_.enqueue([launch = launch_, places, numbers, host_operands = host_operands_]() mutable {
      for (std::size_t i = 0; i < places.size(); ++i)
        if ((host_operands >> i & 1) != 0) places[i] = &numbers[i];
      launch->run(places.data());
    });
  }

 private:
  StandInMemory& memory_;
  std::shared_ptr<sinter::Launch> launch_;   // may be gone before its work is done
  std::vector<std::size_t> bytes_;
  std::uint64_t host_operands_;
};

class StandInBackend final : public sinter::Backend {
 public:
  explicit StandInBackend(StandInMemory& memory) : memory_(memory), reference_(sinter::make_reference_backend()) {}
  std::string_view name() const override { return "stand-in"; }
  std::string cache_key() const override { return "stand-in"; }
  sinter::Limits limits() const override { return reference_->limits(); }
  sinter::Device device() const override { return sinter::Device::cuda(0); }
  std::vector<sinter::Schedule> schedules(const sinter::Kernel& kernel, std::string* why) const override { return reference_->schedules(kernel, why); }
  std::shared_ptr<const sinter::Executable> compile(const sinter::Kernel& kernel, const sinter::Schedule& schedule) override {
    return std::make_shared<const Compiled>(memory_, kernel, reference_->compile(kernel, schedule));
  }
  std::unique_ptr<sinter::Launch> bind_host_op(const sinter::HostOp& op, std::span<const std::int64_t> symbols, const sinter::StepContext& step) override {
    if (op.run != nullptr) return nullptr;
    const auto size = static_cast<std::size_t>(size_of(op.scatter.dtype));
    return std::make_unique<StandInLaunch>(memory_, sinter::bind_host_op(op, symbols), std::vector<std::size_t>{8, size, size}, step.host_operands);
  }

 private:
  class Compiled final : public sinter::Executable {
   public:
    Compiled(StandInMemory& memory, const sinter::Kernel& kernel, std::shared_ptr<const sinter::Executable> executable) : memory_(memory), executable_(std::move(executable)) {
      for (const sinter::Operand& operand : kernel.operands) bytes_.push_back(static_cast<std::size_t>(size_of(operand.dtype)));
    }
    std::unique_ptr<sinter::Launch> bind(const sinter::BoundGeometry& geometry) const override { return bind(geometry, {}); }
    std::unique_ptr<sinter::Launch> bind(const sinter::BoundGeometry& geometry, const sinter::StepContext& step) const override {
      return std::make_unique<StandInLaunch>(memory_, executable_->bind(geometry), bytes_, step.host_operands);
    }

   private:
    StandInMemory& memory_;
    std::shared_ptr<const sinter::Executable> executable_;
    std::vector<std::size_t> bytes_;
  };

  StandInMemory& memory_;
  std::unique_ptr<sinter::Backend> reference_;
};

/// Makes cuda:0 the stand-in, for the rest of the process.
inline StandInMemory& stand_in_device() {
  static StandInMemory* memory = [] {
    auto* made = new StandInMemory;
    sinter::jit::jit_detail::set_stand_in(sinter::DeviceKind::cuda, *made, *new StandInBackend(*made));
    return made;
  }();
  return *memory;
}

}  // namespace sinter_test
