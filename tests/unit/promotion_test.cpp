// The dtype of a mixed operation is PyTorch's: operands with axes, then those of rank 0, then numbers; and it is the
// same lazily, compiled, under vmap, in regions and in loops. Also what bool tensors, big numbers and axes in the wrong
// order do.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <limits>
#include <utility>

using namespace sinter;

namespace {

constexpr DType dtypes[] = {DType::bool_, DType::u8,  DType::i8,   DType::i16, DType::u32, DType::i32,
                            DType::i64,   DType::f16, DType::bf16, DType::f32, DType::f64};

/// The dtype of tensor + single, where the single has rank 0: torch.result_type.
DType beside_single(DType tensor, DType single) { return row(single).kind > row(tensor).kind ? single : tensor; }
Tensor of(DType dtype, const Shape& shape) { return ones(shape, {.dtype = dtype}); }

}  // namespace

TEST_CASE("promotion: a tensor of rank 0 lifts the class of one with axes, and never widens it") {
  for (DType a : dtypes)
    for (DType b : dtypes) {
      INFO(name(a) << "[3] and " << name(b) << "[]");
      const DType wanted = beside_single(a, b), both = promote(a, b);
      auto add = [](Tensor x, Tensor y) { return Tensor(x + y); };
      auto chosen = [](Tensor x, Tensor y) { return Tensor(where(x == y, y, x)); };
      const Tensor x = of(a, {3}), y = of(b, {});
      CHECK(add(x, y).dtype() == wanted);
      CHECK(add(y, x).dtype() == wanted);
      CHECK(chosen(x, y).dtype() == wanted);
      CHECK(add(y, of(a, {})).dtype() == both);
      CHECK(add(x, of(b, {3})).dtype() == both);
      CHECK(add(x, of(b, {1})).dtype() == both);
      CHECK(Tensor(maximum(x, y)).dtype() == wanted);
      const Tensor compiled = jit::compile(add)(x, y);
      CHECK(compiled.dtype() == wanted);
      CHECK(doubles(compiled) == doubles(add(x, y)));
      CHECK(jit::compile(add, {.backend = "eager"})(x, y).dtype() == wanted);
      CHECK(jit::region(add)(x, y).dtype() == wanted);
      // An example of rank 0 counts as one, though its batch has an axis, and so does a slice of a scan.
      CHECK(jit::vmap(add, {jit::no_axis, 0})(x, of(b, {2})).dtype() == wanted);
      CHECK(jit::vmap(add)(of(a, {2}), of(b, {2})).dtype() == both);
      CHECK(jit::vmap(add)(of(a, {2, 3}), of(b, {2})).dtype() == wanted);
      auto scanned = jit::compile([&](Tensor ys) {
        return jit::scan([&](Tensor carry, Tensor slice) { return std::pair(carry, Tensor(x + slice)); },
                         of(DType::f32, {}), ys)
            .second;
      });
      CHECK(scanned(of(b, {2})).dtype() == wanted);
    }
}

TEST_CASE("promotion: a tensor of rank 0 beside one with axes, in functions that cast both operands") {
  using Function = Tensor (*)(const In&, const In&);
  for (const Function f : {Function(igamma), Function(igammac)}) {
    CHECK(f(of(DType::f32, {3}), of(DType::f64, {})).dtype() == DType::f32);  // as torch.igamma has it
    CHECK(f(of(DType::f64, {}), of(DType::f16, {3})).dtype() == DType::f16);
    CHECK(f(of(DType::f64, {3}), of(DType::f32, {})).dtype() == DType::f64);
    CHECK(f(of(DType::f32, {1}), of(DType::f64, {3})).dtype() == DType::f64);
    CHECK(f(of(DType::i64, {3}), of(DType::f64, {})).dtype() == DType::f64);
    CHECK(f(of(DType::f16, {3}), of(DType::i64, {})).dtype() == DType::f16);
    CHECK(f(of(DType::f32, {3}), 2.0).dtype() == DType::f32);
  }
  for (const Function f : {Function(gcd), Function(lcm)}) {
    CHECK(f(of(DType::u8, {3}), of(DType::i8, {})).dtype() == DType::u8);  // as torch.gcd
    CHECK(f(of(DType::i64, {}), of(DType::i16, {3})).dtype() == DType::i16);
    CHECK(f(of(DType::i32, {3}), of(DType::i64, {2, 3})).dtype() == DType::i64);
    CHECK(f(of(DType::i32, {}), of(DType::i64, {})).dtype() == DType::i64);
  }
  CHECK(Tensor(normal(of(DType::f32, {3}), of(DType::f64, {}))).dtype() == DType::f32);
  CHECK(random::gamma(of(DType::f64, {}), of(DType::f32, {3})).dtype() == DType::f32);
  CHECK(random::beta(of(DType::f32, {3}), of(DType::f64, {})).dtype() == DType::f32);
}

TEST_CASE("promotion: three ranks in one expression, comparisons, and numbers") {
  const Tensor x = of(DType::f32, {3}), i = of(DType::i32, {3});
  const Tensor wide = of(DType::f64, {}), whole = of(DType::i64, {});
  CHECK(Tensor(x * wide + whole).dtype() == DType::f32);
  CHECK(Tensor(i * whole + 1).dtype() == DType::i32);
  CHECK(Tensor(i * whole + 1.5).dtype() == DType::f32);
  CHECK(Tensor(i + wide).dtype() == DType::f64);  // the class is lifted to the single's dtype
  CHECK(Tensor(whole + 1.5).dtype() == DType::f32);
  CHECK(Tensor(wide * wide + x).dtype() == DType::f32);
  // Compared in f32, as PyTorch does: 0.1 rounded is 0.1f.
  const Tensor tenth = full({2}, 0.1), precise = full({}, 0.1, {.dtype = DType::f64});
  CHECK(to_vector<bool>(tenth == precise)[0]);
  CHECK(to_vector<bool>(jit::compile([](Tensor a, Tensor b) { return a == b; })(tenth, precise))[0]);
  const Tensor c = x > 0;
  CHECK(Tensor(where(c, 1, 2.5)).dtype() == DType::f32);
  CHECK(Tensor(where(c, 1, 2)).dtype() == DType::i64);
  CHECK(Tensor(where(c, true, false)).dtype() == DType::bool_);
  CHECK(Tensor(where(c, wide, 2)).dtype() == DType::f64);
  CHECK(floats(where(c, 1, 2.5)) == std::vector<float>{1, 1, 1});
  auto choose = jit::compile([](Tensor condition, Scalar a, Scalar b) { return where(condition, a, b); });
  CHECK(choose(c, 1, 2.5).dtype() == DType::f32);
  CHECK(choose(c, 1, 2).dtype() == DType::i64);
}

TEST_CASE("bool: sums and products count, negation and differences are refused, a run-time bool is one") {
  const Tensor t = tensor<bool>({true, true, false}), yes = tensor<bool>({true, true});
  CHECK(sum(t).dtype() == DType::i64);
  CHECK(prod(yes).dtype() == DType::i64);
  CHECK(to_vector<std::int64_t>(prod(yes))[0] == 1);
  CHECK(to_vector<std::int64_t>(prod(t))[0] == 0);
  CHECK(prod(tensor({65536, 65536})).dtype() == DType::i64);
  CHECK(to_vector<std::int64_t>(jit::compile([](Tensor x) { return prod(x); })(tensor({65536, 65536})))[0] ==
        std::int64_t{1} << 32);
  CHECK(prod(tensor<bool>({true})(0)).dtype() == DType::i64);
  CHECK(blame_of<DTypeError>([&] { Tensor y = -t; }) == blame("neg"));
  CHECK(blame_of<DTypeError>([&] { Tensor y = t - t; }) == blame("sub"));
  CHECK(has(message_of<DTypeError>([&] { Tensor y = t - true; }), "a ^ b tells where conditions differ"));
  CHECK(has(message_of<DTypeError>([&] { jit::compile([](Tensor x) { return x - x; })(t); }),
            "sub: both operands are bool"));
  CHECK(Tensor(t - 1).dtype() == DType::i64);
  CHECK(Tensor(1.0 - t).dtype() == DType::f32);
  auto plus = [](Tensor x, Scalar s) { return Tensor(x + s); };
  for (const char* backend : {"", "eager"}) {
    auto f = jit::compile(plus, {.backend = backend});
    CHECK(f(t, true).dtype() == DType::bool_);
    CHECK(to_vector<bool>(f(t, true)) == std::vector<bool>{true, true, true});
    CHECK(to_vector<bool>(f(t, false)) == std::vector<bool>{true, true, false});
    CHECK(f(t, 1).dtype() == DType::i64);
    CHECK(f(t, 1.5).dtype() == DType::f32);
    CHECK(to_vector<std::int64_t>(f(t, 1)) == std::vector<std::int64_t>{2, 2, 1});
    // Between numbers bools count, traced or not.
    CHECK(to_vector<std::int64_t>(jit::compile([](Tensor x, Scalar s) { return x.to(DType::i64) * 0 + (s + s); },
                                               {.backend = backend})(t, true))[0] == 2);
    CHECK(to_vector<std::int64_t>(jit::compile([](Tensor x, Scalar s) { return x.to(DType::i64) * 0 + (s - s - s); },
                                               {.backend = backend})(t, true))[0] == -1);
  }
  CHECK(plus(t, true).dtype() == DType::bool_);
  CHECK(jit::vmap(plus, {0, jit::no_axis})(t, Scalar(true)).dtype() == DType::bool_);
  CHECK(jit::region([](Tensor x, Scalar s) { return Tensor(x + s); })(t, Scalar(true)).dtype() == DType::bool_);
}

TEST_CASE("numbers that no i64 holds, and fills that their dtype does not hold, are refused") {
  const std::string here = "[promotion_test.cpp:" + std::to_string(__LINE__ + 1) + "]";
  const std::string text = message_of<UserError>([] { Scalar s = std::numeric_limits<std::uint64_t>::max(); });
  CHECK(has(text, "Scalar: 18446744073709551615 does not fit i64"));
  CHECK(has(text, here));
  CHECK(has(message_of<UserError>([] { Tensor y = ones({2}) * (std::uint64_t{1} << 63); }),
            "9223372036854775808 does not fit i64"));
  CHECK(to_vector<std::int64_t>(zeros({1}, {.dtype = DType::i64}) +
                                std::uint64_t{std::numeric_limits<std::int64_t>::max()})[0] ==
        std::numeric_limits<std::int64_t>::max());
  constexpr double infinite = std::numeric_limits<double>::infinity();
  CHECK(floats(pad(ones({1}), {{1, 0}}, -infinite))[0] == -infinite);
  CHECK(floats(jit::compile([](Tensor x) {
          return jit::vmap([](Tensor one) { return pad(one, {{1, 0}}, -std::numeric_limits<double>::infinity()); })(x);
        })(ones({1, 1})))[0] == -infinite);
  for (DType dtype : {DType::i32, DType::i64}) {
    CHECK(has(message_of<UserError>([&] { pad(of(dtype, {1}), {{1, 0}}, -infinite); }),
              "pad: the value -inf does not fit " + std::string(name(dtype))));
    CHECK(has(message_of<UserError>([&] { pad(of(dtype, {1}), {{1, 0}}, std::nan("")); }), "does not fit"));
    CHECK(
        has(message_of<UserError>([&] { full({2}, infinite, {.dtype = dtype}); }), "full: the value inf does not fit"));
  }
  CHECK(has(message_of<UserError>([&] { full({2}, 5'000'000'000, {.dtype = DType::i32}); }),
            "full: the value 5000000000 does not fit i32"));
  CHECK(has(message_of<UserError>([&] { pad(of(DType::i32, {1}), {{1, 0}}, 3e9); }), "does not fit i32"));
  CHECK(to_vector<std::int32_t>(pad(of(DType::i32, {1}), {{1, 0}}, -2.5)) == std::vector<std::int32_t>{-2, 1});
  CHECK(to_vector<bool>(pad(of(DType::bool_, {1}), {{1, 0}}, 0.5))[0]);
}

TEST_CASE("mean and var of integers are computed in f64") {
  constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min(),
                         highest = std::numeric_limits<std::int64_t>::max();
  for (const char* backend : {"", "eager"}) {
    auto variance = jit::compile([](Tensor x) { return var(x); }, {.backend = backend});
    auto middle = jit::compile([](Tensor x) { return mean(x); }, {.backend = backend});
    CHECK(variance(tensor<std::int64_t>({1, 2})).dtype() == DType::f32);
    CHECK(middle(tensor<bool>({true, false})).dtype() == DType::f32);
    CHECK(floats(variance(tensor<std::int64_t>({lowest, highest})))[0] == std::ldexp(1.0f, 126));
    CHECK(floats(variance(tensor<std::int64_t>({(std::int64_t{1} << 50) + 1, (std::int64_t{1} << 50) + 3})))[0] == 1);
    CHECK(floats(variance(tensor({16777217, 16777219})))[0] == 1);
    CHECK(floats(middle(tensor({16777217, -16777216, 2})))[0] == 1);
    CHECK(floats(middle(tensor<bool>({true, false})))[0] == 0.5f);
  }
}

TEST_CASE("formulas of several operations are computed in the dtype of their result, as in PyTorch") {
  const Tensor bytes = tensor<std::uint8_t>({200, 3}), x = tensor<std::int64_t>({1000, 1});
  const auto whole = [](const Tensor& of) { return to_vector<std::int64_t>(of); };
  using Whole = std::vector<std::int64_t>;
  CHECK(whole(addcmul(x, bytes, bytes)) == Whole{41000, 10});
  CHECK(whole(addcmul(x, bytes, bytes, -2)) == Whole{-79000, -17});
  CHECK(whole(rsub(bytes, x, 2)) == Whole{600, -5});
  CHECK(whole(addr(zeros({2, 2}, {.dtype = DType::i64}), bytes, bytes)) == Whole{40000, 600, 600, 9});
  CHECK(whole(index_add(x, 0, tensor({0, 1}), bytes, -2)) == Whole{600, -5});
  const Tensor great = tensor<std::int64_t>({std::int64_t{1} << 33});  // becomes small before x must hold it
  CHECK(to_vector<std::int32_t>(index_add(tensor({0}), 0, tensor({0}), great, 0.125)) == std::vector{1 << 30});
  CHECK(to_vector<std::uint8_t>(index_add(tensor<std::uint8_t>({0}), 0, tensor({0}), tensor<std::int64_t>({300}),
                                          0.5)) == std::vector<std::uint8_t>{150});
  CHECK(whole(jit::compile([](Tensor a, Tensor b) { return addcmul(a, b, b); })(x, bytes)) == Whole{41000, 10});
  CHECK(item<float>(vector_distance(bytes, tensor<std::uint8_t>({203, 7}))) == 5);
  CHECK(addcmul(bytes, bytes, bytes).dtype() == DType::u8);  // which wraps, as u8 does
  CHECK(to_vector<std::uint8_t>(addcmul(bytes, bytes, bytes))[0] == (200 + 200 * 200) % 256);
  const Tensor large = cast(tensor({60000.f}), DType::f16), one = ones({1});
  CHECK(floats(addcmul(one, large, large))[0] == 3.6e9f);
  CHECK(floats(rsub(large, one, 2))[0] == -119999.f);
  CHECK(floats(addcdiv(one, large, cast(tensor({0.5f}), DType::f16)))[0] == 120001.f);
}

TEST_CASE("flatten: the first axis must not come after the last") {
  const Tensor x = ones({2, 3, 4});
  CHECK(blame_of<IndexError>([&] { flatten(x, 2, 1); }) == blame("flatten"));
  CHECK(has(message_of<IndexError>([&] { flatten(x, -1, 0); }), "the first axis is 2, the last one 0"));
  CHECK(flatten(x, 1, 1).shape() == Shape{2, 3, 4});
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
}
