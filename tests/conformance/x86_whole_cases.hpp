// What the tests of operations that the x86 back end computes whole share: which instruction sets they run on, and that
// threads change no bit.
#pragma once

#include "../catch.hpp"
#include "../plan_harness.hpp"

#include <sinter/base/threads.hpp>

#include <sinter/sinter.hpp>

#ifndef SINTER_NO_X86
#include <optional>
#include <vector>

namespace sinter_test {

/// Those up to the one that programs would get here (SINTER_ISA).
inline std::vector<sinter::x86::Isa> isas_in_use() {
  using sinter::x86::Isa;
  const std::optional<Isa> best = sinter::x86::detect_isa();
  if (!best) return {};
  return *best == Isa::avx512 ? std::vector{Isa::avx2, Isa::avx512} : std::vector{Isa::avx2};
}

/// The graph's first result on one thread and on three.
inline void check_bits_of_threads(const sinter::Graph& graph) {
  const int before = sinter::thread_count();
  const auto inputs = random_inputs(graph);
  std::vector<oracle::Array> wanted;
  for (const int threads : {1, 3}) {
    sinter::set_thread_count(threads);
    sinter::x86::X86Backend backend(isas_in_use().front());
    const auto found = run(*build_plan(graph, fused({&backend, reference()})), inputs);
    if (threads == 1) wanted = found;
    else CHECK(found[0].data == wanted[0].data);
  }
  sinter::set_thread_count(before);
}

}  // namespace sinter_test
#endif
