// The interpreter of loop nests as a back end, so that whatever runs kernels can run nests: each variant that applies
// is run, and all of them must leave the same bits.
#pragma once

#include <sinter/kernel/loop_nest/builder.hpp>
#include <sinter/kernel/loop_nest/interpreter.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sinter_test {
using namespace sinter;

/// Instructions for a vector, roughly: functions are worth keeping.
inline int plain_cost(Prim prim) {
  return prim >= Prim::rsqrt && prim <= Prim::pow ? 20 : prim == Prim::immediate ? 0 : 1;
}

inline Machine plain_machine(int vector_bytes = 64) {
  return {.vector_bytes = vector_bytes, .has_masks = vector_bytes == 64, .cost = plain_cost};
}

/// Must two right back ends give the same bits? Not where functions are computed within a few units of the last place.
inline bool is_exactly_rounded(const Kernel& kernel) {
  const auto is_exact = [](const std::vector<Inst>& body) {
    return std::none_of(body.begin(), body.end(),
                        [](const Inst& inst) { return inst.prim >= Prim::rsqrt && inst.prim <= Prim::pow; });
  };
  return is_exact(kernel.body) && std::all_of(kernel.folds.begin(), kernel.folds.end(), [&](const ScalarFold& fold) {
           return is_exact(fold.step.body) && is_exact(fold.merge.body) && is_exact(fold.finish.body);
         });
}

inline std::optional<LoopNest> nest_of(const Kernel& kernel, const Machine& machine = plain_machine(),
                                       const Schedule& schedule = {}) {
  std::string why;
  return build_nest(kernel, schedule, machine, IndexWidth::narrow_if_possible, why);
}

class NestLaunch final : public Launch {
 public:
  NestLaunch(const LoopNest& nest, const BoundGeometry& geometry, InterpretMode mode)
      : nest_(nest), geometry_(geometry), mode_(mode) {}

  void run(void* const* operands) override {
    const std::span all(operands, kernel().operands.size());
    const auto before = written(operands);
    interpret(nest_, VariantKind::whole, geometry_, all, mode_);
    const auto after = written(operands);
    for (const VariantKind kind : {VariantKind::short_rows, VariantKind::split, VariantKind::packed}) {
      if (!applies(nest_, kind, geometry_)) continue;
      restore(operands, before);
      interpret(nest_, kind, geometry_, all, mode_);
      if (written(operands) != after) throw std::logic_error("variants differ:\n" + text(nest_));
    }
  }

 private:
  const Kernel& kernel() const { return *nest_.kernel; }
  /// The bytes of an operand that its accesses reach, from the first to the last.
  std::pair<std::byte*, std::size_t> reach(void* const* operands, std::size_t operand) const {
    std::int64_t first = 0, last = -1;
    for (std::size_t i = 0; i < kernel().accesses.size(); ++i) {
      if (kernel().accesses[i].operand != operand) continue;
      std::int64_t low = geometry_.accesses[i].offset, high = low;
      for (int a = 0; a < kernel().rank(); ++a) {
        const std::int64_t extent = geometry_.extent[static_cast<std::size_t>(a)];
        if (extent == 0 && !kernel().is_reduced(a)) return {nullptr, 0};
        const std::int64_t span = stride_of(kernel(), geometry_, i, a) * std::max<std::int64_t>(extent - 1, 0);
        (span < 0 ? low : high) += span;
      }
      first = last < first ? low : std::min(first, low);
      last = std::max(last, high);
    }
    const std::int64_t size = size_of(kernel().operands[operand].dtype);
    return {static_cast<std::byte*>(operands[operand]) + first * size,
            static_cast<std::size_t>((last - first + 1) * size)};
  }
  std::vector<std::byte> written(void* const* operands) const {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i < kernel().operands.size(); ++i) {
      if (!kernel().operands[i].written) continue;
      const auto [from, count] = reach(operands, i);
      bytes.insert(bytes.end(), from, from + count);
    }
    return bytes;
  }
  void restore(void* const* operands, const std::vector<std::byte>& bytes) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i < kernel().operands.size(); ++i) {
      if (!kernel().operands[i].written) continue;
      const auto [to, count] = reach(operands, i);
      if (count != 0) std::memcpy(to, bytes.data() + at, count);
      at += count;
    }
  }

  const LoopNest& nest_;
  BoundGeometry geometry_;
  InterpretMode mode_;
};

class NestExecutable final : public Executable {
 public:
  NestExecutable(const Kernel& kernel, const Machine& machine, const Schedule& schedule, InterpretMode mode)
      : kernel_(kernel), nest_(nest_of(kernel_, machine, schedule)), mode_(mode) {
    verify(*nest_);
  }
  NestExecutable(const NestExecutable&) = delete;
  NestExecutable& operator=(const NestExecutable&) = delete;
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return std::make_unique<NestLaunch>(*nest_, geometry, mode_);
  }
  std::string listing() const override { return text(*nest_); }

 private:
  Kernel kernel_;
  std::optional<LoopNest> nest_;  // refers to kernel_
  InterpretMode mode_;
};

class NestBackend final : public Backend {
 public:
  explicit NestBackend(InterpretMode mode, Machine machine = plain_machine(), Schedule schedule = {})
      : mode_(mode), machine_(machine), schedule_(schedule) {}
  std::string_view name() const override { return "nest"; }
  std::string cache_key() const override {
    return std::string("nest-") + (mode_ == InterpretMode::exact ? "exact-" : "wide-") +
           std::to_string(machine_.vector_bytes);
  }
  Limits limits() const override { return {}; }
  std::vector<Schedule> schedules(const Kernel&) const override { return {schedule_}; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined) override {
    std::string why;
    if (build_nest(kernel, schedule, machine_, IndexWidth::wide, why))
      return std::make_shared<NestExecutable>(kernel, machine_, schedule, mode_);
    if (why_declined != nullptr) *why_declined = why;
    return nullptr;
  }

 private:
  InterpretMode mode_;
  Machine machine_;
  Schedule schedule_;
};

}  // namespace sinter_test
