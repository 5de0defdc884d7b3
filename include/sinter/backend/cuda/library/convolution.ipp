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
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
// [batches, rows, columns] as [batches, columns, rows]. All loads of a thread are under way at once.
#ifndef TURNING_THREADS
#define TURNING_THREADS 256
#endif
extern "C" __global__ void turn_channels(const T* in, T* out, i64 rows, i64 columns, i64 batches) {
  const int side = 64, pitch = side + (sizeof(T) == 2 ? 2 : 1), each = side * side / TURNING_THREADS;
  __shared__ T tile[side * pitch];
  T held[each];
  const int thread = threadIdx.x;
  const i64 across = (columns + side - 1) / side, down = (rows + side - 1) / side;
  for (i64 at = blockIdx.x; at < across * down * batches; at += gridDim.x) {
    const i64 row = at / across % down * side, column = at % across * side, from = at / (across * down) * rows * columns;
    const int high = rows - row < side ? (int)(rows - row) : side,
              wide = columns - column < side ? (int)(columns - column) : side;
    const T* const source = in + from + row * columns + column;
    T* const target = out + from + column * rows + row;
#pragma unroll
    for (int u = 0; u < each; ++u) {
      const int k = thread + u * TURNING_THREADS, i = k / side, j = k % side;
      if (i < high && j < wide) held[u] = source[i * columns + j];
    }
#pragma unroll
    for (int u = 0; u < each; ++u) {
      const int k = thread + u * TURNING_THREADS;
      tile[k / side * pitch + k % side] = held[u];
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < each; ++u) {
      const int k = thread + u * TURNING_THREADS, i = k % side, j = k / side;
      if (i < high && j < wide) target[j * rows + i] = tile[i * pitch + j];
    }
    __syncthreads();
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
        if (there >= 0) sum += wide(from[there]) * wide(y[(image * n.groups * n.outputs + output) * area + at]);
      }
    }
    w[i] = narrow(sum);
  }
}
extern "C" __global__ void image_gradient(const T* w, const T* y, T* x, Numbers n) {
  const i64 area = n.positions[0] * n.positions[1] * n.positions[2], taps = n.kernel[0] * n.kernel[1] * n.kernel[2],
            size = n.extent[0] * n.extent[1] * n.extent[2];
  EACH(i, n.images * n.groups * n.inputs * size) {
    const i64 here = i % size, c = i / size % n.inputs, group = i / size / n.inputs % n.groups,
              image = i / size / n.inputs / n.groups;
    const i64 e[3] = {here / (n.extent[1] * n.extent[2]), here / n.extent[2] % n.extent[1], here % n.extent[2]};
    Sum sum = 0;
    for (i64 t = 0; t < taps; ++t) {
      const i64 k[3] = {t / (n.kernel[1] * n.kernel[2]), t / n.kernel[2] % n.kernel[1], t % n.kernel[2]};
      i64 at = 0;
      bool is_read = true;
      for (int a = 0; a < 3; ++a) {
        const i64 first = e[a] + n.padding[a] - k[a] * n.dilation[a];
        is_read = is_read && first >= 0 && first % n.stride[a] == 0 && first / n.stride[a] < n.positions[a];
        at = at * n.positions[a] + first / n.stride[a];
      }
      for (i64 o = group * n.outputs; is_read && o < (group + 1) * n.outputs; ++o)
        sum += wide(w[(o * n.inputs + c) * taps + t]) * wide(y[(image * n.groups * n.outputs + o) * area + at]);
    }
    x[i] = narrow(sum);
  }
}
)";

}  // namespace library_detail

SINTER_DECL LibrarySource convolution_kernels(DType dtype) {
  using namespace library_detail;
  return {std::string(kernel_prelude) + "#define SORT " + std::to_string(cuda_detail::dnn_type(dtype)) + "\n" +
              std::string(convolution_numbers_text) + std::string(convolution_text),
          {"swap_leading", "turn_channels", "convolve", "weight_gradient", "image_gradient"}};
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
    case ProductPolicy::tensor_cores:
    case ProductPolicy::wgmma: return {};
    case ProductPolicy::measured:
      return operations >= least_measured_operations ? AlgorithmSearch::measured : AlgorithmSearch::by_rule;
    case ProductPolicy::by_rule:
    case ProductPolicy::library:
    case ProductPolicy::library_then_kernel: return AlgorithmSearch::by_rule;
  }
  return {};
}

/// How the gradient by y lies: as y does, or with the channels in front of the images.
enum class FirstAxis : std::uint8_t { images, channels };

class ConvolutionLaunch final : public LibraryLaunch {
 public:
  ConvolutionLaunch(Gpu& gpu, const BoundOp& op, const ConvolutionGeometry& geometry, FirstAxis first_axis)
      : LibraryLaunch(gpu, op, StepContext{name_of(geometry.made), {}, {}}),
        geometry_(geometry),
        element_(as_index(size_of(geometry.dtype))),
        swaps_(first_axis == FirstAxis::channels && geometry.images > 1),
        kernels_(module_of(gpu, convolution_kernels(geometry.dtype))) {
    const std::int64_t at_once = images_at_once(geometry);
    if (at_once == 0 || geometry.operations() == 0) return;
    const AlgorithmSearch search =
        search_of(product_policy(), geometry.operations()).value_or(AlgorithmSearch::by_rule);
    for (std::int64_t first = 0; first < geometry.images; first += at_once) {
      ConvolutionGeometry part = geometry;
      part.images = std::min(at_once, geometry.images - first);
      part.is_part = part.images < geometry.images;
      parts_.push_back({first, DnnConvolution::get(gpu, part, search)});
      if (parts_.back().convolution->is_usable()) continue;
      parts_.clear();
      return;
    }
  }

 private:
  using Made = ConvolutionGeometry::Made;
  struct Part {
    std::int64_t first;
    std::shared_ptr<const DnnConvolution> convolution;
  };
  /// As the kernels have it.
  struct Numbers {
    std::int64_t images, groups, inputs, outputs;
    ConvolutionGeometry::Axes extent, kernel, positions, stride, dilation, padding;
  };
  /// What an operand is, and as what matrices its channels are turned.
  struct Role {
    std::int64_t elements, matrices, channels, points;
    std::int64_t of_image;  // elements; 0: it has no images
  };

  static std::string name_of(Made made) {
    return made == Made::result            ? "convolution"
           : made == Made::weight_gradient ? "convolution_weight_gradient"
                                           : "convolution_image_gradient";
  }
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t bytes(std::int64_t elements) const { return as_index(elements) * element_; }
  static bool is_aligned(const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; }

  /// Of both operands and the result, in the library's order.
  std::array<Role, 3> roles() const {
    const ConvolutionGeometry& g = geometry_;
    const Role x{g.images * g.image_elements(), g.images, g.groups * g.inputs, g.product(g.extent), g.image_elements()},
        y{g.images * g.result_elements(), g.images, g.groups * g.outputs, g.product(g.positions), g.result_elements()},
        w{g.weight_elements(), g.groups * g.outputs, g.inputs, g.product(g.kernel), 0};
    switch (g.made) {
      case Made::result: return {x, w, y};
      case Made::weight_gradient: return {x, y, w};
      case Made::image_gradient: return {w, y, x};
    }
    return {};
  }

  void enqueue(void* const* given) override {
    const bool is_image = geometry_.made == Made::image_gradient;  // of the gradient and the weight, in this order
    void* const operands[] = {given[is_image ? 1 : 0], given[is_image ? 0 : 1], given[2]};
    const std::array<Role, 3> role = roles();
    if (role[2].elements == 0) return;
    if (parts_.empty()) return sum_plainly(operands, role);
    const bool is_last = parts_[0].convolution->channels() == ChannelPlace::last;
    enum class Moved : std::uint8_t { stays, copied, swapped, turned };
    std::array<Moved, 3> moved{};
    std::size_t work = 0;
    for (const Part& part : parts_) work = std::max(work, part.convolution->workspace_bytes());
    std::size_t room = aligned(work);
    for (std::size_t i = 0; i < 3; ++i) {
      // The library wants vectors of 16 bytes; slices begin anywhere.
      moved[i] = i == 1 && swaps_           ? Moved::swapped
                 : is_last                  ? Moved::turned
                 : !is_aligned(operands[i]) ? Moved::copied
                                            : Moved::stays;
      const std::size_t copies = moved[i] == Moved::stays ? 0 : moved[i] == Moved::swapped && is_last ? 2 : 1;
      room += copies * aligned(bytes(role[i].elements));
    }
    // It lasts until the stream has passed: memory of other launches is used again.
    const Ref<Storage> storage = Storage::allocate(std::max<std::size_t>(room, 256), device());
    char *const area = static_cast<char*>(storage->data()), *next = area + aligned(work);
    char* places[3];
    for (std::size_t i = 0; i < 3; ++i) {
      places[i] = static_cast<char*>(operands[i]);
      const auto move = [&] { return std::exchange(next, next + aligned(bytes(role[i].elements))); };
      if (moved[i] == Moved::swapped) {
        const char* const from = std::exchange(places[i], move());
        launch_each(*kernels_, swap_leading_entry, role[i].elements, from, places[i], role[i].channels,
                    geometry_.images, role[i].points);
      }
      if (moved[i] == Moved::copied) places[i] = move();
      if (moved[i] == Moved::copied && i < 2) copy(places[i], operands[i], bytes(role[i].elements));
      if (!is_last) continue;
      const char* const from = std::exchange(places[i], move());
      if (i < 2) turn(from, places[i], role[i], role[i].channels, role[i].points);
    }
    for (const Part& part : parts_) run_part(part, places, role, area);
    if (is_last) turn(places[2], operands[2], role[2], role[2].points, role[2].channels);
    else if (moved[2] == Moved::copied) copy(operands[2], places[2], bytes(role[2].elements));
  }
  void turn(const void* from, void* to, const Role& role, std::int64_t rows, std::int64_t columns) {
    launch(*kernels_, turn_channels_entry, turned_tiles(role.matrices, rows, columns), 256, from, to, rows, columns,
           role.matrices);
  }
  void run_part(const Part& part, char* const* places, const std::array<Role, 3>& role, void* area) {
    using Target = DnnConvolution::Target;
    const Target target =
        geometry_.made == Made::weight_gradient && part.first > 0 ? Target::added_to : Target::replaced;
    const auto at = [&](std::size_t i) { return places[i] + bytes(part.first * role[i].of_image); };
    require(part.convolution->run(at(0), at(1), at(2), target, area, stream()),
            "cuDNN: a convolution (" + geometry_.text() + "; " + part.convolution->why() + ")");
  }
  void sum_plainly(void* const* operands, const std::array<Role, 3>& role) {
    const ConvolutionGeometry& g = geometry_;
    const Numbers numbers{g.images, g.groups,    g.inputs, g.outputs,  g.extent,
                          g.kernel, g.positions, g.stride, g.dilation, g.padding};
    const ConvolutionEntry entry = g.made == Made::result            ? convolve_entry
                                   : g.made == Made::weight_gradient ? weight_gradient_entry
                                                                     : image_gradient_entry;
    void* second = operands[1];
    Ref<Storage> storage;
    if (swaps_ && role[1].elements > 0) {
      storage = Storage::allocate(bytes(role[1].elements), device());
      second = storage->data();
      launch_each(*kernels_, swap_leading_entry, role[1].elements, operands[1], second, role[1].channels, g.images,
                  role[1].points);
    }
    launch_each(*kernels_, entry, role[2].elements, operands[0], second, operands[2], numbers);
  }

  ConvolutionGeometry geometry_;
  std::size_t element_;  // bytes
  bool swaps_;           // the gradient by y arrives with its channels in front
  std::shared_ptr<const Module> kernels_;
  std::vector<Part> parts_;  // none: plain sums
};

using ConvolutionMade = ConvolutionGeometry::Made;
/// Which type is that of x, which that of the weight, and which that of y.
struct ConvolutionTypes {
  std::size_t x, weight, y;
  static constexpr ConvolutionTypes of(ConvolutionMade made) {
    return made == ConvolutionMade::result            ? ConvolutionTypes{0, 1, 2}
           : made == ConvolutionMade::weight_gradient ? ConvolutionTypes{0, 2, 1}
                                                      : ConvolutionTypes{2, 1, 0};
  }
};
/// The library is told of the extents of y: where they became known only now, they must be those that x and the weight
/// give.
inline void require_result(const ConvolutionGeometry& g, const Shape& y, FirstAxis first_axis) {
  const int images = first_axis == FirstAxis::images ? 0 : 1;
  bool fits = y[images].value() == g.images && y[1 - images].value() == g.groups * g.outputs;
  for (std::size_t i = 0; i < g.positions.size(); ++i)
    fits = fits &&
           g.positions[i] == (g.extent[i] + 2 * g.padding[i] - (g.kernel[i] - 1) * g.dilation[i] - 1) / g.stride[i] + 1;
  if (!fits) throw ShapeError("convolution", "the result, or its gradient, is " + y.text() + "; " + g.text());
}
inline std::unique_ptr<Launch> make_convolution(const Attrs& attrs, std::span<const Type> types, ConvolutionMade made,
                                                bool is_conv2d, FirstAxis first_axis = FirstAxis::images) {
  const ConvolutionTypes at = ConvolutionTypes::of(made);
  // Where the channels of y are in front, it matters not: its axes alone are read.
  ConvolutionGeometry geometry =
      convolution_geometry(attrs, made, types[at.x].shape, types[at.weight].shape, types[at.y].shape, is_conv2d,
                           [](Dim extent) { return extent.value(); });
  geometry.dtype = types[0].dtype;
  require_result(geometry, types[at.y].shape, first_axis);
  return std::make_unique<ConvolutionLaunch>(Gpu::get(types.back().device, "convolution"),
                                             BoundOp{nullptr, attrs, types, 2, {}}, geometry, first_axis);
}
inline std::unique_ptr<Launch> launch_conv2d(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionMade::result, true);
}
inline std::unique_ptr<Launch> launch_convolution(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionMade::result, false);
}
inline std::unique_ptr<Launch> launch_weight_gradient(const Attrs& attrs, std::span<const Type> types) {
  return make_convolution(attrs, types, ConvolutionMade::weight_gradient, false, FirstAxis::channels);
}
inline std::unique_ptr<Launch> launch_convolution_gradient(const Attrs& attrs, std::span<const Type> types) {
  const bool is_image = attrs[ops::ConvolutionGradient::by] == ops::ConvolutionOperand::image;
  return make_convolution(attrs, types, is_image ? ConvolutionMade::image_gradient : ConvolutionMade::weight_gradient,
                          false);
}

/// Products as they are: those of single elements, and of their gradients by the image those in f32, for which the
/// library has slow algorithms alone where the order of sums must not change. Sums of lines: groups of one channel. Few
/// outputs, as of gradients by images of three colours, leave most of the library's tiles empty.
inline bool is_left_to_kernels(const ConvolutionGeometry& g) {
  using Axes = ConvolutionGeometry::Axes;
  constexpr std::int64_t least_outputs = 8;
  const bool is_single = g.kernel == Axes{1, 1, 1} && g.padding == Axes{0, 0, 0},
             is_spread_product = g.made == ConvolutionMade::image_gradient && g.dtype == DType::f32,
             is_product = is_single && (g.stride == Axes{1, 1, 1} || is_spread_product);
  return (is_product && g.groups == 1) || (g.groups > 1 && g.inputs == 1 && g.outputs == 1) ||
         (g.made == ConvolutionMade::result && g.groups * g.outputs < least_outputs) ||
         (g.made == ConvolutionMade::image_gradient && g.groups * g.inputs < least_outputs);
}

/// Below, a call of the library costs more than its kernel saves.
inline constexpr double least_library_operations = 1e8;

SINTER_DECL Intrinsic convolution_intrinsic(Gpu& gpu, const Graph& graph, const Node& node) {
  const bool is_conv2d = node.op == &op_info<ops::Conv2d>, is_gradient = node.op == &op_info<ops::ConvolutionGradient>,
             is_product = node.op == &op_info<ops::ConvolutionWeightGradient>;
  if (!is_conv2d && !is_gradient && !is_product && node.op != &op_info<ops::Convolution>) return nullptr;
  const DType dtype = node.types[0].dtype;
  const bool is_known = dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
  if (!is_known || dnn_api() == nullptr) return nullptr;
  const ConvolutionMade made = is_product     ? ConvolutionMade::weight_gradient
                               : !is_gradient ? ConvolutionMade::result
                               : node.attrs[ops::ConvolutionGradient::by] == ops::ConvolutionOperand::image
                                   ? ConvolutionMade::image_gradient
                                   : ConvolutionMade::weight_gradient;
  const Shape* const shapes[] = {&graph.type(node.inputs[0]).shape, &graph.type(node.inputs[1]).shape,
                                 &node.types[0].shape};
  const ConvolutionTypes at = ConvolutionTypes::of(made);
  const Shape &x = *shapes[at.x], &weight = *shapes[at.weight], &y = *shapes[at.y];
  for (int i = 0; !is_conv2d && i < x.rank() - 2; ++i) {
    using Op = ops::ConvolutionAttributes;
    const Dim low = node.attrs[Op::low][i], high = node.attrs[Op::high][i];
    if (!low.is_static() || !high.is_static() || low.value() != high.value()) return nullptr;
  }
  ConvolutionGeometry geometry = convolution_geometry(node.attrs, made, x, weight, y, is_conv2d,
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
  return is_conv2d     ? launch_conv2d
         : is_product  ? launch_weight_gradient
         : is_gradient ? launch_convolution_gradient
                       : launch_convolution;
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
