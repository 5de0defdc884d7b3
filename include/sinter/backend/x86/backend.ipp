// Choice of instruction set and generator.
#pragma once

#include <sinter/backend/x86/backend.hpp>

#include <sinter/backend/x86/attention/attention.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/narrow.hpp>
#include <sinter/backend/x86/contraction/narrow_tile.hpp>
#include <sinter/backend/x86/contraction/integer.hpp>
#include <sinter/backend/x86/contraction/quantized.hpp>
#include <sinter/backend/x86/convolution/convolution.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/backend/x86/scatter/scatter.hpp>
#include <sinter/base/error.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>

#include <asmjit/x86.h>

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
  if (is_narrow_product(kernel)) return {Schedule{}};
  return kernel.kind == KernelKind::contraction ? contraction_schedules(*isa_)
                                                : nest_schedules(kernel, machine_of(*isa_));
}

SINTER_DECL std::shared_ptr<const Executable> X86Backend::compile(const Kernel& kernel, const Schedule& schedule,
                                                                  std::string* why_declined) {
  if (!isa_) {
    if (why_declined != nullptr) *why_declined = "x86: this processor lacks AVX2, FMA or BMI2";
    return nullptr;
  }
  if (is_narrow_product(kernel)) return make_narrow_executable(kernel, schedule, unit_, why_declined);
  if (kernel.kind == KernelKind::scatter) return make_scatter_executable(kernel, schedule, *isa_, why_declined);
  return kernel.kind == KernelKind::contraction ? make_contraction_executable(kernel, schedule, *isa_, why_declined)
                                                : make_loop_executable(kernel, schedule, *isa_, why_declined);
}

SINTER_DECL Intrinsic X86Backend::intrinsic(const Graph& graph, const Node& node) const {
  if (!isa_) return nullptr;
  if (const Intrinsic attention = attention_intrinsic(graph, node, *isa_)) return attention;
  if (const Intrinsic product = quantized_intrinsic(graph, node, *isa_)) return product;
  if (const Intrinsic product = integer_intrinsic(graph, node, *isa_, unit_)) return product;
  return convolution_intrinsic(graph, node, *isa_);
}

}  // namespace x86

SINTER_DECL std::unique_ptr<Backend> make_x86_backend() {
  return std::make_unique<x86::X86Backend>(x86::detect_isa(), x86::detect_product_unit());
}

SINTER_NAMESPACE_END
