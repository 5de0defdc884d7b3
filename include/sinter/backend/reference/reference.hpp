// The reference back end: accepts every valid kernel and computes it by plain interpretation, block by block, with
// reductions accumulated in double. The oracle of differential tests, the fallback of the other CPU back ends, and the
// whole back end where there is no code generator. Its reduction order is its own, but fixed.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::string cache_key() const override { return "reference"; }
  Limits limits() const override;
  /// Throws InternalError on a malformed kernel.
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined = nullptr) override;
};

std::unique_ptr<Backend> make_reference_backend();

SINTER_NAMESPACE_END
