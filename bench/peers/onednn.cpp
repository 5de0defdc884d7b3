// Rows by oneDNN (versions 2 and 3), on one thread: products, convolution, row kernels, elementwise functions, sums.
// Operands are laid out as ours are, row by row, except in convolutions, which take the layouts that oneDNN prefers,
// made before.
#include "peer.hpp"

#include <dnnl.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

using benchmark::State;
using dnnl::memory;

namespace {

constexpr const char* peer_name = "oneDNN";

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  static dnnl::stream in_order(engine());
  return in_order;
}

/// Dense and row by row.
memory::desc dense(const memory::dims& extents) {
  memory::dims strides(extents.size(), 1);
  for (std::size_t axis = extents.size() - 1; axis-- > 0;) strides[axis] = strides[axis + 1] * extents[axis + 1];
  return {extents, memory::data_type::f32, strides};
}
memory::desc of_any_layout(const memory::dims& extents) {
  return {extents, memory::data_type::f32, memory::format_tag::any};
}

memory over(const memory::desc& desc, const float* data) { return {desc, engine(), const_cast<float*>(data)}; }

/// The values of `from` in another layout.
memory laid_out(const memory& from, const memory::desc& desc) {
  memory to(desc, engine());
  memory source = from;
  dnnl::reorder(source, to).execute(stream(), source, to);
  stream().wait();
  return to;
}

/// A primitive whose constructor has the same arguments in versions 2 and 3.
template <class Primitive, class... A>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes, const A&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), arguments..., attributes};
#else
  return {typename Primitive::desc(arguments...), attributes, engine()};
#endif
}

using Arguments = std::unordered_map<int, memory>;

/// Compares and times one execution of the primitive, which writes `result`.
void time_primitive(State& state, const dnnl::primitive& primitive, const Arguments& arguments,
                    std::span<const float> result, std::span<const float> expected, double tolerance) {
  const auto call = [&] {
    primitive.execute(stream(), arguments);
    stream().wait();
  };
  bench::time_checked(state, peer_name, result, expected, tolerance, call);
}

// ---- products -------------------------------------------------------------------------------------------------------

enum class Epilogue { none, bias_and_relu };

void product_row(State& state, const bench::Product& p, Epilogue epilogue) {
  const auto a = bench::normal_numbers(p.batch * p.m * p.k, 1), b = bench::normal_numbers(p.batch * p.k * p.n, 2),
             bias = bench::normal_numbers(p.n, 3);
  bench::Matrix result(p.batch * p.m, p.n), expected(p.batch * p.m, p.n);
  bench::multiply(p, a.data(), b.data(), expected.data());
  const auto extents = [&](std::int64_t rows, std::int64_t columns) {
    return p.batch == 1 ? memory::dims{rows, columns} : memory::dims{p.batch, rows, columns};
  };
  const memory::desc a_desc = dense(extents(p.m, p.k)), b_desc = dense(extents(p.k, p.n)),
                     c_desc = dense(extents(p.m, p.n)), bias_desc = dense({1, p.n});
  Arguments arguments = {{DNNL_ARG_SRC, over(a_desc, a.data())},
                         {DNNL_ARG_WEIGHTS, over(b_desc, b.data())},
                         {DNNL_ARG_DST, over(c_desc, result.data())}};
  dnnl::primitive_attr attributes;
  if (epilogue == Epilogue::none) {
    const dnnl::matmul primitive(describe<dnnl::matmul>(attributes, a_desc, b_desc, c_desc));
    time_primitive(state, primitive, arguments, bench::elements(result), bench::elements(expected), 1e-3);
  } else {
    bench::add_bias_and_relu(p, bias.data(), expected.data());
    dnnl::post_ops relu;
#if DNNL_VERSION_MAJOR >= 3
    relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#else
    relu.append_eltwise(1.f, dnnl::algorithm::eltwise_relu, 0.f, 0.f);
#endif
    attributes.set_post_ops(relu);
    arguments.emplace(DNNL_ARG_BIAS, over(bias_desc, bias.data()));
    const dnnl::matmul primitive(describe<dnnl::matmul>(attributes, a_desc, b_desc, bias_desc, c_desc));
    time_primitive(state, primitive, arguments, bench::elements(result), bench::elements(expected), 1e-3);
  }
  bench::count_flops(state, p.flops());
}

void convolution_row(State& state, const bench::Convolution& c) {
  const auto images = bench::normal_numbers(c.n * c.c * c.h * c.w, 1),
             weights = bench::normal_numbers(c.o * c.patch(), 2);
  bench::Matrix result(c.n * c.o, c.h * c.w), expected(c.n * c.o, c.h * c.w);
  bench::ConvolutionByProduct by_product(c);
  by_product(images.data(), weights.data(), expected.data());
  const memory::dims in = {c.n, c.c, c.h, c.w}, filter = {c.o, c.c, c.size, c.size}, out = {c.n, c.o, c.h, c.w},
                     ones = {1, 1}, padding = {c.padding(), c.padding()};
  const auto description = describe<dnnl::convolution_forward>(
      {}, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, of_any_layout(in),
      of_any_layout(filter), of_any_layout(out), ones, padding, padding);
  memory x = laid_out(over(dense(in), images.data()), description.src_desc()),
         w = laid_out(over(dense(filter), weights.data()), description.weights_desc());
  memory y(description.dst_desc(), engine());
  const dnnl::convolution_forward primitive(description);
  const auto call = [&] {
    primitive.execute(stream(), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    stream().wait();
  };
  call();
  memory plain = over(dense(out), result.data());
  dnnl::reorder(y, plain).execute(stream(), y, plain);
  stream().wait();
  bench::time_checked(state, peer_name, bench::elements(result), bench::elements(expected), 1e-3, call);
  bench::count_flops(state, c.flops());
}

// ---- rows, elementwise functions, sums ------------------------------------------------------------------------------

void softmax_row(State& state, const bench::Rows& size) {
  const auto x = bench::normal_numbers(size.elements(), 1);
  bench::Matrix result(size.count, size.length), expected(size.count, size.length);
  bench::softmax_of_rows(size, x.data(), expected.data());
  const memory::desc desc = dense({size.count, size.length});
#if DNNL_VERSION_MAJOR >= 3
  using Softmax = dnnl::softmax_forward;
#else
  using Softmax = dnnl::softmax_v2_forward;
#endif
  const Softmax primitive(
      describe<Softmax>({}, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, desc, desc, 1));
  time_primitive(state, primitive, {{DNNL_ARG_SRC, over(desc, x.data())}, {DNNL_ARG_DST, over(desc, result.data())}},
                 bench::elements(result), bench::elements(expected), 1e-5);
  bench::count_items(state, size.elements());
}

void layer_norm_row(State& state, const bench::Rows& size) {
  const auto x = bench::normal_numbers(size.elements(), 1), weight = bench::normal_numbers(size.length, 2),
             bias = bench::normal_numbers(size.length, 3);
  bench::Matrix result(size.count, size.length), expected(size.count, size.length);
  bench::layer_norm_of_rows(size, x.data(), weight.data(), bias.data(), expected.data());
  const memory::desc desc = dense({size.count, size.length}), parameters = dense({size.length});
  using Norm = dnnl::layer_normalization_forward;
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
#if DNNL_VERSION_MAJOR >= 3
  const Norm primitive(describe<Norm>({}, dnnl::prop_kind::forward_inference, desc, desc, 1e-5f, flags));
#else
  const Norm primitive(describe<Norm>({}, dnnl::prop_kind::forward_inference, desc, 1e-5f, flags));
#endif
  const Arguments arguments = {{DNNL_ARG_SRC, over(desc, x.data())},
                               {DNNL_ARG_SCALE, over(parameters, weight.data())},
                               {DNNL_ARG_SHIFT, over(parameters, bias.data())},
                               {DNNL_ARG_DST, over(desc, result.data())}};
  time_primitive(state, primitive, arguments, bench::elements(result), bench::elements(expected), 1e-4);
  bench::count_items(state, size.elements());
}

void elementwise_row(State& state, dnnl::algorithm function, float (*exact)(float)) {
  constexpr std::int64_t n = 65536;
  const auto x = bench::normal_numbers(n, 1);
  std::vector<float> result(x.size()), expected(x.size());
  std::transform(x.begin(), x.end(), expected.begin(), exact);
  const memory::desc desc = dense({n});
  using Elementwise = dnnl::eltwise_forward;
#if DNNL_VERSION_MAJOR >= 3
  const Elementwise primitive(
      describe<Elementwise>({}, dnnl::prop_kind::forward_inference, function, desc, desc, 0.f, 0.f));
#else
  const Elementwise primitive(describe<Elementwise>({}, dnnl::prop_kind::forward_inference, function, desc, 0.f, 0.f));
#endif
  time_primitive(state, primitive, {{DNNL_ARG_SRC, over(desc, x.data())}, {DNNL_ARG_DST, over(desc, result.data())}},
                 result, expected, 1e-5);
  bench::count_items(state, n);
}

void sum_row(State& state, int axes) {
  constexpr std::int64_t n = bench::cube;
  std::vector<float> x = bench::normal_numbers(n * n * n, 1);
  for (float& value : x) value = std::abs(value);
  const auto extent = [&](int axis) { return (axes & (1 << axis)) != 0 ? 1 : n; };
  const memory::dims out = {extent(0), extent(1), extent(2)};
  const memory::desc from = dense({n, n, n}), to = dense(out);
  std::vector<double> exact(static_cast<std::size_t>(out[0] * out[1] * out[2]));
  for (std::int64_t i = 0; i < n * n * n; ++i) {
    const std::int64_t place = (i / (n * n) % out[0] * out[1] + i / n % out[1]) * out[2] + i % out[2];
    exact[static_cast<std::size_t>(place)] += x[static_cast<std::size_t>(i)];
  }
  std::vector<float> result(exact.size()), expected(exact.begin(), exact.end());
  const dnnl::reduction primitive(describe<dnnl::reduction>({}, dnnl::algorithm::reduction_sum, from, to, 0.f, 0.f));
  time_primitive(state, primitive, {{DNNL_ARG_SRC, over(from, x.data())}, {DNNL_ARG_DST, over(to, result.data())}},
                 result, expected, 1e-3);
  bench::count_bytes(state, 4 * n * n * n);
}

void add_rows() {
  for (const bench::Product& p : bench::products) {
    bench::add("matmul/" + p.text() + "/f32", [p](State& state) { product_row(state, p, Epilogue::none); });
    bench::add("matmul + bias + relu/" + p.text() + "/f32",
               [p](State& state) { product_row(state, p, Epilogue::bias_and_relu); });
  }
  for (const bench::Product& p : bench::batched_products)
    bench::add("batched matmul/" + p.text() + "/f32", [p](State& state) { product_row(state, p, Epilogue::none); });
  for (const bench::Convolution& c : bench::convolutions)
    bench::add("conv2d/" + c.text() + "/f32", [c](State& state) { convolution_row(state, c); });
  for (const bench::Rows& size : bench::row_sizes) {
    bench::add("softmax/" + size.text() + "/f32", [size](State& state) { softmax_row(state, size); });
    bench::add("layer_norm/" + size.text() + "/f32", [size](State& state) { layer_norm_row(state, size); });
  }
  bench::add("exp/65536/f32", [](State& state) { elementwise_row(state, dnnl::algorithm::eltwise_exp, std::exp); });
  bench::add("tanh/65536/f32", [](State& state) { elementwise_row(state, dnnl::algorithm::eltwise_tanh, std::tanh); });
  for (int axes = 1; axes < 8; ++axes)
    bench::add(bench::sum_name(axes), [axes](State& state) { sum_row(state, axes); });
}

}  // namespace

int main(int argc, char** argv) {
  bench::set_environment(argv, {{"OMP_NUM_THREADS", "1"}});
  const dnnl_version_t* version = dnnl_version();
  benchmark::AddCustomContext("oneDNN", std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
                                            std::to_string(version->patch));
  add_rows();
  return bench::run_peer(argc, argv);
}
