// LoopNest: how a kernel is computed. Loops, passes over reduced axes, what is kept from one pass to the next, and
// where the work joins, as flat arrays of plain records; the scalars stay in Kernel::body. On a processor extents are
// parameters: one nest serves every size. A GPU's nest is made for a kernel with its numbers. Back ends render it, the
// interpreter runs it, the verifier checks it. Knows kernels; no machine code.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN

/// How a loop's iterations run. `task`: independent of each other, shared out over threads when the kernel is bound.
/// `vector`: `step` neighbouring iterations at once, one in each lane. On a GPU: `grid`: independent, each a
/// thread's or a group's of `lanes` threads; `lanes`: shared out over the threads of such a group, `step` neighbours to
/// a thread at a time. A loop over lanes walks several axes as one, row-major; so does a grid loop over blocks. More
/// than `most_block_lanes` threads that share a row are several whole blocks, a cluster.
enum class LoopMode : std::uint8_t { serial, vector, task, grid, lanes };

inline constexpr int most_block_lanes = 1024;

/// What becomes of the iterations that are left when no whole step is. `mask`: a step whose lanes beyond the end do
/// nothing. `stepwise`: one iteration at a time.
enum class LoopTail : std::uint8_t { none, mask, stepwise };

/// Which points of its axes a loop walks. `single` promises that one step covers them all.
enum class LoopRange : std::uint8_t {
  whole,            // all of each axis
  single,           // of an axis no longer than `step`
  block,            // those of one block of the fold's order, the block being an iteration of a loop outside
  blocks,           // the axis in blocks of `step`: an iteration is a block
  blocks_but_last,  // the same without the last one
  blocks_before,    // those before the one that is an iteration of a loop outside
  tiles,   // a product's rows or columns in tiles of `step` (0: as many as its numbers ask for): an iteration is a tile
  tile,    // those of one tile, the tile being an iteration of a loop outside
  places,  // of an update, along no axis: an iteration is an index, and takes in what is for it
  short_places,  // those that no more than `step` points are for
  long_places,   // those that more are for
  listed,        // the points that are for the place, from its list
};

struct Loop {
  AxisMask axes = 0;  // a task loop walks several at once, in an order that is chosen when the kernel is bound
  LoopMode mode = LoopMode::serial;
  LoopTail tail = LoopTail::none;
  LoopRange range = LoopRange::whole;
  std::uint8_t copies = 1;  // steps that are done side by side
  std::uint16_t lanes = 1;  // threads of a group
  std::int64_t step = 1;    // iterations that a vector holds, or that a block has
};

/// Over blocks, as against the points of one.
inline bool is_over_blocks(const Loop& loop) {
  return loop.range >= LoopRange::blocks && loop.range <= LoopRange::blocks_before;
}

inline bool is_over_places(const Loop& loop) {
  return loop.range >= LoopRange::places && loop.range <= LoopRange::long_places;
}

/// `workspace` outlives a stage; the others belong to one point of the task or grid loops, `reg` to loops over a single
/// step, so that a register holds it. What is kept in `shared` memory of a block of threads is fetched by the thread
/// that kept it.
enum class BufferSpace : std::uint8_t { workspace, tile, reg, shared };

/// Room for one value of the body at every point of some axes; for the whole state of a fold where that is the value.
struct Buffer {
  InstId value = no_inst;
  AxisMask axes = 0;
  BufferSpace space = BufferSpace::tile;
  std::int64_t points = 0;  // of `shared`: only the first so many are kept; the value is computed at the others
  bool lasts = false;       // a workspace: from run to run, where what it holds is made of constants
};

/// What stays written by hand. `gemm`: register tiles, packed panels, products of a vector, tensor cores. `transpose`:
/// a tile of what is read across its rows passes through memory that threads share. `lists`: points by the place that
/// the index `value` gives them, for later stages; `sort`: those, the first point of each place first.
enum class CallKind : std::uint8_t { gemm, transpose, lists, sort };

/// How a call adds up: as the fold in it says, or in an order of the machine's own (tensor cores, a library).
enum class CallOrder : std::uint8_t { stated, own };

/// Work that a renderer does its own way, with the result of the loops that stand below. `gemm`: sums of products
/// `value` of the operands `a`, which varies along rows `m`, and `b` along columns `n`, over `k`; what follows the sums
/// at each point is the epilogue. `transpose`: what is loaded ahead has its neighbours along rows, all else along
/// columns.
struct Call {
  CallKind kind = CallKind::gemm;
  CallOrder order = CallOrder::stated;
  InstId value = no_inst, a = no_inst, b = no_inst;
  AxisMask m = 0, n = 0, k = 0;
};

enum class NestNodeKind : std::uint8_t {
  variant,  // what runs where its Variant holds; has stages
  stage,    // its end is a join of all tasks: what later stages read was written before; `count`: threads of a block
  loop,     // of Loop `first`
  fold,  // reductions `ids` over axis `axis`, in the Kernel's order; has the loop that feeds it. A fold inside that of
         // an outer axis gives its result to it, each time that it ends
  call,  // of Call `first`, for one tile; has the loops over it
  step,  // the reductions or scans `ids` take in their argument at a point; of a scan the value is then known there.
         // The lanes of a group take all steps side by side into the scans of one node at once
  compute,      // the instructions `ids`, in order; `axis` says when: ComputeTime
  check,        // gather `first`: its index, which is one for all lanes, is checked and made an offset
  keep,         // a value, put into Buffer `first`
  fetch,        // a value, taken back from Buffer `first`
  store,        // Kernel::stores[first]
  barrier,      // the threads of a group meet: what one reads above it is not written below it by another before
  rescale,      // the sum `first` of an online fold, whose shift is known now, is put together
  update,       // Kernel::stores[first] is combined with what is there; `axis` says in which order: UpdateOrder
  check_index,  // of Kernel::stores[first]: where one is out of range, later stages do nothing
};

/// What a fold does. `scan`: its ids are scans, each with a step of its own, whose values are read inside. `blocks`: it
/// leaves the value of one block, which is kept; `finish`: its steps take in such values, in order, which were fetched
/// in the reductions' place. `online`: the last id is sum(exp(x - shift)), where another id is the greatest x, and the
/// shift follows from that: its terms are shifted by the greatest so far, and the sum scaled whenever that grows.
/// `before`: its ids are scans, and it takes in the values of the blocks before one, where the scan of that begins.
enum class FoldPart : std::uint8_t { whole, blocks, finish, scan, online, before };

/// `atomic`: by any thread at any time, which leaves the same bits for some combiners of integers.
enum class UpdateOrder : std::uint16_t { in_order, atomic };

/// On a GPU. `ahead`: for all steps side by side before what follows. `for_step`: for all of them before they enter a
/// scan together; after its step the value is gone.
enum class ComputeTime : std::uint16_t { in_turn, ahead, for_step };

/// One record of a nest, in pre-order: its subtree follows it, up to `end`.
struct NestNode {
  NestNodeKind kind = NestNodeKind::stage;
  FoldPart part = FoldPart::whole;  // fold
  std::uint16_t first = 0;  // a loop, a buffer, a store, a variant, a call; fold, step, compute: place of the first id;
                            // check, rescale: the instruction
  std::uint16_t count = 0;  // fold, step, compute: number of ids; stage: threads of a block
  std::uint16_t axis = 0;   // fold; over lanes the innermost of several; compute: a ComputeTime; update: an UpdateOrder
                            // stage on a GPU: blocks of a team, each of which has the lanes that its loops say
  std::uint32_t end = 0;
};
static_assert(sizeof(NestNode) == 12);

/// Where a variant of the nest applies; the driver chooses by the numbers that it binds.
enum class VariantKind : std::uint8_t {
  whole,       // everywhere
  short_rows,  // rows no longer than one vector
  split,       // a few long rows: the blocks of a row are tasks
  packed,      // a product whose operand of columns is computed, and laid out by panels, before all else
};

/// The loop inside which a value is computed, outermost first. Pointwise and row kernels: outside all loops, in the
/// loop over outer points, along the outer of two reduced axes, along the vector axis. Column kernels: a vector of
/// columns comes before the reduced axes. Products: the same, their rows being outer points and k the reduced axis.
enum class NestLevel : std::uint8_t { kernel, outer, column, far, near };

struct ValuePlace {
  NestLevel level = NestLevel::kernel;
  bool is_vector = false;  // it varies along the vector axis
};

/// What of a machine decides the shape of a nest.
struct Machine {
  int vector_bytes = 64;
  bool has_masks = true;        // lanes switched off at no cost
  int (*cost)(Prim) = nullptr;  // instructions for a vector, roughly
  int most_tiles = 8;           // values kept along a row
  int least_cost_to_keep = 8;   // cheaper ones are computed again
};

struct LoopNest {
  const Kernel* kernel = nullptr;
  std::vector<NestNode> nodes;
  std::vector<InstId> ids;
  SmallVector<Loop, 16> loops;
  SmallVector<Buffer, 16> buffers;
  SmallVector<VariantKind, 4> variants;
  SmallVector<Call, 2> calls;
  SmallVector<ValuePlace, 64> places;  // one per instruction
  int lanes = 1;                       // elements of a vector
  int vector_axis = 0, near_axis = -1, far_axis = -1;
  bool narrow_index = false;  // indices are i32: see can_narrow_index
  bool is_on_gpu = false;     // made for the threads of a GPU, and for the numbers that go with the kernel

  static ComputeTime time_of(const NestNode& compute) { return static_cast<ComputeTime>(compute.axis); }
  std::span<const InstId> ids_of(const NestNode& node) const { return std::span(ids).subspan(node.first, node.count); }
  /// Of the reductions `list`, the first that has the state of number `i`: itself, unless that is a further result of a
  /// fold.
  InstId holder(std::span<const InstId> list, std::size_t i) const {
    const std::vector<Inst>& body = kernel->body;
    for (std::size_t k = 0; k < i && body[list[i]].prim == Prim::fold; ++k)
      if (shares_state(body[list[k]], body[list[i]])) return list[k];
    return list[i];
  }
  const Loop& loop_of(const NestNode& node) const { return loops[node.first]; }
  const Buffer& buffer_of(const NestNode& node) const { return buffers[node.first]; }
  /// Calls visit(place of a child) for each child of the node at `place`, in order.
  template <class Visit>
  void for_each_child(std::size_t place, Visit&& visit) const {
    for (std::size_t child = place + 1; child < nodes[place].end; child = nodes[child].end) visit(child);
  }
  /// The place of a variant's node; nodes.size() where the nest has none of that kind.
  std::size_t find(VariantKind kind) const;
  bool has(VariantKind kind) const { return find(kind) < nodes.size(); }
  bool has_gemm() const { return !calls.empty() && calls[0].kind == CallKind::gemm; }
};

/// What FoldPart::online folds: sum(exp(value - shift)), where the shift mostly is max(value). Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018.
struct OnlineSum {
  InstId value = no_inst, greatest = no_inst, shift = no_inst, sum = no_inst;
};
/// Of reductions of which the last is the sum; `sum` is no_inst where they are none.
OnlineSum online_sum(const Kernel& kernel, std::span<const InstId> reductions);

SINTER_NAMESPACE_END
