// Coordinates along the last axis, [n, 3] and [n, 4]: points, normals, quaternions and pairs of bodies, as robotics,
// games and simulations keep them. The peer of each row is the loop over structures that one would write for a compiler
// that vectorises; one thread each.
#include "compiled.hpp"

#include <algorithm>
#include <cmath>

using namespace sinter;
using benchmark::State;

namespace {

using Index64 = std::int64_t;
using Fields = std::vector<Tensor>;

/// Compiles `step`, compares its one result with the peer's, and lets them alternate.
template <class T, class Step, class Loops>
void add_row(const std::string& what, Fields in, Index64 results, Step step, Loops loops) {
  const std::string dtype = sizeof(T) == 4 ? "/f32" : "/f64";
  bench::add("coordinates: " + what + dtype, [=](State& state) {
    if (bench::is_left_out(state)) return;
    jit::reset();
    auto compiled = jit::compile(step);
    Fields given;
    std::vector<const T*> from;
    for (const Tensor& field : in) {
      given.push_back(sizeof(T) == 8 ? Tensor(field.to(DType::f64)) : field);
      eval(given.back());
      from.push_back(given.back().template data<T>().data());
    }
    std::vector<T> to(static_cast<std::size_t>(results));
    const auto peer = [&] {
      loops(from, to.data());
      benchmark::ClobberMemory();
    };
    peer();
    {
      const Tensor got = compiled(given);
      const auto ours = got.template data<T>();
      const std::vector<float> a(ours.begin(), ours.end()), b(to.begin(), to.end());
      if (!bench::agree(state, a, b, 1e-4)) return;
    }
    const double compile_ms = compiled.stats().compile_ms;
    bench::alternate(state, "plain loops", [&] { benchmark::DoNotOptimize(compiled(given)); }, peer);
    state.counters["kernels"] = static_cast<double>(compiled.lower(given).kernels().size());
    state.counters["compile_ms"] = compile_ms;
  });
}

std::string with(const std::string& what, Index64 n, Index64 k = 3) { return what + "/" + bench::shape_text({n, k}); }
Tensor column(const Tensor& p, int c) { return p(all, c); }

template <class T>
void add_lengths(Index64 n) {
  const Fields one{bench::noise({n, 3}, 1)}, two{bench::noise({n, 3}, 1), bench::noise({n, 3}, 2)};
  add_row<T>(
      with("norms of rows", n), one, n, [](const Fields& in) { return sqrt(sum(in[0] * in[0], 1)); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i)
          to[i] = std::sqrt(p[3 * i] * p[3 * i] + p[3 * i + 1] * p[3 * i + 1] + p[3 * i + 2] * p[3 * i + 2]);
      });
  add_row<T>(
      with("normalize", n), one, 3 * n, [](const Fields& in) { return in[0] / sqrt(sum(in[0] * in[0], 1, Keep::yes)); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T length = std::sqrt(p[3 * i] * p[3 * i] + p[3 * i + 1] * p[3 * i + 1] + p[3 * i + 2] * p[3 * i + 2]);
          for (int c = 0; c < 3; ++c) to[3 * i + c] = p[3 * i + c] / length;
        }
      });
  add_row<T>(
      with("dot", n), two, n, [](const Fields& in) { return sum(in[0] * in[1], 1); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0], * __restrict q = in[1];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i)
          to[i] = p[3 * i] * q[3 * i] + p[3 * i + 1] * q[3 * i + 1] + p[3 * i + 2] * q[3 * i + 2];
      });
  add_row<T>(
      with("sphere signed distance, [1, 3]", n), {bench::noise({n, 3}, 1), bench::noise({1, 3}, 3)}, n,
      [](const Fields& in) {
        const Tensor d = in[0] - in[1];
        return sqrt(sum(d * d, 1)) - 0.5f;
      },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0], * __restrict q = in[1];
        const T x = q[0], y = q[1], z = q[2];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T a = p[3 * i] - x, b = p[3 * i + 1] - y, c = p[3 * i + 2] - z;
          to[i] = std::sqrt(a * a + b * b + c * c) - T(0.5);
        }
      });
  add_row<T>(
      with("largest coordinate", n), one, n, [](const Fields& in) { return amax(abs(in[0]), 1); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T a = std::abs(p[3 * i]), b = std::abs(p[3 * i + 1]), c = std::abs(p[3 * i + 2]);
          const T d = a > b ? a : b;
          to[i] = d > c ? d : c;
        }
      });
}

template <class T>
void add_maps(Index64 n) {
  const Fields two{bench::noise({n, 3}, 1), bench::noise({n, 3}, 2)};
  add_row<T>(
      with("cross", n), two, 3 * n, [](const Fields& in) { return cross(in[0], in[1]); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0], * __restrict q = in[1];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T *a = p + 3 * i, *b = q + 3 * i;
          to[3 * i] = a[1] * b[2] - a[2] * b[1];
          to[3 * i + 1] = a[2] * b[0] - a[0] * b[2];
          to[3 * i + 2] = a[0] * b[1] - a[1] * b[0];
        }
      });
  add_row<T>(
      with("x + v * dt, dt [n, 1]", n), {two[0], two[1], bench::noise({n, 1}, 4)}, 3 * n,
      [](const Fields& in) { return in[0] + in[1] * in[2]; },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict x = in[0], * __restrict v = in[1], * __restrict dt = in[2];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i)
          for (int c = 0; c < 3; ++c) to[3 * i + c] = x[3 * i + c] + v[3 * i + c] * dt[i];
      });
  add_row<T>(
      with("scaled and moved, [1, 3]", n), {two[0], bench::noise({1, 3}, 3), bench::noise({1, 3}, 4)}, 3 * n,
      [](const Fields& in) { return in[0] * in[1] + in[2]; },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict x = in[0], * __restrict a = in[1], * __restrict b = in[2];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i)
          for (int c = 0; c < 3; ++c) to[3 * i + c] = x[3 * i + c] * a[c] + b[c];
      });
  add_row<T>(
      with("rotated about z, columns stacked", n), {two[0]}, 3 * n,
      [](const Fields& in) {
        const Tensor x = column(in[0], 0), y = column(in[0], 1), z = column(in[0], 2);
        return stack({Tensor(0.8f * x - 0.6f * y), Tensor(0.6f * x + 0.8f * y), z}, 1);
      },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T x = p[3 * i], y = p[3 * i + 1], z = p[3 * i + 2];
          to[3 * i] = T(0.8f) * x - T(0.6f) * y;
          to[3 * i + 1] = T(0.6f) * x + T(0.8f) * y;
          to[3 * i + 2] = z;
        }
      });
  add_row<T>(
      with("x y + z of columns", n), {two[0]}, n,
      [](const Fields& in) { return column(in[0], 0) * column(in[0], 1) + column(in[0], 2); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) to[i] = p[3 * i] * p[3 * i + 1] + p[3 * i + 2];
      });
  add_row<T>(
      with("rotated by a matrix", n), {two[0], bench::noise({3, 3}, 6)}, 3 * n,
      [](const Fields& in) { return matmul(in[0], in[1]); },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0], * __restrict m = in[1];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i)
          for (int c = 0; c < 3; ++c)
            to[3 * i + c] = p[3 * i] * m[c] + p[3 * i + 1] * m[3 + c] + p[3 * i + 2] * m[6 + c];
      });
}

template <class T>
void add_quaternions(Index64 n) {
  const Fields in{bench::noise({n, 4}, 1), bench::noise({n, 4}, 2)};
  add_row<T>(
      with("product of quaternions, columns stacked", n, 4), in, 4 * n,
      [](const Fields& f) {
        const Tensor a = column(f[0], 0), b = column(f[0], 1), c = column(f[0], 2), d = column(f[0], 3);
        const Tensor e = column(f[1], 0), g = column(f[1], 1), h = column(f[1], 2), k = column(f[1], 3);
        return stack({Tensor(a * e - b * g - c * h - d * k), Tensor(a * g + b * e + c * k - d * h),
                      Tensor(a * h - b * k + c * e + d * g), Tensor(a * k + b * h - c * g + d * e)},
                     1);
      },
      [n](const auto& f, T* __restrict to) {
        const T* __restrict p = f[0], * __restrict q = f[1];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          const T *x = p + 4 * i, *y = q + 4 * i;
          to[4 * i] = x[0] * y[0] - x[1] * y[1] - x[2] * y[2] - x[3] * y[3];
          to[4 * i + 1] = x[0] * y[1] + x[1] * y[0] + x[2] * y[3] - x[3] * y[2];
          to[4 * i + 2] = x[0] * y[2] - x[1] * y[3] + x[2] * y[0] + x[3] * y[1];
          to[4 * i + 3] = x[0] * y[3] + x[1] * y[2] - x[2] * y[1] + x[3] * y[0];
        }
      });
  add_row<T>(
      with("normalize", n, 4), {in[0]}, 4 * n,
      [](const Fields& f) { return f[0] / sqrt(sum(f[0] * f[0], 1, Keep::yes)); },
      [n](const auto& f, T* __restrict to) {
        const T* __restrict p = f[0];
        BENCH_INDEPENDENT
        for (Index64 i = 0; i < n; ++i) {
          T sum = 0;
          for (int c = 0; c < 4; ++c) sum += p[4 * i + c] * p[4 * i + c];
          for (int c = 0; c < 4; ++c) to[4 * i + c] = p[4 * i + c] / std::sqrt(sum);
        }
      });
  add_row<T>(
      with("softmax", n, 4), {in[0]}, 4 * n, [](const Fields& f) { return softmax(f[0], 1); },
      [n](const auto& f, T* __restrict to) {
        const T* __restrict p = f[0];
        for (Index64 i = 0; i < n; ++i) {
          const T most = std::max(std::max(p[4 * i], p[4 * i + 1]), std::max(p[4 * i + 2], p[4 * i + 3]));
          T sum = 0;
          for (int c = 0; c < 4; ++c) sum += to[4 * i + c] = std::exp(p[4 * i + c] - most);
          for (int c = 0; c < 4; ++c) to[4 * i + c] /= sum;
        }
      });
}

template <class T>
void add_pairs(Index64 n, int k) {
  add_row<T>(
      with("distances of all pairs", n, k), {bench::noise({n, k}, 1)}, n * n,
      [n, k](const Fields& in) {
        const Tensor d = reshape(in[0], {n, 1, k}) - reshape(in[0], {1, n, k});
        return sqrt(sum(d * d, 2));
      },
      [n, k](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0];
        for (Index64 i = 0; i < n; ++i) {
          BENCH_INDEPENDENT
          for (Index64 j = 0; j < n; ++j) {
            const T x = p[k * i] - p[k * j], y = p[k * i + 1] - p[k * j + 1];
            const T z = k == 3 ? p[k * i + 2] - p[k * j + 2] : T(0);
            to[i * n + j] = std::sqrt(x * x + y * y + z * z);
          }
        }
      });
  if (k != 3) return;
  add_row<T>(
      with("gravity of all pairs", n, k), {bench::noise({n, k}, 1), bench::noise({n}, 2)}, n * k,
      [n, k](const Fields& in) {
        const Tensor d = reshape(in[0], {1, n, k}) - reshape(in[0], {n, 1, k});
        const Tensor r2 = sum(d * d, 2) + 0.01f;
        const Tensor w = reshape(in[1], {1, n}) / (r2 * sqrt(r2));
        return sum(reshape(w, {n, n, 1}) * d, 1);
      },
      [n](const auto& in, T* __restrict to) {
        const T* __restrict p = in[0], * __restrict m = in[1];
        for (Index64 i = 0; i < n; ++i) {
          T fx = 0, fy = 0, fz = 0;
          for (Index64 j = 0; j < n; ++j) {
            const T x = p[3 * j] - p[3 * i], y = p[3 * j + 1] - p[3 * i + 1], z = p[3 * j + 2] - p[3 * i + 2];
            const T r2 = x * x + y * y + z * z + T(0.01f);
            const T w = m[j] / (r2 * std::sqrt(r2));
            fx += w * x, fy += w * y, fz += w * z;
          }
          to[3 * i] = fx, to[3 * i + 1] = fy, to[3 * i + 2] = fz;
        }
      });
}

template <class T>
void add_over_points(Index64 n) {
  const Fields one{bench::noise({n, 3}, 1)};
  const auto fold = [n](const T* __restrict p, T* __restrict to, T start, auto&& step) {
    T x = start, y = start, z = start;
    for (Index64 i = 0; i < n; ++i) x = step(x, p[3 * i]), y = step(y, p[3 * i + 1]), z = step(z, p[3 * i + 2]);
    to[0] = x, to[1] = y, to[2] = z;
  };
  add_row<T>(
      with("least corner", n), one, 3, [](const Fields& in) { return amin(in[0], 0); },
      [fold](const auto& in, T* to) { fold(in[0], to, T(1e30), [](T a, T b) { return a < b ? a : b; }); });
  add_row<T>(
      with("sum over points", n), one, 3, [](const Fields& in) { return sum(in[0], 0); },
      [fold](const auto& in, T* to) { fold(in[0], to, T(0), [](T a, T b) { return a + b; }); });
}

void add_springs(Index64 n) {
  manual_seed(9);
  const Tensor a = randint(0, n, {2 * n}), b = randint(0, n, {2 * n});
  eval(a, b);
  const auto ia = std::make_shared<std::vector<Index64>>(a.data<Index64>().begin(), a.data<Index64>().end());
  const auto ib = std::make_shared<std::vector<Index64>>(b.data<Index64>().begin(), b.data<Index64>().end());
  add_row<float>(
      with("lengths of springs by indices", n), {bench::noise({n, 3}, 1)}, 2 * n,
      [a, b](const Fields& in) {
        const Tensor d = take(in[0], a, 0) - take(in[0], b, 0);
        return sqrt(sum(d * d, 1));
      },
      [n, ia, ib](const auto& in, float* __restrict to) {
        const float* __restrict p = in[0];
        const Index64* __restrict i = ia->data(), * __restrict j = ib->data();
        BENCH_INDEPENDENT
        for (Index64 s = 0; s < 2 * n; ++s) {
          const float *u = p + 3 * i[s], *v = p + 3 * j[s];
          const float x = u[0] - v[0], y = u[1] - v[1], z = u[2] - v[2];
          to[s] = std::sqrt(x * x + y * y + z * z);
        }
      });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  for (const Index64 n : {100, 1000, 100000}) {
    add_lengths<float>(n);
    add_maps<float>(n);
    add_quaternions<float>(n);
    add_over_points<float>(n);
  }
  add_lengths<double>(1000);
  add_maps<double>(1000);
  add_quaternions<double>(1000);
  for (const int k : {2, 3}) add_pairs<float>(500, k);
  add_pairs<double>(256, 3);
  add_springs(1000);
  return bench::run(argc, argv);
}
