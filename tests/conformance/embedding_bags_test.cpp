// Embeddings whose rows have a largest norm, and bags that are parts of a list of indices, against loops written out
// here.
#include "../checks.hpp"
#include "loop_cases.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using Places = std::vector<std::int64_t>;
const Doubles rows{0.3, -1.2, 2.1, 0.7, -0.4, 1.6, 0.9, -0.8, 1.3, 0.2, 0.6, -0.5};
const Extents four_by_three{4, 3};
const Places indices{1, 0, 3, 3, 2, 1, 2}, starts{0, 2, 2, 5};
const Doubles weights{0.5, -1, 2, 0.25, 3, 1, -0.75};

struct BagCase {
  BagMode mode = BagMode::mean;
  bool is_weighted = false, has_end = false;
  std::int64_t padding = -1;
};
Doubles bags_of(const Doubles& table, const Doubles& factors, const BagCase& row) {
  Doubles out;
  const std::size_t count = row.has_end ? starts.size() - 1 : starts.size();
  for (std::size_t bag = 0; bag < count; ++bag) {
    const auto first = static_cast<std::size_t>(starts[bag]);
    const std::size_t last = bag + 1 < starts.size() ? static_cast<std::size_t>(starts[bag + 1]) : indices.size();
    for (std::size_t i = 0; i < 3; ++i) {
      double sum = 0, largest = -std::numeric_limits<double>::infinity(), number = 0;
      for (std::size_t k = first; k < last; ++k) {
        if (indices[k] == row.padding) continue;
        const double x = table[static_cast<std::size_t>(indices[k]) * 3 + i] * (row.is_weighted ? factors[k] : 1);
        sum += x;
        largest = std::max(largest, x);
        ++number;
      }
      if (row.mode == BagMode::sum) out.push_back(sum);
      else if (row.mode == BagMode::mean) out.push_back(number == 0 ? 0 : sum / number);
      else out.push_back(number == 0 ? 0 : largest);
    }
  }
  return out;
}
EmbeddingBagOptions options(const BagCase& row, DType index = DType::i64) {
  EmbeddingBagOptions out{
      .mode = row.mode, .offsets = cast(copy_of(starts), index), .include_last_offset = row.has_end};
  if (row.padding >= 0) out.padding_idx = row.padding;
  return out;
}
/// Rows longer than `most` in the norm of this order, scaled down.
Doubles renormalised(const Doubles& x, double most, double order) {
  Doubles out;
  for (std::size_t row = 0; row < x.size() / 3; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += std::pow(std::abs(x[3 * row + i]), order);
    const double length = std::pow(sum, 1 / order);
    for (std::size_t i = 0; i < 3; ++i) out.push_back(x[3 * row + i] * (length > most ? most / (length + 1e-7) : 1));
  }
  return out;
}

}  // namespace

TEST_CASE("embedding_bag of a list of indices and offsets") {
  for (BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max})
    for (bool has_end : {false, true})
      for (std::int64_t padding : {-1, 3}) {
        const BagCase row{mode, false, has_end, padding};
        for (DType index : {DType::i64, DType::i32})
          check_case({"bags", [=](const Tensor& t) { return embedding_bag(copy_of(indices), t, options(row, index)); },
                      [=](const Doubles& x) { return bags_of(x, weights, row); }, four_by_three, rows});
        if (mode != BagMode::sum) continue;
        BagCase weighted = row;
        weighted.is_weighted = true;
        check_case({"weighted bags",
                    [=](const Tensor& t) {
                      EmbeddingBagOptions with = options(weighted);
                      with.weights = copy_of(weights);
                      return embedding_bag(copy_of(indices), t, with);
                    },
                    [=](const Doubles& x) { return bags_of(x, weights, weighted); }, four_by_three, rows});
        check_case({"by the weights",
                    [=](const Tensor& w) {
                      EmbeddingBagOptions with = options(weighted);
                      with.weights = w;
                      return embedding_bag(copy_of(indices), array(rows, four_by_three), with);
                    },
                    [=](const Doubles& w) { return bags_of(rows, w, weighted); },
                    {7},
                    weights});
      }
  const Tensor table = array(rows, four_by_three);
  const Tensor no_indices = zeros({0}, {.dtype = DType::i64}), two = zeros({2}, {.dtype = DType::i64});
  CHECK(doubles(embedding_bag(no_indices, table, {.offsets = two})) == Doubles(6, 0));
  CHECK(embedding_bag(no_indices, table, {.offsets = no_indices}).shape() == Shape{0, 3});
  CHECK(embedding_bag(copy_of(indices), cast(table, DType::f16), {.offsets = two}).dtype() == DType::f16);
  const auto dynamic = jit::compile(
      [](Tensor i, Tensor o, Tensor t) { return embedding_bag(i, t, {.mode = BagMode::sum, .offsets = o}); },
      {.dynamic = jit::Dynamic::always});
  CHECK(near(doubles(dynamic(copy_of(indices), copy_of(starts), table)), bags_of(rows, weights, {BagMode::sum})));
  const auto mapped = jit::vmap([](Tensor i, Tensor o, Tensor t) { return embedding_bag(i, t, {.offsets = o}); });
  const Tensor found = mapped(stack({copy_of(indices), copy_of(indices)}, 0),
                              stack({copy_of(starts), copy_of(starts)}, 0), stack({table, table * 2.0}, 0));
  CHECK(near(doubles(found(0)), bags_of(rows, weights, {})));
  CHECK(near(doubles(found(1)), doubles(found(0) * 2.0)));
  CHECK(near(doubles(dynamic(tensor<std::int64_t>({1, 1}), tensor<std::int64_t>({0}), table)), {1.4, -0.8, 3.2}));
}

TEST_CASE("rows of embeddings with a largest norm; the table stays as it is") {
  const Places some{1, 0, 3, 1};
  for (double order : {2.0, 1.0, 3.0}) {
    const auto loop = [=](const Doubles& x) {
      const Doubles scaled = renormalised(x, 1.5, order);
      Doubles out;
      for (std::int64_t i : some)
        for (std::size_t k = 0; k < 3; ++k) out.push_back(scaled[static_cast<std::size_t>(i) * 3 + k]);
      return out;
    };
    check_case({"embedding",
                [=](const Tensor& t) { return embedding(copy_of(some), t, {.max_norm = 1.5, .norm_type = order}); },
                loop, four_by_three, rows});
    check_case({"embedding_bag",
                [=](const Tensor& t) {
                  EmbeddingBagOptions with = options({BagMode::sum});
                  with.max_norm = 1.5;
                  with.norm_type = order;
                  return embedding_bag(copy_of(indices), t, with);
                },
                [=](const Doubles& x) { return bags_of(renormalised(x, 1.5, order), weights, {BagMode::sum}); },
                four_by_three, rows});
  }
  const Tensor table = array(rows, four_by_three);
  embedding(copy_of(some), table, {.max_norm = 0.1});
  CHECK(doubles(table) == rows);
  const Tensor zero = zeros({2, 3}, {.dtype = DType::f64});
  CHECK(doubles(jit::grad([](Tensor t) { return sum(embedding(tensor({0}), t, {.max_norm = 1})); })(zero)) ==
        Doubles{1, 1, 1, 0, 0, 0});
}

TEST_CASE("embedding_bag: offsets that do not fit") {
  const Tensor table = array(rows, four_by_three), list = copy_of(indices);
  const int line = __LINE__ + 1;
  const std::string text = message_of<ShapeError>([&] { embedding_bag(list, table); });
  CHECK(has(text,
            "embedding_bag: indices are (7,), table is (4, 3) [embedding_bags_test.cpp:" + std::to_string(line) + "]"));
  CHECK(has(message_of<ShapeError>([&] { embedding_bag(unsqueeze(list, 0), table, {.offsets = copy_of(starts)}); }),
            "offsets are (4,)"));
  CHECK(has(message_of<DTypeError>([&] { embedding_bag(list, table, {.offsets = ones({2})}); }), "offsets are f32"));
  CHECK(has(message_of<UserError>([&] { embedding_bag(unsqueeze(list, 0), table, {.include_last_offset = true}); }),
            "there are no offsets"));
  CHECK(has(message_of<IndexError>([&] { eval(embedding_bag(list, table, {.offsets = tensor({1, 3})})); }),
            "index 2 is out of range"));
  CHECK(has(message_of<UserError>([&] { embedding(list, table, {.max_norm = -1}); }), "max_norm is -1"));
  CHECK(has(message_of<IndexError>([&] { eval(embedding_bag(tensor({4}), table, {.offsets = tensor({0})})); }),
            "index 4 is out of range for an axis of extent 4"));
}
