// Copies between host memory and tensors, and printing.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/expr/copy_elements.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <memory>
#include <ostream>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

template <class T>
T number_as(Number number) {
  return visit_dtype(number.dtype, [&](auto element) {
    std::memcpy(&element, &number.bits, sizeof element);
    return scalar_meaning::converted<T>(element);
  });
}

SINTER_DECL void require_convertible(DType from, DType to, std::string_view function, Location where) {
  if (!is_complex(from) || is_complex(to)) return;
  throw DTypeError(function,
                   "the elements are " + std::string(name(from)) + ", and " + std::string(name(to)) +
                       " has no place for "
                       "imaginary parts",
                   where, "read real(z) or imag(z), or std::complex numbers");
}

/// Parts of complex numbers of the other width, or of real numbers beside zeros.
inline void convert_to_complex(DType from_dtype, const char* from, DType to_dtype, char* to, std::size_t count) {
  const DType from_part = real_part_of(from_dtype), to_part = real_part_of(to_dtype);
  if (is_complex(from_dtype)) return convert_elements(from_part, from, to_part, to, 2 * count);
  const auto from_size = as_index(size_of(from_dtype)), to_size = as_index(size_of(to_dtype));
  std::memset(to, 0, count * to_size);
  for (std::size_t i = 0; i < count; ++i)
    convert_elements(from_dtype, from + i * from_size, to_part, to + i * to_size, 1);
}

SINTER_DECL void convert_elements(DType from_dtype, const void* from, DType to_dtype, void* to, std::size_t count) {
  if (from_dtype == to_dtype && from_dtype != DType::bool_) {
    if (count != 0) std::memcpy(to, from, count * as_index(size_of(to_dtype)));
    return;
  }
  ensure(!is_complex(from_dtype) || is_complex(to_dtype), "complex elements as real ones");
  if (is_complex(to_dtype))
    return convert_to_complex(from_dtype, static_cast<const char*>(from), to_dtype, static_cast<char*>(to), count);
  visit_dtype(from_dtype, [&](auto source) {
    visit_dtype(to_dtype, [&](auto target) {
      const auto* in = static_cast<const char*>(from);
      auto* out = static_cast<char*>(to);
      for (std::size_t i = 0; i < count; ++i) {  // by memcpy: i64 elements are read into long and long long alike
        std::memcpy(&source, in + i * sizeof source, sizeof source);
        target = scalar_meaning::converted<decltype(target)>(source);
        std::memcpy(out + i * sizeof target, &target, sizeof target);
      }
    });
  });
}

SINTER_DECL Tensor literal(DType dtype, const Shape& shape, const void* data) {
  return on_default_device(copy_strided({dtype, Device::cpu(), shape}, data, dense_strides(shape)));
}

SINTER_DECL LiteralRows::LiteralRows(std::size_t rows, std::size_t columns, DType dtype, Location where)
    : dtype_(dtype), shape_{Dim(rows), Dim(columns)}, where_(where) {}
SINTER_DECL void LiteralRows::add(const void* row, std::size_t columns) {
  if (Dim(columns).value() != shape_[1].value())
    throw ShapeError("tensor", "rows have different lengths: " + shape_[1].text() + " and " + std::to_string(columns),
                     where_);
  bytes_.append(static_cast<const char*>(row), columns * as_index(size_of(dtype_)));
}
SINTER_DECL Tensor LiteralRows::finish(const Shape& shape) const { return literal(dtype_, shape, bytes_.data()); }
SINTER_DECL void require_rows(std::size_t rows, std::size_t first, Location where) {
  if (rows != first)
    throw ShapeError("tensor",
                     "planes have different numbers of rows: " + std::to_string(first) + " and " + std::to_string(rows),
                     where);
}

SINTER_DECL Type host_type(DType dtype, const Shape& shape, std::int64_t available, std::string_view function,
                           Location where) {
  std::int64_t needed = shape.numel(where).value();
  if (available >= 0 && available != needed)
    throw ShapeError(function,
                     "shape " + shape.text() + " needs " + std::to_string(needed) + " elements, " +
                         std::to_string(available) + " are there",
                     where);
  return {dtype, Device::cpu(), shape};
}

SINTER_DECL Tensor copy_strided(const Type& type, const void* data, const Strides& strides) {
  auto bytes = as_index(type.shape.numel().value() * size_of(type.dtype));
  static const tensor_detail::Maker maker = tensor_detail::maker_of("a copy of host memory", Location());
  Ref<Storage> storage = Storage::allocate(bytes, Device::cpu(), maker);
  if (bytes > 0) copy_between(type, data, strides, storage->data(), dense_strides(type.shape));
  return Tensor(TensorImpl::make_ready(type, std::move(storage)));
}

/// Fraction digits beyond which numbers are rounded when printed.
inline constexpr int printed_digits = 8;

/// The shortest text that reads back as `x`, in fixed or scientific notation, with at most `printed_digits` digits
/// after the point; the point always stays ("1.", "1.e+10").
template <class T>
std::string shortest_text(T x, std::chars_format format) {
  char buffer[400];
  auto write = [&](auto... precision) {
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, x, format, precision...).ptr);
  };
  std::string text = write();
  std::size_t exponent = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), exponent);
  if (exponent - point > printed_digits + 1) {
    text = write(printed_digits);
    exponent = std::min(text.find('e'), text.size());
    point = std::min(text.find('.'), exponent);
  }
  std::size_t end = exponent;
  if (point != exponent)
    while (text[end - 1] == '0') --end;
  return text.substr(0, point) + "." + (end > point ? text.substr(point + 1, end - point - 1) : "") +
         text.substr(exponent);
}

/// `x` rounded to so many digits after the point.
template <class T>
std::string scientific_text(T x, std::size_t digits) {
  char buffer[64];
  std::string text(
      buffer,
      std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific, static_cast<int>(digits)).ptr);
  if (digits == 0) text.insert(text.find('e'), ".");
  return text;
}

/// The decimal number of fewest digits that rounds to `x`.
template <class Half>
float printed(Half x) {
  const auto value = static_cast<float>(x);
  if (!is_finite_number(value)) return value;
  for (int digits = 1; digits < 9; ++digits) {
    char text[32];
    float shortened = 0;
    const char* const end =
        std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1).ptr;
    std::from_chars(text, end, shortened);
    if (Half(shortened).bits == x.bits) return shortened;
  }
  return value;
}

/// A complex number, to be printed.
template <class T>
struct Pair {
  T re, im;
};

/// How the numbers of one tensor are written, so that they stand in columns: NumPy's rules.
class NumberFormat {
 public:
  template <class T>
  void look_at(Pair<T> z) {
    look_at(z.re);
    if (!imaginary_) imaginary_ = std::make_shared<NumberFormat>();
    imaginary_->look_at(std::abs(z.im));
  }
  /// "1.5-2.j": the sign stands before the digits, and blanks for fewer digits behind the j.
  template <class T>
  std::string text(Pair<T> z) const {
    std::string im = imaginary_->text(std::abs(z.im)), re = text(z.re);
    const std::size_t blank = im.find_first_not_of(' '), end = im.find_last_not_of(' ') + 1;
    const std::string sign = has_sign_bit(z.im) ? "-" : "+";
    return re + im.substr(0, blank) + sign + im.substr(blank, end - blank) + "j" + im.substr(end);
  }
  template <class T>
  static std::string alone(Pair<T> z) {
    const auto part = [](T x) {
      std::string text = alone(x);
      return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
    };
    if (z.re == 0 && !has_sign_bit(z.re)) return part(z.im) + "j";
    return "(" + part(z.re) + (has_sign_bit(z.im) ? "-" : "+") + part(std::abs(z.im)) + "j)";
  }
  void look_at(bool) { width_ = 5; }  // "False"
  template <FloatingElement T>
    requires(sizeof(T) < 4)
  void look_at(T x) {
    look_at(printed(x));
  }
  template <std::integral T>
  void look_at(T x) {
    width_ = std::max(width_, std::to_string(x).size());
  }
  template <std::floating_point T>
  void look_at(T x) {
    if (!is_finite_number(x)) {
      odd_width_ = std::max(odd_width_, text_of_odd(x).size());
      return;
    }
    auto size = static_cast<double>(std::abs(x));
    if (size > 0) {
      largest_ = std::max(largest_, size);
      smallest_ = std::min(smallest_, size);
    }
    measure(fixed_, shortest_text(x, std::chars_format::fixed));
    measure(scientific_, shortest_text(x, std::chars_format::scientific));
  }

  template <FloatingElement T>
    requires(sizeof(T) < 4)
  std::string text(T x) const {
    return text(printed(x), static_cast<float>(x));
  }
  std::string text(bool x) const { return padded(x ? "True" : "False", width_); }
  template <std::integral T>
  std::string text(T x) const {
    return padded(std::to_string(x), width_);
  }
  template <std::floating_point T>
  std::string text(T x) const {
    return text(x, x);
  }
  /// `exact` has the digits that `x` leaves out: those of columns that other numbers have are its own, no zeros.
  template <std::floating_point T>
  std::string text(T x, T exact) const {
    bool is_scientific =
        largest_ >= 1e8 || smallest_ < static_cast<double>(static_cast<T>(1e-4)) || largest_ / smallest_ > 1000;
    const Columns& columns = is_scientific ? scientific_ : fixed_;
    std::size_t right = columns.fraction + 1 + (is_scientific ? columns.exponent : 0);
    std::size_t left = std::max(columns.whole, odd_width_ > right ? odd_width_ - right : 0);
    if (!is_finite_number(x)) return padded(text_of_odd(x), left + (columns.whole > 0 ? right : 0));
    std::string number =
        is_scientific ? scientific_text(exact, columns.fraction) : shortest_text(x, std::chars_format::fixed);
    std::size_t exponent = std::min(number.find('e'), number.size()), point = number.find('.');
    std::string fraction = number.substr(point + 1, exponent - point - 1), power = number.substr(exponent);
    fraction.append(columns.fraction - fraction.size(), ' ');
    if (is_scientific) power.insert(2, columns.exponent - power.size(), '0');
    return padded(number.substr(0, point), left) + "." + fraction + power;
  }
  /// A number on its own: "1.0", "1e+16".
  template <class T>
  static std::string alone(T x) {
    if constexpr (std::same_as<T, bool>) return x ? "True" : "False";
    else if constexpr (std::integral<T>) return std::to_string(x);
    else if constexpr (!std::floating_point<T>) return alone(printed(x));
    else {
      if (!is_finite_number(x)) return text_of_odd(x);
      T size = std::abs(x);
      bool is_scientific = size != 0 && (size >= T(1e16) || size < T(1e-4));
      char buffer[64];
      std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, x,
                                             is_scientific ? std::chars_format::scientific : std::chars_format::fixed)
                                   .ptr);
      return is_scientific || text.find('.') != std::string::npos ? text : text + ".0";
    }
  }

 private:
  struct Columns {
    std::size_t whole = 0, fraction = 0, exponent = 0;  // characters before the point, after it, and from the e on
  };
  static void measure(Columns& columns, const std::string& text) {
    std::size_t exponent = std::min(text.find('e'), text.size()), point = text.find('.');
    columns.whole = std::max(columns.whole, point);
    columns.fraction = std::max(columns.fraction, exponent - point - 1);
    columns.exponent = std::max(columns.exponent, text.size() - exponent);
  }
  template <class T>
  static std::string text_of_odd(T x) {
    return is_nan_number(x) ? "nan" : x < 0 ? "-inf" : "inf";
  }
  static std::string padded(std::string text, std::size_t width) {
    return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
  }

  std::size_t width_ = 0, odd_width_ = 0;
  double largest_ = 0, smallest_ = std::numeric_limits<double>::infinity();
  Columns fixed_, scientific_;
  std::shared_ptr<NumberFormat> imaginary_;  // of complex numbers
};

/// Prints like numpy.array2string(x, separator=", "): numbers in columns, lines of at most 75 characters, more than
/// 1000 elements shortened to three at each end of an axis.
class Printer {
 public:
  explicit Printer(const TensorImpl& value) : value_(value), is_short_(value.type.shape.numel().value() > 1000) {}
  std::string text() {
    if (value_.type.dtype == DType::c64) return text_of<Pair<float>>();
    if (value_.type.dtype == DType::c128) return text_of<Pair<double>>();
    return visit_dtype(value_.type.dtype, [&](auto element) { return text_of<decltype(element)>(); });
  }

 private:
  template <class T>
  std::string text_of() {
    if (value_.type.shape.rank() == 0) return NumberFormat::alone(at<T>(0));
    measure<T>(0, 0);
    return write<T>(0, 0);
  }
  static constexpr std::int64_t edge = 3;
  static constexpr std::size_t line_width = 75;
  template <class T>
  T at(std::int64_t offset) const {
    return static_cast<const T*>(value_.data())[offset];
  }
  std::int64_t stride(int axis) const { return value_.strides[as_index(axis)]; }
  template <class F>
  void for_each(int axis, F&& visit) const {
    std::int64_t n = value_.type.shape[axis].value();
    for (std::int64_t i = 0; i < n; ++i) {
      if (is_short_ && n > 2 * edge && i == edge) {
        visit(-1);
        i = n - edge;
      }
      visit(i);
    }
  }
  template <class T>
  void measure(int axis, std::int64_t offset) {
    if (axis == value_.type.shape.rank()) return format_.look_at(at<T>(offset));
    for_each(axis, [&](std::int64_t i) {
      if (i >= 0) measure<T>(axis + 1, offset + i * stride(axis));
    });
  }
  template <class T>
  std::string write(int axis, std::int64_t offset) {
    int axes_left = value_.type.shape.rank() - axis;
    std::string out = "[", indent(as_index(axis) + 1, ' ');
    std::size_t width = line_width - as_index(axis) - 1, line_start = 0;
    bool is_first = true;
    for_each(axis, [&](std::int64_t i) {
      std::string item = i < 0            ? "..."
                         : axes_left == 1 ? format_.text(at<T>(offset + i * stride(axis)))
                                          : write<T>(axis + 1, offset + i * stride(axis));
      if (axes_left > 1) {
        if (!is_first) out.append(",").append(as_index(axes_left - 1), '\n').append(indent);
      } else if (!is_first) {
        // The first line begins after the indent that whoever called writes.
        std::size_t used = out.size() - line_start + (line_start == 0 ? indent.size() - 1 : 0) + 2;
        if (used + item.size() > width) {
          out.append(",\n");
          line_start = out.size();
          out.append(indent);
        } else {
          out.append(", ");
        }
      }
      out.append(item);
      is_first = false;
    });
    return out + "]";
  }

  const TensorImpl& value_;
  bool is_short_;
  NumberFormat format_;
};

}  // namespace expr_detail

SINTER_DECL Tensor copy_of(const std::vector<bool>& source, const Shape& shape, Location where) {
  const auto elements = std::make_unique<bool[]>(source.size());
  std::copy(source.begin(), source.end(), elements.get());
  return copy_of(std::span<const bool>(elements.get(), source.size()), shape, where);
}
SINTER_DECL Tensor copy_of(const std::vector<bool>& source) { return copy_of(source, Shape{Dim(source.size())}); }

SINTER_DECL Tensor from_blob(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype,
                             Location where) {
  Type type = expr_detail::host_type(dtype, shape, -1, "from_blob", where);
  auto bytes = as_index(shape.numel().value() * size_of(dtype));
  return Tensor(TensorImpl::make_ready(type, Storage::wrap(const_cast<void*>(data), bytes, std::move(owner))));
}

SINTER_DECL Tensor from_blob(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype,
                             Device device, Location where) {
  Type type = expr_detail::host_type(dtype, shape, -1, "from_blob", where);
  if (device.kind != DeviceKind::cpu) device_memory(device, "from_blob", where);
  type.device = device;
  auto bytes = as_index(shape.numel().value() * size_of(dtype));
  return Tensor(TensorImpl::make_ready(type, Storage::wrap(const_cast<void*>(data), bytes, std::move(owner), device)));
}

namespace expr_detail {
SINTER_DECL Tensor on_default_device(Tensor x) {
  return default_device() == Device::cpu() ? x : to_device(In(x), default_device());
}
}  // namespace expr_detail

SINTER_DECL Ref<TensorImpl> dense_value(const In& x, std::string_view function) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, function, x.where);
  if (value->is_dense()) return value;
  const Device device = value->type.device;
  if (device != Device::cpu())  // rare: through the host
    return expr_detail::moved_now(In(Tensor(host_value(In(Tensor(std::move(value)), x.where), function)), x.where),
                                  device, function);
  return expr_detail::copy_strided(value->type, value->data(), value->strides).impl();
}

namespace expr_detail {
SINTER_DECL const TensorImpl& readable_value(const Tensor& x, DType dtype, Location where) {
  const Ref<TensorImpl>& value = x.impl();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, "data", where);
  if (value->type.device != Device::cpu())
    throw DeviceError("data", "the elements are on " + value->type.device.text() + ", not in host memory", where,
                      "use to_vector<T>(x), or x.to(Device::cpu()) first");
  if (value->type.dtype != dtype)
    throw DTypeError(
        "data", "the tensor has dtype " + std::string(name(value->type.dtype)) + ", not " + std::string(name(dtype)),
        where, "use to_vector<T>(x) to convert");
  if (value->is_dense()) return *value;
  const TensorImpl* known = value->dense_copy();
  return known != nullptr ? *known
                          : *value->keep_dense_copy(copy_strided(value->type, value->data(), value->strides).impl());
}
}  // namespace expr_detail

SINTER_DECL Ref<TensorImpl> host_value(const In& x, std::string_view function) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, function, x.where);
  if (value->type.device != Device::cpu())
    value = expr_detail::moved_now(In(Tensor(std::move(value)), x.where), Device::cpu(), function);
  if (value->is_dense()) return value;
  return expr_detail::copy_strided(value->type, value->data(), value->strides).impl();
}

namespace expr_detail {
inline void check_single(const TensorImpl& value, std::string_view function, Location where) {
  if (!(value.type.shape.numel() == Dim(1)))
    throw ShapeError(function, "the tensor has shape " + value.type.shape.text() + ", not one element", where,
                     "reduce it first, or use to_vector<T>(x)");
}
/// True for a value that is known only when the compiled function runs.
inline bool is_traced(const TensorImpl& value) { return !value.is_ready() && value.trace != 0; }

SINTER_DECL Number read_number(const In& x, std::string_view function, const DType* as) {
  if (!x.leaf.value) {
    if (x.leaf.kind == DTypeClass::floating) return {DType::f64, std::bit_cast<std::uint64_t>(x.leaf.number)};
    return {x.leaf.kind == DTypeClass::boolean ? DType::bool_ : DType::i64, static_cast<std::uint64_t>(x.leaf.integer)};
  }
  Ref<TensorImpl> value = x.leaf.value;
  check_single(*value, function, x.where);
  if (is_traced(*value) && as != nullptr && *as != value->type.dtype) value = cast(x, *as).impl();
  return {value->type.dtype, read_bits(value, function, x.where)};
}
}  // namespace expr_detail

SINTER_DECL double Scalar::number(Location where) const {
  return expr_detail::number_as<double>(expr_detail::read_number(In(*this, where), "Scalar", nullptr));
}
namespace tensor_detail {
SINTER_DECL double read_floating(const Scalar& x, DType as) {
  return expr_detail::number_as<double>(expr_detail::read_number(In(x, Location()), "Scalar", &as));
}
SINTER_DECL std::int64_t read_integer(const Scalar& x, DType as) {
  return expr_detail::number_as<std::int64_t>(expr_detail::read_number(In(x, Location()), "Scalar", &as));
}
}  // namespace tensor_detail

SINTER_DECL Scalar item(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  expr_detail::check_single(*value, "item", x.where);
  const DType dtype = value->type.dtype == DType::bool_ ? DType::bool_
                      : is_floating(value->type.dtype)  ? DType::f64
                                                        : DType::i64;
  if (!expr_detail::is_traced(*value)) {
    expr_detail::Number number{value->type.dtype, read_bits(value, "item", x.where)};
    if (dtype == DType::f64) return Scalar(expr_detail::number_as<double>(number));
    if (dtype == DType::bool_) return Scalar(number.bits != 0);
    if (value->type.dtype == DType::u64 && static_cast<std::uint64_t>(number.bits) >> 63 != 0)
      throw UserError(
          "item",
          std::to_string(static_cast<std::uint64_t>(number.bits)) + " does not fit i64, in which Scalars are held",
          x.where, "read it with item<std::uint64_t>(x), or keep the Tensor");
    return Scalar(expr_detail::number_as<std::int64_t>(number));
  }
  if (value->type.dtype == DType::u64)
    throw DTypeError("item",
                     "x is u64 in a trace, where it is not known whether it fits i64, in which Scalars are held",
                     x.where, "cast(x, DType::f64) rounds it, cast(x, DType::i64) wraps; or keep the Tensor");
  struct OffTape {  // a number outside a trace is on none, either
    const bool was_on = std::exchange(is_tape_on(), false);
    OffTape() { ++no_grad_depth(); }
    OffTape(const OffTape&) = delete;
    OffTape& operator=(const OffTape&) = delete;
    ~OffTape() {
      is_tape_on() = was_on;
      --no_grad_depth();
    }
  } off_tape;
  if (value->type.shape.rank() > 0) value = reshape(In(Tensor(value), x.where), Shape{}).impl();
  Ref<TensorImpl> number = record_op(op_info<ops::Cast>, {Leaf(value)}, {.dtype = dtype, .has_dtype = true}, x.where);
  number->is_weak = true;  // a number, as it is outside a trace
  return Scalar(std::move(number));
}

SINTER_DECL void copy_to(const BorrowedMut& target, const In& x) {
  if (target.type.device != Device::cpu())
    throw DeviceError("copy_to", "the target is on " + target.type.device.text(), x.where,
                      "copy_to writes host memory");
  Ref<TensorImpl> value = host_value(x, "copy_to");
  if (value->type.dtype != target.type.dtype)
    throw DTypeError("copy_to",
                     "the tensor has dtype " + std::string(name(value->type.dtype)) + ", the target " +
                         std::string(name(target.type.dtype)),
                     x.where);
  if (!identical(value->type.shape, target.type.shape))
    throw ShapeError("copy_to",
                     "the tensor has shape " + value->type.shape.text() + ", the target " + target.type.shape.text(),
                     x.where);
  if (value->type.shape.numel().value() > 0)
    expr_detail::copy_between(value->type, value->data(), value->strides, target.data, target.strides);
}

SINTER_DECL std::string to_string(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, "print", x.where);
  if (value->type.device != Device::cpu()) value = host_value(In(Tensor(std::move(value)), x.where), "print");
  return value->type.shape.numel().value() == 0 ? "[]" : expr_detail::Printer(*value).text();
}

SINTER_DECL Tensor copy_of(const Borrowed& b) {
  return expr_detail::on_default_device(expr_detail::copy_strided(b.type, b.data, b.strides));
}

SINTER_DECL std::ostream& operator<<(std::ostream& out, const expr_detail::Printed& x) {
  out << to_string(In(x.value, x.where));
  return x.value.rank() > 0 ? out << "\n" : out;
}
SINTER_DECL std::ostream& operator<<(std::ostream& out, const expr_detail::PrintedNumber& x) {
  return out << x.value.number(x.where);
}

SINTER_NAMESPACE_END
