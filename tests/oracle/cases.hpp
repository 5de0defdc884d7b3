// The stored cases: read from cases/*.txt (case_format.py says what the lines hold), inputs made from their recipes,
// results compared. Knows no function.
#pragma once

#include "../conformance/op_table.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter_test {

/// An input as case_format.py writes it.
struct InputRecipe {
  DType dtype = DType::f32;
  Extents shape;
  char layout = 'c';  // contiguous, transposed, stepped, expanded
  std::uint64_t seed = 0;
  std::string recipe;
};

/// A result: all elements, or samples and a weighted sum of the finite ones.
struct StoredResult {
  struct Element {
    double value = 0, other = 0;  // either may be given
    std::int64_t integer = 0;
  };
  DType dtype = DType::f32;
  Extents shape;
  bool is_sampled = false;
  double sum = 0, magnitude = 0;
  std::vector<Element> elements;
};

/// name=value pairs of a case.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::string_view text);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  double number(std::string_view name, double otherwise = 0) const;
  std::int64_t whole(std::string_view name, std::int64_t otherwise = 0) const;
  int axis(std::string_view name, int otherwise = 0) const { return static_cast<int>(whole(name, otherwise)); }
  bool is(std::string_view name) const { return whole(name) != 0; }
  std::string word(std::string_view name) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  std::vector<int> axes(std::string_view name) const;
  DType dtype(std::string_view name) const;
  Shape shape(std::string_view name) const { return Shape(list(name)); }
  Keep keep() const { return is("keepdim") ? Keep::yes : Keep::no; }

 private:
  const std::string* find(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> pairs_;
};

struct StoredCase {
  std::string line;
  std::vector<InputRecipe> inputs;
  Attributes attributes;
  std::vector<StoredResult> results, slopes;  // of a slope that there is not, the dtype is bool
};

/// Allowed: `ulp` units of the last place of each element, and `floor` units of the largest number in sight. f16 and
/// bf16 are computed in f32: `half` of their units, and a 64th of the ulps.
struct StoredTolerance {
  double ulp = 2, floor = 0, half = 1;
  bool has_signed_zeros = true;  // not of gradients
};

struct StoredFunction {
  std::string name;
  StoredTolerance value, slope;
  bool has_vmap = true;
  std::vector<StoredCase> cases;
};
std::vector<StoredFunction> read_cases(const std::string& path);

/// The numbers of a recipe, as its dtype holds them; `is_flipped` reverses their order along all axes.
Array numbers_of(const InputRecipe& recipe, bool is_flipped = false);
Tensor tensor_of(const InputRecipe& recipe);

/// What rounding errors may be proportional to: the largest finite number of the inputs, or 0 for none.
double largest_number(const std::vector<Array>& arrays);
/// Empty, or how `got` differs.
std::string difference_from(const Tensor& got, const StoredResult& want, StoredTolerance tolerance, double scale);
std::string difference_between(const Tensor& got, const Tensor& want, StoredTolerance tolerance, double scale);

}  // namespace sinter_test
