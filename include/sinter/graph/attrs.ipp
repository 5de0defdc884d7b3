// Equality and hash of attributes. A field at its default takes no part, so that an op may gain a field without
// changing the hashes of the others. Also the equality and hash of constants by content, which the graph's hash uses.
#pragma once

#include <sinter/graph/attrs.hpp>

#include <sinter/base/block_pool.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

/// Constants up to this many elements are distinguished by content; larger ones by the memory that they view.
inline constexpr std::int64_t content_compared_elements = 1024;

inline bool is_content_compared(const Type& type) {
  return type.device == Device::cpu() && type.shape.is_static() &&
         type.shape.numel().value() <= content_compared_elements;
}

/// Calls `visit(address)` for each element of a ready value, in row-major order; of complex ones for each part.
template <class F>
void for_each_element(const TensorImpl& value, F&& visit) {
  const Shape& shape = value.type.shape;
  const std::int64_t count = shape.numel().value(), size = size_of(value.type.dtype);
  const char* base = count > 0 ? static_cast<const char*>(value.data()) : nullptr;
  std::array<std::int64_t, max_rank> index{};
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(base + offset * size);
    if (is_complex(value.type.dtype)) visit(base + offset * size + size / 2);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = as_index(axis);
      offset += value.strides[a];
      if (++index[a] < shape[axis].value()) break;
      offset -= value.strides[a] * index[a];
      index[a] = 0;
    }
  }
}

inline std::uint64_t element_bits(const void* address, std::int64_t size) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, address, as_index(size));
  return bits;
}

/// Same type, and the same bits (small) or the same memory (large). Implies equal hash_constant.
inline bool same_constant(const TensorImpl& a, const TensorImpl& b) {
  if (&a == &b) return true;
  if (!identical(a.type, b.type) || !a.is_ready() || !b.is_ready()) return false;
  if (a.storage.get() == b.storage.get() && a.offset == b.offset && a.strides == b.strides) return true;
  if (!is_content_compared(a.type)) return false;
  const std::int64_t size = size_of(real_part_of(a.type.dtype));
  std::vector<std::uint64_t> bits;
  for_each_element(a, [&](const char* p) { bits.push_back(element_bits(p, size)); });
  bool same = true;
  std::size_t i = 0;
  for_each_element(b, [&](const char* p) { same = same && bits[i++] == element_bits(p, size); });
  return same;
}

inline void hash_type(Hasher& hasher, const Type& type) {
  hasher.add(static_cast<std::uint64_t>(type.dtype) | static_cast<std::uint64_t>(type.device.kind) << 8 |
             static_cast<std::uint64_t>(type.device.index) << 16 | static_cast<std::uint64_t>(type.shape.rank()) << 24);
  for (Dim dim : type.shape.dims())
    dim.is_static() ? hasher.add(static_cast<std::uint64_t>(dim.value())) : hasher.add(dim.hash());
}

inline void hash_constant(Hasher& hasher, const TensorImpl& value) {
  hash_type(hasher, value.type);
  if (!value.is_ready() || !is_content_compared(value.type)) return;
  const std::int64_t size = size_of(real_part_of(value.type.dtype));
  for_each_element(value, [&](const char* p) { hasher.add(element_bits(p, size)); });
}

inline bool same_own_but_shapes(const OwnAttrs& a, const OwnAttrs& b) {
  return a.numbers == b.numbers && a.lists == b.lists && a.text == b.text;
}

inline void hash_dims(Hasher& hasher, std::uint64_t tag, const Shape& shape) {
  if (shape.rank() == 0) return;
  hasher.add(tag).add(static_cast<std::uint64_t>(shape.rank()));
  for (Dim dim : shape.dims())
    dim.is_static() ? hasher.add(static_cast<std::uint64_t>(dim.value())) : hasher.add(dim.hash());
}

inline void hash_integers(Hasher& hasher, std::uint64_t tag, const IntVector& items) {
  if (items.empty()) return;
  hasher.add(tag).add(std::uint64_t{items.size()});
  for (std::int64_t item : items) hasher.add(static_cast<std::uint64_t>(item));
}

inline bool same_payload(const Attrs& a, const Attrs& b) {
  return a.payload == b.payload || (a.payload && b.payload && a.payload->same_as(*b.payload));
}

inline bool same_types(const Attrs& a, const Attrs& b) {
  return std::equal(a.types.begin(), a.types.end(), b.types.begin(), b.types.end(),
                    [](const Type& x, const Type& y) { return identical(x, y); });
}

/// Equal in everything but the constant, the sub-graphs and the payload. Numbers compare by bits: -0 differs from 0,
/// and NaN equals itself.
inline bool same_plain_fields(const Attrs& a, const Attrs& b) {
  for (std::size_t i = 0; i < own_shapes; ++i)
    if (!identical(a.own.shapes[i], b.own.shapes[i])) return false;
  return a.axes == b.axes && identical(a.shape, b.shape) && same_own_but_shapes(a.own, b.own) &&
         std::bit_cast<std::uint64_t>(a.value) == std::bit_cast<std::uint64_t>(b.value) && a.integer == b.integer &&
         a.has_dtype == b.has_dtype && (!a.has_dtype || a.dtype == b.dtype) && a.keepdim == b.keepdim &&
         a.device == b.device && same_types(a, b);
}

inline bool same_but_constant(const Attrs& a, const Attrs& b) { return same_plain_fields(a, b) && same_payload(a, b); }

}  // namespace graph_detail

SINTER_DECL bool identical(const Attrs& a, const Attrs& b) {
  return a.constant.get() == b.constant.get() && a.bodies == b.bodies && graph_detail::same_but_constant(a, b);
}

SINTER_DECL void Attrs::hash_into(Hasher& hasher) const {
  using namespace graph_detail;
  hash_integers(hasher, 1, axes);
  hash_dims(hasher, 2, shape);
  for (std::size_t i = 0; i < own_shapes; ++i) hash_dims(hasher, 32 + i, own.shapes[i]);
  for (std::size_t i = 0; i < own_lists; ++i) hash_integers(hasher, 48 + i, own.lists[i]);
  for (std::size_t i = 0; i < own_numbers; ++i)
    if (own.numbers[i] != 0) hasher.add(std::uint64_t{64} + i).add(static_cast<std::uint64_t>(own.numbers[i]));
  if (std::bit_cast<std::uint64_t>(value) != 0) hasher.add(std::uint64_t{5}).add(value);
  if (integer != 0) hasher.add(std::uint64_t{6}).add(static_cast<std::uint64_t>(integer));
  if (has_dtype) hasher.add(std::uint64_t{7}).add(static_cast<std::uint64_t>(dtype));
  if (keepdim) hasher.add(std::uint64_t{8});
  if (device != Device::cpu())
    hasher.add(std::uint64_t{11}).add(static_cast<std::uint64_t>(device.kind) << 8 | device.index);
  if (!own.text.empty()) hasher.add(std::uint64_t{9}).add(std::string_view(own.text));
  if (constant) {
    hasher.add(std::uint64_t{10});
    hash_constant(hasher, *constant);
  }
  if (payload) hasher.add(std::uint64_t{13});
  for (const Type& type : types) hash_type(hasher.add(std::uint64_t{12}), type);
}

SINTER_DECL const Attrs& SharedAttrs::none() {
  const Attrs* const defaults = &process_object<Attrs>();
  return *defaults;
}
SINTER_DECL SharedAttrs::Block::Block() = default;
SINTER_DECL SharedAttrs::Block::Block(Attrs&& from) : attrs(std::move(from)) {}
SINTER_DECL SharedAttrs::Block::~Block() = default;
SINTER_DECL SharedAttrs::SharedAttrs(const Attrs& attrs) : SharedAttrs(Attrs(attrs)) {}
SINTER_DECL SharedAttrs::SharedAttrs(Attrs&& attrs)
    : block_(Ref<Block>::adopt(new(BlockPool<sizeof(Block)>::allocate()) Block(std::move(attrs)))) {}
SINTER_DECL void SharedAttrs::Block::destroy(Block* block) noexcept {
  block->~Block();
  BlockPool<sizeof(Block)>::release(block);
}
SINTER_DECL Attrs& SharedAttrs::edit() {
  if (!block_) block_ = Ref<Block>::adopt(new (BlockPool<sizeof(Block)>::allocate()) Block());
  else if (block_->use_count() != 1) *this = SharedAttrs(**this);
  return block_->attrs;
}

SINTER_NAMESPACE_END
