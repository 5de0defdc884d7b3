// Copies between host memory and tensors, and printing.
#pragma once

#include <sinter/expr/host.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ostream>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

SINTER_DECL Type host_type(DType dtype, const Shape& shape, std::int64_t available, std::string_view function, Location where) {
  std::int64_t needed = shape.numel(where).value();
  if (available >= 0 && available != needed)
    throw ShapeError(function, "shape " + shape.text() + " needs " + std::to_string(needed) + " elements, " + std::to_string(available) + " are there", where);
  return {dtype, Device::cpu(), shape};
}

/// Calls `visit(offset)` for the start of each innermost run, in row-major order.
template <class F>
void for_each_row(const Shape& shape, const Strides& strides, F&& visit) {
  if (shape.numel().value() == 0) return;
  std::array<std::int64_t, max_rank> at{};
  int outer = shape.rank() - 1;
  std::int64_t offset = 0;
  while (true) {
    visit(offset);
    int axis = outer - 1;
    for (; axis >= 0; --axis) {
      auto a = static_cast<std::size_t>(axis);
      offset += strides[a];
      if (++at[a] < shape[axis].value()) break;
      offset -= at[a] * strides[a];
      at[a] = 0;
    }
    if (axis < 0) return;
  }
}

template <class T>
void copy_elements(const Shape& shape, const T* from, const Strides& from_strides, T* to, const Strides& to_strides) {
  if (shape.rank() == 0) {
    *to = *from;
    return;
  }
  auto last = static_cast<std::size_t>(shape.rank() - 1);
  std::int64_t n = shape[-1].value(), from_step = from_strides[last], to_step = to_strides[last];
  std::vector<std::int64_t> offsets;
  for_each_row(shape, from_strides, [&](std::int64_t offset) { offsets.push_back(offset); });
  std::size_t row = 0;
  for_each_row(shape, to_strides, [&](std::int64_t offset) {
    const T* source = from + offsets[row++];
    T* target = to + offset;
    if (from_step == 1 && to_step == 1) std::memcpy(target, source, static_cast<std::size_t>(n) * sizeof(T));
    else
      for (std::int64_t i = 0; i < n; ++i) target[i * to_step] = source[i * from_step];
  });
}

inline void copy_between(const Type& type, const void* from, const Strides& from_strides, void* to, const Strides& to_strides) {
  switch (size_of(type.dtype)) {
    case 1: copy_elements(type.shape, static_cast<const std::uint8_t*>(from), from_strides, static_cast<std::uint8_t*>(to), to_strides); break;
    case 4: copy_elements(type.shape, static_cast<const std::uint32_t*>(from), from_strides, static_cast<std::uint32_t*>(to), to_strides); break;
    default: copy_elements(type.shape, static_cast<const std::uint64_t*>(from), from_strides, static_cast<std::uint64_t*>(to), to_strides); break;
  }
}

SINTER_DECL Tensor copy_strided(const Type& type, const void* data, const Strides& strides) {
  auto bytes = static_cast<std::size_t>(type.shape.numel().value() * size_of(type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes);
  if (bytes > 0) copy_between(type, data, strides, storage->data(), dense_strides(type.shape));
  return Tensor(TensorImpl::make_ready(type, std::move(storage)));
}

inline std::string number_text(const TensorImpl& value, std::int64_t offset) {
  char text[48];
  const void* element = static_cast<const char*>(value.storage->data()) + (value.offset + offset) * size_of(value.type.dtype);
  switch (value.type.dtype) {
    case DType::bool_: return *static_cast<const bool*>(element) ? "True" : "False";
    case DType::i32: std::snprintf(text, sizeof text, "%d", *static_cast<const std::int32_t*>(element)); break;
    case DType::i64: std::snprintf(text, sizeof text, "%lld", static_cast<long long>(*static_cast<const std::int64_t*>(element))); break;
    case DType::f32: std::snprintf(text, sizeof text, "%.4g", static_cast<double>(*static_cast<const float*>(element))); break;
    case DType::f64: std::snprintf(text, sizeof text, "%.6g", *static_cast<const double*>(element)); break;
  }
  std::string out = text;
  if (out == "-nan") out = "nan";
  if (is_floating(value.type.dtype) && out.find_first_of(".en") == std::string::npos) out += ".";
  return out;
}

/// Prints like NumPy: columns aligned, more than 1000 elements shortened to three at each end of an axis.
class Printer {
 public:
  explicit Printer(const TensorImpl& value) : value_(value), is_short_(value.type.shape.numel().value() > 1000) {
    measure(0, 0);
  }
  std::string text() {
    write(0, 0);
    return std::move(out_);
  }

 private:
  static constexpr std::int64_t edge = 3;
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
  void measure(int axis, std::int64_t offset) {
    if (axis == value_.type.shape.rank()) {
      width_ = std::max(width_, number_text(value_, offset).size());
      return;
    }
    for_each(axis, [&](std::int64_t i) {
      if (i >= 0) measure(axis + 1, offset + i * value_.strides[static_cast<std::size_t>(axis)]);
    });
  }
  void write(int axis, std::int64_t offset) {
    int rank = value_.type.shape.rank();
    if (axis == rank) {
      std::string number = number_text(value_, offset);
      out_.append(rank > 0 ? width_ - number.size() : 0, ' ').append(number);
      return;
    }
    out_ += '[';
    bool is_first = true;
    for_each(axis, [&](std::int64_t i) {
      if (!is_first) {
        if (axis == rank - 1) out_ += ", ";
        else out_.append(",").append(static_cast<std::size_t>(rank - 1 - axis), '\n').append(static_cast<std::size_t>(axis) + 1, ' ');
      }
      is_first = false;
      if (i < 0) out_ += "...";
      else write(axis + 1, offset + i * value_.strides[static_cast<std::size_t>(axis)]);
    });
    out_ += ']';
  }

  const TensorImpl& value_;
  bool is_short_;
  std::size_t width_ = 0;
  std::string out_;
};

}  // namespace expr_detail

SINTER_DECL Tensor from_blob(std::shared_ptr<const void> owner, const void* data, const Shape& shape, DType dtype, Location where) {
  Type type = expr_detail::host_type(dtype, shape, -1, "from_blob", where);
  auto bytes = static_cast<std::size_t>(shape.numel().value() * size_of(dtype));
  return Tensor(TensorImpl::make_ready(type, Storage::wrap(const_cast<void*>(data), bytes, std::move(owner))));
}

SINTER_DECL Ref<TensorImpl> dense_value(const In& x, std::string_view function) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, function, x.where);
  if (value->is_dense()) return value;
  return expr_detail::copy_strided(value->type, value->data(), value->strides).impl();
}

SINTER_DECL void copy_to(const BorrowedMut& target, const In& x) {
  Ref<TensorImpl> value = dense_value(x, "copy_to");
  if (value->type.dtype != target.type.dtype)
    throw DTypeError("copy_to", "the tensor has dtype " + std::string(name(value->type.dtype)) + ", the target " + std::string(name(target.type.dtype)), x.where);
  if (!identical(value->type.shape, target.type.shape))
    throw ShapeError("copy_to", "the tensor has shape " + value->type.shape.text() + ", the target " + target.type.shape.text(), x.where);
  if (value->type.shape.numel().value() > 0)
    expr_detail::copy_between(value->type, value->data(), value->strides, target.data, target.strides);
}

SINTER_DECL std::string to_string(const In& x) {
  Ref<TensorImpl> value = x.tensor();
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, "print", x.where);
  std::string text = value->type.shape.numel().value() == 0 && value->type.shape.rank() > 0 ? "[]" : expr_detail::Printer(*value).text();
  if (value->type.shape.rank() > 0 && value->type.shape.numel().value() == 0) text += " " + value->type.text();
  return text;
}

SINTER_DECL std::ostream& operator<<(std::ostream& out, const Tensor& x) {
  out << to_string(In(x, Location()));
  return x.rank() > 0 ? out << "\n" : out;
}
SINTER_DECL std::ostream& operator<<(std::ostream& out, const Scalar& x) { return out << x.number(); }

SINTER_NAMESPACE_END
