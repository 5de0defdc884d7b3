// Cuts of a device's graphs into kernels: functions that have some, and what is stored of them, changed. Shared by the
// fake device and GPUs.
#pragma once

#include "catch.hpp"
#include "tuning_folder.hpp"

#include <sinter/base/hash.hpp>
#include <sinter/sinter.hpp>
#include <sinter/tuning.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter_test {

/// A value that two kernels compute again, each.
inline sinter::Tensor two_sums(sinter::Tensor x) {
  const sinter::Tensor a = x * 2 + 1;
  return sum(a, 0) + sum(sum(a, 1));
}
/// Rows of several passes behind a product, in a loop.
inline sinter::Tensor loop_of_rows(sinter::Tensor x, sinter::Tensor w) {
  return sinter::jit::fori_loop(
      0, 3, [&](sinter::Scalar, sinter::Tensor y) { return softmax(matmul(y, w) + x, 1) * 2; }, x);
}

/// The lines of a file of tunings with another cut as the winner of each plan.
inline std::string with_cut(std::string text, std::string_view cut) {
  for (std::size_t plan = text.find("; plan of "); plan != std::string::npos;
       plan = text.find("; plan of ", plan + 1)) {
    const std::size_t begin = text.find(" = ", plan) + 3;
    text.replace(begin, text.find(';', begin) - begin, cut);
  }
  text.resize(text.rfind("checksum "));
  const sinter::Hash128 sum = sinter::Hasher{}.add(std::string_view(text)).finish();
  char hex[64];
  std::snprintf(hex, sizeof hex, "checksum %016llx%016llx\n", static_cast<unsigned long long>(sum.high),
                static_cast<unsigned long long>(sum.low));
  return text + hex;
}

/// What came of a stored cut.
struct FollowedCut {
  std::vector<float> values;
  std::string explained;
  bool is_followed = false;
};
template <class F, class... A>
FollowedCut follow_cut(const std::string& tunings, std::string_view cut, F f, const A&... args) {
  const TuningFolder elsewhere;
  const std::string path = elsewhere.folder.path + "/other.tuning";
  std::ofstream(path, std::ios::binary) << with_cut(tunings, cut);
  sinter::jit::import_tuning(path);
  sinter::jit::reset();
  auto tuned = sinter::jit::compile(f, {.mode = sinter::jit::Mode::max_autotune, .tune_seconds = 10});
  FollowedCut found;
  found.values = to_vector<float>(tuned(args...));
  found.is_followed = sinter::tuning_stats().plans_found == 1;
  found.explained = tuned.explain(args...).text();
  return found;
}

}  // namespace sinter_test
