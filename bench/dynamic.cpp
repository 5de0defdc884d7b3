// What symbolic sizes cost: the dynamic version of a function against its static one, and strided arguments with strides
// known at run time against strides known to the compiler. The peer is the static version; a ratio of 0.95 is the promise.
#include "measure.hpp"
#include "row.hpp"

#include <sinter/sinter.hpp>

using namespace sinter;

namespace {

template <class F, class... A>
void row(const std::string& name, const std::string& shape, F f, const A&... args) {
  auto fixed = jit::compile(f, {.dynamic = jit::Dynamic::never}), dynamic = jit::compile(f, {.dynamic = jit::Dynamic::always});
  Tensor expected = fixed(args...), got = dynamic(args...);
  bench::require_close(got.template data<float>(), expected.template data<float>(), 0, name);   // bitwise: the order of sums is the same
  bench::Pair t = bench::compare([&] { bench::keep(dynamic(args...)); }, [&] { bench::keep(fixed(args...)); });
  bench::print({.name = name, .shape = shape, .dtype = "f32", .ours = t.ours * 1e9, .unit = "ns", .peer = "static version", .peer_value = t.peer * 1e9,
                .compile_ms = dynamic.stats().compile_ms});
}

Tensor ready(Tensor x) {
  eval(x);
  return x;
}

}  // namespace

int main() {
  set_thread_count(1);
  Tensor a = randn({65536}), b = randn({65536}), c = randn({65536}), small = randn({16});
  eval({a, b, c, small});
  row("dynamic: x*y+z", "16", [](Tensor x, Tensor y, Tensor z) { return x * y + z; }, small, small, small);
  row("dynamic: multiply-add chain", "65536", [](Tensor x, Tensor y, Tensor z) { return (x * y + z) * x - y; }, a, b, c);
  row("dynamic: tanh", "65536", [](Tensor x) { return tanh(x); }, a);
  Tensor x = randn({64, 1024}), w = randn({1024}), v = randn({1024});
  eval({x, w, v});
  row("dynamic: softmax", "64x1024", [](Tensor t) { return softmax(t, 1); }, x);
  row("dynamic: layer_norm", "64x1024", [](Tensor t, Tensor g, Tensor h) { return layer_norm(t, {t.size(1)}, g, h); }, x, w, v);
  row("dynamic: column sum", "64x1024", [](Tensor t) { return sum(t, 0); }, x);
  row("dynamic: full sum of squares", "64x1024", [](Tensor t) { return sum(t * t); }, x);
  for (int n : {64, 512}) {
    Tensor p = randn({n, n}), q = randn({n, n}), bias = randn({n});
    eval({p, q, bias});
    std::string shape = std::to_string(n) + "x" + std::to_string(n) + "x" + std::to_string(n);
    row("dynamic: matmul + bias + relu", shape, [](Tensor s, Tensor t, Tensor u) { return relu(matmul(s, t) + u); }, p, q, bias);
  }
  Tensor turned = ready(transpose(randn({1024, 64}), 0, 1)), part = ready(randn({64, 2048})(all, slice(512, 1536)));
  row("dynamic strides: transposed x*2+1", "64x1024", [](Tensor t) { return t * 2 + 1; }, turned);
  row("dynamic strides: slice, softmax", "64x1024", [](Tensor t) { return softmax(t, 1); }, part);
  row("dynamic strides: slice x*2+1", "64x1024", [](Tensor t) { return t * 2 + 1; }, part);
  row("dynamic strides: matmul of a transposed", "64x64x1024", [](Tensor t, Tensor u) { return matmul(t, u); }, turned, ready(randn({1024, 64})));
}
