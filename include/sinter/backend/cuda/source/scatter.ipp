// The kernels, stage by stage. A fault record may be cleared between them: each of them tells by itself which indices
// are out of range.
#pragma once

#include <sinter/backend/cuda/source/scatter.hpp>

#include <sinter/backend/cuda/source/scatter_nest.hpp>
#include <sinter/backend/cuda/source/scatter_sorted.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScatterWriter {
 public:
  ScatterWriter(Writer& writer, const LoopNest& the_nest)
      : w(writer),
        bound(writer.bound),
        nest(the_nest),
        store_(bound.kernel.stores[0]),
        dtype_(bound.inst(store_.value).dtype),
        axes_(bound) {
    w.set_vector(-1, 1);
  }

  void run() {
    nest.for_each_child(0, [&](std::size_t stage) { write_stage(stage); });
  }

 private:
  /// Where a warp finds what is meant for its place.
  enum class Hits : std::uint8_t { all_indices, list, sorted };

  void write_stage(std::size_t stage) {
    const Loop* places = nullptr;
    const NestNode* update = nullptr;
    Hits hits = Hits::all_indices;
    bool has_short_lists = false;
    threads_ = nest.nodes[stage].count;
    for (std::size_t at = stage + 1; at < nest.nodes[stage].end; ++at) {
      const NestNode& node = nest.nodes[at];
      if (node.kind == NestNodeKind::call) return write_call(nest.calls[node.first].kind);
      if (node.kind == NestNodeKind::update) update = &node;
      if (node.kind != NestNodeKind::loop) continue;
      const Loop& loop = nest.loop_of(node);
      if (is_over_places(loop)) places = &loop;
      has_short_lists |= loop.range == LoopRange::short_places;
      if (loop.range == LoopRange::block) elements_ = loop.copies;
      if (loop.range == LoopRange::listed) hits = is_sorted() ? Hits::sorted : Hits::list;
    }
    if (update == nullptr) return write_check();
    if (update->axis == static_cast<std::uint16_t>(UpdateOrder::atomic)) return write_atomic();
    if (places == nullptr) return write_in_order();
    if (hits == Hits::sorted && axes_.has_bins()) return bins().write_combined(sorted_places());
    if (hits == Hits::sorted && axes_.inner == 1) return write_sorted_elements(has_short_lists ? places->step : 0);
    if (hits == Hits::sorted) return write_sorted_rows();
    if (has_short_lists) return write_by_short_lists(places->step);
    if (places->range == LoopRange::long_places) return write_by_long_lists();
    write_by_places(hits);
  }
  bool is_sorted() const { return !nest.calls.empty() && nest.calls[0].kind == CallKind::sort; }
  void write_call(CallKind kind) { kind == CallKind::sort ? write_sort() : write_lists_of_places(); }

  /// u64 is computed on the bits of i64; extrema are those of the unsigned numbers.
  bool is_unsigned() const { return bound.dtype_of(store_.access) == DType::u64; }
  std::string extent_name() { return w.number("g" + Writer::str(store_.access), axes_.extent); }
  std::string place_stride() {
    return w.number("t" + Writer::str(store_.access), bound.geometry.accesses[store_.access].gather_stride);
  }
  std::string warps() const { return Writer::str(threads_ / 32); }
  std::string each_element() const { return "for (int c = 0; c < " + Writer::str(elements_) + "; ++c)"; }
  static IndexNames joined(IndexNames a, const IndexNames& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].empty()) a[i] = b[i];
    return a;
  }
  std::string combined_with(const std::string& old, const std::string& value) const {
    switch (store_.combine) {
      case Combine::none: return value;
      case Combine::add: return combined(Prim::reduce_add, dtype_, old, value);
      case Combine::mul: return combined(Prim::reduce_mul, dtype_, old, value);
      case Combine::min: return combined(Prim::reduce_min, dtype_, old, value);
      case Combine::max: return combined(Prim::reduce_max, dtype_, old, value);
    }
    __builtin_unreachable();
  }

  /// Declares what value `id` is made of, at these indices; its name.
  std::string value_at(InstId id, const IndexNames& at) {
    const std::vector<bool> under = instructions_under(bound.kernel.body, id);
    for (std::size_t i = 0; i < under.size(); ++i) {
      const auto inst = static_cast<InstId>(i);
      if (!under[i] || bound.inst(inst).prim == Prim::immediate) continue;
      const std::string value = w.value_of(inst, at, "");
      w.name[i] = "v" + Writer::str(inst);
      w.line("const " + w.declaration(inst) + " = " + value + ";");
    }
    return w.name[id];
  }
  void read_index(const IndexNames& at) {
    w.line("const long long found = (long long)" + value_at(store_.index, at) + ";");
  }
  std::string target() const { return w.pointer(store_.access); }
  std::string old_value(const std::string& place) const { return w.loaded(store_.access, place); }
  /// A kernel over `items`, one for each thread, that does nothing where an index was out of range.
  std::string open_items(const char* suffix, std::int64_t items) {
    const std::string entry = w.entry(suffix, threads_);
    w.line("const I item = (I)blockIdx.x * " + Writer::str(threads_) + " + (I)threadIdx.x;");
    w.line("if (item >= " + w.number("n" + std::string(suffix), items) + ") return;");
    return entry;
  }
  std::string is_out_of_range() { return "(unsigned long long)found >= (unsigned long long)" + extent_name(); }
  void skip_after_fault() { w.line("if (a.fault[0] != 0) return;"); }

  void write_check() {
    const std::int64_t items = bound.points(axes_.indexed);
    const std::string entry = open_items("check", items);
    IndexNames at;
    if (!axes_.indexed.empty()) at = w.decode("item", axes_.indexed);
    read_index(at);
    w.line("gather_ok(found, " + extent_name() + ", a.fault, a.tag);");
    w.close();
    w.add_step(entry, quotient_up(items, threads_), 1, threads_);
  }

  void write_atomic() {
    const std::int64_t items = bound.points(bound.parallel);
    const std::string entry = open_items("scatter", items);
    skip_after_fault();
    IndexNames at;
    if (!bound.parallel.empty()) at = w.decode("item", bound.parallel);
    read_index(at);
    w.line("if (" + is_out_of_range() + ") return;");
    w.open("");
    const std::string value = value_at(store_.value, at);
    const char* const function = store_.combine == Combine::add   ? "atomicAdd"
                                 : store_.combine == Combine::min ? "atomicMin"
                                                                  : "atomicMax";
    const bool is_wide_sum = dtype_ == DType::i64 && store_.combine == Combine::add;
    const std::string type = is_wide_sum || is_unsigned() ? "unsigned long long" : value_type(dtype_);
    w.line(std::string(function) + "((" + type + "*)(" + target() + " + " + w.offset(store_.access, at) +
           " + (I)found * " + place_stride() + "), (" + type + ")" + value + ");");
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items, threads_), 1, threads_);
  }

  // ---- lists

  void write_lists() {
    w.line("unsigned* const counts = (unsigned*)a.workspace;");
    w.line("unsigned* const starts = counts + " + w.number("items", axes_.places) + ";");
    w.line("unsigned* const list = starts + " + w.number("items", axes_.places) + ";");
    w.line("unsigned* const ranks = list + " + w.number("positions", axes_.positions) + ";");
    w.line("unsigned* const total = ranks + " + w.number("positions", axes_.positions) + ";");
    w.line("unsigned* const long_count = total + 1;");
  }
  /// A thread for each position: `write` emits what it does with `found` and `key`, the number of its place.
  template <class Write>
  void write_positions(const char* suffix, Write&& write) {
    const std::string entry = open_items(suffix, axes_.positions);
    write_lists();
    w.line("const I outside = item / " + w.number("indices", bound.points(axes_.colliding)) + ";");
    w.line("const unsigned position = (unsigned)(item - outside * " +
           w.number("indices", bound.points(axes_.colliding)) + ");");
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    if (!axes_.colliding.empty()) at = joined(at, w.decode("(I)position", axes_.colliding));
    read_index(at);
    w.line("const I key = outside * " + w.number("places", axes_.extent) + " + (I)found;");
    write();
    w.close();
    w.add_step(entry, quotient_up(axes_.positions, threads_), 1, threads_);
  }
  void write_lists_of_places() {
    const std::int64_t items = axes_.places;
    const std::string clear = open_items("clear", items);
    write_lists();
    w.line("counts[item] = 0;");
    w.line("if (item == 0) *total = *long_count = 0;");
    w.close();
    w.add_step(clear, quotient_up(items, threads_), 1, threads_);
    write_positions("count", [&] {
      w.line("if (!gather_ok(found, " + extent_name() + ", a.fault, a.tag)) return;");
      w.line("ranks[item] = atomicAdd(counts + key, 1u);");
    });
    write_starts();
    write_positions("fill", [&] {
      w.line("if (" + is_out_of_range() + ") return;");
      w.line("list[starts[key] + ranks[item]] = position;");
    });
    w.add_workspace(quotient_up(axes_.list_bytes(), 256) * 256);
  }
  /// Lists lie in the order in which blocks come: that does not show.
  void write_starts() {
    constexpr int threads = 1024;
    const std::string entry = w.entry("place", threads);
    w.line("__shared__ unsigned parts[32], first;");
    w.line("const I item = (I)blockIdx.x * " + Writer::str(threads) + " + (I)threadIdx.x;");
    write_lists();
    w.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;");
    w.line("const bool is_in = item < " + w.number("items", axes_.places) + ";");
    w.line("const unsigned own = is_in ? counts[item] : 0u;");
    w.line("unsigned sum = own;");
    w.unroll("for (int d = 1; d < 32; d *= 2)");
    w.line("const unsigned before = __shfl_up_sync(0xffffffffu, sum, d);");
    w.line("if (lane >= d) sum += before;");
    w.close();
    w.line("if (lane == 31) parts[warp] = sum;");
    w.line("__syncthreads();");
    w.line("unsigned before = 0u, all = 0u;");
    w.open("for (int k = 0; k < 32; ++k)");
    w.line("if (k < warp) before += parts[k];");
    w.line("all += parts[k];");
    w.close();
    w.line("if (threadIdx.x == 0) first = atomicAdd(total, all);");
    w.line("__syncthreads();");
    w.line("if (is_in) starts[item] = first + before + sum - own;");
    w.close();
    w.add_step(entry, quotient_up(axes_.places, threads), 1, threads);
  }
  /// A thread for each place that has few positions. The numbers of the others replace the ranks, which nobody needs
  /// any more.
  void write_by_short_lists(std::int64_t short_list) {
    const std::string entry = open_items("scatter", axes_.places);
    skip_after_fault();
    write_lists();
    w.line("const unsigned count = counts[item];");
    w.line("if (count > " + Writer::str(short_list) + ") ranks[atomicAdd(long_count, 1u)] = (unsigned)item;");
    w.line("if (count == 0 || count > " + Writer::str(short_list) + ") return;");
    w.line("const unsigned* const own = list + starts[item];");
    w.line("const I outside = item / " + w.number("places", axes_.extent) + ";");
    w.line("const I place = item - outside * " + w.number("places", axes_.extent) + ";");
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    const IndexNames point = axes_.free.empty() ? at : joined(at, w.decode("(I)0", axes_.free));
    w.line("const I to = " + w.offset(store_.access, point) + " + place * " + place_stride() + ";");
    w.line(value_type(dtype_) + " sum = " + old_value("(" + target() + ")[to]") + ";");
    w.line("long long last = -1;");
    w.open("for (unsigned done = 0; done < count; ++done)");
    w.line("unsigned least = 0xffffffffu;");
    w.open("for (unsigned k = 0; k < count; ++k)");
    w.line("const unsigned p = own[k];");
    w.line("if ((long long)p > last && p < least) least = p;");
    w.close();
    w.line("last = (long long)least;");
    w.line("const I hit = (I)least;");
    const IndexNames there = axes_.colliding.empty() ? point : joined(point, w.decode("hit", axes_.colliding));
    const std::string value = value_at(store_.value, there);
    w.line("sum = " + combined_with("sum", value) + ";");
    w.close();
    w.line("(" + target() + ")[to] = sum;");
    w.close();
    w.add_step(entry, quotient_up(axes_.places, threads_), 1, threads_);
  }
  /// A warp for each place that was left.
  void write_by_long_lists() {
    constexpr std::int64_t blocks_per_processor = 8;
    const std::int64_t blocks =
        std::min<std::int64_t>(quotient_up(axes_.places, threads_ / 32),
                               blocks_per_processor * std::max<std::int64_t>(w.device.multiprocessors, 1));
    const std::string entry = w.entry("long", threads_);
    skip_after_fault();
    w.line("const int lane = (int)threadIdx.x % 32;");
    write_lists();
    w.line("const unsigned places_left = *long_count;");
    w.open("for (unsigned left = blockIdx.x * " + warps() +
           " + threadIdx.x / 32; left < places_left; left += " + w.number("warps", blocks * (threads_ / 32)) + ")");
    w.line("const I item = (I)ranks[left];");
    write_place(Hits::list);
    w.close();
    w.close();
    w.add_step(entry, blocks, 1, threads_);
  }
  /// The least position of the list above `last`, which is what a warp takes in next.
  void write_next_hit() {
    w.line("unsigned least = 0xffffffffu;");
    w.open("for (unsigned k = (unsigned)lane; k < count; k += 32)");
    w.line("const unsigned p = own[k];");
    w.line("if ((long long)p > last && p < least) least = p;");
    w.close();
    w.unroll("for (int d = 1; d < 32; d *= 2)");
    w.line("const unsigned other = __shfl_xor_sync(0xffffffffu, least, d);");
    w.line("least = other < least ? other : least;");
    w.close();
    w.line("last = (long long)least;");
    w.line("const I hit = (I)least;");
  }

  void write_by_places(Hits hits) {
    const std::string entry = w.entry("scatter", threads_);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * " + warps() + " + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", axes_.places) + ") return;");
    skip_after_fault();
    if (hits == Hits::list) {
      write_lists();
      w.line("if (counts[item] == 0) return;");
    }
    write_place(hits);
    w.close();
    w.add_step(entry, quotient_up(axes_.places, threads_ / 32), quotient_up(axes_.inner, elements_ * 32), threads_);
  }
  /// What a warp does for the place of number `item`.
  void write_place(Hits hits) {
    const std::string inner = w.number("inner", axes_.inner),
                      indices = w.number("indices", bound.points(axes_.colliding));
    w.line("const I outside = item / " + w.number("places", axes_.extent) + ";");
    w.line("const I place = item - outside * " + w.number("places", axes_.extent) + ";");
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    if (hits == Hits::list) {
      w.line("const unsigned count = counts[item];");
      w.line("const unsigned* const own = list + starts[item];");
    }
    w.line("I to[" + Writer::str(elements_) + "];");
    w.line(value_type(dtype_) + " sum[" + Writer::str(elements_) + "];");
    w.unroll(each_element());
    const IndexNames inside_at = open_inside(at, inner);
    w.line("to[c] = " + w.offset(store_.access, inside_at) + " + place * " + place_stride() + ";");
    w.line("sum[c] = " + old_value("(" + target() + ")[to[c]]") + ";");
    w.close();
    if (hits == Hits::sorted) {
      w.line("const unsigned* const own = sorted + starts[item];");
      w.line("const unsigned count = ends[item] - starts[item];");
      w.line("#pragma unroll 4");
      w.open("for (unsigned done = 0; done < count; ++done)");
      w.line("const I hit = (I)own[done];");
      take_in(at, inner);
      w.close();
      return write_sums(inner);
    }
    // To look for the next one in a long list takes longer than to look through all indices.
    if (hits == Hits::list) {
      w.open("if ((long long)count * count <= " + indices + ")");
      w.line("long long last = -1;");
      w.open("for (unsigned done = 0; done < count; ++done)");
      write_next_hit();
      take_in(at, inner);
      w.close();
      w.close();
      w.open("else");
    }
    w.open("for (I base = 0; base < " + indices + "; base += 32)");
    w.line("const I position = base + lane;");
    w.line("bool is_hit = false;");
    w.open("if (position < " + indices + ")");
    IndexNames here = at;
    if (!axes_.colliding.empty()) here = joined(at, w.decode("position", axes_.colliding));
    read_index(here);
    w.line("is_hit = found == place;");
    w.close();
    w.open("for (unsigned hits = __ballot_sync(0xffffffffu, is_hit); hits != 0; hits &= hits - 1)");
    w.line("const I hit = base + __ffs((int)hits) - 1;");
    take_in(at, inner);
    w.close();
    w.close();
    if (hits == Hits::list) w.close();
    write_sums(inner);
  }
  void write_sums(const std::string& inner) {
    w.line("#pragma unroll");
    w.line(each_element() + " if ((I)blockIdx.y * " + Writer::str(elements_ * 32) + " + lane + c * 32 < " + inner +
           ") (" + target() + ")[to[c]] = sum[c];");
  }
  /// Combines what position `hit` has for the place.
  void take_in(const IndexNames& at, const std::string& inner) {
    IndexNames there = at;
    if (!axes_.colliding.empty()) there = joined(at, w.decode("hit", axes_.colliding));
    w.unroll(each_element());
    const IndexNames point = open_inside(there, inner);
    const std::string value = value_at(store_.value, point);
    w.line("sum[c] = " + combined_with("sum[c]", value) + ";");
    w.close();
  }
  /// The indices of element `c` of the lane, the first one where there is none.
  IndexNames open_inside(const IndexNames& at, const std::string& inner) {
    w.line("const I wanted = (I)blockIdx.y * " + Writer::str(elements_ * 32) + " + lane + c * 32, i = wanted < " +
           inner + " ? wanted : 0;");
    return axes_.free.empty() ? at : joined(at, w.decode("i", axes_.free));
  }

  // ---- sorted

  SortedValue sorted_value() {
    return {value_type(dtype_), size_of(dtype_), [this] { write_value(); }};
  }
  PositionSort sort() { return {w, axes_.places, axes_.positions, axes_.inner == 1 ? sorted_value() : SortedValue{}}; }
  BinSort bins() { return {w, axes_.places, axes_.positions, sorted_value()}; }
  /// After write_key().
  void write_value() {
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    if (!axes_.free.empty()) at = joined(at, w.decode("(I)0", axes_.free));
    const std::string value = value_at(store_.value, joined(at, hit_names("(I)position")));
    w.line("const " + value_type(dtype_) + " value = " + value + ";");
  }
  SortedPlaces sorted_places() {
    return {.type = value_type(dtype_),
            .target = target(),
            .write_offset = [this] { write_offset(); },
            .loaded = [this](const std::string& at) { return old_value("(" + target() + ")[" + at + "]"); },
            .combined = [this](const std::string& a, const std::string& b) { return combined_with(a, b); }};
  }
  void write_sort() {
    const auto write = [&](bool is_first) { write_key(is_first); };
    axes_.has_bins() ? bins().write_tiles(write) : sort().write(write);
    w.add_workspace(axes_.sort_bytes(size_of(dtype_)));
  }
  void write_key(bool is_first) {
    const std::string indices = w.number("indices", bound.points(axes_.colliding));
    w.line("const I outside = item / " + indices + ";");
    w.line("const unsigned position = (unsigned)(item - outside * " + indices + ");");
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    if (!axes_.colliding.empty()) at = joined(at, w.decode("(I)position", axes_.colliding));
    read_index(at);
    if (is_first) w.line("const bool is_in = gather_ok(found, " + extent_name() + ", a.fault, a.tag);");
    else w.line("const bool is_in = !(" + is_out_of_range() + ");");
    w.line("const unsigned key = (unsigned)(outside * " + w.number("places", axes_.extent) + " + (I)found);");
  }
  /// A warp for each place, or for 32 of them where there are short lists: a thread takes in one of those.
  void write_sorted_elements(std::int64_t short_list) {
    const bool are_short = short_list != 0;
    const std::string entry = w.entry("scatter", threads_), group = are_short ? "32" : "1";
    skip_after_fault();
    sort().declare_lists();
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I first = ((I)blockIdx.x * " + warps() + " + (int)threadIdx.x / 32) * " + group + ";");
    if (are_short) {
      w.line("const I item = first + lane;");
      w.line("const unsigned count = item < " + w.number("items", axes_.places) + " ? ends[item] - starts[item] : 0u;");
      w.open("if (count > 0u && count <= " + Writer::str(short_list) + "u)");
      open_place();
      w.line("for (unsigned done = 0; done < count; ++done) sum = " + combined_with("sum", "own[done]") + ";");
      w.line("(" + target() + ")[to] = sum;");
      w.close();
      w.line("unsigned left = __ballot_sync(0xffffffffu, count > " + Writer::str(short_list) + "u);");
      w.open("for (; left != 0u; left &= left - 1u)");
      w.line("const I item = first + (I)__ffs((int)left) - 1;");
    } else {
      w.line("const I item = first;");
      w.line("if (item >= " + w.number("items", axes_.places) + " || ends[item] == starts[item]) return;");
      w.open("");
    }
    write_long_list();
    w.close();
    w.close();
    w.add_step(entry, quotient_up(axes_.places, are_short ? threads_ : threads_ / 32), 1, threads_);
  }
  /// Declares `own`, the sorted values, `to` and `sum` of the single element of place `item`.
  void open_place() {
    w.line("const " + value_type(dtype_) + "* const own = sorted + starts[item];");
    write_offset();
    w.line(value_type(dtype_) + " sum = " + old_value("(" + target() + ")[to]") + ";");
  }
  void write_offset() {
    w.line("const I outside = item / " + w.number("places", axes_.extent) + ";");
    w.line("const I place = item - outside * " + w.number("places", axes_.extent) + ";");
    IndexNames at;
    if (!axes_.free_indexed.empty()) at = w.decode("outside", axes_.free_indexed);
    if (!axes_.free.empty()) at = joined(at, w.decode("(I)0", axes_.free));
    w.line("const I to = " + w.offset(store_.access, at) + " + place * " + place_stride() + ";");
  }
  IndexNames hit_names(const std::string& hit) {
    return axes_.colliding.empty() ? IndexNames{} : w.decode(hit, axes_.colliding);
  }
  /// 128 values at a time, those after them on their way. All lanes take in all, in order, from shared memory, four
  /// with one load.
  void write_long_list() {
    const std::string type = value_type(dtype_), pack = "Pack<" + type + ", 4>";
    w.line("const unsigned hits = ends[item] - starts[item];");
    open_place();
    w.line("__shared__ __align__(16) " + type + " staged[" + warps() + "][128];");
    w.line(type + "* const values = staged[threadIdx.x / 32];");
    w.line(type + " next[4];");
    w.open("const auto load_next = [&](unsigned base)");
    w.unroll("for (int c = 0; c < 4; ++c)");
    w.line("const unsigned k = base + (unsigned)(c * 32 + lane);");
    w.line("next[c] = own[k < hits ? k : hits - 1u];");
    w.close();
    w.close(";");
    w.line("load_next(0u);");
    w.open("for (unsigned base = 0; base < hits; base += 128u)");
    w.line("__syncwarp();");
    w.line("#pragma unroll");
    w.line("for (int c = 0; c < 4; ++c) values[c * 32 + lane] = next[c];");
    w.line("__syncwarp();");
    w.line("load_next(base + 128u);");
    w.open("if (base + 128u <= hits)");
    w.line("#pragma unroll 8");
    w.open("for (int k = 0; k < 128; k += 4)");
    w.line("const " + pack + " newer = *(const " + pack + "*)(values + k);");
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < 4; ++j) sum = " + combined_with("sum", "newer.v[j]") + ";");
    w.close();
    w.close();
    w.open("else");
    w.line("for (unsigned k = 0; base + k < hits; ++k) sum = " + combined_with("sum", "values[k]") + ";");
    w.close();
    w.close();
    w.line("if (lane == 0) (" + target() + ")[to] = sum;");
  }
  /// A warp for 128 elements of a place.
  void write_sorted_rows() {
    const std::string entry = w.entry("scatter", threads_);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * " + warps() + " + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", axes_.places) + ") return;");
    skip_after_fault();
    sort().declare_lists();
    w.line("if (ends[item] == starts[item]) return;");
    write_place(Hits::sorted);
    w.close();
    w.add_step(entry, quotient_up(axes_.places, threads_ / 32), quotient_up(axes_.inner, elements_ * 32), threads_);
  }

  void write_in_order() {
    const std::int64_t items = bound.points(axes_.all_free);
    const std::string entry = open_items("scatter", items);
    skip_after_fault();
    IndexNames at;
    if (!axes_.all_free.empty()) at = w.decode("item", axes_.all_free);
    w.line("const I to = " + w.offset(store_.access, at) + ";");
    w.open("for (I position = 0; position < " + w.number("indices", bound.points(axes_.colliding)) + "; ++position)");
    IndexNames here = at;
    if (!axes_.colliding.empty()) here = joined(at, w.decode("position", axes_.colliding));
    read_index(here);
    w.line("if (" + is_out_of_range() + ") continue;");
    w.line(memory_type(bound.dtype_of(store_.access)) + "* const target = " + target() + " + to + (I)found * " +
           place_stride() + ";");
    w.open("");
    const std::string value = value_at(store_.value, here);
    w.line("*target = " + combined_with(old_value("*target"), value) + ";");
    w.close();
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items, threads_), 1, threads_);
  }

  Writer& w;
  const BoundKernel& bound;
  const LoopNest& nest;
  const Store store_;
  const DType dtype_;
  const ScatterAxes axes_;
  int threads_ = 0, elements_ = 0;  // of a block; of a thread of a warp that owns a place
};

SINTER_DECL void write_scatter(Writer& writer, const LoopNest& nest) { ScatterWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
