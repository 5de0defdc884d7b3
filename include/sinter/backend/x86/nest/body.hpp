// The straight-line part of generated loops: addresses of accesses, loads, stores, gathers, and the instructions of one
// level of the nest, for each vector of a step. Which code surrounds it is the business of generator.hpp.
#pragma once

#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/backend/x86/nest/vector_builder.hpp>
#include <sinter/base/index.hpp>

#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Registers with a fixed meaning in generated loops. rax, rdx and r9 are free for each instruction sequence.
namespace loop_reg {
inline constexpr Gpr args = Gpr::rdi, outer = Gpr::rsi, column = Gpr::rcx, near = Gpr::r8;
}

/// Is it known how its condition usually comes out?
inline bool is_hinted(const Inst& inst) {
  return (inst.prim == Prim::guarded_load || inst.prim == Prim::select) && inst.usually() != Usually::unknown;
}

/// One vector of a step: which accumulator and value slot it uses, how far right of the column register it lies.
struct Lane0 {
  int copy = 0;
  int column_offset = 0;  // in elements
  Tail tail;
};

class LoopBody {
 public:
  /// `rows` that are done side by side have values and pointers of their own; each has `copies` vectors in a step.
  LoopBody(CodeStream& stream, const PreparedNest& nest, int copies, int rows = 1);

  VectorBuilder& builder() { return b_; }

  VReg value(InstId i, int copy);
  VReg constant_of(const Inst& inst);
  void set_value(InstId i, int copy, VReg r) { values_[value_at(i, copy)] = r; }

  /// Decides which accesses under the node at `place` are walked by pointers, and which of those lie in registers.
  void assign_pointers(std::size_t place);
  /// Sets the pointers to (outer, reduced 0, column 0); those of tiles too.
  void reset_pointers();
  void advance_pointers(bool far);
  /// After a whole walk of the near axis: back to its start.
  void rewind_near();
  /// What follows is at another point than what was before.
  void start_step() { loaded_.clear(); }

  /// Instructions above the innermost loops: each for all rows or vectors that are done side by side.
  void emit_outside(std::span<const InstId> list, std::span<const Lane0> lanes);
  /// One instruction for one vector, or for all of them when it does not vary along the vector axis.
  void emit(InstId id, const Lane0& lane);
  /// Turns the scalar index of a gather into a byte displacement in its slot; out of range: status and 0. Clobbers rax,
  /// r9.
  void check_index(InstId gather);
  /// Makes ready what quick division by numbers of a row needs, for the divisions of the list that gain from it.
  void prepare_divisions(std::span<const InstId> list);
  void keep(std::size_t tile, const Lane0& lane);
  void fetch(std::size_t tile, const Lane0& lane);
  void store_wide(Mem m, VReg index);
  void store_inner(const Store& store, const Lane0& lane);
  void store_outer(const Store& store, const Lane0& lane);

  /// From here on a copy is a row, not a vector of a row: `rows` rows from the outer register on, each one vector wide.
  void set_rows(int rows) { rows_ = rows; }
  /// Of rows of many vectors side by side: what follows belongs to this one, counted from the outer register.
  void select_row(int row) { row_ = row; }

  /// Frame slots of an access that is chosen where a row begins: its base and outer stride.
  struct Chosen {
    int base = 0, outer_stride = 0;
  };
  /// Of access first_chosen + i.
  const Chosen& chosen(std::size_t i) const { return chosen_[i]; }

  int far_slot = 0;
  bool assumes_usual = false;  // hinted conditions are known to come out as they usually do
  bool meets_both = false;     // steps that do not assume it are those where hinted conditions come out either way
  std::uint64_t streams = 0;   // accesses, a bit each, whose whole vectors are stored past the caches

 private:
  /// A number of the row that vectors are divided by: its reciprocal in two parts, and the limit below.
  struct Divisor {
    InstId id = no_inst;
    int row = 0;
    VReg high = no_vreg, low = no_vreg, limit = no_vreg;
  };
  struct Pointer {
    enum class Kind : std::uint8_t { none, reg, slot };
    Kind kind = Kind::none;
    Gpr reg = Gpr::none;
    int slot = 0;
  };
  /// What a step has loaded of a group of accesses, by place, and where the code stood then.
  struct LoadedStep {
    std::int16_t group = 0;
    int copy = 0, row = 0, column_offset = 0;
    std::vector<VReg> parts;
    std::uint32_t position = 0;
  };
  /// What is to be stored of a group once all of it is there.
  struct WaitingStep {
    std::int16_t group = 0;
    int copy = 0;
    std::vector<VReg> parts;
  };
  const Kernel& kernel() const { return nest_.kernel(); }
  DType dtype_of_access(std::size_t access) const { return kernel().operands[kernel().accesses[access].operand].dtype; }
  StrideClass stride_class(std::size_t access, int axis) const {
    return axis < 0 ? StrideClass::zero : kernel().accesses[access].stride[as_index(axis)];
  }
  static std::int32_t field(std::size_t access, std::size_t offset);
  Mem base_of(std::size_t access) const;
  Mem outer_stride_of(std::size_t access) const;
  void times_column_stride(Gpr r, std::size_t access);

  std::size_t value_at(InstId i, int copy) const {
    const int row = nest_.place(i).level == NestLevel::kernel ? 0 : row_;
    return (i * as_index(row_count_) + as_index(row)) * copies_ + as_index(copy);
  }
  std::size_t pointer_count() const { return kernel().accesses.size() + as_index(nest_.tiles); }
  Pointer& pointer(std::size_t access, int row) { return pointers_[as_index(row) * pointer_count() + access]; }
  Pointer& pointer(std::size_t access) { return pointer(access, row_); }
  bool is_shared(std::size_t access) const;
  void set_pointer(std::size_t access, int row);
  void use_pointer(std::size_t access);
  void use_loads(std::size_t place, NestLevel lowest, NestLevel highest);
  void use_stores(std::size_t place, bool inner);
  Gpr pointer_in_register(std::size_t access, Gpr temporary, int row = 0);
  Gpr row_address(std::size_t access, bool with_outer);
  bool is_whole_backward(std::size_t access, DType dtype, const Lane0& lane) const;
  Mem backward_address(std::size_t access, const Lane0& lane);
  Mem address(std::size_t access, NestLevel level, const Lane0& lane, int displacement_slot);
  VReg out_of_range(VReg x, VReg limit);
  VReg divide(VReg x, VReg by, const Divisor& divisor, const Tail& tail);
  VReg emit_load(InstId i, const Lane0& lane);
  // interleaved.ipp
  bool is_straight_since(std::uint32_t position);
  void load_element_count(const Interleaved::Group& group, const Tail& tail);
  std::vector<VReg> element_masks(const Interleaved::Group& group, std::uint64_t elements, const Tail& tail);
  std::uint64_t elements_of_step(const Interleaved::Group& group) const;
  void copy_elements_of_step(int size, int frame, bool to_frame);
  std::vector<VReg> load_step(const Interleaved::Group& group, const Lane0& lane);
  VReg load_interleaved(std::size_t access, const Lane0& lane);
  void store_interleaved(std::size_t access, const Lane0& lane, VReg value);
  void store_step(const Interleaved::Group& group, const Lane0& lane, std::span<const VReg> parts);
  // body.ipp
  VReg emit_usual(InstId i, const Lane0& lane);
  VReg load_where(const Inst& inst, const Lane0& lane, VReg holds, VReg fill);
  VReg emit_guarded_load(InstId i, const Lane0& lane);
  VReg guarded_by_element(std::uint16_t access, const Lane0& lane, VReg holds, VReg fill);
  void jump_if_false(VReg holds, int to);
  VReg emit_index(InstId i, const Lane0& lane);
  VReg narrow_number(Mem m);
  int copy_of(InstId i, int copy) const;
  bool is_below_maximum(InstId i) const;
  void report_bad_index(std::size_t access, Gpr status);
  bool may_be_every_second(std::size_t access) const;
  void jump_unless_every_second(std::size_t access, int to);
  VReg load_apart(std::size_t access, const Tail& tail);
  void move_apart(std::size_t access, int copy, const Tail& tail);
  VReg gather(std::size_t access, const Lane0& lane, VReg index, DType index_dtype);
  VReg gather_whole(std::size_t access, const Lane0& lane, VReg index, VReg mask);
  VReg load_by_element(std::size_t access, const Lane0& lane, VReg index, DType index_dtype, int displacement);
  bool is_narrow(InstId i) const { return nest_.nest.narrow_index && kernel().body[i].dtype == DType::i64; }
  void store_by_element(std::size_t access, const Lane0& lane, VReg value, bool widens = false);
  void element_pointer(std::size_t access, const Lane0& lane, int displacement);
  void place_tile_in_result(std::size_t stage);
  std::size_t pointer_of_tile(std::size_t tile) const;
  Mem tile_address(std::size_t tile, DType dtype, const Lane0& lane);

  CodeStream& s_;
  const PreparedNest& nest_;
  VectorBuilder b_;
  std::size_t copies_;
  int rows_ = 0;  // 0: copies are vectors
  int row_count_ = 1, row_ = 0;
  std::size_t taken_registers_ = 0;  // by pointers
  int tile_in_result_ = -1;          // the tile that needs no memory of its own
  std::vector<VReg> values_;
  std::vector<Pointer> pointers_;  // of each row: accesses, then tiles
  std::vector<Chosen> chosen_;
  std::vector<Divisor> divisors_;  // of the current pass
  std::vector<LoadedStep> loaded_;
  std::vector<WaitingStep> waiting_;
  std::vector<int> displacement_slot_;  // per instruction: gathers with a scalar index
};

}  // namespace x86
SINTER_NAMESPACE_END
