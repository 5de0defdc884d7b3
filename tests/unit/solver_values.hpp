// Made by solver_values.py with SciPy 1.17.1.
#pragma once

#include <vector>

namespace scipy_values {

inline const std::vector<double> logistic{-0.4052879476739319, -0.3776620244164476, 0.09074973829912772};
inline const std::vector<double> fit{2.511237604437248, 1.2968129232811667, 0.4999517861255262};

}  // namespace scipy_values
