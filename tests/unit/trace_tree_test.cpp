// Functions that read values while they are traced: both sides of branches, loops, exact values, what is carried over
// the cuts, Variables, errors, bounds, threads. The oracle is the same function, untraced.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }

/// Calls `f` and `plain` three times with each of the arguments, so that first, checked and steady calls are compared.
template <class F, class G, class A>
void check_same(const F& f, const G& plain, const std::vector<A>& arguments) {
  for (int round = 0; round < 3; ++round)
    for (const A& argument : arguments) {
      std::vector<float> want = floats(plain(argument)), got = floats(f(argument));
      INFO("round " << round);
      REQUIRE(got.size() == want.size());
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(got[i] == Approx(want[i]));
    }
}

}  // namespace

TEST_CASE("trees: Scalars compare outside a trace") {
  Tensor x = vec({2});
  CHECK(bool(x.item() > 1));
  CHECK(!bool(item(x) < 1));
  CHECK(bool(item(x) == 2));
  CHECK(bool(2 == item(x)));
  CHECK(bool(item(x) != 3.5));
  CHECK(bool(item(x) >= Scalar(2)));
  CHECK(bool(3 > item(x)));
  CHECK(!bool(!(item(x) <= 2)));
  CHECK(bool((item(x) > 1) & (item(x) < 3)));
  CHECK(!bool((item(x) > 2) | (item(x) < 1)));
  CHECK(static_cast<int>(item(x)) == 2);
  CHECK(static_cast<float>(item(x)) == 2.f);
  CHECK(static_cast<std::int64_t>(Scalar(std::int64_t{1} << 60)) == std::int64_t{1} << 60);
  CHECK(item(copy_of(std::vector<std::int64_t>{7})).number() == 7);
  CHECK_THROWS_AS(item(vec({1, 2})), ShapeError);
  CHECK(item<float>(where(Tensor(item(x) > 1), vec({5}), vec({6}))) == 5.f);
}

TEST_CASE("trees: if and else, each compiled once") {
  int traces = 0;
  auto body = [&](Tensor x) {
    ++traces;
    Tensor y = x * 2;
    if (item(sum(x)) > 0) return Tensor(y + 1);
    return Tensor(y - 1);
  };
  auto f = jit::compile(body);
  check_same(f, body, std::vector<Tensor>{vec({1, 2}), vec({-1, -2}), vec({3, -1}), vec({-3, 1})});
  auto stats = f.stats();
  CHECK(stats.compiles == 1);
  CHECK(stats.graph_breaks == 1);
  CHECK(stats.segments == 3);
  CHECK(stats.retraces == 1);
  CHECK(stats.lazy_calls == 0);
  traces = 0;
  static_cast<void>(f(vec({5, 6})));
  static_cast<void>(f(vec({-5, -6})));
  CHECK(traces == 0);
}

TEST_CASE("trees: nested branches") {
  auto body = [](Tensor x) {
    Tensor y = exp(x * 0.1f);
    if (item(sum(x)) > 0) {
      Tensor z = y * y;
      if (item(amax(x)) > 5 && item(amin(x)) > -1) return Tensor(z + y);
      return Tensor(z - y);
    }
    if (item(mean(y)) < 0.5f) return Tensor(y * 10);
    return Tensor(y * 100);
  };
  auto f = jit::compile(body);
  check_same(f, body, std::vector<Tensor>{vec({1, 2}), vec({7, 0}), vec({7, -2}), vec({-1, -2}), vec({-30, -40})});
  CHECK(f.stats().graph_breaks == 4);
  CHECK(f.stats().segments == 9);
}

TEST_CASE("trees: loops of several lengths") {
  auto body = [](Tensor x) {
    Tensor total = zeros({});
    while (item(sum(abs(x))) > 1) {
      x = x * 0.5f;
      total = total + sum(x);
    }
    return Tensor(x + total);
  };
  auto f = jit::compile(body);
  // Longer after shorter, shorter after longer, again.
  check_same(
      f, body,
      std::vector<Tensor>{vec({3, 4}), vec({30, 40}), vec({0.1f, 0.2f}), vec({300, 1}), vec({1, 1}), vec({7, 0})});
  CHECK(f.stats().compiles == 1);
  auto before = f.stats();
  static_cast<void>(f(vec({60, 5})));
  static_cast<void>(f(vec({2, 3})));
  auto after = f.stats();
  CHECK(after.retraces == before.retraces);
  CHECK(after.segments == before.segments);
}

TEST_CASE("trees: the peak is that of the segment that holds most") {
  auto body = [](Tensor x) {
    Tensor y = matmul(exp(matmul(x, x)), x);  // holds the inner product
    if (item(sum(y)) > 0) y = y * 2;
    return y;
  };
  auto f = jit::compile(body);
  Tensor x = full({32, 32}, 0.01);
  f(x);
  CHECK(f.stats().segments == 2);
  CHECK(f.stats().peak_bytes >= 32 * 32 * 4);
  auto none = jit::compile([](Tensor v) { return Tensor(item<int>(cast(v, DType::i64)) > 0 ? v * 2 : v); });
  none(full({}, 1));
  CHECK(none.stats().peak_bytes < 1024);
}

TEST_CASE("trees: exact values guide shapes and indices") {
  auto body = [](Tensor x) {
    int n = item<int>(sum(cast(x > 0, DType::i64)));
    return Tensor(x(slice(0, n)) * static_cast<float>(n));
  };
  auto f = jit::compile(body);
  check_same(f, body, std::vector<Tensor>{vec({1, 2, -3, 4}), vec({1, -2, -3, -4}), vec({1, 2, 3, 4})});
  CHECK(f.stats().graph_breaks == 1);
  CHECK(f.stats().segments == 4);
  auto number = jit::compile([](Tensor x, Scalar s) { return Tensor(static_cast<int>(s) > 0 ? x * 2 : x * 3); });
  CHECK(floats(number(vec({1}), 1)) == floats(vec({2})));
  CHECK(floats(number(vec({1}), -1)) == floats(vec({3})));
  CHECK(floats(number(vec({1}), 1)) == floats(vec({2})));
  CHECK(number.stats().segments == 3);
}

TEST_CASE("trees: a value read twice is read once, and all of a bool read is an outcome") {
  auto body = [](Tensor x) {
    Predicate positive = item(sum(x)) > 0;
    Tensor y = positive ? Tensor(x + 1) : Tensor(x - 1);
    if (positive) y = y * 2;
    if (item<bool>(all(x > 0))) y = y * 3;
    return y;
  };
  auto f = jit::compile(body);
  check_same(f, body, std::vector<Tensor>{vec({1, 2}), vec({-1, 2}), vec({-1, -2})});
  CHECK(f.stats().graph_breaks == 3);
}

TEST_CASE("trees: what is returned may differ by path") {
  auto f = jit::compile([](Tensor x) {
    int steps = 0;
    while (item(amax(x)) > 1) {
      x = x / 2;
      ++steps;
    }
    return std::pair(x, steps);
  });
  for (int round = 0; round < 2; ++round) {
    CHECK(f(vec({1})).second == 0);
    CHECK(f(vec({2})).second == 1);
    CHECK(f(vec({100})).second == 7);
    CHECK(f(vec({3})).second == 2);
    CHECK(floats(f(vec({100})).first)[0] == Approx(100 / 128.0));
  }
  auto list = jit::compile([](Tensor x) {
    std::vector<Tensor> parts;
    while (item(sum(x)) > 1) {
      x = x / 2;
      parts.push_back(x);
    }
    return parts;
  });
  for (int round = 0; round < 2; ++round) {
    CHECK(list(vec({8})).size() == 3);
    CHECK(list(vec({0.5f})).empty());
    CHECK(floats(list(vec({8}))[1])[0] == 2);
  }
  auto number = jit::compile([](Tensor x) { return item(sum(x)) > 0 ? item(x(0)) * 2 : Scalar(7); });
  for (int round = 0; round < 2; ++round) {
    CHECK(number(vec({3})).number() == 6);
    CHECK(number(vec({-3})).number() == 7);
  }
}

TEST_CASE("trees: arguments, views and captured values over the cuts") {
  Tensor table = vec({10, 20, 30});
  auto body = [&](Tensor x) {
    Tensor t = transpose(x, 0, 1), row = x(0);
    if (item(sum(t)) > 0) return Tensor(matmul(t, x) + table);
    if (item(sum(row * table(slice(0, 3)))) < 0) return x;  // the argument itself
    return t;
  };
  auto f = jit::compile(body);
  Tensor a = reshape(cast(arange(9), DType::f32), {3, 3});
  check_same(f, body,
             std::vector<Tensor>{a, Tensor(a * -1), Tensor(a - 20), Tensor(transpose(a, 0, 1)),
                                 Tensor(0 - transpose(a, 0, 1))});
  // Lent memory: a result never shares it.
  std::vector<float> memory{-1, -2, -3, -4, -5, -6, -7, -8, -9};
  for (int round = 0; round < 3; ++round) {
    memory[0] = -1;
    Tensor back = f(borrow(memory, {3, 3}));
    memory[0] = 5;
    CHECK(floats(back)[0] == -1);
  }
}

TEST_CASE("trees: Variables are committed at the end, whatever the path") {
  Variable count(zeros({}), "count"), weight(vec({1, 2}), "weight");
  auto f = jit::compile([=](Tensor x) {
    count += 1;
    Tensor y = x * weight;
    if (item(sum(y)) > 10) {
      weight.set(weight * 0.5f);
      count += 100;
      if (item(sum(weight)) > 4) throw std::runtime_error("too heavy");
    }
    return Tensor(y + count);
  });
  double counted = 0;
  std::vector<float> w{1, 2};
  for (float scale : {1.f, 1.f, 10.f, 10.f, 1.f, 10.f, 1.f}) {
    Tensor got = f(vec({scale, scale}));
    bool is_large = scale * (w[0] + w[1]) > 10;
    counted += is_large ? 101 : 1;
    CHECK(floats(got)[0] == Approx(scale * w[0] + counted));
    if (is_large) {
      w[0] /= 2;
      w[1] /= 2;
    }
    CHECK(item<float>(count) == Approx(counted));
    CHECK(floats(weight)[1] == Approx(w[1]));
  }
  weight.set(vec({10, 20}));
  std::vector<float> before = floats(weight);
  CHECK_THROWS_AS(f(vec({1, 1})), std::runtime_error);
  CHECK(item<float>(count) == Approx(counted));
  CHECK(floats(weight) == before);
  weight.set(vec({1, 1}));
  CHECK(floats(f(vec({1, 1})))[0] == Approx(1 + counted + 1));
  // As arguments.
  auto g = jit::compile([](const Variable& v, Tensor x) {
    if (item(sum(v)) > 0) v -= x;
    else v.set(x);
    return sum(v);
  });
  Variable v(vec({3, 3}));
  for (float want : {4.f, 2.f, 0.f, 2.f, 0.f, 2.f, 0.f}) CHECK(item<float>(g(v, vec({1, 1}))) == want);
}

TEST_CASE("trees: a Variable met in one branch only") {
  Variable bias(vec({1}), "bias");
  auto f = jit::compile([=](Tensor x) { return item(sum(x)) > 0 ? Tensor(x + bias) : x; });
  CHECK(floats(f(vec({-1})))[0] == -1);
  CHECK(floats(f(vec({1})))[0] == 2);
  bias.set(vec({5}));
  CHECK(floats(f(vec({1})))[0] == 6);
  bias.set(vec({7}));
  CHECK(floats(f(vec({1})))[0] == 8);
}

TEST_CASE("trees: a captured value that changes on one path is found") {
  float captured = 2;
  auto f = jit::compile([&](Tensor x) { return item(sum(x)) > 0 ? Tensor(x * captured) : Tensor(x + 1); });
  CHECK(floats(f(vec({1})))[0] == 2);
  CHECK(floats(f(vec({-1})))[0] == 0);
  CHECK(floats(f(vec({-1})))[0] == 0);  // this path does not use it
  captured = 3;
  std::string text = message_of<TraceError>([&] { f(vec({1})); });
  CHECK(has(text, "captured value changed at mul [trace_tree_test.cpp:"));
  CHECK_THROWS_AS(f(vec({1})), TraceError);  // and it does not fall silent
  captured = 2;
  CHECK(floats(f(vec({1})))[0] == 2);
  bool flips = false;
  auto g = jit::compile([&](Tensor x) {
    Tensor y = flips ? Tensor(x * 2) : Tensor(x + 2);
    return item(sum(y)) > 0 ? y : x;
  });
  CHECK(floats(g(vec({1})))[0] == 3);
  flips = true;
  CHECK_THROWS_AS(g(vec({-10})), TraceError);  // an unseen branch: the prefix is compared
}

TEST_CASE("trees: the bound on segments") {
  auto body = [](Tensor x) {
    while (item(sum(x)) > 1) x = x - 1;
    return x;
  };
  auto f = jit::compile(body, {.max_breaks = 4});
  LogCapture log("graph_breaks");
  check_same(f, body, std::vector<Tensor>{vec({2}), vec({10}), vec({30}), vec({3})});
  CHECK(has(log.take(), "this call goes on lazily"));
  CHECK(f.stats().segments <= 4);
  CHECK(f.stats().lazy_calls > 3);
  auto g = jit::compile([](Tensor x) { return Tensor(x * item<float>(x)); }, {.max_values = 3});
  for (int round = 0; round < 2; ++round)
    for (float v : {1.f, 2.f, 3.f, 4.f, 5.f}) CHECK(floats(g(vec({v})))[0] == v * v);
  CHECK(g.stats().segments == 4);
  CHECK(g.stats().lazy_calls == 4);
}

TEST_CASE("trees: fullgraph makes a read an error that names the line and the fix") {
  auto f = jit::compile(
      [](Tensor x) {
        if (item(sum(x)) > 0) return Tensor(x * 2);
        return x;
      },
      {.fullgraph = true});
  const std::string line = std::to_string(__LINE__ - 4);
  std::string text = message_of<TraceError>([&] { f(vec({1})); });
  CHECK(has(text,
            "sinter::TraceError: Predicate: a value is read, which would cut the graph, and Options::fullgraph is set "
            "[trace_tree_test.cpp:" +
                line + "]"));
  CHECK(has(text, "where(condition, a, b)"));
  auto unequal = jit::compile([](Tensor x) { return item(x) != 0 ? Tensor(x * 2) : x; }, {.fullgraph = true});
  text = message_of<TraceError>([&] { unequal(full({}, 1)); });
  CHECK(has(text, "[trace_tree_test.cpp:" + std::to_string(__LINE__ - 2) + "]"));
  auto g = jit::compile([](Tensor x) { return Tensor(x * item<float>(x)); }, {.fullgraph = true});
  CHECK(has(message_of<TraceError>([&] { g(vec({1})); }), "sinter::TraceError: item: a value is read"));
  auto h = jit::compile([](Tensor x) { return Tensor(x * 2); }, {.fullgraph = true});
  CHECK(floats(h(vec({1})))[0] == 2);
}

TEST_CASE("trees: whole tensors are not read while tracing") {
  auto f = jit::compile([](Tensor x) { return Tensor(x * to_vector<float>(x)[0]); });
  CHECK(has(message_of<TraceError>([&] { f(vec({1})); }),
            "to_vector: a value is read while its function is traced [trace_tree_test.cpp:"));
}

TEST_CASE("trees: symbolic extents, and questions about them in a branch") {
  auto body = [](Tensor x) {
    if (item(sum(x)) > 0) {
      if (x.size(0) > 6) return Tensor(x * 10);
      return Tensor(x + static_cast<float>(static_cast<int>(x.size(0))));
    }
    return Tensor(x - 1);
  };
  auto f = jit::compile(body);
  std::vector<Tensor> arguments;
  for (int n : {3, 4, 5, 7, 9, 5, 12}) {
    arguments.push_back(ones({n}));
    arguments.push_back(Tensor(0 - ones({n})));
  }
  check_same(f, body, arguments);
  CHECK(f.stats().compiles == 2);  // static, then dynamic
  auto g = jit::compile(
      [](Tensor x, Tensor y) {
        Tensor z = x * 2;
        if (item(sum(z)) > 0) return Tensor(z + y);  // equal extents: known only in this branch
        return z;
      },
      {.dynamic = jit::Dynamic::always});
  CHECK(floats(g(ones({4}), ones({4}))).size() == 4);
  CHECK(floats(g(0 - ones({4}), ones({3}))).size() == 4);
  CHECK(floats(g(ones({5}), ones({5}))).size() == 5);
  CHECK_THROWS_AS(g(ones({5}), ones({3})), ShapeError);
  CHECK(floats(g(ones({6}), ones({6})))[5] == 3);
  CHECK(g.stats().compiles == 1);
}

TEST_CASE("trees: gradients beside and across cuts") {
  auto body = [](Tensor x) {
    Tensor y = x;
    if (item(sum(x)) > 0) y = jit::grad([](Tensor z) { return sum(z * z * z); })(x);
    return Tensor(y + 1);
  };
  auto f = jit::compile(body);
  check_same(f, body, std::vector<Tensor>{vec({1, 2}), vec({-1, -2})});
  // A branch inside the differentiated function: the gradient is that of the side taken.
  auto inside = [](Tensor x) {
    return jit::grad([](Tensor z) {
      Tensor loss = sum(z * z);
      if (item(loss) > 4) loss = loss * 10;
      return loss;
    })(x);
  };
  auto g = jit::compile(inside);
  for (int round = 0; round < 3; ++round) {
    CHECK(floats(g(vec({1, 1})))[0] == Approx(2));
    CHECK(floats(g(vec({2, 1})))[0] == Approx(40));
  }
  CHECK(g.stats().graph_breaks == 1);
  CHECK(floats(inside(vec({2, 1})))[0] == Approx(40));  // and untraced
}

TEST_CASE("trees: compiled functions inside, and results into given memory") {
  auto inner = jit::compile([](Tensor x) { return item(sum(x)) > 0 ? Tensor(x * 2) : Tensor(x * 3); });
  auto outer = jit::compile([&](Tensor x) { return Tensor(inner(x) + inner(x - 2)); });
  auto plain = [](Tensor x) {
    auto side = [](Tensor v) { return item(sum(v)) > 0 ? Tensor(v * 2) : Tensor(v * 3); };
    return Tensor(side(x) + side(x - 2));
  };
  check_same(outer, plain, std::vector<Tensor>{vec({1}), vec({3}), vec({-1})});
  std::vector<float> memory(2);
  for (float v : {1.f, -1.f, 1.f, -1.f}) {
    inner.into(borrow_mut(memory.data(), {2}))(vec({v, v}));
    CHECK(memory[1] == (v > 0 ? 2.f : -3.f));
  }
  std::vector<float> wrong(3);
  CHECK_THROWS_AS(inner.into(borrow_mut(wrong.data(), {3}))(vec({1, 1})), ShapeError);
}

TEST_CASE("trees: warm_up compiles a path and commits nothing; explain shows the tree") {
  Variable count(zeros({}));
  auto f = jit::compile([=](Tensor x) {
    count += 1;
    return item(sum(x)) > 0 ? Tensor(x * 2) : Tensor(x * 3);
  });
  f.warm_up(vec({1}));
  CHECK(item<float>(count) == 0);
  CHECK(f.stats().segments == 2);
  CHECK(floats(f(vec({1})))[0] == 2);
  CHECK(floats(f(vec({-1})))[0] == -3);
  CHECK(item<float>(count) == 2);
  std::string text = f.explain(vec({1})).text();
  CHECK(has(text, "trace tree:"));
  CHECK(has(text, "reads an outcome at trace_tree_test.cpp:"));
  CHECK(has(text, "true:"));
  CHECK(has(text, "false:"));
}

TEST_CASE("trees: threads take all branches at once") {
  auto body = [](Tensor x) {
    while (item(sum(x)) > 2) x = x * 0.5f;
    return x;
  };
  auto f = jit::compile(body);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        float v = static_cast<float>(1 << ((i * 5 + t) % 9));
        float want = v;
        while (want > 2) want *= 0.5f;
        if (floats(f(vec({v})))[0] != want) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(f.stats().compiles == 1);
  CHECK(f.stats().graph_breaks == 8);
}

TEST_CASE("trees: effects before a read run once, also where what they gave is used behind it") {
  int calls = 0;
  const auto counted = [&calls](const Tensor& x) { return ++calls, x * 2; };
  const auto given = [&](Tensor x) { return jit::callback(counted, jit::like(x), x); };
  const auto looped = [&](Tensor x) {
    return jit::fori_loop(
        0, 3, [&](Scalar, Tensor h) { return jit::callback([&calls](float) { ++calls; }, sum(h)), h * 2; }, x);
  };
  const auto check = [&](auto made, int wanted_calls, float factor) {
    const auto f = jit::compile([&](Tensor x) {
      Tensor y = made(x);
      x = item(sum(x)) > 0 ? Tensor(x + 1) : Tensor(x - 1);
      x = item(sum(x)) > 6 ? Tensor(x * 2) : Tensor(x * 3);
      return x + y;
    });
    for (float start : {1.f, -1.f, 3.f, 1.f, -2.f, 4.f}) {
      calls = 0;
      const float moved = start > 0 ? start + 1 : start - 1;
      CHECK(floats(f(vec({start, start}))).at(1) == moved * (2 * moved > 6 ? 2 : 3) + start * factor);
      CHECK(calls == wanted_calls);
    }
  };
  check(given, 1, 2);
  check(looped, 3, 8);
}
