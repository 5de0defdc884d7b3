// Schedules: lists of steps and their text, which steps a kernel has, and that each choice gives the same bits.
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../conformance/kernel_random.hpp"
#include "../nest_backend.hpp"

#include <sinter/kernel/loop_nest/choices.hpp>

using namespace sinter_test;

TEST_CASE("schedule: schedules compare and print") {
  const Schedule s{{.action = ScheduleAction::unroll, .number = 8, .axis = 1},
                   {.action = ScheduleAction::keep, .number = 0}};
  CHECK(s.text() == "unroll[a1](8) keep(0)");
  CHECK(parse_schedule(s.text()) == s);
  CHECK_FALSE(s == Schedule{});
  CHECK(s.find(ScheduleAction::unroll, 1) == 8);
  CHECK_FALSE(s.find(ScheduleAction::unroll).has_value());
  CHECK(Schedule{}.text() == "default");
  CHECK(parse_schedule("default") == Schedule{});
  for (const char* text :
       {"", " ", "unroll", "unroll()", "unroll(2", "unroll(-1)", "unroll(2)x", "unroll[1](2)", "unroll[a-1](2)",
        "unroll[a200](2)", "unroll(70000)", "roll(2)", "unroll(2)  keep(0)", "unroll(2) unroll(4)", "unroll(2) "})
    CHECK_FALSE(parse_schedule(text).has_value());
}

TEST_CASE("schedule: a schedule has no step twice and a dozen at most") {
  CHECK_THROWS_AS((Schedule{{.number = 1}, {.number = 2}}), InternalError);
  Schedule longest;
  for (std::int8_t axis = 0; axis < 12; ++axis) longest = longest.with({.number = 1, .axis = axis});
  CHECK(parse_schedule(longest.text()) == longest);
  CHECK_THROWS_AS(longest.with({.action = ScheduleAction::keep}), InternalError);
  CHECK(parse_schedule("unroll(2) threads(4)")->without(ScheduleAction::threads) == parse_schedule("unroll(2)"));
  CHECK(parse_schedule("unroll(2)")->without(ScheduleAction::threads) == parse_schedule("unroll(2)"));
  // Of a plan: any nodes are cut or stored, each once.
  CHECK(parse_schedule("cut(3) store(3) cut(5) recompute(0)")->text() == "cut(3) store(3) cut(5) recompute(0)");
  for (const char* text : {"cut(3) cut(3)", "store(7) cut(3) store(7)", "recompute(0) recompute(0)"})
    CHECK_FALSE(parse_schedule(text).has_value());
}

namespace {

Kernel kernel_of_kind(KernelKind kind) {
  for (std::uint64_t seed = 1;; ++seed)
    if (const Kernel kernel = KernelGenerator(seed).generate().kernel; kernel.kind == kind) return kernel;
}

std::string why_not(KernelKind kind, ScheduleStep step, const Machine& machine = plain_machine()) {
  std::string why;
  CHECK(!build_nest(kernel_of_kind(kind), {step}, machine, IndexWidth::wide, why).has_value());
  return why;
}

}  // namespace

TEST_CASE("schedule: a step that a kernel has no use for is named, with what would do") {
  using enum ScheduleAction;
  CHECK(why_not(KernelKind::row, {.action = unroll, .number = 3}) == "step unroll(3): 1, 2, 4 or 8");
  CHECK(why_not(KernelKind::row, {.action = unroll, .number = 2, .axis = 9}) ==
        "step unroll[a9](2): no loop along this axis is unrolled");
  CHECK(why_not(KernelKind::row, {.action = keep, .number = 9}) == "step keep(9): at most 8");
  CHECK(why_not(KernelKind::row, {.action = keep, .number = 1, .axis = 0}) == "step keep[a0](1): it has no axis");
  CHECK(why_not(KernelKind::row, {.action = short_rows, .number = 3}) == "step short_rows(3): 0, 1, 2 or 4");
  CHECK(why_not(KernelKind::row, {.action = tile_rows, .number = 4}) == "step tile_rows(4): this kernel is no product");
  CHECK(why_not(KernelKind::contraction, {.action = tile_rows}) == "step tile_rows(0): at least 1");
  CHECK(why_not(KernelKind::contraction, {.action = tile_columns}) == "step tile_columns(0): at least 1");
  CHECK(why_not(KernelKind::contraction, {.action = tile_rows, .number = 4, .axis = 0}) ==
        "step tile_rows[a0](4): it has no axis");
  for (const ScheduleAction of_others : {vectorize, unroll, keep, short_rows, split, block, stream, threads, cut})
    CHECK(why_not(KernelKind::contraction, {.action = of_others, .number = 1}).ends_with("(1): nothing of a product"));
  CHECK(why_not(KernelKind::pointwise, {.action = keep}) == "step keep(0): only rows are walked several times");
  CHECK(why_not(KernelKind::column, {.action = short_rows}) == "step short_rows(0): this kernel has no rows");
  CHECK(why_not(KernelKind::column, {.action = split}) == "step split(0): 0, of a kernel with rows");
  CHECK(why_not(KernelKind::row, {.action = split, .number = 1}) == "step split(1): 0, of a kernel with rows");
  CHECK(why_not(KernelKind::row, {.action = stream, .number = 1}) ==
        "step stream(1): 0 or 1, of an elementwise kernel");
  CHECK(why_not(KernelKind::pointwise, {.action = stream, .number = 2}).starts_with("step stream(2)"));
  CHECK(why_not(KernelKind::pointwise, {.action = pack, .number = 1}) == "step pack(1): this kernel is no product");
  CHECK(why_not(KernelKind::row, {.action = cut, .number = 3}) == "step cut(3): it is about a plan, not a kernel");
  CHECK(why_not(KernelKind::row, {.action = threads, .number = 2}).starts_with("step threads(2): no matter of a nest"));
  CHECK(why_not(KernelKind::row, {.action = vectorize, .number = 48}) ==
        "step vectorize(48): vectors have 64 bytes, or half as many where those are 32");
  CHECK(why_not(KernelKind::row, {.action = vectorize, .number = 16}, plain_machine(32)).starts_with("step vectorize"));
}

TEST_CASE("schedule: every alternative is legal and gives the default's bits") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const KernelCase test_case = KernelGenerator(seed).generate();
    const Machine machine = plain_machine(seed % 2 == 0 ? 64 : 32);
    const std::vector<Schedule> schedules = nest_schedules(test_case.kernel, machine);
    REQUIRE(schedules.size() <= 12);
    CHECK(schedules.front().empty());
    NestBackend by_default(InterpretMode::exact, machine);
    for (const Schedule& schedule : schedules) {
      INFO("seed " << seed << ", " << schedule.text());
      NestBackend tested(InterpretMode::exact, machine, schedule);
      const Outcome outcome = compare(by_default, tested, test_case, Closeness::same_bits);
      CHECK_FALSE(outcome.is_declined);
      CHECK(outcome.difference == "");
    }
  }
}
