// One convolution, or its gradient by the weight, as cuDNN computes it: descriptors, the algorithm, its workspace.
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
  enum class Made : std::uint8_t { result, weight_gradient };
  using Axes = std::array<std::int64_t, 3>;
  Made made = Made::result;
  DType dtype = DType::f32;
  MatmulPrecision precision = MatmulPrecision::f32;
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
  /// Enqueues it. `first` and `second` are x and the weight, or x and the gradient of y; what is made replaces `out`,
  /// or is added to it.
  enum class Target : std::uint8_t { replaced, added_to };
  int run(const void* first, const void* second, void* out, Target target, void* area, void* stream) const;

 private:
  struct Choice {
    int algorithm = 0, math = 0;
  };
  bool describe();
  void choose(AlgorithmSearch search);
  std::vector<DnnApi::Found> found_by_rule() const;
  std::vector<DnnApi::Found> found_by_measuring() const;
  bool is_allowed(const DnnApi::Found& found) const;
  bool take(const Choice& choice);
  bool take_first(const std::vector<DnnApi::Found>& found);
  int wanted_math() const;
  std::string disk_key() const;

  const DnnApi& api_;
  Gpu& gpu_;
  ConvolutionGeometry geometry_;
  void *x_ = nullptr, *y_ = nullptr, *weight_ = nullptr, *convolution_ = nullptr;
  int algorithm_ = 0, math_ = 0;
  std::size_t workspace_bytes_ = 0;
  bool is_usable_ = false;
  std::string why_;
};

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
