// Which vectors code of the host's own may use: those of the processor, lowered by SINTER_ISA as generated code is.
// Must not know what asks. A wrong SINTER_ISA is the x86 back end's to refuse.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdlib>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace base_detail {

/// AVX2 and FMA.
inline bool has_avx2() {
#ifndef SINTER_NO_X86
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}
/// AVX-512 (F, DQ, VL) as well; not with SINTER_ISA=avx2.
inline bool has_avx512() {
#ifndef SINTER_NO_X86
  static const bool is_lowered = [] {
    const char* text = std::getenv("SINTER_ISA");
    return text != nullptr && std::string_view(text) == "avx2";
  }();
  return !is_lowered && has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

}  // namespace base_detail
SINTER_NAMESPACE_END
