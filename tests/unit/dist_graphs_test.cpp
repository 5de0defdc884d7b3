// Collectives inside of CUDA graphs, and MPI that takes the memory of devices, over a driver and an NCCL that compute
// nothing (stub_driver.hpp): what is recorded, launched again and dropped, and what is copied to the host.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"
#include "../stub_driver.hpp"

#include <sinter/dist.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;

namespace {
constexpr int layers = 4, features = 16;

/// Kernels and collectives, some of which need nothing of each other, as graphs.
auto make_step() {
  return jit::compile(
      [](Tensor x) {
        Tensor h = x, sums = dist::all_reduce(dist::all_reduce(x));
        for (int i = 2; i < layers; ++i) {
          h = tanh(softmax(h, 1) * 3);
          sums = sums + exp(dist::all_reduce(h * (i + 1)));
        }
        return mean(sums);
      },
      {.mode = jit::Mode::reduce_overhead});
}
Tensor batch() { return full({8, features}, 0.5, {.dtype = DType::f32, .device = dist::device()}); }
void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
/// Lines that contain `what` between the lines `from` and `to`.
std::ptrdiff_t count(const std::string& text, const std::string& what, const std::string& from, const std::string& to) {
  const std::vector<std::string> lines = lines_of(text);
  const auto begin = std::find(lines.begin(), lines.end(), from), end = std::find(begin, lines.end(), to);
  return std::count_if(begin, end, [&](const std::string& line) { return has(line, what); });
}
/// "" where there is no stub.
std::string output_over_stub(const std::string& settings, const std::string& test, const std::string& launch = {}) {
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) return {};
  const std::string text =
      under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off " + settings + " " + launch, test);
  std::filesystem::remove_all(folder);
  return text;
}
}  // namespace

TEST_CASE("a training step with graphs over a stub of NCCL", "[.stub_graphs]") {
  const auto step = make_step();
  for (const int run : {1, 2}) {  // the second one has a communicator of its own
    dist::run({.ranks = 1, .engine = dist::EngineKind::nccl}, [&](dist::World) {
      const Tensor x = batch();
      for (int i = 0; i < 6; ++i) {
        say("run " + std::to_string(run) + " step " + std::to_string(i));
        eval(step(x));
      }
      say("run " + std::to_string(run) + " ends");
    });
    say("run " + std::to_string(run) + " has ended");
  }
}

TEST_CASE("dist: CUDA graphs have collectives inside, and are dropped before their communicator") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string text =
      output_over_stub("SINTER_DIST_GRAPHS=1 SINTER_STUB_GRAPHS=1 SINTER_STUB_WAITS=1", "[.stub_graphs]");
  if (text.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  INFO(text);
  for (const std::string run : {"run 1", "run 2"}) {
    INFO(run);
    const auto at = [&](int i) { return run + " step " + std::to_string(i); };
    // The first step calls NCCL itself, beside the kernels; the next one records it.
    CHECK(count(text, "all_reduce of ", at(0), at(1)) == layers);
    CHECK(count(text, "record stream", at(0), at(1)) == 0);
    CHECK(count(text, "all_reduce of ", at(1), at(2)) == layers);
    CHECK(count(text, "make call", at(1), at(2)) == layers);
    CHECK(count(text, "launch graph", at(1), at(2)) >= 1);
    // Later ones only launch it.
    CHECK(count(text, "launch graph", at(4), at(5)) == 1);
    CHECK(count(text, "all_reduce of ", at(4), at(5)) == 0);
    CHECK(count(text, "record stream", at(4), at(5)) == 0);
    CHECK(count(text, "launch ", at(4), at(5)) == 1);  // no kernel by itself
    CHECK_FALSE(has(text, "twice"));                   // nothing waits for the same twice, which the driver refuses
    // NCCL waits for the end of graphs.
    CHECK(count(text, "destroy graph", run + " ends", "destroy communicator") >= 1);
    CHECK(count(text, "destroy communicator", run + " ends", run + " has ended") == 1);
  }
  const std::string between = output_over_stub("SINTER_STUB_GRAPHS=1", "[.stub_graphs]");
  CHECK(count(between, "all_reduce of ", "run 1 step 4", "run 1 step 5") == layers);
  CHECK(count(between, "make call", "run 1 step 1", "run 1 step 5") == 0);
  CHECK(count(between, "launch ", "run 1 step 4", "run 1 step 5") >= 2);
}

TEST_CASE("ranks with graphs over a stub of NCCL, one of which goes wrong", "[.stub_graph_faults]") {
  const std::string how = std::getenv("SINTER_TEST_FAULT");
  const dist::RunOptions options{
      .ranks = 2, .engine = dist::EngineKind::nccl, .timeout = std::chrono::milliseconds(1000)};
  const auto step = jit::compile([](Tensor x) { return tanh(dist::all_reduce(exp(x)) * 2 + dist::all_reduce(x * x)); },
                                 {.mode = jit::Mode::reduce_overhead});
  for (const bool is_wrong : {true, false}) {
    try {
      dist::run(options, [&](dist::World world) {
        const Tensor x = batch();
        for (int i = 0; i < 6; ++i) {
          if (is_wrong && i == 4) {
            if (world.rank() == 0) say("step 4");
            if (world.rank() == 1 && how == "mismatch") eval(dist::all_reduce(ones({3}, {.device = dist::device()})));
            if (world.rank() == 1 && how == "throw") throw std::runtime_error("disk full");
            if (world.rank() == 1 && how == "stall") std::this_thread::sleep_for(std::chrono::milliseconds(2500));
          }
          eval(step(x));
        }
      });
      say("well");
    } catch (const std::exception& error) { say(error.what()); }
  }
  say("end");
}

TEST_CASE("dist: what goes wrong before a CUDA graph with collectives is found before it is launched") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  struct Fault {
    const char *how, *says;
  };
  for (const Fault fault :
       {Fault{"mismatch", "the calls of the ranks differ: rank 0 is in all_reduce(sum) of f32[8, 16] on a GPU"},
        Fault{"throw", "disk full"}, Fault{"stall", "rank 1 (last in all_reduce(sum)"}}) {
    const std::string text =
        output_over_stub(std::string("SINTER_DIST_GRAPHS=1 SINTER_STUB_GRAPHS=1 SINTER_TEST_FAULT=") + fault.how,
                         "[.stub_graph_faults]");
    if (text.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
    INFO(fault.how);
    INFO(text);
    CHECK(has(text, fault.says));
    CHECK(has(text, "abort communicator"));
    CHECK(has(text, "launch graph"));
    CHECK(has(text, "well\nend\n"));  // the next run of the same function
  }
}

TEST_CASE("ranks of MPI with operands on a stub of a GPU", "[.stub_mpi]") {
  dist::run({.engine = dist::EngineKind::mpi}, [](dist::World world) {
    const Device device = Device::cuda(world.rank());
    const int r = world.rank(), n = world.size();
    const auto check = [&](const char* name, const Tensor& operand, const std::function<Tensor(Tensor)>& map) {
      const Tensor there = operand.to(device);
      eval(there);
      const Tensor result = map(there);
      eval(result);
      const std::vector<float> got = to_vector<float>(result), want = to_vector<float>(map(operand));
      if (result.device() != device) say(std::string(name) + " is not on the GPU");
      if (got != want) say(std::string(name) + " is wrong");
    };
    const Tensor x = reshape(arange(6 * n, {.dtype = DType::f32}), {2 * n, 3}) + 100 * r;
    eval(x);
    using dist::Reduce;
    check("all_reduce", x, [](Tensor v) { return dist::all_reduce(v); });
    check("maximum", x, [](Tensor v) { return dist::all_reduce(v, Reduce::maximum); });
    check("reduce", x, [](Tensor v) { return dist::reduce(v, 1); });
    check("reduce_scatter", x, [](Tensor v) { return dist::reduce_scatter(v); });
    say("moves");
    check("all_gather", x, [](Tensor v) { return dist::all_gather(v); });
    check("all_to_all", x, [](Tensor v) { return dist::all_to_all(v, 0, 0); });
    check("broadcast", x, [](Tensor v) { return dist::broadcast(v, 1); });
    check("permute", x, [](Tensor v) { return dist::permute(v, {{0, 1}}); });
    check("permute to itself", x, [](Tensor v) { return dist::permute(v, {{0, 0}, {1, 1}}); });
    check("ring_shift", x, [](Tensor v) { return dist::ring_shift(v); });
    check("nothing", zeros({0, 3}), [](Tensor v) { return dist::all_gather(v); });
    if (std::getenv("SINTER_TEST_DIFFERS") != nullptr) {
      try {
        eval(dist::all_gather(ones({1 + r}, {.device = Device::cpu()}).to(device)));
      } catch (const dist::DistError& error) { say(error.what()); }
      return;
    }
    say("rank " + std::to_string(r) + " is done");
  });
}

TEST_CASE("dist: MPI that takes the memory of GPUs moves it without the host") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  if (std::system("command -v mpirun >/dev/null") != 0) SINTER_SKIP("MPI is not installed (openmpi-bin)");
  const std::string launch = std::string(SINTER_SOURCE_DIR) + "/tools/launch -n 2 --timeout 20";
  const auto run = [&](const std::string& settings) {
    return output_over_stub("SINTER_STUB_COPIES=1 " + settings, "[.stub_mpi]", launch);
  };
  const std::string aware = run("SINTER_MPI_CUDA=1"), staged = run("SINTER_MPI_CUDA=0");
  if (aware.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  if (has(aware, "MPI is not to be had")) SINTER_SKIP("built without MPI");
  const auto copies = [](const std::string& text) {
    const std::vector<std::string> lines = lines_of(text);
    return std::count(lines.begin(), lines.end(), "48 bytes to the host");  // an operand of a rank
  };
  for (const std::string& text : {aware, staged}) {
    INFO(text);
    CHECK(has(text, "rank 0 is done"));
    CHECK(has(text, "rank 1 is done"));
    CHECK_FALSE(has(text, "is wrong"));
    CHECK_FALSE(has(text, "is not on the GPU"));
  }
  // Six operands of each rank are only moved; results and the others go to the host in both.
  CHECK(copies(staged) - copies(aware) == 2 * 6);
  const std::string differs = run("SINTER_MPI_CUDA=1 SINTER_TEST_DIFFERS=1");
  INFO(differs);
  CHECK(has(differs, "the calls of the ranks differ: rank 0 is in all_gather(axis 0) of f32[1] on a GPU"));
}
