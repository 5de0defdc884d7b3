// A class with private members says which of them are taken apart.
// expect: sinter: this type cannot be taken apart; write SINTER_FIELDS\(member, \.\.\.\) in it, or pass its tensors
#include <sinter/sinter.hpp>

using namespace sinter;

class Layer {
 public:
  explicit Layer(Tensor w) : w_(w) {}
  Tensor operator()(const Tensor& x) const { return x * w_; }
#ifdef SINTER_COMPILE_FAIL
#else
  SINTER_FIELDS(w_)
#endif

 private:
  Tensor w_;
};

void use(Tensor x) {
  auto f = jit::compile([](const Layer& layer, Tensor t) { return layer(t); });
  f(Layer(x), x);
}
