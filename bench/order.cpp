// Sorting and selecting along rows. The standard library is the peer; one thread each, in the same run.
#include "compiled.hpp"
#include "eigen_peers.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

/// Positions of each row in its order, `count` of them.
template <class Order>
void order_rows(const Tensor& x, bench::Rows size, std::int64_t count, std::vector<float>& values,
                std::vector<std::int64_t>& positions, Order&& order) {
  const float* row = x.data<float>().data();
  std::vector<std::int64_t> at(static_cast<std::size_t>(size.length));
  for (std::int64_t r = 0; r < size.count; ++r, row += size.length) {
    std::iota(at.begin(), at.end(), 0);
    order(at, row);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto to = static_cast<std::size_t>(r * count + i);
      positions[to] = at[static_cast<std::size_t>(i)];
      values[to] = row[positions[to]];
    }
  }
}

template <class Function, class Order>
void ordered_row(State& state, bench::Rows size, std::int64_t count, Function function, const char* peer_name,
                 Order order) {
  const Tensor& x = bench::noise({size.count, size.length});
  std::vector<float> values(static_cast<std::size_t>(size.count * count));
  std::vector<std::int64_t> positions(values.size());
  const auto compiled = jit::compile(function);
  const auto ours = [&] { return compiled(x); };
  const auto peer = [&] { order_rows(x, size, count, values, positions, order); };
  peer();
  const Ordered got = ours();
  if (!bench::agree(state, got.values.data<float>(), values, 0)) return;
  bench::alternate(state, peer_name, ours, peer);
  bench::count_items(state, size.elements());
}

void sort_row(State& state, bench::Rows size) {
  const auto order = [](std::vector<std::int64_t>& at, const float* row) {
    std::stable_sort(at.begin(), at.end(), [row](std::int64_t a, std::int64_t b) { return row[a] < row[b]; });
  };
  ordered_row(state, size, size.length, [](Tensor t) { return sort(t); }, "std::stable_sort", order);
}
void topk_row(State& state, bench::Rows size, std::int64_t count) {
  const auto order = [count](std::vector<std::int64_t>& at, const float* row) {
    std::partial_sort(at.begin(), at.begin() + count, at.end(),
                      [row](std::int64_t a, std::int64_t b) { return row[a] > row[b]; });
  };
  ordered_row(state, size, count, [count](Tensor t) { return topk(t, count); }, "std::partial_sort", order);
}

void sorted_values_row(State& state, bench::Rows size) {
  const Tensor& x = bench::noise({size.count, size.length});
  std::vector<float> out(static_cast<std::size_t>(size.elements()));
  const auto peer = [&] {
    std::copy_n(x.data<float>().data(), out.size(), out.begin());
    for (auto row = out.begin(); row != out.end(); row += size.length) std::sort(row, row + size.length);
  };
  bench::compare(state, {"std::sort", 0, out}, [](Tensor t) { return sort(t).values; }, peer, x);
  bench::count_items(state, size.elements());
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  for (const bench::Rows size : {bench::Rows{1000, 1000}, bench::Rows{1, 1 << 20}}) {
    bench::add("sort/" + size.text() + "/f32", [size](State& state) { sort_row(state, size); });
    bench::add("sorted values/" + size.text() + "/f32", [size](State& state) { sorted_values_row(state, size); });
  }
  const bench::Rows wide{64, 32000};
  bench::add("topk of 50/" + wide.text() + "/f32", [wide](State& state) { topk_row(state, wide, 50); });
  return bench::run(argc, argv);
}
