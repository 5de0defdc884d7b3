// Why two dtypes have no common one, numbers as they round, and names that other libraries have.
#pragma once

#include <sinter/tensor/dtype.hpp>

#include <concepts>
#include <ostream>
#include <span>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

namespace tensor_detail {

SINTER_DECL void refuse_promotion(DType a, DType b, std::string_view op, Location where) {
  const std::string pair = std::string(name(a)) + " with " + std::string(name(b));
  if (is_f8(a) || is_f8(b))
    throw DTypeError(op, pair + " has no common dtype: f8e4m3 and f8e5m2 are not promoted", where,
                     "cast both to the dtype to compute in: cast(x, DType::f32)");
  throw DTypeError(op, pair + " has no common dtype: no integer has all values of both", where,
                   "cast one of them: cast(x, DType::i64) keeps what is below 2^63, cast(x, DType::u64) what is not "
                   "negative");
}

SINTER_DECL double rounded(double value, DType dtype) {
  if (!is_floating(dtype)) return value;
  return visit_dtype(dtype, [value]<class T>(T) -> double {
    if constexpr (std::same_as<T, double>) return value;
    else return static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(value))));
  });
}

}  // namespace tensor_detail

SINTER_DECL DType dtype_named(std::string_view text, Location where) {
  using Alias = std::pair<std::string_view, DType>;
  constexpr Alias of_numpy[] = {
      {"half", DType::f16}, {"single", DType::f32}, {"double", DType::f64}, {"bool_", DType::bool_}};
  constexpr Alias of_torch[] = {{"half", DType::f16},  {"float", DType::f32}, {"double", DType::f64},
                                {"short", DType::i16}, {"int", DType::i32},   {"long", DType::i64}};
  std::string_view bare = text;
  const auto take = [&bare](std::string_view prefix) {
    const bool is_there = bare.starts_with(prefix);
    if (is_there) bare.remove_prefix(prefix.size());
    return is_there;
  };
  const bool is_torch = take("torch."), is_numpy = !is_torch && (take("numpy.") || take("np."));
  const bool has_order =
      !is_torch && !is_numpy && bare.size() > 1 && std::string_view("<|=").find(bare[0]) != std::string_view::npos;
  for (const DTypeRow& known : dtype_rows) {
    if (bare.empty()) break;
    const bool is_named = has_order  ? known.numpy == bare.substr(1)
                          : is_numpy ? numpy_name(known.dtype) == bare
                                     : known.torch == bare || (known.name == bare && !is_torch);
    if (is_named) return known.dtype;
  }
  for (const auto& [other, dtype] : is_torch ? std::span<const Alias>(of_torch) : std::span<const Alias>(of_numpy))
    if (other == bare) return dtype;
  throw DTypeError("dtype_named", "\"" + std::string(text) + "\" names no dtype", where,
                   "names are Sinter's (\"f32\"), PyTorch's (\"float32\", \"torch.long\") and NumPy's (\"float32\", "
                   "\"<f4\")");
}
SINTER_NAMESPACE_END
