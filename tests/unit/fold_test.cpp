// Folds with state: the ready ones against oracles of their own, what a Kernel says and refuses of folds, and their
// order, which every back end for the CPU keeps bit by bit.
#include "../catch.hpp"

#include "../conformance/kernel_compare.hpp"
#include "../conformance/kernel_naive.hpp"
#include "../nest_backend.hpp"

#include <sinter/backend/reference/reference.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#endif

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

constexpr AxisRole P = AxisRole::parallel, R = AxisRole::reduced;

/// A fold over `roles`: all results of it are stored. Its arguments are loads, and the position along the reduced axes.
KernelCase fold_case(const ScalarFold& fold, std::vector<AxisRole> roles, std::vector<std::int64_t> extents,
                     DataRange range = {-2, 2}) {
  KernelCase c;
  c.seed = 11;
  Kernel& k = c.kernel;
  k.axes.assign(roles.begin(), roles.end());
  k.kind = roles.back() == R ? KernelKind::row : KernelKind::column;
  k.folds = {fold};
  std::copy(extents.begin(), extents.end(), c.geometry.extent.begin());
  const auto add_access = [&](DType dtype, bool is_written) {
    BoundGeometry::AccessNumbers numbers;
    Access access{static_cast<std::uint16_t>(k.operands.size()), {}};
    std::int64_t stride = 1;
    for (int a = k.rank(); a-- > 0;) {
      const auto i = static_cast<std::size_t>(a);
      if (is_written && roles[i] == R) continue;
      numbers.stride[i] = stride;
      access.stride[i] = stride == 1 ? StrideClass::unit : StrideClass::any;
      stride *= std::max<std::int64_t>(extents[i], 1);
    }
    k.operands.push_back({dtype, is_written});
    c.data.push_back(is_written ? DataRange{} : range);
    k.accesses.push_back(access);
    c.geometry.accesses.push_back(numbers);
    return static_cast<std::uint16_t>(k.accesses.size() - 1);
  };
  ScalarBuilder s;
  std::vector<ScalarValue> arguments;
  for (const DType dtype : fold.arguments) {
    if (dtype == DType::i64 && !arguments.empty()) {
      ScalarValue position;
      for (int a = 0; a < k.rank(); ++a) {
        const auto i = static_cast<std::size_t>(a);
        if (roles[i] != R) continue;
        const bool is_first = position.id == no_inst;
        position = is_first ? s.index(a) : s.add(s.mul(position, s.imm_int(extents[i], DType::i64)), s.index(a));
      }
      arguments.push_back(position);
    } else {
      arguments.push_back(s.load(add_access(dtype, false), dtype));
    }
  }
  std::vector<ScalarValue> results;
  for (std::size_t r = 0; r < fold.finish.results.size(); ++r)
    results.push_back(s.fold(0, static_cast<int>(r), fold.result(r), arguments));
  k.body = s.take();
  for (const ScalarValue& result : results) k.stores.push_back({add_access(result.dtype, true), result.id});
  verify(k);
  return c;
}

struct Form {
  std::vector<AxisRole> roles;
  std::vector<std::int64_t> extents;
};
std::vector<Form> forms() {
  std::vector<Form> all;
  for (const std::int64_t n : {1, 3, 7, 8, 9, 15, 16, 17, 33, 64, 65, 130, 1000, 4095, 4096, 4097, 12290}) {
    all.push_back({{P, R}, {3, n}});
    all.push_back({{R, P}, {n, 5}});
    if (n <= 130) all.push_back({{R, P}, {5, n}});
  }
  for (const std::int64_t n : {1, 5, 16, 33, 130}) {
    all.push_back({{R}, {n}});
    all.push_back({{P, R, R}, {2, 3, n}});
    all.push_back({{R, P, R}, {70, 3, n}});
    all.push_back({{R, R, P}, {3, 5, n}});
    all.push_back({{R, P, R, P}, {67, 2, 65, n}});
  }
  all.push_back({{R}, {300001}});
  all.push_back({{P, R}, {2, 8 * 4096 + 3}});
  return all;
}

/// Back ends of one order: their results are the same bits.
std::vector<std::unique_ptr<Backend>> ordered_backends() {
  std::vector<std::unique_ptr<Backend>> all;
  for (const int bytes : {64, 32})
    all.push_back(std::make_unique<NestBackend>(InterpretMode::exact, plain_machine(bytes)));
#ifndef SINTER_NO_X86
  for (const x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512})
    if (x86::host_has(isa)) all.push_back(std::make_unique<x86::X86Backend>(isa));
#endif
  return all;
}

void check_fold(const ScalarFold& fold, const Form& form, DataRange range) {
  const KernelCase c = fold_case(fold, form.roles, form.extents, range);
  INFO(describe(c));
  const auto backends = ordered_backends();
  for (const auto& backend : backends) {
    INFO(backend->cache_key());
    const Closeness alike = is_exactly_rounded(c.kernel) ? Closeness::same_bits : Closeness::within_error;
    const Outcome outcome = compare(*backends[0], *backend, c, alike);
    INFO(outcome.reason << outcome.difference);
    REQUIRE(!outcome.is_declined);
    CHECK(static_cast<bool>(outcome));
  }
#ifndef SINTER_NO_X86
  if (backends.size() == 4) CHECK(static_cast<bool>(compare(*backends[3], *backends[2], c, Closeness::same_bits)));
#endif
}

}  // namespace

TEST_CASE("folds: every ready one, over every form of kernel, has one order") {
  for (const FoldRow& row : fold_rows())
    for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::i64}) {
      if (!is_floating(dtype) && !row.takes_integers) continue;
      INFO(row.name << " of " << name(dtype));
      for (const Form& form : forms()) check_fold(row.make(dtype), form, {-2, 2});
    }
}

TEST_CASE("folds: ties, infinities and NaN") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const auto make : {argmax_fold, argmin_fold})
      for (const PositionOrder order : {PositionOrder::ascending, PositionOrder::any})
        for (const Form& form : forms()) {
          check_fold(make(dtype, order), form, {.low = -2, .high = 2, .integral = true, .special = true});
        }
}

TEST_CASE("folds: the ready ones are what they say") {
  // One point at a time, then the reference back end, whose lanes are merged.
  NaiveBackend naive;
  const auto reference = make_reference_backend();
  for (const FoldRow& row : fold_rows())
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const Form& form : forms()) {
        const std::int64_t points =
            std::accumulate(form.extents.begin(), form.extents.end(), std::int64_t{1}, std::multiplies<>());
        if (points > 5000) continue;
        const KernelCase c = fold_case(row.make(dtype), form.roles, form.extents);
        INFO(row.name << "\n" << describe(c));
        const Outcome outcome = compare(naive, *reference, c);
        INFO(outcome.difference);
        CHECK(static_cast<bool>(outcome));
      }
    }
}

namespace {

/// Runs a fold over one row of numbers on a back end.
std::vector<double> run_row(Backend& backend, const ScalarFold& fold, const std::vector<std::vector<double>>& rows) {
  const KernelCase c = fold_case(fold, {R}, {static_cast<std::int64_t>(rows[0].size())});
  std::vector<std::vector<double>> memory = rows;
  for (std::size_t i = rows.size(); i < c.kernel.operands.size(); ++i) memory.push_back({-77});
  std::vector<void*> operands;
  for (auto& operand : memory) operands.push_back(operand.data());
  backend.compile(c.kernel, {}, nullptr)->bind(c.geometry)->run(operands.data());
  std::vector<double> results;
  for (std::size_t i = rows.size(); i < memory.size(); ++i) results.push_back(memory[i][0]);
  return results;
}

}  // namespace

TEST_CASE("folds: moments, the logarithm of a sum and a weighted mean of known numbers") {
  std::vector<double> x, y;
  for (int i = 0; i < 9000; ++i) x.push_back(1e6 + std::sin(i)), y.push_back(std::cos(i));
  long double mean = 0, squares = 0;
  for (const double v : x) mean += v;
  mean /= 9000;
  for (const double v : x) squares += (v - mean) * (v - mean);
  std::vector<std::unique_ptr<Backend>> backends = ordered_backends();
  backends.push_back(make_reference_backend());
  for (const auto& backend : backends) {
    INFO(backend->cache_key());
    const auto moments = run_row(*backend, moments_fold(DType::f64), {x});
    CHECK(moments[0] == 9000);
    CHECK(moments[1] == Approx(static_cast<double>(mean)).epsilon(1e-15));
    CHECK(moments[2] == Approx(static_cast<double>(squares)).epsilon(1e-8));
    // exp(x) overflows; the weights do not.
    long double weights = 0, weighted = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double weight = std::exp(static_cast<long double>(x[i]) - 1000001);
      weights += weight, weighted += weight * y[i];
    }
    const auto sum = run_row(*backend, log_sum_exp_fold(DType::f64), {x});
    CHECK(sum[0] == Approx(static_cast<double>(1000001 + std::log(weights))).epsilon(1e-15));
    CHECK(run_row(*backend, softmax_mean_fold(DType::f64), {x, y})[0] ==
          Approx(static_cast<double>(weighted / weights)).epsilon(1e-9));
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(run_row(*backend, log_sum_exp_fold(DType::f64), {std::vector<double>(100, -infinity)})[0] == -infinity);
    std::vector<double> most = x;
    most[77] = infinity;
    CHECK(run_row(*backend, log_sum_exp_fold(DType::f64), {most})[0] == infinity);
    most[5000] = std::nan("");
    CHECK(std::isnan(run_row(*backend, log_sum_exp_fold(DType::f64), {most})[0]));
  }
}

TEST_CASE("folds: of nothing") {
  for (const auto& backend : ordered_backends()) {
    INFO(backend->cache_key());
    KernelCase c = fold_case(moments_fold(DType::f32), {P, R}, {3, 0});
    CHECK(static_cast<bool>(compare(*make_reference_backend(), *backend, c)));
  }
}

TEST_CASE("folds: what a kernel refuses") {
  const auto error_after = [](const std::function<void(Kernel&)>& change) -> std::string {
    Kernel kernel = fold_case(argmax_fold(DType::f32), {P, R}, {3, 4}).kernel;
    change(kernel);
    try {
      verify(kernel);
    } catch (const InternalError& error) { return error.what(); }
    return "";
  };
  const auto fold_inst = [](Kernel& kernel) -> Inst& {
    for (Inst& inst : kernel.body)
      if (inst.prim == Prim::fold) return inst;
    throw std::logic_error("no fold");
  };
  CHECK(error_after([](Kernel&) {}).empty());
  CHECK_THAT(error_after([&](Kernel& k) { fold_inst(k).access = 1; }), Catch::Contains("fold out of range"));
  CHECK_THAT(error_after([&](Kernel& k) { fold_inst(k).bits = 2; }), Catch::Contains("a result that its fold"));
  CHECK_THAT(error_after([&](Kernel& k) { fold_inst(k).dtype = DType::f32; }),
             Catch::Contains("a result that its fold"));
  CHECK_THAT(error_after([&](Kernel& k) { fold_inst(k).args[2] = 1; }), Catch::Contains("does not have"));
  CHECK_THAT(error_after([&](Kernel& k) { fold_inst(k).args[1] = fold_inst(k).args[0]; }),
             Catch::Contains("a fold of another dtype"));
  CHECK_THAT(error_after([](Kernel& k) { k.body.push_back({.prim = Prim::argument}); }),
             Catch::Contains("an argument outside"));
  CHECK_THAT(error_after([](Kernel& k) { k.folds[0].states.clear(); }), Catch::Contains("one to four states"));
  CHECK_THAT(error_after([](Kernel& k) { k.folds[0].states[0].dtype = DType::bool_; }),
             Catch::Contains("a state of bool"));
  CHECK_THAT(error_after([](Kernel& k) { k.folds[0].states[1].dtype = DType::i32; }),
             Catch::Contains("an argument that is not there"));
  CHECK_THAT(error_after([](Kernel& k) { k.folds[0].merge.results.pop_back(); }),
             Catch::Contains("not one result for each"));
  CHECK_THAT(error_after([](Kernel& k) { k.folds[0].step.body[0].prim = Prim::load; }),
             Catch::Contains("more than maps"));
}

TEST_CASE("folds: equality, hash and text of kernels know them") {
  const Kernel kernel = fold_case(argmax_fold(DType::f32), {P, R}, {3, 4}).kernel;
  Kernel other = kernel;
  other.folds[0] = argmin_fold(DType::f32);
  CHECK(other != kernel);
  CHECK(other.hash() != kernel.hash());
  other = kernel;
  other.folds[0].states[1].bits = 1;
  CHECK(other.hash() != kernel.hash());
  const std::string text = kernel.text();
  CHECK_THAT(text, Catch::Contains(
                       "  fold f0 of (f32, i64), state (f32 -inf, i64 0)\n    step:\n      %0 = f32 argument 0\n"));
  CHECK_THAT(text, Catch::Contains("%2 = i64 fold f0.0 %0, %1\n"));
  CHECK_THAT(text, Catch::Contains("%3 = f32 fold f0.1 %0, %1\n"));
}

TEST_CASE("folds: a nest has one state for all results") {
  const Kernel kernel = fold_case(argmax_fold(DType::f32), {P, R}, {3, 40000}).kernel;
  const auto nest = nest_of(kernel);
  CHECK(nest->narrow_index);
  const std::string listing = text(*nest);
  CHECK_THAT(listing, Catch::Contains("fold %2, %3 over a1: 32 lanes, blocks of 4096 in pairs\n"));
  CHECK_THAT(listing, Catch::Contains("fetch %2 from workspace b0[a0, a1]\n          step %2, %3\n"));
  const Kernel column = fold_case(moments_fold(DType::f32), {R, P}, {3, 40}).kernel;
  CHECK_THAT(text(*nest_of(column)), Catch::Contains("one lane, blocks of 64 in order\n"));
}
