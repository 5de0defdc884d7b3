// Linear algebra over complex matrices, and eigenvalues of any matrices: values and gradients against PyTorch (the
// table in linalg_complex_values.hpp), what decompositions put together again, c64, maps and compiled functions,
// matrices that have no result, empty ones.
#include "../catch.hpp"
#include "../checks.hpp"
#include "linalg_complex_values.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

const TensorOptions numbers{.dtype = DType::f64};

/// The numbers of `some` in linalg_complex_values.py.
Tensor some(const Shape& shape, double seed, DType dtype = DType::c128) {
  const Tensor k = arange(shape.numel(), numbers);
  const Tensor re = sin(k * k * 0.37 + k + seed), im = sin(k * k * 0.21 + 2 * k + seed + 1);
  return complex(re, im).reshape(shape).to(dtype);
}
Tensor adjoint(const Tensor& a) { return transpose(conj(a), -2, -1); }
Tensor one(const Tensor& a) { return eye(a.size(-1), {.dtype = a.dtype()}); }
Tensor positive(const Tensor& a) { return matmul(a, adjoint(a)) + one(a); }
Tensor hermitian(const Tensor& a) { return (a + adjoint(a)) / 2; }
Tensor shifted(const Tensor& a) { return a + 2 * one(a); }
Tensor right(const Tensor& a) {
  Shape shape = a.shape();
  shape.set(shape.rank() - 1, 2);
  return some(shape, 5, a.dtype());
}
Tensor turned(const Tensor& a) { return transpose(a, -2, -1); }
Tensor squares(const Tensor& a) { return square(abs(a)); }
Tensor eig_numbers(const Tensor& a) {
  const auto [values, vectors] = linalg::eig(a);
  return sum(squares(vectors) * unsqueeze(squares(values), -2), -1);
}
linalg::Svd thin(const Tensor& a) { return linalg::svd(a, {.full_matrices = false}); }

struct Function {
  const char* name;
  Tensor (*call)(const Tensor& a);
};
const Function functions[] = {
    {"solve", [](const Tensor& a) { return linalg::solve(a, right(a)); }},
    {"solve from the right", [](const Tensor& a) { return linalg::solve(a, turned(right(a)), {.left = false}); }},
    {"inv", [](const Tensor& a) { return linalg::inv(a); }},
    {"det", [](const Tensor& a) { return linalg::det(a); }},
    {"sign", [](const Tensor& a) { return linalg::slogdet(a).sign; }},
    {"logabsdet", [](const Tensor& a) { return linalg::slogdet(a).logabsdet; }},
    {"cholesky", [](const Tensor& a) { return linalg::cholesky(positive(a)); }},
    {"cholesky upper", [](const Tensor& a) { return linalg::cholesky(positive(a), {.upper = true}); }},
    {"cholesky_solve", [](const Tensor& a) { return linalg::cholesky_solve(right(a), linalg::cholesky(positive(a))); }},
    {"cholesky_solve upper",
     [](const Tensor& a) {
       return linalg::cholesky_solve(right(a), linalg::cholesky(positive(a), {.upper = true}), {.upper = true});
     }},
    {"cholesky_inverse", [](const Tensor& a) { return linalg::cholesky_inverse(linalg::cholesky(positive(a))); }},
    {"solve_triangular", [](const Tensor& a) { return linalg::solve_triangular(shifted(a), right(a)); }},
    {"solve_triangular upper",
     [](const Tensor& a) { return linalg::solve_triangular(shifted(a), right(a), {.upper = true}); }},
    {"solve_triangular unit",
     [](const Tensor& a) { return linalg::solve_triangular(a, right(a), {.upper = true, .unitriangular = true}); }},
    {"solve_triangular right",
     [](const Tensor& a) { return linalg::solve_triangular(shifted(a), turned(right(a)), {.left = false}); }},
    {"eigh values", [](const Tensor& a) { return linalg::eigh(hermitian(a)).eigenvalues; }},
    {"eigh vectors", [](const Tensor& a) { return squares(linalg::eigh(hermitian(a)).eigenvectors); }},
    {"eigvalsh upper", [](const Tensor& a) { return linalg::eigvalsh(hermitian(a), {.upper = true}); }},
    {"svdvals", [](const Tensor& a) { return linalg::svdvals(a); }},
    {"svd left", [](const Tensor& a) { return squares(thin(a).u); }},
    {"svd right", [](const Tensor& a) { return squares(thin(a).vh); }},
    {"svd phases",
     [](const Tensor& a) {
       const auto [u, s, vh] = thin(a);
       return matmul(u, vh);
     }},
    {"pinv", [](const Tensor& a) { return linalg::pinv(a); }},
    {"lstsq", [](const Tensor& a) { return linalg::lstsq(a, right(a)).solution; }},
    {"lstsq of full rank",
     [](const Tensor& a) { return linalg::lstsq(a, right(a), {.driver = linalg::LstsqDriver::gels}).solution; }},
    {"matrix_exp", [](const Tensor& a) { return linalg::matrix_exp(a); }},
    {"matrix_power", [](const Tensor& a) { return linalg::matrix_power(a, -2); }},
    {"nuclear norm", [](const Tensor& a) { return linalg::matrix_norm(a, linalg::nuc); }},
    {"condition", [](const Tensor& a) { return linalg::cond(a); }},
    {"eigvals", [](const Tensor& a) { return sum(pow(linalg::eigvals(a), 3), -1); }},
    {"eig", [](const Tensor& a) { return eig_numbers(a); }},
    {"eig of real", [](const Tensor& a) { return eig_numbers(real(a)); }},
};

Tensor weighted(const Tensor& y, double seed) {
  const Tensor w = some(y.shape(), seed);
  return is_complex(y.dtype()) ? sum(real(y * w)) : sum(y * real(w));
}
bool near_number(double got, double want) { return std::abs(got - want) <= 1e-8 * (1 + std::abs(want)); }
bool agree(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  return item<double>(amax(abs((a - b).to(DType::c128)))) <= tolerance;
}

}  // namespace

TEST_CASE("complex matrices: values and gradients are PyTorch's") {
  for (const ComplexMatrixCase& row : complex_matrix_cases()) {
    const Function* found = nullptr;
    for (const Function& each : functions)
      if (std::string(each.name) == row.function) found = &each;
    REQUIRE(found != nullptr);
    Shape shape;
    for (const long extent : row.shape) shape.push_back(Dim(extent));
    INFO(row.function << " " << shape.text());
    const Tensor a = some(shape, 3);
    const auto [loss, gradient] = jit::value_and_grad([&](Tensor x) { return weighted(found->call(x), 7); })(a);
    CHECK(near_number(item<double>(loss), row.loss));
    for (std::size_t i = 0; i < 3; ++i) {
      const Tensor projected = sum(real(conj(gradient) * some(shape, 11 + static_cast<double>(i))));
      CAPTURE(i, item<double>(projected), row.slopes[i]);
      CHECK(near_number(item<double>(projected), row.slopes[i]));
    }
  }
}

TEST_CASE("complex matrices: decompositions give the matrix back, in c64 too") {
  for (const DType dtype : {DType::c64, DType::c128}) {
    const double tolerance = dtype == DType::c64 ? 2e-5 : 1e-12;
    CAPTURE(name(dtype));
    const Tensor a = some({2, 5, 3}, 1, dtype), square_one = some({2, 6, 6}, 2, dtype), b = some({2, 6, 2}, 4, dtype);
    const auto [u, s, vh] = linalg::svd(a);
    CHECK((u.shape() == Shape{2, 5, 5} && vh.shape() == Shape{2, 3, 3} && s.dtype() == real_part_of(dtype)));
    CHECK(u.dtype() == dtype);
    CHECK(agree(matmul(u(all, all, slice(0, 3)) * unsqueeze(s, -2), vh), a, tolerance));
    CHECK(agree(matmul(adjoint(u), u), expand(eye(5, {.dtype = dtype}), {2, 5, 5}), tolerance));
    const Tensor h = positive(square_one);
    const auto [values, vectors] = linalg::eigh(h);
    CHECK(agree(matmul(vectors * unsqueeze(values, -2), adjoint(vectors)), h, 100 * tolerance));
    const auto [l, v] = linalg::eig(square_one);
    CHECK(agree(matmul(square_one, v), v * unsqueeze(l, -2), 10 * tolerance));
    CHECK(agree(sum(squares(v), -2), ones({2, 6}, {.dtype = real_part_of(dtype)}), tolerance));
    const Tensor factor = linalg::cholesky(h);
    CHECK(agree(matmul(factor, adjoint(factor)), h, 100 * tolerance));
    CHECK(agree(triu(factor, 1), zeros({2, 6, 6}, {.dtype = dtype}), 0));
    CHECK(agree(matmul(square_one, linalg::solve(square_one, b)), b, 100 * tolerance));
    CHECK(linalg::lstsq(square_one, b).residuals.dtype() == real_part_of(dtype));
    CHECK(to_vector<std::int64_t>(linalg::matrix_rank(matmul(a, adjoint(a)))) == std::vector<std::int64_t>{3, 3});
  }
}

TEST_CASE("complex matrices: only one triangle is read, and real parts of the diagonal") {
  const Tensor h = positive(some({3, 3}, 2)),
               noise = triu(some({3, 3}, 9), 1) + diag(some({3}, 8) - conj(some({3}, 8)));
  CHECK(agree(linalg::cholesky(h + noise), linalg::cholesky(h)));
  CHECK(agree(linalg::eigvalsh(h + noise), linalg::eigvalsh(h)));
  CHECK(agree(linalg::cholesky(h + adjoint(noise), {.upper = true}), adjoint(linalg::cholesky(h))));
  const Tensor t = shifted(some({3, 3}, 2));
  CHECK(agree(linalg::solve_triangular(t, right(t)), linalg::solve(tril(t), right(t))));
}

TEST_CASE("complex matrices: what eigh does not read need not be finite") {
  Tensor a = hermitian(some({3, 3}, 2));
  const Tensor want = linalg::eigvalsh(a);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  a.at(0, 2) = complex(full({}, nan, numbers), full({}, nan, numbers));
  CHECK(agree(linalg::eigvalsh(a), want));
  a.at(2, 0) = complex(full({}, nan, numbers), full({}, 0, numbers));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::eigvalsh(a)); }),
            "eigh: the matrix has elements that are not finite"));
}

TEST_CASE("complex matrices: equal eigenvalues, real matrices with complex ones, one operand real") {
  const Tensor unit = eye(4, {.dtype = DType::c128});
  const auto [values, vectors] = linalg::eigh(unit);
  CHECK(agree(matmul(adjoint(vectors), vectors), unit));
  CHECK(agree(values, ones({4}, numbers)));
  const Tensor rotation = tensor({{0.0, -1.0}, {1.0, 0.0}});
  const Tensor found = linalg::eigvals(rotation);
  CHECK(found.dtype() == DType::c128);
  CHECK(agree(found * found, -ones({2}, numbers)));
  CHECK(linalg::eigvals(rotation.to(DType::f32)).dtype() == DType::c64);
  const Tensor a = some({3, 3}, 1), b = real(some({3}, 2));
  CHECK(agree(matmul(a, linalg::solve(a, b)), b));
  CHECK(agree(matmul(real(a), linalg::solve(real(a), some({3}, 2))), some({3}, 2)));
}

TEST_CASE("complex matrices: singular ones are named or have determinant 0; empty ones") {
  const Tensor a = matmul(some({3, 1}, 1), some({1, 3}, 2)) * 0, b = some({3}, 1);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::solve(a, b)); }), "solve: the matrix is singular"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::inv(stack({shifted(some({3, 3}, 1)), a}, 0))); }),
            "inv: matrix (1,) of (2,) is singular"));
  CHECK(item<std::int32_t>(linalg::inv_ex(a).info) != 0);
  CHECK(agree(linalg::det(a), zeros({}, numbers), 0));
  CHECK(item<double>(linalg::slogdet(a).logabsdet) == -std::numeric_limits<double>::infinity());
  const Tensor indefinite = diag(tensor({1.0, -1.0, 1.0})).to(DType::c128);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::cholesky(indefinite)); }),
            "cholesky: the matrix is not positive"));
  CHECK(item<std::int32_t>(linalg::cholesky_ex(indefinite).info) == 2);
  CHECK(has(message_of<LinalgError>([&] {
              eval(linalg::eigvals(
                  a + complex(full({}, std::numeric_limits<double>::infinity()).to(DType::f64), zeros({}, numbers))));
            }),
            "eig: the matrix has elements that are not finite"));
  CHECK(has(message_of<DTypeError>([&] { linalg::qr(ones({2, 2}, {.dtype = DType::f16})); }),
            "qr: a is f16, it must be f32, f64, c64 or c128"));
  CHECK(has(message_of<ShapeError>([&] { linalg::eig(some({3, 2}, 1)); }), "square matrices (..., n, n) are required"));
  const Tensor empty = zeros({0, 0}, {.dtype = DType::c128});
  CHECK(agree(linalg::det(empty), ones({}, numbers)));
  CHECK(linalg::eigvals(empty).shape() == Shape{0});
  CHECK(linalg::solve(zeros({0, 2, 2}, {.dtype = DType::c128}), zeros({0, 2, 1}, numbers)).shape() == Shape{0, 2, 1});
  CHECK(linalg::svd(zeros({0, 3}, {.dtype = DType::c128})).vh.shape() == Shape{3, 3});
}

TEST_CASE("complex matrices: compiled, mapped, of strided operands, differentiated twice") {
  const Tensor batch = some({4, 3, 3}, 1), b = some({4, 3}, 2);
  const auto solve = [](Tensor a, Tensor x) { return linalg::solve(a, x); };
  const Tensor want = linalg::solve(batch, b);
  CHECK(agree(jit::compile(solve)(batch, b), want));
  CHECK(agree(jit::vmap(solve)(batch, b), want));
  const auto values = [](Tensor a) { return linalg::eigh(hermitian(a)).eigenvalues; };
  CHECK(agree(jit::vmap(values)(batch), values(batch)));
  CHECK(agree(jit::compile([](Tensor a) { return linalg::det(a); })(turned(batch)), linalg::det(batch)));
  // The second derivative of log|det| along a line, by differences of the first.
  const Tensor a = some({3, 3}, 4), step = some({3, 3}, 6);
  const auto slope = [&](Tensor t) {
    return jit::grad([&](Tensor s) { return linalg::slogdet(a + s * step).logabsdet; })(t);
  };
  const Tensor zero = zeros({}, numbers);
  const double second = item<double>(jit::grad(slope)(zero)), h = 1e-5;
  const double difference = (item<double>(slope(zero + h)) - item<double>(slope(zero - h))) / (2 * h);
  CHECK(std::abs(second - difference) <= 1e-5 * (1 + std::abs(second)));
}

TEST_CASE("complex matrices: pivots and minors are counted in rows of the complex matrix") {
  const Tensor a = diag(tensor({1.0, 1.0, 0.0, 1.0})).to(DType::c128), b = some({4}, 1);
  CHECK(
      has(message_of<LinalgError>([&] { eval(linalg::solve(a, b)); }), "solve: the matrix is singular: pivot 3 is 0"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::inv(a)); }), "inv: the matrix is singular: pivot 3 is 0"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::lu_factor(stack({one(a), a}, 0)).lu); }),
            "lu_factor: matrix (1,) of (2,) is singular: pivot 3 is 0"));
  for (const Tensor& info : {linalg::solve_ex(a, b).info, linalg::inv_ex(a).info, linalg::lu_factor_ex(a).info})
    CHECK(item<std::int32_t>(info) == 3);
  // Larger than what lanes take.
  const Tensor large = diag(concat({ones({9}, numbers), zeros({1}, numbers), ones({2}, numbers)}, 0)).to(DType::c64);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::inv(large)); }), "pivot 10 is 0"));
  CHECK(
      has(message_of<LinalgError>([&] { eval(linalg::cholesky(a)); }), "its leading minor of order 3 is not positive"));
}

TEST_CASE("complex matrices: lu, qr and reflections, of vectors, strided, mapped, compiled and empty") {
  const Tensor a = some({2, 4, 4}, 3), b = some({2, 4}, 5);
  const auto solve_by_lu = [](Tensor m, Tensor x) {
    const auto [lu, pivots] = linalg::lu_factor(m);
    return linalg::lu_solve(lu, pivots, x);
  };
  const Tensor want = linalg::solve(a, b);
  CHECK(agree(solve_by_lu(a, b), want));
  const Tensor in_columns = turned(a) * 1;
  eval(in_columns);
  CHECK(agree(solve_by_lu(turned(in_columns), b), want));
  CHECK(agree(jit::compile(solve_by_lu)(a, b), want));
  CHECK(agree(jit::vmap(solve_by_lu)(a, b), want));
  const auto [lu, pivots] = linalg::lu_factor(a);
  CHECK(agree(linalg::lu_solve(lu, pivots, b, {.adjoint = true}), linalg::solve(adjoint(a), b)));
  for (const DType dtype : {DType::c64, DType::c128}) {
    const double tolerance = dtype == DType::c64 ? 1e-5 : 1e-12;
    for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 5}, Shape{1, 1}, Shape{40, 37}}) {
      const Tensor m = some(shape, 2, dtype);
      const auto [p, l, u] = linalg::lu(m);
      CHECK(agree(matmul(p, matmul(l, u)), m, 20 * tolerance));
      CHECK(l.dtype() == dtype);
      const auto [q, r] = linalg::qr(m);
      CHECK(agree(matmul(q, r), m, 20 * tolerance));
      CHECK(agree(imag(linalg::diagonal(r)), zeros({}, numbers), tolerance));
      const Tensor whole = linalg::qr(m, linalg::QrMode::complete).q;
      CHECK(agree(matmul(adjoint(whole), whole), one(whole), 20 * tolerance));
      CHECK(agree(linalg::qr(m, linalg::QrMode::r).r, r, 20 * tolerance));
    }
  }
  const Tensor nothing = zeros({2, 0, 3}, {.dtype = DType::c64});
  CHECK((linalg::lu(nothing).p.shape() == Shape{2, 0, 0} && linalg::qr(nothing).r.shape() == Shape{2, 0, 3}));
  CHECK(linalg::lu_factor(zeros({0, 3, 3}, {.dtype = DType::c64})).pivots.shape() == Shape{0, 3});
  const auto part_of_r = [](Tensor x) { return sum(squares(linalg::qr(x, linalg::QrMode::r).r)); };
  CHECK(has(message_of<UserError>([&] { eval(jit::grad(part_of_r)(a)); }), "qr: R alone has no derivative"));
}

TEST_CASE("complex matrices: determinants of singular ones have cofactors as derivatives; second derivatives") {
  // det = a d - b c, so that the gradient of its real part by conj is conj of [d -c; -b a].
  const Tensor a = tensor({{1.0, 2.0}, {2.0, 4.0}}) + complex(zeros({}, numbers), ones({}, numbers)) * 0;
  const auto part = [](Tensor x) { return real(linalg::det(x)); };
  CHECK(agree(jit::grad(part)(a), tensor({{4.0, -2.0}, {-2.0, 1.0}})));
  CHECK(agree(jit::grad(part)(a.to(DType::c64)), tensor({{4.0, -2.0}, {-2.0, 1.0}}), 1e-5));
  // Of 3 rows: conj of the cofactors, by elements.
  const auto cofactors = [](const Tensor& x) {
    const auto at = [&](std::int64_t i, std::int64_t j) { return Tensor(x(i % 3, j % 3)); };
    std::vector<Tensor> found;
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 3; ++j)
        found.push_back(at(i + 1, j + 1) * at(i + 2, j + 2) - at(i + 1, j + 2) * at(i + 2, j + 1));
    return Tensor(conj(stack(found, 0).reshape({3, 3})));
  };
  for (const std::int64_t rank : {1, 2, 3})
    for (const double scale : {1.0, 1e-15})
      for (const DType dtype : {DType::c64, DType::c128}) {
        INFO("rank " << rank << ", scale " << scale << ", " << name(dtype));
        // Columns that are sums of others with small integers: singular to the last bit.
        const Tensor given = some({3, 3}, 4) * 4;
        Tensor x = complex(round(real(given)), round(imag(given)));
        if (rank < 3) x = concat({narrow(x, 1, 0, 2), narrow(x, 1, 0, 1) + narrow(x, 1, 1, 1)}, 1);
        if (rank < 2) x = concat({narrow(x, 1, 0, 1), narrow(x, 1, 0, 1) * 2, narrow(x, 1, 0, 1) * -1}, 1);
        x = Tensor(x * scale).to(dtype);
        const Tensor exact = cofactors(x.to(DType::c128)) / (scale * scale);
        const Tensor got = jit::grad(part)(x).to(DType::c128) / (scale * scale);
        CHECK(agree(got, exact, dtype == DType::c64 ? 1e-3 : 1e-10));
      }
  // Pivots whose squares leave the range of f32.
  const Tensor one_scale = some({3, 3}, 4, DType::c64) + 2 * one(some({3, 3}, 4, DType::c64));
  for (const double scale : {1e-25, 1e25}) {
    const Tensor lower = one_scale * scale, b = some({3, 2}, 5, DType::c64) * scale;
    CHECK(agree(linalg::solve_triangular(lower, b), linalg::solve_triangular(one_scale, some({3, 2}, 5, DType::c64)),
                1e-5));
  }
  const Tensor b = some({3, 3}, 4), step = some({3, 3}, 6), zero = zeros({}, numbers);
  const auto check_second = [&](const std::function<Tensor(const Tensor&)>& function) {
    const auto slope = [&](Tensor t) { return jit::grad([&](Tensor s) { return function(b + s * step); })(t); };
    const double second = item<double>(jit::grad(slope)(zero)), h = 1e-5;
    const double difference = (item<double>(slope(zero + h)) - item<double>(slope(zero - h))) / (2 * h);
    CHECK(std::abs(second - difference) <= 1e-5 * (1 + std::abs(second)));
  };
  check_second([](const Tensor& x) { return sum(squares(linalg::qr(x).r * some({3, 3}, 8))); });
  check_second([](const Tensor& x) { return weighted(linalg::lu_factor(x).lu, 9); });
  check_second([](const Tensor& x) { return real(linalg::det(x)); });
}
