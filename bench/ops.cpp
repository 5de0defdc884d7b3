// Operations that programs reach for beside products and reductions: gathers and scatters, orders, norms, losses,
// images, special functions. A loop, or Eigen, checks the results and is timed in the same run; one thread each.
#include "compiled.hpp"
#include "eigen_peers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using benchmark::State;

namespace {

using Floats = std::vector<float>;

const float* data(const Tensor& x) { return x.data<float>().data(); }
const std::int64_t* integers(const Tensor& x) { return x.data<std::int64_t>().data(); }
std::size_t count_of(const Tensor& x) { return static_cast<std::size_t>(x.numel().value()); }

/// A value that is there: what makes it is not part of a row.
Tensor evaluated(const In& x) {
  Tensor value(x.tensor());
  eval(value);
  return value;
}
/// Indices below `bound`.
Tensor indices(std::initializer_list<std::int64_t> extents, std::int64_t bound) {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::int64_t> any(0, bound - 1);
  const Shape shape{std::vector<std::int64_t>(extents)};
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(shape.numel().value()));
  for (std::int64_t& each : chosen) each = any(random);
  return copy_of(chosen, shape);
}

/// A row whose peer writes `size` numbers.
template <class F, class Loop, class... A>
void add_row(const std::string& name, std::size_t size, double tolerance, F ours, Loop loop, const A&... args) {
  bench::add(name + "/f32", [=](State& state) {
    Floats out(size);
    bench::compare(state, {"a loop", tolerance, out}, ours, [&] { loop(out.data()); }, args...);
    bench::count_items(state, static_cast<std::int64_t>(size));
  });
}
/// The same of a function that is not traced, because its data say how much it finds.
template <class F, class Loop, class... A>
void add_lazy_row(const std::string& name, double tolerance, F ours, Loop loop, const A&... args) {
  bench::add(name + "/f32", [=](State& state) {
    const Floats theirs = loop();
    if (!bench::agree(state, ours(args...).template data<float>(), theirs, tolerance)) return;
    bench::alternate(
        state, "a loop", [&] { benchmark::DoNotOptimize(evaluated(ours(args...))); },
        [&] { benchmark::DoNotOptimize(loop()); });
  });
}

void add_indexing() {
  const Tensor x = bench::noise({1024, 1024}), at = indices({1024, 256}, 1024);
  add_row(
      "take_along_axis/1024x1024,1024x256", count_of(at), 0,
      [](Tensor t, Tensor i) { return take_along_axis(t, i, 1); },
      [=](float* out) {
        for (std::int64_t i = 0; i < 1024 * 256; ++i) out[i] = data(x)[i / 256 * 1024 + integers(at)[i]];
      },
      x, at);
  const Tensor table = bench::noise({50000, 128}), rows = indices({8192}, 50000), added = bench::noise({8192, 128}, 1);
  add_row(
      "index_add/50000x128,8192", count_of(table), 1e-5,
      [](Tensor t, Tensor i, Tensor v) { return index_add(t, 0, i, v); },
      [=](float* out) {
        std::copy_n(data(table), count_of(table), out);
        for (std::int64_t i = 0; i < 8192 * 128; ++i) out[integers(rows)[i / 128] * 128 + i % 128] += data(added)[i];
      },
      table, rows, added);
  const Tensor list = bench::noise({1 << 20}), places = indices({1 << 20}, 1 << 20),
               values = bench::noise({1 << 20}, 1);
  add_row(
      "scatter_add/1048576,1048576", count_of(list), 1e-5,
      [](Tensor t, Tensor i, Tensor v) { return scatter_add(t, 0, i, v); },
      [=](float* out) {
        std::copy_n(data(list), count_of(list), out);
        for (std::int64_t i = 0; i < 1 << 20; ++i) out[integers(places)[i]] += data(values)[i];
      },
      list, places, values);
  add_row(
      "one_hot of 1000/4096", 4096 * 1000, 0, [](Tensor i) { return one_hot(i, 1000); },
      [at = indices({4096}, 1000)](float* out) {
        std::fill_n(out, 4096 * 1000, 0.f);
        for (std::int64_t i = 0; i < 4096; ++i) out[i * 1000 + integers(at)[i]] = 1;
      },
      indices({4096}, 1000));
  const Tensor wide = bench::noise({4096, 1024}), other = bench::noise({4096, 1024}, 1);
  add_row(
      "masked row sums/4096x1024", 4096, 1e-4, [](Tensor a, Tensor b) { return sum(where(a > b, a, 0), 1); },
      [=](float* out) {
        for (std::int64_t i = 0; i < 4096; ++i) {
          out[i] = 0;
          for (std::int64_t k = i * 1024; k < (i + 1) * 1024; ++k)
            out[i] += data(wide)[k] > data(other)[k] ? data(wide)[k] : 0;
        }
      },
      wide, other);
  add_lazy_row(
      "masked_select/1048576", 0, [](const Tensor& t) { return masked_select(t, t > 0); },
      [=] {
        Floats found;
        std::copy_if(data(list), data(list) + (1 << 20), std::back_inserter(found), [](float v) { return v > 0; });
        return found;
      },
      list);
  add_lazy_row(
      "nonzero of a mask/1048576", 0, [](const Tensor& t) { return Tensor(cast(flatnonzero(t > 0), DType::f32)); },
      [=] {
        Floats found;
        for (std::int64_t i = 0; i < 1 << 20; ++i)
          if (data(list)[i] > 0) found.push_back(static_cast<float>(i));
        return found;
      },
      list);
}

void add_orders() {
  const Tensor x = bench::noise({1 << 20}), rounded = evaluated(round(x * 1000));
  add_row(
      "histogram of 64/1048576", 64, 0, [](Tensor t) { return cast(histogram(t, 64, -4, 4), DType::f32); },
      [=](float* out) {
        std::fill_n(out, 64, 0.f);
        for (std::int64_t i = 0; i < 1 << 20; ++i)
          if (const float v = data(x)[i]; v >= -4 && v <= 4) ++out[std::min(63, static_cast<int>((v + 4) * 8))];
      },
      x);
  add_row(
      "bincount of 1000/1048576", 1000, 0, [](Tensor i) { return cast(bincount(i, 1000), DType::f32); },
      [at = indices({1 << 20}, 1000)](float* out) {
        std::fill_n(out, 1000, 0.f);
        for (std::int64_t i = 0; i < 1 << 20; ++i) ++out[integers(at)[i]];
      },
      indices({1 << 20}, 1000));
  const Tensor edges = evaluated(sort(bench::noise({4096}, 1)).values);
  add_row(
      "searchsorted/4096,1048576", 1 << 20, 0, [](Tensor e, Tensor t) { return cast(searchsorted(e, t), DType::f32); },
      [=](float* out) {
        for (std::int64_t i = 0; i < 1 << 20; ++i)
          out[i] = static_cast<float>(std::lower_bound(data(edges), data(edges) + 4096, data(x)[i]) - data(edges));
      },
      edges, x);
  add_lazy_row(
      "unique/1048576", 0, [](const Tensor& t) { return unique(t).values; },
      [=] {
        Floats found(data(rounded), data(rounded) + (1 << 20));
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
      },
      rounded);
  const Tensor rows = bench::noise({1000, 1000});
  add_row(
      "argsort/1000x1000", 1000 * 1000, 0, [](Tensor t) { return cast(argsort(t), DType::f32); },
      [=](float* out) {
        std::vector<std::int64_t> at(1000);
        for (std::int64_t r = 0; r < 1000; ++r) {
          const float* row = data(rows) + r * 1000;
          std::iota(at.begin(), at.end(), 0);
          std::stable_sort(at.begin(), at.end(), [row](std::int64_t a, std::int64_t b) { return row[a] < row[b]; });
          std::transform(at.begin(), at.end(), out + r * 1000, [](std::int64_t i) { return static_cast<float>(i); });
        }
      },
      rows);
  add_row(
      "median/1000x1000", 1000, 0, [](Tensor t) { return median(t, 1).values; },
      [=](float* out) {
        for (std::int64_t r = 0; r < 1000; ++r) {
          Floats row(data(rows) + r * 1000, data(rows) + (r + 1) * 1000);
          std::nth_element(row.begin(), row.begin() + 499, row.end());
          out[r] = row[499];
        }
      },
      rows);
}

void add_norms_and_losses() {
  const Tensor x = bench::noise({4096, 1024}), weight = bench::noise({1024}, 2), other = bench::noise({4096, 1024}, 1);
  add_row(
      "rms_norm/4096x1024", count_of(x), 1e-4,
      [](Tensor t, Tensor w) { return rms_norm(t, {1024}, {.weight = w, .eps = 1e-6}); },
      [=](float* out) {
        bench::MatrixView to(out, 4096, 1024);
        const bench::ConstMatrixView from(data(x), 4096, 1024);
        for (std::int64_t i = 0; i < 4096; ++i)
          to.row(i).array() = from.row(i).array() * (1 / std::sqrt(from.row(i).squaredNorm() / 1024 + 1e-6f)) *
                              bench::ConstRowView(data(weight), 1024);
      },
      x, weight);
  const Tensor images = bench::noise({8, 64, 32, 32});
  add_row(
      "group_norm of 8/8x64x32x32", count_of(images), 1e-4, [](Tensor t) { return group_norm(t, 8); },
      [=](float* out) {
        bench::MatrixView to(out, 64, 8192);
        const bench::ConstMatrixView from(data(images), 64, 8192);
        for (std::int64_t i = 0; i < 64; ++i) {
          to.row(i).array() = from.row(i).array() - from.row(i).mean();
          to.row(i) *= 1 / std::sqrt(to.row(i).squaredNorm() / 8192 + 1e-5f);
        }
      },
      images);
  add_row(
      "logsumexp/4096x1024", 4096, 1e-5, [](Tensor t) { return logsumexp(t, 1); },
      [=](float* out) {
        const bench::ConstMatrixView from(data(x), 4096, 1024);
        for (std::int64_t i = 0; i < 4096; ++i) {
          const float most = from.row(i).maxCoeff();
          out[i] = most + std::log((from.row(i).array() - most).exp().sum());
        }
      },
      x);
  const Tensor logits = bench::noise({512, 32000}), targets = indices({512}, 32000);
  add_row(
      "cross_entropy/512x32000", 1, 1e-4, [](Tensor t, Tensor i) { return cross_entropy(t, i); },
      [=](float* out) {
        const bench::ConstMatrixView from(data(logits), 512, 32000);
        double total = 0;
        for (std::int64_t i = 0; i < 512; ++i) {
          const float most = from.row(i).maxCoeff();
          total += most + std::log((from.row(i).array() - most).exp().sum()) - from(i, integers(targets)[i]);
        }
        *out = static_cast<float>(total / 512);
      },
      logits, targets);
  add_row(
      "mse_loss/4096x1024", 1, 1e-4, [](Tensor a, Tensor b) { return mse_loss(a, b); },
      [=](float* out) {
        *out = (bench::ConstMatrixView(data(x), 4096, 1024) - bench::ConstMatrixView(data(other), 4096, 1024))
                   .squaredNorm() /
               (4096 * 1024);
      },
      x, other);
  add_row(
      "einsum bhqd,bhkd->bhqk/8x12x128x64", 96 * 128 * 128, 1e-3,
      [](Tensor a, Tensor b) { return einsum("bhqd,bhkd->bhqk", a, b); },
      [a = bench::noise({8, 12, 128, 64}), b = bench::noise({8, 12, 128, 64}, 1)](float* out) {
        for (std::int64_t i = 0; i < 96; ++i)
          bench::MatrixView(out + i * 128 * 128, 128, 128).noalias() =
              bench::ConstMatrixView(data(a) + i * 8192, 128, 64) *
              bench::ConstMatrixView(data(b) + i * 8192, 128, 64).transpose();
      },
      bench::noise({8, 12, 128, 64}), bench::noise({8, 12, 128, 64}, 1));
}

// ---- images

/// The weights of the old elements in each new one, as PyTorch has them; `taps` with weight 0 where there are fewer.
struct Filter {
  std::int64_t from, to;
  bool is_cubic, is_antialiased;
  double operator()(double t) const {
    const double a = is_antialiased ? -0.5 : -0.75;
    if (!is_cubic) return std::max(0.0, 1 - t);
    return t < 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
  }
  /// Rows of [to, from].
  bench::Matrix matrix() const {
    bench::Matrix all = bench::Matrix::Zero(to, from);
    const double per = static_cast<double>(from) / static_cast<double>(to),
                 width = is_antialiased ? std::max(per, 1.0) : 1;
    for (std::int64_t i = 0; i < to; ++i) {
      const double centre = (static_cast<double>(i) + 0.5) * per;
      const auto reach = static_cast<std::int64_t>(std::ceil(width * (is_cubic ? 2 : 1))) + 1;
      for (auto k = static_cast<std::int64_t>(centre) - reach; k <= static_cast<std::int64_t>(centre) + reach; ++k) {
        const double weight = (*this)(std::abs(static_cast<double>(k) + 0.5 - centre) / width);
        if (is_antialiased && (k < 0 || k >= from)) continue;
        all(i, std::clamp<std::int64_t>(k, 0, from - 1)) += static_cast<float>(weight);
      }
      all.row(i) /= all.row(i).sum();
    }
    return all;
  }
};
void add_interpolation(const std::string& name, std::int64_t from, std::int64_t to, bool is_cubic,
                       bool is_antialiased) {
  const Tensor x = bench::noise({1, 3, from, from});
  const bench::Matrix filter = Filter{from, to, is_cubic, is_antialiased}.matrix();
  const InterpolateOptions options{
      .size = {to, to}, .mode = is_cubic ? Interpolation::bicubic : Interpolation::linear, .antialias = is_antialiased};
  add_row(
      name + "/1x3x" + bench::shape_text({from, from}) + "," + bench::shape_text({to, to}),
      static_cast<std::size_t>(3 * to * to), 1e-3, [=](Tensor t) { return interpolate(t, options); },
      [=](float* out) {
        for (int c = 0; c < 3; ++c)
          bench::MatrixView(out + c * to * to, to, to).noalias() =
              filter * bench::ConstMatrixView(data(x) + c * from * from, from, from) * filter.transpose();
      },
      x);
}

void add_images() {
  for (const auto& [from, to] : {std::pair<std::int64_t, std::int64_t>{256, 512}, {512, 256}, {512, 224}})
    for (const bool is_cubic : {false, true}) {
      const std::string name = std::string("interpolate ") + (is_cubic ? "bicubic" : "linear");
      add_interpolation(name, from, to, is_cubic, false);
      add_interpolation(name + " antialiased", from, to, is_cubic, true);
    }
  const Tensor x = bench::noise({8, 16, 64, 64}), grid = evaluated(tanh(bench::noise({8, 64, 64, 2}, 1)));
  const auto sample = [=](float* out) {
    for (std::int64_t n = 0; n < 8; ++n)
      for (std::int64_t i = 0; i < 64 * 64; ++i) {
        const float u = (data(grid)[(n * 4096 + i) * 2] + 1) * 32 - 0.5f,
                    v = (data(grid)[(n * 4096 + i) * 2 + 1] + 1) * 32 - 0.5f;
        const float left = std::floor(u), top = std::floor(v);
        for (std::int64_t c = 0; c < 16; ++c) {
          float total = 0;
          for (int dy = 0; dy < 2; ++dy)
            for (int dx = 0; dx < 2; ++dx) {
              const auto px = static_cast<std::int64_t>(left) + dx, py = static_cast<std::int64_t>(top) + dy;
              if (px < 0 || px > 63 || py < 0 || py > 63) continue;
              total += data(x)[((n * 16 + c) * 64 + py) * 64 + px] * (dx ? u - left : 1 - u + left) *
                       (dy ? v - top : 1 - v + top);
            }
          out[(n * 16 + c) * 4096 + i] = total;
        }
      }
  };
  add_row(
      "grid_sample/8x16x64x64,8x64x64x2", count_of(x), 1e-4, [](Tensor t, Tensor g) { return grid_sample(t, g); },
      sample, x, grid);
  add_row(
      "max_pool2d of 3, stride 2/8x16x64x64", 8 * 16 * 31 * 31, 0, [](Tensor t) { return max_pool2d(t, 3, 2); },
      [=](float* out) {
        for (std::int64_t c = 0; c < 128; ++c)
          for (std::int64_t i = 0; i < 31; ++i)
            for (std::int64_t j = 0; j < 31; ++j) {
              const float* window = data(x) + (c * 64 + 2 * i) * 64 + 2 * j;
              float most = window[0];
              for (std::int64_t k = 1; k < 9; ++k) most = std::max(most, window[k / 3 * 64 + k % 3]);
              *out++ = most;
            }
      },
      x);
  add_row(
      "avg_pool2d of 2/8x16x64x64", 8 * 16 * 32 * 32, 1e-5, [](Tensor t) { return avg_pool2d(t, 2); },
      [=](float* out) {
        for (std::int64_t c = 0; c < 128 * 32; ++c)
          for (std::int64_t j = 0; j < 32; ++j) {
            const float* window = data(x) + c * 128 + 2 * j;
            *out++ = (window[0] + window[1] + window[64] + window[65]) / 4;
          }
      },
      x);
}

template <class F>
void add_function(const std::string& name, double tolerance, F ours, double (*theirs)(double)) {
  const Tensor x = evaluated(abs(bench::noise({65536})) + 0.25f);
  add_row(
      name + "/65536", 65536, tolerance, ours,
      [=](float* out) {
        std::transform(data(x), data(x) + 65536, out, [=](float v) { return static_cast<float>(theirs(v)); });
      },
      x);
}
void add_functions() {
  add_function("log1p", 1e-5, [](Tensor t) { return log1p(t); }, [](double v) { return std::log1p(v); });
  add_function("erf", 1e-5, [](Tensor t) { return erf(t); }, [](double v) { return std::erf(v); });
  add_function("tan", 1e-2, [](Tensor t) { return tan(t); }, [](double v) { return std::tan(v); });
  add_function("atan", 1e-5, [](Tensor t) { return atan(t); }, [](double v) { return std::atan(v); });
  add_function("lgamma", 1e-5, [](Tensor t) { return lgamma(t); }, [](double v) { return std::lgamma(v); });
  add_function("pow of 2.5", 1e-4, [](Tensor t) { return pow(t, 2.5); }, [](double v) { return std::pow(v, 2.5); });
  add_function("sigmoid", 1e-5, [](Tensor t) { return sigmoid(t); }, [](double v) { return 1 / (1 + std::exp(-v)); });
  add_function(
      "softplus", 1e-5, [](Tensor t) { return softplus(t); }, [](double v) { return std::log1p(std::exp(v)); });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  benchmark::AddCustomContext("Eigen", bench::eigen_version());
  add_indexing();
  add_orders();
  add_norms_and_losses();
  add_images();
  add_functions();
  return bench::run(argc, argv);
}
