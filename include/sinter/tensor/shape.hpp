// Shape: up to eight Dims. Type: what is known of a value before it exists (dtype, device, shape). Strides of dense
// tensors. Knows nothing of storage.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/dim.hpp>
#include <sinter/tensor/dtype.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

inline constexpr int max_rank = 8;

/// A list of whole numbers that is known at run time: a vector, span or array of any integer type but bool.
template <class L>
concept IntegerList = requires(const L& list) {
  requires std::integral<std::remove_cvref_t<decltype(*std::data(list))>>;
  requires !std::same_as<std::remove_cvref_t<decltype(*std::data(list))>, bool>;
  std::size(list);
};

/// A list of Dims that is known at run time.
template <class L>
concept ListOfDims = std::same_as<std::remove_cvref_t<decltype(*std::data(std::declval<const L&>()))>, Dim>;

/// Extents of a tensor, outermost first. Rank 0 is a single element. Extents are checked where a shape is used, so that
/// the error has the user's line; -1 is a placeholder in reshape.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims);
  // A template, though a span would do: each copy of a Shape would ask whether that is a range to make a span of, which
  // costs the compiler of a user's file 90 million instructions.
  template <ListOfDims L>
  explicit Shape(const L& dims, Location where = {}) : Shape(std::data(dims), std::size(dims), where) {}
  template <IntegerList L>
  Shape(const L& dims) {
    for (auto dim : dims) push_back(Dim(dim));
  }

  int rank() const { return rank_; }
  /// The extent of `axis`; negative axes count from the end. Throws IndexError outside [-rank, rank).
  Dim operator[](int axis) const {
    if (SINTER_UNLIKELY(axis < 0)) axis += rank_;
    if (SINTER_UNLIKELY(axis < 0 || axis >= rank_)) throw_axis(axis);
    return dims_[as_index(axis)];
  }
  const Dim* begin() const { return dims_.data(); }
  const Dim* end() const { return dims_.data() + rank_; }
  std::span<const Dim> dims() const;
  void push_back(Dim dim, Location where = {});
  void set(int axis, Dim dim) { dims_[as_index(axis)] = dim; }
  void insert(int axis, Dim dim);
  void erase(int axis);

  bool is_static() const;
  /// Number of elements. Throws ShapeError when an extent is negative or a static product is beyond 2^60.
  Dim numel(Location where = {}) const;
  /// "(32, s0, 4)".
  std::string text() const;
  Shape substitute(std::span<const Dim> symbols) const;

  friend bool identical(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (!identical(a.dims_[i], b.dims_[i])) return false;
    return true;
  }
  /// Compares Dims, so inside a trace the answer becomes a guard.
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i)
      if (!(a.dims_[i] == b.dims_[i])) return false;
    return true;
  }

 private:
  Shape(const Dim* dims, std::size_t count, Location where);
  [[noreturn]] void throw_axis(int axis) const;
  Dim checked_numel(Location where) const;  // of shapes with symbols or zeros, or too large
  std::array<Dim, max_rank> dims_{};
  std::uint8_t rank_ = 0;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// Does an axis of extent `from` stretch to `to`? A computed extent that is 1 in this call does, as the number 1. It is a
/// matter of the graph: the symbols in it are read, and so are numbers in this version of the function.
bool stretches(Dim from, Dim to);
/// The NumPy broadcast of two shapes: an extent of 1 stretches. Throws ShapeError naming `op`.
Shape broadcast(const Shape& a, const Shape& b, std::string_view op, Location where = {});
/// Negative axes resolved, range checked. Throws IndexError.
int normalise_axis(int axis, int rank, std::string_view op, Location where = {});

/// What is known of a value before it exists.
struct Type {
  DType dtype = DType::f32;
  Device device;
  Shape shape;
  /// "f32[32, s0]".
  std::string text() const;
  friend bool same_but_device(const Type& a, const Type& b) {
    return a.dtype == b.dtype && identical(a.shape, b.shape);
  }
  friend bool identical(const Type& a, const Type& b) {
    return a.dtype == b.dtype && a.device == b.device && identical(a.shape, b.shape);
  }
};

/// How a kernel sees a value in memory: complex numbers as pairs of real ones, along a last axis of 2.
Type pair_type(const Type& type);

using Strides = std::array<std::int64_t, max_rank>;
/// Row-major strides, in elements, of a static shape.
Strides dense_strides(const Shape& shape);

SINTER_NAMESPACE_END
