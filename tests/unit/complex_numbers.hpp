// Numbers that tests of complex tensors share, and how they are compared.
#pragma once

#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

using C64 = std::complex<float>;
using C128 = std::complex<double>;
using Numbers = std::vector<C128>;

inline const Numbers some{{1, 2}, {3, -4}, {-0.5, 1}, {-2, -0.25}, {0.1, 0}, {-1.5, 0.75}, {0, 2}};
inline const Numbers others{{0.3, -1}, {2, 0.25}, {-1, -1.5}, {0.5, 0.5}, {-3, 1}, {0.25, 2}, {1, -2}};

inline Numbers numbers(const sinter::In& z) { return sinter::to_vector<C128>(z); }
inline sinter::Tensor of(const Numbers& z) { return sinter::copy_of(z); }

inline bool close(const Numbers& a, const Numbers& b, double tolerance = 1e-12) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])))) return false;
  return true;
}
template <class F>
Numbers mapped(const Numbers& z, F&& f) {
  Numbers out;
  for (const C128& each : z) out.push_back(f(each));
  return out;
}
