// The control flow of generated loops: a nest is walked node by node; loops become main loops and tails, folds become
// blocks and their binary counter.
// Leaves the straight-line parts to LoopBody. The order of reductions that kernel.hpp promises is kept here.
#pragma once

#include <sinter/backend/x86/nest/body.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Which function of a LoopCode is written.
enum class LoopPart : std::uint8_t {
  whole,
  streaming,
  blocks,
  finish,
  short_rows,
  pairs,
  streaming_pairs,
  streaming_new  // only what results_of_last_access() says is stored past the caches
};
inline bool is_streaming(LoopPart part) {
  return part == LoopPart::streaming || part == LoopPart::streaming_pairs || part == LoopPart::streaming_new;
}
/// The accesses, a bit each, of results that are made of the last access alone, and of single numbers: arrays that a
/// pointwise kernel does not update where they lie, as it may those that it reads.
std::uint64_t results_of_last_access(const Kernel& kernel);
inline bool is_in_pairs(LoopPart part) { return part == LoopPart::pairs || part == LoopPart::streaming_pairs; }
/// Row kernels of which two rows may be done side by side.
bool takes_pairs(const Kernel& kernel, Isa isa);

class LoopGenerator {
 public:
  LoopGenerator(const PreparedNest& nest, LoopPart part);
  CodeStream run();

 private:
  /// The arguments of a fold at a point.
  using Point = std::array<VReg, max_fold_arguments>;
  static constexpr Point no_point{no_vreg, no_vreg, no_vreg};
  /// A running value of a reduction, or one number of a fold's state: a vector register that is overwritten. The
  /// numbers of a state follow each other.
  struct Running {
    VReg reg = no_vreg;
    Prim prim = Prim::reduce_add;
    DType dtype = DType::f32;
    InstId holder = no_inst;   // the reduction
    std::uint16_t number = 0;  // of the state
    int copy = 0;              // which vector, or row, of those side by side
    Point point = no_point;    // state number 0 of what a point gives to a fold: its arguments, and no state
  };
  /// A loop counter: a general register or a frame slot.
  struct Counter {
    Gpr reg = Gpr::none;
    int slot = 0;
  };
  struct Stack {
    int pointer = 0, block = 0, base = 0;  // frame slots: byte offset of the top, number of blocks, storage
  };
  /// Frame memory for the blocks before the current one.
  struct Totals {
    int base = 0;
    Mem sum(std::size_t value) const { return CodeStream::slot(base + 128 * static_cast<int>(value)); }
    Mem lost(std::size_t value) const { return CodeStream::slot(base + 128 * static_cast<int>(value) + 64); }
  };
  /// Lanes of the current pass, per running value. On AVX-512 minima and maxima of floats run on an instruction that
  /// loses a NaN; `saw_nan` (a mask, seen in any vector of the block) puts it back at the block's end.
  struct Accumulators {
    std::vector<VReg> lanes;
    VReg saw_nan = no_vreg;
    VReg unseen = no_vreg;  // a vector whose NaNs are looked for together with the next one's
  };
  /// What a walk repeats: `light` code may be written several times.
  enum class Items : std::uint8_t { light, heavy };
  /// A scan in progress. `runs` are what whole runs of vectors of the group gave, in all lanes.
  struct Scan {
    InstId id = no_inst;
    int copy = 0;
    Running carry;   // of the block
    Running before;  // what the blocks before gave; no register where that is in the carry
    std::vector<VReg> runs;
    VReg previous = no_vreg;  // exclusive: the last lane of the vector before in the group
    bool is_exclusive = false;
  };
  using Action = std::function<void()>;
  using Content = std::function<void(int block_end)>;

  using Reductions = std::span<const InstId>;

  // generator.ipp
  const NestNode& node(std::size_t place) const { return nest_.nodes[place]; }
  std::size_t stage_of_part() const;
  int copies_of_part() const;
  /// What a pass is: a fold, or a loop that folds nothing. `loop_of` is the place of its loop.
  bool is_pass(std::size_t place) const {
    return node(place).kind == NestNodeKind::fold || node(place).kind == NestNodeKind::loop;
  }
  int passes_in(std::size_t parent) const;
  std::size_t loop_of(std::size_t pass) const { return node(pass).kind == NestNodeKind::fold ? pass + 1 : pass; }
  bool is_scan_pass(std::size_t pass) const {
    return node(pass).kind == NestNodeKind::fold && node(pass).part == FoldPart::scan;
  }
  Reductions reductions_of(std::size_t pass) const {
    return node(pass).kind == NestNodeKind::fold && !is_scan_pass(pass) ? nest_.ids_of(node(pass)) : Reductions{};
  }
  void render_stage(std::size_t stage);
  void render_outside(std::size_t place, std::span<const Lane0> lanes);
  void outer_loop(const Action& step);
  void row_step(std::size_t outer);
  void row_pass(std::size_t pass);
  std::vector<Running> row_values(Reductions reductions);
  void add_values(std::vector<Running>& values, Reductions reductions, std::size_t reduction, int copy);
  void row_columns(std::size_t pass, std::vector<Running>& results);
  void walk_block(std::size_t loop, int copies, int block_end);
  void row_block(std::size_t pass, std::vector<Running>& results, int block_end);
  void map_columns(std::size_t loop);
  void vector_step(std::size_t loop, const Lane0& lane);
  void step_of_rows(std::size_t loop, const Lane0& lane);
  // guarded.ipp
  void whole_step(std::size_t loop, int copies);
  bool find_usual(std::size_t loop);
  bool drop_implied();
  void emit_usual_test(std::size_t loop, int copies, int otherwise);
  // ranges.ipp
  /// A comparison of an index that is the same in all of a row, and the frame slot of index - number.
  struct RowBound {
    IndexBound bound;
    int slot = 0;
  };
  int sign_slot(const IndexBound& bound);
  void prepare_row_state(std::size_t outer);
  void load_number(Gpr to, InstId number);
  void load_row_index(int axis);
  void change_at_rdx();
  void find_sign(const RowBound& bound);
  void find_range();
  void choose_piece(std::uint16_t number, std::size_t depth);
  void choose_pieces();
  void enter_row();
  void usual_steps(std::size_t loop, int copies);
  void map_ranges(std::size_t loop);
  // generator.ipp
  void accumulate(const Lane0& lane);
  void prepare_divisions(std::size_t pass);
  VReg combine_lanes(const Inst& inst, std::size_t reduction);
  void clear_accumulators(const std::vector<Running>& results);
  void restore_nan(VReg result, Lane lane, VReg saw_nan);
  void accumulate_extremum(Accumulators& into, const Inst& inst, VReg v, const Lane0& lane);
  int accumulators_of(DType dtype, int copies) const;
  void make_accumulators(const std::vector<Running>& values);
  void publish(Reductions reductions, std::span<const Running> results);
  void blocks_function(std::size_t outer);
  void start_block(int block, int block_end);
  void store_block(int block, const std::vector<Running>& results);
  void finish_function(std::size_t outer);
  void combine_blocks(std::vector<Running>& results);
  // folds.ipp
  const ScalarFold& fold_of(const Running& value) const { return kernel_.folds[kernel_.body[value.holder].access]; }
  std::size_t numbers_of(const Running& value) const;
  DType in_register(DType dtype) const;
  Point point_of(InstId holder, int copy);
  std::vector<VReg> run_program(const ScalarProgram& program, std::span<const VReg> arguments,
                                const std::vector<char>& skips);
  static bool is_conditional(const ScalarProgram& program, std::size_t number);
  void update_state(std::span<const Running> state, const ScalarProgram& program, std::span<const VReg> arguments,
                    const Tail& tail);
  void accumulate_fold(std::size_t first, const Lane0& lane);
  void step_state(std::span<const Running> state, const Point& point, const Tail& tail);
  void merge_state(std::span<const Running> state, std::span<const VReg> newer);
  void merge_into_newer(std::span<const VReg> older, std::span<const Running> state);
  void combine_state_lanes(std::span<const Running> state, std::size_t first);
  void enter_fold(const std::vector<Running>& values, std::size_t first, const std::vector<Running>& items);
  void add_state_to_totals(const Totals& totals, const std::vector<Running>& values, std::size_t first);
  void merge_halves(std::span<const Running> state);
  std::size_t find_state(std::span<const Running> values, const Inst& result, int copy) const;
  void publish_fold(InstId result, std::span<const Running> values, int copy);
  void short_rows_fold(Reductions reductions, std::size_t reduction, int rows, const Tail& tail);
  // short_rows.ipp
  void short_rows_function(std::size_t outer);
  void short_rows_group(std::size_t outer, int rows, const Tail& tail);
  void short_rows_pass(std::size_t pass, int rows, const Tail& tail);
  void short_rows_reduce(InstId reduction, int rows, const Tail& tail);
  VReg short_row_start(const Inst& inst, VReg v, const Tail& tail);
  // pairs.ipp
  void pairs_function(std::size_t outer);
  void pair_step(std::size_t outer);
  void pair_pass(std::size_t pass);
  template <class Item>
  void for_each_row(Item&& item);
  // columns.ipp
  void column_step(std::size_t outer);
  void columns(std::size_t loop);
  void column_blocks(std::size_t loop, int vectors);
  void column_block(std::size_t loop, const std::vector<Lane0>& lanes);
  void column_pass(std::size_t parent, std::size_t pass, const std::vector<Lane0>& lanes);
  void take_in(std::vector<Running>& items);
  void emit_point(std::size_t place, const std::vector<Lane0>& lanes);
  std::vector<Running> column_values(Reductions reductions, const std::vector<Lane0>& lanes);
  void walk_near(std::size_t pass, const std::vector<Lane0>& lanes, std::vector<Running>& results);
  // scans.ipp
  void scan_row(std::size_t pass);
  void scan_columns(std::size_t pass, const std::vector<Lane0>& lanes);
  void make_scan(InstId id, int copy);
  void make_scan_masks();
  void scan_in_blocks(const Counter& counter, Mem count, std::int64_t block, const Content& content);
  Scan& scan_of(InstId id, int copy);
  void scan_vector_step(InstId id, const Lane0& lane);
  void scan_point(InstId id, const Lane0& lane);
  VReg scan_lanes(const Scan& scan, VReg v);
  VReg in_group(Scan& scan, VReg v, int place);
  VReg after_blocks(const Scan& scan, VReg v);
  VReg carried(const Scan& scan);
  // chain.ipp
  void set_counter(const Counter& counter, std::int32_t value);
  void count_up(const Counter& counter);
  void compare_counter(const Counter& counter, Mem with);
  void chain(const Counter& counter, Mem count, std::vector<Running>& values, const Content& content);
  void walk(const Counter& counter, Mem count, std::vector<Running>& values, const std::vector<Running>& items,
            Items kind, const Action& item);
  void walk_by_eights(const Counter& counter, int block_end, const std::vector<Running>& even,
                      const std::vector<Running>& odd, const std::vector<Running>& items, const Action& item);
  void walk_in_turn(const Counter& counter, int block_end, const std::vector<Running>& next,
                    const std::vector<Running>& other, const std::vector<Running>& items, const Action& item);
  void run_loop(const Counter& counter, Mem limit, const Action& item);
  void set_block_end(const Counter& counter, Mem count, std::int64_t length, int block_end);
  static bool is_compensated(const Running& value);
  void start_totals(const Totals& totals, const std::vector<Running>& values);
  void add_to_totals(const Totals& totals, const std::vector<Running>& values);
  void finish_totals(const Totals& totals, const std::vector<Running>& values);
  Stack make_stack(std::size_t values);
  void combine_with_top(const Stack& stack, const std::vector<Running>& values);
  void push(const Stack& stack, std::vector<Running>& values);
  void pop_all(const Stack& stack, std::vector<Running>& values);
  void step_of(const Running& value, VReg newer, const Tail& tail);
  void load_stacked(const Stack& stack, const std::vector<Running>& values, std::size_t i, VReg to);
  VReg neutral(const Running& value);

  Mem arg(std::size_t offset) const { return CodeStream::at(loop_reg::args, static_cast<std::int32_t>(offset)); }
  std::uint16_t enter_pass(std::size_t parent);

  const PreparedNest& prepared_;
  const LoopNest& nest_;
  const Kernel& kernel_;
  LoopPart part_;
  CodeStream s_;
  int row_copies_;
  int rows_ = 1, row_ = 0;  // side by side in the steps of a pass; the one that a step is for
  LoopBody body_;
  VectorBuilder& b_;
  int end_slot_ = 0, count_slot_ = 0, main_end_slot_ = 0;
  std::uint16_t kernel_region_ = 0;
  std::vector<Running> running_;            // of the current pass
  std::vector<Accumulators> accumulators_;  // one per running value
  /// Of a loop with guarded loads: how conditions usually come out, what makes them, and what is needed when they do.
  struct Usual {
    std::vector<std::pair<InstId, bool>> conditions;
    std::vector<bool> tested, needed;
  } usual_;
  /// What is found where a row begins, if anything is. Frame slots: the row at which it is found anew; the columns
  /// between which conditions come out as usual.
  struct RowState {
    bool is_used = false, has_range = false;
    int next = 0, low = 0, high = 0;
    std::vector<RowBound> bounds;
  } row_state_;
  const std::vector<bool>* only_ = nullptr;  // what vector_step computes; null: all
  std::vector<Scan> scans_;                  // of the current pass
  std::vector<VReg> scan_masks_;             // AVX-512: of the lanes with bit 0, 1, ... in their number; of the first
};

}  // namespace x86
SINTER_NAMESPACE_END
