// Cases of a function, its arguments and the numbers that it must give, which another program computed.
#pragma once

#include "op_table.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace sinter_test {

struct NumberCase {
  const char* name;
  Tensor (*run)(const Inputs&);
  Inputs inputs;
  std::vector<double> want;
};

/// Within `tolerance` of each number, relative to it, or to 1 where that is more; numbers below `small` (in magnitude)
/// always relative.
inline bool is_near(const std::vector<double>& have, const std::vector<double>& want, double tolerance,
                    double small = 1e-3) {
  if (have.size() != want.size()) return false;
  for (std::size_t i = 0; i < have.size(); ++i) {
    const double scale = std::abs(want[i]) < small ? std::abs(want[i]) : std::max(1.0, std::abs(want[i]));
    if (!(have[i] == want[i] || (std::isnan(have[i]) && std::isnan(want[i])) ||
          std::abs(have[i] - want[i]) <= tolerance * scale))
      return false;
  }
  return true;
}

/// Every case on every back end, compiled and lazy.
inline void check_cases(const std::vector<NumberCase>& cases, double tolerance = 1e-13, double small = 1e-3) {
  for (const NumberCase& row : cases)
    for (const Mode& mode : modes()) {
      INFO(row.name << " " << mode.name);
      const std::vector<double> have = to_vector<double>(run_in(mode, row.run, row.inputs));
      INFO(to_string(copy_of(have)) << " should be " << to_string(copy_of(row.want)));
      CHECK(is_near(have, row.want, tolerance, small));
    }
}

}  // namespace sinter_test
