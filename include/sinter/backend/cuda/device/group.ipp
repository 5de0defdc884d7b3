// Recorded calls, graphs and their updates, and the choice among a few graphs.
#pragma once

#include <sinter/backend/cuda/device/group.hpp>

#include <sinter/backend/cuda/backend.ipp>  // CudaLaunch
#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/base/fork.hpp>
#include <sinter/graph/recorded_work.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
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
    if (urgent_stream_ != nullptr) api().call_cuStreamDestroy(urgent_stream_);
  }
  CallRecorder(const CallRecorder&) = delete;
  CallRecorder& operator=(const CallRecorder&) = delete;

  /// Null: the driver does not record it just now (another thread waits for the whole device) or ever.
  CUgraph record(ReadyList& list, void* const* operands, const std::vector<std::uint64_t>& addresses) {
    for (const RecordedCall& call : calls_)
      if (call.list == &list && call.addresses == addresses) return call.graph;
    if (stream_ == nullptr) stream_ = &gpu_.acquire_stream();
    CUgraph graph = nullptr;
    try {
      graph = capture(stream_->handle, [&] { CudaLaunch::call_library(list, operands, stream_->handle); });
    } catch (const Error&) {}
    if (graph == nullptr) return nullptr;
    if (calls_.size() == most)
      api().call_cuGraphDestroy(calls_.front().graph), calls_.erase(calls_.begin());  // those in use are copies
    calls_.push_back({&list, addresses, graph});
    return graph;
  }
  /// The work of another library, whose graph is the caller's to destroy. Its kernels are as urgent as those of
  /// Gpu::stream_beside(). Throws as enqueue() does.
  CUgraph record(RecordableWork& work, void* const* operands) {
    constexpr int most_urgent = -5;
    if (urgent_stream_ == nullptr)
      gpu_.check(api().call_cuStreamCreateWithPriority(&urgent_stream_, CU_STREAM_NON_BLOCKING, most_urgent),
                 "making a stream");
    return capture(urgent_stream_, [&] { work.enqueue(operands, urgent_stream_); });
  }

 private:
  template <class Enqueue>
  CUgraph capture(CUstream stream, const Enqueue& enqueue) {
    const DriverApi& driver = api();
    CUgraph graph = nullptr;
    std::scoped_lock lock(gpu_.recording());
    // Relaxed: other threads allocate meanwhile, and the library may load code.
    if (driver.call_cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS) return nullptr;
    const auto end = [&] {
      if (driver.call_cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS) return graph;
      drop(graph);
      return CUgraph{};
    };
    try {
      enqueue();
    } catch (...) {
      drop(end());
      throw;
    }
    return end();
  }
  static void drop(CUgraph graph) {
    if (graph != nullptr) api().call_cuGraphDestroy(graph);
  }

  static constexpr std::size_t most = 16;
  Gpu& gpu_;
  const StreamState* stream_ = nullptr;
  CUstream urgent_stream_ = nullptr;  // for communication
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
  using Sources = std::vector<std::shared_ptr<RecordedSource>>;

  GroupGraph(Gpu& gpu, std::vector<ReadyList*> lists, Sources sources)
      : gpu_(gpu), lists_(std::move(lists)), sources_(std::move(sources)) {}
  ~GroupGraph() {
    if (exec_ != nullptr) api().call_cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) api().call_cuGraphDestroy(graph_);
  }
  GroupGraph(const GroupGraph&) = delete;
  GroupGraph& operator=(const GroupGraph&) = delete;

  bool has_lists(const std::vector<ReadyList*>& lists) const { return lists_ == lists; }
  /// Recorded work of other libraries is never told other addresses: what it needs lives as long as its graph.
  bool has_work(const Sources& sources, const std::vector<std::vector<std::uint64_t>>& addresses) const {
    return sources_ == sources && std::all_of(work_.begin(), work_.end(), [&](const Node& node) {
             return node.parameters == addresses[node.launch];
           });
  }
  bool has_source(const RecordedSource& source) const {
    return std::any_of(sources_.begin(), sources_.end(), [&](const auto& own) { return own.get() == &source; });
  }

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
      if (!sources_.empty() && sources_[i] != nullptr) {
        const CUgraph work = recorder.record(*launches[i].launch->recordable(), operands[i]);
        if (work == nullptr) return false;
        CUgraphNode made = nullptr;
        const CUresult added = driver.call_cuGraphAddChildGraphNode(&made, graph_, before.data(), before.size(), work);
        driver.call_cuGraphDestroy(work);  // the node has a copy
        gpu_.check(added, "adding communication to a graph");
        last[i] = made;
        work_.push_back({made, i, nullptr, addresses[i]});
        continue;
      }
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
          if (kernel.is_cooperative) {
            CUkernelNodeAttrValue value{};
            value.cooperative = 1;
            gpu_.check(driver.call_cuGraphKernelNodeSetAttribute(made, CU_KERNEL_NODE_ATTRIBUTE_COOPERATIVE, &value),
                       "adding a kernel whose blocks run at once to a graph");
          }
          nodes_.push_back({made, i, &kernel, kernel.parameters});
        }
      if (last[i] == nullptr)  // nothing to do, but others wait for those that it waits for
        add(
            [&](CUgraphNode* node) {
              return driver.call_cuGraphAddEmptyNode(node, graph_, before.data(), before.size());
            },
            "adding a place to a graph");
    }
    const unsigned long long flags = work_.empty() ? 0 : CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    gpu_.check(driver.call_cuGraphInstantiateWithFlags(&exec_, graph_, flags), "instantiating a graph of kernels");
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
  Sources sources_;  // of each launch, null for kernels; empty where all are
  std::vector<Node> nodes_, work_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

/// A few graphs of the same launches: calls whose addresses alternate (iterations of a loop, results that are held)
/// find one that knows them already. Work of other libraries (RecordableWork) begins on the host before anything of the
/// group is enqueued, and runs whole where it runs for the first time with its source.
class CudaGroup final : public LaunchGroup {
 public:
  CudaGroup(Gpu& gpu, std::vector<GroupedLaunch> launches)
      : gpu_(gpu),
        launches_(std::move(launches)),
        recorder_(gpu),
        lists_(launches_.size()),
        addresses_(launches_.size()) {
    std::size_t last = launches_.size();
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (launches_[i].launch->recordable() == nullptr) continue;
      std::vector<std::uint32_t>& after = launches_[i].after;
      const auto before = static_cast<std::uint32_t>(last);  // all ranks have the same order
      if (last < i && std::find(after.begin(), after.end(), before) == after.end()) after.push_back(before);
      last = i;
    }
    has_work_ = last < launches_.size();
    if (!has_work_) return;
    keeper_ = std::make_shared<Keeper>(*this);
    sources_.resize(launches_.size());
    last_sources_.resize(launches_.size());
  }
  ~CudaGroup() override {
    if (keeper_ != nullptr) keeper_->leave();
    try {
      gpu_.enter();
    } catch (const Error&) {  // the device is broken
    }
  }

  void run(std::span<void* const* const> operands) override {
    gpu_.enter();
    const bool is_possible = fill(operands) && !Context::get().checks;
    if (SINTER_UNLIKELY(has_work_)) return run_with_work(operands, is_possible);
    if (!is_possible || !run_graph(operands)) run_one_by_one(operands);
  }

  bool has_work() const override { return has_work_; }
  std::span<const GroupedLaunch> launches() const { return launches_; }
  CallRecorder& recorder() { return recorder_; }
  /// No other group of this process ever has it.
  std::uint64_t id() const { return id_; }

 private:
  /// Outlives the group, for the ends of sources. Its lock is held while graphs are made, launched or dropped.
  class Keeper final : public RecordingKeeper {
   public:
    explicit Keeper(CudaGroup& of) : group_(&of) {}
    void leave() noexcept {
      std::scoped_lock lock(mutex);
      group_ = nullptr;
    }
    void forget(const RecordedSource& source) noexcept override {
      std::scoped_lock lock(mutex);
      if (group_ != nullptr) group_->forget(source);
    }
    ForkSafeMutex mutex;

   private:
    CudaGroup* group_;
  };
  /// The sources of a run, which do not end meanwhile.
  class Entered {
   public:
    explicit Entered(const GroupGraph::Sources& sources) {
      for (const auto& source : sources) {
        if (source == nullptr) continue;
        if (!source->enter()) {
          is_whole_ = false;
          return;
        }
        entered_.push_back(source.get());
      }
    }
    ~Entered() {
      for (RecordedSource* const source : entered_) source->leave();
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    bool is_whole() const { return is_whole_; }

   private:
    std::vector<RecordedSource*> entered_;
    bool is_whole_ = true;
  };

  static constexpr std::size_t most = 4;
  static std::uint64_t next_id() {
    static constinit std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  CudaLaunch& launch(std::size_t i) const { return static_cast<CudaLaunch&>(*launches_[i].launch); }
  RecordableWork* work(std::size_t i) const { return has_work_ ? launches_[i].launch->recordable() : nullptr; }

  /// Writes all parameters. False: a library has not been called yet, and must not load its code while it is recorded;
  /// or what graphs do not have.
  bool fill(std::span<void* const* const> operands) {
    bool is_possible = !refuses_calls_ || !has_calls_;
    for (std::size_t i = 0; i < launches_.size() && is_possible; ++i) {
      lists_[i] = nullptr;
      if (operands[i] == nullptr) continue;
      if (RecordableWork* const own = work(i)) {
        has_calls_ = true;
        sources_[i] = own->source(operands[i]);
        own->addresses(operands[i], addresses_[i]);
        is_possible &= sources_[i] != nullptr && sources_[i] == last_sources_[i];
        continue;
      }
      if (SINTER_UNLIKELY(launch(i).is_split(operands[i]))) return false;
      ReadyList& list = launch(i).filled(operands[i]);
      lists_[i] = &list;
      if (list.list.call) {
        has_calls_ = true;
        is_possible &= list.has_called;
        launch(i).addresses(list, operands[i], addresses_[i]);
      }
    }
    return is_possible;
  }

  void run_one_by_one(std::span<void* const* const> operands) {
    for (std::size_t i = 0; i < launches_.size(); ++i)
      if (operands[i] != nullptr) launch(i).run(operands[i]);
  }

  /// Other ranks may run theirs one by one: they meet in the same order.
  void run_with_work(std::span<void* const* const> operands, bool is_possible) {
    if (!is_possible) return run_whole(operands);
    for (std::size_t i = 0; i < launches_.size(); ++i)
      if (work(i) != nullptr) work(i)->begin(operands[i]);
    const Entered entered(sources_);
    std::scoped_lock lock(keeper_->mutex);
    if (entered.is_whole() && run_graph(operands)) return;
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (operands[i] == nullptr) continue;
      if (work(i) != nullptr) work(i)->enqueue(operands[i], gpu_.stream().handle);
      else launch(i).run(operands[i]);
    }
  }
  /// Each by itself, communication beside the kernels; whoever stops in between has it joined (Frame::run).
  void run_whole(std::span<void* const* const> operands) {
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      if (operands[i] == nullptr) continue;
      RecordableWork* const own = work(i);
      if (own == nullptr)
        for (const std::uint32_t earlier : launches_[i].after) launches_[earlier].launch->join();
      launches_[i].launch->run(operands[i]);
      if (own != nullptr) last_sources_[i] = own->source(operands[i]);
    }
    for (const GroupedLaunch& each : launches_) each.launch->join();
  }

  /// False: what is to be recorded cannot be; nothing is enqueued.
  bool run_graph(std::span<void* const* const> operands) {
    GroupGraph* graph = choose();
    if (graph == nullptr) return build(operands);
    if (SINTER_UNLIKELY(!is_updated(*graph, operands))) {
      std::erase_if(graphs_, [&](const auto& known) { return known.get() == graph; });
      return build(operands);
    }
    graph->launch();
    return true;
  }

  /// The graph that must be told least. Null: better a new one.
  GroupGraph* choose() const {
    GroupGraph* best = nullptr;
    std::size_t fewest = std::numeric_limits<std::size_t>::max();
    for (const auto& graph : graphs_) {
      if (!graph->has_lists(lists_) || !graph->has_work(sources_, addresses_)) continue;
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

  bool build(std::span<void* const* const> operands) {
    if (has_work_ && !may_record_work()) return false;
    if (graphs_.size() == most) graphs_.erase(graphs_.begin());
    auto graph = std::make_unique<GroupGraph>(gpu_, lists_, sources_);
    if (!is_built(*graph, operands)) {
      refuses_calls_ = ++refusals_ > 8;  // sometimes another thread causes it
      return false;
    }
    graph->launch();
    graphs_.push_back(std::move(graph));
    return true;
  }

  /// Where ranks have met already, what cannot be made a graph must run all the same.
  bool is_built(GroupGraph& graph, std::span<void* const* const> operands) {
    if (!has_work_) return graph.build(launches_, operands, addresses_, recorder_);
    try {
      return graph.build(launches_, operands, addresses_, recorder_);
    } catch (const std::exception&) { return false; }
  }
  bool is_updated(GroupGraph& graph, std::span<void* const* const> operands) {
    if (!has_work_) return graph.update(operands, addresses_, recorder_);
    try {
      return graph.update(operands, addresses_, recorder_);
    } catch (const std::exception&) { return false; }
  }

  /// Not where its addresses never come to rest: making a graph takes longer than what it saves.
  bool may_record_work() {
    if (++works_recorded_ > most_works_recorded) return false;
    return std::all_of(sources_.begin(), sources_.end(),
                       [&](const auto& source) { return source == nullptr || source->add(keeper_); });
  }
  /// Under the keeper's lock.
  void forget(const RecordedSource& source) noexcept {
    try {
      gpu_.enter();
    } catch (const Error&) {}
    std::erase_if(graphs_, [&](const auto& graph) { return graph->has_source(source); });
    works_recorded_ = 0;
    refusals_ = 0;
    refuses_calls_ = false;
  }

  Gpu& gpu_;
  std::vector<GroupedLaunch> launches_;
  CallRecorder recorder_;
  std::vector<ReadyList*> lists_;                      // of this run; null: left out, or work of another library
  std::vector<std::vector<std::uint64_t>> addresses_;  // of library calls
  GroupGraph::Sources sources_, last_sources_;         // of that work, in this run and the last one that ran it whole
  std::shared_ptr<Keeper> keeper_;
  std::vector<std::unique_ptr<GroupGraph>> graphs_;
  bool has_calls_ = false, refuses_calls_ = false, has_work_ = false;
  int refusals_ = 0, works_recorded_ = 0;
  static constexpr int most_works_recorded = 64;
  const std::uint64_t id_ = next_id();
};

SINTER_DECL std::unique_ptr<LaunchGroup> make_group(Gpu& gpu, std::vector<GroupedLaunch> launches) {
  return std::make_unique<CudaGroup>(gpu, std::move(launches));
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
