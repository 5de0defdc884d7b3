// Op tables: matrix products, convolution, pooling and attention.
#include "op_table.hpp"

using namespace sinter_test;

namespace {

std::int64_t size(const Array& x, int axis) {
  return x.extents[static_cast<std::size_t>(axis < 0 ? axis + static_cast<int>(x.extents.size()) : axis)];
}
double at(const Array& x, std::int64_t i) { return x.data[static_cast<std::size_t>(i)]; }

/// As np.matmul. The scale of an element is the sum of the sizes of its products.
Array matmul_oracle(Array a, Array b) {
  const bool a_is_vector = a.extents.size() == 1, b_is_vector = b.extents.size() == 1;
  if (a_is_vector) a.extents.insert(a.extents.begin(), 1);
  if (b_is_vector) b.extents.push_back(1);
  const std::int64_t rows = size(a, -2), inner = size(a, -1), columns = size(b, -1);
  const Extents a_batch(a.extents.begin(), a.extents.end() - 2), b_batch(b.extents.begin(), b.extents.end() - 2);
  const Extents batch = oracle::broadcast_shape(a_batch, b_batch);
  Extents a_full = batch, b_full = batch;
  a_full.insert(a_full.end(), {rows, inner});
  b_full.insert(b_full.end(), {inner, columns});
  const Numbers x = oracle::broadcast(a.data, a.extents, a_full), y = oracle::broadcast(b.data, b.extents, b_full);
  Array out{a.dtype, batch, {}, {}};
  if (!a_is_vector) out.extents.push_back(rows);
  if (!b_is_vector) out.extents.push_back(columns);
  for (std::int64_t batch_index = 0; batch_index < oracle::count(batch); ++batch_index)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        long double total = 0, sizes = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          const double product = x[static_cast<std::size_t>((batch_index * rows + i) * inner + k)] *
                                 y[static_cast<std::size_t>((batch_index * inner + k) * columns + j)];
          total += product;
          sizes += std::abs(product);
        }
        out.data.push_back(static_cast<double>(total));
        out.scale.push_back(static_cast<double>(sizes));
      }
  return out;
}

struct Convolution {
  std::int64_t stride = 1, padding = 0;
};
Array conv2d_oracle(const Array& x, const Array& w, Convolution how) {
  const std::int64_t height = size(x, 2), width = size(x, 3), kernel_h = size(w, 2), kernel_w = size(w, 3),
                     channels = size(x, 1);
  Array out{x.dtype,
            {size(x, 0), size(w, 0), (height + 2 * how.padding - kernel_h) / how.stride + 1,
             (width + 2 * how.padding - kernel_w) / how.stride + 1},
            {},
            {}};
  for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
    const Extents to = oracle::coordinates(i, out.extents);
    double total = 0, sizes = 0;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < kernel_h; ++p)
        for (std::int64_t q = 0; q < kernel_w; ++q) {
          const std::int64_t row = to[2] * how.stride + p - how.padding, column = to[3] * how.stride + q - how.padding;
          if (row < 0 || row >= height || column < 0 || column >= width) continue;
          const double product = at(x, ((to[0] * channels + c) * height + row) * width + column) *
                                 at(w, ((to[1] * channels + c) * kernel_h + p) * kernel_w + q);
          total += product;
          sizes += std::abs(product);
        }
    out.data.push_back(total);
    out.scale.push_back(sizes);
  }
  return out;
}

enum class Pool : std::uint8_t { largest, average };
Array pool_oracle(const Array& x, Pool pool, std::int64_t window, std::int64_t stride) {
  const std::int64_t height = size(x, 2), width = size(x, 3);
  Array out{x.dtype, {size(x, 0), size(x, 1), (height - window) / stride + 1, (width - window) / stride + 1}, {}, {}};
  for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
    const Extents to = oracle::coordinates(i, out.extents);
    Numbers seen;
    for (std::int64_t p = 0; p < window; ++p)
      for (std::int64_t q = 0; q < window; ++q)
        seen.push_back(
            at(x, ((to[0] * size(x, 1) + to[1]) * height + to[2] * stride + p) * width + to[3] * stride + q));
    out.data.push_back(pool == Pool::largest ? oracle::amax(seen) : oracle::mean(seen));
    out.scale.push_back(pool == Pool::largest ? 0 : oracle::mean_of_sizes(seen));
  }
  return out;
}

/// in: q, k, v and perhaps a mask, broadcast to the scores.
Array attention_oracle(const Arrays& in, Causal causal) {
  const Array &q = in[0], &k = in[1], &v = in[2];
  const std::int64_t queries = size(q, -2), keys = size(k, -2), features = size(q, -1), values = size(v, -1);
  const std::int64_t batches = size(q, 0) * size(q, 1);
  Numbers mask;
  if (in.size() > 3) mask = oracle::broadcast(in[3].data, in[3].extents, {size(q, 0), size(q, 1), queries, keys});
  Array out{q.dtype, q.extents, {}, {}};
  out.extents.back() = values;
  for (std::int64_t b = 0; b < batches; ++b)
    for (std::int64_t i = 0; i < queries; ++i) {
      Numbers scores;
      for (std::int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (std::int64_t f = 0; f < features; ++f)
          score += at(q, (b * queries + i) * features + f) * at(k, (b * keys + j) * features + f);
        score /= std::sqrt(static_cast<double>(features));
        if (!mask.empty()) {
          const double shown = mask[static_cast<std::size_t>((b * queries + i) * keys + j)];
          score = in[3].dtype != DType::bool_ ? score + shown : shown != 0 ? score : -oracle::infinite;
        }
        const std::int64_t last_seen = causal.alignment() == Causal::to_end ? i + keys - queries : i;
        scores.push_back(causal.alignment() != Causal::no && j > last_seen ? -oracle::infinite : score);
      }
      Numbers weights = oracle::softmax(scores);
      // A query that sees nothing gets zeros.
      if (std::all_of(scores.begin(), scores.end(), [](double score) { return score == -oracle::infinite; }))
        weights.assign(scores.size(), 0);
      for (std::int64_t f = 0; f < values; ++f) {
        double total = 0;
        for (std::int64_t j = 0; j < keys; ++j)
          total += weights[static_cast<std::size_t>(j)] * at(v, (b * keys + j) * values + f);
        out.data.push_back(total);
      }
    }
  return out;
}

constexpr DType floats[] = {DType::f32, DType::f64};
/// Errors of sums grow with the root of their length; these are of at most 700 terms.
constexpr Tolerance product_tolerance{24, 25, 0};

Tensor product(const Inputs& in) { return matmul(in[0], in[1]); }
Array product_of(const Arrays& in) { return matmul_oracle(in[0], in[1]); }

}  // namespace

TEST_CASE("op table: matmul") {
  struct Shapes {
    Extents a, b;
    Empty empty = Empty::works;
  };
  const std::vector<Shapes> shapes{
      {{n, 3}, {3, m}},
      {{4, n}, {n, 5}},
      {{n}, {n}},
      {{3, n}, {n}},
      {{n}, {n, 3}},
      {{n, 3}, {3}},
      {{2, n, 3}, {3, 4}},
      {{2, 3, n}, {2, n, 4}},
      {{n, 3, 4}, {n, 4, 2}},
      {{2, 1, 3, 4}, {5, 4, n}},
      {{3, 4}, {n, 4, 5}},
      {{4}, {n, 4, 5}},
      {{n, 4, 5}, {5}},
  };
  for (DType dtype : floats) {
    for (const Shapes& shape : shapes) {
      Row row{"matmul " + std::string(name(dtype)) + Shape(shape.a).text() + Shape(shape.b).text(),
              product,
              product_of,
              {{shape.a, dtype}, {shape.b, dtype}},
              product_tolerance};
      row.empty = shape.empty;
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
    for (const auto& [a, b] : {std::pair{Extents{1, 1}, Extents{1, 1}},
                               {Extents{1, 700}, Extents{700, 1}},
                               {Extents{700, 1}, Extents{1, 3}},
                               {Extents{33, 65}, Extents{65, 17}},
                               {Extents{70, 130}, Extents{130, 50}},
                               {Extents{7, 300}, Extents{300, 129}},
                               {Extents{3, 31, 33}, Extents{3, 33, 32}},
                               {Extents{129, 5}, Extents{5, 200}}}) {
      Row row{"matmul " + std::string(name(dtype)) + Shape(a).text() + Shape(b).text(),
              product,
              product_of,
              {{a, dtype}, {b, dtype}},
              product_tolerance};
      row.strided = Strided::distinct;
      check_row(row);
    }
  }
}

TEST_CASE("op table: matmul of transposed operands and with what is fused around it") {
  for (DType dtype : floats) {
    auto turned = [](const Array& x) {
      return gathered(x, {size(x, 1), size(x, 0)}, [](Extents e) { return Extents{e[1], e[0]}; });
    };
    const Domain domain{-2, 2};
    auto check = [&](const char* what, Function run, Oracle want, std::vector<Extents> extents) {
      Row row{
          std::string(what) + " " + std::string(name(dtype)), std::move(run), std::move(want), {}, product_tolerance};
      for (const Extents& e : extents) row.inputs.push_back({e, dtype, domain});
      if (dtype == DType::f64) row.derivative = Derivative::first;
      check_row(row);
    };
    check(
        "a^T b", [](const Inputs& in) { return matmul(in[0].t(), in[1]); },
        [=](const Arrays& in) { return matmul_oracle(turned(in[0]), in[1]); }, {{7, n}, {7, 5}});
    check(
        "a b^T", [](const Inputs& in) { return matmul(in[0], in[1].t()); },
        [=](const Arrays& in) { return matmul_oracle(in[0], turned(in[1])); }, {{n, 9}, {m, 9}});
    check(
        "a^T b^T", [](const Inputs& in) { return matmul(in[0].t(), in[1].t()); },
        [=](const Arrays& in) { return matmul_oracle(turned(in[0]), turned(in[1])); }, {{4, n}, {m, 4}});
    check(
        "relu(a b + c) * 2", [](const Inputs& in) { return Tensor(relu(matmul(in[0], in[1]) + in[2]) * 2); },
        [](const Arrays& in) {
          Array out = matmul_oracle(in[0], in[1]);
          const Numbers bias = oracle::broadcast(in[2].data, in[2].extents, out.extents);
          for (std::size_t i = 0; i < out.data.size(); ++i)
            out.data[i] = 2 * std::max(out.data[i] + bias[i], 0.0),
            out.scale[i] = 2 * (out.scale[i] + std::abs(bias[i]));
          return out;
        },
        {{n, 20}, {20, 35}, {35}});
    check(
        "(a - b) c", [](const Inputs& in) { return matmul(in[0] - in[1], in[2]); },
        [](const Arrays& in) {
          Array left = in[0];
          for (std::size_t i = 0; i < left.data.size(); ++i)
            left.data[i] = rounded_to(left.dtype, in[0].data[i] - in[1].data[i], {});
          return matmul_oracle(left, in[2]);
        },
        {{n, 12}, {n, 12}, {12, 6}});
    check(
        "a (b c)", [](const Inputs& in) { return matmul(in[0], matmul(in[1], in[2])); },
        [](const Arrays& in) {
          Array out = matmul_oracle(in[0], matmul_oracle(in[1], in[2])), sizes[3] = {in[0], in[1], in[2]};
          for (Array& x : sizes)
            for (double& v : x.data) v = std::abs(v);
          out.scale = matmul_oracle(sizes[0], matmul_oracle(sizes[1], sizes[2])).data;
          return out;
        },
        {{n, 6}, {6, 5}, {5, n}});
  }
}

TEST_CASE("op table: matmul of mixed dtypes, and what it refuses") {
  check_row({"matmul f32 f64",
             product,
             [](const Arrays& in) {
               Array a = in[0];
               a.dtype = DType::f64;
               return matmul_oracle(a, in[1]);
             },
             {{{n, 3}, DType::f32}, {{3, 4}, DType::f64}},
             product_tolerance});
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    CHECK_THROWS_AS(run_in(mode, product, {ones({2, 3}), ones({2, 3})}), ShapeError);
    CHECK_THROWS_AS(run_in(mode, product, {ones({}), ones({2, 3})}), ShapeError);
    CHECK_THROWS_AS(run_in(mode, product, {ones({3, 2, 3}), ones({2, 3, 3})}), ShapeError);
    CHECK_THROWS_AS(
        run_in(mode, product, {ones({2, 3}, {.dtype = DType::bool_}), ones({3, 3}, {.dtype = DType::bool_})}),
        DTypeError);
  }
}

TEST_CASE("op table: conv2d") {
  struct Shapes {
    Extents x, w;
    Convolution how;
  };
  for (DType dtype : floats)
    for (const Shapes& shape : {Shapes{{n, 2, 5, 4}, {3, 2, 3, 2}, {}}, Shapes{{2, 3, 7, 6}, {2, 3, 3, 3}, {2, 1}},
                                Shapes{{1, 1, 3, 3}, {2, 1, 2, 2}, {1, 2}}, Shapes{{n, 1, 8, 8}, {4, 1, 3, 3}, {1, 1}},
                                Shapes{{2, 3, 4, 5}, {6, 3, 1, 1}, {}}, Shapes{{2, 2, 9, 9}, {3, 2, 2, 4}, {3, 0}},
                                Shapes{{1, 2, m, 5}, {2, 2, 3, 3}, {1, 1}}}) {
      Row row{"conv2d " + std::string(name(dtype)) + Shape(shape.x).text() + Shape(shape.w).text(),
              [how = shape.how](const Inputs& in) {
                return conv2d(in[0], in[1], {.stride = how.stride, .padding = how.padding});
              },
              [how = shape.how](const Arrays& in) { return conv2d_oracle(in[0], in[1], how); },
              {{shape.x, dtype}, {shape.w, dtype}},
              product_tolerance};
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
}

TEST_CASE("op table: conv2d whose kernel changes its size is compiled for each") {
  for (const Mode& mode : modes()) {
    if (mode.backend == nullptr) continue;
    const auto f = jit::compile(
        [](Tensor x, Tensor w) {
          return jit::grad([](Tensor image, Tensor kernel) { return sum(square(conv2d(image, kernel))); })(x, w) +
                 conv2d(x, w)(all, all, slice(0, 1), slice(0, 1));
        },
        mode.options());
    for (std::int64_t size : {3, 5, 4, 3}) {
      INFO(mode.name << ", kernel of " << size);
      const Arrays in = make_inputs({{{2, 1, 8, 8}, DType::f64}, {{1, 1, size, size}, DType::f64}}, 0);
      const Inputs x = tensors(in);
      CHECK(to_vector<double>(f(x[0], x[1])).size() == 128);
      CHECK(difference(run_in(
                           mode, [](const Inputs& v) { return conv2d(v[0], v[1]); }, x),
                       conv2d_oracle(in[0], in[1], {}), product_tolerance) == "");
    }
    CHECK(f.stats().compiles == 3);
  }
}

TEST_CASE("op table: pooling") {
  struct Shapes {
    Extents x;
    std::int64_t window, stride;
  };
  for (DType dtype : floats)
    for (Pool pool : {Pool::largest, Pool::average})
      for (const Shapes& shape : {Shapes{{n, 2, 4, 6}, 2, 0}, Shapes{{2, n, 7, 5}, 3, 2}, Shapes{{1, 2, 5, 5}, 3, 1},
                                  Shapes{{2, 1, 5, 8}, 2, 3}, Shapes{{1, 1, m, 4}, 2, 2}, Shapes{{1, 2, 3, 3}, 1, 1}}) {
        Row row{std::string(pool == Pool::largest ? "max" : "avg") + "_pool2d " + std::string(name(dtype)) +
                    Shape(shape.x).text(),
                [=](const Inputs& in) {
                  return pool == Pool::largest ? max_pool2d(in[0], shape.window, shape.stride)
                                               : avg_pool2d(in[0], shape.window, shape.stride);
                },
                [=](const Arrays& in) {
                  return pool_oracle(in[0], pool, shape.window, shape.stride == 0 ? shape.window : shape.stride);
                },
                {{shape.x, dtype, {-9, 9}}},
                pool == Pool::largest ? oracle::exact : Tolerance{4, 5, 0}};
        if (dtype == DType::f64) row.derivative = pool == Pool::largest ? Derivative::first : Derivative::second;
        check_row(row);
      }
}

TEST_CASE("op table: attention") {
  // Scores are sums; their rounding is an error of the weights: a few ulps of numbers of the size of v.
  constexpr Tolerance tolerance{24, 26, 2};
  for (DType dtype : floats) {
    const Spec q{{2, 2, n, 4}, dtype, {-1, 1}}, k{{2, 2, m, 4}, dtype, {-1, 1}}, v{{2, 2, m, 3}, dtype, {-2, 2}};
    const Spec k_n{{2, 2, n, 4}, dtype, {-1, 1}}, v_n{{2, 2, n, 3}, dtype, {-2, 2}};
    auto check = [&](const char* what, Causal causal, std::vector<Spec> inputs) {
      Row row{std::string("attention") + what + " " + std::string(name(dtype)),
              [causal](const Inputs& in) {
                AttentionOptions options{.causal = causal};
                if (in.size() > 3) options.mask = in[3];
                return scaled_dot_product_attention(in[0], in[1], in[2], options);
              },
              [causal](const Arrays& in) { return attention_oracle(in, causal); }, std::move(inputs), tolerance};
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    };
    check("", Causal::no, {q, k, v});
    check(", causal", true, {q, k_n, v_n});
    check(", with a mask that is added", Causal::no, {q, k, v, {{n, m}, dtype, {-2, 2}}});
    check(", causal, with a mask per head", true, {q, k_n, v_n, {{2, 1, 1}, dtype, {-2, 2}}});
    check(", causal from the start", Causal::from_start, {q, k, v});
    check(", causal to the end", Causal::to_end, {q, k, v});
    check(", causal to the end of fewer keys", Causal::to_end, {{{2, 2, m, 4}, dtype, {-1, 1}}, k_n, v_n});
    check(", with a mask of booleans", Causal::no, {q, k, v, {{m}, DType::bool_, {-1.5, 1}}});
  }
}

TEST_CASE("op table: a window that no longer fits is an error") {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto convolve = compiled([](const Inputs& in) { return conv2d(in[0], in[1]); }, mode);
    for (std::int64_t size : {8, 9, 3, 7, 2}) {
      const Inputs in{ones({1, 1, size, 6}), ones({1, 1, 4, 3})};
      auto convolved = [&] { return mode.backend == nullptr ? conv2d(in[0], in[1]) : convolve(in); };
      if (size < 4) CHECK_THROWS_AS(convolved(), ShapeError);
      else CHECK(convolved().shape() == Shape{1, 1, size - 3, 4});
      auto pooled = [&] { return run_in(mode, [](const Inputs& x) { return max_pool2d(x[0], 4, 1); }, in); };
      if (size < 4) CHECK_THROWS_AS(pooled(), ShapeError);
      else CHECK(pooled().shape() == Shape{1, 1, size - 3, 3});
    }
  }
}
