// Functions that read, change and count at indices, against loops over elements; their gradients, under vmap, and what
// they say of indices that are out of range.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

using namespace sinter;

namespace {

Tensor numbers(const Shape& shape, double scale = 1) {
  return sin(reshape(arange(shape.numel()).to(DType::f64), shape) * 1.7 + 0.3) * scale;
}
std::vector<std::int64_t> whole(const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); }
const Tensor& indices() {  // into 5 places, some several times, some from the end
  static const Tensor made = tensor<std::int64_t>({3, 0, 3, -1, 1, 1});
  return made;
}
std::size_t place(std::int64_t index, std::int64_t extent) {
  return static_cast<std::size_t>(index < 0 ? index + extent : index);
}

/// The gradient of sum(f(x) * weights), by differences.
std::vector<double> differences(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const auto value = [&](const std::vector<double>& at) {
    const Tensor out = f(copy_of(at, x.shape()));
    return doubles(sum(out * numbers(out.shape(), 3)))[0];
  };
  std::vector<double> at = doubles(x), slopes;
  constexpr double step = 1e-6;
  for (double& coordinate : at) {
    const double before = coordinate;
    coordinate = before + step;
    const double above = value(at);
    coordinate = before - step;
    slopes.push_back((above - value(at)) / (2 * step));
    coordinate = before;
  }
  return slopes;
}
/// First and second derivatives agree with differences.
void check_gradients(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const auto weighted = [f](Tensor at) {
    const Tensor out = f(at);
    return Tensor(sum(out * numbers(out.shape(), 3)));
  };
  const auto slope = [weighted](Tensor at) { return jit::grad(weighted)(at); };
  CHECK(near(doubles(slope(x)), differences(f, x), 1e-5));
  CHECK(near(doubles(jit::compile(slope)(x)), differences(f, x), 1e-5));
  const auto squared = [f](Tensor at) { return Tensor(f(at * at)); };  // whose second derivative is not zero
  const auto first = [squared](Tensor at) {
    return jit::grad([squared](Tensor y) {
      const Tensor out = squared(y);
      return Tensor(sum(out * numbers(out.shape(), 3)));
    })(at);
  };
  const auto second = [first](Tensor at) {
    return jit::grad([first](Tensor y) {
      const Tensor out = first(y);
      return Tensor(sum(out * numbers(out.shape(), 3)));
    })(at);
  };
  CHECK(near(doubles(second(x)), differences(first, x), 1e-4));
}

}  // namespace

TEST_CASE("take_along_axis and put_along_axis read and write along one axis") {
  const Tensor x = numbers({5, 3}), at = tensor<std::int64_t>({3, 0, -1, 1, 1, 4});
  const Tensor rows = reshape(at, {2, 3});
  const auto wanted = doubles(x), list = doubles(take_along_axis(x, rows, 0));
  const auto index = whole(rows);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) CHECK(list[i * 3 + j] == wanted[place(index[i * 3 + j], 5) * 3 + j]);
  // one row of indices for all columns, and one column of values for all rows
  CHECK(take_along_axis(x, reshape(at, {6, 1}), 0).shape() == Shape{6, 3});
  CHECK(doubles(take_along_axis(x, reshape(at, {6, 1}), 0)) == doubles(index_select(x, 0, at)));
  auto after = wanted;
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) after[place(index[i * 3 + j], 5) * 3 + j] = 7;
  CHECK(doubles(put_along_axis(x, rows, 7, 0)) == after);
  const Tensor last = numbers({4, 6}), order = argmax(last, 1, Keep::yes);
  CHECK(doubles(take_along_axis(last, order, -1)) == doubles(amax(last, 1)));
}

// A sum of f16 that rounds at each step stays at 2048, one of bf16 at 256.
TEST_CASE("sums and products of f16 and bf16 at a place are rounded once") {
  const Tensor index = zeros({2992}, {.dtype = DType::i64});
  const std::vector<double> wanted{2992, 0};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor values = ones({2992}, {.dtype = dtype}), base = zeros({2}, {.dtype = dtype});
    const auto added = [](Tensor b, Tensor i, Tensor v) { return Tensor(scatter_add(b, 0, i, v)); };
    CHECK(doubles(added(base, index, values)) == wanted);
    CHECK(doubles(jit::compile(added)(base, index, values)) == wanted);
    CHECK(doubles(index_add(base, 0, index, values)) == wanted);
    const auto read = [&](Tensor x) { return Tensor(sum(cast(x(index), DType::f32))); };
    CHECK(doubles(jit::grad(read)(base)) == wanted);
    constexpr float factor = 1 + 1.0f / 128;
    float product = 1;
    for (int i = 0; i < 20; ++i) product *= factor;
    const Tensor factors = full({20}, factor, {.dtype = dtype}), first = zeros({20}, {.dtype = DType::i64});
    CHECK(doubles(scatter_reduce(ones({1}, {.dtype = dtype}), 0, first, factors, ScatterReduction::prod)) ==
          doubles(cast(full({1}, product), dtype)));
  }
}

TEST_CASE("scatter, scatter_add and scatter_reduce combine with what is there") {
  const Tensor x = numbers({5, 3}), src = numbers({4, 4}, 2);
  const Tensor at = tensor<std::int64_t>({3, 0, 3, -1, 1, 1, 3, 0, 2}), index = reshape(at, {3, 3});
  const auto from = doubles(src), base = doubles(x);
  const auto to = whole(index);
  using Step = std::function<double(double, double)>;
  const auto combined = [&](std::vector<double> out, const Step& step) {
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        double& place_of = out[place(to[i * 3 + j], 5) * 3 + j];
        place_of = step(place_of, from[i * 4 + j]);
      }
    return out;
  };
  const Step add = [](double a, double b) { return a + b; }, mul = [](double a, double b) { return a * b; },
             least = [](double a, double b) { return std::min(a, b); },
             most = [](double a, double b) { return std::max(a, b); };
  CHECK(doubles(scatter(x, 0, index, src)) == combined(base, [](double, double b) { return b; }));
  CHECK(doubles(scatter_add(x, 0, index, src)) == combined(base, add));
  CHECK(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::sum)) == combined(base, add));
  CHECK(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::prod)) == combined(base, mul));
  CHECK(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::amin)) == combined(base, least));
  CHECK(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::amax)) == combined(base, most));
  const auto counts = combined(std::vector<double>(15, 1), [](double a, double) { return a + 1; });
  auto means = combined(base, add);
  for (std::size_t i = 0; i < means.size(); ++i) means[i] /= counts[i];
  CHECK(near(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::mean)), means));
  // without what is there
  auto products = combined(std::vector<double>(15, 1), mul), sums = combined(std::vector<double>(15, 0), add);
  for (std::size_t i = 0; i < 15; ++i)
    if (counts[i] == 1) products[i] = sums[i] = base[i];
    else sums[i] /= counts[i] - 1;
  CHECK(near(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::prod, {.include_self = false})), products));
  CHECK(near(doubles(scatter_reduce(x, 0, index, src, ScatterReduction::mean, {.include_self = false})), sums));
  // an index smaller than x along another axis
  const Tensor part = scatter_add(x, 0, reshape(tensor<std::int64_t>({2, 2}), {2, 1}), 1.0);
  CHECK(doubles(part)[6] == base[6] + 2);
  CHECK(doubles(part)[7] == base[7]);
  CHECK(whole(scatter_reduce(tensor<std::int64_t>({5, 5}), 0, tensor<std::int64_t>({0}), tensor<std::int64_t>({-8}),
                             ScatterReduction::mean)) == std::vector<std::int64_t>{-2, 5});
}

TEST_CASE("index_add, index_copy, index_fill, index_put and masked_fill") {
  const Tensor x = numbers({2, 5}), source = numbers({2, 6}, 2);
  auto sums = doubles(x), copies = sums, filled = sums;
  const auto from = doubles(source);
  const auto to = whole(indices());
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t k = 0; k < 6; ++k) {
      sums[i * 5 + place(to[k], 5)] += -2 * from[i * 6 + k];
      copies[i * 5 + place(to[k], 5)] = from[i * 6 + k];
      filled[i * 5 + place(to[k], 5)] = 9;
    }
  CHECK(near(doubles(index_add(x, 1, indices(), source, -2)), sums, 1e-14));
  CHECK(doubles(index_copy(x, 1, indices(), source)) == copies);
  CHECK(doubles(index_fill(x, -1, indices(), 9)) == filled);
  // two index tensors pair up, broadcast
  const Tensor table = numbers({4, 5, 2}), rows = tensor<std::int64_t>({1, 1, -1}),
               columns = tensor<std::int64_t>({2, 2, 0});
  auto put = doubles(table), accumulated = put;
  for (const std::size_t at : {std::size_t{1 * 5 + 2}, std::size_t{1 * 5 + 2}, std::size_t{3 * 5 + 0}})
    for (std::size_t k = 0; k < 2; ++k) {
      put[at * 2 + k] = 1.5;
      accumulated[at * 2 + k] += 1.5;
    }
  CHECK(doubles(index_put(table, {rows, columns}, 1.5)) == put);
  CHECK(near(doubles(index_put(table, {rows, columns}, 1.5, {.accumulate = true})), accumulated, 1e-15));
  CHECK(index_put(table, {reshape(rows, {3, 1}), columns}, 0).shape() == table.shape());
  auto masked = doubles(table);
  for (double& v : masked)
    if (v > 0) v = -1;
  CHECK(doubles(masked_fill(table, table > 0, -1)) == masked);
  CHECK(masked_fill(ones({2}), ones({2}) > 0, 3.7).dtype() == DType::f32);
}

TEST_CASE("segments, bincount and histogram") {
  const Tensor x = numbers({6, 2}), ids = tensor<std::int64_t>({3, 0, 3, 4, 1, 1});
  const auto values = doubles(x);
  const auto id = whole(ids);
  std::vector<double> sums(12), least(12, std::numeric_limits<double>::infinity()), counts(6);
  for (std::size_t i = 0; i < 6; ++i) {
    ++counts[static_cast<std::size_t>(id[i])];
    for (std::size_t j = 0; j < 2; ++j) {
      const std::size_t to = static_cast<std::size_t>(id[i]) * 2 + j;
      sums[to] += values[i * 2 + j];
      least[to] = std::min(least[to], values[i * 2 + j]);
    }
  }
  CHECK(near(doubles(segment_sum(x, ids, 6)), sums, 1e-15));
  CHECK(doubles(segment_min(x, ids, 6)) == least);
  CHECK(doubles(-segment_max(-x, ids, 6)) == least);
  const auto means = doubles(segment_mean(x, ids, 6));
  CHECK(std::isnan(means[4]));
  CHECK(near({means[6], means[7]}, {sums[6] / 2, sums[7] / 2}));
  CHECK(doubles(bincount(ids, 6)) == counts);
  CHECK(bincount(ids, 6).dtype() == DType::i64);
  CHECK(floats(bincount(ids, 5, ones({6}) * 2)) == std::vector<float>{2, 4, 0, 4, 2});
  const Tensor samples = tensor({-1.f, 0.f, 0.49f, 0.5f, 2.f, 2.0001f, std::nanf(""), 1.99f});
  CHECK(whole(histogram(samples, 4, 0, 2)) == std::vector<std::int64_t>{2, 1, 0, 2});
  const Tensor many = numbers({100, 1000});
  CHECK(whole(sum(histogram(many, 256, -1, 1))) == std::vector<std::int64_t>{100000});
  CHECK_THROWS_AS(histogram(many, 4, 1, 1), UserError);
}

TEST_CASE("dynamic_slice and dynamic_update_slice begin where numbers of a call say") {
  const Tensor x = reshape(arange(24), {4, 6});
  auto part = jit::compile([](Tensor t, Scalar row, Scalar column) { return dynamic_slice(t, {row, column}, {2, 3}); });
  CHECK(whole(part(x, 1, 2)) == std::vector<std::int64_t>{8, 9, 10, 14, 15, 16});
  CHECK(whole(part(x, 9, -4)) == std::vector<std::int64_t>{12, 13, 14, 18, 19, 20});  // moved inside
  auto put = jit::compile(
      [](Tensor t, Tensor u, Scalar row, Tensor column) { return dynamic_update_slice(t, u, {row, column}); });
  auto wanted = whole(x);
  for (const std::size_t at : {7, 8, 13, 14}) wanted[at] = -1;
  CHECK(whole(put(x, full({2, 2}, -1, {.dtype = DType::i64}), 1, tensor<std::int64_t>({1})(0))) == wanted);
  CHECK(whole(dynamic_update_slice(x, full({4, 6}, 3, {.dtype = DType::i64}), {0, 0}))[23] == 3);
  CHECK_THROWS_AS(dynamic_slice(x, {0, 0}, {5, 1}), ShapeError);
  CHECK_THROWS_AS(dynamic_slice(x, {0}, {2, 1}), ShapeError);
  // rows along the middle axis, of a cache
  const Tensor cache = zeros({2, 5, 3}), row = ones({2, 1, 3});
  const auto after = floats(dynamic_update_slice(cache, row, {0, Scalar(3), 0}));
  CHECK(after[9] == 1);
  CHECK(after[8] == 0);
  CHECK(after[24] == 1);
}

TEST_CASE("index tensors read and write through x(...) and u.at(...), and pair up") {
  const Tensor x = numbers({4, 5, 2});
  const Tensor rows = tensor<std::int64_t>({1, -1, 1}), columns = tensor<std::int64_t>({2, 0, 2});
  const auto all_of = doubles(x);
  const auto pairs = doubles(x(rows, columns));
  CHECK(x(rows, columns).shape() == Shape{3, 2});
  CHECK(pairs[0] == all_of[(1 * 5 + 2) * 2]);
  CHECK(pairs[3] == all_of[(3 * 5 + 0) * 2 + 1]);
  CHECK(x(reshape(rows, {3, 1}), columns).shape() == Shape{3, 3, 2});
  CHECK(doubles(x(0, rows, 1))[1] == all_of[4 * 2 + 1]);
  Tensor u = x;
  u.at(rows, columns) += 1;
  CHECK(doubles(u)[(1 * 5 + 2) * 2] == all_of[(1 * 5 + 2) * 2] + 2);  // it is named twice
  u = x;
  u.at(rows) = 0;
  CHECK(doubles(sum(u(1)))[0] == 0);
  u = x;
  u.at(all, rows, 0) -= numbers({4, 3});
  auto wanted = all_of;
  const auto value = doubles(numbers({4, 3}));
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 3; ++k) wanted[(i * 5 + (k == 1 ? 4 : 1)) * 2] -= value[i * 3 + k];
  CHECK(near(doubles(u), wanted, 1e-15));
  u = x;
  u.at(slice(1, 3), columns) *= 2;
  CHECK(doubles(u)[(1 * 5 + 2) * 2] == all_of[(1 * 5 + 2) * 2] * 4);
  CHECK(doubles(u)[(0 * 5 + 2) * 2] == all_of[(0 * 5 + 2) * 2]);
  // single indices may stand anywhere
  CHECK(doubles(x(Scalar(1), all, Scalar(1)))[3] == all_of[(1 * 5 + 3) * 2 + 1]);
  CHECK(doubles(x(Scalar(2), slice(1, 3), tensor<std::int64_t>({1, 0})))[2] == all_of[(2 * 5 + 2) * 2 + 1]);
  u = x;
  u.at(Scalar(1), all, Scalar(-1)) += 1;
  CHECK(doubles(u)[(1 * 5 + 3) * 2 + 1] == all_of[(1 * 5 + 3) * 2 + 1] + 1);
  CHECK(doubles(sum(u - x))[0] > 4.99);
  CHECK(has(message_of<IndexError>([&] { eval(x(rows, all, columns)); }), "index tensors stand apart"));
}

TEST_CASE("segments and counts speak of themselves where their numbers do not fit") {
  const Tensor x = numbers({4, 3});
  CHECK(has(message_of<DTypeError>([&] { segment_mean(x, ones({4}), 2); }),
            "segment_mean: ids must be i32 or i64, not f32[4]"));
  CHECK(has(message_of<DTypeError>([&] { bincount(x, 2); }), "bincount: x must be i32 or i64, not f64[4, 3]"));
  CHECK(has(message_of<ShapeError>([&] { segment_sum(x, arange(3), 2); }), "segment_sum: x is (4, 3), ids are (3,)"));
}

TEST_CASE("indices out of range name the line, and leave what was to change as it was") {
  Tensor x = numbers({4, 3});
  const Tensor bad = tensor<std::int64_t>({0, 4});
  const auto before = doubles(x);
  const int line = __LINE__ + 1;
  const std::string text = message_of<IndexError>([&] { eval(index_add(x, 0, bad, ones({2, 3}))); });
  CHECK(has(text, "index 4 is out of range for an axis of extent 4"));
  CHECK(has(text, "gather_scatter_test.cpp:" + std::to_string(line)));
  CHECK_THROWS_AS(eval(scatter(x, 1, reshape(bad, {1, 2}), 1)), IndexError);
  CHECK_THROWS_AS(eval(bincount(bad, 4)), IndexError);
  CHECK_THROWS_AS(eval(x(bad, tensor<std::int64_t>({0, 0}))), IndexError);
  auto change = jit::compile([](Tensor u, Tensor i) { return index_add(u, 0, i, ones({2, 3})); });
  CHECK_THROWS_AS(change(x, bad), IndexError);
  CHECK(doubles(x) == before);
  const Variable state(x * 1);
  auto step = jit::compile([&](Tensor i) { state.set(index_add(state, 0, i, ones({2, 3}))); });
  step(tensor<std::int64_t>({0, 1}));
  CHECK_THROWS_AS(step(bad), IndexError);
  CHECK(doubles(state.value())[0] == before[0] + 1);
  CHECK(doubles(state.value())[9] == before[9]);
}

TEST_CASE("a donated tensor is changed in its own memory") {
  auto put =
      jit::compile([](Tensor cache, Tensor row, Scalar at) { return dynamic_update_slice(cache, row, {at, 0}); });
  Tensor cache = zeros({64, 32});
  const Tensor row = ones({1, 32});
  cache = put(std::move(cache), row, 3);
  for (int i = 4; i < 8; ++i) {
    const void* const place = cache.data<float>().data();
    cache = put(std::move(cache), row, i);
    CHECK(static_cast<const void*>(cache.data<float>().data()) == place);
  }
  CHECK(floats(sum(cache))[0] == 5 * 32);
}

TEST_CASE("gradients through what reads and changes at indices") {
  const Tensor x = numbers({5, 3}), src = numbers({6, 3}, 2);
  const Tensor index = reshape(tensor<std::int64_t>({3, 0, 3, -1, 1, 1, 3, 0, 2}), {3, 3});
  check_gradients([&](Tensor t) { return take_along_axis(t, index, 0); }, x);
  check_gradients([&](Tensor t) { return index_add(t, 0, indices(), src); }, x);
  check_gradients([&](Tensor t) { return index_add(x, 0, indices(), t); }, src);
  check_gradients([&](Tensor t) { return index_copy(t, 0, indices(), src); }, x);
  check_gradients([&](Tensor t) { return index_copy(x, 0, indices(), t); }, src);
  for (const auto reduction :
       {ScatterReduction::prod, ScatterReduction::mean, ScatterReduction::amin, ScatterReduction::amax}) {
    check_gradients([&](Tensor t) { return scatter_reduce(t, 0, index, src, reduction); }, x);
    check_gradients([&](Tensor t) { return scatter_reduce(x, 0, index, t, reduction); }, src);
  }
  const Tensor with_zeros = where(src > 1, 0.0, src);
  const auto product = [&](Tensor t) {
    return scatter_reduce(ones({5, 3}, {.dtype = DType::f64}), 0, index, t, ScatterReduction::prod);
  };
  const auto slope = jit::grad([&](Tensor t) { return Tensor(sum(product(t))); })(with_zeros);
  CHECK(near(doubles(slope), differences([&](Tensor t) { return Tensor(product(t) / numbers({5, 3}, 3)); }, with_zeros),
             1e-5));
  check_gradients([&](Tensor t) { return segment_sum(t, tensor<std::int64_t>({3, 0, 3, 4, 1, 1}), 6); }, src);
}

TEST_CASE("indices under vmap") {
  const Tensor x = numbers({4, 5, 3}), src = numbers({4, 6, 3}, 2);
  const Tensor lists = reshape(arange(24) * 7 - floor_divide(arange(24) * 7, 5) * 5, {4, 6});
  const auto one = [](Tensor t, Tensor i, Tensor s) { return index_add(t, 0, i, s); };
  const Tensor together = jit::vmap(one)(x, lists, src);
  for (int e = 0; e < 4; ++e) CHECK(near(doubles(together(e)), doubles(one(x(e), lists(e), src(e))), 1e-14));
  const auto along = [](Tensor t, Tensor i) { return take_along_axis(t, reshape(i, {6, 1}), 0); };
  const Tensor taken = jit::vmap(along)(x, lists);
  for (int e = 0; e < 4; ++e) CHECK(doubles(taken(e)) == doubles(along(x(e), lists(e))));
  const auto reduced = [](Tensor t, Tensor i, Tensor s) {
    return scatter_reduce(t, 0, expand(reshape(i, {6, 1}), {6, 3}), s, ScatterReduction::amax);
  };
  const Tensor most = jit::vmap(reduced)(x, lists, src);
  for (int e = 0; e < 4; ++e) CHECK(doubles(most(e)) == doubles(reduced(x(e), lists(e), src(e))));
}
