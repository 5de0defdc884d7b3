// Writing, reading and replaying instructions.
#pragma once

#include <sinter/jit/observe/instructions.hpp>
#include <sinter/jit/observe/made_up_values.hpp>
#include <sinter/jit/observe/timeline.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/config/scope.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/runtime/watch.hpp>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace jit::instructions_detail {

// ---- writing

/// The nodes of a step, each once. A value without operands that is written to memory (`full`) is none in the plan: it
/// is the output that the step writes, or the only node of that name.
inline std::vector<std::int32_t> nodes_of(const Plan& plan, const PlanStep& step) {
  std::vector<std::int32_t> nodes = step.nodes;
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  const Graph& graph = plan.origin()->graph;
  if (!nodes.empty()) return nodes;
  for (const BufferRef& operand : step.operands)
    if (operand.kind == BufferKind::output) {
      const std::int32_t id = graph.outputs()[plan.output_number(as_index(operand.index))].node;
      if (graph.node(id).op->name == step.name) return {id};
    }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (graph.nodes()[i].op->name == step.name && graph.nodes()[i].inputs.empty())
      nodes.push_back(static_cast<std::int32_t>(i));
  if (nodes.size() > 1) nodes.clear();
  return nodes;
}

/// The operations of one step as a graph of their own, with numbers in the place of symbols.
class StepGraph {
 public:
  StepGraph(const Plan& plan, const PlanStep& step, std::span<const std::int64_t> symbols)
      : graph_(plan.origin()->graph), options_(plan.origin()->options), symbols_(symbols), builder_(graph_) {
    for (const PlanStep& other : plan.steps())
      of_steps_.insert(of_steps_.end(), other.nodes.begin(), other.nodes.end());
    std::sort(of_steps_.begin(), of_steps_.end());
    inside_ = nodes_of(plan, step);
    if (inside_.empty()) throw InternalError("instruction log: the step has no operation of the graph");
    for (std::int32_t id : inside_) {
      const OpInfo& op = *graph_.node(id).op;
      if (op.kind == OpKind::composite && op.decompose == nullptr)
        throw InternalError("instruction log: texts have no " + std::string(op.name) + ", which a pass made");
      add(id);
    }
    std::vector<Value> outputs;
    for (std::int32_t id : inside_)
      for (std::size_t r = 0; r < graph_.node(id).types.size(); ++r)
        if (const Value v{id, static_cast<std::int32_t>(r)}; is_used_outside(v)) outputs.push_back(now_.at(v));
    if (outputs.empty()) outputs.push_back(now_.at({inside_.back(), 0}));
    std::vector<Dim> numbers;
    for (std::int64_t symbol : symbols) numbers.emplace_back(symbol);
    made_ = substitute_symbols(builder_.finish(outputs), numbers, {}).with_symbols({});
  }
  /// On one line.
  std::string text() const {
    std::string out;
    bool is_new_line = false;  // texts in quotes have none
    for (char c : made_.text()) {
      if (is_new_line && c == ' ') continue;
      is_new_line = c == '\n';
      if (!is_new_line) out += c;
      else out += out.ends_with('{') ? " " : "; ";
    }
    while (!out.empty() && (out.back() == ' ' || out.back() == ';')) out.pop_back();
    return out;
  }
  /// "[[1, 4], []]", or "" where all inputs are row-major without gaps.
  std::string strides() const {
    const bool has_none = std::all_of(strides_.begin(), strides_.end(), [](const auto& each) { return each.empty(); });
    if (has_none) return {};
    std::string out;
    for (const std::vector<std::int64_t>& each : strides_) {
      out += out.empty() ? "[[" : ", [";
      for (std::size_t i = 0; i < each.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(each[i]);
      out += "]";
    }
    return out + "]";
  }

 private:
  static bool contains(const std::vector<std::int32_t>& nodes, std::int32_t id) {
    return std::binary_search(nodes.begin(), nodes.end(), id);
  }
  void add(std::int32_t id) {
    const Node& node = graph_.node(id);
    Values operands;
    for (Value v : node.inputs) operands.push_back(operand(v));
    const Value made = builder_.copy(node, operands);
    for (std::size_t r = 0; r < node.types.size(); ++r) {
      const auto result = static_cast<std::int32_t>(r);
      now_[{id, result}] = {made.node, result};
    }
  }
  /// What the step reads: a number of the graph, a view that is no step of its own, or an input.
  Value operand(Value v) {
    if (const auto known = now_.find(v); known != now_.end()) return known->second;
    const Node& node = graph_.node(v);
    const bool is_leaf = node.inputs.empty() && node.op != &graph_detail::input_op();
    const bool is_number =
        is_leaf && (node.op != &graph_detail::constant_op() || graph_.type(v).shape.numel().evaluate(symbols_) <= 16);
    const bool is_view = node.op->kind == OpKind::view;
    if (!contains(of_steps_, v.node) && (is_number || is_view)) {
      add(v.node);
      return now_.at(v);
    }
    strides_.emplace_back();
    const auto& inputs = graph_.inputs();
    const auto place = as_index(std::find(inputs.begin(), inputs.end(), v) - inputs.begin());
    if (place < inputs.size() && place < options_.input_strides.size())
      for (Dim stride : options_.input_strides[place]) strides_.back().push_back(stride.evaluate(symbols_));
    return now_[v] = builder_.input(graph_.type(v));
  }
  bool is_used_outside(Value v) const {
    const auto& outputs = graph_.outputs();
    if (std::find(outputs.begin(), outputs.end(), v) != outputs.end()) return true;
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (!contains(inside_, static_cast<std::int32_t>(i)))
        for (Value operand : graph_.nodes()[i].inputs)
          if (operand == v) return true;
    return false;
  }

  const Graph& graph_;
  const PlanOptions& options_;
  std::span<const std::int64_t> symbols_;
  GraphBuilder builder_;
  std::vector<std::int32_t> of_steps_, inside_;  // nodes
  std::map<Value, Value> now_;
  std::vector<std::vector<std::int64_t>> strides_;
  Graph made_;
};

/// What is the same each time that a step runs at the same sizes.
inline std::string lasting_text(std::int64_t graph, std::int64_t number, const RanStep& ran) {
  const PlanStep& step = ran.step;
  std::string out = " graph=" + std::to_string(graph) + " step=" + std::to_string(number) +
                    " device=" + ran.device.text() + " backend=" + (step.backend.empty() ? "host" : step.backend);
  const auto kind =
      step.host ? std::string_view(step.host->bodies.empty() ? "host" : "control") : name(step.kernel.kind);
  out.append(" kind=").append(kind).append(" kernel=");
  append_json(out, step.name);
  if (const std::string lines = lines_of(step); !lines.empty()) {
    out += " lines=";
    append_json(out, lines);
  }
  const PlanOrigin* origin = ran.plan.origin();
  if (origin == nullptr) return out;
  if (origin->options.precision != MatmulPrecision::f32 && ran.plan.depends_on_precision())
    out.append(" precision=").append(name(origin->options.precision));
  try {
    const StepGraph part(ran.plan, step, ran.symbols);
    if (const std::string strides = part.strides(); !strides.empty()) out += " strides=" + strides;
    return out + "\n" + part.text();
  } catch (const Error&) { return out; }  // no graph of its own
}

/// Numbers for graphs, and the texts of their steps.
class Texts {
 public:
  static Texts& instance() { return process_object<Texts>(); }

  std::shared_ptr<const std::string> of(const RanStep& ran) {
    const std::span<const PlanStep> steps = ran.plan.steps();
    const PlanStep *const first = steps.data(), *const end = first + steps.size();
    const bool is_inside = !std::less<>()(&ran.step, first) && std::less<>()(&ran.step, end);
    const std::size_t number = is_inside ? as_index(&ran.step - first) : steps.size();
    Key key{0, number, {ran.symbols.begin(), ran.symbols.end()}};
    const std::uint64_t log = base_detail::instruction_logs;
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(log_, log) != log) begin();
      key.graph = number_of(ran.plan.shared_origin());
      if (const auto known = texts_.find(key); known != texts_.end()) return known->second;
    }
    auto text = std::make_shared<const std::string>(lasting_text(key.graph, static_cast<std::int64_t>(number), ran));
    const std::scoped_lock lock(mutex_);
    if (log != log_) return text;
    if (texts_.size() >= most_texts) texts_.clear();
    texts_.emplace(std::move(key), text);
    return text;
  }

 private:
  struct Key {
    std::int64_t graph;
    std::size_t step;
    std::vector<std::int64_t> symbols;
    auto operator<=>(const Key&) const = default;
  };
  static constexpr std::size_t most_texts = 8192, most_graphs = 8192;
  /// Under the lock: each log counts its graphs from 0.
  void begin() {
    numbers_.clear();
    texts_.clear();
    next_ = 0;
  }
  /// Under the lock. Graphs that are gone keep their numbers.
  std::int64_t number_of(const std::shared_ptr<const PlanOrigin>& origin) {
    if (numbers_.size() >= most_graphs) std::erase_if(numbers_, [](const auto& each) { return each.first.expired(); });
    const auto [place, is_new] = numbers_.try_emplace(origin, next_);
    next_ += is_new ? 1 : 0;
    return place->second;
  }
  ForkSafeMutex mutex_;
  std::map<std::weak_ptr<const PlanOrigin>, std::int64_t, std::owner_less<>> numbers_;
  std::map<Key, std::shared_ptr<const std::string>> texts_;
  std::int64_t next_ = 0;
  std::uint64_t log_ = 0;  // that the numbers are of
};

// ---- reading

/// Takes a line apart; what is wrong is said with the line's number.
class LineReader {
 public:
  LineReader(std::string_view text, std::string_view file, std::int64_t line) : rest_(text), file_(file), line_(line) {}

  Instruction read() {
    Instruction out;
    out.line = line_;
    bool has_time = false, has_kernel = false;
    while (skip_blanks(), !rest_.empty()) {
      if (rest_.starts_with("graph(")) {
        out.text = std::string(rest_);
        break;
      }
      const std::string name = word("=");
      if (name == "failed" && !rest_.starts_with("=")) {
        out.has_failed = true;
        continue;
      }
      if (!rest_.starts_with("=")) fail("'" + name + "' is followed by no '='");
      rest_.remove_prefix(1);
      set(out, name);
      has_time |= name == "time";
      has_kernel |= name == "kernel";
    }
    if (!has_time || !has_kernel) fail(std::string("it has no ") + (has_time ? "kernel" : "time"));
    return out;
  }

 private:
  void set(Instruction& out, const std::string& name) {
    const std::pair<std::string_view, std::int64_t*> numbers[] = {{"time", &out.time},
                                                                  {"took", &out.nanoseconds},
                                                                  {"thread", &out.thread},
                                                                  {"graph", &out.graph},
                                                                  {"step", &out.step}};
    const std::pair<std::string_view, std::string*> texts[] = {
        {"device", &out.device}, {"backend", &out.backend}, {"kind", &out.kind},          {"kernel", &out.kernel},
        {"lines", &out.lines},   {"scope", &out.scope},     {"precision", &out.precision}};
    for (const auto& [known, place] : numbers)
      if (known == name) return static_cast<void>(*place = number(name));
    for (const auto& [known, place] : texts)
      if (known == name) return static_cast<void>(*place = value(name));
    if (name != "strides") fail("'" + name + "' is no field of an instruction");
    out.strides = lists();
  }
  std::string word(std::string_view end) {
    const std::size_t length = std::min(rest_.find_first_of(std::string(end) + " "), rest_.size());
    std::string out(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return out;
  }
  std::int64_t number(const std::string& name) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) fail("'" + word("") + "' is no number of " + name);
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  /// A word, or a string as JSON has them.
  std::string value(const std::string& name) {
    if (!rest_.starts_with("\"")) return word("");
    std::string out;
    std::size_t at = 1;
    for (; at < rest_.size() && rest_[at] != '"'; ++at) {
      if (rest_[at] != '\\' || at + 1 >= rest_.size()) out += rest_[at];
      else if (rest_[++at] != 'u') out += rest_[at] == 'n' ? '\n' : rest_[at];
      else {
        unsigned code = 0;
        const std::string_view digits = rest_.substr(at + 1, 4);
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        out += static_cast<char>(code & 0x7F);
        at += digits.size();
      }
    }
    if (at >= rest_.size()) fail("the text of " + name + " has no end");
    rest_.remove_prefix(at + 1);
    return out;
  }
  std::vector<std::vector<std::int64_t>> lists() {
    std::vector<std::vector<std::int64_t>> out;
    expect('[');
    while (!takes(']')) {
      if (!out.empty()) expect(',');
      skip_blanks();
      expect('[');
      out.emplace_back();
      while (!takes(']')) {
        if (!out.back().empty()) expect(',');
        skip_blanks();
        out.back().push_back(number("strides"));
      }
    }
    return out;
  }
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool takes(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!takes(c)) fail(std::string("'") + c + "' is missing in a list");
  }
  [[noreturn]] void fail(const std::string& why) const {
    const std::string place = (file_.empty() ? "line " : std::string(file_) + ":") + std::to_string(line_);
    throw UserError("read_instruction_log", place + ": this is no instruction: " + why, {},
                    "a line has time=N, kernel=\"NAME\", other fields and a graph, as docs/observing.md says");
  }

  std::string_view rest_;
  std::string_view file_;
  std::int64_t line_;
};

/// Fails at the head of a log that another version of the library wrote in another form.
inline void check_version(std::string_view line, const std::string& path, std::int64_t number, Location where) {
  constexpr std::string_view head = "# instructions of Sinter, version ";
  if (!line.starts_with(head) || line.substr(head.size()) == "1") return;
  throw UserError("read_instruction_log",
                  path + ":" + std::to_string(number) + ": this is a log of version " +
                      std::string(line.substr(head.size())) + ", and version 1 is read here",
                  where, "read it with the version of Sinter that wrote it");
}

/// With a graph that parses, but for payloads, which no text holds.
inline Instruction read_line(const std::string& line, const std::string& path, std::int64_t number, Location where) {
  Instruction read = parse_instruction(line, path, number);
  if (read.text.empty()) return read;
  try {
    parse_graph(read.text);
  } catch (const Error& error) {
    if (read.text.find("payload=") == std::string::npos)
      throw UserError("read_instruction_log", path + ":" + std::to_string(number) + ": " + error.what(), where);
  }
  return read;
}

// ---- replaying

class KernelTimes final : public StepListener {
 public:
  void begin(const PlanStep&) override { ++depth_; }
  void end(const PlanStep&, Device, const StepCost&, std::int64_t nanoseconds) override {
    if (--depth_ == 0) total += static_cast<double>(nanoseconds);
  }
  double total = 0;

 private:
  int depth_ = 0;
};

/// Why operations cannot be run again by themselves; "": they can.
inline std::string obstacle_in(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.attrs.payload) return "'" + std::string(node.op->name) + "' calls a function of the program";
    if (node.op->kind == OpKind::effect) return "'" + std::string(node.op->name) + "' has effects";
  }
  return {};
}

inline Replayed run_again(const Graph& graph, const Instruction& instruction, const ReplayOptions& options) {
  const std::vector<std::string> known = list_backends();
  std::string backend = options.backend;
  if (backend.empty() && std::find(known.begin(), known.end(), instruction.backend) != known.end())
    backend = instruction.backend;
  std::optional<std::int64_t> least;
  for (const Node& node : graph.nodes())
    if (const auto own = range_of_indices(graph, node)) least = std::min(least.value_or(*own), *own);
  const std::int64_t range = least.value_or(7);
  std::vector<InputLayout> layouts(graph.inputs().size());
  std::vector<Ref<TensorImpl>> inputs;
  SomeValues values(options.seed, instruction.kind == "host");
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const std::vector<std::int64_t> strides =
        i < instruction.strides.size() ? instruction.strides[i] : std::vector<std::int64_t>();
    layouts[i].assign(strides.begin(), strides.end());
    const Tensor value = values.of(graph.type(graph.inputs()[i]), strides, range);
    eval(value);
    inputs.push_back(value.impl());
  }
  MatmulPrecision precision = MatmulPrecision::f32;
  for (const auto each : {MatmulPrecision::tf32, MatmulPrecision::tf32x3})
    if (name(each) == instruction.precision) precision = each;
  const auto plan = make_plan(graph, backend, layouts, true, graph, precision);
  Replayed out;
  out.kernels = static_cast<std::int64_t>(plan->kernel_count());
  execute(*plan, inputs);
  for (std::int64_t i = 0; i < std::max<std::int64_t>(options.repeat, 1); ++i) {
    KernelTimes times;
    {
      const ListenToSteps listening(times);
      execute(*plan, inputs);
    }
    out.nanoseconds = i == 0 ? times.total : std::min(out.nanoseconds, times.total);
  }
  return out;
}

}  // namespace jit::instructions_detail

SINTER_DECL void log_instruction(const RanStep& ran) {
  using namespace jit::instructions_detail;
  const std::shared_ptr<const std::string> lasting = Texts::instance().of(ran);
  const std::size_t fields = std::min(lasting->find('\n'), lasting->size());
  const std::int64_t start = base_detail::instruction_log_start;
  std::string line = "time=" + std::to_string(std::max<std::int64_t>(0, ran.begin - start)) +
                     " took=" + std::to_string(std::max<std::int64_t>(0, ran.end - ran.begin)) +
                     " thread=" + std::to_string(timeline::thread_number());
  line.append(*lasting, 0, fields);
  if (const std::string_view scope = jit::current_scope(); !scope.empty()) {
    line += " scope=";
    append_json(line, scope);
  }
  if (ran.has_failed) line += " failed";
  if (fields < lasting->size()) line.append(" ").append(*lasting, fields + 1);
  write_instruction(line + "\n");
}

namespace jit {

SINTER_DECL void instruction_log(const std::string& path, Location where) {
  Context::get();  // a log that SINTER_INSTRUCTION_LOG names comes first
  start_instruction_log(path, "instruction_log", where);
}

SINTER_DECL Instruction parse_instruction(std::string_view text, std::string_view file, std::int64_t line) {
  return instructions_detail::LineReader(text, file, line).read();
}

SINTER_DECL std::vector<Instruction> read_instruction_log(const std::string& path, Location where) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError("read_instruction_log", "the file '" + path + "' cannot be read", where,
                    "give the file that SINTER_INSTRUCTION_LOG or jit::instruction_log named");
  std::vector<Instruction> out;
  std::int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    instructions_detail::check_version(line, path, number, where);
    if (line.empty() || line[0] == '#') continue;
    const bool may_be_cut = file.eof();  // the last line, without its end: the program or the disk stopped in it
    try {
      out.push_back(instructions_detail::read_line(line, path, number, where));
    } catch (const UserError&) {
      if (!may_be_cut) throw;
    }
  }
  return out;
}

SINTER_DECL Replayed replay(const Instruction& instruction, const ReplayOptions& options) {
  if (options.repeat < 1)
    throw UserError("replay", "repeat is " + std::to_string(options.repeat), {}, "one run at least is timed");
  if (!options.backend.empty()) check_backend(options.backend, {});
  if (instruction.kind == "control") return {.skipped = "its steps have lines of their own"};
  if (instruction.text.empty()) return {.skipped = "the log has no graph of it"};
  if (instruction.text.find("payload=") != std::string::npos) return {.skipped = "it calls a function of the program"};
  const Graph graph = parse_graph(instruction.text);
  if (std::string obstacle = instructions_detail::obstacle_in(graph); !obstacle.empty()) return {.skipped = obstacle};
  if (std::string obstacle = instructions_detail::obstacle_in_layout(graph, instruction.strides); !obstacle.empty())
    return {.skipped = obstacle};
  try {
    return instructions_detail::run_again(graph, instruction, options);
  } catch (const OutOfMemory&) { throw; } catch (const Error& error) {
    const std::string_view what = error.what();
    return {.skipped = "it fails on these values: " + std::string(what.substr(0, what.find('\n')))};
  }
}

}  // namespace jit
SINTER_NAMESPACE_END
