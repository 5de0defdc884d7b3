// Two vectors of a step in turns: when they alternate, and when they stay one after the other.
#include "../catch.hpp"

#ifndef SINTER_NO_X86
#include <sinter/backend/x86/machine/interleave.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace sinter;
using namespace sinter::x86;

namespace {

/// What differs from two independent chains of products.
struct Chains {
  Isa isa = Isa::avx512;
  int length = 20, second_length = 20;
  int temporaries = 1;            // of a chain, alive at once
  bool is_joined = false;         // the second adds to what the first has made
  bool has_jump = false;          // in both
  bool computes_address = false;  // in both
};

void add_chain(CodeStream& s, VReg factor, const Chains& c, int length, VReg start) {
  std::vector<VReg> held;
  for (int t = 0; t < c.temporaries; ++t) {
    held.push_back(s.new_vec(64));
    s.emit_vectors(Op::vmulps, 64, held.back(), {start, factor});
  }
  VReg x = held[0];
  const int label = s.new_label();
  if (c.has_jump) s.jump(Op::je, label);
  if (c.computes_address) s.binary_imm(Op::add, Gpr::r9, 8);
  for (int k = c.temporaries; k < length; ++k) {
    const VReg next = s.new_vec(64);
    s.emit_vectors(Op::vmulps, 64, next, {x, k == length - 1 ? held.back() : factor});
    x = next;
  }
  if (c.has_jump) s.bind(label);
}

/// The order in which the parts' instructions stand: 0 for the first one's, 1 for the second one's.
std::vector<int> order_after(const Chains& c) {
  CodeStream s(c.isa);
  const VReg factor = s.constant(0x40000000, 4, 64), x = s.new_vec(64), y = s.new_vec(64);
  s.emit_vectors(Op::vmulps, 64, x, {factor, factor});
  s.emit_vectors(Op::vmulps, 64, y, {factor, factor});
  const std::uint32_t first = s.position();
  add_chain(s, factor, c, c.length, x);
  const std::uint32_t second = s.position();
  const VReg last = s.last().operand[0].id;
  add_chain(s, factor, c, c.second_length, c.is_joined ? last : y);
  const std::vector<Instruction> before(s.code().begin() + first, s.code().end());
  interleave(s, first, second);
  std::vector<int> order;
  std::vector<char> is_found(before.size());
  for (const Instruction& i : s.code().subspan(first)) {
    std::size_t at = 0;  // results tell instructions apart, or else the order does
    while (is_found[at] != 0 || before[at].op != i.op || before[at].operand[0].id != i.operand[0].id) ++at;
    is_found[at] = 1;
    order.push_back(at >= second - first);
  }
  return order;
}

bool alternates(const Chains& c) {
  const std::vector<int> order = order_after(c);
  for (std::size_t i = 0; i < order.size(); ++i)
    if (order[i] != static_cast<int>(i % 2)) return false;
  return true;
}
bool is_as_before(const Chains& c) {
  const std::vector<int> order = order_after(c);
  return std::is_sorted(order.begin(), order.end());
}

}  // namespace

TEST_CASE("interleave: long independent chains alternate", "[x86]") {
  CHECK(alternates({}));
  CHECK(alternates({.isa = Isa::avx2}));
  CHECK(alternates({.length = 40, .second_length = 40}));
  CHECK(alternates({.temporaries = 10}));
}

TEST_CASE("interleave: what stays one after the other", "[x86]") {
  CHECK(is_as_before({.length = 8, .second_length = 8}));    // in sight whole
  CHECK(is_as_before({.length = 20, .second_length = 21}));  // the first makes something for both
  CHECK(is_as_before({.is_joined = true}));
  CHECK(is_as_before({.has_jump = true}));
  CHECK(is_as_before({.computes_address = true}));
  CHECK(is_as_before({.temporaries = 18}));  // 2 * 18 and those outside: more than 32
  CHECK(is_as_before({.isa = Isa::avx2, .temporaries = 10}));
}

TEST_CASE("interleave: whole steps have the bits of single vectors", "[x86]") {
  const auto chain = jit::compile([](Tensor x, Tensor y, Tensor z, Tensor w) {
    const auto u = x * y + z;
    return 0.5f * u * (1 + tanh(0.79788456f * (u + 0.044715f * u * u * u))) * w + x;
  });
  constexpr std::int64_t count = 1003, piece = 16;  // whole steps and a tail; a vector of AVX-512, two of AVX2
  const Tensor x = randn({count}) * 3, y = randn({count}), z = randn({count}), w = randn({count});
  const std::vector<float> whole = to_vector<float>(chain(x, y, z, w));
  for (std::int64_t at = 0; at + piece <= count; at += piece) {
    const auto part = [&](const Tensor& t) { return Tensor(t(slice(at, at + piece))); };
    const std::vector<float> few = to_vector<float>(chain(part(x), part(y), part(z), part(w)));
    REQUIRE(std::equal(few.begin(), few.end(), whole.begin() + at));
  }
}

#endif
