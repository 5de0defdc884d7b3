// Random kernels under random schedules: nests pass the verifier, whatever the schedule the x86 back end gives the same
// bits, and these are the bits that the interpreter says where each primitive is exactly rounded, or else near what it
// computes in wider types.
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../nest_backend.hpp"
#include "../nest_changes.hpp"
#include "fuzz_loop.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#include <sinter/backend/x86/contraction/contraction.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#endif
#include <sinter/backend/reference/reference.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>

#include <csignal>
#include <cstdio>

using namespace sinter_test;

namespace {

/// One that the kernel may have on this machine, or several of its steps at once.
Schedule random_schedule(const Kernel& kernel, const Machine& machine, std::uint64_t seed) {
  Random random(seed ^ 0x5C4ED);
  const std::vector<Schedule> all = nest_schedules(kernel, machine);
  Schedule schedule;
  for (int i = 0; i < 3; ++i)
    for (const ScheduleStep& step : random.pick(all).steps())
      if (!schedule.find(step.action, step.axis)) schedule = schedule.with(step);
  return schedule;
}

/// Is it of a kind, and does a nest express it (an operand of a product may vary over both m and n)?
bool is_expressed(const KernelCase& test_case) { return nest_of(test_case.kernel).has_value(); }
KernelCase random_case(std::uint64_t seed) {
  for (;; seed += 0x9E3779B97F4A7C15ull) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    if (is_expressed(test_case)) return test_case;
  }
}
KernelCase random_product(std::uint64_t seed) {
  for (;; seed += 0x9E3779B97F4A7C15ull) {
    const KernelCase test_case = random_case(seed);
    if (test_case.kernel.kind == KernelKind::contraction) return test_case;
  }
}

void must_agree(Backend& right, Backend& tested, const KernelCase& test_case, Closeness agreement, std::uint64_t seed) {
  const auto differs = [&](const KernelCase& smaller) {
    const Outcome outcome = compare(right, tested, smaller, agreement);
    return !outcome.is_declined && !outcome;
  };
  if (!differs(test_case)) return;
  const KernelCase small = Shrinker(differs).shrink(test_case);
  const auto nest = nest_of(small.kernel);
  FAIL("seed " << seed << ", " << right.cache_key() << " and " << tested.cache_key() << ": "
               << compare(right, tested, small, agreement).difference << "\n"
               << describe(small) << (nest ? text(*nest) : ""));
}

/// Against wide mode, which does not round where the others do: how far may they be apart? Nothing is said of kernels
/// that branch on a rounded number.
void must_be_near(Backend& wide, Backend& tested, KernelCase test_case, std::uint64_t seed) {
  test_case.has_wide_oracle = true;
  must_agree(wide, tested, test_case, Closeness::within_error, seed);
}

}  // namespace

TEST_CASE("random nests: the interpreter against the reference back end") {
  const auto reference = make_reference_backend();
  fuzz_loop(1, [&](std::uint64_t seed) {
    const KernelCase test_case = random_case(seed);
    const Machine machine = plain_machine(seed % 3 == 0 ? 32 : 64);
    const Schedule schedule = random_schedule(test_case.kernel, machine, seed);
    NestBackend exact(InterpretMode::exact, machine, schedule);
    NestBackend wide(InterpretMode::wide, machine, schedule);
    must_agree(*reference, exact, test_case, Closeness::within_error, seed);
    must_be_near(wide, *reference, test_case, seed);
    must_be_near(wide, exact, test_case, seed);
  });
}

namespace {

/// Empty: a changed nest computes what it did before, in each of its variants.
std::string difference_of(const KernelCase& test_case, const LoopNest& changed) {
  const LoopNest nest = *nest_of(test_case.kernel);
  const auto facts = judge_body(test_case);
  OperandMemory right = make_operands(test_case);
  interpret(nest, VariantKind::whole, test_case.geometry, right.base, InterpretMode::exact);
  for (const VariantKind kind :
       {VariantKind::whole, VariantKind::short_rows, VariantKind::split, VariantKind::packed}) {
    if (!applies(changed, kind, test_case.geometry)) continue;
    OperandMemory found = make_operands(test_case);
    try {
      interpret(changed, kind, test_case.geometry, found.base, InterpretMode::exact);
    } catch (const InternalError& error) { return error.what(); }
    const std::string difference = first_difference(test_case, right, found, *facts, Closeness::same_bits);
    if (!difference.empty()) return difference;
  }
  return {};
}

}  // namespace

TEST_CASE("random nests: what the verifier accepts of changed nests is right") {
  int changed = 0, accepted = 0;
  const auto old_segv = std::signal(SIGSEGV, compare_detail::on_crash);
  fuzz_loop(3'000'000, [&](std::uint64_t seed) {
    KernelCase test_case = random_case(seed);
    if (test_case.points(AxisRole::parallel) * test_case.points(AxisRole::reduced) > 3000) return;
    const LoopNest nest = *nest_of(test_case.kernel);
    const std::string before = text(nest);
    Random random(seed);
    for (int i = 0; i < 40; ++i) {
      LoopNest other = nest;
      change_at_random(other, random);
      ++changed;
      if (!is_accepted(other) || text(other) == before) continue;
      ++accepted;
      std::snprintf(compare_detail::crash_text, sizeof compare_detail::crash_text,
                    "seed %llu, change %d\n%s%schanged:\n%s", static_cast<unsigned long long>(seed), i,
                    describe(test_case).c_str(), before.c_str(), text(other).c_str());
      const std::string error = difference_of(test_case, other);
      if (!error.empty())
        FAIL("seed " << seed << ", change " << i << ": " << error << "\n"
                     << describe(test_case) << before << "changed:\n"
                     << text(other));
    }
  });
  std::signal(SIGSEGV, old_segv);
  std::printf("%d changed nests, %d of them changed harmlessly\n", changed, accepted);
}

#ifndef SINTER_NO_X86
namespace {

/// Generated loops under one schedule.
class ScheduledX86 final : public Backend {
 public:
  ScheduledX86(x86::Isa isa, Schedule schedule) : isa_(isa), schedule_(schedule) {}
  std::string_view name() const override { return "x86"; }
  std::string cache_key() const override {
    return std::string(isa_ == x86::Isa::avx512 ? "avx512 " : "avx2 ") + schedule_.text();
  }
  Limits limits() const override { return {}; }
  std::vector<Schedule> schedules(const Kernel&) const override { return {schedule_}; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined) override {
    if (kernel.kind == KernelKind::contraction)
      return x86::make_contraction_executable(kernel, schedule, isa_, why_declined);
    return x86::make_loop_executable(kernel, schedule, isa_, why_declined);
  }

 private:
  x86::Isa isa_;
  Schedule schedule_;
};

void fuzz_isa(x86::Isa isa, std::uint64_t first, KernelCase (*make)(std::uint64_t) = random_case) {
  if (!x86::host_has(isa)) SINTER_SKIP("this machine lacks the instruction set");
  int same = 0, near = 0;
  fuzz_loop(first, [&](std::uint64_t seed) {
    const KernelCase test_case = make(seed);
    const Machine machine = x86::machine_of(isa);
    const Schedule schedule = random_schedule(test_case.kernel, machine, seed);
    ScheduledX86 code(isa, {}), other(isa, schedule);
    must_agree(code, other, test_case, Closeness::same_bits, seed);
    const bool is_exact = is_exactly_rounded(test_case.kernel);
    (is_exact ? same : near) += 1;
    NestBackend exact(InterpretMode::exact, machine, schedule);
    NestBackend wide(InterpretMode::wide, machine, schedule);
    must_agree(exact, code, test_case, is_exact ? Closeness::same_bits : Closeness::within_error, seed);
    must_be_near(wide, code, test_case, seed);
  });
  std::printf("%d kernels with equal bits, %d within their error\n", same, near);
  CHECK((only_seed() || (same > 0 && near > 0)));
}

}  // namespace

TEST_CASE("random nests: AVX-512 does what the interpreter says") { fuzz_isa(x86::Isa::avx512, 1'000'000); }

TEST_CASE("random nests: AVX2 does what the interpreter says") { fuzz_isa(x86::Isa::avx2, 2'000'000); }

TEST_CASE("random products: AVX-512 does what the interpreter says") {
  fuzz_isa(x86::Isa::avx512, 4'000'000, random_product);
}

TEST_CASE("random products: AVX2 does what the interpreter says") {
  fuzz_isa(x86::Isa::avx2, 5'000'000, random_product);
}
#endif
