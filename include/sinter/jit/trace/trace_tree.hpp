// TraceTree: the compiled form of a function that reads values, or calls functions that no trace sees into. A path is
// what one trace saw; it is cut at its reads and those calls into segments. A node of the tree is a segment with its
// plan, and one child for each outcome that was seen; a leaf has the results. Nodes are immutable: a new path copies
// those above it and publishes a new root, so calls follow the tree without a lock. Work goes to the first segment
// whose read needs it; what no read needs moves to the leaves.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/jit/call/call_end.hpp>
#include <sinter/jit/call/entry_code.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/trace/trace_path.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A compiled segment; equal segments share it.
struct SegmentCode {
  Graph key;
  std::vector<std::vector<Dim>> layouts;  // of the inputs, as in execute.hpp
  std::vector<std::uint8_t> is_number;
  std::vector<std::uint8_t> may_donate;  // at a leaf: PlanOptions::may_donate
  bool is_leaf = false;
  Graph optimised;
  std::shared_ptr<const Plan> plan;
  std::vector<std::uint8_t> is_narrowed;  // inputs that the plan takes as f32
};

/// The same segment with code made by these choices.
std::shared_ptr<const SegmentCode> compiled_segment(const SegmentCode& segment, const jit_detail::CodeChoices& choices);

struct TreeNode {
  /// A value that later segments take, and its place in the table of the call.
  struct Carried {
    Value value;
    std::int32_t place = -1;
    bool is_made_here = false;
  };
  struct Store {
    std::int32_t output, place;
  };
  struct Child {
    std::uint64_t outcome;
    std::shared_ptr<const TreeNode> node;
  };
  std::int32_t number = 0;  // from 1 on, in the order in which segments came
  std::shared_ptr<const TracedSegment> traced;
  std::shared_ptr<const SegmentCode> code;
  CallEnd end;                         // its plan and inputs; at a leaf also what it delivers
  std::vector<Carried> live;           // after this segment
  std::vector<Store> stores;           // outputs of the plan that are carried
  std::vector<std::int32_t> releases;  // places that nobody reads after this segment
  std::vector<Child> children;
  std::shared_ptr<const TracedLeaf> leaf;

  bool reads_outcome() const { return traced->dtype == DType::bool_; }
  /// Calls that came to it, as far as they have ended.
  std::int64_t calls() const;
};

class TraceTree {
 public:
  struct Limits {
    std::int64_t segments;
    std::int64_t children;  // of a read of an exact value
  };
  struct Version {
    std::shared_ptr<const TreeNode> root;
    std::int32_t places = 0;  // in the table of a call
    HeldValues held;          // on all paths
  };

  /// In Mode::background code is made operation by operation at first; see take_uncompiled().
  TraceTree(const GuardSet& guards, const jit_detail::CodeChoices& choices, Limits limits)
      : guards_(guards),
        is_background_(choices.mode == Mode::background),
        choices_(is_background_ ? choices.uncompiled() : choices),
        limits_(limits) {}

  const Version* current() const { return current_.load(std::memory_order_acquire); }
  /// The child that this call goes to, or null. `given`: by the eager function at the end of `node`, or null;
  /// `symbols`: their values in this call.
  static const std::shared_ptr<const TreeNode>* child(const TreeNode& node, std::uint64_t outcome,
                                                      const EagerResults* given, std::span<const std::int64_t> symbols,
                                                      std::span<const ArgLeaf> args);
  /// False when the bound forbids another child of this node.
  bool may_grow_at(const TreeNode& node) const;
  struct Inserted {
    std::vector<std::shared_ptr<const TreeNode>> made;  // with code that was made now
    std::shared_ptr<const CallCount> taken;  // counts the calls that go this way; null if the path fits no more
  };
  /// Compiles what is new of a path and publishes it, as far as the bound allows. Callers hold the function's lock.
  Inserted insert(const TracedPath& path, std::span<const std::int64_t> symbols, std::span<const ArgLeaf> args);

  /// Segments that run operation by operation, and were not given by this before. Callers hold the function's lock, as
  /// for swap().
  std::vector<std::shared_ptr<const SegmentCode>> take_uncompiled();
  /// Publishes a version in which other code runs in the place of these.
  void swap(const SegmentSwaps& swaps);

  std::int64_t segments() const { return segments_.load(std::memory_order_relaxed); }
  std::int64_t breaks() const { return breaks_.load(std::memory_order_relaxed); }
  std::int64_t kernels() const { return kernels_.load(std::memory_order_relaxed); }
  std::int64_t launches() const { return launches_.load(std::memory_order_relaxed); }
  std::int64_t peak_bytes() const {
    return peak_bytes_.load(std::memory_order_relaxed);
  }  // of the segment that holds most
  std::int64_t paths() const { return paths_.load(std::memory_order_relaxed); }
  /// Calls that went on outside the tree because of its bound.
  std::atomic<std::int64_t> unbounded_calls{0};
  /// The breaks, the tree, and each segment with its graphs, plan and code.
  std::string text() const;
  /// Of all segments: bodies of regions, and calls of them.
  void count_regions(Stats& stats) const;

 private:
  friend class PathCompiler;
  std::shared_ptr<const SegmentCode> code_for(SegmentCode wanted);

  const GuardSet& guards_;
  const bool is_background_;
  const jit_detail::CodeChoices choices_;
  Limits limits_;
  std::vector<std::shared_ptr<const SegmentCode>> uncompiled_;
  std::atomic<const Version*> current_{nullptr};
  std::vector<std::unique_ptr<const Version>> versions_;  // older ones too, for callers may still follow them
  std::unordered_multimap<std::uint64_t, std::shared_ptr<const SegmentCode>> codes_;
  std::atomic<std::int64_t> segments_{0}, breaks_{0}, kernels_{0}, launches_{0}, peak_bytes_{0}, paths_{0};
};

namespace jit_detail {
/// Adds what the tree counts to the figures of its function.
void add_figures(const TraceTree& tree, Stats& stats);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
