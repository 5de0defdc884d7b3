// Collectives on ranks that are threads: values against sums by hand, derivatives, batches, compiled and lazy; meshes,
// and one rank's program as a function of whole tensors.
#include "catch.hpp"

#include <sinter/dist.hpp>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

using namespace sinter;
using Floats = std::vector<float>;
using Doubles = std::vector<double>;

namespace {
/// Runs on so many threads; a difference that a rank finds is a failure here (Catch counts in one thread only).
void on_ranks(int ranks, const std::function<void(dist::World)>& fn) {
  std::string problem;
  try {
    dist::run(ranks, fn);
  } catch (const std::exception& error) { problem = error.what(); }
  CHECK(problem == "");
}
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("rank " + std::to_string(dist::rank()) + ": " + what);
}
template <class T>
void expect_values(const Tensor& got, const std::vector<T>& want, const std::string& what) {
  std::string text;
  const std::vector<T> values = to_vector<T>(got);
  for (const T value : values) text += std::to_string(value) + " ";
  expect(values == want, what + " gave " + text);
}
/// Numbers between -2 and 2 that use all of their bits.
Floats numbers(std::int64_t size, unsigned seed) {
  Floats values;
  for (std::int64_t i = 0; i < size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(static_cast<std::int32_t>(seed)) * 0x1p-30f);
  }
  return values;
}
/// A value that differs on each rank: {r + 1, 2 r + 2, ...}.
Tensor own(std::int64_t size) { return (arange(size, {.dtype = DType::f32}) + 1) * (dist::rank() + 1); }
}  // namespace

TEST_CASE("dist: all_reduce on 1, 2 and 4 ranks") {
  for (const int ranks : {1, 2, 4})
    on_ranks(ranks, [](dist::World world) {
      const auto n = static_cast<float>(world.size()), all = n * (n + 1) / 2;
      const Tensor x = own(3);
      expect_values(dist::all_reduce(x), Floats{all, 2 * all, 3 * all}, "sum");
      expect_values(dist::all_reduce(x, dist::Reduce::mean), Floats{all / n, 2 * all / n, 3 * all / n}, "mean");
      expect_values(dist::all_reduce(x, dist::Reduce::maximum), Floats{n, 2 * n, 3 * n}, "maximum");
      expect_values(dist::all_reduce(x, dist::Reduce::minimum), Floats{1, 2, 3}, "minimum");
      const float product = n == 4 ? 24.f : n;
      expect_values(dist::all_reduce(x(slice(0, 1)), dist::Reduce::prod), Floats{product}, "prod");
      expect_values(dist::all_reduce(Tensor(x > 2.5f), dist::Reduce::maximum), std::vector<bool>{n > 2, n > 1, true},
                    "any");
      expect_values(dist::all_reduce(zeros({0, 3})), Floats{}, "empty");
      expect_values(dist::all_reduce(tensor({std::int64_t{1} << 40}).to(Device::cpu())),
                    std::vector<std::int64_t>{(std::int64_t{1} << 40) * world.size()}, "i64");
      const Tensor strided = reshape(own(6), {2, 3}).t();
      expect_values(dist::all_reduce(strided), Floats{all, 4 * all, 2 * all, 5 * all, 3 * all, 6 * all}, "strided");
      expect_values(dist::all_reduce(Tensor(full({}, 2.0, {.dtype = DType::f64}))), Doubles{2.0 * world.size()}, "0-d");
    });
}

TEST_CASE("dist: sums are in the order of the ranks, bit for bit, and rounded once") {
  on_ranks(4, [](dist::World world) {
    const std::int64_t size = 1037;
    std::vector<Floats> all;
    for (int r = 0; r < world.size(); ++r) all.push_back(numbers(size, static_cast<unsigned>(r)));
    Floats sums(as_index(size));
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = ((all[0][i] + all[1][i]) + all[2][i]) + all[3][i];
    const Tensor x = copy_of(all[static_cast<std::size_t>(world.rank())], {size});
    expect(to_vector<float>(dist::all_reduce(x)) == sums, "all_reduce has other bits");
    const Floats part = to_vector<float>(dist::reduce_scatter(x(slice(0, 1036))));
    expect(std::equal(part.begin(), part.end(), sums.begin() + world.rank() * 259), "reduce_scatter has other bits");
    // 1 + 3 * 2^-9 in bf16: the parts vanish one by one, and stay where they are added in f32
    const Tensor small = world.rank() == 0 ? ones({1}) : full({1}, 0x1p-9);
    expect_values(cast(dist::all_reduce(cast(small, DType::bf16)), DType::f32), Floats{1 + 0x1p-7f}, "bf16");
  });
}

TEST_CASE("dist: gather, scatter, exchange, broadcast, permute") {
  on_ranks(3, [](dist::World world) {
    const int r = world.rank();
    const auto f = [](int value) { return static_cast<float>(value); };
    const Tensor x = reshape(arange(4, {.dtype = DType::f32}), {2, 2}) + 10 * r;
    expect_values(dist::all_gather(x), Floats{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}, "all_gather");
    expect_values(dist::all_gather(x, -1), Floats{0, 1, 10, 11, 20, 21, 2, 3, 12, 13, 22, 23}, "all_gather, axis 1");
    const Tensor wide = reshape(arange(12, {.dtype = DType::f32}), {2, 6}) + 100 * r;
    expect_values(dist::reduce_scatter(wide, 1), Floats{f(300 + 6 * r), f(303 + 6 * r), f(318 + 6 * r), f(321 + 6 * r)},
                  "reduce_scatter");
    expect_values(
        dist::all_to_all(wide, 1, 0),
        Floats{f(2 * r), f(2 * r + 1), f(2 * r + 6), f(2 * r + 7), f(100 + 2 * r), f(101 + 2 * r), f(106 + 2 * r),
               f(107 + 2 * r), f(200 + 2 * r), f(201 + 2 * r), f(206 + 2 * r), f(207 + 2 * r)},
        "all_to_all");
    expect_values(dist::all_to_all(dist::all_to_all(wide, 1, 0), 0, 1), to_vector<float>(wide), "there and back");
    expect_values(dist::broadcast(x, 2), Floats{20, 21, 22, 23}, "broadcast");
    expect_values(dist::reduce(x, 1), r == 1 ? Floats{30, 33, 36, 39} : Floats{0, 0, 0, 0}, "reduce");
    expect_values(dist::permute(x, {{0, 1}, {1, 2}}),
                  r == 0 ? Floats{0, 0, 0, 0} : Floats{f(10 * r - 10), f(10 * r - 9), f(10 * r - 8), f(10 * r - 7)},
                  "permute");
    expect_values(dist::ring_shift(x(0, slice(0, 1)), -1), Floats{f(10 * ((r + 1) % 3))}, "ring_shift");
    expect_values(dist::axis_index(), std::vector<std::int64_t>{r}, "axis_index");
    expect_values(dist::shard(wide, {1}),
                  Floats{f(100 * r + 2 * r), f(100 * r + 2 * r + 1), f(100 * r + 2 * r + 6), f(100 * r + 2 * r + 7)},
                  "shard");
    dist::barrier();
  });
}

TEST_CASE("dist: one compiled function serves all ranks, with extents that change") {
  std::atomic<int> traces{0};
  auto f = jit::compile([&traces](Tensor x) {
    ++traces;
    const Tensor total = dist::all_reduce(sum(x * x));
    return x / sqrt(total) + dist::axis_index();
  });
  on_ranks(4, [&](dist::World world) {
    for (const std::int64_t size : {4, 4, 9, 25}) {
      const Floats got = to_vector<float>(f(ones({size})));
      const float want = 1 / std::sqrt(4.f * static_cast<float>(size)) + static_cast<float>(world.rank());
      for (const float value : got) expect(value == Approx(want), "the value is " + std::to_string(value));
    }
  });
  CHECK(traces <= 16);  // compiled for two sizes and for all others, and traced again now and then to compare
}

TEST_CASE("dist: derivatives") {
  using Map = std::function<Tensor(Tensor)>;
  struct Row {
    const char* name;
    Map map;
    std::function<float(int rank, int place)> gradient;  // of the sum over ranks of sum(w * map(x)), w = rank + 1
  };
  // On 2 ranks, x is (4,): with w_r = r + 1, what y_r gets is multiplied by 1 on rank 0 and by 2 on rank 1.
  const std::vector<Row> rows = {
      {"all_reduce", [](Tensor x) { return dist::all_reduce(x); }, [](int, int) { return 3.f; }},
      {"mean", [](Tensor x) { return dist::all_reduce(x, dist::Reduce::mean); }, [](int, int) { return 1.5f; }},
      {"maximum", [](Tensor x) { return dist::all_reduce(x, dist::Reduce::maximum); },
       [](int rank, int) { return rank == 1 ? 3.f : 0.f; }},
      {"all_gather", [](Tensor x) { return dist::all_gather(x); }, [](int, int) { return 3.f; }},
      {"reduce_scatter", [](Tensor x) { return dist::reduce_scatter(x); },
       [](int, int place) { return place < 2 ? 1.f : 2.f; }},
      {"all_to_all", [](Tensor x) { return dist::all_to_all(x, 0, 0); },
       [](int, int place) { return place < 2 ? 1.f : 2.f; }},
      {"broadcast", [](Tensor x) { return dist::broadcast(x, 1); },
       [](int rank, int) { return rank == 1 ? 3.f : 0.f; }},
      {"reduce", [](Tensor x) { return dist::reduce(x, 1); }, [](int, int) { return 2.f; }},
      {"permute", [](Tensor x) { return dist::permute(x, {{0, 1}}); },
       [](int rank, int) { return rank == 0 ? 2.f : 0.f; }},
      {"shard", [](Tensor x) { return dist::shard(x, {0}); },
       [](int rank, int place) { return place / 2 == rank ? static_cast<float>(rank + 1) : 0.f; }},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    on_ranks(2, [&](dist::World world) {
      const auto loss = [&](Tensor x) { return sum(row.map(x * 1)) * static_cast<float>(world.rank() + 1); };
      Floats want;
      for (int place = 0; place < 4; ++place) want.push_back(row.gradient(world.rank(), place));
      const Tensor x = own(4);
      expect_values(jit::grad(loss)(x), want, std::string(row.name) + ", lazy");
      expect_values(jit::compile(jit::grad(loss))(x), want, std::string(row.name) + ", compiled");
      Variable v(x);
      v.requires_grad();
      loss(Tensor(v)).backward();
      expect_values(v.grad(), want, std::string(row.name) + ", tape");
      Variable w(x);
      w.requires_grad();
      auto compiled = jit::compile([&](int) { return loss(Tensor(w)); });
      compiled(0).backward();
      expect_values(w.grad(), want, std::string(row.name) + ", compiled tape");
    });
  }
  on_ranks(2, [](dist::World) {  // twice: sum over ranks of (sum over ranks x)^3
    const auto cube = [](Tensor x) { return sum(pow(dist::all_reduce(x), 3)); };
    const auto slope = jit::grad(cube);
    expect_values(slope(ones({1})), Floats{24}, "first");  // each of 2 losses by each x: 3 * 2^2
    expect_values(jit::grad([&](Tensor x) { return sum(slope(x)); })(ones({1})), Floats{48}, "second");
  });
}

TEST_CASE("dist: vmap") {
  on_ranks(2, [](dist::World world) {
    const auto f = static_cast<float>(world.rank());
    const Tensor x = reshape(arange(8, {.dtype = DType::f32}), {2, 4}) + 100 * world.rank();
    const auto scatter = jit::vmap([](Tensor row) { return dist::reduce_scatter(row); });
    expect_values(scatter(x), Floats{100 + 4 * f, 102 + 4 * f, 108 + 4 * f, 110 + 4 * f}, "reduce_scatter");
    const auto gather = jit::vmap([](Tensor row) { return dist::all_gather(row); });
    expect_values(gather(x(all, slice(0, 1))), Floats{0, 100, 4, 104}, "all_gather");
    const auto slope = jit::vmap(jit::grad([](Tensor row) { return sum(square(dist::all_reduce(row))); }));
    expect_values(slope(ones({2, 1})), Floats{8, 8}, "gradient");
  });
}

namespace {
/// A step of a random program: on Tensors of one rank, and on the values of all ranks.
struct Step {
  int kind = 0;
  int number = 0;

  Tensor operator()(const Tensor& x) const {
    const int n = dist::size();
    switch (kind) {
      case 0: return dist::all_reduce(x) * 0.25;
      case 1: return dist::all_reduce(x, dist::Reduce::maximum) - 1;
      case 2: return dist::ring_shift(x, number);
      case 3: return dist::broadcast(x, number % n) + dist::axis_index();
      case 4: return dist::all_to_all(x, 0, 0);
      case 5: return dist::all_gather(dist::reduce_scatter(x)) * 0.5;
      case 6: return dist::all_gather(dist::shard(x, {0}));
      case 7: return x * 0.5 + dist::axis_index();
      default: return dist::permute(x, {{number % n, (number + 1) % n}}) + 3;
    }
  }
  /// values[r][i] is element i on rank r.
  std::vector<Doubles> operator()(const std::vector<Doubles>& x) const {
    const int n = static_cast<int>(x.size()), size = static_cast<int>(x[0].size()), part = size / n;
    std::vector<Doubles> out = x;
    const auto at = [&](int rank, int place) {
      return x[static_cast<std::size_t>(rank)][static_cast<std::size_t>(place)];
    };
    for (int r = 0; r < n; ++r)
      for (int i = 0; i < size; ++i) {
        double sum = at(0, i), most = at(0, i);
        for (int k = 1; k < n; ++k) {
          sum += at(k, i);
          most = std::max(most, at(k, i));
        }
        const std::vector<double> results = {sum * 0.25,
                                             most - 1,
                                             at(((r - number) % n + n) % n, i),
                                             at(number % n, i) + r,
                                             at(i / part, r * part + i % part),
                                             sum * 0.5,
                                             at(i / part, i),
                                             at(r, i) * 0.5 + r,
                                             (r == (number + 1) % n ? at(number % n, i) : 0) + 3};
        out[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = results[static_cast<std::size_t>(kind)];
      }
    return out;
  }
};
}  // namespace

TEST_CASE("dist: random programs, bit for bit, lazy and compiled") {
  unsigned state = 12345;
  const auto draw = [&](unsigned below) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % below);
  };
  for (int program = 0; program < 12; ++program) {
    const int n = 2 + program % 3;
    std::vector<Step> steps(12);
    for (Step& step : steps) step = {draw(9), draw(5)};
    std::vector<Doubles> start(static_cast<std::size_t>(n)), values;
    for (int r = 0; r < n; ++r)
      for (const float v : numbers(3 * n, static_cast<unsigned>(100 * program + r)))
        start[static_cast<std::size_t>(r)].push_back(static_cast<double>(v));
    values = start;
    for (const Step& step : steps) values = step(values);
    INFO("program " << program);
    auto run_steps = [&steps](Tensor x) {
      for (const Step& step : steps) x = step(x);
      return x;
    };
    auto compiled = jit::compile(run_steps);
    on_ranks(n, [&](dist::World world) {
      const auto r = static_cast<std::size_t>(world.rank());
      const Tensor x = copy_of(start[r], {3 * n});
      expect_values(run_steps(x), values[r], "lazy");
      for (int i = 0; i < 3; ++i) expect_values(compiled(x), values[r], "compiled");
    });
  }
}

TEST_CASE("dist: many collectives in a row, in two kinds of groups") {
  std::string problem;
  try {
    dist::run(dist::Mesh({{"a", 2}, {"b", 2}}), [](dist::World world) {
      for (int i = 0; i < 500; ++i) {
        expect(item<float>(dist::all_reduce(full({}, world.rank()), i % 3 == 0 ? "a" : "b")) ==
                   static_cast<float>(i % 3 == 0 ? 2 * (world.rank() % 2) + 2 : 4 * (world.rank() / 2) + 1),
               "round " + std::to_string(i));
        if (i % 50 == 0) dist::barrier();
      }
    });
  } catch (const std::exception& error) { problem = error.what(); }
  CHECK(problem == "");
}

TEST_CASE("dist: meshes") {
  const dist::Mesh mesh({{"data", 2}, {"model", 3}});
  CHECK(mesh.size() == 6);
  CHECK(mesh.text() == "(data 2, model 3)");
  CHECK(mesh.size("model") == 3);
  CHECK(mesh.index(4, "data") == 1);
  CHECK(mesh.index(4, "model") == 1);
  CHECK(mesh.group(4, "data") == std::vector<int>{1, 4});
  CHECK(mesh.group(4, "model") == std::vector<int>{3, 4, 5});
  CHECK(mesh.group(4, {"data", "model"}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK_THROWS_WITH(mesh.size("pipe"), Catch::Contains("there is no axis 'pipe' in the mesh (data 2, model 3)"));
  CHECK_THROWS_WITH(dist::Mesh({{"a", 2}, {"a", 2}}), Catch::Contains("two axes are named 'a'"));
  CHECK_THROWS_WITH(dist::Mesh({{"a", 0}}), Catch::Contains("axis 'a' has 0 ranks"));
  std::string problem;
  try {
    dist::run(mesh, [](dist::World world) {
      const auto r = world.rank();
      expect_values(dist::all_reduce(full({1}, r), "data"), Floats{static_cast<float>(2 * (r % 3) + 3)}, "data");
      expect_values(dist::all_reduce(full({1}, r), "model"), Floats{static_cast<float>(9 * (r / 3) + 3)}, "model");
      expect_values(dist::all_reduce(full({1}, r), dist::Axis{"data", "model"}), Floats{15}, "both");
      expect_values(dist::axis_index("model"), std::vector<std::int64_t>{r % 3}, "axis_index");
      expect(dist::axis_size("data") == 2, "axis_size");
      const dist::MeshScope scope(dist::Mesh({{"row", 6}}));
      expect_values(dist::all_reduce(full({1}, r), "row"), Floats{15}, "of a scope");
    });
  } catch (const std::exception& error) { problem = error.what(); }
  CHECK(problem == "");
}

TEST_CASE("dist: shard_map") {
  const Tensor x = copy_of(numbers(4 * 6, 1), {4, 6}), w = copy_of(numbers(6 * 2, 2), {6, 2});
  const Tensor want = matmul(x, w);
  eval(want);
  for (const auto& [data, model] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 3), std::pair(2, 3)}) {
    const dist::Mesh mesh({{"data", data}, {"model", model}});
    auto product = dist::shard_map([](Tensor a, Tensor b) { return dist::all_reduce(matmul(a, b), "model"); }, mesh,
                                   {{{0, "data"}, {1, "model"}}, {{0, "model"}}}, {{{0, "data"}}});
    const Tensor got = product(x, w);
    CHECK(got.shape().text() == "(4, 2)");
    CHECK(static_cast<bool>(allclose(got, want, {.rtol = 1e-5, .atol = 1e-6})));
    std::string problem;
    try {
      dist::run(mesh, [&](dist::World) {  // inside: a part of the graph
        auto compiled = jit::compile(product);
        expect(static_cast<bool>(allclose(compiled(x, w), want, {.rtol = 1e-5, .atol = 1e-6})), "compiled");
      });
    } catch (const std::exception& error) { problem = error.what(); }
    CHECK(problem == "");
  }
  const dist::Mesh mesh({{"data", 2}});
  auto two = dist::shard_map([](Tensor a) { return std::pair(Tensor(a * 2), dist::all_reduce(sum(a))); }, mesh,
                             {{{0, "data"}}}, {{{0, "data"}}, {}});
  auto [doubled, total] = two(x);
  CHECK(static_cast<bool>(allclose(doubled, x * 2)));
  CHECK(item<float>(total) == Approx(item<float>(sum(x))));
  CHECK_THROWS_WITH(two(x(slice(0, 3))), Catch::Contains("the calls of the ranks differ"));  // no extent is given
  auto wrong = dist::shard_map([](Tensor a) { return a; }, mesh, {}, {{}});
  CHECK_THROWS_WITH(wrong(x), Catch::Contains("0 layouts for 1 arguments"));
}

TEST_CASE("dist: complex numbers are added by their parts") {
  on_ranks(3, [](dist::World world) {
    const float own = static_cast<float>(world.rank() + 1);
    const Tensor z = complex(ones({5}), ones({5}) * own);
    const auto expect_parts = [](const Tensor& got, float re, float im, const std::string& what) {
      expect_values(Tensor(real(got)), Floats(5, re), what);
      expect_values(Tensor(imag(got)), Floats(5, im), what);
    };
    expect_parts(dist::all_reduce(z), 3, 6, "sum");
    expect_parts(dist::all_reduce(z, dist::Reduce::mean), 1, 2, "mean");
    expect_parts(dist::average(z), 1, 2, "average");
    expect_parts(dist::average(z, own == 1 ? 0 : 1), 1, 2.5, "average by weight");
    expect_parts(dist::all_gather(z)(slice(10, 15)), 1, 3, "gathered");
    expect(to_vector<double>(Tensor(imag(dist::all_reduce(z.to(DType::c128)))))[0] == 6, "c128");
    const auto loss = [](Tensor x) { return sum(square(abs(dist::all_reduce(complex(x, x * 2))))); };
    expect_values(jit::grad(loss)(ones({2})), Floats(2, 90), "gradient");  // of 3 losses 5 (3 x)^2
  });
  CHECK_THROWS_WITH(dist::all_reduce(complex(ones({1}), ones({1})), dist::Reduce::maximum),
                    Catch::Contains("all_reduce: maximum of c64") && Catch::Contains("real() and imag()"));
}

TEST_CASE("dist: a compiled function on another mesh than that of its trace") {
  const dist::Mesh flat({{"x", 1}, {"y", 4}}), tall({{"x", 4}, {"y", 1}});
  auto f = jit::compile([](Tensor t) { return dist::all_reduce(t, "x"); });
  auto inside = jit::compile([&](Tensor t) {
    const dist::MeshScope scope(tall);
    return dist::all_reduce(t, "x");
  });
  std::string problem;
  try {
    dist::run(4, [&](dist::World) {
      expect_values(inside(ones({1})), Floats{4}, "a mesh of its own");
      {
        const dist::MeshScope scope(flat);
        expect_values(f(ones({1})), Floats{1}, "flat");
        expect_values(inside(ones({1})), Floats{4}, "a mesh of its own, elsewhere");
      }
      const dist::MeshScope scope(tall);
      expect_values(f(ones({1})), Floats{4}, "tall");
    });
  } catch (const std::exception& error) { problem = error.what(); }
  CHECK(problem == "");
  CHECK(f.stats().compiles == 2);
  CHECK(inside.stats().compiles == 1);
}

TEST_CASE("dist: the gradient of shard_map inside of run is that of whole tensors") {
  const Tensor x = copy_of(numbers(4 * 6, 1), {4, 6}), w = copy_of(numbers(6 * 2, 2), {6, 2}), b = ones({2});
  const auto want_of = [&](const auto& f) {
    auto [dx, dw, db] =
        jit::grad<0, 1, 2>([&](Tensor p, Tensor q, Tensor r) { return sum(square(f(p, q, r))); })(x, w, b);
    eval({dx, dw, db});
    return std::tuple(dx, dw, db);
  };
  const auto near = [](const Tensor& a, const Tensor& c) {
    return static_cast<bool>(allclose(a, c, {.rtol = 1e-4, .atol = 1e-5}));
  };
  const auto [dx, dw, db] = want_of([](Tensor p, Tensor q, Tensor r) { return matmul(p, q) + r; });
  const Tensor second =
      jit::grad([&](Tensor p) { return sum(square(jit::grad([&](Tensor v) { return sum(pow(v, 3)); })(p))); })(x);
  eval(second);
  for (const auto& [data, model] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 3), std::pair(2, 3)}) {
    const dist::Mesh mesh({{"data", data}, {"model", model}});
    on_ranks(data * model, [&](dist::World) {
      const dist::MeshScope scope(mesh);
      // b is added on one rank of "model" alone; its result is the same on all of them.
      auto affine = dist::shard_map(
          [](Tensor p, Tensor q, Tensor r) {
            const Tensor is_first = cast(dist::axis_index("model") == 0, DType::f32);
            return dist::all_reduce(matmul(p, q) + r * is_first, "model");
          },
          mesh, {{{0, "data"}, {1, "model"}}, {{0, "model"}}, {}}, {{{0, "data"}}});
      const auto gradients =
          jit::grad<0, 1, 2>([&](Tensor p, Tensor q, Tensor r) { return sum(square(affine(p, q, r))); });
      for (const bool is_compiled : {false, true}) {
        auto [gx, gw, gb] = is_compiled ? jit::compile(gradients)(x, w, b) : gradients(x, w, b);
        expect(near(gx, dx) && near(gw, dw) && near(gb, db), is_compiled ? "compiled" : "lazy");
      }
      auto cube = dist::shard_map([](Tensor p) { return pow(p, 3); }, mesh, {{{0, "data"}}}, {{{0, "data"}}});
      const auto twice =
          jit::grad([&](Tensor p) { return sum(square(jit::grad([&](Tensor v) { return sum(cube(v)); })(p))); });
      expect(near(twice(x), second), "twice");
    });
  }
}

TEST_CASE("dist: mistakes have the line and the fix") {
  const Tensor x = zeros({3, 4});
  CHECK_THROWS_WITH(dist::all_reduce(Tensor(x > 0)), Catch::Contains("all_reduce: sum of bool [dist_test.cpp:"));
  CHECK_THROWS_WITH(dist::all_reduce(arange(3), dist::Reduce::mean), Catch::Contains("mean of i64"));
  CHECK_THROWS_AS(dist::all_gather(x, 2), IndexError);
  CHECK_THROWS_WITH(dist::broadcast(x, 1), Catch::Contains("the root is rank 1 of 1"));
  CHECK_THROWS_WITH(dist::permute(x, {{0, 0}, {0, 0}}), Catch::Contains("the pair 0 to 0 of 1 ranks"));
  CHECK_THROWS_WITH(dist::all_reduce(x, "data"), Catch::Contains("there is no axis 'data' in the mesh without axes"));
  CHECK_THROWS_WITH(dist::run(0, [] {}), Catch::Contains("the number of ranks is 0"));
  CHECK_THROWS_WITH(dist::run({.ranks = 3, .mesh = dist::Mesh({{"a", 2}})}, [] {}), Catch::Contains("3 are asked for"));
  CHECK_THROWS_AS(jit::compile([](Tensor a) {
                    dist::run(2, [] {});
                    return a;
                  })(x),
                  TraceError);
  CHECK_THROWS_WITH(jit::grad([](Tensor a) { return sum(dist::all_reduce(a, dist::Reduce::prod)); })(x),
                    Catch::Contains("its prod has no derivative"));
}
