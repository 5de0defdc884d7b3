// Who computes a product of matrices: measured once per device and kind of product, then remembered in the process and
// on disk. Owns the table and its entries' form; how candidates are timed is a function that it is given. Knows no
// driver.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/runtime/disk_cache.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// From here on, in additions and multiplications, measuring is worth it. Smaller products take about as long as
/// launching them, so algorithms differ by a few microseconds a call, and measuring costs some milliseconds, and the
/// algorithms that lose 10 to 100 ms each of a compiler's time: it would be worth it only after tens of thousands of
/// calls.
inline constexpr double least_measured_operations = 2e8;

/// Something to be timed.
struct ProductCandidate {
  GemmAlgorithm algorithm = GemmAlgorithm::fma;
  std::string library_algorithm;  // of the library
  std::string name;               // "library 2"
};

struct ProductChoice {
  GemmAlgorithm algorithm = GemmAlgorithm::fma;
  std::string library_algorithm;  // of the library; empty: its own first choice
  std::string why;                // "measured: library 1 103.2 us, fma 155.0 us"
};

/// Microseconds of each candidate; 0 or less where it failed. May throw.
using ProductMeasurer = std::function<std::vector<double>(std::span<const ProductCandidate>)>;

class ProductChoices {
 public:
  explicit ProductChoices(DiskCache disk) : disk_(std::move(disk)) {}
  /// What was chosen for this key here or by an earlier process.
  std::optional<ProductChoice> find(const std::string& key);
  /// Measures the candidates, the one preferred without a measurement first, and remembers the fastest; one caller at a
  /// time: whoever waited for another's answer takes it. Never throws for what the measurer throws: then the first is
  /// chosen, for this process. `name` is for the log (topic "autotune").
  ProductChoice choose(const std::string& key, std::string_view name, std::span<const ProductCandidate> candidates,
                       const ProductMeasurer& measure);
  /// What needed no measurement, since nothing else may win; in the process and on disk.
  void remember(const std::string& key, const ProductChoice& choice);
  /// Forgets this one, on disk, too: it is of another machine.
  void drop(const std::string& key);
  /// Forgets what this process knows; from now on entries are in `disk`.
  void forget(DiskCache disk);

  static std::string text_of(const ProductChoice& choice);
  /// Nothing: it is damaged, or of another version.
  static std::optional<ProductChoice> choice_of(std::string_view text);

 private:
  DiskCache disk_;
  ForkSafeMutex measuring_, mutex_;
  std::map<std::string, ProductChoice> known_;
};

}  // namespace cuda
SINTER_NAMESPACE_END
