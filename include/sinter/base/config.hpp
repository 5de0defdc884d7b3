// Build configuration: version, the ABI namespace and the linkage marker of non-template definitions.
// The only header that defines macros; it must not include anything of Sinter.
#pragma once

#define SINTER_VERSION_MAJOR 0
#define SINTER_VERSION_MINOR 1
#define SINTER_VERSION_PATCH 0
#define SINTER_VERSION_STRING "0.1.0"

// Only a missing file ends a compilation, so that no other errors bury these.
#if __cplusplus < 202002L
#error "Sinter needs C++20: compile with -std=c++20 (CMake targets that link to sinter:: do)"
#include <Sinter_needs_Cpp20>
#endif

#ifndef __cpp_exceptions
#error "Sinter reports errors by exceptions: compile without -fno-exceptions"
#include <Sinter_needs_exceptions>
#endif

// Definitions in .ipp files: inline in every file, or, with SINTER_SEPARATE_COMPILATION in all files, ordinary ones
// that the files with SINTER_IMPLEMENTATION hold: one file, or one for each part (SINTER_IMPLEMENTATION_CORE and so
// on).
#ifdef SINTER_SEPARATE_COMPILATION
#define SINTER_DECL
#define SINTER_ABI_MODE _sep
#else
#define SINTER_DECL inline
#define SINTER_ABI_MODE _inl
#if defined(SINTER_IMPLEMENTATION) || defined(SINTER_IMPLEMENTATION_CORE) || defined(SINTER_IMPLEMENTATION_KERNEL) || \
    defined(SINTER_IMPLEMENTATION_BACKENDS) || defined(SINTER_IMPLEMENTATION_JIT)
#error "SINTER_IMPLEMENTATION needs SINTER_SEPARATE_COMPILATION, defined for all files that include Sinter"
#endif
#endif
#if !defined(SINTER_SEPARATE_COMPILATION) || defined(SINTER_IMPLEMENTATION)  // all parts
#undef SINTER_IMPLEMENTATION_CORE
#undef SINTER_IMPLEMENTATION_KERNEL
#undef SINTER_IMPLEMENTATION_BACKENDS
#undef SINTER_IMPLEMENTATION_JIT
#define SINTER_IMPLEMENTATION_CORE
#define SINTER_IMPLEMENTATION_KERNEL
#define SINTER_IMPLEMENTATION_BACKENDS
#define SINTER_IMPLEMENTATION_JIT
#endif

#if !defined(__x86_64__) && !defined(SINTER_NO_X86)
#define SINTER_NO_X86
#endif

// Everything that changes layout or generated code is part of the inline namespace's name, so that two differently
// configured translation units fail to link instead of mixing.
#ifdef SINTER_NO_X86
#define SINTER_ABI_BACKENDS _ref
#else
#define SINTER_ABI_BACKENDS _x86
#endif
// built with the CUDA back end: the toolkit's headers are there; its libraries are looked for at run time
#ifdef SINTER_CUDA
#define SINTER_ABI_CUDA _cuda
#else
#define SINTER_ABI_CUDA
#endif
// nothing asks whether a timeline is recorded
#ifdef SINTER_NO_TIMELINE
#define SINTER_ABI_TIMELINE _untimed
#else
#define SINTER_ABI_TIMELINE
#endif
#define SINTER_ABI_JOIN_(major, minor, b, c, d, e) v##major##_##minor##b##c##d##e
#define SINTER_ABI_JOIN(major, minor, b, c, d, e) SINTER_ABI_JOIN_(major, minor, b, c, d, e)
#define SINTER_ABI                                                                                                   \
  SINTER_ABI_JOIN(SINTER_VERSION_MAJOR, SINTER_VERSION_MINOR, SINTER_ABI_BACKENDS, SINTER_ABI_CUDA, SINTER_ABI_MODE, \
                  SINTER_ABI_TIMELINE)

// With -ffast-math, or what it is made of, a compiler takes for granted that there is no NaN and no infinity, and may
// add numbers up in any order. Files may be compiled so; what is between these two is not. Clang does not say which
// parts of it are on; its `precise` would allow fma where a user has -ffp-contract=off.
#ifdef __clang__
#define SINTER_EXACT_BEGIN _Pragma("float_control(precise, on, push)") _Pragma("clang fp contract(off)")
#define SINTER_EXACT_END _Pragma("float_control(pop)")
#elif defined(__FAST_MATH__) || __FINITE_MATH_ONLY__ || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#define SINTER_EXACT_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"no-fast-math\")")
#define SINTER_EXACT_END _Pragma("GCC pop_options")
#else
#define SINTER_EXACT_BEGIN
#define SINTER_EXACT_END
#endif

#define SINTER_NAMESPACE_BEGIN \
  SINTER_EXACT_BEGIN           \
  namespace sinter {           \
  inline namespace SINTER_ABI {
#define SINTER_NAMESPACE_END \
  }                          \
  }                          \
  SINTER_EXACT_END

#define SINTER_LIKELY(x) __builtin_expect(static_cast<bool>(x), 1)
#define SINTER_UNLIKELY(x) __builtin_expect(static_cast<bool>(x), 0)
#define SINTER_NOINLINE __attribute__((noinline))
// Runs once for many calls, as tracing does: made small instead of fast, which also takes the compiler much less time.
#define SINTER_COLD __attribute__((cold))
#define SINTER_ALWAYS_INLINE inline __attribute__((always_inline))
// May be compiled for AVX2, whatever the file is: called where the processor has it.
#ifndef SINTER_NO_X86
#define SINTER_AVX2 __attribute__((target("avx2")))
#endif
