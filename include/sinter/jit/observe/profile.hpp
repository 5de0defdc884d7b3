// profile(): where the time of a function goes, kernel by kernel, against what this machine can do. A thin typed half;
// what measures is in profile.ipp.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/tensor/device.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

struct ProfileOptions {
  double seconds = 0.3;          // to spend on calls, about
  std::int64_t max_calls = 500;  // of each kind: those that are timed whole, and those whose kernels are
  bool limits = true;            // measure what the machine can do, once in a process (half a second)
  bool counters = true;          // count instructions and cycles of the calling thread, where the system allows it
};

/// One kernel, or an operation of the host, per call of the function. Times are medians.
struct ProfileRow {
  std::string name, kind, backend, lines;  // "fused_mul_add_tanh", "pointwise", "x86", "train.cpp:41"
  Device device;
  std::int64_t runs = 0;              // in one call
  double nanoseconds = 0;             // of itself: without the kernels that it runs inside
  std::int64_t bytes = 0, flops = 0;  // that it must move and do (docs/observing.md)
  /// Of the time, what the machine's limits leave no way around; 0: no limit is known, or there is nothing to do.
  double share_of_limit = 0;
  bool is_memory_bound = false;       // which limit that is
  double instructions_per_cycle = 0;  // of the calling thread; 0: not counted
  double gigabytes_per_second() const { return nanoseconds > 0 ? static_cast<double>(bytes) / nanoseconds : 0; }
  double gigaflops() const { return nanoseconds > 0 ? static_cast<double>(flops) / nanoseconds : 0; }
};

/// What a device can do, measured with kernels of this library: streams of so many bytes altogether, and products.
struct MachineLimits {
  struct Stream {
    std::int64_t bytes = 0;
    double gigabytes_per_second = 0;
  };
  Device device;
  std::vector<Stream> streams;  // by rising size: what fits into caches is faster
  double gigaflops_f32 = 0, gigaflops_f64 = 0;
  /// For kernels that move so many bytes.
  double gigabytes_per_second(std::int64_t bytes) const;
};
/// Of the device; measured at the first question in a process.
const MachineLimits& machine_limits(Device device = Device::cpu());

class Profile {
 public:
  std::vector<ProfileRow> rows;       // the slowest first
  double call_nanoseconds = 0;        // of a whole call that nobody watches, median
  double kernel_nanoseconds = 0;      // of all rows
  std::int64_t calls = 0;             // whose kernels were timed
  std::string counters;               // why there are none, or ""
  std::vector<MachineLimits> limits;  // of the devices that took part
  /// A table.
  std::string text() const;
};
std::ostream& operator<<(std::ostream& out, const Profile& profile);

namespace jit_detail {
Profile profile_calls(void (*call)(const void* object), const void* object, const ProfileOptions& options);
/// Has what a call returned computed.
void finish(const Tensor& result);
template <class R>
void finish_result(const R& result) {
  if constexpr (std::is_same_v<R, Tensor>) finish(result);
  else if constexpr (requires { std::tuple_size<R>::value; })
    std::apply([](const auto&... parts) { (finish_result(parts), ...); }, result);
}
}  // namespace jit_detail

/// Calls f(args...) again and again, and measures its kernels one by one: `std::cout << jit::profile(f, x, w);`. f is a
/// compiled function, or any other one: then what runs inside its call is seen, and what it returns is computed.
template <class F, class... A>
Profile profile(const ProfileOptions& options, const F& f, const A&... args) {
  const auto call = [&] {
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, const A&...>>) f(args...);
    else jit_detail::finish_result(f(args...));
  };
  return jit_detail::profile_calls([](const void* object) { (*static_cast<const decltype(call)*>(object))(); }, &call,
                                   options);
}
template <class F, class... A>
  requires(!std::is_same_v<std::remove_cvref_t<F>, ProfileOptions>)
Profile profile(const F& f, const A&... args) {
  return profile(ProfileOptions{}, f, args...);
}

}  // namespace jit
SINTER_NAMESPACE_END
