// The error of programs of several ranks. Must not know engines.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// Ranks do not act together: their calls differ, one has failed or ended, or does not come in time.
class DistError : public UserError {
 public:
  enum class Kind : std::uint8_t {
    mismatch,  // calls of the ranks differ
    failed,    // a rank threw an exception, ended, or its process died
    timeout,   // a rank did not come in time
    engine,    // NCCL or MPI is missing, or reports an error
  };
  DistError(Kind kind, std::string_view op, std::string_view what, Location where = {}, std::string_view fix = {});

  Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

}  // namespace dist
SINTER_NAMESPACE_END
