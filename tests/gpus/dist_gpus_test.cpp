// NCCL: ranks that are threads with a GPU each. Every collective against the same on threads of the host, lazy and
// compiled, and data parallel training against one GPU. Skipped, and counted, where there are fewer than two GPUs.
#include "catch.hpp"
#include "partition_rows.hpp"

#include <sinter/dist.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

namespace {
/// Before anything asks.
const int graphs_are_asked_for = setenv("SINTER_DIST_GRAPHS", "1", 1);
int ranks() { return std::min(4, cuda::device_count()); }
bool has_gpus() { return cuda::device_count() >= 2; }
std::string problem_of(const dist::RunOptions& options, const std::function<void(dist::World)>& fn) {
  try {
    dist::run(options, fn);
  } catch (const std::exception& error) { return error.what(); }
  return "";
}
using partition_checks::expect;
Tensor values(std::int64_t rows, std::int64_t columns) {
  return reshape(sin(arange(rows * columns, {.dtype = DType::f32, .device = Device::cpu()}) * 0.37f), {rows, columns}) +
         dist::rank();
}
struct Row {
  const char* name;
  std::function<Tensor(Tensor)> map;
};
std::vector<Row> rows() {
  using dist::Reduce;
  return {{"all_reduce", [](Tensor x) { return dist::all_reduce(x); }},
          {"mean", [](Tensor x) { return dist::all_reduce(x, Reduce::mean); }},
          {"maximum", [](Tensor x) { return dist::all_reduce(x, Reduce::maximum); }},
          {"all_gather", [](Tensor x) { return dist::all_gather(x); }},
          {"all_gather of axis 1", [](Tensor x) { return dist::all_gather(x, 1); }},
          {"reduce_scatter", [](Tensor x) { return dist::reduce_scatter(x); }},
          {"reduce_scatter of axis 1", [](Tensor x) { return dist::reduce_scatter(x, 1); }},
          {"all_to_all", [](Tensor x) { return dist::all_to_all(x, 0, 0); }},
          {"all_to_all of axes 1, 0", [](Tensor x) { return dist::all_to_all(x, 1, 0); }},
          {"broadcast", [](Tensor x) { return dist::broadcast(x, 1); }},
          {"reduce", [](Tensor x) { return dist::reduce(x, 1); }},
          {"permute", [](Tensor x) { return dist::permute(x, {{0, 1}}); }},
          {"ring_shift", [](Tensor x) { return dist::ring_shift(x); }},
          {"vmap of all_gather", jit::vmap([](Tensor x) { return dist::all_gather(x); })},
          {"vmap of reduce_scatter", jit::vmap([](Tensor x) { return dist::reduce_scatter(x); })},
          {"vmap of all_to_all", jit::vmap([](Tensor x) { return dist::all_to_all(x, 0, 0); })},
          {"shard", [](Tensor x) { return dist::shard(x, {1}); }}};
}
}  // namespace

TEST_CASE("gpus: collectives and gradients are those of threads") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  for (const Row& row : rows()) {
    INFO(row.name);
    const auto n = static_cast<std::size_t>(ranks());
    std::vector<Floats> want(n), slopes(n);
    const auto slope = jit::grad([&](Tensor x) { return sum(square(row.map(x))); });
    CHECK(problem_of({.ranks = ranks(), .engine = dist::EngineKind::threads}, [&](dist::World world) {
            const Tensor x = values(24, 36).to(Device::cpu());
            const auto r = static_cast<std::size_t>(world.rank());
            want[r] = to_vector<float>(row.map(x));
            slopes[r] = to_vector<float>(slope(x));
          }) == "");
    CHECK(problem_of({.ranks = ranks(), .engine = dist::EngineKind::nccl}, [&](dist::World world) {
            const Tensor x = values(24, 36).to(dist::device());
            const auto r = static_cast<std::size_t>(world.rank());
            const auto check = [&](const Tensor& got, const Floats& wanted, const char* what) {
              expect(got.device() == dist::device(), std::string(what) + " is on " + got.device().text());
              const Floats found = to_vector<float>(got);
              expect(found.size() == wanted.size(), std::string(what) + " has another size");
              for (std::size_t i = 0; i < found.size(); ++i)
                expect(std::abs(found[i] - wanted[i]) <= 2e-4f * (1 + std::abs(wanted[i])),
                       std::string(what) + " differs at " + std::to_string(i));
            };
            check(row.map(x), want[r], "lazy");
            const auto compiled = jit::compile([&](Tensor v) { return row.map(v * 1); });
            for (int i = 0; i < 3; ++i) check(compiled(x), want[r], "compiled");
            const auto graphs = jit::compile([&](Tensor v) { return Tensor(row.map(v * 1) + 0); },
                                             {.mode = jit::Mode::reduce_overhead});
            for (int i = 0; i < 4; ++i) check(graphs(x), want[r], "in a graph");
            check(slope(x), slopes[r], "gradient");
            check(jit::compile(slope)(x), slopes[r], "compiled gradient");
          }) == "");
  }
}

TEST_CASE("gpus: NaN on one rank stays in the maxima of a partitioned function; i16 has them, too") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  const dist::Mesh two({{"data", 2}});
  CHECK(problem_of({.engine = dist::EngineKind::nccl, .mesh = two}, [&](dist::World world) {
          const auto largest = dist::partition([](Tensor v) { return amax(v, 0); }, two, {.inputs = {{{0, "data"}}}});
          const double nan = std::nan("");
          const Tensor x = full({2, 3}, world.rank() == 1 ? nan : 1.0, {.dtype = DType::f32, .device = dist::device()});
          for (const float value : to_vector<float>(largest(x))) expect(std::isnan(value), "NaN is lost");
          const Tensor y = full({2, 3}, world.rank(), {.dtype = DType::i16, .device = dist::device()});
          for (const float value : to_vector<float>(cast(largest(y), DType::f32)))
            expect(value == 1, "another maximum");
        }) == "");
}

/// As many rows as there is time for on a machine that has to compile all kernels, with other layouts in each round.
TEST_CASE("gpus: partition, operations under random layouts give what the host gives") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  using namespace partition_checks;
  const dist::Mesh mesh({{"data", 2}, {"model", ranks() >= 4 ? 2 : 1}});
  const RowTable table = make_table(partition_checks::rows());
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> done{0};
  const auto run_row = [&](std::size_t r, int round, const std::function<int(int)>& draw) {
    const DividedRow divided = divide(table.rows[r], table.arguments[r], table.want[r].shape(), dist::device(), draw);
    check_divided(table.rows[r], divided, mesh, table.want[r], std::max(5e-4, table.rows[r].rtol),
                  round % 2 == 1 ? RowRun::compiled : RowRun::lazy);
  };
  CHECK(problem_of({.engine = dist::EngineKind::nccl, .timeout = 60s, .mesh = mesh}, [&](dist::World world) {
          std::mt19937 random(7);  // the same on all ranks
          const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
          for (int round = 0; round < 3; ++round)
            for (std::size_t r = 0; r < table.rows.size(); ++r) {
              const bool is_late = std::chrono::steady_clock::now() - start > 45s;
              if (item<float>(dist::broadcast(full({}, is_late, {.device = Device::cpu()}))) > 0) return;
              run_row(r, round, draw);
              if (world.rank() == 0) ++done;
            }
        }) == "");
  std::printf("operations under random layouts on %d GPUs: %d of %zu\n", mesh.size(), done.load(),
              3 * table.rows.size());
  CHECK(done > 0);
}

TEST_CASE("gpus: unequal parts, and gradients of partitioned functions from outside") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  using namespace partition_checks;
  const dist::Mesh mesh({{"data", ranks()}});
  const Tensor x = numbers({7, 5}, 1), w = numbers({5, 3}, 2);
  const auto loss_of = [](const Tensor& weight, const Tensor& v) { return mean(square(tanh(matmul(v, weight)))); };
  const Tensor slope = jit::grad<0>(loss_of)(w, x), by_x = jit::grad<1>(loss_of)(w, x);
  eval(slope);
  eval(by_x);
  CHECK(problem_of({.engine = dist::EngineKind::nccl, .timeout = 60s, .mesh = mesh}, [&](dist::World) {
          const auto on_host = [](const Tensor& t) { return t.to(Device::cpu()); };
          const Tensor all_rows = x.to(dist::device()), weight = w.to(dist::device());
          const Tensor part = dist::shard(all_rows, {0});
          expect(is_near(on_host(dist::replicate(part, {0, {}, 7})), x), "replicate");
          expect(is_near(on_host(dist::all_gather(transpose(part, 0, 1), 1, {}, 7)), transpose(x, 0, 1)), "all_gather");
          const Tensor scattered = dist::reduce_scatter(all_rows);
          expect(is_near(on_host(dist::replicate(scattered, {0, {}, 7})), x * mesh.size()), "reduce_scatter");
          const auto divided = dist::partition(loss_of, mesh, {.inputs = {{}, {{0, "data", 7}}}});
          for (const bool is_compiled : {false, true}) {
            const auto gradient = jit::grad<0, 1>(divided);
            const auto [by_weight, by_part] =
                is_compiled ? jit::compile(gradient)(weight, part) : gradient(weight, part);
            expect(is_near(on_host(by_weight), slope, 1e-3), "the gradient of the weight");
            expect(is_near(on_host(dist::replicate(by_part, {0, {}, 7})), by_x, 1e-3), "the gradient of the part");
          }
          const auto normalised = dist::batch_norm_training(part, zeros({5}, {.device = dist::device()}),
                                                            ones({5}, {.device = dist::device()}));
          const auto want = batch_norm_training(x, zeros({5}), ones({5}));
          expect(is_near(on_host(dist::replicate(normalised.value, {0, {}, 7})), want.value, 1e-3), "batch_norm");
        }) == "");
}

namespace {
/// The sums and averages of ranks, some of which need nothing of each other.
Tensor sums_of(Tensor v) {
  Tensor h = tanh(v) * 2 + sin(v), beside = v;
  for (int i = 0; i < 3; ++i) {
    beside = beside + exp(dist::all_reduce(h * 0.1f * (i + 1)));
    h = softmax(dist::all_reduce(h, dist::Reduce::mean) * 1.5f + v, 1);
  }
  return h + beside;
}
}  // namespace

TEST_CASE("gpus: collectives inside of CUDA graphs") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  const auto plain = jit::compile(sums_of), graphs = jit::compile(sums_of, {.mode = jit::Mode::reduce_overhead});
  const auto check = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      const Tensor x = (values(16, 32) * 0.1f + i + dist::rank()).to(dist::device());
      const Floats want = to_vector<float>(plain(x)), got = to_vector<float>(graphs(x));
      expect(want == got, "call " + std::to_string(i) + " differs");
    }
  };
  const dist::RunOptions options{.ranks = ranks(), .engine = dist::EngineKind::nccl, .timeout = 60s};
  // Each run has its communicators, and graphs of its own; an end while graphs run, and one after a failure.
  for (int run = 0; run < 2; ++run) CHECK(problem_of(options, [&](dist::World) { check(8); }) == "");
  CHECK(problem_of(options, [&](dist::World) {
          const Tensor x = values(16, 32).to(dist::device());
          Tensor last;
          for (int i = 0; i < 200; ++i) last = graphs(x);
        }) == "");
  dist::RunOptions impatient = options;
  impatient.timeout = 2s;
  for (const bool throws : {true, false})
    CHECK_THAT(problem_of(impatient,
                          [&](dist::World world) {
                            check(5);
                            if (world.rank() == 1 && throws) throw std::runtime_error("disk full");
                            if (world.rank() == 1) std::this_thread::sleep_for(4s);
                            check(1);
                          }),
               Catch::Contains(throws ? "disk full" : "rank 1"));
  CHECK(problem_of(options, [&](dist::World) { check(5); }) == "");
}

TEST_CASE("gpus: collectives of several axes inside of CUDA graphs") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  const dist::Mesh mesh({{"data", 2}, {"model", ranks() >= 4 ? 2 : 1}});
  const auto fn = [](Tensor v) {
    const Tensor a = dist::all_reduce(exp(v), "data"), b = dist::all_reduce(v * 3, "model");
    return Tensor(dist::all_gather(tanh(a * 0.1f) + b, 0, "model") * 2 + 1);
  };
  CHECK(problem_of({.engine = dist::EngineKind::nccl, .timeout = 60s, .mesh = mesh}, [&](dist::World) {
          const auto plain = jit::compile(fn), graphs = jit::compile(fn, {.mode = jit::Mode::reduce_overhead});
          for (int i = 0; i < 8; ++i) {
            const Tensor x = (values(16, 32) * 0.1f + i).to(dist::device());
            expect(to_vector<float>(plain(x)) == to_vector<float>(graphs(x)), "call " + std::to_string(i) + " differs");
          }
        }) == "");
}

TEST_CASE("gpus: gradients of attention are divided by batch and heads") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  using namespace partition_checks;
  const dist::Mesh mesh({{"data", 2}, {"model", ranks() >= 4 ? 2 : 1}});
  const dist::Layout layout{{0, "data"}, {1, "model"}};
  for (const bool is_causal : {false, true}) {
    const auto gradients = jit::grad<0, 1, 2>([=](Tensor q, Tensor k, Tensor v) {
      return Tensor(sum(square(scaled_dot_product_attention(q, k, v, {.causal = is_causal}))));
    });
    const Tensor q = numbers({2, 4, 160, 32}, 1), k = numbers({2, 4, 160, 32}, 2), v = numbers({2, 4, 160, 32}, 3);
    const auto [dq, dk, dv] = gradients(q, k, v);
    for (const Tensor& each : {dq, dk, dv}) eval(each);
    CHECK(problem_of({.engine = dist::EngineKind::nccl, .timeout = 60s, .mesh = mesh}, [&](dist::World) {
            const auto divided = dist::partition(
                gradients, mesh, {.inputs = {layout, layout, layout}, .outputs = {layout, layout, layout}});
            const auto part = [&](const Tensor& whole) { return part_of(whole.to(dist::device()), layout); };
            const Tensor pq = part(q), pk = part(k), pv = part(v);
            expect(divided.explain(pq, pk, pv).collectives.empty(), "collectives");
            const auto check = [&](const auto& got) {
              const auto is_right = [&](const Tensor& own, const Tensor& want) {
                return is_near(whole_of(own, layout).to(Device::cpu()), want, 2e-3);
              };
              expect(is_right(std::get<0>(got), dq), "by q");
              expect(is_right(std::get<1>(got), dk), "by k");
              expect(is_right(std::get<2>(got), dv), "by v");
            };
            check(divided(pq, pk, pv));
            const auto compiled = jit::compile(divided),
                       graphs = jit::compile(divided, {.mode = jit::Mode::reduce_overhead});
            for (int i = 0; i < 3; ++i) {
              check(compiled(pq, pk, pv));
              check(graphs(pq, pk, pv));
            }
          }) == "");
  }
}

TEST_CASE("gpus: data parallel training gives the losses of one GPU") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  const auto train = [](int size, jit::Mode mode) {
    std::vector<float> losses;
    const std::string problem = problem_of({.ranks = size, .engine = dist::EngineKind::nccl}, [&](dist::World world) {
      const Device device = dist::device();
      const auto wave = [&](const Shape& shape) {
        return (reshape(sin(arange(shape.numel(), {.dtype = DType::f32, .device = Device::cpu()})), shape) * 0.1f)
            .to(device);
      };
      const std::vector<Variable> model{Variable(wave({64, 256})), Variable(wave({256, 1}))};
      jit::requires_grad(model);
      const auto parallel = dist::data_parallel(model);
      const auto step = jit::compile(
          [&](Tensor x) {
            jit::zero_grad(model);
            Tensor loss =
                parallel.backward(mean(square(matmul(tanh(matmul(x, model[0])), model[1]) - sum(x, 1, keepdim))));
            for (const Variable& v : model) v -= 0.01f * v.grad();
            return loss;
          },
          {.mode = mode});
      const Tensor x = wave({128, 64});
      const Tensor part = dist::shard(x, {0});
      for (int i = 0; i < 10; ++i) {
        const float loss = item<float>(step(part));
        if (world.rank() == 0) losses.push_back(loss);
      }
    });
    CHECK(problem == "");
    return losses;
  };
  const std::vector<float> one = train(1, jit::Mode::default_);
  REQUIRE(one.size() == 10);
  for (int size = 2; size <= ranks(); size *= 2) {
    for (const jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
      const std::vector<float> losses = train(size, mode);
      REQUIRE(losses.size() == one.size());
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(losses[i] == Approx(one[i]).epsilon(1e-4));
    }
  }
}

TEST_CASE("gpus: calls that differ, and ranks that fail or stall") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  const dist::RunOptions options{.ranks = 2, .engine = dist::EngineKind::nccl, .timeout = 500ms};
  const auto x = [] { return ones({4}, {.device = dist::device()}); };
  CHECK_THAT(
      problem_of(options, [&](dist::World world) { dist::all_reduce(world.rank() == 0 ? x() : x()(slice(0, 2))); }),
      Catch::Contains("the calls of the ranks differ"));
  CHECK_THAT(problem_of(options,
                        [&](dist::World world) {
                          dist::all_reduce(x());
                          if (world.rank() == 1) throw std::runtime_error("disk full");
                          dist::all_reduce(x());
                        }),
             Catch::Contains("disk full"));
  CHECK_THAT(problem_of(options,
                        [&](dist::World world) {
                          dist::all_reduce(x());
                          if (world.rank() == 1) std::this_thread::sleep_for(1s);
                          dist::all_reduce(x());
                        }),
             Catch::Contains("rank 1"));
  CHECK(problem_of(options, [&](dist::World) { expect(item<float>(sum(dist::all_reduce(x()))) == 8, "the sum"); }) ==
        "");
}

TEST_CASE("gpus: bandwidth of all_reduce") {
  if (!has_gpus()) SINTER_SKIP("needs two GPUs");
  CHECK(problem_of({.ranks = ranks(), .engine = dist::EngineKind::nccl}, [&](dist::World world) {
          const std::int64_t size = 64 << 20;  // 256 MB
          const Tensor x = full({size}, 1, {.device = dist::device()});
          const auto f = jit::compile([](Tensor v) { return dist::all_reduce(v); });
          for (int i = 0; i < 3; ++i) eval(f(x));
          cuda::synchronize(dist::device());
          const auto start = std::chrono::steady_clock::now();
          for (int i = 0; i < 20; ++i) eval(f(x));
          cuda::synchronize(dist::device());
          const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
          if (world.rank() == 0)
            std::printf("all_reduce of 256 MB on %d GPUs: %.3f ms, %.1f GB/s of the algorithm\n", world.size(),
                        time.count() * 50, 20 * 4e-9 * static_cast<double>(size) / time.count());
        }) == "");
}
