// Random valid kernels with extents, strides and data ranges: all kinds, mixed dtypes, broadcast, padded, permuted and
// reversed strides, empty and odd extents, several stores, in-place operands. One seed gives one case.
#pragma once

#include "kernel_case.hpp"

namespace sinter_test {

class KernelGenerator {
 public:
  explicit KernelGenerator(std::uint64_t seed) : random_(seed) { case_.seed = seed; }

  KernelCase generate() {
    choose_axes();
    if (case_.kernel.kind == KernelKind::contraction) add_contract();
    else add_guarded_loads();
    const std::int64_t steps = random_.chance(5) ? random_.integer(30, 90)
                                                 : random_.integer(1, 14);  // some need more registers than there are
    for (std::int64_t i = 0; i < steps; ++i) add_random_instruction();
    if (needs_reduction()) add_reduction();
    add_stores();
    prune(case_);
    narrow_memory();
    return case_;
  }

  /// Removes what no store needs, and numbers the rest anew.
  static void prune(KernelCase& test_case);

 private:
  using Mask = std::uint32_t;  // of axes

  Kernel& kernel() { return case_.kernel; }
  int rank() { return kernel().rank(); }
  Mask all_axes() { return (1u << rank()) - 1; }
  Mask reduced_axes() {
    Mask mask = 0;
    for (int a = 0; a < rank(); ++a) mask |= static_cast<Mask>(kernel().is_reduced(a)) << a;
    return mask;
  }
  bool needs_reduction() {
    if (kernel().kind == KernelKind::pointwise || kernel().kind == KernelKind::contraction) return false;
    return std::none_of(kernel().body.begin(), kernel().body.end(),
                        [](const Inst& i) { return is_reduction(i.prim); }) ||
           random_.chance(30);
  }

  // ---- axes -------------------------------------------------------------------------------------------------------

  void choose_axes() {
    const auto P = AxisRole::parallel, R = AxisRole::reduced;
    using Roles = std::vector<AxisRole>;
    static const std::vector<Roles> pointwise{{P}, {P}, {P, P}, {P, P, P}, {P, P, P, P}};
    static const std::vector<Roles> row{{R}, {P, R}, {P, R}, {P, R}, {P, P, R}, {P, R, R}, {R, R}};
    static const std::vector<Roles> column{{R, P}, {R, P}, {P, R, P}, {R, R, P}, {R, P, P}, {P, R, P, P}, {R, P, R, P}};
    static const std::vector<Roles> contraction{{P, P, R}, {P, P, R}, {P, P, P, R}, {P, P, P, P, R}};
    kernel().kind = random_.pick(std::vector{KernelKind::pointwise, KernelKind::row, KernelKind::row,
                                             KernelKind::column, KernelKind::contraction});
    const auto& choices = kernel().kind == KernelKind::pointwise ? pointwise
                          : kernel().kind == KernelKind::row     ? row
                          : kernel().kind == KernelKind::column  ? column
                                                                 : contraction;
    const Roles& roles = random_.pick(choices);
    kernel().axes.assign(roles.begin(), roles.end());
    std::int64_t left = random_.integer(1, 300) == 1 ? 600000 : 30000;  // a few are large enough for several threads
    for (int a = rank() - 1; a >= 0; --a) {  // the vector axis first, so that it is the long one
      const std::int64_t extent = std::min(random_extent(a == rank() - 1), std::max<std::int64_t>(left, 1));
      case_.geometry.extent[static_cast<std::size_t>(a)] = extent;
      if (extent > 0) left /= extent;
    }
  }

  std::int64_t random_extent(bool is_vector_axis) {
    static const std::vector<std::int64_t> edges{1,  2,  3,  4,  7,  8,   9,   15,  16,  17,  31,  32,   33,
                                                 47, 63, 64, 65, 96, 127, 128, 129, 255, 256, 257, 1000, 1024};
    static const std::vector<std::int64_t> long_edges{4095, 4096, 4097, 8192, 12289, 20000};
    if (random_.chance(1)) return 0;
    if (is_vector_axis && kernel().kind != KernelKind::contraction && random_.chance(8))
      return random_.pick(long_edges);
    if (!is_vector_axis && random_.chance(60)) return random_.integer(1, 12);
    return random_.chance(70) ? random_.pick(edges) : random_.integer(1, 150);
  }

  // ---- operands and accesses --------------------------------------------------------------------------------------

  DataRange random_range(DType dtype) {
    if (dtype == DType::bool_) return {0, 1};
    if (is_floating(dtype)) {
      DataRange range = random_.pick(
          std::vector<DataRange>{{-1, 1}, {-1, 1}, {0.5, 2}, {-8, 8}, {0.95, 1.05}, {-5, 5, true}, {1, 6, true}});
      range.special = random_.chance(8);
      return range;
    }
    const double lowest = dtype == DType::i32 ? -0x1p31 : -0x1p63;
    return random_.pick(
        std::vector<DataRange>{{-20, 20, true}, {1, 9, true}, {0, 50, true}, {-9, -2, true}, {lowest, -lowest, true}});
  }

  /// An access over the axes of `mask`, the rest broadcast. `gather_extent` > 0 adds the gathered axis.
  std::uint16_t add_access(std::uint16_t operand, Mask mask, bool is_store, std::int64_t gather_extent = 0) {
    struct Level {
      int axis;
      std::int64_t extent;
    };
    std::vector<Level> levels;
    for (int a = 0; a < rank(); ++a)
      if (mask >> a & 1) levels.push_back({a, case_.geometry.extent[static_cast<std::size_t>(a)]});
    if (gather_extent > 0)
      levels.insert(levels.begin() + random_.integer(0, static_cast<std::int64_t>(levels.size())), {-1, gather_extent});
    if (random_.chance(25))
      for (std::size_t i = levels.size(); i > 1; --i)
        std::swap(levels[i - 1],
                  levels[static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(i) - 1))]);
    BoundGeometry::AccessNumbers numbers;
    std::int64_t stride = random_.chance(10) ? 2 : 1, lowest = 0;
    for (std::size_t i = levels.size(); i-- > 0;) {
      const bool is_reversed = levels[i].axis >= 0 && random_.chance(4);
      if (levels[i].axis < 0) numbers.gather_stride = stride;
      else numbers.stride[static_cast<std::size_t>(levels[i].axis)] = is_reversed ? -stride : stride;
      if (is_reversed) lowest -= stride * std::max<std::int64_t>(levels[i].extent - 1, 0);
      stride *= std::max<std::int64_t>(levels[i].extent, 1);
      if (random_.chance(12)) stride += random_.integer(1, 5);
    }
    numbers.gather_extent = gather_extent;
    numbers.offset = (random_.chance(25) ? random_.integer(0, 9) : 0) - lowest;
    case_.geometry.accesses.push_back(numbers);
    kernel().accesses.push_back({operand, classes_of(numbers, is_store)});
    return static_cast<std::uint16_t>(kernel().accesses.size() - 1);
  }

  std::array<StrideClass, max_axes> classes_of(const BoundGeometry::AccessNumbers& numbers, bool is_store) {
    std::array<StrideClass, max_axes> classes{};
    for (int a = 0; a < rank(); ++a) {
      const std::int64_t stride = numbers.stride[static_cast<std::size_t>(a)];
      // A store, and every access of a contraction, says where it does not vary.
      const bool is_structural = stride == 0 && (is_store || kernel().kind == KernelKind::contraction);
      const bool hides_number = !is_structural && random_.chance(8);
      classes[static_cast<std::size_t>(a)] = hides_number  ? StrideClass::any
                                             : stride == 0 ? StrideClass::zero
                                             : stride == 1 ? StrideClass::unit
                                                           : StrideClass::any;
    }
    return classes;
  }

  std::uint16_t add_operand(DType dtype, bool is_written) {
    kernel().operands.push_back({dtype, is_written});
    case_.data.push_back(random_range(dtype));
    return static_cast<std::uint16_t>(kernel().operands.size() - 1);
  }

  Mask random_mask(Mask within) {
    if (random_.chance(55)) return within;
    return static_cast<Mask>(random_.next()) & within;
  }

  // ---- body -------------------------------------------------------------------------------------------------------

  /// Appends the instruction if every right back end must agree about it.
  InstId push(const Inst& inst) {
    const auto fact = FactJudge(case_, facts_).judge(inst);
    if (!fact) return no_inst;
    kernel().body.push_back(inst);
    facts_.push_back(*fact);
    return static_cast<InstId>(kernel().body.size() - 1);
  }

  DType random_dtype() {
    return random_.pick(std::vector{DType::f32, DType::f32, DType::f32, DType::f32, DType::f32, DType::f64, DType::f64,
                                    DType::i32, DType::i64, DType::bool_});
  }

  /// A contraction's other instructions live on its parallel axes.
  Mask load_axes() { return kernel().kind == KernelKind::contraction ? all_axes() & ~reduced_axes() : all_axes(); }

  InstId add_load(DType dtype) {
    const std::uint16_t access = add_access(add_operand(dtype, false), random_mask(load_axes()), false);
    return push({.prim = Prim::load, .dtype = dtype, .access = access});
  }
  InstId add_immediate(DType dtype) {
    static const std::vector<double> numbers{0, 1, 2, 3, -1, 0.5, -2.5, 0.1};
    const double number = random_.pick(numbers);
    const auto whole = static_cast<std::int64_t>(dtype == DType::bool_ ? number != 0 : number);
    const double rounded = dtype == DType::f32 ? static_cast<float>(number) : number;
    return push(
        {.prim = Prim::immediate,
         .dtype = dtype,
         .bits = is_floating(dtype) ? std::bit_cast<std::uint64_t>(rounded) : static_cast<std::uint64_t>(whole)});
  }

  bool may_use(InstId id) {  // what feeds `contract` is not part of the epilogue
    return kernel().kind != KernelKind::contraction || id >= contract_;
  }

  /// An existing value of the dtype, mostly a late one, or a new load or immediate.
  InstId any_value(DType dtype) {
    std::vector<InstId> found;
    for (std::size_t i = 0; i < kernel().body.size(); ++i)
      if (kernel().body[i].dtype == dtype && may_use(static_cast<InstId>(i))) found.push_back(static_cast<InstId>(i));
    if (found.empty() || random_.chance(25))
      return random_.chance(75) && kernel().operands.size() < 18 ? add_load(dtype) : add_immediate(dtype);
    return random_.chance(50) ? found.back() : random_.pick(found);
  }

  void add_random_instruction() {
    const std::int64_t kind = random_.integer(0, 99);
    if (kind < 5) add_index_or_random();
    else if (kind < 11) add_gather();
    else if (kind < 25) add_convert();
    else if (kind < 40 && kernel().kind != KernelKind::pointwise && kernel().kind != KernelKind::contraction)
      add_reduction();
    else add_map();
  }

  void add_map() {
    static const std::vector<Prim> on_any{Prim::add, Prim::sub, Prim::mul, Prim::fma, Prim::min,
                                          Prim::max, Prim::neg, Prim::abs, Prim::div, Prim::rem,
                                          Prim::eq,  Prim::ne,  Prim::lt,  Prim::le,  Prim::select};
    static const std::vector<Prim> on_floats{Prim::floor, Prim::ceil, Prim::round, Prim::trunc, Prim::sqrt,
                                             Prim::rsqrt, Prim::exp,  Prim::log,   Prim::sin,   Prim::cos,
                                             Prim::tanh,  Prim::erf,  Prim::pow};
    static const std::vector<Prim> on_whole{Prim::and_, Prim::or_, Prim::xor_, Prim::not_};
    static const std::vector<Prim> on_bools{Prim::and_, Prim::or_,  Prim::xor_, Prim::not_, Prim::and_,  Prim::or_,
                                            Prim::xor_, Prim::not_, Prim::add,  Prim::mul,  Prim::min,   Prim::max,
                                            Prim::eq,   Prim::ne,   Prim::lt,   Prim::le,   Prim::select};
    for (int attempt = 0; attempt < 4; ++attempt) {
      const DType dtype = random_dtype();
      const bool is_special = random_.chance(35);
      const Prim prim = random_.pick(dtype == DType::bool_ ? on_bools
                                     : !is_special         ? on_any
                                     : is_floating(dtype)  ? on_floats
                                                           : on_whole);
      Inst inst{.prim = prim, .dtype = is_comparison(prim) ? DType::bool_ : dtype};
      bool is_complete = true;
      for (std::size_t k = 0; k < static_cast<std::size_t>(arity(prim)); ++k) {
        inst.args[k] = any_value(prim == Prim::select && k == 0 ? DType::bool_ : dtype);
        is_complete = is_complete && inst.args[k] != no_inst;
      }
      if (is_complete && push(inst) != no_inst) return;
    }
  }

  void add_convert() {
    const InstId from = any_value(random_dtype());
    const DType to = random_dtype();
    if (from != no_inst && kernel().body[from].dtype != to)
      push({.prim = Prim::convert, .dtype = to, .args = {from, no_inst, no_inst}});
  }

  void add_index_or_random() {
    const auto axis =
        static_cast<std::uint64_t>(random_.integer(0, rank() - 1 - (kernel().kind == KernelKind::contraction)));
    const InstId index = push({.prim = Prim::index, .dtype = DType::i64, .bits = axis});
    if (!random_.chance(40)) return;
    const InstId key = any_value(DType::i64), counter = any_value(DType::i64);
    if (key != no_inst && counter != no_inst)
      push({.prim = Prim::random_bits, .dtype = DType::i64, .args = {key, counter, index}});
  }

  void add_gather() {
    const DType index_dtype = random_.chance(50) ? DType::i32 : DType::i64;
    InstId index = no_inst;
    for (std::size_t i = kernel().body.size(); i-- > 0 && index == no_inst;)
      if (kernel().body[i].dtype == index_dtype && may_use(static_cast<InstId>(i)) && facts_[i].low >= 0 &&
          facts_[i].high < 3000)
        index = static_cast<InstId>(i);
    if (index == no_inst) {
      const std::uint16_t operand = add_operand(index_dtype, false);
      case_.data[operand] = {0, static_cast<double>(random_.integer(0, 40)), true};
      index = push(
          {.prim = Prim::load, .dtype = index_dtype, .access = add_access(operand, random_mask(load_axes()), false)});
    }
    const std::int64_t extent = static_cast<std::int64_t>(facts_[index].high) + random_.integer(1, 3);
    const Mask mask = random_.chance(40) ? 0 : random_mask(load_axes()) & ((1u << random_.integer(0, rank())) - 1);
    std::int64_t elements = extent;
    for (int a = 0; a < rank(); ++a)
      elements *= mask >> a & 1 ? std::max<std::int64_t>(case_.geometry.extent[static_cast<std::size_t>(a)], 1) : 1;
    const DType dtype = random_dtype();
    const std::uint16_t access = add_access(add_operand(dtype, false), elements > 200000 ? 0 : mask, false, extent);
    push({.prim = Prim::gather, .dtype = dtype, .args = {index, no_inst, no_inst}, .access = access});
  }

  /// From the seed, so that all else is what it would be without.
  void add_guarded_loads() {
    Random guards(case_.seed ^ 0x6A4D);
    if (!guards.chance(25)) return;
    std::swap(random_, guards);
    for (std::int64_t i = random_.integer(1, 3); i > 0; --i) add_guarded_load();
    std::swap(random_, guards);
  }

  void add_guarded_load() {
    const DType dtype = random_dtype();
    const Mask mask = random_mask(load_axes());
    const std::uint16_t access = add_access(add_operand(dtype, false), mask, false);
    BoundGeometry::AccessNumbers& numbers = case_.geometry.accesses[access];
    GuardBox box;
    InstId condition = no_inst;
    const auto require = [&](Prim relation, InstId left, InstId right) {
      const InstId holds = push({.prim = relation, .dtype = DType::bool_, .args = {left, right, no_inst}});
      condition = condition == no_inst
                      ? holds
                      : push({.prim = Prim::and_, .dtype = DType::bool_, .args = {condition, holds, no_inst}});
    };
    for (int a = 0; a < rank(); ++a) {
      const auto k = static_cast<std::size_t>(a);
      const std::int64_t extent = case_.geometry.extent[k];
      box.high[k] = extent;
      if (random_.chance(40) && condition != no_inst) continue;
      box.low[k] =
          random_.chance(50) ? random_.integer(0, std::min<std::int64_t>(extent, 3)) : random_.integer(0, extent);
      box.high[k] = random_.chance(50) ? std::max(box.low[k], extent - random_.integer(0, 3))
                                       : random_.integer(box.low[k], extent);
      const InstId index = push({.prim = Prim::index, .dtype = DType::i64, .bits = static_cast<std::uint64_t>(a)});
      require(Prim::le, add_whole(box.low[k]), index);
      require(Prim::lt, index, add_whole(box.high[k]));
      if (extent > 0)
        numbers.offset -= std::min(numbers.stride[k] * box.low[k], numbers.stride[k] * (box.high[k] - 1)) -
                          std::min<std::int64_t>(0, numbers.stride[k] * (extent - 1));
    }
    case_.guards.resize(kernel().accesses.size());
    case_.guards[access] = box;
    const InstId fill = random_.chance(50) ? add_immediate(dtype) : any_value(dtype);
    if (fill == no_inst) return;
    push({.prim = Prim::guarded_load,
          .dtype = dtype,
          .args = {condition, fill, no_inst},
          .access = access,
          .bits = static_cast<std::uint64_t>(random_.integer(0, 2))});  // a hint, which may be wrong
  }
  InstId add_whole(std::int64_t number) {
    return push({.prim = Prim::immediate, .dtype = DType::i64, .bits = static_cast<std::uint64_t>(number)});
  }

  void add_reduction() {
    if (random_.chance(20) && add_fold()) return;
    for (int attempt = 0; attempt < 8; ++attempt) {
      const DType dtype = random_.chance(80) ? (random_.chance(75) ? DType::f32 : DType::f64)
                                             : random_.pick(std::vector{DType::i32, DType::i64, DType::bool_});
      const Prim prim = random_.pick(std::vector{Prim::reduce_add, Prim::reduce_add, Prim::reduce_add, Prim::reduce_max,
                                                 Prim::reduce_min, Prim::reduce_mul});
      const InstId value = any_value(dtype);
      if (value != no_inst && push({.prim = prim, .dtype = dtype, .args = {value, no_inst, no_inst}}) != no_inst)
        return;
    }
  }

  /// A ready fold with state, and some of its results.
  bool add_fold() {
    const FoldRow& row = fold_rows()[static_cast<std::size_t>(random_.integer(0, std::ssize(fold_rows()) - 1))];
    const DType dtype = random_.pick(std::vector{DType::f32, DType::f32, DType::f64, DType::i32, DType::i64});
    if (!is_floating(dtype) && !row.takes_integers) return false;
    const ScalarFold fold = row.make(dtype);
    Inst inst{.prim = Prim::fold, .access = static_cast<std::uint16_t>(kernel().folds.size())};
    inst.args.fill(any_value(dtype));
    if (fold.arguments.size() > 1) inst.args[1] = row.name == "softmax_mean" ? any_value(dtype) : reduced_index();
    if (inst.args[0] == no_inst || inst.args[1] == no_inst) return false;
    kernel().folds.push_back(fold);
    bool has_result = false;
    for (std::size_t r = 0; r < fold.finish.results.size(); ++r) {
      if (has_result && random_.chance(40)) continue;
      inst.dtype = fold.result(r);
      inst.bits = r;
      has_result |= push(inst) != no_inst;
    }
    if (!has_result) kernel().folds.pop_back();
    return has_result;
  }
  /// The index along the reduced axis; nothing where there are several.
  InstId reduced_index() {
    if (std::count(kernel().axes.begin(), kernel().axes.end(), AxisRole::reduced) != 1) return no_inst;
    const auto axis = std::find(kernel().axes.begin(), kernel().axes.end(), AxisRole::reduced) - kernel().axes.begin();
    return push({.prim = Prim::index, .dtype = DType::i64, .bits = static_cast<std::uint64_t>(axis)});
  }

  void add_contract() {
    const DType dtype = random_.pick(std::vector{DType::f32, DType::f32, DType::f32, DType::f64, DType::i32});
    // From the seed, so that all else is what it would be without.
    if (dtype == DType::f32)
      kernel().precision = Random(case_.seed ^ 0x7F32)
                               .pick(std::vector{MatmulPrecision::f32, MatmulPrecision::f32, MatmulPrecision::tf32x3,
                                                 MatmulPrecision::tf32});
    const Mask k = 1u << (rank() - 1), n = 1u << (rank() - 2), m = 1u << (rank() - 3), batch = m - 1;
    const bool has_prologue = random_.chance(25);
    for (;;) {
      case_.data.clear(), case_.geometry.accesses.clear(), kernel().operands.clear(), kernel().accesses.clear(),
          kernel().body.clear(), facts_.clear();
      std::array<InstId, 3> operands{no_inst, no_inst, no_inst};
      for (std::size_t i = 0; i < 2; ++i) {
        const Mask mask = (i == 0 ? m : n) | k | (random_.chance(70) ? batch : 0);
        if (has_prologue && random_.chance(60)) {
          operands[i] = add_computed_operand(dtype, mask);
          continue;
        }
        const std::uint16_t operand = add_operand(dtype, false);
        operands[i] = push({.prim = Prim::load, .dtype = dtype, .access = add_access(operand, mask, false)});
      }
      if (operands[0] == no_inst || operands[1] == no_inst) continue;
      contract_ = push({.prim = Prim::contract, .dtype = dtype, .args = operands});
      if (contract_ != no_inst) return;
    }
  }

  /// Maps of loads over (parts of) the axes of `mask`; no_inst where back ends might disagree about one.
  InstId add_computed_operand(DType dtype, Mask mask) {
    const auto load = [&](DType type, Mask over) {
      return push({.prim = Prim::load, .dtype = type, .access = add_access(add_operand(type, false), over, false)});
    };
    const auto other = [&](DType type) {
      const std::int64_t kind = random_.integer(0, 9);
      if (kind < 2) return add_immediate(type);
      if (kind < 8) return load(type, random_mask(mask));
      std::vector<std::uint64_t> axes;
      for (int a = 0; a < rank(); ++a)
        if (mask >> a & 1) axes.push_back(static_cast<std::uint64_t>(a));
      const InstId index = push({.prim = Prim::index, .dtype = DType::i64, .bits = random_.pick(axes)});
      return type == DType::i64 ? index
                                : push({.prim = Prim::convert, .dtype = type, .args = {index, no_inst, no_inst}});
    };
    const DType from = random_.chance(60)
                           ? dtype
                           : random_.pick(std::vector{DType::f32, DType::f64, DType::i32, DType::i64, DType::bool_});
    InstId value = load(from, mask);
    if (value != no_inst && from != dtype)
      value = push({.prim = Prim::convert, .dtype = dtype, .args = {value, no_inst, no_inst}});
    for (std::int64_t left = random_.integer(0, 3); left > 0 && value != no_inst; --left) {
      static const std::vector<Prim> maps{Prim::add, Prim::sub, Prim::mul, Prim::min,   Prim::max,
                                          Prim::neg, Prim::abs, Prim::fma, Prim::select};
      Inst inst{.prim = random_.pick(maps), .dtype = dtype};
      for (std::size_t k = 0; k < static_cast<std::size_t>(arity(inst.prim)); ++k)
        inst.args[k] = k + 1 == static_cast<std::size_t>(arity(inst.prim))
                           ? value
                           : other(inst.prim == Prim::select && k == 0 ? DType::bool_ : dtype);
      for (int k = 0; k < arity(inst.prim); ++k)
        if (inst.args[static_cast<std::size_t>(k)] == no_inst) return no_inst;
      value = push(inst);
    }
    return value;
  }

  // ---- stores -----------------------------------------------------------------------------------------------------

  void add_stores() {
    const std::int64_t count = random_.integer(1, 3);
    std::vector<InstId> chosen;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto last = static_cast<std::int64_t>(kernel().body.size()) - 1;
      auto value = static_cast<InstId>(i == 0 ? last : random_.integer(0, last));
      if (!may_use(value)) value = static_cast<InstId>(last);
      if (std::find(chosen.begin(), chosen.end(), value) == chosen.end()) {
        chosen.push_back(value);
        add_store(value);
      }
    }
    if (kernel().kind == KernelKind::contraction && !stores_need(contract_)) add_store(contract_);
  }

  bool stores_need(InstId id) {
    std::vector<bool> needs(kernel().body.size());
    needs[id] = true;
    for (std::size_t i = id + 1u; i < needs.size(); ++i)
      for (int k = 0; k < arity(kernel().body[i].prim); ++k)
        needs[i] = needs[i] || needs[kernel().body[i].args[static_cast<std::size_t>(k)]];
    return std::any_of(kernel().stores.begin(), kernel().stores.end(),
                       [&](const Store& store) { return needs[store.value]; });
  }

  void add_store(InstId value) {
    const DType dtype = kernel().body[value].dtype;
    const bool is_inner = (varying_axes(kernel())[value] & reduced_axes()) != 0;
    const Mask mask = is_inner ? all_axes() : all_axes() & ~reduced_axes();
    const std::uint16_t operand = add_operand(dtype, true);
    const std::uint16_t access = add_access(operand, mask, true);
    kernel().stores.push_back({access, value});
    if (random_.chance(20)) make_in_place(kernel().stores.size() - 1, access);
    else if (random_.chance(20) && (!is_inner || kernel().kind == KernelKind::pointwise))
      share_memory(kernel().stores.size() - 1);
  }

  /// Has the stored value read, through another operand, the memory that the store overwrites.
  void share_memory(std::size_t store) {
    const std::uint16_t written = kernel().accesses[kernel().stores[store].access].operand;
    const DType dtype = kernel().operands[written].dtype;
    if (dtype == DType::bool_) return;
    const std::uint16_t read = add_operand(dtype, false);
    const BoundGeometry::AccessNumbers numbers = case_.geometry.accesses[kernel().stores[store].access];
    case_.geometry.accesses.push_back(numbers);
    kernel().accesses.push_back({read, classes_of(numbers, true)});
    const InstId old =
        push({.prim = Prim::load, .dtype = dtype, .access = static_cast<std::uint16_t>(kernel().accesses.size() - 1)});
    const InstId sum = push({.prim = random_.chance(50) ? Prim::sub : Prim::min,
                             .dtype = dtype,
                             .args = {old, kernel().stores[store].value, no_inst}});
    if (sum == no_inst) return;
    kernel().stores[store].value = sum;
    case_.data[written].memory_of = read;
  }

  /// Has the stored value read the element that the store overwrites.
  void make_in_place(std::size_t store, std::uint16_t access) {
    const DType dtype = kernel().operands[kernel().accesses[access].operand].dtype;
    if (dtype == DType::bool_) return;
    const InstId old = push({.prim = Prim::load, .dtype = dtype, .access = access});
    const InstId sum = push({.prim = random_.chance(50) ? Prim::add : Prim::max,
                             .dtype = dtype,
                             .args = {old, kernel().stores[store].value, no_inst}});
    if (sum != no_inst) kernel().stores[store].value = sum;
  }

  /// Some operands lie in memory in a dtype that is computed in the one their values have. From the seed, so that all
  /// else is what it would be without. Integers are only read, as what is stored must be a number of the dtype; but any
  /// i64 has the bits of a u64.
  void narrow_memory() {
    Random narrowing(case_.seed ^ 0x1B8F);
    if (!narrowing.chance(30)) return;
    for (std::size_t i = 0; i < kernel().operands.size(); ++i) {
      Operand& operand = kernel().operands[i];
      DataRange& range = case_.data[i];
      const bool shares = range.memory_of >= 0 ||
                          std::any_of(case_.data.begin(), case_.data.end(),
                                      [&](const DataRange& other) { return other.memory_of == static_cast<int>(i); });
      if (shares || !narrowing.chance(50)) continue;
      std::vector<DType> narrow;
      for (DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::u64, DType::f16, DType::bf16,
                          DType::f8e4m3, DType::f8e5m2}) {
        const bool fits =
            is_floating(dtype) || std::max(range.low, static_cast<double>(tensor_detail::lowest(dtype))) <=
                                      std::min(range.high, static_cast<double>(tensor_detail::greatest(dtype)));
        if (computed_in(dtype) == operand.dtype && fits &&
            (is_floating(dtype) || dtype == DType::u64 || !operand.written))
          narrow.push_back(dtype);
      }
      if (narrow.empty()) continue;
      operand.dtype = narrowing.pick(narrow);
      if (is_floating(operand.dtype)) continue;
      range.low = std::max(range.low, static_cast<double>(tensor_detail::lowest(operand.dtype)));
      range.high = std::min(range.high, static_cast<double>(tensor_detail::greatest(operand.dtype)));
    }
  }

  Random random_;
  KernelCase case_;
  std::vector<Facts> facts_;
  InstId contract_ = no_inst;  // of a contraction
};

inline void KernelGenerator::prune(KernelCase& test_case) {
  const KernelCase old = test_case;
  const Kernel& from = old.kernel;
  Kernel& kernel = test_case.kernel;
  std::vector<bool> is_live(from.body.size());
  for (const Store& store : from.stores) is_live[store.value] = true;
  for (std::size_t i = from.body.size(); i-- > 0;)
    for (int k = 0; is_live[i] && k < arity(from.body[i].prim); ++k)
      is_live[from.body[i].args[static_cast<std::size_t>(k)]] = true;

  kernel.body.clear();
  kernel.operands.clear();
  kernel.accesses.clear();
  kernel.stores.clear();
  test_case.data.clear();
  test_case.geometry.accesses.clear();
  test_case.guards.clear();
  std::vector<std::uint16_t> new_operand(from.operands.size(), no_inst), new_access(from.accesses.size(), no_inst);
  std::vector<InstId> new_id(from.body.size(), no_inst);
  const auto keep_access = [&](std::uint16_t access) {
    if (new_access[access] != no_inst) return new_access[access];
    const std::uint16_t operand = from.accesses[access].operand;
    if (new_operand[operand] == no_inst) {
      new_operand[operand] = static_cast<std::uint16_t>(kernel.operands.size());
      kernel.operands.push_back(from.operands[operand]);
      test_case.data.push_back(old.data[operand]);
    }
    new_access[access] = static_cast<std::uint16_t>(kernel.accesses.size());
    kernel.accesses.push_back(from.accesses[access]);
    kernel.accesses.back().operand = new_operand[operand];
    test_case.geometry.accesses.push_back(old.geometry.accesses[access]);
    test_case.guards.push_back(access < old.guards.size() ? old.guards[access] : std::nullopt);
    return new_access[access];
  };
  for (std::size_t i = 0; i < from.body.size(); ++i) {
    if (!is_live[i]) continue;
    Inst inst = from.body[i];
    for (int k = 0; k < arity(inst.prim); ++k)
      inst.args[static_cast<std::size_t>(k)] = new_id[inst.args[static_cast<std::size_t>(k)]];
    if (reads_memory(inst.prim)) inst.access = keep_access(inst.access);
    new_id[i] = static_cast<InstId>(kernel.body.size());
    kernel.body.push_back(inst);
  }
  for (const Store& store : from.stores) kernel.stores.push_back({keep_access(store.access), new_id[store.value]});
  for (DataRange& range : test_case.data) {
    if (range.memory_of < 0) continue;
    const std::uint16_t owner = new_operand[static_cast<std::size_t>(range.memory_of)];
    range.memory_of = owner == no_inst ? -1 : owner;
  }
  for (Operand& operand : kernel.operands) operand.written = false;
  for (const Store& store : kernel.stores) kernel.operands[kernel.accesses[store.access].operand].written = true;
}

}  // namespace sinter_test
