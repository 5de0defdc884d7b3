// Why two dtypes have no common one, numbers as they round, and names that other libraries have.
#pragma once

#include <sinter/tensor/dtype.hpp>

#include <concepts>
#include <ostream>
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
  std::string_view short_text = text;
  for (const std::string_view prefix : {"torch.", "numpy.", "np."})
    if (short_text.starts_with(prefix)) short_text.remove_prefix(prefix.size());
  const bool has_order = short_text.size() > 1 && std::string_view("<|=").find(short_text[0]) != std::string_view::npos;
  constexpr std::pair<std::string_view, DType> others[] = {
      {"half", DType::f16}, {"single", DType::f32}, {"double", DType::f64}, {"bool_", DType::bool_}};
  for (const DTypeRow& known : dtype_rows)
    if (has_order ? known.numpy == short_text.substr(1)
                  : !short_text.empty() && (known.name == short_text || known.torch == short_text))
      return known.dtype;
  for (const auto& [name, dtype] : others)
    if (name == short_text && !has_order) return dtype;
  throw DTypeError("dtype_named", "\"" + std::string(text) + "\" names no dtype", where,
                   "names are Sinter's (\"f32\"), PyTorch's (\"float32\", \"torch.float32\") and NumPy's (\"float32\", "
                   "\"<f4\")");
}
SINTER_NAMESPACE_END
