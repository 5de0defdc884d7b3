// Complex numbers against std::complex<double>, and against what PyTorch 2 gives for dtypes and gradients.
#include "../catch.hpp"
#include "../checks.hpp"
#include "complex_numbers.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;

namespace {

template <class F>
Numbers mapped(const Numbers& a, const Numbers& b, F&& f) {
  Numbers out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(f(a[i], b[i]));
  return out;
}

struct Row {
  const char* name;
  Tensor (*function)(Tensor);
  C128 (*oracle)(C128);
};
#define SINTER_COMPLEX_ROW(name, oracle)                                                   \
  Row {                                                                                    \
    #name, [](Tensor z) { return Tensor(name(z)); }, [](C128 z) -> C128 { return oracle; } \
  }
const Row rows[] = {
    SINTER_COMPLEX_ROW(exp, std::exp(z)),
    SINTER_COMPLEX_ROW(log, std::log(z)),
    SINTER_COMPLEX_ROW(sqrt, std::sqrt(z)),
    SINTER_COMPLEX_ROW(rsqrt, 1.0 / std::sqrt(z)),
    SINTER_COMPLEX_ROW(square, z* z),
    SINTER_COMPLEX_ROW(reciprocal, 1.0 / z),
    SINTER_COMPLEX_ROW(sin, std::sin(z)),
    SINTER_COMPLEX_ROW(cos, std::cos(z)),
    SINTER_COMPLEX_ROW(tan, std::tan(z)),
    SINTER_COMPLEX_ROW(sinh, std::sinh(z)),
    SINTER_COMPLEX_ROW(cosh, std::cosh(z)),
    SINTER_COMPLEX_ROW(tanh, std::tanh(z)),
    SINTER_COMPLEX_ROW(asin, std::asin(z)),
    SINTER_COMPLEX_ROW(acos, std::acos(z)),
    SINTER_COMPLEX_ROW(atan, std::atan(z)),
    SINTER_COMPLEX_ROW(asinh, std::asinh(z)),
    SINTER_COMPLEX_ROW(acosh, std::acosh(z)),
    SINTER_COMPLEX_ROW(atanh, std::atanh(z)),
    SINTER_COMPLEX_ROW(exp2, std::pow(2.0, z)),
    SINTER_COMPLEX_ROW(log2, std::log(z) / std::log(2.0)),
    SINTER_COMPLEX_ROW(log10, std::log10(z)),
    SINTER_COMPLEX_ROW(sigmoid, 1.0 / (1.0 + std::exp(-z))),
    SINTER_COMPLEX_ROW(conj, std::conj(z)),
    SINTER_COMPLEX_ROW(negative, -z),
    SINTER_COMPLEX_ROW(sgn, z / std::abs(z)),
    SINTER_COMPLEX_ROW(abs, std::abs(z)),
    SINTER_COMPLEX_ROW(log1p, std::log(1.0 + z)),
    SINTER_COMPLEX_ROW(expm1, std::exp(z) - 1.0),
    SINTER_COMPLEX_ROW(sinc, std::sin(std::numbers::pi* z) / (std::numbers::pi * z)),
    SINTER_COMPLEX_ROW(angle, std::arg(z)),
    SINTER_COMPLEX_ROW(real, z.real()),
    SINTER_COMPLEX_ROW(imag, z.imag()),
};
#undef SINTER_COMPLEX_ROW

}  // namespace

TEST_CASE("complex: elementwise functions give what std::complex does, lazily and compiled") {
  for (const Row& row : rows) {
    INFO(row.name);
    const Numbers want = mapped(some, row.oracle);
    CHECK(close(numbers(row.function(of(some))), want));
    CHECK(close(numbers(jit::compile(row.function)(of(some))), want));
    const Tensor single = row.function(of(some).to(DType::c64));
    CHECK(real_part_of(single.dtype()) == DType::f32);
    CHECK(close(numbers(single), want, 3e-6));
    CHECK(row.function(zeros({0}, {.dtype = DType::c64})).shape() == Shape{0});
  }
}

TEST_CASE("complex: functions on their branch cuts and far out") {
  const Numbers cuts{{-2, 0.0}, {-2, -0.0}, {2, 0.0}, {2, -0.0}, {0.0, 3}, {-0.0, 3}};
  for (const std::string name : {"sqrt", "log", "asin", "acos", "acosh"})
    for (const Row& row : rows)
      if (row.name == name) {
        INFO(name);
        CHECK(close(numbers(row.function(of(cuts))), mapped(cuts, row.oracle)));
      }
  const Numbers far{{500, 1}, {-500, 2}, {1, 300}, {1e200, 1e200}};
  CHECK(close(numbers(tanh(of(far))), mapped(far, [](C128 z) { return std::tanh(z); })));
  CHECK(numbers(abs(of(far)))[3].real() == std::abs(far[3]));
  CHECK(close(numbers(of(far) / of(far)), Numbers(4, 1.0)));
  CHECK(close(numbers(sqrt(of({{0, 0}}))), {0.0}));
}

TEST_CASE("complex: arithmetic with tensors and numbers of each kind") {
  const Tensor z = of(some), w = of(others), x = copy_of(std::vector<double>{1, -2, 3, 0.5, 4, -1, 2});
  const std::vector<double> reals = doubles(x);
  CHECK(close(numbers(z + w), mapped(some, others, std::plus<C128>())));
  CHECK(close(numbers(z - w), mapped(some, others, std::minus<C128>())));
  CHECK(close(numbers(z * w), mapped(some, others, std::multiplies<C128>())));
  CHECK(close(numbers(z / w), mapped(some, others, std::divides<C128>())));
  CHECK(close(numbers(pow(z, w)), mapped(some, others, [](C128 a, C128 b) { return std::pow(a, b); })));
  CHECK(close(numbers(z * x / z), Numbers(reals.begin(), reals.end())));
  CHECK(close(numbers(x - z), mapped(Numbers(reals.begin(), reals.end()), some, std::minus<C128>())));
  CHECK(close(numbers(2 / z), mapped(some, [](C128 a) { return 2.0 / a; })));
  CHECK(close(numbers(C128(0, 1) * z), mapped(some, [](C128 a) { return C128(0, 1) * a; })));
  CHECK(close(numbers(z + C64(1, 1)), mapped(some, [](C128 a) { return a + C128(1, 1); })));
  for (const int n : {-3, -1, 0, 1, 2, 5})
    CHECK(close(numbers(pow(z, n)), mapped(some, [n](C128 a) { return std::pow(a, n); })));
  CHECK(close(numbers(pow(2.0, z)), mapped(some, [](C128 a) { return std::pow(2.0, a); })));
  CHECK(close(numbers(pow(of({0.0, 0.0}), of({0.0, C128(2, 1)}))), {1.0, 0.0}));
  Tensor u = z;
  u += 1;
  u *= C128(0, 2);
  CHECK(close(numbers(u), mapped(some, [](C128 a) { return (a + 1.0) * C128(0, 2); })));
  Tensor r = x;
  CHECK_THROWS_AS(r *= C128(0, 1), DTypeError);  // a real tensor keeps its dtype
  // Named expressions, rank 0, broadcasting, and one operand twice.
  auto e = z * w;
  CHECK(close(numbers(e + e), mapped(some, others, [](C128 a, C128 b) { return a * b + a * b; })));
  CHECK(numbers(of({{1, 2}})(0) * C128(0, 1)) == Numbers{{-2, 1}});
  CHECK((reshape(z, {7, 1}) * reshape(w, {1, 7})).shape() == Shape{7, 7});
}

TEST_CASE("complex: dtypes are promoted as PyTorch promotes them") {
  using enum DType;
  struct Case {
    DType a, b, both, b_single, a_single, number;
  };
  const Case cases[] = {
      {f32, c64, c64, c64, c64, c64},      {f32, c128, c128, c64, c128, c64}, {f64, c64, c128, c128, c64, c128},
      {f64, c128, c128, c128, c128, c128}, {i64, c64, c64, c64, c64, c64},    {i64, c128, c128, c128, c128, c64},
      {bool_, c64, c64, c64, c64, c64},    {f16, c64, c64, c64, c64, c64},
  };
  for (const Case& c : cases) {
    INFO(std::string(name(c.a)) + " " + std::string(name(c.b)));
    const Tensor a = ones({2}, {.dtype = c.a}), b = ones({2}, {.dtype = c.b});
    CHECK((a * b).dtype() == c.both);
    CHECK((a * b(0)).dtype() == c.b_single);
    CHECK((a(0) * b).dtype() == c.a_single);
    CHECK((a * C128(0, 1)).dtype() == c.number);
    CHECK(promote(c.a, c.b) == c.both);
  }
  CHECK((ones({2}, {.dtype = c64}) * C128(0, 1)).dtype() == c64);
  CHECK((ones({2}, {.dtype = c64}) * 2.0).dtype() == c64);
  CHECK(abs(ones({2}, {.dtype = c128})).dtype() == f64);
  CHECK(is_complex(ones({2}, {.dtype = c64})));
  CHECK(!is_complex(ones({2})));
}

TEST_CASE("complex: reductions, comparisons and choices") {
  const Tensor z = of(some), w = of(others);
  C128 total = 0, product = 1;
  for (const C128& each : some) total += each, product *= each;
  CHECK(close(numbers(sum(z)), {total}));
  CHECK(close(numbers(mean(z)), {total / 7.0}));
  CHECK(close(numbers(prod(z)), {product}));
  CHECK(close(numbers(prod(reshape(concat({z, z}, 0), {2, 7}), 1, keepdim)), {product, product}));
  CHECK(numbers(prod(zeros({0}, {.dtype = DType::c64}))) == Numbers{1.0});
  double spread = 0, size = 0;
  for (const C128& each : some) spread += std::norm(each - total / 7.0) / 7, size += std::norm(each);
  CHECK(near(doubles(var(z)), {spread}));
  CHECK(near(doubles(norm(z)), {std::sqrt(size)}));
  CHECK(near(doubles(linalg::vector_norm(z, 1)), doubles(sum(abs(z)))));
  Numbers sums;
  for (const C128& each : some) sums.push_back(sums.empty() ? each : sums.back() + each);
  CHECK(close(numbers(cumsum(z, 0)), sums));

  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Tensor odd = of({{1, 0}, {nan, 1}, {2, inf}, {0, 0}});
  const auto bits = [](const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); };
  CHECK(bits(isnan(odd)) == std::vector<std::int64_t>{0, 1, 0, 0});
  CHECK(bits(isinf(odd)) == std::vector<std::int64_t>{0, 0, 1, 0});
  CHECK(bits(isfinite(odd)) == std::vector<std::int64_t>{1, 0, 0, 1});
  CHECK(bits(isreal(odd)) == std::vector<std::int64_t>{1, 0, 0, 1});
  CHECK(bits(odd == odd) == std::vector<std::int64_t>{1, 0, 1, 1});
  CHECK(bits(odd != C128(1, 0)) == std::vector<std::int64_t>{0, 1, 1, 1});
  CHECK(bits(z == real(z)) == std::vector<std::int64_t>{0, 0, 0, 0, 1, 0, 0});
  CHECK(item<bool>(any(odd)));
  CHECK(!item<bool>(all(odd)));
  CHECK(item<bool>(all(isclose(z * w / w, z))));
  CHECK(static_cast<bool>(allclose(z * w / w, z)));
  CHECK(allclose(z, conj(z)).mismatches == 6);
  CHECK(has(allclose(z, conj(z)).text(), "6 of 7 elements differ, most at (1): 3-4j and 3+4j"));
  CHECK(close(numbers(where(real(z) > 0, z, w)),
              mapped(some, others, [](C128 a, C128 b) { return a.real() > 0 ? a : b; })));
  CHECK(close(numbers(where(real(z) > 0, z, 0.0)), mapped(some, [](C128 a) { return a.real() > 0 ? a : 0.0; })));
  CHECK(numbers(nan_to_num(odd))[1] == C128(0, 1));
}

TEST_CASE("complex: shapes, parts and positions") {
  const Tensor z = of({{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}}), m = reshape(z, {2, 3});
  CHECK(numbers(m.t()) == Numbers{{1, 2}, {7, 8}, {3, 4}, {9, 10}, {5, 6}, {11, 12}});
  CHECK(numbers(m(1, slice(0, 3, 2))) == Numbers{{7, 8}, {11, 12}});
  CHECK(numbers(m(all, 1)) == Numbers{{3, 4}, {9, 10}});
  CHECK(numbers(expand(z(slice(0, 1)), {2, 2})) == Numbers(4, {1, 2}));
  CHECK(numbers(flip(z, 0))[0] == C128(11, 12));
  CHECK(numbers(concat({z(slice(0, 1)), ones({1})}, 0)) == Numbers{{1, 2}, 1.0});
  CHECK(numbers(stack({z, z}, 1)(1)) == Numbers(2, {3, 4}));
  CHECK(numbers(pad(z(slice(0, 1)), {{1, 1}}, 7)) == Numbers{7.0, {1, 2}, 7.0});
  CHECK(numbers(z(copy_of(std::vector<std::int64_t>{5, 0}))) == Numbers{{11, 12}, {1, 2}});
  CHECK(numbers(tril(m)) == Numbers{{1, 2}, 0.0, 0.0, {7, 8}, {9, 10}, 0.0});
  CHECK(numbers(roll(z, 1, 0))[0] == C128(11, 12));
  Tensor u = z;
  u.at(0) = C128(0, 1);
  u.at(slice(1, 3)) = 5;
  u.at(copy_of(std::vector<std::int64_t>{3, 3})) += C128(1, 1);
  CHECK(numbers(u) == Numbers{{0, 1}, 5.0, 5.0, {9, 10}, {9, 10}, {11, 12}});

  const Tensor pairs = view_as_real(m);
  CHECK(pairs.shape() == Shape{2, 3, 2});
  CHECK(doubles(pairs(0)) == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(numbers(view_as_complex(pairs)) == numbers(z));
  CHECK(numbers(view_as_complex(permute(reshape(arange(8).to(DType::f32), {2, 4}), {1, 0}))) ==
        Numbers{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // Neighbours of two pairs: a view that begins at an odd element.
  const Tensor shifted = reshape(reshape(pairs, {12})(slice(1, 11)), {5, 2});
  CHECK(numbers(view_as_complex(shifted)) == Numbers{{2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}});
  auto both = jit::compile(
      [](Tensor a) { return std::tuple{a, view_as_real(a), a.t(), real(a), view_as_complex(view_as_real(a)), a * 2}; });
  for (int call = 0; call < 2; ++call) {
    auto [same, reals, turned, re, again, twice] = both(m.t());
    CHECK(numbers(same) == numbers(m.t()));
    CHECK(doubles(reals) == doubles(view_as_real(m.t())));
    CHECK(numbers(turned) == numbers(m));
    CHECK(doubles(re) == std::vector<double>{1, 7, 3, 9, 5, 11});
    CHECK(numbers(again) == numbers(m.t()));
    CHECK(numbers(twice) == numbers(m.t() * 2));
  }
}

TEST_CASE("complex: products of matrices") {
  manual_seed(3);
  const TensorOptions complex_numbers{.dtype = DType::c128};
  const Tensor a = randn({3, 4}, complex_numbers), b = randn({4, 5}, complex_numbers),
               x = randn({4, 2}, {.dtype = DType::f64});
  const auto product = [](const Tensor& p, const Tensor& q) {
    Tensor out = zeros({p.size(0), q.size(1)}, {.dtype = DType::c128});
    for (int k = 0; k < p.size(1).value(); ++k) out = out + p(all, slice(k, k + 1)) * q(slice(k, k + 1));
    return numbers(out);
  };
  CHECK(close(numbers(matmul(a, b)), product(a, b)));
  CHECK(close(numbers(matmul(a, x)), product(a, x)));
  CHECK(close(numbers(matmul(x.t(), b)), product(x.t(), b)));
  CHECK(close(numbers(matmul(b.t(), a.t())), product(b.t(), a.t())));
  CHECK(close(numbers(jit::compile([](Tensor p, Tensor q) { return matmul(p, q); })(a, b)), product(a, b)));
  CHECK(close(numbers(einsum("ij,jk->ik", a, b)), product(a, b)));
  CHECK(close(numbers(tensordot(a, b, 1)), product(a, b)));
  CHECK(close(numbers(matmul(stack({a, a}, 0), b)(1)), product(a, b)));
  CHECK(close(numbers(matmul(a, b(all, 0))), numbers(matmul(a, b)(all, 0))));
  CHECK(close(numbers(vdot(of({{1, 2}, {0, 1}}), of({{3, 0}, {1, 1}}))), {C128(4, -7)}));
  CHECK(close(numbers(dot(of({{1, 2}, {0, 1}}), of({{3, 0}, {1, 1}}))), {C128(2, 7)}));
  CHECK(close(numbers(outer(of({{1, 2}}), of({{3, 0}, {1, 1}}))), {{3, 6}, {-1, 3}}));
  CHECK(close(numbers(kron(of({{0, 1}}), of({{3, 0}, {1, 1}}))), {{0, 3}, {-1, 1}}));
  CHECK(numbers(matmul(zeros({2, 0}, complex_numbers), zeros({0, 1}, complex_numbers))) == Numbers(2, 0.0));
}

TEST_CASE("complex: making, casting and reading") {
  CHECK(numbers(complex(tensor({1.f, 2.f}), 3.f)) == Numbers{{1, 3}, {2, 3}});
  CHECK(complex(1.0, ones({2}, {.dtype = DType::f64})).dtype() == DType::c128);
  CHECK(close(numbers(polar(tensor({2.0, 1.0}), tensor({0.5, -1.0}))), {std::polar(2.0, 0.5), std::polar(1.0, -1.0)}));
  CHECK(full({2}, C64(1, 2)).dtype() == DType::c64);
  CHECK(numbers(full({2}, C128(1, 2), {.dtype = DType::c64})) == Numbers(2, {1, 2}));
  CHECK(numbers(full({2}, 3, {.dtype = DType::c64})) == Numbers(2, 3.0));
  CHECK(numbers(eye(2, {.dtype = DType::c64})) == Numbers{1.0, 0.0, 0.0, 1.0});
  CHECK(numbers(linspace(0, 1, 3, {.dtype = DType::c64})) == Numbers{0.0, 0.5, 1.0});
  CHECK(numbers(zeros_like(of(some))) == Numbers(7, 0.0));
  const Tensor drawn = randn({10000}, {.dtype = DType::c64});
  CHECK(std::abs(item<float>(mean(square(abs(drawn)))) - 1) < 0.1);
  CHECK(numbers(tensor({C64(1, 2), C64(3, 4)})) == Numbers{{1, 2}, {3, 4}});
  CHECK(numbers(tensor({{C64(1, 2)}, {C64(3, 4)}})) == Numbers{{1, 2}, {3, 4}});
  CHECK(of(some).to(DType::c64).dtype() == DType::c64);
  CHECK(numbers(tensor({1, 2}).to(DType::c64)) == Numbers{1.0, 2.0});

  std::vector<C64> memory{{1, 2}, {3, 4}, {5, 6}};
  CHECK(numbers(copy_of(borrow(memory, {3}))) == Numbers{{1, 2}, {3, 4}, {5, 6}});
  const Tensor held = adopt(std::vector<C64>(memory), {3});
  CHECK(held.data<C64>()[1] == C64(3, 4));
  const auto owner = std::make_shared<std::vector<C64>>(memory);
  const Tensor blob = from_blob(owner, owner->data(), {3}, DType::c64);
  CHECK(numbers(blob * 2)[2] == C128(10, 12));
  CHECK(to_vector<C64>(tensor({1.f})) == std::vector<C64>{1.f});
  CHECK(item<C128>(blob(1)) == C128(3, 4));
  CHECK(item<C64>(sum(tensor({1.f, 2.f}))) == C64(3, 0));
  std::vector<C64> place(3);
  jit::compile([](Tensor a) { return a * C64(0, 1); }).into(borrow_mut(place, {3}))(held);
  CHECK(place == std::vector<C64>{{-2, 1}, {-4, 3}, {-6, 5}});
}

TEST_CASE("complex: printing") {
  CHECK(to_string(tensor({C64(1, 2), C64(3, -4)})) == "[1.+2.j, 3.-4.j]");
  CHECK(to_string(tensor({C64(1.5f, 2), C64(-3, -40)})) == "[ 1.5 +2.j, -3. -40.j]");
  CHECK(to_string(tensor({C64(0, 1)})(0)) == "1j");
  CHECK(to_string(tensor({C64(1, -0.5f)})(0)) == "(1-0.5j)");
  CHECK(of(some).impl()->type.text() == "c128[7]");
}

TEST_CASE("complex: gradients are PyTorch's, lazily, on the tape and compiled") {
  const Numbers a{{1, 2}, {3, -4}, {-0.5, 1}}, b{{0.3, -1}, {2, 0.25}, {-1, -1.5}};
  struct Case {
    const char* name;
    std::function<Tensor(Tensor, Tensor)> loss;
    double value;
    Numbers by_a, by_b;
  };
  const Case cases[] = {
      {"mul",
       [](Tensor z, Tensor w) { return sum(square(abs(z * w + z))); },
       242.825,
       {{5.38, 10.76}, {54.375, -72.5}, {-2.25, 4.5}},
       {{13, -10}, {150, 12.5}, {0, -3.75}}},
      {"div",
       [](Tensor z, Tensor w) { return sum(imag(z / w)) + sum(real(w / z)); },
       -2.1644177840508116,
       {{1.1134311926605505, 0.3472293577981651},
        {-0.02953846153846154, 0.5663076923076924},
        {-0.9784615384615388, -0.22769230769230772}},
       {{1.226849591785203, 2.1759447857924417},
        {1.2560946745562132, -0.6333727810650888},
        {-0.4236686390532544, 0.45680473372781066}}},
      {"exp",
       [](Tensor z, Tensor w) { return sum(real(exp(z) * sin(w))); },
       -8.517346393487648,
       {{2.2591964177931496, -2.3971532021567037},
        {-10.715012798877908, -15.636374922489008},
        {-0.0615300124028884, 1.3873005892255863}},
       {{-2.525997696452228, -3.2508612282456184},
        {9.126743148612634, 3.508792122195763},
        {1.3309812392334586, -0.061530012402888336}}},
      {"log",
       [](Tensor z, Tensor w) { return sum(imag(log(z) * sqrt(w))); },
       0.401663318223628,
       {{-0.4498922816509587, -0.08001915451381313},
        {0.237299997348278, 0.1559207771321473},
        {-0.03332049058459159, -1.20046251715445}},
       {{0.6697240777049485, -0.007472533156504473},
        {-0.36116979299296237, 0.5454327693261138},
        {0.3941157196303434, -0.6483593439523765}}},
      {"tanh",
       [](Tensor z, Tensor w) { return sum(abs(tanh(z) * conj(w))); },
       5.63839516033126,
       {{-0.42980480056158044, -0.5162063364484617},
        {-0.002909768004130691, -0.019785825964862593},
        {1.0530293125695043, 3.021177364812769}},
       {{0.3424802747573289, -1.1416009158577631},
        {0.9929938775911795, 0.12412423469889745},
        {-0.731394260981297, -1.0970913914719453}}},
      {"angle",
       [](Tensor z, Tensor w) { return sum(angle(z)) + sum(imag(sgn(w))); },
       0.5484555906183943,
       {{-0.4, 0.2}, {0.16, 0.12}, {-0.8, -0.4}},
       {{0.26362191336361956, 0.07908657400908595},
        {-0.06106325395161033, 0.4885060316128826},
        {-0.25601547518087503, 0.17067698345391663}}},
      {"matmul",
       [](Tensor z, Tensor w) { return sum(abs(matmul(outer(z, w), z))); },
       115.18364830930062,
       {{13.00676924635429, 17.742855697222232},
        {20.769516211063333, -22.315229687282887},
        {-5.832785048657711, 27.388956071152094}},
       {{-2.7265987237867058, -18.480280238998784},
        {39.687159201784276, 13.027082791425372},
        {-8.210091712735526, -4.453444582184953}}},
      {"pow",
       [](Tensor z, Tensor w) { return sum(real(pow(z, w))); },
       -4.002140318658451,
       {{-1.7271628922459787, 0.5013877761381963},
        {11.701139587296808, 4.955174522019259},
        {30.31311703796385, 3.4050133266850544}},
       {{4.701130911913841, -2.386295698921046},
        {-23.024247240971267, 53.83484994297529},
        {29.830419093851948, 24.409808773204848}}},
      {"prod",
       [](Tensor z, Tensor w) { return real(prod(z)) + sum(abs(cumsum(w, 0))); },
       -1.4382179763910994,
       {{2.5, -5}, {-2.5, 0}, {11, -2}},
       {{1.7383553229224533, -2.133711958296619},
        {1.451007437356108, -1.1758856730754674},
        {0.5002775978746291, -0.8658650732445505}}},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    CHECK(near(doubles(c.loss(of(a), of(b))), {c.value}));
    const auto check = [&](const Tensor& by_a, const Tensor& by_b) {
      CHECK(by_a.dtype() == DType::c128);
      CHECK(close(numbers(by_a), c.by_a, 1e-10));
      CHECK(close(numbers(by_b), c.by_b, 1e-10));
    };
    const auto by_both = jit::grad<0, 1>(c.loss);
    auto [da, db] = by_both(of(a), of(b));
    check(da, db);
    auto [ca, cb] = jit::compile(by_both)(of(a), of(b));
    check(ca, cb);
    Variable z(of(a)), w(of(b));
    z.requires_grad();
    w.requires_grad();
    c.loss(z, w).backward();
    check(z.grad(), w.grad());
    Variable y(of(a)), v(of(b));
    y.requires_grad();
    v.requires_grad();
    jit::compile(c.loss)(y.value(), v.value()).backward();
    check(y.grad(), v.grad());
  }
  // |z| has the gradient 0 at 0, and so have what is made of it.
  CHECK(numbers(jit::grad([](Tensor z) { return sum(abs(z)); })(of({0.0, {3, 4}}))) == Numbers{0.0, {0.6, 0.8}});
}

TEST_CASE("complex: compiled functions fuse, and follow dtypes and sizes") {
  auto f = jit::compile([](Tensor z, Tensor w) { return z * w + z; });
  CHECK(close(numbers(f(of(some), of(others))), mapped(some, others, [](C128 a, C128 b) { return a * b + a; })));
  CHECK(f(of(some).to(DType::c64), of(others).to(DType::c64)).dtype() == DType::c64);
  CHECK(numbers(f(ones({3}), ones({3}))) == Numbers(3, 2.0));
  for (const int n : {4, 5, 300})
    CHECK(numbers(f(full({n}, C128(0, 1)), full({n}, C128(0, 1)))) == Numbers(static_cast<std::size_t>(n), {-1, 1}));
  auto rotation = jit::compile([](Tensor z, Scalar turn) { return z * polar(Tensor(1.f), Tensor(turn)); });
  CHECK(close(numbers(rotation(of(some).to(DType::c64), 0.5f)),
              mapped(some, [](C128 z) { return z * std::polar(1.0, 0.5); }), 1e-6));
  auto spread = jit::vmap([](Tensor z) { return z * sum(z) + C128(0, 1); });
  const Tensor two = stack({of(some), of(others)}, 0);
  C128 total = 0;
  for (const C128& each : others) total += each;
  CHECK(close(numbers(spread(two)(1)), mapped(others, [&](C128 z) { return z * total + C128(0, 1); })));
  auto squared =
      jit::compile([](Tensor z) { return jit::fori_loop(0, 3, [](Scalar, Tensor at) { return Tensor(at * at); }, z); });
  CHECK(close(numbers(squared(of(others))), mapped(others, [](C128 z) { return std::pow(z, 8); })));
  CHECK(close(numbers(call("mul", {of(some), of(others)})[0]), mapped(some, others, std::multiplies<C128>())));
  auto guarded = jit::compile([](Tensor z) { return item<C128>(sum(z)).real() > 0 ? Tensor(z * 2) : Tensor(-z); });
  CHECK(numbers(guarded(of({{1, 1}}))) == Numbers{{2, 2}});
  CHECK(numbers(guarded(of({{-1, 1}}))) == Numbers{{1, -1}});
}

TEST_CASE("complex: layouts, donated arguments, sub-graphs and forward derivatives") {
  const Tensor z = of({{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, 12}});
  auto twice = jit::compile([](Tensor a) { return a * 2; });
  Tensor turned = reshape(z, {3, 2}).t();
  eval(turned);
  CHECK(numbers(turned)[1] == C128(5, 6));
  CHECK(numbers(twice(turned))[1] == C128(10, 12));
  CHECK(numbers(twice(turned(all, slice(0, 3, 2))))[1] == C128(18, 20));
  // Memory may be taken over by results of the same kind of elements only: offsets count them.
  const auto part_of = [](const Tensor& x) {
    Tensor part = x(slice(1, x.size(0)));
    eval(part);
    return part;
  };
  auto to_real = jit::compile([](Tensor a) { return view_as_real(a) + 1; });
  auto to_complex = jit::compile([](Tensor a) { return view_as_complex(a + 1); });
  auto kept = jit::compile([](Tensor a) { return a * C128(0, 1); });
  CHECK(doubles(to_real(part_of(of(Numbers(9, {3, 4})))))[0] == 4);
  CHECK(numbers(to_complex(part_of(zeros({9, 2}))))[7] == C128(1, 1));
  CHECK(numbers(kept(part_of(of(Numbers(9, {3, 4})))))[7] == C128(-4, 3));

  const Tensor i = of({{0, 1}, {0, 1}}), one = of({{1, 2}});
  auto block = jit::region([](Tensor a) { return Tensor(a * a); });
  CHECK(close(numbers(jit::compile([&](Tensor a) { return block(block(a)); })(i)), {1.0, 1.0}));
  auto chosen = jit::compile([](Tensor a) {
    return jit::cond(real(sum(a)) > 0, [](Tensor b) { return Tensor(b * 2); }, [](Tensor b) { return Tensor(-b); }, a);
  });
  CHECK(numbers(chosen(one)) == Numbers{{2, 4}});
  CHECK(numbers(chosen(-one)) == Numbers{{1, 2}});
  const C128 slope = std::conj(3.0 * C128(1, 2) * C128(1, 2)), power = std::conj(8.0 * std::pow(C128(0.5, 0.5), 7));
  const auto cube = [](Tensor a) { return Tensor(a * a * a); };
  CHECK(close(numbers(jit::grad([&](Tensor a) { return sum(real(jit::checkpoint(cube)(a))); })(one)), {slope}));
  const auto repeated = [](Tensor a) {
    return sum(real(jit::fori_loop(0, 3, [](Scalar, Tensor b) { return Tensor(b * b); }, a)));
  };
  CHECK(close(numbers(jit::grad(repeated)(of({{0.5, 0.5}}))), {power}));
  const auto along = jit::jvp([](Tensor a) { return Tensor(a * a); }, one, of({{0, 1}}));
  CHECK(close(numbers(std::get<1>(along)), {C128(0, 1) * C128(2, 4)}));
}

TEST_CASE("complex: what has no meaning for complex numbers is refused, with the line and another way") {
  const Tensor z = of(some);
  const auto text = [](auto&& run) { return message_of<DTypeError>([&] { static_cast<void>(Tensor(run())); }); };
  CHECK(has(text([&] { return z < z; }), "lt: complex numbers have no order"));
  CHECK(has(text([&] { return z < z; }), "complex_test.cpp"));
  CHECK(has(text([&] { return z < z; }), "compare abs(z), real(z) or imag(z)"));
  CHECK(has(text([&] { return amax(z); }), "no order"));
  CHECK(has(text([&] { return argmax(z); }), "no order"));
  CHECK(has(text([&] { return maximum(z, 1); }), "no order"));
  CHECK(has(text([&] { return clamp(z, 0, 1); }), "no order"));
  CHECK(has(message_of<DTypeError>([&] { sort(z, 0); }), "no order"));
  CHECK(has(text([&] { return sign(z); }), "sgn(z)"));
  CHECK(has(text([&] { return floor(z); }), "floor: there is no such operation on complex numbers: c128[7]"));
  CHECK(has(text([&] { return softmax(z, 0); }), "real(z) and imag(z)"));
  CHECK(has(text([&] { return relu(z); }), "no such operation"));
  CHECK(has(text([&] { return z % 2; }), "no such operation"));
  CHECK(has(text([&] { return nansum(z); }), "a real tensor is required"));
  CHECK(has(text([&] { return cov(reshape(z, {1, 7})); }), "a real tensor is required"));
  CHECK(has(text([&] { return z.to(DType::f32); }), "would lose its imaginary part as f32"));
  CHECK(has(text([&] { return imag(real(z)); }), "c64 or c128 is required"));
  CHECK(has(text([&] { return complex(z, z); }), "it must be real"));
  CHECK(has(text([&] { return view_as_complex(ones({2}, {.dtype = DType::i32})); }), "f32 or f64"));
  CHECK(has(message_of<ShapeError>([&] { view_as_complex(ones({3})); }), "its last axis must have extent 2"));
  CHECK(has(message_of<ShapeError>([&] { complex(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0); }), "limited to 7"));
  CHECK(has(message_of<DTypeError>([&] { to_vector<float>(z); }), "no place for imaginary parts"));
  CHECK(has(message_of<DTypeError>([&] { item(z(0)); }), "real number"));
  CHECK(has(message_of<DTypeError>([&] { z.data<float>(); }), "c128, not f32"));
  CHECK(has(message_of<DTypeError>([&] { jit::grad([](Tensor x) { return sum(x); })(z); }), "a loss is a real number"));
  Variable w(z);
  w.requires_grad();
  CHECK(has(message_of<DTypeError>([&] { Tensor(sum(w * w)).backward(); }), "a loss is a real number"));
  // A condition and an index are no complex numbers.
  const Tensor r = arange(3).to(DType::f64), c = of({0, 1});
  CHECK(has(text([&] { return where(z, 1, 2); }), "where: the condition is c128[7], it must be bool"));
  CHECK(has(text([&] { return masked_fill(r, of({0, 1, 2}), 3); }), "c128[3]"));
  CHECK(has(text([&] { return take(r, c); }), "the index is c128[2], it must be an integer"));
  CHECK(has(text([&] { return take(z, c); }), "cast a part: real(z).to(DType::i64)"));
  CHECK(has(text([&] { return embedding(c, ones({2, 2})); }), "c128"));
  CHECK(has(text([&] { return scatter_add(r, 0, c, ones({2})); }), "it must be an integer"));
  CHECK(has(text([&] { return take_along_axis(r, c, 0); }), "it must be an integer"));
  CHECK(has(text([&] { return r(c); }), "c128[2]"));
  CHECK(has(message_of<DTypeError>([&] {
              Tensor u = r;
              u.at(c) = 1;
            }),
            "c128[2]"));
  CHECK(has(text([&] { return huber_loss(z, z); }), "huber_loss: an operand is c128[7], real tensors are required"));
  CHECK(has(text([&] { return smooth_l1_loss(z, z); }), "view_as_real"));
  CHECK(has(text([&] { return mse_loss(z, z); }), "mse_loss: there is no such operation"));
  CHECK(has(text([&] { return poisson_nll_loss(z, z); }), "poisson_nll_loss: "));
  CHECK(has(text([&] { return gaussian_nll_loss(z, z, ones({7})); }), "gaussian_nll_loss: "));
  CHECK(has(text([&] { return cosine_similarity(z, z, 0); }), "a real tensor is required"));
  CHECK(has(message_of<DTypeError>([&] { jit::jacobian([](Tensor x) { return x * x; })(z); }), "view_as_real(z)"));
}
