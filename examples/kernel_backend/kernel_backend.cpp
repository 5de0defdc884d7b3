// A kernel back end of one's own. It takes pointwise kernels of f32 made of a few primitives, and computes them point
// by point; fusion cuts kernels by its limits, and what it does not take the reference back end computes.
#include <sinter/graphs.hpp>

#include <array>
#include <cmath>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

/// A kernel at given extents and strides.
class CalculatorLaunch final : public Launch {
 public:
  CalculatorLaunch(const Kernel& kernel, const BoundGeometry& geometry)
      : kernel_(kernel), geometry_(geometry), values_(kernel.body.size()) {}

  void run(void* const* operands) override {
    std::array<std::int64_t, max_axes> index{};
    for (int axis = 0; axis >= 0;) {  // every point of the axes, the last one fastest
      compute_point(operands, index);
      for (axis = kernel_.rank() - 1; axis >= 0; --axis) {
        const auto a = static_cast<std::size_t>(axis);
        if (++index[a] < geometry_.extent[a]) break;
        index[a] = 0;
      }
    }
  }

 private:
  void compute_point(void* const* operands, const std::array<std::int64_t, max_axes>& index) {
    const auto element = [&](std::uint16_t access) {
      const BoundGeometry::AccessNumbers& numbers = geometry_.accesses[access];
      std::int64_t at = numbers.offset;
      for (std::size_t a = 0; a < index.size(); ++a) at += index[a] * numbers.stride[a];
      return static_cast<float*>(operands[kernel_.accesses[access].operand]) + at;
    };
    for (std::size_t i = 0; i < kernel_.body.size(); ++i) {
      const Inst& inst = kernel_.body[i];
      const auto x = [&](std::size_t argument) { return values_[inst.args[argument]]; };
      switch (inst.prim) {
        case Prim::load: values_[i] = *element(inst.access); break;
        case Prim::immediate: values_[i] = static_cast<float>(inst.number()); break;
        case Prim::neg: values_[i] = -x(0); break;
        case Prim::add: values_[i] = x(0) + x(1); break;
        case Prim::sub: values_[i] = x(0) - x(1); break;
        case Prim::mul: values_[i] = x(0) * x(1); break;
        case Prim::div: values_[i] = x(0) / x(1); break;
        case Prim::fma: values_[i] = std::fma(x(0), x(1), x(2)); break;
        case Prim::tanh: values_[i] = std::tanh(x(0)); break;
        default: throw InternalError("calculator: a primitive beyond its limits");
      }
    }
    for (const Store& store : kernel_.stores) *element(store.access) = values_[store.value];
  }

  Kernel kernel_;
  BoundGeometry geometry_;
  std::vector<float> values_;  // of the instructions, at one point
};

/// A kernel for all sizes: shared by threads, so it does not change.
class CalculatorExecutable final : public Executable {
 public:
  explicit CalculatorExecutable(const Kernel& kernel) : kernel_(kernel) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return std::make_unique<CalculatorLaunch>(kernel_, geometry);
  }
  std::string listing() const override { return kernel_.text(); }

 private:
  Kernel kernel_;
};

class Calculator final : public Backend {
 public:
  std::string_view name() const override { return "calculator"; }
  std::string cache_key() const override { return "version 1"; }
  Limits limits() const override {
    return {.kinds = {KernelKind::pointwise},
            .primitives = {Prim::neg, Prim::add, Prim::sub, Prim::mul, Prim::div, Prim::fma, Prim::tanh},
            .dtypes = {DType::f32}};
  }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule&, std::string*) override {
    return std::make_shared<const CalculatorExecutable>(kernel);
  }
};

}  // namespace

int main() {
  jit::register_kernel_backend(std::make_unique<Calculator>());
  auto layer = [](Tensor x, Tensor w, Tensor b) {
    Tensor h = tanh(matmul(x, w) + b);
    return h / sqrt(sum(h * h, 1, keepdim)) * 2;
  };
  auto on_calculator = jit::compile(layer, {.backend = "calculator"}), built_in = jit::compile(layer);

  Tensor x = reshape(arange(24), {4, 6}).to(DType::f32) / 24, w = cos(reshape(arange(18), {6, 3}).to(DType::f32)),
         b = zeros({3});
  std::cout << "largest difference below 1e-5: " << std::boolalpha
            << (item<float>(amax(abs(on_calculator(x, w, b) - built_in(x, w, b)))) < 1e-5f) << "\n";

  std::istringstream plan(on_calculator.explain(x, w, b).text());
  for (std::string line; std::getline(plan, line);)
    if (line.starts_with("  step ")) std::cout << line.substr(2, line.find(" from ") - 2) << "\n";
}
