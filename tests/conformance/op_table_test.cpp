// Op tables: elementwise ops. Each line of an op's table becomes rows over dtypes and shapes.
#include "op_table.hpp"
#include "op_rows_elementwise.hpp"

using namespace sinter_test;
using oracle::Gives;
using oracle::more_binary_rows;
using oracle::more_unary_rows;
using oracle::Smooth;
using oracle::Takes;

namespace {

// ---- unary ----------------------------------------------------------------------------------------------------------

struct UnaryCall {
  std::string_view name;
  Tensor (*call)(const Tensor&);
};
constexpr UnaryCall unary_calls[] = {
    {"neg", [](const Tensor& x) { return Tensor(-x); }},
    {"abs", [](const Tensor& x) { return Tensor(abs(x)); }},
    {"exp", [](const Tensor& x) { return Tensor(exp(x)); }},
    {"log", [](const Tensor& x) { return Tensor(log(x)); }},
    {"sqrt", [](const Tensor& x) { return Tensor(sqrt(x)); }},
    {"rsqrt", [](const Tensor& x) { return Tensor(rsqrt(x)); }},
    {"sin", [](const Tensor& x) { return Tensor(sin(x)); }},
    {"cos", [](const Tensor& x) { return Tensor(cos(x)); }},
    {"tanh", [](const Tensor& x) { return Tensor(tanh(x)); }},
    {"erf", [](const Tensor& x) { return Tensor(erf(x)); }},
    {"sigmoid", [](const Tensor& x) { return Tensor(sigmoid(x)); }},
    {"relu", [](const Tensor& x) { return Tensor(relu(x)); }},
    {"gelu", [](const Tensor& x) { return Tensor(gelu(x)); }},
    {"silu", [](const Tensor& x) { return Tensor(silu(x)); }},
    {"sign", [](const Tensor& x) { return Tensor(sign(x)); }},
    {"floor", [](const Tensor& x) { return Tensor(floor(x)); }},
    {"ceil", [](const Tensor& x) { return Tensor(ceil(x)); }},
    {"round", [](const Tensor& x) { return Tensor(round(x)); }},
    {"trunc", [](const Tensor& x) { return Tensor(trunc(x)); }},
    {"square", [](const Tensor& x) { return Tensor(square(x)); }},
    {"reciprocal", [](const Tensor& x) { return Tensor(reciprocal(x)); }},
    {"stop_gradient", [](const Tensor& x) { return Tensor(stop_gradient(x)); }},
    {"not", [](const Tensor& x) { return Tensor(!x); }},
    {"expm1", [](const Tensor& x) { return Tensor(expm1(x)); }},
    {"exp2", [](const Tensor& x) { return Tensor(exp2(x)); }},
    {"log1p", [](const Tensor& x) { return Tensor(log1p(x)); }},
    {"log2", [](const Tensor& x) { return Tensor(log2(x)); }},
    {"log10", [](const Tensor& x) { return Tensor(log10(x)); }},
    {"tan", [](const Tensor& x) { return Tensor(tan(x)); }},
    {"asin", [](const Tensor& x) { return Tensor(asin(x)); }},
    {"acos", [](const Tensor& x) { return Tensor(acos(x)); }},
    {"atan", [](const Tensor& x) { return Tensor(atan(x)); }},
    {"sinh", [](const Tensor& x) { return Tensor(sinh(x)); }},
    {"cosh", [](const Tensor& x) { return Tensor(cosh(x)); }},
    {"asinh", [](const Tensor& x) { return Tensor(asinh(x)); }},
    {"acosh", [](const Tensor& x) { return Tensor(acosh(x)); }},
    {"atanh", [](const Tensor& x) { return Tensor(atanh(x)); }},
    {"cbrt", [](const Tensor& x) { return Tensor(cbrt(x)); }},
    {"logit", [](const Tensor& x) { return Tensor(logit(x)); }},
    {"softplus", [](const Tensor& x) { return Tensor(softplus(x)); }},
    {"logsigmoid", [](const Tensor& x) { return Tensor(logsigmoid(x)); }},
    {"mish", [](const Tensor& x) { return Tensor(mish(x)); }},
    {"softsign", [](const Tensor& x) { return Tensor(softsign(x)); }},
    {"hardsigmoid", [](const Tensor& x) { return Tensor(hardsigmoid(x)); }},
    {"hardswish", [](const Tensor& x) { return Tensor(hardswish(x)); }},
    {"tanhshrink", [](const Tensor& x) { return Tensor(tanhshrink(x)); }},
    {"gelu_tanh", [](const Tensor& x) { return Tensor(gelu_tanh(x)); }},
    {"leaky_relu", [](const Tensor& x) { return Tensor(leaky_relu(x)); }},
    {"elu", [](const Tensor& x) { return Tensor(elu(x, 0.5)); }},
    {"hardshrink", [](const Tensor& x) { return Tensor(hardshrink(x)); }},
    {"softshrink", [](const Tensor& x) { return Tensor(softshrink(x)); }},
    {"relu6", [](const Tensor& x) { return Tensor(relu6(x)); }},
    {"hardtanh", [](const Tensor& x) { return Tensor(hardtanh(x)); }},
    {"rad2deg", [](const Tensor& x) { return Tensor(rad2deg(x)); }},
    {"frac", [](const Tensor& x) { return Tensor(frac(x)); }},
};

const oracle::UnaryRow& unary_row(std::string_view name) {
  for (const auto& row : oracle::unary_rows)
    if (row.name == name) return row;
  for (const auto& row : more_unary_rows)
    if (row.name == name) return row;
  throw std::logic_error("no oracle for " + std::string(name));
}

/// Ops that are the identity on integers, though their oracle's row names only floats.
bool keeps_integers(std::string_view name) {
  return name == "floor" || name == "ceil" || name == "round" || name == "trunc" || name == "frac";
}

std::vector<DType> dtypes_of(Takes takes) {
  switch (takes) {
    case Takes::floats: return {DType::f32, DType::f64};
    case Takes::numbers: return {DType::f32, DType::f64, DType::i32, DType::i64};
    case Takes::numbers_and_bool: return {DType::f32, DType::f64, DType::i32, DType::i64, DType::bool_};
    case Takes::bools: return {DType::bool_};
  }
  return {};
}

Row unary(const UnaryCall& op, DType dtype, Extents extents) {
  const oracle::UnaryRow& table = unary_row(op.name);
  const bool becomes_f32 = !is_floating(dtype) && table.takes == Takes::floats && !keeps_integers(op.name);
  Row row;
  row.name = std::string(op.name) + " " + std::string(name(dtype)) + Shape(extents).text();
  row.run = [call = op.call](const Inputs& in) { return call(in[0]); };
  row.want = [f = table.oracle, becomes_f32](const Arrays& in) {
    Array out{becomes_f32 ? DType::f32 : in[0].dtype, in[0].extents, {}};
    for (double x : in[0].data) out.data.push_back(f(x));
    return out;
  };
  row.inputs = {{std::move(extents), dtype, table.domain}};
  row.tolerance = table.tolerance;
  return row;
}

Derivative derivative_of(Smooth smooth, DType dtype) {
  if (dtype != DType::f64 || smooth == Smooth::no) return Derivative::none;
  return smooth == Smooth::piecewise ? Derivative::piecewise : Derivative::second;
}

const std::vector<Extents> closed_shapes{{}, {1}, {3, 17}, {2, 1, 3, 1, 2}, {130}};

void check_unary(const UnaryCall& op, DType dtype) {
  Row row = unary(op, dtype, {n, 4});
  row.derivative = derivative_of(unary_row(op.name).smooth, dtype);
  check_row(row);
  for (const Extents& extents : closed_shapes) {
    Row closed = unary(op, dtype, extents);
    closed.strided = Strided::none;
    check_row(closed);
  }
}

// ---- binary ---------------------------------------------------------------------------------------------------------

struct BinaryCall {
  std::string_view name;
  Tensor (*call)(const Tensor&, const Tensor&);
};
constexpr BinaryCall binary_calls[] = {
    {"add", [](const Tensor& a, const Tensor& b) { return Tensor(a + b); }},
    {"sub", [](const Tensor& a, const Tensor& b) { return Tensor(a - b); }},
    {"mul", [](const Tensor& a, const Tensor& b) { return Tensor(a * b); }},
    {"div", [](const Tensor& a, const Tensor& b) { return Tensor(a / b); }},
    {"rem", [](const Tensor& a, const Tensor& b) { return Tensor(a % b); }},
    {"pow", [](const Tensor& a, const Tensor& b) { return Tensor(pow(a, b)); }},
    {"maximum", [](const Tensor& a, const Tensor& b) { return Tensor(maximum(a, b)); }},
    {"minimum", [](const Tensor& a, const Tensor& b) { return Tensor(minimum(a, b)); }},
    {"eq", [](const Tensor& a, const Tensor& b) { return Tensor(a == b); }},
    {"ne", [](const Tensor& a, const Tensor& b) { return Tensor(a != b); }},
    {"lt", [](const Tensor& a, const Tensor& b) { return Tensor(a < b); }},
    {"le", [](const Tensor& a, const Tensor& b) { return Tensor(a <= b); }},
    {"gt", [](const Tensor& a, const Tensor& b) { return Tensor(a > b); }},
    {"ge", [](const Tensor& a, const Tensor& b) { return Tensor(a >= b); }},
    {"and", [](const Tensor& a, const Tensor& b) { return Tensor(a & b); }},
    {"or", [](const Tensor& a, const Tensor& b) { return Tensor(a | b); }},
    {"xor", [](const Tensor& a, const Tensor& b) { return Tensor(a ^ b); }},
    {"hypot", [](const Tensor& a, const Tensor& b) { return Tensor(hypot(a, b)); }},
    {"atan2", [](const Tensor& a, const Tensor& b) { return Tensor(atan2(a, b)); }},
    {"logaddexp", [](const Tensor& a, const Tensor& b) { return Tensor(logaddexp(a, b)); }},
    {"logaddexp2", [](const Tensor& a, const Tensor& b) { return Tensor(logaddexp2(a, b)); }},
    {"xlogy", [](const Tensor& a, const Tensor& b) { return Tensor(xlogy(a, b)); }},
    {"xlog1py", [](const Tensor& a, const Tensor& b) { return Tensor(xlog1py(a, b)); }},
    {"fmod", [](const Tensor& a, const Tensor& b) { return Tensor(fmod(a, b)); }},
    {"copysign", [](const Tensor& a, const Tensor& b) { return Tensor(copysign(a, b)); }},
    {"heaviside", [](const Tensor& a, const Tensor& b) { return Tensor(heaviside(a, b)); }},
};

const oracle::BinaryRow& binary_row(std::string_view name) {
  for (const auto& row : oracle::binary_rows)
    if (row.name == name) return row;
  for (const auto& row : more_binary_rows)
    if (row.name == name) return row;
  throw std::logic_error("no oracle for " + std::string(name));
}

/// The oracle over broadcast operands.
template <class F>
Array broadcast_apply(const Arrays& in, DType result, F&& f) {
  Array out{result, {}, {}};
  for (const Array& x : in) out.extents = oracle::broadcast_shape(out.extents, x.extents);
  std::vector<Numbers> operands;
  for (const Array& x : in) operands.push_back(oracle::broadcast(x.data, x.extents, out.extents));
  for (std::size_t i = 0; i < static_cast<std::size_t>(oracle::count(out.extents)); ++i)
    out.data.push_back(f(operands, i));
  return out;
}

using Pair = std::pair<Extents, Extents>;

Row binary(const BinaryCall& op, DType dtype, const Pair& shapes) {
  const oracle::BinaryRow& table = binary_row(op.name);
  const DType result = table.gives == Gives::boolean                         ? DType::bool_
                       : !is_floating(dtype) && table.takes == Takes::floats ? DType::f32
                                                                             : dtype;
  // Comparisons of few integers, so that equal ones occur; divisors are not 0.
  Domain a = table.a, b = table.b;
  if (table.gives == Gives::boolean && !is_floating(dtype) && dtype != DType::bool_) a = {-2, 3}, b = {-2, 3};
  if (op.name == "div" && !is_floating(dtype)) b = {1, 9};
  Row row;
  row.name =
      std::string(op.name) + " " + std::string(name(dtype)) + Shape(shapes.first).text() + Shape(shapes.second).text();
  row.run = [call = op.call](const Inputs& in) { return call(in[0], in[1]); };
  row.want = [f = table.oracle, result](const Arrays& in) {
    return broadcast_apply(in, result,
                           [&](const std::vector<Numbers>& x, std::size_t i) { return f(x[0][i], x[1][i]); });
  };
  row.inputs = {{shapes.first, dtype, a}, {shapes.second, dtype, b}};
  row.tolerance = table.tolerance;
  return row;
}

const std::vector<Pair> closed_pairs{
    {{}, {}},         {{1}, {1}},          {{}, {19}},          {{19}, {}}, {{3, 1}, {1, 5}}, {{2, 1, 3}, {4, 1}},
    {{17, 33}, {33}}, {{17, 33}, {17, 1}}, {{5, 1, 1}, {2, 4}},
};

void check_binary(const BinaryCall& op, DType dtype) {
  const oracle::BinaryRow& table = binary_row(op.name);
  for (const Pair& shapes : {Pair{{n, 4}, {n, 4}}, Pair{{n, 4}, {4}}, Pair{{3, 1}, {m}}}) {
    Row row = binary(op, dtype, shapes);
    row.derivative = derivative_of(table.smooth, dtype);
    check_row(row);
  }
  for (const Pair& shapes : closed_pairs) {
    Row row = binary(op, dtype, shapes);
    row.strided = Strided::none;
    check_row(row);
  }
}

bool row_is_signed(const Row& row) { return sinter::row(row.inputs[0].dtype).is_signed; }

/// A value, its layouts, and every other size.
void check_narrow(const Row& row, std::size_t number) {
  if (!is_in_sample(number)) return;
  const Arrays arrays = make_inputs(row.inputs, 21);
  check_value(row, arrays, Placement::dense, "narrow");
  check_placements(row, arrays);
  if (number % 4 == 0) check_dynamic(row);
}

}  // namespace

TEST_CASE("op table: unary") {
  for (const UnaryCall& op : unary_calls)
    for (DType dtype : dtypes_of(unary_row(op.name).takes)) check_unary(op, dtype);
}

TEST_CASE("op table: unary ops of narrow dtypes") {
  std::size_t number = 0;
  for (const UnaryCall& op : unary_calls) {
    const oracle::UnaryRow& table = unary_row(op.name);
    if (table.takes != Takes::bools)
      for (DType dtype : halves) check_narrow(unary(op, dtype, {n, 4}), number++);
    const bool is_closed = table.takes != Takes::floats;
    if (table.takes == Takes::bools || (!is_closed && !keeps_integers(op.name))) continue;
    for (DType dtype : more_integers) {
      Row row = unary(op, dtype, {n, 4});
      row.inputs[0].domain = {std::max(-200.0, static_cast<double>(tensor_detail::lowest(dtype))),
                              std::min(200.0, static_cast<double>(tensor_detail::greatest(dtype)))};
      check_narrow(row, number++);
    }
  }
}

TEST_CASE("op table: binary ops of narrow dtypes") {
  std::size_t number = 0;
  for (const BinaryCall& op : binary_calls) {
    const oracle::BinaryRow& table = binary_row(op.name);
    if (table.takes == Takes::bools) continue;
    for (const Pair& shapes : {Pair{{n, 4}, {n, 4}}, Pair{{n, 4}, {}}}) {
      for (DType dtype : halves) check_narrow(binary(op, dtype, shapes), number++);
      if (table.takes == Takes::floats && op.name != "div") continue;
      for (DType dtype : more_integers) {
        Row row = binary(op, dtype, shapes);
        const auto as_numbers = [](Domain d) { return Domain{std::max(d.lo, -100.0), std::min(d.hi, 100.0)}; };
        for (Spec& input : row.inputs) input.domain = as_numbers(input.domain);
        if (!row_is_signed(row) && op.name == "pow") row.inputs[0].domain = row.inputs[1].domain = {0, 3};
        if (!row_is_signed(row) && (op.name == "div" || op.name == "rem" || op.name == "fmod"))
          row.inputs[1].domain = {1, 9};
        check_narrow(row, number++);
      }
    }
  }
}

TEST_CASE("op table: unary ops on dtypes that become f32, or stay") {
  for (const UnaryCall& op : unary_calls) {
    const oracle::UnaryRow& table = unary_row(op.name);
    if (table.takes != Takes::floats || op.name == "logit") continue;  // no integer is inside logit's domain
    for (DType dtype : {DType::i32, DType::i64, DType::bool_}) {
      if (dtype == DType::bool_ && (keeps_integers(op.name) || table.domain.lo > 0)) continue;
      Row row = unary(op, dtype, {n, 4});
      row.inputs[0].domain = dtype == DType::bool_
                                 ? Domain{0, 1}
                                 : Domain{std::max(table.domain.lo, -9.0), std::min(table.domain.hi, 9.0)};
      check_row(row);
    }
  }
}

TEST_CASE("op table: unary ops of numbers that are none, or nearly") {
  const double tiny = 0x1p-126;
  for (const UnaryCall& op : unary_calls) {
    const oracle::UnaryRow& table = unary_row(op.name);
    if (table.takes == Takes::bools) continue;
    for (DType dtype : {DType::f32, DType::f64}) {
      const Row row = unary(op, dtype, {12});
      const Array in{
          dtype,
          {12},
          {oracle::not_a_number, oracle::infinite, -oracle::infinite, -0.0, 0.0, tiny, -tiny, 1, -1, 0.5, -0.5, 2.5}};
      check_value(row, {in}, Placement::dense, "special numbers");
    }
  }
}

TEST_CASE("op table: the sign of zero") {
  for (std::string_view name : {"neg", "abs", "sqrt", "floor", "ceil", "round", "trunc", "sin", "tanh", "erf"})
    for (const UnaryCall& op : unary_calls)
      for (const Mode& mode : modes()) {
        if (op.name != name) continue;
        INFO(std::string(name) << ", " << mode.name);
        const Tensor y =
            run_in(mode, [&](const Inputs& in) { return op.call(in[0]); }, {copy_of(std::vector<float>{-0.0f, 0.0f})});
        const std::vector<float> values = to_vector<float>(y);
        for (std::size_t i = 0; i < 2; ++i)
          CHECK(std::signbit(values[i]) == std::signbit(unary_row(name).oracle(i == 0 ? -0.0 : 0.0)));
      }
}

TEST_CASE("op table: binary arithmetic") {
  for (const BinaryCall& op : binary_calls)
    if (binary_row(op.name).gives == Gives::same && binary_row(op.name).takes != Takes::bools)
      for (DType dtype : dtypes_of(binary_row(op.name).takes)) check_binary(op, dtype);
}
TEST_CASE("op table: comparisons and logic") {
  for (const BinaryCall& op : binary_calls)
    if (binary_row(op.name).gives == Gives::boolean || binary_row(op.name).takes == Takes::bools)
      for (DType dtype : dtypes_of(binary_row(op.name).takes)) check_binary(op, dtype);
}

TEST_CASE("op table: division of integers is real") {
  for (const BinaryCall& op : binary_calls)
    if (op.name == "div")
      for (DType dtype : {DType::i32, DType::i64}) check_row(binary(op, dtype, {{n, 4}, {4}}));
}

TEST_CASE("op table: bitwise ops of integers") {
  struct Bits {
    std::string_view name;
    std::int64_t (*oracle)(std::int64_t, std::int64_t);
  };
  for (const Bits& bits : {Bits{"and", [](std::int64_t a, std::int64_t b) { return a & b; }},
                           Bits{"or", [](std::int64_t a, std::int64_t b) { return a | b; }},
                           Bits{"xor", [](std::int64_t a, std::int64_t b) { return a ^ b; }}})
    for (const BinaryCall& op : binary_calls)
      for (DType dtype : {DType::i32, DType::i64}) {
        if (op.name != bits.name) continue;
        Row row = binary(op, dtype, {{n, 4}, {4}});
        row.inputs[0].domain = row.inputs[1].domain = {-1000000, 1000000};
        row.want = [&, dtype](const Arrays& in) {
          return broadcast_apply(in, dtype, [&](const std::vector<Numbers>& x, std::size_t i) {
            return static_cast<double>(
                bits.oracle(static_cast<std::int64_t>(x[0][i]), static_cast<std::int64_t>(x[1][i])));
          });
        };
        check_row(row);
      }
}

TEST_CASE("op table: binary ops of numbers that are none") {
  Array a{DType::f32, {7, 1}, {oracle::not_a_number, oracle::infinite, -oracle::infinite, -0.0, 0.0, 1, -2}},
      b{DType::f32, {7}, a.data};
  for (const BinaryCall& op : binary_calls) {
    const oracle::BinaryRow& table = binary_row(op.name);
    if (table.takes == Takes::bools) continue;
    for (DType dtype : {DType::f32, DType::f64}) {
      a.dtype = b.dtype = dtype;
      check_value(binary(op, dtype, {{7, 1}, {7}}), {a, b}, Placement::dense, "special numbers");
    }
  }
}

TEST_CASE("op table: dtypes of mixed operands") {
  constexpr DType all_dtypes[] = {DType::bool_, DType::i32, DType::i64, DType::f32, DType::f64};  // PyTorch's order
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 5; ++j) {
      const DType a = all_dtypes[i], b = all_dtypes[j], both = all_dtypes[std::max(i, j)];
      if (a == b) continue;
      auto row = [&](std::string what, Function run, DType result, double (*f)(double, double)) {
        return Row{what + " " + std::string(name(a)) + " " + std::string(name(b)),
                   std::move(run),
                   [result, f](const Arrays& in) {
                     return broadcast_apply(
                         in, result, [&](const std::vector<Numbers>& x, std::size_t k) { return f(x[0][k], x[1][k]); });
                   },
                   {{{n, 3}, a, {0, 3}}, {{3}, b, {0, 3}}},
                   oracle::rounded};
      };
      // f32 + f64: the operand is widened before it is added.
      check_row(
          row("add", [](const Inputs& in) { return in[0] + in[1]; }, both, [](double x, double y) { return x + y; }));
      check_row(row(
          "lt", [](const Inputs& in) { return in[0] < in[1]; }, DType::bool_,
          [](double x, double y) { return x < y ? 1.0 : 0.0; }));
    }
}

TEST_CASE("op table: C++ numbers as operands never widen") {
  struct Literal {
    const char* name;
    Tensor (*call)(const Tensor&);
    double (*oracle)(double);
    bool is_floating;
  };
  constexpr Literal literals[] = {
      {"x + 2", [](const Tensor& x) { return Tensor(x + 2); }, [](double x) { return x + 2; }, false},
      {"7 - x", [](const Tensor& x) { return Tensor(7 - x); }, [](double x) { return 7 - x; }, false},
      {"x * 0.5", [](const Tensor& x) { return Tensor(x * 0.5); }, [](double x) { return x * 0.5; }, true},
      {"1.0 / x", [](const Tensor& x) { return Tensor(1.0 / x); }, [](double x) { return 1 / x; }, true},
      {"pow(x, 2)", [](const Tensor& x) { return Tensor(pow(x, 2)); }, [](double x) { return x * x; }, false},
      {"maximum(x, 3)", [](const Tensor& x) { return Tensor(maximum(x, 3)); },
       [](double x) { return std::max(x, 3.0); }, false},
      {"x % 3", [](const Tensor& x) { return Tensor(x % 3); }, [](double x) { return oracle::rem(x, 3); }, false},
  };
  for (const Literal& literal : literals)
    for (DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64}) {
      const DType result = literal.is_floating && !is_floating(dtype) ? DType::f32 : dtype;
      check_row({std::string(literal.name) + " " + std::string(name(dtype)),
                 [&](const Inputs& in) { return literal.call(in[0]); },
                 [&](const Arrays& in) {
                   return broadcast_apply(in, result, [&](const std::vector<Numbers>& x, std::size_t i) {
                     return literal.oracle(x[0][i]);
                   });
                 },
                 {{{n, 4}, dtype, {1, 9}}},
                 Tolerance{1, 1, 0}});
    }
}

TEST_CASE("op table: where") {
  const auto& table = oracle::ternary_rows[0];
  struct Shapes {
    Extents condition, a, b;
  };
  for (DType dtype : dtypes_of(table.takes))
    for (const Shapes& shapes :
         {Shapes{{n, 4}, {n, 4}, {n, 4}}, Shapes{{4}, {n, 1}, {}}, Shapes{{n, 1}, {}, {3}}, Shapes{{}, {n}, {2, 1}}}) {
      Row row{"where " + std::string(name(dtype)) + Shape(shapes.condition).text(),
              [](const Inputs& in) { return where(in[0], in[1], in[2]); },
              [&](const Arrays& in) {
                return broadcast_apply(in, dtype, [&](const std::vector<Numbers>& x, std::size_t i) {
                  return table.oracle(x[0][i], x[1][i], x[2][i]);
                });
              },
              {{shapes.condition, DType::bool_, {0, 1}}, {shapes.a, dtype, table.b}, {shapes.b, dtype, table.c}}};
      if (dtype == DType::f64) row.derivative = Derivative::first;
      check_row(row);
    }
}

TEST_CASE("op table: clamp") {
  for (DType dtype : dtypes_of(Takes::numbers)) {
    auto limited = [&](const Arrays& in) {
      return broadcast_apply(in, dtype, [](const std::vector<Numbers>& x, std::size_t i) {
        return oracle::minimum(oracle::maximum(x[0][i], x.size() > 1 ? x[1][i] : -1), x.size() > 1 ? x[2][i] : 3);
      });
    };
    Row row{"clamp " + std::string(name(dtype)),
            [](const Inputs& in) { return clamp(in[0], in[1], in[2]); },
            limited,
            {{{n, 4}, dtype, {-9, 9}}, {{4}, dtype, {-5, -1}}, {{n, 1}, dtype, {1, 5}}}};
    if (dtype == DType::f64) row.derivative = Derivative::piecewise;
    check_row(row);
    row.name += " by numbers";
    row.run = [](const Inputs& in) { return clamp(in[0], -1, 3); };
    row.inputs.resize(1);
    check_row(row);
  }
}

TEST_CASE("op table: casts") {
  constexpr DType all_dtypes[] = {DType::bool_, DType::i32, DType::i64, DType::f32, DType::f64};
  for (DType from : all_dtypes)
    for (DType to : all_dtypes) {
      Row row{"cast " + std::string(name(from)) + " to " + std::string(name(to)),
              [to](const Inputs& in) { return cast(in[0], to); },
              [to](const Arrays& in) {
                return broadcast_apply(in, to, [&](const std::vector<Numbers>& x, std::size_t i) {
                  const double v = x[0][i];
                  return to == DType::bool_ ? (v != 0 ? 1.0 : 0.0) : is_floating(to) ? v : std::trunc(v);
                });
              },
              {{{n, 5}, from, from == DType::bool_ ? Domain{0, 1} : Domain{-70000, 70000}}},
              oracle::rounded};
      check_row(row);
      if (from != DType::bool_) {  // small numbers: halves, zeros
        row.inputs[0].domain = {-2, 2};
        row.strided = Strided::none;
        check_row(row);
      }
    }
}
