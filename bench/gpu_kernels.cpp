// Kernels of every kind on a GPU: scans, orders, reductions, long rows, windows, scatters, gathers, transposed copies,
// convolutions and their gradients, attention, products. Each is first compared with the CPU on a small example. The
// peer, PyTorch, has these rows in gpu_peers.py.
#include "on_gpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;
using benchmark::State;

#ifdef SINTER_CUDA
namespace {

using namespace bench::on_gpu;
using Arguments = std::vector<Tensor>;

/// What makes the arguments, of an example to check and of the size to time.
using Make = std::function<Arguments(bool is_small)>;

double tolerance_of(DType dtype) { return dtype == DType::f32 ? 2e-4 : dtype == DType::f16 ? 2e-2 : 1e-1; }

/// `function` takes a list of Tensors.
template <class F>
void add_kernel(const std::string& name, Make make, F function, double tolerance, jit::Options options = {}) {
  bench::add(name, [=](State& state) {
    jit::reset();
    const auto compiled = [&](const Arguments& arguments) {
      jit::Options own = options;
      own.dynamic = jit::Dynamic::never;
      auto made = std::make_shared<decltype(jit::compile(function, own))>(jit::compile(function, own));
      return [made, arguments] { return (*made)(arguments); };
    };
    if (bench::is_for_tuned_rows()) {
      const Arguments arguments = make(false);
      return tuned_row(
          state,
          [&](jit::Options own) {
            own.dynamic = jit::Dynamic::never;
            auto made = std::make_shared<decltype(jit::compile(function, own))>(jit::compile(function, own));
            return [made, arguments] { return (*made)(arguments); };
          },
          options);
    }
    const Arguments small = make(true);
    Arguments on_cpu;
    for (const Tensor& x : small) {
      const Tensor copy = x.to(Device::cpu());
      on_cpu.push_back(copy.dtype() == DType::i64 ? copy : Tensor(copy.to(DType::f32)));
    }
    const Tensor here = compiled(on_cpu)(), there = compiled(small)();
    if (!agree(state, there.to(DType::f32), here.to(DType::f32), tolerance)) return;
    const auto call = compiled(make(false));
    const double first = bench::seconds_of([&] {
      benchmark::DoNotOptimize(call());
      cuda::synchronize();
    });
    time_on_device(state, [&] { benchmark::DoNotOptimize(call()); });
    state.counters["compile_ms"] = first * 1e3;
  });
}

Make of_noise(Extents small, Extents large, DType dtype = DType::f32) {
  return [=](bool is_small) { return Arguments{noise(is_small ? small : large, dtype)}; };
}
std::string text_of(DType dtype) { return std::string(name(dtype)); }

template <class F>
void add_unary(const std::string& what, const std::string& shape, Extents small, Extents large, F function,
               DType dtype = DType::f32, double tolerance = 0) {
  add_kernel(
      what + "/" + shape + "/" + text_of(dtype), of_noise(small, large, dtype),
      [=](std::vector<Tensor> a) { return Tensor(function(a[0])); }, tolerance > 0 ? tolerance : tolerance_of(dtype));
}

void add_scans_and_orders() {
  const Extents small = {40, 1000}, rows = {16384, 1024}, few = {70001}, many = {1 << 24};
  add_unary("cumsum", "16384x1024", small, rows, [](Tensor x) { return cumsum(x, 1); });
  // Sums of both signs come near 0.
  add_unary("cumsum", "2^24", few, many, [](Tensor x) { return cumsum(x, 0); }, DType::f32, 1e-2);
  add_unary("cumsum along columns", "16384x1024", small, rows, [](Tensor x) { return cumsum(x, 0); });
  add_unary("cummax", "16384x1024", small, rows, [](Tensor x) { return cummax(x, 1); });
  add_unary("sort", "16384x1024", small, rows, [](Tensor x) { return sort(x, 1).values; });
  add_unary("argsort", "16384x1024", small, rows, [](Tensor x) { return argsort(x, 1); });
  add_unary("sort", "2^24", few, many, [](Tensor x) { return sort(x, 0).values; });
  add_unary("topk of 10", "16384x1024", small, rows, [](Tensor x) { return topk(x, 10, 1).values; });
}

void add_reductions() {
  const Extents small = {9, 33, 17}, cube = {512, 512, 512}, odd = {1000, 1001, 77}, few = {3, 9001},
                long_rows = {64, 400000};
  for (const auto& [text, axes] : {std::pair<const char*, std::vector<int>>{"{0}", {0}},
                                   {"{1}", {1}},
                                   {"{2}", {2}},
                                   {"{0,1}", {0, 1}},
                                   {"{0,2}", {0, 2}},
                                   {"{0,1,2}", {0, 1, 2}}})
    add_unary(std::string("sum over ") + text, "512x512x512", small, cube,
              [reduced = axes](Tensor x) { return sum(x, Axes(reduced)); });
  add_unary("sum over {1}", "1000x1001x77", small, odd, [](Tensor x) { return sum(x, {1}); });
  add_unary("argmax over {1}", "1000x1001x77", small, odd, [](Tensor x) { return argmax(x, 1); });
  for (const auto& [text, axes] :
       {std::pair<const char*, std::vector<int>>{"{0,1}", {0, 1}}, {"{1,2}", {1, 2}}, {"{0,1,2}", {0, 1, 2}}})
    add_unary(std::string("argmin over ") + text, "512x512x512", small, cube,
              [reduced = axes](Tensor x) { return argmin(x, Axes(reduced)); });
  add_unary("softmax", "64x400000", few, long_rows, [](Tensor x) { return softmax(x, 1); });
  add_unary("layer_norm", "64x400000", few, long_rows, [](Tensor x) { return layer_norm(x, {x.shape()[1]}); });
  add_unary("logsumexp", "64x400000", few, long_rows, [](Tensor x) { return logsumexp(x, {1}); });
  for (const std::int64_t length : {40000, 65536, 131072, 1000000}) {
    const Extents longer = {(1 << 27) / length, length};
    const std::string shape = std::to_string(longer[0]) + "x" + std::to_string(length);
    add_unary("softmax", shape, few, longer, [](Tensor x) { return softmax(x, 1); });
    add_unary("layer_norm", shape, few, longer, [](Tensor x) { return layer_norm(x, {x.shape()[1]}); });
    add_kernel(
        "gradient of softmax/" + shape + "/f32",
        [=](bool is_small) {
          const Extents extents = is_small ? few : longer;
          return Arguments{noise(extents), noise(extents)};
        },
        [](std::vector<Tensor> a) { return Tensor(a[1] * (a[0] - sum(a[0] * a[1], {1}, keepdim))); }, 2e-3);
  }
}

void add_windows() {
  const Extents small = {2, 3, 17, 18}, images = {64, 64, 112, 112};
  add_unary("batch_norm in training", "64x64x112x112", small, images, [](Tensor x) {
    const Tensor m = mean(x, {0, 2, 3}, keepdim), v = var(x, {0, 2, 3}, {.correction = 0, .keep = keepdim});
    return (x - m) * rsqrt(v + 1e-5f);
  });
  add_unary("max_pool2d of 3 by 2, padded", "64x64x112x112", small, images,
            [](Tensor x) { return max_pool2d(x, {.size = 3, .stride = 2, .padding = 1}); });
  add_unary(
      "max_pool2d of 3 by 2, padded", "64x64x112x112", small, images,
      [](Tensor x) { return max_pool2d(x, {.size = 3, .stride = 2, .padding = 1}); }, DType::bf16);
  add_unary("max_pool2d with indices of 3 by 2, padded", "64x64x112x112", small, images,
            [](Tensor x) { return max_pool2d_with_indices(x, {.size = 3, .stride = 2, .padding = 1}).indices; });
  add_unary("avg_pool2d of 2", "64x64x112x112", small, images, [](Tensor x) { return avg_pool2d(x, 2, 2); });
  for (const DType dtype : {DType::f32, DType::bf16}) {
    add_unary(
        "avg_pool2d of 3 by 2, padded", "64x64x112x112", small, images,
        [](Tensor x) { return avg_pool2d(x, {.size = 3, .stride = 2, .padding = 1}); }, dtype);
    add_unary(
        "avg_pool2d of 3 by 2, padding not counted", "64x64x112x112", small, images,
        [](Tensor x) { return avg_pool2d(x, {.size = 3, .stride = 2, .padding = 1, .count_include_pad = false}); },
        dtype);
  }
  add_unary("max_pool2d of 3 by 2, padded, gradient", "64x64x112x112", small, images, [](Tensor x) {
    return jit::grad([](Tensor t) { return sum(max_pool2d(t, {.size = 3, .stride = 2, .padding = 1})); })(x);
  });
  add_unary("avg_pool2d of 3 by 2, padded, gradient", "64x64x112x112", small, images, [](Tensor x) {
    return jit::grad([](Tensor t) { return sum(square(avg_pool2d(t, {.size = 3, .stride = 2, .padding = 1}))); })(x);
  });
}

Tensor indices(std::int64_t below, std::int64_t count) {
  const Tensor at = randint(0, below, {count}, {.device = gpu});
  eval(at);
  return at;
}

void add_movement() {
  const auto places = [](std::int64_t count, std::int64_t among) {
    return [count, among](bool is_small) {
      const std::int64_t n = is_small ? count / 100 : count, to = is_small ? among / 100 : among;
      return Arguments{noise({to}), indices(to, n), noise({n})};
    };
  };
  for (const std::int64_t among : {1000000, 100000, 10000, 5000, 1000})
    add_kernel(
        "scatter_add/1000000," + std::to_string(among) + "/f32", places(1000000, among),
        [](std::vector<Tensor> a) { return Tensor(scatter_add(a[0], 0, a[1], a[2])); }, 1e-4);
  add_kernel(
      "gather/1000000,1000000/f32", places(1000000, 1000000), [](std::vector<Tensor> a) { return Tensor(a[0](a[1])); },
      0);
  const Make rows = [](bool is_small) {
    const std::int64_t table = is_small ? 500 : 50000, count = is_small ? 164 : 16384;
    return Arguments{noise({table, 768}), indices(table, count), noise({count, 768})};
  };
  add_kernel(
      "index_add/50000x768,16384/f32", rows,
      [](std::vector<Tensor> a) { return Tensor(index_add(a[0], 0, a[1], a[2])); }, 1e-5);
  add_kernel("gather of rows/50000x768,16384/f32", rows, [](std::vector<Tensor> a) { return Tensor(a[0](a[1])); }, 0);
  add_unary("transpose", "8192x8192", {130, 71}, {8192, 8192}, [](Tensor x) { return x.t() + 0.f; });
}

struct Layer {
  std::int64_t size, channels, outputs, window, stride, padding, groups = 1;
};
enum class Wanted : std::uint8_t { result, by_image, by_weight };

/// 64 images, or `is_small` one of them with fewer channels.
void add_convolution(const Layer& layer, Wanted wanted, DType dtype, MatmulPrecision precision) {
  const Make make = [=](bool is_small) {
    const std::int64_t images = is_small ? 2 : 64, size = is_small ? 2 * layer.window + 5 : layer.size,
                       at = (size + 2 * layer.padding - layer.window) / layer.stride + 1;
    return Arguments{noise({images, layer.channels, size, size}, dtype),
                     noise({layer.outputs, layer.channels / layer.groups, layer.window, layer.window}, dtype),
                     noise({images, layer.outputs, at, at}, dtype)};
  };
  const auto convolved = [=](std::vector<Tensor> a) {
    const auto convolve = [&](const Tensor& x, const Tensor& w) {
      return conv2d(x, w, {.stride = layer.stride, .padding = layer.padding, .groups = layer.groups});
    };
    if (wanted == Wanted::result) return Tensor(convolve(a[0], a[1]));
    // The sum's gradient by its operand is what a backward pass is given.
    if (wanted == Wanted::by_image)
      return jit::grad([&](Tensor x) { return Tensor(sum(convolve(x, a[1]) * a[2])); })(a[0]);
    return jit::grad([&](Tensor w) { return Tensor(sum(convolve(a[0], w) * a[2])); })(a[1]);
  };
  const std::string window = std::to_string(layer.window) + "x" + std::to_string(layer.window);
  const std::string what = std::string(wanted == Wanted::result     ? "conv2d"
                                       : wanted == Wanted::by_image ? "conv2d by x"
                                                                    : "conv2d by w") +
                           (precision == MatmulPrecision::tf32 ? " in tf32" : "") + ", " + window +
                           (layer.stride > 1 ? " by " + std::to_string(layer.stride) : "") +
                           (layer.groups > 1 ? ", " + std::to_string(layer.groups) + " groups" : "");
  const std::string shape =
      bench::shape_text({64, layer.channels, layer.size, layer.size}) + "," + std::to_string(layer.outputs);
  const bool is_exact = dtype == DType::f32 && precision == MatmulPrecision::f32;
  // Rounding of operands shows in sums of so many products of numbers near 1.
  const double products = static_cast<double>(layer.channels / layer.groups * layer.window * layer.window);
  const double tolerance = (is_exact ? 1e-4 : 4e-3) * std::sqrt(std::max(products, 400.0));
  add_kernel(what + "/" + shape + "/" + text_of(dtype), make, convolved, tolerance, {.matmul_precision = precision});
}

void add_convolutions() {
  for (const Layer& layer : std::vector<Layer>{{224, 3, 64, 7, 2, 3},
                                               {56, 64, 64, 3, 1, 1},
                                               {28, 128, 128, 3, 1, 1},
                                               {14, 256, 256, 3, 1, 1},
                                               {7, 512, 512, 3, 1, 1},
                                               {56, 128, 128, 3, 2, 1},
                                               {28, 256, 256, 3, 1, 1, 32},
                                               {56, 256, 512, 1, 2, 0}})
    for (const Wanted wanted : {Wanted::result, Wanted::by_image, Wanted::by_weight}) {
      if (layer.channels == 3 && wanted == Wanted::by_image) continue;
      add_convolution(layer, wanted, DType::f32, MatmulPrecision::f32);
      add_convolution(layer, wanted, DType::f32, MatmulPrecision::tf32);
      add_convolution(layer, wanted, DType::f16, MatmulPrecision::f32);
    }
}

/// Gradients by q, of kernels that compute those by k and v as well; masks; one query of 32 heads, of k and v with as
/// many and with 8.
void add_more_attention() {
  for (const DType dtype : {DType::f16, DType::f32})
    for (const bool is_long : {false, true})
      for (const bool is_causal : {false, true}) {
        const Extents shape = is_long ? Extents{4, 16, 4096, 128} : Extents{8, 12, 1024, 64};
        const std::string row = std::string(is_causal ? ", causal/" : "/") +
                                (is_long ? "4x16x4096x128/" : "8x12x1024x64/") + text_of(dtype);
        const Make make = [=](bool is_small) {
          const Extents own = is_small ? Extents{1, 2, 130, shape[3]} : shape;
          return Arguments{noise(own, dtype), noise(own, dtype), noise(own, dtype), noise(own, dtype)};
        };
        add_kernel(
            "attention with gradients" + row, make,
            [=](std::vector<Tensor> a) {
              const auto loss = [&](Tensor q) {
                const Tensor out = scaled_dot_product_attention(q, a[1], a[2], {.causal = is_causal});
                return Tensor(sum(cast(out, DType::f32) * cast(a[3], DType::f32)));
              };
              return Tensor(jit::grad(loss)(a[0]));
            },
            tolerance_of(dtype));
        if (is_long)
          add_kernel(
              "attention" + row, make,
              [=](std::vector<Tensor> a) {
                return Tensor(scaled_dot_product_attention(a[0], a[1], a[2], {.causal = is_causal}));
              },
              tolerance_of(dtype));
      }
  for (const bool is_added : {false, true})
    add_kernel(
        std::string("attention, ") + (is_added ? "added mask" : "mask of bool") + "/8x12x1024x64/bf16",
        [=](bool is_small) {
          const std::int64_t n = is_small ? 136 : 1024;
          const Extents shape = {is_small ? 1 : 8, is_small ? 2 : 12, n, 64};
          return Arguments{noise(shape, DType::bf16), noise(shape, DType::bf16), noise(shape, DType::bf16),
                           noise({n, n}, DType::bf16)};
        },
        [=](std::vector<Tensor> a) {
          const Tensor mask = is_added ? a[3] : Tensor(a[3] > -0.5);
          return Tensor(scaled_dot_product_attention(a[0], a[1], a[2], {.mask = mask}));
        },
        tolerance_of(DType::bf16));
  for (const std::int64_t heads : {32, 8})
    add_kernel(
        "attention of one query to " + std::to_string(heads) + " heads/8x32x8192x128/f16",
        [=](bool is_small) {
          const std::int64_t batch = is_small ? 1 : 8, keys = is_small ? 700 : 8192;
          return Arguments{noise({batch, 32, 1, 128}, DType::f16), noise({batch, heads, keys, 128}, DType::f16),
                           noise({batch, heads, keys, 128}, DType::f16)};
        },
        [](std::vector<Tensor> a) {
          return Tensor(scaled_dot_product_attention(a[0], a[1], a[2], {.heads = Heads::grouped}));
        },
        tolerance_of(DType::f16));
}

void add_attention_and_products() {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool is_causal : {false, true})
      add_kernel(
          std::string("attention") + (is_causal ? ", causal" : "") + "/8x12x1024x64/" + text_of(dtype),
          [=](bool is_small) {
            const Extents shape = {is_small ? 1 : 8, is_small ? 2 : 12, is_small ? 130 : 1024, 64};
            return Arguments{noise(shape, dtype), noise(shape, dtype), noise(shape, dtype)};
          },
          [=](std::vector<Tensor> a) {
            return Tensor(scaled_dot_product_attention(a[0], a[1], a[2], {.causal = is_causal}));
          },
          tolerance_of(dtype));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Make matrices = [=](bool is_small) {
      const std::int64_t n = is_small ? 130 : 4096;
      return Arguments{noise({n, n}, dtype), noise({n, n}, dtype), noise({n}, dtype)};
    };
    add_kernel(
        "matmul/4096x4096x4096/" + text_of(dtype), matrices,
        [](std::vector<Tensor> a) { return Tensor(matmul(a[0], a[1])); }, tolerance_of(dtype) * 5);
    add_kernel(
        "linear+gelu/4096x4096x4096/" + text_of(dtype), matrices,
        [](std::vector<Tensor> a) { return Tensor(gelu(matmul(a[0], a[1]) + a[2])); }, tolerance_of(dtype) * 5);
    const Extents small = {33, 1000}, large = {16384, 8192};
    add_unary("softmax", "16384x8192", small, large, [](Tensor x) { return softmax(x, 1); }, dtype);
    add_unary("column sum of squares", "16384x8192", small, large, [](Tensor x) { return sum(x * x, 0); }, dtype);
    add_unary(
        "chain of gelu", "16384x8192", small, large, [](Tensor x) { return gelu(x * 2 + 1) * x - tanh(x); }, dtype);
  }
}

/// An LSTM of 512 steps, 10 sequences, 128 inputs and 256 hidden numbers.
void add_loops() {
  const Make make = [](bool is_small) {
    const std::int64_t steps = is_small ? 7 : 512, batch = is_small ? 3 : 10, inputs = is_small ? 12 : 128,
                       hidden = is_small ? 16 : 256;
    return Arguments{noise({steps, batch, inputs}), noise({inputs, 4 * hidden}) * 0.05f,
                     noise({hidden, 4 * hidden}) * 0.05f, noise({4 * hidden}), noise({batch, hidden})};
  };
  const auto lstm = [](std::vector<Tensor> a) {
    const std::int64_t hidden = a[4].shape()[1].value();
    const auto step = [&](std::pair<Tensor, Tensor> carry, Tensor x) {
      const Tensor gates = matmul(x, a[1]) + matmul(carry.first, a[2]) + a[3];
      const auto gate = [&](std::int64_t k) { return gates(all, slice(k * hidden, (k + 1) * hidden)); };
      const Tensor cell = sigmoid(gate(1)) * carry.second + sigmoid(gate(0)) * tanh(gate(2));
      const Tensor out = sigmoid(gate(3)) * tanh(cell);
      return std::pair(std::pair(out, cell), out);
    };
    return jit::scan(step, std::pair(a[4], a[4]), a[0]).second;
  };
  add_kernel("LSTM by scan/512x10x128,256/f32", make, lstm, 1e-4);
  add_kernel("LSTM by scan, graphs/512x10x128,256/f32", make, lstm, 1e-4, {.mode = jit::Mode::reduce_overhead});
}

}  // namespace

int main(int argc, char** argv) {
  if (!cuda::is_available()) {
    std::fprintf(stderr, "no GPU, so no rows: %s\n", cuda::why_unavailable().c_str());
    return 0;
  }
  benchmark::AddCustomContext("device", "cuda");
  add_loops();
  add_scans_and_orders();
  add_reductions();
  add_windows();
  add_movement();
  add_convolutions();
  add_attention_and_products();
  add_more_attention();
  return bench::run(argc, argv);
}
#else
int main() { std::fprintf(stderr, "no rows: built without the CUDA back end\n"); }
#endif
