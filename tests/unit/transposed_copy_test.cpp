// Operands that are read across their rows: copies, and work fused with them, give the values that single elements have,
// whatever the permutation, dtype, extents and layout of the source.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

using namespace sinter;

namespace {

using Extents = std::vector<std::int64_t>;

std::int64_t count_of(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}
Shape shape_of(const Extents& extents) {
  Shape shape;
  for (const std::int64_t extent : extents) shape.push_back(extent);
  return shape;
}

/// Calls visit(place in the permuted tensor, place in its source), both row-major.
template <class F>
void for_each_place(const Extents& source, const std::vector<int>& order, F&& visit) {
  Extents strides(source.size(), 1), at(source.size(), 0);
  for (std::size_t a = source.size() - 1; a-- > 0;) strides[a] = strides[a + 1] * source[a + 1];
  for (std::int64_t place = 0; place < count_of(source); ++place) {
    std::int64_t from = 0;
    for (std::size_t a = 0; a < order.size(); ++a) from += at[a] * strides[static_cast<std::size_t>(order[a])];
    visit(static_cast<std::size_t>(place), static_cast<std::size_t>(from));
    for (std::size_t a = order.size(); a-- > 0;) {
      if (++at[a] < source[static_cast<std::size_t>(order[a])]) break;
      at[a] = 0;
    }
  }
}

/// Different neighbours, exact in every dtype.
template <class T>
std::vector<T> numbers(std::int64_t count) {
  std::vector<T> made;
  for (std::int64_t i = 0; i < count; ++i) made.push_back(static_cast<T>((i * 37 + i / 101) % 113));
  return made;
}

template <class T>
void check_permutation(const Extents& extents, const std::vector<int>& order) {
  const std::vector<T> values = numbers<T>(count_of(extents));
  std::vector<T> wanted(values.size()), doubled(values.size());
  for_each_place(extents, order, [&](std::size_t to, std::size_t from) {
    wanted[to] = values[from];
    doubled[to] = static_cast<T>(values[from] + values[from]);
  });
  IntVector axes;
  Extents shown;
  for (const int axis : order) {
    axes.push_back(axis);
    shown.push_back(extents[static_cast<std::size_t>(axis)]);
  }
  INFO("axes of " << shape_of(extents).text() << " to " << shape_of(shown).text());
  const Tensor x = reshape(copy_of(values), shape_of(extents));
  const auto as_vector = [](const Tensor& t) {
    const auto data = t.data<T>();
    return std::vector<T>(data.begin(), data.end());
  };
  CHECK(as_vector(permute(x, axes)) == wanted);
  const auto twice = [&](Tensor t) {
    const Tensor seen = permute(t, axes);
    return seen + seen;
  };
  CHECK(as_vector(twice(x)) == doubled);
  CHECK(as_vector(jit::compile(twice)(x)) == doubled);
  const auto dense = jit::compile([&](Tensor t) { return permute(t, axes); });
  std::vector<T> place(values.size());
  dense.into(borrow_mut(place.data(), shape_of(shown)))(x);
  CHECK(place == wanted);
}

template <class T>
void check_permutations() {
  for (const Extents& extents : {Extents{64, 64}, {37, 129}, {300, 7}, {5, 260}}) check_permutation<T>(extents, {1, 0});
  for (const std::vector<int>& order : {std::vector<int>{0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {1, 0, 2}})
    check_permutation<T>({9, 34, 21}, order);
  for (const std::vector<int>& order : {std::vector<int>{0, 2, 3, 1}, {0, 3, 1, 2}, {3, 2, 1, 0}, {1, 0, 3, 2}})
    check_permutation<T>({3, 17, 6, 23}, order);
  for (const std::vector<int>& order : {std::vector<int>{4, 0, 1, 2, 3}, {1, 2, 3, 4, 0}, {0, 4, 2, 3, 1}})
    check_permutation<T>({4, 3, 5, 7, 18}, order);
}

}  // namespace

TEST_CASE("transposed copies: elements of each size, in tiles and at their edges") {
  check_permutations<std::uint8_t>();
  check_permutations<std::int16_t>();
  check_permutations<std::int32_t>();
  check_permutations<float>();
  check_permutations<double>();
  check_permutations<std::int64_t>();
}

TEST_CASE("transposed copies: masks, and operands of several dtypes in one kernel") {
  const Tensor x = reshape(arange(70 * 90, {.dtype = DType::f32}), {70, 90});
  const Tensor y = reshape(arange(90 * 70, {.dtype = DType::f64}), {90, 70});
  const Tensor small = cast(x % 3, DType::i8);
  const auto mixed = [](Tensor a, Tensor b, Tensor c) {
    return where(a.t() > 2000, cast(a.t(), DType::f64) + b, cast(c.t(), DType::f64) - b);
  };
  eval({x, y, small});
  const Tensor seen = jit::compile(mixed)(x, y, small);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 90; ++i)
    for (std::int64_t j = 0; j < 70; ++j) {
      const auto a = static_cast<double>(j * 90 + i), b = static_cast<double>(i * 70 + j);
      const double wanted = a > 2000 ? a + b : static_cast<double>((j * 90 + i) % 3) - b;
      wrong += seen.data<double>()[static_cast<std::size_t>(i * 70 + j)] != wanted;
    }
  CHECK(wrong == 0);
  const Tensor mask = x > 1234, flipped = logical_not(mask.t());
  CHECK(item<std::int64_t>(sum(cast(flipped, DType::i64))) == 1235);
  CHECK(!item<bool>(flipped(0, 69)) == (69 * 90 > 1234));
}

TEST_CASE("transposed copies: parts of matrices, indices and results beyond the caches") {
  const Tensor x = reshape(arange(200 * 150, {.dtype = DType::i32}), {200, 150});
  eval(x);
  const auto part = jit::compile([](Tensor t) { return t(slice(3, 190, 2), slice(5, 140)).t() * 3 + arange(94); });
  const Tensor seen = part(x);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 135; ++i)
    for (std::int64_t j = 0; j < 94; ++j)
      wrong += item<std::int64_t>(cast(seen(i, j), DType::i64)) != ((3 + 2 * j) * 150 + 5 + i) * 3 + j;
  CHECK(wrong == 0);
  const Tensor large = reshape(arange(2560 * 2560, {.dtype = DType::f32}), {2560, 2560});
  eval(large);
  const Tensor moved = jit::compile([](Tensor t) { return t.t() - 1; })(large);
  std::vector<float> copied(2560 * 2560);
  jit::compile([](Tensor t) { return t.t(); }).into(borrow_mut(copied.data(), {2560, 2560}))(large);
  for (std::int64_t i = 0; i < 2560; i += 7)
    for (std::int64_t j = 0; j < 2560; ++j) {
      const auto at = static_cast<std::size_t>(i * 2560 + j);
      const auto wanted = static_cast<float>(j * 2560 + i);
      wrong += copied[at] != wanted || moved.data<float>()[at] != wanted - 1;
    }
  CHECK(wrong == 0);
}

namespace {

template <class T>
void check_steps() {
  for (const std::int64_t step : {2, 3, -2}) {
    const std::int64_t rows = 40, columns = 151;
    const std::vector<T> values = numbers<T>(rows * columns);
    const Tensor x = reshape(copy_of(values), {rows, columns});
    const Tensor seen = jit::compile([&](Tensor t) {
      const Tensor part = t(all, slice({}, {}, step));
      return part + part;
    })(x);
    INFO("steps of " << step << ", " << sizeof(T) << " bytes");
    const std::int64_t kept = seen.size(1).value();
    CHECK(kept == (columns + std::abs(step) - 1) / std::abs(step));
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < kept; ++j) {
        const std::int64_t from = step > 0 ? j * step : columns - 1 + j * step;
        const T value = values[static_cast<std::size_t>(i * columns + from)];
        wrong += seen.data<T>()[static_cast<std::size_t>(i * kept + j)] != static_cast<T>(value + value);
      }
    CHECK(wrong == 0);
  }
}

/// One window's maximum, element by element: NaN wins.
float largest(const std::vector<float>& image, std::int64_t width, std::int64_t at, std::int64_t window) {
  float most = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < window; ++i)
    for (std::int64_t j = 0; j < window; ++j) {
      const float x = image[static_cast<std::size_t>(at + i * width + j)];
      if (std::isnan(x) || std::isnan(most)) most = std::numeric_limits<float>::quiet_NaN();
      else most = std::max(most, x);
    }
  return most;
}

}  // namespace

TEST_CASE("strided operands: parts with steps, for elements of each size") {
  check_steps<std::int8_t>();
  check_steps<std::uint16_t>();
  check_steps<float>();
  check_steps<double>();
  const Tensor line = arange(100'003, {.dtype = DType::f32});
  eval(line);
  const Tensor seen = jit::compile([](Tensor t) { return t(slice(1, {}, 2)) * 2; })(line);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 50'001; ++i)
    wrong += seen.data<float>()[static_cast<std::size_t>(i)] != static_cast<float>(2 * (2 * i + 1));
  CHECK(wrong == 0);
}

TEST_CASE("max pooling: windows place by place, with NaN, infinities and both zeros") {
  const std::int64_t planes = 3, height = 33, width = 70;
  std::vector<float> values = numbers<float>(planes * height * width);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = -values[i];
  values[40] = std::numeric_limits<float>::quiet_NaN();
  values[300] = std::numeric_limits<float>::infinity();
  std::fill(values.begin() + 700, values.begin() + 704, -0.f);
  const Tensor x = reshape(copy_of(values), {1, planes, height, width});
  for (const std::int64_t window : {1, 2, 3, 5})
    for (const std::int64_t stride : {1, 2, 3}) {
      INFO("window " << window << ", stride " << stride);
      const auto pool = [=](Tensor t) { return max_pool2d(t, window, stride); };
      const Tensor seen = jit::compile(pool)(x);
      const std::int64_t rows = (height - window) / stride + 1, columns = (width - window) / stride + 1;
      std::int64_t wrong = 0;
      for (std::int64_t p = 0; p < planes; ++p)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t at = (p * height + i * stride) * width + j * stride;
            const float wanted = largest(values, width, at, window);
            const float is = seen.data<float>()[static_cast<std::size_t>((p * rows + i) * columns + j)];
            wrong += std::isnan(wanted) ? !std::isnan(is) : is != wanted;
          }
      CHECK(wrong == 0);
    }
}

namespace {

/// What a function of whole rows or columns gives for an operand that stands across them, and for a copy that does not:
/// the same bits, since the order of its sums is that of the axis. (Sums over several axes take these in the order in
/// which they lie in memory.)
template <class F>
void check_across(const Extents& extents, const IntVector& order, DType dtype, F&& function, double tolerance = 0) {
  INFO("axes of " << shape_of(extents).text() << " in " << name(dtype));
  const Tensor made = cast(randn(shape_of(extents)) * 3, dtype);
  eval(made);
  const auto across = jit::compile([&](Tensor t) { return function(permute(t, order)); });
  const Tensor seen = across(made), wanted = jit::compile(function)(Tensor(permute(made, order) + 0));
  REQUIRE(seen.shape() == wanted.shape());
  CHECK(item<bool>(all(logical_or(seen == wanted, abs(seen - wanted) <= tolerance))));
  const int before = thread_count();
  set_thread_count(1);
  CHECK(item<bool>(all(across(made) == seen)));
  set_thread_count(before);
}

}  // namespace

TEST_CASE("strided operands: rows, columns and scans of operands that stand across them") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16})
    for (const Extents& extents : {Extents{64, 64}, {37, 129}, {129, 37}, {7, 300}, {300, 7}, {3, 900}, {1100, 66}})
      for (const int axis : {0, 1}) {
        check_across(extents, {1, 0}, dtype, [=](Tensor t) { return softmax(t, axis); });
        check_across(extents, {1, 0}, dtype, [=](Tensor t) { return cumsum(exp(t), axis) + t; });
      }
  for (const IntVector& order : {IntVector{0, 2, 1}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}})
    for (const int axis : {0, 1, 2}) {
      check_across({5, 40, 33}, order, DType::f32, [=](Tensor t) { return log_softmax(t * 2, axis); });
      check_across({5, 40, 33}, order, DType::f32, [](Tensor t) { return t - logsumexp(t, {1, 2}, keepdim); }, 2e-6);
    }
  // Longer than a thread keeps packed, and rows beside an operand that lies along them.
  check_across({20, 70'000}, {1, 0}, DType::f32, [](Tensor t) { return softmax(t, 0); });
  check_across({70'000, 20}, {1, 0}, DType::f32, [](Tensor t) { return softmax(t, 1); });
  check_across({200, 48}, {1, 0}, DType::f32, [](Tensor t) {
    return softmax(t + arange(200, {.dtype = DType::f32}) / 100, 1) * argmax(t, 1, keepdim);
  });
}
