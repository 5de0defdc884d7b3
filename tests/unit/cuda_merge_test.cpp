// Launches of equal CUDA C as one: that the merged text computes what its members compute, run on the processor; how
// many launches and graphs an optimiser and a loop take, counted by a driver that does nothing else; and by NVRTC.
#ifdef SINTER_CUDA
#include "catch.hpp"

#include "../checks.hpp"
#include "../cuda_chips.hpp"
#include "../emulated_cuda.hpp"
#include "../plan_harness.hpp"
#include "../run_again.hpp"
#include "../stub_driver.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/source/merge.hpp>
#include <sinter/backend/cuda/source/source.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

using namespace sinter;
using namespace sinter_test;

namespace {

/// One kernel bound to a size, with memory for its operands.
struct Member {
  cuda::LaunchList list;
  std::vector<std::vector<float>> memory;  // of each operand

  std::vector<void*> operands() {
    std::vector<void*> places;
    for (std::vector<float>& each : memory)
      places.push_back(each.data() + (16 - reinterpret_cast<std::uintptr_t>(each.data()) % 16) % 16 / sizeof(float));
    return places;
  }
};

Member member_of(const Plan& plan, std::int64_t size) {
  REQUIRE(plan.steps().size() == 1);
  const std::int64_t symbols[] = {size};
  const PlanStep& step = plan.steps()[0];
  Member member{cuda::generate(step.kernel, {}, cuda::Target{})
                    ->bind(sinter::bind(step.geometry, symbols), 0, true, std::nullopt, true),
                {}};
  for (std::size_t i = 0; i < step.kernel.operands.size(); ++i) {
    std::vector<float>& values = member.memory.emplace_back(static_cast<std::size_t>(size) * 64 + 1100);
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = std::sin(static_cast<float>(k * (i + 1)) + static_cast<float>(size));
  }
  return member;
}

void run_emulated(const cuda::LaunchList& list, const std::vector<void*>& operands) {
  void* library = emulated_library(list.source, list.entries);
  using Function = void (*)(const void*);
  const auto launch_all = reinterpret_cast<void (*)(Function, const void*, const unsigned*, unsigned, unsigned)>(
      dlsym(library, "emulated_launch"));
  for (cuda::GpuLaunch launch : list.launches) {
    for (const cuda::ParameterPatch& patch : launch.patches)
      if (patch.kind == cuda::ParameterPatch::Kind::operand)
        launch.parameters[patch.at / 8] =
            reinterpret_cast<std::uintptr_t>(static_cast<const char*>(operands.at(patch.index)) + patch.byte_offset);
    launch_all(reinterpret_cast<Function>(dlsym(library, ("call_" + list.entries[launch.entry]).c_str())),
               launch.parameters.data(), launch.grid.data(), launch.block[0], launch.shared_bytes);
  }
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct MergeRow {
  const char* graph;
  std::vector<std::int64_t> sizes;
};
const MergeRow merge_rows[] = {
    {"graph(%x: f32[s0], %y: f32[s0]) { return tanh(add(mul(%x, %y), %x)) }", {4, 1024, 1028, 4096, 8, 5000}},
    {"graph(%x: f32[s0], %y: f32[s0]) { return tanh(add(mul(%x, %y), %x)) }", {3, 5, 1023, 4097}},  // with a tail
    {"graph(%x: f32[s0, 64]) { return softmax(%x) {axes=[1]} }", {40, 7, 200}},
};

}  // namespace

TEST_CASE("merged launches compute what each computes alone") {
  if (!has_host_compiler()) SINTER_SKIP("no compiler for the emulation of CUDA");
  for (const MergeRow& row : merge_rows) {
    const auto plan = build_plan(prepared(row.graph), fused());
    std::vector<Member> members, wanted;
    std::vector<const cuda::LaunchList*> lists;
    std::vector<std::size_t> counts;
    std::vector<void*> operands;
    for (const std::int64_t size : row.sizes) {
      members.push_back(member_of(*plan, size));
      wanted.push_back(member_of(*plan, size));
    }
    for (Member& member : members) {
      REQUIRE(cuda::is_mergeable(member.list));
      REQUIRE(cuda::have_equal_code(members.front().list, member.list));
      lists.push_back(&member.list);
      counts.push_back(member.memory.size());
      for (void* place : member.operands()) operands.push_back(place);
    }
    const cuda::LaunchList merged = cuda::merge_lists(lists, counts);
    REQUIRE(merged.launches.size() == 1);
    run_emulated(merged, operands);
    for (std::size_t i = 0; i < members.size(); ++i) {
      INFO(row.graph << ", size " << row.sizes[i]);
      run_emulated(wanted[i].list, wanted[i].operands());
      for (std::size_t o = 0; o < wanted[i].memory.size(); ++o) {
        const auto first = static_cast<float*>(members[i].operands()[o]) - members[i].memory[o].data(),
                   other = static_cast<float*>(wanted[i].operands()[o]) - wanted[i].memory[o].data();
        const std::size_t length = members[i].memory[o].size() - 4;
        CHECK(std::memcmp(members[i].memory[o].data() + first, wanted[i].memory[o].data() + other,
                          length * sizeof(float)) == 0);
      }
    }
    std::string why;
    if (cuda::has_nvrtc(&why))
      for (const char* chip : {"sm_80", "sm_90"}) CHECK(!cuda::compile_to_cubin(merged.source, "merged", chip).empty());
    else WARN("merged texts are not compiled by NVRTC: " << why);
  }
}

TEST_CASE("launches of other code, with scratch memory or several kernels are not merged") {
  const auto plan = build_plan(prepared("graph(%x: f32[s0], %y: f32[s0]) { return add(%x, %y) }"), fused());
  const Member whole = member_of(*plan, 1024), tail = member_of(*plan, 1023);
  CHECK(!cuda::have_equal_code(whole.list, tail.list));
  const auto sum = build_plan(prepared("graph(%x: f32[s0, 64]) { return sum(%x) {axes=[0, 1]} }"), fused());
  CHECK(!cuda::is_mergeable(member_of(*sum, 100'000).list));  // partial sums of blocks, then their sum
  CHECK(!cuda::is_mergeable(cuda::LaunchList{}));
  const std::size_t each = whole.list.launches[0].parameters.size() * 8 + 4;
  CHECK(cuda::members_for(whole.list, cuda::parameter_bytes) == 4096 / each);
}

TEST_CASE("an optimiser and a loop over the stub", "[.counts_launches]") {
  std::vector<Variable> weights, means;
  std::vector<Tensor> gradients;
  const Device gpu = Device::cuda(0);
  for (std::int64_t i = 0; i < 148; ++i) {
    const Shape shape = i % 3 == 0 ? Shape{8 + i, 64} : Shape{64 * (1 + i) + (i % 2)};  // some with a tail
    weights.emplace_back(zeros(shape, {.device = gpu}));
    means.emplace_back(zeros(shape, {.device = gpu}));
    gradients.push_back(zeros(shape, {.device = gpu}));
  }
  eval(gradients);
  const auto step = [&](const std::vector<Tensor>& g, Scalar rate) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const Tensor mean = means[i] * 0.9f + g[i] * 0.1f;
      weights[i] = weights[i] * (1 - rate * 0.01f) - rate * mean / (sqrt(g[i] * g[i]) + 1e-8f);
      means[i] = mean;
    }
  };
  const auto counted = [](const char* what, const auto& call) {
    call();
    std::printf("begin %s\n", what);
    call();
    std::printf("end %s\n", what);
  };
  auto one = jit::compile(step);
  auto many = jit::compile(step, {.horizontal_fusion = false});
  auto graph = jit::compile(step, {.mode = jit::Mode::reduce_overhead});
  counted("merged", [&] { one(gradients, 0.1); });
  counted("apart", [&] { many(gradients, 0.1); });
  counted("graph", [&] { graph(gradients, 0.1); });
  const Tensor x = zeros({4, 8}, {.device = gpu}), w = zeros({8, 8}, {.device = gpu});
  const Tensor xs = zeros({512, 4, 8}, {.device = gpu});
  eval(x), eval(w), eval(xs);
  auto loop = jit::compile(
      [](Tensor h, Tensor slices, Tensor by) {
        auto [last, ys] = jit::scan(
            [&](Tensor c, Tensor s) {
              const Tensor next = tanh(matmul(c, by) + s);
              return std::pair(next, softmax(next, 1));
            },
            h, slices);
        return last + sum(ys, 0);
      },
      {.mode = jit::Mode::reduce_overhead});
  counted("loop", [&] { loop(x, xs, w); });
  // A number of the host, of which the kernel takes both parts by value.
  const Tensor z = zeros({8}, {.dtype = DType::c128, .device = gpu});
  eval(z);
  auto turned = jit::compile([](Tensor a, Tensor by) { return a * by; });
  counted("number", [&] { turned(z, std::complex<double>(0, 1)); });
  auto repeated = jit::compile(
      [](Tensor v) {
        return jit::while_loop([](Tensor y) { return sum(y) < 1; }, [](Tensor y) { return tanh(y) * 0.5f; }, v);
      },
      {.mode = jit::Mode::reduce_overhead});
  std::printf("begin while\n");
  eval(In(repeated(x)));
  std::printf("end while\n");
  std::fflush(stdout);
}

TEST_CASE("over a stub of the driver: 148 updates are at most 3 launches, 512 iterations few graphs") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string text =
      under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_STUB_TRUE=1", "[.counts_launches]");
  std::filesystem::remove_all(folder);
  const auto part = [&](const std::string& what) {
    const std::size_t begin = text.find("begin " + what), end = text.find("end " + what);
    INFO(text);
    REQUIRE(end != std::string::npos);
    return text.substr(begin, end - begin);
  };
  INFO(part("merged") << part("graph") << part("loop"));
  CHECK(count_of(part("merged"), "launch sinter_") <= 3);
  CHECK(count_of(part("merged"), "launch sinter_") >= 1);
  CHECK(count_of(part("apart"), "launch sinter_") == 148);
  CHECK(count_of(part("graph"), "launch sinter_") + count_of(part("graph"), "launch graph") <= 3);
  CHECK(count_of(part("loop"), "launch graph") <= 12);  // 192 kernels in each
  CHECK(count_of(part("loop"), "launch graph") >= 4);
  CHECK(count_of(part("loop"), "make node") == 0);  // a later run of the same length passes parameters alone
  CHECK(count_of(part("loop"), "launch sinter_") <= 3);
  CHECK(count_of(part("number"), "launch sinter_") >= 1);
  INFO(part("while"));
  CHECK(count_of(part("while"), "make condition") == 2);  // while, and if, for two iterations
  CHECK(count_of(part("while"), "launch sinter_") == 9);  // the host asks before and after eight iterations ...
  CHECK(count_of(part("while"), "launch graph") == 1);    // ... and the rest is one
}
#endif
