// Reading compiled functions.
#pragma once

#include <sinter/io/function_reader.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/io/function_bytes.hpp>
#include <sinter/io/function_weights.hpp>
#include <sinter/io/tensors.hpp>
#include <sinter/jit/effects/named_functions.hpp>
#include <sinter/runtime/program_code.hpp>

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

class FunctionReader {
 public:
  FunctionReader(ByteReader& from, WeightReader& weights, std::span<const jit::SavedVariable> variables)
      : from_(from), weights_(weights), variables_(variables) {}

  jit::SavedFunction function() {
    jit::SavedFunction function;
    function.name = std::string(from_.text());
    function.where = from_.where();
    function.options = options();
    if (has_tuning_) {
      const std::int64_t microseconds = from_.integer();
      if (microseconds < 0 || microseconds > 1'000'000'000'000) from_.fail("tune_seconds out of range");
      function.options.tune_seconds = static_cast<double>(microseconds) / 1e6;
      function.tuning = std::string(from_.text());
    }
    for (std::size_t left = from_.count(); left > 0; --left) {
      jit::SavedVersion& version = function.versions.emplace_back();
      version.signature = std::string(from_.text());
      version.guards = guards();
      const std::size_t steps = from_.count();
      if (steps == 0) from_.fail("a version without a graph");
      for (std::size_t i = 0; i < steps; ++i) {
        version.steps.emplace_back();
        step(version, i, steps);
      }
      check_tree(version);
      from_.set_symbols(0);
    }
    return function;
  }

 private:
  jit::Options options() {
    jit::Options options;
    const std::uint8_t mode = from_.byte_up_to(has_tuning + 4, "the mode");  // without: of versions that kept no tuning
    has_tuning_ = mode >= has_tuning;
    options.mode = static_cast<jit::Mode>(mode % has_tuning);
    if (mode % has_tuning > 4 || (has_tuning_ && !is_tuned(options.mode))) from_.fail("a mode that is none");
    options.backend = std::string(from_.text());
    options.dynamic = static_cast<jit::Dynamic>(from_.byte_up_to(2, "Options::dynamic"));
    options.fullgraph = from_.flag();
    const int fusion = from_.byte_up_to(17, "the choices of fusion");  // 0 and 1 where nothing refines `fuse`
    const auto choice = [](int digit) { return digit == 0 ? std::nullopt : std::optional(digit == 2); };
    options.fuse = fusion % 2 != 0;
    options.horizontal_fusion = choice(fusion / 2 % 3);
    options.epilogue_fusion = choice(fusion / 6);
    for (std::int64_t* number :
         {&options.recompile_limit, &options.max_breaks, &options.max_values, &options.memory_budget}) {
      *number = from_.integer();
      if (*number < 0) from_.fail("an option below zero");
    }
    if (from_.flag()) options.matmul_precision = static_cast<MatmulPrecision>(from_.byte_up_to(2, "the precision"));
    options.allow_fallback = from_.flag();
    options.suppress_errors = from_.flag();
    return options;
  }

  // Guards

  jit::GuardSet guards() {
    jit::GuardSet guards;
    guards.symbols.resize(from_.count());
    constexpr std::size_t most_symbols = 4096;  // as texts of graphs may have
    if (guards.symbols.size() > most_symbols) from_.fail("more than 4096 symbols");
    from_.set_symbols(guards.symbols.size());
    for (jit::SymbolSource& source : guards.symbols) {
      source.leaf = from_.index(std::size_t{1} << 30, "leaves");
      source.axis = static_cast<std::int8_t>(from_.byte_up_to(max_rank - 1, "the axis"));
      source.is_stride = from_.flag();
      source.min = from_.integer();
      source.max = from_.integer();
      source.divisor = from_.integer();
      if (source.min < 0 || source.max < 0 || source.divisor < 1 || source.divisor > std::int64_t{1} << 60)
        from_.fail("the bounds of a symbol");
      guards.has_divisors |= source.divisor != 1;
    }
    const std::size_t leaves = from_.count();
    for (std::size_t i = 0; i < leaves; ++i) {
      guards.leaves.push_back(leaf(guards.leaves));
      guards.has_variables |= guards.leaves.back().kind == jit::LeafKind::variable;
    }
    for (const jit::SymbolSource& source : guards.symbols)
      if (as_index(source.leaf) >= leaves || !has_axes(guards.leaves[as_index(source.leaf)]) ||
          source.axis >= guards.leaves[as_index(source.leaf)].rank)
        from_.fail("a symbol that no argument has");
    guards.dims = dims();
    guards.prepare();
    return guards;
  }
  static bool has_axes(const jit::LeafSpec& leaf) {
    return leaf.kind == jit::LeafKind::tensor || leaf.kind == jit::LeafKind::variable;
  }
  jit::LeafSpec leaf(std::span<const jit::LeafSpec> before) {
    jit::LeafSpec leaf;
    leaf.kind = static_cast<jit::LeafKind>(from_.byte_up_to(3, "the kind of an argument"));
    if (leaf.kind == jit::LeafKind::fixed) leaf.fixed = from_.integer();
    if (leaf.kind == jit::LeafKind::scalar)
      leaf.number_kind = static_cast<DTypeClass>(from_.byte_up_to(2, "the kind of a number"));
    if (!has_axes(leaf)) return leaf;
    const Type type = from_.type();
    leaf.dtype = type.dtype;
    leaf.device = type.device;
    leaf.rank = static_cast<std::uint8_t>(type.shape.rank());
    leaf.is_sized = type.shape.is_static();
    std::copy(type.shape.begin(), type.shape.end(), leaf.extents.begin());
    leaf.is_dense = from_.flag();
    for (std::size_t axis = 0; axis < leaf.rank; ++axis) {
      leaf.strides[axis] = from_.integer();
      if (!leaf.is_dense) leaf.stride_dims[axis] = from_.dim();
    }
    leaf.same_slot_as = from_.index_or_none(before.size(), "arguments");
    if (leaf.same_slot_as >= 0 &&
        (leaf.kind != jit::LeafKind::variable || before[as_index(leaf.same_slot_as)].kind != jit::LeafKind::variable))
      from_.fail("an argument is to be the same Variable as another, which is none");
    return leaf;
  }
  std::vector<jit::DimGuard> dims() {
    std::vector<jit::DimGuard> dims;
    for (std::size_t left = from_.count(); left > 0; --left) {
      jit::DimGuard& guard = dims.emplace_back();
      guard.relation = static_cast<DimRelation>(from_.byte_up_to(2, "a relation"));
      guard.lhs = from_.dim();
      guard.rhs = from_.dim();
      guard.outcome = from_.flag();
      guard.op = from_.text();
      guard.where = from_.where();
      if (guard.relation == DimRelation::less || !guard.outcome) continue;
      if (guard.lhs.as_symbol() < 0 || guard.rhs.as_symbol() < 0) continue;
      guard.left = static_cast<std::int32_t>(guard.lhs.as_symbol());
      guard.right = static_cast<std::int32_t>(guard.rhs.as_symbol());
    }
    return dims;
  }

  // Steps

  void step(jit::SavedVersion& version, std::size_t number, std::size_t steps) {
    jit::SavedStep& step = version.steps[number];
    step.graph = graphs();
    check_tokens(step.graph);
    step.inputs.resize(from_.count());
    if (step.inputs.size() != step.graph.inputs().size()) from_.fail("a graph with inputs that come from nowhere");
    const auto& leaves = version.guards.leaves;
    for (jit::SavedStep::Input& input : step.inputs) {
      using From = jit::SavedStep::Input::From;
      input.from = static_cast<From>(from_.byte_up_to(2, "the source of an input"));
      const std::size_t limit = input.from == From::leaf       ? leaves.size()
                                : input.from == From::variable ? variables_.size()
                                                               : std::size_t{1} << 30;
      input.index = from_.index(limit, "sources of inputs");
      if (input.from == From::leaf && leaves[as_index(input.index)].kind == jit::LeafKind::fixed)
        from_.fail("an input that is a static value");
    }
    step.dims = dims();
    step.is_end = from_.flag();
    if (step.is_end) return end(step, leaves);
    step.places.resize(from_.count());
    for (std::int32_t& place : step.places) place = from_.index(std::size_t{1} << 30, "places");
    const auto outputs = step.graph.outputs();
    if (outputs.size() != step.places.size() + 1) from_.fail("a graph with outputs that go nowhere");
    const Shape& read = step.graph.type(outputs[0]).shape;
    if (!read.is_static() || read.numel().value() != 1) from_.fail("a value of several elements is read");
    step.op = std::string(from_.text());
    step.where = from_.where();
    step.children.resize(from_.count());
    for (jit::SavedStep::Child& child : step.children) {
      child.outcome = from_.word();
      child.step = from_.index(steps, "steps");
      if (as_index(child.step) <= number) from_.fail("a step that comes after itself");
    }
  }
  void end(jit::SavedStep& step, std::span<const jit::LeafSpec> leaves) {
    step.results = from_.count();
    step.assignments.resize(from_.count());
    if (step.graph.outputs().size() != step.results + step.assignments.size())
      from_.fail("a graph with outputs that go nowhere");
    for (jit::SavedStep::Assignment& assignment : step.assignments) {
      assignment.leaf = from_.index_or_none(leaves.size(), "arguments");
      assignment.variable = from_.index_or_none(variables_.size(), "Variables");
      if ((assignment.leaf >= 0) == (assignment.variable >= 0) ||
          (assignment.leaf >= 0 && leaves[as_index(assignment.leaf)].kind != jit::LeafKind::variable))
        from_.fail("a value is assigned to what is no Variable");
    }
    step.shape.resize(from_.count());
    std::size_t values = 0;
    for (jit::SavedPart& part : step.shape) {
      part.kind = static_cast<jit::SavedPart::Kind>(from_.byte_up_to(2, "the kind of a part"));
      if (part.kind == jit::SavedPart::Kind::fixed) part.number = from_.integer();
      if (part.kind == jit::SavedPart::Kind::extent) part.extent = from_.dim();
      values += part.kind == jit::SavedPart::Kind::value;
    }
    if (values != step.results) from_.fail("a result with more or fewer values than its graph gives");
  }

  /// Where effects are recorded again there are no tokens but those that recording makes: none may be used as a value.
  void check_tokens(const Graph& graph) {
    const auto is_token = [&](Value v) {
      const Node& node = graph.node(v);
      return node.op->kind == OpKind::effect && as_index(v.result) + 1 == node.types.size();
    };
    for (const Node& node : graph.nodes()) {
      const std::size_t values = node.inputs.size() - (node.op->kind == OpKind::effect && !node.inputs.empty() ? 1 : 0);
      for (std::size_t i = 0; i < values; ++i)
        if (is_token(node.inputs[i])) from_.fail("the token of an effect is used as a value");
    }
    for (Value v : graph.outputs())
      if (is_token(v)) from_.fail("the token of an effect is used as a value");
  }

  /// Each step but the first comes after one other, and what is carried to it was made on the way.
  void check_tree(const jit::SavedVersion& version) {
    struct Visit {
      std::size_t step, next_child;
    };
    std::vector<std::uint8_t> is_reached(version.steps.size(), 0);
    std::unordered_map<std::int32_t, int> carried;
    const auto enter = [&](std::size_t number) {
      if (std::exchange(is_reached[number], 1) != 0) from_.fail("a step that comes after two others");
      for (const jit::SavedStep::Input& input : version.steps[number].inputs)
        if (input.from == jit::SavedStep::Input::From::carried && carried[input.index] == 0)
          from_.fail("a step takes a value that none before it makes");
      for (const std::int32_t place : version.steps[number].places) ++carried[place];
    };
    std::vector<Visit> path;
    enter(0);
    path.push_back({0, 0});
    while (!path.empty()) {
      const jit::SavedStep& step = version.steps[path.back().step];
      if (path.back().next_child == step.children.size()) {
        for (const std::int32_t place : step.places) --carried[place];
        path.pop_back();
        continue;
      }
      const auto child = as_index(step.children[path.back().next_child++].step);
      enter(child);
      path.push_back({child, 0});
    }
    if (std::find(is_reached.begin(), is_reached.end(), 0) != is_reached.end()) from_.fail("a step that none comes to");
  }

  // Graphs

  struct Body {
    std::shared_ptr<const Graph> graph;
    int depth = 1;            // of sub-graphs
    std::uint64_t nodes = 0;  // with those of sub-graphs, each time
  };

  Graph graphs() {
    std::vector<Body> bodies;
    for (std::size_t left = from_.count(); left > 0; --left) {
      Body body;
      body.graph = std::make_shared<const Graph>(one_graph(bodies, body));
      bodies.push_back(std::move(body));
    }
    Body main;
    return one_graph(bodies, main);
  }
  Graph one_graph(std::span<const Body> bodies, Body& measured) {
    GraphBuilder builder;
    for (std::size_t left = from_.count(); left > 0; --left) {
      node(builder, bodies, measured);
      constexpr std::uint64_t most_nodes = std::uint64_t{1} << 24;
      if (++measured.nodes > most_nodes) from_.fail("a graph of more than 2^24 nodes");
    }
    const std::vector<Value> outputs = values(builder);
    return builder.finish(outputs);
  }
  std::vector<Value> values(const GraphBuilder& builder) {
    const auto& nodes = builder.graph().nodes();
    std::vector<Value> values(from_.count());
    for (Value& value : values) {
      value.node = from_.index(nodes.size(), "nodes");
      value.result = from_.index(nodes[as_index(value.node)].types.size(), "results");
    }
    return values;
  }

  void node(GraphBuilder& builder, std::span<const Body> bodies, Body& measured) {
    const std::string_view name = from_.text();
    const Location where = from_.where();
    const OpInfo* op = jit::jit_detail::op_named(name);
    if (op == nullptr) from_.fail("there is no op '" + std::string(name) + "' in this version of Sinter");
    if (op == &graph_detail::constant_op()) {
      builder.constant(weights_.value(from_.index(weights_.size(), "weights")), where);
      return;
    }
    if (op == &graph_detail::input_op()) {
      const Type type = from_.type();
      builder.input(type, std::string(from_.text()), where);
      return;
    }
    const std::vector<Value> inputs = values(builder);
    TypeList types;
    for (std::size_t left = from_.count(); left > 0; --left) types.push_back(from_.type());
    Attrs attrs = attributes(*op);
    for (std::size_t left = from_.count(); left > 0; --left) attrs.types.push_back(from_.type());
    payload(*op, inputs.size(), attrs, where);
    for (std::size_t left = from_.count(); left > 0; --left) {
      if (op->bodies.empty()) from_.fail(std::string(name) + " has no sub-graphs");
      const Body& body = bodies[as_index(from_.index(bodies.size(), "sub-graphs"))];
      attrs.bodies.push_back(body.graph);
      measured.nodes += body.nodes;
      measured.depth = std::max(measured.depth, body.depth + 1);
      if (measured.depth > 64) from_.fail("sub-graphs nested too deeply");
    }
    add(builder, *op, inputs, std::move(attrs), std::move(types), where);
  }

  void payload(const OpInfo& op, std::size_t operands, Attrs& attrs, Location where) {
    const std::string_view name = from_.text();
    if (name.empty() == jit::jit_detail::takes_payload(op))
      from_.fail("a function where " + std::string(op.name) + " has none, or none");
    if (name.empty()) return;
    const bool has_token = op.kind == OpKind::effect && operands > 0;
    attrs.payload = jit::jit_detail::payload_of(op, name, operands - has_token);
    if (attrs.payload == nullptr)
      throw UserError("load",
                      "the function calls the " + std::string(name) +
                          (where.file != nullptr ? " at " + where.text() : "") + ", and this program has none",
                      where, "register it before: jit::register_callback(\"name\", fn), or make the jit::custom_op");
  }

  /// By the op's own rule, as where it is recorded. With symbols that rule asks what only a running trace can answer:
  /// there the types are taken as they stand, for calls record every node anew.
  void add(GraphBuilder& builder, const OpInfo& op, std::span<const Value> inputs, Attrs attrs, TypeList types,
           Location where) {
    SmallVector<Type, 4> in;
    for (Value v : inputs) in.push_back(builder.type(v));
    if (!jit::jit_detail::is_message_whole(op, attrs, {in.data(), in.size()}))
      from_.fail("a message with other places than values");
    if (types.empty()) from_.fail("a node without a result");
    check_operands(op, inputs, builder);
    if (!has_symbols({in.data(), in.size()}, attrs, types))
      check_types(op, {in.data(), in.size()}, attrs, types, where);
    builder.add_typed(op, inputs, std::move(attrs), std::move(types), where);
  }
  /// As many as the op takes; an effect comes after another one, whose token is its last operand.
  void check_operands(const OpInfo& op, std::span<const Value> inputs, const GraphBuilder& builder) {
    if (op.arity >= 0 && inputs.size() != as_index(op.arity))
      from_.fail(std::string(op.name) + " with " + std::to_string(inputs.size()) + " operands");
    if (op.kind == OpKind::effect && (inputs.empty() || !identical(builder.type(inputs.back()).shape, Shape()) ||
                                      builder.type(inputs.back()).dtype != DType::bool_))
      from_.fail("an effect without a token");
  }
  static bool has_symbols(std::span<const Type> in, const Attrs& attrs, const TypeList& types) {
    bool is_static = true;
    const auto note = [&](const Shape& shape) { is_static = is_static && shape.is_static(); };
    for (const Type& type : in) note(type.shape);
    for (const Type& type : types) note(type.shape);
    for (const Type& type : attrs.types) note(type.shape);
    for_each_shape(attrs, note);
    return !is_static || !attrs.bodies.empty();  // bodies may use symbols of their graph
  }
  void check_types(const OpInfo& op, std::span<const Type> in, const Attrs& attrs, const TypeList& types,
                   Location where) {
    TypeList found;
    try {
      found = graph_detail::infer_types(op, in, attrs, where);
    } catch (const Error& error) { from_.fail(error.what()); }
    bool fits = found.size() == types.size();
    for (std::size_t r = 0; fits && r < types.size(); ++r) fits = same_but_device(found[r], types[r]);
    if (!fits) from_.fail("the types of " + std::string(op.name) + " are not those that its operands make");
  }

  // Attributes

  Attrs attributes(const OpInfo& op) {
    Attrs attrs;
    for (std::size_t left = from_.count(); left > 0; --left) {
      const std::string_view name = from_.text();
      const AttrInfo* info = op.find_attribute(name);
      if (info == nullptr) from_.fail(std::string(op.name) + " has no attribute '" + std::string(name) + "'");
      attribute(attrs, *info);
    }
    return attrs;
  }
  IntVector integers() {
    IntVector list;
    for (std::size_t left = from_.count(); left > 0; --left) list.push_back(from_.integer());
    return list;
  }
  void attribute(Attrs& attrs, const AttrInfo& info) {
    const auto set = [&](std::int64_t bits) { attrs.own.numbers[info.place] = bits ^ info.fallback; };
    switch (info.kind) {
      case AttrKind::axes:
        attrs.axes = integers();
        for (const std::int64_t axis : attrs.axes)
          if (axis < 0 || axis >= max_rank) from_.fail("axis " + std::to_string(axis));
        break;
      case AttrKind::shape: attrs.shape = from_.shape(); break;
      case AttrKind::value: attrs.value = std::bit_cast<double>(from_.word()); break;
      case AttrKind::integer: attrs.integer = from_.integer(); break;
      case AttrKind::dtype:
        attrs.dtype = from_.dtype();
        attrs.has_dtype = true;
        break;
      case AttrKind::device: attrs.device = from_.device(); break;
      case AttrKind::keep_dims: attrs.keepdim = true; break;
      case AttrKind::data: attrs.constant = weights_.value(from_.index(weights_.size(), "weights")); break;
      case AttrKind::number: set(from_.integer()); break;
      case AttrKind::real: set(static_cast<std::int64_t>(from_.word())); break;
      case AttrKind::flag: set(1); break;
      case AttrKind::choice: {
        const std::int64_t choice = info.choice_of(from_.text());
        if (choice < 0) from_.fail("'" + std::string(info.name) + "' has a value that has no name");
        set(choice);
        break;
      }
      case AttrKind::list: attrs.own.lists[info.place] = integers(); break;
      case AttrKind::extents: attrs.own.shapes[info.place] = from_.shape(); break;
      case AttrKind::extent: attrs.own.shapes[info.place] = from_.shape(); break;
      case AttrKind::text: attrs.own.text = std::string(from_.text()); break;
    }
  }

  ByteReader& from_;
  WeightReader& weights_;
  std::span<const jit::SavedVariable> variables_;
  bool has_tuning_ = false;  // what was measured follows the options
};

inline void read_variables(ByteReader& from, WeightReader& weights, ReadFunctions& out) {
  using Role = VariableSlot::PerThreadRole;
  auto& variables = out.bundle.variables;
  variables.resize(from.count());
  out.values.resize(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) {
    jit::SavedVariable& variable = variables[i];
    variable.name = std::string(from.text());
    variable.role = static_cast<Role>(from.byte_up_to(2, "the role of a Variable"));
    variable.requires_grad = from.flag();
    variable.gradient_of = from.index_or_none(variables.size(), "Variables");
    if (variable.role != Role::none) continue;
    const std::int32_t value = from.index(weights.size(), "weights");
    if (variable.requires_grad && !is_floating(weights.type(value).dtype))
      from.fail("a gradient of whole numbers is required");
    out.values[i] = Tensor(variable.gradient_of < 0 ? weights.value_of(variable.name, value) : weights.value(value));
  }
  for (const jit::SavedVariable& variable : variables) {
    if (variable.gradient_of < 0) continue;
    const jit::SavedVariable& of = variables[as_index(variable.gradient_of)];
    if (variable.role != Role::none || of.role != Role::none || of.gradient_of >= 0)
      from.fail("a Variable is the gradient of one that has none");
    const auto at = static_cast<std::size_t>(&variable - variables.data());
    if (!identical(out.values[at].impl()->type, out.values[as_index(variable.gradient_of)].impl()->type))
      from.fail("a gradient of another type than its Variable");
  }
}

/// Takes the code behind the weights where this build wrote it.
inline void read_code(const Source& source, std::uint64_t begin, std::uint64_t size) {
  const auto say = [&](const char* what) {
    if (is_logged("cache")) note("cache", source.file->path() + ": " + what);
  };
  if (size == 0) return say("it has no code: save it with .code");
  const std::string_view part = source.text(begin, size);
  const auto fail = [&](std::uint64_t at, const char* what) {
    source.fail(begin + at, what, "save it again, or load it without trust_code");
  };
  if (size < 8 || read_number(part, 0, 8) != checksum(std::as_bytes(std::span(part.data(), part.size())).subspan(8)))
    fail(0, "the checksum of the code does not fit");
  std::uint64_t at = 8;
  const auto number = [&] {
    if (part.size() - at < 8) fail(at, "code that is cut short");
    return read_number(part, std::exchange(at, at + 8), 8);
  };
  const auto text = [&] {
    const std::uint64_t length = number();
    if (length > part.size() - at) fail(at, "code that is cut short");
    return part.substr(std::exchange(at, at + length), length);
  };
  const std::string version = runtime_detail::program_version();
  const std::string_view of = text();
  if (version.empty()) return say("its code is not used: this system does not tell which build runs");
  if (of != version) return say("its code is of another build, and is not used");
  std::vector<runtime_detail::CodeEntry> entries;
  for (std::uint64_t left = number(); left > 0; --left) {
    const std::string_view key = text(), value = text();
    entries.push_back({std::string(key), std::string(value)});
  }
  if (at != part.size()) fail(at, "more than the code that was announced");
  runtime_detail::trust_code(std::move(entries));
}

SINTER_DECL ReadFunctions read_functions(const std::string& path, const ReadChoices& choices, Location where) {
  Source source{MappedFile::open(path, "load", where), "load", where};
  const std::string_view head = source.text(0, std::min<std::uint64_t>(function_head, source.size()));
  if (!head.starts_with(function_magic))
    source.fail(0, "this is no file of jit::save", "weights alone are read by io::load_safetensors and the like");
  if (head.size() < function_head) source.fail(head.size(), "the file is cut short", "save it again");
  const auto word = [&](std::size_t i) { return read_number(head, 8 * i, 8); };
  if (word(7) != checksum(std::as_bytes(std::span(head.data(), 56))))
    source.fail(0, "the checksum of the head does not fit", "the file is damaged: save it again");
  if (word(1) != function_format)
    source.fail(8,
                "format " + std::to_string(word(1)) + "; this version of Sinter reads format " +
                    std::to_string(function_format),
                "save it again with this version, or load it with the one that wrote it");
  const std::string_view program = source.text(function_head, word(2));
  if (word(4) % weight_alignment != 0 || word(4) < function_head + word(2))
    source.fail(32, "weights at byte " + std::to_string(word(4)));
  static_cast<void>(source.text(word(4), word(5)));
  if (word(3) != checksum(std::as_bytes(std::span(program.data(), program.size()))))
    source.fail(function_head, "the checksum of the program does not fit", "the file is damaged: save it again");
  ByteReader from(std::as_bytes(std::span(program.data(), program.size())), path, function_head, where);
  from.text();  // the version that wrote it, for people
  std::string stored(from.text());
  WeightReader weights(source, word(4), word(5), choices);
  weights.read_table(from, std::move(stored));
  ReadFunctions out;
  read_variables(from, weights, out);
  for (std::size_t left = from.count(); left > 0; --left)
    out.bundle.functions.push_back(FunctionReader(from, weights, out.bundle.variables).function());
  if (!from.at_end()) from.fail("more than the functions that were announced");
  weights.check_chosen();
  if (choices.trusts_code) read_code(source, word(4) + word(5), word(6));
  return out;
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
