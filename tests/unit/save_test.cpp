// jit::save and jit::load: what a function computes after it went through a file has the same bits, whatever its
// arguments, results, Variables and effects are; what no file can hold is an error that names the line. (Callbacks,
// options, threads and damaged files: save_more_test.cpp.)
#include "../files_and_errors.hpp"
#include "../tensor_bits.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/sinter.hpp>

#include <unistd.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace sinter;
using sinter_test::bits;
using sinter_test::floats;

namespace {

enum class Activation { relu, tanh };
struct Layer {
  Tensor weight, bias;
};
struct Answer {
  Tensor hidden;
  std::vector<Tensor> each;
  std::map<std::string, Tensor> named;
  std::optional<Tensor> extra;
  std::array<Tensor, 2> pair;
  int rank = 0;
  std::string label;
  Dim rows;
  Scalar total;
};

}  // namespace

TEST_CASE("save: a straight function with captured Tensors computes the same bits") {
  const Folder folder;
  manual_seed(3);
  const Tensor w = randn({16, 8}), shared = randn({8, 16}), b = randn({8});
  const Tensor transposed = transpose(shared, 0, 1);  // a view: not row-major
  auto f = jit::compile([&](const Tensor& x) { return tanh(matmul(x, w) + b) + matmul(x, transposed) * 0.5f; });
  const Tensor x = randn({4, 16});
  const auto expected = bits(f(x));
  jit::save(f, folder / "f");
  jit::reset();
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  CHECK(bits(g(x)) == expected);
  CHECK(bits(g(x)) == expected);
  CHECK(g.stats().compiles == 1);
  CHECK(g.variables().empty());
  jit::Function<Tensor(Tensor)> nameable = g;
  CHECK(bits(nameable(x)) == expected);
  Tensor place = zeros({4, 8});
  g.into(place)(x);
  CHECK(bits(place) == expected);
}

TEST_CASE("save: constants keep their bits: payloads of NaN, infinities, -0, every dtype, empty ones") {
  const Folder folder;
  std::vector<float> values{-0.f, std::numeric_limits<float>::infinity(), std::bit_cast<float>(0x7fc12345u),
                            std::bit_cast<float>(0x00000001u)};
  const Tensor odd = copy_of(values, {4});
  std::vector<Tensor> all;
  for (int i = 0; i < dtype_count; ++i) all.push_back(arange(6).reshape({2, 3}).to(static_cast<DType>(i)));
  const Tensor none = zeros({0, 3});
  auto f = jit::compile([&](const Tensor& x) {
    std::vector<Tensor> out{odd + zeros({4}) * x(0), none};
    for (const Tensor& each : all) out.push_back((is_complex(each.dtype()) ? real(each) : each).to(DType::f32) + x(0));
    out.push_back(full({2}, -0.0) * x(slice(0, 2)));
    out.push_back(full({2}, std::nan("")) + x(slice(0, 2)));
    return out;
  });
  const Tensor x = tensor({1.f, 2.f});
  const std::vector<Tensor> expected = f(x);
  jit::save(f, folder / "f");
  const std::vector<Tensor> found = jit::load<std::vector<Tensor>(Tensor)>(folder / "f")(x);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].shape().text() == expected[i].shape().text());
    CHECK(bits(found[i]) == bits(expected[i]));
  }
}

TEST_CASE("save: symbolic extents and their guards come back") {
  const Folder folder;
  auto f = jit::compile([](const Tensor& x, const Tensor& y) -> Tensor {
    if (x.size(0) < Dim(100)) return softmax(x + y, 1);
    return x - y;
  });
  for (const int n : {4, 5}) f(ones({n, 3}), ones({n, 3}));
  CHECK(f.stats().compiles == 2);
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor, Tensor)>(folder / "f");
  for (const int n : {4, 5, 17, 23, 64}) {
    const Tensor x = randn({n, 3}), y = randn({n, 3});
    CHECK(bits(g(x, y)) == bits(f(x, y)));
  }
  CHECK(g.stats().compiles == 1);  // of the symbolic version, which is the newer one
  CHECK(g.stats().recompiles == 0);

  const std::string large = error_of<RecompileError>([&] { g(ones({100, 3}), ones({100, 3})); });
  CHECK_CONTAINS(large, "relation");
  CHECK_CONTAINS(large, "save_test.cpp");
  const std::string columns = error_of<RecompileError>([&] { g(ones({5, 4}), ones({5, 4})); });
  CHECK_CONTAINS(columns, "extent of axis 1 of argument 0: expected 3, got 4");
  CHECK_CONTAINS(columns, "save the function after calls with such arguments");
  CHECK_CONTAINS(error_of<RecompileError>([&] { g(ones({5, 3}), ones({6, 3})); }), "guard 'relation' failed");
  CHECK_CONTAINS(error_of<RecompileError>([&] { g(ones({5, 3}).to(DType::f64), ones({5, 3})); }),
                 "guard 'dtype' failed");
  CHECK(floats(g(ones({7, 3}), ones({7, 3}))).size() == 21);  // after errors as before

  // Extents that must divide, and marked ranges.
  auto halves = jit::compile([](const Tensor& x) { return sum(x.reshape({x.size(0) / 2, 2}), 1); });
  Tensor marked = arange(8).to(DType::f32);
  jit::mark_dynamic(marked, 0, {4, 64});
  halves(marked);
  jit::save(halves, folder / "halves");
  auto loaded = jit::load<Tensor(Tensor)>(folder / "halves");
  CHECK(floats(loaded(arange(12).to(DType::f32))) == std::vector<float>{1, 5, 9, 13, 17, 21});
  CHECK(floats(loaded(arange(4).to(DType::f32))) == std::vector<float>{1, 5});
  CHECK_CONTAINS(error_of<RecompileError>([&] { loaded(arange(66).to(DType::f32)); }), "guard 'range' failed");
  CHECK_THROWS_AS(loaded(arange(13).to(DType::f32)), RecompileError);
  // Views have other code, from the same graph.
  CHECK(floats(loaded(arange(16).to(DType::f32)(slice(0, 16, 2)))) == std::vector<float>{2, 10, 18, 26});
}

TEST_CASE("save: structs, containers, numbers and static values") {
  const Folder folder;
  auto f = jit::compile([](const std::vector<Layer>& layers, const std::map<std::string, Tensor>& more, Scalar scale,
                           Activation kind, int times, bool has_extra, const std::string& label) {
    Tensor x = more.at("x");
    Answer out;
    for (const Layer& layer : layers) {
      x = matmul(x, layer.weight) * scale + layer.bias;
      x = kind == Activation::relu ? Tensor(relu(x)) : Tensor(tanh(x));
      out.each.push_back(x);
    }
    for (int i = 1; i < times; ++i) x = x + x;
    out.hidden = x;
    out.named["a" + label] = x * 2.f;
    out.named["b" + label] = x * 3.f;
    if (has_extra) out.extra = sum(x);
    out.pair = {x + 1.f, x + 2.f};
    out.rank = x.shape().rank();
    out.label = label + "!";
    out.rows = x.size(0);
    out.total = item(sum(x));
    return out;
  });
  const std::vector<Layer> layers{{randn({3, 3}), randn({3})}, {randn({3, 3}), randn({3})}};
  const auto call = [&](const auto& function, int rows, Activation kind, bool has_extra, int times = 3) {
    manual_seed(rows);
    const std::map<std::string, Tensor> more{{"x", randn({rows, 3})}};
    return function(layers, more, 0.5f, kind, times, has_extra, std::string("name"));
  };
  for (const int rows : {2, 4}) call(f, rows, Activation::tanh, true);
  call(f, 2, Activation::relu, false);
  jit::save(f, folder / "f");

  struct Other {  // the names of types and fields do not matter
    Tensor w, b;
  };
  enum class Third { zero, one };
  using Signature =
      Answer(std::vector<Layer>, std::map<std::string, Tensor>, Scalar, Activation, int, bool, std::string);
  auto g = jit::load<Signature>(folder / "f");
  for (const auto& [rows, kind, has_extra] :
       {std::tuple(2, Activation::tanh, true), std::tuple(9, Activation::tanh, true),
        std::tuple(2, Activation::relu, false)}) {
    const Answer a = call(f, rows, kind, has_extra), b = call(g, rows, kind, has_extra);
    CHECK(bits(a.hidden) == bits(b.hidden));
    REQUIRE(b.each.size() == 2);
    CHECK(bits(a.each[1]) == bits(b.each[1]));
    CHECK(bits(a.named.at("bname")) == bits(b.named.at("bname")));
    CHECK(a.extra.has_value() == b.extra.has_value());
    CHECK(bits(a.pair[1]) == bits(b.pair[1]));
    CHECK(b.rank == 2);
    CHECK(b.label == "name!");
    CHECK(b.rows == Dim(rows));
    CHECK(a.total.number() == b.total.number());
  }
  CHECK_CONTAINS(error_of<RecompileError>([&] { call(g, 2, Activation::tanh, true, 4); }),
                 "value of argument 4: expected 3, got 4");
  using SameStructure =
      Answer(std::vector<Other>, std::map<std::string, Tensor>, Scalar, Third, std::int32_t, bool, std::string);
  CHECK_NOTHROW(jit::load<SameStructure>(folder / "f"));
  const std::string wrong = error_of<UserError>([&] { jit::load<Tensor(Tensor)>(folder / "f"); });
  CHECK_CONTAINS(wrong, "asked for is (Tensor) -> Tensor");
  CHECK_CONTAINS(wrong, "([(Tensor, Tensor)], {string: Tensor}, Scalar, ");
}

TEST_CASE("save: Variables come back by name, are written, trained, and loaded into") {
  const Folder folder;
  const Variable w(tensor({1.f, 2.f, 3.f}), "w"), momentum(zeros({3}), "momentum"), unnamed(ones({}));
  w.requires_grad();
  auto step = jit::compile([&](const Tensor& x, Scalar rate) {
    Tensor loss = sum(square(w * x - 1.f)) * unnamed;
    w.zero_grad();
    loss.backward();
    momentum = 0.9f * momentum + w.grad();
    w -= rate * momentum;
    return loss;
  });
  const Tensor x = tensor({0.5f, 0.25f, 2.f});
  step(x, 0.1f);
  jit::save(step, folder / "step");
  auto loaded = jit::load<Tensor(Tensor, Scalar)>(folder / "step");
  auto variables = loaded.variables();
  CHECK(variables.size() == 3);
  CHECK(floats(variables.at("w").value()) == floats(w.value()));
  for (int i = 0; i < 5; ++i) CHECK(bits(loaded(x, 0.1f)) == bits(step(x, 0.1f)));
  CHECK(bits(variables.at("w").value()) == bits(w.value()));
  CHECK(bits(variables.at("momentum").value()) == bits(momentum.value()));
  CHECK(bits(variables.at("w").grad()) == bits(w.grad()));

  variables.at("w").set(zeros({3}));
  CHECK(item<float>(loaded(x, 0.1f)) == 3.f);
  io::load_state_dict(variables, {{"w", ones({3})}, {"momentum", zeros({3})}}, {.strict = io::Strict::no});
  CHECK(floats(loaded.variables().at("w").value()) == std::vector<float>{1, 1, 1});
  jit::save(loaded, folder / "again");  // with the values of now
  CHECK(floats(jit::load<Tensor(Tensor, Scalar)>(folder / "again").variables().at("w").value()) ==
        std::vector<float>{1, 1, 1});
}

TEST_CASE("save: Variables among the arguments are written back") {
  const Folder folder;
  auto f = jit::compile([](const Variable& w, const Tensor& x) {
    w += x;
    return sum(w);
  });
  const Variable a(zeros({2})), b(ones({2}));
  f(a, ones({2}));
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(f, folder / "f"); }), "call it once more with another Variable");
  f(Variable(zeros({2})), ones({2}));
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Variable, Tensor)>(folder / "f");
  CHECK(item<float>(g(b, ones({2}))) == 4.f);
  CHECK(floats(b.value()) == std::vector<float>{2, 2});
}

TEST_CASE("save: a captured Variable that was an argument, too, is not taken for any argument") {
  const Folder folder;
  const Variable v(ones({2}), "v");
  auto f = jit::compile([&](const Variable& a) {
    a += 1.f;
    return v * a;
  });
  f(v);
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(f, folder / "f"); }), "whether it captured that one");
  CHECK_FALSE(std::filesystem::exists(folder / "f"));
  auto reads = jit::compile([&](const Variable& a) -> Tensor {
    if (item(sum(a)) > 0.f) return v * a;
    return v + a;
  });
  reads(v);
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(reads, folder / "f"); }), "reads values and takes a Variable");
}

TEST_CASE("save: random numbers come from the caller's generator") {
  const Folder folder;
  auto f = jit::compile([](const Tensor& x) { return x + randn({3}); });
  f(zeros({3}));
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  manual_seed(7);
  const auto first = bits(f(zeros({3}))), second = bits(f(zeros({3})));
  CHECK(first != second);
  manual_seed(7);
  CHECK(bits(g(zeros({3}))) == first);
  CHECK(bits(g(zeros({3}))) == second);
}

TEST_CASE("save: gradients flow through a loaded function, and transforms take it") {
  const Folder folder;
  const Variable w(tensor({1.f, -2.f}), "w");
  auto f = jit::compile([&](const Tensor& x) { return sin(x * w); });
  f(ones({2}));
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  const Variable again = g.variables().at("w");
  w.requires_grad();
  again.requires_grad();
  const Tensor x = tensor({0.3f, 0.7f});
  sum(f(x)).backward();
  sum(g(x)).backward();
  CHECK(bits(w.grad()) == bits(again.grad()));
  CHECK(floats(again.grad())[0] == Approx(0.3 * std::cos(0.3)));

  const auto loss = [&](const Tensor& at) { return sum(g(at)); };
  CHECK(floats(jit::grad(loss)(x))[1] == Approx(-2 * std::cos(1.4)));
  const Tensor rows = randn({5, 2});
  CHECK(floats(jit::vmap([&](const Tensor& row) { return g(row); })(rows)) == floats(sin(rows * w.value())));
  auto outer = jit::compile([&](const Tensor& at) { return g(at) * 2.f; });
  CHECK(bits(outer(x)) == bits(f(x) * 2.f));
  jit::StanceGuard eager(jit::Stance::force_eager);
  CHECK(floats(g(x))[0] == Approx(std::sin(0.3)));
}

TEST_CASE("save: of a function that reads values the branches that were seen") {
  const Folder folder;
  const Variable calls(zeros({}), "calls");
  auto f = jit::compile([&](const Tensor& x) -> Tensor {
    Tensor y = exp(x) + 1.f;
    calls += 1.f;
    if (item(sum(y)) > 20.f) {
      const Tensor z = y * y;
      if (item(amax(z)) > 1000.f) return z - calls;
      return z + calls;
    }
    return -y * calls;
  });
  const Tensor low = zeros({4}), high = full({4}, 2.0), top = full({4}, 4.0);
  f(low);
  f(high);
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  calls.set(zeros({}));
  g.variables().at("calls").set(zeros({}));
  for (const Tensor& x : {low, high, low, high, low}) CHECK(bits(g(x)) == bits(f(x)));
  CHECK(item<float>(g.variables().at("calls").value()) == 5.f);
  CHECK(g.stats().graph_breaks == 2);
  const std::string unseen = error_of<RecompileError>([&] { g(top); });
  CHECK_CONTAINS(unseen, "guard 'predicate' failed");
  CHECK_CONTAINS(unseen, "save_test.cpp");
  CHECK(item<float>(g.variables().at("calls").value()) == 5.f);  // nothing is half done
  CHECK(bits(g(low)) == bits(f(low)));
}

TEST_CASE("save: regions and control flow") {
  const Folder folder;
  auto block = jit::region([](const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)); });
  const Tensor w = randn({4, 4});
  auto f = jit::compile([&](const Tensor& x, const Tensor& flag) {
    Tensor y = block(block(x, w), w);
    y = jit::cond(flag, [&] { return y + 1.f; }, [&] { return y * 2.f; });
    y = jit::fori_loop(0, 3, [](const Scalar& i, const Tensor& c) { return c * 0.5f + i; }, y);
    return jit::while_loop([](const Tensor& c) { return sum(c) < 100.f; },
                           [](const Tensor& c) { return c * 2.f + 1.f; }, y);
  });
  const Tensor yes = tensor({true}).reshape({}), no = tensor({false}).reshape({});
  for (const int n : {2, 3}) f(randn({n, 4}), yes);
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor, Tensor)>(folder / "f");
  for (const int n : {2, 3, 6}) {
    const Tensor x = randn({n, 4});
    CHECK(bits(g(x, yes)) == bits(f(x, yes)));
    CHECK(bits(g(x, no)) == bits(f(x, no)));
  }
  CHECK(g.stats().regions == f.stats().regions);
}

TEST_CASE("save: effects: print and check as they are, functions of the user by name") {
  const Folder folder;
  std::vector<std::string> lines;
  const jit::PrintSink before = jit::set_print_sink([&](std::string_view line) { lines.emplace_back(line); });
  static int noted;
  noted = 0;
  const auto note = [](float total) { noted += static_cast<int>(total); };
  auto f = jit::compile([&](const Tensor& x) {
    jit::print("sum {} of {}", sum(x), x.size(0));
    jit::check(sum(x) < 100.f, "too large: {}", sum(x));
    jit::callback(note, sum(x));
    return x + 1.f;
  });
  f(ones({3}));
  const int line = __LINE__ - 4;
  const std::string unnamed = error_of<UserError>([&] { jit::save(f, folder / "f"); });
  CHECK_CONTAINS(unnamed, "save_test.cpp:" + std::to_string(line));
  CHECK_CONTAINS(unnamed, "jit::register_callback");
  CHECK_FALSE(std::filesystem::exists(folder / "f"));

  jit::register_callback("note", note);
  CHECK_CONTAINS(error_of<UserError>([&] { jit::register_callback("note", [](float) {}); }),
                 "is that of another function");
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  lines.clear();
  noted = 0;
  CHECK(floats(g(ones({3}))) == std::vector<float>{2, 2, 2});
  CHECK(lines == std::vector<std::string>{"sum 3.0 of 3"});
  CHECK(noted == 3);
  CHECK_CONTAINS(error_of<CheckError>([&] { g(ones({3}) * 50.f); }), "too large: 150");
  jit::set_print_sink(before);

  auto doubled = jit::custom_op({.name = "save_doubled",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 2 * in[0].data[i];
                                     }});
  auto custom = jit::compile([&](const Tensor& x) { return Tensor(doubled(x)) + 1.f; });
  custom(ones({2}));
  jit::save(custom, folder / "custom");
  CHECK(floats(jit::load<Tensor(Tensor)>(folder / "custom")(ones({2}))) == std::vector<float>{3, 3});

  auto host = jit::disable([](const Tensor& x) { return x * 2.f; });
  auto broken = jit::compile([&](const Tensor& x) { return Tensor(host(x + 1.f)) + 1.f; });
  broken(ones({2}));
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(broken, folder / "broken"); }), "disabled function");
}

TEST_CASE("save: several functions in a file share Variables and weights") {
  const Folder folder;
  const Tensor big = randn({64, 64});
  const Variable cache(zeros({2, 64}), "cache");
  auto prefill = jit::compile([&](const Tensor& x) {
    cache = matmul(x, big);
    return sum(cache);
  });
  auto decode = jit::compile([&](const Tensor& x, Scalar scale) { return (cache + matmul(x, big)) * scale; });
  const Tensor x = randn({2, 64});
  prefill(x);
  decode(x, 2.f);
  jit::save({{"prefill", prefill}, {"decode", decode}}, folder / "model");
  CHECK(std::filesystem::file_size(folder / "model") < 2 * 64 * 64 * sizeof(float));  // `big` is there once

  const jit::FunctionFile file(folder / "model");
  CHECK(file.names() == std::vector<std::string>{"prefill", "decode"});
  CHECK_CONTAINS(file.text(), "decode(Tensor, Scalar) -> Tensor");
  auto first = file.load<Tensor(Tensor)>("prefill");
  auto second = file.load<Tensor(Tensor, Scalar)>("decode");
  const Tensor other = randn({2, 64});
  prefill(other);
  first(other);
  CHECK(bits(second(x, 3.f)) == bits(decode(x, 3.f)));
  CHECK(bits(jit::load<Tensor(Tensor, Scalar)>(folder / "model", {.name = "decode"}).variables().at("cache").value()) !=
        bits(cache.value()));  // a file of its own
  CHECK_CONTAINS(error_of<UserError>([&] { jit::load<Tensor(Tensor)>(folder / "model"); }),
                 "name one of: prefill, decode");
  CHECK_CONTAINS(error_of<UserError>([&] { file.load<Tensor(Tensor)>("encode"); }), "holds no function 'encode'");
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save({{"a", prefill}, {"a", decode}}, folder / "two"); }),
                 "two functions are called 'a'");
}

TEST_CASE("save: weights in a file of safetensors") {
  const Folder folder;
  const Variable w(randn({8, 8}), "w");
  const Tensor held = randn({8, 8}), other = randn({32});
  auto f = jit::compile([&](const Tensor& x) { return sum(matmul(matmul(x, w), held)) + sum(other); });
  const Tensor x = randn({2, 8});
  const auto expected = bits(f(x));
  jit::save(f, folder / "f", {.weights = folder / "new.safetensors"});
  CHECK(io::load_safetensors(folder / "new.safetensors").contains("w"));
  CHECK(bits(jit::load<Tensor(Tensor)>(folder / "f")(x)) == expected);

  io::save_safetensors(folder / "model.safetensors", {{"layer.held", held}, {"layer.w", w.value()}});
  jit::save(f, folder / "g", {.weights = folder / "model.safetensors"});  // `other` stays with the function
  CHECK(bits(jit::load<Tensor(Tensor)>(folder / "g")(x)) == expected);
  io::save_safetensors(folder / "tuned.safetensors", {{"layer.held", held * 2.f}, {"layer.w", w.value()}});
  auto tuned = jit::load<Tensor(Tensor)>(folder / "g", {.weights = folder / "tuned.safetensors"});
  CHECK(floats(tuned(x))[0] == Approx(item<float>(sum(matmul(matmul(x, w), held * 2.f)) + sum(other))));
  io::save_safetensors(folder / "wrong.safetensors", {{"layer.held", zeros({4})}, {"layer.w", w.value()}});
  CHECK_CONTAINS(
      error_of<IoError>([&] { jit::load<Tensor(Tensor)>(folder / "g", {.weights = folder / "wrong.safetensors"}); }),
      "'layer.held'");
  std::filesystem::remove(folder / "model.safetensors");
  CHECK_THROWS_AS(jit::load<Tensor(Tensor)>(folder / "g"), IoError);
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(f, folder / "one", {.weights = folder / "./one"}); }), "one file");
  CHECK_FALSE(std::filesystem::exists(folder / "one"));
}

TEST_CASE("save: weights of equal bits keep their names") {
  const Folder folder;
  const Tensor ones_now = ones({20});
  const Variable scale(ones_now, "scale"), gain(ones_now, "gain"), odd(zeros({20}), "constant.3");
  const Tensor mask = ones({20}), held = randn({20});
  auto f = jit::compile([&](const Tensor& x) { return x * scale * 2.f + gain * 3.f + mask * held + odd; });
  f(zeros({20}));
  const auto check = [&](const std::string& path, const std::string& weights) {
    io::TensorMap tuned = io::load_safetensors(weights);
    tuned.insert_or_assign("gain", full({20}, 5.0));
    io::save_safetensors(folder / "tuned", tuned);
    auto g = jit::load<Tensor(Tensor)>(path, {.weights = folder / "tuned"});
    CHECK(floats(g.variables().at("scale").value())[0] == 1.f);
    CHECK(floats(g.variables().at("gain").value())[0] == 5.f);
    CHECK(floats(g(zeros({20})))[7] == Approx(15.f + floats(held)[7]));
  };
  jit::save(f, folder / "new", {.weights = folder / "new.safetensors"});  // names of constants give way to Variables
  check(folder / "new", folder / "new.safetensors");
  CHECK(floats(jit::load<Tensor(Tensor)>(folder / "new").variables().at("constant.3").value())[0] == 0.f);
  io::save_safetensors(folder / "there.safetensors",
                       {{"a", ones_now}, {"gain", ones_now}, {"scale", ones_now}, {"held", held}});
  jit::save(f, folder / "there", {.weights = folder / "there.safetensors"});
  check(folder / "there", folder / "there.safetensors");
  jit::save(f, folder / "within");  // weights in the file give way, too
  check(folder / "within", folder / "there.safetensors");
  io::save_safetensors(folder / "foreign", {{"other", ones_now}});
  CHECK_CONTAINS(
      error_of<IoError>([&] { jit::load<Tensor(Tensor)>(folder / "within", {.weights = folder / "foreign"}); }),
      "has the name of one of its own");
  CHECK_THROWS_AS(jit::load<Tensor(Tensor)>(folder / "within", {.weights = folder / "absent"}), IoError);
}

TEST_CASE("save: weights of another folder are taken only where they are named") {
  const Folder folder, other;
  const Variable w(randn({32}), "w");
  auto f = jit::compile([&](const Tensor& x) { return x + w; });
  f(zeros({32}));
  jit::save(f, folder / "f", {.weights = other / "w.safetensors"});
  CHECK_CONTAINS(error_of<IoError>([&] { jit::load<Tensor(Tensor)>(folder / "f"); }), "of another folder");
  auto g = jit::load<Tensor(Tensor)>(folder / "f", {.weights = other / "w.safetensors"});
  CHECK(bits(g(zeros({32}))) == bits(w.value()));
}
