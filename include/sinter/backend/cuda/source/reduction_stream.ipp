// The kernels: what a team meets by, then the walks of an iteration, last one first.
#pragma once

#include <sinter/backend/cuda/source/reduction_stream.hpp>

#include <sinter/backend/cuda/source/reduction_shape.hpp>
#include <sinter/backend/cuda/source/reduction_sum.hpp>
#include <sinter/backend/cuda/source/row_stream.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

inline constexpr std::size_t stream_stage = 1;  // node 0 is the variant

SINTER_DECL bool is_stream(const LoopNest& nest) { return nest.nodes[stream_stage].axis > 1; }

class RowStreamWriter {
 public:
  RowStreamWriter(Writer& writer, const LoopNest& the_nest)
      : w(writer),
        bound(writer.bound),
        nest(the_nest),
        shape(shape_of(the_nest, stream_stage, writer.bound)),
        teams_(static_cast<int>(std::min<std::int64_t>(shape.items, teams_of(shape, writer.device)))) {
    read_stages(stream_stage);
    read_stream();
  }

  void run() {
    w.set_vector(shape.vector_axis, shape.width);
    write_clear();
    const std::string entry = w.entry("rows", shape.threads(), RowStream::blocks_of_processor);
    write_place();
    write_rings();
    write_weights();
    w.line("#pragma unroll 1");
    w.open("for (I n = 0; n < " + str(RowStream::ahead) + "; ++n)");
    write_copies("n", {&stream_.late, &stream_.early});
    w.line("copy_async_commit();");
    w.close();
    w.line("#pragma unroll 1");
    w.open("for (I t = 0; t < rows + " + str((stages() - 1) * RowStream::lag) + "; ++t)");
    write_iteration();
    w.close();
    w.close();
    w.add_step(entry, std::int64_t{teams_} * shape.team, 1, shape.threads(),
               static_cast<unsigned>(ring_bytes(bound, shape, stream_)));
    w.set_cooperative();
  }

 private:
  /// A walk over a row, or what comes after the last one.
  struct Stage {
    std::vector<InstId> outer;  // once for each row, in order
    std::vector<InstId> known;  // reductions that earlier walks found
    Walk walk{};
    bool has_walk = false;
    StoreList outer_stores{};
  };

  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(bound.inst(id).dtype); }
  int stages() const { return static_cast<int>(stages_.size()); }
  int elements() const { return shape.steps * shape.width; }

  // ---- what the nest says

  void read_stages(std::size_t place) {
    nest.for_each_child(place, [&](std::size_t child) {
      const NestNode& node = nest.nodes[child];
      const bool is_walk = node.kind == NestNodeKind::fold ||
                           (node.kind == NestNodeKind::loop && nest.loop_of(node).mode == LoopMode::lanes);
      if (is_walk) return read_stage(child);
      if (node.kind == NestNodeKind::loop) return read_stages(child);
      if (node.kind == NestNodeKind::compute) {
        const auto ids = nest.ids_of(node);
        outer_.insert(outer_.end(), ids.begin(), ids.end());
      }
      if (node.kind != NestNodeKind::store) return;
      if (stages_.empty() || !stages_.back().walk.reductions.empty())
        stages_.push_back({.outer = outer_, .known = numbers_});
      stages_.back().outer_stores.push_back(node.first);
    });
  }
  void read_stage(std::size_t place) {
    stages_.push_back({.outer = outer_, .known = numbers_, .walk = read_walk(nest, place), .has_walk = true});
    const std::vector<InstId>& found = stages_.back().walk.reductions;
    numbers_.insert(numbers_.end(), found.begin(), found.end());
  }
  void read_stream() {
    stream_.walks = 0;
    for (const Stage& stage : stages_) stream_.walks += stage.has_walk;
    for (const Buffer& buffer : nest.buffers)
      (bound.inst(buffer.value).prim == Prim::load ? stream_.late : stream_.values).push_back(buffer.value);
    for (const Stage& stage : stages_)
      for (const InstId id : stage.walk.early) {
        if (bound.is_shared_by_rows(id)) weights_.push_back(id);
        else if (!stream_.keeps(id)) stream_.early.push_back(id);
      }
    std::sort(weights_.begin(), weights_.end());
    weights_.erase(std::unique(weights_.begin(), weights_.end()), weights_.end());
    constexpr int most_words = 16;  // of a thread's registers
    std::int64_t words = 0;
    for (const InstId id : weights_)
      words += std::int64_t{elements()} * (size_of(computed_in(bound.inst(id).dtype)) == 8 ? 2 : 1);
    if (words > most_words) weights_.clear();
  }

  // ---- once for all rows

  std::int64_t words_of_team() const {
    return std::int64_t{RowStream::rows_met} * static_cast<std::int64_t>(numbers_.size()) * shape.team;
  }
  void write_clear() {
    constexpr int threads = 256;
    const std::int64_t words = words_of_team() * teams_;
    const std::string entry = w.entry("clear", threads);
    w.line("const I at = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x;");
    w.line("if (at < " + w.number("words", words) + ") ((unsigned long long*)a.workspace)[at] = 0;");
    w.close();
    w.add_step(entry, quotient_up(words, threads), 1, threads);
    w.add_workspace(words * 8);
  }
  void write_place() {
    const std::string team = str(shape.team), threads = str(shape.threads()), teams = str(teams_);
    w.line("// " + str(std::int64_t{teams_} * shape.team) + " blocks run at once");
    w.line("const int team = (int)blockIdx.x / " + team + ", rank = (int)blockIdx.x % " + team + ";");
    w.line("const int lane = rank * " + threads + " + (int)threadIdx.x, warp = (int)threadIdx.x / 32;");
    w.line("const I end = " + w.number("length", shape.length) + ";");
    w.line("const I rows = (" + w.number("items", shape.items) + " - team + " + str(teams_ - 1) + ") / " + teams + ";");
    w.line("unsigned long long* const words = (unsigned long long*)a.workspace + team * " + str(words_of_team()) + ";");
  }
  std::string pack_type(InstId id) const {
    const Inst& inst = bound.inst(id);
    const std::string of = inst.prim == Prim::load ? memory_type(bound.dtype_of(inst.access)) : value_type(inst.dtype);
    return "Pack<" + of + ", " + str(shape.width) + ">";
  }
  void write_rings() {
    w.line("unsigned char* const rings = dynamic_shared();");
    std::int64_t place = 0;
    for (const auto* list : {&stream_.late, &stream_.early, &stream_.values})
      for (const InstId id : *list) {
        w.line(pack_type(id) + "* const ring" + str(id) + " = (" + pack_type(id) + "*)(rings + " + str(place) +
               ") + threadIdx.x;");
        place += stream_.places(id) * place_bytes(bound, shape, id);
      }
    for (const InstId id : numbers_)
      w.line("__shared__ " + type(id) + " parts" + str(id) + "[" + str(shape.threads() / 32) + "], all" + str(id) +
             "[" + str(RowStream::rows_met) + "];");
  }
  std::string in_ring(InstId id, const std::string& row) const {
    return "ring" + str(id) + "[((int)(" + row + " % " + str(stream_.places(id)) + ") * " + str(shape.steps) +
           " + i) * " + str(shape.threads()) + "]";
  }
  /// What all rows share stays in registers, if it is not too much.
  void write_weights() {
    for (const InstId id : weights_) w.line(w.declaration(id) + "[" + str(elements()) + "] = {};");
    if (weights_.empty()) return;
    const IndexNames index = open_steps(IndexNames{});
    for (const InstId id : weights_) {
      w.load_vector(id, "v" + str(id), "i * " + str(shape.width), index);
      w.name[id] = "v" + str(id) + "[i * " + str(shape.width) + " + j]";
    }
    close_steps();
  }
  bool is_weight(InstId id) const { return std::find(weights_.begin(), weights_.end(), id) != weights_.end(); }

  // ---- rows

  /// A thread's accesses of a row.
  IndexNames open_steps(const IndexNames& place) {
    w.unroll("for (int i = 0; i < " + str(shape.steps) + "; ++i)");
    w.line("const I e = (I)(i * " + str(std::int64_t{shape.team} * shape.lanes) + " + lane) * " + str(shape.width) +
           ";");
    w.open("if (e < end)");
    return w.decode_reduced(place, "e");
  }
  void close_steps() { w.close(), w.close(); }
  IndexNames write_item(const std::string& row) {
    w.line("const I item = team + " + row + " * " + str(teams_) + ";");
    return w.decode("item", bound.parallel, 1);
  }

  void write_copies(const std::string& row, std::initializer_list<const std::vector<InstId>*> lists) {
    if (std::all_of(lists.begin(), lists.end(), [](const auto* list) { return list->empty(); })) return;
    w.open("if (" + row + " < rows)");
    const IndexNames index = open_steps(write_item(row));
    for (const auto* list : lists)
      for (const InstId id : *list) {
        const std::uint16_t access = bound.inst(id).access;
        const std::int64_t bytes = shape.width * size_of(bound.dtype_of(access));
        if (shape.width > 1) w.require_alignment();
        w.line("copy_async<" + str(bytes) + ">(&" + in_ring(id, row) + ", " + w.pointer(access) + " + " +
               w.offset(access, index) + ", true);");
      }
    close_steps();
    w.close();
  }

  /// Walks of rows that lie `lag` apart; the last one leaves the place to which the row that comes next is copied.
  void write_iteration() {
    write_meetings();
    w.line("__syncthreads();");
    for (int s = stages() - 1; s >= 0; --s) {
      if (s == 0) w.line("copy_async_wait<" + str(RowStream::ahead - 1) + ">();");
      open_row(s);
      write_stage(stages_[as_index(s)]);
      w.close();
      if (s == stream_.walks - 1) write_next(stream_.late);
    }
    write_next(stream_.early);
    w.line("copy_async_commit();");
    w.line("__syncthreads();");
    write_sends();
  }
  void open_row(int stage) {
    w.open("if (const I n = t - " + str(std::int64_t{stage} * RowStream::lag) + "; n >= 0 && n < rows)");
  }
  void write_next(const std::vector<InstId>& loads) {
    if (loads.empty()) return;
    w.open("");
    w.line("const I next = t + " + str(RowStream::ahead) + ";");
    write_copies("next", {&loads});
    w.close();
  }

  /// Calls write(number, its stage): a warp for each number that a walk finds.
  template <class Write>
  void each_number(int after, Write&& write) {
    int warp = 0;
    for (int s = 0; s < stages(); ++s)
      for (const InstId id : stages_[as_index(s)].walk.reductions) {
        w.open("if (warp == " + str(warp) + ")");
        open_row(s + after);
        write(id, warp++);
        w.close();
        w.close();
      }
  }
  std::string words_of(int number) const {
    return "words + ((int)(n % " + str(RowStream::rows_met) + ") * " + str(static_cast<std::int64_t>(numbers_.size())) +
           " + " + str(number) + ") * " + str(shape.team);
  }
  std::string merged(InstId id, const std::string& a, const std::string& b) const {
    return combined(bound.inst(id).prim, bound.inst(id).dtype, a, b);
  }
  void shuffle(InstId id, const std::string& value, int lanes) {
    w.unroll("for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)");
    w.line("const " + type(id) + " other = __shfl_xor_sync(0xffffffffu, " + value + ", m);");
    w.line(value + " = " + merged(id, value, "other") + ";");
    w.close();
  }
  /// What all blocks found in a row's walk, once it has arrived. Each lane asks every 32nd block.
  void write_meetings() {
    each_number(1, [&](InstId id, int number) {
      const std::string count = str(quotient_up(shape.team, 32));
      w.line("const unsigned long long* const from = " + words_of(number) + ";");
      w.line("unsigned long long word[" + count + "];");
      w.unroll("for (int i = 0; i < " + count + "; ++i)");
      w.line("const int block = (int)threadIdx.x % 32 + i * 32;");
      w.line("word[i] = block < " + str(shape.team) + " ? read_word(from + block) : 0;");
      w.close();
      w.line(type(id) + " sum = " + neutral(bound.inst(id).prim, bound.inst(id).dtype) + ";");
      w.unroll("for (int i = 0; i < " + count + "; ++i)");
      w.line("const int block = (int)threadIdx.x % 32 + i * 32;");
      w.open("if (block < " + str(shape.team) + ")");
      w.line("while ((unsigned)(word[i] >> 32) != (unsigned)n + 1) word[i] = read_word(from + block);");
      w.line(type(id) + " part;");
      w.line("of_word(part, (unsigned)word[i]);");
      w.line("sum = " + merged(id, "sum", "part") + ";");
      w.close();
      w.close();
      shuffle(id, "sum", 32);
      w.line("if (threadIdx.x % 32 == 0) all" + str(id) + "[n % " + str(RowStream::rows_met) + "] = sum;");
    });
  }
  void write_sends() {
    each_number(0, [&](InstId id, int number) {
      const int warps = shape.threads() / 32;
      w.line(type(id) + " sum = parts" + str(id) + "[threadIdx.x % " + str(warps) + "];");
      shuffle(id, "sum", warps);
      w.line("if (threadIdx.x % 32 == 0) send_word(" + words_of(number) + " + rank, (unsigned)n + 1, word_of(sum));");
    });
  }

  // ---- one walk

  void write_stage(const Stage& stage) {
    const IndexNames place = write_item("n");
    for (const InstId id : stage.known) {
      w.line("const " + w.declaration(id) + " = all" + str(id) + "[n % " + str(RowStream::rows_met) + "];");
      w.name[id] = "v" + str(id);
    }
    for (const InstId id : stage.outer) {
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, place, "") + ";");
      w.name[id] = "v" + str(id);
    }
    if (stage.has_walk) write_walk(stage.walk, place);
    if (stage.outer_stores.empty()) return;
    w.open("if (lane == 0)");
    for (const std::uint16_t s : stage.outer_stores)
      w.store_one(bound.kernel.stores[s], w.name[bound.kernel.stores[s].value], place, "");
    w.close();
  }
  void write_walk(const Walk& walk, const IndexNames& place) {
    for (const InstId id : walk.reductions) SumText(w, shape, id).declare(false);
    const IndexNames index = open_steps(place);
    for (const InstId id : walk.early) write_load(id, index);
    if (walk.shared == NestNodeKind::fetch)
      for (const InstId id : walk.in_shared) fetch(id);
    const bool keeps = walk.shared == NestNodeKind::keep;
    for (const InstId id : walk.in_shared)
      if (keeps && bound.inst(id).prim != Prim::load) w.line(pack_type(id) + " k" + str(id) + ";");
    for (std::size_t s = 0; s < walk.stores.size(); ++s)
      w.line(memory_type(bound.inst(store_of(walk, s).value).dtype) + " s" + str(static_cast<std::int64_t>(s)) + "[" +
             str(shape.width) + "];");
    w.unroll("for (int j = 0; j < " + str(shape.width) + "; ++j)");
    for (const InstId id : walk.values) {
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "j") + ";");
      w.name[id] = "v" + str(id);
    }
    for (const InstId id : walk.in_shared)
      if (keeps && bound.inst(id).prim != Prim::load) w.line("k" + str(id) + ".v[j] = v" + str(id) + ";");
    for (const InstId id : walk.reductions) SumText(w, shape, id).feed("");
    for (std::size_t s = 0; s < walk.stores.size(); ++s)
      w.line("s" + str(static_cast<std::int64_t>(s)) + "[j] = " + w.name[store_of(walk, s).value] + ";");
    w.close();
    for (const InstId id : walk.in_shared)
      if (keeps && bound.inst(id).prim != Prim::load) w.line(in_ring(id, "n") + " = k" + str(id) + ";");
    write_stores(walk, index);
    close_steps();
    for (const InstId id : walk.reductions) {
      shuffle(id, "sum" + str(id), 32);
      w.line("if (threadIdx.x % 32 == 0) parts" + str(id) + "[warp] = sum" + str(id) + ";");
    }
  }
  const Store& store_of(const Walk& walk, std::size_t s) const { return bound.kernel.stores[walk.stores[s]]; }
  void write_stores(const Walk& walk, const IndexNames& index) {
    w.set_use(Writer::Use::once);
    for (std::size_t s = 0; s < walk.stores.size(); ++s) {
      const Store& store = store_of(walk, s);
      const std::string source = "s" + str(static_cast<std::int64_t>(s));
      if (w.along(store.access) == Along::constant) w.store_one(store, source + "[0]", index, "");
      else w.store_vector(store, source, index);
    }
    w.set_use(Writer::Use::again);
  }
  /// Of an access of the first walk, from its ring; of what all rows share, from memory, if it is not there already.
  void write_load(InstId id, const IndexNames& index) {
    if (is_weight(id)) return;
    if (!bound.is_shared_by_rows(id)) return fetch(id);
    w.name[id] = "v" + str(id);
    if (!w.is_along(id)) {
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
      return;
    }
    w.line(w.declaration(id) + "[" + str(shape.width) + "];");
    w.load_vector(id, "v" + str(id), "", index);
    w.name[id] += "[j]";
  }
  void fetch(InstId id) {
    const Inst& inst = bound.inst(id);
    w.line("const " + pack_type(id) + " p" + str(id) + " = " + in_ring(id, "n") + ";");
    const std::string element = "p" + str(id) + ".v[j]";
    w.name[id] = inst.prim == Prim::load ? "(" + w.loaded(inst.access, element) + ")" : element;
  }

  Writer& w;
  const BoundKernel& bound;
  const LoopNest& nest;
  const ThreadShape shape;
  const int teams_;
  std::vector<Stage> stages_;
  std::vector<InstId> outer_, numbers_;  // so far; of all walks in the end
  std::vector<InstId> weights_;          // loads that all rows share, in registers
  RowStream stream_;
};

SINTER_DECL void write_row_stream(Writer& writer, const LoopNest& nest) { RowStreamWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
