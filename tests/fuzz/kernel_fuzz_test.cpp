// Differential fuzzing of back ends with random kernels.
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../conformance/kernel_naive.hpp"
#include "fuzz_loop.hpp"

#include <sinter/backend/reference/reference.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif

#include <cstdio>
#include <map>

using namespace sinter_test;

namespace {

/// What became of the cases, printed at the end so that a generator that produces only declined kernels is noticed.
struct Tally {
  std::map<std::string, int> agreed, declined;
  void print(std::string_view backend) const {
    std::printf("%.*s:", static_cast<int>(backend.size()), backend.data());
    for (const auto& [kind, count] : agreed) std::printf(" %d %s", count, kind.c_str());
    std::printf(" agree\n");
    for (const auto& [reason, count] : declined) std::printf("  %d declined: %s\n", count, reason.c_str());
  }
};

const char* kind_name(KernelKind kind) {
  constexpr const char* names[] = {"pointwise", "row", "column", "contraction"};
  return names[static_cast<std::size_t>(kind)];
}

void report(Backend& oracle, Backend& tested, const KernelCase& test_case, const Outcome& outcome,
            Closeness agreement) {
  const auto fails = [&](const KernelCase& smaller) {
    const Outcome again = compare(oracle, tested, smaller, agreement);
    return !again.is_declined && !again;
  };
  const KernelCase small = Shrinker(fails).shrink(test_case);
  const Outcome last = compare(oracle, tested, small, agreement);
  FAIL("seed " << test_case.seed << " on " << tested.cache_key() << ": " << outcome.difference
               << "\nshrunk: " << last.difference << "\n"
               << describe(small) << "in full:\n"
               << describe(test_case));
}

void fuzz(Backend& oracle, Backend& tested, std::uint64_t first_seed, Closeness agreement = Closeness::within_error) {
  Tally tally;
  fuzz_loop(first_seed, [&](std::uint64_t seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    if (only_seed()) std::printf("%s", describe(test_case).c_str());
    const Outcome outcome = compare(oracle, tested, test_case, agreement);
    if (outcome.is_declined) ++tally.declined[outcome.reason];
    else if (!outcome) report(oracle, tested, test_case, outcome, agreement);
    else ++tally.agreed[kind_name(test_case.kernel.kind)];
  });
  tally.print(tested.cache_key());
  CHECK((!tally.agreed.empty() || only_seed()));
}

}  // namespace

TEST_CASE("random kernels: generated kernels are valid and judged") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    INFO(describe(test_case));
    REQUIRE_NOTHROW(verify(test_case.kernel));
    REQUIRE(judge_body(test_case).has_value());
    REQUIRE(KernelGenerator(seed).generate().kernel == test_case.kernel);
  }
}

TEST_CASE("random kernels: reference against one point at a time") {
  NaiveBackend naive;
  const auto reference = make_reference_backend();
  fuzz(naive, *reference, 1);
}

#ifndef SINTER_NO_X86
namespace {

/// The back end for one instruction set, or null where this machine (or SINTER_ISA) lacks it.
std::unique_ptr<Backend> x86_backend(x86::Isa isa) {
  const auto best = x86::detect_isa();
  if (!best || *best < isa) return nullptr;
  return std::make_unique<x86::X86Backend>(isa);
}

void fuzz_isa(x86::Isa isa, std::uint64_t first_seed) {
  const auto tested = x86_backend(isa);
  if (!tested) SINTER_SKIP("this machine lacks the instruction set");
  const auto reference = make_reference_backend();
  fuzz(*reference, *tested, first_seed);
}

}  // namespace

TEST_CASE("random kernels: AVX-512 against reference") { fuzz_isa(x86::Isa::avx512, 1'000'000); }

TEST_CASE("random kernels: AVX2 against reference") { fuzz_isa(x86::Isa::avx2, 2'000'000); }

TEST_CASE("random kernels: AVX2 and AVX-512 give the same bits") {
  const auto avx2 = x86_backend(x86::Isa::avx2), avx512 = x86_backend(x86::Isa::avx512);
  if (!avx512) SINTER_SKIP("this machine lacks AVX-512");
  fuzz(*avx512, *avx2, 3'000'000, Closeness::same_bits);
}
#endif

namespace {

/// A back end with a mistake: it takes tanh for sin.
class WrongBackend final : public Backend {
 public:
  std::string_view name() const override { return "wrong"; }
  std::string cache_key() const override { return "wrong"; }
  Limits limits() const override { return {}; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string* why) override {
    Kernel wrong = kernel;
    for (Inst& inst : wrong.body)
      if (inst.prim == Prim::tanh) inst.prim = Prim::sin;
    return make_reference_backend()->compile(wrong, schedule, why);
  }
};

}  // namespace

TEST_CASE("random kernels: a wrong back end is found and its case shrinks") {
  const auto reference = make_reference_backend();
  WrongBackend wrong;
  const auto fails = [&](const KernelCase& smaller) { return !compare(*reference, wrong, smaller); };
  for (std::uint64_t seed = 1; seed < 5000; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    if (test_case.kernel.kind == KernelKind::contraction || !fails(test_case))
      continue;  // a contraction keeps its product
    const KernelCase small = Shrinker(fails).shrink(test_case);
    INFO(describe(small));
    CHECK(fails(small));
    CHECK(small.kernel.stores.size() == 1);
    CHECK(small.kernel.body.size() <= 4);
    CHECK(small.points(AxisRole::parallel) * small.points(AxisRole::reduced) <= 2);
    return;
  }
  FAIL("no random kernel shows the mistake");
}
