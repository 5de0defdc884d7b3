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
  for (int round = 0; round < 800; ++round) {
    std::string bytes = models[random() % models.size()];
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    for (unsigned i = 0; i < 1 + random() % 4 && !bytes.empty(); ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    write_bytes(path, bytes);
    try {
      io::load_onnx(path);
      ++loaded;
    } catch (const UserError&) { ++refused; }
  }
  CHECK(loaded > 30);
  CHECK(refused > 100);
}
