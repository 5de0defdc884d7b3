// Empty tensors: every kind of op, with each of its extents 0, after views that the kernels read through and given as
// views, with gradients, compiled for fixed and for symbolic extents, against what runs uncompiled.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter;

namespace {

using Inputs = std::vector<Tensor>;

/// `shapes`: for each input its axes, as letters; axes of one letter have one extent.
struct Row {
  std::string_view name;
  std::vector<std::string_view> shapes;
  std::function<Tensor(const Inputs&)> run;
  bool has_gradient = true;
};

// clang-format off
const Row rows[] = {
    {"exp", {"nm"}, [](const Inputs& in) -> Tensor { return exp(in[0]); }},
    {"mul", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return in[0] * in[1]; }},
    {"mul, broadcast", {"nm", "m"}, [](const Inputs& in) -> Tensor { return in[0] * in[1]; }},
    {"mul, outer", {"nm", "k"}, [](const Inputs& in) -> Tensor { return unsqueeze(in[0], 2) * in[1]; }},
    {"maximum", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return maximum(in[0], in[1]); }},
    {"pow", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return pow(abs(in[0]) + 1, in[1]); }},
    {"where", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return where(in[0] > 0, in[0], in[1]); }},
    {"mixed layouts", {"nm", "mn"}, [](const Inputs& in) -> Tensor { return tanh(in[0]) + in[1].t(); }},
    {"f64", {"nm"}, [](const Inputs& in) -> Tensor { return cast(exp(cast(in[0], DType::f64)), DType::f32); }},
    {"integers", {"nm"}, [](const Inputs& in) -> Tensor { return cast(in[0] * 3, DType::i32) / 2; }, false},
    {"sum of rows", {"nm"}, [](const Inputs& in) -> Tensor { return sum(in[0], 1); }},
    {"sum of columns", {"nm"}, [](const Inputs& in) -> Tensor { return sum(in[0], 0); }},
    {"sum", {"nm"}, [](const Inputs& in) -> Tensor { return sum(in[0]); }},
    {"sum of the middle", {"nmk"}, [](const Inputs& in) -> Tensor { return sum(in[0], 1); }},
    {"sum of the ends", {"nmk"}, [](const Inputs& in) -> Tensor { return sum(in[0], {0, 2}); }},
    {"sum of i64", {"nm"}, [](const Inputs& in) -> Tensor { return sum(cast(in[0], DType::i64), 1); }, false},
    {"prod", {"nm"}, [](const Inputs& in) -> Tensor { return prod(in[0], 0); }},
    {"mean", {"nm"}, [](const Inputs& in) -> Tensor { return mean(in[0], 1); }},
    {"mean of columns", {"nm"}, [](const Inputs& in) -> Tensor { return mean(in[0], 0); }},
    {"var", {"nm"}, [](const Inputs& in) -> Tensor { return var(in[0], 1); }},
    {"var of columns", {"nm"}, [](const Inputs& in) -> Tensor { return var(in[0], 0); }},
    {"amax", {"nm"}, [](const Inputs& in) -> Tensor { return amax(in[0], 1); }},
    {"amin of columns", {"nm"}, [](const Inputs& in) -> Tensor { return amin(in[0], 0); }},
    {"argmax", {"nm"}, [](const Inputs& in) -> Tensor { return argmax(in[0], 1); }, false},
    {"argmin", {"nm"}, [](const Inputs& in) -> Tensor { return argmin(in[0], 0); }, false},
    {"any", {"nm"}, [](const Inputs& in) -> Tensor { return any(in[0] > 0, 1); }, false},
    {"softmax", {"nm"}, [](const Inputs& in) -> Tensor { return softmax(in[0], 1); }},
    {"softmax of columns", {"nm"}, [](const Inputs& in) -> Tensor { return softmax(in[0], 0); }},
    {"log_softmax", {"nm"}, [](const Inputs& in) -> Tensor { return log_softmax(in[0], 1); }},
    {"logsumexp", {"nm"}, [](const Inputs& in) -> Tensor { return logsumexp(in[0], 1); }},
    {"logsumexp over two axes", {"nmk"}, [](const Inputs& in) -> Tensor { return logsumexp(in[0], {0, 2}); }},
    {"layer_norm", {"nm", "m", "m"},
     [](const Inputs& in) -> Tensor { return layer_norm(in[0], {in[0].size(1)}, in[1], in[2]); }},
    {"mse_loss", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return mse_loss(in[0], in[1]); }},
    {"cross_entropy", {"nm", "n"},
     [](const Inputs& in) -> Tensor { return cross_entropy(in[0], cast(in[1] * 0, DType::i64)); }},
    {"matmul", {"nk", "km"}, [](const Inputs& in) -> Tensor { return matmul(in[0], in[1]); }},
    {"matmul, transposed", {"kn", "mk"}, [](const Inputs& in) -> Tensor { return matmul(in[0].t(), in[1].t()); }},
    {"matmul, fused", {"nk", "km", "m"},
     [](const Inputs& in) -> Tensor { return gelu(matmul(tanh(in[0]), in[1]) + in[2]); }},
    {"matmul, batched", {"bnk", "bkm"}, [](const Inputs& in) -> Tensor { return matmul(in[0], in[1]); }},
    {"matmul of f64", {"nk", "km"},
     [](const Inputs& in) -> Tensor { return matmul(cast(in[0], DType::f64), cast(in[1], DType::f64)); }},
    {"matmul, vector", {"nk", "k"}, [](const Inputs& in) -> Tensor { return matmul(in[0], in[1]); }},
    {"attention", {"bnk", "bmk", "bmj"},
     [](const Inputs& in) -> Tensor { return scaled_dot_product_attention(in[0], in[1], in[2]); }},
    {"conv2d", {"bcnm", "dc33"}, [](const Inputs& in) -> Tensor { return conv2d(in[0], in[1], {.padding = 1}); }},
    {"max_pool2d", {"bcnm"}, [](const Inputs& in) -> Tensor { return max_pool2d(in[0], 2); }},
    {"avg_pool2d", {"bcnm"}, [](const Inputs& in) -> Tensor { return avg_pool2d(in[0], 2); }},
    {"concat", {"nm", "km"}, [](const Inputs& in) -> Tensor { return concat({in[0], in[1] * 2}, 0); }},
    {"concat of columns", {"nm", "nk"}, [](const Inputs& in) -> Tensor { return concat({in[0], in[1], in[0]}, 1); }},
    {"stack", {"nm", "nm"}, [](const Inputs& in) -> Tensor { return stack({in[0], in[1]}, 1); }},
    {"pad", {"nm"}, [](const Inputs& in) -> Tensor { return pad(in[0], {{1, 2}, {0, 1}}, 5); }},
    {"roll", {"nm"}, [](const Inputs& in) -> Tensor { return roll(in[0], 1, 0); }},
    {"slice", {"nm"}, [](const Inputs& in) -> Tensor { return in[0](all, slice(0, 0)) + 1; }},
    {"flatten", {"nmk"}, [](const Inputs& in) -> Tensor { return flatten(exp(in[0]), 0, 1); }},
    {"reshape", {"nmk"},
     [](const Inputs& in) -> Tensor { return reshape(in[0] + 1, {in[0].size(1), in[0].size(2), in[0].size(0)}); }},
    {"expand", {"n1"}, [](const Inputs& in) -> Tensor { return expand(in[0], {in[0].size(0), 4}) * 2; }},
    {"expand to none", {"n1"}, [](const Inputs& in) -> Tensor { return sum(expand(in[0], {in[0].size(0), 0}), 1); }},
    {"take", {"nm", "k"}, [](const Inputs& in) -> Tensor { return take(in[0], cast(in[1] * 0, DType::i64), 1); }},
    {"embedding", {"nm", "k"},
     [](const Inputs& in) -> Tensor { return embedding(cast(in[1] * 0, DType::i64), in[0]); }},
    {"one_hot", {"n"}, [](const Inputs& in) -> Tensor { return one_hot(cast(in[0] * 0, DType::i64), 3); }, false},
    {"update", {"nm", "n"}, [](const Inputs& in) -> Tensor { Tensor x = in[0] * 1; x.at(all, 0) = in[1]; return x; }},
    {"random", {"nm"}, [](const Inputs& in) -> Tensor { return rand({in[0].size(0), in[0].size(1)}) * 0 + in[0]; }},
};
// clang-format on

using Extents = std::map<char, std::int64_t>;
Extents extents_of(const Row& row) {
  Extents extents;
  std::int64_t next = 2;
  for (std::string_view shape : row.shapes)
    for (char letter : shape)
      if (!extents.contains(letter)) extents[letter] = letter <= '9' ? letter - '0' : 2 + next++ % 4;
  return extents;
}
/// Each extent 0, then all of them.
std::vector<Extents> choices_of(const Row& row) {
  const Extents full = extents_of(row);
  std::vector<Extents> choices;
  Extents none = full;
  for (const auto& [letter, extent] : full) {
    if (letter <= '9') continue;
    Extents one = full;
    one[letter] = none[letter] = 0;
    choices.push_back(one);
  }
  choices.push_back(none);
  return choices;
}

Tensor turned(const Tensor& x) {
  if (x.rank() == 2) return permute(x, {1, 0});
  if (x.rank() == 3) return permute(x, {2, 1, 0});
  return x.rank() == 4 ? permute(x, {3, 2, 1, 0}) : x;
}

/// How the inputs are laid out where the op meets them.
enum class Placement { dense, view_inside, view_given };

Inputs inputs_of(const Row& row, const Extents& extents, Placement placement) {
  Inputs inputs;
  for (std::string_view letters : row.shapes) {
    Shape shape;
    for (char letter : letters) shape.push_back(extents.at(letter));
    Tensor x = randn(shape);
    if (placement != Placement::dense) x = turned(x);
    eval(x);
    inputs.push_back(placement == Placement::view_given ? turned(x) : x);
  }
  return inputs;
}

std::function<Inputs(const Inputs&)> function_of(const Row& row, Placement placement, bool differentiates) {
  const auto value = [run = row.run, placement](const Inputs& in) {
    if (placement != Placement::view_inside) return run(in);
    Inputs views;
    for (const Tensor& x : in) views.push_back(turned(x));
    return turned(run(views));
  };
  if (!differentiates) return [value](const Inputs& in) { return Inputs{value(in)}; };
  return [value](const Inputs& in) { return jit::grad([value](const Inputs& x) { return sum(value(x) * 2); })(in); };
}

/// What a call gave: dtypes and shapes, or the kind of error; and the numbers.
struct Outcome {
  std::string what;
  std::vector<double> numbers;
  friend bool operator==(const Outcome& a, const Outcome& b) {
    if (a.what != b.what || a.numbers.size() != b.numbers.size()) return false;
    for (std::size_t i = 0; i < a.numbers.size(); ++i) {
      const double x = a.numbers[i], y = b.numbers[i];
      if (std::isnan(x) ? !std::isnan(y) : !(x == y || std::abs(x - y) <= 1e-4 * (1 + std::abs(x)))) return false;
    }
    return true;
  }
  friend std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
    out << outcome.what;
    for (double number : outcome.numbers) out << " " << number;
    return out;
  }
};
Outcome outcome_of(const std::function<Inputs()>& call) {
  Outcome outcome;
  try {
    for (const Tensor& x : call()) {
      outcome.what += std::string(name(x.dtype())) + x.shape().text();
      for (double number : to_vector<double>(cast(x, DType::f64))) outcome.numbers.push_back(number);
    }
  } catch (const InternalError& error) { outcome = {std::string(error.what()), {}}; } catch (const UserError&) {
    outcome = {"UserError", {}};
  }
  return outcome;
}

void check(const Row& row, Placement placement, bool differentiates) {
  const auto run = function_of(row, placement, differentiates);
  const auto names = jit::list_backends();
  for (const char* backend : {"x86", "reference"}) {
    if (std::find(names.begin(), names.end(), backend) == names.end()) continue;
    auto symbolic = jit::compile(run, {.backend = backend, .dynamic = jit::Dynamic::always});
    for (const Extents& extents : choices_of(row)) {
      const Inputs in = inputs_of(row, extents, placement);
      std::string shapes;
      for (const Tensor& x : in) shapes += x.shape().text();
      INFO(row.name << shapes << (differentiates ? ", gradient" : "") << ", placement " << static_cast<int>(placement)
                    << ", " << backend);
      const Outcome expected = outcome_of([&] { return run(in); });
      CHECK(outcome_of([&] { return jit::compile(run, {.backend = backend})(in); }) == expected);
      CHECK(outcome_of([&] { return symbolic(in); }) == expected);
      CHECK(expected.what.find("InternalError") == std::string::npos);
    }
  }
}

void check_placement(Placement placement) {
  for (const Row& row : rows) {
    check(row, placement, false);
    if (row.has_gradient) check(row, placement, true);
  }
}

/// The first axis without its first two rows: empty only when a compiled function of symbolic extents is called with
/// two.
std::function<Inputs(const Inputs&)> behind_two_rows(const Row& row, Placement placement, bool differentiates) {
  return [run = function_of(row, Placement::dense, differentiates), placement](const Inputs& in) {
    Inputs parts;
    for (const Tensor& x : in)
      parts.push_back(placement == Placement::dense ? x(slice(2)) : turned(turned(x)(slice(2))));
    return run(parts);
  };
}

}  // namespace

TEST_CASE("empty tensors: extents that are 0 in one call of many", "[empty]") {
  for (const Row& row : rows) {
    const std::string_view letters = row.shapes[0];
    const bool fits =
        letters.size() > 1 && row.shapes.size() <= 2 && (row.shapes.size() == 1 || row.shapes[1] == letters);
    if (!fits || letters.find('1') != std::string_view::npos) continue;
    for (Placement placement : {Placement::dense, Placement::view_given})
      for (bool differentiates : {false, true}) {
        if (differentiates && !row.has_gradient) continue;
        const auto run = behind_two_rows(row, placement, differentiates);
        auto symbolic = jit::compile(run, {.dynamic = jit::Dynamic::always});
        for (std::int64_t n : {5, 2, 4}) {
          Inputs in;
          for (std::size_t i = 0; i < row.shapes.size(); ++i)
            in.push_back(randn(letters.size() == 2   ? Shape{n, n}
                               : letters.size() == 3 ? Shape{n, n, n}
                                                     : Shape{n, 3, n, n}));
          INFO(row.name << (differentiates ? ", gradient" : "") << ", placement " << static_cast<int>(placement) << ", "
                        << n);
          const Outcome expected = outcome_of([&] { return run(in); });
          CHECK(outcome_of([&] { return symbolic(in); }) == expected);
        }
      }
  }
}

TEST_CASE("empty tensors: rows that a sum of nothing scales", "[empty]") {
  auto f = jit::compile([](Tensor x, Tensor y) { return y + reshape(sum(x, {1, 2}), {2, 1}); });
  for (const int rows : {0, 3, 0, 1}) {
    const Tensor x = ones({2, rows, 33}), y = full({2, 33}, 1.5f);
    const Tensor found = f(x, y);
    for (int i = 0; i < 2 * 33; ++i) CHECK(found.data<float>()[i] == 1.5f + static_cast<float>(rows * 33));
  }
}

TEST_CASE("empty tensors: every op, dense", "[empty]") { check_placement(Placement::dense); }
TEST_CASE("empty tensors: every op after permutes", "[empty]") { check_placement(Placement::view_inside); }
TEST_CASE("empty tensors: every op on permuted arguments", "[empty]") { check_placement(Placement::view_given); }
