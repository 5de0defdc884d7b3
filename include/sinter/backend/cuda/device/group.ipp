// Recorded calls, graphs and their updates, and the choice among a few graphs.
#pragma once

#include <sinter/backend/cuda/device/group.hpp>

#include <sinter/backend/cuda/backend.ipp>  // CudaLaunch
#include <sinter/backend/cuda/device/api.ipp>

#include <algorithm>
#include <atomic>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {

/// What a library call enqueues for certain addresses, as a graph.
struct RecordedCall {
  const ReadyList* list = nullptr;
  std::vector<std::uint64_t> addresses;
  CUgraph graph = nullptr;
};

/// Library calls of one group, recorded on a stream that nobody else uses.
class CallRecorder {
 public:
  explicit CallRecorder(Gpu& gpu) : gpu_(gpu) {}
  ~CallRecorder() {
    for (RecordedCall& call : calls_) api().call_cuGraphDestroy(call.graph);
    if (stream_ != nullptr) gpu_.release_stream(*stream_);
  }
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  /// Null: the driver does not record it just now (another thread waits for the whole device) or ever.
  CUgraph record(ReadyList& list, void* const* operands, const std::vector<std::uint64_t>& addresses) {
    for (const RecordedCall& call : calls_)
      if (call.list == &list && call.addresses == addresses) return call.graph;
    if (stream_ == nullptr) stream_ = &gpu_.acquire_stream();
    const DriverApi& driver = api();
    CUgraph graph = nullptr;
    {
      std::scoped_lock lock(gpu_.recording());
      // Relaxed: other threads allocate meanwhile, and the library may load code.
      if (driver.call_cuStreamBeginCapture(stream_->handle, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
        return nullptr;
      bool is_called = true;
      try {
        CudaLaunch::call_library(list, operands, stream_->handle);
      } catch (const Error&) { is_called = false; }
      const CUresult ended = driver.call_cuStreamEndCapture(stream_->handle, &graph);
      if (ended != CUDA_SUCCESS || !is_called) {
        if (graph != nullptr) driver.call_cuGraphDestroy(graph);
        return nullptr;
      }
    }
    if (calls_.size() == most)
      driver.call_cuGraphDestroy(calls_.front().graph), calls_.erase(calls_.begin());  // those in use are copies
    calls_.push_back({&list, addresses, graph});
    return graph;
  }

 private:
  static constexpr std::size_t most = 16;
  Gpu& gpu_;
  const StreamState* stream_ = nullptr;
  std::vector<RecordedCall> calls_;
};

/// One graph that can be launched, and what it was last told.
class GroupGraph {
 public:
  struct Node {
    CUgraphNode node = nullptr;
    std::size_t launch = 0;                 // of the group
    GpuLaunch* kernel = nullptr;            // null: a library call
    std::vector<std::uint64_t> parameters;  // a call: addresses
  };

  GroupGraph(Gpu& gpu, std::vector<ReadyList*> lists) : gpu_(gpu), lists_(std::move(lists)) {}
  ~GroupGraph() {
    if (exec_ != nullptr) api().call_cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) api().call_cuGraphDestroy(graph_);
  }
  GroupGraph(const GroupGraph&) = delete;
  GroupGraph& operator=(const GroupGraph&) = delete;

  bool has_lists(const std::vector<ReadyList*>& lists) const { return lists_ == lists; }

  /// False: a call cannot be recorded.
  bool build(std::span<const GroupedLaunch> launches, std::span<void* const* const> operands,
             const std::vector<std::vector<std::uint64_t>>& addresses, CallRecorder& recorder) {
    const DriverApi& driver = api();
    gpu_.check(driver.call_cuGraphCreate(&graph_, 0), "making a graph of kernels");
    std::vector<CUgraphNode> last(lists_.size()), before;
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      before.clear();
      for (std::uint32_t earlier : launches[i].after) before.push_back(last[earlier]);
      const auto add = [&](auto&& make, const char* what) {
        CUgraphNode made = nullptr;
        gpu_.check(make(&made), what);
        before.assign(1, made);
        last[i] = made;
        return made;
      };
      if (lists_[i] != nullptr && lists_[i]->list.call) {
        const CUgraph call = recorder.record(*lists_[i], operands[i], addresses[i]);
        if (call == nullptr) return false;
        const CUgraphNode made = add(
            [&](CUgraphNode* node) {
              return driver.call_cuGraphAddChildGraphNode(node, graph_, before.data(), before.size(), call);
            },
            "adding a library call to a graph");
        nodes_.push_back({made, i, nullptr, addresses[i]});
      }
      if (lists_[i] != nullptr)
        for (GpuLaunch& kernel : lists_[i]->list.launches) {
          void* place[1];
          const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(*lists_[i], kernel, place);
          const CUgraphNode made = add(
              [&](CUgraphNode* node) {
                return driver.call_cuGraphAddKernelNode(node, graph_, before.data(), before.size(), &parameters);
              },
              "adding a kernel to a graph");
          nodes_.push_back({made, i, &kernel, kernel.parameters});
        }
      if (last[i] == nullptr)  // nothing to do, but others wait for those that it waits for
        add(
            [&](CUgraphNode* node) {
              return driver.call_cuGraphAddEmptyNode(node, graph_, before.data(), before.size());
            },
            "adding a place to a graph");
    }
    gpu_.check(driver.call_cuGraphInstantiateWithFlags(&exec_, graph_, 0), "instantiating a graph of kernels");
    return true;
  }

  /// Nodes that would have to be told something.
  std::size_t differences(const std::vector<std::vector<std::uint64_t>>& addresses) const {
    std::size_t count = 0;
    for (const Node& node : nodes_) count += node.parameters != wanted(node, addresses);
    return count;
  }
  std::size_t size() const { return nodes_.size(); }

  /// False: it cannot be told; build anew.
  bool update(std::span<void* const* const> operands, const std::vector<std::vector<std::uint64_t>>& addresses,
              CallRecorder& recorder) {
    for (Node& node : nodes_) {
      const std::vector<std::uint64_t>& now = wanted(node, addresses);
      if (SINTER_LIKELY(node.parameters == now)) continue;
      ReadyList& list = *lists_[node.launch];
      if (node.kernel != nullptr) {
        void* place[1];
        const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(list, *node.kernel, place);
        gpu_.check(api().call_cuGraphExecKernelNodeSetParams(exec_, node.node, &parameters),
                   "updating a graph of kernels");
      } else {
        const CUgraph call = recorder.record(list, operands[node.launch], now);
        if (call == nullptr || api().call_cuGraphExecChildGraphNodeSetParams(exec_, node.node, call) != CUDA_SUCCESS)
          return false;  // other kernels for other alignments
      }
      node.parameters = now;
    }
    return true;
  }
  void launch() const {
    gpu_.check(api().call_cuGraphLaunch(exec_, gpu_.stream().handle), "launching a graph of kernels");
  }

 private:
  static const std::vector<std::uint64_t>& wanted(const Node& node,
                                                  const std::vector<std::vector<std::uint64_t>>& addresses) {
    return node.kernel != nullptr ? node.kernel->parameters : addresses[node.launch];
  }
  static CUDA_KERNEL_NODE_PARAMS parameters_of(const ReadyList& list, GpuLaunch& kernel, void** place) {
    CUDA_KERNEL_NODE_PARAMS p{};
    place[0] = kernel.parameters.data();
    p.func = list.module->function(kernel.entry);
    p.gridDimX = kernel.grid[0];
    p.gridDimY = kernel.grid[1];
    p.gridDimZ = kernel.grid[2];
    p.blockDimX = kernel.block[0];
    p.blockDimY = kernel.block[1];
    p.blockDimZ = kernel.block[2];
    p.sharedMemBytes = kernel.shared_bytes;
    p.kernelParams = place;
    return p;
  }

  Gpu& gpu_;
  std::vector<ReadyList*> lists_;
  std::vector<Node> nodes_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

/// A few graphs of the same launches: calls whose addresses alternate (iterations of a loop, results that are held)
/// find one that knows them already.
class CudaGroup final : public LaunchGroup {
 public:
  CudaGroup(Gpu& gpu, std::vector<GroupedLaunch> launches)
      : gpu_(gpu),
        launches_(std::move(launches)),
        recorder_(gpu),
        lists_(launches_.size()),
        addresses_(launches_.size()) {}
  ~CudaGroup() override {
    try {
      gpu_.enter();
    } catch (const Error&) {  // the device is broken
    }
  }

  void run(std::span<void* const* const> operands) override {
    gpu_.enter();
    if (!fill(operands) || Context::get().checks) return run_one_by_one(operands);
    GroupGraph* graph = choose();
    if (graph == nullptr) return build(operands);
    if (SINTER_UNLIKELY(!graph->update(operands, addresses_, recorder_))) {
      std::erase_if(graphs_, [&](const auto& known) { return known.get() == graph; });
      return build(operands);
    }
    graph->launch();
  }

  std::span<const GroupedLaunch> launches() const { return launches_; }
  CallRecorder& recorder() { return recorder_; }
  /// No other group of this process ever has it.
  std::uint64_t id() const { return id_; }

 private:
  static constexpr std::size_t most = 4;
  static std::uint64_t next_id() {
    static constinit std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  CudaLaunch& launch(std::size_t i) const { return static_cast<CudaLaunch&>(*launches_[i].launch); }

  /// Writes all parameters. False: a library has not been called yet, and must not load its code while it is recorded;
  /// or what graphs do not have.
  bool fill(std::span<void* const* const> operands) {
    bool is_possible = !refuses_calls_ || !has_calls_;
    for (std::size_t i = 0; i < launches_.size() && is_possible; ++i) {
      lists_[i] = nullptr;
      if (operands[i] == nullptr) continue;
      if (SINTER_UNLIKELY(launch(i).is_split(operands[i]))) return false;
      ReadyList& list = launch(i).filled(operands[i]);
      lists_[i] = &list;
      if (list.list.call) {
        has_calls_ = true;
        is_possible &= list.has_called;
        launch(i).addresses(list, operands[i], addresses_[i]);
      }
      for (const GpuLaunch& kernel : list.list.launches) is_possible &= !kernel.is_cooperative;
    }
    return is_possible;
  }

  void run_one_by_one(std::span<void* const* const> operands) {
    for (std::size_t i = 0; i < launches_.size(); ++i)
      if (operands[i] != nullptr) launch(i).run(operands[i]);
  }

  /// The graph that must be told least. Null: better a new one.
  GroupGraph* choose() const {
    GroupGraph* best = nullptr;
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    for (const auto& graph : graphs_) {
      if (!graph->has_lists(lists_)) continue;
      const std::size_t differences = graph->differences(addresses_);
      if (differences < fewest) {
        best = graph.get();
        fewest = differences;
      }
      if (fewest == 0) return best;
    }
    const bool is_cheap = best != nullptr && fewest * 4 <= best->size();  // for example a number of the call
    return is_cheap || graphs_.size() == most ? best : nullptr;
  }

  void build(std::span<void* const* const> operands) {
    if (graphs_.size() == most) graphs_.erase(graphs_.begin());
    auto graph = std::make_unique<GroupGraph>(gpu_, lists_);
    if (!graph->build(launches_, operands, addresses_, recorder_)) {
      refuses_calls_ = ++refusals_ > 8;  // sometimes another thread causes it
      return run_one_by_one(operands);
    }
    graph->launch();
    graphs_.push_back(std::move(graph));
  }

  Gpu& gpu_;
  std::vector<GroupedLaunch> launches_;
  CallRecorder recorder_;
  std::vector<ReadyList*> lists_;                      // of this run; null: left out
  std::vector<std::vector<std::uint64_t>> addresses_;  // of library calls
  std::vector<std::unique_ptr<GroupGraph>> graphs_;
  bool has_calls_ = false, refuses_calls_ = false;
  int refusals_ = 0;
  const std::uint64_t id_ = next_id();
};

SINTER_DECL std::unique_ptr<LaunchGroup> make_group(Gpu& gpu, std::vector<GroupedLaunch> launches) {
  return std::make_unique<CudaGroup>(gpu, std::move(launches));
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
