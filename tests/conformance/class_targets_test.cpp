// cross_entropy and nll_loss of every shape that PyTorch takes: targets that are classes, of rows, of images and of one
// example, and targets that are probabilities, against loops written out here.
#include "../checks.hpp"
#include "loop_cases.hpp"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

const Doubles class_weights{1, 2, 0.5},
    smooth_logits{0.3, -1.2, 2.1, 0.7, -0.4, 1.6, 0.9, -0.8, 1.3, 0.2, 0.6, -0.5, 1.1, -1.7, 0.4, -0.9, 1.8, 0.1};

/// Where the elements of one row of classes lie, in (n, c, places), which are c * places for each n.
struct Layout {
  std::size_t rows, classes, places;
  std::size_t at(std::size_t row, std::size_t k) const {
    return row / places * classes * places + k * places + row % places;
  }
};
const Layout plain{6, 3, 1}, images{6, 3, 3}, one{1, 3, 1};

Doubles log_softmax_of(const Doubles& x, const Layout& layout, std::size_t row) {
  double sum = 0;
  for (std::size_t k = 0; k < layout.classes; ++k) sum += std::exp(x[layout.at(row, k)]);
  Doubles out;
  for (std::size_t k = 0; k < layout.classes; ++k) out.push_back(x[layout.at(row, k)] - std::log(sum));
  return out;
}
Doubles reduced(const Doubles& losses, double count, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  return {total(losses) / (reduction == LossReduction::mean ? count : 1)};
}
/// As in PyTorch: the mean is over the weights of the targets of the rows that count.
Doubles by_classes(const Doubles& x, const Layout& layout, const std::vector<std::int64_t>& target, bool is_weighted,
                   double smoothing, LossReduction reduction, bool is_nll = false) {
  Doubles losses;
  double count = 0;
  for (std::size_t row = 0; row < layout.rows; ++row) {
    losses.push_back(0);
    if (target[row] < 0) continue;
    const auto own = static_cast<std::size_t>(target[row]);
    Doubles p = log_softmax_of(x, layout, row);
    if (is_nll)
      for (std::size_t k = 0; k < layout.classes; ++k) p[k] = x[layout.at(row, k)];
    for (std::size_t k = 0; k < layout.classes; ++k) {
      const double weight = is_weighted ? class_weights[k] : 1;
      const double share = (k == own ? 1 - smoothing : 0) + smoothing / static_cast<double>(layout.classes);
      losses.back() -= weight * share * p[k];
    }
    count += is_weighted ? class_weights[own] : 1;
  }
  return reduced(losses, count, reduction);
}
Doubles by_probabilities(const Doubles& x, const Doubles& target, const Layout& layout, bool is_weighted,
                         double smoothing, LossReduction reduction) {
  Doubles losses;
  for (std::size_t row = 0; row < layout.rows; ++row) {
    const Doubles p = log_softmax_of(x, layout, row);
    losses.push_back(0);
    for (std::size_t k = 0; k < layout.classes; ++k)
      losses.back() -= (is_weighted ? class_weights[k] : 1) * p[k] *
                       (target[layout.at(row, k)] * (1 - smoothing) + smoothing / static_cast<double>(layout.classes));
  }
  return reduced(losses, static_cast<double>(layout.rows), reduction);
}

struct ShapeRow {
  const char* name;
  Layout layout;
  Extents logits, target;
  std::vector<std::int64_t> classes;
};
const ShapeRow shape_rows[] = {
    {"rows", plain, {6, 3}, {6}, {2, 0, -100, 1, 1, 0}},
    {"(n, c, d)", images, {2, 3, 3}, {2, 3}, {2, 0, -100, 1, 1, 0}},
    {"(n, c, h, w)", images, {2, 3, 3, 1}, {2, 3, 1}, {2, 0, -100, 1, 1, 0}},
    {"one example", one, {3}, {}, {2}},
};
constexpr LossReduction reductions[] = {LossReduction::mean, LossReduction::sum, LossReduction::none};

CrossEntropyOptions options(bool is_weighted, double smoothing, LossReduction reduction) {
  CrossEntropyOptions out{.label_smoothing = smoothing, .reduction = reduction};
  if (is_weighted) out.weight = copy_of(class_weights);
  return out;
}
Doubles logits_of(const ShapeRow& row) {
  return {smooth_logits.begin(), smooth_logits.begin() + static_cast<std::ptrdiff_t>(row.layout.rows * 3)};
}

}  // namespace

TEST_CASE("cross_entropy and nll_loss of classes: rows, images, one example") {
  for (const ShapeRow& row : shape_rows)
    for (LossReduction reduction : reductions)
      for (bool is_weighted : {false, true}) {
        const Tensor target = copy_of(row.classes, Shape(row.target));
        const bool keeps_shape = reduction == LossReduction::none;
        CHECK(cross_entropy(array(logits_of(row), row.logits), target, options(is_weighted, 0, reduction)).shape() ==
              (keeps_shape ? Shape(row.target) : Shape{}));
        for (double smoothing : {0.0, 0.25})
          check_case(
              {row.name,
               [=](const Tensor& x) { return cross_entropy(x, target, options(is_weighted, smoothing, reduction)); },
               [=](const Doubles& x) {
                 return by_classes(x, row.layout, row.classes, is_weighted, smoothing, reduction);
               },
               row.logits, logits_of(row)});
        NllLossOptions nll{.reduction = reduction};
        if (is_weighted) nll.weight = copy_of(class_weights);
        CHECK(nll_loss(array(logits_of(row), row.logits), target, nll).shape() ==
              (keeps_shape ? Shape(row.target) : Shape{}));
        check_case(
            {row.name, [=](const Tensor& x) { return nll_loss(x, target, nll); },
             [=](const Doubles& x) { return by_classes(x, row.layout, row.classes, is_weighted, 0, reduction, true); },
             row.logits, logits_of(row)});
      }
}

TEST_CASE("cross_entropy of probabilities: values, and derivatives by logits and by the target") {
  for (const ShapeRow& row : shape_rows) {
    Doubles target;
    for (std::size_t i = 0; i < row.layout.rows * 3; ++i) target.push_back(0.1 + 0.13 * static_cast<double>(i * 5 % 7));
    const Doubles x = logits_of(row);
    for (LossReduction reduction : reductions)
      for (bool is_weighted : {false, true})
        for (double smoothing : {0.0, 0.25}) {
          const auto call = options(is_weighted, smoothing, reduction);
          check_case({row.name, [=](const Tensor& t) { return cross_entropy(t, array(target, row.logits), call); },
                      [=](const Doubles& v) {
                        return by_probabilities(v, target, row.layout, is_weighted, smoothing, reduction);
                      },
                      row.logits, x});
          check_case(
              {row.name, [=](const Tensor& t) { return cross_entropy(array(x, row.logits), t, call); },
               [=](const Doubles& v) { return by_probabilities(x, v, row.layout, is_weighted, smoothing, reduction); },
               row.logits, target});
        }
  }
}

TEST_CASE("cross_entropy of images: dtypes, mapped, of any size, without rows") {
  const Tensor x = array(smooth_logits, {2, 3, 3}), target = reshape(tensor({2, 0, 1, 1, 1, 0}), {2, 3});
  const double want = by_classes(smooth_logits, images, {2, 0, 1, 1, 1, 0}, false, 0, LossReduction::mean)[0];
  CHECK(item<double>(cross_entropy(x, target)) == Approx(want));
  CHECK(cross_entropy(cast(x, DType::f16), target).dtype() == DType::f16);
  CHECK(item<float>(cross_entropy(cast(x, DType::f32), cast(target, DType::i64))) == Approx(want).epsilon(1e-5));
  const Tensor both = stack({x, x * 2.0}, 0), targets = stack({target, target}, 0);
  const auto mapped = jit::compile(
      [](Tensor a, Tensor t) { return jit::vmap([](Tensor one, Tensor of) { return cross_entropy(one, of); })(a, t); });
  CHECK(doubles(mapped(both, targets))[0] == Approx(want));
  CHECK(doubles(mapped(both, targets))[1] == Approx(item<double>(cross_entropy(x * 2.0, target))));
  const auto of_each = jit::vmap([](Tensor a, Tensor t) { return cross_entropy(a, t); });
  const Tensor lines = array(smooth_logits, {6, 3}), classes = tensor({2, 0, 1, 1, 1, 0});
  CHECK(near(doubles(of_each(lines, classes)),
             doubles(cross_entropy(lines, classes, {.reduction = LossReduction::none}))));
  CHECK(near(doubles(of_each(lines, softmax(lines, 1))),
             doubles(cross_entropy(lines, softmax(lines, 1), {.reduction = LossReduction::none}))));
  const auto dynamic =
      jit::compile([](Tensor a, Tensor t) { return cross_entropy(a, t); }, {.dynamic = jit::Dynamic::always});
  CHECK(item<double>(dynamic(x, target)) == Approx(want));
  CHECK(item<double>(dynamic(x(slice(0, 1)), target(slice(0, 1)))) ==
        Approx(item<double>(cross_entropy(x(slice(0, 1)), target(slice(0, 1))))));
  const Tensor none = zeros({0, 3, 4}), no_targets = zeros({0, 4}, {.dtype = DType::i64});
  CHECK(std::isnan(item<float>(cross_entropy(none, no_targets))));
  CHECK(item<float>(cross_entropy(none, no_targets, {.reduction = LossReduction::sum})) == 0);
  CHECK(std::isnan(item<float>(cross_entropy(none, none))));
}

TEST_CASE("cross_entropy and nll_loss: targets that do not fit") {
  const Tensor x = ones({2, 3, 4});
  const int line = __LINE__ + 1;
  const std::string text = message_of<ShapeError>([&] { cross_entropy(x, zeros({2, 3}, {.dtype = DType::i64})); });
  CHECK(has(text, "cross_entropy: logits are (2, 3, 4), target is (2, 3) [class_targets_test.cpp:" +
                      std::to_string(line) + "]"));
  CHECK(has(text, "logits must be (n, classes, ...) and target (n, ...)"));
  CHECK(has(message_of<ShapeError>([&] { nll_loss(x, zeros({4, 2}, {.dtype = DType::i64})); }),
            "nll_loss: x is (2, 3, 4), target is (4, 2)"));
  CHECK(has(message_of<ShapeError>([] { cross_entropy(ones({3}), tensor({1})); }), "or (classes,) and ()"));
  CHECK(has(message_of<ShapeError>([&] { cross_entropy(x, ones({2, 4})); }), "probabilities have the shape"));
  CHECK(has(message_of<UserError>([&] { cross_entropy(x, x, {.ignore_index = 1}); }), "ignore_index is 1"));
  CHECK(has(message_of<UserError>([&] { cross_entropy(x, x, {.label_smoothing = 2}); }), "label_smoothing is 2"));
  CHECK(has(message_of<ShapeError>([&] { cross_entropy(x, x, {.weight = ones({4})}); }), "weight is (4,)"));
  CHECK(has(message_of<DTypeError>([&] { cross_entropy(cast(x, DType::i32), x); }), "must be floating"));
  CHECK(has(message_of<IndexError>([&] { eval(cross_entropy(x, full({2, 4}, 3, {.dtype = DType::i64}))); }),
            "index 3 is out of range for an axis of extent 3"));
}
