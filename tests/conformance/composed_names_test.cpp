// What docs/op_coverage.md puts together has the values of the PyTorch functions that it stands for; that each line
// compiles is checked by op_coverage_test.py.
#include "op_table.hpp"

#include <cmath>
#include <numbers>
#include <vector>

using namespace sinter_test;

namespace {

constexpr double inf = INFINITY;

struct Composed {
  const char* name;
  Tensor (*run)();
  std::vector<double> want;
};

Tensor x() { return tensor({{1.0, -2.0, 4.0}, {0.5, 3.0, -1.0}}); }
Tensor mask() { return tensor({{true, false, true}, {true, true, false}}); }
Tensor weights() { return cast(mask(), DType::f64); }
Tensor square_matrix() { return tensor({{4.0, 1.0}, {1.0, 3.0}}); }
Tensor other_matrix() { return tensor({{1.0, 2.0}, {3.0, -1.0}}); }

Tensor orthogonal_factor() {
  auto [u, s, vh] = linalg::svd(other_matrix(), {.full_matrices = false});
  return matmul(u, vh);
}
Tensor root_of_matrix() {
  auto [values, vectors] = linalg::eigh(square_matrix());
  return matmul(vectors * sqrt(values), vectors.t());
}
Tensor with_diagonal() {
  Tensor u = zeros({2, 2});
  u.at(arange(2), arange(2)) = tensor({5.0, 6.0});
  return u;
}
Tensor reversed_beginnings() {  // of two lengths, along axis 1
  const Tensor place = expand(arange(3), {2, 3}), length = tensor({{2}, {3}});
  return take_along_axis(x(), where(place < length, length - 1 - place, place), 1);
}

const Composed rows[] = {
    {"masked.sum", [] { return sum(where(mask(), x(), 0), 1); }, {5, 3.5}},
    {"masked.prod", [] { return prod(where(mask(), x(), 1), 1); }, {4, 1.5}},
    {"masked.amax", [] { return amax(where(mask(), x(), -INFINITY), 1); }, {4, 3}},
    {"masked.amin", [] { return amin(where(mask(), x(), INFINITY), 1); }, {1, 0.5}},
    {"masked.argmax", [] { return argmax(where(mask(), x(), -INFINITY), 1); }, {2, 1}},
    {"masked.mean", [] { return nanmean(where(mask(), x(), NAN), 1); }, {2.5, 1.75}},
    {"masked.median", [] { return nanmedian(where(mask(), x(), NAN), 1).values; }, {1, 0.5}},
    {"masked.softmax",
     [] { return softmax(where(mask(), x(), -INFINITY), 1); },
     {0.04742587317756679, 0, 0.9525741268224334, 0.07585818002124356, 0.9241418199787566, 0}},
    {"masked.softmin",
     [] { return softmax(where(mask(), -x(), -INFINITY), 1); },
     {0.9525741268224334, 0, 0.04742587317756679, 0.9241418199787566, 0.07585818002124356, 0}},
    {"masked.log_softmax",
     [] { return log_softmax(where(mask(), x(), -INFINITY), 1); },
     {-3.048587351573742, -inf, -0.048587351573741965, -2.5788897342925496, -0.07888973429254957, -inf}},
    {"masked.logsumexp",
     [] { return logsumexp(where(mask(), x(), -INFINITY), 1); },
     {4.048587351573742, 3.0788897342925496}},
    {"masked.cumsum", [] { return cumsum(where(mask(), x(), 0), 1); }, {1, 1, 5, 0.5, 3.5, 3.5}},
    {"masked.norm", [] { return norm(where(mask(), x(), 0), 1, {.p = 3}); }, {4.020725758589058, 3.004622503458683}},
    {"masked.normalize",
     [] { return normalize(where(mask(), x(), 0), {.p = 3, .axis = 1}); },
     {0.24871131731971624, 0, 0.994845269278865, 0.16641025600535164, 0.9984615360321099, 0}},
    {"masked.var",
     [] { return average(square(x() - average(x(), weights(), 1, keepdim)), weights(), 1); },
     {2.25, 1.5625}},
    {"logdet", [] { return linalg::slogdet(square_matrix()).logabsdet; }, {2.3978952727983707}},
    {"linalg.matrix_sqrth",
     root_of_matrix,
     {1.9815776331353152, 0.27083220609417935, 0.27083220609417935, 1.710745427041136}},
    {"linalg.polar",
     orthogonal_factor,
     {0.37139067635410394, 0.9284766908852595, 0.9284766908852595, -0.37139067635410383}},
    {"fft.fftshift", [] { return roll(arange(5), 5 / 2, 0); }, {3, 4, 0, 1, 2}},
    {"bilinear",
     [] {
       const Tensor w = cast(reshape(arange(8), {2, 2, 2}), DType::f64);
       return einsum("bi,oij,bj->bo", {square_matrix(), w, other_matrix()});
     },
     {16, 76, 8, 40}},
    {"special.spherical_bessel_j0",
     [] { return Tensor(sinc(tensor({0.0, 0.5, 3.0}) / std::numbers::pi)); },
     {1, 0.958851077208406, 0.0470400026866224}},
    {"diagonal_scatter", with_diagonal, {5, 0, 0, 6}},
    {"triplet_margin_with_distance_loss",
     [] { return mean(relu(pairwise_distance(x(), x() + 0.5) - pairwise_distance(x(), x() - 0.25) + 1)); },
     {1.4330092377906043}},
    {"angle",
     [] {
       const Tensor v = tensor({-2.0, 0.0, 3.0});
       return Tensor(where(v < 0, std::numbers::pi, where(isnan(v), v, 0)));
     },
     {std::numbers::pi, 0, 0}},
    {"ReverseSequence", reversed_beginnings, {-2, 1, 4, -1, 3, 0.5}},
    {"Hardmax", [] { return one_hot(argmax(x(), 1), 3); }, {0, 0, 1, 0, 1, 0}},
};

}  // namespace

TEST_CASE("names that are put together have PyTorch's values") {
  for (const Composed& row : rows)
    for (const Mode& mode : modes()) {
      INFO(row.name << " " << mode.name);
      const std::vector<double> have =
          to_vector<double>(run_in(mode, [&](const Inputs&) { return row.run(); }, Inputs{}));
      REQUIRE(have.size() == row.want.size());
      for (std::size_t i = 0; i < have.size(); ++i) {
        INFO(i);
        CHECK((have[i] == row.want[i] || std::abs(have[i] - row.want[i]) < 1e-12));
      }
    }
}
