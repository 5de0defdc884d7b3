// The x86 back end: machine code for AVX2 and AVX-512 behind the Backend interface. Picks the generator by the kind of
// kernel and says why when it declines. No AsmJit type comes out of this folder.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// The best instruction set of this machine, lowered by SINTER_ISA=avx2, avx512, avx512_bf16 or amx. Nothing when the
/// machine lacks AVX2, FMA or BMI2. Throws UserError when SINTER_ISA names something unknown, or something that the
/// machine lacks.
std::optional<Isa> detect_isa();
/// What is chosen for products of bf16: the fastest of this machine, or what SINTER_ISA says, refused as above. Intel's
/// AVX512-BF16 is slower than products of f32, and is chosen only where SINTER_ISA asks for it.
ProductUnit detect_product_unit();
/// Whether this machine and its system have `unit`, whatever SINTER_ISA says.
bool host_has(ProductUnit unit);

class X86Backend final : public Backend {
 public:
  /// Without an instruction set it declines every kernel. Below AVX-512 `unit` is ProductUnit::fma whatever is given.
  explicit X86Backend(std::optional<Isa> isa, ProductUnit unit = ProductUnit::fma)
      : isa_(isa), unit_(isa == Isa::avx512 ? unit : ProductUnit::fma) {}

  std::string_view name() const override { return "x86"; }
  std::string cache_key() const override;
  Limits limits() const override;
  bool divides_launches() const override { return true; }
  std::vector<Schedule> schedules(const Kernel& kernel) const override;
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined = nullptr) override;
  Intrinsic intrinsic(const Graph& graph, const Node& node, MatmulPrecision precision) const override;
  std::optional<Isa> isa() const { return isa_; }
  ProductUnit product_unit() const { return unit_; }

 private:
  std::optional<Isa> isa_;
  ProductUnit unit_;
};

}  // namespace x86

/// The x86 back end for this machine.
std::unique_ptr<Backend> make_x86_backend();

SINTER_NAMESPACE_END
