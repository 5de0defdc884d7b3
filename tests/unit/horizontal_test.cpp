// Horizontal fusion: independent kernels of one plan run as one launch. What is grouped and what is not, that no bit
// changes, what it may cost in memory, and what explain(), the timeline, profiles and files of functions say of it.
#include "../checks.hpp"
#include "../plan_harness.hpp"
#include "../temporary_folder.hpp"

#include <sinter/regions.hpp>
#include <sinter/runtime/launch_group.hpp>
#include <sinter/runtime/watch.hpp>
#include <sinter/sinter.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

struct Threads {
  int before = thread_count();
  explicit Threads(int count) { set_thread_count(count); }
  ~Threads() { set_thread_count(before); }
};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// The shapes of GPT-2's 148 parameters, for vectors of `d`.
std::vector<Shape> shapes_of_gpt2(std::int64_t d, std::int64_t words, std::int64_t positions) {
  std::vector<Shape> shapes{{words, d}, {positions, d}};
  for (int layer = 0; layer < 12; ++layer)
    for (const Shape& shape : {Shape{d}, Shape{d}, Shape{d, 3 * d}, Shape{3 * d}, Shape{d, d}, Shape{d}, Shape{d},
                               Shape{d}, Shape{d, 4 * d}, Shape{4 * d}, Shape{4 * d, d}, Shape{d}})
      shapes.push_back(shape);
  shapes.push_back({d});
  shapes.push_back({d});
  return shapes;
}

/// AdamW over Variables, from the paper's formulas (Loshchilov and Hutter, "Decoupled weight decay regularization").
struct Adam {
  std::vector<Variable> weights, means, squares;
  explicit Adam(const std::vector<Shape>& shapes) {
    manual_seed(3);
    for (const Shape& shape : shapes) {
      weights.emplace_back(randn(shape));
      means.emplace_back(zeros(shape));
      squares.emplace_back(zeros(shape));
    }
  }
  auto compiled(jit::Options options = {}) const {
    return jit::compile(
        [self = *this](const std::vector<Tensor>& gradients, Scalar rate, Scalar first, Scalar second) {
          for (std::size_t i = 0; i < gradients.size(); ++i) {
            const Tensor mean = self.means[i] * 0.9f + gradients[i] * 0.1f;
            const Tensor square = self.squares[i] * 0.999f + gradients[i] * gradients[i] * 0.001f;
            self.weights[i] =
                self.weights[i] * (1.0 - rate * 0.01) - rate * (mean / first) / (sqrt(square / second) + 1e-8f);
            self.means[i] = mean;
            self.squares[i] = square;
          }
        },
        options);
  }
};

std::vector<Tensor> gradients_for(const std::vector<Shape>& shapes) {
  std::vector<Tensor> gradients;
  for (const Shape& shape : shapes) gradients.push_back(randn(shape));
  eval(gradients);
  return gradients;
}

}  // namespace

TEST_CASE("horizontal: a step of AdamW over the 148 parameters of GPT-2 is one launch, with the same bits") {
  const std::vector<Shape> shapes = shapes_of_gpt2(48, 500, 64);
  REQUIRE(shapes.size() == 148);
  const Adam together(shapes), apart(shapes);
  const std::vector<Tensor> gradients = gradients_for(shapes);
  auto step = together.compiled();
  auto reference = apart.compiled({.horizontal_fusion = false});
  for (int round = 1; round <= 3; ++round) {
    const Threads threads(round);
    const float first = 1 - std::pow(0.9f, static_cast<float>(round)),
                second = 1 - std::pow(0.999f, static_cast<float>(round));
    step(gradients, 1e-2f, first, second);
    reference(gradients, 1e-2f, first, second);
  }
  CHECK(step.stats().launches <= 3);
  CHECK(step.stats().kernels == 148);
  CHECK(reference.stats().launches == 148);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    CHECK((floats(together.weights[i]) == floats(apart.weights[i])));
    CHECK((floats(together.squares[i]) == floats(apart.squares[i])));
  }
  // The first element of the first weight, in double.
  manual_seed(3);
  double weight = static_cast<double>(floats(randn(shapes[0]))[0]), mean = 0, square = 0;
  const auto gradient = static_cast<double>(floats(gradients[0])[0]);
  for (int round = 1; round <= 3; ++round) {
    mean = 0.9 * mean + 0.1 * gradient;
    square = 0.999 * square + 0.001 * gradient * gradient;
    weight = weight * (1 - 1e-4) -
             1e-2 * (mean / (1 - std::pow(0.9, round))) / (std::sqrt(square / (1 - std::pow(0.999, round))) + 1e-8);
  }
  CHECK(floats(together.weights[0])[0] == Approx(weight).epsilon(1e-5));
  const std::string text = step.explain(gradients, 1e-2f, 0.1f, 0.1f).text();
  CHECK(says(text, "are one launch: group of "));
  CHECK(says(text, "148 kernels in "));
}

TEST_CASE("horizontal: small reductions and products that need nothing of each other are one launch") {
  const auto many = [](const std::vector<Tensor>& x) {
    std::vector<Tensor> results;
    for (const Tensor& each : x) results.push_back(amax(exp(each), 1) - mean(each, 1));
    results.push_back(sum(x[0]));
    results.push_back(sum(x[1] * x[1], 0));
    return results;
  };
  auto together = jit::compile(many);
  auto apart = jit::compile(many, {.horizontal_fusion = false});
  std::vector<Tensor> x;
  for (std::int64_t i = 0; i < 20; ++i) x.push_back(randn({40 + i, 300 - i}));
  for (const int count : {1, 4}) {
    const Threads threads(count);
    const std::vector<Tensor> found = together(x), wanted = apart(x);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK((floats(found[i]) == floats(wanted[i])));
  }
  CHECK(together.stats().launches == 1);
  CHECK(together.stats().kernels >= 20);

  const auto products = [](Tensor in, Tensor q, Tensor k, Tensor v) {
    return std::tuple(matmul(in, q), matmul(in, k), matmul(in, v));
  };
  auto as_one = jit::compile(products);
  auto one_by_one = jit::compile(products, {.horizontal_fusion = false});
  const Tensor in = randn({65, 700}), q = randn({700, 130}), k = randn({700, 130}), v = randn({700, 70});
  const Threads threads(3);
  const auto [a, b, c] = as_one(in, q, k, v);
  const auto [d, e, f] = one_by_one(in, q, k, v);
  CHECK((floats(a) == floats(d)));
  CHECK((floats(b) == floats(e)));
  CHECK((floats(c) == floats(f)));
  CHECK(as_one.stats().launches == 1);
  CHECK(one_by_one.stats().launches == 3);
}

TEST_CASE("horizontal: three and more equal branches are one launch, too, and blocks in a row stay calls") {
  const auto products = [](Tensor in, Tensor q, Tensor k, Tensor v) {
    return std::tuple(tanh(matmul(in, q)), tanh(matmul(in, k)), tanh(matmul(in, v)));
  };
  auto as_one = jit::compile(products);
  auto one_by_one = jit::compile(products, {.horizontal_fusion = false});
  const Tensor in = randn({65, 300}), q = randn({300, 130}), k = randn({300, 130}), v = randn({300, 130});
  const auto [a, b, c] = as_one(in, q, k, v);
  const auto [x, y, z] = one_by_one(in, q, k, v);
  CHECK((floats(a) == floats(x)));
  CHECK((floats(b) == floats(y)));
  CHECK((floats(c) == floats(z)));
  CHECK(as_one.stats().launches == 1);

  const auto chain = [](Tensor h, const std::vector<Tensor>& w) {
    for (const Tensor& each : w) h = tanh(matmul(h, each)) + h;
    return h;
  };
  const std::vector<Tensor> w(6, randn({30, 30}) * 0.1f);
  auto layers = jit::compile(chain);
  layers(randn({4, 30}), w);
  CHECK(says(layers.explain(randn({4, 30}), w).text(), "region"));
}

TEST_CASE("horizontal: long rows, columns, strides, transposed operands, no elements and changed sizes") {
  const auto all = [](Tensor x, Tensor y, Tensor z) {
    return std::tuple(sum(x), amax(y), sum(x * 3, 0), mean(transpose(y, 0, 1) * 2, 0), transpose(z, 0, 1) + 1, y + y);
  };
  auto together = jit::compile(all, {.dynamic = jit::Dynamic::always});
  auto apart = jit::compile(all, {.dynamic = jit::Dynamic::always, .horizontal_fusion = false});
  const Threads threads(4);
  for (const auto& [rows, columns] : {std::pair<int, int>{2, 300001}, {300, 257}, {7, 1}, {1, 4099}}) {
    INFO(rows << " x " << columns);
    const Tensor x = randn({rows, columns}), y = randn({columns, rows})(slice({}, {}, 2)), z = randn({rows + 3, 200});
    const auto found = together(x, y, z);
    const auto wanted = apart(x, y, z);
    const auto bits = [](const auto& results) {
      return std::apply([](const auto&... each) { return std::vector<std::vector<float>>{floats(each)...}; }, results);
    };
    CHECK((bits(found) == bits(wanted)));
  }
  auto empty = jit::compile([](Tensor x, Tensor y) { return std::tuple(x + 1, sum(y), y * 2); });
  const auto [none_there, total, twice] = empty(zeros({0, 5}), ones({300, 300}));
  CHECK(none_there.numel() == 0);
  CHECK(item<float>(total) == 90000);
  CHECK(floats(twice)[7] == 2);
}

TEST_CASE("horizontal: what needs another, may fail or runs on the host is not in a group") {
  // A chain; a take that may fail between two; a callback's order.
  auto chain = jit::compile([](Tensor x) { return softmax(cumsum(x, 1), 0); });
  chain(ones({30, 40}));
  CHECK(chain.stats().launches == chain.stats().kernels);

  auto takes = jit::compile(
      [](Tensor x, Tensor at, Tensor y) { return std::tuple(sum(y, 0), take(x, at, 0), sum(y * 2, 1), cumsum(y, 1)); });
  const Tensor x = randn({5, 400}), y = randn({300, 200});
  takes(x, copy_of(std::vector<std::int64_t>{1, 4}), y);
  const std::string plan = takes.explain(x, copy_of(std::vector<std::int64_t>{1, 4}), y).text();
  const std::size_t group = plan.find("are one launch: ");
  if (group != std::string::npos) CHECK_FALSE(says(plan.substr(group, plan.find('\n', group) - group), "take"));
  CHECK_THROWS_AS(takes(x, copy_of(std::vector<std::int64_t>{1, 9}), y), IndexError);

  std::vector<int> seen;
  auto effects = jit::compile([&](Tensor a, Tensor b) {
    jit::callback([&](float value) { seen.push_back(static_cast<int>(value)); }, sum(a));
    jit::callback([&](float value) { seen.push_back(static_cast<int>(value)); }, sum(b) * 2);
    return std::tuple(sum(a, 0), sum(b, 1));
  });
  effects(ones({200, 300}), ones({300, 200}));
  CHECK(seen == std::vector<int>{60000, 120000});
}

TEST_CASE("horizontal: a group costs at most an eighth of the arena, or 64 KiB") {
  // Each branch makes a large value and folds it: side by side they would all be held at once.
  const auto branches = [](bool groups) {
    return jit::compile(
        [](const std::vector<Tensor>& left, Tensor w) {
          std::vector<Tensor> results;
          for (std::size_t i = 0; i < left.size(); ++i)  // blocks that differ are not outlined
            results.push_back(amax(matmul(left[i], w) * static_cast<float>(i + 2), 1));
          return results;
        },
        {.horizontal_fusion = groups});
  };
  std::vector<Tensor> left;
  for (int i = 0; i < 12; ++i) left.push_back(randn({100, 20}));
  const Tensor w = randn({20, 3000});
  auto together = branches(true), apart = branches(false);
  const std::vector<Tensor> found = together(left, w), wanted = apart(left, w);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK((floats(found[i]) == floats(wanted[i])));
  const std::int64_t held = together.stats().peak_bytes, without = apart.stats().peak_bytes;
  CHECK(without >= 100 * 3000 * 4);
  CHECK(held <= without + std::max(without / growth_share, free_growth));

  // Near miss: small values may be held together.
  std::vector<Tensor> small;
  for (int i = 0; i < 6; ++i) small.push_back(randn({3, 20}));
  const Tensor narrow = randn({20, 40});
  together(small, narrow);
  CHECK(together.stats().launches < together.stats().kernels);
}

TEST_CASE("horizontal: where sizes are symbols the arena grows by an eighth at any size") {
  const auto branches = [](bool groups) {
    return jit::compile(
        [](const std::vector<Tensor>& left) {
          std::vector<Tensor> results;
          for (std::size_t i = 0; i < left.size(); ++i) {
            const Tensor sums = cumsum(left[i] * static_cast<float>(i + 2), 0);
            results.push_back(amax(sums * reshape(sums, {-1, 1}), 1) + static_cast<float>(i));
          }
          return results;
        },
        {.dynamic = jit::Dynamic::always, .horizontal_fusion = groups});
  };
  auto together = branches(true), apart = branches(false);
  for (const std::int64_t n : {8, 512}) {
    std::vector<Tensor> left;
    for (int i = 0; i < 24; ++i) left.push_back(randn({n}));
    const std::vector<Tensor> found = together(left), wanted = apart(left);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK((floats(found[i]) == floats(wanted[i])));
    const std::int64_t held = together.stats().peak_bytes, without = apart.stats().peak_bytes;
    CHECK(without > 0);
    CHECK(held <= without + without / growth_share);
  }
}

TEST_CASE("horizontal: in place, donated and read by another: each value is whole when it is read") {
  // Every step writes over what it reads last, some of which others of the group read too.
  const auto f = [](Tensor a, Tensor b, Tensor w) {
    const Tensor p = matmul(a, w), q = matmul(b, w);
    return std::tuple(cumsum(p, 1), cumsum(q, 0), matmul(softmax(p, 1), w), matmul(tanh(q) + p, w), sum(p * q, 0));
  };
  auto together = jit::compile(f);
  auto apart = jit::compile(f, {.horizontal_fusion = false});
  const Threads threads(4);
  for (int round = 0; round < 20; ++round) {
    const Tensor a = randn({150, 150}), b = randn({150, 150}), w = randn({150, 150});
    const auto found = together(a, b, w);
    const auto wanted = apart(a, b, w);
    CHECK((floats(std::get<0>(found)) == floats(std::get<0>(wanted))));
    CHECK((floats(std::get<1>(found)) == floats(std::get<1>(wanted))));
    CHECK((floats(std::get<2>(found)) == floats(std::get<2>(wanted))));
    CHECK((floats(std::get<3>(found)) == floats(std::get<3>(wanted))));
    CHECK((floats(std::get<4>(found)) == floats(std::get<4>(wanted))));
  }
}

TEST_CASE("horizontal: gradients, loops, regions, vmap, breaks, lazy graphs and files of functions") {
  const Threads threads(3);
  const auto loss = [](Tensor a, Tensor b) { return sum(exp(a * 0.1f)) + sum(square(b)); };
  const Tensor a = randn({150, 310}), b = randn({210, 190});
  const auto gradients = [&](bool groups) {
    auto f = jit::compile([&](Tensor x, Tensor y) { return std::get<1>(jit::value_and_grad<0, 1>(loss)(x, y)); },
                          {.horizontal_fusion = groups});
    return f(a, b);
  };
  const auto [da, db] = gradients(true);
  const auto [ra, rb] = gradients(false);
  CHECK((floats(da) == floats(ra)));
  CHECK((floats(db) == floats(rb)));

  using Pair = std::tuple<Tensor, Tensor>;
  const auto loop = [](Tensor x, Tensor y) {
    const auto body = [](Scalar, Pair c) { return Pair(std::get<0>(c) * 0.5f + 1, cumsum(std::get<1>(c), 1) * 0.1f); };
    return jit::fori_loop(0, 3, body, Pair(x, y));
  };
  auto looped = jit::compile(loop);
  auto plain = jit::compile(loop, {.horizontal_fusion = false});
  const auto [u, v] = looped(a, b);
  const auto [pu, pv] = plain(a, b);
  CHECK((floats(u) == floats(pu)));
  CHECK((floats(v) == floats(pv)));

  auto block = jit::region([](Tensor x, Tensor y) { return std::tuple(Tensor(tanh(x)), cumsum(y, 1)); });
  const auto twice = [&](Tensor x, Tensor y) {
    auto [p, q] = block(x, y);
    return block(p, q);
  };
  auto regions = jit::compile(twice);
  auto regions_apart = jit::compile(twice, {.horizontal_fusion = false});
  CHECK((floats(std::get<1>(regions(a, b))) == floats(std::get<1>(regions_apart(a, b)))));

  auto mapped = jit::compile(jit::vmap([](Tensor x, Tensor y) { return std::tuple(cumsum(x, 0), amax(y, 0)); }));
  const auto [sums, most] = mapped(b, b);
  CHECK((floats(sums) == floats(cumsum(b, 1))));
  CHECK((floats(most) == floats(amax(b, 1))));

  auto breaks = jit::compile([](Tensor x, Tensor y) {
    const Tensor p = cumsum(x, 1), q = sum(y, 0);
    return item(sum(x)) > 1e9 ? std::tuple(p, q) : std::tuple(Tensor(p * 2), Tensor(q * 2));
  });
  const auto [p, q] = breaks(a, b);
  CHECK((floats(p) == floats(cumsum(a, 1) * 2)));
  CHECK(breaks.stats().launches < breaks.stats().kernels);

  const Folder folder;
  auto saved =
      jit::compile([](Tensor x, Tensor y) { return std::tuple(cumsum(x, 1), sum(y, 0)); }, {.epilogue_fusion = false});
  auto unset = jit::compile([](Tensor x, Tensor y) { return std::tuple(cumsum(x, 1), sum(y, 0)); },
                            {.horizontal_fusion = false});
  const auto [before, none_of_it] = saved(a, b);
  unset(a, b);
  jit::save(saved, folder / "f");
  jit::save(unset, folder / "g");
  auto loaded = jit::load<std::tuple<Tensor, Tensor>(Tensor, Tensor)>(folder / "f");
  CHECK((floats(std::get<0>(loaded(a, b))) == floats(before)));
  CHECK(loaded.stats().launches == 1);
  auto other = jit::load<std::tuple<Tensor, Tensor>(Tensor, Tensor)>(folder / "g");
  other(a, b);
  CHECK(other.stats().launches == 2);
}

TEST_CASE("horizontal: the options, scopes, files, and what contradicts") {
  const auto f = [](Tensor x, Tensor y) { return std::tuple(cumsum(x, 1), cumsum(y, 0)); };
  const Tensor x = randn({20, 30}), y = randn({30, 40});
  for (const std::string name : {"horizontal_fusion", "epilogue_fusion"}) {
    jit::Options options{.fuse = false};
    (name == "horizontal_fusion" ? options.horizontal_fusion : options.epilogue_fusion) = true;
    CHECK_THROWS_WITH(jit::compile(f, options),
                      Catch::Contains(name + " = true contradicts fuse = false, which fuses nothing") &&
                          Catch::Contains("leave " + name + " out, or set fuse to true"));
  }
  auto unfused = jit::compile(f, {.fuse = false, .horizontal_fusion = false});  // a near miss
  unfused(x, y);
  CHECK(unfused.stats().launches == 2);

  auto scoped = jit::compile(f);
  scoped(x, y);
  CHECK(scoped.stats().launches == 1);
  {
    const auto scope = jit::scope("apart", {.horizontal_fusion = false});
    scoped(x, y);
    CHECK(scoped.stats().launches == 2);
  }
  auto on_budget = jit::compile(f, {.memory_budget = 1 << 20});
  auto asked_for = jit::compile(f, {.memory_budget = 1 << 20, .horizontal_fusion = true});
  on_budget(x, y);
  asked_for(x, y);
  CHECK(on_budget.stats().launches == 2);
  CHECK(asked_for.stats().launches == 1);
  const auto product = [](Tensor p, Tensor q) { return relu(matmul(p, q) + 1); };
  auto with = jit::compile(product), without = jit::compile(product, {.epilogue_fusion = false});
  CHECK((floats(with(x, y)) == floats(without(x, y))));
  CHECK(with.stats().kernels == 1);
  CHECK(without.stats().kernels == 2);
  const std::string html = without.explain(x, y).html();
  CHECK(says(html, "fusion into products is off (Options::epilogue_fusion)"));
  bool is_listed = false;
  for (const jit::OptionInfo& option : jit::list_options())
    is_listed |= option.name == "horizontal_fusion" && option.values == "true, false" && option.default_value == "true";
  CHECK(is_listed);
}

TEST_CASE("horizontal: the page, the timeline and profiles show groups and their kernels") {
  const Threads threads(2);
  auto f = jit::compile([](Tensor x, Tensor y) { return std::tuple(cumsum(tanh(x), 1), amax(y, 1)); });
  const Tensor x = randn({300, 500}), y = randn({300, 700});
  f(x, y);
  REQUIRE(f.stats().launches == 1);
  CHECK(says(f.explain(x, y).html(), "are one launch: group of"));
  CHECK(says(f.explain(x, y).html(), "one of kernels 0 to 1, which are one launch"));
  const Folder folder;
  const std::string path = folder / "trace.json";
  jit::start_trace(path);
  f(x, y);
  jit::stop_trace();
  std::ifstream file(path);
  const std::string trace{std::istreambuf_iterator<char>(file), {}};
  CHECK(count_of(trace, "\"name\":\"group of 2 kernels\",\"cat\":\"kernel\"") +
            count_of(trace, "\"cat\":\"kernel\",\"name\":\"group of 2 kernels\"") ==
        1);
  CHECK(says(trace, "cumsum"));
  const jit::Profile profile = jit::profile({.seconds = 0.05, .limits = false}, f, x, y);
  INFO(profile.text());
  REQUIRE(profile.rows.size() == 2);
  for (const jit::ProfileRow& row : profile.rows) {
    CHECK(row.nanoseconds > 0);
    CHECK(row.runs == 1);
  }
  CHECK(says(profile.rows[0].name + profile.rows[1].name, "cumsum"));
}

namespace {
/// Counts how often each of its tasks was run.
struct CountingLaunch final : Launch {
  explicit CountingLaunch(LaunchWork work) : work_(work), runs(static_cast<std::size_t>(work.tasks)) {}
  void run(void* const*) override { ++whole; }
  LaunchWork work() override { return work_; }
  void begin_tasks(void* const*) override { ++begun; }
  void run_tasks(std::int64_t begin, std::int64_t end) override {
    for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
  }
  void end_tasks() override {
    ++ended;
    if (fails) throw GatherError(7, 3);
  }
  LaunchWork work_;
  std::vector<std::atomic<int>> runs;
  int whole = 0, begun = 0, ended = 0;
  bool fails = false;
};
}  // namespace

TEST_CASE("horizontal: a group runs each task once, whole launches whole, and leaves out what has nothing to do") {
  const Threads threads(4);
  CountingLaunch many({1000, 1e6}), few({3, 5e5}), tiny({1, 10}), whole({0, 0}), left_out({50, 1e5}),
      free_of_cost({9, 0});
  CpuGroup group({&many, &few, &tiny, &whole, &left_out, &free_of_cost});
  CHECK(group.pays());
  void* operand = nullptr;
  void* const* there = &operand;
  const std::vector<void* const*> operands{there, there, there, there, nullptr, there};
  for (int round = 1; round <= 5; ++round) {
    group.run(operands);
    for (const CountingLaunch* launch : {&many, &few, &tiny, &free_of_cost}) {
      for (const auto& runs : launch->runs) CHECK(runs == round);
      CHECK(launch->begun == round);
      CHECK(launch->ended == round);
    }
    CHECK(whole.whole == round);
  }
  CHECK(left_out.begun == 0);
  CHECK(left_out.runs[0] == 0);
  few.fails = true;
  CHECK_THROWS_AS(group.run(operands), GatherError);
  CHECK(group.failed() == 1);
  tiny.fails = true;  // a second error: the first is thrown, and each launch ends what it began
  CHECK_THROWS_AS(group.run(operands), GatherError);
  CHECK(group.failed() == 1);
  for (const CountingLaunch* launch : {&many, &few, &tiny, &free_of_cost}) CHECK(launch->ended == 7);
  CHECK_FALSE(CpuGroup({&tiny, &free_of_cost}).pays());  // not worth a thread
  CHECK_FALSE(CpuGroup({&many, &whole}).pays());         // nothing to share with
}
