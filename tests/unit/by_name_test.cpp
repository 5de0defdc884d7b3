// Operations called by their names, the list of them, and docs/ops.md, which is that list.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/graph/op_info.hpp>
#include <sinter/sinter.hpp>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

using namespace sinter;

TEST_CASE("by name: values, attributes, several results, traces") {
  const Tensor x = tensor({{1.0f, 2.0f}, {3.0f, 5.0f}});
  CHECK(floats(call("add", {x, 1})[0]) == std::vector<float>{2, 3, 4, 6});
  CHECK(floats(call("sum", {x}, "axes=[1]")[0]) == std::vector<float>{3, 8});
  CHECK(call("sum", {x}, "axes=[1], keepdim")[0].shape() == Shape{2, 1});
  CHECK(call("cast", {x}, "dtype=u8")[0].dtype() == DType::u8);
  CHECK(floats(call("permute", {x * 2}, "axes=[1, 0]")[0]) == std::vector<float>{2, 6, 4, 10});
  CHECK(floats(call("full", {}, "shape=[2], value=1.5, dtype=f32")[0]) == std::vector<float>{1.5f, 1.5f});
  CHECK(floats(call("concat", {x, x}, "axes=[0]")[0]).size() == 8);
  auto f = jit::compile([](Tensor v) { return call("softmax", {call("mul", {v, v})[0]}, "axes=[1]")[0]; });
  CHECK(near(doubles(f(x)), doubles(softmax(x * x, 1)), 1e-6));
  CHECK(floats(jit::grad([](Tensor v) { return call("sum", {call("square", {v})[0]}, "axes=[0, 1]")[0]; })(x)) ==
        std::vector<float>{2, 4, 6, 10});
}

TEST_CASE("by name: what is wrong is said at the caller's line") {
  const Tensor x = ones({2, 3});
  CHECK(blame_of([&] { call("sofmax", {x}); }) == blame("call"));
  CHECK(has(message_of([&] { call("sofmax", {x}); }), "there is no operation 'sofmax'"));
  CHECK(has(message_of([&] { call("sofmax", {x}); }), "did you mean 'softmax'?"));
  CHECK(has(message_of([&] { call("exp", {x, x}); }), "exp takes 1 inputs, not 2"));
  CHECK(has(message_of([&] { call("sum", {x}, "axis=1"); }), "sum has no attribute 'axis'; it has axes, keepdim"));
  CHECK(blame_of([&] { call("sum", {x}, "axes=1"); }) == blame("call"));
  CHECK(has(message_of([&] { call("sum", {x}, "axes=1"); }), "a list of whole numbers"));
  CHECK(has(message_of([&] { call("sum", {x}, "axes=[0]}"); }), "sum with {axes=[0]}}"));
  CHECK(has(message_of([&] { call("full", {}, "shape=[s0], value=1, dtype=f32"); }), "numbers here, not symbols"));
  CHECK(has(message_of([&] { call("input", {}); }), "it is no value of tensors"));
  CHECK(has(message_of([&] { call("while_loop", {x}); }), "call the function of that name"));
  CHECK_THROWS_AS(call("matmul", {x, x}), ShapeError);
  CHECK(blame_of([&] { call("matmul", {x, x}); }) == blame("matmul"));
}

TEST_CASE("by name: the list has every operation once, and can call each") {
  std::set<std::string_view> names;
  for (const OpSignature& op : list_ops()) {
    INFO(op.text());
    CHECK(names.insert(op.name).second);
    CHECK(!op.kind.empty());
    for (const OpAttribute& attribute : op.attributes) CHECK(!attribute.value.empty());
    // With no inputs at all: an error of the user, never one of ours.
    if (op.inputs > 0) CHECK_THROWS_AS(call(op.name, {}), UserError);
  }
  CHECK(names.count("add") == 1);
  CHECK(names.count("while_loop") == 0);
}

namespace {
/// Why no derivative passes through an operation, where the dtype of its result does not say it.
struct Reason {
  std::string_view why;
  std::vector<std::string_view> names;
};
const std::vector<Reason>& reasons() {
  static const std::vector<Reason> list{
      {"its result is bool", {"all", "any"}},
      {"its result is a position or a count",
       {"argmax", "argmin", "element_count", "extent", "lu_permutation", "nonzero", "searchsorted", "window_argmax"}},
      {"its result is a whole number", {"frexp_exponent", "gcd", "integer_matmul_rows"}},
      {"of positions", {"one_hot"}},
      {"no operands", {"empty", "full", "iota"}},
      {"random numbers", {"binomial_sample", "poisson_sample", "random_bits", "random_normal", "random_uniform"}},
      {"constant between its jumps", {"ceil", "floor", "floor_divide", "round", "sign", "trunc"}},
      {"of bits", {"bitcast", "nextafter"}},
      {"a set has no order to follow", {"unique"}},
      {"it is a derivative, which is taken once", {"ctc_gradient", "gamma_slope"}},
      {"that is its purpose", {"stop_gradient"}}};
  return list;
}
std::string derivative_of(const OpSignature& op) {
  if (op.is_differentiable) return "yes";
  if (op.dtype == "bool") return "no: its result is bool";
  if (op.dtype == "promoted, not floating") return "no: of whole numbers";
  for (const Reason& reason : reasons())
    for (const std::string_view name : reason.names)
      if (name == op.name) return "no: " + std::string(reason.why);
  return "";
}

/// What dtype results have where neither the operation's kind nor its signature says it; if it is not here, that of the
/// first operand.
const std::vector<Reason>& result_dtypes() {
  static const std::vector<Reason> list{
      {"bool", {"all", "any"}},
      {"i64",
       {"argmax", "argmin", "extent", "lu_permutation", "nonzero", "random_bits", "searchsorted", "unique",
        "window_argmax"}},
      {"i64, u64 of u64", {"gcd"}},
      {"i32", {"integer_matmul_rows"}},
      {"f64", {"bessel", "binomial_sample", "gamma_sample", "gamma_slope", "incomplete_gamma", "poisson_sample"}},
      {"attribute dtype",
       {"element_count", "empty", "full", "iota", "one_hot", "random_normal", "random_uniform", "scaled_matmul_rows"}},
      {"of the second", {"scatter_add"}},
      {"of the parts", {"imag", "real", "view_as_real"}},
      {"complex, of such parts", {"complex", "view_as_complex"}},
      {"of the first, positions in i64", {"order_statistic", "sort", "topk"}},
      {"of the first, pivots and failures in i32", {"cholesky", "complex_lu", "lu_factor"}}};
  return list;
}
std::string result_dtype_of(const OpSignature& op) {
  if (!op.dtype.empty()) return std::string(op.dtype);
  for (const Reason& reason : result_dtypes())
    for (const std::string_view name : reason.names)
      if (name == op.name) return std::string(reason.why);
  return "of the first";
}

/// Tried: an operation with a rule for complex numbers may still not like these operands.
std::string complex_of(const OpSignature& op) {
  if (find_op(op.name)->may_take_complex({})) return "yes";
  if (op.inputs == 0) return op.name == "full" ? "yes" : "parts";
  const Tensor z = complex(ones({2, 2}), ones({2, 2}));
  const std::vector<In> inputs(op.inputs < 0 ? 2 : static_cast<std::size_t>(op.inputs), In(z));
  const std::string message = message_of([&] { call(op.name, inputs); });
  if (has(message, "there is no such operation on complex numbers")) return "parts";
  if (has(message, "complex numbers have no order")) return "no order";
  return has(message, "complex numbers have no sign") ? "no sign" : "yes";
}

constexpr const char* introduction =
    R"(# Operations

What graphs are made of, and `call(name, inputs, attributes)` takes ([reference](reference.md#operations-by-name)). This page is written by
a test (`tests/unit/by_name_test.cpp`) from `list_ops()`.

Elementwise operations, reductions, views and composites take every dtype that their class allows, in memory of every dtype there is, on
all back ends; structured ones say in an error what they do not take. All are batched by `jit::vmap`, those without elementwise meaning by
a rule of their own.

| dtypes | operations | derivative |
|---|---|---|
| `bool` | all but those of numbers (`neg`, `abs`, ...), which say so; `sum` and `prod` count in i64 | no |
| `u8 i8 u16 i16 u32 i32 i64` | all; those "promoted to floating" give f32. Arithmetic wraps in the dtype, `sum prod cumsum cumprod` are i64 | no |
| `u64` | the same, unsigned; `sum` and its kin stay u64. Beside signed integers a `DTypeError`, as there is no common dtype | no |
| `f16 bf16 f32 f64` | all but those "not floating" | yes |
| `f8e4m3 f8e5m2` | those with "yes" under f8, which cast and move elements (`scaled_matmul` multiplies); "cast": a `DTypeError` that says to cast | of casts and of `scaled_matmul` |
| `c64 c128` | those with "yes" under complex, recorded as real operations on the parts; "no order" and "no sign": complex numbers have none; "parts": a `DTypeError` that says to take real(z), imag(z) or abs(z). Functions of several operations go further ([what there is](complex.md#what-there-is), [what is missing, and why](complex.md#what-is-missing)) | yes |

On CUDA whatever no kernel or library of the GPU computes is computed by the host from copies ([which](cuda.md)).

Operands of elementwise operations are cast to the dtype that they are promoted to. The others take operands as they are: the functions of the
[reference](reference.md) cast before them, `sum(x)` of integers to i64 for one.

| operation | kind | dtype of the result | derivative | f8 | complex | attributes |
|---|---|---|---|---|---|---|
)";

std::string page() {
  std::ostringstream out;
  out << introduction;
  for (const OpSignature& op : list_ops()) {
    out << "| `" << op.text().substr(0, op.text().find(" {")) << "` | " << op.kind << " | " << result_dtype_of(op)
        << " | " << derivative_of(op) << " | " << (find_op(op.name)->may_take_f8({}) ? "yes" : "cast") << " | "
        << complex_of(op) << " | ";
    for (const OpAttribute& attribute : op.attributes)
      out << (&attribute == op.attributes.data() ? "" : "; ") << "`" << attribute.name << "`: " << attribute.value;
    out << " |\n";
  }
  return out.str();
}
}  // namespace

TEST_CASE("by name: every operation has a derivative, or says why not") {
  std::set<std::string_view> without;
  for (const OpSignature& op : list_ops()) {
    INFO(op.name);
    CHECK(derivative_of(op) != "");
    if (!op.is_differentiable) without.insert(op.name);
  }
  for (const Reason& reason : reasons())
    for (const std::string_view name : reason.names) {
      INFO(name << " has a reason, and needs none");
      CHECK(without.count(name) == 1);
    }
}

TEST_CASE("by name: the column of dtypes is true") {
  std::size_t tried = 0;
  std::set<std::string_view> listed;
  for (const Reason& reason : result_dtypes()) listed.insert(reason.names.begin(), reason.names.end());
  for (const OpSignature& op : list_ops()) {
    if (listed.erase(op.name) != 0) CHECK(op.dtype.empty());
    if (op.inputs < 1) continue;
    for (const DType dtype : {DType::f32, DType::f64, DType::i32})
      for (const char* attributes : {"", "axes=[0]", "axes=[0], shape=[2, 2]"}) {
        const std::vector<In> inputs(static_cast<std::size_t>(op.inputs), In(ones({2, 2}, {.dtype = dtype})));
        std::vector<Tensor> results;
        try {
          results = call(op.name, inputs, attributes);
        } catch (const std::exception&) { continue; }  // other operands or attributes are wanted
        INFO(op.name << " of " << name(dtype) << " gives " << name(results[0].dtype()));
        const std::string said = result_dtype_of(op);
        if (said.starts_with("of the first") || said == "of the second") CHECK(results[0].dtype() == dtype);
        else if (said.size() <= 4) CHECK(name(results[0].dtype()) == said);
        else if (said.starts_with("i64,")) CHECK(results[0].dtype() == DType::i64);
        else if (said.starts_with("promoted to floating")) CHECK(is_floating(results[0].dtype()));
        else if (said.starts_with("promoted") && !has(said, "but")) CHECK(results[0].dtype() == dtype);
        ++tried;
      }
  }
  CHECK(listed.empty());
  CHECK(tried > 300);
}

TEST_CASE("by name: the column of f8 is true") {
  const Tensor x = ones({2, 3}).to(DType::f8e4m3);
  for (const OpSignature& op : list_ops()) {
    if (op.inputs != 1 || op.kind != "elementwise" || !op.attributes.empty()) continue;
    INFO(op.name);
    if (find_op(op.name)->may_take_f8({})) CHECK(call(op.name, {x})[0].shape() == x.shape());
    else CHECK_THROWS_AS(eval(call(op.name, {x})[0]), DTypeError);
  }
}

TEST_CASE("by name: the column of complex numbers is true") {
  const Tensor z = complex(ones({2, 3}), ones({2, 3}));
  for (const OpSignature& op : list_ops()) {
    if (op.inputs != 1 || op.kind != "elementwise" || !op.attributes.empty()) continue;
    INFO(op.name);
    if (complex_of(op) == "yes") CHECK(call(op.name, {z})[0].shape() == z.shape());
    else CHECK_THROWS_AS(eval(call(op.name, {z})[0]), DTypeError);
  }
}

TEST_CASE("by name: dtypes, as Sinter, PyTorch and NumPy call them") {
  for (const DTypeRow& row : dtype_rows) {
    INFO(row.name);
    CHECK(dtype_named(row.name) == row.dtype);
    CHECK(dtype_named(torch_name(row.dtype)) == row.dtype);
    CHECK(dtype_named("torch." + std::string(torch_name(row.dtype))) == row.dtype);
    if (!row.numpy.empty()) CHECK(dtype_named("<" + std::string(row.numpy)) == row.dtype);
    if (!numpy_name(row.dtype).empty()) CHECK(dtype_named("numpy." + std::string(numpy_name(row.dtype))) == row.dtype);
  }
  CHECK(torch_name(DType::bf16) == "bfloat16");
  CHECK(numpy_name(DType::bf16).empty());
  CHECK(numpy_name(DType::f8e4m3).empty());
  CHECK(dtype_named("u8") == DType::u8);  // Sinter's: NumPy's "u8", of 8 bytes, has an order in front
  CHECK(dtype_named("<u8") == DType::u64);
  CHECK(dtype_named("half") == DType::f16);
  CHECK(dtype_named("i8") == DType::i8);
  for (const auto& [text, dtype] : std::vector<std::pair<const char*, DType>>{{"torch.half", DType::f16},
                                                                              {"torch.float", DType::f32},
                                                                              {"torch.double", DType::f64},
                                                                              {"torch.short", DType::i16},
                                                                              {"torch.int", DType::i32},
                                                                              {"torch.long", DType::i64},
                                                                              {"np.single", DType::f32},
                                                                              {"np.bool_", DType::bool_}})
    CHECK(dtype_named(text) == dtype);
  for (const char* text : {"", "float", "long", "<", "f128", ">f4", "torch.", "np.", "F32", "torch.f32", "torch.single",
                           "torch.<f4", "np.<f4", "np.i8", "np.bfloat16", "np.float", "torch.np.half"})
    CHECK(blame_of([&] { dtype_named(text); }) == blame("dtype_named"));
  CHECK(has(message_of([] { dtype_named("float"); }), "\"float\" names no dtype"));
}

TEST_CASE("by name: docs/ops.md is the list") {
  const std::string path = std::string(SINTER_SOURCE_DIR) + "/docs/ops.md";
  if (std::getenv("SINTER_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << page();
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  INFO("SINTER_UPDATE_GOLDEN=1 writes the page anew");
  CHECK(text.str() == page());
}
