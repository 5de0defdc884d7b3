// Which convolutions cuDNN computes, and their launches: as many images at a time as 32-bit extents allow. Where
// extents become known only when the convolution is bound, and the library has nothing for them, plain sums do it.
#pragma once

#include <sinter/backend/cuda/library/convolution.hpp>

#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/backend/cuda/library/dnn_convolution.hpp>
#include <sinter/backend/cuda/library/library_kernels.ipp>
#include <sinter/backend/cuda/library/library_launch.ipp>
#include <sinter/backend/cuda/product/choice.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/ops/conv.hpp>
#include <sinter/ops/convolution.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace library_detail {

inline constexpr std::string_view convolution_numbers_text = R"(
#if SORT == 1
typedef double T;
typedef double Sum;
static __device__ __forceinline__ Sum wide(T x) { return x; }
static __device__ __forceinline__ T narrow(Sum x) { return x; }
#elif SORT == 2
struct T { unsigned short bits; };
typedef float Sum;
static __device__ __forceinline__ Sum wide(T x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
static __device__ __forceinline__ T narrow(Sum x) {
  T y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
#elif SORT == 9
struct T { unsigned short bits; };
typedef float Sum;
static __device__ __forceinline__ Sum wide(T x) { return __uint_as_float((unsigned)x.bits << 16); }
static __device__ __forceinline__ T narrow(Sum x) {
  const unsigned bits = __float_as_uint(x);
  return T{x != x ? (unsigned short)0x7fc0 : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
#else
typedef float T;
typedef float Sum;
static __device__ __forceinline__ Sum wide(T x) { return x; }
static __device__ __forceinline__ T narrow(Sum x) { return x; }
#endif
)";

inline constexpr std::string_view convolution_text = R"(
struct Numbers {
  i64 images, groups, inputs, outputs, extent[3], kernel[3], positions[3], stride[3], dilation[3], padding[3];
};
// Where position p reads under tap k, or -1: in the padding.
static __device__ __forceinline__ i64 place(const Numbers& n, const i64 (&p)[3], const i64 (&k)[3]) {
  i64 at = 0;
  for (int i = 0; i < 3; ++i) {
    const i64 here = p[i] * n.stride[i] + k[i] * n.dilation[i] - n.padding[i];
    if (here < 0 || here >= n.extent[i]) return -1;
    at = at * n.extent[i] + here;
  }
  return at;
}
extern "C" __global__ void swap_leading(const T* in, T* out, i64 rows, i64 columns, i64 length) {
  EACH(i, rows * columns * length) {
    const i64 at = i % length, row = i / length % rows, column = i / length / rows;
    out[i] = in[(row * columns + column) * length + at];
  }
}
extern "C" __global__ void convolve(const T* x, const T* w, T* y, Numbers n) {
  const i64 area = n.positions[0] * n.positions[1] * n.positions[2], taps = n.kernel[0] * n.kernel[1] * n.kernel[2],
            size = n.extent[0] * n.extent[1] * n.extent[2];
  EACH(i, n.images * n.groups * n.outputs * area) {
    const i64 at = i % area, output = i / area % (n.groups * n.outputs), image = i / area / (n.groups * n.outputs),
              first = (image * n.groups + output / n.outputs) * n.inputs;
    const i64 p[3] = {at / (n.positions[1] * n.positions[2]), at / n.positions[2] % n.positions[1],
                      at % n.positions[2]};
    Sum sum = 0;
    for (i64 t = 0; t < taps; ++t) {
      const i64 k[3] = {t / (n.kernel[1] * n.kernel[2]), t / n.kernel[2] % n.kernel[1], t % n.kernel[2]};
      const i64 from = place(n, p, k);
      for (i64 c = 0; from >= 0 && c < n.inputs; ++c)
        sum += wide(x[(first + c) * size + from]) * wide(w[(output * n.inputs + c) * taps + t]);
    }
    y[i] = narrow(sum);
  }
}
// y has the channels in front.
extern "C" __global__ void weight_gradient(const T* x, const T* y, T* w, Numbers n) {
  const i64 area = n.positions[0] * n.positions[1] * n.positions[2], taps = n.kernel[0] * n.kernel[1] * n.kernel[2],
            size = n.extent[0] * n.extent[1] * n.extent[2];
  EACH(i, n.groups * n.outputs * n.inputs * taps) {
    const i64 t = i % taps, c = i / taps % n.inputs, output = i / taps / n.inputs;
    const i64 k[3] = {t / (n.kernel[1] * n.kernel[2]), t / n.kernel[2] % n.kernel[1], t % n.kernel[2]};
    Sum sum = 0;
    for (i64 image = 0; image < n.images; ++image) {
      const T* from = x + ((image * n.groups + output / n.outputs) * n.inputs + c) * size;
      for (i64 at = 0; at < area; ++at) {
        const i64 p[3] = {at / (n.positions[1] * n.positions[2]), at / n.positions[2] % n.positions[1],
                          at % n.positions[2]};
        const i64 there = place(n, p, k);
        if (there >= 0) sum += wide(from[there]) * wide(y[(output * n.images + image) * area + at]);
      }
    }
    w[i] = narrow(sum);
  }
}
)";

}  // namespace library_detail

SINTER_DECL LibrarySource convolution_kernels(DType dtype) {
  using namespace library_detail;
  return {std::string(kernel_prelude) + "#define SORT " + std::to_string(cuda_detail::dnn_type(dtype)) + "\n" +
              std::string(convolution_numbers_text) + std::string(convolution_text),
          {"swap_leading", "convolve", "weight_gradient"}};
}

namespace cuda_detail {

/// Each extent is given by `number`, which is what it is, or what it counts as where it is not known yet.
template <class Number>
ConvolutionGeometry convolution_geometry(const Attrs& attrs, ConvolutionGeometry::Made made, const Shape& x,
                                         const Shape& weight, const Shape& result, bool is_conv2d,
                                         const Number& number) {
  using Op = ops::ConvolutionAttributes;
  ConvolutionGeometry g;
  g.made = made;
  g.precision = attrs[planned_precision];
  g.axes = std::max(x.rank() - 2, 2);
  g.groups = is_conv2d ? 1 : attrs[Op::groups];
  g.images = number(x[0]);
  g.inputs = number(weight[1]);
  g.outputs = number(weight[0]) / std::max<std::int64_t>(g.groups, 1);
  for (int i = 2; i < x.rank(); ++i) {
    const auto at = as_index(3 + i - x.rank()), own = as_index(i - 2);
    g.extent[at] = number(x[i]);
    g.kernel[at] = number(weight[i]);
    g.positions[at] = number(result[i]);
    g.stride[at] = is_conv2d ? attrs[ops::Conv2d::stride][own] : attrs[Op::stride][own];
    g.dilation[at] = is_conv2d ? 1 : attrs[Op::dilation][own];
    g.padding[at] = is_conv2d ? attrs[ops::Conv2d::padding][own] : number(attrs[Op::low][i - 2]);
  }
  return g;
}

/// Parts of so many images: offsets that the library computes stay below 2^31. 0: not even one fits.
inline std::int64_t images_at_once(const ConvolutionGeometry& g) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const std::int64_t largest = std::max<std::int64_t>({g.image_elements(), g.result_elements(), 1});
  return g.weight_elements() > most ? 0 : std::min(most / largest, std::max<std::int64_t>(g.images, 1));
}

/// None: it belongs to the generated kernels alone, as the policy has it.
inline std::optional<AlgorithmSearch> search_of(ProductPolicy policy, double operations) {
  switch (policy) {
    case ProductPolicy::fma:
    case ProductPolicy::tensor_cores: return {};
    case ProductPolicy::measured:
      return operations >= least_measured_operations ? AlgorithmSearch::measured : AlgorithmSearch::by_rule;
    case ProductPolicy::by_rule:
    case ProductPolicy::library:
    case ProductPolicy::library_then_kernel: return AlgorithmSearch::by_rule;
  }
  return {};
}

class ConvolutionLaunch final : public LibraryLaunch {
 public:
  ConvolutionLaunch(Gpu& gpu, const BoundOp& op, const ConvolutionGeometry& geometry)
      : LibraryLaunch(gpu, op,
                      StepContext{is_gradient(geometry) ? "convolution_weight_gradient" : "convolution", {}, 0}),
        geometry_(geometry),
        element_(as_index(size_of(geometry.dtype))),
        kernels_(module_of(gpu, convolution_kernels(geometry.dtype))) {
    const std::int64_t at_once = images_at_once(geometry);
    if (at_once == 0 || geometry.operations() == 0) return;
    const AlgorithmSearch search =
        search_of(product_policy(), geometry.operations()).value_or(AlgorithmSearch::by_rule);
    for (std::int64_t first = 0; first < geometry.images; first += at_once) {
      ConvolutionGeometry part = geometry;
      part.images = std::min(at_once, geometry.images - first);
      parts_.push_back({first, DnnConvolution::get(gpu, part, search)});
      if (parts_.back().convolution->is_usable()) continue;
      parts_.clear();
      return;
    }
  }

 private:
  struct Part {
    std::int64_t first;
    std::shared_ptr<const DnnConvolution> convolution;
  };
  /// As the kernels have it.
  struct Numbers {
    std::int64_t images, groups, inputs, outputs;
    ConvolutionGeometry::Axes extent, kernel, positions, stride, dilation, padding;
  };
  enum Entry : std::size_t { swap_leading, convolve, weight_gradient };

  static bool is_gradient(const ConvolutionGeometry& g) { return g.made == ConvolutionGeometry::Made::weight_gradient; }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t bytes(std::int64_t elements) const { return as_index(elements) * element_; }
  static bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

  void enqueue(void* const* operands) override {
    const bool is_weight = is_gradient(geometry_);
    const std::int64_t made = is_weight ? geometry_.weight_elements() : geometry_.images * geometry_.result_elements();
    if (made == 0) return;
    if (parts_.empty()) return sum_plainly(operands, made);
    const std::size_t x_bytes = bytes(geometry_.images * geometry_.image_elements()),
                      y_bytes = bytes(geometry_.images * geometry_.result_elements()),
                      w_bytes = bytes(geometry_.weight_elements());
    // The library wants vectors of 16 bytes; slices begin anywhere.
    const bool moves[] = {!is_aligned(operands[0]), !is_aligned(operands[1]), !is_aligned(operands[2])},
               turns = is_weight && geometry_.images > 1;
    std::size_t work = 0;
    for (const Part& part : parts_) work = std::max(work, part.convolution->workspace_bytes());
    const std::size_t sizes[] = {x_bytes, is_weight ? y_bytes : w_bytes, is_weight ? w_bytes : y_bytes};
    std::size_t room = aligned(work);
    for (std::size_t i = 0; i < 3; ++i) room += moves[i] || (i == 1 && turns) ? aligned(sizes[i]) : 0;
    // It lasts until the stream has passed: memory of other launches is used again.
    const Ref<Storage> storage = Storage::allocate(std::max<std::size_t>(room, 256), Device::cuda(gpu().index()));
    char *const area = static_cast<char*>(storage->data()), *next = area + aligned(work);
    char* places[3];
    for (std::size_t i = 0; i < 3; ++i) {
      places[i] = static_cast<char*>(operands[i]);
      if (!moves[i] && !(i == 1 && turns)) continue;
      places[i] = next;
      next += aligned(sizes[i]);
      if (i == 1 && turns)
        launch_each(*kernels_, swap_leading, geometry_.images * geometry_.result_elements(), operands[1],
                    static_cast<void*>(places[1]), geometry_.groups * geometry_.outputs, geometry_.images,
                    ConvolutionGeometry::product(geometry_.positions));
      else if (i < 2) copy(places[i], operands[i], sizes[i]);
    }
    for (const Part& part : parts_) run_part(part, places, area);
    if (moves[2]) copy(operands[2], places[2], sizes[2]);
  }
  void run_part(const Part& part, char* const* places, void* area) {
    using Target = DnnConvolution::Target;
    const std::size_t x_at = bytes(part.first * geometry_.image_elements()),
                      y_at = bytes(part.first * geometry_.result_elements());
    const bool is_weight = is_gradient(geometry_);
    const Target target = is_weight && part.first > 0 ? Target::added_to : Target::replaced;
    require(part.convolution->run(places[0] + x_at, places[1] + (is_weight ? y_at : 0),
                                  places[2] + (is_weight ? 0 : y_at), target, area, stream()),
            "cuDNN: a convolution (" + geometry_.text() + "; " + part.convolution->why() + ")");
  }
  void sum_plainly(void* const* operands, std::int64_t made) {
    const ConvolutionGeometry& g = geometry_;
    const Numbers numbers{g.images, g.groups,    g.inputs, g.outputs,  g.extent,
                          g.kernel, g.positions, g.stride, g.dilation, g.padding};
    launch_each(*kernels_, is_gradient(g) ? weight_gradient : convolve, made, operands[0], operands[1], operands[2],
                numbers);
  }

  ConvolutionGeometry geometry_;
  std::size_t element_;  // bytes
  std::shared_ptr<const Module> kernels_;
  std::vector<Part> parts_;  // none: plain sums
};

inline std::unique_ptr<Launch> make_convolution(const Attrs& attrs, std::span<const Type> types,
                                                ConvolutionGeometry::Made made, bool is_conv2d) {
  const bool is_weight = made == ConvolutionGeometry::Made::weight_gradient;
  Shape result = types[is_weight ? 1 : 2].shape;  // of the gradient, the channels are in front: axes alone are read
  ConvolutionGeometry geometry = convolution_geometry(attrs, made, types[0].shape, types[is_weight ? 2 : 1].shape,
                                                      result, is_conv2d, [](Dim extent) { return extent.value(); });
  geometry.dtype = types[0].dtype;
  return std::make_unique<ConvolutionLaunch>(Gpu::get(types.back().device, "convolution"),
                                             BoundOp{nullptr, attrs, types, 2, {}}, geometry);
}
inline std::unique_ptr<Launch> launch_conv2d(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionGeometry::Made::result, true);
}
inline std::unique_ptr<Launch> launch_convolution(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionGeometry::Made::result, false);
}
inline std::unique_ptr<Launch> launch_weight_gradient(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionGeometry::Made::weight_gradient, false);
}

/// Products as they are: those of single elements. Sums of lines: groups of one channel. Few outputs, as of gradients by
/// images of three colours, leave most of the library's tiles empty.
inline bool is_left_to_kernels(const ConvolutionGeometry& g) {
  using Axes = ConvolutionGeometry::Axes;
  constexpr std::int64_t least_outputs = 8;
  const bool is_product = g.kernel == Axes{1, 1, 1} && g.stride == Axes{1, 1, 1} && g.padding == Axes{0, 0, 0};
  return (is_product && g.groups == 1) || (g.groups > 1 && g.inputs == 1 && g.outputs == 1) ||
         (g.made == ConvolutionGeometry::Made::result && g.groups * g.outputs < least_outputs);
}

/// Below, a call of the library costs more than its kernel saves.
inline constexpr double least_library_operations = 1e8;

SINTER_DECL Intrinsic convolution_intrinsic(Gpu& gpu, const Graph& graph, const Node& node) {
  const bool is_conv2d = node.op == &op_info<ops::Conv2d>,
             is_weight = node.op == &op_info<ops::ConvolutionWeightGradient>;
  if (!is_conv2d && !is_weight && node.op != &op_info<ops::Convolution>) return nullptr;
  const DType dtype = node.types[0].dtype;
  const bool is_known = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
  if (!is_known || dnn_api() == nullptr) return nullptr;
  const Shape &x = graph.type(node.inputs[0]).shape, &other = graph.type(node.inputs[1]).shape,
              &weight = is_weight ? node.types[0].shape : other;
  for (int i = 0; !is_conv2d && i < x.rank() - 2; ++i) {
    using Op = ops::ConvolutionAttributes;
    const Dim low = node.attrs[Op::low][i], high = node.attrs[Op::high][i];
    if (!low.is_static() || !high.is_static() || low.value() != high.value()) return nullptr;
  }
  using Made = ConvolutionGeometry::Made;
  ConvolutionGeometry geometry = convolution_geometry(node.attrs, is_weight ? Made::weight_gradient : Made::result, x,
                                                      weight, is_weight ? other : node.types[0].shape, is_conv2d,
                                                      [&](Dim extent) { return graph.estimate(extent); });
  geometry.dtype = dtype;
  const ProductPolicy policy = product_policy();
  const bool is_forced = policy == ProductPolicy::library || policy == ProductPolicy::library_then_kernel;
  if (is_left_to_kernels(geometry) || !search_of(policy, geometry.operations())) return nullptr;
  if (geometry.operations() < (is_forced ? 1 : least_library_operations)) return nullptr;
  geometry.images = images_at_once(geometry);
  if (geometry.images == 0) return nullptr;
  try {
    if (!DnnConvolution::get(gpu, geometry, AlgorithmSearch::by_rule)->is_usable()) return nullptr;
  } catch (const DeviceError& error) {  // the library is there, and does not work on this device
    if (is_logged("cuda")) note("cuda", error.what());
    return nullptr;
  }
  return is_conv2d ? launch_conv2d : is_weight ? launch_weight_gradient : launch_convolution;
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
