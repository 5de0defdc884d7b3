// jit::save and jit::load: callbacks, operations of every kind, options, threads, and damaged files, which are errors.
#include "../files_and_errors.hpp"
#include "../tensor_bits.hpp"
#include "catch.hpp"
#include "temporary_folder.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace sinter;
using sinter_test::bits;
using sinter_test::floats;

namespace {
int called = 0;
void first_callback(float) { called = 1; }
void second_callback(float) { called = 2; }
}  // namespace

TEST_CASE("save: callbacks of one type are told apart, and those that hold something have no name") {
  const Folder folder;
  jit::register_callback("first of a type", &first_callback);
  jit::register_callback("second of a type", &second_callback);
  auto f = jit::compile([](const Tensor& x) {
    jit::callback(&second_callback, sum(x));
    return x;
  });
  f(ones({3}));
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  called = 0;
  g(ones({3}));
  CHECK(called == 2);
  jit::save(g, folder / "again");
  jit::load<Tensor(Tensor)>(folder / "again")(ones({3}));

  int here = 0;
  const auto holds = [&here](float) { ++here; };
  jit::register_callback("holds something", holds);
  auto h = jit::compile([&](const Tensor& x) {
    jit::callback(holds, sum(x));
    return x;
  });
  h(ones({3}));
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(h, folder / "h"); }), "an object without members");
}

TEST_CASE("save: functions without arguments or results, nameable ones, and versions of several types") {
  const Folder folder;
  const Variable count(zeros({}), "count");
  auto tick = jit::compile([&] { count += 1.f; });
  tick();
  jit::save(tick, folder / "tick");
  auto loaded = jit::load<void()>(folder / "tick");
  loaded();
  loaded();
  CHECK(item<float>(loaded.variables().at("count").value()) == 3.f);

  auto any = jit::compile([](const auto& x) {
    if constexpr (requires { x.first; }) return x.first + x.second;
    else return x * 2.f;
  });
  any(ones({2}));
  any(std::pair(ones({2}), ones({2})));
  jit::save(any, folder / "any");
  CHECK(floats(jit::load<Tensor(Tensor)>(folder / "any")(ones({2}))) == std::vector<float>{2, 2});
  const jit::Function<Tensor(std::pair<Tensor, Tensor>)> named =
      jit::load<Tensor(std::pair<Tensor, Tensor>)>(folder / "any");
  CHECK(floats(named(std::pair(ones({2}), ones({2})))) == std::vector<float>{2, 2});
  jit::save(named, folder / "again");
  CHECK_CONTAINS(error_of<UserError>([&] { jit::load<Tensor(Tensor)>(folder / "again"); }),
                 "is ((Tensor, Tensor)) -> Tensor");
  CHECK_THROWS_AS(jit::save(jit::Function<Tensor(Tensor)>(), folder / "empty"), UserError);
}

TEST_CASE("save: operations of every kind keep their attributes") {
  const Folder folder;
  manual_seed(5);
  const Tensor w = randn({6, 3, 3, 3}), index = tensor({2, 0, 1});
  auto f = jit::compile([&](const Tensor& image, const Tensor& m) {
    std::vector<Tensor> out;
    out.push_back(max_pool2d(conv2d(image, w, {.stride = {2, 1}, .padding = {{1, 1}, {0, 1}}}), {.size = 2}));
    out.push_back(interpolate(image, {.scale = {2, 2}, .mode = Interpolation::linear}));
    out.push_back(scaled_dot_product_attention(image, image, image, {.causal = true}));
    out.push_back(layer_norm(m, {m.size(1)}));
    out.push_back(cumsum(m, 1));
    out.push_back(flip(sort(m, 1).values, {0}));
    out.push_back(topk(m, 2, 1).values);
    out.push_back(take(m, index, 0));
    out.push_back(index_add(m, 0, index, m(slice(0, 3))));
    out.push_back(where(m > 0.f, m, -1.5f));
    out.push_back(pad(m, {{1, 0}, {0, 2}}, 7.f));
    out.push_back(linalg::solve(matmul(m, m.t()) + eye(m.size(0)), m));
    out.push_back(argmax(m, 1).to(DType::f32) + amax(one_hot(index, 4).to(DType::f32)));
    out.push_back(jit::grad([](const Tensor& x) { return sum(logsumexp(x * x, 1)); })(m));
    out.push_back(jit::grad(
        [](const Tensor& x) { return sum(jit::checkpoint([](const Tensor& y) { return tanh(y) * y; })(x)); })(m));
    out.push_back(jit::vmap([](const Tensor& row) { return softmax(row, 0); })(m));
    out.push_back(maximum(m.to(DType::f16).to(DType::f32), -0.5f));
    out.push_back(linalg::svd(m).s);
    return out;
  });
  const Tensor image = randn({2, 3, 8, 8}), m = randn({5, 4});
  const auto expected = f(image, m);
  jit::save(f, folder / "f");
  const auto found = jit::load<std::vector<Tensor>(Tensor, Tensor)>(folder / "f")(image, m);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO("result " << i);
    CHECK(bits(found[i]) == bits(expected[i]));
  }
}

TEST_CASE("save: stances, freezing, options and calls before anything is compiled") {
  const Folder folder;
  auto f = jit::compile([](const Tensor& x) { return x * 2.f; }, {.fuse = false, .recompile_limit = 1});
  CHECK_CONTAINS(error_of<UserError>([&] { jit::save(f, folder / "f"); }), "nothing is compiled");
  for (const int rank : {1, 2}) f(ones(Shape(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 2))));
  jit::save(f, folder / "f");
  auto g = jit::load<Tensor(Tensor)>(folder / "f");
  CHECK_THROWS_AS(g.freeze(), UserError);
  g.warm_up(ones({2}));
  g.freeze();
  CHECK(floats(g(ones({2}))) == std::vector<float>{2, 2});
  CHECK_THROWS_AS(g(ones({2, 2})), RecompileError);
  g.unfreeze();
  {
    jit::StanceGuard fail(jit::Stance::fail_on_recompile);  // a saved version is none of this process's recompiles
    CHECK(floats(g(ones({2, 2}))).size() == 4);
  }
  CHECK(g.stats().recompiles == 0);
  CHECK_THROWS_AS(g(ones({3})), RecompileError);
  CHECK_CONTAINS(g.explain(ones({2})).text(), "save_more_test.cpp");
  auto plain = jit::load<Tensor(Tensor)>(folder / "f", {.options = jit::Options{.backend = "eager"}});
  CHECK(floats(plain(ones({2}))) == std::vector<float>{2, 2});
}

TEST_CASE("save: threads call a loaded function for the first time at once, each with its generator") {
  const Folder folder;
  const Tensor w = randn({8, 8});
  auto f = jit::compile([&](const Tensor& x) { return tanh(matmul(x, w)) + randn({2, 8}); });
  f(ones({2, 8}));
  jit::save(f, folder / "f");
  const auto g = jit::load<Tensor(Tensor)>(folder / "f");
  const Tensor x = randn({2, 8});
  manual_seed(9);
  const auto expected = bits(f(x));
  std::array<std::vector<std::uint32_t>, 4> found;
  std::vector<std::thread> threads;
  for (auto& result : found)
    threads.emplace_back([&] {
      manual_seed(9);
      result = bits(g(x));
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : found) CHECK(result == expected);
  CHECK(g.stats().compiles == 1);
}

TEST_CASE("save: damaged files are errors that name the byte") {
  const Folder folder;
  const Tensor w = arange(32).to(DType::f32);
  auto f = jit::compile([&](const Tensor& x) { return x * w; });
  f(ones({32}));
  jit::save(f, folder / "f");
  const std::string whole = read_file(folder / "f");
  const auto load = [&](const std::string& bytes, bool checks = true) {
    write_file(folder / "damaged", bytes);
    return jit::load<Tensor(Tensor)>(folder / "damaged", {.check_weights = checks});
  };
  CHECK_NOTHROW(load(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_THROWS_AS(load(whole.substr(0, size)), IoError);
  const std::size_t weights = whole.size() - 128;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    try {
      load(changed);
      CHECK((at >= weights - 64 && at < weights));  // between the parts
    } catch (const IoError&) {}
  }
  std::string changed = whole;
  changed[weights + 3] ^= 1;
  CHECK_CONTAINS(error_of<IoError>([&] { load(changed); }), "the checksum of a weight does not fit");
  CHECK_NOTHROW(load(changed, false));
  CHECK_CONTAINS(
      error_of<IoError>([&] { load("not a function, but as long as the head of one or longer..........."); }),
      "no file of jit::save");
  CHECK_THROWS_AS(jit::load<Tensor(Tensor)>(folder / "absent"), IoError);
  CHECK_THROWS_AS(jit::save(f, folder / "no/such/folder"), IoError);
}
