// Every function against PyTorch, NumPy and SciPy by the stored cases (README.md): op by op, compiled and on the
// reference back end; values, dtypes, shapes, gradients, and vmap for some. SINTER_SAMPLE takes a part of them.
#include "functions.hpp"

#include <algorithm>
#include <string>

using namespace sinter_test;

namespace {

Tensors call(const NamedFunction& function, const Tensors& inputs, const StoredCase& row) {
  const Extents& found = row.results[0].shape;
  const bool is_traced = !inputs.empty() && !inputs[0].is_ready();
  return function({inputs, row.attributes, is_traced && !found.empty() ? std::optional<Dim>(found[0]) : std::nullopt});
}

template <class F>
auto in_mode(const Mode& mode, const F& function, const Tensors& inputs) {
  return mode.backend == nullptr ? function(inputs) : jit::compile(function, mode.options())(inputs);
}

/// Runs the check, which gives a text where something is wrong; what it throws is wrong too.
template <class F>
void report(std::string_view what, F&& check) {
  std::string problem;
  try {
    problem = check();
  } catch (const std::exception& e) { problem = std::string("threw ") + e.what(); }
  INFO(what);
  CHECK(problem == "");
}

void check_values(const NamedFunction& function, const StoredFunction& row, const StoredCase& each,
                  const Tensors& inputs, double scale) {
  for (const Mode& mode : modes())
    report(mode.name, [&]() -> std::string {
      const Tensors got = in_mode(mode, [&](const Tensors& in) { return call(function, in, each); }, inputs);
      if (got.size() != each.results.size()) return std::to_string(got.size()) + " results";
      for (std::size_t k = 0; k < got.size(); ++k)
        if (auto problem = difference_from(got[k], each.results[k], row.value, scale); !problem.empty())
          return "result " + std::to_string(k) + ": " + problem;
      return "";
    });
}

/// The sum of all floating results, each element times a weight.
Tensor weighted_sum(const Tensors& results, const StoredCase& each) {
  Tensor total = full({}, 0, {.dtype = DType::f64});
  for (std::size_t k = 0; k < results.size(); ++k) {
    if (!is_floating(results[k].dtype())) continue;
    Array weights{DType::f64, each.results[k].shape, {}};
    for (std::int64_t i = 0; i < oracle::count(weights.extents); ++i)
      weights.data.push_back(0.5 + std::floor(unit_value(99, static_cast<std::uint64_t>(i)) * 0x1p22) * 0x1p-22);
    total = total + sum(results[k] * dense_tensor(weights));
  }
  return total;
}

void check_slopes(const NamedFunction& function, const StoredFunction& row, const StoredCase& each,
                  const Tensors& inputs, double scale) {
  for (const Mode& mode : modes())
    report(std::string("gradient, ") + mode.name, [&]() -> std::string {
      const auto slopes = [&](const Tensors& in) {
        return jit::grad([&](const Tensors& x) { return weighted_sum(call(function, x, each), each); })(in);
      };
      const Tensors got = in_mode(mode, slopes, inputs);
      for (std::size_t k = 0; k < each.slopes.size(); ++k) {
        if (each.slopes[k].dtype == DType::bool_) continue;
        if (auto problem = difference_from(got[k], each.slopes[k], row.slope, scale); !problem.empty())
          return "by input " + std::to_string(k) + ": " + problem;
      }
      return "";
    });
}

/// Two examples: the case, and its inputs in reverse order.
void check_vmap(const NamedFunction& function, const StoredFunction& row, const StoredCase& each, double scale) {
  Tensors first, second, both;
  for (const InputRecipe& recipe : each.inputs) {
    if (recipe.shape.size() + 1 >= static_cast<std::size_t>(max_rank)) return;
    first.push_back(dense_tensor(numbers_of(recipe)));
    second.push_back(dense_tensor(numbers_of(recipe, true)));
    both.push_back(stack({first.back(), second.back()}, 0));
  }
  report("vmap", [&]() -> std::string {
    const Tensors got = jit::vmap([&](const Tensors& in) { return call(function, in, each); })(both);
    for (int example = 0; example < 2; ++example) {
      const Tensors want = call(function, example == 0 ? first : second, each);
      for (std::size_t k = 0; k < want.size(); ++k)
        if (auto problem = difference_between(select(got[k], 0, example), want[k], row.value, scale); !problem.empty())
          return "example " + std::to_string(example) + ", result " + std::to_string(k) + ": " + problem;
    }
    return "";
  });
}

/// The row without its cases; a case may have tolerances of its own, by the condition of its matrix.
StoredFunction with_tolerances_of(const StoredFunction& row, const Attributes& at) {
  StoredFunction found{row.name, row.value, row.slope, row.has_vmap, {}};
  found.value.ulp = at.number("ulp", row.value.ulp), found.value.floor = at.number("floor", row.value.floor);
  found.slope.ulp = at.number("slope_ulp", row.slope.ulp),
  found.slope.floor = at.number("slope_floor", row.slope.floor);
  return found;
}

void check_category(const std::string& category, const NamedFunctions& functions) {
  const auto stored = read_cases(SINTER_SOURCE_DIR "/tests/oracle/cases/" + category + ".txt");
  std::size_t number = 0, taken = 0, batched = 0;
  for (const StoredFunction& stored_row : stored) {
    const auto function =
        std::find_if(functions.begin(), functions.end(), [&](auto& f) { return f.name == stored_row.name; });
    INFO(stored_row.name);
    REQUIRE(function != functions.end());
    for (const StoredCase& each : stored_row.cases) {
      if (!is_in_sample(number++)) continue;
      ++taken;
      INFO(each.line);
      const StoredFunction row = with_tolerances_of(stored_row, each.attributes);
      Tensors inputs;
      std::vector<Array> arrays;
      for (const InputRecipe& recipe : each.inputs) {
        inputs.push_back(tensor_of(recipe));
        arrays.push_back(numbers_of(recipe));
      }
      const double scale = largest_number(arrays);
      check_values(*function, row, each, inputs, scale);
      if (!each.slopes.empty()) check_slopes(*function, row, each, inputs, scale);
      if (!row.has_vmap || taken % 4 != 0 || inputs.empty()) continue;
      ++batched;
      check_vmap(*function, row, each, scale);
    }
  }
  INFO("of " << taken << " cases that were run none was batched");
  CHECK((batched > 0 || taken < 40));
}

}  // namespace

NamedFunctions sinter_test::joined(std::initializer_list<NamedFunctions> lists) {
  NamedFunctions all_of_them;
  for (const NamedFunctions& list : lists) all_of_them.insert(all_of_them.end(), list.begin(), list.end());
  return all_of_them;
}

TEST_CASE("oracle: what is wrong is found") {
  const StoredTolerance exact{.ulp = 0};
  const Tensor x = tensor({1.f, 2.f, -0.f});
  const StoredResult right{.dtype = DType::f32, .shape = {3}, .elements = {{1, 1, 1}, {2, 2, 2}, {-0.0, -0.0, 0}}};
  CHECK(difference_from(x, right, exact, 0) == "");
  StoredResult wrong = right;
  wrong.dtype = DType::f64;
  CHECK(difference_from(x, wrong, exact, 0) == "dtype f32, should be f64");
  wrong = right;
  wrong.shape = {1, 3};
  CHECK(difference_from(x, wrong, exact, 0) == "shape (3,), should be (1, 3)");
  wrong = right;
  wrong.elements[2] = {0, 0, 0};  // -0 is not 0
  CHECK(difference_from(x, wrong, exact, 0) != "");
  wrong.elements[2] = {NAN, NAN, 0};
  CHECK(difference_from(x, wrong, {.ulp = 1e9, .floor = 1e9}, 1) != "");
  wrong.elements[2] = {-0.0, -0.0, 0};
  wrong.elements[1] = {2.0000005, 2.0000005, 2};  // two units of the last place
  CHECK(difference_from(x, wrong, {.ulp = 1}, 0) != "");
  CHECK(difference_from(x, wrong, {.ulp = 3}, 0) == "");
  // A number that is no sample is seen by the sum.
  const Tensor many = ones({100});
  StoredResult sampled{.dtype = DType::f32, .shape = {100}, .is_sampled = true, .elements = {{1, 1, 1}, {1, 1, 1}}};
  for (std::uint64_t i = 0; i < 100; ++i) sampled.sum += 0.5 + std::floor(unit_value(3, i) * 0x1p22) * 0x1p-22;
  sampled.magnitude = sampled.sum;
  CHECK(difference_from(many, sampled, exact, 0) == "");
  Tensor changed = many;
  changed.at(50) = 1.001f;
  CHECK(difference_from(changed, sampled, exact, 0) != "");
}

TEST_CASE("oracle: elementwise functions") { check_category("elementwise", elementwise_functions()); }
TEST_CASE("oracle: reductions") { check_category("reductions", reductions_functions()); }
TEST_CASE("oracle: order and positions") { check_category("order", order_functions()); }
TEST_CASE("oracle: arrangements and tensors from nothing") { check_category("shapes", shapes_functions()); }
TEST_CASE("oracle: products and linear algebra") { check_category("linalg", linalg_functions()); }
TEST_CASE("oracle: singular and ill-conditioned matrices") { check_category("conditioned", conditioned_functions()); }
TEST_CASE("oracle: layers") { check_category("layers", layers_functions()); }
TEST_CASE("oracle: losses") { check_category("losses", losses_functions()); }
TEST_CASE("oracle: complex numbers") { check_category("complex", complex_functions()); }
TEST_CASE("oracle: eigenvalues, and more of complex matrices") { check_category("matrices", matrices_functions()); }
TEST_CASE("oracle: quantised numbers") { check_category("quantization", quantization_functions()); }
TEST_CASE("oracle: frequencies and convolutions") { check_category("signal", signal_functions()); }
TEST_CASE("oracle: special and composed functions") { check_category("special", special_functions()); }
