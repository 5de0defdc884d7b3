// What may alternate, and the registers that it takes.
#pragma once

#include <sinter/backend/x86/machine/interleave.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

using Part = std::span<const Instruction>;

/// Shorter chains are in sight whole.
inline constexpr std::size_t shortest_interleaved = 16;

/// No jumps, no addresses that are computed meanwhile.
inline bool is_of_vectors(const Instruction& i) {
  return i.count > 0 && std::all_of(i.operand.begin(), i.operand.begin() + i.count, [](const Operand& o) {
           return o.kind == Operand::Kind::vec || o.kind == Operand::Kind::mask || o.kind == Operand::Kind::mem ||
                  o.kind == Operand::Kind::imm;
         });
}

/// Calls `visit(register, is_written)`. A gather clears its mask, which stands after the result.
template <class Visit>
void for_each_register(const Instruction& i, Visit&& visit) {
  for (std::size_t k = 0; k < i.count; ++k) {
    const Operand& o = i.operand[k];
    const bool is_mask = o.kind == Operand::Kind::mask;
    if (is_mask || o.kind == Operand::Kind::vec) visit(o.id, k == 0 ? !i.only_reads : is_mask);
  }
  if (i.mask != no_vreg) visit(i.mask, false);
}

/// Who uses a register, and where last.
struct RegisterUse {
  bool in_first = false, in_second = false, written_in_first = false, written_in_second = false;
  std::uint32_t last = 0;  // in the first part
  bool is_written() const { return written_in_first || written_in_second; }
  bool joins() const { return (written_in_first && in_second) || (written_in_second && in_first); }
};

inline std::vector<RegisterUse> register_uses(const CodeStream& stream, Part first, Part second) {
  std::vector<RegisterUse> uses(stream.vregs().size());
  for (std::uint32_t at = 0; at < first.size(); ++at) {
    for_each_register(first[at], [&](VReg r, bool is_written) {
      uses[r].in_first = true;
      uses[r].written_in_first |= is_written;
      uses[r].last = at;
    });
    for_each_register(second[at], [&](VReg r, bool is_written) {
      uses[r].in_second = true;
      uses[r].written_in_second |= is_written;
    });
  }
  return uses;
}

/// Vector and mask registers that both parts take in turns: what both read, and twice what one holds at most.
inline std::array<int, 2> registers_needed(const CodeStream& stream, Part first, std::vector<RegisterUse> uses) {
  std::array<int, 2> shared{}, live{}, most{};
  for (std::size_t r = 0; r < uses.size(); ++r)
    shared[stream.vregs()[r].is_mask] += (uses[r].in_first || uses[r].in_second) && !uses[r].is_written();
  std::vector<char> is_live(uses.size());
  for (std::uint32_t at = 0; at < first.size(); ++at) {
    // What is read here for the last time leaves its register to the result.
    for_each_register(first[at], [&](VReg r, bool is_written) {
      if (is_live[r] == 0 || is_written || uses[r].last != at) return;
      is_live[r] = 0;
      --live[stream.vregs()[r].is_mask];
    });
    for_each_register(first[at], [&](VReg r, bool is_written) {
      if (!is_written || is_live[r] != 0) return;
      is_live[r] = 1;
      ++live[stream.vregs()[r].is_mask];
    });
    for (std::size_t kind = 0; kind < most.size(); ++kind) most[kind] = std::max(most[kind], live[kind]);
  }
  return {shared[0] + 2 * most[0], shared[1] + 2 * most[1]};
}

inline bool may_alternate(const CodeStream& stream, Part first, Part second) {
  if (first.size() != second.size() || first.size() < shortest_interleaved) return false;
  for (std::size_t k = 0; k < first.size(); ++k)
    if (first[k].op != second[k].op || !is_of_vectors(first[k]) || !is_of_vectors(second[k])) return false;
  const std::vector<RegisterUse> uses = register_uses(stream, first, second);
  if (std::any_of(uses.begin(), uses.end(), [](const RegisterUse& use) { return use.joins(); })) return false;
  const std::array<int, 2> needed = registers_needed(stream, first, uses);
  // A constant or two may be read from memory.
  const int vectors = stream.isa() == Isa::avx512 ? 32 : 16, masks = 5;
  return needed[0] <= vectors && needed[1] <= masks;
}

}  // namespace x86_detail

SINTER_DECL void interleave(CodeStream& stream, std::uint32_t first, std::uint32_t second) {
  const std::span<Instruction> both = stream.code_from(first);
  const std::size_t length = second - first;
  if (both.size() != 2 * length || !x86_detail::may_alternate(stream, both.first(length), both.last(length))) return;
  const std::vector<Instruction> before(both.begin(), both.end());
  for (std::size_t k = 0; k < length; ++k) {
    both[2 * k] = before[k];
    both[2 * k + 1] = before[length + k];
  }
}

}  // namespace x86
SINTER_NAMESPACE_END
