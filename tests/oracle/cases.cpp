// See cases.hpp.
#include "cases.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace sinter_test {
namespace {

std::vector<std::string> split_at(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

double number_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

DType dtype_of(const std::string& text) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i16,
                            DType::u16, DType::i32, DType::u32, DType::i64, DType::bool_})
    if (name(dtype) == text) return dtype;
  throw std::runtime_error("no dtype: " + text);
}

Extents extents_of(const std::string& text) {
  Extents extents;
  if (text == "-") return extents;
  for (const std::string& extent : split_at(text, ",")) extents.push_back(std::strtoll(extent.c_str(), nullptr, 10));
  return extents;
}

InputRecipe input_of(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  std::string recipe;
  for (std::size_t i = 4; i < words.size(); ++i) recipe += (i == 4 ? "" : " ") + words[i];
  return {dtype_of(words[0]), extents_of(words[1]), words[2][0], std::strtoull(words[3].c_str(), nullptr, 10), recipe};
}

StoredResult result_of(const std::string& text) {
  const std::vector<std::string> words = words_of(text);
  if (words.size() < 2) return {.dtype = DType::bool_, .shape = {}, .elements = {}};
  StoredResult result{.dtype = dtype_of(words[0]), .shape = extents_of(words[1]), .elements = {}};
  std::size_t at = 2;
  if (words.size() > 2 && words[2] == "~") {
    result.is_sampled = true;
    result.sum = number_of(words[3]), result.magnitude = number_of(words[4]);
    at = 5;
  }
  for (; at < words.size(); ++at) {
    const std::vector<std::string> either = split_at(words[at], "/");
    result.elements.push_back(
        {number_of(either[0]), number_of(either.back()), std::strtoll(either[0].c_str(), nullptr, 10)});
  }
  return result;
}

StoredCase case_of(const std::string& line) {
  const std::vector<std::string> fields = split_at(line + " ", " ; ");
  StoredCase result{.line = line, .inputs = {}, .attributes = Attributes(fields.at(1)), .results = {}, .slopes = {}};
  for (const std::string& input : split_at(fields[0], " | "))
    if (!words_of(input).empty()) result.inputs.push_back(input_of(input));
  for (const std::string& value : split_at(fields.at(2), " | ")) result.results.push_back(result_of(value));
  if (!words_of(fields.at(3)).empty())
    for (const std::string& slope : split_at(fields[3], " | ")) result.slopes.push_back(result_of(slope));
  return result;
}

StoredFunction function_of(const std::string& line) {
  const std::string rest = line.substr(2);
  const std::string name = rest.substr(0, rest.find(" ulp="));
  const Attributes given(rest.substr(name.size()));
  const double half = given.number("half", 1);
  return {name,
          {given.number("ulp"), given.number("floor"), half, given.is("zeros")},
          {given.number("slope_ulp"), given.number("slope_floor"), half, false},
          given.is("vmap"),
          {}};
}

/// Uniform in [0, 1), a multiple of 2^-22: products with short numbers are exact, the same with every compiler.
double short_unit_value(std::uint64_t seed, std::uint64_t position) {
  return std::floor(unit_value(seed, position) * 0x1p22) * 0x1p-22;
}

/// As case_format.py says: reflections on both sides of these singular values.
double reflected_number(const std::vector<std::string>& values, std::int64_t rows, std::int64_t columns,
                        std::int64_t row, std::int64_t column) {
  const auto reflection = [](std::int64_t n, std::int64_t i, std::int64_t j) {
    return (i == j ? 1 : 0) - 2 / static_cast<double>(n);
  };
  double sum = 0;
  for (std::int64_t k = 0; k < std::min(rows, columns); ++k)
    sum += reflection(rows, row, k) * number_of(values[1 + static_cast<std::size_t>(k) % (values.size() - 1)]) *
           reflection(columns, k, column);
  return sum;
}

double number_at(const std::vector<std::string>& words, const Extents& shape, std::uint64_t seed, std::int64_t i) {
  const std::int64_t columns = shape.empty() ? 1 : shape.back();
  const std::int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  const std::int64_t column = i % columns, row = i / columns % rows;
  if (const auto star = std::find(words.begin(), words.end(), "*"); star != words.end()) {
    const auto by_two = [&](int k) { return std::strtoll(star[k].c_str(), nullptr, 10); };
    return std::ldexp(number_at({words.begin(), star}, shape, seed, i),
                      static_cast<int>(by_two(1) + by_two(2) * row + by_two(3) * column));
  }
  if (words[0] == "v") return number_of(words[1 + static_cast<std::size_t>(i) % (words.size() - 1)]);
  if (words[0] == "h") return 1 / (static_cast<double>(row + column) + number_of(words[1]));
  if (words[0] == "e") return reflected_number(words, rows, columns, row, column);
  const char kind = words[0][0];
  const double low = number_of(words[1]), high = number_of(words[2]);
  std::int64_t source = i;
  if (kind == 's') source = i - row * columns - column + std::min(row, column) * columns + std::max(row, column);
  const double unit = short_unit_value(seed, static_cast<std::uint64_t>(source));
  if (kind == 'a') return low + (high - low) * (static_cast<double>(column) + unit) / static_cast<double>(columns);
  const double uniform = low + (high - low) * unit;
  if (kind == 'i') return std::floor(uniform);
  return uniform + (kind != 'u' && row == column ? static_cast<double>(columns) : 0);
}

double spacing(DType dtype, double x) {
  const int digits = dtype == DType::f64 ? 53 : dtype == DType::f32 ? 24 : dtype == DType::f16 ? 11 : 8;
  const int least = dtype == DType::f64 ? -1074 : dtype == DType::f32 ? -149 : dtype == DType::f16 ? -24 : -133;
  if (x == 0 || !std::isfinite(x)) return std::ldexp(1.0, least);
  return std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, least));
}

double rounded_in(DType dtype, double x) {
  if (dtype == DType::f32) return static_cast<double>(static_cast<float>(x));
  if (dtype == DType::f16) return static_cast<double>(static_cast<float>(float16(static_cast<float>(x))));
  if (dtype == DType::bf16) return static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(x))));
  return x;
}

double allowed_error(DType dtype, double want, StoredTolerance tolerance, double scale) {
  const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
  // What PyTorch computes in f64 has errors of its own.
  double ulps = is_half               ? tolerance.half + tolerance.ulp / 64
                : dtype == DType::f64 ? 2 * tolerance.ulp + 2
                                      : tolerance.ulp;
#ifdef SINTER_TEST_ON_GPU
  ulps *= 2;  // CUDA's own functions have wider bounds; exact stays exact
#endif
  return ulps * spacing(dtype, want) + (is_half ? tolerance.half : 1) * tolerance.floor * spacing(dtype, scale);
}

/// With f16 and bf16 beside the largest number, other results may round differently to infinity.
bool agrees(DType dtype, double got, double want, StoredTolerance tolerance, double scale) {
  if (std::isnan(want)) return std::isnan(got);
  const double nearest = rounded_in(dtype, want);
  if (got == nearest)
    return got != 0 || want != 0 || !tolerance.has_signed_zeros || std::signbit(got) == std::signbit(want);
  if (!std::isfinite(nearest) || !std::isfinite(got)) return false;
  return std::abs(got - want) <= allowed_error(dtype, want, tolerance, scale);
}

std::string text_of(double x) { return Catch::Detail::stringify(x); }

double with_largest(double scale, const std::vector<double>& numbers) {
  for (const double x : numbers)
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  return scale;
}

std::string sum_difference(const std::vector<double>& got, const StoredResult& want, StoredTolerance tolerance,
                           double scale) {
  double sum = 0, allowed = 1e-12 * want.magnitude;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i])) continue;
    const double weight = 0.5 + short_unit_value(3, i);
    sum += got[i] * weight;
    allowed += weight * (allowed_error(want.dtype, got[i], tolerance, scale) + spacing(want.dtype, got[i]) / 2);
  }
  if (!is_floating(want.dtype)) allowed = 1e-12 * want.magnitude;
  if (std::abs(sum - want.sum) <= allowed) return "";
  return "the weighted sum is " + text_of(sum) + ", should be " + text_of(want.sum) + " within " + text_of(allowed);
}

}  // namespace

Attributes::Attributes(std::string_view text) {
  for (const std::string& word : words_of(std::string(text))) {
    const std::size_t at = word.find('=');
    pairs_.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
}
const std::string* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : pairs_)
    if (key == name) return &value;
  return nullptr;
}
double Attributes::number(std::string_view name, double otherwise) const {
  return has(name) ? number_of(*find(name)) : otherwise;
}
std::int64_t Attributes::whole(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? std::strtoll(find(name)->c_str(), nullptr, 10) : otherwise;
}
std::string Attributes::word(std::string_view name) const { return has(name) ? *find(name) : ""; }
DType Attributes::dtype(std::string_view name) const { return dtype_of(word(name)); }
std::vector<std::int64_t> Attributes::list(std::string_view name) const {
  const Extents extents = has(name) ? extents_of(*find(name)) : Extents();
  return {extents.begin(), extents.end()};
}
std::vector<double> Attributes::numbers(std::string_view name) const {
  std::vector<double> values;
  if (has(name) && *find(name) != "-")
    for (const std::string& part : split_at(*find(name), ",")) values.push_back(number_of(part));
  return values;
}
std::vector<int> Attributes::axes(std::string_view name) const {
  std::vector<int> axes;
  for (const std::int64_t axis : list(name)) axes.push_back(static_cast<int>(axis));
  return axes;
}

std::vector<StoredFunction> read_cases(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<StoredFunction> functions;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("> ")) functions.push_back(function_of(line));
    else if (!line.empty()) functions.at(functions.size() - 1).cases.push_back(case_of(line));
  }
  return functions;
}

Array numbers_of(const InputRecipe& recipe, bool is_flipped) {
  const std::vector<std::string> words = words_of(recipe.recipe);
  Array array{recipe.dtype, recipe.shape, {}};
  for (std::int64_t i = 0; i < oracle::count(recipe.shape); ++i) {
    const double x = number_at(words, recipe.shape, recipe.seed, i);
    const bool is_whole = !is_floating(recipe.dtype) && recipe.dtype != DType::bool_;
    array.data.push_back(recipe.dtype == DType::bool_ ? (x > 0.5 ? 1 : 0) : is_whole ? std::floor(x) : x);
  }
  if (is_flipped) std::reverse(array.data.begin(), array.data.end());
  return recipe.layout == 'e' ? fit_placement(array, Placement::expanded) : array;
}

Tensor tensor_of(const InputRecipe& recipe) {
  const Placement placement = recipe.layout == 't'   ? Placement::transposed
                              : recipe.layout == 's' ? Placement::stepped
                              : recipe.layout == 'e' ? Placement::expanded
                                                     : Placement::dense;
  return laid_out(numbers_of(recipe), placement);
}

double largest_number(const std::vector<Array>& arrays) {
  double largest = 0;
  for (const Array& array : arrays)
    if (is_floating(array.dtype)) largest = with_largest(largest, array.data);
  return largest;
}

std::string difference_from(const Tensor& got, const StoredResult& want, StoredTolerance tolerance, double scale) {
  if (got.dtype() != want.dtype)
    return "dtype " + std::string(name(got.dtype())) + ", should be " + std::string(name(want.dtype));
  if (!(got.shape() == Shape(want.shape)))
    return "shape " + got.shape().text() + ", should be " + Shape(want.shape).text();
  const std::vector<double> values = to_vector<double>(got);
  const std::vector<std::int64_t> integers =
      is_floating(want.dtype) ? std::vector<std::int64_t>() : to_vector<std::int64_t>(got);
  if (tolerance.floor > 0) scale = with_largest(scale, values);
  for (std::size_t k = 0; k < want.elements.size(); ++k) {
    const std::size_t at = want.is_sampled ? k * (values.size() - 1) / (want.elements.size() - 1) : k;
    const StoredResult::Element& element = want.elements[k];
    const bool fits = is_floating(want.dtype) ? agrees(want.dtype, values[at], element.value, tolerance, scale) ||
                                                    agrees(want.dtype, values[at], element.other, tolerance, scale)
                                              : integers[at] == element.integer;
    if (!fits) {
      const double error = std::abs(values[at] - element.value);
      return "element " + std::to_string(at) + " is " + text_of(values[at]) + ", should be " + text_of(element.value) +
             " (" + text_of(error / spacing(want.dtype, element.value)) + " ulp)";
    }
  }
  return want.is_sampled ? sum_difference(values, want, tolerance, scale) : "";
}

std::string difference_between(const Tensor& got, const Tensor& want, StoredTolerance tolerance, double scale) {
  if (got.dtype() != want.dtype()) return "the dtype differs";
  if (!(got.shape() == want.shape())) return "shape " + got.shape().text() + ", should be " + want.shape().text();
  const std::vector<double> values = to_vector<double>(got), right = to_vector<double>(want);
  if (tolerance.floor > 0) scale = with_largest(with_largest(scale, values), right);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_right =
        is_floating(want.dtype()) ? agrees(want.dtype(), values[i], right[i], tolerance, scale) : values[i] == right[i];
    if (!is_right)
      return "element " + std::to_string(i) + " is " + text_of(values[i]) + ", should be " + text_of(right[i]);
  }
  return "";
}

}  // namespace sinter_test
