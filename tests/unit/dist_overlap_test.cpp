// Communication beside computation: where the steps of a training step's plan have their collectives, and what streams
// of a GPU wait for, over a driver and an NCCL that only count (stub_driver.hpp).
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"
#include "../stub_driver.hpp"

#include <sinter/dist.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {
constexpr int layers = 6, features = 16;

/// A training step of a deep network whose every layer is a bucket of its own, and what its ranks make of it.
template <class Use>
void with_training_step(const dist::RunOptions& options, const Use& use) {
  dist::run(options, [&](dist::World world) {
    const TensorOptions on{.dtype = DType::f32, .device = dist::device()};
    std::vector<Variable> model;
    for (int i = 0; i < layers; ++i) model.emplace_back(full({features, features}, 0.1, on));
    jit::requires_grad(model);
    const auto parallel = dist::data_parallel(model, {.bucket_bytes = features * features * 4});
    const auto step = jit::compile([&](Tensor x) {
      jit::zero_grad(model);
      Tensor h = x;
      for (const Variable& w : model) h = tanh(matmul(h, w));
      Tensor loss = parallel.backward(mean(square(h)));
      for (auto w = model.rbegin(); w != model.rend(); ++w) *w -= 0.1f * w->grad();
      return loss;
    });
    const Tensor x = full({8, features}, 0.5, on);
    use(world, step, x);
  });
}
/// The steps of a plan that explain() lists, each with its name.
std::vector<std::string> steps_of(const std::string& text) {
  std::vector<std::string> steps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find("step ") != std::string::npos && line.find(": ") != std::string::npos) steps.push_back(line);
  return steps;
}
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
}  // namespace

TEST_CASE("dist: the gradients of the last layers are reduced before those of the first are computed") {
  std::string text;
  with_training_step({.ranks = 2, .engine = dist::EngineKind::threads},
                     [&](dist::World world, const auto& step, const Tensor& x) {
                       step(x);
                       if (world.rank() == 0) text = step.explain(x).text();
                       dist::barrier();
                     });
  INFO(text);
  const std::vector<std::string> steps = steps_of(text);
  std::vector<std::size_t> collectives, products;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (has(steps[i], "collective")) collectives.push_back(i);
    if (has(steps[i], "matmul") || has(steps[i], "dot")) products.push_back(i);
  }
  REQUIRE(collectives.size() == layers + 1);  // and the loss
  REQUIRE(products.size() >= 3 * layers - 1);
  // Behind each layer's collective, but for the last ones, are products of the layers before it.
  for (std::size_t i = 0; i + 3 < collectives.size(); ++i) CHECK(collectives[i] < products[products.size() - 2]);
  CHECK(collectives[0] < products[products.size() - 7]);
}

TEST_CASE("a training step over a stub of NCCL", "[.stub_nccl]") {
  with_training_step({.ranks = 1, .engine = dist::EngineKind::nccl},
                     [](dist::World, const auto& step, const Tensor& x) {
                       for (int i = 0; i < 2; ++i) {
                         std::printf("step %d\n", i);
                         eval(step(x));
                       }
                       std::printf("end\n");
                       std::fflush(stdout);
                     });
}

TEST_CASE("dist: on a GPU buckets are under way beside the backward pass, and waited for where they are read") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string settings = "LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_STUB_WAITS=1 ";
  const std::string text = under(settings, "[.stub_nccl]");
  const std::string in_place = under(settings + "SINTER_DIST_OVERLAP=0", "[.stub_nccl]");
  const std::string watched = under(settings + "SINTER_TRACE=" + folder + "/trace.json", "[.stub_nccl]");
  std::ostringstream timeline;
  timeline << std::ifstream(folder + "/trace.json").rdbuf();
  std::filesystem::remove_all(folder);
  INFO(text);
  std::vector<std::string> lines = lines_of(text);
  lines.erase(lines.begin(), std::find(lines.begin(), lines.end(), "step 1"));
  REQUIRE(has(text, "step 1\n"));
  // Kernels are on stream 1. Communication is on another one: it waits for its operand, and nobody for it meanwhile.
  std::vector<std::size_t> reductions, joins, launches;
  for (std::size_t i = 0; i < lines.size() && lines[i] != "end"; ++i) {
    if (has(lines[i], "all_reduce of ")) reductions.push_back(i);
    if (has(lines[i], "launch ")) launches.push_back(i);
    if (has(lines[i], "stream 1 of 0 waits for stream ")) joins.push_back(i);
  }
  REQUIRE(reductions.size() == layers + 1);
  REQUIRE_FALSE(joins.empty());
  const std::string beside = lines[reductions[0]].substr(lines[reductions[0]].find("stream "));
  CHECK(beside != "stream 1 of 0");
  for (const std::size_t i : reductions) {
    CHECK(has(lines[i], beside));
    CHECK(lines[i - 1] == beside + " waits for stream 1");
  }
  const auto launches_between = [&](std::size_t from, std::size_t to) {
    return std::count_if(launches.begin(), launches.end(), [&](std::size_t i) { return from < i && i < to; });
  };
  CHECK(joins.front() > reductions[layers - 1]);                    // all gradients are under way by then
  CHECK(launches_between(reductions[0], joins.front()) >= layers);  // beside the rest of the backward pass
  CHECK(launches_between(joins.front(), lines.size()) >= 1);        // the updates
  // In the same order. Watched, the members of a launch are launched one by one. Catch2 3 begins with its seed.
  const auto without_repeats = [](const std::string& of) {
    std::vector<std::string> all_lines = lines_of(of);
    all_lines.erase(all_lines.begin(), std::find(all_lines.begin(), all_lines.end(), "step 0"));
    all_lines.erase(std::unique(all_lines.begin(), all_lines.end()), all_lines.end());
    return all_lines;
  };
  CHECK(without_repeats(watched) == without_repeats(text));
  CHECK(has(timeline.str(), "\"cuda:0 communication\""));
  CHECK_FALSE(has(in_place, beside));
  CHECK(has(in_place, "all_reduce of 256: stream 1 of 0"));
}

TEST_CASE("a rank that is a process, over a stub of NCCL", "[.stub_nccl_rank]") {
  dist::run({.engine = dist::EngineKind::nccl}, [](dist::World world) {
    const Tensor x = full({64}, 1 + world.rank(), {.device = dist::device()});
    eval(dist::all_reduce(x));
    const double sum = item<double>(cast(dist::all_reduce(full({}, 1 + world.rank())), DType::f64));
    std::printf("rank %d of %d on %s by %s, host sum %g\n", world.rank(), world.size(), dist::device().text().c_str(),
                std::string(dist::engine_name()).c_str(), sum);
    std::fflush(stdout);
    // Found before NCCL waits for ever.
    if (std::getenv("SINTER_TEST_DIFFERS") == nullptr) return;
    try {
      eval(dist::all_reduce(ones({1 + world.rank()}, {.device = dist::device()})));
    } catch (const dist::DistError& error) { std::printf("%s\n", error.what()); }
    std::fflush(stdout);
  });
}

TEST_CASE("dist: NCCL with a process for each GPU, which meet by MPI") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  if (std::system("command -v mpirun >/dev/null") != 0) SINTER_SKIP("MPI is not installed (openmpi-bin)");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string settings = "LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off ";
  const std::string launch = std::string(SINTER_SOURCE_DIR) + "/tools/launch -n 2 --timeout 20";
  const std::string text = under(settings + launch, "[.stub_nccl_rank]");
  const std::string differs = under(settings + "SINTER_TEST_DIFFERS=1 " + launch, "[.stub_nccl_rank]");
  std::filesystem::remove_all(folder);
  INFO(text);
  if (has(text, "MPI is not to be had")) SINTER_SKIP("built without MPI");
  CHECK(has(text, "rank 0 of 2 on cuda:0 by nccl, host sum 3"));
  CHECK(has(text, "rank 1 of 2 on cuda:1 by nccl, host sum 3"));
  const std::vector<std::string> lines = lines_of(text);
  CHECK(std::count_if(lines.begin(), lines.end(),
                      [](const std::string& line) { return has(line, "all_reduce of 64: stream"); }) == 2);
  INFO(differs);
  CHECK(has(differs, "the calls of the ranks differ: rank 0 is in all_reduce(sum) of f32[1] on a GPU"));
}

TEST_CASE("dist: batch normalisation over ranks has the statistics and gradients of the whole batch") {
  const auto x = [] { return reshape(sin(arange(12 * 3, {.dtype = DType::f64}) * 1.3), {12, 3}); };
  const auto loss_of = [](Tensor part, Tensor scale, auto&& mean_of) {
    const Tensor mean = mean_of(sinter::mean(part, 0)), deviation = part - mean;
    const Tensor variance = mean_of(sinter::mean(square(deviation), 0));
    return mean_of(sinter::mean(exp(scale * deviation / sqrt(variance + 1e-5))));
  };
  const Tensor scale = arange(3, {.dtype = DType::f64}) + 0.5;
  const auto alone =
      jit::value_and_grad<0, 1>([&](Tensor part, Tensor s) { return loss_of(part, s, [](Tensor v) { return v; }); });
  const auto [value, slopes] = alone(x(), scale);
  const Tensor of_x = std::get<0>(slopes), of_scale = std::get<1>(slopes);
  eval(of_x);
  eval(of_scale);
  dist::run(3, [&](dist::World world) {
    const auto together = jit::value_and_grad<0, 1>([&](Tensor part, Tensor s) {
      return loss_of(part, s, [](Tensor v) { return dist::all_reduce(v, dist::Reduce::mean); });
    });
    const auto check = [&](const auto& function) {
      const auto [own, own_slopes] = function(dist::shard(x(), {0}), scale);
      // Each rank has a loss, which is that of all: their sum is differentiated.
      const Tensor parts = dist::all_gather(Tensor(std::get<0>(own_slopes) / 3.0));
      const Tensor scales = dist::all_reduce(std::get<1>(own_slopes), dist::Reduce::mean);
      const bool is_right = static_cast<bool>(allclose(own, value, {.rtol = 1e-12})) &&
                            static_cast<bool>(allclose(parts, of_x, {.rtol = 1e-9, .atol = 1e-14})) &&
                            static_cast<bool>(allclose(scales, of_scale, {.rtol = 1e-9, .atol = 1e-14}));
      if (!is_right) throw std::runtime_error("rank " + std::to_string(world.rank()) + ": another gradient");
    };
    check(together);
    check(jit::compile(together));
  });
}

namespace {
/// Asks for the rank on one of its paths.
Tensor doubled_or_added(Tensor t) {
  if (item<float>(sum(t)) > 0) return t * 2;
  return t + static_cast<float>(dist::rank());
}
}  // namespace

TEST_CASE("dist: a compiled function has a version for each mesh, number of ranks, and rank that it asks for") {
  auto along = jit::compile([](Tensor t) { return dist::all_reduce(t, "x"); });
  auto over_all = jit::compile([](Tensor t) { return dist::all_reduce(t); });
  auto own = jit::compile([](Tensor t) { return t + static_cast<float>(dist::rank() * dist::size()); });
  auto outer = jit::compile([&](Tensor t) { return along(t) * 2; });
  auto extent = jit::compile([](Tensor t) { return t * static_cast<float>(dist::axis_size("x")); });
  auto branches = jit::compile(doubled_or_added);
  const auto is = [](const Tensor& got, float wanted) {
    if (item<float>(got) != wanted)
      throw std::runtime_error("rank " + std::to_string(dist::rank()) + ": " + std::to_string(item<float>(got)));
  };
  for (const int ranks : {4, 2, 4})
    dist::run(ranks, [&](dist::World world) {
      const Tensor one = ones({1}), minus = full({1}, -1.0);
      eval({one, minus});  // calls with numbers that are there take a shorter path
      for (int again = 0; again < 5; ++again) {
        is(over_all(one), static_cast<float>(ranks));
        is(own(one), static_cast<float>(1 + world.rank() * ranks));
        is(branches(one), 2);
        is(branches(minus), static_cast<float>(world.rank() - 1));
        for (const int x : {1, ranks}) {
          const dist::MeshScope scope(dist::Mesh({{"x", x}, {"y", ranks / x}}));
          is(along(one), static_cast<float>(x));
          is(extent(one), static_cast<float>(x));
          is(outer(one), static_cast<float>(2 * x));
        }
      }
    });
  is(over_all(ones({1})), 1);
  CHECK(along.stats().compiles == 4);
  CHECK(over_all.stats().compiles == 3);
  CHECK(own.stats().compiles == 6);
  CHECK(extent.stats().compiles == 4);
  CHECK(branches.stats().compiles <= 4);
}

TEST_CASE("dist: a path that depends on the rank is guarded as soon as it is traced, in warm_up too") {
  auto branches = jit::compile(doubled_or_added);
  const Tensor minus = full({1}, -1.0), one = ones({1});
  eval({minus, one});
  dist::run(3, [&](dist::World world) {
    if (world.rank() == 0) static_cast<void>(branches(one));
    for (int turn = world.size() - 1; turn >= 0; --turn) {
      dist::barrier();
      if (turn == world.rank()) branches.warm_up(minus);
    }
    dist::barrier();
    const jit::StanceGuard stance(jit::Stance::fail_on_recompile);
    for (int again = 0; again < 4; ++again)
      if (item<float>(branches(minus)) != static_cast<float>(world.rank() - 1))
        throw std::runtime_error("rank " + std::to_string(world.rank()) + ": another rank's path");
  });
  CHECK(branches.stats().compiles == 3);
}

TEST_CASE("dist: the reason for another version names what differs; a mesh of the function itself is no reason") {
  auto over_all = jit::compile([](Tensor t) { return dist::all_reduce(t); });
  auto own_mesh = jit::compile([](Tensor t) {
    const dist::MeshScope scope(dist::Mesh({{"x", dist::size()}}));
    return t * static_cast<float>(dist::mesh().size());
  });
  for (const int ranks : {2, 3})
    dist::run(ranks, [&](dist::World) {
      static_cast<void>(item<float>(over_all(ones({1}))));
      for (const int x : {1, ranks}) {
        const dist::MeshScope scope(dist::Mesh({{"x", x}, {"y", ranks / x}}));
        static_cast<void>(item<float>(own_mesh(ones({1}))));
      }
    });
  CHECK(own_mesh.stats().compiles == 2);
  REQUIRE(over_all.stats().recompile_reasons.size() == 1);
  CHECK(over_all.stats().recompile_reasons[0].text ==
        "guard 'ranks' failed: number of ranks: expected 2 ranks, got 3 ranks");
}
