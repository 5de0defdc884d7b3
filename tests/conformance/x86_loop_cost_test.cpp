// What a loop is expected to take, which decides whether a second thread is called: no less than its memory.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include "x86_loop_cases.hpp"

#include <sinter/base/threads.hpp>

#include <cstdint>

using namespace sinter_test;

namespace {
double nanoseconds_of(const Maker& m) {
  return x86::make_loop_executable(m.kernel, {}, isas().back())->bind(m.geometry)->work().nanoseconds;
}
/// A copy of a matrix, as heads are brought together around attention.
double copy_of(std::int64_t rows, std::int64_t columns) {
  Maker m(KernelKind::pointwise, {{parallel, rows}, {parallel, columns}});
  const auto in = m.operand(DType::f32, 3), out = m.operand(DType::f32, 3, true);
  m.store(out, m.load(in));
  m.finish();
  return nanoseconds_of(m);
}
/// Each row less its mean, and the same squared.
double centred_rows(std::int64_t rows, std::int64_t columns) {
  Maker m(KernelKind::row, {{parallel, rows}, {reduced, columns}});
  const auto in = m.operand(DType::f32, 3), out = m.operand(DType::f32, 3, true),
             squares = m.operand(DType::f32, 3, true);
  const ScalarValue x = m.load(in), centred = m.s.sub(x, m.s.reduce(Prim::reduce_add, x));
  m.store(out, centred);
  m.store(squares, m.s.mul(centred, centred));
  m.finish();
  return nanoseconds_of(m);
}
}  // namespace

TEST_CASE("x86 loops: what comes from memory and goes there is worth a second thread by its bytes", "[x86]") {
  if (isas().empty()) SINTER_SKIP("AVX2 is missing");
  CHECK(copy_of(128, 384) > serial_nanoseconds / 2);  // two of them, in one launch
  CHECK(copy_of(256, 384) > serial_nanoseconds);
  CHECK(centred_rows(128, 384) > serial_nanoseconds);
  CHECK(copy_of(64, 384) < serial_nanoseconds / 2);
  CHECK(centred_rows(32, 384) < serial_nanoseconds);
}

#endif
