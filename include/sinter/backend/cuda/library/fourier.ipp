// Transforms by cuFFT. Axes that follow each other are one call; where neither they nor what is behind them is the
// innermost part, matrices are turned around it. Plans are kept by geometry, at most 64 of them; their work areas are
// ours.
#pragma once

#include <sinter/backend/cuda/library/fourier.hpp>

#include <sinter/backend/cuda/library/library_api.hpp>
#include <sinter/backend/cuda/library/library_launch.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/attrs.hpp>
#include <sinter/ops/fft.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// One call: `batch` transforms of `rank` axes. Distances are in elements of the side.
struct FourierGeometry {
  enum class Kind : std::uint8_t { complex, from_real, to_real };
  Kind kind = Kind::complex;
  bool is_double = false;
  int rank = 1;
  std::array<std::int64_t, 3> n{1, 1, 1};
  std::int64_t stride = 1, in_distance = 0, out_distance = 0, batch = 1;
  bool operator==(const FourierGeometry&) const = default;
  int type() const {  // cufftType
    switch (kind) {
      case Kind::complex: return is_double ? 0x69 : 0x29;
      case Kind::from_real: return is_double ? 0x6a : 0x2a;
      case Kind::to_real: return is_double ? 0x6c : 0x2c;
    }
    __builtin_unreachable();
  }
};

/// A plan of the library on one device. One call at a time.
class FourierPlan {
 public:
  FourierPlan(const FourierApi& api, Gpu& gpu, const FourierGeometry& geometry) : FourierPlan(api, gpu) {
    gpu_.enter();
    check(api_.create(&plan_), "cufftCreate");
    std::array<long long, 3> n{}, half{};
    for (std::size_t i = 0; i < 3; ++i) n[i] = half[i] = geometry.n[i];
    half[as_index(geometry.rank - 1)] = n[as_index(geometry.rank - 1)] / 2 + 1;
    using Kind = FourierGeometry::Kind;
    check(api_.set_auto_allocation(plan_, 0), "cufftSetAutoAllocation");
    check(api_.make_plan(plan_, geometry.rank, n.data(), (geometry.kind == Kind::to_real ? half : n).data(),
                         geometry.stride, geometry.in_distance, (geometry.kind == Kind::from_real ? half : n).data(),
                         geometry.stride, geometry.out_distance, geometry.type(), geometry.batch, &work_bytes_),
          "cufftMakePlanMany64");
  }
  ~FourierPlan() {
    if (plan_ < 0) return;
    try {  // the device may be gone
      gpu_.enter();
      api_.destroy(plan_);
    } catch (const Error&) {}
  }
  FourierPlan(const FourierPlan&) = delete;
  FourierPlan& operator=(const FourierPlan&) = delete;

  std::size_t work_bytes() const { return work_bytes_; }
  /// Status of the library. `direction` is -1 or 1.
  int run(const FourierGeometry& geometry, void* in, void* out, int direction, void* area, void* stream) {
    std::scoped_lock lock(mutex_);
    if (const int status = api_.set_stream(plan_, stream); status != 0) return status;
    if (const int status = work_bytes_ == 0 ? 0 : api_.set_work_area(plan_, area); status != 0) return status;
    using Kind = FourierGeometry::Kind;
    if (geometry.kind == Kind::complex)
      return (geometry.is_double ? api_.complex_f64 : api_.complex_f32)(plan_, in, out, direction);
    if (geometry.kind == Kind::from_real)
      return (geometry.is_double ? api_.from_real_f64 : api_.from_real_f32)(plan_, in, out);
    return (geometry.is_double ? api_.to_real_f64 : api_.to_real_f32)(plan_, in, out);
  }

  /// The device's plan for the geometry, made where there is none. Throws DeviceError where the library makes none.
  static std::shared_ptr<FourierPlan> get(const FourierApi& api, Gpu& gpu, const FourierGeometry& geometry) {
    struct Entry {
      int device;
      FourierGeometry geometry;
      std::shared_ptr<FourierPlan> plan;
    };
    struct Cache {
      ForkSafeMutex mutex;
      std::list<Entry> entries;  // the one used last first
    };
    constexpr std::size_t most = 64;
    Cache& cache = process_object<Cache>();
    std::shared_ptr<FourierPlan> dropped;  // destroyed after the lock
    std::scoped_lock lock(cache.mutex);
    for (auto entry = cache.entries.begin(); entry != cache.entries.end(); ++entry) {
      if (entry->device != gpu.index() || !(entry->geometry == geometry)) continue;
      cache.entries.splice(cache.entries.begin(), cache.entries, entry);
      return cache.entries.front().plan;
    }
    cache.entries.push_front({gpu.index(), geometry, std::make_shared<FourierPlan>(api, gpu, geometry)});
    if (cache.entries.size() > most) {
      dropped = std::move(cache.entries.back().plan);
      cache.entries.pop_back();
    }
    return cache.entries.front().plan;
  }

 private:
  /// Nothing yet: what a constructor that fails after this one has made is destroyed.
  FourierPlan(const FourierApi& api, Gpu& gpu) : api_(api), gpu_(gpu) {}
  static void check(int status, const char* what) {
    if (status != 0)
      throw DeviceError("fft", "cuFFT: " + std::string(what) + " failed with status " + std::to_string(status));
  }
  const FourierApi& api_;
  Gpu& gpu_;
  ForkSafeMutex mutex_;
  int plan_ = -1;
  std::size_t work_bytes_ = 0;
};

inline double fourier_factor(FourierScale scale, double length) {
  switch (scale) {
    case FourierScale::none: return 1;
    case FourierScale::root: return 1 / std::sqrt(length);
    case FourierScale::full: return 1 / length;
  }
  __builtin_unreachable();
}

/// What all transforms have in common.
class FourierLaunch : public LibraryLaunch {
 public:
  FourierLaunch(const FourierApi& api, Gpu& gpu, const BoundOp& op, const StepContext& step)
      : LibraryLaunch(gpu, op, step),
        api_(api),
        kernels_(module_of(gpu, fourier_kernels())),
        is_double_(op.types[0].dtype == DType::f64),
        direction_(op.attrs[ops_detail::fourier_sign] == FourierSign::plus ? 1 : -1) {}

 protected:
  static constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  std::size_t pair_bytes() const { return is_double_ ? 16 : 8; }
  const Module& kernels() const { return *kernels_; }
  std::size_t entry(FourierKernel kernel) const { return static_cast<std::size_t>(kernel) + (is_double_ ? 1 : 0); }
  std::shared_ptr<FourierPlan> plan_of(const FourierGeometry& geometry) {
    return FourierPlan::get(api_, gpu(), geometry);
  }
  /// The library wants addresses of numbers to be multiples of their size.
  bool is_aligned(const void* address) const { return reinterpret_cast<std::uintptr_t>(address) % pair_bytes() == 0; }
  bool is_double() const { return is_double_; }
  int direction() const { return direction_; }
  template <class F>
  void with_number(F&& f) {
    if (is_double_) f(double{});
    else f(float{});
  }

 private:
  const FourierApi& api_;
  std::shared_ptr<const Module> kernels_;
  bool is_double_;
  int direction_;
};

class ComplexFourier final : public FourierLaunch {
 public:
  ComplexFourier(const FourierApi& api, Gpu& gpu, const BoundOp& op, const StepContext& step)
      : FourierLaunch(api, gpu, op, step) {
    const Shape& shape = op.types[0].shape;
    const int rank = shape.rank() - 1;
    std::vector<int> axes;  // those of one number change nothing
    for (const std::int64_t axis : op.attrs.axes)
      if (shape[static_cast<int>(axis)].value() > 1) axes.push_back(static_cast<int>(axis));
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    for (int i = 0; i < rank; ++i) numbers_ *= shape[i].value();
    for (std::size_t i = 0; i < axes.size();) {
      std::size_t end = i + 1;
      while (end < axes.size() && end - i < 3 && axes[end] == axes[end - 1] + 1) ++end;
      add_stage(shape, rank, std::span(axes).subspan(i, end - i));
      i = end;
    }
    double length = 1;
    for (const int axis : axes) length *= static_cast<double>(shape[axis].value());
    factor_ = fourier_factor(op.attrs[ops_detail::fourier_scale], length);
  }

 private:
  struct Stage {
    FourierGeometry geometry;
    std::shared_ptr<FourierPlan> plan;
    std::int64_t repeats = 1, advance = 0;          // of the call, in numbers
    std::int64_t outer = 0, rows = 0, columns = 0;  // turned: matrices, before
  };
  /// More calls than this are worth turning matrices twice.
  static constexpr std::int64_t most_repeats = 8;

  void add_stage(const Shape& shape, int rank, std::span<const int> axes) {
    Stage stage;
    FourierGeometry& geometry = stage.geometry;
    geometry.is_double = is_double();
    geometry.rank = static_cast<int>(axes.size());
    std::int64_t length = 1, outer = 1, inner = 1;
    for (std::size_t i = 0; i < axes.size(); ++i) length *= geometry.n[i] = shape[axes[i]].value();
    for (int i = 0; i < axes.front(); ++i) outer *= shape[i].value();
    for (int i = axes.back() + 1; i < rank; ++i) inner *= shape[i].value();
    geometry.in_distance = length;
    geometry.batch = outer;
    if (inner > 1 && outer <= most_repeats) {
      geometry.stride = inner;
      geometry.in_distance = 1;
      geometry.batch = inner;
      stage.repeats = outer;
      stage.advance = length * inner;
    } else if (inner > 1) {
      geometry.batch = outer * inner;
      stage.outer = outer;
      stage.rows = length;
      stage.columns = inner;
    }
    geometry.out_distance = geometry.in_distance;
    stage.plan = plan_of(geometry);
    work_bytes_ = std::max(work_bytes_, stage.plan->work_bytes());
    has_turned_ |= stage.outer > 0;
    stages_.push_back(std::move(stage));
  }

  void enqueue(void* const* operands) override {
    const std::size_t bytes = as_index(numbers_) * pair_bytes();
    char *from = static_cast<char*>(operands[0]), *const to = static_cast<char*>(operands[1]);
    const bool is_moved = stages_.empty() || !is_aligned(from);
    if (is_moved) copy(to, from, bytes);
    if (is_moved) from = to;
    char* const area = workspace(aligned(work_bytes_) + (has_turned_ ? bytes : 0));
    for (const Stage& stage : stages_) {
      if (stage.outer > 0) run_turned(stage, from, to, area);
      else
        for (std::int64_t i = 0; i < stage.repeats; ++i) {
          const std::size_t at = as_index(i * stage.advance) * pair_bytes();
          run_plan(stage, from + at, to + at, area);
        }
      from = to;
    }
    if (factor_ == 1) return;
    with_number([&](auto number) {
      using T = decltype(number);
      launch_each(kernels(), entry(FourierKernel::scale), numbers_, static_cast<void*>(to), numbers_,
                  static_cast<T>(factor_));
    });
  }
  void run_plan(const Stage& stage, void* from, void* to, void* area) {
    require(stage.plan->run(stage.geometry, from, to, direction(), area, stream()), "cuFFT: a transform");
  }
  void run_turned(const Stage& stage, char* from, char* to, char* area) {
    char* const turned = area + aligned(work_bytes_);
    turn(from, turned, stage.rows, stage.columns, stage.outer);
    run_plan(stage, turned, turned, area);
    turn(turned, to, stage.columns, stage.rows, stage.outer);
  }
  void turn(void* from, void* to, std::int64_t rows, std::int64_t columns, std::int64_t count) {
    launch(kernels(), entry(FourierKernel::turn), (rows + 15) / 16 * ((columns + 15) / 16) * count, 256, from, to, rows,
           columns, count);
  }

  std::vector<Stage> stages_;
  std::int64_t numbers_ = 1;
  std::size_t work_bytes_ = 0;
  bool has_turned_ = false;
  double factor_ = 1;
};

/// Rows of real numbers and their half spectra.
class RealFourier final : public FourierLaunch {
 public:
  RealFourier(const FourierApi& api, Gpu& gpu, const BoundOp& op, const StepContext& step, FourierGeometry::Kind kind)
      : FourierLaunch(api, gpu, op, step), is_forward_(kind == FourierGeometry::Kind::from_real) {
    const Shape& real = op.types[is_forward_ ? 0 : 1].shape;
    length_ = real[-1].value();
    rows_ = real.numel().value() / length_;
    geometry_.kind = kind;
    geometry_.is_double = is_double();
    geometry_.n[0] = length_;
    geometry_.in_distance = is_forward_ ? length_ : numbers();
    geometry_.out_distance = is_forward_ ? numbers() : length_;
    geometry_.batch = rows_;
    plan_ = plan_of(geometry_);
    factor_ = fourier_factor(op.attrs[ops_detail::fourier_scale], static_cast<double>(length_));
    const bool is_doubled = op.attrs[ops_detail::is_half_doubled];
    // The library counts each number between the ends once on the way there, and twice on the way back.
    interior_ = is_forward_ ? (is_doubled ? 2 : 1) : (is_doubled ? 1 : 0.5);
    is_conjugate_ = direction() == (is_forward_ ? 1 : -1);
  }

 private:
  std::int64_t numbers() const { return length_ / 2 + 1; }
  void enqueue(void* const* operands) override {
    const std::int64_t pairs = rows_ * numbers();
    const std::size_t work = aligned(plan_->work_bytes());
    const std::size_t real_bytes = as_index(rows_ * length_) * pair_bytes() / 2;
    char *from = static_cast<char*>(operands[0]), *const to = static_cast<char*>(operands[1]);
    const bool is_moved = is_forward_ && !is_aligned(from);
    char* const area = workspace(work + (is_moved ? real_bytes : is_forward_ ? 0 : as_index(pairs) * pair_bytes()));
    char* const moved = area + work;
    if (is_moved) copy(moved, from, real_bytes);
    if (!is_forward_) adjust(FourierKernel::half_to_in, from, moved);  // the library overwrites what it reads
    if (is_moved || !is_forward_) from = moved;
    require(plan_->run(geometry_, from, to, direction(), area, stream()), "cuFFT: a transform");
    if (is_forward_ && (factor_ != 1 || interior_ != 1 || is_conjugate_)) adjust(FourierKernel::half_to_out, to, to);
  }
  void adjust(FourierKernel kernel, void* from, void* to) {
    with_number([&](auto number) {
      using T = decltype(number);
      const int is_even = length_ % 2 == 0;
      const T factor = static_cast<T>(factor_), interior = static_cast<T>(interior_),
              sign = is_conjugate_ ? T(-1) : T(1);
      if (kernel == FourierKernel::half_to_in)
        launch_each(kernels(), entry(kernel), rows_ * numbers(), from, to, rows_, numbers(), is_even, factor, interior,
                    sign);
      else
        launch_each(kernels(), entry(kernel), rows_ * numbers(), to, rows_, numbers(), is_even, factor, interior, sign);
    });
  }

  bool is_forward_;
  std::int64_t length_ = 1, rows_ = 1;
  FourierGeometry geometry_;
  std::shared_ptr<FourierPlan> plan_;
  double factor_ = 1, interior_ = 1;
  bool is_conjugate_ = false;
};

namespace fourier_detail {
/// Null, and logged: the library makes no plan. It takes memory of the device beside the pool, so that a second try
/// finds what the pool kept.
template <class Make>
std::unique_ptr<Launch> made_or_null(Gpu& gpu, const Make& make) {
  try {
    return make();
  } catch (const DeviceError&) { gpu.pool().trim(); }
  try {
    return make();
  } catch (const DeviceError& error) {
    if (is_logged("cuda")) note("cuda", std::string("cuFFT is not used: ") + error.what());
  }
  return nullptr;
}
}  // namespace fourier_detail

SINTER_DECL std::unique_ptr<Launch> bind_fourier(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  const bool is_complex = op.is<ops::Fourier>(), is_from_real = op.is<ops::FourierOfReal>();
  if (!is_complex && !is_from_real && !op.is<ops::FourierToReal>()) return nullptr;
  const FourierApi* api = fourier_api();
  if (api == nullptr) return nullptr;
  using Kind = FourierGeometry::Kind;
  return fourier_detail::made_or_null(gpu, [&]() -> std::unique_ptr<Launch> {
    if (is_complex) return std::make_unique<ComplexFourier>(*api, gpu, op, step);
    return std::make_unique<RealFourier>(*api, gpu, op, step, is_from_real ? Kind::from_real : Kind::to_real);
  });
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
