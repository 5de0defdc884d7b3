// Op tables: reductions over all sets of axes, positions of extremes with ties and NaN, and what runs along rows.
#include "op_table.hpp"

using namespace sinter_test;
using oracle::Gives;
using oracle::Smooth;
using oracle::Takes;

namespace {

double position_of_least(oracle::Values x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i)
    if (!std::isnan(x[best]) && (x[i] < x[best] || std::isnan(x[i]))) best = i;
  return static_cast<double>(best);
}
double wrapped_product(oracle::Values x) {  // as i64, whatever the integers are
  std::uint64_t product = 1;
  for (double v : x) product *= static_cast<std::uint64_t>(static_cast<std::int64_t>(v));
  return static_cast<double>(static_cast<std::int64_t>(product));
}
double variance(oracle::Values x) {
  const double centre = oracle::mean(x);
  long double total = 0;
  for (double v : x) total += (static_cast<long double>(v) - centre) * (static_cast<long double>(v) - centre);
  return static_cast<double>(total / static_cast<long double>(x.size()));
}

/// Oracles that op_oracles.hpp lacks.
constexpr oracle::ReductionRow more_reduction_rows[] = {
    {"var", variance, variance, {-2, 2}, {16, 17}, 0, oracle::not_a_number, Takes::floats},
    {"argmin",
     position_of_least,
     oracle::no_magnitude,
     {-9, 9},
     oracle::exact,
     0,
     oracle::not_a_number,
     Takes::numbers,
     Gives::index,
     Smooth::no},
    {"prod of integers", wrapped_product, oracle::no_magnitude, {-3, 4}, oracle::exact},
    {"logsumexp",
     oracle::log_sum_exp,
     oracle::no_magnitude,
     {-4, 4},
     {6, 7, 4},
     0,
     oracle::not_a_number,
     Takes::floats},
};

enum class Over : std::uint8_t { any_axes, one_axis };
struct ReductionCall {
  std::string_view name;
  Tensor (*call)(const Tensor&, Axes, Keep);
  Over over = Over::any_axes;
};
int only(const Axes& axes) { return static_cast<int>(axes.list()[0]); }
constexpr ReductionCall reduction_calls[] = {
    {"sum", [](const Tensor& x, Axes axes, Keep keep) { return sum(x, axes, keep); }},
    {"mean", [](const Tensor& x, Axes axes, Keep keep) { return mean(x, axes, keep); }},
    {"prod", [](const Tensor& x, Axes axes, Keep keep) { return prod(x, axes, keep); }},
    {"amax", [](const Tensor& x, Axes axes, Keep keep) { return amax(x, axes, keep); }},
    {"amin", [](const Tensor& x, Axes axes, Keep keep) { return amin(x, axes, keep); }},
    {"any", [](const Tensor& x, Axes axes, Keep keep) { return any(x, axes, keep); }},
    {"all", [](const Tensor& x, Axes axes, Keep keep) { return all(x, axes, keep); }},
    {"var", [](const Tensor& x, Axes axes, Keep keep) { return var(x, axes, keep); }},
    {"argmax", [](const Tensor& x, Axes axes, Keep keep) { return argmax(x, axes, keep); }},
    {"argmin", [](const Tensor& x, Axes axes, Keep keep) { return argmin(x, axes, keep); }},
    {"logsumexp", [](const Tensor& x, Axes axes, Keep keep) { return logsumexp(x, only(axes), keep); }, Over::one_axis},
};

const oracle::ReductionRow& reduction_row(std::string_view name) {
  for (const auto& row : oracle::reduction_rows)
    if (row.name == name) return row;
  for (const auto& row : more_reduction_rows)
    if (row.name == name) return row;
  throw std::logic_error("no oracle for " + std::string(name));
}

std::vector<DType> dtypes_of(std::string_view name) {
  switch (reduction_row(name).takes) {
    case Takes::floats: return {DType::f32, DType::f64};
    case Takes::bools: return {DType::bool_};
    case Takes::numbers:
      if (name != "sum" && name != "prod") return {DType::f32, DType::f64, DType::i32, DType::i64};
      [[fallthrough]];  // booleans are counted
    case Takes::numbers_and_bool: return {DType::f32, DType::f64, DType::i32, DType::i64, DType::bool_};
  }
  return {};
}

DType result_dtype(std::string_view name, DType dtype) {
  const Gives gives = reduction_row(name).gives;
  if (gives != Gives::same) return gives == Gives::boolean ? DType::bool_ : DType::i64;
  const bool becomes_i64 = (name == "sum" || name == "prod") && !is_floating(dtype) && dtype != DType::u64;
  return becomes_i64 ? DType::i64 : dtype;  // PyTorch's rule
}

using AxisList = std::vector<int>;
Axes to_axes(const AxisList& list) {
  switch (list.size()) {
    case 0: return {};
    case 1: return Axes(list[0]);
    case 2: return {list[0], list[1]};
    default: return {list[0], list[1], list[2]};
  }
}

Array reduce(const oracle::ReductionRow& table, DType result, const Array& x, AxisList axes, Keep keep) {
  const int rank = static_cast<int>(x.extents.size());
  for (int& axis : axes) axis = axis < 0 ? axis + rank : axis;
  if (axes.empty())
    for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  Array out{result, {}, {}, {}};
  std::int64_t length = 1;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t extent = x.extents[static_cast<std::size_t>(axis)];
    const bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (is_reduced) length *= extent;
    if (!is_reduced || keep == Keep::yes) out.extents.push_back(is_reduced ? 1 : extent);
  }
  for (const Numbers& group : oracle::reduced_elements(x.data, x.extents, axes)) {
    out.data.push_back(table.oracle(group));
    // Ulps are counted in the row's own tolerance; what grows with the length goes into the scale.
    const double grown = table.per_element * static_cast<double>(length) + 1;
    out.scale.push_back(grown *
                        std::max(table.magnitude(group), table.per_element > 0 ? std::abs(out.data.back()) : 0.0));
  }
  return out;
}

Row reduction(const ReductionCall& op, DType dtype, Extents extents, const AxisList& axes, Keep keep) {
  const oracle::ReductionRow& table =
      reduction_row(op.name == "prod" && !is_floating(dtype) ? "prod of integers" : op.name);
  Row row;
  row.name = std::string(op.name) + " " + std::string(name(dtype)) + Shape(extents).text() + " over";
  for (int axis : axes) row.name += " " + std::to_string(axis);
  if (keep == Keep::yes) row.name += ", kept";
  row.run = [call = op.call, list = to_axes(axes), keep](const Inputs& in) { return call(in[0], list, keep); };
  row.want = [&table, result = result_dtype(op.name, dtype), axes, keep](const Arrays& in) {
    return reduce(table, result, in[0], axes, keep);
  };
  Domain domain = table.domain;
  if (!is_floating(dtype) && op.name == "prod") domain = dtype == DType::bool_ ? Domain{-4, 1} : Domain{1, 4};
  // Mostly true, so that `all` is sometimes true.
  if (op.name == "all") domain = dtype == DType::bool_ ? Domain{-0.5, 2} : Domain{0, 6};
  row.inputs = {{std::move(extents), dtype, domain}};
  row.tolerance = table.tolerance;
  return row;
}

/// Whether reducing no elements has a result, and not the oracle's NaN.
Empty empty_case(std::string_view name, bool reduces_n) {
  if (!reduces_n) return Empty::works;
  if (name == "sum" || name == "prod" || name == "any" || name == "all" || name == "mean") return Empty::works;
  return name == "var" || name == "logsumexp" ? Empty::untested : Empty::fails;
}

}  // namespace

TEST_CASE("op table: reductions of narrow dtypes") {
  std::size_t number = 0;
  for (const ReductionCall& op : reduction_calls) {
    std::vector<DType> dtypes(std::begin(halves), std::end(halves));
    const Takes takes = reduction_row(op.name).takes;
    if (takes == Takes::bools) continue;
    if (takes != Takes::floats) dtypes.insert(dtypes.end(), std::begin(more_integers), std::end(more_integers));
    for (DType dtype : dtypes)
      for (const AxisList& axes : {AxisList{0}, AxisList{-1}, AxisList{0, 1}, AxisList{}}) {
        if ((op.over == Over::one_axis && axes.size() != 1) || !is_in_sample(number++)) continue;
        if (op.name == "prod" && (is_half(dtype) || axes.size() != 1)) continue;  // leaves f16's range, or doubles'
        const Row row = reduction(op, dtype, {n, 3, 7}, axes, Keep::no);
        const Arrays arrays = make_inputs(row.inputs, 21);
        check_value(row, arrays, Placement::dense, "narrow");
        check_placements(row, arrays);
        if (number % 4 == 0) check_dynamic(row);
      }
  }
}

TEST_CASE("op table: reductions over every set of axes") {
  for (const ReductionCall& op : reduction_calls)
    for (DType dtype : dtypes_of(op.name))
      for (const AxisList& axes :
           {AxisList{0}, AxisList{1}, AxisList{-1}, AxisList{0, 1}, AxisList{0, 2}, AxisList{2, 1}, AxisList{}}) {
        if (op.over == Over::one_axis && axes.size() != 1) continue;
        if (op.name == "prod" && dtype == DType::i64 && axes != AxisList{1}) continue;  // beyond the oracle's doubles
        for (Keep keep : {Keep::no, Keep::yes}) {
          Row row = reduction(op, dtype, {n, 3, 4}, axes, keep);
          const bool reduces_n = axes.empty() || std::find(axes.begin(), axes.end(), 0) != axes.end();
          row.empty = empty_case(op.name, reduces_n);
          if (row.empty == Empty::works && op.name == "mean" && reduces_n) row.empty = Empty::untested;  // below
          const Smooth smooth = reduction_row(op.name).smooth;
          if (dtype == DType::f64 && smooth != Smooth::no)
            row.derivative = smooth == Smooth::everywhere ? Derivative::second : Derivative::first;
          if (keep == Keep::yes) row.strided = Strided::none;
          check_row(row);
        }
      }
}

TEST_CASE("op table: reductions of longer and odder shapes") {
  for (const ReductionCall& op : reduction_calls)
    for (DType dtype : dtypes_of(op.name)) {
      if (op.name == "prod" && !is_floating(dtype)) continue;  // would not fit
      for (const auto& [extents, axes] : {std::pair{Extents{}, AxisList{}},
                                          {Extents{1}, AxisList{0}},
                                          {Extents{1000}, AxisList{0}},
                                          {Extents{3, 700}, AxisList{1}},
                                          {Extents{700, 3}, AxisList{0}},
                                          {Extents{70, 41}, AxisList{0}},
                                          {Extents{5, 1, 67}, AxisList{1}},
                                          {Extents{9, 8, 7, 6}, AxisList{0, 3}},
                                          {Extents{9, 8, 7, 6}, AxisList{1, 2}}}) {
        if (op.over == Over::one_axis && axes.size() != 1) continue;
        Row row = reduction(op, dtype, extents, axes, Keep::no);
        row.strided = Strided::none;
        check_row(row);
      }
    }
  for (DType dtype : {DType::f32, DType::f64}) {  // several blocks of the fixed order of sums
    Row row = reduction(reduction_calls[0], dtype, {20011}, {}, Keep::no);
    row.strided = Strided::distinct;  // the errors of equal numbers all go one way
    check_row(row);
  }
}

TEST_CASE("op table: the mean of nothing is NaN") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    CHECK(std::isnan(item<float>(run_in(mode, [](const Inputs& in) { return mean(in[0]); }, {zeros({0})}))));
  }
}

TEST_CASE("op table: integer sums and products wrap") {
  constexpr std::int64_t big = std::int64_t{1} << 62;
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    CHECK(item<std::int64_t>(run_in(mode, [](const Inputs& in) { return sum(in[0]); },
                                    {copy_of(std::vector<std::int64_t>{big, big, big, 5})})) == -big + 5);
    CHECK(item<std::int64_t>(run_in(mode, [](const Inputs& in) { return sum(in[0]); },
                                    {full({9}, 2000000000, {.dtype = DType::i32})})) == 18000000000);
    CHECK(item<std::int64_t>(run_in(mode, [](const Inputs& in) { return prod(in[0]); },
                                    {copy_of(std::vector<std::int64_t>{big, 2, 3})})) ==
          std::numeric_limits<std::int64_t>::min());
  }
}

TEST_CASE("op table: extremes and their positions with ties and NaN") {
  const double nan = oracle::not_a_number, infinite = oracle::infinite;
  const std::vector<Numbers> rows{
      {1, 5, 2, 5, 5, 0},
      {-3, -3, -3, -3, -3, -3},
      {1, nan, 9, nan, -9, 0},
      {nan, nan, nan, nan, nan, nan},
      {-infinite, -infinite, -infinite, -infinite, -infinite, -infinite},
      {0, infinite, 3, infinite, -infinite, 1},
      {0, 0, 0, 0, 0, nan},
      {-0.0, 0.0, -0.0, 0.0, 0, 0},
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    Array x{dtype, {static_cast<std::int64_t>(rows.size()), 6}, {}};
    for (const Numbers& row : rows) x.data.insert(x.data.end(), row.begin(), row.end());
    const Array turned = gathered(x, {6, x.extents[0]}, [](Extents at) { return Extents{at[1], at[0]}; });
    for (const ReductionCall& op : reduction_calls) {
      if (op.name != "argmax" && op.name != "argmin" && op.name != "amax" && op.name != "amin") continue;
      check_value(reduction(op, dtype, x.extents, {1}, Keep::no), {x}, Placement::dense, "ties and NaN");
      check_value(reduction(op, dtype, turned.extents, {0}, Keep::no), {turned}, Placement::dense, "ties and NaN");
    }
  }
  for (DType dtype : {DType::i32, DType::i64})
    for (const ReductionCall& op : reduction_calls)
      if (op.name == "argmax" || op.name == "argmin")
        check_value(reduction(op, dtype, {7}, {0}, Keep::no), {{dtype, {7}, {2, 7, -1, 7, -1, 3, 0}}}, Placement::dense,
                    "ties");
}

TEST_CASE("op table: softmax and log_softmax") {
  for (const auto& table : oracle::row_rows)
    for (DType dtype : {DType::f32, DType::f64})
      for (int axis : {-1, 0, 1}) {
        Tensor (*call)(const In&, int) =
            table.name == "softmax" ? static_cast<Tensor (*)(const In&, int)>(softmax) : log_softmax;
        auto along = [&table, axis](const Arrays& in) {
          const int moved = axis < 0 ? 2 : axis;  // swapped with the last axis, there and back
          auto swapped = [&](const Array& x) {
            Extents extents = x.extents;
            std::swap(extents[static_cast<std::size_t>(moved)], extents[2]);
            return gathered(x, extents, [&](Extents at) {
              std::swap(at[static_cast<std::size_t>(moved)], at[2]);
              return at;
            });
          };
          Array x = swapped(in[0]);
          if (!x.data.empty())
            x.data = oracle::along_rows(table.oracle, x.data, static_cast<std::size_t>(x.extents[2]));
          return swapped(x);
        };
        for (const Extents& extents : {Extents{2, n, 5}, Extents{2, 3, n}, Extents{2, 2, 300}}) {
          const bool is_along_n = extents[static_cast<std::size_t>(axis < 0 ? 2 : axis)] == n;
          Row row{std::string(table.name) + " " + std::string(name(dtype)) + Shape(extents).text() + " along " +
                      std::to_string(axis),
                  [call, axis](const Inputs& in) { return call(in[0], axis); },
                  along,
                  {{extents, dtype, table.domain}},
                  table.tolerance};
          row.empty = is_along_n ? Empty::untested : Empty::works;
          if (dtype == DType::f64 && extents[2] != 300) row.derivative = Derivative::second;
          check_row(row);
        }
      }
}

TEST_CASE("op table: softmax of large and of no numbers") {
  const double low = -oracle::infinite;
  const Array x{DType::f32, {3, 4}, {1000, 1000, -1000, low, low, low, 0, low, -1e30, 3e38, 0, 1}};
  const Numbers want{0.5, 0.5, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0};
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    CHECK(to_vector<double>(run_in(mode, [](const Inputs& in) { return softmax(in[0], 1); }, tensors({x}))) == want);
    const auto nothing =
        to_vector<double>(run_in(mode, [](const Inputs& in) { return softmax(in[0], 0); }, {full({2}, low)}));
    CHECK((std::isnan(nothing[0]) && std::isnan(nothing[1])));
  }
}

TEST_CASE("op table: layer_norm") {
  for (DType dtype : {DType::f32, DType::f64}) {
    auto want = [](const Arrays& in) {
      Array out = in[0];
      out.data = oracle::layer_norm(in[0].data, in[1].data, in[2].data, 1e-5);
      return out;
    };
    auto run = [](const Inputs& in) { return layer_norm(in[0], in[1].shape(), in[1], in[2]); };
    for (const auto& [outer, inner] : {std::pair{Extents{n}, Extents{8}},
                                       {Extents{3}, Extents{m}},
                                       {Extents{2, n}, Extents{3, 4}},
                                       {Extents{4}, Extents{300}}}) {
      Extents whole = outer;
      whole.insert(whole.end(), inner.begin(), inner.end());
      Row row{"layer_norm " + std::string(name(dtype)) + Shape(whole).text(),
              run,
              want,
              {{whole, dtype}, {inner, dtype, {0.5, 2}}, {inner, dtype, {-1, 1}}},
              oracle::layer_norm_tolerance};
      row.strided = Strided::distinct;  // rows of equal numbers have no deviation: what is left is rounding errors
      if (dtype == DType::f64 && inner != Extents{300}) row.derivative = Derivative::second;
      if (inner == Extents{m}) row.empty = Empty::untested;
      check_row(row);
    }
  }
}

TEST_CASE("op table: losses") {
  for (DType dtype : {DType::f32, DType::f64}) {
    auto scalar = [dtype](double value) { return Array{dtype, {}, {value}, {}}; };
    for (DType target : {DType::i32, DType::i64}) {
      Row row{"cross_entropy " + std::string(name(dtype)) + " " + std::string(name(target)),
              [](const Inputs& in) { return cross_entropy(in[0], in[1]); },
              [scalar](const Arrays& in) {
                return scalar(
                    oracle::cross_entropy(in[0].data, std::vector<std::int64_t>(in[1].data.begin(), in[1].data.end())));
              },
              {{{n, 7}, dtype, {-4, 4}}, {{n}, target, {0, 6}}},
              oracle::cross_entropy_tolerance};
      row.empty = Empty::untested;
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
    Row row{"mse_loss " + std::string(name(dtype)),
            [](const Inputs& in) { return mse_loss(in[0], in[1]); },
            [scalar](const Arrays& in) { return scalar(oracle::mse_loss(in[0].data, in[1].data)); },
            {{{n, 4}, dtype}, {{n, 4}, dtype}},
            oracle::mse_loss_tolerance};
    row.empty = Empty::untested;
    if (dtype == DType::f64) row.derivative = Derivative::second;
    check_row(row);
  }
}
