// Fuzzing of symbolic extents: random functions of tensors whose sizes change from call to call, marked or found out,
// with gradients, compiled once and compared with the same functions run outside compile(), where every size is a
// number.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"

#include <sinter/sinter.hpp>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using Tensors = std::vector<Tensor>;

enum class Op : std::uint8_t {
  tanh,
  sin,
  cos,
  sigmoid,
  add,
  mul,
  sub,
  softmax,
  centre,
  spread_sum,
  gram,
  roll_flat,
  shift_rows,
  shift_columns,
  ramp,
  put,
  reverse,
  norm,
  transposed,
  maximum,
  spread_max,  // the last: no derivative where two values are equal
  count
};
constexpr const char* op_names[] = {"tanh",       "sin",           "cos",       "sigmoid",    "add",     "mul",
                                    "sub",        "softmax",       "centre",    "spread_sum", "gram",    "roll_flat",
                                    "shift_rows", "shift_columns", "ramp",      "put",        "reverse", "norm",
                                    "transposed", "maximum",       "spread_max"};

struct Step {
  Op op = Op::tanh;
  std::size_t a = 0, b = 0;
  int axis = 0;
};

/// A function of x and y, both (n, m), and v, (m): each step makes another (n, m) with values of a few units.
struct Program {
  std::vector<Step> steps;

  Tensors operator()(const Tensor& x, const Tensor& y, const Tensor& v) const {
    Tensors values{x, y};
    for (const Step& step : steps) values.push_back(apply(step, values[step.a], values[step.b], v));
    return {values.back(), mean(values[values.size() / 2], 1)};
  }

  static Tensor apply(const Step& step, const Tensor& a, const Tensor& b, const Tensor& v) {
    const Dim n = a.size(0), m = a.size(1);
    switch (step.op) {
      case Op::tanh: return tanh(a);
      case Op::sin: return sin(a);
      case Op::cos: return cos(a);
      case Op::sigmoid: return sigmoid(a);
      case Op::add: return tanh(a + b);
      case Op::mul: return tanh(a * b + v);
      case Op::sub: return (a - b) * 0.5;
      case Op::softmax: return softmax(a, step.axis) + b;
      case Op::centre: return a - mean(a, step.axis, keepdim);
      case Op::spread_sum: return tanh(expand(sum(a, step.axis, keepdim), {n, m}));
      case Op::gram: return tanh(matmul(a, tanh(matmul(transpose(a, 0, 1), b))));
      case Op::roll_flat: return reshape(roll(flatten(a), 3, 0), {n, m});
      case Op::shift_rows: return concat({a, b}, 0)(slice(n / 2, n / 2 + n));
      case Op::shift_columns: return concat({a, b}, 1)(all, slice(m, m * 2));
      case Op::ramp: return tanh(a + unsqueeze(cast(arange(n), DType::f64), 1) * 0.125);
      case Op::put: {
        Tensor u = a;
        u.at(slice(0, n / 2)) = b(slice(n - n / 2, n));
        return u;
      }
      case Op::reverse: return take(a, n - 1 - arange(n), 0);
      case Op::norm: return tanh(layer_norm(a, {m}, v, v));
      case Op::transposed: return transpose(cos(transpose(a, 0, 1)) + transpose(b, 0, 1), 0, 1);
      case Op::maximum: return maximum(a, b);
      case Op::spread_max: return amax(a, step.axis, keepdim) - b;
      case Op::count: break;
    }
    throw std::logic_error("no such operation");
  }

  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < steps.size(); ++i)
      out += "  " + std::to_string(i + 2) + " = " + op_names[static_cast<int>(steps[i].op)] + "(" +
             std::to_string(steps[i].a) + ", " + std::to_string(steps[i].b) + ", axis " +
             std::to_string(steps[i].axis) + ")\n";
    return out;
  }
};

class SizeFuzzer {
 public:
  explicit SizeFuzzer(std::uint64_t seed) : random_(seed) {
    has_gradient_ = draw(3) == 0;
    const int steps = 2 + draw(has_gradient_ ? 8 : 14), ops = static_cast<int>(has_gradient_ ? Op::maximum : Op::count);
    for (int i = 0; i < steps; ++i) {
      const auto recent = [&] { return static_cast<std::size_t>(std::max(0, i + 1 - draw(4))); };
      Step step;
      step.op = static_cast<Op>(draw(ops));
      step.a = recent();
      step.b = recent();
      step.axis = draw(2);
      program_.steps.push_back(step);
    }
  }

  void run() {
    jit::Options options;
    options.dynamic = draw(3) == 0 ? jit::Dynamic::always : jit::Dynamic::automatic;
    const Program& program = program_;
    if (!has_gradient_) return call(program, jit::compile(program, options));
    const auto with_gradient = [program](Tensor x, Tensor y, Tensor v) {
      const auto loss = [&program](Tensor x, Tensor y, Tensor v) {
        const Tensors results = program(x, y, v);
        return Tensor(mean(results[0]) + mean(results[1]));
      };
      auto [value, gradients] = jit::value_and_grad<0, 2>(loss)(x, y, v);
      return Tensors{value, std::get<0>(gradients), std::get<1>(gradients)};
    };
    call(with_gradient, jit::compile(with_gradient, options));
  }

  std::string text() const { return history_ + "\n" + program_.text() + (has_gradient_ ? "  and its gradient\n" : ""); }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  std::int64_t extent() {
    constexpr std::int64_t extents[] = {2, 3, 5, 8, 16, 17, 33, 70};
    return draw(12) == 0 ? 1 : extents[draw(std::size(extents))];
  }
  Tensor values(std::vector<std::int64_t> extents) {
    oracle::Array array = oracle::Array::zeros(DType::f64, std::move(extents));
    for (auto& x : array.data) x = std::uniform_real_distribution<double>(-2, 2)(random_);
    return Tensor(to_value(array));
  }

  template <class F, class Compiled>
  void call(const F& function, const Compiled& compiled) {
    const bool has_marks = draw(2) == 0, has_one_width = draw(2) == 0;
    const std::int64_t width = 1 + extent();
    std::string sizes;
    for (int call = 0; call < 6; ++call) {
      const std::int64_t n = extent(), m = has_one_width ? width : extent();
      Tensor x = values({n, m}), y = values({n, m}), v = values({m});
      if (has_marks && n > 1) {
        jit::mark_dynamic(x, 0);
        jit::mark_dynamic(y, 0);
      }
      sizes += " " + std::to_string(n) + "x" + std::to_string(m);
      history_ = "sizes" + sizes + (has_marks ? ", marked" : "");
      const Tensors found = compiled(x, y, v), wanted = function(x, y, v);
      for (std::size_t j = 0; j < wanted.size(); ++j) {
        eval(wanted[j]);
        if (const std::string text = difference(to_array(*found[j].impl()), to_array(*wanted[j].impl()), 1e-8);
            !text.empty())
          throw std::runtime_error("output " + std::to_string(j) + ": " + text);
      }
    }
  }

  std::mt19937_64 random_;
  Program program_;
  bool has_gradient_ = false;
  std::string history_;
};

}  // namespace

TEST_CASE("random functions agree whatever the sizes") {
  const std::uint64_t functions = fuzz_loop(1, [](std::uint64_t seed) {
    SizeFuzzer fuzzer(seed);
    try {
      fuzzer.run();
    } catch (const std::exception& error) { FAIL("seed " << seed << ": " << error.what() << "\n" << fuzzer.text()); }
  });
  std::printf("%d functions agree\n", static_cast<int>(functions));
  CHECK(functions > 0);
}
