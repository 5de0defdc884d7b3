// What symbolic sizes cost: the dynamic version of a function against its static one, and strided arguments with
// strides known at run time against strides known to the compiler. The peer is the static version; a ratio of 0.95 is
// the promise.
#include "compiled.hpp"

using namespace sinter;
using benchmark::State;

namespace {

template <class F, class... A>
void compare_versions(State& state, F f, const A&... args) {
  jit::reset();
  auto fixed = jit::compile(f, {.dynamic = jit::Dynamic::never});
  auto dynamic = jit::compile(f, {.dynamic = jit::Dynamic::always});
  Tensor expected = fixed(args...), got = dynamic(args...);
  const double compile_ms = dynamic.stats().compile_ms;
  // Bitwise: the order of sums is the same.
  if (!bench::agree(state, got.template data<float>(), expected.template data<float>(), 0)) return;
  expected = got = Tensor();  // their memory is for the calls that are timed
  bench::alternate(
      state, "static version", [&] { benchmark::DoNotOptimize(dynamic(args...)); },
      [&] { benchmark::DoNotOptimize(fixed(args...)); });
  state.counters["compile_ms"] = compile_ms;
}

template <class F, class... A>
void add(const std::string& name, F f, const A&... args) {
  bench::add(name + "/f32", [=](State& state) { compare_versions(state, f, args...); });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  const Tensor &a = bench::noise({65536}), &b = bench::noise({65536}, 1), &c = bench::noise({65536}, 2),
               &small = bench::noise({16});
  add("dynamic: x*y+z/16", [](Tensor x, Tensor y, Tensor z) { return x * y + z; }, small, small, small);
  add("dynamic: multiply-add chain/65536", [](Tensor x, Tensor y, Tensor z) { return (x * y + z) * x - y; }, a, b, c);
  add("dynamic: tanh/65536", [](Tensor x) { return tanh(x); }, a);
  const Tensor &x = bench::noise({64, 1024}), &w = bench::noise({1024}), &v = bench::noise({1024}, 1);
  add("dynamic: softmax/64x1024", [](Tensor t) { return softmax(t, 1); }, x);
  add(
      "dynamic: layer_norm/64x1024", [](Tensor t, Tensor g, Tensor h) { return layer_norm(t, {t.size(1)}, g, h); }, x,
      w, v);
  add("dynamic: column sum/64x1024", [](Tensor t) { return sum(t, 0); }, x);
  add("dynamic: full sum of squares/64x1024", [](Tensor t) { return sum(t * t); }, x);
  for (int n : {64, 512}) {
    const Tensor &p = bench::noise({n, n}), &q = bench::noise({n, n}, 1), &bias = bench::noise({n});
    add(
        "dynamic: matmul + bias + relu/" + bench::shape_text({n, n, n}),
        [](Tensor s, Tensor t, Tensor u) { return relu(matmul(s, t) + u); }, p, q, bias);
  }
  const Tensor turned = transpose(bench::noise({1024, 64}), 0, 1),
               part = bench::noise({64, 2048})(all, slice(512, 1536));
  eval({turned, part});
  add("dynamic strides: transposed x*2+1/64x1024", [](Tensor t) { return t * 2 + 1; }, turned);
  add("dynamic strides: slice, softmax/64x1024", [](Tensor t) { return softmax(t, 1); }, part);
  add("dynamic strides: slice x*2+1/64x1024", [](Tensor t) { return t * 2 + 1; }, part);
  add(
      "dynamic strides: matmul of a transposed/64x64x1024", [](Tensor t, Tensor u) { return matmul(t, u); }, turned,
      bench::noise({1024, 64}, 1));
  return bench::run(argc, argv);
}
