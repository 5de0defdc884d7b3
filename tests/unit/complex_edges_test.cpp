// Complex numbers where formulas are at their edges: on the axes, near the limits of the range, on the back end of
// plain loops, and under vmap with a condition for each example. Oracles are std::complex<double> and PyTorch's numbers.
#include "../catch.hpp"
#include "../checks.hpp"
#include "complex_numbers.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

using namespace sinter;

TEST_CASE("complex: gradients on the axes are those of the derivative, as PyTorch's") {
  struct Function {
    const char* name;
    Tensor (*function)(Tensor);
    C128 (*derivative)(C128);
    Numbers at;
  };
  const Numbers axes{{4, 0.0}, {4, -0.0}, {-4, 0.0}, {-4, -0.0}, {0, 1}, {0, -1}, {3, -2}};
  const Numbers inside{{0.5, 0.0}, {0, 0.5}, {0, -0.5}, {2, 1}, {2, 0.0}};
  const auto of_root = [](C128 z) { return 0.5 / std::sqrt(z); };
  const auto of_arc_sine = [](C128 z) { return 1.0 / (std::sqrt(1.0 - z) * std::sqrt(1.0 + z)); };
  const Function functions[] = {
      {"sqrt", [](Tensor z) { return Tensor(sqrt(z)); }, of_root, axes},
      {"pow", [](Tensor z) { return Tensor(pow(z, 0.5)); }, of_root, axes},
      {"rsqrt", [](Tensor z) { return Tensor(rsqrt(z)); }, [](C128 z) { return -0.5 / (z * std::sqrt(z)); }, axes},
      {"asin", [](Tensor z) { return Tensor(asin(z)); }, of_arc_sine, inside},
      {"acos", [](Tensor z) { return Tensor(acos(z)); },
       [](C128 z) { return -1.0 / (std::sqrt(1.0 - z) * std::sqrt(1.0 + z)); }, inside},
      {"asinh",
       [](Tensor z) { return Tensor(asinh(z)); },
       [](C128 z) { return 1.0 / std::sqrt(1.0 + z * z); },
       {{0.5, 0.0}, {0, 0.5}, {2, 1}}},
      {"acosh",
       [](Tensor z) { return Tensor(acosh(z)); },
       [](C128 z) { return 1.0 / (std::sqrt(z - 1.0) * std::sqrt(z + 1.0)); },
       {{4, 0.0}, {0, 1}, {0, -1}, {2, 1}}},
      {"exp", [](Tensor z) { return Tensor(exp(z)); }, [](C128 z) { return std::exp(z); }, axes},
      {"cosh", [](Tensor z) { return Tensor(cosh(z)); }, [](C128 z) { return std::sinh(z); }, axes},
      {"log", [](Tensor z) { return Tensor(log(z)); }, [](C128 z) { return 1.0 / z; }, axes},
      {"atanh", [](Tensor z) { return Tensor(atanh(z)); }, [](C128 z) { return 1.0 / (1.0 - z * z); }, inside},
      {"sigmoid", [](Tensor z) { return Tensor(sigmoid(z)); },
       [](C128 z) { return std::exp(z) / ((1.0 + std::exp(z)) * (1.0 + std::exp(z))); }, axes},
  };
  for (const Function& f : functions) {
    INFO(f.name);
    const Tensor z = of(f.at);
    const auto by_real = jit::grad([&](Tensor x) { return sum(real(f.function(x))); });
    const auto by_imag = jit::grad([&](Tensor x) { return sum(imag(f.function(x))); });
    CHECK(close(numbers(by_real(z)), mapped(f.at, [&](C128 x) { return std::conj(f.derivative(x)); })));
    CHECK(close(numbers(by_imag(z)), mapped(f.at, [&](C128 x) { return C128(0, 1) * std::conj(f.derivative(x)); })));
  }
  CHECK(numbers(jit::grad([](Tensor z) { return sum(imag(sqrt(z))); })(of({4.0}))) == Numbers{{0, 0.25}});  // PyTorch
  CHECK(close(numbers(jit::grad([](Tensor z) { return sum(real(sgn(z))); })(of({0.0, {3, 4}}))), {0, {0.128, -0.096}}));
}

TEST_CASE("complex: near the limits of the range") {
  const double infinity = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max();
  const float far = 2e38f, half_pi = 1.57079633f;
  const auto single = [](C64 z) { return tensor({z}); };
  const auto one = [](const Tensor& z) { return numbers(z)[0]; };
  CHECK(close({one(atan(single({far, 0})))}, {half_pi}, 1e-6));
  CHECK(close({one(atan(of({{infinity, 0}})))}, {std::atan(infinity)}));
  CHECK(close({one(atanh(of({{1e200, -1e200}})))}, {C128(5e-201, -std::atan(infinity))}));
  CHECK(numbers(jit::grad([](Tensor z) { return sum(abs(atan(z))); })(of({{0, 0}, {1, 1}})))[0] == 0.0);
  CHECK(one(exp(single({100, 0}))) == C128(infinity, 0));
  CHECK(one(sinh(single({-100, 0}))) == C128(-infinity, 0));
  CHECK(one(cos(single({0, 100}))) == C128(infinity, 0));
  CHECK(one(sin(single({0, 100}))) == C128(0, infinity));
  CHECK(one(sigmoid(single({-100, 0}))).imag() == 0);
  CHECK(close({one(sigmoid(of({{-800, 1}})))}, {0.0}));
  CHECK(close({one(sigmoid(of({{800, 1}})))}, {1.0}));
  const C128 large(most, most), root = one(sqrt(of({large})));
  CHECK(std::abs(root / std::sqrt(large) - 1.0) < 1e-14);
  CHECK(one(sqrt(of({{1, -infinity}}))) == C128(infinity, -infinity));
  CHECK(one(sqrt(of({{-infinity, 3}}))) == C128(0, infinity));
  CHECK(close({one(log(of({{1, 1e-12}}))) * 1e12}, {C128(5e-13, 1)}, 1e-15));
  CHECK(std::abs(one(log(of({{1, 1e-5}}))).real() / 5e-11 - 1) < 1e-9);
}

TEST_CASE("complex: the back end of plain loops, and functions that run uncompiled") {
  const auto f = [](Tensor z, Tensor w) { return sqrt(z) * w + C128(0, 1) * exp(z / w); };
  const Tensor want = f(of(some), of(others));
  auto eager = jit::compile(f, {.backend = "eager"});
  CHECK(close(numbers(eager(of(some), of(others))), numbers(want)));
  const auto chosen = [](Tensor z) {
    return jit::cond(real(sum(z)) > 0, [](Tensor b) { return Tensor(b * b); }, [](Tensor b) { return Tensor(-b); }, z);
  };
  CHECK(numbers(jit::compile(chosen, {.backend = "eager"})(of({{1, 2}}))) == Numbers{{-3, 4}});
  auto spectrum = jit::compile([](Tensor z) { return fft::ifft(fft::fft(z) * 2); }, {.backend = "eager"});
  CHECK(close(numbers(spectrum(of(some))), numbers(of(some) * 2)));
  auto loss = jit::grad([](Tensor z) { return sum(abs(z * z)); });
  CHECK(close(numbers(jit::compile(loss, {.backend = "eager"})(of(some))), numbers(loss(of(some)))));
  jit::DebugNans guard;
  CHECK(close(numbers(jit::compile(f)(of(some), of(others))), numbers(want)));
}

TEST_CASE("complex: vmap over choices and loops with a condition for each example") {
  const Tensor z = of({{1, 2}, {-3, 4}, {0.5, -1}});
  const auto chosen = [](Tensor x) {
    return jit::cond(real(x) > 0, [](Tensor b) { return Tensor(b * b); }, [](Tensor b) { return Tensor(sqrt(b)); }, x);
  };
  const auto want = mapped(numbers(z), [](C128 x) { return x.real() > 0 ? x * x : std::sqrt(x); });
  CHECK(close(numbers(jit::vmap(chosen)(z)), want));
  const auto slopes = mapped(numbers(z), [](C128 x) { return std::conj(x.real() > 0 ? 2.0 * x : 0.5 / std::sqrt(x)); });
  CHECK(close(numbers(jit::grad([&](Tensor x) { return sum(real(jit::vmap(chosen)(x))); })(z)), slopes));
  const auto grown = [](Tensor x) {
    return jit::while_loop([](Tensor b) { return abs(b) < 10; }, [](Tensor b) { return Tensor(b * C128(0, 2)); }, x);
  };
  const auto grow = [](C128 x) {
    while (std::abs(x) < 10) x *= C128(0, 2);
    return x;
  };
  CHECK(close(numbers(jit::vmap(grown)(z)), mapped(numbers(z), grow)));
}

TEST_CASE("complex: norms are real, products conjugate as PyTorch's, and clipping counts both parts") {
  const Tensor z = of({{3, 4}, {0, 1}}), w = of({{0, 0}, {0, 1}});
  CHECK(near(doubles(vector_distance(z, w)), {5}));
  CHECK(near(doubles(pairwise_distance(z, w, {.eps = 0})), {5}));
  CHECK(numbers(linalg::vecdot(z, z)) == Numbers{26});
  CHECK(numbers(linalg::vecdot(of({{0, 1}}), of({{2, 1}}))) == Numbers{{1, -2}});
  CHECK(near(doubles(l1_loss(z, w)), {2.5}));
  Variable v(of({{0, 0}}));
  v.requires_grad();
  const std::vector<Variable> model{v};
  sum(real(v * of({{3, 4}}))).backward();
  CHECK(near(doubles(jit::clip_grad_norm(model, 1)), {5}));
  CHECK(close(numbers(v.grad()), {{0.6, -0.8}}, 1e-6));
}

TEST_CASE("complex: logarithms and exponentials near 0 keep their digits") {
  const auto is = [](const Tensor& got, const Numbers& want) {
    const Numbers found = numbers(got);
    for (std::size_t i = 0; i < want.size(); ++i) {
      INFO(i << " is " << found[i] << ", should be " << want[i]);
      CHECK(std::abs(found[i].real() - want[i].real()) <= 1e-14 * std::abs(want[i].real()));
      CHECK(std::abs(found[i].imag() - want[i].imag()) <= 1e-14 * std::abs(want[i].imag()));
    }
  };
  // To first and second order: z - z^2 / 2 and z + z^2 / 2.
  const Numbers small{{1e-20, 2e-20}, {-3e-18, 1e-9}, {1e-10, 0}};
  is(log1p(of(small)), {{1e-20, 2e-20}, {-2.5e-18, 1e-9}, {1e-10 - 5e-21, 0}});
  is(expm1(of(small)), {{1e-20, 2e-20}, {-3.5e-18, 1e-9}, {1e-10 + 5e-21, 0}});
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(numbers(log1p(of({-1.0})))[0].real() == -infinity);
  CHECK(numbers(log1p(of({{-3, -0.0}})))[0].imag() == std::arg(C128(-2, -0.0)));
  CHECK(numbers(expm1(tensor({C64(100, 0)})))[0] == C128(infinity, 0));
  CHECK(numbers(sinc(of({0.0, {0, 1}})))[0] == 1.0);
}

TEST_CASE("complex: derivatives of sinc near 0, and of exponentials past overflow") {
  const auto slope = [](Tensor z) { return jit::grad([](Tensor x) { return sum(real(sinc(x))); })(z); };
  const double square = std::numbers::pi * std::numbers::pi;
  CHECK(numbers(slope(of({0.0})))[0] == 0.0);
  for (const float near : {1e-5f, 1e-4f, 1e-2f}) {
    const float found = static_cast<float>(numbers(slope(tensor({C64(near, 0)})))[0].real());
    INFO(near << ": " << found);
    CHECK(std::abs(found / (-near * static_cast<float>(square / 3)) - 1) < 1e-4f);
  }
  // On both sides of the border between series and quotient; far out the series, which is not used there, overflows.
  const Numbers at{{0.0999, 0}, {0.1001, 0}, {0, 0.0999}, {0.07, -0.07}, {0.08, 0.08}, {2, 1}};
  const auto derivative = [](C128 z) {
    const C128 turn = std::numbers::pi * z;
    return (std::cos(turn) - std::sin(turn) / turn) / z;
  };
  CHECK(close(numbers(slope(of(at))), mapped(at, [&](C128 z) { return std::conj(derivative(z)); })));
  CHECK(std::isfinite(numbers(slope(tensor({C64(1e20f, 0)})))[0].real()));
  const auto second = jit::grad([&](Tensor z) { return sum(real(slope(z))); });
  CHECK(close(numbers(second(of({0.0}))), {-square / 3}));

  const float infinity = std::numeric_limits<float>::infinity();
  const auto slope_of = [](Tensor (*function)(Tensor)) {
    return numbers(jit::grad([&](Tensor z) { return sum(real(function(z))); })(tensor({C64(100, 0)})))[0];
  };
  CHECK(slope_of([](Tensor z) { return Tensor(exp(z)); }) == C128(infinity, 0));
  CHECK(slope_of([](Tensor z) { return Tensor(expm1(z)); }) == C128(infinity, 0));
}

TEST_CASE("complex: running products, and areas") {
  const Tensor z = of(some), both = stack({of(some), of(others)}, 1);
  const auto running = [](const Numbers& x, bool exclusive, bool reverse) {
    Numbers out(x.size());
    C128 product = 1;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t at = reverse ? x.size() - 1 - i : i;
      const C128 before = product;
      product *= x[at];
      out[at] = exclusive ? before : product;
    }
    return out;
  };
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true}) {
      const CumulativeOptions options{.exclusive = exclusive, .reverse = reverse};
      const auto f = [options](Tensor x) { return cumprod(x, 0, options); };
      CHECK(close(numbers(f(z)), running(some, exclusive, reverse)));
      for (const char* backend : {"", "reference", "eager"})
        CHECK(close(numbers(jit::compile(f, {.backend = backend})(z)), running(some, exclusive, reverse)));
      CHECK(close(numbers(f(both)(all, 1)), running(others, exclusive, reverse)));
      CHECK(close(numbers(jit::vmap(f, 1, 1)(both)(all, 1)), running(others, exclusive, reverse)));
    }
  CHECK(cumprod(zeros({0, 2}, {.dtype = DType::c64}), 0).shape() == Shape({0, 2}));
  CHECK(numbers(cumprod(of({{2, 1}}), 0)) == Numbers{{2, 1}});
  // An infinity that nothing comes before is not multiplied by 1 + 0i, which is NaN.
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(numbers(cumprod(of({{infinity, 0}, 2.0}), 0))[0] == C128(infinity, 0));
  CHECK(numbers(cumprod(of({2.0, {infinity, 0}}), 0, {.reverse = true}))[1] == C128(infinity, 0));
  // By the second of three factors: conj(a) + conj(a c), also where it is 0.
  const auto slope = jit::grad([](Tensor x) { return sum(real(cumprod(x, 0))); });
  CHECK(close({numbers(slope(of({{1, 2}, {0, 0}, {3, -1}})))[1]}, {std::conj(C128(1, 2) * (1.0 + C128(3, -1)))}));
  auto symbolic = jit::compile([](Tensor x) { return cumprod(x, 0); }, {.dynamic = jit::Dynamic::always});
  CHECK(close(numbers(symbolic(z)), numbers(cumprod(z, 0))));
  auto symbolic_prod = jit::compile([](Tensor x) { return prod(x, 0); }, {.dynamic = jit::Dynamic::always});
  for (int rows : {1, 2}) {  // each number of factors is a version
    const Tensor part = z(slice(0, rows));
    CHECK(close(numbers(symbolic_prod(part)), numbers(prod(part, 0))));
  }

  const Numbers y{{1, 2}, {3, -4}, {0, 1}};
  CHECK(close(numbers(trapezoid(of(y), 0.5)), {0.25 * (y[0] + 2.0 * y[1] + y[2])}));
  CHECK(close(numbers(cumulative_trapezoid(of(y), copy_of(std::vector<double>{0, 1, 3}))),
              {(y[0] + y[1]) / 2.0, (y[0] + y[1]) / 2.0 + y[1] + y[2]}));
}

TEST_CASE("complex: numbers as arguments of compiled functions are run-time inputs") {
  auto turned = jit::compile([](Tensor z, Tensor by) { return z * by; });
  const Tensor z = of(some), single = tensor({C64(1, 2)}), real_numbers = tensor({1.f, 2.f});
  CHECK(close(numbers(turned(z, C128(0, 1))), mapped(some, [](C128 x) { return x * C128(0, 1); })));
  C128 by(2, -1);
  CHECK(close(numbers(turned(z, by)), mapped(some, [](C128 x) { return x * C128(2, -1); })));
  by = {0, 0};
  CHECK(numbers(turned(z, by))[0] == 0.0);
  CHECK(turned.stats().compiles == 1);
  // As a tensor of rank 0 it widens none that has axes.
  CHECK(turned(single, C128(0, 1)).dtype() == DType::c64);
  CHECK(turned(real_numbers, C128(0, 1)).dtype() == DType::c64);
  CHECK(numbers(turned(real_numbers, C64(0, 1))) == Numbers{{0, 1}, {0, 2}});
  // The same by its parts, which are Scalars; and in functions without types of their own.
  auto by_parts = jit::compile([](Tensor x, Scalar re, Scalar im) { return x * complex(re, im); });
  CHECK(numbers(by_parts(single, 0, 2.0)) == Numbers{{-4, 2}});
  CHECK(by_parts(single, 0.5, 2.0).dtype() == DType::c64);
  auto generic = jit::compile([](const auto& x, const auto& number) { return Tensor(x + number); });
  CHECK(numbers(generic(single, C64(1, 1))) == Numbers{{2, 3}});
  auto slope =
      jit::compile([](Tensor x, Tensor w) { return jit::grad([&](Tensor y) { return sum(real(y * w)); })(x); });
  CHECK(numbers(slope(single, C64(3, 4))) == Numbers{{3, -4}});
  CHECK(numbers(turned(of({2.0}), C128(1, 1))) == Numbers{{2, 2}});
}

TEST_CASE("complex: numbers as arguments of regions, jit::Function and transforms") {
  const auto product = [](Tensor z, Tensor by) { return Tensor(z * by); };
  const auto loss = [](Tensor z, Tensor by) { return sum(real(z * by)); };
  const Tensor z = tensor({C64(1, 2), C64(3, -1)});
  const Numbers turned{{-2, 1}, {1, 3}};
  auto region = jit::region(product);
  CHECK(numbers(region(z, C64(0, 1))) == turned);
  auto twice = jit::compile([&](Tensor x) { return Tensor(region(x, C64(0, 1)) + region(x, C64(0, 1))); });
  CHECK(numbers(twice(z)) == Numbers{{-4, 2}, {2, 6}});
  const jit::Function<Tensor(Tensor, Tensor)> stored = jit::compile(product);
  CHECK(numbers(stored(z, C64(0, 1))) == turned);
  CHECK(numbers(stored(z, C64(2, 0))) == Numbers{{2, 4}, {6, -2}});
  CHECK(stored.stats().compiles == 1);
  std::vector<C64> place(2);
  stored.into(borrow_mut(place, {2}))(z, C64(0, 1));
  CHECK(place == std::vector<C64>{{-2, 1}, {1, 3}});
  CHECK(numbers(jit::grad(loss)(z, C64(3, 4))) == Numbers{{3, -4}, {3, -4}});
  CHECK(numbers(jit::grad<1>(loss)(z, C64(3, 4))) == Numbers{{4, -1}});
  CHECK(numbers(jit::grad(jit::compile(loss))(z, C64(3, 4))) == Numbers{{3, -4}, {3, -4}});
  CHECK(numbers(jit::vmap(product, {0, jit::no_axis})(z, C64(0, 1))) == turned);
  CHECK(numbers(jit::vjp(product, z, C64(0, 1)).first) == turned);
}

TEST_CASE("complex: what has no complex meaning says so, and takes no real part") {
  const Tensor z = of(some), image = reshape(z(slice(0, 4)), {1, 1, 2, 2}), x = ones({7}, {.dtype = DType::f64});
  struct Call {
    const char* name;
    std::function<Tensor()> run;
  };
  const std::vector<Call> calls{
      {"<", [&] { return Tensor(z < 1); }},
      {"topk", [&] { return topk(z, 2, 0).values; }},
      {"argsort", [&] { return argsort(z, 0); }},
      {"kthvalue", [&] { return kthvalue(z, 1, 0).values; }},
      {"median", [&] { return median(z, 0).values; }},
      {"mode", [&] { return mode(z, 0).values; }},
      {"quantile", [&] { return quantile(z, 0.5, 0); }},
      {"searchsorted", [&] { return searchsorted(x, z); }},
      {"histogram", [&] { return histogram(z, 4, 0, 1); }},
      {"cummax", [&] { return cummax(z, 0); }},
      {"argmax", [&] { return argmax(z, 0); }},
      {"relu", [&] { return Tensor(relu(z)); }},
      {"gelu", [&] { return Tensor(gelu(z)); }},
      {"round", [&] { return Tensor(round(z)); }},
      {"frac", [&] { return Tensor(frac(z)); }},
      {"fmod", [&] { return Tensor(fmod(z, 2)); }},
      {"floor_divide", [&] { return Tensor(floor_divide(z, 2)); }},
      {"copysign", [&] { return Tensor(copysign(z, x)); }},
      {"signbit", [&] { return Tensor(signbit(z)); }},
      {"erf", [&] { return Tensor(erf(z)); }},
      {"lgamma", [&] { return Tensor(lgamma(z)); }},
      {"cbrt", [&] { return Tensor(cbrt(z)); }},
      {"atan2", [&] { return Tensor(atan2(z, x)); }},
      {"hypot", [&] { return Tensor(hypot(x, z)); }},
      {"softmax", [&] { return Tensor(softmax(z, 0)); }},
      {"logsumexp", [&] { return Tensor(logsumexp(z, 0)); }},
      {"logcumsumexp", [&] { return logcumsumexp(z, 0); }},
      {"logaddexp", [&] { return Tensor(logaddexp(z, x)); }},
      {"conv2d", [&] { return conv2d(image, image); }},
      {"max_pool2d", [&] { return max_pool2d(image, 2); }},
      {"avg_pool2d", [&] { return avg_pool2d(image, 2); }},
      {"nanmean", [&] { return nanmean(z); }},
      {"corrcoef", [&] { return corrcoef(reshape(z, {1, 7})); }},
      {"one_hot", [&] { return one_hot(z, 3, DType::f32); }},
  };
  for (const Call& call : calls) {
    INFO(call.name);
    CHECK_THROWS_AS(eval(call.run()), DTypeError);
  }
  // By the name that the user wrote.
  CHECK(has(message_of<DTypeError>([&] { (void)aminmax(z); }), "aminmax: complex numbers have no order"));
  CHECK(has(message_of<DTypeError>([&] { (void)ptp(z); }), "ptp: complex numbers have no order"));
  CHECK(has(message_of<DTypeError>([&] { (void)bucketize(z, x); }), "bucketize: complex numbers have no order"));
  CHECK(numbers(arange(3, {.dtype = DType::c64})) == Numbers{0.0, 1.0, 2.0});
  CHECK(numbers(arange(1, 6, 2, {.dtype = DType::c128})) == Numbers{1.0, 3.0, 5.0});
}
