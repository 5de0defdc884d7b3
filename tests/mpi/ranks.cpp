// What each of several processes runs, started by mpirun or without it: collectives against values by hand, training
// against one rank's, and, as the argument says, a call that differs, a rank that throws, stalls or dies, and before
// which of 20 collectives. Prints "ok" or what is wrong; tests/mpi/mpi_test.py looks at that. With --nccl each has a
// GPU.
#include "../partition_rows.hpp"

#include <sinter/dist.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

namespace {
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("rank " + std::to_string(dist::rank()) + ": " + what + " is wrong");
}
void expect_values(const Tensor& got, const Floats& want, const std::string& what) {
  std::string text = what + " = ";
  const Floats values = to_vector<float>(got);
  for (const float value : values) text += std::to_string(value) + " ";
  expect(values == want, text);
}

/// Every collective, with what each rank gets of it.
void check_collectives(dist::World world) {
  const int r = world.rank(), n = world.size();
  const auto f = [](int value) { return static_cast<float>(value); };
  const auto total = f(n * (n + 1) / 2);
  const Tensor x = (arange(5, {.dtype = DType::f32}) + 1) * (r + 1);
  expect_values(dist::all_reduce(x), {total, 2 * total, 3 * total, 4 * total, 5 * total}, "all_reduce");
  expect_values(dist::all_reduce(x(slice(0, 1)), dist::Reduce::maximum), {f(n)}, "maximum");
  expect_values(dist::all_reduce(zeros({0})), {}, "all_reduce of nothing");
  expect_values(dist::broadcast(x(slice(0, 2)), n - 1), {f(n), f(2 * n)}, "broadcast");
  expect_values(dist::reduce(x(slice(0, 1)), 1), {r == 1 ? total : 0.f}, "reduce");
  expect_values(dist::ring_shift(x(slice(0, 1))), {f((r + n - 1) % n + 1)}, "ring_shift");
  expect_values(dist::permute(x(slice(0, 1)), {{0, 1}}), {r == 1 ? 1.f : 0.f}, "permute");
  const Tensor wide = reshape(arange(4 * n, {.dtype = DType::f32}), {2, 2 * n}) + 100 * r;
  expect(static_cast<bool>(array_equal(dist::all_to_all(dist::all_to_all(wide, 1, 0), 0, 1), wide)), "all_to_all");
  const Tensor gathered = dist::all_gather(wide, 1);
  for (int rank = 0; rank < n; ++rank)
    expect(
        static_cast<bool>(array_equal(gathered(all, slice(2 * n * rank, 2 * n * (rank + 1))), wide + 100 * (rank - r))),
        "all_gather");
  expect(static_cast<bool>(array_equal(dist::reduce_scatter(wide, 1), dist::shard(dist::all_reduce(wide), {1}))),
         "reduce_scatter");
  const auto slope = jit::compile(jit::grad([](Tensor v) { return sum(square(dist::all_reduce(v))); }));
  expect_values(slope(ones({2})), {f(2 * n * n), f(2 * n * n)}, "gradient");
  const dist::MeshScope scope(dist::Mesh({{"one", 1}, {"all", n}}));
  expect_values(dist::all_reduce(x(slice(0, 1)), "one"), {f(r + 1)}, "all_reduce over one");
  expect_values(dist::all_reduce(x(slice(0, 1)), "all"), {total}, "all_reduce over the mesh");
  dist::barrier();
}

/// More than a connection holds at once, to and from rank 0, in a group of its own too.
void check_large(dist::World world) {
  if (dist::engine_name() != "tcp") return;
  const std::int64_t count = 1'500'000;
  const int n = world.size();
  expect(
      static_cast<bool>(array_equal(dist::all_reduce(full({count}, world.rank() + 1)), full({count}, n * (n + 1) / 2))),
      "a large all_reduce");
  expect(static_cast<bool>(array_equal(dist::broadcast(full({count}, world.rank()), n - 1), full({count}, n - 1))),
         "a large broadcast");
}

/// Losses of data parallel training, which must be those of one rank.
void check_training(dist::World world) {
  const Tensor x = reshape(sin(arange(24, {.dtype = DType::f64})), {8, 3});
  const auto train = [&](bool is_parallel) {
    Variable w(full({3, 1}, 0.5, {.dtype = DType::f64}));
    w.requires_grad();
    const std::vector<Variable> model{w};
    const auto parallel = dist::data_parallel(model);
    const std::int64_t size = 8, begin = is_parallel ? size * world.rank() / world.size() : 0;
    const std::int64_t end = is_parallel ? size * (world.rank() + 1) / world.size() : size;
    std::vector<double> losses;
    for (int i = 0; i < 5; ++i) {
      w.zero_grad();
      const Tensor part = x(slice(begin, end));
      Tensor loss = mean(square(matmul(part, w) - sum(part, 1, keepdim)));
      if (is_parallel) loss = parallel.backward(loss, static_cast<double>(end - begin));
      else loss.backward();
      const jit::NoGradGuard guard;
      losses.push_back(item<double>(loss));
      w -= 0.1 * w.grad();
    }
    return losses;
  };
  const std::vector<double> alone = train(false), together = train(true);
  for (std::size_t i = 0; i < alone.size(); ++i)
    expect(std::abs(alone[i] - together[i]) < 1e-13, "loss " + std::to_string(i));
}

/// Workers and children of a rank are no ranks, and their end is not its own.
void check_children(dist::World world) {
  if (dist::engine_name() != "tcp") return;  // MPI and CUDA do not like forks
  const auto squares = dist::map_shards(std::vector<int>{1, 2, 3}, [](int i) { return i * i; },
                                        {.workers = 2, .kind = dist::WorkerKind::processes});
  if (::fork() == 0) std::exit(0);
  int status = 0;
  ::wait(&status);
  expect_values(dist::all_reduce(full({1}, squares[2])), {static_cast<float>(9 * world.size())}, "after children");
}

/// A function of whole tensors, divided over all processes: its loss and gradient must be those of one.
void check_partition(dist::World world) {
  const dist::Mesh mesh({{"data", world.size()}});
  const Tensor x = reshape(sin(arange(12 * world.size(), {.dtype = DType::f64})), {4 * world.size(), 3});
  const Tensor w = full({3, 2}, 0.5, {.dtype = DType::f64});
  const auto loss_and_gradient =
      jit::value_and_grad<0>([](Tensor weight, Tensor v) { return mean(softmax(matmul(v, weight), 0)(all, 0)); });
  const auto [loss, gradient] = loss_and_gradient(w, x);
  const auto divided = jit::compile(dist::partition(loss_and_gradient, mesh, {.inputs = {{}, {{0, "data"}}}}));
  for (int i = 0; i < 2; ++i) {
    const auto [own_loss, own_gradient] = divided(w, dist::shard(x, {0}));
    expect(static_cast<bool>(allclose(own_loss, loss, {.rtol = 1e-12})), "the loss of a partitioned function");
    expect(static_cast<bool>(allclose(own_gradient, gradient, {.rtol = 1e-10, .atol = 1e-14})),
           "the gradient of a partitioned function");
  }
}

/// Operations under random layouts give what one rank gives.
void check_table(dist::World world) {
  using namespace partition_checks;
  const dist::Mesh mesh({{"data", 2}, {"model", world.size() / 2}});
  const RowTable table = make_table(partition_checks::rows());
  std::mt19937 random(11);  // the same on all ranks
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  const dist::MeshScope scope(mesh);
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const DividedRow divided = divide(table.rows[r], table.arguments[r], table.want[r].shape(), Device::cpu(), draw);
    check_divided(table.rows[r], divided, mesh, table.want[r], std::max(1e-4, table.rows[r].rtol),
                  r % 3 == 2 ? RowRun::compiled : RowRun::lazy);
  }
  if (world.rank() == 0) std::cout << table.rows.size() << " operations under random layouts\n";
}

void go_wrong(const std::string& how, int point, dist::World world) {
  const bool is_of_first = how.back() == '0';  // "die0": rank 0 goes wrong
  const bool is_last = world.rank() == (is_of_first ? 0 : world.size() - 1);
  const auto compiled = jit::compile([](Tensor x) { return sum(dist::all_reduce(x * 2)) + sum(dist::all_gather(x)); });
  for (int i = 0; i < 20; ++i) {
    const Tensor x = ones({2}, {.device = dist::device()});
    if (i == point) {
      if (how == "mismatch") dist::all_reduce(is_last ? concat({x, x}, 0) : x);
      if (how == "kind") {
        if (is_last) dist::all_gather(x);
        else dist::all_reduce(x);
      }
      if (is_last && how == "throw") throw std::runtime_error("disk full");
      if (is_last && (how == "die" || how == "die0")) std::raise(SIGKILL);
      if (is_last && how == "stall") std::this_thread::sleep_for(60s);
      if (is_last && (how == "stop" || how == "stop0")) std::raise(SIGSTOP);
      if (is_last && how == "leave") return;
    }
    switch (i % 4) {
      case 0: eval(dist::all_reduce(x)); break;
      case 1: dist::barrier(); break;
      case 2: expect(item<float>(compiled(x)) == static_cast<float>(6 * world.size()), "the compiled sum"); break;
      default: eval(dist::broadcast(x, i % world.size()));
    }
  }
}
}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "check";
  const bool has_gpus = argc > 2 && std::string(argv[argc - 1]) == "--nccl";
  const int point = argc > 2 ? std::atoi(argv[2]) : 1;
  const dist::RunOptions options{.engine = has_gpus ? dist::EngineKind::nccl : dist::EngineKind::automatic};
  try {
    if (how == "late" && dist::launched().rank == dist::launched().size - 1) std::this_thread::sleep_for(2500ms);
    dist::run(options, [&](dist::World world) {
      if (has_gpus) set_default_device(dist::device());
      if (how == "check" || how == "late") {
        check_collectives(world);
        check_large(world);
        check_training(world);
        check_partition(world);
        check_children(world);
      } else if (how == "table") check_table(world);
      else go_wrong(how, point, world);
      if (world.rank() == 0) std::cout << "ok with " << world.size() << " ranks of " << dist::engine_name() << "\n";
    });
  } catch (const std::exception& error) {
    std::cout << error.what() << std::endl;
    return 1;
  }
  return 0;
}
