// Checks and arithmetic of shapes.
#pragma once

#include <sinter/tensor/shape.hpp>

#include <sinter/base/index.hpp>

#include <ostream>

SINTER_NAMESPACE_BEGIN

SINTER_DECL Shape::Shape(const Dim* dims, std::size_t count, Location where) {
  if (count > max_rank)
    throw ShapeError("Shape", "rank " + std::to_string(count) + " is above the limit of " + std::to_string(max_rank),
                     where);
  for (std::size_t i = 0; i < count; ++i) dims_[rank_++] = dims[i];
}
SINTER_DECL Shape::Shape(std::initializer_list<Dim> dims) : Shape(dims.begin(), dims.size(), {}) {}
SINTER_DECL std::span<const Dim> Shape::dims() const { return {dims_.data(), as_index(rank_)}; }

SINTER_DECL void Shape::push_back(Dim dim, Location where) {
  if (rank_ == max_rank) throw ShapeError("Shape", "rank is above the limit of " + std::to_string(max_rank), where);
  dims_[rank_++] = dim;
}

SINTER_DECL void Shape::insert(int axis, Dim dim) {
  push_back(dim);
  for (int i = rank_ - 1; i > axis; --i) std::swap(dims_[as_index(i)], dims_[as_index(i - 1)]);
}

SINTER_DECL void Shape::erase(int axis) {
  for (int i = axis; i + 1 < rank_; ++i) dims_[as_index(i)] = dims_[as_index(i + 1)];
  dims_[--rank_] = Dim{};
}

SINTER_DECL bool Shape::is_static() const {
  for (Dim dim : dims())
    if (!dim.is_static()) return false;
  return true;
}

SINTER_DECL Dim Shape::numel(Location where) const {
  std::int64_t product = 1;
  bool is_plain = true;
  for (Dim dim : dims())
    is_plain = is_plain && dim.is_static() && dim.value() > 0 &&
               !__builtin_mul_overflow(product, dim.value(), &product) && product <= (std::int64_t{1} << 60);
  return SINTER_LIKELY(is_plain) ? Dim(product) : checked_numel(where);
}

SINTER_DECL Dim Shape::checked_numel(Location where) const {
  std::int64_t product = 1;
  bool is_empty = false, overflows = false;
  Dim symbolic = 1;
  for (Dim dim : dims()) {
    if (!dim.is_static()) {
      symbolic = symbolic * dim;
      continue;
    }
    if (dim.value() < 0) throw ShapeError("Shape", "extent " + dim.text() + " in " + text() + " is negative", where);
    is_empty |= dim.value() == 0;
    overflows |= __builtin_mul_overflow(product, dim.value(), &product) || product > (std::int64_t{1} << 60);
    if (overflows) product = 1;
  }
  if (is_empty) return Dim(0);
  if (overflows) throw ShapeError("Shape", "the number of elements of " + text() + " overflows", where);
  return symbolic * Dim(product);
}

SINTER_DECL std::string Shape::text() const {
  std::string text = "(";
  for (std::size_t i = 0; i < rank_; ++i) text += (i ? ", " : "") + dims_[i].text();
  return text + (rank_ == 1 ? ",)" : ")");
}

SINTER_DECL Shape Shape::substitute(std::span<const Dim> symbols) const {
  Shape out = *this;
  for (std::size_t i = 0; i < rank_; ++i) out.dims_[i] = dims_[i].substitute(symbols);
  return out;
}

SINTER_DECL void Shape::throw_axis(int axis) const {
  throw IndexError("Shape", "axis " + std::to_string(axis) + " is out of range for " + text());
}

SINTER_DECL std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.text(); }

SINTER_DECL bool stretches(Dim from, Dim to) {
  if (from.is_static()) return from.value() == 1 && !(to.is_static() && to.value() == 1);
  if (from.as_symbol() >= 0 || SymbolScope::current() == nullptr) return false;  // symbols stand for 2 and more
  if (from == to || from != Dim(1)) return false;
  std::vector<SymbolId> used;
  from.collect_symbols(used);
  for (const SymbolId id : used) static_cast<void>(Dim::symbol(id).value());
  return true;
}

SINTER_DECL Shape broadcast(const Shape& a, const Shape& b, std::string_view op, Location where) {
  if (identical(a, b)) return a;
  int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    Dim da = ia < 0 ? Dim(1) : a[ia], db = ib < 0 ? Dim(1) : b[ib];
    bool a_is_one = da.is_static() && da.value() == 1, b_is_one = db.is_static() && db.value() == 1;
    if (a_is_one) out.push_back(db);
    else if (b_is_one || identical(da, db) || da == db)
      out.push_back(da.is_static() ? da : db.is_static() && !b_is_one ? db : da);
    else if (stretches(da, db)) out.push_back(db);
    else if (stretches(db, da)) out.push_back(da);
    else
      throw ShapeError(
          op, "shapes " + a.text() + " and " + b.text() + " do not broadcast", where,
          "axis " + std::to_string(i) + ": " + da.text() + " must equal " + db.text() + ", or one of them must be 1");
  }
  return out;
}

SINTER_DECL int normalise_axis(int axis, int rank, std::string_view op, Location where) {
  if (axis < -rank || axis >= rank)
    throw IndexError(op, "axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank), where,
                     rank == 0 ? "a tensor of rank 0 has no axes"
                               : "valid axes: " + std::to_string(-rank) + " to " + std::to_string(rank - 1));
  return axis < 0 ? axis + rank : axis;
}

SINTER_DECL std::string Type::text() const {
  std::string text(name(dtype));
  text += "[";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + shape[i].text();
  text += "]";
  return device.kind == DeviceKind::cpu ? text : text + "@" + device.text();
}

SINTER_DECL Type pair_type(const Type& type) {
  if (!is_complex(type.dtype)) return type;
  Type pairs = type;
  pairs.dtype = real_part_of(type.dtype);
  pairs.shape.push_back(2);
  return pairs;
}

SINTER_DECL Strides dense_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[as_index(i)] = step;
    step *= shape[i].is_static() ? std::max<std::int64_t>(shape[i].value(), 1) : 1;
  }
  return strides;
}

SINTER_NAMESPACE_END
