// Linear algebra at its edges: matrices that have no result, empty and tiny ones, layouts, sides, errors with lines.
#include "../catch.hpp"
#include "../checks.hpp"

using namespace sinter;

namespace {

const TensorOptions doubles_on_cpu{.dtype = DType::f64};

Tensor matrix_of(std::initializer_list<std::initializer_list<double>> rows) { return tensor(rows); }
/// A well-conditioned matrix with no symmetry.
Tensor sample(const Shape& shape, double shift = 0) {
  const Tensor position = reshape(arange(shape.numel(), doubles_on_cpu), shape);
  const Tensor values = sin(position * position * 0.7 + shift);
  return shape[-1] == shape[-2] ? Tensor(values + 3 * eye(shape[-1], doubles_on_cpu)) : values;
}
bool close(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  return a.shape() == b.shape() && near(doubles(a), doubles(b), tolerance);
}
Tensor turned(const Tensor& x) { return transpose(x, -2, -1); }

}  // namespace

TEST_CASE("linalg: matrices without a result are a LinalgError with the matrix and the user's line") {
  const Tensor singular = matrix_of({{1, 2}, {2, 4}});
  const Tensor batch = stack({eye(2, doubles_on_cpu), singular, eye(2, doubles_on_cpu), singular}, 0);
  const Tensor b = ones({2, 1}, doubles_on_cpu);
  const Tensor pending = linalg::inv(singular);  // recording does not throw
  CHECK(message_of<LinalgError>([&] { eval(pending); }).find("inv: the matrix is singular: pivot 2 is 0 [") !=
        std::string::npos);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::solve(reshape(batch, {2, 2, 2, 2}), b)); }),
            "solve: matrix (0, 1) of (2, 2) is singular: pivot 2 is 0 [linalg_test.cpp:"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::lu_factor(batch).lu); }), "lu_factor: matrix (1,) of (4,)"));
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::cholesky(batch - 2)); }),
            "cholesky: matrix (0,) of (4,) is not positive definite: its leading minor of order 1 is not positive"));
  CHECK(blame_of<LinalgError>([&] { eval(linalg::inv(singular + 0)); }) == blame("inv"));
  const Location line = Location::current();
  auto compiled = jit::compile([](Tensor x) { return linalg::solve(x * 1, x) + 1; });
  const Blame found = blame_of<LinalgError>([&] { compiled(singular); });
  CHECK(found.op == "solve");
  CHECK(found.place == "linalg_test.cpp:" + std::to_string(line.line + 1));
  CHECK(close(compiled(eye(2, doubles_on_cpu)), eye(2, doubles_on_cpu) + 1));  // it can be called again
  const Tensor hole = where(eye(3, doubles_on_cpu) > 0, std::nan(""), 1.0);
  CHECK(has(message_of<LinalgError>([&] { eval(linalg::svdvals(hole)); }),
            "svd: the matrix has elements that are not finite"));
  CHECK(has(
      message_of<LinalgError>([&] { eval(linalg::eigh(stack({ones({3, 3}, doubles_on_cpu), hole}, 0)).eigenvalues); }),
      "eigh: matrix (1,) of (2,) has elements that are not finite"));
}

TEST_CASE("linalg: _ex functions tell by info") {
  const Tensor batch = stack({eye(2, doubles_on_cpu), matrix_of({{1, 2}, {2, 4}}), matrix_of({{0, 0}, {0, 1}})}, 0);
  const auto [inverse, info] = linalg::inv_ex(batch);
  CHECK(info.dtype() == DType::i32);
  CHECK(to_vector<int>(info) == std::vector<int>{0, 2, 1});
  CHECK(close(inverse(0), eye(2, doubles_on_cpu)));
  const auto solved = linalg::solve_ex(batch, ones({3, 2}, doubles_on_cpu));
  CHECK(to_vector<int>(solved.info) == std::vector<int>{0, 2, 1});
  CHECK(to_vector<int>(linalg::lu_factor_ex(batch).info) == std::vector<int>{0, 2, 1});
  const auto factored = linalg::cholesky_ex(batch);
  CHECK(to_vector<int>(factored.info) == std::vector<int>{0, 2, 1});
  CHECK(close(factored.factor(0), eye(2, doubles_on_cpu)));
  CHECK(doubles(linalg::det(batch)) == std::vector<double>{1, 0, 0});
  const auto [sign, logarithm] = linalg::slogdet(batch);
  CHECK(doubles(sign) == std::vector<double>{1, 0, 0});
  CHECK(doubles(logarithm)[1] == -linalg::inf);
  CHECK(doubles(linalg::cond(batch, 1)) == std::vector<double>{1, linalg::inf, linalg::inf});
}

TEST_CASE("linalg: no matrices, and matrices without elements") {
  for (const Shape& shape : {Shape{0, 3, 3}, Shape{0, 0}, Shape{2, 0, 0}, Shape{1, 1}}) {
    INFO(shape.text());
    const Tensor a = ones(shape, doubles_on_cpu);
    Shape batch(shape.dims().first(as_index(shape.rank() - 2))), values = batch;
    values.push_back(shape[-1]);
    CHECK(close(linalg::cholesky(a), a));
    CHECK(close(linalg::inv(a), a));
    CHECK(close(linalg::solve(a, a), a));
    CHECK(close(linalg::det(a), ones(batch, doubles_on_cpu)));
    CHECK(close(linalg::slogdet(a).logabsdet, zeros(batch, doubles_on_cpu)));
    CHECK(linalg::qr(a).q.shape() == shape);
    CHECK(close(linalg::qr(a, linalg::QrMode::r).r, linalg::qr(a).r));
    CHECK(close(linalg::svdvals(a), ones(values, doubles_on_cpu)));
    CHECK(linalg::svd(a).u.shape() == shape);
    CHECK(close(linalg::eigvalsh(a), ones(values, doubles_on_cpu)));
    CHECK(close(linalg::pinv(a), a));
    CHECK(linalg::matrix_rank(a).shape() == batch);
    CHECK(linalg::matrix_exp(a).shape() == shape);
    const auto gradient = jit::grad([](Tensor x) { return sum(linalg::inv(x)) + sum(linalg::det(x)); })(a);
    CHECK(gradient.shape() == shape);
  }
  const Tensor wide = ones({2, 0, 3}, doubles_on_cpu), tall = ones({2, 3, 0}, doubles_on_cpu);
  CHECK(close(linalg::qr(tall, linalg::QrMode::complete).q, expand(eye(3, doubles_on_cpu), {2, 3, 3})));
  CHECK(close(linalg::svd(wide).vh, expand(eye(3, doubles_on_cpu), {2, 3, 3})));
  CHECK(linalg::pinv(wide).shape() == Shape{2, 3, 0});
  CHECK(linalg::lu(tall).u.shape() == Shape{2, 0, 0});
  CHECK(close(linalg::lu(tall).p, expand(eye(3, doubles_on_cpu), {2, 3, 3})));
  CHECK(linalg::solve(ones({0, 0}, doubles_on_cpu), ones({0, 2}, doubles_on_cpu)).shape() == Shape{0, 2});
}

TEST_CASE("linalg: factorisations give the matrix back, in blocks and without") {
  for (std::int64_t n : {2, 16, 17, 32, 33, 48, 49, 100, 131})
    for (auto [rows, columns] : {std::pair{n, n}, {n + 5, n}, {n, n + 5}}) {
      INFO(rows << " by " << columns);
      const Tensor a = sample({2, rows, columns});
      const double tolerance = 1e-10;
      const auto [p, l, u] = linalg::lu(a);
      CHECK(close(matmul(p, matmul(l, u)), a, tolerance));
      for (linalg::QrMode mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
        const auto [q, r] = linalg::qr(a, mode);
        CHECK(close(matmul(q, r), a, tolerance));
        CHECK(close(matmul(turned(q), q), expand(eye(q.shape()[-1], doubles_on_cpu), {2, q.shape()[-1], q.shape()[-1]}),
                    tolerance));
      }
      const auto [left, s, right] = linalg::svd(a, {.full_matrices = false});
      CHECK(close(matmul(left * unsqueeze(s, -2), right), a, tolerance));
      CHECK(close(linalg::svdvals(a), s, tolerance));
      if (rows != columns) continue;
      const Tensor definite = matmul(a, turned(a)) + eye(n, doubles_on_cpu);
      const Tensor factor = linalg::cholesky(definite);
      CHECK(close(matmul(factor, turned(factor)), definite, tolerance));
      CHECK(close(linalg::cholesky(definite, {.upper = true}), turned(factor), tolerance));
      CHECK(close(matmul(definite, linalg::cholesky_inverse(factor)), expand(eye(n, doubles_on_cpu), {2, n, n}), 1e-8));
      const auto [values, vectors] = linalg::eigh(definite);
      CHECK(close(matmul(vectors * unsqueeze(values, -2), turned(vectors)), definite, 1e-9));
      const Tensor b = sample({2, n, n + 1}, 0.3), x = linalg::solve(a, b);
      CHECK(close(matmul(a, x), b, 1e-8));
      const auto [packed, pivots] = linalg::lu_factor(a);
      CHECK(close(linalg::lu_solve(packed, pivots, b), x, 1e-8));
      CHECK(close(matmul(turned(a), linalg::lu_solve(packed, pivots, b, {.adjoint = true})), b, 1e-8));
      CHECK(close(matmul(linalg::lu_solve(packed, pivots, turned(b), {.left = false}), a), turned(b), 1e-8));
      for (bool upper : {false, true})
        for (bool unit : {false, true}) {
          const Tensor part = upper ? triu(a / 40, 1) : tril(a / 40, -1), one = eye(n, doubles_on_cpu);
          const Tensor triangle = part + one * (unit ? 1 : 2);
          const Tensor read = unit ? part + 7 * one : triangle;  // the diagonal is not read
          const Tensor noise = upper ? tril(b(all, all, slice(0, n)), -1) : triu(b(all, all, slice(0, n)), 1);
          const linalg::SolveTriangularOptions options{.upper = upper, .unitriangular = unit};
          CHECK(close(matmul(triangle, linalg::solve_triangular(read + noise, b, options)), b, 1e-9));
          linalg::SolveTriangularOptions right = options;
          right.left = false;
          CHECK(close(matmul(linalg::solve_triangular(read + noise, turned(b), right), triangle), turned(b), 1e-9));
        }
    }
}

TEST_CASE("linalg: right sides are vectors, matrices, and batches that broadcast") {
  const Tensor a = sample({3, 3}), many = sample({2, 4, 3, 3});
  const Tensor vector = sample({3, 1}, 1)(all, 0);
  CHECK(close(matmul(a, linalg::solve(a, vector)), vector));
  CHECK(linalg::solve(many, vector).shape() == Shape{2, 4, 3});
  const Tensor vectors = sample({8, 3}, 2).reshape({2, 4, 3});
  CHECK(close(squeeze(matmul(many, unsqueeze(linalg::solve(many, vectors), -1)), -1), vectors));
  const Tensor sides = sample({2, 4, 3, 5}, 3);  // one matrix for all of them
  CHECK(close(matmul(a, linalg::solve(a, sides)), sides));
  const Tensor rows = sample({2, 4, 5, 3}, 3);
  CHECK(close(matmul(linalg::solve(a, rows, {.left = false}), a), rows));
  const Tensor some = sample({4, 3, 2}, 3);
  CHECK(close(matmul(many, linalg::solve(many, some)), expand(some, {2, 4, 3, 2})));
  const auto [packed, pivots] = linalg::lu_factor(a);
  CHECK(close(linalg::lu_solve(packed, pivots, sides), linalg::solve(a, sides)));
  // Any layout.
  CHECK(close(linalg::inv(turned(many)), turned(linalg::inv(many))));
  const Tensor wide = sample({3, 6});
  CHECK(close(matmul(wide(all, slice(0, 6, 2)) + 3 * eye(3, doubles_on_cpu),
                     linalg::inv(wide(all, slice(0, 6, 2)) + 3 * eye(3, doubles_on_cpu))),
              eye(3, doubles_on_cpu)));
  CHECK(close(linalg::det(expand(a, {5, 3, 3})), expand(linalg::det(a), {5})));
  CHECK(linalg::inv(tensor({{2, 0}, {0, 4}})).dtype() == DType::f32);  // of integers
}

TEST_CASE("linalg: gradients at special matrices") {
  // Singular: cofactors. Rank 1: all of them are 0.
  const auto det_gradient = jit::grad([](Tensor x) { return linalg::det(x); });
  CHECK(close(det_gradient(matrix_of({{1, 2}, {2, 4}})), matrix_of({{4, -2}, {-2, 1}}), 1e-12));
  CHECK(close(det_gradient(matrix_of({{0, 0}, {0, 5}})), matrix_of({{5, 0}, {0, 0}}), 1e-12));
  CHECK(close(det_gradient(zeros({3, 3}, doubles_on_cpu)), zeros({3, 3}, doubles_on_cpu), 1e-12));
  // Only the triangle that is read counts, and the gradient is symmetric.
  const Tensor definite = matrix_of({{4, 9}, {1, 3}});
  const Tensor slope = jit::grad([](Tensor x) { return sum(linalg::cholesky(x)); })(definite);
  CHECK(close(slope, turned(slope)));
  CHECK(close(linalg::cholesky(definite), linalg::cholesky(matrix_of({{4, 1}, {1, 3}}))));
  // Equal singular values: those have a gradient, vectors have none.
  const Tensor twice = eye(2, doubles_on_cpu);
  CHECK(close(jit::grad([](Tensor x) { return sum(linalg::svdvals(x)); })(twice), twice));
  CHECK(close(jit::grad([](Tensor x) { return sum(linalg::eigvalsh(x)); })(twice), twice));
  CHECK(has(message_of<UserError>([] {
              eval(jit::grad([](Tensor x) { return sum(linalg::qr(x, linalg::QrMode::r).r); })(sample({3, 3})));
            }),
            "qr: R alone has no derivative"));
  CHECK(has(message_of<UserError>([] {
              eval(jit::grad([](Tensor x) { return sum(linalg::qr(x, linalg::QrMode::complete).q); })(sample({4, 3})));
            }),
            "QrMode::reduced has one"));
}

TEST_CASE("linalg: eigh of f32 in double up to 64 rows and in f32 above") {
  for (const std::int64_t n : {64, 65, 130})
    for (const double scale : {1.0, 1e-30}) {
      INFO(n << " rows, scale " << scale);
      const Tensor some = reshape(sin(square(arange(n * n, doubles_on_cpu)) * 0.7), {n, n});
      const Tensor wide = ((some + turned(some)) * scale).to(DType::f32).to(DType::f64);
      const Tensor want = linalg::eigvalsh(wide), a = wide.to(DType::f32);
      const double size = item<double>(amax(abs(want)));
      const auto is_near = [&](const Tensor& got, const Tensor& expected, double tolerance) {
        return close(got.to(DType::f64) / size, expected / size, tolerance);
      };
      const double tolerance = n > 64 ? 1e-5 : 1e-7;
      const auto [values, vectors] = linalg::eigh(a);
      CHECK(is_near(values, want, tolerance));
      CHECK(is_near(linalg::eigvalsh(a), want, tolerance));
      const Tensor v = vectors.to(DType::f64);
      CHECK(close(matmul(turned(v), v), eye(n, doubles_on_cpu), 2e-5));
      CHECK(is_near(matmul(v * unsqueeze(values.to(DType::f64), -2), turned(v)), wide, 2e-5));
    }
  // Equal eigenvalues: a reflection has -1 once and 1 else.
  const Tensor u = ones({100, 1}) / 10, reflection = eye(100) - 2 * matmul(u, turned(u));
  const auto [values, vectors] = linalg::eigh(reflection);
  CHECK(near(doubles(values), doubles(where(arange(100) == 0, -1.0, 1.0)), 1e-5));
  CHECK(near(doubles(matmul(turned(vectors), vectors)), doubles(eye(100)), 2e-5));
}

TEST_CASE("linalg: eigh of one, two and three rows") {
  const auto holds = [](const Tensor& a, double tolerance) {
    const auto [values, vectors] = linalg::eigh(a);
    const double size = std::max(item<double>(amax(abs(a.to(DType::f64)))), 1e-308);
    const Tensor v = vectors.to(DType::f64), made = matmul(v * unsqueeze(values.to(DType::f64) / size, -2), turned(v));
    CHECK(near(doubles(made), doubles(a.to(DType::f64) / size), tolerance));
    CHECK(near(doubles(matmul(turned(v), v)), doubles(expand(eye(a.size(-1), doubles_on_cpu), a.shape())), tolerance));
    CHECK(doubles(values) == doubles(linalg::eigvalsh(a)));
    CHECK(doubles(values) == doubles(sort(values, -1).values));
  };
  for (const std::int64_t n : {1, 2, 3})
    for (const double scale : {1.0, 1e-300, 1e300}) {
      INFO(n << " rows, scale " << scale);
      const Tensor some = reshape(sin(square(arange(40 * n * n, doubles_on_cpu)) * 0.7), {40, n, n});
      const Tensor a = some + turned(some);
      holds(a * scale, 3e-15);
      if (scale == 1) holds(a.to(DType::f32), 3e-7);
      const Tensor u = some(all, all, slice(0, 1));
      holds(matmul(u, turned(u)) * scale, 3e-15);  // of one eigenvalue that is not 0
      holds(expand(ones({n, n}, doubles_on_cpu), {2, n, n}) * scale, 3e-15);
      holds(expand(eye(n, doubles_on_cpu), {2, n, n}) * scale, 3e-15);
      holds(zeros({2, n, n}, doubles_on_cpu), 0);
    }
  // Only the lower triangle is read; exact where the answer is.
  const Tensor a = tensor({{0.0, 9.0}, {3.0, 0.0}});
  CHECK(doubles(linalg::eigvalsh(a)) == std::vector<double>{-3, 3});
  const Tensor graded = tensor({{1.0, 0.0, 0.0}, {0.0, 1e-25, 5e-26}, {0.0, 5e-26, 1e-25}});
  CHECK(near(doubles(linalg::eigvalsh(graded) * 1e25), {0.5, 1.5, 1e25}, 1e-12));
  const Tensor diagonal = tensor({{3.0, 0.0, 0.0}, {0.0, -1.0, 0.0}, {0.0, 0.0, 2.0}});
  CHECK(doubles(linalg::eigvalsh(diagonal)) == std::vector<double>{-1, 2, 3});
}

TEST_CASE("linalg: rank, least squares, norms, exponential") {
  const Tensor low = matmul(sample({6, 2}), sample({2, 5}));
  CHECK(to_vector<std::int64_t>(linalg::matrix_rank(low))[0] == 2);
  CHECK(to_vector<std::int64_t>(linalg::matrix_rank(low, {.atol = 100}))[0] == 0);
  const Tensor p = linalg::pinv(low);
  CHECK(close(matmul(low, matmul(p, low)), low));
  CHECK(close(matmul(p, matmul(low, p)), p));
  const Tensor tall = sample({7, 3}), b = sample({7, 2}, 1);
  const auto by_values = linalg::lstsq(tall, b);
  const auto by_qr = linalg::lstsq(tall, b, {.driver = linalg::LstsqDriver::gels});
  CHECK(close(by_values.solution, by_qr.solution));
  CHECK(close(by_values.residuals, by_qr.residuals));
  CHECK(to_vector<std::int64_t>(by_values.rank) == to_vector<std::int64_t>(by_qr.rank));
  CHECK(close(matmul(turned(tall), matmul(tall, by_values.solution) - b), zeros({3, 2}, doubles_on_cpu)));
  CHECK(close(linalg::lstsq(turned(tall), sample({3, 2})).solution,
              linalg::lstsq(turned(tall), sample({3, 2}), {.driver = linalg::LstsqDriver::gels}).solution));
  CHECK(linalg::lstsq(tall, b(all, 0)).solution.shape() == Shape{3});
  const Tensor x = matrix_of({{3, -4}, {0, 12}});
  const auto number = [](const Tensor& t) { return item<double>(t); };
  CHECK(number(linalg::norm(x)) == 13);
  CHECK(number(linalg::matrix_norm(x)) == 13);
  CHECK(number(linalg::matrix_norm(x, 1)) == 16);
  CHECK(number(linalg::matrix_norm(x, -1)) == 3);
  CHECK(number(linalg::norm(x, linalg::inf)) == 12);
  CHECK(number(linalg::norm(x, -linalg::inf)) == 7);
  CHECK(linalg::norm(x, linalg::nuc, {0, 1}, keepdim).shape() == Shape{1, 1});
  CHECK(doubles(linalg::vector_norm(x, 0, 1)) == std::vector<double>{2, 1});
  CHECK(near({number(linalg::vector_norm(x, -1, {}))}, {0}));
  CHECK(close(linalg::matrix_exp(matrix_of({{0, 30}, {-30, 0}})),
              matrix_of({{std::cos(30), std::sin(30)}, {-std::sin(30), std::cos(30)}}), 1e-9));
  CHECK(close(linalg::matrix_power(sample({3, 3}), -2), linalg::inv(matmul(sample({3, 3}), sample({3, 3})))));
  const Tensor q = linalg::householder_product(matrix_of({{1, 0}, {0.5, 1}, {0.25, 2}}), tensor({1.5, 0.4}));
  CHECK(close(matmul(turned(q), q)(1, 1), full({}, 1.0, doubles_on_cpu)) == false);  // any tau, no reflections
  CHECK(close(linalg::tensorsolve(sample({6, 6}).reshape({2, 3, 6}), sample({2, 3})),
              linalg::solve(sample({6, 6}), sample({2, 3}).reshape({6}))));
  CHECK(close(linalg::tensorinv(sample({6, 6}).reshape({2, 3, 6})).reshape({6, 6}), linalg::inv(sample({6, 6}))));
  CHECK(doubles(linalg::vander(tensor({0., 2.}), 3)) == std::vector<double>{1, 0, 0, 1, 2, 4});
}

TEST_CASE("linalg: wrong calls name what was given, where they are written") {
  const Tensor square = ones({2, 2}), wide = ones({2, 3}), vector = ones({2});
  CHECK(blame_of<ShapeError>([&] { linalg::cholesky(wide); }) == blame("cholesky"));
  CHECK(blame_of<ShapeError>([&] { linalg::inv(vector); }) == blame("inv"));
  CHECK(blame_of<ShapeError>([&] { linalg::solve(square, ones({3, 2})); }) == blame("solve"));
  CHECK(blame_of<ShapeError>([&] { linalg::solve(square, vector, {.left = false}); }) == blame("solve"));
  CHECK(blame_of<ShapeError>([&] { linalg::svd(vector); }) == blame("svd"));
  CHECK(blame_of<DTypeError>([&] { linalg::inv(square.to(DType::f16)); }) == blame("inv"));
  CHECK(blame_of<DTypeError>([&] { linalg::matrix_exp(square.to(DType::bf16)); }) == blame("matrix_exp"));
  CHECK(linalg::solve(square.to(DType::f16), square).dtype() == DType::f32);
  CHECK(blame_of<DTypeError>([&] { linalg::lu_solve(square, vector, square); }) == blame("lu_solve"));
  const Tensor pivot = cast(ones({1}), DType::i32);
  CHECK(blame_of<ShapeError>([&] { linalg::lu_solve(square, pivot, square); }) == blame("lu_solve"));
  CHECK(linalg::householder_product(ones({3, 2}), ones({2}, doubles_on_cpu)).dtype() == DType::f64);
  CHECK(blame_of<ShapeError>([&] { linalg::householder_product(wide, vector); }) == blame("householder_product"));
  CHECK(blame_of<UserError>([&] { linalg::matrix_norm(square, 3); }) == blame("matrix_norm"));
  CHECK(blame_of<IndexError>([&] { linalg::matrix_norm(square, 1, {0, 0}); }) == blame("matrix_norm"));
  CHECK(blame_of<ShapeError>([&] { linalg::norm(ones({2, 2, 2}), 2); }) == blame("norm"));
  CHECK(blame_of<ShapeError>([&] { linalg::tensorinv(wide, 1); }) == blame("tensorinv"));
  CHECK(blame_of<ShapeError>([&] { linalg::tensorsolve(wide, vector); }) == blame("tensorsolve"));
  CHECK(blame_of<IndexError>([&] { eval(linalg::lu_solve(square, cast(tensor({1, 9}), DType::i32), square)); }).op ==
        "lu_solve");
}

TEST_CASE("linalg: the same bits for any number of threads") {
  const Tensor a = sample({300, 9, 9});
  const auto all_of = [&] {
    return concat({ravel(linalg::inv(a)), ravel(linalg::svdvals(a)), ravel(linalg::qr(a).q),
                   ravel(linalg::eigvalsh(a + turned(a)))},
                  0);
  };
  const int before = thread_count();
  set_thread_count(1);
  const std::vector<double> alone = doubles(all_of());
  set_thread_count(4);
  CHECK(doubles(all_of()) == alone);
  set_thread_count(before);
}
