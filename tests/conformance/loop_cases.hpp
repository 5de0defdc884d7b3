// A function of one tensor against a loop over plain numbers: values in every mode, and the derivative of their sum
// against finite differences of the loop.
#pragma once

#include "op_table.hpp"

#include <cmath>
#include <functional>
#include <vector>

namespace sinter_test {

using Doubles = std::vector<double>;
using Loop = std::function<Doubles(const Doubles&)>;
using Call = std::function<Tensor(const Tensor&)>;

struct Case {
  const char* name;
  Call call;
  Loop loop;
  Extents extents;
  Doubles x;
};

inline double total(const Doubles& v) {
  double sum = 0;
  for (double e : v) sum += e;
  return sum;
}
inline double mean_of(const Doubles& v) { return total(v) / static_cast<double>(v.size()); }
inline Doubles each(const Doubles& x, const std::function<double(double, std::size_t)>& f) {
  Doubles out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(f(x[i], i));
  return out;
}
inline Tensor array(const Doubles& x, const Extents& extents) { return copy_of(x, Shape(extents)); }

/// Values in every mode, and the derivative of their sum.
inline void check_case(const Case& row) {
  const Doubles want = row.loop(row.x);
  const Tensor x = array(row.x, row.extents);
  for (const Mode& mode : modes()) {
    INFO(row.name << ", " << mode.name);
    const Doubles got = to_vector<double>(run_in(mode, [&](const Inputs& in) { return row.call(in[0]); }, {x}));
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(want[i]).epsilon(1e-10).margin(1e-12));
    const Doubles slopes = to_vector<double>(run_in(
        mode, [&](const Inputs& in) { return jit::grad([&](Tensor t) { return sum(row.call(t)); })(in[0]); }, {x}));
    for (std::size_t i = 0; i < row.x.size(); ++i) {
      constexpr double h = 1e-5;
      Doubles above = row.x, below = row.x;
      above[i] += h;
      below[i] -= h;
      INFO("derivative by element " << i);
      CHECK(slopes[i] ==
            Approx((total(row.loop(above)) - total(row.loop(below))) / (2 * h)).epsilon(1e-5).margin(1e-7));
    }
  }
}

}  // namespace sinter_test
