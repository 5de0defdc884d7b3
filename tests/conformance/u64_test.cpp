// u64 is computed on the bits of i64: whatever depends on its sign is held here against C++'s std::uint64_t, on numbers
// around 2^63 and at both ends, on every back end.
#include "../checks.hpp"
#include "op_table.hpp"

#include <Eigen/Core>

#include <sinter/graphs.hpp>

#include <bit>
#include <random>
#include <sstream>

using namespace sinter_test;
using Word = std::uint64_t;
using Words = std::vector<Word>;

namespace {

constexpr Word top = Word{1} << 63, most = ~Word{0};

/// Numbers at the edges, and some of all sizes.
Words numbers() {
  Words list{0,           1,           2,
             3,           7,           63,
             64,          1000,        1 << 24,
             top - 1,     top,         top + 1,
             most - 1,    most,        top + 1024,
             top + 1025,  top / 2,     top + 3,
             0xFFFFFFFF,  1ull << 32,  (1ull << 53) + 1,
             most - 1023, most - 1024, 3 * (top / 2)};
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) list.push_back(random() >> (random() % 64));
  return list;
}

/// All pairs, in two rows.
std::pair<Words, Words> pairs() {
  std::pair<Words, Words> both;
  for (const Word a : numbers())
    for (const Word b : numbers()) {
      both.first.push_back(a);
      both.second.push_back(b);
    }
  return both;
}

Word power(Word base, Word exponent) {
  Word result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

template <class T, class F>
void check_binary(const char* what, const Function& run, F&& wanted) {
  const auto [a, b] = pairs();
  std::vector<T> want;
  for (std::size_t i = 0; i < a.size(); ++i) want.push_back(static_cast<T>(wanted(a[i], b[i])));
  const Inputs in{copy_of(a), copy_of(b)};
  for (const Mode& mode : modes()) {
    INFO(what << ", " << mode.name);
    const Tensor got = run_in(mode, run, in);
    CHECK(got.dtype() == dtype_of<T>());
    CHECK(to_vector<T>(got) == want);
  }
}

template <class T, class F>
void check_unary(const char* what, const Function& run, F&& wanted) {
  const Words x = numbers();
  std::vector<T> want;
  for (const Word word : x) want.push_back(static_cast<T>(wanted(word)));
  // In a row, and every second element of two columns.
  Words spread;
  for (const Word word : x) spread.insert(spread.end(), {word, most - word});
  const Tensor strided = copy_of(spread, {static_cast<std::int64_t>(x.size()), 2})(all, 0);
  for (const Mode& mode : modes())
    for (const Tensor& given : {copy_of(x), strided}) {
      INFO(what << ", " << mode.name);
      CHECK(to_vector<T>(run_in(mode, run, {given})) == want);
    }
}

}  // namespace

TEST_CASE("u64: arithmetic wraps, and everything else is unsigned", "[u64]") {
  check_binary<Word>(
      "add", [](const Inputs& in) { return Tensor(in[0] + in[1]); }, [](Word a, Word b) { return a + b; });
  check_binary<Word>(
      "sub", [](const Inputs& in) { return Tensor(in[0] - in[1]); }, [](Word a, Word b) { return a - b; });
  check_binary<Word>(
      "mul", [](const Inputs& in) { return Tensor(in[0] * in[1]); }, [](Word a, Word b) { return a * b; });
  check_binary<Word>(
      "floor_divide", [](const Inputs& in) { return Tensor(floor_divide(in[0], in[1])); },
      [](Word a, Word b) { return b == 0 ? 0 : a / b; });
  check_binary<Word>(
      "rem", [](const Inputs& in) { return Tensor(in[0] % in[1]); }, [](Word a, Word b) { return b == 0 ? 0 : a % b; });
  check_binary<Word>(
      "maximum", [](const Inputs& in) { return Tensor(maximum(in[0], in[1])); },
      [](Word a, Word b) { return std::max(a, b); });
  check_binary<Word>(
      "minimum", [](const Inputs& in) { return Tensor(minimum(in[0], in[1])); },
      [](Word a, Word b) { return std::min(a, b); });
  check_binary<Word>("pow", [](const Inputs& in) { return Tensor(pow(in[0], in[1])); }, power);
  check_binary<Word>(
      "left_shift", [](const Inputs& in) { return Tensor(bitwise_left_shift(in[0], in[1])); },
      [](Word a, Word b) { return b > 63 ? 0 : a << b; });
  check_binary<Word>(
      "right_shift", [](const Inputs& in) { return Tensor(bitwise_right_shift(in[0], in[1])); },
      [](Word a, Word b) { return b > 63 ? 0 : a >> b; });
  check_binary<bool>(
      "lt", [](const Inputs& in) { return Tensor(in[0] < in[1]); }, [](Word a, Word b) { return a < b; });
  check_binary<bool>(
      "ge", [](const Inputs& in) { return Tensor(in[0] >= in[1]); }, [](Word a, Word b) { return a >= b; });
  check_binary<bool>(
      "eq", [](const Inputs& in) { return Tensor(in[0] == in[1]); }, [](Word a, Word b) { return a == b; });
  check_binary<float>(
      "div", [](const Inputs& in) { return Tensor(in[0] / maximum(in[1], 1)); },
      [](Word a, Word b) { return static_cast<float>(a) / static_cast<float>(std::max<Word>(b, 1)); });
}

TEST_CASE("u64: of one operand", "[u64]") {
  check_unary<Word>("neg", [](const Inputs& in) { return Tensor(-in[0]); }, [](Word a) { return 0 - a; });
  check_unary<Word>("not", [](const Inputs& in) { return Tensor(bitwise_not(in[0])); }, [](Word a) { return ~a; });
  check_unary<Word>("abs", [](const Inputs& in) { return Tensor(abs(in[0])); }, [](Word a) { return a; });
  check_unary<Word>("sign", [](const Inputs& in) { return Tensor(sign(in[0])); }, [](Word a) { return a != 0; });
  check_unary<Word>(
      "shift", [](const Inputs& in) { return Tensor(bitwise_right_shift(in[0], 1)); }, [](Word a) { return a >> 1; });
  check_unary<Word>(
      "clamp", [](const Inputs& in) { return Tensor(clamp(in[0], 5, 1000)); },
      [](Word a) { return std::clamp<Word>(a, 5, 1000); });
  check_unary<bool>("signbit", [](const Inputs& in) { return Tensor(signbit(in[0])); }, [](Word) { return false; });
  check_unary<Word>(
      "popcount", [](const Inputs& in) { return Tensor(popcount(in[0])); }, [](Word a) { return std::popcount(a); });
}

TEST_CASE("u64: conversions", "[u64]") {
  check_unary<double>(
      "f64", [](const Inputs& in) { return Tensor(cast(in[0], DType::f64)); },
      [](Word a) { return static_cast<double>(a); });
  check_unary<float>(
      "f32", [](const Inputs& in) { return Tensor(cast(in[0], DType::f32)); },
      [](Word a) { return static_cast<float>(a); });
  check_unary<bool>(
      "bool", [](const Inputs& in) { return Tensor(cast(in[0], DType::bool_)); }, [](Word a) { return a != 0; });
  check_unary<std::int64_t>(
      "i64", [](const Inputs& in) { return Tensor(cast(in[0], DType::i64)); }, [](Word a) { return a; });
  check_unary<std::int32_t>(
      "i32", [](const Inputs& in) { return Tensor(cast(in[0], DType::i32)); }, [](Word a) { return a; });
  check_unary<std::uint32_t>(
      "u32", [](const Inputs& in) { return Tensor(cast(in[0], DType::u32)); }, [](Word a) { return a; });
  check_unary<std::uint8_t>(
      "u8", [](const Inputs& in) { return Tensor(cast(in[0], DType::u8)); }, [](Word a) { return a; });
  check_unary<std::int64_t>(
      "bits", [](const Inputs& in) { return Tensor(bitcast(in[0], DType::i64)); }, [](Word a) { return a; });
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto to = [&](const Tensor& x) {
      return to_vector<Word>(run_in(mode, [](const Inputs& in) { return Tensor(cast(in[0], DType::u64)); }, {x}));
    };
    constexpr double infinite = std::numeric_limits<double>::infinity();
    CHECK(to(tensor({-1.0, -0.5, 0.0, 0.9, 1.5, 0x1p53, 0x1p63, 0x1.8p63, 0x1.fffffffffffffp63, 0x1p64, 1e30, infinite,
                     -infinite, std::nan("")})) ==
          Words{0, 0, 0, 0, 1, Word{1} << 53, top, top + top / 2, most - 2047, most, most, most, 0, 0});
    CHECK(to(tensor({-1.0f, 0x1p63f, 0x1.fffffep63f, 0x1p64f})) == Words{0, top, 0xFFFFFF0000000000, most});
    CHECK(to(tensor<std::int64_t>({-1, 5, std::numeric_limits<std::int64_t>::min()})) == Words{most, 5, top});
    CHECK(to(tensor<std::int8_t>({-1, 127})) == Words{most, 127});
    CHECK(to(tensor<std::uint32_t>({0xFFFFFFFFu})) == Words{0xFFFFFFFF});
    CHECK(to(tensor<bool>({true, false})) == Words{1, 0});
    CHECK(to(cast(tensor({65504.f, -3.f}), DType::f16)) == Words{65504, 0});
    const Tensor half =
        run_in(mode, [](const Inputs& in) { return Tensor(cast(in[0], DType::bf16)); }, {copy_of(Words{most, 3})});
    CHECK(to_vector<double>(half) == std::vector<double>{0x1p64, 3});
  }
}

TEST_CASE("u64: reductions, scans, positions, orders, places", "[u64]") {
  const Words x = numbers();
  const auto count = static_cast<std::int64_t>(x.size());
  Word sum = 0, product = 1;
  for (const Word word : x) {
    sum += word;
    product *= word | 1;
  }
  const auto last = std::max_element(x.begin(), x.end()) - x.begin();
  Words ascending = x;
  std::sort(ascending.begin(), ascending.end());
  Words running = x;
  for (std::size_t i = 1; i < running.size(); ++i) running[i] = std::max(running[i - 1], running[i]);
  const Tensor given = copy_of(x), index = tensor<std::int64_t>({0, 1, 0, 1});
  const Tensor base = copy_of(Words{top, 5, 7}), values = copy_of(Words{1, most, most, 2});
  const auto check = [&](const char* what, const Function& run, const Words& want) {
    for (const Mode& mode : modes()) {
      INFO(what << ", " << mode.name);
      const Tensor got = run_in(mode, run, {given, index, base, values});
      CHECK(got.dtype() == DType::u64);
      CHECK(to_vector<Word>(got) == want);
    }
  };
  check("sum", [](const Inputs& in) { return Tensor(sinter::sum(in[0])); }, {sum});
  check("prod", [](const Inputs& in) { return Tensor(prod(in[0] | 1)); }, {product});
  check("amax", [](const Inputs& in) { return Tensor(amax(in[0])); }, {most});
  check("amin", [](const Inputs& in) { return Tensor(amin(in[0] + 1)); }, {0});
  check(
      "columns", [count](const Inputs& in) { return Tensor(amax(in[0].reshape({count / 2, 2}), 0)); },
      [&] {
        Words of(2, 0);
        for (std::size_t i = 0; i < x.size(); ++i) of[i % 2] = std::max(of[i % 2], x[i]);
        return of;
      }());
  check("cummax", [](const Inputs& in) { return Tensor(cummax(in[0], 0)); }, running);
  check("sort", [](const Inputs& in) { return Tensor(sort(in[0]).values); }, ascending);
  check("take", [](const Inputs& in) { return Tensor(index_select(in[2], 0, in[1])); }, {top, 5, top, 5});
  check("scatter_add", [](const Inputs& in) { return Tensor(scatter_add(in[2], 0, in[1], in[3])); }, {top, 6, 7});
  check("scatter, amax",
        [](const Inputs& in) { return scatter_reduce(in[2], 0, in[1], in[3], ScatterReduction::amax); },
        {most, most, 7});
  check("scatter, prod",
        [](const Inputs& in) { return scatter_reduce(in[2], 0, in[1], in[3], ScatterReduction::prod); },
        {top * most, Word{5} * (most * 2), 7});
  check("index_put",
        [](const Inputs& in) { return index_put(in[2], {Tensor(in[1](slice(0, 2)))}, in[3](slice(0, 2))); },
        {1, most, 7});
  check("places in u64", [](const Inputs& in) { return scatter_add(in[2], 0, Tensor(cast(in[1], DType::u64)), in[3]); },
        {top, 6, 7});
  check("values from f64",
        [](const Inputs& in) {
          return scatter_add(in[2], 0, in[1], Tensor(cast(cast(in[3] / 2, DType::f64), DType::u64)));
        },
        {0, top + 6, 7});
  const ScatterReduceOptions without_self{.include_self = false};
  check("scatter, amin",
        [&](const Inputs& in) { return scatter_reduce(in[2], 0, in[1], in[3], ScatterReduction::amin, without_self); },
        {1, 2, 7});
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const Tensor place = run_in(mode, [](const Inputs& in) { return Tensor(argmax(in[0])); }, {given});
    CHECK(item<std::int64_t>(place) == last);
  }
}

TEST_CASE("u64: numbers that are known when a function is compiled", "[u64]") {
  const auto folded = [](auto f) { return jit::compile([f](Tensor) { return f(); })(zeros({1})); };
  const auto large = [] { return full({2}, 0x1.8p63, {.dtype = DType::u64}); };
  CHECK(to_vector<Word>(folded(large)) == Words{3 * (top / 2), 3 * (top / 2)});
  CHECK(to_vector<double>(folded([&] { return Tensor(cast(large(), DType::f64)); }))[0] == 0x1.8p63);
  CHECK(to_vector<bool>(folded([&] { return Tensor(large() > 1); }))[0]);
  CHECK(to_vector<Word>(folded([&] { return Tensor(floor_divide(large(), 3)); }))[0] == top / 2);
  CHECK(to_vector<Word>(folded([&] { return Tensor(amax(large())); }))[0] == 3 * (top / 2));
  CHECK(to_vector<Word>(folded([&] { return Tensor(cast(full({1}, -3.5, {.dtype = DType::f64}), DType::u64)); }))[0] ==
        0);
  CHECK(has(message_of<UserError>([] { full({1}, -1, {.dtype = DType::u64}); }), "the value -1 does not fit u64"));
  CHECK(has(message_of<UserError>([] { full({1}, 0x1p64, {.dtype = DType::u64}); }), "does not fit u64"));
  // A cast to i64 and back keeps the bits, one to f64 and back does not.
  const auto round_trip = jit::compile([](Tensor x) { return Tensor(cast(cast(x, DType::i64), DType::u64)); });
  CHECK(to_vector<Word>(round_trip(copy_of(Words{most, 1}))) == Words{most, 1});
}

TEST_CASE("u64: promotion", "[u64]") {
  const Tensor x = copy_of(Words{most, 2});
  for (const DType narrower : {DType::bool_, DType::u8, DType::u16, DType::u32})
    CHECK(Tensor(x + ones({2}, {.dtype = narrower})).dtype() == DType::u64);
  CHECK(Tensor(x + ones({2})).dtype() == DType::f32);
  CHECK(Tensor(x * 2).dtype() == DType::u64);
  CHECK(Tensor(x * 0.5).dtype() == DType::f32);
  CHECK(Tensor(x + Tensor(tensor<std::int64_t>({3})(0))).dtype() == DType::u64);  // rank 0 does not widen
  CHECK(promote(DType::u64, DType::c64) == DType::c64);
  for (const DType other : {DType::i8, DType::i16, DType::i32, DType::i64}) {
    CHECK(!can_promote(DType::u64, other));
    const std::string here = "[u64_test.cpp:" + std::to_string(__LINE__ + 1) + "]";
    const std::string text = message_of<DTypeError>([&] { Tensor y = x + ones({2}, {.dtype = other}); });
    CHECK(has(text, "add: u64 with " + std::string(name(other)) + " has no common dtype"));
    CHECK(has(text, here));
    CHECK(has(text, "cast(x, DType::u64)"));
  }
  CHECK(has(message_of<DTypeError>([&] { concat({x, tensor<std::int64_t>({1})}, 0); }),
            "concat: u64 with i64 has no common dtype"));
}

TEST_CASE("u64: in and out of the host", "[u64]") {
  const std::vector<std::size_t> sizes{1, most};
  const Tensor x = copy_of(sizes);
  CHECK(x.dtype() == DType::u64);
  std::ostringstream text;
  text << x;
  CHECK(has(text.str(), "[                   1, 18446744073709551615]"));
  CHECK(item<std::size_t>(x(1)) == most);
  CHECK(item<double>(x(1)) == 0x1p64);
  CHECK(item<unsigned long long>(x(1)) == most);
  CHECK(to_vector<std::uint8_t>(x) == std::vector<std::uint8_t>{1, 255});
  Eigen::Array<Word, 2, 2> matrix;
  matrix << 1, 2, 3, most;
  CHECK(to_vector<Word>(copy_of(matrix)) == Words{1, 2, 3, most});
  CHECK(to_vector<Word>(zeros({0}, {.dtype = DType::u64})).empty());
  const Graph graph = parse_graph("graph(%x: u64[2]) { %c: u64[2] = constant {data=[-1, 7]}; return add(%x, %c) }");
  CHECK(structurally_equal(parse_graph(graph.text()), graph));
}

TEST_CASE("u64: common divisors and multiples, with numbers of either sign", "[u64]") {
  const Tensor a = copy_of(Words{6 * (top / 4), most, 0, 12}), b = copy_of(Words{top, 15, most, 18});
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto run = [&](const Function& f) { return to_vector<Word>(run_in(mode, f, {a, b})); };
    CHECK(run([](const Inputs& in) { return Tensor(gcd(in[0], in[1])); }) == Words{top / 2, 15, most, 6});
    CHECK(run([](const Inputs& in) { return Tensor(lcm(in[0], in[1])); }) == Words{3 * top, most, 0, 36});
    CHECK(run([](const Inputs& in) { return Tensor(gcd(in[0], -6)); }) == Words{6, 3, 6, 6});
    CHECK(run([](const Inputs& in) { return Tensor(lcm(-1, in[0])); }) == Words{6 * (top / 4), most, 0, 12});
  }
  CHECK(has(message_of<DTypeError>([&] { gcd(a, tensor<std::int64_t>({1})); }), "gcd: u64 with i64"));
  const Tensor minus_four = sum(tensor<std::int64_t>({-4}));
  CHECK(to_vector<Word>(gcd(tensor<std::uint64_t>({6, 10}), minus_four)) == Words{2, 2});
  CHECK(to_vector<Word>(lcm(minus_four, tensor<std::uint64_t>({6, 10}))) == Words{12, 20});
  CHECK(to_vector<std::int64_t>(gcd(tensor<std::int64_t>({-12}), 18)) == std::vector<std::int64_t>{6});
}

TEST_CASE("u64: Scalars hold i64, and what does not fit is an error", "[u64]") {
  const Tensor large = copy_of(Words{most});
  CHECK(item(copy_of(Words{top - 1})).number() == 0x1p63);
  const std::string text = message_of<UserError>([&] { static_cast<void>(item(large)); });
  CHECK(has(text, "item: 18446744073709551615 does not fit i64"));
  CHECK(has(text, "item<std::uint64_t>(x)"));
  const auto traced = jit::compile([](Tensor x) { return Tensor(x * item(x(0))); });
  CHECK(has(message_of<DTypeError>([&] { traced(large); }), "item: x is u64 in a trace"));
  CHECK(has(message_of<UserError>([&] { Tensor y = large + most; }), "tensor<std::uint64_t>({...})"));
}

TEST_CASE("u64: starts of slices, and numbers beside it", "[u64]") {
  const Tensor x = tensor({0.f, 1.f, 2.f, 3.f});
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    for (const auto& [start, first] : {std::pair<Word, float>{1, 1}, {most, 2}, {top, 2}}) {
      const Function part = [](const Inputs& in) { return dynamic_slice(in[0], {in[1]}, Shape{2}); };
      CHECK(to_vector<float>(run_in(mode, part, {x, Tensor(copy_of(Words{start})(0))}))[0] == first);
    }
  }
  const Tensor words = copy_of(Words{most, 5});
  CHECK(to_vector<bool>(isin(words, 5)) == std::vector<bool>{false, true});
  CHECK(to_vector<Word>(kron(words, 2)) == Words{most - 1, 10});
  const Tensor signed_words = tensor<std::int64_t>({1});
  CHECK(has(message_of<DTypeError>([&] { isin(words, signed_words); }), "isin: u64 with i64"));
  CHECK(has(message_of<DTypeError>([&] { searchsorted(words, signed_words); }), "searchsorted: u64 with i64"));
  CHECK(has(message_of<DTypeError>([&] { block_diag({words, signed_words}); }), "block_diag: u64 with i64"));
}
