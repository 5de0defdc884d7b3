// One convolution, or one of its gradients, as cuDNN computes it: descriptors, the algorithm, its workspace.
// Knows no graph and no launches.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/library/library_api.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/tensor/dtype.hpp>
#include <sinter/tensor/precision.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// cudnnDataType_t.
constexpr int dnn_type(DType dtype) {
  return dtype == DType::f64 ? 1 : dtype == DType::f16 ? 2 : dtype == DType::bf16 ? 9 : 0;
}

/// Extents of a convolution. There are three axes; those that the user does not have come first, and do nothing.
struct ConvolutionGeometry {
  enum class Made : std::uint8_t { result, weight_gradient, image_gradient };
  using Axes = std::array<std::int64_t, 3>;
  Made made = Made::result;
  DType dtype = DType::f32;
  MatmulPrecision precision = MatmulPrecision::f32;
  bool is_part = false;                                          // of the images of a larger one
  int axes = 2;                                                  // that the library is told of, the last ones: 2 or 3
  std::int64_t images = 1, groups = 1, inputs = 1, outputs = 1;  // inputs and outputs of a group
  Axes extent{1, 1, 1}, kernel{1, 1, 1}, positions{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, padding{0, 0, 0};
  bool operator==(const ConvolutionGeometry&) const = default;

  static std::int64_t product(const Axes& a) { return a[0] * a[1] * a[2]; }
  std::int64_t image_elements() const { return groups * inputs * product(extent); }       // of x, for one image
  std::int64_t result_elements() const { return groups * outputs * product(positions); }  // of y, for one image
  std::int64_t weight_elements() const { return groups * outputs * inputs * product(kernel); }
  double operations() const {
    return 2.0 * static_cast<double>(images) * static_cast<double>(result_elements()) *
           static_cast<double>(inputs * product(kernel));
  }
  std::string text() const;
};

/// How images, results and weights lie in the library's memory. What has the channels last is copied before and after.
enum class ChannelPlace : std::uint8_t { second, last };

/// How the algorithm is found.
enum class AlgorithmSearch : std::uint8_t { by_rule, measured };

class DnnConvolution {
 public:
  /// The device's, made where there is none; is_usable() is false where the library has no algorithm for it. Throws
  /// DeviceError where the library cannot be used at all.
  static std::shared_ptr<const DnnConvolution> get(Gpu& gpu, const ConvolutionGeometry& geometry,
                                                   AlgorithmSearch search);
  DnnConvolution(const DnnApi& api, Gpu& gpu, const ConvolutionGeometry& geometry, AlgorithmSearch search);
  ~DnnConvolution();
  DnnConvolution(const DnnConvolution&) = delete;
  DnnConvolution& operator=(const DnnConvolution&) = delete;

  bool is_usable() const { return is_usable_; }
  const std::string& why() const { return why_; }  // of the algorithm, or that there is none
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  ChannelPlace channels() const { return choice_.channels; }
  /// Enqueues it. `first` and `second` are x and the weight, x and the gradient of y, or the weight and the gradient of
  /// y; what is made replaces `out`, or is added to it.
  enum class Target : std::uint8_t { replaced, added_to };
  int run(const void* first, const void* second, void* out, Target target, void* area, void* stream) const;

 private:
  struct Choice {
    int algorithm = 0, math = 0;
    ChannelPlace channels = ChannelPlace::second;
  };
  struct Candidate {
    DnnApi::Found found;
    ChannelPlace channels = ChannelPlace::second;
  };
  bool create();
  bool describe(ChannelPlace channels);
  void choose(AlgorithmSearch search);
  std::vector<Candidate> found_by_rule() const;
  std::vector<Candidate> found_by_measuring();
  void measure(class Scratch& scratch, ChannelPlace channels, double milliseconds, std::vector<Candidate>& best) const;
  double milliseconds_of_copies(class Scratch& scratch) const;
  bool may_have_channels_last() const;
  bool is_allowed(const DnnApi::Found& found) const;
  bool take(const Choice& choice);
  bool take_stored(const std::string& text);
  bool take_first(const std::vector<Candidate>& found);
  int wanted_math() const;
  std::string disk_key() const;
  std::size_t x_bytes() const { return bytes_of(geometry_.images * geometry_.image_elements()); }
  std::size_t y_bytes() const { return bytes_of(geometry_.images * geometry_.result_elements()); }
  std::size_t weight_bytes() const { return bytes_of(geometry_.weight_elements()); }
  std::size_t bytes_of(std::int64_t elements) const {
    return (static_cast<std::size_t>(elements * size_of(geometry_.dtype)) + 511) / 512 * 512;
  }
  /// The descriptors of what is read and made, in the order in which the library takes them.
  struct Roles {
    void *first, *second, *out;
  };
  Roles roles() const;
  const DnnApi::Functions& functions() const;

  const DnnApi& api_;
  Gpu& gpu_;
  ConvolutionGeometry geometry_;
  void *x_ = nullptr, *y_ = nullptr, *weight_ = nullptr, *convolution_ = nullptr;
  Choice choice_;
  std::size_t workspace_bytes_ = 0;
  bool is_usable_ = false;
  std::string why_;
};

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
