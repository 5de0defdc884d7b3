// Two devices for tests on machines that have none: they take the places of cuda:0 and cuda:1. Their addresses are not
// those of the host, so that whoever mistakes one for the other crashes; its work waits in a queue until somebody waits
// for it, so that whoever reads too early reads what was there before; what was freed is overwritten. Kernels are those
// of the reference back end.
#pragma once

#include <sinter/backend/reference/reference.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/runtime/host_ops.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace sinter_test {

class FakeMemory final : public sinter::DeviceMemory {
 public:
  static constexpr int devices = 2;
  int waits = 0, copies_from_host = 0, groups = 0, copies_across = 0;  // counted; across: from one device to the other
  int launches = 0,
      queued_groups = 0;  // of kernels or in their place; of groups by queues of iterations, each of several
  int marks = 0;          // of queues, that are not handed back

  static void* there(void* host, int index = 0) {
    return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) | far << index);
  }
  static void* here(const void* device) {
    const auto address = reinterpret_cast<std::uintptr_t>(device);
    if ((address & (far | far << 1)) == 0) throw sinter::InternalError("fake device: an address of the host");
    return reinterpret_cast<void*>(address & ~(far | far << 1));
  }
  /// For work on device `index`: memory of the other is out of its reach.
  static void* here(const void* device, int index) {
    if ((reinterpret_cast<std::uintptr_t>(device) & far << index) == 0)
      throw sinter::InternalError("fake device: an address of another device");
    return here(device);
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
    if (device.index >= devices) throw sinter::DeviceError(op, "device " + device.text() + " is not there", where);
  }
  sinter::DeviceBlock allocate(std::size_t bytes, sinter::Device device) override {
    void* block = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    std::memset(block, 0xA5, bytes);
    blocks_.insert(block);
    return {there(block, device.index), reinterpret_cast<void*>(bytes)};
  }
  void free(sinter::DeviceBlock block, sinter::Device) noexcept override {
    enqueue([this, block] {
      std::memset(here(block.data), 0x5A, reinterpret_cast<std::size_t>(block.block));
      blocks_.erase(here(block.data));
      std::free(here(block.data));
    });
  }
  void copy(void* to, sinter::Device to_device, const void* from, sinter::Device from_device,
            std::size_t bytes) override {
    if (bytes == 0) return;
    if (to_device == sinter::Device::cpu()) {
      flush();
      std::memcpy(to, here(from, from_device.index), bytes);
    } else if (from_device == sinter::Device::cpu()) {
      ++copies_from_host;
      std::vector<char> staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
      void* const target = here(to, to_device.index);
      enqueue([target, staged = std::move(staged)] { std::memcpy(target, staged.data(), staged.size()); });
    } else {
      copies_across += from_device != to_device;
      enqueue([target = here(to, to_device.index), source = here(from, from_device.index), bytes] {
        std::memcpy(target, source, bytes);
      });
    }
  }
  void synchronise(sinter::Device) override { flush(); }
  void drain(sinter::Device) noexcept override { flush(); }
  std::uint64_t current_queue(sinter::Device) override { return 1; }
  void* native_queue(sinter::Device) override { return this; }
  void run_after(sinter::Device, std::uint64_t) override {}
  void* mark_queue(sinter::Device) noexcept override {
    auto* mark = new std::int64_t(-1);
    ++marks;
    enqueue([mark] { *mark = sinter::timeline_now(); });
    return mark;
  }
  std::int64_t time_of_mark(sinter::Device, void* place, sinter::Waits waits) noexcept override {
    if (waits == sinter::Waits::yes) flush();
    auto* mark = static_cast<std::int64_t*>(place);
    const std::int64_t time = *mark;
    if (time == -1) return time;
    delete mark;
    --marks;
    return time;
  }
  sinter::MemoryStats stats(sinter::Device) override { return {}; }
  void set_limit(sinter::Device, std::int64_t) override {}
  void reset_peak(sinter::Device) override {}
  void release_cached(sinter::Device) override {}

 private:
  static constexpr std::uintptr_t far = std::uintptr_t{1} << 60;
  std::deque<std::function<void()>> queue_;
  std::set<void*> blocks_;  // of idle frames, too: a leak checker sees no pointer in an address that is not the host's
};

/// What the fake back end's launches are to each other.
class FakeStep : public sinter::Launch {
 public:
  virtual std::size_t operand_count() const = 0;
  /// Bytes of an operand on the host; 0: it is on the device.
  virtual std::size_t host_bytes(std::size_t operand) const = 0;
};

/// A launch of the reference back end, enqueued.
class FakeLaunch final : public FakeStep {
 public:
  FakeLaunch(FakeMemory& memory, std::unique_ptr<sinter::Launch> launch, std::vector<std::size_t> bytes,
             std::uint64_t host_operands, int index = 0, const void* code = nullptr)
      : memory_(memory),
        launch_(std::move(launch)),
        bytes_(std::move(bytes)),
        host_operands_(host_operands),
        index_(index),
        code_(code) {}
  std::size_t operand_count() const override { return bytes_.size(); }
  std::size_t host_bytes(std::size_t operand) const override {
    return (host_operands_ >> operand & 1) != 0 ? bytes_[operand] : 0;
  }
  const void* code() const { return code_; }
  void run(void* const* operands) override {
    ++memory_.launches;
    std::vector<void*> places;
    std::vector<std::array<std::int64_t, 2>> numbers(bytes_.size());  // each with room for a complex one
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const bool is_number = (host_operands_ >> i & 1) != 0;
      places.push_back(is_number || operands[i] == nullptr ? nullptr : FakeMemory::here(operands[i], index_));
      if (is_number) std::memcpy(&numbers[i], operands[i], bytes_[i]);  // now: the host may change it
    }
    memory_.enqueue([launch = launch_, places, numbers, host_operands = host_operands_]() mutable {
      for (std::size_t i = 0; i < places.size(); ++i)
        if ((host_operands >> i & 1) != 0) places[i] = &numbers[i];
      launch->run(places.data());
    });
  }

 private:
  FakeMemory& memory_;
  std::shared_ptr<sinter::Launch> launch_;  // may be gone before its work is done
  std::vector<std::size_t> bytes_;
  std::uint64_t host_operands_;
  int index_;
  const void* code_;  // the same for launches of one kernel
};

/// Launches of one kernel as one, the last first.
class FakeMerged final : public FakeStep {
 public:
  FakeMerged(FakeMemory& memory, std::vector<FakeLaunch*> members) : memory_(memory), members_(std::move(members)) {}
  std::size_t operand_count() const override {
    std::size_t count = 0;
    for (const FakeLaunch* member : members_) count += member->operand_count();
    return count;
  }
  std::size_t host_bytes(std::size_t operand) const override {
    for (const FakeLaunch* member : members_) {
      if (operand < member->operand_count()) return member->host_bytes(operand);
      operand -= member->operand_count();
    }
    return 0;
  }
  void run(void* const* operands) override {
    operands += operand_count();
    for (auto member = members_.rbegin(); member != members_.rend(); ++member) {
      operands -= (*member)->operand_count();
      (*member)->run(operands);
    }
    memory_.launches -= static_cast<int>(members_.size()) - 1;
  }

 private:
  FakeMemory& memory_;
  std::vector<FakeLaunch*> members_;
};

/// The launches in any order that the group allows.
class FakeGroup final : public sinter::LaunchGroup {
 public:
  FakeGroup(FakeMemory& memory, std::vector<sinter::GroupedLaunch> launches)
      : memory_(memory), launches_(std::move(launches)) {}
  std::span<const sinter::GroupedLaunch> launches() const { return launches_; }
  void run(std::span<void* const* const> operands) override {
    ++memory_.groups;
    std::vector<std::uint8_t> is_done(launches_.size());
    for (std::size_t count = 0; count < launches_.size(); ++count) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < launches_.size(); ++i) {
        bool is_ready = is_done[i] == 0;
        for (std::uint32_t earlier : launches_[i].after) is_ready &= is_done[earlier] != 0;
        if (is_ready) ready.push_back(i);
      }
      const std::size_t next = ready.at(random_() % ready.size());
      if (operands[next] != nullptr) launches_[next].launch->run(operands[next]);
      is_done[next] = 1;
    }
  }

 private:
  FakeMemory& memory_;
  std::vector<sinter::GroupedLaunch> launches_;
  std::minstd_rand random_{7};
};

/// Runs of groups, four at a time, whose operands are of the time when they were added.
class FakeIterations final : public sinter::IterationQueue {
 public:
  explicit FakeIterations(FakeMemory& memory) : memory_(memory) {}
  void begin() override { waiting_.clear(); }
  void add(sinter::LaunchGroup& group, std::span<void* const* const> operands) override {
    auto run = std::make_unique<Run>();
    run->group = static_cast<FakeGroup*>(&group);
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto& step = dynamic_cast<const FakeStep&>(*run->group->launches()[i].launch);
      auto& places = run->places.emplace_back();
      if (operands[i] == nullptr) continue;
      for (std::size_t o = 0; o < step.operand_count(); ++o) {
        places.push_back(operands[i][o]);
        if (const std::size_t bytes = step.host_bytes(o); bytes > 0) {
          run->numbers.push_back(std::make_unique<std::array<std::int64_t, 2>>());
          std::memcpy(run->numbers.back().get(), operands[i][o], bytes);
          places.back() = run->numbers.back().get();
        }
      }
    }
    waiting_.push_back(std::move(run));
    if (waiting_.size() == 4) flush();
  }
  void flush() override {
    if (waiting_.empty()) return;
    const int before = memory_.groups;
    for (const auto& run : waiting_) {
      std::vector<void* const*> operands;
      for (const auto& places : run->places) operands.push_back(places.empty() ? nullptr : places.data());
      run->group->run(operands);
    }
    memory_.groups = before + 1;
    ++memory_.queued_groups;
    waiting_.clear();
  }
  void abandon() noexcept override { waiting_.clear(); }

 private:
  struct Run {
    FakeGroup* group = nullptr;
    std::vector<std::vector<void*>> places;
    std::vector<std::unique_ptr<std::array<std::int64_t, 2>>> numbers;
  };
  FakeMemory& memory_;
  std::vector<std::unique_ptr<Run>> waiting_;
};

class FakeBackend final : public sinter::Backend {
 public:
  explicit FakeBackend(FakeMemory& memory, int index = 0)
      : memory_(memory), index_(index), reference_(sinter::make_reference_backend()) {}
  /// Kernels that it does not take, by what it says of them; empty: it takes all.
  std::function<std::string(const sinter::Kernel&)> declines;
  /// The choices that it says it has; the kernels are the same.
  std::vector<sinter::Schedule> own_schedules{sinter::Schedule{}};
  std::vector<sinter::Schedule> schedules(const sinter::Kernel&) const override { return own_schedules; }
  sinter::Limits own_limits = sinter::make_reference_backend()->limits();

  std::string_view name() const override { return "fake"; }
  std::string cache_key() const override { return device().text() + " fake"; }
  sinter::Limits limits() const override { return own_limits; }
  sinter::Device device() const override { return sinter::Device::cuda(index_); }
  std::shared_ptr<const sinter::Executable> compile(const sinter::Kernel& kernel, const sinter::Schedule& schedule,
                                                    std::string* why) override {
    const std::string reason = declines ? declines(kernel) : "";
    if (why != nullptr) *why = reason;
    if (!reason.empty()) return nullptr;
    return std::make_shared<const Compiled>(
        memory_, index_, kernel, reference_->compile(kernel, own_schedules.size() > 1 ? sinter::Schedule{} : schedule));
  }
  /// Sees operations between kernels before the host computes them.
  std::function<void(const sinter::BoundOp&)> sees_op;
  std::unique_ptr<sinter::Launch> bind_op(const sinter::BoundOp& op, const sinter::StepContext&) override {
    if (sees_op) sees_op(op);
    return nullptr;
  }
  bool can_group(const sinter::Launch& launch) const override {
    return dynamic_cast<const FakeStep*>(&launch) != nullptr;
  }
  std::unique_ptr<sinter::LaunchGroup> group(std::vector<sinter::GroupedLaunch> launches) override {
    return std::make_unique<FakeGroup>(memory_, std::move(launches));
  }
  bool merges_launches() const override { return true; }
  std::vector<sinter::MergedLaunch> merge(std::span<sinter::Launch* const> launches) override {
    std::vector<sinter::MergedLaunch> merged;
    std::set<std::size_t> done;
    for (std::size_t i = 0; i < launches.size(); ++i) {
      auto* const first = dynamic_cast<FakeLaunch*>(launches[i]);
      if (first == nullptr || done.count(i) != 0) continue;
      std::vector<FakeLaunch*> members;
      std::vector<std::uint32_t> numbers;
      for (std::size_t j = i; j < launches.size(); ++j) {
        auto* const other = dynamic_cast<FakeLaunch*>(launches[j]);
        if (other == nullptr || other->code() != first->code()) continue;
        members.push_back(other);
        numbers.push_back(static_cast<std::uint32_t>(j));
        done.insert(j);
      }
      if (members.size() < 2) continue;
      merged.push_back({std::make_unique<FakeMerged>(memory_, std::move(members)), std::move(numbers)});
    }
    return merged;
  }
  std::unique_ptr<sinter::IterationQueue> iterations() override { return std::make_unique<FakeIterations>(memory_); }

 private:
  class Compiled final : public sinter::Executable {
   public:
    Compiled(FakeMemory& memory, int index, const sinter::Kernel& kernel,
             std::shared_ptr<const sinter::Executable> executable)
        : memory_(memory), index_(index), executable_(std::move(executable)) {
      for (const sinter::Operand& operand : kernel.operands)
        bytes_.push_back(static_cast<std::size_t>(size_of(operand.dtype)));
      for (const sinter::Access& access : kernel.accesses) operands_.push_back(access.operand);
    }
    std::unique_ptr<sinter::Launch> bind(const sinter::BoundGeometry& geometry) const override {
      return bind(geometry, {});
    }
    std::unique_ptr<sinter::Launch> bind(const sinter::BoundGeometry& geometry,
                                         const sinter::StepContext& step) const override {
      std::vector<std::size_t> bytes = bytes_;
      for (std::size_t i = 0; i < operands_.size(); ++i)  // of a complex number both parts
        if (step.host_operands.has(operands_[i]) && geometry.accesses[i].offset == 1)
          bytes[operands_[i]] = 2 * bytes_[operands_[i]];
      return std::make_unique<FakeLaunch>(memory_, executable_->bind(geometry), std::move(bytes),
                                          step.host_operands.of_kernel(), index_, executable_.get());
    }

   private:
    FakeMemory& memory_;
    int index_;
    std::shared_ptr<const sinter::Executable> executable_;
    std::vector<std::size_t> bytes_;
    std::vector<std::size_t> operands_;  // of each access
  };

  FakeMemory& memory_;
  int index_;
  std::unique_ptr<sinter::Backend> reference_;
};

struct FakeDevices {
  FakeMemory memory;
  FakeBackend first{memory, 0}, second{memory, 1};
};
/// Makes cuda:0 and cuda:1 the fake devices, for the rest of the process.
inline FakeDevices& fake_devices() {
  static FakeDevices* all = [] {
    auto* made = new FakeDevices;
    sinter::Backend* const backends[] = {&made->first, &made->second};
    sinter::jit::jit_detail::set_fake_device(sinter::DeviceKind::cuda, made->memory, backends);
    return made;
  }();
  return *all;
}
inline FakeMemory& fake_device() { return fake_devices().memory; }

}  // namespace sinter_test
