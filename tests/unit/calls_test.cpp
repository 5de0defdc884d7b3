// What a call does with memory: results kept between calls, donated arguments, Variables updated in place, and what
// must never be overwritten.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <map>

using namespace sinter;

namespace {
const void* address(const Tensor& x) { return x.data<float>().data(); }
const void* address(const Variable& v) { return address(v.value()); }
std::vector<float> filled(std::size_t count, float value) { return std::vector<float>(count, value); }
}  // namespace

TEST_CASE("calls: a donated argument gives its memory to the result", "[calls]") {
  auto step = jit::compile([](Tensor u, Scalar a) { return u + a * u; });
  Tensor u = ones({32});
  eval(u);
  const void* before = address(u);
  u = step(std::move(u), 1.f);
  CHECK(address(u) == before);
  CHECK(to_vector<float>(u) == filled(32, 2));
  for (int i = 0; i < 5; ++i) u = step(std::move(u), 1.f);
  CHECK(address(u) == before);
  CHECK(to_vector<float>(u) == filled(32, 64));
  Tensor v = step(u + 0.f, 1.f);  // a temporary
  CHECK(to_vector<float>(v) == filled(32, 128));
  CHECK(to_vector<float>(u) == filled(32, 64));
}

TEST_CASE("calls: memory that somebody else sees is not taken over", "[calls]") {
  auto step = jit::compile([](Tensor u) { return u * 2; });
  Tensor u = ones({32});
  eval(u);
  SECTION("another handle") {
    Tensor other = u;
    Tensor y = step(std::move(u));
    CHECK(to_vector<float>(other) == filled(32, 1));
    CHECK(address(y) != address(other));
  }
  SECTION("a view") {
    Tensor part = u(slice(0, 4));
    eval(part);
    Tensor y = step(std::move(u));
    CHECK(to_vector<float>(part) == filled(4, 1));
  }
  SECTION("a pending statement") {
    Tensor later = u + 1;
    Tensor y = step(std::move(u));
    CHECK(to_vector<float>(later) == filled(32, 2));
  }
  SECTION("memory of others") {
    std::vector<float> mine(32, 3);
    Tensor lent = from_blob(std::shared_ptr<const void>(), mine.data(), {32}, DType::f32);
    Tensor y = step(std::move(lent));
    CHECK(mine == filled(32, 3));
    CHECK(to_vector<float>(y) == filled(32, 6));
  }
  SECTION("an lvalue") {
    Tensor y = step(u);
    CHECK(to_vector<float>(u) == filled(32, 1));
  }
  SECTION("the same handle twice") {
    auto add = jit::compile([](Tensor a, Tensor b) { return a(slice(0, 31)) + b(slice(1, 32)); });
    Tensor y = add(std::move(u), u);  // NOLINT: read before it is donated
    CHECK(to_vector<float>(y) == filled(31, 2));
    CHECK(to_vector<float>(u) == filled(32, 1));
  }
}

TEST_CASE("calls: a result that reads elsewhere than it writes gets memory of its own", "[calls]") {
  auto reverse = jit::compile([](Tensor u) { return roll(u, 1, 0) + u; });
  Tensor u = arange(8, {.dtype = DType::f32}), same = u + 0;
  eval({u, same});
  Tensor y = reverse(std::move(u));
  std::vector<float> x = to_vector<float>(same), expected(8);
  for (std::size_t i = 0; i < 8; ++i) expected[i] = x[(i + 7) % 8] + x[i];
  CHECK(to_vector<float>(y) == expected);
}

TEST_CASE("calls: after an exception a donated argument is as it was", "[calls]") {
  auto pick = jit::compile([](Tensor u, Tensor index) { return take(u * 2, index, 0) + u; });
  Tensor u = ones({4}), bad = copy_of(std::vector<std::int64_t>{0, 1, 2, 9}, {4});
  eval(u);
  CHECK_THROWS_AS(pick(std::move(u), bad), IndexError);
  CHECK(to_vector<float>(u) == filled(4, 1));
}

TEST_CASE("calls: structs and containers can be donated", "[calls]") {
  auto step = jit::compile([](std::vector<Tensor> v, std::map<std::string, Tensor> m) {
    for (Tensor& x : v) x = x + 1;
    for (auto& [key, x] : m) x = x * 2;
    return std::pair{v, m};
  });
  std::vector<Tensor> v{ones({16}), zeros({16})};
  std::map<std::string, Tensor> m{{"a", ones({8})}};
  for (const Tensor& x : {v[0], v[1], m["a"]}) eval(x);
  const void *first = address(v[0]), *second = address(v[1]), *third = address(m["a"]);
  auto [w, n] = step(std::move(v), std::move(m));
  CHECK(address(w[0]) == first);
  CHECK(address(w[1]) == second);
  CHECK(address(n["a"]) == third);
  CHECK(to_vector<float>(w[0]) == filled(16, 2));
  CHECK(to_vector<float>(n["a"]) == filled(8, 2));
}

TEST_CASE("calls: a cache that is written at a run-time place keeps its memory", "[calls]") {
  const Variable cache(zeros({2, 64, 8}));
  const Tensor row = ones({2, 1, 8});
  eval(cache);
  const auto check = [&](auto step) {
    step(row, 0);
    const void* before = address(cache);
    for (int i = 1; i < 6; ++i) {
      const Tensor seen = step(row, i);
      CHECK(address(cache) == before);
      CHECK(to_vector<float>(seen)[static_cast<std::size_t>(i)] == 16);
    }
    CHECK(item<float>(sum(cache)) == 6 * 16);
  };
  SECTION("dynamic_update_slice") {
    check(jit::compile([=](Tensor key, Scalar at) {
      cache = dynamic_update_slice(cache, key, {0, at, 0});
      return sum(cache, {0, 2});  // which reads what was written
    }));
  }
  SECTION("at") {
    check(jit::compile([=](Tensor key, Scalar at) {
      cache.at(all, at) = key(all, 0);
      return sum(cache, {0, 2});
    }));
  }
}

TEST_CASE("calls: several caches that are written at run-time places keep their memory", "[calls]") {
  const Variable keys(zeros({2, 64, 8})), values(zeros({2, 64, 8}));
  const Tensor key = ones({2, 1, 8}), value = full({2, 1, 8}, 2);
  eval(keys);
  eval(values);
  auto step = jit::compile([=](Tensor k, Tensor v, Scalar at) {
    keys = dynamic_update_slice(keys, k, {0, at, 0});
    values = dynamic_update_slice(values, v, {0, at, 0});
    return sum(dynamic_slice(keys, {0, at, 0}, {2, 1, 8}) * dynamic_slice(values, {0, at, 0}, {2, 1, 8}));
  });
  step(key, value, 0);
  const void *const keys_at = address(keys), *const values_at = address(values);
  for (int i = 1; i < 6; ++i) {
    CHECK(item<float>(step(key, value, i)) == 32);
    CHECK(address(keys) == keys_at);
    CHECK(address(values) == values_at);
  }
  CHECK(item<float>(sum(keys)) == 6 * 16);
  CHECK(item<float>(sum(values)) == 6 * 32);
}

TEST_CASE("calls: several caches that are assigned to at a place keep their memory, or all their values", "[calls]") {
  const Variable keys(zeros({2, 64, 8})), values(zeros({2, 64, 8})), lengths(zeros({64}));
  const Tensor key = ones({2, 8}), value = full({2, 8}, 2);
  for (const Variable& each : {keys, values, lengths}) eval(each);
  constexpr std::uint32_t first_line = __LINE__ + 2;
  auto step = jit::compile([=](Tensor k, Tensor v, Scalar at) {
    keys.at(all, at) = k;
    values.at(all, at) = v;
    lengths.at(at) += 1;
    return sum(keys(all, at) * values(all, at));
  });
  step(key, value, 0);
  const void *const keys_at = address(keys), *const values_at = address(values), *const lengths_at = address(lengths);
  for (int i = 1; i < 6; ++i) {
    CHECK(item<float>(step(key, value, i)) == 32);
    CHECK(address(keys) == keys_at);
    CHECK(address(values) == values_at);
    CHECK(address(lengths) == lengths_at);
  }
  CHECK(item<float>(step(key, value, -1)) == 32);  // counted from the end
  CHECK(item<float>(sum(keys)) == 7 * 16);
  CHECK(item<float>(sum(values)) == 7 * 32);
  CHECK(item<float>(sum(lengths)) == 7);
  const std::vector<float> before[] = {to_vector<float>(keys), to_vector<float>(values), to_vector<float>(lengths)};
  try {
    step(key * 3, value, 64);
    FAIL("an index out of range passed");
  } catch (const IndexError& e) {  // what the user wrote, not the step that looks first
    CHECK(e.op() == "scatter");
    CHECK(e.where().line >= first_line);  // of one of the two that ask for this index
    CHECK(e.where().line <= first_line + 1);
  }
  CHECK_THROWS_AS(step(key * 3, value, -65), IndexError);
  CHECK(to_vector<float>(keys) == before[0]);
  CHECK(to_vector<float>(values) == before[1]);
  CHECK(to_vector<float>(lengths) == before[2]);
  CHECK(item<float>(step(key, value, 6)) == 32);
  CHECK(address(keys) == keys_at);
}

TEST_CASE("calls: a cache beside a take that fails keeps its values, and the error names the take", "[calls]") {
  const Variable keys(zeros({64})), values(zeros({64}));
  const Tensor table = ones({4});
  for (const Variable& each : {keys, values}) eval(each);
  auto step = jit::compile([=](Tensor index, Scalar at) {
    keys.at(at) = 1;
    values.at(at) = 2;
    return take(table, index, 0);
  });
  const Tensor good = copy_of(std::vector<std::int64_t>{0, 3}, {2}),
               bad = copy_of(std::vector<std::int64_t>{0, 4}, {2});
  for (int i = 0; i < 3; ++i) CHECK(to_vector<float>(step(good, i)) == filled(2, 1));
  try {
    step(bad, 3);
    FAIL("an index out of range passed");
  } catch (const IndexError& e) { CHECK(e.op() == "take"); }
  CHECK(item<float>(sum(keys)) == 3);
  CHECK(item<float>(sum(values)) == 6);
}

TEST_CASE("calls: a donated argument that is written at a run-time place keeps its memory", "[calls]") {
  auto write = jit::compile([](Tensor u, Scalar k) {
    u.at(k) = k;
    return u;
  });
  Tensor u = zeros({64, 32});
  eval(u);
  const void* before = address(u);
  for (int i = 0; i < 5; ++i) {
    u = write(std::move(u), i);
    CHECK(address(u) == before);
  }
  CHECK(item<float>(sum(u)) == 10 * 32);
}

TEST_CASE("calls: a Variable is updated in its own memory", "[calls]") {
  Variable w(ones({64})), m(zeros({64}));
  eval(w);
  eval(m);
  auto step = jit::compile([=](Tensor g) {
    m = 0.5f * m + g;
    w -= 0.25f * m;
  });
  const void *w_before = address(w), *m_before = address(m);
  Tensor g = ones({64});
  for (int i = 0; i < 4; ++i) step(g);
  CHECK((address(w) == w_before || address(w) == m_before));  // one may take the other's
  CHECK((address(m) == m_before || address(m) == w_before));
  CHECK(address(m) != address(w));
  float expected_m = 0, expected_w = 1;
  for (int i = 0; i < 4; ++i) {
    expected_m = 0.5f * expected_m + 1;
    expected_w -= 0.25f * expected_m;
  }
  CHECK(to_vector<float>(w) == filled(64, expected_w));
  CHECK(to_vector<float>(m) == filled(64, expected_m));
}

TEST_CASE("calls: what the library itself runs between kernels leaves Variables their memory", "[calls]") {
  Variable w(ones({4, 8, 8})), order(ones({16}));
  eval(w);
  eval(order);
  const Tensor x = reshape(arange(4 * 8 * 8), {4, 8, 8}) * 0.01f;
  const auto update = [&](const Tensor& input) {
    const Tensor y = scaled_dot_product_attention(input * w, input, input);
    w -= 0.25f * y;
    order = sort(order + reshape(input(0, slice(0, 2)), {16}), 0).values * 0.5f;
    order = jit::cond(
        sum(input) > 0, [](const Tensor& o) { return Tensor(sort(o, 0).values + 1); },
        [](const Tensor& o) { return Tensor(o - 1); }, order.value());
  };
  auto step = jit::compile(update);
  Variable expected_w(w.value() + 0), expected_order(order.value() + 0);
  eval(expected_w);
  eval(expected_order);
  step(x);
  const void* before = address(w);
  for (int i = 0; i < 3; ++i) {
    step(x);
    CHECK(address(w) == before);
  }
  const Tensor after_w = w.value() + 0, after_order = order.value() + 0;
  eval({after_w, after_order});
  w = expected_w.value();
  order = expected_order.value();
  for (int i = 0; i < 4; ++i) update(x);
  CHECK(to_vector<float>(after_w) == to_vector<float>(w));
  CHECK(to_vector<float>(after_order) == to_vector<float>(order));
}

TEST_CASE("calls: what reads a Variable does not wait for a while_loop of a call that updates it", "[calls]") {
  Variable w(ones({64}));
  eval(w);
  auto step = jit::compile([&](Tensor x) {
    const Tensor r = jit::while_loop([](const Tensor& c) { return sum(c) < 1000; },
                                     [](const Tensor& c) { return Tensor(c * 2); }, x);
    w += r;
  });
  step(ones({64}));
  for (int i = 0; i < 3; ++i) {
    const void* const before = address(w);
    step(ones({64}));
    CHECK(address(w) != before);  // the new value is elsewhere, and the old one may be read until it is there
  }
  CHECK(to_vector<float>(w) == std::vector<float>(64, 65));
}

TEST_CASE("calls: a function of the user may read Variables that its call assigns", "[calls]") {
  Variable w(ones({64}));
  eval(w);
  float seen = 0;
  auto step = jit::compile([&](Tensor x) {
    jit::callback([&](const Tensor&) { seen = item<float>(w(0)); }, x);
    w += x;
  });
  for (int i = 0; i < 3; ++i) {
    step(ones({64}));
    CHECK(seen == static_cast<float>(i + 1));  // values are assigned at the end of the call
  }
}

TEST_CASE("calls: an optimiser's moments and weights stay where they are, beside a gradient that is kept", "[calls]") {
  constexpr int rows = 40, columns = 48, sums = 32;
  Variable w(ones({rows, columns})), m(zeros({rows, columns})), v(zeros({rows, columns})), g(zeros({rows, columns}));
  eval(w);
  eval(m);
  eval(v);
  const auto update = [&](const Tensor& x, const Tensor& y) {
    g = matmul(transpose(x, 0, 1), y);
    m = 0.9f * m + 0.1f * g;
    v = 0.99f * v + 0.01f * square(g);
    w = w * 0.99f - 0.01f * m / (sqrt(v) + 1e-3f);
  };
  auto step = jit::compile(update);
  const Tensor x = sin(reshape(arange(sums * rows), {sums, rows}) * 0.1f);
  const Tensor y = cos(reshape(arange(sums * columns), {sums, columns}) * 0.2f);
  eval({x, y});
  step(x, y);
  const void *at_w = address(w), *at_m = address(m), *at_v = address(v);
  for (int i = 0; i < 3; ++i) {
    step(x, y);
    CHECK(address(w) == at_w);
    CHECK(address(m) == at_m);
    CHECK(address(v) == at_v);
  }
  const std::vector<float> after = to_vector<float>(w);
  w = ones({rows, columns});
  m = zeros({rows, columns});
  v = zeros({rows, columns});
  for (int i = 0; i < 4; ++i) update(x, y);
  const std::vector<float> expected = to_vector<float>(w);
  for (std::size_t i = 0; i < after.size(); ++i) CHECK(std::abs(after[i] - expected[i]) < 1e-5f);
}

TEST_CASE("calls: a Variable's value that somebody holds is left alone", "[calls]") {
  Variable w(ones({64}));
  auto step = jit::compile([](const Variable& v) {
    v += 1;
    return v * 10;
  });
  step(w);
  Tensor held = w.value(), part = w(slice(0, 3));
  Tensor y = step(w);
  CHECK(to_vector<float>(held) == filled(64, 2));
  CHECK(to_vector<float>(part) == filled(3, 2));
  CHECK(to_vector<float>(w) == filled(64, 3));
  CHECK(to_vector<float>(y) == filled(64, 30));
  Variable twin(w.value());  // another Variable with the same value
  step(w);
  CHECK(to_vector<float>(twin) == filled(64, 3));
  CHECK(to_vector<float>(w) == filled(64, 4));
}

TEST_CASE("calls: a failing step leaves Variables as they were", "[calls]") {
  Variable w(ones({4}));
  auto step = jit::compile([=](Tensor index) {
    w += 1;
    return take(w.value(), index, 0);
  });
  Tensor good = copy_of(std::vector<std::int64_t>{0, 1}, {2}), bad = copy_of(std::vector<std::int64_t>{0, 7}, {2});
  step(good);
  CHECK_THROWS_AS(step(bad), IndexError);
  CHECK(to_vector<float>(w) == filled(4, 2));
  step(good);
  CHECK(to_vector<float>(w) == filled(4, 3));
}

TEST_CASE("calls: reduce_overhead keeps results' memory and never overwrites a held one", "[calls]") {
  auto f = jit::compile([](Tensor x) { return std::pair{x + 1, x * 2}; }, {.mode = jit::Mode::reduce_overhead});
  Tensor x = zeros({100});
  eval(x);
  const void *first, *second;
  {
    auto [a, b] = f(x);
    first = address(a);
    second = address(b);
  }
  {
    auto [a, b] = f(x);
    CHECK(address(a) == first);
    CHECK(address(b) == second);
  }
  std::vector<Tensor> held;
  for (int i = 0; i < 10; ++i) held.push_back(f(full({100}, static_cast<float>(i))).first);
  for (int i = 0; i < 10; ++i)
    CHECK(to_vector<float>(held[static_cast<std::size_t>(i)]) == filled(100, static_cast<float>(i) + 1));
  held.clear();
  Tensor part, later;
  {
    auto [a, b] = f(x);
    part = a(slice(0, 5));
    later = b + 7;  // recorded, not run
    eval(part);
  }
  for (int i = 0; i < 10; ++i) f(full({100}, 50.f));
  CHECK(to_vector<float>(part) == filled(5, 1));
  CHECK(to_vector<float>(later) == filled(100, 7));
}

TEST_CASE("calls: reduce_overhead with changing sizes", "[calls]") {
  auto f = jit::compile([](Tensor x) { return x + 1; },
                        {.mode = jit::Mode::reduce_overhead, .dynamic = jit::Dynamic::always});
  for (int round = 0; round < 3; ++round)
    for (int n : {4, 100, 7}) {
      Tensor y = f(full({n}, static_cast<float>(n)));
      CHECK(to_vector<float>(y) == filled(static_cast<std::size_t>(n), static_cast<float>(n) + 1));
    }
  CHECK(f.stats().compiles == 1);
}

TEST_CASE("calls: a call of any size", "[calls]") {
  constexpr std::size_t count = 60;
  std::vector<Variable> w;
  std::vector<Tensor> g;
  for (std::size_t i = 0; i < count; ++i) w.emplace_back(full({3}, static_cast<float>(i))), g.push_back(ones({3}));
  auto step = jit::compile([](const std::vector<Variable>& v, std::vector<Tensor> d, Scalar rate) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] -= rate * d[i];
  });
  for (int i = 0; i < 3; ++i) step(w, g, 1.f);
  for (std::size_t i = 0; i < count; ++i) CHECK(to_vector<float>(w[i]) == filled(3, static_cast<float>(i) - 3));
}

TEST_CASE("calls: places must not overlap what the function captured", "[calls]") {
  std::vector<float> mine(16, 1.f);
  Variable w(from_blob(std::shared_ptr<const void>(), mine.data(), {16}, DType::f32));
  Tensor constant = from_blob(std::shared_ptr<const void>(), mine.data(), {16}, DType::f32);
  Tensor x = ones({16});
  auto reads_variable = jit::compile([=](Tensor a) { return a + w; });
  auto reads_constant = jit::compile([=](Tensor a) { return a + constant; });
  CHECK_THROWS_AS(reads_variable.into(borrow_mut(mine.data(), {16}))(x), UserError);
  CHECK_THROWS_AS(reads_constant.into(borrow_mut(mine.data(), {16}))(x), UserError);
  std::vector<float> other(16);
  reads_variable.into(borrow_mut(other.data(), {16}))(x);
  CHECK(other == filled(16, 2));
}

TEST_CASE("calls: contradictory options are refused where compile() stands", "[calls]") {
  auto body = [](Tensor x) { return x + 1; };
  const auto contradicts = [&] { jit::compile(body, {.mode = jit::Mode::reduce_overhead, .backend = "noop"}); };
  const std::string here = "calls_test.cpp:" + std::to_string(__LINE__ - 1);
  CHECK_THROWS_WITH(contradicts(), Catch::Contains("reduce_overhead contradicts") && Catch::Contains(here));
  CHECK_THROWS_AS(jit::compile(body, {.mode = static_cast<jit::Mode>(7)}), UserError);
  CHECK_THROWS_AS(jit::compile(body, {.dynamic = static_cast<jit::Dynamic>(9)}), UserError);
  CHECK_NOTHROW(jit::compile(body, {.mode = jit::Mode::reduce_overhead, .backend = "reference"}));
}
