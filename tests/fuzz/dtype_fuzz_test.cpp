// Random programs over all dtypes at once: integers of all widths, which wrap, floats and complex numbers that stay
// whole and small enough to be exact in their dtype, and f8, which is cast and moved. The oracle computes with C++'s
// numbers, element by element, so results must be equal: compiled for each back end, with other extents, lazily, and
// under vmap.
#include "../conformance/op_table.hpp"
#include "fuzz_loop.hpp"

#include <complex>
#include <random>

using namespace sinter_test;

namespace {

using C128 = std::complex<double>;

/// An array of rows and columns, either of which may be 1. Integers are held as the i64 of their bits, floats as pairs.
struct Values {
  DType dtype = DType::f32;
  std::int64_t rows = 1, columns = 1;
  std::vector<std::int64_t> whole;
  std::vector<C128> numbers;

  bool is_whole() const { return !is_differentiable(dtype); }
  std::size_t place(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((rows == 1 ? 0 : row) * columns + (columns == 1 ? 0 : column));
  }
  void make() {
    const auto count = static_cast<std::size_t>(rows * columns);
    if (is_whole()) whole.resize(count);
    else numbers.resize(count);
  }
};

enum class Kind : std::uint8_t {
  cast,
  add,
  sub,
  mul,
  maximum,
  minimum,
  equal,
  less,
  where,
  negate,
  floor_divide,
  unsigned_rest,
  left_shift,
  right_shift,
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  conj,
  real,
  imag,
  make_complex,
  sum,
  largest,
  running_sum,
  any,
  flip,
  roll,
  product
};
constexpr int kind_count = static_cast<int>(Kind::product) + 1;
constexpr const char* kind_names[kind_count] = {
    "cast",        "add",     "sub",          "mul",           "maximum",    "minimum",      "equal",   "less",
    "where",       "negate",  "floor_divide", "unsigned_rest", "left_shift", "right_shift",  "bit_and", "bit_or",
    "bit_xor",     "bit_not", "conj",         "real",          "imag",       "make_complex", "sum",     "largest",
    "running_sum", "any",     "flip",         "roll",          "product"};

struct Step {
  Kind kind = Kind::add;
  std::size_t a = 0, b = 0, c = 0;
  DType dtype = DType::f32;  // of a cast
  int number = 0;            // an axis, a divisor, a shift
};

/// The largest whole number up to which all are numbers of a floating dtype.
double most_exact(DType dtype) { return 2 / row(dtype).epsilon(); }
bool precedes(DType dtype, std::int64_t a, std::int64_t b) {
  return dtype == DType::u64 ? static_cast<std::uint64_t>(a) < static_cast<std::uint64_t>(b) : a < b;
}
std::int64_t wrap(std::uint64_t bits, DType dtype) {
  return tensor_detail::wrapped(static_cast<std::int64_t>(bits), dtype);
}

// ---- programs -------------------------------------------------------------------------------------------------------

constexpr DType drawn[] = {DType::bool_, DType::u8,  DType::i8,   DType::u16,    DType::i16,   DType::u32,
                           DType::i32,   DType::i64, DType::u64,  DType::f16,    DType::bf16,  DType::f32,
                           DType::f64,   DType::c64, DType::c128, DType::f8e4m3, DType::f8e5m2};

/// A program with what is known of its values: dtypes, and how large they may be.
class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {
    for (int i = 0; i < 5; ++i) {
      const DType dtype = drawn[pick(std::size(drawn))];
      const bool is_wide = is_integer(dtype) && chance(40);  // any number of the dtype, else small ones
      known_.push_back({dtype, is_wide ? size_of_range(dtype) : dtype == DType::bool_ ? 1.0 : 3.0, pick(4)});
      inputs_.push_back(known_.back());
    }
    for (int tries = 0; tries < 60 && steps_.size() < 14; ++tries) try_step();
    outputs_ = {known_.size() - 1, known_.size() - 1 - pick(3), pick(known_.size())};
  }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<std::size_t>& outputs() const { return outputs_; }

  std::vector<Values> make_inputs(std::int64_t rows, std::int64_t columns, std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    std::vector<Values> inputs;
    for (const Known& known : inputs_) {
      Values values{known.dtype, known.shape == 1 ? 1 : rows, known.shape == 2 ? 1 : columns, {}, {}};
      values.make();
      const auto small = [&] { return static_cast<std::int64_t>(random() % 7) - 3; };
      for (std::int64_t& x : values.whole)
        x = wrap(known.bound > 3 ? random()
                                 : static_cast<std::uint64_t>(row(known.dtype).is_signed ? small() : std::abs(small())),
                 known.dtype);
      for (C128& z : values.numbers)
        z = {static_cast<double>(small()), is_complex(known.dtype) ? static_cast<double>(small()) : 0.0};
      inputs.push_back(std::move(values));
    }
    return inputs;
  }
  std::string text() const {
    std::string out = "inputs";
    for (const Known& known : inputs_) out += " " + std::string(name(known.dtype));
    for (const Step& step : steps_)
      out += std::string("\n  ") + kind_names[static_cast<std::size_t>(step.kind)] + " of " + std::to_string(step.a) +
             " " + std::to_string(step.b) + " " + std::to_string(step.c) + ", " + std::string(name(step.dtype)) + ", " +
             std::to_string(step.number);
    return out + "\n";
  }

 private:
  struct Known {
    DType dtype;
    double bound;  // no number is larger
    std::size_t shape = 0;
  };
  std::size_t pick(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool chance(unsigned percent) { return random_() % 100 < percent; }
  static double size_of_range(DType dtype) { return std::ldexp(1.0, 8 * static_cast<int>(size_of(dtype))); }

  /// Adds the step if all of its numbers are exact.
  void add(Step step, DType dtype, double bound) {
    if (is_differentiable(dtype) && bound > most_exact(dtype)) return;
    if (!is_differentiable(dtype)) bound = std::min(bound, size_of_range(dtype));
    steps_.push_back(step);
    known_.push_back({dtype, bound});
  }
  void try_step() {
    Step step{static_cast<Kind>(pick(kind_count)),
              pick(known_.size()),
              pick(known_.size()),
              pick(known_.size()),
              drawn[pick(std::size(drawn))],
              0};
    const Known a = known_[step.a], b = known_[step.b], c = known_[step.c];
    const bool are_computed = !is_f8(a.dtype) && !is_f8(b.dtype), is_number = are_computed && a.dtype != DType::bool_;
    const bool both = are_computed && can_promote(a.dtype, b.dtype);
    const DType common = both ? promote(a.dtype, b.dtype) : a.dtype;
    const bool fits = !is_differentiable(common) || std::max(a.bound, b.bound) <= most_exact(common);
    const bool have_numbers = both && fits && common != DType::bool_, is_ordered = have_numbers && !is_complex(common);
    const bool are_bits = both && !is_differentiable(common);
    const double sum = a.bound + b.bound;
    switch (step.kind) {
      case Kind::cast:
        if (is_complex(a.dtype) && !is_complex(step.dtype)) return;
        if (is_differentiable(step.dtype) && a.bound > most_exact(step.dtype)) return;
        return add(step, step.dtype, a.bound);
      case Kind::add:
      case Kind::sub: return have_numbers ? add(step, common, sum) : void();
      case Kind::mul:
        return have_numbers ? add(step, common, (is_complex(common) ? 2 : 1) * a.bound * b.bound) : void();
      case Kind::maximum:
      case Kind::minimum: return is_ordered ? add(step, common, std::max(a.bound, b.bound)) : void();
      case Kind::equal: return both && fits ? add(step, DType::bool_, 1) : void();
      case Kind::less: return is_ordered ? add(step, DType::bool_, 1) : void();
      case Kind::where:
        return both && fits && c.dtype == DType::bool_ ? add(step, common, std::max(a.bound, b.bound)) : void();
      case Kind::negate:
        return is_number ? add(step, a.dtype, is_integer(a.dtype) ? size_of_range(a.dtype) : a.bound) : void();
      case Kind::floor_divide:
        step.number = 1 + static_cast<int>(pick(7));
        return is_integer(a.dtype) ? add(step, a.dtype, a.bound) : void();
      case Kind::unsigned_rest:
        step.number = 1 + static_cast<int>(pick(7));
        return is_integer(a.dtype) && !row(a.dtype).is_signed ? add(step, a.dtype, a.bound) : void();
      case Kind::left_shift:
      case Kind::right_shift:
        step.number = static_cast<int>(pick(8));
        return is_integer(a.dtype) ? add(step, a.dtype, size_of_range(a.dtype)) : void();
      case Kind::bit_and:
      case Kind::bit_or:
      case Kind::bit_xor:
        return are_bits ? add(step, common, common == DType::bool_ ? 1 : size_of_range(common)) : void();
      case Kind::bit_not: return is_integer(a.dtype) ? add(step, a.dtype, size_of_range(a.dtype)) : void();
      case Kind::conj:
      case Kind::real:
      case Kind::imag:
        return is_complex(a.dtype) ? add(step, step.kind == Kind::conj ? a.dtype : real_part_of(a.dtype), a.bound)
                                   : void();
      case Kind::make_complex: {
        const bool are_parts = (a.dtype == DType::f32 || a.dtype == DType::f64) && a.dtype == b.dtype;
        return are_parts ? add(step, complex_of(a.dtype), std::max(a.bound, b.bound)) : void();
      }
      case Kind::sum:
      case Kind::running_sum:
        step.number = static_cast<int>(pick(2));
        if (is_f8(a.dtype)) return;
        return add(step, is_differentiable(a.dtype) || a.dtype == DType::u64 ? a.dtype : DType::i64,
                   a.bound * most_extent);
      case Kind::largest:
        step.number = static_cast<int>(pick(2));
        return !is_f8(a.dtype) && !is_complex(a.dtype) ? add(step, a.dtype, a.bound) : void();
      case Kind::any:
        step.number = static_cast<int>(pick(2));
        return !is_f8(a.dtype) ? add(step, DType::bool_, 1) : void();
      case Kind::flip:
      case Kind::roll: step.number = static_cast<int>(pick(2)); return add(step, a.dtype, a.bound);
      case Kind::product:  // of a and the transpose of b, summed over the second axis
        return have_numbers ? add(step, common, 2 * a.bound * b.bound * most_extent * most_extent) : void();
    }
  }

 public:
  static constexpr double most_extent = 40;

 private:
  std::mt19937_64 random_;
  std::vector<Known> inputs_, known_;
  std::vector<Step> steps_;
  std::vector<std::size_t> outputs_;
};

// ---- as users write it ----------------------------------------------------------------------------------------------

Tensor run_step(const Step& step, const std::vector<Tensor>& v) {
  const Tensor &a = v[step.a], &b = v[step.b];
  switch (step.kind) {
    case Kind::cast: return cast(a, step.dtype);
    case Kind::add: return a + b;
    case Kind::sub: return a - b;
    case Kind::mul: return a * b;
    case Kind::maximum: return maximum(a, b);
    case Kind::minimum: return minimum(a, b);
    case Kind::equal: return a == b;
    case Kind::less: return a < b;
    case Kind::where: return where(v[step.c], a, b);
    case Kind::negate: return -a;
    case Kind::floor_divide: return floor_divide(a, step.number);
    case Kind::unsigned_rest: return a % step.number;
    case Kind::left_shift: return bitwise_left_shift(a, step.number);
    case Kind::right_shift: return bitwise_right_shift(a, step.number);
    case Kind::bit_and: return a & b;
    case Kind::bit_or: return a | b;
    case Kind::bit_xor: return a ^ b;
    case Kind::bit_not: return bitwise_not(a);
    case Kind::conj: return conj(a);
    case Kind::real: return real(a);
    case Kind::imag: return imag(a);
    case Kind::make_complex: return complex(a, b);
    case Kind::sum: return sum(a, step.number, keepdim);
    case Kind::largest: return amax(a, step.number, keepdim);
    case Kind::running_sum: return cumsum(a, step.number);
    case Kind::any: return any(a, step.number, keepdim);
    case Kind::flip: return flip(a, step.number);
    case Kind::roll: return roll(a, 1, step.number);
    case Kind::product: {
      const Shape both = broadcast(a.shape(), b.shape(), "test");
      return sum(matmul(expand(a, both), transpose(expand(b, both), 0, 1)), 1, keepdim)
          .to(promote(a.dtype(), b.dtype()));
    }
  }
  return a;
}
std::vector<Tensor> run_program(const Program& program, std::vector<Tensor> values) {
  for (const Step& step : program.steps()) values.push_back(run_step(step, values));
  std::vector<Tensor> out;
  for (const std::size_t i : program.outputs()) out.push_back(values[i]);
  return out;
}

// ---- the oracle -----------------------------------------------------------------------------------------------------

Values converted(const Values& x, DType to) {
  if (x.dtype == to) return x;
  Values out{to, x.rows, x.columns, {}, {}};
  out.make();
  const double least = static_cast<double>(tensor_detail::lowest(to)),
               past = to == DType::u64 ? 0x1p64 : static_cast<double>(tensor_detail::greatest(to)) + 1;
  for (std::size_t i = 0; i < out.whole.size() + out.numbers.size(); ++i) {
    if (out.is_whole() && x.is_whole()) out.whole[i] = wrap(static_cast<std::uint64_t>(x.whole[i]), to);
    else if (x.is_whole())
      out.numbers[i] = x.dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(x.whole[i]))
                                             : static_cast<double>(x.whole[i]);
    else if (!out.is_whole()) out.numbers[i] = x.numbers[i];
    else if (to == DType::bool_) out.whole[i] = x.numbers[i] != 0.0;
    else {  // whole numbers, far from the ends of 64 bits
      const double value = std::min(std::max(x.numbers[i].real(), least), past - 1);
      out.whole[i] = static_cast<std::int64_t>(value);
    }
  }
  return out;
}

/// f(a, b) of each element of both, as integers and as numbers.
template <class Whole, class Numbers>
Values of_both(const Values& a, const Values& b, DType result, Whole&& whole, Numbers&& numbers) {
  Values out{result, std::max(a.rows, b.rows), std::max(a.columns, b.columns), {}, {}};
  if (a.rows == 0 || b.rows == 0) out.rows = 0;
  out.make();
  for (std::int64_t r = 0; r < out.rows; ++r)
    for (std::int64_t c = 0; c < out.columns; ++c) {
      const std::size_t i = a.place(r, c), j = b.place(r, c), at = out.place(r, c);
      if (out.is_whole())
        out.whole[at] = a.is_whole() ? whole(a.whole[i], b.whole[j]) : numbers(a.numbers[i], b.numbers[j]).real() != 0;
      else out.numbers[at] = numbers(a.numbers[i], b.numbers[j]);
    }
  return out;
}
/// Along an axis: `next(before, element)`, of which the last stays, or all.
template <class Next>
Values along(const Values& a, int axis, bool is_running, Next&& next) {
  Values out{a.dtype, axis == 0 && !is_running ? 1 : a.rows, axis == 1 && !is_running ? 1 : a.columns, {}, {}};
  out.make();
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) {
      const std::int64_t position = axis == 0 ? r : c;
      const std::size_t from = a.place(r, c), to = out.place(r, c);
      const std::size_t before =
          is_running && position > 0 ? out.place(axis == 0 ? r - 1 : r, axis == 1 ? c - 1 : c) : to;
      if (a.is_whole()) out.whole[to] = position == 0 ? a.whole[from] : next(out.whole[before], a.whole[from]);
      else if (position == 0) out.numbers[to] = a.numbers[from];
      else if constexpr (std::is_invocable_v<Next, C128, C128>)
        out.numbers[to] = next(out.numbers[before], a.numbers[from]);
    }
  return out;
}
Values moved(const Values& a, const Step& step) {
  Values out = a;
  for (std::int64_t r = 0; r < a.rows; ++r)
    for (std::int64_t c = 0; c < a.columns; ++c) {
      std::int64_t row = r, column = c;
      std::int64_t& at = step.number == 0 ? row : column;
      const std::int64_t extent = step.number == 0 ? a.rows : a.columns;
      at = step.kind == Kind::flip ? extent - 1 - at : (at + extent - 1) % extent;
      if (a.is_whole()) out.whole[a.place(r, c)] = a.whole[a.place(row, column)];
      else out.numbers[a.place(r, c)] = a.numbers[a.place(row, column)];
    }
  return out;
}

Values wrapped_sum(const Values& a, int axis, bool is_running) {
  const Values x = converted(a, a.is_whole() && a.dtype != DType::u64 ? DType::i64 : a.dtype);
  struct Add {
    std::int64_t operator()(std::int64_t p, std::int64_t q) const {
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(p) + static_cast<std::uint64_t>(q));
    }
    C128 operator()(C128 p, C128 q) const { return p + q; }
  };
  return along(x, axis, is_running, Add());
}

Values oracle_of_two(const Step& step, const Values& left, const Values& right) {
  const DType common = promote(left.dtype, right.dtype);
  const Values a = converted(left, common), b = converted(right, common);
  const auto word = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  using I = std::int64_t;
  switch (step.kind) {
    case Kind::add:
      return of_both(a, b, common, [&](I p, I q) { return wrap(word(p) + word(q), common); }, std::plus<C128>());
    case Kind::sub:
      return of_both(a, b, common, [&](I p, I q) { return wrap(word(p) - word(q), common); }, std::minus<C128>());
    case Kind::mul:
      return of_both(a, b, common, [&](I p, I q) { return wrap(word(p) * word(q), common); }, std::multiplies<C128>());
    case Kind::maximum:
      return of_both(
          a, b, common, [&](I p, I q) { return precedes(common, p, q) ? q : p; },
          [](C128 p, C128 q) { return p.real() < q.real() ? q : p; });
    case Kind::minimum:
      return of_both(
          a, b, common, [&](I p, I q) { return precedes(common, p, q) ? p : q; },
          [](C128 p, C128 q) { return p.real() < q.real() ? p : q; });
    case Kind::equal:
      return of_both(
          a, b, DType::bool_, [](I p, I q) { return I{p == q}; }, [](C128 p, C128 q) { return C128(p == q); });
    case Kind::less:
      return of_both(
          a, b, DType::bool_, [&](I p, I q) { return I{precedes(common, p, q)}; },
          [](C128 p, C128 q) { return C128(p.real() < q.real()); });
    case Kind::bit_and: return of_both(a, b, common, [](I p, I q) { return p & q; }, std::plus<C128>());
    case Kind::bit_or: return of_both(a, b, common, [](I p, I q) { return p | q; }, std::plus<C128>());
    case Kind::bit_xor: return of_both(a, b, common, [](I p, I q) { return p ^ q; }, std::plus<C128>());
    case Kind::make_complex:
      return of_both(
          a, b, complex_of(common), [](I p, I) { return p; }, [](C128 p, C128 q) { return C128(p.real(), q.real()); });
    case Kind::product: {
      const auto first = [](auto p, auto) { return p; };
      const Values x = of_both(a, b, common, first, first), y = of_both(b, a, common, first, first);
      // The sum over all rows of b: of the sums of its columns.
      const Values columns = along(y, 0, false, [&](auto p, auto q) {
        if constexpr (std::same_as<decltype(p), C128>) return p + q;
        else return wrap(word(p) + word(q), common);
      });
      const Step mul{.kind = Kind::mul};
      const Values terms = oracle_of_two(mul, x, columns);
      return along(terms, 1, false, [&](auto p, auto q) {
        if constexpr (std::same_as<decltype(p), C128>) return p + q;
        else return wrap(word(p) + word(q), common);
      });
    }
    default: throw std::logic_error("not of two operands");
  }
}

Values oracle_step(const Step& step, const std::vector<Values>& v) {
  const Values &a = v[step.a], &b = v[step.b];
  using I = std::int64_t;
  const DType dtype = a.dtype;
  const auto each = [&](DType result, auto&& whole, auto&& number) {
    return of_both(a, a, result, [&](I p, I) { return whole(p); }, [&](C128 p, C128) { return number(p); });
  };
  const auto same = [](C128 p) { return p; };
  switch (step.kind) {
    case Kind::cast: return converted(a, step.dtype);
    case Kind::where: {
      const DType common = promote(a.dtype, b.dtype);
      const Values x = converted(a, common), y = converted(b, common), &condition = v[step.c];
      const auto first = [](auto p, auto) { return p; };
      Values left = of_both(x, y, common, first, first), right = of_both(y, x, common, first, first), out = left;
      out.rows = std::max(left.rows, condition.rows), out.columns = std::max(left.columns, condition.columns);
      out.make();
      for (I r = 0; r < out.rows; ++r)
        for (I c = 0; c < out.columns; ++c) {
          const Values& from = condition.whole[condition.place(r, c)] != 0 ? left : right;
          const std::size_t at = static_cast<std::size_t>(r * out.columns + c);
          if (out.is_whole()) out.whole[at] = 0, out.whole[at] = from.whole[from.place(r, c)];
          else out.numbers[at] = from.numbers[from.place(r, c)];
        }
      return out;
    }
    case Kind::negate:
      return each(
          dtype, [&](I p) { return wrap(0 - static_cast<std::uint64_t>(p), dtype); }, [](C128 p) { return -p; });
    case Kind::floor_divide:
      return each(
          dtype,
          [&](I p) -> I {
            if (dtype == DType::u64)
              return static_cast<I>(static_cast<std::uint64_t>(p) / static_cast<std::uint64_t>(step.number));
            return p / step.number - (p % step.number < 0 ? 1 : 0);
          },
          same);
    case Kind::unsigned_rest:
      return each(
          dtype,
          [&](I p) { return static_cast<I>(static_cast<std::uint64_t>(p) % static_cast<std::uint64_t>(step.number)); },
          same);
    case Kind::left_shift:
      return each(dtype, [&](I p) { return wrap(static_cast<std::uint64_t>(p) << step.number, dtype); }, same);
    case Kind::right_shift:
      return each(
          dtype,
          [&](I p) {
            return dtype == DType::u64 ? static_cast<I>(static_cast<std::uint64_t>(p) >> step.number)
                                       : p >> step.number;
          },
          same);
    case Kind::bit_not: return each(dtype, [&](I p) { return wrap(~static_cast<std::uint64_t>(p), dtype); }, same);
    case Kind::conj: return each(dtype, [](I p) { return p; }, [](C128 p) { return std::conj(p); });
    case Kind::real: return each(real_part_of(dtype), [](I p) { return p; }, [](C128 p) { return C128(p.real()); });
    case Kind::imag: return each(real_part_of(dtype), [](I p) { return p; }, [](C128 p) { return C128(p.imag()); });
    case Kind::sum: return wrapped_sum(a, step.number, false);
    case Kind::running_sum: return wrapped_sum(a, step.number, true);
    case Kind::largest:
      return along(a, step.number, false, [&](auto p, auto q) {
        if constexpr (std::same_as<decltype(p), C128>) return p.real() < q.real() ? q : p;
        else return precedes(dtype, p, q) ? q : p;
      });
    case Kind::any: return along(converted(a, DType::bool_), step.number, false, [](I p, I q) { return p | q; });
    case Kind::flip:
    case Kind::roll: return moved(a, step);
    default: return oracle_of_two(step, a, b);
  }
}
std::vector<Values> oracle_of(const Program& program, std::vector<Values> values) {
  for (const Step& step : program.steps()) values.push_back(oracle_step(step, values));
  std::vector<Values> out;
  for (const std::size_t i : program.outputs()) out.push_back(values[i]);
  return out;
}

// ---- comparing ------------------------------------------------------------------------------------------------------

Tensor tensor_of(const Values& x) {
  const Shape shape{x.rows, x.columns};
  if (is_complex(x.dtype)) return copy_of(x.numbers, shape).to(x.dtype);
  return visit_dtype(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const std::size_t count = x.whole.size() + x.numbers.size();
    auto elements = std::make_unique<T[]>(count + 1);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (FloatingElement<T>) elements[i] = T(static_cast<float>(x.numbers[i].real()));
      else elements[i] = static_cast<T>(x.whole[i]);
    }
    return copy_of(std::span<const T>(elements.get(), count), shape);
  });
}
std::vector<Tensor> tensors_of(const std::vector<Values>& list) {
  std::vector<Tensor> out;
  for (const Values& values : list) out.push_back(tensor_of(values));
  return out;
}

std::string difference(const Tensor& got, const Values& want) {
  if (got.dtype() != want.dtype)
    return "dtype " + std::string(name(got.dtype())) + ", should be " + std::string(name(want.dtype));
  if (!(got.shape() == Shape{want.rows, want.columns})) return "shape " + got.shape().text();
  if (want.is_whole()) {
    const auto bits =
        want.dtype == DType::u64 ? to_vector<std::int64_t>(cast(got, DType::i64)) : to_vector<std::int64_t>(got);
    return bits == want.whole ? "" : "integers differ: " + to_string(got) + " should be " + to_string(tensor_of(want));
  }
  return to_vector<C128>(got) == want.numbers
             ? ""
             : "numbers differ: " + to_string(got) + " should be " + to_string(tensor_of(want));
}
std::string difference(const std::vector<Tensor>& got, const std::vector<Values>& want) {
  for (std::size_t i = 0; i < want.size(); ++i)
    if (std::string text = difference(got[i], want[i]); !text.empty())
      return "result " + std::to_string(i) + ": " + text;
  return "";
}

void check_program(std::uint64_t seed) {
  const Program program(seed);
  const auto run = [&program](const std::vector<Tensor>& in) { return run_program(program, in); };
  const std::int64_t rows = 1 + static_cast<std::int64_t>(seed % 5),
                     columns = 1 + static_cast<std::int64_t>(seed * 7 % 37);
  const std::vector<Values> first = program.make_inputs(rows, columns, seed),
                            second = program.make_inputs(rows + 2, columns, seed + 1);
  const std::vector<Values> want = oracle_of(program, first), other = oracle_of(program, second);
  for (const Mode& mode : modes()) {
    INFO("SINTER_FUZZ_SEED=" << seed << ", " << mode.name << ", " << rows << " by " << columns << ": "
                             << program.text());
    if (mode.backend == nullptr) {
      REQUIRE(difference(run(tensors_of(first)), want) == "");
      continue;
    }
    const auto compiled = jit::compile(run, mode.options());
    REQUIRE(difference(compiled(tensors_of(first)), want) == "");
    REQUIRE(difference(compiled(tensors_of(second)), other) == "");  // code for any number of rows
  }
  if (seed % 3 != 0) return;
  INFO("SINTER_FUZZ_SEED=" << seed << ", vmap: " << program.text());
  const std::vector<Values> again = program.make_inputs(rows, columns, seed + 2);
  std::vector<Tensor> both;
  for (std::size_t i = 0; i < first.size(); ++i) both.push_back(stack({tensor_of(first[i]), tensor_of(again[i])}, 0));
  const std::vector<Tensor> batched = jit::vmap(run)(both);
  const std::vector<Values> want_again = oracle_of(program, again);
  for (std::size_t i = 0; i < batched.size(); ++i) {
    REQUIRE(difference(select(batched[i], 0, 0), want[i]) == "");
    REQUIRE(difference(select(batched[i], 0, 1), want_again[i]) == "");
  }
}

}  // namespace

TEST_CASE("fuzz: programs over all dtypes agree with C++'s numbers", "[fuzz]") { fuzz_loop(5000, check_program); }
