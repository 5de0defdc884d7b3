// Programs of several ranks: data parallel training against one rank, ranks that fail, stall or differ, and inputs
// divided over workers. Waits are short, so that all of it takes seconds.
#include "catch.hpp"

#include <sinter/dist.hpp>
#include <sinter/dist/tcp_hub.hpp>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using namespace std::chrono_literals;
using Floats = std::vector<float>;

namespace {
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("rank " + std::to_string(dist::rank()) + ": " + what);
}
/// What run() throws, or "".
std::string problem_of(const dist::RunOptions& options, const std::function<void(dist::World)>& fn) {
  try {
    dist::run(options, fn);
  } catch (const std::exception& error) { return error.what(); }
  return "";
}
/// What each rank's collectives throw.
std::vector<std::string> problems_of_ranks(const dist::RunOptions& options,
                                           const std::function<void(dist::World)>& fn) {
  std::vector<std::string> problems(static_cast<std::size_t>(options.ranks));
  problem_of(options, [&](dist::World world) {
    try {
      fn(world);
    } catch (const dist::DistError& error) { problems[static_cast<std::size_t>(world.rank())] = error.what(); }
  });
  return problems;
}
void is_usable() {
  CHECK(problem_of({.ranks = 3, .engine = dist::EngineKind::threads}, [](dist::World) {
          expect(item<float>(dist::all_reduce(full({}, 1))) == 3, "the sum is wrong");
        }) == "");
}

struct Model {
  Variable w1, b1, w2, unused;
};
/// The same on all ranks.
Model make_model(DType dtype = DType::f64) {
  const auto wave = [dtype](const Shape& shape, double step) {
    return cast(reshape(sin(arange(shape.numel(), {.dtype = DType::f64}) * step), shape), dtype);
  };
  Model model{Variable(wave({3, 8}, 0.7)), Variable(wave({8}, 0.3)), Variable(wave({8, 1}, 1.1)),
              Variable(wave({2}, 0.5))};
  jit::requires_grad(model);
  return model;
}
Tensor predict(const Model& model, const Tensor& x) { return matmul(tanh(matmul(x, model.w1) + model.b1), model.w2); }
Tensor data() { return reshape(sin(arange(20 * 3, {.dtype = DType::f64}) * 1.3), {20, 3}); }
Tensor loss_of(const Model& model, const Tensor& x) { return mean(square(predict(model, x) - sum(x, 1, keepdim))); }
}  // namespace

TEST_CASE("dist: data parallel training gives the losses of one rank") {
  const auto train = [](int ranks, bool is_compiled) {
    std::vector<double> losses;
    const std::string problem =
        problem_of({.ranks = ranks, .engine = dist::EngineKind::threads}, [&](dist::World world) {
          const Model model = make_model();
          const auto parallel = dist::data_parallel(model, {.bucket_bytes = 100});
          const Tensor x = data();
          auto step = [&](Tensor part, Scalar count) {
            jit::zero_grad(model);
            Tensor loss = parallel.backward(loss_of(model, part), count);
            parallel.clip_grad_norm(1.0);
            for (const Variable* v : {&model.w1, &model.b1, &model.w2}) *v -= 0.1 * v->grad();
            return loss;
          };
          const auto compiled = jit::compile(step);
          for (int i = 0; i < 8; ++i) {  // 20 examples in batches of 8: the last has 4, and is divided unevenly
            const std::int64_t begin = 8 * (i % 3), size = std::min<std::int64_t>(8, 20 - begin);
            const std::int64_t from = size * world.rank() / world.size(), to = size * (world.rank() + 1) / world.size();
            const Tensor part = x(slice(begin + from, begin + to));
            const auto count = static_cast<double>(to - from);
            const Tensor loss = is_compiled ? compiled(part, count) : step(part, count);
            jit::NoGradGuard guard;
            const double value = item<double>(loss);
            if (world.rank() == 0) losses.push_back(value);
          }
          expect(item<double>(sum(abs(model.unused.grad()))) == 0, "an unused parameter has a gradient");
        });
    CHECK(problem == "");
    return losses;
  };
  const std::vector<double> one = train(1, false);
  REQUIRE(one.size() == 8);
  CHECK(one[6] < one[0]);
  for (const int ranks : {1, 2, 3, 4})
    for (const bool is_compiled : {false, true}) {
      const std::vector<double> losses = train(ranks, is_compiled);
      REQUIRE(losses.size() == one.size());
      INFO(ranks << " ranks");
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(losses[i] == Approx(one[i]).epsilon(1e-12));
    }
}

TEST_CASE("dist: accumulation, broadcast, and parameters that differ at the start") {
  CHECK(problem_of({.ranks = 2, .engine = dist::EngineKind::threads}, [](dist::World world) {
          const Model model = make_model(), alone = make_model();
          model.w1.set(Tensor(model.w1 + static_cast<double>(world.rank())));
          const auto parallel = dist::data_parallel(model, {.start = dist::Start::broadcast});
          expect(static_cast<bool>(array_equal(model.w1.value(), alone.w1.value())), "broadcast left a difference");
          const Tensor x = data();
          const auto part = [&](int i) { return x(slice(5 * i, 5 * i + 5)); };
          loss_of(alone, x).backward();
          Tensor(loss_of(model, part(2 * world.rank())) / 2).backward();
          parallel.backward(loss_of(model, part(2 * world.rank() + 1)) / 2);
          expect(static_cast<bool>(allclose(model.w1.grad(), alone.w1.grad(), {.rtol = 1e-12})), "accumulation");
        }) == "");
  const std::string differ = problem_of({.ranks = 3, .engine = dist::EngineKind::threads}, [](dist::World world) {
    const Model model = make_model();
    if (world.rank() == 2) model.b1.set(Tensor(model.b1 + 1e-9));
    dist::data_parallel(model);
  });
  CHECK_THAT(differ, Catch::Contains("DistError: data_parallel: parameter 'field1' of rank 0 and of rank 2 differ"));
  CHECK_THROWS_WITH(dist::data_parallel(std::vector<Variable>{}), Catch::Contains("the model has no Variable"));
  CHECK_THROWS_WITH(dist::data_parallel(std::vector{Variable(ones({1}))}).average_gradients(),
                    Catch::Contains("no Variable of the model requires a gradient"));
}

TEST_CASE("dist: average of trees, and value_and_grad") {
  CHECK(problem_of({.ranks = 2, .engine = dist::EngineKind::threads}, [](dist::World world) {
          const float r = static_cast<float>(world.rank());
          auto [a, b] = dist::average(std::pair(full({2}, r), full({}, 2 * r, {.dtype = DType::f64})));
          expect(to_vector<float>(a) == Floats{0.5f, 0.5f} && item<double>(b) == 1, "average");
          expect(item<float>(dist::average(full({}, r), 1 + 2 * r)) == 0.75f, "weighted");
          const Tensor empty = mean(zeros({0}));  // NaN
          expect(item<float>(dist::average(world.rank() == 0 ? empty : full({}, 3), r)) == 3,
                 "a rank without examples");
          const auto f = dist::value_and_grad([](Tensor w, Tensor x) { return mean(w * x); });
          auto [loss, gradient] = jit::compile(f)(full({}, 2), full({4}, r));
          expect(item<float>(loss) == 1 && item<float>(gradient) == 0.5f, "value_and_grad");
        }) == "");
  CHECK_THROWS_WITH(dist::average(arange(3)), Catch::Contains("the mean of i64[3]"));
}

TEST_CASE("dist: averages of expressions, and by weights that are no counts") {
  CHECK(problem_of({.ranks = 2, .engine = dist::EngineKind::threads}, [](dist::World world) {
          const Tensor x = full({1}, world.rank() + 1);
          expect(item<float>(dist::average(x * 2)) == 3, "an expression");
          expect(item<float>(dist::average(x * 2, world.rank() * 3)) == 4, "an expression by weight");
          expect(std::isnan(item<float>(dist::average(x, world.rank() == 1 ? std::nanf("") : 1.f))), "a NaN");
          expect(item<float>(dist::average(x, -1)) == 1.5f, "negative ones");
          expect(item<float>(dist::average(x, 0)) == 0, "none");
        }) == "");
}

TEST_CASE("dist: calls that differ are named on all ranks") {
  struct Row {
    std::string says;
    std::function<void(int)> calls;
  };
  const std::vector<Row> rows = {
      {"rank 0 is in all_reduce(sum) of f32[2] over all ranks [dist_programs_test.cpp:",
       [](int rank) { rank == 1 ? dist::all_gather(ones({2})) : dist::all_reduce(ones({2})); }},
      {"rank 2 is in all_reduce(sum) of f32[3] over all ranks",
       [](int rank) { dist::all_reduce(ones({rank == 2 ? 3 : 2})); }},
      {"rank 1 is in all_reduce(sum) of f64[2]",
       [](int rank) { dist::all_reduce(ones({2}, {.dtype = rank == 1 ? DType::f64 : DType::f32})); }},
      {"rank 1 is in broadcast(root 1)", [](int rank) { dist::broadcast(ones({2}), rank == 1 ? 1 : 0); }},
      {"rank 1 has returned",
       [](int rank) {
         if (rank != 1) dist::barrier();
       }},
      {"rank 2 has returned after barrier over all ranks",
       [](int rank) {
         dist::barrier();
         if (rank != 2) dist::all_reduce(ones({2}));
       }},
  };
  for (const Row& row : rows) {
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::string> problems = problems_of_ranks({.ranks = 3, .engine = dist::EngineKind::threads},
                                                                [&](dist::World world) { row.calls(world.rank()); });
    const bool returns = row.says.find("returned") != std::string::npos;
    for (std::size_t r = 0; r < problems.size(); ++r)
      if (!returns || problems[r] != "") CHECK_THAT(problems[r], Catch::Contains(row.says));
    CHECK(problems[0] != "");
    CHECK(std::chrono::steady_clock::now() - start < 5s);
  }
  // The line is that of the call, not of an equal one before it.
  const int line = __LINE__ + 3;
  const std::string second = problem_of({.ranks = 2, .engine = dist::EngineKind::threads}, [](dist::World world) {
    dist::all_reduce(ones({2}));
    if (world.rank() == 0) dist::all_reduce(ones({2}));
    else dist::all_gather(ones({2}));
  });
  CHECK_THAT(second, Catch::Contains("rank 0 is in all_reduce(sum) of f32[2] over all ranks [dist_programs_test.cpp:" +
                                     std::to_string(line) + "]"));
  // two groups, each of which waits for the other
  const auto crossed =
      problem_of({.engine = dist::EngineKind::threads, .mesh = dist::Mesh({{"a", 2}, {"b", 2}})},
                 [](dist::World world) { dist::all_reduce(ones({1}), world.rank() % 3 == 0 ? "a" : "b"); });
  CHECK_THAT(crossed,
             Catch::Contains("the calls of the ranks differ: rank 0 is in all_reduce(sum) of f32[1] over 'a'"));
  CHECK_THAT(crossed, Catch::Contains("rank 1 is in all_reduce(sum) of f32[1] over 'b'"));
  is_usable();
}

namespace {
/// 20 collectives on 3 ranks, one of which throws or stalls before number `point`: what is wrong with what the others
/// and run() say, and with when they do, or "".
std::string fail_at(int point, bool stalls) {
  const auto start = std::chrono::steady_clock::now();
  const int victim = point % 3;
  std::atomic<int> caught{0};
  const auto work = jit::compile([](Tensor x) { return dist::all_reduce(x) + sum(dist::all_gather(x)); });
  const auto go_wrong = [&] {
    if (!stalls) throw std::runtime_error("disk full");
    for (int i = 0; i < 1000 && caught < 2; ++i) std::this_thread::sleep_for(5ms);  // until the others have given up
  };
  const auto check = [&](const dist::DistError& error) {
    const std::string text = error.what();
    expect(error.kind() == (stalls ? dist::DistError::Kind::timeout : dist::DistError::Kind::failed), text);
    expect(text.find("rank " + std::to_string(victim)) != std::string::npos, text);
    ++caught;
  };
  const dist::RunOptions options{.ranks = 3, .engine = dist::EngineKind::threads, .timeout = stalls ? 150ms : 10000ms};
  const std::string problem = problem_of(options, [&](dist::World world) {
    try {
      for (int i = 0; i < 20; ++i) {
        if (i == point && world.rank() == victim) go_wrong();
        if (i % 3 == 0) dist::barrier();
        else if (i % 3 == 1) eval(work(ones({4})));
        else dist::broadcast(ones({3}), i % 3);
      }
    } catch (const dist::DistError& error) {
      check(error);
      throw;
    }
  });
  if (std::chrono::steady_clock::now() - start > 4s) return "it is said late: " + problem;
  const bool is_named = problem.find(stalls ? "did not come to" : "disk full") != std::string::npos;
  if (caught == (stalls ? 3 : 2) && is_named) return "";
  return std::to_string(caught) + " ranks caught it: " + problem;
}
}  // namespace

TEST_CASE("dist: a rank that fails or stalls at each of 20 points") {
  for (int point = 0; point < 20; ++point)
    for (const bool stalls : {false, true}) {
      INFO("point " << point << (stalls ? ", stalls" : ", fails"));
      std::string problem = fail_at(point, stalls);
      for (int again = 0; again < 3 && problem != ""; ++again) problem = fail_at(point, stalls);  // on a busy machine
      CHECK(problem == "");
    }
  is_usable();
}

TEST_CASE("dist: a rank's own exception is what run throws") {
  struct Mine : std::exception {};
  CHECK_THROWS_AS(dist::run(3,
                            [](dist::World world) {
                              if (world.rank() == 1) throw Mine();
                              dist::barrier();
                            }),
                  Mine);
  CHECK_THROWS_WITH(dist::run({.ranks = 64, .engine = dist::EngineKind::nccl}, [] {}),
                    Catch::Contains("64 ranks need a GPU each, and there are"));
  is_usable();
}

TEST_CASE("dist: launchers are recognised") {
  struct Variable {
    Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
    ~Variable() { unsetenv(name_); }
    const char* name_;
  };
  {
    const Variable size("WORLD_SIZE", "4"), rank("RANK", "2"), local("LOCAL_RANK", "1");
    const dist::Launch launch = dist::launched();
    CHECK((launch.size == 4 && launch.rank == 2 && launch.local_rank == 1 && launch.variable == "WORLD_SIZE"));
    CHECK_THROWS_WITH(dist::run({.ranks = 3}, [] {}),
                      Catch::Contains("3 ranks are asked for, 4 processes were started"));
    CHECK(problem_of({.ranks = 2, .engine = dist::EngineKind::threads}, [](dist::World) {}) == "");
    const Variable none("SINTER_MPI", "/nowhere/libsinter_mpi.so");
  }
  {
    const Variable size("SLURM_NTASKS", "2(x2)"), rank("SLURM_PROCID", "1");
    CHECK(dist::launched().size == 1);  // a batch script without srun
    const Variable step("SLURM_STEP_ID", "0");
    CHECK(dist::launched().size == 2);
    const auto inside = [](int) {
      int ranks = 0;
      dist::run([&](dist::World world) { ranks = world.size(); });
      return ranks;
    };
    for (const auto kind : {dist::WorkerKind::threads, dist::WorkerKind::processes})
      CHECK(dist::map_shards(std::vector<int>{0}, inside, {.workers = 1, .kind = kind}) == std::vector<int>{1});
  }
  {
    const Variable size("PMI_SIZE", "2"), rank("PMI_RANK", "2");
    CHECK_THROWS_WITH(dist::launched(), Catch::Contains("PMI_RANK is 2, PMI_SIZE is 2"));
  }
  {  // torchrun under an mpirun that has started it alone
    const Variable mpi_size("PMI_SIZE", "1"), mpi_rank("PMI_RANK", "0"), run("TORCHELASTIC_RUN_ID", "a run");
    const Variable size("WORLD_SIZE", "2"), rank("RANK", "1");
    CHECK((dist::launched().size == 2 && dist::launched().rank == 1));
  }
  {
    const Variable ranks("SINTER_RANKS", "3");
    CHECK(problem_of({}, [](dist::World world) { expect(world.size() == 3, "size"); }) == "");
    const Variable timeout("SINTER_DIST_TIMEOUT", "soon");
    CHECK_THROWS_WITH(dist::run({}, [] {}), Catch::Contains("SINTER_DIST_TIMEOUT is 'soon'"));
    const Variable nothing("SINTER_DIST_TIMEOUT", "0");
    CHECK_THROWS_WITH(dist::run({}, [] {}), Catch::Contains("SINTER_DIST_TIMEOUT is '0'"));
    const Variable half("SINTER_DIST_TIMEOUT", "0.5");
    CHECK(problem_of({}, [](dist::World) { dist::barrier(); }) == "");
    const Variable none("SINTER_RANKS", "0");
    CHECK_THROWS_WITH(dist::run({}, [] {}), Catch::Contains("SINTER_RANKS is '0'"));
  }
  CHECK(dist::launched().size == 1);
  CHECK((dist::rank() == 0 && dist::size() == 1 && dist::engine_name() == "none"));
}

namespace {
/// An address of this host that others reach, as a number; "": it has none.
std::string address_of_host() {
  ifaddrs* all = nullptr;
  std::string found;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* at = all; at != nullptr && found.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN];
    const auto* address = reinterpret_cast<const sockaddr_in*>(at->ifa_addr);
    if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) found = text;
  }
  ::freeifaddrs(all);
  return found;
}
addrinfo* resolve(const std::string& address) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0) throw std::runtime_error("no address");
  return found;
}
bool answers(const std::string& address, int port) {
  addrinfo* found = resolve(address);
  sockaddr_in to{};
  std::memcpy(&to, found->ai_addr, sizeof to);
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool is_there = ::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  ::close(fd);
  ::freeaddrinfo(found);
  return is_there;
}
/// Where rank 0 listens whose MASTER_ADDR is `name`, a name of `address`: bit 0 at `own`, bit 1 at 127.0.0.1.
int listens(const std::string& name, const std::string& address, const std::string& own) {
  static auto* const hubs = new std::vector<std::unique_ptr<dist::dist_detail::TcpHub>>;  // their threads stay
  static int port = 21000 + static_cast<int>(::getpid()) % 20000;                         // and their ports
  addrinfo* found = resolve(address);
  int where = -1;
  for (int tries = 0; where < 0 && tries < 50; ++tries, ++port) {
    hubs->push_back(std::make_unique<dist::dist_detail::TcpHub>(2));
    if (hubs->back()->listen(name, *found, port, 1))
      where = static_cast<int>(answers(own, port)) + 2 * static_cast<int>(answers("127.0.0.1", port));
  }
  ::freeaddrinfo(found);
  return where;
}
}  // namespace

TEST_CASE("dist: rank 0 listens where MASTER_ADDR says, a number or a name") {
  CHECK(listens("localhost", "127.0.0.1", "127.0.0.1") == 3);
  const std::string own = address_of_host();
  if (own.empty()) SINTER_SKIP("needs an address that is not of the loopback interface");
  CHECK(listens("localhost", "127.0.0.1", own) == 2);
  CHECK(listens(own, own, own) == 1);
  CHECK(listens("a-name-of-this-host", own, own) == 1);
  // What it is to others is not known, or is a router's: anywhere.
  CHECK(listens("a-name-of-this-host", "127.0.1.1", own) == 3);
  CHECK(listens("a-name-of-a-router", "198.51.100.7", own) == 3);  // RFC 5737: nobody's
}

TEST_CASE("dist: map_shards keeps the order, with threads and processes") {
  std::vector<int> inputs(23);
  for (int i = 0; i < 23; ++i) inputs[static_cast<std::size_t>(i)] = i;
  for (const auto kind : {dist::WorkerKind::threads, dist::WorkerKind::processes})
    for (const int workers : {1, 3, 40}) {
      const auto squares =
          dist::map_shards(inputs, [](int i) { return full({2}, i) * i; }, {.workers = workers, .kind = kind});
      REQUIRE(squares.size() == 23);
      for (int i = 0; i < 23; ++i)
        CHECK(to_vector<float>(squares[static_cast<std::size_t>(i)]) == Floats(2, static_cast<float>(i * i)));
      const auto texts = dist::map_shards(
          inputs,
          [](int i) { return std::pair(std::to_string(i), std::vector<double>(static_cast<std::size_t>(i), 0.5)); },
          {.workers = workers, .kind = kind});
      CHECK((texts[11].first == "11" && texts[11].second.size() == 11));
    }
  CHECK(dist::map_shards(std::vector<int>{}, [](int i) { return i; }).empty());
  const Tensor x = arange(11, {.dtype = DType::f32});
  std::mutex mutex;
  std::vector<std::int64_t> sizes;
  const Tensor y = dist::map_shards(x, {.axis = 0, .parts = 4}, [&](Tensor part) {
    const std::scoped_lock lock(mutex);
    sizes.push_back(part.size(0).value());
    return part * 2;
  });
  CHECK(static_cast<bool>(array_equal(y, x * 2)));
  std::sort(sizes.begin(), sizes.end());
  CHECK(sizes == std::vector<std::int64_t>{2, 3, 3, 3});
  CHECK_THROWS_WITH(
      dist::map_shards(inputs, [](int i) { return i == 5 ? throw std::runtime_error("five") : i; }, {.workers = 3}),
      "five");
  CHECK_THROWS_WITH(dist::map_shards(inputs, [](int i) { return i == 5 ? throw std::runtime_error("five") : i; },
                                     {.workers = 3, .kind = dist::WorkerKind::processes}),
                    Catch::Contains("input 5 failed in a worker: five"));
  struct Other {
    Tensor value;
  };
  const auto other = [](int i) { return Other{full({1}, i)}; };
  CHECK(item<float>(dist::map_shards(inputs, other, {.workers = 2})[3].value) == 3);
  CHECK_THROWS_WITH(dist::map_shards(inputs, other, {.kind = dist::WorkerKind::processes}),
                    Catch::Contains("of a type that no process can send"));
  CHECK_THROWS_WITH(dist::map_shards(inputs, [](int i) { return i; }, {.workers = -1}), Catch::Contains("-1 workers"));
}

TEST_CASE("dist: what a dead worker had is done again") {
  const std::vector<int> inputs{0, 1, 2, 3, 4, 5, 6};
  std::string folder = "/tmp/sinter_dist_XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  /// True in the first process alone that comes here with this number.
  const auto is_first = [&](int i) { return access((folder + "/" + std::to_string(i)).c_str(), F_OK) != 0; };
  const auto mark = [&](int i) { std::fclose(std::fopen((folder + "/" + std::to_string(i)).c_str(), "w")); };
  const auto results = dist::map_shards(inputs,
                                        [&](int i) {
                                          if ((i == 2 || i == 5) && is_first(i)) {
                                            mark(i);
                                            raise(SIGKILL);
                                          }
                                          if (i == 3 && is_first(i)) {
                                            mark(i);
                                            raise(SIGSTOP);
                                          }
                                          return i * 10;
                                        },
                                        {.workers = 3, .kind = dist::WorkerKind::processes, .timeout = 1000ms});
  CHECK(results == std::vector<int>{0, 10, 20, 30, 40, 50, 60});
  for (const int i : {2, 3, 5}) std::remove((folder + "/" + std::to_string(i)).c_str());
  rmdir(folder.c_str());
  const auto always = [&] {
    return dist::map_shards(inputs,
                            [](int i) {
                              if (i == 4) raise(SIGKILL);
                              return i;
                            },
                            {.workers = 2, .kind = dist::WorkerKind::processes, .attempts = 2});
  };
  CHECK_THROWS_WITH(always(), Catch::Contains("input 4 has cost 2 workers, the last by: signal 9"));
}

TEST_CASE("dist: a worker whose socket another process holds, and what workers print") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const int before = dup(1);
  std::cout.flush();
  dup2(ends[1], 1);
  std::cout << "parent ";
  dist::map_shards(std::vector<int>{7},
                   [](int i) {
                     std::cout << "worker " << i;
                     return i;
                   },
                   {.workers = 1, .kind = dist::WorkerKind::processes});
  std::cout.flush();
  dup2(before, 1);
  close(before);
  close(ends[1]);
  char text[100] = {};
  CHECK(read(ends[0], text, sizeof text - 1) > 0);
  close(ends[0]);
  CHECK(std::string(text) == "parent worker 7");

  std::atomic<bool> is_over{false};
  std::thread forks([&] {  // processes that inherit whatever is open
    while (!is_over)
      dist::map_shards(std::vector<int>{0},
                       [](int i) {
                         std::this_thread::sleep_for(700ms);
                         return i;
                       },
                       {.workers = 1, .kind = dist::WorkerKind::processes});
  });
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i)
    CHECK_THROWS_WITH(dist::map_shards(std::vector<int>{0},
                                       [](int k) {
                                         raise(SIGKILL);
                                         return k;
                                       },
                                       {.workers = 1, .kind = dist::WorkerKind::processes, .attempts = 1}),
                      Catch::Contains("the last by: signal 9"));
  CHECK(std::chrono::steady_clock::now() - start < 5s);
  is_over = true;
  forks.join();
}

TEST_CASE("dist: stragglers are logged") {
  Context& context = Context::get();
  const Context before = context;
  std::vector<std::string> lines;
  context.logs = "dist";
  context.sink = [&](std::string_view, std::string_view line) { lines.emplace_back(line); };
  const auto map = [&](const std::vector<int>& waits, dist::WorkerKind kind, std::size_t wanted) {
    for (int run = 0; run < 10; ++run) {  // on a busy machine any input may take long
      lines.clear();
      dist::map_shards(waits,
                       [](int wait) {
                         if (wait > 0) std::this_thread::sleep_for(std::chrono::milliseconds(wait));
                         return wait;
                       },
                       {.workers = 2, .kind = kind});
      if (lines.size() == wanted) return;
    }
  };
  for (const auto kind : {dist::WorkerKind::threads, dist::WorkerKind::processes}) {
    map(std::vector<int>(8), kind, 0);
    CHECK(lines.empty());
    map({1, 1, 1, 1, 1, 300, 1}, kind, 1);
    REQUIRE(lines.size() == 1);
    CHECK_THAT(lines[0], Catch::Contains("map_shards: input 5 has taken"));
  }
  context = before;
}
