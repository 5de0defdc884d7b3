// Attrs: the static arguments of an operation. One plain struct for all ops: members that mean the same wherever they
// are used, and room for what an op has of its own, which is reached by the op's declarations alone. What keeps its
// default takes no part in printing or hashing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/graph/attribute.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/shape.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

class Graph;

/// What a node carries that the other attributes cannot say: a user's function and what belongs to it.
class Payload {
 public:
  virtual ~Payload() = default;
  /// Shown in the text of graphs.
  virtual std::string text() const = 0;
  /// Does it do the same in every respect? Then either may stand for the other: equal nodes are merged, equal graphs
  /// share a plan.
  virtual bool same_as(const Payload& other) const { return this == &other; }
  /// May a second trace of the same program have made it? A lambda written in the traced function is another object
  /// each time.
  virtual bool may_be_retrace_of(const Payload& other) const { return same_as(other); }
  /// Is it of this type, or derived from it? For payload_cast.
  virtual bool is_a(TypeKey) const { return false; }
};

/// What dynamic_cast gives; null for another type, and for null.
template <class T>
const T* payload_cast(const Payload* payload) {
  return payload != nullptr && payload->is_a(type_key<T>()) ? static_cast<const T*>(payload) : nullptr;
}

/// Attributes that one op alone has, where OpAttr finds them. A number is kept as its bits, exclusive-or those of its
/// default, so that what is not set is zero whatever the default is.
struct OwnAttrs {
  OwnAttrs() = default;  // no aggregate: GCC 12 fails on arrays of vectors in one that is made inside a template
  std::array<std::int64_t, graph_detail::own_numbers> numbers{};
  std::array<IntVector, graph_detail::own_lists> lists{};
  std::array<Shape, graph_detail::own_shapes> shapes{};
  std::string text{};
};

struct Attrs {
  IntVector axes{};          // those that the op works along; permute: their order
  Shape shape{};             // of the result, where it is not that of an operand
  double value = 0;          // each element of what is made from nothing: full, pad
  std::int64_t integer = 0;  // the same, of a full of integers or bool
  DType dtype = DType::f32;  // of the result: cast, full, iota
  bool has_dtype = false;
  Device device{};             // of what is made from nothing: full, iota, random numbers
  bool keepdim = false;        // reduced axes stay, with the extent 1
  Ref<TensorImpl> constant{};  // data of a constant
  std::vector<std::shared_ptr<const Graph>>
      bodies{};  // sub-graphs of cond, while_loop, region, ...; they share the symbols of their graph
  std::shared_ptr<const Payload> payload{};
  std::vector<Type> types{};  // of results, where they do not follow from the operands
  OwnAttrs own{};             // read and set by the op's OpAttr alone

  /// An attribute of the op's own: attrs[LayerNorm::eps].
  template <class T>
  decltype(auto) operator[](const OpAttr<T>& attr) const {
    if constexpr (std::same_as<T, IntVector>) return (own.lists[attr.place]);
    else if constexpr (std::same_as<T, Shape>) return (own.shapes[attr.place]);
    else if constexpr (std::same_as<T, std::string>) return (own.text);
    else if constexpr (std::same_as<T, Dim>)
      return own.shapes[attr.place].rank() == 1 ? own.shapes[attr.place][0] : Dim(0);
    else return OpAttr<T>::value_of(own.numbers[attr.place] ^ attr.fallback);
  }
  bool has(const OpAttr<Dim>& attr) const { return own.shapes[attr.place].rank() == 1; }
  template <class T>
  void set(const OpAttr<T>& attr, const std::type_identity_t<T>& to) {
    if constexpr (std::same_as<T, IntVector>) own.lists[attr.place] = to;
    else if constexpr (std::same_as<T, Shape>) own.shapes[attr.place] = to;
    else if constexpr (std::same_as<T, std::string>) own.text = to;
    else if constexpr (std::same_as<T, Dim>) own.shapes[attr.place] = Shape{to};
    else own.numbers[attr.place] = OpAttr<T>::bits_of(to) ^ attr.fallback;
  }
  /// For attributes made where they are passed on: Attrs{.axes = axes}.with(LayerNorm::eps, eps).
  template <class T>
  Attrs&& with(const OpAttr<T>& attr, const std::type_identity_t<T>& to) && {
    set(attr, to);
    return std::move(*this);
  }

  /// Same attributes; constants are the same when they are the same value object.
  friend bool identical(const Attrs& a, const Attrs& b);
  void hash_into(Hasher& hasher) const;
};
bool identical(const Attrs& a, const Attrs& b);

/// An input's place among those of its graph. The text of a graph does not say it: inputs stand in order in its head.
inline constexpr OpAttr<std::int64_t> input_position{"position", 0};
inline constexpr OpAttr<std::string> input_name{"name", 0};

/// Calls `f` with each shape among the attributes, those of results apart.
template <class SomeAttrs, class F>
void for_each_shape(SomeAttrs& attrs, F&& f) {
  f(attrs.shape);
  for (auto& shape : attrs.own.shapes) f(shape);
}

/// Attributes as pending nodes and nodes of a graph hold them: shared and never changed, so that a copy of a node costs
/// one count.
class SharedAttrs {
 public:
  SharedAttrs() = default;  // all at their defaults
  SharedAttrs(Attrs&& attrs);
  SharedAttrs(const Attrs& attrs);
  const Attrs& operator*() const { return block_ ? block_->attrs : none(); }
  const Attrs* operator->() const { return &**this; }
  /// To be changed: a copy, unless nobody else holds them. What is made only to be recorded is cheapest made here.
  Attrs& edit();

 private:
  struct Block : RefCounted<Block> {
    Block();
    explicit Block(Attrs&& from);
    ~Block();
    static void destroy(Block* block) noexcept;
    Attrs attrs;
  };
  static const Attrs& none();
  Ref<Block> block_;
};

SINTER_NAMESPACE_END
