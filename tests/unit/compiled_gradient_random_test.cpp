// Random programs that read values: loss and gradients of the compiled function, path by path, against lazy code.
#include "compiled_gradient_cases.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

using namespace sinter;
using namespace sinter_test::gradient_cases;

namespace {

/// A program of a seed. Where it reads a value, the lazy one reads a number, the traced one a Predicate.
struct Program {
  unsigned seed = 0;
  bool is_traced = false;
  Variable a, b;

  Tensor pointwise(unsigned kind, const Tensor& t, const Tensor& o) const {
    switch (kind) {
      case 0: return tanh(t * a);
      case 1: return t + exp(o * 0.1);
      case 2: return t * sigmoid(o);
      case 3: return where(t > o, t * 2, o);
      case 4: return gelu(t) + a;
      case 5: return t * item(mean(abs(o)));
      case 6: return jit::detach(o) * t;
      case 7: return t * (rand({4, 4}) > 0.5) + o * 0.1;
      default: {
        jit::NoGradGuard no_grad;
        return t * 0.5;
      }
    }
  }
  Tensor structured(unsigned kind, const Tensor& t, const Tensor& o) const {
    switch (kind) {
      case 0: return matmul(t, b);
      case 1: return softmax(t, 1);
      case 2: return layer_norm(t, {4}, a(0, all) + 1, b(0, all));
      case 3: return t - mean(t, 1, keepdim);
      case 4: return t / (1 + amax(abs(o)));
      case 5: return cumsum(t, 0) * 0.3;
      case 6: return concat({topk(t, 3).values, t(all, slice(0, 1))}, 1);
      case 7: return transpose(matmul(transpose(t, 0, 1), o), 0, 1) * 0.2;
      case 8: return sort(t, 1).values;
      case 9: return logsumexp(t, 1, keepdim) * o;
      case 10: return jit::fori_loop(0, 2, [&](Scalar, Tensor s) { return Tensor(tanh(s * a)); }, t);
      case 11: return jit::region([](Tensor x, const Variable& w) { return Tensor(sin(x * w) + x); })(t, a);
      default: return jit::cond(sum(abs(o)) > 4, [&] { return Tensor(t * a); }, [&] { return Tensor(t - o); });
    }
  }
  bool is_large(const Tensor& q) const {
    if (is_traced) return static_cast<bool>(item(sum(abs(q))) > 6);
    return item<float>(sum(abs(q))) > 6;
  }
  Tensor operator()(const Tensor& x) const {
    std::mt19937 random(seed);
    const auto any = [&](std::size_t count) { return static_cast<unsigned>(random() % count); };
    std::vector<Tensor> values{x, x * a, matmul(x, b)};
    for (int i = 0; i < 9; ++i) {
      const Tensor t = values[any(values.size())], o = values[any(values.size())];
      values.push_back(any(2) == 0 ? pointwise(any(9), t, o) : structured(any(13), t, o));
      if (any(3) != 0) continue;
      const Tensor q = values[any(values.size())];
      values.push_back(is_large(q) ? Tensor(q * 0.7) : Tensor(q - a));
    }
    Tensor loss = sum(values.back() * a);
    for (std::size_t i = values.size() - 3; i < values.size(); ++i) loss = loss + mean(square(values[i]));
    return loss;
  }
};

struct Found {
  double loss = 0, scale = 1;
  std::vector<double> gradients;
};
template <class F>
Found run(const F& f, const Program& p, const Tensor& x, unsigned seed) {
  manual_seed(seed);
  p.a.zero_grad();
  p.b.zero_grad();
  Tensor loss = f(x);
  loss.backward();
  Found found{item<double>(loss), 1, doubles(p.a.grad())};
  const auto more = doubles(p.b.grad());
  found.gradients.insert(found.gradients.end(), more.begin(), more.end());
  for (double g : found.gradients) found.scale = std::max(found.scale, std::abs(g));
  return found;
}

}  // namespace

TEST_CASE("gradient paths: random programs agree with lazy code") {
  std::int64_t segments = 0;
  for (unsigned seed = 1; seed <= 80; ++seed) {
    INFO("seed " << seed);
    const int shift = static_cast<int>(seed);
    Program lazy{seed, false, Variable(spread({4, 4}, shift) * 0.7, "a"),
                 Variable(spread({4, 4}, shift + 5) * 0.6, "b")};
    lazy.a.requires_grad();
    lazy.b.requires_grad();
    Program traced = lazy;
    traced.is_traced = true;
    auto f = jit::compile(traced, {.dynamic = seed % 2 == 0 ? jit::Dynamic::always : jit::Dynamic::automatic});
    for (int i = 0; i < 4; ++i) {
      const Tensor x = spread({4, 4}, i % 2 == 0 ? 8 + shift : 3) * (i % 2 == 0 ? 0.8 : 0.2);
      const unsigned draw = seed + 100 * static_cast<unsigned>(i);
      const Found expected = run(lazy, lazy, x, draw), found = run(f, lazy, x, draw);
      REQUIRE(expected.scale < 1e6);
      CHECK(found.loss == Approx(expected.loss).epsilon(1e-5).margin(1e-5));
      double worst = 0;
      for (std::size_t k = 0; k < found.gradients.size(); ++k)
        worst = std::max(worst, std::abs(found.gradients[k] - expected.gradients[k]) / expected.scale);
      CHECK(worst < 1e-5);
    }
    CHECK(f.stats().eager_calls == 0);
    segments += f.stats().segments;
  }
  CHECK(segments > 300);
}
