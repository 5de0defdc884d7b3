// Where the first NaN arises: while DebugNans lives, functions run uncompiled and each value that is read is looked at.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/jit/call/stance.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
class Graph;
class TensorImpl;
template <class T>
class Ref;

namespace jit {

/// A value that is read is not a number (or infinite, where that is asked for): says which operation gave the first.
class NanError : public UserError {
 public:
  NanError(std::string_view op, std::string_view what, Location where, std::string_view fix)
      : UserError("NanError", op, what, where, fix) {}
};

struct DebugNansOptions {
  bool nans = true, infs = false;  // what is looked for
};

/// While it lives, on this thread: compiled functions run uncompiled, and reading a value that has a NaN throws
/// NanError, with the operation and the line that gave the first one. A NaN that no result shows (behind where()) is
/// none. SINTER_DEBUG_NANS=1 is the same for a whole program.
class [[nodiscard]] DebugNans {
 public:
  explicit DebugNans(DebugNansOptions options = {}, Location where = std::source_location::current());
  ~DebugNans();
  DebugNans(const DebugNans&) = delete;
  DebugNans& operator=(const DebugNans&) = delete;

 private:
  std::uint8_t before_;
  StanceGuard eager_;
};
inline DebugNans debug_nans(DebugNansOptions options = {}, Location where = std::source_location::current()) {
  return DebugNans(options, where);
}

namespace jit_detail {
/// Is something looked for on this thread?
bool looks_for_nans() noexcept;
bool has_nan(std::span<const Ref<TensorImpl>> values);
/// Runs the graph on the inputs, one operation after another; throws NanError for the first that gives what is looked
/// for. Returns where none does.
void throw_first_nan(const Graph& graph, std::span<const Ref<TensorImpl>> inputs);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
