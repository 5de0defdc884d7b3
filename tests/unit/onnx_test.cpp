// ONNX: models that onnx.reference was asked about give its numbers, lazily, compiled and on the reference back end;
// what is exported comes back with the same numbers; damaged files are errors, and what cannot be written is one that
// names the line.
#include "catch.hpp"
#include "checks.hpp"
#include "temporary_folder.hpp"

#include <sinter/onnx.hpp>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace sinter;

namespace {
std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
std::vector<std::string> stored_models() {
  const std::string bytes = read_bytes(std::string(SINTER_SOURCE_DIR) + "/tests/unit/onnx_files/cases.bin");
  std::vector<std::string> models;
  for (std::size_t at = 0; at + 4 <= bytes.size();) {
    std::size_t size = 0;
    for (std::size_t i = 0; i < 4; ++i)
      size |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
    models.push_back(bytes.substr(at + 4, size));
    at += 4 + size;
  }
  REQUIRE(models.size() > 100);
  return models;
}

void require_close(const Tensor& found, const Tensor& wanted) {
  REQUIRE(found.dtype() == wanted.dtype());
  REQUIRE(found.shape().text() == wanted.shape().text());
  const auto x = to_vector<double>(found.to(DType::f64)), y = to_vector<double>(wanted.to(DType::f64));
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(i, x[i], y[i]);
    REQUIRE(std::abs(x[i] - y[i]) <= 2e-5 * (1 + std::abs(y[i])));
  }
}

/// What `f` gives, and what the model gives that is written of it: lazily, and compiled.
template <class F, class... A>
io::OnnxModel require_round_trip(const F& f, const A&... args) {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  jit::export_onnx(f, path, args...);
  const io::OnnxModel model = io::load_onnx(path);
  const Tensor wanted = jit::compile(f)(args...);
  require_close(model({args...})[0], wanted);
  const auto compiled = jit::compile([model](const std::vector<Tensor>& inputs) { return model(inputs); });
  require_close(compiled(std::vector<Tensor>{args...})[0], wanted);
  return model;
}
/// A model that is written here, field by field: inputs and outputs without shapes.
class ModelBytes {
 public:
  using Names = std::vector<std::string>;
  using WireWriter = io::onnx_detail::WireWriter;
  static WireWriter integer(std::string_view name, std::int64_t value) {
    return attribute(name, 2, [&](WireWriter& to) { to.integer(3, value); });
  }
  static WireWriter text(std::string_view name, std::string_view value) {
    return attribute(name, 3, [&](WireWriter& to) { to.text(4, value); });
  }
  static WireWriter real(std::string_view name, float value) {
    return attribute(name, 1, [&](WireWriter& to) { to.real(2, value); });
  }
  static WireWriter graph(std::string_view name, const WireWriter& value) {
    return attribute(name, 5, [&](WireWriter& to) { to.message(6, value); });
  }
  static WireWriter reference(std::string_view name, int kind, std::string_view to_attribute) {
    return attribute(name, kind, [&](WireWriter& to) { to.text(21, to_attribute); });
  }
  static WireWriter node_bytes(std::string_view op, const Names& inputs, const Names& outputs,
                               const std::vector<WireWriter>& attributes = {}, std::string_view domain = {}) {
    WireWriter node;
    for (const std::string& name : inputs) node.text(1, name);
    for (const std::string& name : outputs) node.text(2, name);
    node.text(4, op);
    for (const WireWriter& each : attributes) node.message(5, each);
    node.text(7, domain);
    return node;
  }
  static WireWriter value_info(std::string_view name, DType dtype) {
    WireWriter tensor, type, info;
    tensor.integer(1, io::onnx_detail::code_of(dtype));
    type.message(1, tensor);
    info.text(1, name);
    info.message(2, type);
    return info;
  }
  ModelBytes& node(std::string_view op, const Names& inputs, const Names& outputs,
                   const std::vector<WireWriter>& attributes = {}, std::string_view domain = {}) {
    graph_.message(1, node_bytes(op, inputs, outputs, attributes, domain));
    return *this;
  }
  /// A list; without a list, a scalar.
  ModelBytes& numbers(std::string_view name, const std::vector<std::int64_t>& values, bool is_list = true,
                      DType dtype = DType::i64) {
    WireWriter tensor;
    if (is_list) tensor.integer(1, static_cast<std::int64_t>(values.size()));
    tensor.integer(2, io::onnx_detail::code_of(dtype));
    for (const std::int64_t value : values) tensor.integer(dtype == DType::i64 ? 7 : 5, value);
    tensor.text(8, name);
    graph_.message(5, tensor);
    return *this;
  }
  ModelBytes& floats(std::string_view name, const std::vector<float>& values) {
    WireWriter tensor;
    tensor.integer(1, static_cast<std::int64_t>(values.size()));
    tensor.integer(2, 1);
    for (const float value : values) tensor.real(4, value);
    tensor.text(8, name);
    graph_.message(5, tensor);
    return *this;
  }
  ModelBytes& input(std::string_view name, DType dtype = DType::f32) {
    graph_.message(11, value_info(name, dtype));
    return *this;
  }
  ModelBytes& output(std::string_view name, DType dtype = DType::f32) {
    graph_.message(12, value_info(name, dtype));
    return *this;
  }
  ModelBytes& function(const WireWriter& value) {
    functions_.push_back(value);
    return *this;
  }
  io::OnnxModel load(int version = 18) const {
    WireWriter opset, model;
    opset.integer(2, version);
    model.message(7, graph_);
    model.message(8, opset);
    for (const WireWriter& function : functions_) model.message(25, function);
    const Folder folder;
    write_bytes(folder / "model.onnx", model.bytes());
    return io::load_onnx(folder / "model.onnx");
  }

 private:
  template <class Write>
  static WireWriter attribute(std::string_view name, int kind, const Write& write) {
    WireWriter out;
    out.text(1, name);
    write(out);
    out.integer(20, kind);
    return out;
  }
  WireWriter graph_;
  std::vector<WireWriter> functions_;
};
}  // namespace

TEST_CASE("stored ONNX models give the numbers of onnx.reference", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  for (const std::string& bytes : stored_models()) {
    write_bytes(path, bytes);
    const io::OnnxModel model = io::load_onnx(path);
    CAPTURE(model.text());
    std::vector<Tensor> given;
    for (const io::OnnxValueInfo& input : model.inputs()) given.push_back(model.weights().at("given." + input.name));
    const auto require_all = [&](const std::vector<Tensor>& found) {
      for (std::size_t i = 0; i < found.size(); ++i)
        require_close(found[i], model.weights().at("wanted." + model.outputs()[i].name));
    };
    require_all(model(given));
    if (model.text().find("NonZero") != std::string::npos) continue;  // how many there are is data
    const auto run = [model](const std::vector<Tensor>& inputs) { return model(inputs); };
    require_all(jit::compile(run)(given));
    require_all(jit::compile(run, {.backend = "reference"})(given));
  }
}

TEST_CASE("a model's shapes stay symbolic when it is compiled", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  write_bytes(path, stored_models().back());  // computes a shape from that of x
  const io::OnnxModel model = io::load_onnx(path);
  const auto f =
      jit::compile([model](Tensor x) { return model({x})[0]; }, {.dynamic = jit::Dynamic::always, .fullgraph = true});
  for (const int n : {2, 3, 5, 9}) {
    const Tensor x = randn({n, 3, 4});
    require_close(f(x), x.reshape({n, 12}) * arange(12));
  }
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("what is exported to ONNX comes back", "[onnx]") {
  manual_seed(5);
  const Tensor image = randn({2, 3, 8, 8}), x = randn({4, 5});
  eval({image, x});
  require_round_trip(
      [](Tensor a) { return conv2d(a, ones({4, 3, 3, 3}), {.stride = 2, .padding = 1, .bias = ones({4})}); }, image);
  require_round_trip([](Tensor a) { return conv_transpose2d(a, ones({3, 2, 3, 3}), {.stride = 2, .padding = 1}); },
                     image);
  require_round_trip([](Tensor a) { return max_pool2d(a, {.size = 3, .stride = 2, .padding = 1}); }, image);
  require_round_trip([](Tensor a) { return avg_pool2d(a, {.size = 3, .padding = 1, .count_include_pad = false}); },
                     image);
  require_round_trip([](Tensor a) { return group_norm(a, 3) + unsqueeze(mean(a, {2, 3}), {2, 3}); }, image);
  require_round_trip([](Tensor a) { return interpolate(a, {.size = {5, 11}, .mode = Interpolation::linear}); }, image);
  require_round_trip([](Tensor a) { return layer_norm(gelu(a) + leaky_relu(a) * silu(a), {5}); }, x);
  require_round_trip([](Tensor a) { return scaled_dot_product_attention(a, a, a, {.causal = true}); }, x);
  require_round_trip([](Tensor a) { return cross_entropy(a, argmax(a, 1)); }, x);
  require_round_trip([](Tensor a) { return take_along_axis(a, topk(a, 2).indices, 1) + take(a, tensor({0, 3}), 1); },
                     x);
  require_round_trip([](Tensor a) { return where((a > 0) & !(a == 1), a % 0.3f, floor_divide(a, 0.2f)); }, x);
  require_round_trip([](Tensor a) { return concat({pad(a, {{1, 0}, {0, 0}}, 2), flip(a, 0), a(slice(1, 3))}, 0); }, x);
  require_round_trip(jit::grad([](Tensor a) { return sum(square(sin(a))); }), x);
  require_round_trip([](Tensor a) { return jit::region([](Tensor b) { return tanh(b) * 2; })(a); }, x);
  require_round_trip([](Tensor a, Tensor b) { return matmul(a, b.t()); }, x, x);
}

TEST_CASE("a model has gradients, is mapped over a batch, and is saved with the function that calls it", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const auto f = [](Tensor a) { return sum(tanh(a) * a, 0); };
  const Tensor x = randn({4, 5}), batch = randn({3, 4, 5});
  eval({x, batch});
  jit::export_onnx(f, path, x);
  const io::OnnxModel model = io::load_onnx(path);
  const auto run = [model](Tensor a) { return model({a})[0]; };
  require_close(jit::grad([run](Tensor a) { return sum(run(a)); })(x),
                jit::grad([f](Tensor a) { return sum(f(a)); })(x));
  require_close(jit::vmap(run)(batch), jit::vmap(f)(batch));
  const auto compiled = jit::compile(run);
  compiled.warm_up(x);
  jit::save(compiled, folder / "function.sinter");
  require_close(jit::load<Tensor(Tensor)>(folder / "function.sinter")(x), f(x));
}

TEST_CASE("an exported model has the function's symbols, names and weights", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const Variable weight(full({5, 400}, 0.5), "layer.weight");
  Tensor x = ones({4, 5});
  jit::mark_dynamic(x, 0);
  const auto f = [weight](Tensor a) {
    return std::tuple(matmul(a, weight), a.reshape({a.size(0) * 5}), concat({a, a(slice(0, a.size(0) / 2))}, 0));
  };
  jit::export_onnx(f, {.path = path, .inputs = {"rows"}, .outputs = {"product", "flat", "more"}, .external_data = true},
                   x);
  const io::OnnxModel model = io::load_onnx(path);
  CHECK(model.inputs()[0].text() == "rows: f32[s0, 5]");
  CHECK(model.outputs()[1].text() == "flat: f32[5*s0]");
  CHECK(model.opset() == 18);
  REQUIRE(model.weights().contains("layer.weight"));
  CHECK(std::filesystem::file_size(path) < 2000);
  CHECK(std::filesystem::file_size(path + ".data") == 5 * 400 * 4);
  for (const int n : {4, 7, 1}) {
    io::TensorMap out = model(io::TensorMap{{"rows", ones({n, 5})}});
    CHECK(out.at("product").shape().text() == Shape{n, 400}.text());
    CHECK(to_vector<float>(out.at("product"))[0] == 2.5f);
    CHECK(out.at("flat").shape().text() == Shape{5 * n}.text());
    CHECK(out.at("more").shape().text() == Shape{n + n / 2, 5}.text());
  }
  std::filesystem::remove(path + ".data");
  CHECK_THROWS_AS(io::load_onnx(path), IoError);
}

TEST_CASE("what ONNX cannot hold is an error with the line", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const Tensor x = ones({4, 5});
  const Variable v(x, "v");
  const auto message = [&](const auto& f) { return message_of([&] { jit::export_onnx(f, path, x); }); };
  CHECK(message([](Tensor a) { return erfinv(a); }).find("'erfinv' has no counterpart in ONNX [onnx_test.cpp:") !=
        std::string::npos);
  CHECK(message([](Tensor a) { return a.to(DType::f8e4m3).to(DType::f32); }).find("of f8e4m3") != std::string::npos);
  CHECK(message([](Tensor a) { return a.to(DType::u64).to(DType::f32); }).find("of u64") != std::string::npos);
  CHECK(message([](Tensor a) { return a + rand({4, 5}); }).find("draws random numbers") != std::string::npos);
  CHECK(message([v](Tensor a) {
          v = a;
          return a;
        }).find("assigns to a Variable") != std::string::npos);
  CHECK(message([](Tensor a) { return item<float>(sum(a)) > 0 ? a : Tensor(-a); }).find("fullgraph") !=
        std::string::npos);
  const auto same = [](Tensor a) { return a; };
  CHECK(message_of([&] {
          jit::export_onnx(same, {.path = path, .inputs = {"a", "b"}}, x);
        }).find("names for 2 inputs, of 1") != std::string::npos);
  CHECK(message_of([&] {
          jit::export_onnx(same, {.path = path, .inputs = {"a"}, .outputs = {"a"}}, x);
        }).find("two values are called 'a'") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK_THROWS_AS(jit::export_onnx(same, folder / "none" + std::string("/model.onnx"), x), IoError);
  jit::export_onnx(jit::compile(same).lower(x).graph(), path);
  CHECK(io::load_onnx(path).inputs()[0].text() == "input0: f32[4, 5]");
}

TEST_CASE("inputs that a model does not take are errors", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  jit::export_onnx([](Tensor a, Tensor b) { return a + b; }, {.path = path, .inputs = {"a", "b"}}, ones({2, 3}),
                   ones({3}));
  const io::OnnxModel model = io::load_onnx(path);
  const Tensor a = ones({2, 3}), b = ones({3});
  CHECK_THROWS_AS(model({a}), UserError);
  CHECK_THROWS_AS(model({a, a}), ShapeError);
  CHECK_THROWS_AS(model({a.to(DType::f64), b}), DTypeError);
  CHECK(message_of([&] { model({a.to(DType::f64), b}); }).find("input 'a' is f64, not f32") != std::string::npos);
  CHECK(message_of([&] { model(io::TensorMap{{"a", a}}); }).find("input 'b' is missing") != std::string::npos);
  CHECK(message_of([&] { model(io::TensorMap{{"c", a}}); }).find("no input 'c'") != std::string::npos);
  CHECK(io::has_onnx_operator("Conv"));
  CHECK_FALSE(io::has_onnx_operator("RoiAlign"));
}

TEST_CASE("damaged and hostile ONNX files are errors", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const auto message = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return message_of([&] { io::load_onnx(path); });
  };
  CHECK(message("").find("there is no graph") != std::string::npos);
  CHECK(message("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f").find("bytes are needed") != std::string::npos);
  CHECK(message("\x3b").find("wire type 3") != std::string::npos);
  CHECK(message(std::string(12, '\xff')).find("more than 64 bits") != std::string::npos);
  // A graph in an attribute of a node of a graph, and so on.
  std::string deep;
  for (int i = 0; i < 40; ++i) {
    io::onnx_detail::WireWriter attribute, node, graph;
    if (!deep.empty()) attribute.text(6, deep);
    node.message(5, attribute);
    graph.message(1, node);
    deep = graph.bytes();
  }
  io::onnx_detail::WireWriter model;
  model.text(7, deep);
  CHECK(message(model.bytes()).find("more than 32 deep") != std::string::npos);
  // Data outside of the model's folder.
  io::onnx_detail::WireWriter entry, tensor, graph, outside;
  entry.text(1, "location");
  entry.text(2, "../secret");
  tensor.integer(1, 1);
  tensor.integer(2, 1);
  tensor.message(13, entry);
  tensor.integer(14, 1);
  graph.message(5, tensor);
  outside.message(7, graph);
  CHECK(message(outside.bytes()).find("outside of the model's folder") != std::string::npos);
}

TEST_CASE("ONNX files with bytes changed and cut load, or are errors", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const std::vector<std::string> models = stored_models();
  std::mt19937 random(11);
  int loaded = 0, refused = 0;
  set_memory_limit(std::int64_t{1} << 30);  // of extents that a model asks for
  for (int round = 0; round < 800; ++round) {
    std::string bytes = models[random() % models.size()];
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    for (unsigned i = 0; i < 1 + random() % 4 && !bytes.empty(); ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    write_bytes(path, bytes);
    try {
      const io::OnnxModel model = io::load_onnx(path);
      ++loaded;
      std::vector<Tensor> given;
      for (const io::OnnxValueInfo& input : model.inputs())
        if (const auto found = model.weights().find("given." + input.name); found != model.weights().end())
          given.push_back(found->second);
      eval(model(given));
    } catch (const UserError&) { ++refused; } catch (const OutOfMemory&) {
    }
  }
  set_memory_limit(0);
  CHECK(loaded > 30);
  CHECK(refused > 100);
}

TEST_CASE("what a trace was told of extents is in the model, or is an error", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  Tensor x = ones({4, 5}), y = ones({4, 5}), bounded = ones({8, 5});
  jit::mark_dynamic(x, 0);
  jit::mark_dynamic(y, 0);
  jit::mark_dynamic(bounded, 0, {.min = 4});
  const auto refused = [&](const auto& f) { return message_of([&] { jit::export_onnx(f, path, x); }); };
  const auto asks = [](Tensor a) { return a.size(0) > Dim(3) ? Tensor(a * 10) : a; };
  CHECK(refused(asks).find("would hold only where 3 < s0") != std::string::npos);
  CHECK(refused([](Tensor a) { return a.size(0) % Dim(4) == Dim(0) ? Tensor(a * 10) : a; }).find("hold only where") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
  jit::export_onnx(asks, path, bounded);  // the range says it
  CHECK(to_vector<float>(io::load_onnx(path)({ones({5, 5})})[0])[0] == 10);
  jit::export_onnx([](Tensor a, Tensor b) { return concat({a, b}, 1); }, path, x, y);
  const io::OnnxModel joined = io::load_onnx(path);
  CHECK(joined.inputs()[1].text() == "input1: f32[s0, 5]");
  CHECK_THROWS_AS(joined({ones({2, 5}), ones({3, 5})}), ShapeError);
  jit::export_onnx([](Tensor a) { return a * static_cast<double>(static_cast<int>(a.size(0))); },
                   {.path = path, .dynamic = jit::Dynamic::always}, ones({4, 5}));
  CHECK_THROWS_AS(io::load_onnx(path)({ones({3, 5})}), ShapeError);
  jit::export_onnx([](Tensor a) { return a.reshape({a.size(0) / 4, 4, 5}); }, path, bounded);
  CHECK(io::load_onnx(path)({ones({12, 5})})[0].shape().text() == "(3, 4, 5)");
  CHECK_THROWS_AS(io::load_onnx(path)({ones({6, 5})}), UserError);
}

TEST_CASE("Variables among the arguments are weights, static arguments no inputs", "[onnx]") {
  const Folder folder;
  const std::string path = folder / "model.onnx";
  const Variable weight(full({5}, 2.0), "scale");
  jit::export_onnx([](int times, Tensor a, Variable w) { return a * w * times; }, {.path = path, .inputs = {"a"}}, 3,
                   ones({4, 5}), weight);
  const io::OnnxModel model = io::load_onnx(path);
  CHECK(model.inputs().size() == 1);
  CHECK(model.weights().contains("scale"));
  CHECK(to_vector<float>(model({ones({4, 5})})[0])[0] == 6);
}

TEST_CASE("dtypes that ONNX's operators do not take are cast around, remainders are exact", "[onnx]") {
  const Tensor x = tensor({-7.5f, -0.3f, 0.0f, 0.1f, 1e8f, 12.7f});
  for (const float by : {0.1f, -0.1f, 3.0f}) {
    require_round_trip([by](Tensor a) { return a % by; }, x);
    require_round_trip([by](Tensor a) { return floor_divide(a, by); }, x);
  }
  for (const DType dtype : {DType::u8, DType::i16, DType::i32, DType::bf16, DType::f16, DType::f64}) {
    CAPTURE(name(dtype));
    const Tensor y = tensor({1, 5, 3, 2}).to(dtype);
    require_round_trip([](Tensor a) { return amax(a, 0) + sum(a, 0).to(a.dtype()) + cumsum(a, 0).to(a.dtype()); }, y);
    require_round_trip([](Tensor a) { return concat({floor(a), round(a), -a, relu(a)}, 0); }, y);
    require_round_trip([](Tensor a) { return take(a, tensor({0, 2}).to(DType::u8), 0); }, y);
    require_round_trip([](Tensor a) { return topk(a, 2).values; }, y);
    if (!is_floating(dtype)) continue;
    require_round_trip([](Tensor a) { return concat({where(isfinite(a), sin(a), a), softplus(a)}, 0); }, y);
    require_round_trip([](Tensor a) { return layer_norm(a, {4}); }, y);
  }
}

TEST_CASE("known integers behave as their dtype", "[onnx]") {
  const auto run = [](ModelBytes& bytes) {
    return to_vector<std::int64_t>(bytes.output("y", DType::i64).load()({})[0]);
  };
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min(), big = std::int64_t{1} << 32;
  const auto cast = [](DType to) { return std::vector{ModelBytes::integer("to", io::onnx_detail::code_of(to))}; };
  CHECK(run(ModelBytes()
                .numbers("a", {200}, true, DType::u8)
                .numbers("b", {100}, true, DType::u8)
                .node("Add", {"a", "b"}, {"c"})
                .node("Cast", {"c"}, {"y"}, cast(DType::i64))) == std::vector<std::int64_t>{44});
  CHECK(run(ModelBytes()
                .numbers("a", {big + 1})
                .node("Cast", {"a"}, {"b"}, cast(DType::i32))
                .node("Cast", {"b"}, {"y"}, cast(DType::i64))) == std::vector<std::int64_t>{1});
  CHECK(run(ModelBytes().numbers("a", {least}, false).numbers("at", {0}).node("Unsqueeze", {"a", "at"}, {"y"})) ==
        std::vector<std::int64_t>{least});
  CHECK(run(ModelBytes().numbers("a", {big}).node("Mul", {"a", "a"}, {"b"}).node("Add", {"a", "b"}, {"y"})) ==
        std::vector<std::int64_t>{big});
  // Nothing plus a scalar; a scalar by a list.
  CHECK(run(ModelBytes().numbers("a", {1}, false).node("Shape", {"a"}, {"none"}).node("Add", {"none", "a"}, {"y"}))
            .empty());
  const io::OnnxModel quotient = ModelBytes()
                                     .numbers("a", {7}, false)
                                     .numbers("b", {2})
                                     .node("Div", {"a", "b"}, {"y"})
                                     .output("y", DType::i64)
                                     .load();
  CHECK(quotient({})[0].shape() == Shape{1});
  // Bounds that went through other operators stay bounds, in traces, too.
  const io::OnnxModel slice = ModelBytes()
                                  .input("x")
                                  .numbers("end", {std::numeric_limits<std::int64_t>::max()}, false)
                                  .numbers("one", {1})
                                  .numbers("at", {0})
                                  .node("Unsqueeze", {"end", "at"}, {"ends"})
                                  .node("Slice", {"x", "one", "ends", "at"}, {"y"})
                                  .output("y")
                                  .load();
  const auto f = jit::compile([slice](Tensor x) { return slice({x})[0]; }, {.fullgraph = true});
  CHECK(to_vector<float>(f(tensor({1.f, 2.f, 3.f}))) == std::vector<float>{2, 3});
}

TEST_CASE("a slice that begins beyond the axis is empty, or all of it backwards", "[onnx]") {
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const auto run = [](std::int64_t start, std::int64_t end, std::int64_t step) {
    const io::OnnxModel model = ModelBytes()
                                    .input("x")
                                    .numbers("start", {start})
                                    .numbers("end", {end})
                                    .numbers("axis", {0})
                                    .numbers("step", {step})
                                    .node("Slice", {"x", "start", "end", "axis", "step"}, {"y"})
                                    .output("y")
                                    .load();
    return to_vector<float>(model({tensor({1.f, 2.f, 3.f})})[0]);
  };
  using Floats = std::vector<float>;
  CHECK(run(far, far, 1) == Floats{});
  CHECK(run(5, far, 1) == Floats{});
  CHECK(run(-far, far, 1) == Floats{1, 2, 3});
  CHECK(run(far, -far, -1) == Floats{3, 2, 1});
  CHECK(run(-far, -far, -1) == Floats{1});
}

TEST_CASE("operators of ONNX in their rarer forms", "[onnx]") {
  const auto run = [](const ModelBytes& bytes, const Tensor& x, int version = 18) {
    return bytes.load(version)({x})[0];
  };
  const Tensor line = tensor({1.f, 2.f, 3.f}).reshape({1, 3, 1, 1});
  const Tensor lrn =
      run(ModelBytes()
              .input("x")
              .node("LRN", {"x"}, {"y"},
                    {ModelBytes::integer("size", 2), ModelBytes::real("alpha", 2), ModelBytes::real("beta", 1)})
              .output("y"),
          line);
  require_close(lrn.reshape({3}), tensor({1.f / 6, 2.f / 14, 3.f / 10}));
  const auto resize = [&](std::vector<ModelBytes::WireWriter> attributes, const std::vector<float>& scales,
                          const Tensor& x) {
    return run(ModelBytes()
                   .input("x", x.dtype())
                   .floats("scales", scales)
                   .node("Resize", {"x", "", "scales"}, {"y"}, attributes)
                   .output("y", x.dtype()),
               x);
  };
  const auto linear = ModelBytes::text("mode", "linear");
  CHECK(to_vector<int>(resize({linear}, {2}, tensor({4, 8}))) == std::vector<int>{4, 5, 7, 8});
  CHECK(resize({}, {0.7f}, ones({10})).shape() == Shape{7});
  CHECK(resize({ModelBytes::text("mode", "cubic"), ModelBytes::integer("antialias", 1)}, {1e-9f}, ones({10})).shape() ==
        Shape{0});
  CHECK_THROWS_AS(resize({ModelBytes::text("coordinate_transformation_mode", "other")}, {2}, ones({2})), UserError);
  CHECK(to_vector<float>(resize({ModelBytes::text("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                                 ModelBytes::text("nearest_mode", "floor")},
                                {0.5f}, tensor({1.f, 2.f, 3.f, 4.f}))) == std::vector<float>{2, 4});
  const Tensor numbers = run(
      ModelBytes().input("x", DType::u8).floats("s", {0.5f}).node("DequantizeLinear", {"x", "s"}, {"y"}).output("y"),
      tensor({2, 4}).to(DType::u8));
  CHECK(to_vector<float>(numbers) == std::vector<float>{1, 2});
  const Tensor none =
      run(ModelBytes()
              .input("x")
              .node("IsInf", {"x"}, {"y"},
                    {ModelBytes::integer("detect_negative", 0), ModelBytes::integer("detect_positive", 0)})
              .output("y", DType::bool_),
          tensor({NAN, INFINITY}));
  CHECK(to_vector<bool>(none) == std::vector<bool>{false, false});
  CHECK_THROWS_AS(
      run(ModelBytes().input("x").node("Gelu", {"x"}, {"y"}, {ModelBytes::text("approximate", "no")}).output("y"),
          ones({2})),
      UserError);
  const std::string message =
      message_of([&] { run(ModelBytes().input("x").node("MatMul", {"x", "x"}, {"y"}).output("y"), ones({2, 3})); });
  CHECK(message.find("ShapeError") != std::string::npos);
  CHECK(message.find("MatMul that gives 'y': matmul: ") != std::string::npos);
}

TEST_CASE("functions of a model: attributes in branches, and calls without end", "[onnx]") {
  using WireWriter = io::onnx_detail::WireWriter;
  const auto function = [](std::string_view name, const std::vector<WireWriter>& nodes) {
    WireWriter out;
    out.text(1, name);
    out.text(4, "a");
    out.text(5, "b");
    for (const WireWriter& node : nodes) out.message(7, node);
    out.text(10, "mine");
    return out;
  };
  WireWriter branch;
  branch.message(1, ModelBytes::node_bytes("LeakyRelu", {"a"}, {"c"}, {ModelBytes::reference("alpha", 1, "slope")}));
  branch.message(12, ModelBytes::value_info("c", DType::f32));
  WireWriter given = function(
      "Leak",
      {ModelBytes::node_bytes("If", {"is"}, {"b"},
                              {ModelBytes::graph("then_branch", branch), ModelBytes::graph("else_branch", branch)})});
  given.text(4, "is");
  const io::OnnxModel leak = ModelBytes()
                                 .input("x")
                                 .numbers("is", {1}, false)
                                 .node("Leak", {"x", "is"}, {"y"}, {ModelBytes::real("slope", 0.5f)}, "mine")
                                 .output("y")
                                 .function(given)
                                 .load();
  CHECK(to_vector<float>(leak({tensor({-2.f, 2.f})})[0]) == std::vector<float>{-1, 2});
  ModelBytes twice;
  twice.input("x").node("F0", {"x"}, {"y"}, {}, "mine").output("y");
  for (int i = 0; i < 40; ++i) {
    const std::string next = i == 39 ? "Identity" : "F" + std::to_string(i + 1), domain = i == 39 ? "" : "mine";
    twice.function(function("F" + std::to_string(i), {ModelBytes::node_bytes(next, {"a"}, {"c"}, {}, domain),
                                                      ModelBytes::node_bytes(next, {"c"}, {"b"}, {}, domain)}));
  }
  const io::OnnxModel endless = twice.load();
  CHECK(message_of([&] { endless({ones({1})}); }).find("more than 1048576 nodes") != std::string::npos);
}
