// The source itself. What it mirrors is compared here: a change of an argument block or of the order of numbers is
// noticed when this file is compiled.
#pragma once

#include <sinter/backend/x86/exported/runtime_source.hpp>

#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/nest/loop.hpp>

#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_export_detail {

static_assert(max_axes == 10 && max_accesses == 48 && max_micro_slots == 8 && product_sum_group == 8192 &&
              max_tile_bytes == 2048);
static_assert(sizeof(LoopArgs) == 26 * 8 + 48 * 56 && offsetof(LoopArgs, pointer) == 26 * 8 &&
              offsetof(LoopArgs, scratch) == 23 * 8 && sizeof(MicroArgs) == (14 + 16 + 2) * 8 &&
              offsetof(MicroArgs, slot) == 14 * 8 && offsetof(MicroArgs, totals) == 8 * 8);
static_assert(loop_first == 19 && product_extent == 20 && product_a == 30 && product_epilogue == 72 &&
              product_first == 76);
static_assert(scatter_first == 14 && Combine::none == Combine(0) && Combine::max == Combine(4) &&
              ScatterElement::bf16 == ScatterElement(11));

/// Code and what it is given.
inline constexpr const char* runtime_head = R"cpp(
  typedef std::int64_t Number;

  // Machine code in pages that are written first and executable then, never both.
  inline const char* map_code(const void* code, std::size_t size) {
    void* const pages = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    std::memcpy(pages, code, size);
    if (::mprotect(pages, size, PROT_READ | PROT_EXEC) == 0) return static_cast<const char*>(pages);
    ::munmap(pages, size);
    return nullptr;
  }
  template <class Function>
  Function function_at(const char* code, Number offset) {
    return reinterpret_cast<Function>(reinterpret_cast<std::uintptr_t>(code) + static_cast<std::uintptr_t>(offset));
  }
  inline char* moved(char* from, Number bytes) {  // may pass through addresses outside of what is there
    return reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(from) + static_cast<std::uintptr_t>(bytes));
  }

  // Rounding to nearest, subnormals kept, while the kernels run.
  class FloatingPoint {
   public:
    FloatingPoint() : saved_(_mm_getcsr()) { _mm_setcsr(0x1F80); }
    ~FloatingPoint() { _mm_setcsr(saved_); }

   private:
    FloatingPoint(const FloatingPoint&);
    FloatingPoint& operator=(const FloatingPoint&);
    unsigned saved_;
  };

  struct Pointer {
    char* base;
    Number outer, reduced, far, column, gather_stride, gather_extent;
  };
  struct Status {
    Number access, index;
  };
  struct LoopArgs {
    Number columns, reduced, far, origin[10], step[10];
    void* scratch;
    Number scratch_stride;
    Status* status;
    Pointer pointer[48];
  };
  typedef void (*LoopFunction)(const LoopArgs*, Number, Number);
  static_assert(sizeof(LoopArgs) == 26 * 8 + 48 * 56, "the machine code is for another layout");

  inline void set_pointers(LoopArgs& args, const Number* numbers, Number count, Number numbers_of_each) {
    for (Number i = 0; i < count; ++i, numbers += numbers_of_each) {
      Pointer& p = args.pointer[i];
      p.outer = numbers[2];
      p.reduced = numbers[3];
      p.far = numbers[4];
      p.column = numbers[5];
      p.gather_stride = numbers[6];
      p.gather_extent = numbers[7];
    }
  }
)cpp";

/// Numbers as LoopNumber says. False: an index was out of range.
inline constexpr const char* runtime_loop = R"cpp(
  // A loop over the operands. False: an index was out of range.
  inline bool run_loop(const char* code, const Number* n, char* const* operands, char* scratch) {
    const Number accesses = n[7], rests = n[8], *const access = n + 19, *const rest = access + 8 * accesses;
    Status status = {0, 0};
    LoopArgs args;
    args.columns = n[3];
    args.reduced = n[4];
    args.far = n[5];
    args.scratch = scratch;
    args.scratch_stride = n[6];
    args.status = &status;
    for (int axis = 0; axis < 10; ++axis) {
      args.origin[axis] = 0;
      args.step[axis] = n[9 + axis];
    }
    set_pointers(args, access, accesses, 8);
    const LoopFunction function = function_at<LoopFunction>(code, n[0]);
    for (Number unit = 0; unit < n[2]; ++unit) {
      for (Number i = 0; i < accesses; ++i) args.pointer[i].base = moved(operands[access[8 * i]], access[8 * i + 1]);
      Number left = unit;
      for (Number r = rests; r-- > 0;) {
        const Number* const axis = rest + r * (2 + accesses);
        const Number at = left % axis[1];
        left /= axis[1];
        args.origin[axis[0]] = at;
        for (Number i = 0; i < accesses; ++i) args.pointer[i].base = moved(args.pointer[i].base, at * axis[2 + i]);
      }
      function(&args, 0, n[1]);
    }
    return status.access == 0;
  }
)cpp";

/// Numbers as ProductNumber says.
inline constexpr const char* runtime_product = R"cpp(
  struct MicroArgs {
    const char *a, *b;
    char* c;
    Number a_row, a_k, b_k, c_row, k;
    void* totals;
    Number left, has_totals;
    const void* lane_mask;
    std::uint64_t mask_bits;
    Number tiles;
    struct Slot {
      char* at;
      Number row;
    } slot[8];
    const char* next;
    Number next_row;
  };
  typedef void (*MicroFunction)(MicroArgs*);
  static_assert(sizeof(MicroArgs) == 32 * 8, "the machine code is for another layout");

  // Rows of B side by side for every k; what is behind its columns is zero.
  template <class T>
  void pack(char* to, const char* from, const Number* n, Number columns) {
    const Number width = n[11];
    T* out = reinterpret_cast<T*>(to);
    for (Number k = 0; k < n[14]; ++k, out += width) {
      for (Number j = 0; j < columns; ++j) std::memcpy(out + j, from + k * n[46] + j * n[47], sizeof(T));
      for (Number j = columns; j < width; ++j) out[j] = T(0);
    }
  }

  // Sums of 8192 products each are added with what rounding loses beside them (Knuth, The Art of Computer Programming,
  // section 4.2.2).
  template <class T>
  void add_group(T* total, const T* group, T* lost, Number columns, bool is_second, bool is_last) {
    for (Number i = 0; i < columns; ++i) {
      if (is_second) lost[i] = T(0);
      // volatile: in this order, whatever flags allow.
      const volatile T sum = total[i] + group[i], added = sum - total[i], kept = sum - added;
      const volatile T of_total = total[i] - kept, of_group = group[i] - added;
      lost[i] += of_total + of_group;
      total[i] = sum;
      if (is_last && lost[i] == lost[i]) total[i] += lost[i];
    }
  }

  struct Product {
    const char* code;
    const Number* n;
    char* const* operands;
    char* scratch;
    Number index[10];
    MicroArgs args;
    LoopArgs loop;
    Status status;

    Number size() const { return n[4] != 0 ? 8 : 4; }
    Number row_bytes() const { return n[11] * size(); }
    Number first_row(Number tile) const { return tile * n[7] + (tile < n[8] ? tile : n[8]); }
    char* view(const Number* v) const {
      char* at = moved(operands[v[0]], v[1]);
      for (int axis = 0; axis < 10; ++axis) at = moved(at, v[4 + axis] * index[axis]);
      return at;
    }
    // Tiles first to last, whose sums begin at c.
    void run_tiles(Number first, Number last, Number k, Number k_end, bool is_last, char* c, Number c_row) {
      MicroArgs now = args;
      now.a = moved(view(n + 30), first_row(first) * n[32] + k * n[33]);
      now.b += k * now.b_k;
      now.c = c;
      now.c_row = c_row;
      now.k = k_end - k;
      Number taller = n[8] - first;
      taller = taller < 0 ? 0 : taller > last - first ? last - first : taller;
      now.tiles = taller;
      if (taller != 0) function_at<MicroFunction>(code, n[2 + is_last])(&now);
      now.tiles = last - first - taller;
      if (now.tiles != 0) function_at<MicroFunction>(code, n[is_last])(&now);
    }
    template <class T>
    void add_rows(char* c, Number c_row, char* group, char* lost, Number rows, Number columns, Number k_end) {
      for (Number row = 0; row < rows; ++row)
        add_group(reinterpret_cast<T*>(c + row * c_row), reinterpret_cast<const T*>(group + row * row_bytes()),
                  reinterpret_cast<T*>(lost + row * row_bytes()), columns, k_end <= 2 * 8192, k_end == n[14]);
    }
    void run_block(Number first, Number last, Number panel) {
      const bool is_last = panel == n[10] - 1;
      const Number columns = is_last ? n[12] : n[11], row = first_row(first), rows = first_row(last) - row;
      char* const sums = scratch + n[17];
      const Number space = n[9] * (n[7] + 1) * row_bytes();
      char* const c = n[16] != 0 ? moved(view(n + 58), row * n[60] + panel * n[11] * n[61]) : sums;
      const Number c_row = n[16] != 0 ? n[60] : row_bytes();
      Number k = 0;
      do {
        const Number k_end = n[14] - k > 8192 ? k + 8192 : n[14];
        if (k == 0) {
          run_tiles(first, last, k, k_end, is_last, c, c_row);
        } else {
          run_tiles(first, last, k, k_end, is_last, sums + space, row_bytes());
          if (size() == 8) add_rows<double>(c, c_row, sums + space, sums + 2 * space, rows, columns, k_end);
          else add_rows<float>(c, c_row, sums + space, sums + 2 * space, rows, columns, k_end);
        }
        k = k_end;
      } while (k < n[14]);
      if (n[16] == 0) run_epilogue(row, rows, panel * n[11], columns);
    }
    void begin_epilogue() {
      loop.reduced = loop.far = 1;
      loop.scratch = scratch + n[19];
      loop.scratch_stride = n[74];
      loop.status = &status;
      for (int axis = 0; axis < 10; ++axis) loop.step[axis] = axis == n[73];
      set_pointers(loop, n + 76, n[75], 18);
    }
    void run_epilogue(Number row, Number rows, Number column, Number columns) {
      loop.columns = columns;
      for (int axis = 0; axis < 10; ++axis) loop.origin[axis] = axis < n[73] ? index[axis] : 0;
      loop.origin[n[73]] = row;
      loop.origin[n[73] + 1] = column;
      for (Number i = 0; i < n[75]; ++i) {
        const Number* const access = n + 76 + 18 * i;
        Pointer& p = loop.pointer[i];
        p.base = scratch + n[17];
        if (access[0] < 0) continue;
        p.base = moved(operands[access[0]], access[1] + row * p.outer + column * p.column);
        for (int axis = 0; axis < 10; ++axis) p.base = moved(p.base, access[8 + axis] * index[axis]);
      }
      function_at<LoopFunction>(code, n[72])(&loop, 0, rows);
    }
    void run_batch() {
      for (Number panel = 0; panel < n[10]; ++panel) {
        char* const b = moved(view(n + 44), panel * n[11] * n[47]);
        args.b = b;
        args.b_k = n[46];
        if (n[15] != 0) {
          const Number columns = panel == n[10] - 1 ? n[12] : n[11];
          if (size() == 8) pack<double>(scratch + n[18], b, n, columns);
          else pack<float>(scratch + n[18], b, n, columns);
          args.b = scratch + n[18];
          args.b_k = row_bytes();
        }
        for (Number first = 0; first < n[6]; first += n[9])
          run_block(first, first + n[9] < n[6] ? first + n[9] : n[6], panel);
      }
    }
  };

  // A product of matrices, and what follows it. False: an index was out of range.
  inline bool run_product(const char* code, const Number* n, char* const* operands, char* scratch) {
    static const std::int32_t ones_then_zeros[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    Product p = Product();
    p.code = code;
    p.n = n;
    p.operands = operands;
    p.scratch = scratch;
    p.args.a_row = n[32];
    p.args.a_k = n[33];
    p.args.totals = scratch;
    p.args.mask_bits = (std::uint64_t(1) << n[13]) - 1;
    const Number words = n[13] * p.size() / 4;
    if (words <= 8) p.args.lane_mask = ones_then_zeros + 8 - words;
    if (n[16] == 0) p.begin_epilogue();
    for (Number batch = 0; batch < n[5]; ++batch) {
      Number left = batch;
      for (int axis = 10; axis-- > 0;) {
        p.index[axis] = left % n[20 + axis];
        left /= n[20 + axis];
      }
      p.run_batch();
    }
    return p.status.access == 0;
  }
)cpp";

/// Numbers as ScatterNumber says.
inline constexpr const char* runtime_scatter = R"cpp(
  template <class T>
  T combine_reals(Number how, T old, T value) {
    if (old != old && (how == 1 || how == 2)) return old + old;  // of two NaN this one, whatever the compiler's order
    switch (how) {
      case 1: return old + value;
      case 2: return old * value;
      case 3: return old < value || old != old || (old == value && std::signbit(old)) ? old : value;
      case 4: return old > value || old != old || (old == value && std::signbit(value)) ? old : value;
      default: return value;
    }
  }
  template <class T>
  T combine_whole(Number how, T old, T value) {
    const std::uint64_t a = static_cast<std::uint64_t>(old), b = static_cast<std::uint64_t>(value);
    switch (how) {
      case 1: return static_cast<T>(a + b);
      case 2: return static_cast<T>(a * b);
      case 3: return old < value ? old : value;
      case 4: return old > value ? old : value;
      default: return value;
    }
  }
  inline float float_of(std::uint32_t bits) {
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  inline std::uint32_t bits_of(float x) {
    std::uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  struct Half {  // binary16
    std::uint16_t bits;
    explicit Half(float x) : bits(rounded(x)) {}
    operator float() const {
      const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
      if (magnitude >= 0x7c00) return float_of(sign | 0x7f800000u | (magnitude & 0x3ff) << 13);
      return float_of(sign | bits_of(float_of(magnitude << 13) * 5192296858534827628530496329220096.0f));  // 2^112
    }
    static std::uint16_t rounded(float x) {
      const std::uint32_t all = bits_of(x), magnitude = all & 0x7fffffffu, sign = all >> 16 & 0x8000u;
      std::uint32_t out = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
      if (magnitude > 0x7f800000u) out = 0x7e00 | (magnitude >> 13 & 0x3ff);
      else if (magnitude >= 0x477ff000u) out = 0x7c00;
      else if (magnitude < 0x38800000u) out = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
      return static_cast<std::uint16_t>(sign | out);
    }
  };
  struct BrainHalf {  // the upper half of a float
    std::uint16_t bits;
    explicit BrainHalf(float x) : bits(rounded(x)) {}
    operator float() const { return float_of(std::uint32_t(bits) << 16); }
    static std::uint16_t rounded(float x) {
      const std::uint32_t all = bits_of(x);
      if ((all & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(all >> 16 | 0x40);
      return static_cast<std::uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
    }
  };
  // Elements T are combined with values V.
  template <class T, class V, V (*combine)(Number, V, V)>
  bool scatter_all(const Number* n, char* target, const char* index, const char* value) {
    Number at[10] = {0};
    for (Number point = 0; point < n[0]; ++point) {
      const Number place = n[4] == 4 ? reinterpret_cast<const std::int32_t*>(index)[point]
                                     : reinterpret_cast<const std::int64_t*>(index)[point];
      if (place < 0 || place >= n[5]) return false;
      T* const to = reinterpret_cast<T*>(moved(target, place * n[6]));
      *to = static_cast<T>(combine(n[3], static_cast<V>(*to), reinterpret_cast<const V*>(value)[point]));
      for (Number axis = n[1]; axis-- > 0;) {
        target = moved(target, n[15 + 2 * axis]);
        if (++at[axis] < n[14 + 2 * axis]) break;
        target = moved(target, -n[14 + 2 * axis] * n[15 + 2 * axis]);
        at[axis] = 0;
      }
    }
    return true;
  }
  // Values combined with elements at positions that are data, in order. False: an index was out of range.
  inline bool run_scatter(const char* code, const Number* n, char* const* operands, char* scratch) {
    char* all[48];
    for (Number i = 0; i < n[9]; ++i) all[i] = operands[i];
    all[n[9]] = scratch;
    if (!run_loop(code, n + n[12], all, scratch + n[11])) return false;
    all[n[9]] = scratch + n[10];
    if (!run_loop(code, n + n[13], all, scratch + n[11])) return false;
    char *const target = moved(operands[n[7]], n[8]), *const value = scratch + n[10];
    switch (n[2]) {
      case 0: return scatter_all<float, float, combine_reals<float>>(n, target, scratch, value);
      case 1: return scatter_all<double, double, combine_reals<double>>(n, target, scratch, value);
      case 2: return scatter_all<std::int8_t, std::int8_t, combine_whole<std::int8_t>>(n, target, scratch, value);
      case 3: return scatter_all<std::int16_t, std::int16_t, combine_whole<std::int16_t>>(n, target, scratch, value);
      case 4: return scatter_all<std::int32_t, std::int32_t, combine_whole<std::int32_t>>(n, target, scratch, value);
      case 5: return scatter_all<std::int64_t, std::int64_t, combine_whole<std::int64_t>>(n, target, scratch, value);
      case 6: return scatter_all<std::uint8_t, std::uint8_t, combine_whole<std::uint8_t>>(n, target, scratch, value);
      case 7: return scatter_all<std::uint16_t, std::uint16_t, combine_whole<std::uint16_t>>(n, target, scratch, value);
      case 8: return scatter_all<std::uint32_t, std::uint32_t, combine_whole<std::uint32_t>>(n, target, scratch, value);
      case 9: return scatter_all<std::uint64_t, std::uint64_t, combine_whole<std::uint64_t>>(n, target, scratch, value);
      case 10: return scatter_all<Half, float, combine_reals<float>>(n, target, scratch, value);
      default: return scatter_all<BrainHalf, float, combine_reals<float>>(n, target, scratch, value);
    }
  }
)cpp";

}  // namespace x86_export_detail

SINTER_DECL std::string runtime_source(Isa isa) {
  using namespace x86_export_detail;
  std::string text = runtime_head;
  text +=
      "\ninline bool has_instructions() {\n  unsigned a, b, c, d;\n"
      "  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 29 & 1) == 0) return false;  // F16C\n"
      "  return __builtin_cpu_supports(\"avx2\") && "
      "__builtin_cpu_supports(\"fma\") && __builtin_cpu_supports(\"bmi2\")";
  if (isa == Isa::avx512)
    for (const char* feature : {"avx512f", "avx512dq", "avx512bw", "avx512vl"})
      text += std::string(" &&\n         __builtin_cpu_supports(\"") + feature + "\")";
  text += ";\n}\n";
  return text + runtime_loop + runtime_product + runtime_scatter;
}

}  // namespace x86
SINTER_NAMESPACE_END
