// Solvers against NumPy and SciPy: families of problems with three parameters, values and derivatives by these
// (solver_cases.py has the same problems).
#include "catch.hpp"
#include "solver_cases.hpp"

#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};
using Problem = std::function<Tensor(Tensor)>;
using solvers::OdeMethod;

Tensor list(const std::vector<double>& values) { return copy_of(values); }
Tensor steps(std::int64_t count) { return arange(count, f64); }

Tensor root_of_two(const Tensor& p, solvers::RootMethod method) {
  return solvers::root(
             [&](Tensor x) {
               return stack({x(0) + 0.5 * p(0) * sin(x(1)) - p(1), x(1) - 0.5 * p(0) * cos(x(0)) - p(2)}, 0);
             },
             zeros({2}, f64), {.method = method, .tolerance = 1e-12})
      .x;
}
Tensor root_of_springs(const Tensor& p) {
  return solvers::root(
             [&](Tensor x) {
               const Tensor stretch = diff(cat({zeros({1}, f64), x}, 0));
               const Tensor pull = (1.5 + p) * (stretch + stretch * stretch * stretch);
               return pull - cat({narrow(pull, 0, 1, 2), zeros({1}, f64)}, 0) - 0.1;
             },
             zeros({3}, f64), {.tolerance = 1e-12})
      .x;
}
Tensor bisected(const Tensor& p) {
  const Tensor shift = stack({p(1), p(2), full({}, 0.5, f64)}, 0), rate = 1.5 + p(0);
  return solvers::bisect([&](Tensor x) { return x + 0.5 * sin(rate * x) / rate - shift; }, full({3}, -5.0, f64),
                         full({3}, 5.0, f64))
      .x;
}
Tensor minimum_of_quartic(const Tensor& p, solvers::MinimizeMethod method) {
  return solvers::minimize(
             [&](Tensor x) {
               return sum(pow(x - p, 4)) / 4 + 0.5 * sum(square(x - 0.3 * roll(p, -1, 0))) + 0.1 * x(0) * x(1);
             },
             zeros({3}, f64), {.method = method, .tolerance = 1e-10})
      .x;
}
Tensor minimum_of_rosenbrock(const Tensor& p, solvers::MinimizeMethod method) {
  const Tensor a = 1 + 0.3 * p(0), b = 10 * (1.5 + p(1));
  return solvers::minimize(
             [&](Tensor x) { return square(a - x(0)) + b * square(x(1) - square(x(0))) + 0.1 * p(2) * x(1); },
             zeros({2}, f64), {.method = method, .tolerance = 1e-10})
      .x;
}
Tensor fitted(const Tensor& p) {
  const Tensor t = 0.25 * steps(12);
  const Tensor y = (2 + p(0)) * exp(-(1 + 0.2 * p(1)) * t) + 0.1 * p(2) + 0.02 * sin(3 * t + p(0));
  return solvers::least_squares([&](Tensor x) { return x(0) * exp(-x(1) * t) + x(2) - y; }, ones({3}, f64),
                                {.tolerance = 1e-13})
      .x;
}

template <class F>
Tensor end_of(const F& rate, const Tensor& start, double end, solvers::OdeOptions options) {
  options.rtol = 1e-10;
  options.atol = 1e-12;
  return solvers::odeint(rate, start, list({0, end}), options).y(1);
}
Tensor oscillator(const Tensor& p, OdeMethod method) {
  const auto rate = [&](Tensor t, Tensor y) {
    return stack({y(1), -square(1 + 0.3 * p(0)) * y(0) - 0.2 * (1 + p(1)) * y(1) + 0.1 * sin(t)}, 0);
  };
  return end_of(rate, stack({1 + 0.2 * p(2), 0 * p(2)}, 0), 4, {.method = method});
}
Tensor logistic_growth(const Tensor& p) {
  const auto rate = [&](Tensor, Tensor y) { return (1 + 0.3 * p(0)) * y * (1 - y / (2 + 0.5 * p(1))); };
  return end_of(rate, unsqueeze(0.5 + 0.1 * p(2), 0), 3, {.method = OdeMethod::dopri8});
}
/// Backwards this equation is unstable, and its adjoint with it: steps are differentiated.
Tensor van_der_pol(const Tensor& p) {
  const auto rate = [&](Tensor, Tensor y) {
    return stack({y(1), (5 + 2 * p(0)) * (1 - square(y(0))) * y(1) - (1 + 0.1 * p(1)) * y(0)}, 0);
  };
  return end_of(rate, stack({2 + 0.1 * p(2), 0 * p(2)}, 0), 2,
                {.method = OdeMethod::radau, .gradient = solvers::OdeGradient::discrete, .max_steps = 2000});
}

Tensor quad_of_wave(const Tensor& p) {
  return unsqueeze(solvers::quad([&](Tensor x) { return exp(-(1 + 0.3 * p(0)) * x) * cos((2 + p(1)) * x); },
                                 zeros({}, f64), 2 + 0.5 * p(2))
                       .value,
                   0);
}
Tensor quad_of_line(const Tensor& p) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return unsqueeze(solvers::quad([&](Tensor x) { return exp(-(1 + 0.3 * p(0)) * x * x) * cos(p(1) * x + p(2)); },
                                 -infinity, infinity, {.rtol = 1e-10, .atol = 1e-12})
                       .value,
                   0);
}
Tensor quad_of_singular(const Tensor& p) {
  return unsqueeze(solvers::quad([&](Tensor x) { return pow(x, -0.3 - 0.1 * p(0)) * (1 + p(1) * x) * exp(p(2) * x); },
                                 0, 1, {.rtol = 1e-9, .max_intervals = 200})
                       .value,
                   0);
}

std::pair<Tensor, Tensor> points(const Tensor& p) {
  const Tensor i = steps(8);
  return {i + 0.3 * sin(p(2) * i), sin((1 + p(0)) * i) + p(1)};
}
Problem spline(solvers::SplineEnds ends) {
  return [=](Tensor p) {
    const auto [x, y] = points(p);
    return solvers::cubic_spline(x, y, ends)(0.75 * steps(10) - 0.3);
  };
}

struct System {
  Tensor symmetric, any, right;
};
System system_of(const Tensor& p) {
  const Tensor i = unsqueeze(steps(6), 1), j = unsqueeze(steps(6), 0);
  const Tensor b = sin(i * j * (1 + 0.2 * p(0)) + p(1) + i);
  return {matmul(b, transpose(b, 0, 1)) + 2 * eye(6, f64), b + 4 * eye(6, f64), cos(steps(6) + p(2))};
}
Tensor largest_values(const Tensor& p) {
  const Tensor i = steps(12), d = (1 + 0.2 * p(0)) * i * i / 10 + p(1), u = cos(i + p(2));
  const Tensor a = diag(d) + 0.3 * unsqueeze(u, 1) * unsqueeze(u, 0);
  return solvers::lobpcg(a, sin(reshape(square(steps(24)), {12, 2})), {.rtol = 1e-11}).values;
}

struct Row {
  std::string family;
  Problem problem;
  double tolerance = 1e-7, slope_tolerance = 1e-5;
};
std::vector<Row> all_rows() {
  using solvers::MinimizeMethod;
  using solvers::RootMethod;
  return {
      {"root_of_two", [](Tensor p) { return root_of_two(p, RootMethod::newton); }},
      {"root_of_two", [](Tensor p) { return root_of_two(p, RootMethod::broyden); }},
      {"root_of_springs", root_of_springs},
      {"bisect", bisected},
      {"minimum_of_quartic", [](Tensor p) { return minimum_of_quartic(p, MinimizeMethod::bfgs); }},
      {"minimum_of_quartic", [](Tensor p) { return minimum_of_quartic(p, MinimizeMethod::lbfgs); }},
      {"minimum_of_rosenbrock", [](Tensor p) { return minimum_of_rosenbrock(p, MinimizeMethod::bfgs); }},
      {"minimum_of_rosenbrock", [](Tensor p) { return minimum_of_rosenbrock(p, MinimizeMethod::lbfgs); }},
      {"least_squares", fitted},
      {"oscillator", [](Tensor p) { return oscillator(p, OdeMethod::rk45); }},
      {"oscillator", [](Tensor p) { return oscillator(p, OdeMethod::dopri8); }},
      {"logistic_growth", logistic_growth},
      {"van_der_pol", van_der_pol},
      {"quad_of_wave", quad_of_wave},
      {"quad_of_line", quad_of_line},
      {"quad_of_singular", quad_of_singular, 1e-6},
      {"interp",
       [](Tensor p) {
         const auto [x, y] = points(p);
         return solvers::interp(0.9 * steps(11) - 1.05, x, y);
       }},
      {"spline_not_a_knot", spline(solvers::SplineEnds::not_a_knot)},
      {"spline_natural", spline(solvers::SplineEnds::natural)},
      {"spline_clamped", spline(solvers::SplineEnds::clamped)},
      {"symmetric_system",
       [](Tensor p) {
         const System s = system_of(p);
         return solvers::cg(s.symmetric, s.right, {.rtol = 1e-12}).x;
       }},
      {"any_system",
       [](Tensor p) {
         const System s = system_of(p);
         return solvers::bicgstab(s.any, s.right, {.rtol = 1e-12}).x;
       }},
      {"any_system",
       [](Tensor p) {
         const System s = system_of(p);
         return solvers::gmres(s.any, s.right, {.rtol = 1e-12}).x;
       }},
      {"largest_values", largest_values},
  };
}

struct Case {
  std::string name;
  std::vector<double> parameters, values, slopes;
};
std::multimap<std::string, Case> all_cases() {
  std::multimap<std::string, Case> out;
  std::istringstream lines(solver_cases);
  const auto numbers = [](std::istream& from) {
    std::vector<double> read;
    for (std::string word; from >> word && word != ";";) read.push_back(std::stod(word));
    return read;
  };
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Case each;
    std::string family;
    int number = 0;
    words >> family >> number >> each.name;  // and the first ;
    each.name = family + " " + std::to_string(number);
    for (int k = 0; k < 3; ++k) each.parameters.push_back(std::sin(3.1 * number + 1.3 * k * k + 0.7));
    each.values = numbers(words);
    each.slopes = numbers(words);
    out.emplace(family, each);
  }
  return out;
}
}  // namespace

TEST_CASE("solvers: 32 problems of each family, values and derivatives, as NumPy and SciPy have them") {
  const std::multimap<std::string, Case> cases = all_cases();
  for (const Row& row : all_rows()) {
    const auto [begin, end] = cases.equal_range(row.family);
    CHECK(std::distance(begin, end) == 32);
    auto both = jit::compile([&](Tensor p) {
      const auto weighted = [&](Tensor q) {
        const Tensor x = row.problem(q);
        return sum(x / (1 + steps(x.size(0).value())));
      };
      return std::tuple{row.problem(p), jit::grad(weighted)(p)};
    });
    for (auto at = begin; at != end; ++at) {
      INFO(at->second.name);
      const auto [values, slopes] = both(list(at->second.parameters));
      CHECK(near(doubles(values), at->second.values, row.tolerance));
      CHECK(near(doubles(slopes), at->second.slopes, row.slope_tolerance));
    }
  }
}
