// See the header.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL Writer::Writer(const BoundKernel& the_kernel, const Target& the_device, std::uint64_t by_value,
                           bool is_aligned)
    : bound(the_kernel),
      device(the_device),
      name(the_kernel.kernel.body.size()),
      by_value_(by_value),
      is_aligned_(is_aligned) {
  // Offsets are kept in 32 bits where the farthest of all accesses, twice over, fits.
  std::int64_t farthest =
      std::max<std::int64_t>(1, bound.points(bound.parallel)) * std::max<std::int64_t>(1, bound.points(bound.reduced));
  if (bound.kernel.kind == KernelKind::contraction)
    farthest = std::max(bound.points(bound.parallel), bound.points(bound.reduced));
  for (std::uint16_t access : bound.used_accesses()) {
    const auto& numbers = bound.geometry.accesses[access];
    std::int64_t reach = std::abs(numbers.gather_stride) * std::max<std::int64_t>(numbers.gather_extent, 1);
    for (int a = 0; a < bound.kernel.rank(); ++a)
      reach += std::abs(bound.stride(access, a)) * std::max<std::int64_t>(bound.extent(a) - 1, 0);
    farthest = std::max(farthest, reach);
  }
  is_wide_ = farthest >= std::int64_t{1} << 30;
  along_.assign(bound.kernel.accesses.size(), Along::constant);
  name_immediates();
}

// ---- text and parameter ---------------------------------------------------------------------------------------------

SINTER_DECL void Writer::line(const std::string& text) {
  if (text[0] != '#') body_.append(as_index(indent_) * 2, ' ');
  body_ += text;
  body_ += '\n';
}

SINTER_DECL std::string Writer::number(const std::string& field, std::int64_t value) {
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const Number& n) { return n.name == field; });
  if (found == numbers_.end()) numbers_.push_back({field, value});
  return "a." + field;
}

SINTER_DECL std::string Writer::pointer(std::uint16_t access) {
  if (std::find(accesses_.begin(), accesses_.end(), access) == accesses_.end()) accesses_.push_back(access);
  return "a.p" + str(access);
}

SINTER_DECL std::string Writer::tensor_map(std::uint16_t access, const cuda::TensorMap& map) {
  maps_.push_back({access, map});
  return "a.map" + str(static_cast<std::int64_t>(maps_.size()) - 1);
}

SINTER_DECL std::string Writer::entry(const std::string& suffix, int threads, int blocks, int cluster) {
  const std::string function = "sinter_" + suffix,
                    together = cluster > 1 ? "__cluster_dims__(" + str(cluster) + ", 1, 1) " : "";
  body_ += "\nextern \"C\" __global__ void __launch_bounds__(" + str(threads) +
           (blocks > 1 || cluster > 0 ? ", " + str(blocks) : "") + ") " + together + function +
           "(const __grid_constant__ Arguments a) {\n";
  indent_ = 1;
  return function;
}

SINTER_DECL void Writer::add_step(const std::string& entry, std::int64_t blocks, std::int64_t blocks_y, int threads,
                                  unsigned shared_bytes) {
  GpuLaunch launch;
  launch.entry = static_cast<std::uint16_t>(entries_.size());
  launch.grid = {static_cast<std::uint32_t>(blocks), static_cast<std::uint32_t>(blocks_y), 1};
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
  launch.shared_bytes = shared_bytes;
  entries_.push_back(entry);
  launches_.push_back(std::move(launch));
}

/// The parameter: pointers (or values of operands on the host), workspace, fault, tag, numbers.
SINTER_DECL LaunchList Writer::finish() {
  LaunchList list;
  list.call = std::move(call_);
  list.algorithm = algorithm_;
  list.workspace_bytes = as_index(workspace_bytes_);
  if (launches_.empty()) return list;
  std::string head;  // of the parameter
  std::vector<ParameterPatch> patches;
  std::uint32_t at = 0;
  const auto add = [&](ParameterPatch::Kind kind, std::uint16_t operand = 0, std::int64_t offset = 0) {
    patches.push_back({kind, operand, at, offset});
    at += 8;
  };
  for (const auto& [access, map] : maps_) {  // first, where they are aligned
    head += "  TensorMap map" + str(at / 128) + ";\n";
    add(ParameterPatch::Kind::tensor_map, bound.kernel.accesses[access].operand,
        bound.geometry.accesses[access].offset * size_of(bound.dtype_of(access)));
    at += 120;
  }
  for (std::uint16_t access : accesses_) {
    const std::uint16_t operand = bound.kernel.accesses[access].operand;
    const std::string type = memory_type(bound.dtype_of(access)), field = "p" + str(access) + ";\n";
    if (is_value(access)) head += "  alignas(8) " + type + " " + field;
    else head += "  " + std::string(bound.kernel.operands[operand].written ? "" : "const ") + type + "* " + field;
    add(is_value(access) ? ParameterPatch::Kind::value : ParameterPatch::Kind::operand, operand,
        bound.geometry.accesses[access].offset * size_of(bound.dtype_of(access)));
  }
  head += "  unsigned char* workspace;\n  long long* fault;\n  unsigned long long tag;\n";
  add(ParameterPatch::Kind::workspace);
  add(ParameterPatch::Kind::fault);
  add(ParameterPatch::Kind::tag);
  for (const Number& number : numbers_) head += "  I " + number.name + ";\n";
  head = std::string("typedef ") + (is_wide_ ? "long long" : "int") + " I;\n" +
         helpers(head + body_, device.capability) + "\nstruct Arguments {\n" + head;
  const std::size_t number_size = is_wide_ ? 8 : 4;
  const std::size_t alignment = maps_.empty() ? 8 : 64;
  std::vector<std::uint64_t> parameters((at + number_size * numbers_.size() + alignment - 1) / alignment * alignment /
                                        8);
  for (std::size_t i = 0; i < numbers_.size(); ++i)  // little endian: the low bytes come first
    std::memcpy(reinterpret_cast<char*>(parameters.data()) + at + i * number_size, &numbers_[i].value, number_size);
  for (GpuLaunch& launch : launches_) {
    launch.parameters = parameters;
    launch.patches = patches;
    for (const MappedAccess& mapped : maps_) launch.tensor_maps.push_back(mapped.map);
  }
  list.source = head + "};\n" + body_;
  list.entries = std::move(entries_);
  list.launches = std::move(launches_);
  list.needs_alignment = needs_alignment_;
  return list;
}

// ---- positions
// --------------------------------------------------------------------------------------------------------

/// Division by a number that the host knows: Warren, "Hacker's Delight", 10-9, for dividends below 2^31.
SINTER_DECL std::string Writer::divided(const std::string& dividend, const std::string& field, std::int64_t divisor) {
  if (is_wide_) return dividend + " / " + number("d" + field, divisor);
  int shift = 0;
  while (std::int64_t{1} << shift < divisor) ++shift;
  const auto magic = static_cast<std::int64_t>(((std::uint64_t{1} << shift) - static_cast<std::uint64_t>(divisor)) *
                                                   (std::uint64_t{1} << 32) / static_cast<std::uint64_t>(divisor) +
                                               1);
  const std::string bits = number("h" + field, shift),
                    factor = number("m" + field, magic);  // in this order, whatever the compiler
  return "divided(" + dividend + ", " + factor + ", " + bits + ")";
}

SINTER_DECL IndexNames Writer::decode(const std::string& position, const AxisList& axes, int packs) {
  IndexNames names;
  std::string left = position;
  for (std::size_t k = axes.size(); k-- > 0;) {
    const int axis = axes[k];
    std::string& x = names[as_index(axis)];
    x = "x" + str(axis);
    const int scale = k + 1 == axes.size() ? packs : 1;
    const std::string times = scale == 1 ? "" : " * " + str(scale);
    if (k == 0) {
      line("const I " + x + " = " + (times.empty() ? left : "(" + left + ")" + times) + ";");
      break;
    }
    const std::int64_t count = std::max<std::int64_t>(1, quotient_up(bound.extent(axis), scale));
    const std::string suffix = str(axis) + (scale == 1 ? "" : "p"), rest = "r" + str(axis);
    line("const I " + rest + " = " + divided(left, suffix, count) + ";");
    line("const I " + x + " = (" + left + " - " + rest + " * " + number("c" + suffix, count) + ")" + times + ";");
    left = rest;
  }
  return names;
}

SINTER_DECL IndexNames Writer::decode_reduced(const IndexNames& place, const std::string& position) {
  IndexNames index = place;
  const IndexNames inner = decode(position, bound.reduced);
  for (int a : bound.reduced) index[as_index(a)] = inner[as_index(a)];
  return index;
}

/// The first access of the same operand that has the same strides: where windows of an operand name these alike, they
/// have an offset in common.
SINTER_DECL std::uint16_t Writer::first_with_strides(std::uint16_t access) const {
  const Access& own = bound.kernel.accesses[access];
  for (std::uint16_t other = 0; other < access; ++other) {
    if (!(bound.kernel.accesses[other] == own)) continue;
    bool are_equal = true;
    for (int a = 0; a < bound.kernel.rank(); ++a) are_equal &= bound.stride(other, a) == bound.stride(access, a);
    if (are_equal) return other;
  }
  return access;
}

SINTER_DECL std::string Writer::offset(std::uint16_t access, const IndexNames& index) {
  std::string sum;
  const std::string named = str(first_with_strides(access));
  for (int a = 0; a < bound.kernel.rank(); ++a) {
    const std::string& x = index[as_index(a)];
    const StrideClass known = bound.stride_class(access, a);
    if (x.empty() || known == StrideClass::zero) continue;
    sum += (sum.empty() ? "" : " + ") + x;
    if (known == StrideClass::any) sum += " * " + number("s" + named + "_" + str(a), bound.stride(access, a));
  }
  return sum.empty() ? "0" : sum;
}

// ---- the vector axis
// --------------------------------------------------------------------------------------------------

SINTER_DECL bool Writer::packs(std::uint16_t access, int axis, int width) const {
  return is_aligned_ && bound.packs(access, axis, width);
}

SINTER_DECL void Writer::set_vector(int axis, int width) {
  vector_axis_ = axis;
  width_ = width;
  for (std::uint16_t access : bound.used_accesses()) {
    const bool is_constant = axis < 0 || bound.stride_class(access, axis) == StrideClass::zero;
    along_[access] = is_constant ? Along::constant : packs(access, axis, width) ? Along::packed : Along::spread;
    needs_alignment_ |= along_[access] == Along::packed;
  }
}

SINTER_DECL Along Writer::along(std::uint16_t access) const { return along_[access]; }

// ---- values
// -----------------------------------------------------------------------------------------------------------

SINTER_DECL void Writer::name_immediates() {
  for (std::size_t i = 0; i < name.size(); ++i)
    if (bound.kernel.body[i].prim == Prim::immediate) name[i] = literal(bound.kernel.body[i]);
}

SINTER_DECL std::string Writer::element(std::uint16_t access, const std::string& offset, const std::string& j) {
  if (is_value(access)) return pointer(access);
  std::string place = pointer(access) + "[" + offset;
  if (!j.empty() && vector_axis_ >= 0) {
    const StrideClass known = bound.stride_class(access, vector_axis_);
    if (known == StrideClass::unit) place += " + " + j;
    if (known == StrideClass::any)
      place +=
          " + " + j + " * " + number("s" + str(access) + "_" + str(vector_axis_), bound.stride(access, vector_axis_));
  }
  return place + "]";
}

SINTER_DECL std::string Writer::loaded(std::uint16_t access, const std::string& place) const {
  const DType dtype = bound.dtype_of(access);
  return dtype == DType::bool_ ? place + " != 0" : is_narrow(dtype) ? "(" + value_type(dtype) + ")" + place : place;
}

/// Do all uses of this value end in memory of at most 16 bits, with nothing but products on the way? Its relative error
/// is that of what is rounded there.
inline bool is_rounded_to_half(const BoundKernel& bound, InstId id) {
  std::vector<bool> carries(bound.kernel.body.size());
  carries[id] = true;
  for (std::size_t user = id + 1; user < carries.size(); ++user) {
    const Inst& inst = bound.kernel.body[user];
    if (inst.prim == Prim::fold) return false;  // may take it in, elsewhere
    for (std::size_t k = 0; k < as_index(arity(inst.prim)); ++k) {
      if (!carries[inst.args[k]] || !bound.is_live(user)) continue;
      const bool is_factor = inst.prim == Prim::mul || inst.prim == Prim::neg || inst.prim == Prim::convert;
      if (!is_factor || computed_in(inst.dtype) != DType::f32) return false;
      carries[user] = true;
    }
  }
  return std::ranges::none_of(bound.kernel.stores, [&](const Store& store) {
    return carries[store.value] && !is_half(bound.dtype_of(store.access));
  });
}

SINTER_DECL std::string Writer::value_of(InstId id, const IndexNames& index, const std::string& j) {
  const Inst& inst = bound.inst(id);
  if (inst.prim == Prim::load) return loaded(inst.access, element(inst.access, offset(inst.access, index), j));
  if (inst.prim == Prim::index) {
    const auto axis = static_cast<int>(inst.bits);
    return "(long long)(" + index[inst.bits] + (axis == vector_axis_ && !j.empty() ? " + " + j : "") + ")";
  }
  if (inst.prim == Prim::gather) {
    const std::string& at = name[inst.args[0]];
    const auto& numbers = bound.geometry.accesses[inst.access];
    const std::string valid =
        "gather_ok(" + at + ", " + number("g" + str(inst.access), numbers.gather_extent) + ", a.fault, a.tag)";
    const std::string where =
        offset(inst.access, index) + " + (I)" + at + " * " + number("t" + str(inst.access), numbers.gather_stride);
    const std::string zero = inst.dtype == DType::bool_ ? "false" : "(" + value_type(inst.dtype) + ")0";
    return valid + " ? " + loaded(inst.access, element(inst.access, where, j)) + " : " + zero;
  }
  if (inst.prim == Prim::guarded_load)
    return name[inst.args[0]] + " ? (" + value_type(inst.dtype) + ")(" +
           loaded(inst.access, element(inst.access, offset(inst.access, index), j)) + ") : " + name[inst.args[1]];
  std::array<std::string, 3> args;
  for (std::size_t k = 0; k < as_index(arity(inst.prim)); ++k) args[k] = name[inst.args[k]];
  const bool is_gelu = inst.prim == Prim::gelu && computed_in(inst.dtype) == DType::f32;
  if (is_gelu && is_rounded_to_half(bound, id)) return "rounded_gelu(" + args[0] + ")";
  return expression(inst, bound.inst(inst.args[0]).dtype, args);
}

SINTER_DECL void Writer::load_vector(InstId id, const std::string& target, const std::string& first,
                                     const IndexNames& index) {
  const Inst& inst = bound.inst(id);
  const std::uint16_t access = inst.access;
  const std::string base = first.empty() ? "" : first + " + ";
  std::string at = offset(access, index);
  const bool is_gather = inst.prim == Prim::gather, is_guarded = inst.prim == Prim::guarded_load;
  if (is_gather) {
    const std::string& row = name[inst.args[0]];
    const auto& numbers = bound.geometry.accesses[access];
    at += " + (I)" + row + " * " + number("t" + str(access), numbers.gather_stride);
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) " + target + "[" + base + "j] = 0;");
    open("if (gather_ok(" + row + ", " + number("g" + str(access), numbers.gather_extent) + ", a.fault, a.tag))");
  }
  if (is_guarded) {
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) " + target + "[" + base + "j] = " + name[inst.args[1]] + ";");
    open("if (" + name[inst.args[0]] + ")");
  }
  if (along(access) == Along::packed) {
    const std::string pack = "Pack<" + memory_type(bound.dtype_of(access)) + ", " + str(width_) + ">";
    const std::string place = "(const " + pack + "*)(" + pointer(access) + " + " + at + ")";
    line("const " + pack + " t" + str(id) + " = " +
         (use_ == Use::once ? "read_once(" + place + ");" : "*" + place + ";"));
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) " + target + "[" + base +
         "j] = " + loaded(access, "t" + str(id) + ".v[j]") + ";");
  } else {
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) " + target + "[" + base +
         "j] = " + loaded(access, element(access, at, "j")) + ";");
  }
  if (is_gather || is_guarded) close();
}

SINTER_DECL void Writer::store_vector(const Store& store, const std::string& source, const IndexNames& index) {
  const std::string at = offset(store.access, index);
  if (along(store.access) == Along::packed) {
    const std::string pack = "Pack<" + memory_type(bound.dtype_of(store.access)) + ", " + str(width_) + ">";
    open("");
    line(pack + " t;");
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) t.v[j] = " + source + "[j];");
    const std::string place = "(" + pack + "*)(" + pointer(store.access) + " + " + at + ")";
    line(use_ == Use::once ? "write_once(" + place + ", t);" : "*" + place + " = t;");
    close();
  } else {
    line("#pragma unroll");
    line("for (int j = 0; j < " + str(width_) + "; ++j) " + element(store.access, at, "j") + " = " + source + "[j];");
  }
}

SINTER_DECL void Writer::compute_elements(const std::vector<InstId>& elementwise, const IndexNames& index,
                                          const std::string& holds) {
  const std::vector<Store>& stores = bound.kernel.stores;
  for (std::size_t s = 0; s < stores.size(); ++s)
    line(memory_type(bound.inst(stores[s].value).dtype) + " s" + str(static_cast<int>(s)) + "[" + str(width_) + "];");
  unroll("for (int j = 0; j < " + str(width_) + "; ++j)");
  if (!holds.empty()) open("if (" + holds + ")");
  for (const InstId id : elementwise) line("const " + declaration(id) + " = " + value_of(id, index, "j") + ";");
  for (std::size_t s = 0; s < stores.size(); ++s)
    line("s" + str(static_cast<int>(s)) + "[j] = " + name[stores[s].value] + ";");
  if (!holds.empty()) close();
  close();
}

SINTER_DECL void Writer::store_elements(const IndexNames& index) {
  for (std::size_t s = 0; s < bound.kernel.stores.size(); ++s) {
    const Store& store = bound.kernel.stores[s];
    const std::string source = "s" + str(static_cast<int>(s));
    if (along(store.access) == Along::constant) store_one(store, source + "[0]", index, "");
    else store_vector(store, source, index);
  }
}

SINTER_DECL void Writer::store_one(const Store& store, const std::string& value, const IndexNames& index,
                                   const std::string& j) {
  line(element(store.access, offset(store.access, index), j) + " = " + value + ";");
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
