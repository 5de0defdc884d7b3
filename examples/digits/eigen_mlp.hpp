// The MLP training step written by hand with Eigen: the peer that the demo times Sinter against. No Eigen type shows
// here, so that its translation unit alone is built for this machine's instruction set.
#pragma once

#include <cstdint>
#include <memory>

class EigenMlp {
 public:
  EigenMlp(int inputs, int hidden, int classes, const float* w1, const float* w2);
  ~EigenMlp();
  /// One step of gradient descent on a batch (row-major); gives the loss.
  float step(const float* x, const std::int64_t* labels, int batch, float learning_rate);

 private:
  struct Weights;
  std::unique_ptr<Weights> weights_;
};
