// What the tests of the loop generator share: kernels built by hand, buffers with a guard, values at the corners of
// types, and noise to fill them with.
#pragma once

#include "../catch.hpp"

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sinter_test {
using namespace sinter;

inline std::vector<x86::Isa> isas() {
  std::vector<x86::Isa> list;
  for (x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512})
    if (x86::host_has(isa)) list.push_back(isa);
  return list;
}

/// A buffer of elements of one dtype, with a guard after its end.
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;
  std::int64_t count;
  Buffer(DType d, std::int64_t n)
      : dtype(d), bytes(static_cast<std::size_t>(n * size_of(d)) + 64, std::byte{0x5A}), count(n) {}
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  bool guard_holds() const {
    for (std::size_t i = static_cast<std::size_t>(count * size_of(dtype)); i < bytes.size(); ++i)
      if (bytes[i] != std::byte{0x5A}) return false;
    return true;
  }
  bool operator==(const Buffer& other) const { return bytes == other.bytes; }
};

/// Builds kernels whose operand i has access i, contiguous over the axes of `mask` (bit a: axis a).
struct Maker {
  Kernel kernel;
  BoundGeometry geometry;
  ScalarBuilder s;
  Maker(KernelKind kind, std::vector<std::pair<AxisRole, std::int64_t>> axes) {
    kernel.kind = kind;
    for (std::size_t a = 0; a < axes.size(); ++a)
      kernel.axes.push_back(axes[a].first), geometry.extent[a] = axes[a].second;
  }
  std::uint16_t operand(DType dtype, unsigned mask, bool written = false) {
    Access access;
    access.operand = static_cast<std::uint16_t>(kernel.operands.size());
    kernel.operands.push_back({dtype, written});
    BoundGeometry::AccessNumbers numbers;
    std::int64_t stride = 1;
    for (int a = kernel.rank(); a-- > 0;) {
      const auto at = static_cast<std::size_t>(a);
      if (!(mask >> a & 1u)) continue;
      access.stride[at] = stride == 1 && a == kernel.rank() - 1 ? StrideClass::unit : StrideClass::any;
      numbers.stride[at] = stride;
      stride *= geometry.extent[at];
    }
    kernel.accesses.push_back(access);
    geometry.accesses.push_back(numbers);
    return access.operand;
  }
  ScalarValue load(std::uint16_t operand) { return s.load(operand, kernel.operands[operand].dtype); }
  void store(std::uint16_t operand, ScalarValue value) { kernel.stores.push_back({operand, value.id}); }
  void finish() { kernel.body = s.body(); }
};

inline void run(const Maker& m, x86::Isa isa, std::vector<void*> operands) {
  REQUIRE_NOTHROW(verify(m.kernel));
  std::string why;
  auto executable = x86::make_loop_executable(m.kernel, {}, isa, &why);
  INFO(why << "\n" << m.kernel.text());
  REQUIRE(executable != nullptr);
  executable->bind(m.geometry)->run(operands.data());
}

constexpr auto parallel = AxisRole::parallel, reduced = AxisRole::reduced;

/// Values that reach the corners of a type.
template <class T>
T sample(std::uint64_t i, std::uint64_t salt) {
  const std::uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + salt * 0xBF58476D1CE4E5B9ull;
  const std::uint64_t r = (z ^ z >> 29) * 0x94D049BB133111EBull >> 20;
  if constexpr (std::is_same_v<T, bool>) return r & 1;
  else if constexpr (std::is_floating_point_v<T>) {
    constexpr T corners[] = {T(0),
                             T(-0.0),
                             std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(),
                             std::numeric_limits<T>::quiet_NaN(),
                             std::numeric_limits<T>::denorm_min(),
                             T(1),
                             T(-2.5),
                             T(0.5),
                             T(1.5),
                             T(2.5)};
    if (r % 4 == 0) return corners[r / 4 % std::size(corners)];
    return static_cast<T>(static_cast<double>(r % 20001) / 1000.0 - 10.0);
  } else {
    constexpr T corners[] = {0, 1, -1, std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 7};
    if (r % 4 == 0) return corners[r / 4 % std::size(corners)];
    return static_cast<T>(static_cast<std::int64_t>(r % 2001) - 1000);
  }
}

template <class T>
bool same(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return a == b;  // the sign of zero is compared where it matters
  } else {
    return a == b;
  }
}

template <class T>
std::vector<T> noise(std::int64_t n) {
  std::vector<T> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = static_cast<T>(static_cast<double>((i * 2654435761u + 12345) % 1000003) / 500001.5 - 1);
  return v;
}

}  // namespace sinter_test
