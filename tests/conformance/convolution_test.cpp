// Convolutions that the x86 back end computes whole: their bits are those of the products that they are made of,
// whatever the instruction set, and their values the oracle's. Gradients are adjoint to the convolution.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../plan_harness.hpp"
#include "../sample.hpp"
#include "x86_whole_cases.hpp"

#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/decompose.hpp>

#include <sinter/sinter.hpp>

#ifndef SINTER_NO_X86
#include <limits>
#include <random>

using namespace sinter;
using namespace sinter_test;

namespace {

/// A random convolution of one to three axes.
struct Problem {
  DType dtype = DType::f32;
  Shape x, weight, positions, low, high;
  IntVector stride, dilation;
  std::int64_t groups = 1;

  explicit Problem(std::mt19937& random) {
    const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
    const int axes = draw(1, 3);
    groups = draw(0, 2) == 0 ? draw(2, 4) : 1;
    const int channels = draw(0, 19) == 0 ? draw(60, 120) : draw(1, 6), outputs = draw(1, 20);
    dtype = draw(0, 3) == 0 ? DType::f64 : DType::f32;
    x = {draw(1, 3), channels * groups};
    weight = {outputs * groups, channels};
    for (int i = 0; i < axes; ++i) {
      const std::int64_t taps = draw(1, 4), apart = draw(1, 2), front = draw(0, 3), back = draw(0, 3),
                         step = draw(1, 3);
      const std::int64_t reach = (taps - 1) * apart + 1;
      const std::int64_t extent =
          std::max<std::int64_t>(1, reach - front - back) + draw(0, i + 1 == axes ? 36 / axes : 5);
      x.push_back(extent);
      weight.push_back(taps);
      low.push_back(front);
      high.push_back(back);
      stride.push_back(step);
      dilation.push_back(apart);
      positions.push_back((extent + front + back - reach) / step + 1);
    }
  }

  Attrs attrs() const {
    Attrs made;
    made.set(ops::ConvolutionAttributes::stride, stride);
    made.set(ops::ConvolutionAttributes::dilation, dilation);
    made.set(ops::ConvolutionAttributes::low, low);
    made.set(ops::ConvolutionAttributes::high, high);
    made.set(ops::ConvolutionAttributes::groups, groups);
    return made;
  }

  Graph convolution() const {
    GraphBuilder builder;
    const Value image = builder.input({dtype, Device::cpu(), x}),
                kernel = builder.input({dtype, Device::cpu(), weight});
    const Val out = apply(op_info<ops::Convolution>, {Val{&builder, image, {}}, Val{&builder, kernel, {}}}, attrs());
    return builder.finish(std::span(&out.value, 1));
  }

  Graph weight_gradient() const {
    GraphBuilder builder;
    Shape gradient{weight[0], x[0]};
    for (const Dim extent : positions) gradient.push_back(extent);
    const Value image = builder.input({dtype, Device::cpu(), x}),
                dout = builder.input({dtype, Device::cpu(), gradient});
    Attrs own = attrs();
    own.shape = weight;
    const Val out = apply(op_info<ops::ConvolutionWeightGradient>, {Val{&builder, image, {}}, Val{&builder, dout, {}}},
                          std::move(own));
    return builder.finish(std::span(&out.value, 1));
  }
};

enum class Wanted { same_bits, only_bits, whole, anything };

/// The same elements, bit by bit, whole and decomposed; and those of the oracle, for short sums (only_bits: without
/// it, which takes long).
void check_whole(const Graph& graph, x86::X86Backend& backend, Wanted how) {
  const auto inputs = random_inputs(graph);
  const auto whole = build_plan(graph, fused({&backend, reference()})),
             apart = build_plan(Decompose{}(graph), fused({&backend, reference()}));
  INFO(graph.text() << whole->text());
  const auto found = run(*whole, inputs), wanted = run(*apart, inputs);
  REQUIRE(found[0].extents == wanted[0].extents);
  if (how == Wanted::same_bits || how == Wanted::only_bits) CHECK(found[0].data == wanted[0].data);
  if (how != Wanted::only_bits)
    CHECK(difference(found[0], oracle::evaluate(graph, inputs)[0], 10 * tolerance_of(found[0].dtype)) == "");
  if (how == Wanted::anything) return;
  CHECK(kinds(*whole) == "host");
  CHECK(whole->steps()[0].backend == "x86");
  CHECK(whole->slots().empty());  // no windows are laid out in memory
}

}  // namespace

TEST_CASE("convolutions whole have the bits of the products that they are made of") {
  std::mt19937 random(5);
  for (std::size_t i = 0; i < 36; ++i) {
    const Problem problem(random);
    if (!is_in_sample(i)) continue;
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      const bool has_groups = problem.groups > 1, has_one_channel = has_groups && problem.weight[1] == Dim(1),
                 has_one_output = has_groups && problem.weight[0] == Dim(problem.groups);
      check_whole(problem.convolution(), backend,
                  has_one_channel  ? Wanted::whole
                  : has_one_output ? Wanted::anything
                                   : Wanted::same_bits);
      check_whole(problem.weight_gradient(), backend, Wanted::same_bits);
    }
  }
}

TEST_CASE("long sums of convolutions have the bits of products") {
  for (const x86::Isa isa : isas_in_use()) {
    x86::X86Backend backend(isa);
    std::mt19937 random(1);
    Problem problem(random);
    problem.dtype = DType::f32;
    problem.groups = 1;
    problem.x = {2, 1030, 5, 4};  // 9270 terms: beyond a group of blocks
    problem.weight = {17, 1030, 3, 3};
    problem.low = problem.high = {1, 1};
    problem.stride = problem.dilation = {1, 1};
    problem.positions = {5, 4};
    check_whole(problem.convolution(), backend, Wanted::same_bits);
    problem.x = {3, 2, 61, 57};  // 10431 positions
    problem.weight = {5, 2, 3, 3};
    problem.positions = {61, 57};
    check_whole(problem.weight_gradient(), backend, Wanted::same_bits);
  }
}

TEST_CASE("convolutions with strides beyond the image, or wide ones of a channel each") {
  std::mt19937 random(1);
  Problem problem(random);
  problem.dtype = DType::f32;
  problem.low = problem.high = {1};
  problem.dilation = {2};
  const auto with = [&](Shape x, Shape weight, std::int64_t stride) {
    problem.x = x;
    problem.weight = weight;
    problem.stride = {stride};
    problem.groups = x[1].value() / weight[1].value();
    problem.positions = {(x[2].value() + 2 - 5) / stride + 1};
  };
  for (const x86::Isa isa : isas_in_use()) {
    x86::X86Backend backend(isa);
    for (const std::int64_t stride : {std::int64_t{64}, std::int64_t{1} << 30}) {
      with({2, 3, 60}, {4, 3, 3}, stride);
      check_whole(problem.convolution(), backend, Wanted::same_bits);
      check_whole(problem.weight_gradient(), backend, Wanted::same_bits);
      with({2, 3, 60}, {6, 1, 3}, stride);
      check_whole(problem.convolution(), backend, Wanted::whole);
      check_whole(problem.weight_gradient(), backend, Wanted::same_bits);
    }
    with({2, 3, 60}, {6, 1, 3}, 20);  // three positions
    check_whole(problem.convolution(), backend, Wanted::whole);
    with({2, 3, 60}, {3, 1, 3}, 20);  // as products and a sum
    check_whole(problem.convolution(), backend, Wanted::anything);
    CHECK(kinds(*build_plan(problem.convolution(), fused({&backend, reference()}))).find("host") == std::string::npos);
    with({2, 3, 60}, {3, 1, 3}, 16);
    check_whole(problem.convolution(), backend, Wanted::whole);
  }
}

namespace {

/// Two axes or three, padded alike at both ends.
Problem problem_of(DType dtype, Shape x, Shape weight, std::int64_t stride, std::int64_t padding,
                   IntVector dilation = {1, 1}) {
  std::mt19937 random(1);
  Problem problem(random);
  problem.dtype = dtype;
  problem.x = x;
  problem.weight = weight;
  problem.groups = x[1].value() / weight[1].value();
  problem.dilation = dilation;
  problem.stride = {};
  problem.low = problem.positions = {};
  for (int axis = 2; axis < x.rank(); ++axis) {
    const std::int64_t apart = dilation[static_cast<std::size_t>(axis - 2)], around = padding * apart,
                       reach = (weight[axis].value() - 1) * apart + 1;
    problem.stride.push_back(stride);
    problem.low.push_back(around);
    problem.positions.push_back((x[axis].value() + 2 * around - reach) / stride + 1);
  }
  problem.high = problem.low;
  return problem;
}

}  // namespace

TEST_CASE("convolutions of small images together, of wide images and of large weights") {
  using enum DType;
  const Problem problems[] = {
      problem_of(f32, {23, 60, 7, 7}, {6, 60, 3, 3}, 1, 1),     // 21 images together, then 2
      problem_of(f32, {5, 120, 7, 7}, {8, 60, 3, 3}, 1, 1),     // with groups
      problem_of(f64, {3, 130, 5, 5}, {5, 130, 3, 3}, 1, 1),    // no vectors of f64
      problem_of(f32, {4, 140, 5, 9}, {6, 140, 3, 3}, 2, 1),    // 15 positions an image
      problem_of(f32, {1, 12, 36, 40}, {20, 12, 3, 3}, 1, 1),   // wide tiles
      problem_of(f32, {2, 3, 30, 131}, {8, 3, 5, 5}, 2, 2),     // rows longer than a panel
      problem_of(f32, {2, 3, 9, 50}, {8, 3, 2, 3}, 3, 1),       // neighbours three apart
      problem_of(f32, {1, 256, 2, 2}, {600, 256, 3, 3}, 1, 1),  // the weight does not stay in L2: runs of k
      problem_of(f32, {3, 1030, 2, 2}, {128, 1030, 3, 3}, 1,
                 1),  // the same of several images, beyond a group of blocks
  };
  for (const x86::Isa isa : isas_in_use()) {
    x86::X86Backend backend(isa);
    for (const Problem& problem : problems) check_whole(problem.convolution(), backend, Wanted::same_bits);
  }
}

TEST_CASE("convolutions of few outputs, which are in lanes, or of panels of them") {
  using enum DType;
  const Problem problems[] = {
      problem_of(f32, {2, 9, 19, 20}, {8, 9, 3, 3}, 1, 1),           // a vector of AVX2
      problem_of(f32, {2, 9, 19, 20}, {13, 9, 3, 3}, 1, 1),          // lanes without outputs
      problem_of(f32, {3, 9, 19, 47}, {32, 9, 3, 3}, 1, 1),          // tiles of two heights
      problem_of(f32, {2, 30, 14, 150}, {27, 30, 3, 3}, 1, 1),       // several chunks; blocks end inside of a line
      problem_of(f32, {2, 14, 29, 41}, {32, 7, 3, 5}, 2, 2),         // groups, every second element
      problem_of(f32, {2, 9, 30, 33}, {16, 9, 3, 3}, 1, 1, {2, 3}),  // dilated
      problem_of(f32, {2, 9, 30, 33}, {16, 9, 3, 3}, 2, 1, {1, 2}),  // neighbours as far apart as taps
      problem_of(f32, {2, 9, 19, 20}, {16, 9, 3, 3}, 1, 0),          // where the image lies
      problem_of(f32, {3, 20, 6, 7, 33}, {32, 20, 3, 3, 3}, 1, 1, {1, 1, 1}),
      problem_of(f32, {4, 40, 3, 30, 30}, {16, 40, 3, 3, 2}, 1, 1, {1, 1, 1}),  // some planes at a time
      problem_of(f64, {2, 9, 19, 20}, {8, 9, 3, 3}, 1, 1),
      problem_of(f64, {2, 9, 19, 31}, {16, 9, 4, 3}, 1, 1),
      problem_of(f32, {2, 10, 28, 28}, {64, 10, 3, 3}, 1, 1),  // two panels
      problem_of(f32, {1, 40, 27, 42}, {64, 20, 3, 3}, 1, 1),
  };
  std::size_t i = 0;
  for (const Problem& problem : problems) {
    if (!is_in_sample(i++)) continue;
    for (const x86::Isa isa : isas_in_use()) {
      x86::X86Backend backend(isa);
      check_whole(problem.convolution(), backend, i > 2 ? Wanted::only_bits : Wanted::same_bits);
    }
  }
  check_bits_of_threads(problems[2].convolution());
}

TEST_CASE("convolutions whose panels lie side by side do not depend on the number of threads") {
  struct Case {
    DType dtype;
    std::int64_t channels, size, outputs, stride;
  };
  const int before = thread_count();
  for (const Case& of :
       {Case{DType::f64, 128, 13, 1024, 1}, Case{DType::f64, 200, 9, 800, 1}, Case{DType::f32, 128, 39, 1024, 3}}) {
    const Tensor x = randn({1, of.channels, of.size, of.size}, {.dtype = of.dtype}),
                 w = randn({of.outputs, of.channels, 3, 3}, {.dtype = of.dtype});
    eval(x, w);
    auto f = jit::compile(
        [&](Tensor image, Tensor weight) { return conv2d(image, weight, {.stride = of.stride, .padding = 1}); });
    set_thread_count(1);
    const auto wanted = to_vector<double>(f(x, w));
    set_thread_count(2);
    int others = 0;
    for (int round = 0; round < 25; ++round) others += to_vector<double>(f(x, w)) != wanted;
    INFO(name(of.dtype) << ", " << of.channels << " channels");
    CHECK(others == 0);
  }
  set_thread_count(before);
}

TEST_CASE("depthwise convolutions of all widths and heights") {
  std::size_t i = 0;
  for (const std::int64_t height : {1, 2, 3, 5, 7, 9})
    for (const std::int64_t width : {1, 2, 3, 7, 8, 9, 14, 17, 33}) {
      if (!is_in_sample(i++)) continue;
      x86::X86Backend backend(isas_in_use().front());
      const DType dtype = i % 4 == 0 ? DType::f64 : DType::f32;
      const std::int64_t stride = i % 3 == 0 ? 2 : 1, outputs = i % 5 == 0 ? 2 : 1;
      const Problem problem = problem_of(dtype, {2, 3, height, width}, {3 * outputs, 1, 3, 3}, stride, 1);
      check_whole(problem.convolution(), backend, Wanted::whole);
    }
  x86::X86Backend backend(isas_in_use().front());
  check_whole(problem_of(DType::f32, {2, 3, 3, 4, 5}, {6, 1, 2, 3, 3}, 1, 1, {1, 1, 1}).convolution(), backend,
              Wanted::whole);
  // With its borders the image would be a hundred times as large.
  check_whole(problem_of(DType::f32, {1, 2, 4, 16}, {4, 1, 3, 3}, 1, 1, {200, 1}).convolution(), backend,
              Wanted::whole);
}

TEST_CASE("convolutions say which number is out of bounds") {
  const Tensor x = ones({1, 2, 9}), weight = ones({2, 2, 3});
  constexpr std::int64_t many = std::int64_t{1} << 31;
  const auto message = [&](ConvOptions options) { return message_of<ShapeError>([&] { conv1d(x, weight, options); }); };
  CHECK(has(message({.stride = many}), "stride is 2147483648"));
  CHECK(has(message({.stride = many}), "it must be from 1 to 1073741824"));
  CHECK(has(message({.padding = many}), "padding is 2147483648"));
  CHECK(has(message({.padding = many}), "it must be from 0 to 1073741824"));
  CHECK(has(message({.dilation = many}), "dilation is 2147483648"));
  CHECK(has(message({.stride = 0}), "stride is 0"));
  const auto of_op = [](const Attrs& attrs) {
    GraphBuilder builder;
    const Val image{&builder, builder.input({DType::f32, Device::cpu(), {1, 1, 9}}), {}},
        kernel{&builder, builder.input({DType::f32, Device::cpu(), {1, 1, 3}}), {}};
    return message_of<ShapeError>([&] { apply(op_info<ops::Convolution>, {image, kernel}, attrs); });
  };
  std::mt19937 random(1);
  Problem problem(random);
  problem.low = problem.high = {0};
  problem.stride = problem.dilation = {1};
  problem.groups = 1;
  problem.stride = {std::int64_t{1} << 62};
  CHECK(has(of_op(problem.attrs()), "stride is 4611686018427387904"));
  problem.stride = {1};
  problem.low = {many};
  CHECK(has(of_op(problem.attrs()), "padding is 2147483648"));
}

TEST_CASE("what no back end computes whole is decomposed by the plan") {
  std::mt19937 random(3);
  const Graph graph = Problem(random).convolution();
  const auto plan = build_plan(graph, fused({reference()}));
  CHECK(kinds(*plan).find("host") == std::string::npos);
  CHECK(first_difference(*plan, graph, random_inputs(graph)) == "");
}

TEST_CASE("gradients of convolutions are adjoint to them") {
  std::mt19937 random(11);
  for (std::size_t i = 0; i < 16; ++i) {
    const Problem problem(random);
    if (!is_in_sample(i)) continue;
    GraphBuilder builder;
    const Val x{&builder, builder.input({DType::f64, Device::cpu(), problem.x}), {}},
        weight{&builder, builder.input({DType::f64, Device::cpu(), problem.weight}), {}};
    Shape out{problem.x[0], problem.weight[0]};
    for (const Dim extent : problem.positions) out.push_back(extent);
    const Val dout{&builder, builder.input({DType::f64, Device::cpu(), out}), {}};
    const Attrs attrs = problem.attrs();
    const Val operands[] = {x, weight}, result = apply(op_info<ops::Convolution>, operands, attrs);
    const ValList gradients = ops::Convolution::vjp(VjpArgs{operands, result, dout, attrs, {}});
    const Value outputs[] = {sum(result * dout, all_axes(result)).value, sum(gradients[0] * x, all_axes(x)).value,
                             sum(gradients[1] * weight, all_axes(weight)).value, gradients[0].value};
    const Graph graph = builder.finish(outputs);
    const auto inputs = random_inputs(graph, {}, static_cast<unsigned>(i));
    const auto found = oracle::evaluate(graph, inputs);
    INFO(graph.text());
    // It is linear in each operand: <dout, f(x, w)> = <df/dx, x> = <df/dw, w>.
    CHECK(found[1].data[0] == Approx(static_cast<double>(found[0].data[0])).margin(1e-9));
    CHECK(found[2].data[0] == Approx(static_cast<double>(found[0].data[0])).margin(1e-9));
    CHECK(found[3].extents == inputs[0].extents);
  }
}

TEST_CASE("gradients of the gradients of convolutions are adjoint to these") {
  std::mt19937 random(12);
  for (std::size_t i = 0; i < 16; ++i) {
    const Problem problem(random);
    if (!is_in_sample(i)) continue;
    Shape out{problem.x[0], problem.weight[0]};
    for (const Dim extent : problem.positions) out.push_back(extent);
    for (const auto by : {ops::ConvolutionOperand::image, ops::ConvolutionOperand::weight}) {
      const bool is_image = by == ops::ConvolutionOperand::image;
      GraphBuilder builder;
      const auto input = [&](const Shape& shape) {
        return Val{&builder, builder.input({DType::f64, Device::cpu(), shape}), {}};
      };
      const Val first = input(is_image ? out : problem.x), second = input(is_image ? problem.weight : out),
                seed = input(is_image ? problem.x : problem.weight);
      Attrs attrs = problem.attrs();
      attrs.shape = is_image ? problem.x : problem.weight;
      attrs.set(ops::ConvolutionGradient::by, by);
      const Val operands[] = {first, second}, result = apply(op_info<ops::ConvolutionGradient>, operands, attrs);
      const ValList gradients = ops::ConvolutionGradient::vjp(VjpArgs{operands, result, seed, attrs, {}});
      const Value outputs[] = {sum(result * seed, all_axes(result)).value,
                               sum(gradients[0] * first, all_axes(first)).value,
                               sum(gradients[1] * second, all_axes(second)).value};
      const Graph graph = builder.finish(outputs);
      const auto found = oracle::evaluate(graph, random_inputs(graph, {}, static_cast<unsigned>(i)));
      INFO(graph.text());
      CHECK(found[1].data[0] == Approx(static_cast<double>(found[0].data[0])).margin(1e-9));
      CHECK(found[2].data[0] == Approx(static_cast<double>(found[0].data[0])).margin(1e-9));
    }
  }
}

TEST_CASE("a gradient of a convolution wants the shapes of one") {
  const auto of = [](const Shape& first, const Shape& second, ops::ConvolutionOperand by, const Shape& shape) {
    GraphBuilder builder;
    const Val a{&builder, builder.input({DType::f32, Device::cpu(), first}), {}},
        b{&builder, builder.input({DType::f32, Device::cpu(), second}), {}};
    using Op = ops::ConvolutionGradient;
    Attrs attrs = Attrs{.shape = shape}
                      .with(Op::stride, {2, 2})
                      .with(Op::dilation, {1, 1})
                      .with(Op::low, Shape{1, 1})
                      .with(Op::high, Shape{1, 1});
    attrs.set(Op::by, by);
    try {
      apply(op_info<Op>, {a, b}, attrs);
    } catch (const ShapeError& error) { return std::string(error.what()); }
    return std::string();
  };
  using Operand = ops::ConvolutionOperand;
  CHECK(of({1, 4, 4, 4}, {4, 3, 3, 3}, Operand::image, {1, 3, 8, 8}).empty());
  CHECK(of({1, 3, 8, 8}, {1, 4, 4, 4}, Operand::weight, {4, 3, 3, 3}).empty());
  CHECK(has(of({1, 4, 5, 4}, {4, 3, 3, 3}, Operand::image, {1, 3, 8, 8}),
            "the gradient is (1, 4, 5, 4), the convolution of (1, 3, 8, 8) by (4, 3, 3, 3) is (1, 4, 4, 4)"));
  CHECK(has(of({1, 3, 8, 8}, {4, 1, 4, 4}, Operand::weight, {4, 3, 3, 3}), "the gradient is (4, 1, 4, 4)"));
  const Dim n = Dim::symbol(0), m = Dim::symbol(1);
  CHECK(of({n, 4, 4, 4}, {4, 3, 3, 3}, Operand::image, {n, 3, 8, 8}).empty());
  CHECK(has(of({m, 4, 4, 4}, {4, 3, 3, 3}, Operand::image, {n, 3, 8, 8}), "the gradient is (s1, 4, 4, 4)"));
  CHECK(has(of({n, 3, 8, 8}, {n, m, 4, 4}, Operand::weight, {4, 3, 3, 3}), "the gradient is (s0, s1, 4, 4)"));
}

TEST_CASE("the gradient of the gradient of a convolution") {
  // The loss is |A x|^2 / 2, so that its gradient is linear in x: <gradient at x, v> has the gradient at v.
  ConvOptions options;
  options.stride = 2;
  options.padding = {{0, 1}, {2, 1}};
  const Tensor x = randn({2, 4, 7, 6}), v = randn({2, 4, 7, 6}), weight = randn({6, 2, 3, 2});
  options.groups = 2;
  const auto by_image = jit::grad([=](Tensor image) {
    const Tensor y = conv2d(image, weight, options);
    return sum(y * y) / 2;
  });
  const auto second = jit::grad([=](Tensor image) { return sum(by_image(image) * v); });
  CHECK(allclose(second(x), by_image(v), {.rtol = 1e-4, .atol = 1e-4}));
}

TEST_CASE("gradients by what windows of single elements skip are zeros, whatever the weight") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const int groups : {1, 2}) {
    ConvOptions options;
    options.stride = 2;
    options.groups = groups;
    const Tensor weight = full({4, 4 / groups, 1}, inf);
    const Tensor gradient =
        jit::grad([=](Tensor image) { return sum(conv1d(image, weight, options)); })(ones({1, 4, 5}));
    for (int at = 0; at < 5; ++at) {
      INFO("groups " << groups << ", element " << at);
      CHECK(doubles(gradient)[static_cast<std::size_t>(5 + at)] == (at % 2 == 0 ? inf : 0));
    }
  }
}

TEST_CASE("uneven padding: the gradient by the image is that by the padded one, in its own dtype") {
  GraphBuilder builder;
  const Val dout{&builder, builder.input({DType::f16, Device::cpu(), {1, 4, 4, 4}}), {}},
      weight{&builder, builder.input({DType::f16, Device::cpu(), {4, 3, 2, 2}}), {}};
  using Op = ops::ConvolutionGradient;
  Attrs attrs = Attrs{.shape = {1, 3, 7, 8}}
                    .with(Op::stride, {2, 2})
                    .with(Op::dilation, {1, 1})
                    .with(Op::low, Shape{0, 0})
                    .with(Op::high, Shape{1, 0});
  attrs.set(Op::by, ops::ConvolutionOperand::image);
  const Value outputs[] = {apply(op_info<Op>, {dout, weight}, attrs).value};
  Decompose pass;
  pass.keep = [](const Graph&, const Node& node) {
    return node.op == &op_info<Op> && node.attrs[Op::high][0] == Dim(0);
  };
  const std::string text = pass(builder.finish(outputs)).text();
  INFO(text);
  CHECK(has(text, "f16[1, 3, 8, 8] = convolution_gradient"));
  CHECK_FALSE(has(text, "f32"));
}

TEST_CASE("convolutions of many sizes share a plan, whose padding is symbolic") {
  const auto gradients = [](const std::vector<Tensor>& in) {
    return jit::grad([](const std::vector<Tensor>& x) {
      const Tensor y = conv_transpose1d(x[0], x[1], {});  // a convolution padded by the taps less one
      return sum(y * y);
    })(in);
  };
  const auto wanted = jit::compile(gradients, {.backend = "reference"});
  for (const int taps : {3, 4, 5, 3, 7}) {
    const std::vector<Tensor> in{randn({2, 4, 9}), randn({4, 4, taps})}, found = gradients(in), right = wanted(in);
    for (std::size_t i = 0; i < 2; ++i) CHECK(allclose(found[i], right[i], {.rtol = 1e-4, .atol = 1e-4}));
  }
}
#endif
