// vmap: against loops over the examples; axes, nesting, derivatives of and under it, random numbers, Variables, errors.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/ops/registry.hpp>
#include <sinter/sinter.hpp>

#include <cmath>

using namespace sinter;

namespace {

Tensor vec(std::initializer_list<float> values) { return copy_of(std::vector<float>(values)); }
Tensor numbers(const Shape& shape, DType dtype = DType::f64) {
  return reshape(sin(cast(arange(shape.numel()), dtype) * 1.3 + 0.2), shape);
}

/// f on each example, stacked: what vmap(f) must give. Arguments with axis -1 are not mapped.
template <class F>
Tensor looped(const F& f, const std::vector<Tensor>& args, const std::vector<int>& axes, int count) {
  std::vector<Tensor> results;
  for (int i = 0; i < count; ++i) {
    std::vector<Tensor> example;
    for (std::size_t k = 0; k < args.size(); ++k) {
      std::vector<Index> at(static_cast<std::size_t>(args[k].rank()), Index(all));
      if (axes[k] >= 0) at[static_cast<std::size_t>(axes[k])] = Index(i);
      example.push_back(axes[k] >= 0 ? index(args[k], at) : args[k]);
    }
    results.push_back(f(example));
  }
  return stack(results, 0);
}

}  // namespace

TEST_CASE("vmap: a function of a vector becomes one of a matrix") {
  Tensor w = numbers({3, 4}), x = numbers({5, 4});
  auto f = [&](Tensor v) { return tanh(matmul(w, v)); };
  Tensor y = jit::vmap(f)(x);
  CHECK(y.shape() == Shape{5, 3});
  CHECK(near(doubles(y), doubles(looped([&](const std::vector<Tensor>& a) { return Tensor(f(a[0])); }, {x}, {0}, 5))));
  // As one product of matrices.
  auto compiled = jit::compile([](Tensor m, Tensor v) { return jit::vmap([&](Tensor u) { return matmul(m, u); })(v); });
  CHECK(near(doubles(compiled(w, x)), doubles(matmul(x, transpose(w, 0, 1)))));
  CHECK(compiled.stats().kernels == 1);
}

TEST_CASE("vmap: axes of arguments and results") {
  Tensor a = numbers({4, 3, 2}), b = numbers({3});
  auto f = [](Tensor x, Tensor y) { return Tensor(x * 2 + sum(y)); };
  CHECK(near(doubles(jit::vmap(f, {1, 0})(a, b)), doubles(permute(a, {1, 0, 2}) * 2 + reshape(b, {3, 1, 1}))));
  CHECK(near(doubles(jit::vmap(f, {-2, 0}, 2)(a, b)),
             doubles(permute(permute(a, {1, 0, 2}) * 2 + reshape(b, {3, 1, 1}), {1, 2, 0}))));
  CHECK(near(doubles(jit::vmap(f, {0, jit::no_axis}, -1)(a, b)), doubles(permute(a * 2 + sum(b), {1, 2, 0}))));
  CHECK(near(doubles(jit::vmap(f, {jit::no_axis, 0})(a, b)),
             doubles(reshape(a * 2, {1, 4, 3, 2}) + reshape(b, {3, 1, 1, 1}))));
  // Several results, each with its axis; one of them the same for all.
  auto g = [&](Tensor x) { return std::tuple{Tensor(x * 2), sum(x), Tensor(b + 1)}; };
  auto [p, q, r] = jit::vmap(g, 0, {1, 0, jit::no_axis})(a);
  CHECK(p.shape() == Shape{3, 4, 2});
  CHECK(near(doubles(q), doubles(sum(a, {1, 2}))));
  CHECK(near(doubles(r), doubles(b + 1)));
  CHECK(std::get<2>(jit::vmap(g)(a)).shape() == Shape{4, 3});  // stacked
}

TEST_CASE("vmap: structs, numbers, containers") {
  struct Model {
    Tensor w;
    std::vector<Tensor> biases;
    int power = 2;
  };
  Model models{numbers({5, 3}), {numbers({5, 2}), numbers({5})}, 2};
  auto f = [](const Model& m, Tensor x, Scalar s) {
    return Model{m.w * s, {Tensor(m.biases[0] + sum(x)), Tensor(m.biases[1] * m.power)}, m.power};
  };
  Model out = jit::vmap(f, {0, jit::no_axis, 0})(models, numbers({7}), 3.0);
  CHECK(near(doubles(out.w), doubles(models.w * 3)));
  CHECK(near(doubles(out.biases[0]), doubles(models.biases[0] + sum(numbers({7})))));
  CHECK(near(doubles(out.biases[1]), doubles(models.biases[1] * 2)));
  CHECK(out.power == 2);
  // f32 stays f32 with numbers of both kinds, inside and outside.
  CHECK(jit::vmap([](Tensor x, Scalar s) { return x * s + 1.5; })(vec({1, 2}), 2.0).dtype() == DType::f32);
}

TEST_CASE("vmap: nested, and mixed with captured values of outer levels") {
  Tensor a = numbers({3, 2}), b = numbers({4, 2});
  auto outer = jit::vmap([&](Tensor x) { return jit::vmap([&](Tensor y) { return sum(x * y); })(b); })(a);
  CHECK(near(doubles(outer), doubles(matmul(a, transpose(b, 0, 1)))));
  auto twice = jit::vmap(jit::vmap([](Tensor x) { return softmax(x, 0); }, 1, 1), 0)(numbers({2, 3, 4}));
  CHECK(near(doubles(twice), doubles(softmax(numbers({2, 3, 4}), 1))));
}

TEST_CASE("vmap: products, batched on either side or both") {
  Tensor a = numbers({3, 2}), as = numbers({5, 3, 2}), b = numbers({2, 4}), bs = numbers({5, 2, 4}),
         deep = numbers({5, 6, 3, 2});
  auto product = [](Tensor x, Tensor y) { return matmul(x, y); };
  auto loop = [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); };
  CHECK(near(doubles(jit::vmap(product)(as, bs)), doubles(looped(loop, {as, bs}, {0, 0}, 5))));
  CHECK(near(doubles(jit::vmap(product, {0, jit::no_axis})(as, b)), doubles(looped(loop, {as, b}, {0, -1}, 5))));
  CHECK(near(doubles(jit::vmap(product, {jit::no_axis, 0})(a, bs)), doubles(looped(loop, {a, bs}, {-1, 0}, 5))));
  CHECK(near(doubles(jit::vmap(product, {0, jit::no_axis})(deep, b)), doubles(looped(loop, {deep, b}, {0, -1}, 5))));
  CHECK(near(doubles(jit::vmap(product, {0, 0})(numbers({5, 2}), bs)),
             doubles(looped(loop, {numbers({5, 2}), bs}, {0, 0}, 5))));
  CHECK(near(doubles(jit::vmap(product)(numbers({5, 2}), numbers({5, 2}))),
             doubles(sum(numbers({5, 2}) * numbers({5, 2}), 1))));
}

TEST_CASE("vmap: reading and adding at computed positions") {
  Tensor x = numbers({4, 3, 5}), i = reshape(tensor({0, 2, 1, 1, 0, 0, 2, 2}), {4, 2});
  auto pick = [](Tensor t, Tensor at) { return take(t, at, 0); };
  auto loop = [](const std::vector<Tensor>& a) { return take(a[0], a[1], 0); };
  CHECK(near(doubles(jit::vmap(pick)(x, i)), doubles(looped(loop, {x, i}, {0, 0}, 4))));
  CHECK(near(doubles(jit::vmap(pick, {0, jit::no_axis})(x, tensor({2, 0}))),
             doubles(looped(loop, {x, tensor({2, 0})}, {0, -1}, 4))));
  Tensor table = numbers({3, 5});
  CHECK(near(doubles(jit::vmap(pick, {jit::no_axis, 0})(table, i)), doubles(looped(loop, {table, i}, {-1, 0}, 4))));
  auto last = [](Tensor t, Tensor at) { return take(t, at, 1); };
  CHECK(near(doubles(jit::vmap(last)(x, i)),
             doubles(looped([](const std::vector<Tensor>& a) { return take(a[0], a[1], 1); }, {x, i}, {0, 0}, 4))));
  // Their derivatives add at positions.
  auto gradient = [=](Tensor t, Tensor at) { return jit::grad([&](Tensor u) { return sum(square(last(u, at))); })(t); };
  CHECK(near(doubles(jit::vmap(gradient)(x, i)),
             doubles(looped([&](const std::vector<Tensor>& a) { return gradient(a[0], a[1]); }, {x, i}, {0, 0}, 4))));
  CHECK(near(
      doubles(jit::vmap(gradient, {jit::no_axis, 0})(table, i)),
      doubles(looped([&](const std::vector<Tensor>& a) { return gradient(a[0], a[1]); }, {table, i}, {-1, 0}, 4))));
  CHECK(near(doubles(jit::vmap(gradient, {0, jit::no_axis})(x, tensor({1, 1, 0}))),
             doubles(looped([&](const std::vector<Tensor>& a) { return gradient(a[0], a[1]); }, {x, tensor({1, 1, 0})},
                            {0, -1}, 4))));
  // An index that is out of range in its example is an error, not a row of the next example.
  CHECK_THROWS_AS(eval(jit::vmap(pick)(x, i + 1)), IndexError);
  CHECK_THROWS_AS(eval(jit::vmap(pick)(x, i - 1)), IndexError);
}

TEST_CASE("vmap: updates, windows and pooling") {
  Tensor x = numbers({3, 2, 1, 6, 5}), k = numbers({3, 2, 1, 2, 2});
  auto f = [](Tensor image, Tensor kernel) { return max_pool2d(conv2d(image, kernel, {.padding = 1}), 2); };
  auto loop = [&](const std::vector<Tensor>& a) { return f(a[0], a[1]); };
  CHECK(near(doubles(jit::vmap(f)(x, k)), doubles(looped(loop, {x, k}, {0, 0}, 3))));
  CHECK(near(doubles(jit::vmap(f, {0, jit::no_axis})(x, numbers({2, 1, 2, 2}))),
             doubles(looped(loop, {x, numbers({2, 1, 2, 2})}, {0, -1}, 3))));
  CHECK(near(doubles(jit::vmap(f, {jit::no_axis, 0})(numbers({1, 1, 6, 5}), k)),
             doubles(looped(loop, {numbers({1, 1, 6, 5}), k}, {-1, 0}, 3))));
  auto set = [](Tensor base, Tensor value) {
    base.at(slice(1, 3), 0) = value;
    return base;
  };
  auto set_loop = [&](const std::vector<Tensor>& a) { return set(a[0], a[1]); };
  CHECK(near(doubles(jit::vmap(set)(numbers({3, 4, 2}), numbers({3, 2}))),
             doubles(looped(set_loop, {numbers({3, 4, 2}), numbers({3, 2})}, {0, 0}, 3))));
  CHECK(near(doubles(jit::vmap(set, {jit::no_axis, 0})(numbers({4, 2}), numbers({3, 2}))),
             doubles(looped(set_loop, {numbers({4, 2}), numbers({3, 2})}, {-1, 0}, 3))));
  CHECK(near(doubles(jit::vmap(set, {0, jit::no_axis})(numbers({3, 4, 2}), numbers({2}))),
             doubles(looped(set_loop, {numbers({3, 4, 2}), numbers({2})}, {0, -1}, 3))));
}

TEST_CASE("vmap: gradients of convolutions of any stride, dilation and groups") {
  struct Row {
    int stride, dilation, groups;
  };
  for (const Row& row : {Row{2, 1, 1}, Row{1, 2, 2}, Row{3, 1, 2}}) {
    INFO("stride " << row.stride << ", dilation " << row.dilation << ", groups " << row.groups);
    ConvOptions options;
    options.stride = row.stride;
    options.padding = {{1, 2}, {0, 1}};
    options.dilation = row.dilation;
    options.groups = row.groups;
    auto loss = [=](Tensor image, Tensor kernel) {
      const Tensor y = conv2d(image, kernel, options);
      return sum(y * y * y);
    };
    const auto by_image = jit::grad(loss);
    const auto by_weight = jit::grad([=](Tensor kernel, Tensor image) { return loss(image, kernel); });
    const Tensor x = numbers({3, 2, 4, 9, 8}), k = numbers({3, 6, 4 / row.groups, 3, 2});
    for (const auto& [a, b] : {std::pair{0, 0}, std::pair{0, -1}, std::pair{-1, 0}}) {
      const Tensor image = a < 0 ? numbers({2, 4, 9, 8}) : x, kernel = b < 0 ? numbers({6, 4 / row.groups, 3, 2}) : k;
      const auto axis = [](int at) { return at < 0 ? jit::no_axis : at; };
      CHECK(near(doubles(jit::vmap(by_image, {axis(a), axis(b)})(image, kernel)),
                 doubles(looped([&](const std::vector<Tensor>& in) { return by_image(in[0], in[1]); }, {image, kernel},
                                {a, b}, 3))));
      CHECK(near(doubles(jit::vmap(by_weight, {axis(b), axis(a)})(kernel, image)),
                 doubles(looped([&](const std::vector<Tensor>& in) { return by_weight(in[0], in[1]); }, {kernel, image},
                                {b, a}, 3))));
    }
  }
}

TEST_CASE("vmap of derivatives, derivatives of vmap") {
  Tensor w = numbers({4, 3}), x = numbers({6, 4}), y = numbers({6, 3});
  auto loss = [](Tensor p, Tensor input, Tensor target) { return mse_loss(tanh(matmul(input, p)), target); };
  // Gradients of each example.
  Tensor each = jit::vmap(jit::grad(loss), {jit::no_axis, 0, 0})(w, x, y);
  CHECK(each.shape() == Shape{6, 4, 3});
  auto loop = [&](const std::vector<Tensor>& a) { return jit::grad(loss)(a[0], a[1], a[2]); };
  CHECK(near(doubles(each), doubles(looped(loop, {w, x, y}, {-1, 0, 0}, 6))));
  auto compiled = jit::compile(
      [=](Tensor p, Tensor a, Tensor b) { return jit::vmap(jit::grad(loss), {jit::no_axis, 0, 0})(p, a, b); });
  CHECK(near(doubles(compiled(w, x, y)), doubles(each)));
  // The gradient of their mean is the mean of theirs.
  Tensor all_at_once = jit::grad([&](Tensor p) { return mean(jit::vmap(loss, {jit::no_axis, 0, 0})(p, x, y)); })(w);
  CHECK(near(doubles(all_at_once), doubles(mean(each, 0))));
  // A hessian for each example, and products with it.
  auto small = [](Tensor p) { return sum(p * p * p) * sum(p); };
  Tensor points = numbers({5, 3});
  CHECK(
      near(doubles(jit::vmap(jit::hessian(small))(points)),
           doubles(looped([&](const std::vector<Tensor>& a) { return jit::hessian(small)(a[0]); }, {points}, {0}, 5))));
  auto product = [&](Tensor p, Tensor d) {
    return jit::jvp([&](Tensor v) { return jit::grad(small)(v); }, p, d).second;
  };
  CHECK(near(
      doubles(jit::vmap(product)(points, points)),
      doubles(looped([&](const std::vector<Tensor>& a) { return product(a[0], a[1]); }, {points, points}, {0, 0}, 5))));
  Tensor tangent = jit::jvp([&](Tensor p) { return jit::vmap(small)(p); }, points, points).second;
  CHECK(near(doubles(tangent),
             doubles(looped([&](const std::vector<Tensor>& a) { return jit::jvp(small, a[0], a[0]).second; }, {points},
                            {0}, 5))));
}

TEST_CASE("vmap: extents that change") {
  auto f = jit::compile([](Tensor x, Tensor i) {
    return jit::vmap([](Tensor row, Tensor at) { return Tensor(softmax(row, 0) * mean(row) + take(row, at)); })(x, i);
  });
  for (int n : {3, 4, 5, 6}) {
    Tensor x = numbers({n, n + 2}), i = arange(n);
    auto loop = [](const std::vector<Tensor>& a) { return Tensor(softmax(a[0], 0) * mean(a[0]) + take(a[0], a[1])); };
    CHECK(near(doubles(f(x, i)), doubles(looped(loop, {x, i}, {0, 0}, n))));
  }
  CHECK(f.stats().compiles == 2);
  Tensor none = jit::vmap([](Tensor row) { return sum(row * row); })(numbers({0, 3}));
  CHECK(none.shape() == Shape{0});
  CHECK(floats(cast(jit::vmap([](Tensor row) { return sum(row); })(ones({1, 3})), DType::f32)) ==
        std::vector<float>{3});
}

TEST_CASE("vmap: each example draws its own numbers, as one draw") {
  manual_seed(7);
  Tensor y = jit::vmap([](Tensor x) { return x * 0 + rand({4}); })(zeros({3, 4}));
  Tensor after = rand({2});
  manual_seed(7);
  CHECK(floats(y) == floats(rand({3, 4})));
  CHECK(floats(rand({2})) == floats(after));
  manual_seed(7);
  auto f = jit::compile([](Tensor x) { return jit::vmap([](Tensor v) { return v + randn({}); })(x); });
  std::vector<float> first = floats(f(zeros({3}))), second = floats(f(zeros({3})));
  CHECK(first[0] != first[1]);
  CHECK(first != second);
  manual_seed(7);
  CHECK(first == floats(randn({3})));
}

TEST_CASE("vmap: Variables") {
  Variable stacked(numbers({3, 2}, DType::f32), "stacked"), shared(vec({1, 2}), "shared"), count(full({}, 0), "count");
  std::vector<float> before = floats(stacked);
  // One value of a mapped Variable for each example, also when it is assigned.
  auto step = [&](const Variable& w, Tensor x) {
    count += 1;
    w -= x * 0.5 + shared;
    return sum(w);
  };
  Tensor sums = jit::vmap(step)(stacked, full({3, 2}, 2.f));
  CHECK(sums.shape() == Shape{3});
  for (std::size_t i = 0; i < 6; ++i) CHECK(floats(stacked)[i] == Approx(before[i] - 1 - (i % 2 ? 2 : 1)));
  CHECK(item<float>(count) == 1);
  std::string text = message_of<UserError>([&] {
    jit::vmap([&](Tensor x) {
      shared = x;
      return x;
    })(ones({3, 2}));
  });
  CHECK(has(text,
            "vmap: the value assigned to Variable 'shared' differs between examples, but is to have no axis for them "
            "[transforms_vmap_test.cpp:"));
  CHECK(floats(shared) == std::vector<float>{1, 2});
  // Nothing but effects on Variables.
  jit::vmap([&](const Variable& w, Tensor x) { w.set(x); })(stacked, full({3, 2}, 9.f));
  CHECK(floats(stacked)[5] == 9);
}

TEST_CASE("vmap: every op that depends on operands has a rule, or parts that have one") {
  for (const OpInfo* op : all_ops()) {
    INFO(op->name);
    const bool is_made_from_nothing = op->arity == 0 || op->kind == OpKind::leaf;
    const bool is_seen_through =
        op->is_call || op->kind == OpKind::effect;  // inlined before; effects happen once, refused
    CHECK((is_made_from_nothing || is_seen_through || op->batch != nullptr || op->decompose != nullptr));
  }
}

TEST_CASE("vmap: errors name the user's line") {
  auto f = [](Tensor a, Tensor b) { return a * sum(b); };
  Tensor x = ones({3, 2}), y = ones({4, 2});
  std::string text = message_of<ShapeError>([&] { jit::vmap(f)(x, y); });
  CHECK(has(text,
            "vmap: mapped axes differ: argument 1 is f32[4, 2] with 4 examples along axis 0, argument 0 has 3 "
            "[transforms_vmap_test.cpp:"));
  text = message_of<IndexError>([&] { jit::vmap(f, {0, 2})(x, x); });
  CHECK(has(text, "vmap: argument 1 is f32[3, 2] and has no axis 2 [transforms_vmap_test.cpp:"));
  CHECK(has(text, "axes of it are -2 to 1"));
  text = message_of<IndexError>([&] { jit::vmap(f)(x, full({}, 1.f)); });
  CHECK(has(text, "pass jit::no_axis for what is the same in all examples"));
  CHECK(has(message_of<UserError>([&] { jit::vmap(f, {0})(x, x); }),
            "vmap: in_axes names 1 axes, the function has 2 arguments"));
  CHECK(has(message_of<UserError>([&] { jit::vmap(f, 0, {0, 1})(x, x); }),
            "vmap: out_axes names 2 axes, the function has 1 results"));
  CHECK(has(message_of<UserError>([&] { jit::vmap(f, jit::no_axis)(x, x); }), "vmap: no argument is mapped"));
  CHECK(has(message_of<IndexError>([&] { jit::vmap(f, 0, 3)(x, x); }),
            "there is no axis 3 for the examples: with it result 0 has rank 2"));
  CHECK(has(message_of<UserError>([&] { jit::vmap(f, 0, jit::no_axis)(x, x); }),
            "result 0 differs between examples, but is to have no axis for them"));
  CHECK_THROWS_AS(jit::vmap([](Tensor a) { return matmul(a, ones({5, 5})); })(x), ShapeError);
  CHECK_FALSE(jit::is_compiling());
}
