// Five methods. Atomics: a thread for each value, where the combiner is exact (sums and extrema of integers). By
// places: a warp owns one place of the gathered axis and 128 elements of what lies inside it, looks through all
// indices 32 at a time, and takes in what is meant for it. By lists: positions are first collected for each place, in
// any order, and a warp takes in those of its own, the least position first; where a place is one element and lists
// are short on average, a thread does so for a short list, and a warp of a kernel after it for a long one. Sorted: the
// positions are sorted by their places, and a thread takes in a short list, a warp a long one. In order: a thread owns
// one point of the axes along which places differ and goes through all others, changing memory. The last four are
// chosen by an estimate of their time, and combine in the same order. A fault record may be cleared between the
// kernels: each of them tells by itself which indices are out of range.
#pragma once

#include <sinter/backend/cuda/source/scatter.hpp>

#include <sinter/backend/cuda/source/scatter_sorted.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScatterWriter {
 public:
  explicit ScatterWriter(Writer& writer)
      : w(writer), bound(writer.bound), store_(bound.kernel.stores[0]), dtype_(bound.inst(store_.value).dtype) {
    for (int a : bound.parallel) {
      const bool is_free = bound.stride_class(store_.access, a) != StrideClass::zero;
      (!is_free ? colliding_ : bound.varies(store_.index, a) ? free_indexed_ : free_).push_back(a);
      if (is_free) all_free_.push_back(a);
      if (bound.varies(store_.index, a)) indexed_.push_back(a);
    }
    w.set_vector(-1, 1);
  }

  void run() {
    if (is_atomic()) {
      write_check();
      return write_atomic();
    }
    const double places = static_cast<double>(extent()), indices = static_cast<double>(bound.points(colliding_));
    constexpr double step = 2.5e-7;  // of a warp that waits for 32 indices
    const double by_places =
        std::max(static_cast<double>(bound.points(free_indexed_)) * places *
                     static_cast<double>(quotient_up(bound.points(free_), 128)) * (indices / 32 + 4) * 1.2e-11,
                 indices / 32 * step);
    const double in_order = indices * 0.6e-6 * static_cast<double>(quotient_up(bound.points(all_free_), 200000));
    constexpr double launches = 2e-5;  // of the kernels that collect positions
    const double by_lists = launches + 5e-11 * indices + seconds_of_chain() +
                            (seconds_of_place() + seconds_of_list()) * places *
                                static_cast<double>(bound.points(free_indexed_)) *
                                static_cast<double>(quotient_up(bound.points(free_), 128));
    if (can_sort() && seconds_sorted() < std::min({by_places, by_lists, in_order})) return write_sorted();
    if (list_bytes() <= most_list_bytes && by_lists < std::min(by_places, in_order)) return write_by_lists();
    write_check();
    if (by_places <= in_order) write_by_places(Hits::all_indices);
    else write_in_order();
  }

 private:
  /// Where a warp finds what is meant for its place.
  enum class Hits : std::uint8_t { all_indices, list, sorted };
  static constexpr std::int64_t most_list_bytes = std::int64_t{1} << 30;

  /// Pairs of a place and what lies around it; and of a position and what lies around it.
  std::int64_t place_count() const { return bound.points(free_indexed_) * extent(); }
  std::int64_t position_count() const { return bound.points(free_indexed_) * bound.points(colliding_); }
  /// For each place how many positions it has and where they begin, the positions, the number of each within its list,
  /// how many there are, and how many long lists: 4 bytes each.
  std::int64_t list_bytes() const { return 4 * (2 * place_count() + 2 * position_count() + 2); }
  /// Is what lies at a place one element, and are lists short on average?
  bool is_by_short_lists() const { return bound.points(free_) == 1 && bound.points(colliding_) <= 4 * extent(); }
  double seconds_of_place() const { return is_by_short_lists() ? 3e-11 : 4e-10; }
  /// What a warp takes for a list of mean length: it looks through the list for each of its positions, 32 at a time, or
  /// once through all indices. See write_place.
  double seconds_of_list() const {
    if (is_by_short_lists()) return 0;
    const double indices = static_cast<double>(bound.points(colliding_)),
                 mean = indices / static_cast<double>(std::max<std::int64_t>(extent(), 1));
    return mean * mean <= indices ? mean * (mean / 32 + 1) * 0.6e-11 : indices / 32 * 1.2e-11;
  }
  /// One list, whose warp waits for each look.
  double seconds_of_chain() const {
    constexpr double look = 2.5e-7;
    if (is_by_short_lists()) return 0;
    const double indices = static_cast<double>(bound.points(colliding_)),
                 mean = indices / static_cast<double>(std::max<std::int64_t>(extent(), 1));
    return look * (mean * mean <= indices ? mean * (mean / 32 + 1) : indices / 32);
  }

  bool is_atomic() const {
    const bool has_atomic =
        store_.combine == Combine::add || store_.combine == Combine::min || store_.combine == Combine::max;
    const bool is_whole = bound.dtype_of(store_.access) == dtype_ && (dtype_ == DType::i32 || dtype_ == DType::i64);
    return has_atomic && (is_whole || is_unsigned());
  }
  /// u64 is computed on the bits of i64; extrema are those of the unsigned numbers.
  bool is_unsigned() const { return bound.dtype_of(store_.access) == DType::u64; }
  std::int64_t extent() const { return bound.geometry.accesses[store_.access].gather_extent; }
  std::string extent_name() { return w.number("g" + Writer::str(store_.access), extent()); }
  std::string place_stride() {
    return w.number("t" + Writer::str(store_.access), bound.geometry.accesses[store_.access].gather_stride);
  }
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
  std::string open_items(const char* suffix, std::int64_t items, int threads) {
    const std::string entry = w.entry(suffix, threads);
    w.line("const I item = (I)blockIdx.x * " + Writer::str(threads) + " + (I)threadIdx.x;");
    w.line("if (item >= " + w.number("n" + std::string(suffix), items) + ") return;");
    return entry;
  }
  std::string is_out_of_range() { return "(unsigned long long)found >= (unsigned long long)" + extent_name(); }
  void skip_after_fault() { w.line("if (a.fault[0] != 0) return;"); }

  void write_check() {
    const std::int64_t items = bound.points(indexed_);
    const std::string entry = open_items("check", items, 256);
    IndexNames at;
    if (!indexed_.empty()) at = w.decode("item", indexed_);
    read_index(at);
    w.line("gather_ok(found, " + extent_name() + ", a.fault, a.tag);");
    w.close();
    w.add_step(entry, quotient_up(items, 256), 1, 256);
  }

  void write_atomic() {
    const std::int64_t items = bound.points(bound.parallel);
    const std::string entry = open_items("scatter", items, 256);
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
    w.add_step(entry, quotient_up(items, 256), 1, 256);
  }

  // ---- lists

  void write_lists() {
    w.line("unsigned* const counts = (unsigned*)a.workspace;");
    w.line("unsigned* const starts = counts + " + w.number("items", place_count()) + ";");
    w.line("unsigned* const list = starts + " + w.number("items", place_count()) + ";");
    w.line("unsigned* const ranks = list + " + w.number("positions", position_count()) + ";");
    w.line("unsigned* const total = ranks + " + w.number("positions", position_count()) + ";");
    w.line("unsigned* const long_count = total + 1;");
  }
  /// A thread for each position: `write` emits what it does with `found` and `key`, the number of its place.
  template <class Write>
  void write_positions(const char* suffix, Write&& write) {
    const std::string entry = open_items(suffix, position_count(), 256);
    write_lists();
    w.line("const I outside = item / " + w.number("indices", bound.points(colliding_)) + ";");
    w.line("const unsigned position = (unsigned)(item - outside * " + w.number("indices", bound.points(colliding_)) +
           ");");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    if (!colliding_.empty()) at = joined(at, w.decode("(I)position", colliding_));
    read_index(at);
    w.line("const I key = outside * " + w.number("places", extent()) + " + (I)found;");
    write();
    w.close();
    w.add_step(entry, quotient_up(position_count(), 256), 1, 256);
  }
  void write_by_lists() {
    const std::int64_t items = place_count();
    const std::string clear = open_items("clear", items, 256);
    write_lists();
    w.line("counts[item] = 0;");
    w.line("if (item == 0) *total = *long_count = 0;");
    w.close();
    w.add_step(clear, quotient_up(items, 256), 1, 256);
    write_positions("count", [&] {
      w.line("if (!gather_ok(found, " + extent_name() + ", a.fault, a.tag)) return;");
      w.line("ranks[item] = atomicAdd(counts + key, 1u);");
    });
    write_starts();
    write_positions("fill", [&] {
      w.line("if (" + is_out_of_range() + ") return;");
      w.line("list[starts[key] + ranks[item]] = position;");
    });
    if (is_by_short_lists()) {
      write_by_short_lists();
      write_by_long_lists();
    } else {
      write_by_places(Hits::list);
    }
    w.add_workspace(quotient_up(list_bytes(), 256) * 256);
  }
  /// Lists lie in the order in which blocks come: that does not show.
  void write_starts() {
    constexpr int threads = 1024;
    const std::string entry = w.entry("place", threads);
    w.line("__shared__ unsigned parts[32], first;");
    w.line("const I item = (I)blockIdx.x * " + Writer::str(threads) + " + (I)threadIdx.x;");
    write_lists();
    w.line("const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;");
    w.line("const bool is_in = item < " + w.number("items", place_count()) + ";");
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
    w.add_step(entry, quotient_up(place_count(), threads), 1, threads);
  }
  /// A thread for each place that has few positions. The numbers of the others replace the ranks, which nobody needs
  /// any more.
  void write_by_short_lists() {
    const std::string entry = open_items("scatter", place_count(), 256);
    constexpr int short_list = 16;
    skip_after_fault();
    write_lists();
    w.line("const unsigned count = counts[item];");
    w.line("if (count > " + Writer::str(short_list) + ") ranks[atomicAdd(long_count, 1u)] = (unsigned)item;");
    w.line("if (count == 0 || count > " + Writer::str(short_list) + ") return;");
    w.line("const unsigned* const own = list + starts[item];");
    w.line("const I outside = item / " + w.number("places", extent()) + ";");
    w.line("const I place = item - outside * " + w.number("places", extent()) + ";");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    const IndexNames point = free_.empty() ? at : joined(at, w.decode("(I)0", free_));
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
    const IndexNames there = colliding_.empty() ? point : joined(point, w.decode("hit", colliding_));
    const std::string value = value_at(store_.value, there);
    w.line("sum = " + combined_with("sum", value) + ";");
    w.close();
    w.line("(" + target() + ")[to] = sum;");
    w.close();
    w.add_step(entry, quotient_up(place_count(), 256), 1, 256);
  }
  /// A warp for each place that was left.
  void write_by_long_lists() {
    constexpr std::int64_t blocks_per_processor = 8;
    const std::int64_t blocks = std::min<std::int64_t>(
        quotient_up(place_count(), 8), blocks_per_processor * std::max<std::int64_t>(w.device.multiprocessors, 1));
    const std::string entry = w.entry("long", 256);
    skip_after_fault();
    w.line("const int lane = (int)threadIdx.x % 32;");
    write_lists();
    w.line("const unsigned places_left = *long_count;");
    w.open("for (unsigned left = blockIdx.x * 8 + threadIdx.x / 32; left < places_left; left += " +
           w.number("warps", blocks * 8) + ")");
    w.line("const I item = (I)ranks[left];");
    write_place(Hits::list);
    w.close();
    w.close();
    w.add_step(entry, blocks, 1, 256);
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
    const std::string entry = w.entry("scatter", 256);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * 8 + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", place_count()) + ") return;");
    skip_after_fault();
    if (hits == Hits::list) {
      write_lists();
      w.line("if (counts[item] == 0) return;");
    }
    write_place(hits);
    w.close();
    w.add_step(entry, quotient_up(place_count(), 8), quotient_up(bound.points(free_), 128), 256);
  }
  /// What a warp does for the place of number `item`.
  void write_place(Hits hits) {
    const std::string inner = w.number("inner", bound.points(free_)),
                      indices = w.number("indices", bound.points(colliding_));
    w.line("const I outside = item / " + w.number("places", extent()) + ";");
    w.line("const I place = item - outside * " + w.number("places", extent()) + ";");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    if (hits == Hits::list) {
      w.line("const unsigned count = counts[item];");
      w.line("const unsigned* const own = list + starts[item];");
    }
    w.line("I to[4];");
    w.line(value_type(dtype_) + " sum[4];");
    w.unroll("for (int c = 0; c < 4; ++c)");
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
    if (!colliding_.empty()) here = joined(at, w.decode("position", colliding_));
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
    w.line("for (int c = 0; c < 4; ++c) if ((I)blockIdx.y * 128 + lane + c * 32 < " + inner + ") (" + target() +
           ")[to[c]] = sum[c];");
  }
  /// Combines what position `hit` has for the place.
  void take_in(const IndexNames& at, const std::string& inner) {
    IndexNames there = at;
    if (!colliding_.empty()) there = joined(at, w.decode("hit", colliding_));
    w.unroll("for (int c = 0; c < 4; ++c)");
    const IndexNames point = open_inside(there, inner);
    const std::string value = value_at(store_.value, point);
    w.line("sum[c] = " + combined_with("sum[c]", value) + ";");
    w.close();
  }
  /// The indices of element `c` of the lane, the first one where there is none.
  IndexNames open_inside(const IndexNames& at, const std::string& inner) {
    w.line("const I wanted = (I)blockIdx.y * 128 + lane + c * 32, i = wanted < " + inner + " ? wanted : 0;");
    return free_.empty() ? at : joined(at, w.decode("i", free_));
  }

  // ---- sorted

  PositionSort sort() const { return {w, place_count(), position_count()}; }
  bool can_sort() const {
    return dtype_ != DType::bool_ && place_count() <= PositionSort::most_keys &&
           position_count() < std::int64_t{1} << 31 && sort().workspace_bytes() <= most_list_bytes;
  }
  /// Each kernel has a start; a list is taken in one after the other.
  double seconds_sorted() const {
    const double positions = static_cast<double>(position_count()), places = static_cast<double>(place_count()),
                 mean = positions / std::max(places, 1.),
                 chunks = static_cast<double>(quotient_up(bound.points(free_), 128));
    const bool is_single = bound.points(free_) == 1;
    return (place_count() <= 1024 ? 1.2e-5 : 2.4e-5) + (place_count() <= 1024 ? 3e-11 : 7e-11) * positions +
           mean * (is_single ? 4e-9 : 1.5e-8) + places * chunks * (is_single ? 3e-11 : 4e-10 + mean * 1e-11);
  }
  void write_sorted() {
    PositionSort sorted = sort();
    sorted.write([&](bool is_first) { write_key(is_first); });
    if (bound.points(free_) == 1) write_sorted_elements(sorted);
    else write_sorted_rows(sorted);
    w.add_workspace(sorted.workspace_bytes());
  }
  void write_key(bool is_first) {
    const std::string indices = w.number("indices", bound.points(colliding_));
    w.line("const I outside = item / " + indices + ";");
    w.line("const unsigned position = (unsigned)(item - outside * " + indices + ");");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    if (!colliding_.empty()) at = joined(at, w.decode("(I)position", colliding_));
    read_index(at);
    if (is_first) w.line("const bool is_in = gather_ok(found, " + extent_name() + ", a.fault, a.tag);");
    else w.line("const bool is_in = !(" + is_out_of_range() + ");");
    w.line("const unsigned key = (unsigned)(outside * " + w.number("places", extent()) + " + (I)found);");
  }
  /// A warp for each place, or for 32 of them where lists are short: then a thread takes in a short one.
  void write_sorted_elements(PositionSort& sorted) {
    constexpr int short_list = 32;
    const bool are_short = bound.points(colliding_) < 16 * extent();
    const std::string entry = w.entry("scatter", 256), group = are_short ? "32" : "1";
    skip_after_fault();
    sorted.declare_lists();
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I first = ((I)blockIdx.x * 8 + (int)threadIdx.x / 32) * " + group + ";");
    if (are_short) {
      w.line("const I item = first + lane;");
      w.line("const unsigned count = item < " + w.number("items", place_count()) +
             " ? ends[item] - starts[item] : 0u;");
      w.open("if (count > 0u && count <= " + Writer::str(short_list) + "u)");
      const IndexNames point = open_place();
      w.open("for (unsigned done = 0; done < count; ++done)");
      w.line("const I hit = (I)own[done];");
      const std::string value = value_at(store_.value, joined(point, hit_names("hit")));
      w.line("sum = " + combined_with("sum", value) + ";");
      w.close();
      w.line("(" + target() + ")[to] = sum;");
      w.close();
      w.line("unsigned left = __ballot_sync(0xffffffffu, count > " + Writer::str(short_list) + "u);");
      w.open("for (; left != 0u; left &= left - 1u)");
      w.line("const I item = first + (I)__ffs((int)left) - 1;");
    } else {
      w.line("const I item = first;");
      w.line("if (item >= " + w.number("items", place_count()) + " || ends[item] == starts[item]) return;");
      w.open("");
    }
    write_long_list();
    w.close();
    w.close();
    w.add_step(entry, quotient_up(place_count(), are_short ? 256 : 8), 1, 256);
  }
  /// Declares `own`, `to` and `sum` of the single element of place `item`.
  IndexNames open_place() {
    w.line("const unsigned* const own = sorted + starts[item];");
    w.line("const I outside = item / " + w.number("places", extent()) + ";");
    w.line("const I place = item - outside * " + w.number("places", extent()) + ";");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    const IndexNames point = free_.empty() ? at : joined(at, w.decode("(I)0", free_));
    w.line("const I to = " + w.offset(store_.access, point) + " + place * " + place_stride() + ";");
    w.line(value_type(dtype_) + " sum = " + old_value("(" + target() + ")[to]") + ";");
    return point;
  }
  IndexNames hit_names(const std::string& hit) { return colliding_.empty() ? IndexNames{} : w.decode(hit, colliding_); }
  /// 128 values at a time lie in the lanes, and all lanes take them in, in order.
  void write_long_list() {
    w.line("const unsigned hits = ends[item] - starts[item];");
    const IndexNames point = open_place();
    w.line(value_type(dtype_) + " values[4], next[4];");
    w.open("const auto load_next = [&](unsigned base)");
    w.unroll("for (int c = 0; c < 4; ++c)");
    w.line("const unsigned k = base + (unsigned)(c * 32 + lane);");
    w.line("const I hit = (I)own[k < hits ? k : hits - 1u];");
    const std::string value = value_at(store_.value, joined(point, hit_names("hit")));
    w.line("next[c] = " + value + ";");
    w.close();
    w.close(";");
    w.line("load_next(0u);");
    w.open("for (unsigned base = 0; base < hits; base += 128u)");
    w.line("#pragma unroll");
    w.line("for (int c = 0; c < 4; ++c) values[c] = next[c];");
    w.line("load_next(base + 128u);");
    w.unroll("for (int c = 0; c < 4; ++c)");
    w.line("const unsigned done = base + (unsigned)c * 32u;");
    w.open("if (done + 32u <= hits)");
    w.unroll("for (int l = 0; l < 32; ++l)");
    take_in_lane();
    w.close();
    w.close();
    w.open("else");
    w.open("for (int l = 0; done + (unsigned)l < hits; ++l)");
    take_in_lane();
    w.close();
    w.close();
    w.close();
    w.close();
    w.line("if (lane == 0) (" + target() + ")[to] = sum;");
  }
  void take_in_lane() {
    w.line("const " + value_type(dtype_) + " newer = __shfl_sync(0xffffffffu, values[c], l);");
    w.line("sum = " + combined_with("sum", "newer") + ";");
  }
  /// A warp for 128 elements of a place.
  void write_sorted_rows(PositionSort& sorted) {
    const std::string entry = w.entry("scatter", 256);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * 8 + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", place_count()) + ") return;");
    skip_after_fault();
    sorted.declare_lists();
    w.line("if (ends[item] == starts[item]) return;");
    write_place(Hits::sorted);
    w.close();
    w.add_step(entry, quotient_up(place_count(), 8), quotient_up(bound.points(free_), 128), 256);
  }

  void write_in_order() {
    const std::int64_t items = bound.points(all_free_);
    const std::string entry = open_items("scatter", items, 128);
    skip_after_fault();
    IndexNames at;
    if (!all_free_.empty()) at = w.decode("item", all_free_);
    w.line("const I to = " + w.offset(store_.access, at) + ";");
    w.open("for (I position = 0; position < " + w.number("indices", bound.points(colliding_)) + "; ++position)");
    IndexNames here = at;
    if (!colliding_.empty()) here = joined(at, w.decode("position", colliding_));
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
    w.add_step(entry, quotient_up(items, 128), 1, 128);
  }

  Writer& w;
  const BoundKernel& bound;
  const Store store_;
  const DType dtype_;
  AxisList colliding_, free_, free_indexed_, all_free_, indexed_;
};

SINTER_DECL void write_scatter(Writer& writer) { ScatterWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
