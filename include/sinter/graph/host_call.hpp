// What a node sees that runs on the host between kernels: its operands and results in memory, its attributes, and its
// sub-graphs as things to call. Ops with `run_on_host` (control flow, effects, custom ops) are written against this;
// the runtime provides it. Must not know plans or back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

SINTER_NAMESPACE_BEGIN

struct Attrs;
class RecordedSource;

/// One operand or result in memory, row-major without gaps.
struct HostView {
  DType dtype = DType::f32;
  Shape shape;  // all extents known
  std::int64_t numel = 0;
  void* data = nullptr;

  std::size_t bytes() const { return as_index(numel * size_of(dtype)); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

/// One run of a node. Operands must not be written. May throw; results are then unspecified.
class HostCall {
 public:
  HostCall(const Attrs& attributes, Location at) : attrs(attributes), where(at) {}
  virtual ~HostCall() = default;
  HostCall(const HostCall&) = delete;
  HostCall& operator=(const HostCall&) = delete;

  std::span<const HostView> in, out;
  const Attrs& attrs;
  Location where;  // the user's line

  /// Runs sub-graph number `body`. Inputs and outputs are addresses of row-major values of the types that the sub-graph
  /// states; outputs must not overlap inputs or each other, but where updates_in_place() allows it.
  virtual void run_body(std::size_t body, std::span<void* const> inputs, std::span<void* const> outputs) = 0;
  /// May output `i` of the sub-graph be written where its input `i` lies, which nobody reads afterwards?
  virtual bool updates_in_place(std::size_t /*body*/, std::size_t /*i*/) const { return false; }
  /// The number that an extent of the node's attributes has in this call.
  virtual std::int64_t value_of(Dim extent) const = 0;
  /// Memory of this node, kept between calls: allocated at first use, grown when more is asked for. One piece for each
  /// `slot` from 0 up. Its content is unspecified at each call. What OpInfo::prepare_on_host asks for is there before
  /// the first.
  virtual void* scratch(std::size_t slot, std::size_t bytes) = 0;

  // Of an op that runs sub-graphs on a device, operands and results are addresses there. Such an op touches values by
  // these alone; for every other op they are in the memory of the host.
  /// Memory for values that sub-graphs read and write, as `scratch`.
  virtual void* place(std::size_t slot, std::size_t bytes) { return scratch(slot, bytes); }
  /// After what sub-graphs called so far write, and before what those called later read.
  virtual void copy(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  /// A number of at most 8 bytes where the host can read it, until the next such call; waits for what writes it.
  virtual const void* on_host(const void* number, std::size_t) { return number; }
  /// Null, or operands and results are on a device: its queue as its own libraries take it (a CUstream).
  virtual void* device_queue() { return nullptr; }
  /// A queue for what runs beside the device's kernels, as communication does. What is enqueued there runs after all
  /// that the node's operands and results wait for, and before whatever touches them afterwards. To be asked for once
  /// in a run. May be device_queue() itself.
  virtual void* queue_beside() { return device_queue(); }
  /// Between the two the host reads nothing that sub-graphs write: what several runs enqueue may be put together.
  virtual void begin_iterations() {}
  virtual void end_iterations() {}
  /// Runs a sub-graph as long as its last output, one bool, is true, without the host: each iteration begins with the
  /// outputs of the one before as its first inputs, and writes where those lay. The bool is true now.
  enum class Repeated : std::uint8_t {
    not_begun,      // the caller goes on as it would have; so here
    once,           // one iteration is enqueued: the caller goes on after it
    ended_outside,  // the loop has ended after an odd number of iterations: the values are in `outputs`
    ended_inside    // in `inputs`
  };
  virtual Repeated repeat(std::size_t /*body*/, std::span<void* const> /*inputs*/, std::span<void* const> /*outputs*/) {
    return Repeated::not_begun;
  }
  /// Where operands and results are.
  virtual Device device() const { return Device::cpu(); }
  /// What a run is for. A graph of the device has what a function enqueues inside of it: such a function is asked for
  /// its parts (HostFunction::has_phases()).
  enum class Phase : std::uint8_t {
    whole,
    look,    // it says whose work it would be, with note_source(), and does nothing; or that cannot be recorded now
    begin,   // what the host does before anything is enqueued: whatever may be refused is refused here
    enqueue  // the rest, on device_queue(), which may be recorded
  };
  virtual Phase phase() const { return Phase::whole; }
  virtual void note_source(RecordedSource&) {}
};

SINTER_NAMESPACE_END
