// Which epilogues fit, and their emission. Loads and constants have no register of their own: they enter as memory
// operands or through a temporary at each use. All of a point's loads come before its stores, so output may be input.
#pragma once

#include <sinter/backend/x86/contraction/epilogue.hpp>

#include <sinter/backend/x86/contraction/micro.ipp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_micro_detail {

inline bool is_register_prim(Prim prim) {
  switch (prim) {
    case Prim::immediate:
    case Prim::load:
    case Prim::neg:
    case Prim::abs:
    case Prim::add:
    case Prim::sub:
    case Prim::mul:
    case Prim::div:
    case Prim::fma:
    case Prim::min:
    case Prim::max:
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
    case Prim::select:
    case Prim::sqrt: return true;
    default: return false;
  }
}

/// Emits the body for each accumulator in turn. Of general registers only the one with the arguments is still in use.
class BodyEmitter : public MicroEmitter {
 public:
  BodyEmitter(aj::x86::Assembler& as, const MicroShape& shape, const TileBody& body)
      : MicroEmitter(as, shape), body_(body) {}
  /// False where registers did not suffice; what was emitted is then not used.
  bool emit_whole() {
    constants_label_ = as_.newLabel();
    emit();
    as_.align(aj::AlignMode::kZero, 8);
    as_.bind(constants_label_);
    for (std::uint64_t bits : constants_) as_.embedUInt64(bits);
    return !is_out_of_registers_;
  }

 private:
  /// Where a value is.
  struct Place {
    enum Kind : std::uint8_t { nowhere, lazy, vector, mask } kind = nowhere;
    int index = 0;
  };

  /// With one output, all rows are read before any is stored: a masked store would delay the reading of the row after
  /// it.
  void emit_finish() override {
    results_.clear();
    const int registers = is_wide_ ? 32 : shape_.is_masked ? 15 : 16;
    free_vectors_.clear();
    for (int i = registers; i-- > shape_.rows * shape_.vectors;) free_vectors_.push_back(i);
    const bool stores_late = body_.outputs.size() == 1;
    emit_pointers([](const TileBody::Slot&) { return true; });
    for (int r = 0; r < shape_.rows; ++r) {
      for (int v = 0; v < shape_.vectors; ++v) {
        emit_point(r, v);
        free_vectors_ = free_before_;
        free_vectors_.push_back(r * shape_.vectors + v);
        for (const TileBody::Output& output : body_.outputs) {
          const int result = places_[output.value].index;
          if (!stores_late) emit_output(output.slot, result);
          else {
            results_.push_back(result);
            std::erase(free_vectors_, result);
          }
        }
      }
      emit_advance_pointers([&](const TileBody::Slot& slot) { return !stores_late || slot.is_read; });
    }
    if (stores_late) emit_late_stores();
    emit_pointers_back();
  }
  void emit_late_stores() {
    emit_pointers([](const TileBody::Slot& slot) { return slot.is_written; });
    for (int r = 0; r < shape_.rows; ++r) {
      for (vector_ = 0; vector_ < shape_.vectors; ++vector_)
        emit_output(body_.outputs[0].slot, results_[as_index(r * shape_.vectors + vector_)]);
      emit_advance_pointers([](const TileBody::Slot& slot) { return slot.is_written; });
    }
  }
  void emit_output(std::size_t slot, int index) {
    const aj::x86::Mem to = aj::x86::ptr(pointer(slot), vector_ * vector_bytes_);
    if (!is_masked(vector_)) as_.emit(move_id(), to, vec(index));
    else if (is_wide_) as_.k(aj::x86::k1).emit(move_id(), to, vec(index));
    else as_.emit(masked_move_id(), to, lane_mask(), vec(index));
  }

  static constexpr std::size_t slot_at = offsetof(MicroArgs, slot), slot_step = sizeof(MicroArgs::Slot),
                               slot_stride = offsetof(MicroArgs::Slot, row_stride);
  template <class Which>
  void emit_pointers(Which&& which) {
    for (std::size_t i = 0; i < body_.slots.size(); ++i)
      if (which(body_.slots[i])) as_.mov(pointer(i), arg(slot_at + i * slot_step));
  }
  template <class Which>
  void emit_advance_pointers(Which&& which) {
    for (std::size_t i = 0; i < body_.slots.size(); ++i)
      if (body_.slots[i].moves_by_row && which(body_.slots[i]))
        as_.add(pointer(i), arg(slot_at + i * slot_step + slot_stride));
  }
  void emit_pointers_back() {
    for (std::size_t i = 0; i < body_.slots.size(); ++i)
      if (body_.slots[i].moves_by_row) as_.mov(arg(slot_at + i * slot_step), pointer(i));
  }
  Gp pointer(std::size_t slot) const {
    const Gp all[max_micro_slots] = {aj::x86::rax, aj::x86::rcx, aj::x86::rdx, aj::x86::rsi,
                                     aj::x86::r8,  aj::x86::r9,  aj::x86::r10, aj::x86::r11};
    return all[slot];
  }

  void emit_point(int row, int vector) {
    vector_ = vector;
    free_before_ = free_vectors_;
    free_masks_ = {7, 6, 5, 4, 3};  // k1: the row's end; k2: extrema
    places_.assign(body_.insts.size(), {});
    for (std::size_t i = 0; i < body_.insts.size(); ++i) {
      const Inst& inst = body_.insts[i];
      if (inst.prim == Prim::load && inst.access == TileBody::no_slot)
        places_[i] = {Place::vector, row * shape_.vectors + vector};
      else if (inst.prim == Prim::load || inst.prim == Prim::immediate) places_[i] = {Place::lazy, 0};
      else emit_inst(static_cast<InstId>(i));
    }
  }

  /// A value in a register for the length of one instruction. Frees it where the instruction is its last user.
  struct Use {
    Use(BodyEmitter& emitter, InstId id, InstId user) : owner(emitter) {
      const Place place = owner.places_[id];
      index = place.index;
      if (place.kind == Place::lazy) {
        is_owned = true;
        index = owner.take_vector();
        owner.emit_lazy(index, id);
      } else if (place.kind == Place::vector) {
        is_owned = owner.body_.last_use[id] == user;
      }
    }
    ~Use() { release(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    void release() {
      if (is_owned) owner.free_vectors_.push_back(index);
      is_owned = false;
    }
    BodyEmitter& owner;
    int index = 0;
    bool is_owned = false;
  };

  int take_vector() {
    if (free_vectors_.empty()) {
      is_out_of_registers_ = true;
      return 0;
    }
    const int index = free_vectors_.back();
    free_vectors_.pop_back();
    return index;
  }

  aj::x86::Mem constant(std::uint64_t bits) {
    const auto at = as_index(std::find(constants_.begin(), constants_.end(), bits) - constants_.begin());
    if (at == constants_.size()) constants_.push_back(bits);
    return aj::x86::ptr(constants_label_, static_cast<std::int32_t>(at * 8));
  }
  /// The machine's bits of an immediate, in the low lane.
  std::uint64_t bits_of(const Inst& inst) const {
    return is_double_ ? inst.bits : std::bit_cast<std::uint32_t>(static_cast<float>(inst.number()));
  }
  bool is_repeated(const Inst& inst) const {
    return inst.prim == Prim::immediate || !body_.slots[inst.access].moves_by_column;
  }
  aj::x86::Mem memory(const Inst& inst) {
    if (inst.prim == Prim::immediate) return constant(bits_of(inst));
    const bool moves = body_.slots[inst.access].moves_by_column;
    return aj::x86::ptr(pointer(inst.access), moves ? vector_ * vector_bytes_ : 0);
  }
  aj::x86::Mem repeated(aj::x86::Mem from) const {
    from.setBroadcast(is_double_ ? aj::x86::Mem::Broadcast::k1To8 : aj::x86::Mem::Broadcast::k1To16);
    return from;
  }
  void emit_lazy(int to, InstId id) {
    const Inst& inst = body_.insts[id];
    if (inst.prim == Prim::immediate && bits_of(inst) == 0) return emit_zero(vec(to));
    if (is_repeated(inst)) return emit_broadcast(vec(to), memory(inst));
    emit_load_from(vec(to), memory(inst), vector_);
  }

  /// `id` as the last operand of a vector instruction: memory where the instruction can read it there.
  bool is_memory_operand(InstId id) const {
    if (places_[id].kind != Place::lazy) return false;
    const Inst& inst = body_.insts[id];
    if (inst.prim == Prim::immediate && bits_of(inst) == 0) return false;
    return is_wide_ || (!is_repeated(inst) && !is_masked(vector_));
  }
  aj::x86::Mem memory_operand(InstId id) {
    const Inst& inst = body_.insts[id];
    return is_repeated(inst) ? repeated(memory(inst)) : memory(inst);
  }
  /// Lanes past the end are not read from memory.
  aj::x86::Assembler& guarded() {
    if (is_wide_ && is_masked(vector_)) as_.k(aj::x86::k1).z();
    return as_;
  }

  aj::InstId pick(aj::InstId single, aj::InstId twice) const { return is_double_ ? twice : single; }

  /// to = a op b
  void emit_binary(InstId self, aj::InstId op, InstId a, InstId b) {
    if (is_memory_operand(b)) {
      Use x(*this, a, self);
      const int left = x.index;
      x.release();
      const int to = take_vector();
      guarded().emit(op, vec(to), vec(left), memory_operand(b));
      places_[self] = {Place::vector, to};
      return;
    }
    int left, right;
    {
      Use x(*this, a, self), y(*this, b, self);
      left = x.index;
      right = y.index;
      if (a == b && y.is_owned) x.is_owned = false;
    }
    const int to = take_vector();
    as_.emit(op, vec(to), vec(left), vec(right));
    places_[self] = {Place::vector, to};
  }

  bool is_number(InstId id) const {
    const Inst& inst = body_.insts[id];
    return inst.prim == Prim::immediate && inst.number() == inst.number();
  }
  /// The machine's minimum gives the second when either is NaN, and between zeros: right unless the first is the NaN,
  /// and a constant is none; or unless the first is the zero to give. Else the operation goes both ways (see
  /// number_extremum).
  void emit_extremum(InstId self, const Inst& inst) {
    const aj::InstId op = inst.prim == Prim::min ? pick(aj::x86::Inst::kIdVminps, aj::x86::Inst::kIdVminpd)
                                                 : pick(aj::x86::Inst::kIdVmaxps, aj::x86::Inst::kIdVmaxpd);
    const InstId a = inst.args[0], b = inst.args[1];
    const std::uint64_t winning_zero = inst.prim == Prim::max ? 0 : is_double_ ? std::uint64_t{1} << 63 : 0x80000000u;
    const auto leads = [&](InstId id) { return is_number(id) && bits_of(body_.insts[id]) != winning_zero; };
    if (leads(a)) return emit_binary(self, op, a, b);
    if (leads(b)) return emit_binary(self, op, b, a);
    if (inst.prim == Prim::max && (is_number(a) || is_number(b)))
      return emit_max_with_zero(self, is_number(a) ? a : b, is_number(a) ? b : a);
    Use x(*this, a, self), y(*this, b, self);
    if (a == b) y.is_owned = false;
    const int to = take_vector();
    namespace I = aj::x86::Inst;
    const int minimum_or_maximum = inst.prim == Prim::min ? 0b0100 : 0b0101;
    if (is_wide_) {
      as_.emit(pick(I::kIdVrangeps, I::kIdVrangepd), vec(to), vec(x.index), vec(y.index), aj::imm(minimum_or_maximum));
      as_.emit(pick(I::kIdVcmpps, I::kIdVcmppd), aj::x86::k2, vec(x.index), vec(y.index), aj::imm(unordered));
      as_.k(aj::x86::k2).emit(pick(I::kIdVaddps, I::kIdVaddpd), vec(to), vec(x.index), vec(y.index));
    } else {
      const int other = take_vector();
      as_.emit(op, vec(to), vec(x.index), vec(y.index));
      as_.emit(op, vec(other), vec(y.index), vec(x.index));
      if (inst.prim == Prim::max) as_.emit(pick(I::kIdVxorps, I::kIdVxorpd), vec(other), vec(to), vec(other));
      as_.emit(pick(I::kIdVorps, I::kIdVorpd), vec(to), vec(to), vec(other));
      if (inst.prim == Prim::max) as_.emit(pick(I::kIdVsubps, I::kIdVsubpd), vec(to), vec(to), vec(other));
      free_vectors_.push_back(other);
    }
    places_[self] = {Place::vector, to};
  }

  /// -0 + 0 is 0.
  void emit_max_with_zero(InstId self, InstId zero, InstId a) {
    namespace I = aj::x86::Inst;
    Use first(*this, zero, self), second(*this, a, self);
    const int to = take_vector();
    as_.emit(pick(I::kIdVmaxps, I::kIdVmaxpd), vec(to), vec(first.index), vec(second.index));
    as_.emit(pick(I::kIdVaddps, I::kIdVaddpd), vec(to), vec(to), vec(first.index));
    places_[self] = {Place::vector, to};
  }

  void emit_compare(InstId self, const Inst& inst) {
    const int predicate = inst.prim == Prim::eq ? 0 : inst.prim == Prim::ne ? 4 : inst.prim == Prim::lt ? 17 : 18;
    const aj::InstId op = pick(aj::x86::Inst::kIdVcmpps, aj::x86::Inst::kIdVcmppd);
    const InstId a = inst.args[0], b = inst.args[1];
    if (!is_wide_) {
      Use x(*this, a, self), y(*this, b, self);
      if (a == b) y.is_owned = false;
      const int to = take_vector();
      as_.emit(op, vec(to), vec(x.index), vec(y.index), aj::imm(predicate));
      places_[self] = {Place::vector, to};
      return;
    }
    if (free_masks_.empty()) {
      is_out_of_registers_ = true;
      return;
    }
    const int mask = free_masks_.back();
    free_masks_.pop_back();
    const aj::x86::KReg to(static_cast<std::uint32_t>(mask));
    auto emit_to = [&](int x, const auto& y) {
      if (is_masked(vector_)) as_.k(aj::x86::k1);
      as_.emit(op, to, vec(x), y, aj::imm(predicate));
    };
    Use x(*this, a, self);
    if (is_memory_operand(b)) {
      emit_to(x.index, memory_operand(b));
    } else {
      Use y(*this, b, self);
      if (a == b) y.is_owned = false;
      emit_to(x.index, vec(y.index));
    }
    places_[self] = {Place::mask, mask};
  }

  bool is_zero(InstId id) const { return body_.insts[id].prim == Prim::immediate && bits_of(body_.insts[id]) == 0; }

  void emit_select(InstId self, const Inst& inst) {
    const InstId condition = inst.args[0], a = inst.args[1], b = inst.args[2];
    if (!is_wide_) {
      Use mask(*this, condition, self), x(*this, a, self), y(*this, b, self);
      if (a == b) y.is_owned = false;
      const int to = take_vector();
      as_.emit(pick(aj::x86::Inst::kIdVblendvps, aj::x86::Inst::kIdVblendvpd), vec(to), vec(y.index), vec(x.index),
               vec(mask.index));
      places_[self] = {Place::vector, to};
      return;
    }
    const aj::x86::KReg mask(static_cast<std::uint32_t>(places_[condition].index));
    if (is_zero(b)) {
      Use x(*this, a, self);
      const int to = take_vector();
      as_.k(mask).z().emit(pick(aj::x86::Inst::kIdVmovaps, aj::x86::Inst::kIdVmovapd), vec(to), vec(x.index));
      places_[self] = {Place::vector, to};
    } else {
      Use x(*this, a, self), y(*this, b, self);
      if (a == b) y.is_owned = false;
      const int to = take_vector();
      as_.k(mask).emit(pick(aj::x86::Inst::kIdVblendmps, aj::x86::Inst::kIdVblendmpd), vec(to), vec(y.index),
                       vec(x.index));
      places_[self] = {Place::vector, to};
    }
    if (body_.last_use[condition] == self) free_masks_.push_back(places_[condition].index);
  }

  void emit_fused(InstId self, const Inst& inst) {
    const InstId a = inst.args[0], b = inst.args[1], c = inst.args[2];
    Use x(*this, a, self), y(*this, b, self), z(*this, c, self);
    if (a == b) y.is_owned = false;
    if (c == a || c == b) z.is_owned = false;
    int to = z.index;
    if (z.is_owned) {
      z.is_owned = false;  // becomes the result
    } else {
      to = take_vector();
      as_.emit(pick(aj::x86::Inst::kIdVmovaps, aj::x86::Inst::kIdVmovapd), vec(to), vec(z.index));
    }
    emit_fma(vec(to), vec(x.index), vec(y.index));
    places_[self] = {Place::vector, to};
  }

  /// to = op(a, bits)
  void emit_bits(InstId self, aj::InstId op, InstId a, std::uint64_t single, std::uint64_t twice) {
    Use x(*this, a, self);
    const int to = take_vector();
    const aj::x86::Mem bits = constant(is_double_ ? twice : single);
    if (is_wide_) {
      as_.emit(op, vec(to), vec(x.index), repeated(bits));
    } else {
      emit_broadcast(vec(to), bits);
      as_.emit(op, vec(to), vec(x.index), vec(to));
    }
    places_[self] = {Place::vector, to};
  }

  void emit_inst(InstId self) {
    namespace I = aj::x86::Inst;
    const Inst& inst = body_.insts[self];
    const InstId a = inst.args[0], b = inst.args[1];
    switch (inst.prim) {
      case Prim::add: return emit_binary(self, pick(I::kIdVaddps, I::kIdVaddpd), a, b);
      case Prim::sub: return emit_binary(self, pick(I::kIdVsubps, I::kIdVsubpd), a, b);
      case Prim::mul: return emit_binary(self, pick(I::kIdVmulps, I::kIdVmulpd), a, b);
      case Prim::div: return emit_binary(self, pick(I::kIdVdivps, I::kIdVdivpd), a, b);
      case Prim::neg: return emit_bits(self, pick(I::kIdVxorps, I::kIdVxorpd), a, 0x80000000u, std::uint64_t{1} << 63);
      case Prim::abs: return emit_bits(self, pick(I::kIdVandps, I::kIdVandpd), a, 0x7FFFFFFFu, ~std::uint64_t{0} >> 1);
      case Prim::min:
      case Prim::max: return emit_extremum(self, inst);
      case Prim::fma: return emit_fused(self, inst);
      case Prim::select: return emit_select(self, inst);
      case Prim::sqrt: {
        Use x(*this, a, self);
        const int to = take_vector();
        as_.emit(pick(I::kIdVsqrtps, I::kIdVsqrtpd), vec(to), vec(x.index));
        places_[self] = {Place::vector, to};
        return;
      }
      default: return emit_compare(self, inst);
    }
  }

  static constexpr int unordered = 3;
  const TileBody& body_;
  aj::Label constants_label_;
  std::vector<std::uint64_t> constants_;
  std::vector<int> free_vectors_, free_before_, free_masks_, results_;
  std::vector<Place> places_;
  int vector_ = 0;
  bool is_out_of_registers_ = false;
};

}  // namespace x86_micro_detail

namespace x86_micro_detail {
inline std::string key_of(const TileBody& body, const MicroShape& shape) {
  KeyWriter key;
  add_to_key(key.add('b'), shape);
  const auto& [insts, last_use, slots, outputs] = body;
  key.add_list(insts, [&](const Inst& inst) { key.add(inst); });
  key.add_list(last_use, [&](InstId last) { key.add(last); });
  key.add_list(slots, [&](const TileBody::Slot& slot) {
    const auto& [access, moves_by_row, moves_by_column, is_read, is_written] = slot;
    key.add(access).add(moves_by_row).add(moves_by_column).add(is_read).add(is_written);
  });
  key.add_list(outputs, [&](const TileBody::Output& output) {
    const auto& [slot, value] = output;
    key.add(slot).add(value);
  });
  return std::move(key).bytes();
}
}  // namespace x86_micro_detail

SINTER_DECL std::optional<TileBody> make_tile_body(const Kernel& epilogue, std::uint16_t sum, DType dtype) {
  constexpr std::size_t most_insts = 24;
  const auto m = as_index(epilogue.rank() - 2), n = m + 1;
  if (epilogue.body.size() > most_insts) return std::nullopt;
  TileBody body;
  body.insts = epilogue.body;
  body.last_use.assign(body.insts.size(), no_inst);
  std::vector<int> slot_of(epilogue.accesses.size(), -1);
  auto find_slot = [&](std::uint16_t access) {
    const Access& a = epilogue.accesses[access];
    if (slot_of[access] >= 0) return slot_of[access];
    if (a.stride[n] == StrideClass::any || epilogue.operands[a.operand].dtype != dtype ||
        body.slots.size() == max_micro_slots)
      return -1;
    slot_of[access] = static_cast<int>(body.slots.size());
    body.slots.push_back({.access = access,
                          .moves_by_row = a.stride[m] != StrideClass::zero,
                          .moves_by_column = a.stride[n] == StrideClass::unit});
    return slot_of[access];
  };
  for (std::size_t i = 0; i < body.insts.size(); ++i) {
    Inst& inst = body.insts[i];
    const bool is_mask = is_comparison(inst.prim);
    if (!x86_micro_detail::is_register_prim(inst.prim) || inst.dtype != (is_mask ? DType::bool_ : dtype))
      return std::nullopt;
    for (int arg = 0; arg < arity(inst.prim); ++arg) {
      const InstId id = inst.args[as_index(arg)];
      if (is_comparison(body.insts[id].prim) != (inst.prim == Prim::select && arg == 0)) return std::nullopt;
      body.last_use[id] = static_cast<InstId>(i);
    }
    if (inst.prim != Prim::load) continue;
    if (inst.access == sum) {
      inst.access = TileBody::no_slot;
      continue;
    }
    const int slot = find_slot(inst.access);
    if (slot < 0) return std::nullopt;
    inst.access = static_cast<std::uint16_t>(slot);
    body.slots[inst.access].is_read = true;
  }
  for (const Store& store : epilogue.stores) {
    const int slot = find_slot(store.access);
    const Inst& value = body.insts[store.value];
    const bool is_computed = value.prim == Prim::load ? value.access == TileBody::no_slot
                                                      : value.prim != Prim::immediate && !is_comparison(value.prim);
    if (slot < 0 || !is_computed || !body.slots[as_index(slot)].moves_by_column) return std::nullopt;
    body.slots[as_index(slot)].is_written = true;
    body.outputs.push_back({static_cast<std::uint8_t>(slot), store.value});
    body.last_use[store.value] = static_cast<InstId>(body.insts.size());  // outlives all instructions
  }
  return body;
}

SINTER_DECL const BodyMicroKernels::Known* BodyMicroKernels::known(const MicroShape& shape) const {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.shape == shape; });
  return found == known_.end() ? nullptr : &*found;
}

SINTER_DECL bool BodyMicroKernels::find(std::span<const MicroShape> shapes, std::span<MicroFunction> functions) {
  using namespace x86_micro_detail;
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<MicroShape, std::size_t>> made;
  std::optional<FunctionEmitter> emitter;  // it is not made where all of them are stored
  CodeBatch batch;
  for (const MicroShape& shape : shapes) {
    if (known(shape) != nullptr ||
        std::any_of(made.begin(), made.end(), [&](const auto& m) { return m.first == shape; }))
      continue;
    const std::string key = key_of(body_, shape);
    if (const std::optional<StoredCode> stored = find_stored_code(key, 1)) {
      made.emplace_back(shape, stored->number(0) != 0 ? batch.append(stored->code()) : SIZE_MAX);
      continue;
    }
    if (!emitter) emitter.emplace();
    bool fits = false;
    const auto code =
        emitter->function([&](aj::x86::Assembler& as) { fits = BodyEmitter(as, shape, body_).emit_whole(); });
    store_code(key, {as_index(fits)}, fits ? code : std::span<const std::byte>());
    made.emplace_back(shape, fits ? batch.append(code) : SIZE_MAX);
  }
  if (!batch.bytes().empty()) blocks_.push_back(publish_code(batch.bytes(), "contraction_body"));
  for (const auto& [shape, entry] : made)
    known_.push_back({shape, entry == SIZE_MAX ? nullptr : blocks_.back()->entry<MicroFunction>(entry)});
  for (std::size_t i = 0; i < shapes.size(); ++i) functions[i] = known(shapes[i])->function;
  return std::find(functions.begin(), functions.end(), nullptr) == functions.end();
}

SINTER_DECL std::size_t BodyMicroKernels::code_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->size();
  return bytes;
}

}  // namespace x86
SINTER_NAMESPACE_END
