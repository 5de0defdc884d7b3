// What users see of a plan: in words and numbers, and what it was weighed with.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// What plans are weighed with. Only the ratios matter for what is chosen: bytes over links against work that ranks
/// would repeat.
struct MachineCosts {
  double link_bytes_per_second = 10e9;
  double link_seconds = 5e-6;  // before the first byte; of predictions, not of choices
  double memory_bytes_per_second = 10e9;
  double operations_per_second = 20e9;
  bool operator==(const MachineCosts&) const = default;
};

/// A plan in words and numbers. All are of one rank.
struct PartitionReport {
  struct Collective {
    std::string text;        // "all_reduce(sum) of %7 f32[16, 32] over 'data'"
    std::int64_t bytes = 0;  // sent
    Location where;
  };
  struct Link {
    std::string axis;  // of the mesh; "data, model" for groups over several
    std::int64_t bytes = 0;
  };
  std::vector<Collective> collectives;  // in their order
  std::vector<Link> links;
  std::int64_t bytes = 0;
  double work_seconds = 0, link_seconds = 0;  // predicted
  std::string text;                           // all of it, with the layout of each value
};
std::ostream& operator<<(std::ostream& out, const PartitionReport& report);

}  // namespace dist
SINTER_NAMESPACE_END
