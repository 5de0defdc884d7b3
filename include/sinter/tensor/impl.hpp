// TensorImpl: what a Tensor handle points at. One value, in one of three states: ready (has data), pending (a recorded
// statement will make it), placeholder (an input of a trace). Pending nodes themselves are the graph layer's; here they
// are only held. A value never changes state back, and evaluated values drop their pending node unless a tape holds
// them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/shape.hpp>
#include <sinter/tensor/storage.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

SINTER_NAMESPACE_BEGIN

class PendingNode;  // graph/pending_node.hpp
void retain_pending_node(const PendingNode* pending_node) noexcept;
void release_pending_node(const PendingNode* pending_node) noexcept;

/// What the user said about the axes of a value (jit::mark_dynamic, jit::mark_static). Fixed once the value has it.
struct AxisMarks {
  enum class Kind : std::uint8_t { none, dynamic, fixed };
  struct Mark {
    Kind kind = Kind::none;
    std::int64_t min = 0, max = 0;
    Location where;
  };
  std::array<Mark, max_rank> axes;
};

/// What a value is to tape-style differentiation, see autodiff/tape.hpp.
enum class TapeState : std::uint8_t {
  none,   // nothing that it was computed from requires a gradient
  node,   // computed from a leaf: keeps its pending node after evaluation
  leaf,   // the value of a Variable that requires a gradient
  spent,  // was a node until a backward() used it up
};
struct TapeLeaf;
void release_tape_leaf(TapeLeaf* leaf) noexcept;

enum class TensorState : std::uint8_t { ready, pending, placeholder };

class TensorImpl : public RefCounted<TensorImpl> {
 public:
  Type type;
  std::atomic<TensorState> state{TensorState::ready};
  /// A C++ number or a Scalar: takes part in dtype promotion by class only.
  bool is_weak = false;
  std::atomic<TapeState> tape{TapeState::none};
  std::uint16_t result = 0;  // pending: which result of the node
  std::uint64_t trace = 0;   // id of the trace it belongs to; 0: none (ready, or lazy outside compile)

  // ready
  Ref<Storage> storage;
  std::int64_t offset = 0;  // elements from the start of the storage
  Strides strides{};        // elements

  // pending, or ready on a tape: owned count of the node
  PendingNode* pending_node = nullptr;
  TapeLeaf* tape_leaf = nullptr;  // owned

  const AxisMarks* marks() const {  // null: none
    const Extras* known = extras_.load(std::memory_order_acquire);
    return known != nullptr ? known->marks : nullptr;
  }
  /// Before anybody else sees the value.
  void set_marks(const AxisMarks& marks);
  /// A row-major copy of a ready strided value that was once asked for, or null.
  TensorImpl* dense_copy() const {
    const Extras* known = extras_.load(std::memory_order_acquire);
    return known != nullptr ? known->dense.load(std::memory_order_acquire) : nullptr;
  }
  /// Keeps the copy as long as this value, unless another thread was first. Returns the one that is kept.
  TensorImpl* keep_dense_copy(Ref<TensorImpl> copy) const;

  void* data() const {
    void* const first = storage->data();
    return SINTER_LIKELY(offset == 0) ? first : static_cast<char*>(first) + offset * size_of(type.dtype);
  }
  bool is_ready() const { return state.load(std::memory_order_acquire) == TensorState::ready; }
  bool is_dense() const;  // ready and row-major without gaps

  /// From a thread-local free list.
  static Ref<TensorImpl> make(const Type& type);
  /// A ready value over `storage`, row-major unless strides are given.
  static Ref<TensorImpl> make_ready(const Type& type, Ref<Storage> storage, std::int64_t offset = 0,
                                    const Strides* strides = nullptr);
  static void destroy(TensorImpl* impl) noexcept;

 private:
  explicit TensorImpl(const Type& its_type) : type(its_type) {}
  TensorImpl(const Type& its_type, Ref<Storage> its_storage, std::int64_t its_offset, const Strides& its_strides)
      : type(its_type), storage(std::move(its_storage)), offset(its_offset), strides(its_strides) {}
  ~TensorImpl() = default;
  /// What few values have. Made once, by whichever thread comes first.
  struct Extras {
    const AxisMarks* marks = nullptr;         // owned
    std::atomic<TensorImpl*> dense{nullptr};  // owned
  };
  Extras& extras() const;
  static void release_extras(Extras* extras) noexcept;
  mutable std::atomic<Extras*> extras_{nullptr};
};

SINTER_NAMESPACE_END
