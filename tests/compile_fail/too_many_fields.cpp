// Aggregates are taken apart up to 16 fields.
// expect: sinter: aggregates of up to 16 fields can be taken apart; use SINTER_FIELDS\(\.\.\.\) in larger ones
#include <sinter/sinter.hpp>

using namespace sinter;

struct Many {
  Tensor a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
#ifdef SINTER_COMPILE_FAIL
  Tensor q;
#endif
};

void use(const Many& many) {
  auto f = jit::compile([](const Many& x) { return x.a + x.p; });
  f(many);
}
