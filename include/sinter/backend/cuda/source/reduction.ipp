// The kernels, walk by walk.
#pragma once

#include <sinter/backend/cuda/source/reduction.hpp>

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/backend/cuda/source/reduction_fold.hpp>
#include <sinter/backend/cuda/source/reduction_shape.hpp>
#include <sinter/backend/cuda/source/reduction_sum.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ReductionWriter {
 public:
  ReductionWriter(Writer& writer, const LoopNest& the_nest)
      : w(writer),
        bound(writer.bound),
        nest(the_nest),
        shape(shape_of(the_nest, first_stage, writer.bound)),
        tiles_near_(tiles_in_registers(the_nest, shape, writer)) {}

  void run() {
    w.set_vector(shape.vector_axis, shape.width);
    const std::string entry = w.entry(shape.is_column ? "columns" : "rows", shape.threads(),
                                      shape.clusters_of_processor(), shape.cluster > 1 ? shape.cluster : 0);
    place_ = write_place();
    write_body(first_stage);
    w.add_step(entry, quotient_up(shape.items, shape.groups) * shape.cluster, shape.splits, shape.threads(),
               shared_bytes());
    if (shape.splits > 1) write_finish(nest.nodes[first_stage].end);
  }

 private:
  static constexpr std::size_t first_stage = 1;  // node 0 is the variant

  // ---- nodes

  void write_body(std::size_t stage) {
    write_children(stage);
    if (outer_stores_ > 0) w.close();
    outer_stores_ = 0;
    w.close();
  }
  void write_children(std::size_t place) {
    nest.for_each_child(place, [&](std::size_t child) { write_node(child); });
  }
  void write_node(std::size_t place) {
    const NestNode& node = nest.nodes[place];
    if (node.kind == NestNodeKind::compute) {
      const auto ids = nest.ids_of(node);
      outer_.insert(outer_.end(), ids.begin(), ids.end());
      return;
    }
    const bool is_walk = node.kind == NestNodeKind::fold ||
                         (node.kind == NestNodeKind::loop && nest.loop_of(node).mode == LoopMode::lanes);
    if (node.kind == NestNodeKind::loop && !is_walk) return write_children(place);
    write_outer();
    if (is_walk) write_walk(place);
    if (node.kind == NestNodeKind::rescale) write_rescale(node.first);
    if (node.kind == NestNodeKind::barrier) open_outer_stores(node);
    if (node.kind == NestNodeKind::store) write_outer_store(bound.kernel.stores[node.first]);
  }

  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(bound.inst(id).dtype); }
  bool is_array(InstId id) const { return shape.is_column && !in_finish_ && w.is_along(id); }

  /// The thread's row or columns. Threads past the end repeat the last one, and store nothing.
  IndexNames write_place() {
    const std::string lanes = str(shape.lanes), groups = str(shape.groups);
    if (shape.is_column) {
      w.line("const int group = (int)(threadIdx.x % " + groups + "), lane = (int)(threadIdx.x / " + groups + ");");
    } else if (shape.cluster > 1) {
      const std::string blocks = str(shape.cluster);
      w.line("const int group = 0, rank = (int)(blockIdx.x % " + blocks + "), lane = rank * " + str(shape.threads()) +
             " + (int)threadIdx.x;");
      w.line("cluster_arrive();");
    } else {
      w.line("const int lane = (int)(threadIdx.x % " + lanes + "), group = (int)(threadIdx.x / " + lanes + ");");
    }
    const std::string items = w.number("items", shape.items);
    if (shape.cluster > 1) w.line("const I wanted = (I)blockIdx.x / " + str(shape.cluster) + ";");
    else w.line("const I wanted = (I)blockIdx.x * " + groups + " + group;");
    w.line("const bool is_live = wanted < " + items + ";");
    w.line("const I item = is_live ? wanted : " + items + " - 1;");
    IndexNames place = w.decode("item", bound.parallel, shape.is_column ? shape.width : 1);
    const std::string length = w.number("length", shape.length);
    if (shape.splits > 1) {
      const std::string chunk = w.number("chunk", shape.chunk);
      w.line("const I begin = (I)blockIdx.y * " + chunk + ";");
      w.line("const I end = begin + " + chunk + " < " + length + " ? begin + " + chunk + " : " + length + ";");
    } else {
      w.line("const I begin = 0, end = " + length + ";");
    }
    return place;
  }

  /// What is computed once per row or column at this place: numbers of it, and of its columns.
  void write_outer() {
    std::sort(outer_.begin(), outer_.end());
    for (const InstId id : outer_) {
      const std::string v = "v" + str(id);
      if (!is_array(id)) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, place_, "") + ";");
        w.name[id] = v;
        continue;
      }
      w.line(w.declaration(id) + "[" + str(shape.width) + "];");
      w.name[id] = v + "[j]";
      if (bound.inst(id).prim == Prim::load) {
        w.load_vector(id, v, "", place_);
      } else {
        w.line("#pragma unroll");
        w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + v + "[j] = " + w.value_of(id, place_, "j") +
               ";");
      }
    }
    outer_.clear();
    if (!in_finish_) declare_buffers();
  }

  // ---- walks

  int elements() const { return shape.steps * shape.width; }
  std::string place_of(InstId id) const {  // in an array of the tile
    return w.is_along(id) ? "[" + vector_place(id) + " + j]" : "[i]";
  }
  /// What stays in registers has an array for all of its tiles.
  bool is_near(InstId id) const {
    return is_in_registers_ && std::any_of(nest.buffers.begin(), nest.buffers.end(), [&](const Buffer& buffer) {
             return buffer.space == BufferSpace::shared && buffer.value == id;
           });
  }
  std::string tile_array(InstId id) const { return (is_near(id) ? "near" : "v") + str(id); }
  std::string vector_place(InstId id) const {
    return (is_near(id) ? "r * " + str(elements()) + " + i * " : "i * ") + str(shape.width);
  }
  void declare_tile(InstId id) {
    w.line(w.declaration(id) + "[" + str(w.is_along(id) ? elements() : shape.steps) + "];");
  }

  /// What stays from walk to walk.
  void declare_buffers() {
    if (has_buffers_) return;
    has_buffers_ = true;
    if (shape.is_resident) {
      is_kept_.assign(bound.kernel.body.size(), false);
      for (const Buffer& buffer : nest.buffers) is_kept_[buffer.value] = true;
      w.line("const I t = 0;");
      for (std::size_t i = 0; i < is_kept_.size(); ++i)
        if (is_kept_[i] && bound.kernel.body[i].prim != Prim::load)
          w.line(w.declaration(static_cast<InstId>(i)) + "[" + str(elements()) + "];");
    }
    declare_shared();
  }

  /// Opens the loop over the thread's accesses of a tile.
  IndexNames open_steps() {
    w.unroll("for (int i = 0; i < " + str(shape.steps) + "; ++i)");
    const std::string lanes = str(shape.lanes);
    w.line(shape.is_column ? "const I e = t + i * " + lanes + " + lane;"
                           : "const I e = t + (i * " + lanes + " + lane) * " + str(shape.width) + ";");
    w.open(shape.is_exact ? "" : "if (e < end)");
    return w.decode_reduced(place_, "e");
  }
  void close_steps() { w.close(), w.close(); }

  void write_loads(const Walk& walk) {
    std::vector<InstId> loads = walk.early;
    if (walk.shared == NestNodeKind::fetch) loads.insert(loads.end(), walk.in_shared.begin(), walk.in_shared.end());
    std::sort(loads.begin(), loads.end());
    for (InstId id : loads) {
      if (!is_near(id)) declare_tile(id);
      w.name[id] = tile_array(id) + place_of(id);
    }
    is_last_ = !walk.stores.empty();
    if (is_in_registers_) return load_near(walk);
    if (walk.shared == NestNodeKind::fetch) write_shared_loads(walk.in_shared);
    if (walk.shared == NestNodeKind::keep) return load_and_keep(walk);
    if (!walk.early.empty()) load_tile(walk.early);
  }
  /// Of a tile that stays in registers: the first walk loads it.
  void load_near(const Walk& walk) {
    std::vector<InstId> others = walk.early;
    if (walk.shared == NestNodeKind::keep) {
      std::erase_if(others, [&](InstId id) { return is_near(id); });
      w.set_use(Writer::Use::once);
      load_tile(walk.in_shared);
      w.set_use(Writer::Use::again);
    }
    if (!others.empty()) load_tile(others);
  }
  bool has_rest() const { return shape.cluster > 1 && in_shared_ > 0 && in_shared_ < shape.length; }
  /// What stays in shared memory is not read again, so caches may keep the rest of the row.
  void load_and_keep(const Walk& walk) {
    if (has_rest()) {
      w.open("if (t < in_shared)");
      w.set_use(Writer::Use::once);
      load_tile(walk.in_shared);
      w.set_use(Writer::Use::again);
      w.close();
      w.open("else");
      load_tile(walk.in_shared);
      w.close();
      std::vector<InstId> others = walk.early;
      std::erase_if(others, [&](InstId id) {
        return std::find(walk.in_shared.begin(), walk.in_shared.end(), id) != walk.in_shared.end();
      });
      if (!others.empty()) load_tile(others);
    } else {
      load_tile(walk.early);
    }
    fill_shared(walk.in_shared);
  }
  void load_tile(const std::vector<InstId>& loads) {
    const IndexNames index = open_steps();
    for (InstId id : loads) {
      const std::string v = tile_array(id);
      if (w.is_along(id)) w.load_vector(id, v, vector_place(id), index);
      else w.line(v + "[i] = " + w.value_of(id, index, "") + ";");
    }
    close_steps();
  }

  void declare_sums(const std::vector<InstId>& reductions) {
    for (InstId id : reductions) {
      if (!is_fold(id)) sum(id).declare(shape.is_column);
      else if (is_holder(id)) fold(id).declare(shape.is_column);
    }
  }

  /// The loop over the tiles of a range. Four loads in flight per thread are several times what memory needs; more only
  /// compiles longer.
  void open_tiles(std::size_t loads) {
    const int in_flight = std::max(1, static_cast<int>(loads) * shape.steps);
    w.line("#pragma unroll " + str(std::max(1, 4 / in_flight)));
    w.open("for (I t = begin" + (tiles_near_ > 0 ? " + " + str(tiles_near_ * shape.tile()) : std::string()) +
           "; t < end; t += " + str(shape.tile()) + ")");
  }
  /// `write` emits what is done with a tile: those that stay in registers, then all others.
  template <class Write>
  void each_tile(const Walk& walk, Write&& write) {
    if (shape.is_resident) return write();
    if (tiles_near_ > 0) {
      w.unroll("for (int r = 0; r < " + str(tiles_near_) + "; ++r)");
      w.line("const I t = begin + r * " + str(shape.tile()) + ";");
      is_in_registers_ = true;
      write();
      is_in_registers_ = false;
      w.close();
    }
    open_tiles(walk.loads());
    write();
    w.close();
  }

  void write_walk(std::size_t place) {
    if (in_finish_) return write_pieces(place);
    Walk walk = read_walk(nest, place);
    if (walk.part == FoldPart::online) return write_online(walk);
    declare_sums(walk.reductions);
    each_tile(walk, [&] {
      write_loads(walk);
      write_values(walk);
    });
    for (InstId id : walk.reductions) put_together(id);
  }

  const Store& store_of(const Walk& walk, std::size_t s) const { return bound.kernel.stores[walk.stores[s]]; }
  void write_values(const Walk& walk) {
    const IndexNames index = open_steps();
    for (std::size_t s = 0; s < walk.stores.size(); ++s)
      w.line(memory_type(bound.inst(store_of(walk, s).value).dtype) + " s" + std::to_string(s) + "[" +
             str(shape.width) + "];");
    for (InstId id : walk.values)
      if (bound.inst(id).prim == Prim::load) load_step(id, index);
    w.unroll("for (int j = 0; j < " + str(shape.width) + "; ++j)");
    for (InstId id : walk.values) {
      if (bound.inst(id).prim == Prim::load) continue;
      const std::string value = w.value_of(id, index, "j"), v = "v" + str(id);
      const bool stays = shape.is_resident && is_kept_[id];
      w.name[id] = stays ? v + "[i * " + str(shape.width) + " + j]" : v;
      w.line((stays ? w.name[id] : "const " + w.declaration(id)) + " = " + value + ";");
    }
    for (InstId id : walk.reductions) feed(id);
    for (std::size_t s = 0; s < walk.stores.size(); ++s)
      w.line("s" + std::to_string(s) + "[j] = " + w.name[store_of(walk, s).value] + ";");
    w.close();
    if (!walk.stores.empty()) {
      w.open("if (is_live)");
      w.set_use(has_rest() ? Writer::Use::once : Writer::Use::again);
      for (std::size_t s = 0; s < walk.stores.size(); ++s) store(store_of(walk, s), "s" + std::to_string(s), index);
      w.set_use(Writer::Use::again);
      w.close();
    }
    close_steps();
  }

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
    const std::string place = shape.is_column ? "[j]" : "";
    if (!is_fold(id)) sum(id).feed(place);
    else if (is_holder(id)) fold(id).feed(place);
  }

  // ---- rows that are longer than registers: their start stays in shared memory

  unsigned shared_bytes() const {
    std::int64_t bytes = 0;
    for (const Buffer& buffer : nest.buffers) bytes += bytes_in_shared(buffer);
    return static_cast<unsigned>(bytes);
  }
  std::int64_t bytes_in_shared(const Buffer& buffer) const {
    if (buffer.space != BufferSpace::shared) return 0;
    return (buffer.points - tiles_near_ * shape.tile()) / shape.cluster * size_of(bound.inst(buffer.value).dtype);
  }
  void declare_shared() {
    std::int64_t place = 0;
    for (const Buffer& buffer : nest.buffers) {
      if (buffer.space != BufferSpace::shared) continue;
      in_shared_ = buffer.points;
      if (tiles_near_ > 0)
        w.line(type(buffer.value) + " near" + str(buffer.value) + "[" + str(tiles_near_ * elements()) + "];");
      if (place == 0) {
        w.line("unsigned char* const row_start = dynamic_shared();");
        w.line("const I in_shared = " + str(buffer.points) + ";");
      }
      const std::string pack = "Pack<" + type(buffer.value) + ", " + str(shape.width) + ">";
      w.line(pack + "* const kept" + str(buffer.value) + " = (" + pack + "*)(row_start + " + str(place) +
             (shape.cluster > 1 ? ") + threadIdx.x;" : ") + lane;"));
      place += bytes_in_shared(buffer);
    }
  }

  // A thread reads what it wrote itself, so nothing waits.
  std::string shared_place(InstId id) const {
    const std::string before = tiles_near_ > 0 ? " - " + str(tiles_near_) : "", tile = "(int)t / " + str(shape.tile());
    return "kept" + str(id) + "[(" + (before.empty() ? tile : "(" + tile + before + ")") + " * " + str(shape.steps) +
           " + i) * " + str(shape.threads()) + "]";
  }
  std::string shared_pack(InstId id) const { return "Pack<" + type(id) + ", " + str(shape.width) + "> p"; }
  std::string each_of_vector() const { return "for (int j = 0; j < " + str(shape.width) + "; ++j) "; }
  std::string tile_element(InstId id) const { return "v" + str(id) + "[i * " + str(shape.width) + " + j]"; }

  void fill_shared(const std::vector<InstId>& loads) {
    w.open("if (t < in_shared)");
    open_steps();
    for (InstId id : loads) {
      w.line(shared_pack(id) + str(id) + ";");
      w.line("#pragma unroll");
      w.line(each_of_vector() + "p" + str(id) + ".v[j] = " + tile_element(id) + ";");
      w.line(shared_place(id) + " = p" + str(id) + ";");
    }
    close_steps();
    w.close();
  }
  void write_shared_loads(const std::vector<InstId>& loads) {
    w.open("if (t < in_shared)");
    open_steps();
    for (InstId id : loads) {
      w.line("const " + shared_pack(id) + str(id) + " = " + shared_place(id) + ";");
      w.line("#pragma unroll");
      w.line(each_of_vector() + tile_element(id) + " = p" + str(id) + ".v[j];");
    }
    close_steps();
    w.close();
    w.open("else");
    w.set_use(is_last_ && has_rest() ? Writer::Use::once : Writer::Use::again);
    load_tile(loads);
    w.set_use(Writer::Use::again);
    w.close();
  }

  // ---- the greatest value and the sum of exponentials in one walk

  std::string exponential(const std::string& x, const std::string& shift) const {
    const DType dtype = bound.inst(online_.sum).dtype;
    return expression({.prim = Prim::exp, .dtype = dtype}, dtype, {x + " - " + shift, "", ""});
  }
  /// Of infinity and NaN, which differ from themselves.
  static std::string finite_or_zero(const std::string& x) { return x + " - " + x + " == 0 ? " + x + " : 0"; }

  /// The first two walks: a tile is read once for its greatest value, which rescales the sum so far, and its
  /// exponentials.
  void write_online(Walk& walk) {
    online_ = online_sum(bound.kernel, walk.reductions);
    const std::string own_type = type(online_.sum), greatest = "sum" + str(online_.greatest),
                      sum = "sum" + str(online_.sum), width = str(shape.width);
    declare_sums(walk.reductions);
    walk.reductions.pop_back();
    each_tile(walk, [&] {
      write_loads(walk);
      w.line(own_type + " x[" + str(elements()) + "];");
      w.line("const " + own_type + " before = " + greatest + ";");
      const IndexNames index = open_steps();
      w.unroll("for (int j = 0; j < " + width + "; ++j)");
      for (InstId id : walk.values) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "j") + ";");
        w.name[id] = "v" + str(id);
      }
      w.line("x[i * " + width + " + j] = " + w.name[online_.value] + ";");
      for (InstId id : walk.reductions) feed(id);
      w.close();
      close_steps();
      w.line("const " + own_type + " shift = " + finite_or_zero(greatest) + ";");
      w.line(sum + " = " + sum + " * " + exponential("before", "shift") + ";");
      open_steps();
      w.unroll("for (int j = 0; j < " + width + "; ++j)");
      w.line(sum + " = " + sum + " + " + exponential("x[i * " + width + " + j]", "shift") + ";");
      w.close();
      close_steps();
    });
    w.line("const " + own_type + " own_greatest = " + greatest + ";");
    for (InstId id : walk.reductions) put_together(id);
  }
  void write_rescale(InstId id) {
    const std::string own_type = type(id), sum = "sum" + str(id);
    w.line("const " + own_type + " own_shift = " + finite_or_zero(w.name[online_.greatest]) + ";");
    w.line(sum + " = " + sum + " * " + exponential("own_greatest", "own_shift") + " * " +
           exponential("own_shift", w.name[online_.shift]) + ";");
    put_together(id);
  }

  // ---- lanes put together

  /// Declares v<id>, the same in all lanes.
  void put_together(InstId id) {
    const std::string v = "v" + str(id);
    if (shape.cluster > 1 && !has_met_) w.line("cluster_wait();");
    has_met_ = true;
    w.name[id] = !shape.is_column ? v : w.is_along(id) ? v + "[j]" : v + "[0]";
    if (is_fold(id)) return put_fold_together(id);
    SumText text = sum(id);
    if (!shape.is_column) {
      text.put_row_together();
    } else {
      text.put_columns_together(has_scratch_ ? ColumnScratch::is_there : ColumnScratch::is_new);
      has_scratch_ |= shape.lanes > 1;
    }
    if (shape.splits > 1) text.write_partial(partial_place(id), outputs());
  }

  bool is_fold(InstId id) const { return bound.inst(id).prim == Prim::fold; }
  /// The first of the live results of a fold, which has its state.
  InstId holder(InstId id) const {
    for (InstId other = 0; other < id; ++other)
      if (bound.is_live(other) && shares_state(bound.inst(other), bound.inst(id))) return other;
    return id;
  }
  bool is_holder(InstId id) const { return holder(id) == id; }
  FoldText fold(InstId id) const { return FoldText(w, shape, holder(id)); }
  SumText sum(InstId id) const { return SumText(w, shape, id); }
  void put_fold_together(InstId id) {
    FoldText text = fold(id);
    if (is_holder(id)) {
      if (shape.is_column) text.put_columns_together();
      else text.put_row_together(in_finish_);
      if (shape.splits > 1) text.write_partial(partial_place(id), outputs());
    }
    if (shape.splits == 1) text.declare_result(id, shape.is_column);
  }

  // ---- ends

  /// By the first lane, when all have read.
  void open_outer_stores(const NestNode& barrier) {
    if (shape.cluster > 1) {
      w.line("cluster_arrive();");
      w.line("cluster_wait();");
    } else {
      w.line(barrier.count != 0 ? "__syncthreads();" : "__syncwarp();");
    }
    w.open("if (lane == 0 && is_live)");
  }
  void write_outer_store(const Store& store) {
    const std::string source = "o" + std::to_string(outer_stores_++);
    if (in_finish_) return w.store_one(store, w.name[store.value], place_, "");
    if (w.along(store.access) == Along::constant) {
      std::string value = w.name[store.value];
      if (is_array(store.value)) value = "v" + str(store.value) + "[0]";
      return w.store_one(store, value, place_, "");
    }
    w.line(memory_type(bound.inst(store.value).dtype) + " " + source + "[" + str(shape.width) + "];");
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + source + "[j] = " + w.name[store.value] + ";");
    w.store_vector(store, source, place_);
  }

  std::int64_t outputs() const { return bound.points(bound.parallel); }
  /// Bytes before the partial results of this reduction.
  std::int64_t partial_place(InstId id) const {
    std::int64_t place = 0;
    for (const Buffer& buffer : nest.buffers) {
      if (buffer.value == id) break;
      place += partial_bytes(buffer.value);
    }
    return place;
  }

  std::int64_t partial_bytes(InstId id) const {
    const std::int64_t pieces = shape.splits * outputs();
    if (is_fold(id)) return fold(id).partial_bytes(pieces);
    return sum(id).partial_bytes(pieces);
  }

  /// A second kernel puts the pieces together: one thread for each result, or a warp where results are few.
  void write_finish(std::size_t stage) {
    std::int64_t workspace = 0;
    for (const Buffer& buffer : nest.buffers) workspace += partial_bytes(buffer.value);
    w.add_workspace(workspace);
    in_finish_ = true;
    const int threads = nest.nodes[stage].count, lanes = shape_of(nest, stage, bound).lanes;
    const std::string entry = w.entry("finish", threads), outputs_text = w.number("outputs", outputs());
    w.set_vector(-1, 1);
    w.line("const int lane = (int)(threadIdx.x % " + str(lanes) + ");");
    w.line("const I wanted = (I)blockIdx.x * " + str(threads / lanes) + " + (int)(threadIdx.x / " + str(lanes) + ");");
    w.line("const bool is_live = wanted < " + outputs_text + ";");
    w.line("const I item = is_live ? wanted : " + outputs_text + " - 1;");
    place_ = w.decode("item", bound.parallel);
    write_body(stage);
    w.add_step(entry, quotient_up(outputs(), threads / lanes), 1, threads);
  }
  void write_pieces(std::size_t place) {
    const Loop& loop = nest.loop_of(nest.nodes[place + 1]);
    for (const InstId id : nest.ids_of(nest.nodes[place])) {
      if (is_fold(id)) {
        if (is_holder(id)) fold(id).read_partials(partial_place(id), outputs(), loop.lanes);
        fold(id).declare_result(id, false);
      } else {
        sum(id).read_partials(partial_place(id), outputs(), loop);
        w.line("const " + type(id) + " v" + str(id) + " = sum" + str(id) + ";");
      }
      w.name[id] = "v" + str(id);
    }
  }
  Writer& w;
  const BoundKernel& bound;
  const LoopNest& nest;
  const ThreadShape shape;
  IndexNames place_;
  std::vector<InstId> outer_;  // what is to be computed before the next walk
  std::vector<bool> is_kept_;  // of a resident row
  OnlineSum online_;
  int outer_stores_ = 0;  // that are written
  bool in_finish_ = false, has_buffers_ = false, has_scratch_ = false, has_met_ = false;
  bool is_last_ = false;           // of the walks
  bool is_in_registers_ = false;   // what is written is for tiles that stay there
  const std::int64_t tiles_near_;  // how many these are
  std::int64_t in_shared_ = 0;     // elements of a row that stay in shared memory
};

SINTER_DECL void write_reduction(Writer& writer, const LoopNest& nest) { ReductionWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
