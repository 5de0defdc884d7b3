// Attrs: the static arguments of an operation. One plain struct for all ops; an op uses the fields it needs, the rest
// keep their defaults and take no part in printing or hashing.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/base/type_key.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/impl.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstdint>
#include <memory>
#include <string>
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

struct Attrs {
  IntVector axes{};          // reduced axes, permutation, the axis of gather/concat/softmax, ...
  Shape shape{};             // target of reshape, expand, full, iota; starts of slice; low padding
  Shape limits{};            // ends of slice; high padding
  IntVector steps{};         // of slice; window sizes, strides
  double value = 0;          // eps, fill, a floating constant
  std::int64_t integer = 0;  // number of an input, an integral constant
  DType dtype = DType::f32;  // cast, full, iota
  bool has_dtype = false;
  Device device{};  // of what is made from nothing: full, iota, random numbers
  bool keepdim = false;
  std::string text{};          // name of an input or of an effect
  Ref<TensorImpl> constant{};  // data of a constant
  std::vector<std::shared_ptr<const Graph>>
      bodies{};  // sub-graphs of cond, while_loop, region, ...; they share the symbols of their graph
  std::shared_ptr<const Payload> payload{};
  std::vector<Type> types{};  // of results, where they do not follow from the operands

  /// Same attributes; constants are the same when they are the same value object.
  friend bool identical(const Attrs& a, const Attrs& b);
  void hash_into(Hasher& hasher) const;
};
bool identical(const Attrs& a, const Attrs& b);

/// Attributes as pending nodes and nodes of a graph hold them: shared and never changed, so that a copy of a node costs
/// one count.
class SharedAttrs {
 public:
  SharedAttrs() = default;  // all at their defaults
  SharedAttrs(Attrs&& attrs);
  SharedAttrs(const Attrs& attrs);
  const Attrs& operator*() const { return block_ ? block_->attrs : none(); }
  const Attrs* operator->() const { return &**this; }
  /// To be changed: a copy, unless nobody else holds them.
  Attrs& edit();

 private:
  struct Block : RefCounted<Block> {
    explicit Block(Attrs&& from) : attrs(std::move(from)) {}
    static void destroy(Block* block) noexcept;
    Attrs attrs;
  };
  static const Attrs& none();
  Ref<Block> block_;
};

SINTER_NAMESPACE_END
