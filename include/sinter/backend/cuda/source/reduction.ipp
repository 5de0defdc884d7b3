// The kernels, walk by walk.
#pragma once

#include <sinter/backend/cuda/source/reduction.hpp>

#include <sinter/backend/cuda/source/reduction_fold.hpp>
#include <sinter/backend/cuda/source/reduction_online.hpp>
#include <sinter/backend/cuda/source/reduction_shape.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ReductionWriter {
 public:
  explicit ReductionWriter(Writer& writer) : w(writer), nest(writer.nest), shape(choose_reduction(writer)) {}

  void run() {
    w.set_vector(shape.vector_axis, shape.width);
    const std::string entry = w.entry(shape.is_column ? "columns" : "rows", shape.threads());
    place_ = write_place(w, shape);
    write_outer(0);
    if (shape.is_resident) declare_resident();
    shared_ = find_shared();
    declare_shared();
    online_ = shape.is_column || shape.is_resident || shape.splits > 1 ? Online{} : find_online(nest);
    for (int pass = 0; pass <= nest.depths(); ++pass) {
      if (pass > 0 && !(online_.sum != no_inst && pass == 1)) write_outer(pass);
      if (online_.sum != no_inst && pass == 0) write_online();
      else if (nest.is_full_walk(pass) && !(online_.sum != no_inst && pass == 1)) write_walk(pass);
      if (shape.splits > 1) break;
    }
    if (shape.splits == 1) write_outer_stores();
    w.close();
    w.add_step(entry, quotient_up(shape.items, shape.groups), shape.splits, shape.threads(), shared_.bytes(*this));
    if (shape.splits > 1) write_finish();
  }

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(nest.inst(id).dtype); }
  bool is_array(InstId id) const { return shape.is_column && !in_finish_ && w.is_along(id); }

  /// What is computed once per row or column before walk `pass`.
  void write_outer(int pass) {
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      const Prim prim = nest.inst(id).prim;
      if (!nest.is_live(i) || nest.is_inner(i) || prim == Prim::immediate || is_reduction(prim) ||
          nest.depth(i) != pass)
        continue;
      const std::string v = "v" + str(id);
      if (!is_array(id)) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, place_, "") + ";");
        w.name[i] = v;
        continue;
      }
      w.line(w.declaration(id) + "[" + str(shape.width) + "];");
      w.name[i] = v + "[j]";
      if (prim == Prim::load) {
        w.load_vector(id, v, "", place_);
      } else {
        w.line("#pragma unroll");
        w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + v + "[j] = " + w.value_of(id, place_, "j") +
               ";");
      }
    }
  }

  // ---- walks

  int elements() const { return shape.steps * shape.width; }
  std::string place_of(InstId id) const {  // in an array of the tile
    return w.is_along(id) ? "[i * " + str(shape.width) + " + j]" : "[i]";
  }
  void declare_tile(InstId id) {
    w.line(w.declaration(id) + "[" + str(w.is_along(id) ? elements() : shape.steps) + "];");
  }

  void declare_resident() {
    walks_ = nest.kept_walks();
    w.line("const I t = 0;");
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i)
      if (walks_.is_kept[i] && nest.kernel.body[i].prim != Prim::load)
        w.line(w.declaration(static_cast<InstId>(i)) + "[" + str(elements()) + "];");
  }

  /// Opens the loop over the thread's accesses of a tile.
  IndexNames open_steps() {
    w.unroll("for (int i = 0; i < " + str(shape.steps) + "; ++i)");
    const std::string lanes = str(shape.lanes);
    w.line(shape.is_column ? "const I e = t + i * " + lanes + " + lane;"
                           : "const I e = t + (i * " + lanes + " + lane) * " + str(shape.width) + ";");
    w.open(shape.is_exact ? "" : "if (e < end)");
    IndexNames index = place_;
    const IndexNames inner = w.decode("e", nest.reduced);
    for (int a : nest.reduced) index[as_index(a)] = inner[as_index(a)];
    return index;
  }
  void close_steps() { w.close(), w.close(); }

  void write_loads(const std::vector<InstId>& loads) {
    if (loads.empty()) return;
    for (InstId id : loads) {
      declare_tile(id);
      w.name[id] = "v" + str(id) + place_of(id);
    }
    std::vector<InstId> from_memory = loads;
    if (shared_.is_filled && !shared_.loads.empty()) {
      std::erase_if(from_memory, [&](InstId id) { return shared_.holds(id); });
      write_shared_loads();
    }
    if (!from_memory.empty()) load_tile(from_memory);
    if (!shared_.is_filled && !shared_.loads.empty()) fill_shared();
  }
  void load_tile(const std::vector<InstId>& loads) {
    const IndexNames index = open_steps();
    for (InstId id : loads) {
      const std::string v = "v" + str(id);
      if (w.is_along(id)) w.load_vector(id, v, "i * " + str(shape.width), index);
      else w.line(v + "[i] = " + w.value_of(id, index, "") + ";");
    }
    close_steps();
  }

  void declare_sums(const std::vector<InstId>& reductions) {
    for (InstId id : reductions) {
      if (is_fold(id)) {
        if (is_holder(id)) fold(id).declare(shape.is_column);
        continue;
      }
      const std::string start = neutral(nest.inst(id).prim, nest.inst(id).dtype);
      if (!shape.is_column) {
        w.line(type(id) + " sum" + str(id) + " = " + start + ";");
        continue;
      }
      w.line(type(id) + " sum" + str(id) + "[" + str(shape.width) + "];");
      w.line("#pragma unroll");
      w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) sum" + str(id) + "[j] = " + start + ";");
    }
  }

  std::vector<InstId> loads_of(const std::vector<InstId>& insts) const {
    std::vector<InstId> loads;
    for (InstId id : insts)
      if (nest.inst(id).prim == Prim::load) loads.push_back(id);
    return loads;
  }

  /// The loop over the tiles of a range. Four loads in flight per thread are several times what memory needs; more only
  /// compiles longer.
  void open_tiles(std::size_t loads) {
    const int in_flight = std::max(1, static_cast<int>(loads) * shape.steps);
    w.line("#pragma unroll " + str(std::max(1, 4 / in_flight)));
    w.open("for (I t = begin; t < end; t += " + str(shape.tile()) + ")");
  }

  void write_walk(int pass) {
    const std::vector<InstId> insts = shape.is_resident ? walks_.fresh[as_index(pass)] : nest.inner_of(pass);
    const std::vector<InstId> reductions = nest.reductions_of(pass);
    std::vector<InstId> loads = loads_of(insts);
    if (shape.loads_late) std::erase_if(loads, [&](InstId id) { return is_late(id); });
    declare_sums(reductions);
    if (!shape.is_resident) open_tiles(loads.size());
    write_loads(loads);
    write_values(pass, insts, reductions);
    if (!shape.is_resident) w.close();
    for (InstId id : reductions) put_together(id);
  }

  void write_values(int pass, const std::vector<InstId>& insts, const std::vector<InstId>& reductions) {
    const IndexNames index = open_steps();
    const bool stores = pass == nest.depths();
    if (stores)
      for (std::size_t s = 0; s < nest.inner_stores.size(); ++s)
        w.line(memory_type(nest.inst(nest.inner_stores[s].value).dtype) + " s" + str(static_cast<int>(s)) + "[" +
               str(shape.width) + "];");
    for (InstId id : insts)
      if (shape.loads_late && nest.inst(id).prim == Prim::load && is_late(id)) load_step(id, index);
    w.unroll("for (int j = 0; j < " + str(shape.width) + "; ++j)");
    for (InstId id : insts) {
      if (nest.inst(id).prim == Prim::load) continue;
      const std::string value = w.value_of(id, index, "j"), v = "v" + str(id);
      const bool stays = shape.is_resident && walks_.is_kept[id];
      w.name[id] = stays ? v + "[i * " + str(shape.width) + " + j]" : v;
      w.line((stays ? w.name[id] : "const " + w.declaration(id)) + " = " + value + ";");
    }
    for (InstId id : reductions) feed(id);
    if (stores)
      for (std::size_t s = 0; s < nest.inner_stores.size(); ++s)
        w.line("s" + str(static_cast<int>(s)) + "[j] = " + w.name[nest.inner_stores[s].value] + ";");
    w.close();
    if (stores && !nest.inner_stores.empty()) {
      w.open("if (is_live)");
      for (std::size_t s = 0; s < nest.inner_stores.size(); ++s)
        store(nest.inner_stores[s], "s" + str(static_cast<int>(s)), index);
      w.close();
    }
    close_steps();
  }

  bool is_late(InstId id) const { return nest.is_shared_by_rows(id) && !walks_.is_kept[id]; }
  void load_step(InstId id, const IndexNames& index) {
    const std::string v = "v" + str(id);
    if (!w.is_along(id)) {
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
      w.name[id] = v;
      return;
    }
    w.line(w.declaration(id) + "[" + str(shape.width) + "];");
    w.load_vector(id, v, "", index);
    w.name[id] = v + "[j]";
  }

  void store(const Store& store, const std::string& source, const IndexNames& index) {
    if (w.along(store.access) == Along::constant) w.store_one(store, source + "[0]", index, "");
    else w.store_vector(store, source, index);
  }

  void feed(InstId id) {
    if (is_fold(id)) {
      if (is_holder(id)) fold(id).feed(shape.is_column ? "[j]" : "");
      return;
    }
    const Inst& inst = nest.inst(id);
    const std::string sum = "sum" + str(id) + (shape.is_column ? "[j]" : "");
    if (inst.prim == Prim::contract) {
      const Inst step{.prim = Prim::fma, .dtype = inst.dtype};
      w.line(sum + " = " + expression(step, inst.dtype, {w.name[inst.args[0]], w.name[inst.args[1]], sum}) + ";");
    } else {
      w.line(sum + " = " + combined(inst.prim, inst.dtype, sum, w.name[inst.args[0]]) + ";");
    }
  }

  // ---- rows that are longer than registers: their start stays in shared memory, the first walk puts it there

  struct Shared {
    std::vector<InstId> loads;
    std::int64_t tiles = 0;  // of each row, from its start
    bool is_filled = false;  // a walk has been written
    bool holds(InstId id) const { return std::find(loads.begin(), loads.end(), id) != loads.end(); }
    unsigned bytes(const ReductionWriter& row) const {
      return static_cast<unsigned>(loads.empty() ? 0 : tiles * row.tile_bytes(loads));
    }
  };
  std::int64_t tile_bytes(const std::vector<InstId>& loads) const {
    std::int64_t bytes = 0;
    for (InstId id : loads) bytes += shape.tile() * size_of(nest.inst(id).dtype);
    return bytes;
  }

  /// It is worth it where at least half of a row fits: its block has the processor to itself.
  Shared find_shared() const {
    if (shape.is_column || shape.is_resident || shape.splits > 1 || shape.lanes != 1024) return {};
    Shared shared;
    for (InstId id : loads_of(nest.inner_of(0)))
      if (w.is_along(id) && !nest.is_shared_by_rows(id) && is_read_again(id)) shared.loads.push_back(id);
    if (shared.loads.empty()) return {};
    constexpr std::int64_t for_lanes = 4096;  // what reductions put together
    const std::int64_t tiles = quotient_up(shape.length, shape.tile());
    shared.tiles =
        std::min(tiles, (static_cast<std::int64_t>(w.device.shared_bytes) - for_lanes) / tile_bytes(shared.loads));
    if (shared.tiles * 2 < tiles) return {};
    return shared;
  }
  bool is_read_again(InstId id) const {
    for (int pass = 1; pass <= nest.depths(); ++pass) {
      if (!nest.is_full_walk(pass)) continue;
      const std::vector<InstId> later = nest.inner_of(pass);
      if (std::find(later.begin(), later.end(), id) != later.end()) return true;
    }
    return false;
  }

  void declare_shared() {
    if (shared_.loads.empty()) return;
    w.line("unsigned char* const row_start = dynamic_shared();");
    w.line("const I in_shared = " + str(shared_.tiles * shape.tile()) + ";");
    std::int64_t place = 0;
    for (InstId id : shared_.loads) {
      const std::string pack = "Pack<" + type(id) + ", " + str(shape.width) + ">";
      w.line(pack + "* const kept" + str(id) + " = (" + pack + "*)(row_start + " + str(place) + ") + lane;");
      place += shared_.tiles * shape.tile() * size_of(nest.inst(id).dtype);
    }
  }

  // A thread reads what it wrote itself, so nothing waits.
  std::string shared_place(InstId id) const {
    return "kept" + str(id) + "[((int)t / " + str(shape.tile()) + " * " + str(shape.steps) + " + i) * " +
           str(shape.lanes) + "]";
  }
  std::string shared_pack(InstId id) const { return "Pack<" + type(id) + ", " + str(shape.width) + "> p"; }
  std::string each_of_vector() const { return "for (int j = 0; j < " + str(shape.width) + "; ++j) "; }
  std::string tile_element(InstId id) const { return "v" + str(id) + "[i * " + str(shape.width) + " + j]"; }

  void fill_shared() {
    w.open("if (t < in_shared)");
    open_steps();
    for (InstId id : shared_.loads) {
      w.line(shared_pack(id) + str(id) + ";");
      w.line("#pragma unroll");
      w.line(each_of_vector() + "p" + str(id) + ".v[j] = " + tile_element(id) + ";");
      w.line(shared_place(id) + " = p" + str(id) + ";");
    }
    close_steps();
    w.close();
    shared_.is_filled = true;
  }
  void write_shared_loads() {
    w.open("if (t < in_shared)");
    open_steps();
    for (InstId id : shared_.loads) {
      w.line("const " + shared_pack(id) + str(id) + " = " + shared_place(id) + ";");
      w.line("#pragma unroll");
      w.line(each_of_vector() + tile_element(id) + " = p" + str(id) + ".v[j];");
    }
    close_steps();
    w.close();
    w.open("else");
    load_tile(shared_.loads);
    w.close();
  }

  // ---- the greatest value and the sum of exponentials in one walk

  std::string exponential(const std::string& x, const std::string& shift) const {
    const DType dtype = nest.inst(online_.sum).dtype;
    return expression({.prim = Prim::exp, .dtype = dtype}, dtype, {x + " - " + shift, "", ""});
  }
  /// Of infinity and NaN, which differ from themselves.
  static std::string finite_or_zero(const std::string& x) { return x + " - " + x + " == 0 ? " + x + " : 0"; }

  /// The first two walks: a tile is read once for its greatest value, which rescales the sum so far, and its
  /// exponentials.
  void write_online() {
    const std::vector<InstId> insts = nest.inner_of(0), loads = loads_of(insts);
    std::vector<InstId> reductions = nest.reductions_of(0);
    const std::string own_type = type(online_.sum), greatest = "sum" + str(online_.greatest),
                      sum = "sum" + str(online_.sum), width = str(shape.width);
    declare_sums(reductions), declare_sums({online_.sum});
    open_tiles(loads.size());
    write_loads(loads);
    w.line(own_type + " x[" + str(elements()) + "];");
    w.line("const " + own_type + " before = " + greatest + ";");
    const IndexNames index = open_steps();
    w.unroll("for (int j = 0; j < " + width + "; ++j)");
    for (InstId id : insts) {
      if (nest.inst(id).prim == Prim::load) continue;
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "j") + ";");
      w.name[id] = "v" + str(id);
    }
    w.line("x[i * " + width + " + j] = " + w.name[online_.value] + ";");
    for (InstId id : reductions) feed(id);
    w.close();
    close_steps();
    w.line("const " + own_type + " shift = " + finite_or_zero(greatest) + ";");
    w.line(sum + " = " + sum + " * " + exponential("before", "shift") + ";");
    open_steps();
    w.unroll("for (int j = 0; j < " + width + "; ++j)");
    w.line(sum + " = " + sum + " + " + exponential("x[i * " + width + " + j]", "shift") + ";");
    w.close();
    close_steps();
    w.close();
    w.line("const " + own_type + " own_greatest = " + greatest + ";");
    for (InstId id : reductions) put_together(id);
    write_outer(1);
    w.line("const " + own_type + " own_shift = " + finite_or_zero(w.name[online_.greatest]) + ";");
    w.line(sum + " = " + sum + " * " + exponential("own_greatest", "own_shift") + " * " +
           exponential("own_shift", w.name[online_.shift]) + ";");
    put_together(online_.sum);
  }

  // ---- lanes put together

  /// Declares v<id>, the same in all lanes.
  void put_together(InstId id) {
    const std::string v = "v" + str(id), sum = "sum" + str(id);
    w.name[id] = !shape.is_column ? v : w.is_along(id) ? v + "[j]" : v + "[0]";
    if (is_fold(id)) return put_fold_together(id);
    if (shape.is_column) put_columns_together(id);
    else put_row_together(id, shape.lanes);
    if (shape.splits > 1) write_partial(id);
  }

  bool is_fold(InstId id) const { return nest.inst(id).prim == Prim::fold; }
  /// The first of the live results of a fold, which has its state.
  InstId holder(InstId id) const {
    for (InstId other = 0; other < id; ++other)
      if (nest.is_live(other) && shares_state(nest.inst(other), nest.inst(id))) return other;
    return id;
  }
  bool is_holder(InstId id) const { return holder(id) == id; }
  FoldText fold(InstId id) const { return FoldText(w, shape, holder(id)); }
  void put_fold_together(InstId id) {
    FoldText text = fold(id);
    if (is_holder(id)) {
      if (shape.is_column) text.put_columns_together();
      else text.put_row_together(shape.lanes, in_finish_);
      if (shape.splits > 1) text.write_partial(partial_place(id), outputs());
    }
    if (shape.splits == 1) text.declare_result(id, shape.is_column);
  }

  void shuffle(InstId id, const std::string& value, int lanes) {
    const Inst& inst = nest.inst(id);
    const bool is_bool = inst.dtype == DType::bool_;
    if (in_finish_) {
      w.line("#pragma unroll 1");
      w.open("for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)");
    } else w.unroll("for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)");
    w.line("const " + type(id) + " other = " +
           (is_bool ? "0 != __shfl_xor_sync(0xffffffffu, (int)" : "__shfl_xor_sync(0xffffffffu, ") + value + ", m);");
    w.line(value + " = " + combined(inst.prim, inst.dtype, value, "other") + ";");
    w.close();
  }

  void put_row_together(InstId id, int lanes) {
    const std::string v = "v" + str(id), sum = "sum" + str(id), shared = "shared" + str(id), warps = str(lanes / 32);
    if (lanes > 1) shuffle(id, sum, std::min(lanes, 32));
    if (lanes <= 32) {
      w.line("const " + type(id) + " " + v + " = " + sum + ";");
      return;
    }
    w.line("__shared__ " + type(id) + " " + shared + "[" + str(shape.threads() / 32) + "];");
    w.line("if (threadIdx.x % 32 == 0) " + shared + "[threadIdx.x / 32] = " + sum + ";");
    w.line("__syncthreads();");
    w.line(type(id) + " " + v + " = " + shared + "[group * " + warps + " + (int)(threadIdx.x % " + warps + ")];");
    shuffle(id, v, lanes / 32);
  }

  void put_columns_together(InstId id) {
    const Inst& inst = nest.inst(id);
    const std::string v = "v" + str(id), sum = "sum" + str(id), width = str(shape.width), groups = str(shape.groups);
    w.line(type(id) + " " + v + "[" + width + "];");
    const std::string each = "for (int j = 0; j < " + width + "; ++j) ";
    if (shape.lanes == 1) {
      w.line("#pragma unroll");
      w.line(each + v + "[j] = " + sum + "[j];");
      return;
    }
    if (!has_scratch_)
      w.line("__shared__ __align__(16) unsigned char scratch[" + str(shape.threads() * shape.width * 8) + "];");
    has_scratch_ = true;
    w.open("");
    w.line(type(id) + "* const mine = (" + type(id) +
           "*)scratch + threadIdx.x;");  // element j of a thread: mine[j * threads]
    const std::string threads = str(shape.threads());
    w.line("__syncthreads();");
    w.line("#pragma unroll");
    w.line(each + "mine[j * " + threads + "] = " + sum + "[j];");
    w.line("#pragma unroll 1");
    w.open("for (int half = " + str(shape.lanes / 2) + "; half > 0; half /= 2)");
    w.line("__syncthreads();");
    w.open("if (lane < half)");
    w.line("#pragma unroll");
    w.line(each + "mine[j * " + threads + "] = " +
           combined(inst.prim, inst.dtype, "mine[j * " + threads + "]",
                    "mine[j * " + threads + " + half * " + groups + "]") +
           ";");
    w.close();
    w.close();
    w.line("__syncthreads();");
    w.line("#pragma unroll");
    w.line(each + v + "[j] = ((" + type(id) + "*)scratch + group)[j * " + threads + "];");
    w.close();
  }

  // ---- ends

  void write_outer_stores() {
    if (nest.outer_stores.empty()) return;
    // Other lanes may still read what is overwritten.
    if (shape.is_column || shape.lanes > 32) w.line("__syncthreads();");
    else w.line("__syncwarp();");
    w.open("if (lane == 0 && is_live)");
    for (std::size_t s = 0; s < nest.outer_stores.size(); ++s) {
      const Store& store = nest.outer_stores[s];
      const std::string source = "o" + str(static_cast<int>(s));
      if (w.along(store.access) == Along::constant) {
        std::string value = w.name[store.value];
        if (is_array(store.value)) value = "v" + str(store.value) + "[0]";
        w.store_one(store, value, place_, "");
        continue;
      }
      w.line(memory_type(nest.inst(store.value).dtype) + " " + source + "[" + str(shape.width) + "];");
      w.line("#pragma unroll");
      w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + source + "[j] = " + w.name[store.value] + ";");
      w.store_vector(store, source, place_);
    }
    w.close();
  }

  std::int64_t outputs() const { return nest.points(nest.parallel); }
  std::string partials(InstId id) {
    return "((" + type(id) + "*)(a.workspace + " + w.number("w" + str(id), partial_place(id)) + "))";
  }
  /// Bytes before the partial results of this reduction.
  std::int64_t partial_place(InstId id) const {
    std::int64_t place = 0;
    for (InstId other : nest.reductions_of(0)) {
      if (other == id) break;
      place += partial_bytes(other);
    }
    return place;
  }

  std::int64_t partial_bytes(InstId id) const {
    const std::int64_t pieces = shape.splits * outputs();
    if (is_fold(id)) return is_holder(id) ? fold(id).partial_bytes(pieces) : 0;
    return quotient_up(pieces * size_of(nest.inst(id).dtype), 256) * 256;
  }

  void write_partial(InstId id) {
    w.open("if (lane == 0 && is_live)");
    const std::string outputs_text = w.number("outputs", outputs());
    if (shape.is_column) {
      w.line("#pragma unroll");
      w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + partials(id) + "[(I)blockIdx.y * " + outputs_text +
             " + item * " + str(shape.width) + " + j] = v" + str(id) + "[j];");
    } else {
      w.line(partials(id) + "[(I)blockIdx.y * " + outputs_text + " + item] = v" + str(id) + ";");
    }
    w.close();
  }

  /// A second kernel puts the pieces together: one thread for each result, or a warp where results are few.
  void write_finish() {
    const std::vector<InstId> reductions = nest.reductions_of(0);
    const InstId last = reductions.back();
    w.add_workspace(partial_place(last) + partial_bytes(last));
    in_finish_ = true;
    const int lanes = outputs() < 8192 ? 32 : 1, threads = 128;
    const std::string entry = w.entry("finish", threads), outputs_text = w.number("outputs", outputs());
    w.set_vector(-1, 1);
    w.line("const int lane = (int)(threadIdx.x % " + str(lanes) + ");");
    w.line("const I wanted = (I)blockIdx.x * " + str(threads / lanes) + " + (int)(threadIdx.x / " + str(lanes) + ");");
    w.line("const bool is_live = wanted < " + outputs_text + ";");
    w.line("const I item = is_live ? wanted : " + outputs_text + " - 1;");
    place_ = w.decode("item", nest.parallel);
    write_outer(0);
    for (InstId id : reductions) {
      const Inst& inst = nest.inst(id);
      const std::string sum = "sum" + str(id);
      if (is_fold(id)) {
        if (is_holder(id)) fold(id).read_partials(partial_place(id), outputs(), lanes);
        fold(id).declare_result(id, false);
        w.name[id] = "v" + str(id);
        continue;
      }
      w.line(type(id) + " " + sum + " = " + neutral(inst.prim, inst.dtype) + ";");
      // Several loads at once, the last of them idle: a loop unrolled by the compiler is three loops.
      const int batch = shape.splits > lanes * 2 ? 8 : 2;
      const std::string splits = w.number("splits", shape.splits),
                        each = "for (int i = 0; i < " + str(batch) + "; ++i) ", at = "s + i * " + str(lanes);
      w.line("#pragma unroll 1");
      w.open("for (I s = lane; s < " + splits + "; s += " + str(lanes * batch) + ")");
      w.line(type(id) + " piece[" + str(batch) + "];");
      w.line("#pragma unroll");
      w.line(each + "piece[i] = " + at + " < " + splits + " ? " + partials(id) + "[(" + at + ") * " + outputs_text +
             " + item] : " + neutral(inst.prim, inst.dtype) + ";");
      w.line("#pragma unroll");
      w.line(each + sum + " = " + combined(inst.prim, inst.dtype, sum, "piece[i]") + ";");
      w.close();
      if (lanes > 1) shuffle(id, sum, lanes);
      w.line("const " + type(id) + " v" + str(id) + " = " + sum + ";");
      w.name[id] = "v" + str(id);
    }
    write_outer(1);
    w.line("__syncwarp();");
    w.open("if (lane == 0 && is_live)");
    for (const Store& store : nest.outer_stores) w.store_one(store, w.name[store.value], place_, "");
    w.close();
    w.close();
    w.add_step(entry, quotient_up(outputs(), threads / lanes), 1, threads);
  }

  Writer& w;
  const Nest& nest;
  const ReductionShape shape;
  IndexNames place_;
  Nest::KeptWalks walks_;
  Online online_;
  Shared shared_;
  bool in_finish_ = false, has_scratch_ = false;
};

SINTER_DECL void write_reduction(Writer& writer) { ReductionWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
