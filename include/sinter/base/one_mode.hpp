// Makes the linker refuse a program, or a shared library, of which some files define SINTER_SEPARATE_COMPILATION and
// some do not: they would hold two copies of Sinter that know nothing of each other. Names that files share differ
// already, by the inline namespace; this is for files that share none.
#pragma once

#include <sinter/base/config.hpp>

// One name, thread-local here and ordinary there, is what GNU ld and gold do not link (lld does). It is hidden, because
// shared libraries of one process may differ, and outside of all namespaces, so that both kinds of files mean the same.
#ifdef __ELF__
extern "C" {
#ifdef SINTER_SEPARATE_COMPILATION
__attribute__((weak, used, visibility("hidden"))) char sinter_files_with_and_without_SINTER_SEPARATE_COMPILATION = 0;
#else
__attribute__((weak, used,
               visibility("hidden"))) __thread char sinter_files_with_and_without_SINTER_SEPARATE_COMPILATION = 0;
#endif
}
#endif
