// Stencils by rolls, pads, slices and joins along any axes: their values against plain loops over positions, whatever
// the shapes, dtypes, instruction sets and threads; and what the x86 back end makes of them: one kernel, whose pieces
// along outer axes are chosen by rows, and which takes the inside of a row without conditions.
#include "../catch.hpp"

#include "../plan_harness.hpp"

#include <sinter/sinter.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/nest/row_pieces.hpp>
#endif

#include <functional>
#include <numeric>
#include <random>

using namespace sinter_test;

namespace {

using Extents = std::vector<std::int64_t>;

/// A dense array of whole numbers, on which all is done element by element.
struct Plain {
  Extents extents;
  std::vector<double> values;

  std::int64_t size() const {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  }
  /// Of a shape, each element from an index, which may be changed.
  template <class At>
  static Plain made(const Extents& extents, At&& at) {
    Plain out{extents, {}};
    Extents index(extents.size());
    for (std::int64_t i = 0; i < out.size(); ++i) {
      std::int64_t rest = i;
      for (std::size_t a = extents.size(); a-- > 0; rest /= extents[a]) index[a] = rest % extents[a];
      out.values.push_back(at(Extents(index)));
    }
    return out;
  }
  double operator()(const Extents& index) const {
    std::int64_t flat = 0;
    for (std::size_t a = 0; a < extents.size(); ++a) flat = flat * extents[a] + index[a];
    return values[static_cast<std::size_t>(flat)];
  }
};

/// A neighbour, in both worlds.
struct Neighbour {
  Tensor tensor;
  Plain plain;
};

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

Neighbour rolled(const Neighbour& x, std::size_t axis, std::int64_t shift) {
  return {roll(x.tensor, shift, static_cast<int>(axis)), Plain::made(x.plain.extents, [&](Extents index) {
            index[axis] = wrapped(index[axis] - shift, x.plain.extents[axis]);
            return x.plain(index);
          })};
}

/// Padded by `width` on all sides of some axes, and cut to its shape from `start` on.
Neighbour padded_and_cut(const Neighbour& x, std::size_t axis, std::int64_t width, std::int64_t start, int mode) {
  constexpr PadMode modes[] = {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular};
  const std::int64_t n = x.plain.extents[axis];
  std::vector<std::pair<int, int>> widths(x.plain.extents.size(), {0, 0});
  widths[axis] = {static_cast<int>(width), static_cast<int>(width)};
  const Tensor wide = expr_detail::padded(x.tensor, widths, modes[mode]);
  std::vector<Index> part(x.plain.extents.size(), Index(all));
  part[axis] = Index(slice(start, start + n));
  return {index(wide, part), Plain::made(x.plain.extents, [&](Extents index) {
            std::int64_t i = index[axis] + start - width;
            if (mode == 0 && (i < 0 || i >= n)) return 0.0;
            if (mode == 1) i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
            if (mode == 2) i = std::clamp<std::int64_t>(i, 0, n - 1);
            if (mode == 3) i = wrapped(i, n);
            index[axis] = i;
            return x.plain(index);
          })};
}

class StencilMaker {
 public:
  StencilMaker(std::uint64_t seed, Extents extents) : random_(seed), extents_(std::move(extents)) {}

  std::int64_t draw(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }

  Neighbour neighbour(Neighbour x) {
    const std::int64_t steps = 1 + draw(3);
    for (std::int64_t i = 0; i < steps; ++i) {
      const auto axis = static_cast<std::size_t>(draw(static_cast<std::int64_t>(extents_.size())));
      const std::int64_t n = extents_[axis];
      if (n < 3 || draw(3) != 0) {
        x = rolled(x, axis, draw(2) == 0 ? draw(5) - 2 : draw(2 * n + 1) - n);
      } else {
        const std::int64_t width = 1 + draw(2);
        x = padded_and_cut(x, axis, width, draw(2 * width + 1), static_cast<int>(draw(4)));
      }
    }
    return x;
  }
  /// Sums of neighbours of small weights; the plain sum beside it.
  Neighbour sum(const Neighbour& x, const Neighbour& y) {
    Neighbour total = neighbour(x);
    const std::int64_t terms = 1 + draw(8);
    for (std::int64_t i = 0; i < terms; ++i) {
      const Neighbour next = neighbour(draw(2) == 0 ? x : y);
      total.tensor = total.tensor + next.tensor;
      for (std::size_t k = 0; k < total.plain.values.size(); ++k) total.plain.values[k] += next.plain.values[k];
    }
    return total;
  }

 private:
  std::mt19937_64 random_;
  Extents extents_;
};

Plain noise(const Extents& extents, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  return Plain::made(extents, [&](const Extents&) { return static_cast<double>(random() % 8); });
}

Tensor tensor_of(const Plain& plain, DType dtype) {
  Tensor x = reshape(copy_of(plain.values), Shape(std::span<const std::int64_t>(plain.extents))).to(dtype);
  eval(x);
  return x;
}

std::string difference(const Tensor& found, const Plain& wanted) {
  const auto values = to_vector<double>(found.to(DType::f64));
  if (values.size() != wanted.values.size()) return "has " + std::to_string(values.size()) + " elements";
  for (std::size_t i = 0; i < wanted.values.size(); ++i)
    if (values[i] != wanted.values[i])
      return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", should be " +
             std::to_string(wanted.values[i]);
  return "";
}

struct Case {
  Extents extents;
  DType dtype;
};
Case random_case(std::uint64_t seed) {
  constexpr DType dtypes[] = {DType::f32, DType::i32, DType::f64, DType::u8, DType::i64, DType::f16, DType::i16};
  std::mt19937_64 random(seed);
  Case out{{}, dtypes[random() % 7]};
  const std::size_t rank = 1 + random() % 4;
  std::uint64_t room = 6000;
  for (std::size_t a = 0; a < rank; ++a) {
    const std::uint64_t longest = a + 1 == rank ? 80 : 12, extent = 1 + random() % std::min(longest, room);
    out.extents.push_back(static_cast<std::int64_t>(extent));
    room = std::max<std::uint64_t>(room / extent, 1);
  }
  return out;
}

/// Of other extents: those of 1 are stretched.
Plain stretched(const Plain& x, const Extents& extents) {
  return Plain::made(extents, [&](Extents index) {
    for (std::size_t a = 0; a < index.size(); ++a) index[a] = x.extents[a] == 1 ? 0 : index[a];
    return x(index);
  });
}

#ifndef SINTER_NO_X86
/// The plan of a function for one instruction set.
template <class F>
std::vector<oracle::Array> run_on(x86::Isa isa, F f, const Tensor& x, const Tensor& y) {
  x86::X86Backend backend(isa);
  auto compiled = jit::compile(f);
  const Graph graph = run_pipeline(Graph(compiled.lower(x, y).graph()));
  const auto plan = build_plan(graph, fused({&backend, reference()}));
  return run(*plan, {to_array(*x.impl()), to_array(*y.impl())});
}
#endif

}  // namespace

TEST_CASE("stencils: random neighbours have the values of plain loops") {
  const int before = thread_count();
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const Case of = random_case(seed);
    INFO("seed " << seed << ", " << name(of.dtype) << Shape(std::span<const std::int64_t>(of.extents)).text());
    const Shape shape(std::span<const std::int64_t>(of.extents));
    Extents part = of.extents;  // of an input that is stretched along some axes, in every second case
    for (std::size_t axis = 0; axis < part.size(); ++axis)
      if (seed % 2 == 0 && (seed >> (axis + 1) & 1) != 0) part[axis] = 1;
    const Plain given = noise(part, seed), a = stretched(given, of.extents), b = noise(of.extents, seed + 1000);
    const Tensor x = tensor_of(given, of.dtype), y = tensor_of(b, of.dtype);
    const Plain wanted = StencilMaker(seed, of.extents).sum({expand(x, shape), a}, {y, b}).plain;
    const auto f = [&](Tensor u, Tensor v) {
      return StencilMaker(seed, of.extents).sum({expand(u, shape), a}, {v, b}).tensor;
    };
    set_thread_count(1 + static_cast<int>(seed % 2));
    CHECK(difference(jit::compile(f)(x, y), wanted) == "");
#ifndef SINTER_NO_X86
    const auto best = x86::detect_isa();
    for (const x86::Isa isa : {x86::Isa::avx2, x86::Isa::avx512}) {
      if (!best || *best < isa || seed % 3 != 0) continue;
      const oracle::Array found = run_on(isa, f, x, y).at(0);
      for (std::size_t i = 0; i < wanted.values.size(); ++i)
        if (found.data[i] != wanted.values[i]) FAIL(x86::X86Backend(isa).cache_key() << ": element " << i);
    }
#endif
  }
  set_thread_count(before);
}

TEST_CASE("stencils: large ones, by two threads and of sizes that a call says") {
  const int before = thread_count();
  for (const Extents& extents : {Extents{257, 300}, Extents{40, 33, 47}, Extents{1, 70000}, Extents{3000, 24}}) {
    const Plain a = noise(extents, 5), b = noise(extents, 6);
    const Tensor x = tensor_of(a, DType::f32), y = tensor_of(b, DType::f32);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Plain wanted = StencilMaker(seed, extents).sum({x, a}, {y, b}).plain;
      const auto f = [&](Tensor u, Tensor v) { return StencilMaker(seed, extents).sum({u, a}, {v, b}).tensor; };
      set_thread_count(2);
      CHECK(difference(jit::compile(f)(x, y), wanted) == "");
    }
    const auto around = [](Tensor u) {
      Tensor sum = u;
      for (int axis = 0; axis < u.rank(); ++axis) sum = sum + roll(u, 1, axis) + roll(u, -1, axis);
      return Tensor(sum + roll(u, {1, -1}, {0, 1}));
    };
    Plain wanted = a;
    const auto add = [&](const Neighbour& next) {
      for (std::size_t i = 0; i < wanted.values.size(); ++i) wanted.values[i] += next.plain.values[i];
    };
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      for (const int shift : {1, -1}) add(rolled({x, a}, axis, shift));
    add(rolled(rolled({x, a}, 0, 1), 1, -1));
    if (extents[0] > 1) {
      auto any_size = jit::compile(around, {.dynamic = jit::Dynamic::always});
      CHECK(difference(any_size(x), wanted) == "");
    }
    set_thread_count(1);
    CHECK(difference(jit::compile(around)(x), wanted) == "");
  }
  set_thread_count(before);
}

#ifndef SINTER_NO_X86
namespace {

Tensor neighbours_of(const Tensor& x) {
  Tensor count = roll(x, {-1, -1}, {0, 1});
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if ((dy != 0 || dx != 0) && !(dy == -1 && dx == -1)) count = count + roll(x, {dy, dx}, {0, 1});
  return count;
}

/// The kernels of a compiled function on f32 of this shape.
template <class F>
std::vector<Kernel> kernels_of(F f, const Shape& shape) {
  auto compiled = jit::compile(f);
  const auto plan =
      build_plan(run_pipeline(Graph(compiled.lower(jit::spec(shape)).graph())), fused(backend_lists().back()));
  std::vector<Kernel> kernels;
  for (const PlanStep& step : plan->steps()) kernels.push_back(step.kernel);
  return kernels;
}

}  // namespace

TEST_CASE("stencils: pieces along outer axes are chosen by rows") {
  const std::vector<Kernel> life = kernels_of([](Tensor x) { return neighbours_of(x); }, {30, 40});
  REQUIRE(life.size() == 1);
  const auto pieces = x86::choose_pieces_by_row(life[0]);
  REQUIRE(pieces.has_value());
  CHECK(pieces->bounds.size() == 2);
  // Rows above and below, each straight on and, of two columns, on either side of where the columns join.
  CHECK(pieces->roots.size() == 10);
  for (const Inst& inst : pieces->kernel.body) {
    CHECK(inst.prim != Prim::select);
    if (inst.prim == Prim::index) CHECK(inst.bits == 1);
    if (inst.prim == Prim::guarded_load) CHECK(inst.usually() != Usually::unknown);
  }
  CHECK_NOTHROW(verify(pieces->kernel));

  // Near misses: a roll along rows alone, and rows that have nothing to be read from.
  const std::vector<Kernel> along = kernels_of([](Tensor x) { return Tensor(roll(x, 1, 1) + x); }, {30, 40});
  CHECK_FALSE(x86::choose_pieces_by_row(along.at(0)).has_value());
  const std::vector<Kernel> zeros =
      kernels_of([](Tensor x) { return Tensor(pad(x, {{1, 1}, {0, 0}})(slice(0, 30), all) + x); }, {30, 40});
  CHECK_FALSE(x86::choose_pieces_by_row(zeros.at(0)).has_value());
}

TEST_CASE("stencils: the inside of a row asks for nothing") {
  auto life = jit::compile([](Tensor x) { return neighbours_of(x); });
  const auto stages = life.lower(jit::spec(Shape{64, 256}));
  REQUIRE(stages.kernels().size() == 1);
  const std::string code = stages.kernels()[0].code;
  // Some run of eight loads and sums is without a mask or a comparison of vectors.
  std::size_t longest = 0, run = 0, begin = 0;
  while (begin < code.size()) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    const std::string line = code.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with(";")) continue;
    const bool asks = line.find("{k") != std::string::npos || line.find("cmp") == 1 || line.find("vpcmp") == 0 ||
                      line.find("vmask") == 0;
    run = asks ? 0 : run + (line.starts_with("vaddps") ? 1 : 0);
    longest = std::max(longest, run);
  }
  CHECK(longest >= 7);
}
#endif

TEST_CASE("stencils: what a slice does not see of a pad costs nothing") {
  const auto laplacian = [](Tensor x) {
    const Tensor p = pad(x, {{1, 1}, {1, 1}, {1, 1}}, PadMode::replicate);
    const auto at = [&](int z, int y, int u) {
      return Tensor(p(slice(1 + z, 11 + z), slice(1 + y, 11 + y), slice(1 + u, 21 + u)));
    };
    return Tensor(at(0, 0, 1) + at(0, 0, -1) + at(0, 1, 0) + at(0, -1, 0) + at(1, 0, 0) + at(-1, 0, 0) -
                  6 * at(0, 0, 0));
  };
  auto compiled = jit::compile(laplacian);
  const Tensor x = randn({10, 10, 20});
  CHECK(compiled.lower(x).kernels().size() == 1);
  CHECK(allclose(compiled(x), laplacian(x), {.rtol = 1e-5, .atol = 1e-5}));
}

TEST_CASE("stencils: pieces that are one element each, stretched, are chosen row by row") {
  const Tensor one = full({1, 1}, 2.0), other = full({1, 1}, 5.0);
  for (const std::int64_t columns : {3, 50, 700}) {
    const auto joined = [columns](Tensor a, Tensor b, Tensor z) {
      return concat({expand(a, {3, columns}), expand(b, {4, columns})}, 0) + z;
    };
    const auto updated = [columns](Tensor a, Tensor b, Tensor z) {
      return dynamic_update_slice(expand(a, {7, columns}), expand(b, {2, columns}), {2, 0}) + z;
    };
    const Tensor z = randn({7, columns});
    const auto shown = to_vector<float>(z), found = to_vector<float>(jit::compile(joined)(one, other, z)),
               changed = to_vector<float>(jit::compile(updated)(one, other, z));
    for (std::size_t i = 0; i < shown.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(columns);
      CHECK(found[i] == shown[i] + (row < 3 ? 2.0f : 5.0f));
      CHECK(changed[i] == shown[i] + (row == 2 || row == 3 ? 5.0f : 2.0f));
    }
  }
}

TEST_CASE("stencils: an update at places that are known is one of a slice") {
  const auto inside = [](Tensor x) {
    return dynamic_update_slice(x, 0.5 * (x(slice(0, 8), slice(1, 9)) + x(slice(2, 10), slice(1, 9))), {1, 1});
  };
  auto compiled = jit::compile(inside);
  const Tensor x = randn({10, 10});
  const auto stages = compiled.lower(x);
  for (const auto& kernel : stages.kernels()) CHECK(kernel.text.find("kernel scatter") == std::string::npos);
  const auto found = to_vector<float>(compiled(x)), given = to_vector<float>(x);
  for (std::size_t i = 0; i < 10; ++i)
    for (std::size_t j = 0; j < 10; ++j) {
      const bool is_inside = i > 0 && i < 9 && j > 0 && j < 9;
      const float wanted = is_inside ? 0.5f * (given[(i - 1) * 10 + j] + given[(i + 1) * 10 + j]) : given[i * 10 + j];
      CHECK(found[i * 10 + j] == Approx(wanted));
    }
  // Starts are moved inside, as those that a call says are.
  const Tensor part = full({4, 4}, 7.0), moved = dynamic_update_slice(x, part, {-3, 100});
  const Tensor said = jit::compile([](Tensor t, Tensor u, Scalar a, Scalar b) {
    return dynamic_update_slice(t, u, {a, b});
  })(x, part, Scalar(-3), Scalar(100));
  CHECK(to_vector<float>(moved) == to_vector<float>(said));
}

TEST_CASE("stencils: a roll of a few columns has as many for the sizes of each call") {
  for (const int shift : {3, 5, -3, 1})
    for (const int axis : {0, 1}) {
      auto compiled = jit::compile([=](const Tensor& x) { return Tensor(roll(x, shift, axis) + 0); });
      for (const Shape& shape :
           {Shape{16, 16}, Shape{17, 17}, Shape{40, 2}, Shape{30, 3}, Shape{33, 4}, Shape{33, 1}}) {
        const Tensor x = reshape(arange(shape.numel().value(), {.dtype = DType::f32}), shape);
        const auto found = to_vector<float>(compiled(x));
        const std::int64_t rows = shape[0].value(), columns = shape[1].value();
        bool is_right = true;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j) {
            const std::int64_t by_row = axis == 0 ? shift : 0, by_column = axis == 1 ? shift : 0;
            const std::int64_t row = (((i - by_row) % rows) + rows) % rows,
                               column = (((j - by_column) % columns) + columns) % columns;
            is_right = is_right &&
                       found[static_cast<std::size_t>(i * columns + j)] == static_cast<float>(row * columns + column);
          }
        INFO(shift << " along " << axis << " of " << rows << "x" << columns);
        CHECK(is_right);
      }
    }
}
