// What waits to be enqueued, its graphs and their updates.
#pragma once

#include <sinter/backend/cuda/device/iterations.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/group.ipp>  // CudaGroup

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// A kernel, a library call or a place where several meet, with all that enqueuing it needs.
struct IterationNode {
  enum class Kind : std::uint8_t { kernel, call, place };
  Kind kind = Kind::place;
  std::shared_ptr<const Module> module{};  // keeps the function
  CUfunction function = nullptr;
  std::array<std::uint32_t, 3> grid{}, block{};
  std::uint32_t shared_bytes = 0;
  std::vector<std::uint64_t> parameters{};  // a call: addresses
  std::vector<std::uint32_t> after{};       // earlier nodes
  // Of a call; the group is there while it waits.
  CudaGroup* group = nullptr;
  std::uint64_t group_id = 0;
  ReadyList* list = nullptr;
  std::vector<void*> operands{};

  bool has_form_of(const IterationNode& other) const {
    return kind == other.kind && function == other.function && grid == other.grid && block == other.block &&
           shared_bytes == other.shared_bytes && parameters.size() == other.parameters.size() &&
           group_id == other.group_id && list == other.list && after == other.after;
  }
  CUDA_KERNEL_NODE_PARAMS kernel_parameters(void** place) {
    CUDA_KERNEL_NODE_PARAMS p{};
    place[0] = parameters.data();
    p.func = function;
    p.gridDimX = grid[0];
    p.gridDimY = grid[1];
    p.gridDimZ = grid[2];
    p.blockDimX = block[0];
    p.blockDimY = block[1];
    p.blockDimZ = block[2];
    p.sharedMemBytes = shared_bytes;
    p.kernelParams = place;
    return p;
  }
  /// Null: the driver does not record it now.
  CUgraph recorded() const { return group->recorder().record(*list, operands.data(), parameters); }
};

/// One graph of nodes that can be launched again.
class IterationGraph {
 public:
  explicit IterationGraph(Gpu& gpu) : gpu_(gpu) {}
  ~IterationGraph() {
    if (exec_ != nullptr) api().call_cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) api().call_cuGraphDestroy(graph_);
  }
  IterationGraph(const IterationGraph&) = delete;
  IterationGraph& operator=(const IterationGraph&) = delete;

  bool has_form_of(std::span<const IterationNode> nodes) const {
    return nodes_.size() == nodes.size() &&
           std::equal(nodes.begin(), nodes.end(), nodes_.begin(),
                      [](const IterationNode& a, const IterationNode& b) { return a.has_form_of(b); });
  }

  /// False: a call cannot be recorded.
  bool build(std::span<IterationNode> nodes) {
    const DriverApi& driver = api();
    gpu_.check(driver.call_cuGraphCreate(&graph_, 0), "making a graph of iterations");
    std::vector<CUgraphNode> before;
    for (IterationNode& node : nodes) {
      before.clear();
      for (const std::uint32_t earlier : node.after) before.push_back(made_[earlier]);
      CUgraphNode& made = made_.emplace_back();
      if (node.kind == IterationNode::Kind::kernel) {
        void* place[1];
        const CUDA_KERNEL_NODE_PARAMS parameters = node.kernel_parameters(place);
        gpu_.check(driver.call_cuGraphAddKernelNode(&made, graph_, before.data(), before.size(), &parameters),
                   "adding a kernel to a graph");
      } else if (node.kind == IterationNode::Kind::call) {
        const CUgraph call = node.recorded();
        if (call == nullptr) return false;
        gpu_.check(driver.call_cuGraphAddChildGraphNode(&made, graph_, before.data(), before.size(), call),
                   "adding a library call to a graph");
      } else {
        gpu_.check(driver.call_cuGraphAddEmptyNode(&made, graph_, before.data(), before.size()),
                   "adding a place to a graph");
      }
    }
    gpu_.check(driver.call_cuGraphInstantiateWithFlags(&exec_, graph_, 0), "instantiating a graph of iterations");
    nodes_.assign(nodes.begin(), nodes.end());
    return true;
  }

  /// False: it cannot be told; build anew.
  bool update(std::span<IterationNode> nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      IterationNode& now = nodes[i];
      if (SINTER_LIKELY(now.parameters == nodes_[i].parameters)) continue;
      if (now.kind == IterationNode::Kind::kernel) {
        void* place[1];
        const CUDA_KERNEL_NODE_PARAMS parameters = now.kernel_parameters(place);
        gpu_.check(api().call_cuGraphExecKernelNodeSetParams(exec_, made_[i], &parameters),
                   "updating a graph of iterations");
      } else {
        const CUgraph call = now.recorded();
        if (call == nullptr || api().call_cuGraphExecChildGraphNodeSetParams(exec_, made_[i], call) != CUDA_SUCCESS)
          return false;
      }
      nodes_[i].parameters = now.parameters;
    }
    return true;
  }
  void launch() const {
    gpu_.check(api().call_cuGraphLaunch(exec_, gpu_.stream().handle), "launching a graph of iterations");
  }

 private:
  Gpu& gpu_;
  std::vector<IterationNode> nodes_;  // as they were told last
  std::vector<CUgraphNode> made_;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

#if CUDA_VERSION >= 12040
inline bool has_conditional_nodes() {
  return api().call_cuGraphConditionalHandleCreate != nullptr && api().call_cuGraphAddNode_v2 != nullptr;
}

/// Sets two conditions to what an iteration left, and says whether the number of iterations is odd now. As PTX: the
/// driver knows the function that is called when it makes this machine code, so that no library need be linked.
inline constexpr char set_conditions_ptx[] = R"(.version 7.0
.target sm_70
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);
.visible .entry sinter_set_conditions(.param .u64 loop, .param .u64 rest, .param .u64 goes_on, .param .u64 parity,
                                      .param .u32 is_odd)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [loop];
  ld.param.u64 %rd2, [rest];
  ld.param.u64 %rd3, [goes_on];
  ld.param.u64 %rd4, [parity];
  ld.param.u32 %r1, [is_odd];
  cvta.to.global.u64 %rd3, %rd3;
  cvta.to.global.u64 %rd4, %rd4;
  st.global.u8 [%rd4], %r1;
  ld.global.u8 %r2, [%rd3];
  {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %rd1;
    st.param.b32 [value], %r2;
    call.uni cudaGraphSetConditional, (handle, value);
  }
  {
    .param .b64 handle;
    .param .b32 value;
    st.param.b64 [handle], %rd2;
    st.param.b32 [value], %r2;
    call.uni cudaGraphSetConditional, (handle, value);
  }
  ret;
}
)";

/// A while loop as one graph, whose condition is a value on the device that conditional nodes read. Two iterations, for
/// values alternate between two places: while (first; if (goes on) second). It can be launched again as long as nothing
/// of it changes.
class RepeatGraph {
 public:
  RepeatGraph(Gpu& gpu, const void* goes_on, void* parity)
      : gpu_(gpu),
        goes_on_(reinterpret_cast<std::uint64_t>(goes_on)),
        parity_(reinterpret_cast<std::uint64_t>(parity)) {}
  ~RepeatGraph() {
    if (exec_ != nullptr) api().call_cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) api().call_cuGraphDestroy(graph_);
  }
  RepeatGraph(const RepeatGraph&) = delete;
  RepeatGraph& operator=(const RepeatGraph&) = delete;

  bool is_of(std::span<const IterationNode> nodes, std::size_t half, const void* goes_on, const void* parity) const {
    return half == half_ && goes_on_ == reinterpret_cast<std::uint64_t>(goes_on) &&
           parity_ == reinterpret_cast<std::uint64_t>(parity) && nodes.size() == nodes_.size() &&
           std::equal(nodes.begin(), nodes.end(), nodes_.begin(), [](const IterationNode& a, const IterationNode& b) {
             return a.has_form_of(b) && a.parameters == b.parameters;
           });
  }
  /// The first `half` nodes are an iteration, and the others the next. False: the driver has none of it.
  bool build(std::span<IterationNode> nodes, std::size_t half, CUfunction set) {
    const DriverApi& driver = api();
    half_ = half;
    if (set == nullptr || driver.call_cuGraphCreate(&graph_, 0) != CUDA_SUCCESS) return false;
    CUgraphConditionalHandle loop{}, rest{};
    if (driver.call_cuGraphConditionalHandleCreate(&loop, graph_, gpu_.context(), 1, CU_GRAPH_COND_ASSIGN_DEFAULT) !=
            CUDA_SUCCESS ||
        driver.call_cuGraphConditionalHandleCreate(&rest, graph_, gpu_.context(), 0, 0) != CUDA_SUCCESS)
      return false;
    std::vector<CUgraphNode> ends;
    const CUgraph first = add_condition(graph_, ends, loop, CU_GRAPH_COND_TYPE_WHILE);
    if (first == nullptr || !add_iteration(first, nodes, 0, half, ends) || !add_set(first, ends, set, loop, rest, 1))
      return false;
    const CUgraph second = add_condition(first, ends, rest, CU_GRAPH_COND_TYPE_IF);
    if (second == nullptr || !add_iteration(second, nodes, half, nodes.size(), ends) ||
        !add_set(second, ends, set, loop, loop, 0))
      return false;
    if (driver.call_cuGraphInstantiateWithFlags(&exec_, graph_, 0) != CUDA_SUCCESS) return false;
    nodes_.assign(nodes.begin(), nodes.end());
    return true;
  }
  void launch() const { gpu_.check(api().call_cuGraphLaunch(exec_, gpu_.stream().handle), "launching a loop"); }

 private:
  /// After `ends`, which it becomes. The graph that runs while it holds; null: there is none.
  CUgraph add_condition(CUgraph graph, std::vector<CUgraphNode>& ends, CUgraphConditionalHandle handle,
                        CUgraphConditionalNodeType type) const {
    CUgraphNodeParams parameters{};
    parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = 1;
    parameters.conditional.ctx = gpu_.context();
    CUgraphNode node = nullptr;
    if (api().call_cuGraphAddNode_v2(&node, graph, ends.data(), nullptr, ends.size(), &parameters) != CUDA_SUCCESS)
      return nullptr;
    ends.assign(1, node);
    return parameters.conditional.phGraph_out[0];
  }
  /// `ends` becomes those that nobody waits for.
  bool add_iteration(CUgraph graph, std::span<IterationNode> nodes, std::size_t first, std::size_t end,
                     std::vector<CUgraphNode>& ends) const {
    const DriverApi& driver = api();
    std::vector<CUgraphNode> made, before;
    std::vector<std::uint8_t> is_waited_for(end - first, 0);
    for (std::size_t i = first; i < end; ++i) {
      before.clear();
      for (const std::uint32_t earlier : nodes[i].after) {
        before.push_back(made[earlier - first]);
        is_waited_for[earlier - first] = 1;
      }
      CUgraphNode& node = made.emplace_back();
      CUresult result = CUDA_SUCCESS;
      if (nodes[i].kind == IterationNode::Kind::kernel) {
        void* place[1];
        const CUDA_KERNEL_NODE_PARAMS parameters = nodes[i].kernel_parameters(place);
        result = driver.call_cuGraphAddKernelNode(&node, graph, before.data(), before.size(), &parameters);
      } else if (nodes[i].kind == IterationNode::Kind::call) {
        const CUgraph call = nodes[i].recorded();
        if (call == nullptr) return false;
        result = driver.call_cuGraphAddChildGraphNode(&node, graph, before.data(), before.size(), call);
      } else {
        result = driver.call_cuGraphAddEmptyNode(&node, graph, before.data(), before.size());
      }
      if (result != CUDA_SUCCESS) return false;
    }
    ends.clear();
    for (std::size_t i = 0; i < made.size(); ++i)
      if (is_waited_for[i] == 0) ends.push_back(made[i]);
    return true;
  }
  bool add_set(CUgraph graph, std::vector<CUgraphNode>& ends, CUfunction set, std::uint64_t loop, std::uint64_t rest,
               std::uint32_t is_odd) {
    void* values[] = {&loop, &rest, &goes_on_, &parity_, &is_odd};
    CUDA_KERNEL_NODE_PARAMS parameters{};
    parameters.func = set;
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
    parameters.blockDimX = parameters.blockDimY = parameters.blockDimZ = 1;
    parameters.kernelParams = values;
    CUgraphNode node = nullptr;
    if (api().call_cuGraphAddKernelNode(&node, graph, ends.data(), ends.size(), &parameters) != CUDA_SUCCESS)
      return false;
    ends.assign(1, node);
    return true;
  }

  Gpu& gpu_;
  std::uint64_t goes_on_, parity_;
  std::vector<IterationNode> nodes_;
  std::size_t half_ = 0;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};
#endif

/// Graph number n of a loop holds what its n-th flush enqueues: in a loop whose addresses stay it is told nothing.
class CudaIterations final : public IterationQueue {
 public:
  explicit CudaIterations(Gpu& gpu) : gpu_(gpu) {}
  ~CudaIterations() override {
    try {
      gpu_.enter();
    } catch (const Error&) {  // the device is broken
    }
#if CUDA_VERSION >= 12040
    loops_.clear();
    if (conditions_ != nullptr) api().call_cuModuleUnload(conditions_);
#endif
  }

  void begin() override {
    abandon();
    flushes_ = 0;
  }

  void add(LaunchGroup& given, std::span<void* const* const> operands) override {
    auto& group = static_cast<CudaGroup&>(given);
    gpu_.enter();
    if (is_repeating_) {
      constexpr std::size_t most_repeated = 1024;
      const bool is_added = !is_spoiled_ && add_nodes(group, operands);
      if (!is_added || count_ > most_repeated) spoil();
      if (!is_added && !is_second_) group.run(operands);
    } else if (!add_nodes(group, operands)) {  // as it is, after what waits
      flush();
      group.run(operands);
    } else if (count_ >= (flushes_ == 0 ? first_nodes : most_nodes)) {
      flush();
    }
  }

  bool begin_repeat() override {
    begin();
#if CUDA_VERSION >= 12040
    is_repeating_ = can_repeat_ && has_conditional_nodes();
#endif
    return is_repeating_;
  }
  bool end_half() override {
    is_second_ = true;
    half_ = count_;
    last_.clear();  // the next iteration is in a graph of its own
    return !is_spoiled_;
  }
  bool repeat(const void* goes_on, void* parity) override {
    bool is_enqueued = false;
#if CUDA_VERSION >= 12040
    if (!is_spoiled_ && half_ > 0 && count_ > half_) {
      gpu_.enter();
      const std::span<IterationNode> nodes = std::span(nodes_).first(count_);
      RepeatGraph* const loop = loop_of(nodes, goes_on, parity);
      if (loop != nullptr) loop->launch();
      is_enqueued = loop != nullptr;
    }
#else
    static_cast<void>(goes_on);
    static_cast<void>(parity);
#endif
    if (is_enqueued) abandon();
    else finish_first();
    return is_enqueued;
  }

  void flush() override {
    if (is_repeating_) return spoil();  // the second iteration is not to be run
    enqueue();
  }

  void enqueue() {
    if (count_ == 0) return;
    gpu_.enter();
    const std::span<IterationNode> nodes = std::span(nodes_).first(count_);
    const std::size_t number = flushes_++ % most_graphs;
    if (nodes.size() > 1) {
      if (graphs_.size() <= number) graphs_.resize(number + 1);
      std::unique_ptr<IterationGraph>& graph = graphs_[number];
      bool is_ready = graph != nullptr && graph->has_form_of(nodes) && graph->update(nodes);
      if (!is_ready) {
        graph = std::make_unique<IterationGraph>(gpu_);
        is_ready = graph->build(nodes);
        if (!is_ready) graph = nullptr;
      }
      if (is_ready) graph->launch();
      else enqueue_one_by_one(nodes);
    } else {
      enqueue_one_by_one(nodes);
    }
    abandon();
  }

  void abandon() noexcept override {
    count_ = half_ = 0;
    last_.clear();
    is_repeating_ = is_second_ = is_spoiled_ = waits_for_library_ = false;
  }

 private:
  // The device has work soon, and later much of it at once; graphs beyond the last are told what differs.
  static constexpr std::size_t first_nodes = 24, most_nodes = 192, most_graphs = 48, most_edges = 16;

  /// Something is enqueued in another way: the first iteration runs like any other, now, and of the second nothing is
  /// kept.
  void spoil() {
    if (is_spoiled_) return;
    is_spoiled_ = true;
    if (!waits_for_library_) can_repeat_ = false;
    if (!is_second_) finish_first_nodes(count_);
  }
  void finish_first() {
    if (!is_spoiled_ || is_second_) finish_first_nodes(std::exchange(half_, 0));
    abandon();
  }
  /// Enqueues so many nodes, and leaves the state of the recording.
  void finish_first_nodes(std::size_t nodes) {
    const bool was_repeating = std::exchange(is_repeating_, false), was_second = is_second_, was_spoiled = is_spoiled_;
    count_ = nodes;
    enqueue();  // which forgets all of it
    is_repeating_ = was_repeating;
    is_second_ = was_second;
    is_spoiled_ = was_spoiled;
  }

  IterationNode& next_node() {
    if (nodes_.size() == count_) nodes_.emplace_back();
    IterationNode& node = nodes_[count_++];
    node.after.clear();
    node.parameters.clear();
    node.module = nullptr;
    node.function = nullptr;
    node.grid = node.block = {};
    node.shared_bytes = 0;
    node.group = nullptr;
    node.group_id = 0;
    node.list = nullptr;
    node.kind = IterationNode::Kind::place;
    return node;
  }

  /// False, or what is thrown, and nothing has changed: a group that graphs do not have, or not yet.
  bool add_nodes(CudaGroup& group, std::span<void* const* const> operands) {
    const std::size_t before = count_;
    try {
      if (append(group, operands)) return true;
    } catch (...) {
      count_ = before;
      throw;
    }
    count_ = before;
    return false;
  }
  /// False, or what is thrown: a part of the group is there.
  bool append(CudaGroup& group, std::span<void* const* const> operands) {
    const std::span<const GroupedLaunch> launches = group.launches();
    ends_.assign(launches.size(), 0);
    is_waited_for_.assign(launches.size(), 0);
    std::uint32_t start = 0;
    const bool has_start = last_.size() > 1 && last_.size() * launches.size() > most_edges;
    if (has_start) {
      start = static_cast<std::uint32_t>(count_);
      next_node().after = last_;
    }
    for (std::size_t i = 0; i < launches.size(); ++i) {
      after_.clear();
      for (const std::uint32_t earlier : launches[i].after) {
        after_.push_back(ends_[earlier]);
        is_waited_for_[earlier] = 1;
      }
      if (launches[i].after.empty()) {
        if (has_start) after_.push_back(start);
        else after_ = last_;
      }
      if (!add_launch(group, i, operands[i])) return false;
      ends_[i] = static_cast<std::uint32_t>(count_ - 1);
    }
    last_.clear();
    for (std::size_t i = 0; i < launches.size(); ++i)
      if (is_waited_for_[i] == 0) last_.push_back(ends_[i]);
    return true;
  }

  /// At least one node, after those in after_.
  bool add_launch(CudaGroup& group, std::size_t number, void* const* operands) {
    auto& launch = static_cast<CudaLaunch&>(*group.launches()[number].launch);
    const std::size_t before = count_;
    const auto chain = [&](IterationNode& node) {
      node.after = after_;
      after_.assign(1, static_cast<std::uint32_t>(count_ - 1));
    };
    if (operands != nullptr) {
      if (launch.is_split(operands)) return false;
      ReadyList& ready = launch.filled(operands);
      if (ready.list.call) {
        waits_for_library_ = !ready.has_called && !launch.has_host_operands();
        if (!ready.has_called || launch.has_host_operands()) return false;
        IterationNode& node = next_node();
        chain(node);
        node.kind = IterationNode::Kind::call;
        node.group = &group;
        node.group_id = group.id();
        node.list = &ready;
        node.operands.assign(operands, operands + launch.operand_count());
        launch.addresses(ready, operands, node.parameters);
      }
      for (const GpuLaunch& kernel : ready.list.launches) {
        if (kernel.is_cooperative) return false;
        IterationNode& node = next_node();
        chain(node);
        node.kind = IterationNode::Kind::kernel;
        node.module = ready.module;
        node.function = ready.module->function(kernel.entry);
        node.grid = kernel.grid;
        node.block = kernel.block;
        node.shared_bytes = kernel.shared_bytes;
        node.parameters = kernel.parameters;
      }
    }
    if (count_ == before) chain(next_node());
    return true;
  }

  void enqueue_one_by_one(std::span<IterationNode> nodes) {
    const CUstream stream = gpu_.stream().handle;
    for (IterationNode& node : nodes) {
      if (node.kind == IterationNode::Kind::call) CudaLaunch::call_library(*node.list, node.operands.data(), stream);
      if (node.kind != IterationNode::Kind::kernel) continue;
      void* parameters[] = {node.parameters.data()};
      gpu_.check(
          api().call_cuLaunchKernel(node.function, node.grid[0], node.grid[1], node.grid[2], node.block[0],
                                    node.block[1], node.block[2], node.shared_bytes, stream, parameters, nullptr),
          "launching a kernel of a loop");
    }
  }

  Gpu& gpu_;
  std::vector<IterationNode> nodes_;  // the first count_ of them wait
  std::size_t count_ = 0, flushes_ = 0;
  std::vector<std::uint32_t> last_;          // nodes that the next group comes after
  std::vector<std::uint32_t> ends_, after_;  // of one add()
  std::vector<std::uint8_t> is_waited_for_;
  std::vector<std::unique_ptr<IterationGraph>> graphs_;
  // Of a loop that the device repeats by itself.
  bool is_repeating_ = false, is_second_ = false, is_spoiled_ = false, can_repeat_ = true;
  bool waits_for_library_ = false;  // it was spoiled by a call that has not been made yet: the next run may repeat
  std::size_t half_ = 0;            // nodes of the first iteration
#if CUDA_VERSION >= 12040
  /// Null: the driver refuses it. Callers that alternate between some addresses find theirs; the one used last is in
  /// front.
  RepeatGraph* loop_of(std::span<IterationNode> nodes, const void* goes_on, void* parity) {
    constexpr std::size_t most_loops = 4;
    const auto found = std::find_if(loops_.begin(), loops_.end(),
                                    [&](const auto& loop) { return loop->is_of(nodes, half_, goes_on, parity); });
    if (found != loops_.end()) {
      std::rotate(loops_.begin(), found, found + 1);
      return loops_.front().get();
    }
    auto made = std::make_unique<RepeatGraph>(gpu_, goes_on, parity);
    if (!made->build(nodes, half_, set_conditions())) {
      can_repeat_ = false;
      return nullptr;
    }
    if (loops_.size() == most_loops) loops_.pop_back();
    loops_.insert(loops_.begin(), std::move(made));
    return loops_.front().get();
  }
  /// Null: the driver does not make it.
  CUfunction set_conditions() {
    CUfunction function = nullptr;
    if (conditions_ == nullptr && api().call_cuModuleLoadData(&conditions_, set_conditions_ptx) != CUDA_SUCCESS)
      conditions_ = nullptr;
    if (conditions_ == nullptr ||
        api().call_cuModuleGetFunction(&function, conditions_, "sinter_set_conditions") != CUDA_SUCCESS)
      return nullptr;
    return function;
  }
  CUmodule conditions_ = nullptr;
  std::vector<std::unique_ptr<RepeatGraph>> loops_;
#endif
};

SINTER_DECL std::unique_ptr<IterationQueue> make_iterations(Gpu& gpu) { return std::make_unique<CudaIterations>(gpu); }

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
