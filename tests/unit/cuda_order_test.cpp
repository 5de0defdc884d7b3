// Orderings on CUDA, without a GPU: the kernels' texts, run on the processor, against std::stable_sort; and that NVRTC
// compiles them for every dtype.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>
#ifdef SINTER_CUDA
#include "../emulated_cuda.hpp"

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/library/order_kernels.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using cuda::OrderedPick;
using cuda::OrderPlan;
using cuda::OrderProblem;

namespace {
enum class Content { numbers, specials };

template <class T>
std::vector<T> drawn(std::int64_t count, Content content) {
  std::mt19937 random(static_cast<unsigned>(count) + 1);
  std::vector<T> out(as_index(count));
  for (T& x : out) {
    const auto kind = static_cast<int>(random() % 12);
    if constexpr (std::is_integral_v<T>) x = static_cast<T>(kind);
    else x = static_cast<T>(static_cast<float>(kind));
    if (content == Content::numbers) {
      if constexpr (std::is_integral_v<T>) x = static_cast<T>(std::uint64_t{random()} << 32 | random());
      else x = static_cast<T>(std::uniform_real_distribution<float>(-500, 500)(random));
    }
    if constexpr (!std::is_integral_v<T>) {
      const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
      const float special[] = {0, -0.0f, nan, -nan, infinity, -infinity, -1};
      if (content == Content::specials && kind < 7) x = static_cast<T>(special[kind]);
    }
  }
  return out;
}

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_integral_v<T>) return false;
  else return std::isnan(static_cast<double>(x));
}
template <class T>
bool comes_before(T a, T b, bool is_descending) {
  if (is_nan(a) || is_nan(b)) return is_descending ? is_nan(a) && !is_nan(b) : is_nan(b) && !is_nan(a);
  if constexpr (std::is_integral_v<T>) return is_descending ? b < a : a < b;
  else
    return is_descending ? static_cast<double>(b) < static_cast<double>(a)
                         : static_cast<double>(a) < static_cast<double>(b);
}

/// Where in the sorted row, whose positions are given, what is picked stands.
template <class F>
std::int64_t picked_place(const OrderProblem& problem, const std::vector<std::int64_t>& order, const F& at) {
  if (problem.pick == OrderedPick::rank) return problem.rank;
  const auto length = static_cast<std::int64_t>(order.size());
  if (problem.pick != OrderedPick::mode) {
    const auto numbers = std::count_if(order.begin(), order.end(), [&](std::int64_t i) { return !is_nan(at(i)); });
    return numbers == 0 || (problem.pick == OrderedPick::median && numbers < length) ? numbers : (numbers - 1) / 2;
  }
  std::int64_t place = 0, longest = 0, run = 0;  // the end of the first longest run
  for (std::int64_t i = 0; i < length; ++i) {
    run = i > 0 && !comes_before(at(order[as_index(i - 1)]), at(order[as_index(i)]), false) ? run + 1 : 1;
    if (run <= longest) continue;
    longest = run;
    place = i;
  }
  return place;
}

template <class T>
std::vector<std::int64_t> expected_positions(const OrderProblem& problem, const T* row) {
  const auto at = [&](std::int64_t i) { return row[i * problem.stride]; };
  std::vector<std::int64_t> order(as_index(problem.length));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return comes_before(at(a), at(b), problem.is_descending); });
  if (problem.pick >= OrderedPick::rank) return {order[as_index(picked_place(problem, order, at))]};
  order.resize(as_index(problem.count));
  if (problem.pick == OrderedPick::first_by_position) std::sort(order.begin(), order.end());
  return order;
}

template <class T>
struct Results {
  std::vector<T> values;
  std::vector<std::int64_t> indices;
};
/// On few blocks, so that each takes several parts of the work.
template <class T>
Results<T> emulated(const OrderProblem& problem, const std::vector<T>& x) {
  const OrderPlan plan(problem);
  const cuda::LibrarySource source = plan.way() == OrderPlan::Way::digits ? cuda::digit_sort_kernels(problem.dtype)
                                                                          : cuda::row_sort_kernel(plan.row_sort());
  void* const library = sinter_test::emulated_library(source.text, source.entries);
  using Function = void (*)(const void*);
  const auto launch = reinterpret_cast<void (*)(Function, const void*, const unsigned*, unsigned, unsigned)>(
      dlsym(library, "emulated_launch"));
  std::vector<char> workspace(plan.workspace_bytes() + 256, 0x5A);
  char* const start = workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256);
  const std::size_t results = as_index(problem.rows * problem.count);
  Results<T> out{std::vector<T>(results), std::vector<std::int64_t>(results, -1)};
  plan.for_each_launch(x.data(), out.values.data(), out.indices.data(), start,
                       [&](std::size_t entry, std::int64_t blocks, int threads, const cuda::OrderArguments& arguments) {
                         const unsigned grid[3] = {static_cast<unsigned>(std::min<std::int64_t>(blocks, 3)), 1, 1};
                         launch(reinterpret_cast<Function>(dlsym(library, ("call_" + source.entries[entry]).c_str())),
                                &arguments, grid, static_cast<unsigned>(threads), 0);
                       });
  return out;
}

template <class T>
void check(OrderProblem problem, Content content, OrderPlan::Way way) {
  problem.dtype = dtype_of<T>();
  INFO(name(problem.dtype) << ", " << problem.rows << " rows of " << problem.length << " by " << problem.stride << ", "
                           << problem.count << " wanted, pick " << static_cast<int>(problem.pick) << ", content "
                           << static_cast<int>(content));
  REQUIRE(OrderPlan(problem).way() == way);
  const std::vector<T> x = drawn<T>(problem.rows * problem.length, content);
  const Results<T> got = emulated(problem, x);
  std::vector<T> values(got.values.size());
  std::vector<std::int64_t> indices(got.indices.size());
  for (std::int64_t row = 0; row < problem.rows; ++row) {
    const std::int64_t outer = row / problem.stride * problem.stride, inner = row % problem.stride;
    const T* const first = x.data() + outer * problem.length + inner;
    const std::vector<std::int64_t> positions = expected_positions(problem, first);
    for (std::int64_t i = 0; i < problem.count; ++i) {
      const std::size_t place = as_index(outer * problem.count + inner + i * problem.stride);
      indices[place] = positions[as_index(i)];
      values[place] = first[positions[as_index(i)] * problem.stride];
    }
  }
  CHECK(got.indices == indices);
  CHECK(std::memcmp(got.values.data(), values.data(), values.size() * sizeof(T)) == 0);
}
OrderProblem sorting(std::int64_t rows, std::int64_t length, std::int64_t stride = 1, bool is_descending = false) {
  OrderProblem problem;
  problem.rows = rows;
  problem.length = problem.count = length;
  problem.stride = stride;
  problem.is_descending = is_descending;
  return problem;
}
OrderProblem picking(std::int64_t rows, std::int64_t length, OrderedPick pick, std::int64_t count = 1,
                     bool is_descending = false, std::int64_t rank = 0) {
  OrderProblem problem = sorting(rows, length, 1, is_descending);
  problem.pick = pick;
  problem.count = count;
  problem.rank = rank;
  return problem;
}
using Way = OrderPlan::Way;
constexpr OrderedPick statistics[] = {OrderedPick::median, OrderedPick::nanmedian, OrderedPick::mode};
}  // namespace

TEST_CASE("rows that fit a block are sorted as the host sorts them") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  for (const Content content : {Content::numbers, Content::specials}) {
    check<float>(sorting(300, 1), content, Way::rows);
    check<float>(sorting(400, 7, 2, true), content, Way::rows);
    check<float>(sorting(9, 33, 3), content, Way::rows);
    check<float>(sorting(4, 64, 1, true), content, Way::rows);
    check<float>(sorting(5, 500), content, Way::rows);
    check<float16>(sorting(3, 500, 1, true), content, Way::rows);
    check<double>(sorting(3, 500, 3, true), content, Way::rows);
    for (const OrderedPick pick : statistics) {
      check<float>(picking(300, 7, pick), content, Way::rows);
      check<float>(picking(5, 500, pick), content, Way::rows);
    }
    check<float>(picking(5, 500, OrderedPick::rank, 1, false, 123), content, Way::rows);
    check<float>(picking(5, 500, OrderedPick::first, 10, true), content, Way::rows);
    check<float>(picking(5, 500, OrderedPick::first_by_position, 10, true), content, Way::rows);
    check<float16>(picking(5, 500, OrderedPick::first_by_position, 300), content, Way::rows);
    check<double>(picking(5, 500, OrderedPick::first_by_position, 300), content, Way::rows);
  }
}

TEST_CASE("rows of several tiles are sorted by their digits") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  for (const Content content : {Content::numbers, Content::specials}) {
    check<float>(sorting(2, 4097, 2), content, Way::digits);
    check<float>(sorting(1, 8192, 1, true), content, Way::digits);
    check<double>(sorting(3, 2049, 1, true), content, Way::digits);
    check<std::int8_t>(sorting(2, 5000), content, Way::digits);
    for (const OrderedPick pick : statistics) check<float>(picking(2, 4100, pick), content, Way::digits);
    check<float>(picking(1, 5000, OrderedPick::rank, 1, false, 4321), content, Way::digits);
    check<float>(picking(2, 5000, OrderedPick::first, 4000, true), content, Way::digits);
  }
  check<float>(sorting(1, 33 * 4096 + 5), Content::specials, Way::digits);  // sums of counts by whole blocks
}

TEST_CASE("the first few elements of long rows come from a tournament") {
  if (!sinter_test::has_host_compiler()) SINTER_SKIP("no compiler `c++`");
  for (const Content content : {Content::numbers, Content::specials}) {
    check<float>(picking(3, 4097, OrderedPick::first, 10, true), content, Way::tournament);
    check<float>(picking(1, 4500, OrderedPick::first_by_position, 32), content, Way::tournament);
  }
}

TEST_CASE("the kernels that order compile for every dtype") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP("no NVRTC");
  const auto compiles = [](const cuda::LibrarySource& source) {
    const std::string cubin = cuda::compile_to_cubin(source.text, source.entries.front(), "sm_80");
    for (const std::string& entry : source.entries) CHECK(cubin.find(entry) != std::string::npos);
  };
  for (const DType dtype : {DType::bool_, DType::i64, DType::f8e4m3, DType::bf16, DType::f32}) {
    INFO(name(dtype));
    compiles(cuda::digit_sort_kernels(dtype));
    compiles(cuda::row_sort_kernel({dtype, cuda::RowSort::longest(dtype), row(dtype).size <= 2}));
  }
  compiles(cuda::row_sort_kernel({DType::f32, 8, false}));
  CHECK_FALSE(cuda::has_order_kernels(DType::c64));
}

TEST_CASE("an ordering that no kernel makes is left to the host") {
  CHECK(OrderPlan(picking(1, 5000, OrderedPick::first_by_position, 2000)).way() == Way::none);
  OrderProblem pairs = sorting(2, 8);
  pairs.dtype = DType::c64;
  CHECK(OrderPlan(pairs).way() == Way::none);
  CHECK(OrderPlan(sorting(1, std::int64_t{1} << 32)).way() == Way::none);
}
#endif
