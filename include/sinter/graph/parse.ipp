// The parser: recursive descent over the words that the lexer gives.
#pragma once

#include <sinter/graph/parse.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/lexer.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <unordered_map>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

inline constexpr std::int64_t largest_text_extent = std::int64_t{1} << 48;
inline constexpr std::int64_t largest_text_symbol = 4095;
inline constexpr int deepest_text_nesting = 64;

/// A Dim, and a bound on its coefficients: Dim arithmetic does not check for overflow, so the parser must.
struct BoundedDim {
  Dim dim;
  double bound = 0;
};

class GraphParser {
 public:
  GraphParser(Lexer& lexer, int depth) : lexer_(lexer), depth_(depth) {}

  Graph graph() {
    if (!lexer_.accept_word("graph")) lexer_.fail("expected 'graph'");
    lexer_.expect('(');
    if (!lexer_.accept(')')) {
      do parameter();
      while (lexer_.accept(','));
      lexer_.expect(')');
    }
    lexer_.expect('{');
    while (lexer_.peek() == '%' || lexer_.peek_word() == "symbol") lexer_.peek() == '%' ? statement() : symbol();
    if (!lexer_.accept_word("return")) lexer_.fail("expected a node or 'return'");
    std::vector<Value> outputs;
    if (lexer_.peek() != '}') {
      do {
        const std::size_t position = lexer_.position();
        const Operand output = operand();
        if (!output.value) lexer_.fail_at(position, "a number alone is no output");
        outputs.push_back(output.value);
      } while (lexer_.accept(','));
    }
    lexer_.expect('}');
    note_symbols();
    return builder_.finish(outputs);
  }

  /// What the text gives of the attributes that the op declares.
  Attrs attributes(const OpInfo& op) {
    Attrs attrs;
    if (!lexer_.accept('{') || lexer_.accept('}')) return attrs;
    std::uint32_t given = 0;
    do {
      const std::size_t position = lexer_.position();
      const std::string_view name = lexer_.word("an attribute");
      const AttrInfo* info = op.find_attribute(name);
      if (info == nullptr) lexer_.fail_at(position, no_such_attribute(op, name));
      const std::uint32_t bit = 1u << (info - op.attributes.data());
      if ((given & bit) != 0) lexer_.fail_at(position, "'" + std::string(name) + "' is given twice");
      given |= bit;
      attribute(attrs, op, *info);
    } while (lexer_.accept(','));
    lexer_.expect('}');
    return attrs;
  }

  bool has_symbols() { return !builder_.symbols().empty(); }

 private:
  struct Operand {
    Value value;           // none: a number
    bool is_real = false;  // a number that is not whole, or beyond i64
    double real = 0;       // of whole numbers too: -0 is a floating number, and no integer
    std::int64_t integer = 0;
  };

  struct Nesting {
    GraphParser& parser;
    explicit Nesting(GraphParser& p) : parser(p) {
      if (++parser.depth_ > deepest_text_nesting) parser.lexer_.fail("nested too deeply");
    }
    ~Nesting() { --parser.depth_; }
  };

  // Names and types

  std::string_view label() {
    lexer_.expect('%');
    return lexer_.word("a label after '%'");
  }
  void define(std::string_view name, std::int32_t node, std::size_t position) {
    if (!labels_.emplace(std::string(name), node).second)
      lexer_.fail_at(position, "%" + std::string(name) + " is defined twice");
  }

  DType dtype() {
    const std::size_t position = lexer_.position();
    const std::string_view found = lexer_.word("a dtype");
    for (int i = 0; i < dtype_count; ++i)
      if (dtype_rows[as_index(i)].name == found) return static_cast<DType>(i);
    lexer_.fail_at(position, "'" + std::string(found) + "' is no dtype");
  }

  Type type() {
    Type out;
    out.dtype = dtype();
    out.shape = shape();
    if (lexer_.accept('@')) out.device = device();
    return out;
  }

  Device device() {
    const std::size_t position = lexer_.position();
    const std::string_view kind = lexer_.word("a device");
    if (kind == "cuda") {
      lexer_.expect(':');
      return Device::cuda(static_cast<int>(lexer_.integer(255)) & 255);
    }
    if (kind != "cpu") lexer_.fail_at(position, "'" + std::string(kind) + "' is no device");
    return Device::cpu();
  }

  Shape shape() {
    Shape out;
    lexer_.expect('[');
    if (lexer_.accept(']')) return out;
    do {
      const std::size_t position = lexer_.position();
      const Dim next = extent();
      if (out.rank() == max_rank) lexer_.fail_at(position, "the rank is above " + std::to_string(max_rank));
      out.push_back(next);
    } while (lexer_.accept(','));
    lexer_.expect(']');
    return out;
  }

  Dim extent() {
    const std::size_t position = lexer_.position();
    const Dim out = dim().dim;
    if (out.is_static() && out.value() < 0) lexer_.fail_at(position, "an extent is negative");
    return out;
  }

  // Extents: sums of products of numbers, symbols, floordiv(a, b) and mod(a, b)

  BoundedDim checked(BoundedDim d) {
    if (d.bound > static_cast<double>(largest_text_extent)) lexer_.fail("the extent is too large");
    return d;
  }

  BoundedDim dim() {
    Nesting nesting(*this);
    BoundedDim sum;
    bool negative = lexer_.accept('-');
    while (true) {
      BoundedDim term = product();
      checked({{}, sum.bound + term.bound});
      sum = {negative ? sum.dim - term.dim : sum.dim + term.dim, sum.bound + term.bound};
      if (lexer_.accept('+')) negative = false;
      else if (lexer_.accept('-')) negative = true;
      else return sum;
    }
  }

  BoundedDim product() {
    BoundedDim out = factor();
    int factors = 1;
    while (lexer_.accept('*')) {
      if (++factors > 16) lexer_.fail("a product of too many factors");
      const BoundedDim next = factor();
      checked({{}, out.bound * next.bound});
      out = {out.dim * next.dim, out.bound * next.bound};
    }
    return out;
  }

  BoundedDim factor() {
    const std::size_t position = lexer_.position();
    const std::string_view word = lexer_.peek_word();
    if (!word.empty() && Lexer::is_digit(word[0])) {
      const std::int64_t value = lexer_.integer(largest_text_extent);
      return {Dim(value), static_cast<double>(value)};
    }
    if (word == "floordiv" || word == "mod") return quotient(word == "floordiv");
    if (word.size() > 1 && word[0] == 's' && Lexer::is_digit(word[1])) return {Dim::symbol(symbol_id()), 1};
    lexer_.fail_at(position, "expected an extent: a number, a symbol (s0), floordiv or mod");
  }

  BoundedDim quotient(bool is_quotient) {
    const std::size_t position = lexer_.position();
    lexer_.word("floordiv or mod");
    lexer_.expect('(');
    const BoundedDim a = dim();
    lexer_.expect(',');
    const BoundedDim b = dim();
    lexer_.expect(')');
    if (b.dim.is_static() && b.dim.value() <= 0) lexer_.fail_at(position, "the divisor must be positive");
    return {is_quotient ? a.dim / b.dim : a.dim % b.dim, std::max({a.bound, b.bound, 1.0})};
  }

  /// Inferred extents keep to the same bounds, so that what parses prints as text that parses.
  void check_extent(Dim extent, std::size_t position) {
    if (extent.is_static() && extent.value() <= largest_text_extent) return;
    if (extent.is_static()) lexer_.fail_at(position, "the extent " + extent.text() + " is too large");
    if (extent.as_symbol() >= 0) return;
    const std::string text = extent.text();
    Lexer lexer(text);
    try {
      GraphParser(lexer, depth_).dim();
    } catch (const UserError&) { lexer_.fail_at(position, "the extent " + text + " is too large"); }
  }

  SymbolId symbol_id() {
    const std::size_t position = lexer_.position();
    const std::string_view word = lexer_.word("a symbol");
    std::int64_t id = -1;
    const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), id);
    if (word[0] != 's' || error != std::errc() || end != word.data() + word.size() || id < 0 ||
        id > largest_text_symbol)
      lexer_.fail_at(position, "'" + std::string(word) + "' is no symbol; symbols are s0 to s" +
                                   std::to_string(largest_text_symbol));
    auto& symbols = builder_.symbols();
    if (symbols.size() <= as_index(id)) symbols.resize(as_index(id) + 1);
    return static_cast<SymbolId>(id);
  }

  /// `symbol s0 {hint=32, min=2, max=64}`: what differs from the defaults.
  void symbol() {
    lexer_.accept_word("symbol");
    const SymbolId id = symbol_id();
    if (stated_.size() <= id) stated_.resize(id + 1);
    if (!lexer_.accept('{')) return;
    SymbolInfo& info = builder_.symbols()[id];
    do {
      const std::size_t position = lexer_.position();
      const std::string_view field = lexer_.word("a field of the symbol");
      lexer_.expect('=');
      const std::int64_t value = lexer_.integer(std::numeric_limits<std::int64_t>::max());
      if (field == "input") {
        info.input = static_cast<std::int32_t>(value);
        stated_[id] |= 1;
      } else if (field == "axis") {
        info.axis = static_cast<std::int32_t>(value);
        stated_[id] |= 2;
      } else if (field == "hint") info.hint = value;
      else if (field == "min") info.min = value;
      else if (field == "max") info.max = value;
      else lexer_.fail_at(position, "a symbol has no field '" + std::string(field) + "'");
    } while (lexer_.accept(','));
    lexer_.expect('}');
  }

  /// Each symbol is found in the first input that has an axis of exactly that extent, unless the text says otherwise.
  void note_symbols() {
    auto& symbols = builder_.symbols();
    stated_.resize(symbols.size());
    std::vector<bool> is_found(symbols.size());
    const Graph& graph = builder_.graph();
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      const Shape& shape = graph.type(graph.inputs()[i]).shape;
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const std::int64_t id = shape[axis].as_symbol();
        if (id < 0 || is_found[as_index(id)]) continue;
        const auto s = as_index(id);
        is_found[s] = true;
        if ((stated_[s] & 1) == 0) symbols[s].input = static_cast<std::int32_t>(i);
        if ((stated_[s] & 2) == 0) symbols[s].axis = axis;
      }
    }
  }

  // Attributes

  static std::string no_such_attribute(const OpInfo& op, std::string_view name) {
    std::string out = std::string(op.name) + " has no attribute '" + std::string(name) + "'";
    for (const AttrInfo& info : op.attributes)
      out += (&info == op.attributes.data() ? "; it has " : ", ") + std::string(info.name);
    return out;
  }

  /// Whether what comes next can be a value of the attribute at all.
  bool begins_value(const AttrInfo& info) {
    const char next = lexer_.peek();
    const std::string_view word = lexer_.peek_word();
    const bool is_number = next == '-' || Lexer::is_digit(next);
    switch (info.kind) {
      case AttrKind::axes:
      case AttrKind::list:
      case AttrKind::shape:
      case AttrKind::extents:
      case AttrKind::data: return next == '[';
      case AttrKind::value:
      case AttrKind::real: return is_number || word == "inf" || word == "nan";
      case AttrKind::integer:
      case AttrKind::number: return is_number && !lexer_.number_is_real();
      case AttrKind::extent: return is_number || !word.empty();
      case AttrKind::text: return next == '"';
      case AttrKind::choice: return info.choice_of(word) >= 0;
      case AttrKind::dtype:
      case AttrKind::device: return Lexer::is_name_start(next);
      case AttrKind::keep_dims:
      case AttrKind::flag: break;
    }
    return false;
  }

  void attribute(Attrs& attrs, const OpInfo& op, const AttrInfo& info) {
    const bool is_flag = info.kind == AttrKind::keep_dims || info.kind == AttrKind::flag;
    if (is_flag ? lexer_.peek() == '=' : !lexer_.accept('=') || !begins_value(info))
      lexer_.fail("'" + std::string(info.name) + "' of " + std::string(op.name) + " is " + attribute_description(info));
    const auto set = [&](std::int64_t bits) { attrs.own.numbers[info.place] = bits ^ info.fallback; };
    switch (info.kind) {
      case AttrKind::axes: attrs.axes = integers(); break;
      case AttrKind::shape: attrs.shape = shape(); break;
      case AttrKind::value: attrs.value = lexer_.real(); break;
      case AttrKind::integer: attrs.integer = lexer_.integer(std::numeric_limits<std::int64_t>::max()); break;
      case AttrKind::dtype:
        attrs.dtype = dtype();
        attrs.has_dtype = true;
        break;
      case AttrKind::device: attrs.device = device(); break;
      case AttrKind::keep_dims: attrs.keepdim = true; break;
      case AttrKind::data: data(); break;
      case AttrKind::number: set(lexer_.integer(std::numeric_limits<std::int64_t>::max())); break;
      case AttrKind::real: set(std::bit_cast<std::int64_t>(lexer_.real())); break;
      case AttrKind::flag: set(1); break;
      case AttrKind::choice: set(info.choice_of(lexer_.word("a choice"))); break;
      case AttrKind::list: attrs.own.lists[info.place] = integers(); break;
      case AttrKind::extents: attrs.own.shapes[info.place] = shape(); break;
      case AttrKind::extent: attrs.own.shapes[info.place] = Shape{extent()}; break;
      case AttrKind::text: attrs.own.text = lexer_.string(); break;
    }
  }

  IntVector integers() {
    IntVector out;
    lexer_.expect('[');
    if (lexer_.accept(']')) return out;
    do out.push_back(lexer_.integer(largest_text_extent));
    while (lexer_.accept(','));
    lexer_.expect(']');
    return out;
  }

  /// Keeps the elements as they are written, until the type is known.
  void data() {
    data_.clear();
    has_data_ = true;
    lexer_.expect('[');
    if (lexer_.accept(']')) return;
    do {
      Operand element;
      if (lexer_.accept_word("true")) {
        element.integer = 1;
        element.real = 1;
      } else if (!lexer_.accept_word("false")) element = number();
      data_.push_back(element);
    } while (lexer_.accept(','));
    lexer_.expect(']');
  }

  Ref<TensorImpl> constant_of(const Type& type, std::size_t position) {
    if (!has_data_) lexer_.fail_at(position, "the data of the constant were left out of the text");
    const std::int64_t parts = is_complex(type.dtype) ? 2 : 1;  // real and imaginary ones follow each other
    if (!type.shape.is_static() || type.shape.numel().value() * parts != static_cast<std::int64_t>(data_.size()))
      lexer_.fail_at(position, type.text() + " does not have " + std::to_string(data_.size()) + " elements");
    if (type.device != Device::cpu()) lexer_.fail_at(position, "a constant of a text is on the CPU");
    auto storage = Storage::allocate(data_.size() * as_index(size_of(real_part_of(type.dtype))));
    auto* bytes = static_cast<char*>(storage->data());
    for (const Operand& element : data_)
      visit_dtype(real_part_of(type.dtype), [&](auto zero) {
        using T = decltype(zero);
        if (element.is_real && !FloatingElement<T>)
          lexer_.fail_at(position, "an element of " + type.text() + " is not whole");
        T value;
        if constexpr (std::is_floating_point_v<T>) value = static_cast<T>(element.real);
        else if constexpr (FloatingElement<T>) value = T(static_cast<float>(element.real));
        else value = static_cast<T>(element.integer);
        if constexpr (!FloatingElement<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, std::uint64_t>)
          if (value != element.integer)
            lexer_.fail_at(
                position, std::to_string(element.integer) + " is out of the range of " + std::string(name(type.dtype)));
        std::memcpy(bytes, &value, sizeof value);
        bytes += sizeof value;
      });
    has_data_ = false;
    return TensorImpl::make_ready(type, std::move(storage));
  }

  // Nodes

  void parameter() {
    const std::size_t position = lexer_.position();
    const std::string_view name = label();
    lexer_.expect(':');
    const Type of = type();
    const Attrs attrs = attributes(input_op());
    define(name, builder_.input(of, attrs[input_name]).node, position);
  }

  void statement() {
    const std::size_t position = lexer_.position();
    const std::string_view name = label();
    TypeList written;
    if (lexer_.accept(':')) {
      do written.push_back(type());
      while (lexer_.accept(','));
    }
    lexer_.expect('=');
    const Value made = call(written);
    define(name, made.node, position);
  }

  Operand number() {
    Operand out;
    out.is_real = lexer_.number_is_real() || !lexer_.is_integer(out.integer);
    out.real = lexer_.real();
    return out;
  }

  Operand operand() {
    Nesting nesting(*this);
    if (lexer_.peek() != '%') {
      const std::string_view word = lexer_.peek_word();
      if (lexer_.peek() == '-' || word == "inf" || word == "nan" || (!word.empty() && Lexer::is_digit(word[0])))
        return number();
      Operand out;
      out.value = call({});
      return out;
    }
    const std::size_t position = lexer_.position();
    const std::string_view name = label();
    const auto found = labels_.find(std::string(name));
    if (found == labels_.end()) lexer_.fail_at(position, "%" + std::string(name) + " is not defined");
    Operand out;
    out.value = {found->second, 0};
    const std::size_t results = builder_.node(out.value).types.size();
    if (lexer_.accept('.')) out.value.result = static_cast<std::int32_t>(lexer_.integer(1 << 20));
    if (out.value.result < 0 || as_index(out.value.result) >= results)
      lexer_.fail_at(position, "%" + std::string(name) + " has no result " + std::to_string(out.value.result));
    return out;
  }

  /// A number among the operands becomes a rank-0 `full`.
  Value literal(const Operand& number, std::span<const Operand> operands, std::size_t position) {
    Attrs attrs;
    attrs.has_dtype = true;
    attrs.dtype = number.is_real ? DType::f32 : DType::i64;
    for (auto it = operands.rbegin(); it != operands.rend();
         ++it)  // not the condition of a select: the last one decides
      if (it->value) {
        attrs.dtype = builder_.type(it->value).dtype;
        break;
      }
    if (is_floating(attrs.dtype)) attrs.value = number.real;
    else if (number.is_real)
      lexer_.fail_at(position, "a floating number among operands of dtype " + std::string(name_of(attrs.dtype)));
    else attrs.integer = number.integer;
    const OpInfo* full = find_op("full");
    ensure(full != nullptr, "the op full is not registered");
    return builder_.add(*full, {}, std::move(attrs));
  }
  static std::string_view name_of(DType dtype) { return name(dtype); }

  Value call(const TypeList& written) {
    const std::size_t position = lexer_.position();
    const std::string_view op_name = lexer_.word("an op");
    const OpInfo* op = find_op(op_name);
    if (op == nullptr) lexer_.fail_at(position, "there is no op '" + std::string(op_name) + "'");
    std::vector<Operand> operands;
    if (lexer_.accept('(') && !lexer_.accept(')')) {
      do operands.push_back(operand());
      while (lexer_.accept(','));
      lexer_.expect(')');
    }
    has_data_ = false;
    Attrs attrs = attributes(*op);
    while (begins_body(*op, attrs.bodies.size())) {
      Nesting nesting(*this);
      attrs.bodies.push_back(std::make_shared<const Graph>(GraphParser(lexer_, depth_).graph()));
    }
    if (lexer_.accept_word("like")) attrs.bodies = builder_.node(operand().value).attrs.bodies;
    if (op == &constant_op()) {
      if (written.size() != 1 || !operands.empty())
        lexer_.fail_at(position, "a constant needs its type and takes no operands");
      return builder_.constant(constant_of(written[0], position));
    }
    if (op->kind == OpKind::leaf)
      lexer_.fail_at(position, "'" + std::string(op_name) + "' stands only in the head of a graph");
    if (op->arity >= 0 && operands.size() != as_index(op->arity))
      lexer_.fail_at(position, std::string(op_name) + " takes " + std::to_string(op->arity) + " operands, not " +
                                   std::to_string(operands.size()));
    return add(*op, operands, std::move(attrs), written, position);
  }

  /// `condition=graph(...)`, or the graph without its name.
  bool begins_body(const OpInfo& op, std::size_t number) {
    const std::size_t position = lexer_.position();
    const std::string_view word = lexer_.peek_word(), name = op.body_name(number);
    const bool is_body = word == "graph" || (!word.empty() && word == name);
    if (is_body && name.empty()) lexer_.fail_at(position, std::string(op.name) + " has no sub-graphs");
    if (!is_body && !name.empty() &&
        (" " + std::string(op.bodies) + " ").find(" " + std::string(word) + " ") != std::string::npos)
      lexer_.fail_at(position, "this sub-graph of " + std::string(op.name) + " is '" + std::string(name) + "', not '" +
                                   std::string(word) + "'");
    if (is_body && lexer_.accept_word(name)) lexer_.expect('=');
    return is_body;
  }

  Value add(const OpInfo& op, std::span<const Operand> operands, Attrs attrs, const TypeList& written,
            std::size_t position) {
    Value made;
    try {
      std::vector<Value> inputs;
      for (const Operand& o : operands) inputs.push_back(o.value ? o.value : literal(o, operands, position));
      made = builder_.add(op, inputs, std::move(attrs));
    } catch (const Error& error) {  // also an InternalError: here it is the text that breaks an op's invariant
      lexer_.fail_at(position, error.what());
    }
    const TypeList& types = builder_.node(made).types;
    for (const Type& type : types)
      for (Dim extent : type.shape.dims()) check_extent(extent, position);
    if (!written.empty() && written.size() != types.size())
      lexer_.fail_at(position, "the node has " + std::to_string(types.size()) + " results");
    for (std::size_t r = 0; r < written.size(); ++r)
      if (!identical(written[r], types[r]))
        lexer_.fail_at(position, "the type is " + types[r].text() + ", not " + written[r].text());
    return made;
  }

  Lexer& lexer_;
  int depth_;
  GraphBuilder builder_;
  std::unordered_map<std::string, std::int32_t> labels_;
  std::vector<std::uint8_t> stated_;  // per symbol: bit 0 input given, bit 1 axis given
  std::vector<Operand> data_;
  bool has_data_ = false;
};

}  // namespace graph_detail

SINTER_DECL std::string attribute_description(const AttrInfo& info) {
  switch (info.kind) {
    case AttrKind::axes:
    case AttrKind::list: return "a list of whole numbers: [0, 1]";
    case AttrKind::shape:
    case AttrKind::extents: return "a list of extents: [4, s0]";
    case AttrKind::extent: return "an extent: 4 or s0";
    case AttrKind::value:
    case AttrKind::real: return "a number";
    case AttrKind::integer:
    case AttrKind::number: return "a whole number";
    case AttrKind::dtype: return "a dtype";
    case AttrKind::device: return "a device: cpu or cuda:0";
    case AttrKind::keep_dims:
    case AttrKind::flag: return "written by its name alone";
    case AttrKind::data: return "a list of elements: [1, 2]";
    case AttrKind::text: return "a string in quotes";
    case AttrKind::choice: break;
  }
  std::string names = "one of " + std::string(info.choices);
  for (std::size_t at = names.find(' ', 7); at != std::string::npos; at = names.find(' ', at + 2))
    names.replace(at, 1, ", ");
  return names;
}

SINTER_DECL Attrs parse_attributes(const OpInfo& op, std::string_view text, Location where) {
  const std::string braced = "{" + std::string(text) + "}";
  try {
    graph_detail::Lexer lexer(braced);
    graph_detail::GraphParser parser(lexer, 0);
    Attrs attrs = parser.attributes(op);
    if (!lexer.at_end()) lexer.fail("expected the end of the attributes");
    if (parser.has_symbols()) lexer.fail_at(0, "extents are numbers here, not symbols");
    return attrs;
  } catch (const UserError& error) {
    throw UserError("call", std::string(op.name) + " with {" + std::string(text) + "}: " + error.what(), where);
  }
}

SINTER_DECL Graph parse_graph(std::string_view text) {
  graph_detail::Lexer lexer(text);
  Graph graph = graph_detail::GraphParser(lexer, 0).graph();
  if (!lexer.at_end()) lexer.fail("expected the end of the text");
  return graph;
}

SINTER_NAMESPACE_END
