// What code that is traced may depend on beside its arguments, of the thread that calls it: of a program of several
// ranks its size, the rank, and the mesh. As numbers, so that a compiled version can be looked up by them; what they
// mean is known to those who set them.
#pragma once

#include <sinter/base/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN

enum class ContextKey : std::uint8_t { ranks, rank, mesh };

struct CallContext {
  std::array<std::uint64_t, 3> keys{};
  std::uint32_t used = 0;  // a bit for each key: the code depends on it

  void set(ContextKey key, std::uint64_t value) { keys[static_cast<std::size_t>(key)] = value; }
  /// What is traced now depends on it.
  void use(ContextKey key) { used |= std::uint32_t{1} << static_cast<unsigned>(key); }
  /// Does code that depends on `used` of this serve a call in that context?
  bool serves(const CallContext& now) const {
    for (std::size_t i = 0; i < keys.size(); ++i)
      if ((used >> i & 1) != 0 && keys[i] != now.keys[i]) return false;
    return true;
  }
};

/// That of this thread.
inline CallContext& call_context() noexcept {
  static thread_local constinit CallContext context;
  return context;
}

/// Notes what a trace depends on, apart from what goes on around it, which depends on that, too.
class [[nodiscard]] ContextUse {
 public:
  ContextUse() : before_(call_context().used) { call_context().used = 0; }
  ~ContextUse() { call_context().used |= before_; }
  ContextUse(const ContextUse&) = delete;
  ContextUse& operator=(const ContextUse&) = delete;

 private:
  std::uint32_t before_;
};

SINTER_NAMESPACE_END
