#include "eigen_mlp.hpp"

#include <Eigen/Dense>

#include <cmath>

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::Matrix<float, 1, Eigen::Dynamic>;

// Buffers are members and products use noalias(): this is Eigen as an expert writes it.
struct EigenMlp::Weights {
  Matrix w1, w2, hidden, logits, d_hidden;
  Row b1, b2;
};

EigenMlp::EigenMlp(int inputs, int hidden, int classes, const float* w1, const float* w2)
    : weights_(std::make_unique<Weights>()) {
  weights_->w1 = Eigen::Map<const Matrix>(w1, inputs, hidden);
  weights_->w2 = Eigen::Map<const Matrix>(w2, hidden, classes);
  weights_->b1 = Row::Zero(hidden);
  weights_->b2 = Row::Zero(classes);
}
EigenMlp::~EigenMlp() = default;

float EigenMlp::step(const float* input, const std::int64_t* labels, int batch, float learning_rate) {
  Weights& w = *weights_;
  Eigen::Map<const Matrix> x(input, batch, w.w1.rows());
  w.hidden.noalias() = x * w.w1;
  w.hidden = (w.hidden.rowwise() + w.b1).cwiseMax(0.f);
  w.logits.noalias() = w.hidden * w.w2;
  w.logits.rowwise() += w.b2;
  float loss = 0;
  for (int i = 0; i < batch; ++i) {
    auto row = w.logits.row(i);
    float largest = row.maxCoeff(), picked = row(labels[i]);
    row = (row.array() - largest).exp();
    float total = row.sum();
    loss += std::log(total) + largest - picked;
    row /= total;
    row(labels[i]) -= 1;
  }
  w.logits /= static_cast<float>(batch);
  w.d_hidden.noalias() = w.logits * w.w2.transpose();
  w.d_hidden = (w.hidden.array() > 0).select(w.d_hidden, 0.f);
  w.w2.noalias() -= learning_rate * (w.hidden.transpose() * w.logits);
  w.b2 -= learning_rate * w.logits.colwise().sum();
  w.w1.noalias() -= learning_rate * (x.transpose() * w.d_hidden);
  w.b1 -= learning_rate * w.d_hidden.colwise().sum();
  return loss / static_cast<float>(batch);
}
