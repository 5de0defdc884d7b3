// Addresses of LoopBody: which accesses and tiles are walked by pointers, where these lie, and how they move.
#pragma once

#include <sinter/backend/x86/nest/body.hpp>

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>

SINTER_NAMESPACE_BEGIN
namespace x86 {

SINTER_DECL void LoopBody::use_pointer(std::size_t access) {
  constexpr Gpr registers[] = {Gpr::r10, Gpr::r11, Gpr::rbx, Gpr::r12, Gpr::r13, Gpr::r14, Gpr::r15};
  if (nest_.interleaved.has(access)) access = nest_.interleaved.group_of(access).lowest;
  if (pointer(access, 0).kind != Pointer::Kind::none) return;
  for (int row = 0; row < row_count_; ++row) {
    Pointer& p = pointer(access, row);
    if (row > 0 && is_shared(access)) {
      p = pointer(access, 0);
    } else if (taken_registers_ < std::size(registers)) {
      p = {Pointer::Kind::reg, registers[taken_registers_++], 0};
    } else {
      p = {Pointer::Kind::slot, Gpr::none, s_.frame(8)};
    }
  }
}

/// Does every row read the same?
SINTER_DECL bool LoopBody::is_shared(std::size_t access) const {
  if (access >= kernel().accesses.size()) return false;
  for (int axis = 0; axis < kernel().rank(); ++axis)
    if (axis != nest_.nest.vector_axis && stride_class(access, axis) != StrideClass::zero) return false;
  return true;
}

/// What is seldom read comes last: it is where the inside of a row is not.
SINTER_DECL void LoopBody::use_loads(std::size_t place, NestLevel lowest, NestLevel highest) {
  for (const bool is_seldom : {false, true})
    for (std::size_t n = place; n < nest_.nest.nodes[place].end; ++n) {
      if (nest_.nest.nodes[n].kind != NestNodeKind::compute) continue;
      for (const InstId id : nest_.nest.ids_of(nest_.nest.nodes[n])) {
        const Inst& inst = kernel().body[id];
        const NestLevel level = nest_.place(id).level;
        const bool is_rare = inst.prim == Prim::guarded_load && inst.usually() == Usually::fails;
        if (reads_memory(inst.prim) && lowest <= level && level <= highest && is_rare == is_seldom)
          use_pointer(inst.access);
      }
    }
}

/// Stores inside or outside the loops below the task's.
SINTER_DECL void LoopBody::use_stores(std::size_t place, bool inner) {
  std::size_t inner_end = 0;
  for (std::size_t n = place; n < nest_.nest.nodes[place].end; ++n) {
    const NestNode& node = nest_.nest.nodes[n];
    const bool is_loop = node.kind == NestNodeKind::loop && nest_.nest.loop_of(node).mode != LoopMode::task;
    const bool holds_passes = nest_.is_column() && is_loop && nest_.nest.loop_of(node).mode == LoopMode::vector;
    if (is_loop && !holds_passes) inner_end = std::max<std::size_t>(inner_end, node.end);
    if (node.kind == NestNodeKind::store && (n < inner_end) == inner) use_pointer(kernel().stores[node.first].access);
  }
}

/// The innermost loops come first, while there are registers. Rows side by side keep nothing in memory, and what a row
/// has once is walked too.
SINTER_DECL void LoopBody::assign_pointers(std::size_t place) {
  const bool has_rows = rows_ > 0;
  use_loads(place, nest_.is_column() ? NestLevel::far : NestLevel::column, NestLevel::near);
  if (nest_.is_column()) use_loads(place, NestLevel::column, NestLevel::column);
  use_stores(place, true);
  if (has_rows) use_loads(place, NestLevel::outer, NestLevel::outer);
  if (nest_.is_column() || has_rows) use_stores(place, false);
  if (has_rows) return;
  place_tile_in_result(place);
  for (int tile = 0; tile < nest_.tiles; ++tile) use_pointer(pointer_of_tile(as_index(tile)));
}

/// Where is the tile kept, and is the result stored element by element after that, when the tile is read for the last
/// time? Nothing else may be read in between: it may be the result's own memory.
inline bool fits_result(const LoopNest& nest, std::size_t stage, std::size_t tile) {
  std::size_t kept = 0, pass_end = 0, fetched = 0, stored = 0, read = 0;
  for (std::size_t n = stage; n < nest.nodes[stage].end; ++n) {
    const NestNode& node = nest.nodes[n];
    if (node.kind == NestNodeKind::keep && node.first == tile) {
      if (kept != 0) return false;
      kept = n;
    }
    if (node.kind == NestNodeKind::fetch && node.first == tile) fetched = n;
    if (node.kind == NestNodeKind::store) stored = n;
    if (node.kind != NestNodeKind::compute) continue;
    for (const InstId id : nest.ids_of(node))
      if (reads_memory(nest.kernel->body[id].prim)) read = n;
  }
  for (std::size_t n = stage; n < kept; ++n) {
    const NestNode& node = nest.nodes[n];
    const bool is_pass = node.kind == NestNodeKind::fold ||
                         (node.kind == NestNodeKind::loop && nest.loop_of(node).mode != LoopMode::task);
    if (is_pass && node.end > kept) pass_end = std::max<std::size_t>(pass_end, node.end);
  }
  return kept != 0 && read < kept && pass_end != 0 && pass_end <= fetched && fetched < stored;
}

/// A tile of the result's type lies where the result goes: its lines come from the second cache while the row is
/// computed, and not all at once when the results are stored. What passes the caches has a tile of its own.
SINTER_DECL void LoopBody::place_tile_in_result(std::size_t stage) {
  if (streams != 0 || !nest_.is_row() || nest_.nest.near_axis >= 0 || kernel().stores.size() != 1) return;
  const Store& store = kernel().stores[0];
  const DType dtype = dtype_of_access(store.access);
  if ((dtype != DType::f32 && dtype != DType::f64) || pointer(store.access, 0).kind == Pointer::Kind::none) return;
  const bool is_plain = std::all_of(kernel().accesses.begin(), kernel().accesses.end(), [&](const Access& access) {
    const StrideClass stride = access.stride[as_index(nest_.nest.vector_axis)];
    return stride == StrideClass::unit || (stride == StrideClass::zero && &access != &kernel().accesses[store.access]);
  });
  const bool reads_plainly = std::none_of(kernel().body.begin(), kernel().body.end(), [](const Inst& inst) {
    return reads_memory(inst.prim) && inst.prim != Prim::load;
  });
  if (!is_plain || !reads_plainly) return;
  for (int tile = 0; tile < nest_.tiles && tile_in_result_ < 0; ++tile) {
    const bool has_its_type = kernel().body[nest_.nest.buffers[as_index(tile)].value].dtype == dtype;
    if (has_its_type && fits_result(nest_.nest, stage, as_index(tile))) tile_in_result_ = tile;
  }
}

SINTER_DECL std::size_t LoopBody::pointer_of_tile(std::size_t tile) const {
  const bool is_in_result = tile_in_result_ >= 0 && tile == as_index(tile_in_result_);
  return is_in_result ? kernel().stores[0].access : kernel().accesses.size() + tile;
}

SINTER_DECL void LoopBody::reset_pointers() {
  loaded_.clear();
  for (int row = 0; row < row_count_; ++row)
    for (std::size_t a = 0; a < pointer_count(); ++a)
      if (pointer(a, row).kind != Pointer::Kind::none && (row == 0 || !is_shared(a))) set_pointer(a, row);
}

SINTER_DECL Mem LoopBody::base_of(std::size_t access) const {
  if (nest_.is_chosen(access)) return CodeStream::slot(chosen_[access - nest_.pieces->first_chosen].base);
  return CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, base)));
}
SINTER_DECL Mem LoopBody::outer_stride_of(std::size_t access) const {
  if (nest_.is_chosen(access)) return CodeStream::slot(chosen_[access - nest_.pieces->first_chosen].outer_stride);
  return CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, outer_stride)));
}
/// What is chosen has neighbours along the row, or one element for all of it, which is not stepped through.
SINTER_DECL void LoopBody::times_column_stride(Gpr r, std::size_t access) {
  if (nest_.is_chosen(access)) s_.emit(Op::imul, {reg(r), reg(r), immediate()}, size_of(dtype_of_access(access)));
  else
    s_.binary(Op::imul, r, CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, column_stride))));
}

SINTER_DECL void LoopBody::set_pointer(std::size_t access, int row) {
  const Pointer& p = pointer(access, row);
  const Gpr r = p.kind == Pointer::Kind::reg ? p.reg : Gpr::rax;
  if (access >= kernel().accesses.size()) {
    const auto place = static_cast<std::int32_t>(access - kernel().accesses.size()) + row * nest_.tiles;
    s_.emit(Op::imul, {reg(r), mem(8), immediate()}, CodeStream::at(loop_reg::args, offsetof(LoopArgs, scratch_stride)),
            place);
    s_.binary(Op::add, r, CodeStream::at(loop_reg::args, offsetof(LoopArgs, scratch)));
  } else {
    const Mem stride = outer_stride_of(access);
    s_.mov(r, stride);
    s_.binary(Op::imul, r, loop_reg::outer);
    s_.binary(Op::add, r, base_of(access));
    for (int i = 0; i < row; ++i) s_.binary(Op::add, r, stride);
  }
  if (p.kind == Pointer::Kind::slot) s_.mov(CodeStream::slot(p.slot), r);
}

SINTER_DECL void LoopBody::advance_pointers(bool far) {
  loaded_.clear();
  const int axis = far ? nest_.nest.far_axis : nest_.nest.near_axis;
  const std::size_t which = far ? offsetof(LoopArgs::Pointer, far_stride) : offsetof(LoopArgs::Pointer, reduced_stride);
  for (std::size_t a = 0; a < kernel().accesses.size(); ++a) {
    const Pointer& p = pointer(a);
    if (p.kind == Pointer::Kind::none || stride_class(a, axis) == StrideClass::zero) continue;
    const Mem stride = CodeStream::at(loop_reg::args, field(a, which));
    if (p.kind == Pointer::Kind::reg) {
      s_.binary(Op::add, p.reg, stride);
    } else {
      s_.mov(Gpr::rax, stride);
      s_.binary(Op::add, CodeStream::slot(p.slot), Gpr::rax);
    }
  }
}

SINTER_DECL void LoopBody::rewind_near() {
  loaded_.clear();
  for (std::size_t a = 0; a < kernel().accesses.size(); ++a) {
    const Pointer& p = pointer(a);
    if (p.kind == Pointer::Kind::none || stride_class(a, nest_.nest.near_axis) == StrideClass::zero) continue;
    s_.mov(Gpr::rax, CodeStream::at(loop_reg::args, field(a, offsetof(LoopArgs::Pointer, reduced_stride))));
    s_.binary(Op::imul, Gpr::rax, CodeStream::at(loop_reg::args, offsetof(LoopArgs, reduced)));
    if (p.kind == Pointer::Kind::reg) s_.binary(Op::sub, p.reg, Gpr::rax);
    else s_.binary(Op::sub, CodeStream::slot(p.slot), Gpr::rax);
  }
}

SINTER_DECL Gpr LoopBody::pointer_in_register(std::size_t access, Gpr temporary, int row) {
  const Pointer& p = pointer(access);
  if (row > 0) {
    const Mem stride = CodeStream::at(loop_reg::args, field(access, offsetof(LoopArgs::Pointer, outer_stride)));
    s_.emit(Op::imul, {reg(temporary), mem(8), immediate()}, stride, row);
    if (p.kind == Pointer::Kind::reg) s_.binary(Op::add, temporary, p.reg);
    else s_.binary(Op::add, temporary, CodeStream::slot(p.slot));
    return temporary;
  }
  if (p.kind == Pointer::Kind::reg) return p.reg;
  s_.mov(temporary, CodeStream::slot(p.slot));
  return temporary;
}

/// base + outer * outer_stride in r9, for the levels above the loops.
SINTER_DECL Gpr LoopBody::row_address(std::size_t access, bool with_outer) {
  const Mem base = base_of(access);
  if (!with_outer) {
    s_.mov(Gpr::r9, base);
    return Gpr::r9;
  }
  const Mem stride = outer_stride_of(access);
  s_.mov(Gpr::r9, stride);
  s_.binary(Op::imul, Gpr::r9, loop_reg::outer);
  s_.binary(Op::add, Gpr::r9, base);
  for (int i = 0; i < row_; ++i) s_.binary(Op::add, Gpr::r9, stride);
  return Gpr::r9;
}

/// The address of the access's element (of its first column, for vectors). Clobbers r9.
SINTER_DECL Mem LoopBody::address(std::size_t access, NestLevel level, const Lane0& lane, int displacement) {
  const bool outside = level == NestLevel::kernel || (level == NestLevel::outer && rows_ == 0);
  Gpr base = outside ? row_address(access, level == NestLevel::outer)
                     : pointer_in_register(access, Gpr::r9, rows_ > 0 ? lane.copy : 0);
  if (displacement >= 0) {
    if (base != Gpr::r9) s_.mov(Gpr::r9, base);
    s_.binary(Op::add, Gpr::r9, CodeStream::slot(displacement));
    base = Gpr::r9;
  }
  if (stride_class(access, nest_.nest.vector_axis) == StrideClass::zero || rows_ > 0) return CodeStream::at(base);
  const auto size = static_cast<unsigned>(size_of(dtype_of_access(access)));
  return CodeStream::at(base, loop_reg::column, std::countr_zero(size),
                        lane.column_offset * static_cast<std::int32_t>(size));
}

SINTER_DECL Mem LoopBody::tile_address(std::size_t tile, DType dtype, const Lane0& lane) {
  const Gpr base = pointer_in_register(pointer_of_tile(tile), Gpr::r9);
  const auto size = static_cast<unsigned>(size_of(dtype));
  return CodeStream::at(base, loop_reg::column, std::countr_zero(size),
                        lane.column_offset * static_cast<std::int32_t>(size));
}

}  // namespace x86
SINTER_NAMESPACE_END
