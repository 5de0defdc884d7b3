// Choice of instruction set and generator.
#pragma once

#include <sinter/backend/x86/backend.hpp>

#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/error.hpp>

#include <asmjit/x86.h>

#include <algorithm>
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

inline constexpr std::size_t kept_generated = 16;  // between schedules() and compile()

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
  return {.max_operands = 24, .max_accesses = max_accesses, .max_body = 256, .max_reduced_axes = 2, .random = true};
}

SINTER_DECL Schedule X86Backend::default_schedule() const {
  return {.vector_bits = static_cast<std::uint16_t>(*isa_ == Isa::avx512 ? 512 : 256)};
}

SINTER_DECL std::shared_ptr<const Executable> X86Backend::generate(const Kernel& kernel, const Schedule& schedule,
                                                                   std::string* why_declined) const {
  return kernel.kind == KernelKind::contraction ? make_contraction_executable(kernel, schedule, *isa_, why_declined)
                                                : make_loop_executable(kernel, schedule, *isa_, why_declined);
}

SINTER_DECL std::vector<Schedule> X86Backend::schedules(const Kernel& kernel, std::string* why_declined) const {
  if (!isa_) {
    if (why_declined != nullptr) *why_declined = "x86: this processor lacks AVX2, FMA or BMI2";
    return {};
  }
  std::vector<Schedule> choices{default_schedule()};
  std::shared_ptr<const Executable> executable = generate(kernel, choices[0], why_declined);
  if (executable == nullptr) return {};
  if (kernel.kind == KernelKind::contraction)  // other register tiles, for tuning
    for (auto [rows, vectors] : {std::pair{14, 2}, {6, 4}, {3, 8}})
      if (*isa_ == Isa::avx512 || vectors == 2)
        choices.push_back({.vector_bits = choices[0].vector_bits,
                           .tile_m = static_cast<std::uint16_t>(rows),
                           .tile_n = static_cast<std::uint16_t>(vectors * choices[0].vector_bits / 32)});
  std::lock_guard lock(mutex_);
  if (generated_.size() >= x86_backend_detail::kept_generated) generated_.erase(generated_.begin());
  generated_.push_back({kernel, choices[0], std::move(executable)});
  return choices;
}

SINTER_DECL std::shared_ptr<const Executable> X86Backend::compile(const Kernel& kernel, const Schedule& schedule) {
  {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(generated_.begin(), generated_.end(),
                              [&](const Generated& g) { return g.schedule == schedule && g.kernel == kernel; });
    if (found != generated_.end()) {
      std::shared_ptr<const Executable> executable = std::move(found->executable);
      generated_.erase(found);
      return executable;
    }
  }
  ensure(isa_.has_value(), "x86: compile without an instruction set");
  std::string why;
  std::shared_ptr<const Executable> executable = generate(kernel, schedule, &why);
  if (executable == nullptr) throw InternalError("compile of a declined kernel: " + why);
  return executable;
}

}  // namespace x86

SINTER_DECL std::unique_ptr<Backend> make_x86_backend() { return std::make_unique<x86::X86Backend>(x86::detect_isa()); }

SINTER_NAMESPACE_END
