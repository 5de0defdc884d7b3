// Registers by hand: sums from vector 0 up, then the vectors of factors, then the element that is broadcast. Each sum
// is one accumulator, to which the products of a block are added by fma in order.
#pragma once

#include <sinter/backend/x86/convolution/window_tile.hpp>

#include <sinter/backend/x86/contraction/micro.ipp>
#include <sinter/backend/x86/machine/code_memory.hpp>
#include <sinter/backend/x86/machine/stored_code.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel_key.hpp>

#include <asmjit/x86.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_window_tile_detail {

namespace aj = asmjit;

class WindowTileEmitter {
 public:
  WindowTileEmitter(aj::x86::Assembler& as, const WindowTileShape& shape)
      : as_(as),
        shape_(shape),
        is_wide_(shape.isa == Isa::avx512),
        is_double_(shape.dtype == DType::f64),
        vector_bytes_(is_wide_ ? 64 : 32) {}

  void emit() {
    const aj::Label next_segment = as_.newLabel(), is_first = as_.newLabel();
    for (int i = 0; i < sums(); ++i) emit_zero(vec(i));
    as_.mov(image_, arg(offsetof(WindowTileArgs, image)));
    as_.mov(factors_, arg(offsetof(WindowTileArgs, factors)));
    as_.mov(segment_, arg(offsetof(WindowTileArgs, segments)));
    as_.mov(left_, arg(offsetof(WindowTileArgs, count)));
    as_.bind(next_segment);
    emit_segment();
    as_.sub(left_, 1);
    as_.jg(next_segment);
    as_.mov(image_, arg(offsetof(WindowTileArgs, sums)));
    as_.cmp(arg(offsetof(WindowTileArgs, adds)), 0);
    as_.je(is_first);
    for (int i = 0; i < sums(); ++i)
      as_.emit(is_double_ ? aj::x86::Inst::kIdVaddpd : aj::x86::Inst::kIdVaddps, vec(i), vec(i), sum_in_memory(i));
    as_.bind(is_first);
    for (int i = 0; i < sums(); ++i) as_.emit(move_id(), sum_in_memory(i), vec(i));
    as_.vzeroupper();
    as_.ret();
  }

 private:
  static constexpr int unroll = 4;  // positions per iteration

  aj::x86::Vec vec(int index) const {
    if (is_wide_) return aj::x86::Zmm(static_cast<std::uint32_t>(index));
    return aj::x86::Ymm(static_cast<std::uint32_t>(index));
  }
  int rows() const { return static_cast<int>(shape_.offsets.size()); }
  int sums() const { return rows() * shape_.vectors; }
  aj::x86::Mem arg(std::size_t offset) const { return aj::x86::qword_ptr(args_, static_cast<std::int32_t>(offset)); }
  aj::x86::Mem sum_in_memory(int sum) const { return aj::x86::ptr(image_, sum * vector_bytes_); }
  aj::InstId move_id() const { return is_double_ ? aj::x86::Inst::kIdVmovupd : aj::x86::Inst::kIdVmovups; }
  void emit_zero(const aj::x86::Vec& to) {
    if (is_wide_) as_.vpxord(to, to, to);
    else as_.vxorps(to, to, to);
  }

  void emit_segment() {
    const aj::Label main_loop = as_.newLabel(), rest = as_.newLabel(), rest_loop = as_.newLabel(),
                    done = as_.newLabel();
    const int sliding = positions_sliding(), at_once = sliding > 1 ? sliding : unroll;
    as_.mov(seen_, aj::x86::qword_ptr(segment_, offsetof(WindowSegment, from)));
    as_.add(seen_, image_);
    as_.mov(counter_, aj::x86::qword_ptr(segment_, offsetof(WindowSegment, count)));
    as_.add(segment_, sizeof(WindowSegment));
    if (shape_.looks_ahead) emit_prefetch();
    as_.sub(counter_, at_once);
    as_.jl(rest);
    as_.align(aj::AlignMode::kCode, 32);
    as_.bind(main_loop);
    if (sliding > 1) emit_sliding(sliding);
    else
      for (int step = 0; step < unroll; ++step) emit_position(step);
    emit_advance(at_once);
    as_.sub(counter_, at_once);
    as_.jge(main_loop);
    as_.bind(rest);
    as_.add(counter_, at_once);
    as_.jle(done);
    as_.bind(rest_loop);
    emit_position(0);
    emit_advance(1);
    as_.sub(counter_, 1);
    as_.jg(rest_loop);
    as_.bind(done);
  }
  /// Every line from the first row's to the last one's.
  void emit_prefetch() {
    constexpr std::int32_t line = 64;
    const auto [first, last] = std::minmax_element(shape_.offsets.begin(), shape_.offsets.end());
    as_.mov(next_, aj::x86::qword_ptr(segment_, offsetof(WindowSegment, from)));
    as_.add(next_, image_);
    for (std::int32_t at = *first; at < *last; at += line) as_.prefetcht0(aj::x86::ptr(next_, at));
    as_.prefetcht0(aj::x86::ptr(next_, *last));
  }
  void emit_advance(int positions) {
    as_.add(seen_, positions * shape_.step);
    as_.add(factors_, positions * shape_.vectors * vector_bytes_);
  }
  /// How many positions may be taken together, each row seeing at one position what the next row has seen at the one
  /// before: as many as leave registers for all their factors.
  int positions_sliding() const {
    for (int r = 0; r < rows(); ++r)
      if (shape_.offsets[as_index(r)] != r * shape_.step) return 1;
    const int left = (is_wide_ ? 32 : 16) - sums() - 1;
    return rows() > 1 ? std::min<int>(shape_.together, left / shape_.vectors) : 1;
  }
  /// Successive positions: an element is read once for all rows that see it.
  void emit_sliding(int positions) {
    const int factors = sums(), count = positions * shape_.vectors;
    for (int i = 0; i < count; ++i) as_.emit(move_id(), vec(factors + i), aj::x86::ptr(factors_, i * vector_bytes_));
    const aj::x86::Vec element = vec(factors + count);
    for (int seen = 0; seen < rows() + positions - 1; ++seen) {
      emit_broadcast(element, seen * shape_.step);
      for (int p = std::max(0, seen - rows() + 1); p < std::min(positions, seen + 1); ++p)
        for (int v = 0; v < shape_.vectors; ++v)
          emit_fma(vec((seen - p) * shape_.vectors + v), element, vec(factors + p * shape_.vectors + v));
    }
  }
  void emit_broadcast(const aj::x86::Vec& to, std::int32_t offset) {
    as_.emit(is_double_ ? aj::x86::Inst::kIdVbroadcastsd : aj::x86::Inst::kIdVbroadcastss, to,
             aj::x86::ptr(seen_, offset));
  }
  void emit_fma(const aj::x86::Vec& sum, const aj::x86::Vec& a, const aj::x86::Vec& b) {
    as_.emit(is_double_ ? aj::x86::Inst::kIdVfmadd231pd : aj::x86::Inst::kIdVfmadd231ps, sum, a, b);
  }
  /// sum[r][v] += seen[r] * factor[v].
  void emit_position(int ahead) {
    for (int v = 0; v < shape_.vectors; ++v)
      as_.emit(move_id(), vec(sums() + v), aj::x86::ptr(factors_, (ahead * shape_.vectors + v) * vector_bytes_));
    const aj::x86::Vec element = vec(sums() + shape_.vectors);
    for (int r = 0; r < rows(); ++r) {
      emit_broadcast(element, ahead * shape_.step + shape_.offsets[as_index(r)]);
      for (int v = 0; v < shape_.vectors; ++v) emit_fma(vec(r * shape_.vectors + v), element, vec(sums() + v));
    }
  }

  aj::x86::Assembler& as_;
  const WindowTileShape& shape_;
  const bool is_wide_, is_double_;
  const int vector_bytes_;
  const aj::x86::Gp args_ = aj::x86::rdi, image_ = aj::x86::rax, factors_ = aj::x86::rdx, segment_ = aj::x86::rcx,
                    left_ = aj::x86::r8, seen_ = aj::x86::r9, counter_ = aj::x86::r10, next_ = aj::x86::r11;
};

inline std::string key_of(const WindowTileShape& shape) {
  KeyWriter key;
  key.add('w')
      .add(shape.dtype)
      .add(shape.isa)
      .add(shape.vectors)
      .add(shape.step)
      .add(shape.together)
      .add(shape.looks_ahead);
  for (const std::int32_t offset : shape.offsets) key.add(offset);
  return std::move(key).bytes();
}
inline std::shared_ptr<const CodeBlock> make_code(const WindowTileShape& shape) {
  const std::string key = key_of(shape);
  const std::string name = "window_tile_" + std::to_string(shape.offsets.size()) + "x" + std::to_string(shape.vectors);
  if (const std::optional<StoredCode> stored = find_stored_code(key, 0)) return publish_code(stored->code(), name);
  x86_micro_detail::FunctionEmitter emitter;
  const auto code = emitter.function([&](aj::x86::Assembler& as) { WindowTileEmitter(as, shape).emit(); });
  store_code(key, {}, code);
  return publish_code(code, name);
}

}  // namespace x86_window_tile_detail

SINTER_DECL WindowTile::WindowTile(std::shared_ptr<const CodeBlock> code)
    : code_(std::move(code)), function_(code_->entry<void (*)(WindowTileArgs*)>()) {}

SINTER_DECL std::shared_ptr<const WindowTile> find_window_tile(const WindowTileShape& shape) {
  using namespace x86_window_tile_detail;
  ensure(shape.offsets.size() <= as_index(most_window_rows(shape.isa, shape.vectors)), "too many rows of windows");
  struct Known {
    WindowTileShape shape;
    std::shared_ptr<const WindowTile> tile;
  };
  struct Cache {
    ForkSafeMutex mutex;
    std::vector<Known> known;
  };
  constexpr std::size_t most_known = 256;
  Cache& cache = process_object([] { return new Cache; });
  const std::lock_guard lock(cache.mutex);
  for (const Known& each : cache.known)
    if (each.shape == shape) {
      if (runtime_detail::CodeRecording::is_on() && !find_stored_code(key_of(shape), 0)) make_code(shape);
      return each.tile;
    }
  if (cache.known.size() == most_known) cache.known.erase(cache.known.begin());
  cache.known.push_back({shape, std::make_shared<const WindowTile>(make_code(shape))});
  return cache.known.back().tile;
}

}  // namespace x86
SINTER_NAMESPACE_END
