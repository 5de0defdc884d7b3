// Operations written by hand with Eigen, as peers of ours and to check the results of other peers. On raw memory,
// row-major.
#pragma once

#include "shapes.hpp"

#include <Eigen/Dense>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace bench {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixView = Eigen::Map<Matrix>;
using ConstMatrixView = Eigen::Map<const Matrix>;
using Array = Eigen::Array<float, Eigen::Dynamic, 1>;
using ConstRowView = Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>>;

inline std::string eigen_version() {
  return std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
         std::to_string(EIGEN_MINOR_VERSION);
}

inline std::span<const float> elements(const Matrix& m) { return {m.data(), static_cast<std::size_t>(m.size())}; }
inline std::span<const float> elements(const Array& a) { return {a.data(), static_cast<std::size_t>(a.size())}; }

inline void multiply(const Product& p, const float* a, const float* b, float* c) {
  for (std::int64_t i = 0; i < p.batch; ++i)
    MatrixView(c + i * p.m * p.n, p.m, p.n).noalias() =
        ConstMatrixView(a + i * p.m * p.k, p.m, p.k) * ConstMatrixView(b + i * p.k * p.n, p.k, p.n);
}

inline void add_bias_and_relu(const Product& p, const float* bias, float* c) {
  MatrixView out(c, p.m, p.n);
  out = (out.array().rowwise() + ConstRowView(bias, p.n)).cwiseMax(0.f);
}

inline void softmax_of_rows(const Rows& size, const float* x, float* y) {
  ConstMatrixView in(x, size.count, size.length);
  MatrixView out(y, size.count, size.length);
  for (std::int64_t i = 0; i < size.count; ++i) {
    auto row = out.row(i).array();
    row = (in.row(i).array() - in.row(i).maxCoeff()).exp();
    row *= 1 / row.sum();
  }
}

inline void layer_norm_of_rows(const Rows& size, const float* x, const float* weight, const float* bias, float* y) {
  ConstMatrixView in(x, size.count, size.length);
  MatrixView out(y, size.count, size.length);
  for (std::int64_t i = 0; i < size.count; ++i) {
    auto row = out.row(i).array();
    row = in.row(i).array() - in.row(i).mean();
    row = row * (1 / std::sqrt(row.square().mean() + 1e-5f)) * ConstRowView(weight, size.length) +
          ConstRowView(bias, size.length);
  }
}

/// A convolution as a product with patches of the image laid out as columns.
class ConvolutionByProduct {
 public:
  explicit ConvolutionByProduct(const Convolution& size) : size_(size), patches_(size.patch(), size.h * size.w) {}

  void operator()(const float* images, const float* weights, float* out) {
    const std::int64_t area = size_.h * size_.w;
    for (std::int64_t i = 0; i < size_.n; ++i) {
      lay_out(images + i * size_.c * area);
      MatrixView(out + i * size_.o * area, size_.o, area).noalias() =
          ConstMatrixView(weights, size_.o, size_.patch()) * patches_;
    }
  }

 private:
  void lay_out(const float* image) {
    std::int64_t row = 0;
    for (std::int64_t c = 0; c < size_.c; ++c)
      for (std::int64_t dy = -size_.padding(); dy <= size_.padding(); ++dy)
        for (std::int64_t dx = -size_.padding(); dx <= size_.padding(); ++dx)
          lay_out_row(image + c * size_.h * size_.w, dy, dx, patches_.row(row++).data());
  }
  void lay_out_row(const float* plane, std::int64_t dy, std::int64_t dx, float* out) const {
    for (std::int64_t y = 0; y < size_.h; ++y)
      for (std::int64_t x = 0; x < size_.w; ++x) {
        const bool is_inside = y + dy >= 0 && y + dy < size_.h && x + dx >= 0 && x + dx < size_.w;
        *out++ = is_inside ? plane[(y + dy) * size_.w + x + dx] : 0;
      }
  }

  Convolution size_;
  Matrix patches_;
};

/// softmax(q k^T / sqrt(width)) v for each head, with all scores in memory.
inline void attend(const Attention& size, const float* q, const float* k, const float* v, float* out) {
  const float scale = 1 / std::sqrt(static_cast<float>(size.width));
  Matrix scores(size.tokens, size.tokens);
  for (std::int64_t head = 0; head < size.batch * size.heads; ++head) {
    const std::int64_t start = head * size.tokens * size.width;
    scores.noalias() = ConstMatrixView(q + start, size.tokens, size.width) *
                       ConstMatrixView(k + start, size.tokens, size.width).transpose();
    scores *= scale;
    if (size.is_causal)
      for (std::int64_t i = 0; i < size.tokens; ++i)
        scores.row(i).tail(size.tokens - 1 - i).setConstant(-std::numeric_limits<float>::infinity());
    softmax_of_rows({size.tokens, size.tokens}, scores.data(), scores.data());
    MatrixView(out + start, size.tokens, size.width).noalias() =
        scores * ConstMatrixView(v + start, size.tokens, size.width);
  }
}

}  // namespace bench
