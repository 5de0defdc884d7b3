// Descriptors, and which algorithm: measured once per device and geometry and then remembered on disk, or by the
// library's rule. Those that add up in another order from run to run are not used, nor Fourier transforms, in which one
// infinite element would reach all others.
#pragma once

#include <sinter/backend/cuda/library/dnn_convolution.hpp>

#include <sinter/backend/cuda/library/convolution.hpp>
#include <sinter/backend/cuda/library/library_launch.hpp>
#include <sinter/backend/cuda/product/measure.ipp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/runtime/disk_cache.hpp>

#include <algorithm>
#include <charconv>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// What the library has for a device. Whoever calls it with the handle holds the mutex.
struct DnnHandle {
  ForkSafeMutex mutex;
  void* handle = nullptr;

  static DnnHandle& of(const DnnApi& api, const Gpu& gpu) {
    struct Table {
      std::array<DnnHandle, max_devices> handles;
    };
    DnnHandle& found = process_object<Table>().handles[as_index(gpu.index())];
    std::scoped_lock lock(found.mutex);
    if (found.handle != nullptr) return found;
    gpu.enter();
    if (const int status = api.create(&found.handle); status != 0) {
      found.handle = nullptr;
      throw DeviceError("convolution", std::string("cuDNN: cudnnCreate failed: ") + api.error_text(status));
    }
    return found;
  }
};

SINTER_DECL std::string ConvolutionGeometry::text() const {
  const auto list = [](const Axes& numbers) {
    return std::to_string(numbers[0]) + "x" + std::to_string(numbers[1]) + "x" + std::to_string(numbers[2]);
  };
  const char* const what = made == Made::result            ? "convolution "
                           : made == Made::weight_gradient ? "weight gradient "
                                                           : "image gradient ";
  return what + std::string(name(dtype)) + " " + std::string(name(precision)) + (is_part ? " part" : "") + " axes " +
         std::to_string(axes) + " images " + std::to_string(images) + " groups " + std::to_string(groups) + " inputs " +
         std::to_string(inputs) + " outputs " + std::to_string(outputs) + " extent " + list(extent) + " kernel " +
         list(kernel) + " stride " + list(stride) + " dilation " + list(dilation) + " padding " + list(padding);
}

SINTER_DECL DnnConvolution::DnnConvolution(const DnnApi& api, Gpu& gpu, const ConvolutionGeometry& geometry,
                                           AlgorithmSearch search)
    : api_(api), gpu_(gpu), geometry_(geometry) {
  if (!create() || !describe(ChannelPlace::second)) return;
  try {
    choose(search);
  } catch (const std::exception& error) { why_ = error.what(); }
}
SINTER_DECL DnnConvolution::~DnnConvolution() {
  if (x_ != nullptr) api_.destroy_tensor(x_);
  if (y_ != nullptr) api_.destroy_tensor(y_);
  if (weight_ != nullptr) api_.destroy_filter(weight_);
  if (convolution_ != nullptr) api_.destroy_convolution(convolution_);
}

SINTER_DECL bool DnnConvolution::create() {
  const auto is_done = [&](int status) {
    if (status != 0) why_ = std::string("a descriptor: ") + api_.error_text(status);
    return status == 0;
  };
  return is_done(api_.create_tensor(&x_)) && is_done(api_.create_tensor(&y_)) &&
         is_done(api_.create_filter(&weight_)) && is_done(api_.create_convolution(&convolution_));
}

/// Fills the descriptors. False: the library does not take these numbers.
SINTER_DECL bool DnnConvolution::describe(ChannelPlace channels) {
  const ConvolutionGeometry& g = geometry_;
  const int type = dnn_type(g.dtype), sum_type = g.dtype == DType::f64 ? 1 : 0, rank = g.axes + 2;
  const std::size_t skipped = 3 - as_index(g.axes);
  const bool is_last = channels == ChannelPlace::last;
  std::array<std::array<int, 5>, 4> numbers{};  // extents, strides, then stride, padding and dilation
  const auto narrow = [](std::int64_t number) { return static_cast<int>(number); };
  const auto set_tensor = [&](void* tensor, std::int64_t channel_count, const ConvolutionGeometry::Axes& axes) {
    auto& [extents, strides, unused, also_unused] = numbers;
    extents[0] = narrow(g.images);
    extents[1] = narrow(channel_count);
    for (std::size_t i = skipped; i < 3; ++i) extents[2 + i - skipped] = narrow(axes[i]);
    strides[1] = 1;
    int step = is_last ? extents[1] : 1;
    for (std::size_t i = as_index(rank); i-- > 0;) {
      if (is_last && i == 1) continue;
      strides[i] = step;
      step *= extents[i];
    }
    return api_.set_tensor(tensor, type, rank, extents.data(), strides.data());
  };
  const auto set_filter = [&] {
    auto& extents = numbers[0];
    extents[0] = narrow(g.groups * g.outputs);
    extents[1] = narrow(g.inputs);
    for (std::size_t i = skipped; i < 3; ++i) extents[2 + i - skipped] = narrow(g.kernel[i]);
    return api_.set_filter(weight_, type, is_last ? 1 : 0, rank, extents.data());
  };
  const auto set_convolution = [&] {
    auto& [padding, stride, dilation, unused] = numbers;
    for (std::size_t i = skipped; i < 3; ++i) {
      padding[i - skipped] = narrow(g.padding[i]);
      stride[i - skipped] = narrow(g.stride[i]);
      dilation[i - skipped] = narrow(g.dilation[i]);
    }
    constexpr int not_mirrored = 1;
    return api_.set_convolution(convolution_, g.axes, padding.data(), stride.data(), dilation.data(), not_mirrored,
                                sum_type);
  };
  const auto is_done = [&](int status, const char* what) {
    if (status != 0) why_ = std::string(what) + ": " + api_.error_text(status);
    return status == 0;
  };
  return is_done(set_tensor(x_, g.groups * g.inputs, g.extent), "the image") &&
         is_done(set_tensor(y_, g.groups * g.outputs, g.positions), "the result") &&
         is_done(set_filter(), "the weight") && is_done(set_convolution(), "the convolution") &&
         is_done(api_.set_groups(convolution_, narrow(g.groups)), "the groups") &&
         is_done(api_.set_math(convolution_, wanted_math()), "the precision");
}

SINTER_DECL DnnConvolution::Roles DnnConvolution::roles() const {
  switch (geometry_.made) {
    case ConvolutionGeometry::Made::result: return {x_, weight_, y_};
    case ConvolutionGeometry::Made::weight_gradient: return {x_, y_, weight_};
    case ConvolutionGeometry::Made::image_gradient: return {weight_, y_, x_};
  }
  return {};
}
SINTER_DECL const DnnApi::Functions& DnnConvolution::functions() const {
  switch (geometry_.made) {
    case ConvolutionGeometry::Made::result: return api_.forward;
    case ConvolutionGeometry::Made::weight_gradient: return api_.filter;
    case ConvolutionGeometry::Made::image_gradient: return api_.data;
  }
  return api_.forward;
}

SINTER_DECL int DnnConvolution::wanted_math() const {
  if (geometry_.dtype == DType::f64) return DnnApi::any_math;
  const bool is_full = geometry_.dtype == DType::f32 && geometry_.precision != MatmulPrecision::tf32;
  return is_full ? DnnApi::full_precision : DnnApi::tensor_cores;
}

inline constexpr int most_found = 16;

SINTER_DECL std::vector<DnnConvolution::Candidate> DnnConvolution::found_by_rule() const {
  DnnHandle& dnn = DnnHandle::of(api_, gpu_);
  std::scoped_lock lock(dnn.mutex);
  gpu_.enter();
  std::array<DnnApi::Found, most_found> found{};
  int count = 0;
  const auto [first, second, out] = roles();
  const int status =
      functions().by_rule(dnn.handle, first, second, convolution_, out, most_found, &count, found.data());
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; status == 0 && i < as_index(count); ++i) candidates.push_back({found[i]});
  return candidates;
}

/// More is not lent to an algorithm.
inline constexpr std::size_t most_workspace = std::size_t{256} << 20;

/// Tensor cores read channels side by side: the library turns what lies otherwise in kernels of its own, not all of
/// which are fast.
SINTER_DECL bool DnnConvolution::may_have_channels_last() const {
  const ConvolutionGeometry& g = geometry_;
  const bool is_narrow = g.dtype == DType::f16 || g.dtype == DType::bf16,
             is_rounded = g.dtype == DType::f32 && wanted_math() == DnnApi::tensor_cores;
  const std::int64_t together = is_narrow ? 8 : 4;
  return (is_narrow || is_rounded) && g.axes == 2 && g.groups == 1 && !g.is_part && g.inputs % together == 0 &&
         g.outputs % together == 0 && x_bytes() + y_bytes() + weight_bytes() <= most_workspace;
}

/// Of one algorithm the best time counts, beside `milliseconds` that what is around it takes.
SINTER_DECL void DnnConvolution::measure(Scratch& scratch, ChannelPlace channels, double milliseconds,
                                         std::vector<Candidate>& best) const {
  char *const x_data = scratch.memory(), *const y_data = x_data + x_bytes(), *const w_data = y_data + y_bytes(),
              *const area = w_data + weight_bytes();
  const auto data_of = [&](const void* role) { return role == x_ ? x_data : role == y_ ? y_data : w_data; };
  const auto [first, second, out] = roles();
  DnnHandle& dnn = DnnHandle::of(api_, gpu_);
  std::scoped_lock lock(dnn.mutex);
  int status = api_.set_stream(dnn.handle, scratch.stream());
  constexpr int rounds = 3;  // the library times each algorithm once: the first time, code is loaded
  for (int round = 0; round < rounds && status == 0; ++round) {
    std::array<DnnApi::Found, most_found> found{};
    int count = 0;
    status = functions().measured(dnn.handle, first, data_of(first), second, data_of(second), convolution_, out,
                                  data_of(out), most_found, &count, found.data(), area, most_workspace);
    for (std::size_t i = 0; status == 0 && i < as_index(count); ++i) {
      if (!is_allowed(found[i])) continue;
      found[i].milliseconds += static_cast<float>(milliseconds);
      const auto same = std::find_if(best.begin(), best.end(), [&](const Candidate& known) {
        return known.found.algorithm == found[i].algorithm && known.found.math == found[i].math &&
               known.channels == channels;
      });
      if (same == best.end()) best.push_back({found[i], channels});
      else same->found.milliseconds = std::min(same->found.milliseconds, found[i].milliseconds);
    }
  }
  api_.set_stream(dnn.handle, nullptr);  // the stream goes back
}

/// What it takes to put the channels last in what is read, and second in what is made. The least of some runs.
SINTER_DECL double DnnConvolution::milliseconds_of_copies(Scratch& scratch) const {
  const std::shared_ptr<const Module> kernels = module_of(gpu_, convolution_kernels(geometry_.dtype));
  char* const area = scratch.memory() + x_bytes() + y_bytes() + weight_bytes();
  const ConvolutionGeometry& g = geometry_;
  const auto turn = [&](std::int64_t batches, std::int64_t rows, std::int64_t columns) {
    void *from = scratch.memory(), *to = area;
    void* parameters[] = {&from, &to, &rows, &columns, &batches};
    const auto blocks = std::min<std::int64_t>(turned_tiles(batches, rows, columns),
                                               static_cast<std::int64_t>(gpu_.target().multiprocessors) * 64);
    Scratch::require_done(
        api().call_cuLaunchKernel(kernels->function(turn_channels_entry), static_cast<unsigned>(blocks), 1, 1, 256, 1,
                                  1, 0, scratch.stream(), parameters, nullptr),
        "launching a copy");
  };
  const auto run = [&] {
    turn(g.images, g.inputs, ConvolutionGeometry::product(g.extent));
    turn(g.images, g.outputs, ConvolutionGeometry::product(g.positions));
    turn(g.outputs, g.inputs, ConvolutionGeometry::product(g.kernel));
  };
  double best = scratch.time(run, 2);
  for (int round = 0; round < 3; ++round) best = std::min(best, scratch.time(run, 2));
  return best / 1000;
}

/// On scratch memory and a stream of its own. The fastest first. Throws where there is no room.
SINTER_DECL std::vector<DnnConvolution::Candidate> DnnConvolution::found_by_measuring() {
  const std::size_t operands = x_bytes() + y_bytes() + weight_bytes();
  Scratch scratch(gpu_, operands + most_workspace);
  scratch.fill_with_numbers(scratch.memory(), operands, geometry_.dtype);
  std::vector<Candidate> best;
  if (!describe(ChannelPlace::second)) return best;
  measure(scratch, ChannelPlace::second, 0, best);
  try {
    if (may_have_channels_last() && describe(ChannelPlace::last))
      measure(scratch, ChannelPlace::last, milliseconds_of_copies(scratch), best);
  } catch (const std::exception& error) {  // what is measured already holds
    if (is_logged("autotune")) note("autotune", geometry_.text() + ": channels last: " + error.what());
  }
  describe(ChannelPlace::second);
  std::sort(best.begin(), best.end(),
            [](const Candidate& a, const Candidate& b) { return a.found.milliseconds < b.found.milliseconds; });
  return best;
}

SINTER_DECL bool DnnConvolution::is_allowed(const DnnApi::Found& found) const {
  using Made = ConvolutionGeometry::Made;
  const bool is_fourier = geometry_.made == Made::result            ? found.algorithm == 4 || found.algorithm == 5
                          : geometry_.made == Made::weight_gradient ? found.algorithm == 2 || found.algorithm == 6
                                                                    : found.algorithm == 2 || found.algorithm == 3;
  constexpr int rounded_to_f16 = 2;
  const bool is_rounded = wanted_math() == DnnApi::full_precision ? found.math == DnnApi::tensor_cores : false;
  return found.status == 0 && found.is_deterministic == 1 && !is_fourier && !is_rounded &&
         found.math != rounded_to_f16 && found.workspace_bytes <= most_workspace;
}

/// False: the library or the device does not have it after all.
SINTER_DECL bool DnnConvolution::take(const Choice& choice) {
  if (choice.channels == ChannelPlace::last && !may_have_channels_last()) return false;
  if (!describe(choice.channels) || api_.set_math(convolution_, choice.math) != 0) return false;
  std::size_t bytes = 0;
  DnnHandle& dnn = DnnHandle::of(api_, gpu_);
  {
    std::scoped_lock lock(dnn.mutex);
    gpu_.enter();
    const auto [first, second, out] = roles();
    const int status = functions().bytes(dnn.handle, first, second, convolution_, out, choice.algorithm, &bytes);
    if (status != 0 || bytes > most_workspace) return false;
  }
  choice_ = choice;
  workspace_bytes_ = bytes;
  is_usable_ = true;
  why_ = "algorithm " + std::to_string(choice.algorithm) + ", mathematics " + std::to_string(choice.math) + ", " +
         std::to_string(bytes) + " bytes of workspace" +
         (choice.channels == ChannelPlace::last ? ", channels last" : "");
  return true;
}

/// Of the rule by which is measured and chosen: what an older one chose is not taken.
inline constexpr std::string_view convolution_rule = "rule 2 ";
/// What stands in the cache where nothing is fit.
inline constexpr std::string_view refused_convolution = "none";

SINTER_DECL std::string DnnConvolution::disk_key() const {
  return "cudnn " + std::string(convolution_rule) + SINTER_VERSION_STRING " " + std::to_string(api_.version()) +
         " driver " + std::to_string(driver_status().version) + " " + gpu_.name() + " " + gpu_.target().architecture() +
         "\n" + geometry_.text();
}

/// False: it is none, or is not there after all.
SINTER_DECL bool DnnConvolution::take_stored(const std::string& text) {
  std::array<int, 3> numbers{};
  const char *at = text.data(), *const end = at + text.size();
  std::size_t count = 0;
  for (; count < numbers.size() && at != end; ++count) {
    const auto [rest, wrong] = std::from_chars(at, end, numbers[count]);
    if (wrong != std::errc{}) break;
    at = rest == end ? end : rest + 1;
  }
  const ChannelPlace channels = numbers[2] == 1 ? ChannelPlace::last : ChannelPlace::second;
  return count == numbers.size() && take({numbers[0], numbers[1], channels});
}

SINTER_DECL void DnnConvolution::choose(AlgorithmSearch search) {
  const bool is_measured = search == AlgorithmSearch::measured;
  const bool is_permitted_only = geometry_.dtype == DType::f32 && wanted_math() == DnnApi::tensor_cores;  // TF32
  const DiskCache disk = is_measured ? DiskCache::standard() : DiskCache("");
  const std::optional<std::string> known = is_measured ? disk.find(disk_key()) : std::nullopt;
  if (known && take_stored(*known)) return;
  const bool is_refused = is_permitted_only && known && *known == refused_convolution;
  std::vector<Candidate> measured;
  std::string reason = "nothing that could be measured is fit";
  bool is_whole = false;
  if (is_measured && !is_refused) {
    try {
      measured = found_by_measuring();
      is_whole = true;
    } catch (const std::exception& error) { reason = error.what(); }
  }
  if (take_first(measured)) {
    // Another process may have measured meanwhile: all take what came first.
    const Choice own = choice_;
    reason = "measured";
    if (const std::optional<std::string> others = disk.find(disk_key()); others && take_stored(*others)) {
      reason = "measured by another process";
    } else {
      if (others) take(own);
      disk.store(disk_key(), std::to_string(own.algorithm) + " " + std::to_string(own.math) + " " +
                                 std::to_string(static_cast<int>(own.channels)));
      if (const std::optional<std::string> stored = disk.find(disk_key()); stored && !take_stored(*stored)) take(own);
    }
  } else if (is_refused || !take_first(found_by_rule())) {
    if (!is_permitted_only) {
      why_ = "cuDNN has no algorithm for it";
      return;
    }
    if (is_whole) disk.store(disk_key(), refused_convolution);
    geometry_.precision = MatmulPrecision::f32;  // TF32 is a permission
    if (api_.set_math(convolution_, wanted_math()) != 0) return;
    return choose(search);
  }
  if (is_measured && is_logged("autotune")) note("autotune", geometry_.text() + ": cuDNN, " + why_ + ", " + reason);
}

/// The first that is allowed and works. False: there is none.
SINTER_DECL bool DnnConvolution::take_first(const std::vector<Candidate>& found) {
  const bool is_full = wanted_math() == DnnApi::full_precision;  // "any" would let f32 be rounded to TF32
  for (const auto& [one, channels] : found)
    if (is_allowed(one) && take({one.algorithm, is_full ? int{DnnApi::full_precision} : one.math, channels}))
      return true;
  describe(ChannelPlace::second);
  return false;
}

SINTER_DECL int DnnConvolution::run(const void* first, const void* second, void* out, Target target, void* area,
                                    void* stream) const {
  const double ones[] = {1, 0};
  const float narrow_ones[] = {1, 0};
  const bool is_double = geometry_.dtype == DType::f64;
  const std::size_t beta_at = target == Target::added_to ? 0 : 1;
  const void *const alpha = is_double ? static_cast<const void*>(ones) : narrow_ones,
                    *const beta = is_double ? static_cast<const void*>(ones + beta_at) : narrow_ones + beta_at;
  DnnHandle& dnn = DnnHandle::of(api_, gpu_);
  std::scoped_lock lock(dnn.mutex);
  if (const int status = api_.set_stream(dnn.handle, stream); status != 0) return status;
  const Roles role = roles();
  return functions().run(dnn.handle, alpha, role.first, first, role.second, second, convolution_, choice_.algorithm,
                         area, workspace_bytes_, beta, role.out, out);
}

SINTER_DECL std::shared_ptr<const DnnConvolution> DnnConvolution::get(Gpu& gpu, const ConvolutionGeometry& geometry,
                                                                      AlgorithmSearch search) {
  struct Entry {
    int device;
    AlgorithmSearch search;
    ConvolutionGeometry geometry;
    std::shared_ptr<const DnnConvolution> made;
  };
  struct Cache {
    ForkSafeMutex mutex;
    std::list<Entry> entries;  // the one used last first
  };
  constexpr std::size_t most = 512;
  const DnnApi* const api = dnn_api();
  ensure(api != nullptr, "a convolution by cuDNN without cuDNN");
  Cache& cache = process_object<Cache>();
  std::shared_ptr<const DnnConvolution> dropped;  // destroyed after the lock
  std::scoped_lock lock(cache.mutex);
  for (auto entry = cache.entries.begin(); entry != cache.entries.end(); ++entry) {
    if (entry->device != gpu.index() || entry->search != search || !(entry->geometry == geometry)) continue;
    cache.entries.splice(cache.entries.begin(), cache.entries, entry);
    return cache.entries.front().made;
  }
  auto made = std::make_shared<const DnnConvolution>(*api, gpu, geometry, search);
  cache.entries.push_front({gpu.index(), search, geometry, std::move(made)});
  if (cache.entries.size() > most) {
    dropped = std::move(cache.entries.back().made);
    cache.entries.pop_back();
  }
  return cache.entries.front().made;
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
