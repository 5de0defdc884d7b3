// The ops of ops/fft.hpp on memory: axes one after the other, real rows by complex ones of half the length.
#pragma once

#include <sinter/ops/fft_host.hpp>

#include <sinter/base/processor.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/ops/fft.hpp>
#include <sinter/ops/fft_plan.ipp>
#include <sinter/ops/fft_rows.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// Calls f(machine) with the widest vectors that the processor has.
template <class T, class F>
void with_machine(F&& f) {
#ifndef SINTER_NO_X86
  if (base_detail::has_avx2()) return f(WideMachine<T>{});
#endif
  f(NarrowMachine<T>{});
}
/// Calls f(machine) with vectors of AVX-512, or returns false: where the processor has none, where lines are too few or
/// too short for them, or so long that a group of them fills the cache. Bits do not depend on it.
template <class T, class F>
bool with_widest_machine(const Block& block, F&& f) {
#ifndef SINTER_NO_X86
  constexpr std::int64_t lanes = WidestMachine<T>::L::count, longest = 512;
  if (block.lines() < 2 * lanes || block.length < Pieces<typename WidestMachine<T>::L>::numbers ||
      block.length > longest)
    return false;
  if (block.inner != 1 && block.inner % lanes != 0) return false;
  if (!base_detail::has_avx512()) return false;
  f(WidestMachine<T>{});
  return true;
#else
  (void)block, (void)f;
  return false;
#endif
}
/// Whole groups of short rows by the widest vectors that there are rows for; gives how many rows that were.
template <ShortKind kind, class T>
std::int64_t transform_short_rows(const ShortRows<T>& rows) {
#ifndef SINTER_NO_X86
  if (!is_short_row(kind, rows.length)) return 0;
  if (rows.rows >= WidestMachine<T>::L::count && base_detail::has_avx512())
    return Transformer<WidestMachine<T>, T>::template run_short<kind>(rows);
  if (rows.rows >= WideMachine<T>::L::count && base_detail::has_avx2())
    return Transformer<WideMachine<T>, T>::template run_short<kind>(rows);
#else
  (void)rows;
#endif
  return 0;
}
/// Rows that WideMachine takes one by one, by wider vectors where these are filled; false: there are no such rows.
template <class T>
bool transform_cut_rows(const T* in, T* out, const Block& block, Ends<T> ends) {
#ifndef SINTER_NO_X86
  if (block.inner != 1 || !Transformer<WideMachine<T>, T>::is_cut(block.outer, block.length)) return false;
  if (middle_divisor(block.length) < WidestMachine<T>::L::count || !base_detail::has_avx512()) return false;
  Transformer<WidestMachine<T>, T>::run_one_by_one(in, out, block, ends);
  return true;
#else
  (void)in, (void)out, (void)block, (void)ends;
  return false;
#endif
}
/// Along the middle axis of the block, in the order of vectors that is fastest for it.
template <class T>
void transform_block(const T* in, T* out, const Block& block, Ends<T> ends) {
  if (block.inner == 1) {
    const ShortRows<T> rows{.in = in,
                            .out = out,
                            .length = block.length,
                            .begin = 0,
                            .end = 0,
                            .rows = block.outer,
                            .re = ends.parts == Parts::exchanged ? 1 : 0,
                            .scale = ends.scale};
    if (const std::int64_t done = transform_short_rows<ShortKind::complex>(rows); done != 0) {
      const std::int64_t numbers = 2 * done * block.length;
      if (done < block.outer) transform_block(in + numbers, out + numbers, {block.outer - done, block.length, 1}, ends);
      return;
    }
  }
#ifndef SINTER_NO_X86
  if (base_detail::has_avx512() && Transformer<WidestMachine<T>, T>::run_in_rows(in, out, block, ends)) return;
#endif
  if (with_widest_machine<T>(
          block, [&](auto machine) { Transformer<decltype(machine), T>::run_side_by_side(in, out, block, ends); }))
    return;
#ifndef SINTER_NO_X86
  if (base_detail::has_avx2() && Transformer<WideMachine<T>, T>::run_in_rows(in, out, block, ends)) return;
#endif
  if (transform_cut_rows(in, out, block, ends)) return;
  with_machine<T>([&](auto machine) {
    using Transform = Transformer<decltype(machine), T>;
    if (!Transform::run_in_rows(in, out, block, ends)) Transform::run(in, out, block, ends);
  });
}
template <class T>
T scale_of(FourierScale scale, double length) {
  switch (scale) {
    case FourierScale::none: return 1;
    case FourierScale::root: return static_cast<T>(1 / std::sqrt(length));
    case FourierScale::full: return static_cast<T>(1 / length);
  }
  __builtin_unreachable();
}
inline Parts parts_of(bool is_inverse) { return is_inverse ? Parts::exchanged : Parts::as_they_are; }

SINTER_DECL void transform_in_double(std::vector<double>& line) {
  const auto length = static_cast<std::int64_t>(line.size() / 2);
  with_machine<double>(
      [&](auto machine) { Transformer<decltype(machine), double>::run(line.data(), line.data(), {1, length, 1}, {}); });
}

/// Rows of real numbers and their half spectra, either way.
struct RealRows {
  std::int64_t rows = 0, length = 0;
  FourierSign sign = FourierSign::minus;
  bool is_doubled = false;
  bool is_even() const { return length % 2 == 0; }
  std::int64_t numbers() const { return length / 2 + 1; }
  /// Of even length.
  Block as_complex() const { return {rows, length / 2, 1}; }
  template <class T>
  HalfSpectrum<T> forward_kind() const {
    return {is_doubled ? T(2) : T(1), sign == FourierSign::plus};
  }
  template <class T>
  HalfSpectrum<T> backward_kind() const {
    return {is_doubled ? T(1) : T(0.5), sign == FourierSign::minus};
  }
};

template <class Machine, class T>
class RealTransformer {
  using L = typename Machine::L;
  using P = Pair<L>;
  using Complex = Transformer<Machine, T>;
  static constexpr std::int64_t lanes = L::count;

 public:
  static void forward(const T* in, T* out, const RealRows& rows, T scale) {
    const HalfSpectrum<T> kind = rows.template forward_kind<T>();
    if (!rows.is_even()) return odd_forward(in, out, rows, kind, scale);
    const std::int64_t half = rows.length / 2;
    const auto table = real_table<T>(rows.length);
    if (Complex::is_cut(rows.rows, half)) {
      for (std::int64_t row = 0; row < rows.rows; ++row) {
        T* to = out + 2 * row * rows.numbers();
        run_cut(in + row * rows.length, to, half, {Parts::as_they_are, scale});
        Machine::finish_row(to, half, table->roots.data(), kind);
      }
      return;
    }
    forward_groups(in, out, rows, scale);
  }
  /// Of even length.
  static void forward_groups(const T* in, T* out, const RealRows& rows, T scale) {
    const HalfSpectrum<T> kind = rows.template forward_kind<T>();
    const std::int64_t half = rows.length / 2;
    const auto table = real_table<T>(rows.length);
    const auto plan = line_plan<T>(half);
    for_groups(rows, std::max(plan->room, half + 1), [&](std::int64_t first, int used, P* a, P* b) {
      Machine::load(a, Complex::lines_of(in, {rows.rows, half, 1}, first, used, Parts::as_they_are), half);
      P* done = Machine::transform(*plan, a, b);
      Machine::finish(done, half, table->roots.data(), kind);
      Machine::store(Complex::lines_of(out, {rows.rows, half + 1, 1}, first, used, Parts::as_they_are), done, half + 1,
                     scale);
    });
  }
  /// False: rows of this length are not transformed one by one.
  static bool forward_in_rows(const T* in, T* out, const RealRows& rows, T scale) {
    const std::int64_t half = rows.length / 2;
    const auto plan = rows.is_even() ? Complex::plan_in_row(rows.rows, half) : nullptr;
    if (!plan) return false;
    const auto table = real_table<T>(rows.length);
    const HalfSpectrum<T> kind = rows.template forward_kind<T>();
    parallel_for(rows.rows, estimated_nanoseconds(half), [&](std::int64_t row, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(half / lanes);
      for (; row < end; ++row) {
        T* const to = out + 2 * row * rows.numbers();
        Machine::row(*plan, {in + row * rows.length, to, 0, T(1)}, a, b);
        Machine::finish_row(to, half, table->roots.data(), kind);
        if (scale == T(1)) continue;
        for (std::int64_t i = 0; i < 2 * rows.numbers(); ++i) to[i] *= scale;  // last, as forward_groups
      }
    });
    return true;
  }
  static bool backward_in_rows(const T* in, T* out, const RealRows& rows, T scale) {
    const std::int64_t half = rows.length / 2;
    const auto plan = rows.is_even() ? Complex::plan_in_row(rows.rows, half) : nullptr;
    if (!plan) return false;
    const auto table = real_table<T>(rows.length);
    const HalfSpectrum<T> kind = rows.template backward_kind<T>();
    parallel_for(rows.rows, estimated_nanoseconds(half), [&](std::int64_t row, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(half / lanes);
      const Ref<Storage> memory = room_for<T>(half + 1);
      T* const line = static_cast<T*>(memory->data());
      for (; row < end; ++row) {
        std::copy_n(in + 2 * row * rows.numbers(), 2 * rows.numbers(), line);
        Machine::begin_row(line, half, table->roots.data(), kind);
        Machine::row(*plan, {line, out + row * rows.length, 1, scale}, a, b);
      }
    });
    return true;
  }
  static void backward(const T* in, T* out, const RealRows& rows, T scale) {
    const HalfSpectrum<T> kind = rows.template backward_kind<T>();
    if (!rows.is_even()) return odd_backward(in, out, rows, kind, scale);
    const std::int64_t half = rows.length / 2;
    const auto table = real_table<T>(rows.length);
    if (Complex::is_cut(rows.rows, half)) {
      const Ref<Storage> memory = room_for<T>(half + 1);
      T* line = static_cast<T*>(memory->data());
      for (std::int64_t row = 0; row < rows.rows; ++row) {
        std::copy_n(in + 2 * row * rows.numbers(), 2 * rows.numbers(), line);
        Machine::begin_row(line, half, table->roots.data(), kind);
        run_cut(line, out + row * rows.length, half, {Parts::exchanged, scale});
      }
      return;
    }
    backward_groups(in, out, rows, scale);
  }
  /// Of even length.
  static void backward_groups(const T* in, T* out, const RealRows& rows, T scale) {
    const HalfSpectrum<T> kind = rows.template backward_kind<T>();
    const std::int64_t half = rows.length / 2;
    const auto table = real_table<T>(rows.length);
    const auto plan = line_plan<T>(half);
    for_groups(rows, std::max(plan->room, half + 1), [&](std::int64_t first, int used, P* a, P* b) {
      Machine::load(a, Complex::lines_of(in, {rows.rows, half + 1, 1}, first, used, Parts::as_they_are), half + 1);
      Machine::begin(a, half, table->roots.data(), kind);
      for (std::int64_t k = 0; k < half; ++k) std::swap(a[k].re, a[k].im);
      Machine::store(Complex::lines_of(out, {rows.rows, half, 1}, first, used, Parts::exchanged),
                     Machine::transform(*plan, a, b), half, scale);
    });
  }

 private:
  static void run_cut(const T* in, T* out, std::int64_t length, Ends<T> ends) {
    const Block row{1, length, 1};
    if (!transform_cut_rows(in, out, row, ends)) Complex::run(in, out, row, ends);
  }
  /// f(first row, how many, two buffers) for each group of rows.
  template <class F>
  static void for_groups(const RealRows& rows, std::int64_t room, const F& f) {
    const double cost = estimated_nanoseconds(rows.length) * static_cast<double>(lanes) / 2;
    parallel_for((rows.rows + lanes - 1) / lanes, cost, [&](std::int64_t i, std::int64_t end) {
      const auto [a, b] = lane_buffers().pair<P>(room);
      for (; i < end; ++i) f(i * lanes, static_cast<int>(std::min(lanes, rows.rows - i * lanes)), a, b);
    });
  }
  /// Odd lengths as complex numbers, a group of rows at a time.
  template <class F>
  static void in_parts(const RealRows& rows, const F& f) {
    constexpr std::int64_t most = 64;  // rows
    const std::int64_t parts = (rows.rows + most - 1) / most;
    parallel_for(parts, estimated_nanoseconds(rows.length) * most, [&](std::int64_t i, std::int64_t end) {
      const Ref<Storage> memory = room_for<T>(std::min(most, rows.rows) * rows.length);
      for (; i < end; ++i) f(i * most, std::min(most, rows.rows - i * most), static_cast<T*>(memory->data()));
    });
  }
  /// In place. As one by one, or not, as all rows together: what is left of them must have the same bits.
  static void run_part(T* x, const RealRows& rows, std::int64_t count, Ends<T> ends) {
    const Block block{count, rows.length, 1};
    if (Complex::is_cut(rows.rows, rows.length)) Complex::run(x, x, block, ends);
    else Complex::run_side_by_side(x, x, block, ends);
  }
  static void odd_forward(const T* in, T* out, const RealRows& rows, HalfSpectrum<T> kind, T scale) {
    in_parts(rows, [&](std::int64_t first, std::int64_t count, T* x) {
      for (std::int64_t i = 0; i < count * rows.length; ++i) {
        x[2 * i] = in[first * rows.length + i];
        x[2 * i + 1] = 0;
      }
      run_part(x, rows, count, {Parts::as_they_are, scale});
      for (std::int64_t row = 0; row < count; ++row) {
        const T* from = x + 2 * row * rows.length;
        T* to = out + 2 * (first + row) * rows.numbers();
        to[0] = from[0];
        to[1] = 0;
        for (std::int64_t k = 1; k < rows.numbers(); ++k) {
          to[2 * k] = from[2 * k] * kind.interior;
          to[2 * k + 1] = from[2 * k + 1] * (kind.is_conjugate ? -kind.interior : kind.interior);
        }
      }
    });
  }
  static void odd_backward(const T* in, T* out, const RealRows& rows, HalfSpectrum<T> kind, T scale) {
    in_parts(rows, [&](std::int64_t first, std::int64_t count, T* x) {
      for (std::int64_t row = 0; row < count; ++row) {
        const T* from = in + 2 * (first + row) * rows.numbers();
        T* to = x + 2 * row * rows.length;
        to[0] = from[0];
        to[1] = 0;
        for (std::int64_t k = 1; k < rows.numbers(); ++k) {
          const std::int64_t mirror = rows.length - k;
          to[2 * k] = to[2 * mirror] = from[2 * k] * kind.interior;
          to[2 * k + 1] = from[2 * k + 1] * (kind.is_conjugate ? -kind.interior : kind.interior);
          to[2 * mirror + 1] = -to[2 * k + 1];
        }
      }
      run_part(x, rows, count, {Parts::exchanged, scale});
      for (std::int64_t i = 0; i < count * rows.length; ++i) out[first * rows.length + i] = x[2 * i];
    });
  }
};

/// Null where short rows need none.
template <class T>
std::shared_ptr<const RealTable<T>> short_row_table(const RealRows& rows) {
  return rows.is_even() && is_short_row(ShortKind::from_real, rows.length) ? real_table<T>(rows.length) : nullptr;
}
template <ShortKind kind, class T>
ShortRows<T> short_rows_of(const T* in, T* out, const RealRows& rows, T scale, const RealTable<T>* table) {
  ShortRows<T> made{.in = in, .out = out, .length = rows.length, .begin = 0, .end = 0, .rows = rows.rows};
  made.scale = scale;
  made.kind = kind == ShortKind::from_real ? rows.forward_kind<T>() : rows.backward_kind<T>();
  made.roots = table == nullptr ? nullptr : table->roots.data();
  return made;
}
/// As transform_block; but many short real rows are faster side by side.
template <class T>
void transform_real_rows(const T* in, T* out, const RealRows& rows, T scale) {
  const auto table = short_row_table<T>(rows);
  const ShortRows<T> short_rows = short_rows_of<ShortKind::from_real>(in, out, rows, scale, table.get());
  if (const std::int64_t done = transform_short_rows<ShortKind::from_real>(short_rows); done != 0) {
    RealRows rest = rows;
    rest.rows -= done;
    if (rest.rows != 0) transform_real_rows(in + done * rows.length, out + 2 * done * rows.numbers(), rest, scale);
    return;
  }
  if (rows.is_even() && with_widest_machine<T>(rows.as_complex(), [&](auto machine) {
        RealTransformer<decltype(machine), T>::forward_groups(in, out, rows, scale);
      }))
    return;
#ifndef SINTER_NO_X86
  if (base_detail::has_avx512() && RealTransformer<WidestMachine<T>, T>::forward_in_rows(in, out, rows, scale)) return;
#endif
  with_machine<T>([&](auto machine) {
    using Transform = RealTransformer<decltype(machine), T>;
    if (!Transform::forward_in_rows(in, out, rows, scale)) Transform::forward(in, out, rows, scale);
  });
}
template <class T>
void transform_rows_to_real(const T* in, T* out, const RealRows& rows, T scale) {
  const auto table = short_row_table<T>(rows);
  const ShortRows<T> short_rows = short_rows_of<ShortKind::to_real>(in, out, rows, scale, table.get());
  if (const std::int64_t done = transform_short_rows<ShortKind::to_real>(short_rows); done != 0) {
    RealRows rest = rows;
    rest.rows -= done;
    if (rest.rows != 0) transform_rows_to_real(in + 2 * done * rows.numbers(), out + done * rows.length, rest, scale);
    return;
  }
  if (rows.is_even() && with_widest_machine<T>(rows.as_complex(), [&](auto machine) {
        RealTransformer<decltype(machine), T>::backward_groups(in, out, rows, scale);
      }))
    return;
#ifndef SINTER_NO_X86
  if (base_detail::has_avx512() && RealTransformer<WidestMachine<T>, T>::backward_in_rows(in, out, rows, scale)) return;
#endif
  with_machine<T>([&](auto machine) {
    using Transform = RealTransformer<decltype(machine), T>;
    if (!Transform::backward_in_rows(in, out, rows, scale)) Transform::backward(in, out, rows, scale);
  });
}

template <class F>
void visit_number_type(DType dtype, F&& f) {
  if (dtype == DType::f64) f(double{});
  else f(float{});
}

}  // namespace fft_detail

namespace ops {

SINTER_DECL void Fourier::run_on_host(HostCall& call) {
  using namespace fft_detail;
  const HostView& x = call.in[0];
  const bool is_inverse = call.attrs[ops_detail::fourier_sign] == FourierSign::plus;
  visit_number_type(x.dtype, [&](auto number) {
    using T = decltype(number);
    const T* from = x.as<T>();
    T* to = call.out[0].as<T>();
    const IntVector& axes = call.attrs.axes;
    if (axes.empty()) std::copy_n(from, x.numel, to);
    for (std::size_t i = axes.size(); i-- > 0; from = to) {
      const auto axis = static_cast<int>(axes[i]);
      Block block{1, x.shape[axis].value(), 1};
      for (int other = 0; other < axis; ++other) block.outer *= x.shape[other].value();
      for (int other = axis + 1; other + 1 < x.shape.rank(); ++other) block.inner *= x.shape[other].value();
      const Ends<T> ends{parts_of(is_inverse),
                         scale_of<T>(call.attrs[ops_detail::fourier_scale], static_cast<double>(block.length))};
      transform_block(from, to, block, ends);
    }
  });
}

SINTER_DECL void FourierOfReal::run_on_host(HostCall& call) {
  using namespace fft_detail;
  const HostView& x = call.in[0];
  const std::int64_t length = x.shape[-1].value();
  const RealRows rows{x.numel / length, length, call.attrs[ops_detail::fourier_sign],
                      call.attrs[ops_detail::is_half_doubled]};
  visit_number_type(x.dtype, [&](auto number) {
    using T = decltype(number);
    const T factor = scale_of<T>(call.attrs[ops_detail::fourier_scale], static_cast<double>(length));
    transform_real_rows(x.as<T>(), call.out[0].as<T>(), rows, factor);
  });
}

SINTER_DECL void FourierToReal::run_on_host(HostCall& call) {
  using namespace fft_detail;
  const HostView& y = call.out[0];
  const std::int64_t wanted = y.shape[-1].value();
  const RealRows rows{y.numel / wanted, wanted, call.attrs[ops_detail::fourier_sign],
                      call.attrs[ops_detail::is_half_doubled]};
  visit_number_type(y.dtype, [&](auto number) {
    using T = decltype(number);
    const T factor = scale_of<T>(call.attrs[ops_detail::fourier_scale], static_cast<double>(wanted));
    transform_rows_to_real(call.in[0].as<T>(), y.as<T>(), rows, factor);
  });
}

}  // namespace ops
SINTER_NAMESPACE_END
