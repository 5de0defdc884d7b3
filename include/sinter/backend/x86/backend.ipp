// Choice of instruction set and generator.
#pragma once

#include <sinter/backend/x86/backend.hpp>

#include <sinter/backend/x86/attention/attention.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/integer.hpp>
#include <sinter/backend/x86/contraction/narrow.hpp>
#include <sinter/backend/x86/contraction/narrow_tile.hpp>
#include <sinter/backend/x86/contraction/quantized.hpp>
#include <sinter/backend/x86/convolution/convolution.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/backend/x86/scatter/scatter.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>

#include <asmjit/x86.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_backend_detail {

/// What SINTER_ISA names, the lowest first; each has all before it.
enum class Level : std::uint8_t { none, avx2, avx512, avx512_bf16, amx };
struct LevelRow {
  std::string_view name, meaning;
};
inline constexpr LevelRow level_rows[] = {{"", ""},
                                          {"avx2", "AVX2, FMA, BMI2 and F16C"},
                                          {"avx512", "AVX-512 (F, DQ, BW and VL)"},
                                          {"avx512_bf16", "AVX512-BF16"},
                                          {"amx", "AMX-BF16, or its system gives no tiles"}};

/// What CPUID and the operating system allow.
inline Level best_level() {
  const auto& features = asmjit::CpuInfo::host().features().x86();
  if (!features.hasAVX2() || !features.hasFMA() || !features.hasBMI2() || !features.hasF16C()) return Level::none;
  if (!features.hasAVX512_F() || !features.hasAVX512_DQ() || !features.hasAVX512_BW() || !features.hasAVX512_VL())
    return Level::avx2;
  if (!features.hasAVX512_BF16()) return Level::avx512;
  return features.hasAMX_TILE() && features.hasAMX_BF16() && offers_tiles() ? Level::amx : Level::avx512_bf16;
}

/// The fastest. Intel's processors begin one vdpbf16ps in two cycles, against two vfmadd in each: half the products.
inline Level default_level(Level best) {
  return best == Level::avx512_bf16 && std::string_view(asmjit::CpuInfo::host().vendor()) == "INTEL" ? Level::avx512
                                                                                                     : best;
}

/// What SINTER_ISA says, or the fastest.
inline Level wanted_level(Level best) {
  const char* text = std::getenv("SINTER_ISA");
  if (text == nullptr || *text == '\0') return default_level(best);
  for (std::size_t i = 1; i < std::size(level_rows); ++i) {
    if (text != level_rows[i].name) continue;
    const auto wanted = static_cast<Level>(i);
    // Without AVX2 nothing is generated at all.
    if (wanted <= best || (wanted == Level::avx2 && best == Level::none)) return wanted;
    const auto first_lacking = static_cast<std::size_t>(best) + 1;
    throw UserError("SINTER_ISA", "this processor lacks " + std::string(level_rows[first_lacking].meaning), {},
                    best == Level::none ? std::string("unset SINTER_ISA")
                                        : "use " + std::string(level_rows[static_cast<std::size_t>(best)].name) +
                                              ", or unset SINTER_ISA");
  }
  throw UserError("SINTER_ISA", "unknown instruction set \"" + std::string(text) + "\"", {},
                  "use avx2, avx512, avx512_bf16 or amx, or unset SINTER_ISA");
}

/// A launch by fewer threads than there are. In a group (launch_group.hpp) the group's threads run it.
class LimitedLaunch final : public Launch {
 public:
  LimitedLaunch(std::unique_ptr<Launch> inner, int threads) : inner_(std::move(inner)), threads_(threads) {}
  void run(void* const* operands) override {
    const Limit limit(threads_);
    inner_->run(operands);
  }
  void prepare() override { inner_->prepare(); }
  LaunchWork work() override { return inner_->work(); }
  void begin_tasks(void* const* operands) override { inner_->begin_tasks(operands); }
  void run_tasks(std::int64_t begin, std::int64_t end) override { inner_->run_tasks(begin, end); }
  void end_tasks() override { inner_->end_tasks(); }

 private:
  struct Limit {
    explicit Limit(int threads) : before(base_detail::thread_limit()) {
      if (before == 0 || threads < before) base_detail::thread_limit() = threads;
    }
    ~Limit() { base_detail::thread_limit() = before; }
    Limit(const Limit&) = delete;
    Limit& operator=(const Limit&) = delete;
    int before;
  };
  std::unique_ptr<Launch> inner_;
  int threads_;
};

class LimitedExecutable final : public Executable {
 public:
  LimitedExecutable(std::shared_ptr<const Executable> inner, int threads)
      : inner_(std::move(inner)), threads_(threads) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override { return limited(inner_->bind(geometry)); }
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry, const StepContext& step) const override {
    return limited(inner_->bind(geometry, step));
  }
  std::size_t code_bytes() const override { return inner_->code_bytes(); }
  std::string listing() const override { return inner_->listing(); }

 private:
  /// The extents may be larger than those that this number of threads was measured to be best for: what would give each
  /// of them far more than serial_nanoseconds has all threads.
  std::unique_ptr<Launch> limited(std::unique_ptr<Launch> launch) const {
    if (launch->work().nanoseconds / threads_ > 4 * serial_nanoseconds) return launch;
    return std::make_unique<LimitedLaunch>(std::move(launch), threads_);
  }
  std::shared_ptr<const Executable> inner_;
  int threads_;
};

}  // namespace x86_backend_detail

SINTER_DECL std::optional<Isa> detect_isa() {
  using namespace x86_backend_detail;
  const Level best = best_level(), wanted = wanted_level(best);
  if (best == Level::none) return std::nullopt;
  return wanted == Level::avx2 ? Isa::avx2 : Isa::avx512;
}

SINTER_DECL ProductUnit detect_product_unit() {
  using namespace x86_backend_detail;
  switch (wanted_level(best_level())) {
    case Level::none:
    case Level::avx2:
    case Level::avx512: return ProductUnit::fma;
    case Level::avx512_bf16: return ProductUnit::avx512_bf16;
    case Level::amx: return ProductUnit::amx;
  }
  return ProductUnit::fma;
}

SINTER_DECL bool host_has(ProductUnit unit) {
  using namespace x86_backend_detail;
  const Level best = best_level();
  return unit == ProductUnit::amx           ? best == Level::amx
         : unit == ProductUnit::avx512_bf16 ? best >= Level::avx512_bf16
                                            : best != Level::none;
}

SINTER_DECL std::string X86Backend::cache_key() const {
  if (!isa_) return "x86-none";
  if (*isa_ == Isa::avx2) return "x86-avx2";
  return unit_ == ProductUnit::amx           ? "x86-avx512-amx"
         : unit_ == ProductUnit::avx512_bf16 ? "x86-avx512-bf16"
                                             : "x86-avx512";
}

SINTER_DECL Limits X86Backend::limits() const {
  Limits limits{.product_dtypes = {DType::f32, DType::f64}, .max_operands = 24, .max_accesses = max_accesses};
  if (unit_ != ProductUnit::fma) limits.narrow_products = {DType::bf16};
  return limits;
}

SINTER_DECL std::vector<Schedule> X86Backend::schedules(const Kernel& kernel) const {
  if (!isa_) return {Schedule{}};
  std::vector<Schedule> schedules{Schedule{}};
  if (kernel.kind != KernelKind::scatter && !is_narrow_product(kernel))
    schedules = nest_schedules(kernel, machine_of(*isa_));
  // One thread, then powers of two; the default has all that this thread's scopes leave.
  const int limit = base_detail::thread_limit(), most = limit > 0 ? std::min(limit, thread_count()) : thread_count();
  for (int threads = 1; threads < most && threads <= 256; threads *= 2)
    schedules.push_back({{.action = ScheduleAction::threads, .number = static_cast<std::uint16_t>(threads)}});
  return schedules;
}

SINTER_DECL std::shared_ptr<const Executable> X86Backend::compile(const Kernel& kernel, const Schedule& schedule,
                                                                  std::string* why_declined) {
  if (!isa_) {
    if (why_declined != nullptr) *why_declined = "x86: this processor lacks AVX2, FMA or BMI2";
    return nullptr;
  }
  if (const auto threads = schedule.find(ScheduleAction::threads)) {
    if (*threads == 0) {
      if (why_declined != nullptr) *why_declined = "x86: step threads(0): at least one thread runs a kernel";
      return nullptr;
    }
    auto made = compile(kernel, schedule.without(ScheduleAction::threads), why_declined);
    if (made == nullptr) return nullptr;
    return std::make_shared<x86_backend_detail::LimitedExecutable>(std::move(made), *threads);
  }
  if (is_narrow_product(kernel)) return make_narrow_executable(kernel, schedule, unit_, why_declined);
  if (kernel.kind == KernelKind::scatter) return make_scatter_executable(kernel, schedule, *isa_, why_declined);
  return kernel.kind == KernelKind::contraction ? make_contraction_executable(kernel, schedule, *isa_, why_declined)
                                                : make_loop_executable(kernel, schedule, *isa_, why_declined);
}

SINTER_DECL Intrinsic X86Backend::intrinsic(const Graph& graph, const Node& node, MatmulPrecision) const {
  if (!isa_) return nullptr;
  if (const Intrinsic attention = attention_intrinsic(graph, node, *isa_)) return attention;
  if (const Intrinsic product = quantized_intrinsic(graph, node, *isa_, unit_)) return product;
  if (const Intrinsic product = integer_intrinsic(graph, node, *isa_, unit_)) return product;
  return convolution_intrinsic(graph, node, *isa_);
}

}  // namespace x86

SINTER_DECL std::unique_ptr<Backend> make_x86_backend() {
  return std::make_unique<x86::X86Backend>(x86::detect_isa(), x86::detect_product_unit());
}

SINTER_NAMESPACE_END
