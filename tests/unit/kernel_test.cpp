// Kernels as data: verification, text, hash, equality and key, axes that values vary over, binding; and ScalarBuilder.
#include "../catch.hpp"

#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/kernel_key.hpp>

#include <functional>

using namespace sinter;

namespace {

constexpr AxisRole P = AxisRole::parallel, R = AxisRole::reduced;

Access access(std::uint16_t operand, std::initializer_list<StrideClass> strides) {
  Access result{operand, {}};
  std::copy(strides.begin(), strides.end(), result.stride.begin());
  return result;
}
constexpr StrideClass zero = StrideClass::zero, unit = StrideClass::unit, any_stride = StrideClass::any;

/// y = x / sum(x) over rows.
Kernel normalise_rows() {
  Kernel k;
  k.kind = KernelKind::row;
  k.axes = {P, R};
  k.operands = {{DType::f32, false}, {DType::f32, true}};
  k.accesses = {access(0, {any_stride, unit}), access(1, {any_stride, unit})};
  ScalarBuilder s;
  const ScalarValue x = s.load(0, DType::f32), y = s.div(x, s.reduce(Prim::reduce_add, x));
  k.body = s.take();
  k.stores = {{1, y.id}};
  return k;
}

/// c = a b + bias.
Kernel linear() {
  Kernel k;
  k.kind = KernelKind::contraction;
  k.axes = {P, P, R};
  k.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, false}, {DType::f32, true}};
  k.accesses = {access(0, {any_stride, zero, unit}), access(1, {zero, unit, any_stride}), access(2, {zero, unit, zero}),
                access(3, {any_stride, unit, zero})};
  ScalarBuilder s;
  const ScalarValue a = s.load(0, DType::f32), b = s.load(1, DType::f32);
  const ScalarValue product = s.contract(a, b);
  const ScalarValue sum = s.add(product, s.load(2, DType::f32));
  k.body = s.take();
  k.stores = {{3, sum.id}};
  return k;
}

/// c = (a * scale + shift) b: two more buffers, over k and over m and k, in the left operand.
Kernel with_prologue() {
  Kernel k;
  k.kind = KernelKind::contraction;
  k.axes = {P, P, R};
  k.operands = {{DType::f32, false}, {DType::f32, false}, {DType::f32, false}, {DType::f32, false}, {DType::f32, true}};
  k.accesses = {access(0, {any_stride, zero, unit}), access(1, {zero, unit, any_stride}), access(2, {zero, zero, unit}),
                access(3, {any_stride, zero, unit}), access(4, {any_stride, unit, zero})};
  ScalarBuilder s;
  const ScalarValue a = s.fma(s.load(0, DType::f32), s.load(2, DType::f32), s.load(3, DType::f32));
  const ScalarValue product = s.contract(a, s.load(1, DType::f32));
  k.body = s.take();
  k.stores = {{4, product.id}};
  return k;
}

std::string error_of(const Kernel& kernel) {
  try {
    verify(kernel);
  } catch (const InternalError& error) {
    const std::string text = error.what();
    const auto begin = text.find("kernel: ") + 8;
    return text.substr(begin, text.find(" [") - begin);
  }
  return {};
}

std::string error_after(Kernel kernel, const std::function<void(Kernel&)>& change) {
  change(kernel);
  return error_of(kernel);
}

}  // namespace

TEST_CASE("kernel: verify accepts what is right") {
  CHECK(error_of(normalise_rows()).empty());
  CHECK(error_of(linear()).empty());
  CHECK(error_of(with_prologue()).empty());
  Kernel quick = linear();
  quick.precision = MatmulPrecision::tf32;
  CHECK(error_of(quick).empty());
}

TEST_CASE("kernel: verify names what is wrong") {
  const Kernel row = normalise_rows(), product = linear();
  CHECK(error_after(row, [](Kernel& k) { k.axes.clear(); }) == "rank out of range");
  CHECK(error_after(row, [](Kernel& k) { k.body[1].args[0] = 1; }) == "argument used before it is made");
  CHECK(error_after(row, [](Kernel& k) { k.body[0].access = 2; }) == "access out of range");
  CHECK(error_after(row, [](Kernel& k) { k.operands[0].dtype = DType::i32; }) == "load of another dtype");
  CHECK(error_after(row, [](Kernel& k) { k.accesses[1].operand = 9; }) == "operand out of range");
  CHECK(error_after(row, [](Kernel& k) { k.stores[0].value = 40; }) == "bad store");
  CHECK(error_after(row, [](Kernel& k) { k.stores[0].access = 2; }) == "bad store");
  CHECK(error_after(row, [](Kernel& k) { k.operands[1].written = false; }) == "store of another dtype");
  CHECK(error_after(row, [](Kernel& k) { k.operands[1].dtype = DType::f64; }) == "store of another dtype");
  CHECK(error_after(row, [](Kernel& k) { k.kind = KernelKind::pointwise; }) == "pointwise with a reduction");
  CHECK(error_after(row, [](Kernel& k) { k.axes = {R, P}; }) == "row without a reduced vector axis");
  CHECK(error_after(row, [](Kernel& k) { k.kind = KernelKind::column; }) == "not a column kernel");
  CHECK(error_after(row, [](Kernel& k) { k.kind = KernelKind::contraction; }) == "not a contraction");
  CHECK(error_after(product, [](Kernel& k) { k.kind = KernelKind::row; }) == "row without a reduced vector axis");
  CHECK(error_after(product, [](Kernel& k) { k.axes = {P, R, P}; }) == "not a contraction");
  const char* no_f32_product = "a precision without a product of f32";
  CHECK(error_after(row, [](Kernel& k) { k.precision = MatmulPrecision::tf32x3; }) == no_f32_product);
  const auto in_f64 = [](Kernel& k) {
    for (Operand& operand : k.operands) operand.dtype = DType::f64;
    for (Inst& inst : k.body) inst.dtype = DType::f64;
  };
  CHECK(error_after(product, in_f64).empty());
  CHECK(error_after(product, [&](Kernel& k) { in_f64(k), k.precision = MatmulPrecision::tf32; }) == no_f32_product);
}

TEST_CASE("kernel: verify knows what may come before a product") {
  const Kernel product = with_prologue();
  // Varying over less is fine; over the other operand's axis is not.
  CHECK(error_after(product, [](Kernel& k) { k.accesses[3].stride[2] = zero; }).empty());
  CHECK(error_after(product, [](Kernel& k) { k.accesses[3].stride[1] = any_stride; }) ==
        "a computed operand varies over both m and n");
  CHECK(error_after(product, [](Kernel& k) { k.accesses[0].stride = k.accesses[3].stride = k.accesses[1].stride; }) ==
        "a computed operand varies over the other operand's axis");
  CHECK(error_after(product, [](Kernel& k) {
          k.body.insert(k.body.begin(), Inst{.prim = Prim::immediate, .dtype = DType::i64});
          for (std::size_t i = 1; i < k.body.size(); ++i)
            for (InstId& arg : k.body[i].args) arg = static_cast<InstId>(arg == no_inst ? no_inst : arg + 1);
          k.body[2].prim = Prim::gather;
          k.body[2].args[0] = 0;
          ++k.stores[0].value;
        }) == "an operand with a gather");
}

TEST_CASE("kernel: guarded loads print, and fold where the condition is known") {
  Kernel kernel;
  kernel.axes = {AxisRole::parallel};
  kernel.operands = {{DType::f32, false}, {DType::f32, true}};
  kernel.accesses.resize(2);
  kernel.accesses[0].stride[0] = kernel.accesses[1].stride[0] = StrideClass::unit;
  kernel.accesses[1].operand = 1;
  ScalarBuilder builder;
  const ScalarValue index = builder.index(0), three = builder.imm_int(3, DType::i64);
  const ScalarValue condition = builder.lt(index, three), fill = builder.imm(7, DType::f32);
  CHECK(builder.guarded_load(0, DType::f32, builder.imm_int(0, DType::bool_), fill).id == fill.id);
  const ScalarValue always = builder.guarded_load(0, DType::f32, builder.imm_int(1, DType::bool_), fill);
  CHECK(builder.body()[always.id].prim == Prim::load);
  const ScalarValue value = builder.guarded_load(0, DType::f32, condition, fill, Usually::fails);
  kernel.body = builder.take();
  kernel.stores.push_back({1, value.id});
  CHECK_NOTHROW(verify(kernel));
  CHECK(kernel.text().find("f32 guarded_load p0[1] seldom if %2 else %3") != std::string::npos);
  Kernel other = kernel;
  other.body[value.id].bits = 0;
  CHECK(other.hash() != kernel.hash());
  CHECK(error_after(kernel, [&](Kernel& k) { k.body[value.id].args[0] = fill.id; }) ==
        "a guarded load with a condition or fill of another dtype");
}

TEST_CASE("kernel: text") {
  CHECK(normalise_rows().text() ==
        "kernel row axes(a0, reduced a1) operands(p0: f32, out p1: f32) {\n"
        "  %0 = f32 load p0[n1]\n"
        "  %1 = f32 reduce_add %0\n"
        "  %2 = f32 div %0, %1\n"
        "  store p1[n1], %2\n"
        "}\n");
  Kernel k = normalise_rows();
  ScalarBuilder s;
  s.imm(0.5, DType::f32);
  s.imm_int(-3, DType::i64);
  s.gather(0, DType::f32, s.index(1));
  k.body = s.take();
  k.stores.clear();
  CHECK(k.text() ==
        "kernel row axes(a0, reduced a1) operands(p0: f32, out p1: f32) {\n"
        "  %0 = f32 immediate 0.5\n"
        "  %1 = i64 immediate -3\n"
        "  %2 = i64 index a1\n"
        "  %3 = f32 gather p0[n1] %2\n"
        "}\n");
  Kernel quick = linear();
  CHECK(quick.text().starts_with("kernel contraction axes(a0, a1, reduced a2)"));
  quick.precision = MatmulPrecision::tf32x3;
  CHECK(quick.text().starts_with("kernel contraction in tf32x3 axes(a0, a1, reduced a2)"));
}

TEST_CASE("kernel: every part of the structure counts in equality and hash") {
  const Kernel original = normalise_rows();
  CHECK(original == normalise_rows());
  CHECK(original.hash() == normalise_rows().hash());
  const std::function<void(Kernel&)> changes[] = {
      [](Kernel& k) { k.kind = KernelKind::column; },
      [](Kernel& k) { k.axes = {R, R}; },
      [](Kernel& k) { k.axes.push_back(P); },
      [](Kernel& k) { k.operands[0].dtype = DType::f64; },
      [](Kernel& k) { k.operands[0].written = true; },
      [](Kernel& k) { k.accesses[0].stride[1] = any_stride; },
      [](Kernel& k) { k.accesses[0].operand = 1; },
      [](Kernel& k) { k.accesses.pop_back(); },
      [](Kernel& k) { k.body[1].prim = Prim::reduce_max; },
      [](Kernel& k) { k.body[2].args = {1, 0, no_inst}; },
      [](Kernel& k) { k.body[2].dtype = DType::f64; },
      [](Kernel& k) { k.body[0].bits = 1; },
      [](Kernel& k) { k.stores[0].value = 0; },
      [](Kernel& k) { k.stores.push_back({1, 0}); },
      [](Kernel& k) { k.precision = MatmulPrecision::tf32x3; },
      [](Kernel& k) { k.precision = MatmulPrecision::tf32; },
  };
  std::vector<Hash128> hashes{original.hash()};
  for (const auto& change : changes) {
    Kernel changed = original;
    change(changed);
    CHECK_FALSE(changed == original);
    CHECK(std::find(hashes.begin(), hashes.end(), changed.hash()) == hashes.end());
    hashes.push_back(changed.hash());
  }
}

TEST_CASE("kernel: what a scan needs") {
  const auto scanned = [] {
    Kernel k;
    k.kind = KernelKind::row;
    k.axes = {P, R};
    k.operands = {{DType::f32, false}, {DType::f32, true}};
    k.accesses = {{0, {StrideClass::any, StrideClass::unit}}, {1, {StrideClass::any, StrideClass::unit}}};
    ScalarBuilder s;
    const ScalarValue sum = s.scan(Prim::scan_add, s.load(0, DType::f32), true);
    k.body = s.take();
    k.stores = {{1, sum.id}};
    return k;
  };
  const Kernel good = scanned();
  verify(good);
  CHECK(good.text().find("scan_add exclusive %0") != std::string::npos);
  CHECK(varying_axes(good)[1] == 0b11u);
  Kernel inclusive = good;
  inclusive.body[1].bits = 0;
  CHECK(inclusive.hash() != good.hash());
  const std::function<void(Kernel&)> mistakes[] = {
      [](Kernel& k) { k.axes = {R, R}; },
      [](Kernel& k) { k.body[1].bits = 2; },
      [](Kernel& k) { k.orders = {standard_order(KernelKind::row, true)}; },
      [](Kernel& k) {
        k.body.push_back({.prim = Prim::reduce_add, .dtype = DType::f32, .args = {0, no_inst, no_inst}});
      },
  };
  for (const auto& change : mistakes) {
    Kernel bad = good;
    change(bad);
    CHECK_THROWS_AS(verify(bad), InternalError);
  }
}

TEST_CASE("kernel: axes that a value varies over") {
  CHECK(varying_axes(normalise_rows()) == std::vector<std::uint32_t>{0b11, 0b01, 0b11});
  CHECK(varying_axes(linear()) == std::vector<std::uint32_t>{0b101, 0b110, 0b011, 0b010, 0b011});
  Kernel k = normalise_rows();
  ScalarBuilder s;
  const ScalarValue gathered = s.gather(1, DType::f32, s.index(0));
  s.reduce(Prim::reduce_max, gathered);
  s.imm(1, DType::f32);
  k.accesses[1] = access(1, {zero, any_stride});
  k.body = s.take();
  CHECK(varying_axes(k) == std::vector<std::uint32_t>{0b01, 0b11, 0b01, 0b00});
}

TEST_CASE("kernel: binding evaluates every number") {
  const Dim rows = Dim::symbol(0), columns = Dim::symbol(1);
  SymbolicGeometry geometry;
  geometry.extent[0] = rows;
  geometry.extent[1] = columns;
  geometry.accesses.resize(1);
  geometry.accesses[0].stride[0] = columns;
  geometry.accesses[0].stride[1] = 1;
  geometry.accesses[0].offset = rows * columns / 2;
  geometry.accesses[0].gather_extent = rows + 1;
  geometry.accesses[0].gather_stride = 2 * columns;
  const BoundGeometry bound = sinter::bind(geometry, std::vector<std::int64_t>{3, 5});
  CHECK((bound.extent[0] == 3 && bound.extent[1] == 5 && bound.extent[2] == 0));
  REQUIRE(bound.accesses.size() == 1);
  BoundGeometry::AccessNumbers expected;
  expected.stride[0] = 5;
  expected.stride[1] = 1;
  expected.offset = 7;
  expected.gather_extent = 4;
  expected.gather_stride = 10;
  CHECK(bound.accesses[0] == expected);
}

TEST_CASE("ScalarBuilder: equal instructions are built once, immediates fold") {
  ScalarBuilder s;
  const ScalarValue x = s.load(0, DType::f32), y = s.load(1, DType::f32);
  CHECK(s.add(x, y).id == s.add(y, x).id);
  CHECK_FALSE(s.sub(x, y).id == s.sub(y, x).id);
  CHECK(s.load(0, DType::f32).id == x.id);
  CHECK(s.select(s.lt(x, y), x, x).id == x.id);
  CHECK(s.convert(x, DType::f32).id == x.id);
  CHECK(s.convert(s.imm(2.7, DType::f64), DType::i32).id == s.imm_int(2, DType::i32).id);
  CHECK(s.lt(x, y).dtype == DType::bool_);
  CHECK(s.body()[s.imm(0.1, DType::f32).id].number() == 0.1f);
  CHECK(s.body()[s.imm(2, DType::bool_).id].integer() == 1);
  CHECK_THROWS_AS(s.add(x, s.imm(1, DType::f64)), InternalError);
  CHECK_THROWS_AS(s.select(x, x, y), InternalError);
}

TEST_CASE("prims: rows of the table agree with the enumeration") {
  CHECK(name(Prim::immediate) == "immediate");
  CHECK(name(Prim::random_bits) == "random_bits");
  CHECK(name(Prim::contract) == "contract");
  CHECK((arity(Prim::fma) == 3 && arity(Prim::pow) == 2 && arity(Prim::load) == 0 && arity(Prim::contract) == 2));
  CHECK((is_reduction(Prim::reduce_add) && is_reduction(Prim::contract) && !is_reduction(Prim::random_bits)));
  CHECK(
      (is_comparison(Prim::eq) && is_comparison(Prim::le) && !is_comparison(Prim::and_) && !is_comparison(Prim::max)));
}

TEST_CASE("the key of a kernel holds all of it") {
  Kernel kernel;
  kernel.axes.push_back(AxisRole::parallel);
  kernel.operands = {{DType::f32, false}, {DType::f32, true}};
  kernel.accesses.resize(2);
  kernel.accesses[1].operand = 1;
  kernel.body.resize(1);
  kernel.body[0].prim = Prim::load;
  kernel.stores.push_back({.access = 1, .value = 0});
  kernel.folds.push_back(argmax_fold(DType::f32));
  kernel.orders.push_back({.block = 64});
  const std::string key = KeyWriter{}.add(kernel).bytes();
  CHECK(KeyWriter{}.add(Kernel(kernel)).bytes() == key);
  const auto differs = [&](auto&& change) {
    Kernel other = kernel;
    change(other);
    return KeyWriter{}.add(other).bytes() != key && !(other == kernel);
  };
  CHECK(differs([](Kernel& k) { k.kind = KernelKind::row; }));
  CHECK(differs([](Kernel& k) { k.axes[0] = AxisRole::reduced; }));
  CHECK(differs([](Kernel& k) { k.axes.push_back(AxisRole::parallel); }));
  CHECK(differs([](Kernel& k) { k.operands[0].dtype = DType::f64; }));
  CHECK(differs([](Kernel& k) { k.operands[0].written = true; }));
  CHECK(differs([](Kernel& k) { k.accesses[1].stride[9] = StrideClass::backward; }));
  CHECK(differs([](Kernel& k) { k.accesses[1].operand = 0; }));
  CHECK(differs([](Kernel& k) { k.body[0].bits = std::uint64_t{1} << 63; }));
  CHECK(differs([](Kernel& k) { k.body[0].args[2] = 0; }));
  CHECK(differs([](Kernel& k) { k.body[0].access = 1; }));
  CHECK(differs([](Kernel& k) { k.stores[0].index = 0; }));
  CHECK(differs([](Kernel& k) { k.stores[0].combine = Combine::add; }));
  CHECK(differs([](Kernel& k) { k.folds[0].step.results[0] = 0, k.folds[0].step.results[1] = 0; }));
  CHECK(differs([](Kernel& k) { k.folds[0].states[0].bits += 1; }));
  CHECK(differs([](Kernel& k) { k.orders[0].group = 8; }));
  CHECK(differs([](Kernel& k) { k.precision = MatmulPrecision::tf32; }));
}
