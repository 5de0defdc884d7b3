// What moves data rather than computes: transposition, gathers, scatters, running sums. Eigen, or a loop where
// Eigen has no such operation, is the peer; one thread each, in the same run.
#include "compiled.hpp"
#include "eigen_peers.hpp"

#include <algorithm>
#include <numeric>
#include <random>

using namespace sinter;
using benchmark::State;

namespace {

const float* data(const Tensor& x) { return x.data<float>().data(); }

void transpose_row(State& state, bench::Rows size) {
  const Tensor& x = bench::noise({size.count, size.length});
  bench::ConstMatrixView in(data(x), size.count, size.length);
  bench::Matrix ours(size.length, size.count), theirs(size.length, size.count);
  auto compiled = jit::compile([](Tensor t) { return transpose(t, 0, 1); });
  // The result alone would be a view of the argument; given a place, it is copied there.
  const auto copy = [&] { compiled.into(borrow_mut(ours.data(), {size.length, size.count}))(x); };
  const auto peer = [&] { theirs = in.transpose(); };
  copy();
  peer();
  if (!bench::agree(state, bench::elements(ours), bench::elements(theirs), 0)) return;
  bench::alternate(state, "Eigen", copy, peer);
  bench::count_bytes(state, 8 * size.elements());
}

struct Lookup {
  std::int64_t rows, width, count;  // `count` rows of a table [rows, width]; width 1: single elements

  std::string text() const {
    return (width == 1 ? bench::shape_text({rows}) : bench::shape_text({rows, width})) + "," +
           bench::shape_text({count});
  }
  std::vector<std::int64_t> indices() const {
    std::mt19937_64 random(1);
    std::uniform_int_distribution<std::int64_t> any_row(0, rows - 1);
    std::vector<std::int64_t> chosen(static_cast<std::size_t>(count));
    for (std::int64_t& i : chosen) i = any_row(random);
    return chosen;
  }
};
constexpr Lookup lookups[] = {{50000, 128, 8192}, {1 << 20, 1, 1 << 20}};

const Tensor& table_of(const Lookup& size) {
  return size.width == 1 ? bench::noise({size.rows}) : bench::noise({size.rows, size.width});
}

void take_row(State& state, const Lookup& size) {
  const std::vector<std::int64_t> chosen = size.indices();
  const Tensor& table = table_of(size);
  const Tensor indices = copy_of(chosen);
  std::vector<float> out(static_cast<std::size_t>(size.count * size.width));
  const auto peer = [&] {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      std::copy_n(data(table) + chosen[i] * size.width, size.width,
                  out.data() + static_cast<std::int64_t>(i) * size.width);
  };
  bench::compare(state, {"a loop", 0, out}, [](Tensor t, Tensor i) { return take(t, i, 0); }, peer, table, indices);
  bench::count_bytes(state, 8 * size.count * size.width);
}

/// The gradient of `take` adds rows to a table of zeros.
void scatter_add_row(State& state, const Lookup& size) {
  const std::vector<std::int64_t> chosen = size.indices();
  const Tensor &table = table_of(size), indices = copy_of(chosen),
               &values = size.width == 1 ? bench::noise({size.count}, 1) : bench::noise({size.count, size.width}, 1);
  std::vector<float> out(static_cast<std::size_t>(size.rows * size.width));
  const auto peer = [&] {
    std::fill(out.begin(), out.end(), 0.f);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      for (std::int64_t j = 0; j < size.width; ++j)
        out[static_cast<std::size_t>(chosen[i] * size.width + j)] +=
            data(values)[static_cast<std::int64_t>(i) * size.width + j];
  };
  const auto ours = [](Tensor t, Tensor i, Tensor v) {
    return jit::grad([&](Tensor u) { return sum(take(u, i, 0) * v); })(t);
  };
  bench::compare(state, {"a loop", 1e-5, out}, ours, peer, table, indices, values);
  bench::count_bytes(state, 4 * (size.rows + 2 * size.count) * size.width);
}

/// Rows put in the place of others; of several for one place the last stays.
void scatter_row(State& state, const Lookup& size) {
  const std::vector<std::int64_t> chosen = size.indices();
  const Tensor &table = table_of(size), indices = copy_of(chosen),
               &values = size.width == 1 ? bench::noise({size.count}, 1) : bench::noise({size.count, size.width}, 1);
  std::vector<float> out(static_cast<std::size_t>(size.rows * size.width));
  const auto peer = [&] {
    std::copy_n(data(table), out.size(), out.begin());
    for (std::size_t i = 0; i < chosen.size(); ++i)
      std::copy_n(data(values) + static_cast<std::int64_t>(i) * size.width, size.width,
                  out.data() + chosen[i] * size.width);
  };
  const auto ours = [](Tensor t, Tensor i, Tensor v) { return index_copy(t, 0, i, v); };
  bench::compare(state, {"a loop", 0, out}, ours, peer, table, indices, values);
  bench::count_bytes(state, 8 * (size.rows + size.count) * size.width);
}

/// Running sums along the rows of x, by jit::scan over its columns.
void scan_row(State& state, bench::Rows size) {
  const Tensor& x = bench::noise({size.count, size.length});
  std::vector<float> out(static_cast<std::size_t>(size.elements()));
  const auto peer = [&] {
    for (std::int64_t i = 0; i < size.elements(); i += size.length)
      std::partial_sum(data(x) + i, data(x) + i + size.length, out.begin() + i);
  };
  const auto ours = [](Tensor t) {
    const auto step = [](Tensor total, Tensor next) {
      const Tensor sum = total + next;
      return std::tuple{sum, sum};
    };
    return transpose(jit::scan(step, zeros({t.size(0)}), transpose(t, 0, 1)).second, 0, 1);
  };
  bench::compare(state, {"a loop", 1e-4, out}, ours, peer, x);
  bench::count_items(state, size.elements());
}

/// cumsum along the rows of x (axis 1), or down its columns.
void cumsum_row(State& state, bench::Rows size, int axis) {
  const Tensor& x = bench::noise({size.count, size.length});
  std::vector<float> out(static_cast<std::size_t>(size.elements()));
  const auto peer = [&] {
    if (axis == 0) {
      std::copy_n(data(x), size.length, out.begin());
      for (std::int64_t i = size.length; i < size.elements(); ++i)
        out[static_cast<std::size_t>(i)] = out[static_cast<std::size_t>(i - size.length)] + data(x)[i];
      return;
    }
    for (std::int64_t i = 0; i < size.elements(); i += size.length)
      std::partial_sum(data(x) + i, data(x) + i + size.length, out.begin() + i);
  };
  bench::compare(state, {"a loop", 1e-4, out}, [axis](Tensor t) { return cumsum(t, axis); }, peer, x);
  bench::count_items(state, size.elements());
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  benchmark::AddCustomContext("Eigen", bench::eigen_version());
  for (const bench::Rows size : {bench::Rows{1024, 64}, bench::Rows{4096, 4096}})
    bench::add("transpose/" + size.text() + "/f32", [size](State& state) { transpose_row(state, size); });
  for (const Lookup& size : lookups) {
    bench::add("take/" + size.text() + "/f32", [size](State& state) { take_row(state, size); });
    bench::add("scatter_add, as gradient of take/" + size.text() + "/f32",
               [size](State& state) { scatter_add_row(state, size); });
    bench::add("scatter/" + size.text() + "/f32", [size](State& state) { scatter_row(state, size); });
  }
  for (const bench::Rows size : {bench::Rows{1024, 1024}, bench::Rows{1, 1 << 16}}) {
    bench::add("running sum, by jit::scan/" + size.text() + "/f32", [size](State& state) { scan_row(state, size); });
    bench::add("cumsum/" + size.text() + "/f32", [size](State& state) { cumsum_row(state, size, 1); });
  }
  for (const bench::Rows size : {bench::Rows{65536, 1024}, bench::Rows{1, 1 << 20}})
    bench::add("cumsum/" + size.text() + "/f32", [size](State& state) { cumsum_row(state, size, 1); });
  const bench::Rows tall{4096, 1024};
  bench::add("cumsum along axis 0/" + tall.text() + "/f32", [tall](State& state) { cumsum_row(state, tall, 0); });
  return bench::run(argc, argv);
}
