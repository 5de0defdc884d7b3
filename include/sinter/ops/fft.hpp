// Discrete Fourier transforms, which the host computes, of numbers as pairs: the last axis has extent 2 and holds real
// and imaginary part. f32 and f64. All functions of namespace fft are compositions of these (expr/fft.hpp). Must not
// know how they are computed: that is in fft_host.ipp.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN

/// The sign in e^(+-2 pi i j k / n).
enum class FourierSign : std::uint8_t { minus, plus };
/// What a transform of n numbers is multiplied by: 1, 1 / sqrt(n), 1 / n.
enum class FourierScale : std::uint8_t { none, root, full };

namespace ops_detail {
inline constexpr OpAttr<FourierSign> fourier_sign{"sign", 0, "minus plus"};
inline constexpr OpAttr<FourierScale> fourier_scale{"scale", 1, "none root full"};
/// Numbers of a half spectrum that stand for two of the whole one count twice.
inline constexpr OpAttr<bool> is_half_doubled{"doubled", 2};
}  // namespace ops_detail

namespace ops {

/// Complex to complex, along attrs.axes (not the last axis), which may be several.
struct Fourier {
  static constexpr OpInfo info{.name = "fourier", .arity = 1, .kind = OpKind::structured};
  static constexpr auto attributes = attribute_list(attr::axes, ops_detail::fourier_sign, ops_detail::fourier_scale);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// Rows (the last axis) of n real numbers to the first n / 2 + 1 numbers of their transform, as pairs.
struct FourierOfReal {
  static constexpr OpInfo info{.name = "fourier_of_real", .arity = 1, .kind = OpKind::structured};
  static constexpr auto attributes =
      attribute_list(ops_detail::fourier_sign, ops_detail::fourier_scale, ops_detail::is_half_doubled);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// The other way, to `length` real numbers: pairs (..., length / 2 + 1, 2), of which the imaginary part of the first
/// one is not read, nor that of the last one where the length is even. Without `doubled` the others count half, and
/// this is the adjoint of FourierOfReal without it.
struct FourierToReal {
  static constexpr OpInfo info{.name = "fourier_to_real", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<Dim> length{"length", 0};
  static constexpr auto attributes =
      attribute_list(ops_detail::fourier_sign, ops_detail::fourier_scale, ops_detail::is_half_doubled, length);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

}  // namespace ops
SINTER_NAMESPACE_END
