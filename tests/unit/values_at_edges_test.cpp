// Values and derivatives where programs of other libraries' test suites go: numbers of C++ beside wide dtypes, second
// derivatives at zeros, extents that are broadcast or empty, equal elements, NaN. Numbers are NumPy's, PyTorch's and
// mpmath's.
#include "../catch.hpp"
#include "../checks.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

using namespace sinter;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
using Pair = std::complex<double>;

/// The same function op by op, compiled, and on the reference back end.
template <class F>
std::vector<Tensor> in_all_modes(F f, const Tensor& x) {
  return {f(x), jit::compile(f)(x), jit::compile(f, {.backend = "reference"})(x)};
}
void check_near(const Tensor& got, const std::vector<double>& want, double tolerance = 1e-13) {
  const std::vector<double> values = doubles(got);
  REQUIRE(values.size() == want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << " is " << values[i] << ", should be " << want[i]);
    if (std::isnan(want[i])) CHECK(std::isnan(values[i]));
    else if (std::isinf(want[i])) CHECK(values[i] == want[i]);
    else CHECK(std::abs(values[i] - want[i]) <= tolerance * std::max(1.0, std::abs(want[i])));
  }
}
/// The derivative along `w` of the gradient of sum(f(x) * v).
template <class F>
Tensor second(F f, const Tensor& x, const Tensor& v, const Tensor& w) {
  return jit::grad([&](Tensor p) { return sum(jit::grad([&](Tensor q) { return sum(f(q) * v); })(p) * w); })(x);
}

}  // namespace

TEST_CASE("edges: numbers keep their digits beside c128") {
  const Tensor z = complex(tensor({1.0, -2.0}), tensor({0.5, 3.0}));
  const Pair first(1, 0.5);
  const auto check = [&](const char* what, auto f, Pair want) {
    for (const Tensor& got : in_all_modes(f, z)) {
      INFO(what);
      CHECK(got.dtype() == DType::c128);
      CHECK(std::abs(to_vector<Pair>(got)[0] - want) < 1e-15 * std::abs(want) + 1e-15);
    }
  };
  check("mul", [](Tensor x) -> Tensor { return x * 3.14; }, first * 3.14);
  check("add", [](Tensor x) -> Tensor { return 0.1 + x; }, first + 0.1);
  check("sub", [](Tensor x) -> Tensor { return 0.1 - x; }, 0.1 - first);
  check("div", [](Tensor x) -> Tensor { return x / 0.7; }, first / 0.7);
  check("pow", [](Tensor x) -> Tensor { return pow(x, 0.3); }, std::pow(first, 0.3));
  check("lerp", [](Tensor x) -> Tensor { return lerp(x, x * 2, 0.3); }, first * 1.3);
  check("addcmul", [](Tensor x) -> Tensor { return addcmul(x, x, x, 0.3); }, first + first * first * 0.3);
  check("addcdiv", [](Tensor x) -> Tensor { return addcdiv(x, x, x * 2, 0.3); }, first + 0.15);
  check("where", [](Tensor x) -> Tensor { return where(real(x) < 0, x, 0.1); }, Pair(0.1));
  check("float_power", [](Tensor x) -> Tensor { return float_power(x, 0.3); }, std::pow(first, 0.3));
  check("masked_fill", [](Tensor x) -> Tensor { return masked_fill(x, real(x) > 0, 0.1); }, Pair(0.1));
}

TEST_CASE("edges: numbers keep their digits beside f64") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), i = tensor({0});
  const auto check = [&](const char* what, auto f, double want) {
    for (const Tensor& got : in_all_modes(f, x)) {
      INFO(what);
      CHECK(got.dtype() == DType::f64);
      CHECK(doubles(got)[0] == want);
    }
  };
  check("cast", [](Tensor p) -> Tensor { return p * 0 + cast(0.1, DType::f64); }, 0.1);
  check("masked_fill", [](Tensor p) -> Tensor { return masked_fill(p, p < 2, 0.1); }, 0.1);
  check("index_fill", [&](Tensor p) -> Tensor { return index_fill(p, 0, i, 0.1); }, 0.1);
  check("index_put", [&](Tensor p) -> Tensor { return index_put(p, {i}, 0.1); }, 0.1);
  check("scatter", [&](Tensor p) -> Tensor { return scatter(p, 0, i, 0.1); }, 0.1);
  check("put", [&](Tensor p) -> Tensor { return put(p, i, 0.1); }, 0.1);
  check("put_along_axis", [&](Tensor p) -> Tensor { return put_along_axis(p, i, 0.1, 0); }, 0.1);
  check("addcmul", [](Tensor p) -> Tensor { return addcmul(p * 0, 0.1, p); }, 0.1);
  check("addcdiv", [](Tensor p) -> Tensor { return addcdiv(p * 0, 0.1, p); }, 0.1);
  check("float_power", [](Tensor p) -> Tensor { return float_power(p + 1, 0.3); }, std::pow(2.0, 0.3));
  check("diff", [](Tensor p) -> Tensor { return diff(p, {.prepend = 0.1}); }, 1 - 0.1);
  check("at", [](Tensor p) -> Tensor { return (p.at(0) = 0.1), p; }, 0.1);
  check("rsub", [](Tensor p) -> Tensor { return rsub(0.1, p * 0, 2); }, -0.2);
  check("outer", [](Tensor p) -> Tensor { return reshape(outer(p, 0.1), {3}); }, 0.1);
  check("prelu", [](Tensor p) -> Tensor { return prelu(-p, 0.1); }, -0.1);
  check("l1_loss", [](Tensor p) -> Tensor { return l1_loss(p, 0.1, LossReduction::none); }, 1 - 0.1);
  check("addr", [](Tensor p) -> Tensor { return addr(0.1, p * 0, p)(0); }, 0.1);
  check(
      "vector_distance", [](Tensor p) -> Tensor { return unsqueeze(vector_distance(p(slice(0, 1)), 0.1), 0); },
      1 - 0.1);
}

TEST_CASE("edges: second derivatives of products with zeros") {
  const Tensor w = tensor({0.5, -1.5, 2.0, 0.25});
  // sum of v_k x_0 ... x_k; by hand the second derivatives along w.
  const auto by_hand = [](std::vector<double> x, std::vector<double> v, std::vector<double> along, bool is_whole) {
    std::vector<double> out(4);
    for (std::size_t k = is_whole ? 3 : 0; k < 4; ++k)
      for (std::size_t i = 0; i <= k; ++i)
        for (std::size_t j = 0; j <= k; ++j) {
          if (i == j) continue;
          double rest = v[k];
          for (std::size_t m = 0; m <= k; ++m) rest *= m == i || m == j ? 1 : x[m];
          out[i] += rest * along[j];
        }
    return out;
  };
  const std::vector<double> v{1.5, -0.5, 2, 3}, along{0.5, -1.5, 2.0, 0.25};
  for (const std::vector<double>& x : {std::vector<double>{2, 0, 3, 4}, std::vector<double>{0, 2, 0, 5},
                                       std::vector<double>{0, 0, 0, 3}, std::vector<double>{2, 5, 3, 0.5}}) {
    const auto scan = [&](Tensor p) { return second([](Tensor q) { return cumprod(q, 0); }, p, copy_of(v), w); };
    const auto whole = [&](Tensor p) { return second([](Tensor q) { return 3.0 * prod(q, 0); }, p, ones({}), w); };
    for (const Tensor& got : in_all_modes(scan, copy_of(x))) check_near(got, by_hand(x, v, along, false));
    for (const Tensor& got : in_all_modes(whole, copy_of(x))) check_near(got, by_hand(x, v, along, true));
  }
  // First derivatives are as they were: what is infinite beside a zero does not reach the others of a scan.
  const Tensor slope =
      jit::grad([](Tensor p) { return sum(cumprod(p, 0)); })(tensor({2.0, 0.0, 1e300, 1e300, not_a_number}));
  check_near(slope(slice(0, 1)), {1});
}

TEST_CASE("edges: second derivatives of powers with exponents of 0, 1, 2 and 3 at 0") {
  const Tensor exponents = tensor({0.0, 1.0, 2.0, 3.0}), ones_of_4 = ones({4}, {.dtype = DType::f64});
  const auto by_base = [&](Tensor p) {
    return second([&](Tensor q) { return pow(q, exponents); }, p, ones_of_4, ones_of_4);
  };
  for (const Tensor& got : in_all_modes(by_base, zeros({4}, {.dtype = DType::f64}))) check_near(got, {0, 0, 2, 0});
  for (const Tensor& got : in_all_modes(by_base, full({4}, 2.0, {.dtype = DType::f64}))) check_near(got, {0, 0, 2, 12});
  // first by the exponent, then by the base: b^(e - 1) (1 + e log b)
  const auto mixed = [&](Tensor p) {
    return jit::grad([&](Tensor q) { return sum(jit::grad([&](Tensor e) { return sum(pow(q, e)); })(exponents)); })(p);
  };
  const double log2 = std::log(2.0);
  for (const Tensor& got : in_all_modes(mixed, full({4}, 2.0, {.dtype = DType::f64})))
    check_near(got, {0.5, 1 + log2, 2 * (1 + 2 * log2), 4 * (1 + 3 * log2)});
  for (const Tensor& got : in_all_modes(mixed, zeros({4}, {.dtype = DType::f64}))) {
    const std::vector<double> values = doubles(got);
    CHECK(values[2] == 0);
    CHECK(values[3] == 0);
  }
}

TEST_CASE("edges: variance of too few") {
  const auto corrected = [](double correction) {
    return [correction](Tensor x) { return var(x, 0, {.correction = correction}); };
  };
  for (const Tensor& got : in_all_modes(corrected(1), zeros({0}))) check_near(got, {not_a_number});
  for (const Tensor& got : in_all_modes(corrected(1), ones({1}))) check_near(got, {not_a_number});
  for (const Tensor& got : in_all_modes(corrected(3), tensor({1.f, 3.f}))) check_near(got, {infinity});
  for (const Tensor& got : in_all_modes(corrected(1), tensor({1.f, 3.f}))) check_near(got, {2});
  CHECK(std::isnan(doubles(stddev(zeros({0}), 0, {.correction = 1}))[0]));
  CHECK(std::isnan(doubles(var_mean(zeros({0}), 0, {.correction = 1}).var)[0]));
  auto dynamic = jit::compile(corrected(2), {.dynamic = jit::Dynamic::always});
  check_near(dynamic(tensor({1.f, 2.f, 3.f, 6.f})), {7});
  check_near(dynamic(tensor({1.f, 2.f})), {infinity});
}

TEST_CASE("edges: cosine similarity where the axis itself is broadcast") {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, -1.0}}), b = tensor({{2.0, 1.0}});
  // b stands for both rows: a column's cosine with (b, b).
  const auto cosine = [](double p, double q, double r) {
    return (p * r + q * r) / std::hypot(p, q) / std::hypot(r, r);
  };
  const std::vector<double> want{cosine(1, 3, 2), cosine(2, -1, 1)};
  for (const Tensor& got : in_all_modes([&](Tensor x) { return cosine_similarity(x, b, 0); }, a)) check_near(got, want);
  check_near(cosine_similarity(b, a, -2), want);
  check_near(cosine_similarity(a, tensor({2.0, 1.0}), 0), want);  // of lower rank
  check_near(cosine_similarity(a, a, 1), {1, 1});
}

TEST_CASE("edges: norms of matrices without elements") {
  for (const auto& [rows, columns] : {std::pair{0, 3}, std::pair{3, 0}, std::pair{0, 0}})
    for (const double order : {1.0, 2.0, infinity}) {
      INFO(rows << " by " << columns << ", order " << order);
      const auto norm_of = [order](Tensor x) { return linalg::matrix_norm(x, order); };
      for (const Tensor& got : in_all_modes(norm_of, zeros({rows, columns}))) check_near(got, {0});
      check_near(linalg::matrix_norm(zeros({2, rows, columns}), order, {-2, -1}, keepdim), {0, 0});
    }
  CHECK(message_of<ShapeError>([] { linalg::matrix_norm(zeros({0, 3}), -infinity); }).find("is empty") !=
        std::string::npos);
}

TEST_CASE("edges: adaptive max pooling gives the gradient to the first of equal elements") {
  const Tensor x = reshape(tensor({1.f, 2.f, 2.f, 2.f, 2.f, 1.f}), {1, 1, 2, 3});
  const auto slope = [](const Shape& size) {
    return [size](Tensor p) { return jit::grad([&](Tensor q) { return sum(adaptive_max_pool(q, size)); })(p); };
  };
  for (const Tensor& got : in_all_modes(slope({1, 1}), x)) check_near(got, {0, 1, 0, 0, 0, 0});
  for (const Tensor& got : in_all_modes(slope({2, 1}), x)) check_near(got, {0, 1, 0, 1, 0, 0});
  for (const Tensor& got : in_all_modes(slope({1, 2}), x)) check_near(got, {0, 2, 0, 0, 0, 0});
  check_near(adaptive_max_pool(x, {1, 2}), {2, 2});
  CHECK(std::isnan(doubles(adaptive_max_pool(reshape(tensor({1.0, not_a_number, 2.0, 0.0}), {1, 1, 4}), {2}))[0]));
}

TEST_CASE("edges: margins of NaN are 0, and of one example") {
  const Tensor x = tensor({not_a_number, 1.0, 2.0, 0.5}), target = tensor({1});
  check_near(multi_margin_loss(reshape(x, {1, 4}), target, {.reduction = LossReduction::none}), {2.5 / 4});
  check_near(multi_margin_loss(x, target(0), {.reduction = LossReduction::none}), {2.5 / 4});
  CHECK(multi_margin_loss(x, target(0), {.reduction = LossReduction::none}).rank() == 0);
  check_near(multi_margin_loss(x, target(0)), {2.5 / 4});
  check_near(multilabel_margin_loss(x, tensor({1, -1, 0, 0})), {2.5 / 4});
  const auto slope = [&](Tensor p) { return jit::grad([&](Tensor q) { return multi_margin_loss(q, target(0)); })(p); };
  for (const Tensor& got : in_all_modes(slope, x)) check_near(got, {0, -0.5, 0.25, 0.25});
  CHECK(message_of<ShapeError>([&] { multi_margin_loss(x, target); }).find("x is (4,), target is (1,)") !=
        std::string::npos);
}

TEST_CASE("edges: a variance for each row") {
  const Tensor x = tensor({{1.0, 2.0}, {4.0, 3.0}}), t = zeros({2, 2}, {.dtype = DType::f64}), v = tensor({1.0, 4.0});
  const GaussianNllOptions each{.reduction = LossReduction::none};
  const auto of_row = [](double d, double variance) { return (std::log(variance) + d * d / variance) / 2; };
  const std::vector<double> want{of_row(1, 1), of_row(2, 1), of_row(4, 4), of_row(3, 4)};
  for (const Tensor& got : in_all_modes([&](Tensor p) { return gaussian_nll_loss(p, t, v, each); }, x))
    check_near(got, want);
  check_near(gaussian_nll_loss(x, t, reshape(v, {2, 1}), each), want);
  check_near(gaussian_nll_loss(x, t, reshape(v, {1, 2}), each),
             {of_row(1, 1), of_row(2, 4), of_row(4, 1), of_row(3, 4)});
  check_near(gaussian_nll_loss(x, t, 4.0, each), {of_row(1, 4), of_row(2, 4), of_row(4, 4), of_row(3, 4)});
}

TEST_CASE("edges: squares of f16 are beyond its range, their roots and quotients are not") {
  const Tensor x = tensor({{400.f, -300.f, 200.f, 100.f}}), half = x.to(DType::f16);
  const auto check = [&](const char* what, auto f, double tolerance = 2e-3) {
    INFO(what);
    const std::vector<double> want = doubles(f(x));
    for (const Tensor& got : in_all_modes(f, half)) {
      CHECK(got.dtype() == DType::f16);
      check_near(got, want, tolerance);
    }
  };
  check("norm", [](Tensor p) { return norm(p, 1); });
  check("vector_norm", [](Tensor p) { return linalg::vector_norm(p, 3); });
  check("stddev", [](Tensor p) { return stddev(p, 1); });
  check("normalize", [](Tensor p) { return normalize(p); });
  check("cosine_similarity", [](Tensor p) { return cosine_similarity(p, p * 0.5); });
  check("pairwise_distance", [](Tensor p) { return pairwise_distance(p, p * 0.5); });
  check("cdist", [](Tensor p) { return cdist(p, p * 0.5); });
  check("rms_norm", [](Tensor p) { return rms_norm(p, {4}); });
  check("group_norm", [](Tensor p) { return group_norm(reshape(p, {1, 2, 2}), 1); });
  check("instance_norm", [](Tensor p) { return instance_norm(reshape(p, {1, 1, 4})); });
  check("local_response_norm", [](Tensor p) { return local_response_norm(reshape(p, {1, 4}), 2); });
  check("batch_norm_training", [](Tensor p) {
    const Tensor zero = zeros({1}, {.dtype = p.dtype()});
    return batch_norm_training(reshape(p, {4, 1}), zero, zero).value;
  });
  check("a gradient", [](Tensor p) { return jit::grad([](Tensor q) { return sum(norm(q, 1)); })(p); });
}

TEST_CASE("edges: polygamma of negative numbers") {
  const Tensor x = tensor({-0.5, -0.25, -1.75, -3.125, -20.625, -0.9375});
  const std::pair<int, std::vector<double>> rows[] = {
      {2,
       {-0.82879664423431998, 122.69736678366236, -124.21382135423057, 1022.2196793127599, -30.095776679093607,
        -8191.6150462911037}},
      {3,
       {193.40909103400244, 1555.7633125348507, 1558.3848404165494, 24590.961839868538, 345.72476823359079,
        393228.91759962932}},
      {10,
       {-42108.858768975493, 15220204428462.791, -15220204740723.598, 31171154632675904, -175323787142.80594,
        -6.3838524717971268e+19}},
      {30,
       {-9.222127066162056e+26, 1.2232629049437595e+51, -1.2232629049437595e+51, 2.6269370855717062e+60,
        -4.2529543168404903e+45, -5.6413044355900158e+69}},
  };
  for (const auto& [order, want] : rows)
    for (const Tensor& got : in_all_modes([n = order](Tensor p) { return polygamma(n, p); }, x))
      check_near(got, want, 1e-11);
  check_near(polygamma(3, tensor({-1.0, -2.0, not_a_number})), {infinity, infinity, not_a_number});
  check_near(polygamma(2, tensor({-1.0, 0.0})), {-infinity, -infinity});
  check_near(jit::grad([](Tensor p) { return sum(polygamma(2, p)); })(x), rows[1].second, 1e-11);
  const auto twice = [](Tensor p) { return sum(jit::grad([](Tensor q) { return sum(digamma(q)); })(p)); };
  check_near(jit::grad(twice)(x), rows[0].second, 1e-11);
}

TEST_CASE("edges: whole numbers, vectors and nothing to do") {
  const Tensor whole = addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}), 2);
  CHECK(whole.dtype() == DType::i32);
  CHECK(to_vector<int>(whole) == std::vector<int>{31, 50});
  CHECK(addcmul(tensor({1, 2}), tensor({3, 4}), tensor({5, 6}), 0.5).dtype() == DType::f32);
  // Whole factors of small integers wrap, as PyTorch's do; 3 * 100 + 2 * (100 * 2) is 700, -68 in i8.
  const auto bytes = [](int value) { return full({1, 1}, value, {.dtype = DType::i8}); };
  const Tensor wrapped = addmm(bytes(100), bytes(100), bytes(2), {.beta = 3, .alpha = 2});
  CHECK(wrapped.dtype() == DType::i8);
  CHECK(to_vector<int>(wrapped) == std::vector<int>{-68});
  CHECK(rsub(tensor({3, 4}), tensor({10, 10}), 2).dtype() == DType::i32);
  CHECK(to_vector<int>(rsub(tensor({3, 4}), tensor({10, 10}), 2)) == std::vector<int>{4, 2});
  CHECK(prelu(full({}, -2), tensor({0.5f})).rank() == 0);
  check_near(trapezoid(tensor({1, 2, 4})), {4.5});
  check_near(cumulative_trapezoid(tensor({1, 2, 4}), tensor({0, 2, 3})), {3, 6});
  check_near(diff(tensor({1.0, 3.0}), {.times = 0, .append = 5.0}), {1, 3});
  const Tensor rows = tensor({{1.f, 2.f}, {3.f, 4.f}}), weight = tensor({2.f, -1.f});
  for (const Tensor& got : in_all_modes([&](Tensor x) { return linear(x, weight); }, rows)) check_near(got, {0, 2});
  check_near(linear(rows, weight, full({}, 1)), {1, 3});
  CHECK(linear(weight, weight).rank() == 0);
  CHECK(message_of<ShapeError>([&] { linear(rows, ones({3})); }).find("weight is (3,)") != std::string::npos);
  CHECK(message_of<ShapeError>([&] { linear(weight, weight, ones({2})); }).find("bias is (2,)") != std::string::npos);
}

TEST_CASE("edges: the value of an extent is that of the call, also where it is symbolic") {
  const auto f = [](Tensor x) {
    const std::int64_t rows = x.size(0).value();
    Tensor total = zeros({x.size(1)}, {.dtype = DType::f64});
    for (std::int64_t i = 0; i < rows; ++i) total = total + x(i) * static_cast<double>(i);
    return Tensor(total + static_cast<double>(x.numel().value()));
  };
  auto compiled = jit::compile(f);
  for (int rows : {3, 4, 5, 1, 4})
    check_near(compiled(ones({rows, 2}, {.dtype = DType::f64})),
               std::vector<double>(2, rows * (rows - 1) / 2.0 + 2.0 * rows));
}

TEST_CASE("edges: norms of negative order are 0 where an element is, and so are their derivatives") {
  const Tensor x = tensor({{1.0, 2.0}, {0.0, 3.0}, {-2.0, 2.0}});
  const auto f = [](Tensor v) { return linalg::vector_norm(v, -2, 1); };
  const double first = 1 / std::sqrt(1.25), last = std::sqrt(2.0);
  for (const Tensor& got : in_all_modes(f, x)) check_near(got, {first, 0, last});
  const auto slopes = jit::grad([&](Tensor v) { return sum(f(v)); });
  const double cube = first * first * first, share = last * last * last / 8;
  for (const Tensor& got : in_all_modes(slopes, x)) check_near(got, {cube, cube / 8, 0, 0, -share, share});
  check_near(jit::jvp(f, x, ones_like(x)).second, {cube * 1.125, 0, 0});
  check_near(f(tensor({{not_a_number, 0.0}})), {not_a_number});
}

TEST_CASE("edges: places of bytes do not wrap") {
  const Tensor y = tensor({1.0, 2.0, 4.0}), places = cast(tensor({200, 100, 250}), DType::u8);
  for (const Tensor& got : in_all_modes([&](Tensor v) { return trapezoid(v, places); }, y)) check_near(got, {300});
  check_near(cumulative_trapezoid(y, places), {-150, 300});
  check_near(gradient(y, cast(tensor({10, 5, 0}), DType::u8)), {-0.2, -0.3, -0.4});
  // Nanoseconds, whose differences a double does not hold.
  const Tensor steps = cast(tensor({0, 1, 2}), DType::u64), ones_of_f32 = ones({3});
  const Tensor times = steps + std::uint64_t{1'700'000'000'000'000'000};
  CHECK(times.dtype() == DType::u64);
  for (const Tensor& got : in_all_modes([&](Tensor v) { return trapezoid(v, times); }, ones_of_f32)) {
    CHECK(got.dtype() == DType::f32);
    check_near(got, {2});
  }
  check_near(trapezoid(ones_of_f32, flip(times, {0})), {-2});
}

TEST_CASE("edges: kl_div's batchmean is the sum for each row of x") {
  const Tensor x = log_softmax(tensor({{1.0, 2.0}, {0.5, -1.0}, {3.0, 3.5}}), 1),
               t = tensor({{0.25, 0.75}, {0.5, 0.5}, {0.1, 0.9}});
  const double total = item<double>(kl_div(x, t, {.reduction = LossReduction::sum}));
  const auto f = [&](Tensor p) { return kl_div(p, t, {.reduction = LossReduction::batchmean}); };
  for (const Tensor& got : in_all_modes(f, x)) check_near(got, {total / 3});
  check_near(jit::compile(f, {.dynamic = jit::Dynamic::always})(x), {total / 3});
  check_near(kl_div(tensor({-1.0, -2.0})(0), tensor({0.5, 0.5})(0), {.reduction = LossReduction::batchmean}),
             {0.5 * (std::log(0.5) + 1)});
  CHECK(has(message_of<UserError>([&] { mse_loss(x, t, LossReduction::batchmean); }),
            "mse_loss: reduction is batchmean, which kl_div alone has"));
  CHECK(
      has(message_of<UserError>([&] { cross_entropy(x, tensor({0, 1, 0}), {.reduction = LossReduction::batchmean}); }),
          "cross_entropy: reduction is batchmean"));
}

TEST_CASE("edges: numbers that turn a function's meaning around are refused") {
  const Tensor x = tensor({0.5, -2.0});
  CHECK(has(message_of<UserError>([&] { isclose(x, x, {.rtol = -0.1}); }), "isclose: rtol is -0.1"));
  CHECK(has(message_of<UserError>([&] { allclose(x, x, {.atol = -1}); }), "neither may be negative"));
  CHECK(has(message_of<UserError>([&] { softshrink(x, -0.5); }), "softshrink: width is -0.5"));
  CHECK(has(message_of<UserError>([&] { hardtanh(x, 1, -1); }), "hardtanh: low is 1.000000, high is -1.000000"));
  CHECK(has(message_of<UserError>([&] { triplet_margin_loss(x, x, x, {.margin = 0}); }),
            "triplet_margin_loss: margin is 0.000000"));
  CHECK(has(message_of<UserError>([&] {
              triplet_margin_with_distance_loss(
                  x, x, x, [](const Tensor& a, const Tensor& b) { return Tensor(abs(a - b)); }, {.margin = -1});
            }),
            "triplet_margin_with_distance_loss: margin is -1"));
}

TEST_CASE("edges: second derivatives of products that are scattered hold at zeros") {
  const Tensor index = tensor<std::int64_t>({0, 1, 0, 1, 2, 0}), weights = tensor({1.0, -2.0, 0.5, 3.0});
  const Tensor along_base = tensor({1.0, 2.0, -1.0, 0.3}), along_values = tensor({0.5, -1.0, 2.0, 1.5, -0.7, 0.9});
  const auto scattered = [&](Tensor base, Tensor values) {
    return sum(scatter_reduce(base, 0, index, values, ScatterReduction::prod) * weights);
  };
  const auto multiplied = [&](Tensor base, Tensor values) {  // the same, each place by itself
    const Tensor is_there = unsqueeze(index, 0) == unsqueeze(arange(4), 1);
    return sum(base * prod(where(is_there, unsqueeze(values, 0), 1), 1) * weights);
  };
  const auto second_of = [&](const auto& f) {
    return [&](Tensor base, Tensor values) {
      const auto slope = [&](Tensor b, Tensor v) {
        auto [by_base, by_values] = jit::grad<0, 1>(f)(b, v);
        return sum(by_base * along_base) + sum(by_values * along_values);
      };
      auto [by_base, by_values] = jit::grad<0, 1>(slope)(base, values);
      return concat({by_base, by_values});
    };
  };
  const Tensor bases[] = {tensor({2.0, 3.0, 4.0, 5.0}), tensor({2.0, 0.0, 4.0, 5.0}), tensor({0.0, 0.0, 0.0, 0.0})};
  const Tensor values[] = {tensor({1.5, 2.0, -1.0, 0.5, 3.0, 2.5}), tensor({0.0, 2.0, -1.0, 0.5, 0.0, 2.5}),
                           tensor({0.0, 2.0, 0.0, 0.5, 3.0, 2.5}), tensor({0.0, 0.0, 0.0, 0.5, 0.0, 0.0})};
  for (const Tensor& base : bases)
    for (const Tensor& value : values) {
      INFO(base << " " << value);
      const std::vector<double> want = doubles(second_of(multiplied)(base, value));
      check_near(second_of(scattered)(base, value), want);
      check_near(jit::compile(second_of(scattered))(base, value), want);
      const auto [by_base, by_values] = jit::grad<0, 1>(scattered)(base, value);
      const auto [of_base, of_values] = jit::grad<0, 1>(multiplied)(base, value);
      check_near(by_base, doubles(of_base));
      check_near(by_values, doubles(of_values));
    }
}

TEST_CASE("edges: fractions beside extents are run-time numbers") {
  const auto f = [](Tensor x) {
    return Tensor(x * (0.5 * x.size(0)) + 1.0 / x.size(1) + (x.numel() - 0.25f) * (x.size(0) / 4.0));
  };
  auto compiled = jit::compile(f);
  for (int rows : {3, 4, 5, 7}) {
    const double expected = 0.5 * rows + 0.5 + (2 * rows - 0.25) * (rows / 4.0);
    check_near(compiled(ones({rows, 2}, {.dtype = DType::f64})),
               std::vector<double>(static_cast<std::size_t>(2 * rows), expected));
  }
  CHECK(compiled.stats().compiles == 2);  // the extent stays symbolic
  CHECK(static_cast<double>(10.0 / zeros({4}).numel()) == 2.5);
}
