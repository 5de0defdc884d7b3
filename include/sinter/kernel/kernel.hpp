// Kernel: what one fusion group computes. Named axes, each parallel or reduced; operands read and written through
// affine accesses; a body of scalar primitives. A Kernel is pure structure: extents and strides are not in it (only the
// class of each stride is), so one compiled kernel serves every size and every repeated block. The numbers travel
// beside it in a Geometry. How it is run (tiles, widths, threads) is a Schedule. Must not know back ends or graphs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_fold.hpp>
#include <sinter/tensor/dim.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/precision.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

inline constexpr int max_axes = 10;

/// Sizes of the blocks in which reductions run, in elements; Kernel says how. A block must be long enough to amortise
/// what its end costs, and short enough that rounding errors inside it stay below those of adding up the blocks.
inline constexpr std::int64_t row_sum_block = 4096;
inline constexpr std::int64_t column_sum_block = 64;
inline constexpr std::int64_t product_sum_block = 256;
inline constexpr std::int64_t product_sum_group = 32 * product_sum_block;
/// Lanes of a fold with state along the vector axis.
inline constexpr int fold_lanes = 32;

enum class AxisRole : std::uint8_t { parallel, reduced };

/// How the values of blocks are combined.
///   pairwise     by a binary counter: after block i (counting from 0) is pushed on a stack, the top two are combined
///                (older first) once for each trailing one-bit of i; what is left at the end is combined from the top
///                down
///   compensated  in order. What rounding loses when a block is added to a sum of floats (exactly, by Knuth's two-sum)
///                is added up beside, and added at the end unless it is NaN
enum class BlockOrder : std::uint8_t { pairwise, compensated };

/// The order in which values along a reduced axis are combined: part of what a kernel computes, equal on every ISA and
/// for any number of threads. The axis runs in blocks of `block` elements. Inside one, element j goes to lane
/// j % lanes, each lane in order starting from the neutral element; lanes are combined in halves (lane i with lane
/// i + half, half = lanes/2, lanes/4, ..., 1). Blocks are combined as `above` says; where `group` is not 0, blocks of
/// one group of so many elements are added in order first, and `above` combines the groups.
struct Order {
  std::uint32_t block = 0;
  std::uint16_t lane_bytes = 0;  // of all lanes together; 0: there are `lanes` of them, whatever an element's size
  std::uint16_t lanes = 1;
  BlockOrder above = BlockOrder::compensated;
  std::uint32_t group = 0;
  friend bool operator==(const Order&, const Order&) = default;

  int lanes_of(DType dtype) const { return lane_bytes != 0 ? lane_bytes / static_cast<int>(size_of(dtype)) : lanes; }
  std::string text() const;
};

/// The order in which a scan combines values along its axis, which has no other: as with reductions, part of what a
/// kernel computes. The axis runs in blocks, and a block in groups; `carry` is what the groups before have combined to,
/// and begins anew in each block with the neutral element.
///   Along the vector axis a block has 4096 elements and a group as many as 64 bytes hold. In a group, for d = 1, 2, 4,
///   ... below its length, each element whose number has bit d is combined with the last one before the run of d
///   elements that it stands in (the older first), so that every element holds what it and those before it give. Then
///   its value is combined with the carry, which takes in the last of them.
///   Along another axis a block has 64 elements, and a group one.
/// Sums and products of floats are combined, at last, with what the blocks before gave, in order (the older first):
/// sums with what rounding lost beside them, as BlockOrder::compensated says. Other scans are exact in any order, and
/// run through their blocks. An exclusive scan has the value of the element before in the group, and the neutral
/// element in place of a group's first.
inline constexpr std::int64_t scan_group_bytes = 64;
constexpr bool scan_has_blocks(Prim scan, DType dtype) {
  return is_floating(dtype) && (scan == Prim::scan_add || scan == Prim::scan_mul);
}

/// What is known of a stride when the kernel is compiled. `any` is a run-time number (it may turn out 0 or 1);
/// `backward` is -1, which axes have that run from their end.
enum class StrideClass : std::uint8_t { zero, unit, any, backward };

/// How an operand is addressed: element offset + sum over axes of index * stride (numbers in the Geometry).
struct Access {
  std::uint16_t operand = 0;
  std::array<StrideClass, max_axes> stride{};
  friend bool operator==(const Access&, const Access&) = default;
};

/// A buffer that the kernel touches. A kernel may read and write the same operand (in-place) only at the same point.
/// Instructions compute in computed_in(dtype): loads widen, and stores of f16 and bf16 round; an integer is stored as
/// it is, since the body has made it one of the dtype.
struct Operand {
  DType dtype = DType::f32;  // in memory
  bool written = false;
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// Stores a body value through an access. A value that depends on no reduced axis is stored once per outer point. In a
/// scatter the element is displaced by `index` (i32 or i64) times the access's gather_stride, as a gather's is, and the
/// value is combined with what is there.
struct Store {
  std::uint16_t access = 0;
  InstId value = no_inst;
  InstId index = no_inst;
  Combine combine = Combine::none;
  friend bool operator==(const Store&, const Store&) = default;
};

/// The shape of the work, which follows from the structure. Decides which generator takes it.
///   pointwise    no reduced axis
///   row          reduced axes are the innermost; several reductions and maps over one row (a full reduction is one
///                row), or scans along its one reduced axis and maps
///   column       the innermost axis is parallel, reduced axes lie outside it; or scans along the one that there is
///   contraction  body holds exactly one `contract`; axes are [batch..., m, n, k] with k reduced; its operands are
///                loads, or maps of loads, indices and immediates (a prologue) that vary over [batch..., k] and one of
///                m and n, each another; the rest of the body depends on the contract's result and other loads over
///                [batch..., m, n] (the epilogue). An operand has the value that it would have if it were stored first
///   scatter      no reduced axis, no gather, and one store, which has an index. Iterations take effect in row-major
///                order of the axes. Places can collide only along axes on which the store's stride is zero. All
///                indices are checked before the first element changes
enum class KernelKind : std::uint8_t { pointwise, row, column, contraction, scatter };
constexpr std::string_view name(KernelKind kind) {
  constexpr std::array<std::string_view, 5> names{"pointwise", "row", "column", "contraction", "scatter"};
  return names[as_index(kind)];
}

/// One fusion group. Axes run from outermost to innermost; the last axis is the one to vectorise.
///
/// With several reduced axes the innermost is reduced first and its result enters the next outer one. Each has its
/// Order. Those of today's kernels are the standard ones: lanes of 256 bytes in blocks of 4096, combined pairwise,
/// along the vector axis; two lanes in blocks of 64, compensated, along other axes. A contraction adds a * b by fma in
/// order of k, starting from zero, in blocks of 256, which are added in order within groups of 8192; sums of groups are
/// compensated. One chain over all of k would lose accuracy with its length.
///
/// A fold with state (Prim::fold) runs in the same blocks: along the vector axis over `fold_lanes` lanes whatever its
/// dtypes, combined pairwise by its merge, along other axes one point after the other, and blocks in order. The older
/// state always comes first.
/// `fma` never arises by itself: add and mul contract only where the body says `fma`.
struct Kernel {
  KernelKind kind = KernelKind::pointwise;
  SmallVector<AxisRole, max_axes> axes;
  std::vector<Operand> operands;
  std::vector<Access> accesses;
  std::vector<Inst> body;
  std::vector<Store> stores;
  std::vector<ScalarFold> folds;  // that instructions of the body name
  /// The orders of the reduced axes, outermost first. Empty: the standard ones.
  SmallVector<Order, 2> orders;
  /// How the product of a contraction of f32 may be computed; f32 (in full) for every other kernel, so that those are
  /// shared whatever a plan permits.
  MatmulPrecision precision = MatmulPrecision::f32;
  friend bool operator==(const Kernel&, const Kernel&) = default;

  int rank() const { return static_cast<int>(axes.size()); }
  bool is_reduced(int axis) const { return axes[as_index(axis)] == AxisRole::reduced; }
  /// The order of a reduced axis.
  Order order(int axis) const;
  bool has_scan() const;
  Hash128 hash() const;
  /// Readable form for explain(), logs and tests.
  std::string text() const;
};

/// For each body instruction the set of axes (bit mask) that its value varies over; a reduction clears reduced axes.
std::vector<std::uint32_t> varying_axes(const Kernel& kernel);
/// A contraction of f32 matrices: what Kernel::precision is about.
bool is_product_of_f32(const Kernel& kernel);
/// Does something the kernel does fail where an index is out of range?
bool checks_indices(const Kernel& kernel);
/// The instructions that a value is made of, itself included.
std::vector<bool> instructions_under(const std::vector<Inst>& body, InstId value);
/// Throws InternalError on a malformed kernel (argument order, dtypes, strides, kind).
void verify(const Kernel& kernel);

/// How many values an instruction takes; a fold's may be fewer than its arity.
inline int argument_count(const Kernel& kernel, const Inst& inst) {
  return inst.prim == Prim::fold ? static_cast<int>(kernel.folds[inst.access].arguments.size()) : arity(inst.prim);
}

/// The dtype of what an access reads or writes, as it lies in memory.
inline DType dtype_in_memory(const Kernel& kernel, std::uint16_t access) {
  return kernel.operands[kernel.accesses[access].operand].dtype;
}
/// A load that converts nothing.
inline bool is_plain_load(const Kernel& kernel, const Inst& inst) {
  return inst.prim == Prim::load && dtype_in_memory(kernel, inst.access) == inst.dtype;
}

namespace kernel_detail {
/// "p0[n1]" and "f32 add %0, %1": how text forms name an access and write an instruction.
std::string access_text(const Kernel& kernel, std::uint16_t index);
std::string inst_text(const Kernel& kernel, const Inst& inst);
/// "store p1[n1], %4" and "update p1[01] at %2 by add, %4".
std::string store_text(const Kernel& kernel, const Store& store);
}  // namespace kernel_detail

/// The numbers of a kernel: extents and strides, in elements. Geometry<Dim> is symbolic, Geometry<std::int64_t> bound.
template <class Number>
struct Geometry {
  struct AccessNumbers {
    std::array<Number, max_axes> stride{};
    Number offset{};         // added to the operand's base
    Number gather_extent{};  // for accesses that an index displaces: valid indices are [0, gather_extent)
    Number gather_stride{};
    friend bool operator==(const AccessNumbers&, const AccessNumbers&) = default;
  };
  std::array<Number, max_axes> extent{};  // one per axis
  std::vector<AccessNumbers> accesses;    // one per access
};
using SymbolicGeometry = Geometry<Dim>;
using BoundGeometry = Geometry<std::int64_t>;

/// The order that a kernel's reduced axis has unless the kernel gives another.
Order standard_order(KernelKind kind, bool is_vector_axis);

BoundGeometry bind(const SymbolicGeometry& geometry, std::span<const std::int64_t> symbols);

SINTER_NAMESPACE_END
