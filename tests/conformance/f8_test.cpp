// f8e4m3 and f8e5m2: conversions are PyTorch's bit for bit (f8_table.inc), on every back end; elements are moved and
// cast, and whatever would compute with them says to cast.
#include "../checks.hpp"
#include "op_table.hpp"

#include <sinter/graphs.hpp>

#include <bit>
#include <sstream>

using namespace sinter_test;

namespace {
#include "f8_table.inc"

struct Kind {
  DType dtype;
  const std::uint32_t *least, *value;
  std::uint8_t (*bits_of)(float);
  float (*value_of)(std::uint8_t);
};
constexpr Kind kinds[] = {
    {DType::f8e4m3, least_e4m3, value_e4m3, [](float x) { return float8_e4m3(x).bits; },
     [](std::uint8_t bits) { return static_cast<float>(float8_e4m3::from_bits(bits)); }},
    {DType::f8e5m2, least_e5m2, value_e5m2, [](float x) { return float8_e5m2(x).bits; },
     [](std::uint8_t bits) { return static_cast<float>(float8_e5m2::from_bits(bits)); }},
};

std::vector<float> as_floats(const Tensor& x) { return to_vector<float>(x); }
bool same(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) || (a != a && b != b);
}

/// The bits of every element.
std::vector<std::uint8_t> bits_of(const Tensor& x) {
  std::vector<std::uint8_t> bits;
  if (x.dtype() == DType::f8e4m3)
    for (const float8_e4m3 element : to_vector<float8_e4m3>(x)) bits.push_back(element.bits);
  else
    for (const float8_e5m2 element : to_vector<float8_e5m2>(x)) bits.push_back(element.bits);
  return bits;
}

/// All 256, as they lie in memory.
Tensor every(DType dtype) {
  static std::array<std::uint8_t, 256> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return from_blob(nullptr, bytes.data(), {256}, dtype);
}

struct Conversion {
  float from;
  std::uint8_t to;
};
/// At every place where the result changes and one float before it, and at both ends, with both signs.
std::vector<Conversion> conversions(const Kind& kind) {
  std::vector<Conversion> list;
  const auto add = [&](std::uint32_t bits, int to) {
    for (const std::uint32_t sign : {0u, 1u})
      list.push_back(
          {std::bit_cast<float>(bits | sign << 31), static_cast<std::uint8_t>(static_cast<unsigned>(to) | sign << 7)});
  };
  int before = 0;
  for (int code = 1; code < 128; ++code) {
    const std::uint32_t least = kind.least[code - 1];
    if (code < 127 && kind.least[code] == least) continue;  // nothing becomes it
    add(least - 1, before);
    add(least, code);
    before = code;
  }
  add(0, 0);
  add(1, 0);
  add(0x7fc00000, 0x7f);
  add(0x7fffffff, 0x7f);
  return list;
}
}  // namespace

TEST_CASE("f8: every conversion is PyTorch's", "[f8]") {
  for (const Kind& kind : kinds) {
    const std::vector<Conversion> list = conversions(kind);
    std::vector<float> given;
    std::vector<std::uint8_t> want;
    for (const Conversion& conversion : list) {
      given.push_back(conversion.from);
      want.push_back(conversion.to);
      CHECK(kind.bits_of(conversion.from) == conversion.to);
    }
    std::vector<float> values;
    for (int i = 0; i < 256; ++i) {
      const std::uint32_t sign = i >= 128 ? 0x80000000u : 0;
      values.push_back(std::bit_cast<float>(kind.value[i % 128] | sign));
      CHECK(same(kind.value_of(static_cast<std::uint8_t>(i)), values.back()));
    }
    const DType dtype = kind.dtype;
    const auto count = static_cast<std::int64_t>(given.size());
    const Tensor x = copy_of(given), columns = copy_of(given, {count / 2, 2}), all_256 = every(dtype);
    for (const Mode& mode : modes()) {
      INFO(name(dtype) << ", " << mode.name);
      const Function there = [dtype](const Inputs& in) { return Tensor(cast(in[0], dtype)); };
      const Function turned = [dtype](const Inputs& in) { return Tensor(cast(transpose(in[0], 0, 1), dtype)); };
      const Function back = [](const Inputs& in) { return Tensor(cast(in[0], DType::f32)); };
      const Function both = [dtype](const Inputs& in) { return Tensor(cast(cast(in[0], dtype), DType::f32)); };
      CHECK(bits_of(run_in(mode, there, {x})) == want);
      CHECK(bits_of(Tensor(transpose(run_in(mode, turned, {columns}), 0, 1))) == want);
      const std::vector<float> got = as_floats(run_in(mode, back, {all_256})),
                               through = as_floats(run_in(mode, both, {x}));
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], values[i]));
      for (std::size_t i = 0; i < through.size(); ++i) CHECK(same(through[i], kind.value_of(want[i])));
      // Odd lengths, strides, single elements and a number that is spread.
      for (const int length : {0, 1, 3, 7, 17, 33}) {
        const Tensor part = run_in(mode, there, {Tensor(x(slice(5, 5 + length)))});
        CHECK(bits_of(part) == std::vector<std::uint8_t>(want.begin() + 5, want.begin() + 5 + length));
        const std::vector<float> read =
            as_floats(run_in(mode, back, {Tensor(all_256(slice(100, 100 + 2 * length, 2)))}));
        for (std::size_t i = 0; i < read.size(); ++i) CHECK(same(read[i], values[100 + 2 * i]));
      }
      const Function spread = [](const Inputs& in) { return Tensor(cast(in[0], DType::f32) + in[1]); };
      CHECK(as_floats(run_in(mode, spread, {Tensor(all_256(slice(0x38, 0x39))), zeros({5})})) ==
            std::vector<float>(5, values[0x38]));
    }
  }
}

TEST_CASE("f8: from and to other dtypes, and numbers that are known when a function is compiled", "[f8]") {
  for (const Kind& kind : kinds) {
    const DType dtype = kind.dtype;
    for (const Mode& mode : modes()) {
      INFO(name(dtype) << ", " << mode.name);
      const auto through = [&](const Tensor& x) {
        return to_vector<double>(
            run_in(mode, [&](const Inputs& in) { return Tensor(cast(cast(in[0], dtype), DType::f64)); }, {x}));
      };
      CHECK(through(tensor({1, -3, 100})) == std::vector<double>{1, -3, 96});
      CHECK(through(tensor<std::uint64_t>({~std::uint64_t{0}}))[0] ==
            (dtype == DType::f8e4m3 ? 448 : std::numeric_limits<double>::infinity()));
      CHECK(through(tensor<bool>({true, false})) == std::vector<double>{1, 0});
      CHECK(through(tensor({0.3, 1e300}))[0] == 0.3125);
      CHECK(through(cast(tensor({2.5f}), DType::bf16))[0] == 2.5);
      const Tensor large = run_in(mode, [](const Inputs& in) { return Tensor(cast(in[0], DType::i32)); },
                                  {Tensor(cast(tensor({-2.75f, 300.f}), dtype))});
      CHECK(to_vector<std::int32_t>(large) ==
            std::vector<std::int32_t>{dtype == DType::f8e4m3 ? -2 : -3, dtype == DType::f8e4m3 ? 288 : 320});
    }
    const auto folded = jit::compile([dtype](Tensor) { return Tensor(cast(full({2}, 0.3), dtype)); });
    CHECK(as_floats(folded(zeros({1})))[0] == 0.3125f);
    CHECK(as_floats(full({1}, 17.2, {.dtype = dtype}))[0] == (dtype == DType::f8e4m3 ? 18.f : 16.f));
  }
  std::ostringstream text;
  text << cast(tensor({0.1f, -2.f, 1.5f}), DType::f8e4m3);
  CHECK(has(text.str(), "[ 0.1, -2. ,  1.5]"));
}

TEST_CASE("f8: elements are moved, and sums are not", "[f8]") {
  for (const Kind& kind : kinds) {
    const DType dtype = kind.dtype;
    const Tensor x = Tensor(cast(tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}), dtype));
    const auto check = [&](const Function& run, const std::vector<float>& want) {
      for (const Mode& mode : modes()) {
        INFO(name(dtype) << ", " << mode.name);
        const Tensor got = run_in(mode, run, {x});
        CHECK(got.dtype() == dtype);
        CHECK(as_floats(got) == want);
      }
    };
    check([](const Inputs& in) { return Tensor(transpose(in[0], 0, 1)); }, {1, 4, 2, 5, 3, 6});
    check([](const Inputs& in) { return Tensor(in[0](1, all)); }, {4, 5, 6});
    check([](const Inputs& in) { return concat({in[0], in[0]}, 1); }, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
    check([](const Inputs& in) { return Tensor(pad(in[0](0, all), {{1, 0}}, 0.5)); }, {0.5, 1, 2, 3});
    check([](const Inputs& in) { return Tensor(flip(in[0](0, all), 0)); }, {3, 2, 1});
    check([](const Inputs& in) { return Tensor(index_select(in[0], 0, tensor<std::int64_t>({1}))); }, {4, 5, 6});
    check([](const Inputs& in) { return Tensor(where(cast(in[0], DType::f32) > 2, in[0], in[0](0, 0))); },
          {1, 1, 3, 4, 5, 6});

    const std::string here = "[f8_test.cpp:" + std::to_string(__LINE__ + 1) + "]";
    const std::string message = message_of<DTypeError>([&] { Tensor y = x + x; });
    CHECK(has(message, "add: an operand is " + std::string(name(dtype)) + ", which is for memory alone"));
    CHECK(has(message, here));
    CHECK(has(message, "cast it to compute: cast(x, DType::f32)"));
    CHECK_THROWS_AS(Tensor(x * 2), DTypeError);
    CHECK_THROWS_AS(Tensor(x == x), DTypeError);
    CHECK_THROWS_AS(Tensor(exp(x)), DTypeError);
    CHECK_THROWS_AS(sum(x), DTypeError);
    CHECK_THROWS_AS(amax(x), DTypeError);
    CHECK_THROWS_AS(matmul(x, transpose(x, 0, 1)), DTypeError);
    CHECK_THROWS_AS(sort(x), DTypeError);
    CHECK_THROWS_AS(cumsum(x, 0), DTypeError);
    CHECK_THROWS_AS(softmax(x, 0), DTypeError);
    CHECK_THROWS_AS(parse_graph("graph(%x: " + std::string(name(dtype)) + "[2]) { return add(%x, %x) }"), UserError);
    // Gradients pass through casts.
    const auto slope =
        jit::grad([dtype](Tensor v) { return Tensor(sinter::sum(cast(cast(v, dtype), DType::f32) * 3)); });
    CHECK(as_floats(slope(tensor({1.f, 2.f}))) == std::vector<float>{3, 3});
    CHECK(as_floats(jit::vmap([dtype](Tensor v) { return Tensor(cast(v, dtype)); })(tensor({1.f, 2.f}))) ==
          std::vector<float>{1, 2});
  }
  for (const DType other : {DType::f8e5m2, DType::f32, DType::f16, DType::i32, DType::c64}) {
    CHECK(!can_promote(DType::f8e4m3, other));
    CHECK(has(message_of<DTypeError>([&] { promote(DType::f8e4m3, other); }), "f8e4m3 and f8e5m2 are not promoted"));
  }
}

TEST_CASE("f8: numbers to fill with are rounded, fused or not", "[f8]") {
  for (const Kind& kind : kinds) {
    const DType dtype = kind.dtype;
    const float large = kind.value_of(kind.bits_of(1000));
    const Tensor x = Tensor(cast(tensor({1.f, 2.f}), dtype));
    for (const Mode& mode : modes()) {
      INFO(name(dtype) << ", " << mode.name);
      const Function padded = [](const Inputs& in) { return Tensor(cast(pad(in[0], {{1, 1}}, 1000), DType::f32)); };
      const Function filled = [dtype](const Inputs&) {
        return Tensor(cast(full({2}, 17.2, {.dtype = dtype}), DType::f32));
      };
      const Function chosen = [](const Inputs& in) {
        return Tensor(cast(where(cast(in[0], DType::f32) > 1, in[0], 1000), DType::f32));
      };
      CHECK(as_floats(run_in(mode, chosen, {x})) == std::vector<float>{large, 2});
      CHECK(as_floats(run_in(mode, padded, {x})) == std::vector<float>{large, 1, 2, large});
      CHECK(as_floats(run_in(mode, filled, {x}))[0] == kind.value_of(kind.bits_of(17.2f)));
    }
    CHECK(has(message_of<DTypeError>([&] { rand({2}, {.dtype = dtype}); }), "asked for"));
    CHECK(has(message_of<DTypeError>([&] { bitcast(x, DType::u8); }), "to_vector<float8_e4m3>(x)"));
  }
}

TEST_CASE("f8: gradients of values that are used several times are summed in f32", "[f8]") {
  for (const Kind& kind : kinds) {
    const DType dtype = kind.dtype;
    INFO(name(dtype));
    const auto twice = [dtype](Tensor v) {
      const Tensor narrow = Tensor(cast(v, dtype));
      return Tensor(sum(cast(narrow, DType::f32) * 17) + sum(cast(narrow, DType::f32)) +
                    sum(cast(narrow(slice(0, 1)), DType::f32)) +
                    sum(cast(index_select(narrow, 0, tensor<std::int64_t>({1, 1})), DType::f32)));
    };
    CHECK(as_floats(jit::grad(twice)(tensor({1.f, 2.f}))) == std::vector<float>{19, 20});
    CHECK(as_floats(jit::compile(jit::grad(twice))(tensor({1.f, 2.f}))) == std::vector<float>{19, 20});
    // That of an f8 argument is rounded at the end.
    const auto of_argument =
        jit::grad([](Tensor v) { return Tensor(sum(cast(v, DType::f32) * 8.5) + sum(cast(v, DType::f32) * 8.5)); });
    const Tensor slope = of_argument(Tensor(cast(tensor({1.f}), dtype)));
    CHECK(slope.dtype() == dtype);
    CHECK(as_floats(slope)[0] == kind.value_of(kind.bits_of(17)));
  }
}
