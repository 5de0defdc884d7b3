// See the header. What is loaded stays as it lies in memory until it is needed: computing with it at once would wait
// for it.
#pragma once

#include <sinter/backend/cuda/source/gemm_operand.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// ---- the choice
// -------------------------------------------------------------------------------------------------------

SINTER_DECL bool is_plain(const BoundKernel& bound, const GemmOperand& operand) {
  return is_plain_load(bound.kernel, bound.inst(operand.value));
}

SINTER_DECL std::vector<InstId> instructions_of(const BoundKernel& bound, const GemmOperand& operand) {
  const std::vector<bool> under = instructions_under(bound.kernel.body, operand.value);
  std::vector<InstId> list;
  for (std::size_t i = 0; i < under.size(); ++i)
    if (under[i] && bound.kernel.body[i].prim != Prim::immediate) list.push_back(static_cast<InstId>(i));
  return list;
}

/// Can all that varies along the axis be read `width` elements at a time, and does anything?
inline bool packs_along(const Writer& w, const std::vector<InstId>& loads, int axis, int width) {
  bool any = false;
  for (InstId id : loads) {
    if (!w.bound.varies(id, axis)) continue;
    if (!w.packs(w.bound.inst(id).access, axis, width)) return false;
    any = true;
  }
  return any && w.bound.extent(axis) % width == 0;
}

SINTER_DECL bool choose_operand(Writer& w, GemmOperand& operand, int other_axis) {
  const BoundKernel& bound = w.bound;
  if (bound.varies(operand.value, other_axis)) return false;
  std::vector<InstId> loads;
  int unit_along_axis = 0, unit_along_depth = 0;
  for (InstId id : instructions_of(bound, operand)) {
    const Inst& inst = bound.inst(id);
    if (inst.prim == Prim::gather || inst.prim == Prim::guarded_load || is_reduction(inst.prim)) return false;
    if (inst.prim != Prim::load) continue;
    loads.push_back(id);
    if (!bound.varies(id, operand.axis) || !bound.varies(id, operand.depth_axis)) continue;
    unit_along_axis += bound.stride_class(inst.access, operand.axis) == StrideClass::unit;
    unit_along_depth += bound.stride_class(inst.access, operand.depth_axis) == StrideClass::unit;
  }
  const int width = static_cast<int>(16 / size_of(bound.inst(operand.value).dtype));
  const bool packs_depth = packs_along(w, loads, operand.depth_axis, width),
             packs_axis = packs_along(w, loads, operand.axis, width);
  operand.along_depth = packs_depth || (!packs_axis && (unit_along_axis == 0 || unit_along_axis < unit_along_depth));
  operand.width = packs_depth || packs_axis ? width : 1;
  return true;
}

// ---- the text
// ---------------------------------------------------------------------------------------------------------

SINTER_DECL GemmOperandWriter::GemmOperandWriter(Writer& writer, const GemmOperand& operand,
                                                 const GemmOperandTile& tile, const IndexNames& batch)
    : w(writer),
      bound(writer.bound),
      operand_(operand),
      tile_(tile),
      batch_(batch),
      is_plain_(is_plain(writer.bound, operand)),
      body_(instructions_of(writer.bound, operand)) {
  for (InstId id : body_) {
    if (bound.inst(id).prim != Prim::load || is_once(id)) continue;
    const bool along_axis = bound.varies(id, operand_.axis), along_depth = bound.varies(id, operand_.depth_axis);
    Loaded load{.id = id};
    load.by_place = operand_.along_depth ? along_axis : along_depth;
    load.by_lane = operand_.width > 1 && (operand_.along_depth ? along_depth : along_axis);
    load.is_fixed = !along_depth;
    loads_.push_back(load);
  }
}

SINTER_DECL int GemmOperandWriter::words() const {
  int words = 0;
  for (const Loaded& load : loads_)
    words += (load.by_place ? places() : 1) * (load.by_lane ? operand_.width : 1) *
             (size_of(bound.inst(load.id).dtype) == 8 ? 2 : 1);
  return words;
}

SINTER_DECL void GemmOperandWriter::declare() {
  if (operand_.width > 1) w.require_alignment();
  const std::string& name = tile_.name;
  const std::string along = "(int)(threadIdx.x % " + str(run()) + ") * " + str(operand_.width),
                    across = "(int)(threadIdx.x / " + str(run()) + ")";
  w.line("const int " + name + "_depth = " + (operand_.along_depth ? along : across) + ", " + name +
         "_place = " + (operand_.along_depth ? across : along) + ";");
  for (InstId id : body_) {
    if (!is_once(id)) continue;
    w.line("const " + value_type(bound.inst(id).dtype) + " " + value(id) + " = " + w.value_of(id, batch_, "") + ";");
    w.name[id] = value(id);
  }
  for (const Loaded& load : loads_) {
    const std::uint16_t access = bound.inst(load.id).access;
    const std::string memory = memory_type(bound.dtype_of(access));
    if (!tile_.is_copied)
      w.line("__align__(16) " + memory + " " + registers_of(load.id) + "[" + str(load.by_place ? places() : 1) + "][" +
             str(load.by_lane ? operand_.width : 1) + "];");
    w.line("const " + memory + "* const " + memory_of(load.id) + " = " + w.pointer(access) + " + " +
           w.offset(access, batch_) + ";");
    if (load.is_fixed) read(load);
  }
}

SINTER_DECL void GemmOperandWriter::fetch() {
  for (const Loaded& load : loads_)
    if (!load.is_fixed) read(load);
}

/// All of a thread's elements of one access; those outside the product are 0.
SINTER_DECL void GemmOperandWriter::read(const Loaded& load) {
  const std::uint16_t access = bound.inst(load.id).access;
  if (load.by_place) w.unroll("for (int i = 0; i < " + str(places()) + "; ++i)");
  else w.open("");
  const bool by_depth = bound.varies(load.id, operand_.depth_axis), by_axis = bound.varies(load.id, operand_.axis);
  IndexNames index;
  if (by_depth) {
    w.line("const I k = t + " + depth_of() + ";");
    index[as_index(operand_.depth_axis)] = "k";
  }
  if (by_axis) {
    w.line("const I x = " + tile_.first + " + " + place_of() + ";");
    index[as_index(operand_.axis)] = "x";
  }
  const std::string at = w.offset(access, index), target = registers_of(load.id) + (load.by_place ? "[i]" : "[0]"),
                    from = memory_of(load.id);
  const std::string limit = std::string(by_depth ? "k < end" : "") + (by_depth && by_axis ? " && " : "") +
                            (by_axis ? "x < " + w.extent(operand_.axis) : "");
  if (load.by_lane) {
    const std::string pack = "Pack<" + memory_type(bound.dtype_of(access)) + ", " + str(operand_.width) + ">";
    w.line(pack + " p = {};");
    w.line("if (" + limit + ") p = *(const " + pack + "*)(" + from + " + " + at + ");");
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + str(operand_.width) + "; ++j) " + target + "[j] = p.v[j];");
  } else {
    // Beside a 0 a half would become an int.
    const DType memory = bound.dtype_of(access);
    const std::string zero = is_half(memory) ? memory_type(memory) + "{}" : "0";
    w.line(target + "[0] = " + limit + " ? " + from + "[" + at + "] : " + zero + ";");
  }
  w.close();
}

SINTER_DECL void GemmOperandWriter::copy(const Place& to) {
  const std::uint16_t access = bound.inst(operand_.value).access;
  w.unroll("for (int i = 0; i < " + str(places()) + "; ++i)");
  w.line("const I k = t + " + depth_of() + ", x = " + tile_.first + " + " + place_of() + ";");
  IndexNames index;
  index[as_index(operand_.axis)] = "x", index[as_index(operand_.depth_axis)] = "k";
  const std::string extent = w.extent(operand_.axis);  // numbers of the parameter in one order, whatever the compiler
  const std::string from = memory_of(operand_.value) + " + " + w.offset(access, index);
  w.line("copy_async<" + str(operand_.width * size_of(bound.dtype_of(access))) + ">(" + to(depth_of(), place_of()) +
         ", " + from + ", k < end && x < " + extent + ");");
  w.close();
}

SINTER_DECL void GemmOperandWriter::keep(const Write& write) {
  w.unroll("for (int i = 0; i < " + str(places()) + "; ++i)");
  if (is_plain_) {
    write(depth_of(), place_of(), registers_of(operand_.value) + "[i]");
  } else {
    compute();
    write(depth_of(), place_of(), tile_.name + "_values");
  }
  w.close();
}

/// The values of place i, from registers.
SINTER_DECL void GemmOperandWriter::compute() {
  w.line("const I k = t + " + depth_of() + ", x = " + tile_.first + " + " + place_of() + ";");
  w.line("const bool is_inside = k < end && x < " + w.extent(operand_.axis) + ";");
  w.line("__align__(16) " + type() + " " + tile_.name + "_values[" + str(operand_.width) + "];");
  IndexNames index = batch_;
  index[as_index(operand_.axis)] = "x", index[as_index(operand_.depth_axis)] = "k";
  if (operand_.width > 1) index[as_index(vector_axis())] += " + j";
  w.unroll("for (int j = 0; j < " + str(operand_.width) + "; ++j)");
  auto load = loads_.begin();  // in the order of the body
  for (InstId id : body_) {
    if (is_once(id)) {
      w.name[id] = value(id);
      continue;
    }
    std::string text;
    if (bound.inst(id).prim == Prim::load) {
      text = w.loaded(bound.inst(id).access,
                      registers_of(id) + (load->by_place ? "[i]" : "[0]") + (load->by_lane ? "[j]" : "[0]"));
      ++load;
    } else {
      text = w.value_of(id, index, "");
    }
    w.line("const " + value_type(bound.inst(id).dtype) + " " + value(id) + " = " + text + ";");
    w.name[id] = value(id);
  }
  w.line(tile_.name + "_values[j] = is_inside ? " + w.name[operand_.value] + " : 0;");
  w.close();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
