// What collectives are to those that carry them out: a Request of each rank, and the two interfaces of an engine. An
// engine moves bytes between ranks; it knows no graphs. Threads of one process, MPI and NCCL implement it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/dist/error.hpp>
#include <sinter/graph/host_call.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// How the values of ranks are put together, in the order of the ranks.
enum class Reduce : std::uint8_t { sum, mean, prod, maximum, minimum };
std::string_view name(Reduce reduce);

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  reduce,
  permute,
  barrier,
  // of one rank alone: nothing is sent
  axis_index,
  shard,
  unshard,
};
std::string_view name(CollectiveKind kind);
constexpr bool is_local(CollectiveKind kind) { return kind >= CollectiveKind::axis_index; }

/// From rank, to rank; numbers of the group.
using RankPairs = std::vector<std::pair<int, int>>;

/// What is to be done, without the operand: it must be the same on all ranks of the group.
struct Collective {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduce reduce = Reduce::sum;
  int axis = 0;        // of the tensor: what is gathered, scattered, or joined
  int split_axis = 0;  // of all_to_all
  int root = 0;        // of broadcast and reduce
  RankPairs pairs{};   // of permute

  bool operator==(const Collective&) const = default;
};

/// A collective with one rank's memory. barrier has neither operand nor result.
struct Request {
  const Collective& what;
  const HostView* in = nullptr;
  const HostView* out = nullptr;
  Location where;
  std::string_view over;  // the axis as the user named it
  void* queue = nullptr;  // null: operands are in the memory of the host
  Device device{};        // where they are otherwise

  /// "all_reduce(sum) of f32[4, 2] over 'data'".
  std::string text() const;
  /// With the line.
  std::string text_with_line() const;
};
/// Do two ranks ask for the same?
bool agree(const Request& a, const Request& b);

/// One rank's end of a group of ranks.
class Communicator {
 public:
  Communicator(std::vector<int> ranks, int index) : ranks_(std::move(ranks)), index_(index) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  /// This rank's number in the group.
  int index() const { return index_; }
  const std::vector<int>& ranks() const { return ranks_; }
  /// Does it, with all ranks of the group. Throws DistError; the engine can then be used no more.
  virtual void run(const Request& request) = 0;
  /// Waits for all ranks of the group, and throws where they do not ask for the same. Moves nothing.
  virtual void meet(const Request&) {}
  /// Graphs of a device can have this group's collectives inside, as of this source: they meet(), and enqueue() what is
  /// recorded. Null: they cannot.
  virtual RecordedSource* source() { return nullptr; }
  /// What run() does behind meet().
  virtual void enqueue(const Request&) {}

 private:
  std::vector<int> ranks_;
  int index_;
};

/// One rank's end of an engine.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The group of these ranks, this one among them. All of them ask for it before its first collective.
  virtual std::unique_ptr<Communicator> group(std::vector<int> ranks, Location where) = 0;
  /// Do collectives take operands in the memory of devices?
  virtual bool takes_device_memory() const { return false; }
  /// Are those enqueued, or done when run() returns?
  virtual bool enqueues() const { return false; }
  /// Where this rank computes.
  virtual Device device() const { return default_device(); }
};

namespace dist_detail {
/// "10 s", "0.25 s".
std::string seconds_text(std::chrono::milliseconds time);
/// Puts `count` elements of each source together, in order, into `to`. Narrow types are computed in wider ones and
/// rounded once.
void reduce_in_order(Reduce reduce, DType dtype, std::span<const void* const> sources, void* to, std::int64_t count);

/// A part of an array: `extent` positions of an axis from `offset` on.
struct Region {
  void* data = nullptr;
  const Shape* shape = nullptr;
  int axis = 0;
  std::int64_t offset = 0;
};
/// Copies the elements of a region of `shape` of one array into one of another.
void copy_region(const Shape& shape, Region from, Region to, std::int64_t element_size);

/// What a rank alone can do: is_local(what.kind), or a group of one.
void run_alone(const Request& request, int index, int size);
}  // namespace dist_detail

}  // namespace dist
SINTER_NAMESPACE_END
