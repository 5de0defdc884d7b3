// Choice of instruction set and generator.
#pragma once

#include <sinter/backend/x86/backend.hpp>

#include <sinter/backend/x86/attention/attention.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/contraction/quantized.hpp>
#include <sinter/backend/x86/convolution/convolution.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/backend/x86/scatter/scatter.hpp>
#include <sinter/base/error.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>

#include <asmjit/x86.h>

#include <cstdlib>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_backend_detail {

/// What CPUID and the operating system allow.
inline std::optional<Isa> best_isa() {
  const auto& features = asmjit::CpuInfo::host().features().x86();
  if (!features.hasAVX2() || !features.hasFMA() || !features.hasBMI2()) return std::nullopt;
  const bool has_avx512 =
      features.hasAVX512_F() && features.hasAVX512_DQ() && features.hasAVX512_BW() && features.hasAVX512_VL();
  return has_avx512 ? Isa::avx512 : Isa::avx2;
}

}  // namespace x86_backend_detail

SINTER_DECL std::optional<Isa> detect_isa() {
  const std::optional<Isa> best = x86_backend_detail::best_isa();
  const char* text = std::getenv("SINTER_ISA");
  if (text == nullptr || *text == '\0') return best;
  const std::string_view wanted = text;
  if (wanted != "avx2" && wanted != "avx512")
    throw UserError("SINTER_ISA", "unknown instruction set \"" + std::string(wanted) + "\"", {},
                    "use avx2 or avx512, or unset SINTER_ISA");
  if (wanted == "avx512" && best != Isa::avx512)
    throw UserError("SINTER_ISA", "this processor lacks AVX-512 (F, DQ, BW and VL)", {},
                    "use avx2, or unset SINTER_ISA");
  return best && wanted == "avx2" ? Isa::avx2 : best;
}

SINTER_DECL std::string X86Backend::cache_key() const {
  if (!isa_) return "x86-none";
  return *isa_ == Isa::avx512 ? "x86-avx512" : "x86-avx2";
}

SINTER_DECL Limits X86Backend::limits() const {
  return {.product_dtypes = {DType::f32, DType::f64}, .max_operands = 24, .max_accesses = max_accesses};
}

SINTER_DECL std::vector<Schedule> X86Backend::schedules(const Kernel& kernel) const {
  if (!isa_) return {Schedule{}};
  return kernel.kind == KernelKind::contraction ? contraction_schedules(*isa_)
                                                : nest_schedules(kernel, machine_of(*isa_));
}

SINTER_DECL std::shared_ptr<const Executable> X86Backend::compile(const Kernel& kernel, const Schedule& schedule,
                                                                  std::string* why_declined) {
  if (!isa_) {
    if (why_declined != nullptr) *why_declined = "x86: this processor lacks AVX2, FMA or BMI2";
    return nullptr;
  }
  if (kernel.kind == KernelKind::scatter) return make_scatter_executable(kernel, schedule, *isa_, why_declined);
  return kernel.kind == KernelKind::contraction ? make_contraction_executable(kernel, schedule, *isa_, why_declined)
                                                : make_loop_executable(kernel, schedule, *isa_, why_declined);
}

SINTER_DECL Intrinsic X86Backend::intrinsic(const Graph& graph, const Node& node) const {
  if (!isa_) return nullptr;
  if (const Intrinsic attention = attention_intrinsic(graph, node, *isa_)) return attention;
  if (const Intrinsic product = quantized_intrinsic(graph, node, *isa_)) return product;
  return convolution_intrinsic(graph, node, *isa_);
}

}  // namespace x86

SINTER_DECL std::unique_ptr<Backend> make_x86_backend() { return std::make_unique<x86::X86Backend>(x86::detect_isa()); }

SINTER_NAMESPACE_END
