// Guarded loads: elements are read where a condition holds, and nothing is touched where it does not. A vector of which
// no lane holds is not read at all, so that a guard that fails for a whole row costs a test. Most steps of a loop see
// every condition come out as it usually does (the inside of an image, as against its border): one test tells, and they
// run without conditions and masks.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/machine/interleave.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Jumps if the condition holds for no element. Clobbers rax.
SINTER_DECL void LoopBody::jump_if_false(VReg holds, int to) {
  if (!b_.is_avx512()) return b_.jump_if_none(holds, to);
  s_.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(holds)});  // what lies above the lanes may be anything
  s_.emit(Op::and_, {reg(Gpr::rax, 4), immediate()}, (1 << b_.lanes()) - 1);
  s_.jump(Op::je, to);
}

/// Strided elements, and those of one or two bytes on AVX2: one by one, in the frame. Clobbers rax, rdx, r9.
SINTER_DECL VReg LoopBody::guarded_by_element(std::uint16_t access, const Lane0& lane, VReg holds, VReg fill) {
  const DType dtype = dtype_of_access(access);
  const int size = static_cast<int>(size_of(dtype)), copy = s_.frame(64, 64), wanted = s_.frame(16, 16),
            again = s_.new_label(), next = s_.new_label();
  const Mem target = CodeStream::at(Gpr::rsp, Gpr::r9, std::countr_zero(static_cast<unsigned>(size)), copy);
  const Lane lane_type = lane_of(dtype);
  const bool converts = sinter::is_narrow(dtype);  // the fill may be no number of the dtype, and is chosen behind
  if (!converts) b_.store(dtype, CodeStream::slot(copy), fill, Tail{});
  b_.mask_to_bytes(CodeStream::slot(wanted), holds, Tail{});
  element_pointer(access, lane, -1);
  s_.mov_imm(Gpr::r9, 0);
  s_.bind(again);
  s_.emit(Op::movzx, {reg(Gpr::rax, 4), mem(1)}, CodeStream::at(Gpr::rsp, Gpr::r9, 0, wanted));
  s_.emit(Op::test, {reg(Gpr::rax, 4), reg(Gpr::rax, 4)}).only_reads = true;
  s_.jump(Op::je, next);
  x86_detail::move_element(s_, size, target, CodeStream::at(Gpr::rdx));
  s_.bind(next);
  if (nest_.is_chosen(access)) s_.binary_imm(Op::add, Gpr::rdx, size);
  else
    s_.binary(Op::add, Gpr::rdx,
              CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride))));
  s_.binary_imm(Op::add, Gpr::r9, 1);
  s_.binary_imm(Op::cmp, Gpr::r9, b_.lanes());
  s_.jump(Op::jl, again);
  const VReg there = b_.load(dtype, CodeStream::slot(copy), Tail{});
  return converts ? b_.select(lane_type, b_.as_element(holds, size_of(lane_type)), there, fill) : there;
}

SINTER_DECL VReg LoopBody::emit_guarded_load(InstId i, const Lane0& lane) {
  const Inst& inst = kernel().body[i];
  VReg holds = value(inst.args[0], lane.copy);
  const VReg fill = value(inst.args[1], lane.copy);
  if (nest_.place(i).is_vector && lane.tail.active()) holds = b_.mask_and(holds, lane.tail.mask);
  const StrideClass stride = stride_class(inst.access, nest_.nest.vector_axis);
  const DType in_memory = dtype_of_access(inst.access);
  const bool is_bool = inst.dtype == DType::bool_, is_broadcast = stride == StrideClass::zero,
             converts = sinter::is_narrow(in_memory);
  if (stride >= StrideClass::any || ((is_bool || converts) && !is_broadcast && !b_.is_avx512()))
    return guarded_by_element(inst.access, lane, holds, fill);
  const Lane type = lane_of(inst.dtype);
  if (b_.is_avx512() && !is_bool && !is_broadcast && !converts && meets_both && is_hinted(inst) &&
      nest_.place(inst.args[0]).is_vector)
    return load_where(inst, lane, holds, fill);
  const VReg result = is_bool ? b_.mask_or(fill, fill) : b_.copy(type, fill);
  const int done = s_.new_label();
  jump_if_false(holds, done);
  const Mem m = address(inst.access, nest_.place(i).level, lane, -1);
  Tail where{.mask = holds};
  if (is_bool) {
    if (b_.is_avx512() && b_.lanes() < 16) {  // bytes beyond the vector's would be read
      const VReg lanes = s_.new_mask();
      s_.mov_imm(Gpr::rax, (1 << b_.lanes()) - 1);
      s_.emit(Op::kmovw, {kreg(lanes), reg(Gpr::rax, 4)});
      holds = b_.mask_and(holds, lanes);
      where.mask = holds;
    }
    const VReg there = is_broadcast ? b_.load_broadcast(in_memory, m) : b_.load(in_memory, m, where);
    const VReg chosen = b_.mask_or(b_.mask_and(there, holds), b_.mask_and_not(holds, fill));
    if (b_.is_avx512()) s_.emit(Op::korw, {kreg(result), kreg(chosen), kreg(chosen)});
    else b_.assign(b_.mask_element() == 4 ? Lane::f32 : Lane::f64, result, chosen);
  } else if (is_broadcast || converts || !b_.is_avx512()) {
    const VReg there = is_broadcast ? b_.load_broadcast(in_memory, m) : b_.load(in_memory, m, where);
    b_.assign_where(type, result, there, where);
  } else {  // lanes that are not read keep the fill
    const int width = b_.bytes(type);
    Instruction& move = s_.emit(size_of(type) == 4 ? Op::vmovups : Op::vmovupd, {vec(result, width), mem(width)}, m);
    move.mask = holds;
    move.reads_first = true;
  }
  s_.bind(done);
  return result;
}

/// Without a jump, on AVX-512: where a part begins or ends, some lanes are mostly read.
SINTER_DECL VReg LoopBody::load_where(const Inst& inst, const Lane0& lane, VReg holds, VReg fill) {
  const Lane type = lane_of(inst.dtype);
  const Inst& otherwise = kernel().body[inst.args[1]];
  const bool is_zero = otherwise.prim == Prim::immediate && otherwise.bits == 0;
  const VReg result = is_zero ? s_.new_vec(b_.bytes(type)) : b_.copy(type, fill);
  const Mem m = address(inst.access, NestLevel::column, lane, -1);
  Instruction& move =
      s_.emit(size_of(type) == 4 ? Op::vmovups : Op::vmovupd, {vec(result, b_.bytes(type)), mem(b_.bytes(type))}, m);
  move.mask = holds;
  move.zeroing = is_zero;
  move.reads_first = !is_zero;
  return result;
}

SINTER_DECL VReg LoopBody::emit_usual(InstId i, const Lane0& lane) {
  const Inst& inst = kernel().body[i];
  const bool holds = inst.usually() == Usually::holds;
  if (inst.prim == Prim::select) return value(inst.args[holds ? 1 : 2], lane.copy);
  return holds ? emit_load(i, lane) : value(inst.args[1], lane.copy);
}

// Steps on which all conditions come out as usual --------------------------------------------------------------------

namespace x86_detail {
/// Adds what is wanted of the comparisons that a condition is made of. False: they contradict each other.
inline bool want(const std::vector<Inst>& body, InstId id, bool holds, std::vector<std::pair<InstId, bool>>& wanted) {
  const Inst& inst = body[id];
  if (inst.prim == Prim::not_) return want(body, inst.args[0], !holds, wanted);
  if (inst.prim == (holds ? Prim::and_ : Prim::or_))
    return want(body, inst.args[0], holds, wanted) && want(body, inst.args[1], holds, wanted);
  if (inst.prim == Prim::immediate) return (inst.bits != 0) == holds;
  for (const auto& [known, value] : wanted)
    if (known == id) return value == holds;
  wanted.emplace_back(id, holds);
  return true;
}
/// What a condition comes to by those that are wanted, other than itself.
inline std::optional<bool> implied(const std::vector<Inst>& body, InstId id,
                                   const std::vector<std::pair<InstId, bool>>& wanted, bool is_itself) {
  for (const auto& [known, value] : wanted)
    if (known == id && !is_itself) return value;
  const Inst& inst = body[id];
  if (inst.prim == Prim::immediate) return inst.bits != 0;
  if (inst.prim != Prim::not_ && inst.prim != Prim::and_ && inst.prim != Prim::or_) return std::nullopt;
  const std::optional<bool> a = implied(body, inst.args[0], wanted, false);
  if (inst.prim == Prim::not_) return a ? std::optional(!*a) : a;
  const bool settles = inst.prim == Prim::or_;  // one operand of this value is enough
  const std::optional<bool> b = implied(body, inst.args[1], wanted, false);
  if ((a && *a == settles) || (b && *b == settles)) return settles;
  return a && b ? std::optional(!settles) : std::nullopt;
}
}  // namespace x86_detail

/// Leaves out conditions that follow from others. False: they contradict each other.
SINTER_DECL bool LoopGenerator::drop_implied() {
  std::vector<std::pair<InstId, bool>>& all = usual_.conditions;
  for (std::size_t i = all.size(); i-- > 0;) {
    const std::optional<bool> follows = x86_detail::implied(kernel_.body, all[i].first, all, true);
    if (follows && *follows != all[i].second) return false;
    if (follows) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

/// Fills usual_. False: the loop does other things than compute and store, or has no guarded load that would gain.
SINTER_DECL bool LoopGenerator::find_usual(std::size_t loop) {
  const std::vector<Inst>& body = kernel_.body;
  usual_ = {};
  usual_.needed.assign(body.size(), false);
  bool fits = true;
  nest_.for_each_child(loop, [&](std::size_t child) {
    const NestNode& n = node(child);
    fits = fits && (n.kind == NestNodeKind::compute || n.kind == NestNodeKind::store);
    if (n.kind == NestNodeKind::store) usual_.needed[kernel_.stores[n.first].value] = true;
    if (n.kind != NestNodeKind::compute) return;
    for (const InstId id : nest_.ids_of(n))
      if (is_hinted(body[id]))
        fits =
            fits && x86_detail::want(body, body[id].args[0], body[id].usually() == Usually::holds, usual_.conditions);
  });
  if (!fits || !drop_implied() || usual_.conditions.empty() || usual_.conditions.size() > 12) return false;
  usual_.tested.assign(body.size(), false);
  for (const auto& [id, holds] : usual_.conditions) {
    const std::vector<bool> under = instructions_under(body, id);
    for (std::size_t i = 0; i < under.size(); ++i) usual_.tested[i] = usual_.tested[i] || under[i];
  }
  for (std::size_t i = body.size(); i-- > 0;) {
    if (!usual_.needed[i]) continue;
    const Inst& inst = body[i];
    const bool is_known = is_hinted(inst), holds = inst.usually() == Usually::holds,
               is_select = inst.prim == Prim::select;
    for (int k = 0; k < arity(inst.prim); ++k)
      if (!is_known || (is_select ? k == (holds ? 1 : 2) : !holds && k == 1))
        usual_.needed[inst.args[as_index(k)]] = true;
  }
  return true;
}

/// Jumps where a condition of some lane does not come out as usual. Clobbers rax.
SINTER_DECL void LoopGenerator::emit_usual_test(std::size_t loop, int copies, int otherwise) {
  for (int u = 0; u < copies; ++u)
    nest_.for_each_child(loop, [&](std::size_t child) {
      if (node(child).kind != NestNodeKind::compute) return;
      for (const InstId id : nest_.ids_of(node(child)))
        if (usual_.tested[id]) body_.emit(id, {.copy = u, .column_offset = u * nest_.lanes, .tail = {}});
    });
  VReg all = no_vreg;
  for (const auto& [id, holds] : usual_.conditions) {
    const int last = nest_.places[id].is_vector ? copies : 1;
    for (int u = 0; u < last; ++u) {
      const VReg one = body_.value(id, u);
      all = all == no_vreg ? (holds ? one : b_.mask_not(one))
            : holds        ? b_.mask_and(all, one)
                           : b_.mask_and_not(one, all);
    }
  }
  const int every = b_.is_avx512() ? (1 << nest_.lanes) - 1 : 0xFF;
  if (b_.is_avx512()) s_.emit(Op::kmovw, {reg(Gpr::rax, 4), kreg(all)});
  else s_.emit(Op::vmovmskps, {reg(Gpr::rax, 4), vec(all, s_.vregs()[all].bytes)});
  s_.emit(Op::and_, {reg(Gpr::rax, 4), immediate()}, every);
  s_.binary_imm(Op::cmp, Gpr::rax, every);
  s_.jump(Op::jne, otherwise);
}

/// All vectors of one step, without a tail; two of them in turns.
SINTER_DECL void LoopGenerator::whole_step(std::size_t loop, int copies) {
  const auto emit_all = [&] {
    std::uint32_t before = 0;
    for (int u = 0; u < copies; ++u) {
      const std::uint32_t start = s_.position();
      step_of_rows(loop, {.copy = u, .column_offset = u * nest_.lanes, .tail = {}});
      if (u % 2 == 1) interleave(s_, before, start);
      before = start;
    }
  };
  const bool has_guard = std::any_of(kernel_.body.begin(), kernel_.body.end(),
                                     [](const Inst& inst) { return inst.prim == Prim::guarded_load; });
  if (!has_guard || !find_usual(loop)) return emit_all();
  const int otherwise = s_.new_label(), done = s_.new_label();
  emit_usual_test(loop, copies, otherwise);
  body_.assumes_usual = true;
  only_ = &usual_.needed;
  emit_all();
  body_.assumes_usual = false;
  only_ = nullptr;
  s_.jump(Op::jmp, done);
  s_.bind(otherwise);
  emit_all();
  s_.bind(done);
}

}  // namespace x86
SINTER_NAMESPACE_END
