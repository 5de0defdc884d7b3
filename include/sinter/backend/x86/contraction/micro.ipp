// Emission of micro-kernels. Registers are assigned by hand: accumulators from vector 0 up, then the operands. Every
// output is one accumulator, to which the products of a block of k are added by fma in order; the sums of finished
// blocks wait in a tile of scratch, which stays in L1. No shape, width or mask changes a bit.
#pragma once

#include <sinter/backend/x86/contraction/micro.hpp>

#include <sinter/backend/x86/machine/code_memory.hpp>
#include <sinter/backend/x86/machine/stored_code.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/kernel_key.hpp>

#include <asmjit/x86.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_micro_detail {

namespace aj = asmjit;
using Gp = aj::x86::Gp;
using Register = aj::x86::Vec;

/// Emits one micro-kernel. General registers: `args` as passed in; pointers to every fourth row of A, one and three
/// row strides, B and its stride, the counter, the finished blocks.
class MicroEmitter {
 public:
  MicroEmitter(aj::x86::Assembler& as, const MicroShape& shape)
      : as_(as),
        shape_(shape),
        is_wide_(shape.isa == Isa::avx512),
        is_double_(shape.dtype == DType::f64),
        element_(static_cast<int>(size_of(shape.dtype))),
        vector_bytes_(is_wide_ ? 64 : 32) {}

  virtual ~MicroEmitter() = default;

  void emit() {
    aj::Label next_tile = as_.newLabel();
    as_.push(b_stride_);
    as_.push(a_stride_);
    as_.push(counter_);
    if (shape_.prefetches_next) {
      as_.push(next_);
      as_.push(next_stride_);
      as_.mov(next_, arg(offsetof(MicroArgs, next)));
      as_.mov(next_stride_, arg(offsetof(MicroArgs, next_row_stride)));
    }
    if (shape_.is_masked) emit_mask();
    as_.bind(next_tile);
    emit_entry();
    if (shape_.sum == MicroSum::one_block) emit_only_block();
    else emit_blocks();
    emit_finish();
    as_.mov(a_[0], arg(offsetof(MicroArgs, a_row_stride)));
    as_.imul(a_[0], a_[0], shape_.rows);
    as_.add(arg(offsetof(MicroArgs, a)), a_[0]);
    as_.sub(arg(offsetof(MicroArgs, tiles)), 1);
    as_.jg(next_tile);
    as_.vzeroupper();
    if (shape_.prefetches_next) {
      as_.pop(next_stride_);
      as_.pop(next_);
    }
    as_.pop(counter_);
    as_.pop(a_stride_);
    as_.pop(b_stride_);
    as_.ret();
  }

 protected:
  /// What becomes of the finished sums.
  virtual void emit_finish() {
    emit_tile_moves(TileMove::store);
    as_.add(b_, b_stride_);
    as_.mov(arg(offsetof(MicroArgs, c)), b_);
  }

  static constexpr int unroll = 4;  // k steps per iteration
  static constexpr int rows_per_pointer = 4;

  Register vec(int index) const {
    if (is_wide_) return aj::x86::Zmm(static_cast<std::uint32_t>(index));
    return aj::x86::Ymm(static_cast<std::uint32_t>(index));
  }
  Register accumulator(int row, int vector) const { return vec(row * shape_.vectors + vector); }
  Register operand(int index) const { return vec(shape_.rows * shape_.vectors + index); }
  Register lane_mask() const { return vec(15); }
  int pointer_count() const {
    return shape_.walk == AWalk::unit_row ? 1 : (shape_.rows + rows_per_pointer - 1) / rows_per_pointer;
  }
  aj::x86::Mem arg(std::size_t offset) const { return aj::x86::qword_ptr(args_, static_cast<std::int32_t>(offset)); }

  aj::x86::Mem a_element(int row, int step) const {
    if (shape_.walk == AWalk::unit_row) return aj::x86::ptr(a_[0], row * element_);
    const int shift = shape_.walk == AWalk::unit_k ? step * element_ : 0;
    const Gp& base = a_[row / rows_per_pointer];
    switch (row % rows_per_pointer) {
      case 0: return aj::x86::ptr(base, shift);
      case 1: return aj::x86::ptr(base, row_stride_, 0, shift);
      case 2: return aj::x86::ptr(base, row_stride_, 1, shift);
      default: return aj::x86::ptr(base, row_stride3_, 0, shift);
    }
  }
  aj::x86::Mem b_vector(int vector) const { return aj::x86::ptr(b_, vector * vector_bytes_); }
  bool is_masked(int vector) const { return shape_.is_masked && vector == shape_.vectors - 1; }

  /// Loads the arguments.
  void emit_entry() {
    if (shape_.sum == MicroSum::more_blocks) {
      emit_tile_moves(TileMove::load);
      emit_keep_totals();
    }
    as_.mov(a_[0], arg(offsetof(MicroArgs, a)));
    as_.mov(row_stride_, arg(offsetof(MicroArgs, a_row_stride)));
    as_.mov(a_stride_, arg(offsetof(MicroArgs, a_k_stride)));
    as_.lea(row_stride3_, aj::x86::ptr(row_stride_, row_stride_, 1));
    for (int p = 1; p < pointer_count(); ++p) as_.lea(a_[p], aj::x86::ptr(a_[p - 1], row_stride_, 2));
    as_.mov(b_, arg(offsetof(MicroArgs, b)));
    as_.mov(b_stride_, arg(offsetof(MicroArgs, b_k_stride)));
    as_.mov(counter_, arg(offsetof(MicroArgs, k)));
  }

  void emit_only_block() {
    emit_zeros();
    emit_k_loops();
  }

  /// Blocks one after the other; the sum of the blocks before is added to each, which leaves the last sum in registers.
  void emit_blocks() {
    const aj::Label next = as_.newLabel(), is_first = as_.newLabel(), done = as_.newLabel();
    as_.mov(arg(offsetof(MicroArgs, left)), counter_);
    as_.mov(arg(offsetof(MicroArgs, has_totals)), shape_.sum == MicroSum::more_blocks ? 1 : 0);
    as_.bind(next);
    emit_zeros();
    as_.mov(counter_, arg(offsetof(MicroArgs, left)));
    as_.mov(totals_, product_sum_block);
    as_.cmp(counter_, totals_);
    as_.cmovg(counter_, totals_);
    as_.sub(arg(offsetof(MicroArgs, left)), counter_);
    emit_k_loops();
    as_.cmp(arg(offsetof(MicroArgs, has_totals)), 0);
    as_.je(is_first);
    as_.mov(totals_, arg(offsetof(MicroArgs, totals)));
    for (int i = 0; i < accumulators(); ++i)
      as_.emit(is_double_ ? aj::x86::Inst::kIdVaddpd : aj::x86::Inst::kIdVaddps, vec(i), vec(i), total(i));
    as_.bind(is_first);
    as_.cmp(arg(offsetof(MicroArgs, left)), 0);
    as_.je(done);
    emit_keep_totals();
    as_.mov(arg(offsetof(MicroArgs, has_totals)), 1);
    as_.jmp(next);
    as_.bind(done);
  }
  /// Clobbers the pointer to the totals.
  void emit_keep_totals() {
    as_.mov(totals_, arg(offsetof(MicroArgs, totals)));
    for (int i = 0; i < accumulators(); ++i) as_.emit(move_id(), total(i), vec(i));
  }
  int accumulators() const { return shape_.rows * shape_.vectors; }
  aj::x86::Mem total(int accumulator) const { return aj::x86::ptr(totals_, accumulator * vector_bytes_); }

  void emit_zeros() {
    for (int i = 0; i < accumulators(); ++i) emit_zero(vec(i));
  }
  void emit_zero(const Register& to) {
    if (is_wide_) as_.vpxord(to, to, to);
    else as_.vxorps(to, to, to);
  }

  void emit_mask() {
    if (is_wide_) {
      as_.kmovw(aj::x86::k1, aj::x86::word_ptr(args_, offsetof(MicroArgs, mask_bits)));
      return;
    }
    as_.mov(counter_, arg(offsetof(MicroArgs, lane_mask)));
    as_.vmovups(lane_mask(), aj::x86::ptr(counter_));
  }

  /// As many steps as the counter says: by `unroll`, then the rest one by one.
  void emit_k_loops() {
    aj::Label main_loop = as_.newLabel(), rest = as_.newLabel(), rest_loop = as_.newLabel(), done = as_.newLabel();
    as_.sub(counter_, unroll);
    as_.jl(rest);
    as_.align(aj::AlignMode::kCode, 32);
    as_.bind(main_loop);
    static_assert(unroll == steps_per_row_ahead);
    if (shape_.prefetches_next) emit_prefetch_of_next();
    for (int step = 0; step < unroll; ++step) {
      emit_step(step);
      emit_advance(step == unroll - 1 ? unroll : 0);
    }
    as_.sub(counter_, unroll);
    as_.jge(main_loop);
    as_.bind(rest);
    as_.add(counter_, unroll);
    as_.jle(done);
    as_.bind(rest_loop);
    emit_step(0);
    emit_advance(1);
    as_.sub(counter_, 1);
    as_.jg(rest_loop);
    as_.bind(done);
  }

  /// Into L2: the tiles at hand need L1.
  void emit_prefetch_of_next() {
    for (int at = 0; at < shape_.vectors * vector_bytes_; at += 64) as_.prefetcht1(aj::x86::ptr(next_, at));
    as_.add(next_, next_stride_);
  }

  /// Moves to the next k. Rows with unit k stride address steps by displacement and move `unit_steps` at once.
  void emit_advance(int unit_steps) {
    as_.add(b_, b_stride_);
    for (int p = 0; p < pointer_count(); ++p) {
      if (shape_.walk != AWalk::unit_k) as_.add(a_[p], a_stride_);
      else if (unit_steps != 0) as_.add(a_[p], unit_steps * element_);
    }
  }

  /// accumulator[r][v] += a[r] * b[v]. The shorter of the two stays in registers, the longer passes through one.
  void emit_step(int step) {
    if (shape_.prefetches_a) as_.prefetcht0(aj::x86::ptr(a_[0], a_stride_, 3));
    if (shape_.prefetches_b)
      for (int at = 0; at < shape_.vectors * vector_bytes_; at += 64)
        as_.prefetcht0(aj::x86::ptr(b_, b_stride_, 3, at));  // 8 rows ahead
    if (shape_.rows <= shape_.vectors) {
      for (int r = 0; r < shape_.rows; ++r) emit_broadcast(operand(r), a_element(r, step));
      for (int v = 0; v < shape_.vectors; ++v) {
        Register b = operand(shape_.rows);
        emit_load(b, v);
        for (int r = 0; r < shape_.rows; ++r) emit_fma(accumulator(r, v), operand(r), b);
      }
    } else {
      for (int v = 0; v < shape_.vectors; ++v) emit_load(operand(v), v);
      for (int r = 0; r < shape_.rows; ++r) {
        Register a = operand(shape_.vectors);
        emit_broadcast(a, a_element(r, step));
        for (int v = 0; v < shape_.vectors; ++v) emit_fma(accumulator(r, v), a, operand(v));
      }
    }
  }

  void emit_broadcast(const Register& to, const aj::x86::Mem& from) {
    as_.emit(is_double_ ? aj::x86::Inst::kIdVbroadcastsd : aj::x86::Inst::kIdVbroadcastss, to, from);
  }
  void emit_fma(const Register& sum, const Register& a, const Register& b) {
    as_.emit(is_double_ ? aj::x86::Inst::kIdVfmadd231pd : aj::x86::Inst::kIdVfmadd231ps, sum, a, b);
  }
  void emit_load(const Register& to, int vector) { emit_load_from(to, b_vector(vector), vector); }
  void emit_load_from(const Register& to, const aj::x86::Mem& from, int vector) {
    if (!is_masked(vector)) as_.emit(move_id(), to, from);
    else if (is_wide_) as_.k(aj::x86::k1).z().emit(move_id(), to, from);
    else as_.emit(masked_move_id(), to, lane_mask(), from);
  }
  aj::InstId move_id() const { return is_double_ ? aj::x86::Inst::kIdVmovupd : aj::x86::Inst::kIdVmovups; }
  aj::InstId masked_move_id() const { return is_double_ ? aj::x86::Inst::kIdVmaskmovpd : aj::x86::Inst::kIdVmaskmovps; }

  enum class TileMove { load, store };
  /// Moves the tile from or to C. Clobbers the pointer to B and its stride.
  void emit_tile_moves(TileMove direction) {
    as_.mov(b_, arg(offsetof(MicroArgs, c)));
    as_.mov(b_stride_, arg(offsetof(MicroArgs, c_row_stride)));
    for (int r = 0; r < shape_.rows; ++r) {
      for (int v = 0; v < shape_.vectors; ++v) {
        if (direction == TileMove::load) emit_load(accumulator(r, v), v);
        else emit_store(accumulator(r, v), v);
      }
      if (r + 1 < shape_.rows) as_.add(b_, b_stride_);
    }
  }
  void emit_store(const Register& from, int vector) {
    if (!is_masked(vector)) as_.emit(move_id(), b_vector(vector), from);
    else if (is_wide_) as_.k(aj::x86::k1).emit(move_id(), b_vector(vector), from);
    else as_.emit(masked_move_id(), b_vector(vector), lane_mask(), from);
  }

  aj::x86::Assembler& as_;
  const MicroShape shape_;
  const bool is_wide_, is_double_;
  const int element_, vector_bytes_;
  const Gp args_ = aj::x86::rdi, b_ = aj::x86::rdx, row_stride_ = aj::x86::r10, row_stride3_ = aj::x86::r11;
  const Gp a_[4] = {aj::x86::rax, aj::x86::rcx, aj::x86::r8, aj::x86::r9};
  const Gp b_stride_ = aj::x86::rbx, a_stride_ = aj::x86::r12, counter_ = aj::x86::r13;  // callee-saved
  const Gp totals_ = aj::x86::rsi;
  const Gp next_ = aj::x86::r14, next_stride_ = aj::x86::r15;  // callee-saved
};

/// Functions found by shape without a lock. Code lives as long as the process: its blocks are kept in a list.
struct MicroTable {
  struct Kept {
    std::shared_ptr<const CodeBlock> block;
    Kept* next;
  };
  std::array<std::atomic<MicroFunction>, 2 * 2 * 2 * 3 * 2 * 2 * 2 * 3 * max_micro_rows * max_micro_vectors>
      functions{};
  std::atomic<Kept*> kept{nullptr};

  static std::size_t index(const MicroShape& s) {
    std::size_t at = s.dtype == DType::f64;
    at = at * 2 + (s.isa == Isa::avx512);
    at = at * 2 + s.is_masked;
    at = at * 3 + as_index(s.sum);
    at = at * 2 + s.prefetches_a;
    at = at * 2 + s.prefetches_b;
    at = at * 2 + s.prefetches_next;
    at = at * 3 + as_index(s.walk);
    at = at * max_micro_rows + s.rows - 1u;
    return at * max_micro_vectors + s.vectors - 1u;
  }
  void keep(std::shared_ptr<const CodeBlock> block) {
    auto* item = new Kept{std::move(block), kept.load()};
    while (!kept.compare_exchange_weak(item->next, item)) {}
  }
};

inline MicroTable& micro_table() {
  static constinit MicroTable table;  // zeros: pages of it that no shape uses stay untouched; trivially destroyed
  return table;
}

/// Turns AsmJit's error codes into exceptions: a bad operand is a bug here.
class ThrowOnError : public aj::ErrorHandler {
 public:
  void handleError(aj::Error error, const char* message, aj::BaseEmitter*) override {
    if (error == aj::kErrorOutOfMemory) throw OutOfMemory("code memory", 0, message);
    throw InternalError(std::string("x86 contraction: ") + message);
  }
};

inline void add_to_key(KeyWriter& key, const MicroShape& shape) {
  const auto& [dtype, isa, rows, vectors, is_masked, walk, sum, prefetches_a, prefetches_b, prefetches_next] = shape;
  key.add(dtype).add(isa).add(rows).add(vectors).add(is_masked).add(walk).add(sum).add(prefetches_a).add(prefetches_b);
  key.add(prefetches_next);
}
inline std::string key_of(const MicroShape& shape) {
  KeyWriter key;
  add_to_key(key.add('m'), shape);
  return std::move(key).bytes();
}

/// AsmJit, ready for functions one behind the other.
struct FunctionEmitter {
  ThrowOnError on_error;
  aj::CodeHolder code;
  aj::x86::Assembler as;
  FunctionEmitter() {
    code.init(aj::Environment::host());
    code.setErrorHandler(&on_error);
    code.attach(&as);
  }
  /// Emits a function by emit(assembler). It refers to nothing outside of it.
  template <class Emit>
  std::span<const std::byte> function(Emit&& emit) {
    as.align(aj::AlignMode::kCode, 64);
    const std::size_t start = as.offset();
    emit(as);
    ensure(code.unresolvedLinkCount() == 0, "micro-kernel with an unbound label");
    const aj::CodeBuffer& buffer = code.textSection()->buffer();
    return {reinterpret_cast<const std::byte*>(buffer.data()) + start, buffer.size() - start};
  }
};

/// Puts all shapes into one block; entries[i] is where shapes[i] starts.
inline std::shared_ptr<const CodeBlock> make_micro_kernels(std::span<const MicroShape> shapes,
                                                           std::vector<std::size_t>& entries) {
  std::optional<FunctionEmitter> emitter;  // it is not made where all of them are stored
  CodeBatch batch;
  std::string name = "contraction";
  for (const MicroShape& shape : shapes) {
    ensure(fits_registers(shape.isa, shape.rows, shape.vectors), "micro-kernel does not fit the registers");
    name += "_" + std::to_string(shape.rows) + "x" + std::to_string(shape.vectors * lanes(shape.isa, shape.dtype));
    const std::string key = key_of(shape);
    if (const std::optional<StoredCode> stored = find_stored_code(key, 0)) {
      entries.push_back(batch.append(stored->code()));
      continue;
    }
    if (!emitter) emitter.emplace();
    const auto code = emitter->function([&](aj::x86::Assembler& as) { MicroEmitter(as, shape).emit(); });
    store_code(key, {}, code);
    entries.push_back(batch.append(code));
  }
  return publish_code(batch.bytes(), name);
}

/// Has a CodeRecording note the code of a shape that the process holds already.
inline void note_micro_kernel(const MicroShape& shape) {
  const std::string key = key_of(shape);
  if (find_stored_code(key, 0)) return;
  FunctionEmitter emitter;
  store_code(key, {}, emitter.function([&](aj::x86::Assembler& as) { MicroEmitter(as, shape).emit(); }));
}

}  // namespace x86_micro_detail

SINTER_DECL void MicroArgs::set_mask(DType dtype, int used) {
  // 8 lanes of ones, then zeros: reading from the right place gives any count of leading ones.
  alignas(64) static constexpr std::int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                                   0,  0,  0,  0,  0,  0,  0,  0};
  const int words = dtype == DType::f64 ? 2 : 1;
  mask_bits = (std::uint64_t{1} << used) - 1;
  if (used * words <= 8) lane_mask = ones_then_zeros + 8 - used * words;
}

SINTER_DECL void find_micro_kernels(std::span<const MicroShape> shapes, std::span<MicroFunction> functions) {
  using namespace x86_micro_detail;
  MicroTable& table = micro_table();
  std::vector<MicroShape> missing;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    functions[i] = table.functions[MicroTable::index(shapes[i])].load(std::memory_order_acquire);
    if (functions[i] != nullptr) {
      if (runtime_detail::CodeRecording::is_on()) note_micro_kernel(shapes[i]);
    } else if (std::find(missing.begin(), missing.end(), shapes[i]) == missing.end()) {
      missing.push_back(shapes[i]);
    }
  }
  if (missing.empty()) return;
  std::vector<std::size_t> entries;
  std::shared_ptr<const CodeBlock> block = make_micro_kernels(missing, entries);
  table.keep(block);
  // Two threads may emit the same shape at once: either function may be used.
  for (std::size_t i = 0; i < missing.size(); ++i)
    table.functions[MicroTable::index(missing[i])].store(block->entry<MicroFunction>(entries[i]),
                                                         std::memory_order_release);
  for (std::size_t i = 0; i < shapes.size(); ++i)
    functions[i] = table.functions[MicroTable::index(shapes[i])].load(std::memory_order_acquire);
}

SINTER_DECL std::vector<std::byte> micro_kernel_code(const MicroShape& shape) {
  using namespace x86_micro_detail;
  FunctionEmitter emitter;
  const auto code = emitter.function([&](aj::x86::Assembler& as) { MicroEmitter(as, shape).emit(); });
  return {code.begin(), code.end()};
}

}  // namespace x86
SINTER_NAMESPACE_END
