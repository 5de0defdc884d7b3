// Stencils: each point of a result is made of a few neighbours, which are given by rolls, by slices of what is padded,
// or by slices alone. The peer of each is plain loops over the same arrays, with the first and last column apart and
// rows above and below by index, as one would write them for a compiler that vectorises; one thread each.
#include "compiled.hpp"

#include <array>
#include <type_traits>

using namespace sinter;
using benchmark::State;

namespace {

using Index64 = std::int64_t;
using Fields = std::vector<Tensor>;

template <class T>
std::vector<float> as_floats(std::span<const T> values) {
  return std::vector<float>(values.begin(), values.end());
}

template <class T>
struct Arrays {
  std::vector<std::vector<T>> values;
  Arrays(std::size_t count, Index64 elements) : values(count, std::vector<T>(static_cast<std::size_t>(elements))) {}
  T* operator[](std::size_t i) { return values[i].data(); }
};
/// std::vector<bool> has no elements in memory.
template <>
struct Arrays<bool> {
  std::vector<std::unique_ptr<bool[]>> values;
  Arrays(std::size_t count, Index64 elements) {
    for (std::size_t i = 0; i < count; ++i) values.emplace_back(new bool[static_cast<std::size_t>(elements)]());
  }
  bool* operator[](std::size_t i) { return values[i].get(); }
};

/// Compiles `step`, compares each field with the peer's, and lets them alternate.
template <class T, class Step, class Loops>
void compare_fields(State& state, const Fields& in, std::size_t results, Index64 elements, Step step, Loops loops) {
  if (bench::is_left_out(state)) return;
  jit::reset();
  auto compiled = jit::compile(step);
  std::vector<const T*> from;
  for (const Tensor& field : in) from.push_back(field.template data<T>().data());
  Arrays<T> out(results, elements);
  std::vector<T*> to;
  for (std::size_t i = 0; i < results; ++i) to.push_back(out[i]);
  const auto peer = [&] {
    loops(from, to);
    benchmark::ClobberMemory();
  };
  peer();
  {
    const Fields got = compiled(in);
    for (std::size_t i = 0; i < results; ++i) {
      const auto ours = as_floats<T>(got[i].template data<T>());
      const auto theirs = as_floats<T>(std::span<const T>(to[i], static_cast<std::size_t>(elements)));
      if (!bench::agree(state, ours, theirs, 1e-5)) return;
    }
  }
  const double compile_ms = compiled.stats().compile_ms;
  bench::alternate(state, "plain loops", [&] { benchmark::DoNotOptimize(compiled(in)); }, peer);
  state.counters["kernels"] = static_cast<double>(compiled.lower(in).kernels().size());
  state.counters["compile_ms"] = compile_ms;
}

/// Calls at(x, left, right) for each column of a row, the first and the last one apart.
template <class At>
inline void along_row(Index64 n, At&& at) {
  at(Index64{0}, n - 1, Index64{1});
  BENCH_INDEPENDENT
  for (Index64 x = 1; x < n - 1; ++x) at(x, x - 1, x + 1);
  at(n - 1, n - 2, Index64{0});
}
/// Calls row(first element of it, of the row above, of the row below).
template <class Row>
inline void over_rows(Index64 n, Row&& row) {
  for (Index64 y = 0; y < n; ++y) row(y * n, (y == 0 ? n - 1 : y - 1) * n, (y == n - 1 ? 0 : y + 1) * n);
}

template <class T>
void life_loops(Index64 n, const T* __restrict in, T* __restrict out) {
  using Count = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;
  over_rows(n, [=](Index64 here, Index64 above, Index64 below) {
    const T* __restrict up = in + above, * __restrict mid = in + here, * __restrict down = in + below;
    T* __restrict to = out + here;
    along_row(n, [=](Index64 x, Index64 l, Index64 r) {
      const Count count = static_cast<Count>(Count(up[l]) + Count(up[x]) + Count(up[r]) + Count(mid[l]) +
                                             Count(mid[r]) + Count(down[l]) + Count(down[x]) + Count(down[r]));
      to[x] = static_cast<T>((count == Count(3)) | ((count == Count(2)) & (mid[x] == T(1))));
    });
  });
}

std::string name_of(const std::string& what, std::initializer_list<Index64> extents, const char* dtype = "f32") {
  return "stencil: " + what + "/" + bench::shape_text(extents) + "/" + dtype;
}

Fields noises(std::size_t count, std::initializer_list<Index64> extents) {
  Fields fields;
  for (std::size_t i = 0; i < count; ++i) fields.push_back(bench::noise(extents, static_cast<int>(i)));
  return fields;
}

/// The value at (y + dy, x + dx).
Tensor at(const Tensor& x, int dy, int dx) { return roll(x, {-dy, -dx}, {0, 1}); }

template <class T>
void add_life(Index64 n, DType dtype, const char* dtype_name) {
  bench::add(name_of("game of life by roll", {n, n}, dtype_name), [=](State& state) {
    Tensor x = randint(0, 2, {n, n}).to(dtype);
    eval(x);
    const auto step = [dtype](const Fields& in) {
      const bool is_bool = dtype == DType::bool_;
      const Tensor cells = is_bool ? in[0].to(DType::u8) : in[0];
      Tensor count;
      for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx) {
          if (dy == 0 && dx == 0) continue;
          const Tensor next = at(cells, dy, dx);
          count = dy == -1 && dx == -1 ? next : Tensor(count + next);
        }
      const Tensor lives = (count == 3) | ((count == 2) & (cells == 1));
      return Fields{lives.to(dtype)};
    };
    compare_fields<T>(state, {x}, 1, n * n, step,
                      [n](const auto& in, const auto& out) { life_loops<T>(n, in[0], out[0]); });
  });
}

void add_heat(Index64 n) {
  bench::add(name_of("heat by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor& x = in[0];
      return Fields{x + 0.1 * (roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x)};
    };
    compare_fields<float>(state, noises(1, {n, n}), 1, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict a = in[0];
      float* __restrict b = out[0];
      over_rows(n, [=](Index64 i, Index64 u, Index64 d) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          b[i + x] = a[i + x] + 0.1f * (a[u + x] + a[d + x] + a[i + l] + a[i + r] - 4 * a[i + x]);
        });
      });
    });
  });
}

void add_wave(Index64 n) {
  bench::add(name_of("wave by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor &x = in[0], &before = in[1];
      const Tensor around = roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x;
      return Fields{2 * x - before + 0.25 * around};
    };
    compare_fields<float>(state, noises(2, {n, n}), 1, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict a = in[0], * __restrict before = in[1];
      float* __restrict b = out[0];
      over_rows(n, [=](Index64 i, Index64 u, Index64 d) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          b[i + x] = 2 * a[i + x] - before[i + x] + 0.25f * (a[u + x] + a[d + x] + a[i + l] + a[i + r] - 4 * a[i + x]);
        });
      });
    });
  });
}

void add_shallow_water(Index64 n) {
  bench::add(name_of("shallow water by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor &h = in[0], &u = in[1], &v = in[2];
      const auto ddx = [](const Tensor& f) { return Tensor(0.05 * (roll(f, -1, 1) - roll(f, 1, 1))); };
      const auto ddy = [](const Tensor& f) { return Tensor(0.05 * (roll(f, -1, 0) - roll(f, 1, 0))); };
      return Fields{h - (ddx(u) + ddy(v)), u - 9.8 * ddx(h), v - 9.8 * ddy(h)};
    };
    compare_fields<float>(state, noises(3, {n, n}), 3, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict h = in[0], * __restrict u = in[1], * __restrict v = in[2];
      float* __restrict h2 = out[0], * __restrict u2 = out[1], * __restrict v2 = out[2];
      over_rows(n, [=](Index64 i, Index64 up, Index64 down) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          h2[i + x] = h[i + x] - (0.05f * (u[i + r] - u[i + l]) + 0.05f * (v[down + x] - v[up + x]));
          u2[i + x] = u[i + x] - 9.8f * (0.05f * (h[i + r] - h[i + l]));
          v2[i + x] = v[i + x] - 9.8f * (0.05f * (h[down + x] - h[up + x]));
        });
      });
    });
  });
}

void add_sobel(Index64 n) {
  bench::add(name_of("Sobel by slices", {n, n}), [=](State& state) {
    const Index64 m = n - 2;
    const auto step = [m](const Fields& in) {
      const auto part = [&](Index64 dy, Index64 dx) { return Tensor(in[0](slice(dy, dy + m), slice(dx, dx + m))); };
      const Tensor gx = part(0, 2) - part(0, 0) + 2 * (part(1, 2) - part(1, 0)) + part(2, 2) - part(2, 0);
      const Tensor gy = part(2, 0) - part(0, 0) + 2 * (part(2, 1) - part(0, 1)) + part(2, 2) - part(0, 2);
      return Fields{sqrt(gx * gx + gy * gy)};
    };
    compare_fields<float>(state, noises(1, {n, n}), 1, m * m, step, [n, m](const auto& in, const auto& out) {
      const float* __restrict a = in[0];
      float* __restrict b = out[0];
      for (Index64 y = 0; y < m; ++y) BENCH_INDEPENDENT
      for (Index64 x = 0; x < m; ++x) {
        const float *p = a + y * n + x, *q = p + n, *r = q + n;
        const float gx = p[2] - p[0] + 2 * (q[2] - q[0]) + r[2] - r[0];
        const float gy = r[0] - p[0] + 2 * (r[1] - p[1]) + r[2] - p[2];
        b[y * m + x] = std::sqrt(gx * gx + gy * gy);
      }
    });
  });
}

constexpr std::array<float, 5> blur_weights{1 / 16.f, 4 / 16.f, 6 / 16.f, 4 / 16.f, 1 / 16.f};

void add_blur(Index64 n) {
  bench::add(name_of("Gaussian blur 5x5 by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      Tensor sum;
      for (int dy = -2; dy <= 2; ++dy)
        for (int dx = -2; dx <= 2; ++dx) {
          const double weight = blur_weights[std::size_t(dy + 2)] * blur_weights[std::size_t(dx + 2)];
          sum = dy == -2 && dx == -2 ? Tensor(weight * at(in[0], dy, dx)) : Tensor(sum + weight * at(in[0], dy, dx));
        }
      return Fields{sum};
    };
    compare_fields<float>(state, noises(1, {n, n}), 1, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict a = in[0];
      float* __restrict b = out[0];
      for (Index64 y = 0; y < n; ++y) {
        std::array<const float*, 5> rows;
        for (Index64 d = -2; d <= 2; ++d) rows[std::size_t(d + 2)] = a + (y + d + n) % n * n;
        const auto point = [&](Index64 x, std::array<Index64, 5> at) {
          float sum = 0;
          for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t j = 0; j < 5; ++j) sum += blur_weights[i] * blur_weights[j] * rows[i][at[j]];
          b[y * n + x] = sum;
        };
        const auto border = [&](Index64 x) {
          point(x, {(x - 2 + n) % n, (x - 1 + n) % n, x, (x + 1) % n, (x + 2) % n});
        };
        border(0), border(1);
        BENCH_INDEPENDENT
        for (Index64 x = 2; x < n - 2; ++x) point(x, {x - 2, x - 1, x, x + 1, x + 2});
        border(n - 2), border(n - 1);
      }
    });
  });
}

void add_gray_scott(Index64 n) {
  bench::add(name_of("Gray-Scott by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor &u = in[0], &v = in[1];
      const auto around = [](const Tensor& x) {
        return Tensor(roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1) - 4 * x);
      };
      const Tensor reaction = u * v * v;
      return Fields{u + 0.16 * around(u) - reaction + 0.035 * (1 - u), v + 0.08 * around(v) + reaction - 0.095 * v};
    };
    compare_fields<float>(state, noises(2, {n, n}), 2, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict u = in[0], * __restrict v = in[1];
      float* __restrict u2 = out[0], * __restrict v2 = out[1];
      over_rows(n, [=](Index64 i, Index64 up, Index64 down) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          const float p = u[i + x], q = v[i + x], reaction = p * q * q;
          u2[i + x] = p + 0.16f * (u[up + x] + u[down + x] + u[i + l] + u[i + r] - 4 * p) - reaction + 0.035f * (1 - p);
          v2[i + x] = q + 0.08f * (v[up + x] + v[down + x] + v[i + l] + v[i + r] - 4 * q) + reaction - 0.095f * q;
        });
      });
    });
  });
}

/// Maxwell's equations on a staggered grid: the magnetic field first, the electric one from what it has become.
void add_fdtd(Index64 n) {
  bench::add(name_of("FDTD by roll", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor& e = in[2];
      const Tensor hx = in[0] - 0.5 * (roll(e, -1, 0) - e), hy = in[1] + 0.5 * (roll(e, -1, 1) - e);
      return Fields{hx, hy, e + 0.5 * (hy - roll(hy, 1, 1) - hx + roll(hx, 1, 0))};
    };
    compare_fields<float>(state, noises(3, {n, n}), 3, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict hx = in[0], * __restrict hy = in[1], * __restrict e = in[2];
      float* __restrict hx2 = out[0], * __restrict hy2 = out[1], * __restrict e2 = out[2];
      over_rows(n, [=](Index64 i, Index64, Index64 down) {
        along_row(n, [=](Index64 x, Index64, Index64 r) {
          hx2[i + x] = hx[i + x] - 0.5f * (e[down + x] - e[i + x]);
          hy2[i + x] = hy[i + x] + 0.5f * (e[i + r] - e[i + x]);
        });
      });
      over_rows(n, [=](Index64 i, Index64 up, Index64) {
        along_row(n, [=](Index64 x, Index64 l, Index64) {
          e2[i + x] = e[i + x] + 0.5f * (hy2[i + x] - hy2[i + l] - hx2[i + x] + hx2[up + x]);
        });
      });
    });
  });
}

// D2Q9: velocities and weights.
constexpr std::array<int, 9> lattice_x{0, 1, 0, -1, 0, 1, -1, -1, 1}, lattice_y{0, 0, 1, 0, -1, 1, 1, -1, -1};
constexpr std::array<float, 9> lattice_weight{4 / 9.f,  1 / 9.f,  1 / 9.f,  1 / 9.f, 1 / 9.f,
                                              1 / 36.f, 1 / 36.f, 1 / 36.f, 1 / 36.f};

/// Streams nine distributions along their velocities, and lets them collide.
template <class Value>
std::array<Value, 9> collide(const std::array<Value, 9>& f) {
  Value density = f[0];
  for (std::size_t i = 1; i < 9; ++i) density = Value(density + f[i]);
  const Value u = Value((f[1] + f[5] + f[8] - f[3] - f[6] - f[7]) / density),
              v = Value((f[2] + f[5] + f[6] - f[4] - f[7] - f[8]) / density), square = Value(1.5f * (u * u + v * v));
  std::array<Value, 9> out;
  for (std::size_t i = 0; i < 9; ++i) {
    const Value along = Value(3.f * (float(lattice_x[i]) * u + float(lattice_y[i]) * v));
    const Value equilibrium = Value(lattice_weight[i] * density * (1.f + along + 0.5f * along * along - square));
    out[i] = Value(f[i] + 0.6f * (equilibrium - f[i]));
  }
  return out;
}

void add_lattice_boltzmann(Index64 n) {
  bench::add(name_of("lattice Boltzmann D2Q9 by roll", {n, n}), [=](State& state) {
    Fields fields = noises(9, {n, n});
    for (Tensor& field : fields) field = 1 + 0.05 * field;
    eval(fields);
    const auto step = [](const Fields& in) {
      std::array<Tensor, 9> f;
      for (std::size_t i = 0; i < 9; ++i) f[i] = at(in[i], -lattice_y[i], -lattice_x[i]);
      const std::array<Tensor, 9> out = collide(f);
      return Fields(out.begin(), out.end());
    };
    compare_fields<float>(state, fields, 9, n * n, step, [n](const auto& in, const auto& out) {
      std::array<const float*, 9> from;
      std::array<float*, 9> to;
      for (std::size_t i = 0; i < 9; ++i) from[i] = in[i], to[i] = out[i];
      over_rows(n, [=](Index64 here, Index64 up, Index64 down) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          std::array<float, 9> f;
          for (std::size_t i = 0; i < 9; ++i)
            f[i] = from[i][(lattice_y[i] > 0   ? up
                            : lattice_y[i] < 0 ? down
                                               : here) +
                           (lattice_x[i] > 0   ? l
                            : lattice_x[i] < 0 ? r
                                               : x)];
          const std::array<float, 9> after = collide(f);
          for (std::size_t i = 0; i < 9; ++i) to[i][here + x] = after[i];
        });
      });
    });
  });
}

void add_rule_110(Index64 n) {
  bench::add(name_of("rule 110 by roll", {n}, "u8"), [=](State& state) {
    Tensor x = randint(0, 2, {n}).to(DType::u8);
    eval(x);
    const auto step = [](const Fields& in) {
      const Tensor &c = in[0], left = roll(c, 1, 0), right = roll(c, -1, 0);
      return Fields{(c | right) & ~(left & c & right) & Scalar(1)};
    };
    using U8 = std::uint8_t;
    compare_fields<U8>(state, {x}, 1, n, step, [n](const auto& in, const auto& out) {
      const U8* __restrict a = in[0];
      U8* __restrict b = out[0];
      along_row(n, [=](Index64 i, Index64 l, Index64 r) {
        b[i] = static_cast<U8>((a[i] | a[r]) & ~(a[l] & a[i] & a[r]) & 1);
      });
    });
  });
}

/// The border stays as it is.
template <class Row>
void inside_loops(Index64 n, const float* __restrict a, float* __restrict b, Row&& at) {
  std::copy_n(a, n, b);
  for (Index64 y = 1; y < n - 1; ++y) {
    b[y * n] = a[y * n];
    BENCH_INDEPENDENT
    for (Index64 x = 1; x < n - 1; ++x) at(y * n + x);
    b[y * n + n - 1] = a[y * n + n - 1];
  }
  std::copy_n(a + (n - 1) * n, n, b + (n - 1) * n);
}

Tensor jacobi_inside(const Tensor& x, Index64 n) {
  const auto part = [&](Index64 dy, Index64 dx) {
    return Tensor(x(slice(1 + dy, n - 1 + dy), slice(1 + dx, n - 1 + dx)));
  };
  return 0.25 * (part(-1, 0) + part(1, 0) + part(0, -1) + part(0, 1));
}

template <class Step>
void add_jacobi(const char* how, Index64 n, Step step) {
  bench::add(name_of(std::string("Jacobi by ") + how, {n, n}), [=](State& state) {
    compare_fields<float>(state, noises(1, {n, n}), 1, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict a = in[0];
      float* __restrict b = out[0];
      inside_loops(n, a, b, [=](Index64 i) { b[i] = 0.25f * (a[i - n] + a[i + n] + a[i - 1] + a[i + 1]); });
    });
  });
}

void add_jacobis(Index64 n) {
  add_jacobi("slice assignment", n, [n](const Fields& in) {
    Tensor x = in[0];
    x.at(slice(1, n - 1), slice(1, n - 1)) = jacobi_inside(in[0], n);
    return Fields{x};
  });
  add_jacobi("dynamic_update_slice", n,
             [n](const Fields& in) { return Fields{dynamic_update_slice(in[0], jacobi_inside(in[0], n), {1, 1})}; });
  add_jacobi("where and roll", n, [n](const Fields& in) {
    const Tensor& x = in[0];
    const Tensor i = arange(n), inner = (i > 0) & (i < n - 1);
    const Tensor inside = reshape(inner, {n, 1}) & reshape(inner, {1, n});
    return Fields{where(inside, 0.25 * (roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 1) + roll(x, -1, 1)), x)};
  });
}

void add_upwind(Index64 n) {
  bench::add(name_of("upwind advection by roll, where", {n, n}), [=](State& state) {
    const auto step = [](const Fields& in) {
      const Tensor &c = in[0], &u = in[1], &v = in[2];
      const Tensor dx = where(u > 0, c - roll(c, 1, 1), roll(c, -1, 1) - c),
                   dy = where(v > 0, c - roll(c, 1, 0), roll(c, -1, 0) - c);
      return Fields{c - 0.1 * (u * dx + v * dy)};
    };
    compare_fields<float>(state, noises(3, {n, n}), 1, n * n, step, [n](const auto& in, const auto& out) {
      const float* __restrict c = in[0], * __restrict u = in[1], * __restrict v = in[2];
      float* __restrict b = out[0];
      over_rows(n, [=](Index64 i, Index64 up, Index64 down) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          const float here = c[i + x], left = c[i + l], right = c[i + r], above = c[up + x], below = c[down + x];
          const float dx = u[i + x] > 0 ? here - left : right - here, dy = v[i + x] > 0 ? here - above : below - here;
          b[i + x] = here - 0.1f * (u[i + x] * dx + v[i + x] * dy);
        });
      });
    });
  });
}

template <class Value>
std::array<Value, 9> neighbours(const auto& at) {
  std::array<Value, 9> all;
  for (int i = 0; i < 9; ++i) all[static_cast<std::size_t>(i)] = at(i / 3 - 1, i % 3 - 1);
  return all;
}

template <class Value>
void sort_two(Value& a, Value& b) {
  if constexpr (std::is_same_v<Value, float>) {
    const float low = a < b ? a : b;
    b = a < b ? b : a;
    a = low;
  } else {
    const Value low = minimum(a, b);
    b = maximum(a, b);
    a = low;
  }
}

/// Of the network of Paeth, "Median finding on a 3x3 grid", Graphics Gems, 1990.
template <class Value>
Value median(std::array<Value, 9> p) {
  constexpr int pairs[][2] = {{1, 2}, {4, 5}, {7, 8}, {0, 1}, {3, 4}, {6, 7}, {1, 2}, {4, 5}, {7, 8}, {0, 3},
                              {5, 8}, {4, 7}, {3, 6}, {1, 4}, {2, 5}, {4, 7}, {4, 2}, {6, 4}, {4, 2}};
  for (const auto& [a, b] : pairs) sort_two(p[static_cast<std::size_t>(a)], p[static_cast<std::size_t>(b)]);
  return p[4];
}
template <class Value>
Value largest(const std::array<Value, 9>& p) {
  Value most = p[0];
  for (std::size_t i = 1; i < 9; ++i) {
    if constexpr (std::is_same_v<Value, float>) most = most < p[i] ? p[i] : most;
    else most = maximum(most, p[i]);
  }
  return most;
}

template <class Ours, class Theirs>
void add_rank_filter(const char* what, Index64 n, Ours ours, Theirs theirs) {
  bench::add(name_of(std::string(what) + " by roll", {n, n}), [=](State& state) {
    const auto step = [ours](const Fields& in) {
      return Fields{ours(neighbours<Tensor>([&](int dy, int dx) { return at(in[0], dy, dx); }))};
    };
    compare_fields<float>(state, noises(1, {n, n}), 1, n * n, step, [n, theirs](const auto& in, const auto& out) {
      const float* __restrict a = in[0];
      float* __restrict b = out[0];
      over_rows(n, [=](Index64 i, Index64 up, Index64 down) {
        along_row(n, [=](Index64 x, Index64 l, Index64 r) {
          b[i + x] = theirs(neighbours<float>([&](int dy, int dx) {
            return a[(dy < 0 ? up : dy > 0 ? down : i) + (dx < 0 ? l : dx > 0 ? r : x)];
          }));
        });
      });
    });
  });
}

// Three axes ---------------------------------------------------------------------------------------------------------

/// A Laplacian whose neighbours outside are given by `outside(-1 or n)`: an index inside, or -1 for zero.
template <class Outside>
void laplacian_loops(Index64 n, const float* __restrict a, float* __restrict b, const float* __restrict zeros,
                     Outside outside) {
  const auto row = [&](Index64 z, Index64 y) {
    const Index64 zz = z < 0 || z >= n ? outside(z) : z, yy = y < 0 || y >= n ? outside(y) : y;
    return zz < 0 || yy < 0 ? zeros : a + (zz * n + yy) * n;
  };
  for (Index64 z = 0; z < n; ++z)
    for (Index64 y = 0; y < n; ++y) {
      const float* __restrict mid = row(z, y);
      const float* __restrict up = row(z, y - 1);
      const float* __restrict down = row(z, y + 1);
      const float* __restrict front = row(z - 1, y);
      const float* __restrict back = row(z + 1, y);
      float* __restrict to = b + (z * n + y) * n;
      const auto point = [=](Index64 x, float left, float right) {
        to[x] = up[x] + down[x] + front[x] + back[x] + left + right - 6 * mid[x];
      };
      const Index64 before = outside(-1), after = outside(n);
      point(0, before < 0 ? 0 : mid[before], mid[1]);
      BENCH_INDEPENDENT
      for (Index64 x = 1; x < n - 1; ++x) point(x, mid[x - 1], mid[x + 1]);
      point(n - 1, mid[n - 2], after < 0 ? 0 : mid[after]);
    }
}

Tensor laplacian_of(const Tensor& p, Index64 n) {
  const auto part = [&](Index64 z, Index64 y, Index64 x) {
    return Tensor(p(slice(1 + z, n + 1 + z), slice(1 + y, n + 1 + y), slice(1 + x, n + 1 + x)));
  };
  return part(0, -1, 0) + part(0, 1, 0) + part(-1, 0, 0) + part(1, 0, 0) + part(0, 0, -1) + part(0, 0, 1) -
         6 * part(0, 0, 0);
}

template <class Step, class Outside>
void add_laplacian(const char* how, Index64 n, Step step, Outside outside) {
  bench::add(name_of(std::string("Laplacian by ") + how, {n, n, n}), [=](State& state) {
    const std::vector<float> zeros(static_cast<std::size_t>(n));
    compare_fields<float>(state, noises(1, {n, n, n}), 1, n * n * n, step, [&](const auto& in, const auto& out) {
      laplacian_loops(n, in[0], out[0], zeros.data(), outside);
    });
  });
}

void add_laplacians(Index64 n) {
  const auto around = [n](Index64 i) { return i < 0 ? n - 1 : Index64{0}; };
  add_laplacian(
      "roll", n,
      [](const Fields& in) {
        const Tensor& x = in[0];
        return Fields{roll(x, 1, 1) + roll(x, -1, 1) + roll(x, 1, 0) + roll(x, -1, 0) + roll(x, 1, 2) + roll(x, -1, 2) -
                      6 * x};
      },
      around);
  const auto zero = [](Index64) { return Index64{-1}; };
  add_laplacian(
      "pad zero", n, [n](const Fields& in) { return Fields{laplacian_of(pad(in[0], {{1, 1}, {1, 1}, {1, 1}}), n)}; },
      zero);
  const auto by = [n](PadMode mode) {
    return [n, mode](const Fields& in) { return Fields{laplacian_of(pad(in[0], {{1, 1}, {1, 1}, {1, 1}}, mode), n)}; };
  };
  add_laplacian("pad edge", n, by(PadMode::replicate), [n](Index64 i) { return i < 0 ? Index64{0} : n - 1; });
  add_laplacian("pad reflect", n, by(PadMode::reflect), [n](Index64 i) { return i < 0 ? Index64{1} : n - 2; });
  add_laplacian("pad wrap", n, by(PadMode::circular), around);
}

void add_planes(Index64 n) {
  add_life<std::uint8_t>(n, DType::u8, "u8");
  add_life<std::int32_t>(n, DType::i32, "i32");
  add_life<float>(n, DType::f32, "f32");
  add_life<bool>(n, DType::bool_, "bool");
  add_heat(n);
  add_wave(n);
  add_shallow_water(n);
  add_sobel(n);
  add_blur(n);
  add_gray_scott(n);
  add_fdtd(n);
  add_lattice_boltzmann(n);
  add_jacobis(n);
  add_upwind(n);
  add_rank_filter(
      "dilation 3x3", n, [](const auto& p) { return largest(p); }, [](const auto& p) { return largest(p); });
  add_rank_filter(
      "median of nine", n, [](const auto& p) { return median(p); }, [](const auto& p) { return median(p); });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  for (const Index64 n : {128, 512, 2048}) add_planes(n);
  for (const Index64 n : {32, 128}) add_laplacians(n);
  for (const Index64 n : {1024, 1 << 20}) add_rule_110(n);
  return bench::run(argc, argv);
}
