// Slices that run backwards, as NumPy has them, and what is combined with what is there at a place: against loops over
// elements, with sizes that change, through gradients and vmap.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

using namespace sinter;

namespace {

using Whole = std::vector<std::int64_t>;
Whole whole(const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); }
using Bound = std::optional<std::int64_t>;

/// The positions of a slice of n elements, by Python's rules (Objects/sliceobject.c, PySlice_AdjustIndices).
Whole positions_of(Bound start, Bound stop, std::int64_t step, std::int64_t n) {
  const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? n : n - 1;
  const auto adjusted = [&](Bound bound, std::int64_t otherwise) {
    if (!bound) return otherwise;
    const std::int64_t counted = *bound < 0 ? *bound + n : *bound;
    return std::min(std::max(counted, lowest), highest);
  };
  const std::int64_t first = adjusted(start, step > 0 ? lowest : highest),
                     last = adjusted(stop, step > 0 ? highest : lowest);
  Whole out;
  for (std::int64_t i = first; step > 0 ? i < last : i > last; i += step) out.push_back(i);
  return out;
}
std::optional<Dim> as_dim(Bound bound) { return bound ? std::optional<Dim>(*bound) : std::nullopt; }

constexpr std::int64_t far = 99;
const Bound bounds[] = {std::nullopt, -far, -6, -5, -2, -1, 0, 1, 4, 5, far};

}  // namespace

TEST_CASE("indexing: slices with every kind of bounds and steps, read and written, are NumPy's") {
  for (const std::int64_t n : {5, 1, 0}) {
    const Tensor x = arange(n) * 10;
    for (const Bound start : bounds)
      for (const Bound stop : bounds)
        for (const std::int64_t step : {-7, -3, -1, 2}) {
          if (n != 5 && step != -3) continue;
          INFO("slice of " << n << " from " << start.value_or(-1000) << " to " << stop.value_or(-1000) << " by "
                           << step);
          const Whole at = positions_of(start, stop, step, n);
          Whole want;
          for (const std::int64_t i : at) want.push_back(i * 10);
          const Slice part = slice(as_dim(start), as_dim(stop), step);
          CHECK(whole(x(part)) == want);
          Tensor u = x;
          u.at(part) = arange(static_cast<std::int64_t>(at.size())) + 1;
          want = whole(x);
          for (std::size_t i = 0; i < at.size(); ++i)
            want[static_cast<std::size_t>(at[i])] = static_cast<std::int64_t>(i) + 1;
          CHECK(whole(u) == want);
        }
  }
  const Tensor x = arange(4);
  CHECK(whole(x(slice({}, {}, -1))) == Whole{3, 2, 1, 0});
  CHECK(whole(x(slice({}, {}))) == Whole{0, 1, 2, 3});
  CHECK(whole(x(Slice{.step = -2})) == Whole{3, 1});
  CHECK(whole(x(slice(x.size(0) - 2, {}, -1))) == Whole{2, 1, 0});
  CHECK(x(slice(1, 1, -1)).shape() == Shape{0});
}

TEST_CASE("indexing: backwards beside positions, slices and index tensors") {
  const Tensor x = reshape(arange(60), {3, 4, 5});
  const auto at = [](std::int64_t i, std::int64_t j, std::int64_t k) { return (i * 4 + j) * 5 + k; };
  CHECK(whole(x(1, slice({}, {}, -3), 2)) == Whole{at(1, 3, 2), at(1, 0, 2)});
  const Tensor apart = x(slice(2, 0, -1), slice(1, 3), slice({}, {}, -4));
  CHECK(apart.shape() == Shape{2, 2, 2});
  CHECK(whole(apart) ==
        Whole{at(2, 1, 4), at(2, 1, 0), at(2, 2, 4), at(2, 2, 0), at(1, 1, 4), at(1, 1, 0), at(1, 2, 4), at(1, 2, 0)});
  const Tensor gathered = x(slice({}, {}, -2), tensor({3, 0}), slice(0, 5, 4));
  CHECK(whole(gathered) ==
        Whole{at(2, 3, 0), at(2, 3, 4), at(2, 0, 0), at(2, 0, 4), at(0, 3, 0), at(0, 3, 4), at(0, 0, 0), at(0, 0, 4)});
  CHECK(whole(x(slice({}, {}, -1), tensor({true, false, false, false}), 0)) == Whole{at(2, 0, 0), at(1, 0, 0), 0});

  Tensor u = zeros({3, 4}, {.dtype = DType::i64});
  u.at(slice({}, {}, -2), tensor({1, 1, 3})) += tensor({{1, 2, 3}, {10, 20, 30}});
  CHECK(whole(u) == Whole{0, 30, 0, 30, 0, 0, 0, 0, 0, 3, 0, 3});
  u.at(slice({}, {}, -1), tensor({0, 2})) = tensor({{1, 2}, {3, 4}, {5, 6}});  // the whole axis, turned
  CHECK(whole(u) == Whole{5, 30, 6, 30, 3, 0, 4, 0, 1, 3, 2, 3});
  u.at(slice(1, {}, -1), slice({}, {}, -1)) *= tensor({1, 2, 3, 4});
  CHECK(whole(u) == Whole{20, 90, 12, 30, 12, 0, 8, 0, 1, 3, 2, 3});
  u.at(all, slice(-1, 1, -1)) = 7;
  CHECK(whole(u(0)) == Whole{20, 90, 7, 7});
}

TEST_CASE("indexing: backwards in traces, with sizes that change") {
  for (const char* backend : {"", "reference"}) {
    const auto f = jit::compile(
        [](Tensor x) {
          Tensor u = x * 2;
          u.at(slice({}, {}, -2)) = x(slice({}, {}, 2));
          return std::vector<Tensor>{x(slice({}, {}, -1)) + 1, x(slice({}, {}, -3)) + 1, x(slice(-2, 0, -2)) + 1, u};
        },
        {.backend = backend, .dynamic = jit::Dynamic::always});
    for (const std::int64_t n : {4, 5, 6, 7, 8, 12, 3}) {
      const std::vector<Tensor> got = f(arange(n) * 10);
      const auto expected = [&](Bound start, Bound stop, std::int64_t step) {
        Whole out;
        for (const std::int64_t i : positions_of(start, stop, step, n)) out.push_back(i * 10 + 1);
        return out;
      };
      INFO(n << " elements");
      CHECK(whole(got[0]) == expected({}, {}, -1));
      CHECK(whole(got[1]) == expected({}, {}, -3));
      CHECK(whole(got[2]) == expected(-2, 0, -2));
      Whole u = whole(arange(n) * 20);
      const Whole to = positions_of({}, {}, -2, n);
      for (std::size_t i = 0; i < to.size(); ++i)
        u[static_cast<std::size_t>(to[i])] = static_cast<std::int64_t>(i) * 20;
      CHECK(whole(got[3]) == u);
    }
    CHECK(f.stats().compiles <= 2);
  }
}

TEST_CASE("indexing: a step of 0 is an error on the user's line") {
  Tensor x = ones({3});
  CHECK(blame_of<IndexError>([&] { x(slice(0, 2, 0)); }) == blame("index"));
  CHECK(blame_of<IndexError>([&] { x.at(slice(0, 2, 0)) = 1; }) == blame("at"));
  CHECK(has(message_of([&] { x(slice(0, 2, 0)); }), "the slice step of axis 0 is 0"));
}

TEST_CASE("indexing: the larger and the smaller one of what is there and a value") {
  const Tensor start = reshape(arange(6), {2, 3});
  SECTION("parts and single elements") {
    Tensor u = start;
    u.at(1).maximum(4);
    CHECK(whole(u) == Whole{0, 1, 2, 4, 4, 5});
    u.at(all, slice({}, {}, -2)).minimum(tensor({1, 0}));
    CHECK(whole(u) == Whole{0, 1, 1, 0, 4, 1});
    u.at(0, 0).maximum(2.9);  // keeps its dtype
    CHECK(u.dtype() == DType::i64);
    CHECK(whole(u) == Whole{2, 1, 1, 0, 4, 1});
    u.at(slice(0, 0)).maximum(9);
    CHECK(whole(u) == Whole{2, 1, 1, 0, 4, 1});
  }
  SECTION("places named several times take in every value") {
    Tensor u = start;
    u.at(tensor({0, 0, 1}), tensor({1, 1, 2})).maximum(tensor({9, 3, 4}));
    CHECK(whole(u) == Whole{0, 9, 2, 3, 4, 5});
    u.at(tensor({0, 0, 1}), tensor({1, 1, 2})).minimum(tensor({5, 7, 8}));
    CHECK(whole(u) == Whole{0, 5, 2, 3, 4, 5});
    u.at(all, tensor({0, 0})).maximum(tensor({{7, 6}, {1, 2}}));
    CHECK(whole(u) == Whole{7, 5, 2, 3, 4, 5});
  }
  SECTION("masks") {
    Tensor u = start;
    u.at(u > 3).minimum(3);
    CHECK(whole(u) == Whole{0, 1, 2, 3, 3, 3});
    u.at(all, tensor({true, false, true})).maximum(2);
    CHECK(whole(u) == Whole{2, 1, 2, 3, 3, 3});
    u.at(u == 3).maximum(tensor({1, 8, 2}));
    CHECK(whole(u) == Whole{2, 1, 2, 3, 8, 3});
  }
  SECTION("every dtype") {
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      Tensor u = cast(start, dtype);
      u.at(tensor({1, 1})).maximum(cast(tensor({{4, 0, 0}, {0, 9, 0}}), dtype));
      CHECK(u.dtype() == dtype);
      CHECK(whole(u) == Whole{0, 1, 2, 4, 9, 5});
    }
  }
  SECTION("compiled, with a run-time number as the place") {
    const auto f = jit::compile([](Tensor u, Scalar k, Tensor y) {
      u.at(k).maximum(y);
      u.at(k, 0).minimum(1);
      return u;
    });
    CHECK(whole(f(start, 1, tensor({0, 9, 0}))) == Whole{0, 1, 2, 1, 9, 5});
    CHECK(whole(f(start, 0, tensor({0, 9, 0}))) == Whole{0, 9, 2, 3, 4, 5});
  }
  SECTION("gradients go to the one that is taken") {
    const Tensor x = tensor({1., 5., 2.}), y = tensor({3., 4., 7.});
    const auto loss = [](Tensor u, Tensor v) {
      u.at(tensor({0, 1, 1})).maximum(v);
      return sum(u * tensor({2., 3., 5.}));
    };
    CHECK(doubles(jit::grad<0>(loss)(x, y)) == std::vector<double>{0, 0, 5});
    CHECK(doubles(jit::grad<1>(loss)(x, y)) == std::vector<double>{2, 0, 3});
    const auto sliced = [](Tensor u, Tensor v) {
      u.at(slice({}, {}, -1)).minimum(v);
      return sum(u * tensor({2., 3., 5.}));
    };
    CHECK(doubles(jit::grad<0>(sliced)(x, y)) == std::vector<double>{2, 0, 5});
    CHECK(doubles(jit::grad<1>(sliced)(x, y)) == std::vector<double>{0, 3, 0});
  }
  SECTION("under vmap") {
    const Tensor rows = jit::vmap([](Tensor u, Tensor v) {
      u.at(tensor({0, 0, 2})).maximum(v);
      u.at(slice({}, {}, -1)).minimum(tensor({9, 8, 7}));
      return u;
    })(start, tensor({{5, 6, 0}, {1, 1, 50}}));
    CHECK(whole(rows) == Whole{6, 1, 2, 3, 4, 9});
  }
}

TEST_CASE("indexing: places in Variables") {
  const Variable v(reshape(arange(6), {2, 3})), same = v;
  v.at(0, slice({}, {}, -1)) = tensor({7, 8, 9});
  CHECK(whole(same) == Whole{9, 8, 7, 3, 4, 5});
  v.at(1) += 1;
  v.at(1, 0) -= 4;
  v.at(all, 2) *= 2;
  CHECK(whole(same) == Whole{9, 8, 14, 0, 5, 12});
  v.at(tensor({0, 0}), tensor({0, 0})).maximum(tensor({10, 11}));
  v.at(same.value() > 11).minimum(3);
  CHECK(whole(same) == Whole{11, 8, 3, 0, 5, 3});
  const auto step = jit::compile([=](Scalar k) { v.at(k).maximum(6); });
  step(1);
  CHECK(whole(same) == Whole{11, 8, 3, 6, 6, 6});
  const Variable f(ones({2}));
  f.at(0) /= 4;
  CHECK(floats(f) == std::vector<float>{0.25f, 1});
}

TEST_CASE("slices: bounds and steps as large as numbers can be") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  const Tensor x = arange(5, {.dtype = DType::f32});
  const auto part = [&](Slice s) { return to_vector<float>(x(s)); };
  CHECK(part(slice(0, most)) == std::vector<float>{0, 1, 2, 3, 4});
  CHECK(part(slice(least, most, 2)) == std::vector<float>{0, 2, 4});
  CHECK(part(slice(most, least, -2)) == std::vector<float>{4, 2, 0});
  CHECK(part(slice({}, {}, least)) == std::vector<float>{4});
  CHECK(part(slice({}, {}, -most)) == std::vector<float>{4});
  CHECK(part(slice({}, {}, most)) == std::vector<float>{0});
}

TEST_CASE("whole numbers combined with fractions at indices and masks lose them in the end, as everywhere") {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // no number of f32 or f64
  const Tensor x = tensor<std::int64_t>({3, -5, 7, large});
  const Tensor places = tensor({0, 2, 0}), mask = tensor({true, true, false, false});
  const auto changed = [&](auto change) {
    Tensor u = x;
    change(u);
    const auto compiled = jit::compile([change](Tensor v) {
      change(v);
      return v;
    });
    CHECK(whole(compiled(x)) == whole(u));
    return whole(u);
  };
  CHECK(changed([](Tensor& u) { u.at(slice(0, 2)) *= 2.5; }) == Whole{7, -12, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(tensor({0, 1})) *= 2.5; }) == Whole{7, -12, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(places) *= tensor({1.5f, 0.5f, 1.5f}); }) == Whole{6, -5, 3, large});
  CHECK(changed([&](Tensor& u) { u.at(places) += 0.5; }) == Whole{4, -5, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(places) -= 0.75; }) == Whole{1, -5, 6, large});
  CHECK(changed([&](Tensor& u) { u.at(mask) *= 2.5; }) == Whole{7, -12, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(places) -= tensor<std::uint8_t>({1, 2, 1}); }) == Whole{1, -5, 5, large});
  CHECK(changed([&](Tensor& u) { u.at(places) -= tensor({true, false, true}); }) == Whole{1, -5, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(mask) += 0.5; }) == Whole{3, -4, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(mask) -= 0.5; }) == Whole{2, -5, 7, large});
  CHECK(changed([&](Tensor& u) { u.at(mask) -= 1; }) == Whole{2, -6, 7, large});
  CHECK(changed([](Tensor& u) { u.at(u < 0) /= 2; }) == Whole{3, -2, 7, large});  // also in traces
}
