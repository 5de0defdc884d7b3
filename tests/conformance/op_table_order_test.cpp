// Op tables: what orders elements along an axis. Oracles sort positions of doubles by comparing them.
#include "op_table.hpp"

#include <numeric>

using namespace sinter_test;

namespace {

using Positions = std::vector<std::int64_t>;
using Pick = std::function<Positions(const Numbers&)>;  // positions of the results in a row
enum class Result : bool { values, indices };

/// NaN after all numbers.
bool precedes(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }
Positions ordered(const Numbers& row, bool descending = false) {
  Positions at(row.size());
  std::iota(at.begin(), at.end(), 0);
  std::stable_sort(at.begin(), at.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    return descending ? precedes(b, a) : precedes(a, b);
  });
  return at;
}
Positions first_of(Positions list, std::size_t count) {
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)};
}
double element(const Numbers& row, std::int64_t at) { return row[static_cast<std::size_t>(at)]; }

Positions middle(const Numbers& row, bool counts_nan) {
  const Positions at = ordered(row);
  const auto nans = std::count_if(row.begin(), row.end(), [](double x) { return std::isnan(x); });
  const std::int64_t numbers = static_cast<std::int64_t>(row.size()) - nans;
  if (numbers == 0 || (counts_nan && nans > 0)) return {at[static_cast<std::size_t>(numbers)]};
  return {at[static_cast<std::size_t>((numbers - 1) / 2)]};
}
Positions most_frequent(const Numbers& row) {
  std::int64_t best = 0, position = 0;
  for (std::int64_t i : ordered(row)) {
    const double x = element(row, i);
    std::int64_t count = 0, last = 0;
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(row.size()); ++j)
      if (element(row, j) == x || (std::isnan(x) && std::isnan(element(row, j)))) ++count, last = j;
    if (count > best) best = count, position = last;
  }
  return {position};
}

/// Each row of `x` along `axis` replaced by what `pick` finds in it, or by its positions.
Array picked(const Array& x, std::size_t axis, const Pick& pick, Result result, bool drops_axis) {
  std::int64_t stride = 1;
  for (std::size_t i = axis + 1; i < x.extents.size(); ++i) stride *= x.extents[i];
  const std::int64_t length = x.extents[axis], rows = length == 0 ? 0 : oracle::count(x.extents) / length;
  std::vector<Positions> found;
  std::size_t per_row = pick(Numbers(static_cast<std::size_t>(length))).size();
  Array out{result == Result::values ? x.dtype : DType::i64, x.extents, {}};
  out.extents[axis] = static_cast<std::int64_t>(per_row);
  out.data.resize(static_cast<std::size_t>(oracle::count(out.extents)));
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = row / stride * stride * length + row % stride;
    Numbers numbers;
    for (std::int64_t i = 0; i < length; ++i) numbers.push_back(element(x.data, first + i * stride));
    const Positions at = pick(numbers);
    for (std::size_t i = 0; i < per_row; ++i) {
      const std::int64_t place = row / stride * stride * static_cast<std::int64_t>(per_row) + row % stride +
                                 static_cast<std::int64_t>(i) * stride;
      out.data[static_cast<std::size_t>(place)] =
          result == Result::values ? element(numbers, at[i]) : static_cast<double>(at[i]);
    }
  }
  if (drops_axis) out.extents.erase(out.extents.begin() + static_cast<std::ptrdiff_t>(axis));
  return out;
}

struct OrderCall {
  const char* name;
  Ordered (*call)(const Tensor&, int axis);
  Positions (*pick)(const Numbers&);
  bool drops_axis = false;
  Empty empty = Empty::works;
};
const OrderCall calls[] = {
    {"sort", [](const Tensor& x, int axis) { return sort(x, axis); }, [](const Numbers& row) { return ordered(row); }},
    {"sort, descending", [](const Tensor& x, int axis) { return sort(x, axis, {.descending = true}); },
     [](const Numbers& row) { return ordered(row, true); }},
    {"topk", [](const Tensor& x, int axis) { return topk(x, 2, axis); },
     [](const Numbers& row) { return first_of(ordered(row, true), 2); }, false, Empty::untested},
    {"topk, least ones in place",
     [](const Tensor& x, int axis) { return topk(x, 2, axis, {.largest = false, .sorted = false}); },
     [](const Numbers& row) {
       Positions at = first_of(ordered(row), 2);
       std::sort(at.begin(), at.end());
       return at;
     },
     false, Empty::untested},
    {"kthvalue", [](const Tensor& x, int axis) { return kthvalue(x, 3, axis); },
     [](const Numbers& row) { return Positions{ordered(row)[2]}; }, true, Empty::untested},
    {"median", [](const Tensor& x, int axis) { return median(x, axis); },
     [](const Numbers& row) { return middle(row, true); }, true, Empty::untested},
    {"nanmedian", [](const Tensor& x, int axis) { return nanmedian(x, axis); },
     [](const Numbers& row) { return middle(row, false); }, true, Empty::untested},
    {"mode", [](const Tensor& x, int axis) { return mode(x, axis); }, most_frequent, true, Empty::untested},
};

Row order_row(const OrderCall& op, DType dtype, const Extents& extents, int axis, Result result) {
  Row row;
  row.name = std::string(op.name) + " " + std::string(name(dtype)) + Shape(extents).text() + " along " +
             std::to_string(axis) + (result == Result::values ? ", values" : ", indices");
  row.run = [call = op.call, axis, result](const Inputs& in) {
    const auto [values, indices] = call(in[0], axis);
    return result == Result::values ? values : indices;
  };
  const auto counted = static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(extents.size()) : axis);
  row.want = [&op, counted, result](const Arrays& in) {
    return picked(in[0], counted, op.pick, result, op.drops_axis);
  };
  row.inputs = {{extents, dtype, {-9, 9}}};
  row.empty = op.empty;
  if (dtype == DType::f64 && result == Result::values) row.derivative = Derivative::piecewise;
  return row;
}

constexpr DType every_dtype[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u64, DType::bool_};

Array quantiles(const Array& x, double q, QuantileInterpolation interpolation) {
  const auto length = static_cast<std::size_t>(x.extents.back());
  Array out{x.dtype, {x.extents.begin(), x.extents.end() - 1}, {}};
  for (std::size_t first = 0; first < x.data.size(); first += length) {
    Numbers row(x.data.begin() + static_cast<std::ptrdiff_t>(first),
                x.data.begin() + static_cast<std::ptrdiff_t>(first + length));
    std::sort(row.begin(), row.end());
    const double place = q * static_cast<double>(length - 1);
    const double below = row[static_cast<std::size_t>(std::floor(place))],
                 above = row[static_cast<std::size_t>(std::ceil(place))];
    switch (interpolation) {
      case QuantileInterpolation::linear:
        out.data.push_back(below + (place - std::floor(place)) * (above - below));
        break;
      case QuantileInterpolation::lower: out.data.push_back(below); break;
      case QuantileInterpolation::higher: out.data.push_back(above); break;
      case QuantileInterpolation::nearest:
        out.data.push_back(row[static_cast<std::size_t>(std::nearbyint(place))]);
        break;
      case QuantileInterpolation::midpoint: out.data.push_back((below + above) / 2); break;
    }
    out.scale.push_back(9);
  }
  return out;
}

}  // namespace

TEST_CASE("op table: order along an axis") {
  for (const OrderCall& op : calls)
    for (const DType dtype : every_dtype)
      for (const Result result : {Result::values, Result::indices})
        for (const auto& [extents, axis] : {std::pair{Extents{2, n}, 1}, {Extents{n, 4}, 0}, {Extents{2, n, 3}, -2}}) {
          if (axis == -2 && dtype != DType::f32) continue;
          check_row(order_row(op, dtype, extents, axis, result));
        }
}

TEST_CASE("op table: quantiles") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto interpolation :
         {QuantileInterpolation::linear, QuantileInterpolation::lower, QuantileInterpolation::higher,
          QuantileInterpolation::nearest, QuantileInterpolation::midpoint})
      for (const double q : {0.0, 0.3, 1.0}) {
        Row row;
        row.name = "quantile " + std::string(name(dtype)) + " " + std::to_string(q) + ", interpolation " +
                   std::to_string(static_cast<int>(interpolation));
        row.run = [=](const Inputs& in) { return quantile(in[0], q, -1, {.interpolation = interpolation}); };
        row.want = [=](const Arrays& in) { return quantiles(in[0], q, interpolation); };
        row.inputs = {{{3, n}, dtype, {-9, 9}}};
        row.tolerance = {4, 4, 0};
        row.empty = Empty::untested;
        if (dtype == DType::f64) row.derivative = Derivative::piecewise;
        check_row(row);
      }
}

TEST_CASE("op table: searchsorted and isin") {
  for (const DType dtype : every_dtype)
    for (const bool right : {false, true}) {
      Row row;
      row.name = "searchsorted " + std::string(name(dtype)) + (right ? ", right" : "");
      row.run = [right](const Inputs& in) { return searchsorted(sort(in[0]).values, in[1], {.right = right}); };
      row.want = [right](const Arrays& in) {
        Array out{DType::i64, in[1].extents, {}};
        for (const double x : in[1].data)
          out.data.push_back(static_cast<double>(std::count_if(in[0].data.begin(), in[0].data.end(), [&](double y) {
            return right ? !precedes(x, y) : precedes(y, x);
          })));
        return out;
      };
      row.inputs = {{{m}, dtype, {-4, 4}}, {{2, n}, dtype, {-5, 5}}};
      check_row(row);
    }
  for (const DType dtype : every_dtype)
    for (const bool invert : {false, true})
      for (const std::int64_t others : {std::int64_t{3}, std::int64_t{40}}) {
        Row row;
        row.name = "isin " + std::string(name(dtype)) + (invert ? ", inverted" : "");
        row.run = [invert](const Inputs& in) { return isin(in[0], in[1], {.invert = invert}); };
        row.want = [invert](const Arrays& in) {
          Array out{DType::bool_, in[0].extents, {}};
          for (const double x : in[0].data)
            out.data.push_back((std::find(in[1].data.begin(), in[1].data.end(), x) != in[1].data.end()) != invert);
          return out;
        };
        row.inputs = {{{2, n}, dtype, {-5, 5}}, {{others}, dtype, {-3, 7}}};
        check_row(row);
      }
}

TEST_CASE("op table: what is found, with a size") {
  static constexpr std::int64_t size = 5;
  const auto list_of = [](DType dtype, const Numbers& found, double fill) {
    Array out{dtype, {size}, found};
    out.data.resize(size, fill);
    return out;
  };
  for (const DType dtype : every_dtype) {
    std::vector<Row> rows(4);
    rows[0].name = "flatnonzero " + std::string(name(dtype));
    rows[0].run = [](const Inputs& in) { return flatnonzero(in[0], {.size = size, .fill = -1}); };
    rows[0].want = [=](const Arrays& in) {
      Numbers found;
      for (std::size_t i = 0; i < in[0].data.size(); ++i)
        if (in[0].data[i] != 0) found.push_back(static_cast<double>(i));
      return list_of(DType::i64, found, -1);
    };
    rows[1].name = "masked_select " + std::string(name(dtype));
    rows[1].run = [](const Inputs& in) { return masked_select(in[0], in[0] > 0.5, {.size = size, .fill = 1}); };
    rows[1].want = [=](const Arrays& in) {
      Numbers found;
      std::copy_if(in[0].data.begin(), in[0].data.end(), std::back_inserter(found), [](double x) { return x > 0.5; });
      return list_of(dtype, found, 1);
    };
    if (dtype == DType::f64) rows[1].derivative = Derivative::piecewise;
    rows[2].name = "unique " + std::string(name(dtype));
    rows[2].run = [](const Inputs& in) { return unique(in[0], {.size = size, .fill = 1}).values; };
    rows[2].want = [=](const Arrays& in) {
      Numbers found = in[0].data;
      std::sort(found.begin(), found.end());
      found.erase(std::unique(found.begin(), found.end()), found.end());
      return list_of(dtype, found, 1);
    };
    rows[3].name = "counts of unique_consecutive " + std::string(name(dtype));
    rows[3].run = [](const Inputs& in) { return unique_consecutive(in[0], {.size = size}).counts; };
    rows[3].want = [=](const Arrays& in) {
      Numbers found;
      for (std::size_t i = 0; i < in[0].data.size(); ++i) {
        if (i == 0 || in[0].data[i] != in[0].data[i - 1]) found.push_back(0);
        ++found.back();
      }
      return list_of(DType::i64, found, 0);
    };
    for (Row& row : rows) {
      row.inputs = {{{2, n}, dtype, {-2, 2}}};
      check_row(row);
    }
  }
}
