// What a transform of one length needs, made once: the stages with their twiddle factors, and, for lengths with a large
// prime factor, Bluestein's convolution (1970); for long rows the cut into rows and columns (Bailey 1990). Tables are
// cached for each length and dtype, at most 64 of them and 256 MiB; the one not used for longest goes first. Thread
// safe.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

struct StageTable {
  int radix = 1;
  std::int64_t parts = 1, stride = 1;
  std::size_t twiddles = 0, roots = 0;  // where they begin
};

/// Of lines side by side.
template <class T>
struct LinePlan {
  std::int64_t length = 0;
  std::int64_t room = 0;  // complex numbers that each of two buffers must hold
  std::vector<StageTable> stages;
  std::vector<T> tables;  // complex numbers
  // Of the first two stages, where both have radix 4, for transforms along a row: for each of their three factors the
  // real parts of all places of a quarter, then the imaginary parts.
  std::vector<T> row_tables;
  // Bluestein: a convolution of length inner->length
  std::shared_ptr<const LinePlan> inner;
  std::vector<T> chirp, spectrum;

  std::size_t bytes() const { return (tables.size() + row_tables.size() + chirp.size() + spectrum.size()) * sizeof(T); }
};

/// Of one long line, given as rows and columns of it; rows == 1: by Bluestein, with a convolution by `inner`.
template <class T>
struct RowPlan {
  std::int64_t length = 0, rows = 1, columns = 1;
  std::vector<T> twiddles;  // for each group of columns and each row: real parts, imaginary parts
  std::vector<T> chirp, spectrum;

  std::size_t bytes() const { return (twiddles.size() + chirp.size() + spectrum.size()) * sizeof(T); }
};

/// (cos, -sin) of 2 pi k / length, for k up to a quarter of the length: what makes two halves one real transform.
template <class T>
struct RealTable {
  std::vector<T> roots;
  std::size_t bytes() const { return roots.size() * sizeof(T); }
};

/// Longer lines are taken one by one.
inline constexpr std::int64_t longest_side_by_side = 4096;

template <class T>
std::shared_ptr<const LinePlan<T>> line_plan(std::int64_t length);
/// `lanes`: how many columns are a group.
template <class T>
std::shared_ptr<const RowPlan<T>> row_plan(std::int64_t length, int lanes);
template <class T>
std::shared_ptr<const RealTable<T>> real_table(std::int64_t length);
/// Do plans of this length have row_tables? To be asked before such a plan is made.
template <class T>
bool has_row_tables(std::int64_t length);
/// Groups of `lanes` of `count` columns; the last one takes some of the columns before along, so that it is full.
inline std::int64_t first_of_group(std::int64_t group, std::int64_t count, std::int64_t lanes) {
  return count < lanes || (group + 1) * lanes <= count ? group * lanes : count - lanes;
}
/// The largest divisor up to the square root.
std::int64_t middle_divisor(std::int64_t length);
/// A length from `least` on, of prime factors 2, 3 and 5, whose transform takes least.
std::int64_t smooth_length(std::int64_t least);

/// Plans held now: for tests.
std::size_t cached_plans();

}  // namespace fft_detail
SINTER_NAMESPACE_END
