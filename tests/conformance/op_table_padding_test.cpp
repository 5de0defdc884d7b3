// Padding by rules, rolls along several axes and pooling: rows of the op table, stored and read by what follows.
#include "op_table.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

constexpr DType all_dtypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u64, DType::bool_};

using Widths = std::vector<std::pair<int, int>>;

struct ModeRow {
  const char* name;
  PadMode mode;
};
constexpr ModeRow mode_rows[] = {
    {"reflect", PadMode::reflect}, {"replicate", PadMode::replicate}, {"circular", PadMode::circular}};

/// Where the element at `i` of a padded axis of `extent` comes from.
std::int64_t source(PadMode mode, std::int64_t i, std::int64_t extent) {
  if (i >= 0 && i < extent) return i;
  if (mode == PadMode::reflect) return i < 0 ? -i : 2 * (extent - 1) - i;
  if (mode == PadMode::replicate) return i < 0 ? 0 : extent - 1;
  return (i + extent) % extent;
}

/// result[i...] = x[source(i)...]
Array moved_by(const Array& x, Extents extents, const std::function<Extents(const Extents&)>& from) {
  Array out{x.dtype, std::move(extents), {}, {}};
  for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
    const Extents at = from(oracle::coordinates(i, out.extents));
    std::int64_t flat = 0;
    for (std::size_t a = 0; a < at.size(); ++a) flat = flat * x.extents[a] + at[a];
    out.data.push_back(x.data[static_cast<std::size_t>(flat)]);
  }
  return out;
}

Array padded(const Array& x, const Widths& widths, PadMode mode) {
  Extents extents = x.extents;
  for (std::size_t a = 0; a < widths.size(); ++a) extents[a] += widths[a].first + widths[a].second;
  return moved_by(x, extents, [&](Extents at) {
    for (std::size_t a = 0; a < at.size(); ++a) {  // what negative widths cut off is not there to be mirrored
      const std::int64_t before = std::max(-widths[a].first, 0), after = std::max(-widths[a].second, 0);
      at[a] = before + source(mode, at[a] - std::max(widths[a].first, 0), x.extents[a] - before - after);
    }
    return at;
  });
}

void check_for_all_dtypes(const std::string& name, const Function& run, const Oracle& want, Extents x) {
  for (DType dtype : all_dtypes) {
    Row row{name + " " + std::string(sinter::name(dtype)), run, want, {{x, dtype, {-9, 9}}}};
    row.empty = Empty::untested;
    if (dtype == DType::f64) row.derivative = Derivative::second;
    check_row(row);
  }
}

/// Elementwise, and exact in every dtype.
Tensor changed(const Tensor& x) { return x.dtype() == DType::bool_ ? Tensor(!x) : Tensor(-x); }
Array changed(Array x) {
  for (double& value : x.data) value = x.dtype == DType::bool_ ? 1 - value : value == 0 ? 0 : -value;
  return x;
}

struct PoolCase {
  std::vector<std::int64_t> size, stride, padding, dilation;
  bool ceil_mode = false, count_include_pad = true;
};

/// By PyTorch's rules, one window after the other.
Array pooled(const Array& x, const PoolCase& pool, bool is_max) {
  const std::size_t axes = pool.size.size();
  Extents extents{x.extents[0], x.extents[1]};
  for (std::size_t a = 0; a < axes; ++a) {
    const std::int64_t have = x.extents[a + 2], span = pool.dilation[a] * (pool.size[a] - 1) + 1;
    const std::int64_t room = have + 2 * pool.padding[a] - span, stride = pool.stride[a];
    std::int64_t count = (pool.ceil_mode ? room + stride - 1 : room) / stride + 1;
    if (pool.ceil_mode && (count - 1) * stride >= have + pool.padding[a]) --count;
    extents.push_back(count);
  }
  Array out{x.dtype, extents, {}, {}};
  for (std::int64_t i = 0; i < oracle::count(extents); ++i) {
    const Extents to = oracle::coordinates(i, extents);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, sizes = 0, count = 0;
    for (std::int64_t tap = 0; tap < oracle::count(pool.size); ++tap) {
      const Extents offset = oracle::coordinates(tap, pool.size);
      std::int64_t flat = to[0] * x.extents[1] + to[1];
      bool is_inside = true, counts = true;
      for (std::size_t a = 0; a < axes; ++a) {
        const std::int64_t at = to[a + 2] * pool.stride[a] - pool.padding[a] + offset[a] * pool.dilation[a];
        is_inside = is_inside && at >= 0 && at < x.extents[a + 2];
        counts = counts && at < x.extents[a + 2] + pool.padding[a];
        flat = flat * x.extents[a + 2] + at;
      }
      if (counts && (is_inside || pool.count_include_pad)) ++count;
      if (!is_inside) continue;
      const double value = x.data[static_cast<std::size_t>(flat)];
      largest = std::max(largest, value);
      sum += value;
      sizes += std::fabs(value);
    }
    out.data.push_back(is_max ? largest : sum / count);
    out.scale.push_back(is_max ? 0 : sizes / count);
  }
  return out;
}

template <int N>
NumberPerAxis<N> per_axis(const std::vector<std::int64_t>& values) {
  NumberPerAxis<N> out = 0;
  for (int a = 0; a < N; ++a) out.values[static_cast<std::size_t>(a)] = values[static_cast<std::size_t>(a)];
  return out;
}

template <int N, class Max, class Avg>
void check_pool(Max max_pool, Avg avg_pool, const PoolCase& pool, Extents x) {
  for (DType dtype : {DType::f32, DType::f64})
    for (bool is_max : {true, false}) {
      if (!is_max && oracle::count(pool.dilation) != 1) continue;
      const auto run = [=](const Inputs& in) {
        const NumberPerAxis<N> size = per_axis<N>(pool.size), stride = per_axis<N>(pool.stride),
                               padding = per_axis<N>(pool.padding);
        if (is_max) return max_pool(in[0], {size, stride, padding, per_axis<N>(pool.dilation), pool.ceil_mode});
        return avg_pool(in[0], {size, stride, padding, pool.ceil_mode, pool.count_include_pad});
      };
      Row row{std::string(is_max ? "max" : "avg") + "_pool" + std::to_string(N) + "d " + std::string(name(dtype)) +
                  Shape(pool.size).text() + Shape(pool.stride).text() + Shape(pool.padding).text(),
              run,
              [=](const Arrays& in) { return pooled(in[0], pool, is_max); },
              {{x, dtype, {-9, 9}}},
              is_max ? oracle::exact : Tolerance{8, 9, 0}};
      row.empty = Empty::untested;
      if (dtype == DType::f64) row.derivative = is_max ? Derivative::first : Derivative::second;
      check_row(row);
    }
}

}  // namespace

TEST_CASE("op table: padding by rules") {
  for (const ModeRow& row : mode_rows)
    for (const Widths& widths : {Widths{{1, 2}, {0, 1}}, Widths{{2, 0}, {3, 3}}, Widths{{-1, 2}, {1, -2}}}) {
      if (row.mode == PadMode::reflect && widths[0].first < 0) continue;  // nothing is left of the shortest to mirror
      const std::string name = std::string("pad ") + row.name + " " + std::to_string(widths[0].first);
      check_for_all_dtypes(
          name, [=](const Inputs& in) { return pad(in[0], widths, row.mode); },
          [=](const Arrays& in) { return padded(in[0], widths, row.mode); }, {n, 4});
      check_for_all_dtypes(
          name + ", read", [=](const Inputs& in) { return changed(pad(in[0], widths, row.mode)); },
          [=](const Arrays& in) { return changed(padded(in[0], widths, row.mode)); }, {n, 4});
    }
  for (int width : {5, 6})  // mirrored by a gather
    check_for_all_dtypes(
        "pad reflect " + std::to_string(width),
        [=](const Inputs& in) { return pad(in[0], {{0, 0}, {width, 5}}, PadMode::reflect); },
        [=](const Arrays& in) { return padded(in[0], {{0, 0}, {width, 5}}, PadMode::reflect); }, {n, 7});
}

TEST_CASE("op table: padding by a value, read by what follows") {
  for (const Widths& widths : {Widths{{1, 2}, {0, 3}}, Widths{{-1, 2}, {2, -3}}, Widths{{-1, -1}, {-1, 0}}}) {
    const Oracle want = [=](const Arrays& in) {
      Extents extents = in[0].extents;
      for (std::size_t a = 0; a < 2; ++a) extents[a] += widths[a].first + widths[a].second;
      Array out{in[0].dtype, extents, {}, {}};
      for (std::int64_t i = 0; i < oracle::count(extents); ++i) {
        Extents at = oracle::coordinates(i, extents);
        for (std::size_t a = 0; a < 2; ++a) at[a] -= widths[a].first;
        const bool is_inside = at[0] >= 0 && at[0] < in[0].extents[0] && at[1] >= 0 && at[1] < in[0].extents[1];
        out.data.push_back(is_inside ? in[0].data[static_cast<std::size_t>(at[0] * in[0].extents[1] + at[1])] : 1);
      }
      return changed(out);
    };
    check_for_all_dtypes("pad, read", [=](const Inputs& in) { return changed(pad(in[0], widths, 1)); }, want, {n, 5});
  }
}

TEST_CASE("op table: roll along several axes") {
  const Oracle want = [](const Arrays& in) {
    return moved_by(in[0], in[0].extents, [&](Extents at) {
      at[0] = (at[0] + in[0].extents[0] - 1) % in[0].extents[0];
      at[2] = (at[2] + 2) % in[0].extents[2];
      return at;
    });
  };
  const Function run = [](const Inputs& in) { return roll(in[0], {1, -2}, {0, 2}); };
  check_for_all_dtypes("roll", run, want, {n, 2, 7});
  check_for_all_dtypes(
      "roll, read", [=](const Inputs& in) { return changed(run(in)); },
      [=](const Arrays& in) { return changed(want(in)); }, {n, 2, 7});
  CHECK_THROWS_AS(roll(zeros({2, 2}), {1}, {0, 1}), ShapeError);
}

TEST_CASE("op table: pooling with padding, stride, dilation and a last window beyond the end") {
  const auto one = [](const PoolCase& pool) {
    check_pool<1>([](const Tensor& x, MaxPoolOptions<1> o) { return max_pool1d(x, o); },
                  [](const Tensor& x, AvgPoolOptions<1> o) { return avg_pool1d(x, o); }, pool, {2, n, 11});
  };
  one({{3}, {1}, {1}, {1}});
  one({{3}, {2}, {1}, {2}});
  one({{4}, {3}, {2}, {1}, true, false});
  const auto two = [](const PoolCase& pool, Extents x) {
    check_pool<2>([](const Tensor& t, MaxPoolOptions<2> o) { return max_pool2d(t, o); },
                  [](const Tensor& t, AvgPoolOptions<2> o) { return avg_pool2d(t, o); }, pool, std::move(x));
  };
  two({{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {n, 2, 4, 6});
  two({{2, 3}, {2, 1}, {1, 0}, {1, 1}, false, false}, {2, n, 5, 7});
  two({{3, 2}, {2, 2}, {1, 1}, {1, 1}, true, true}, {1, n, 6, 7});
  two({{3, 2}, {2, 3}, {1, 1}, {1, 1}, true, false}, {n, 1, 6, 8});
  two({{2, 2}, {1, 2}, {0, 1}, {2, 3}}, {1, n, 5, 8});
  const auto three = [](const PoolCase& pool) {
    check_pool<3>([](const Tensor& t, MaxPoolOptions<3> o) { return max_pool3d(t, o); },
                  [](const Tensor& t, AvgPoolOptions<3> o) { return avg_pool3d(t, o); }, pool, {n, 1, 3, 4, 5});
  };
  three({{2, 2, 3}, {1, 2, 1}, {1, 0, 1}, {1, 1, 1}});
}

TEST_CASE("padding and pooling say what does not fit", "[errors]") {
  const Tensor x = zeros({3, 4}), image = zeros({1, 1, 4, 4});
  const auto message = [](const auto& f) {
    try {
      f();
    } catch (const UserError& error) { return std::string(error.what()); }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(message([&] { pad(x, {{3, 0}, {0, 0}}, PadMode::reflect); }),
            "reflect padding needs at least 4 elements along axis 0 of (3, 4)"));
  CHECK(has(message([&] { pad(x, {{0, 0}, {0, 5}}, PadMode::circular); }),
            "circular padding needs at least 5 elements along axis 1 of (3, 4)"));
  CHECK(has(message([&] { pad(zeros({0}), {{1, 0}}, PadMode::replicate); }), "replicate padding needs at least 1"));
  CHECK(has(message([&] { pad(x, {{-2, -2}, {0, 0}}); }), "cut more than there is off axis 0 of (3, 4)"));
  CHECK(has(message([&] { pad(x, {{1, 1}}, PadMode::reflect); }), "give one {low, high} per axis"));
  CHECK(has(message([&] { max_pool2d(image, {.size = 3, .padding = 2}); }), "padding 2 of a window of 3"));
  CHECK(has(message([&] { max_pool2d(image, {.size = 5}); }), "a window of 5 does not fit axis 2 of (1, 1, 4, 4)"));
  CHECK(has(message([&] { avg_pool2d(image, {.stride = 1}); }), "size, stride and dilation must be positive"));
  CHECK(has(message([&] { avg_pool1d(image, {.size = 2}); }), "it must have 3 axes"));
  CHECK(has(message([&] { avg_pool1d(zeros({1, 1, 4}, {.dtype = DType::i32}), {.size = 2}); }), "x is i32"));
}
