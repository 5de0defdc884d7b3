// Fused kernels against Eigen written by hand, both on one thread and in the same run.
#include "measure.hpp"
#include "row.hpp"

#include <sinter/sinter.hpp>

#include <Eigen/Dense>

using namespace sinter;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Array = Eigen::Array<float, Eigen::Dynamic, 1>;

namespace {

Eigen::Map<const Array> flat(const Tensor& t) { return {t.data<float>().data(), static_cast<Eigen::Index>(t.numel().value())}; }
Eigen::Map<const Matrix> matrix(const Tensor& t) { return {t.data<float>().data(), t.size(0).value(), t.size(1).value()}; }

template <class F, class Peer, class... A>
void row(const std::string& name, const std::string& shape, double work, const std::string& unit, double tolerance, F f, Peer peer, auto& peer_out,
         const A&... args) {
  auto compiled = jit::compile(f);
  Tensor out = compiled(args...);
  peer();
  bench::require_close(out.data<float>(), {peer_out.data(), static_cast<std::size_t>(peer_out.size())}, tolerance, name);
  out = Tensor();
  bench::Pair t = bench::compare([&] { bench::keep(compiled(args...)); }, peer);
  bench::print({.name = name, .shape = shape, .dtype = "f32", .ours = work / t.ours * 1e-9, .unit = unit, .peer = "Eigen",
                .peer_value = work / t.peer * 1e-9, .compile_ms = compiled.stats().compile_ms});
}

void pointwise() {
  constexpr Eigen::Index n = 65536;
  Tensor a = randn({n}), b = randn({n}), c = randn({n}), d = randn({n});
  auto ea = flat(a), eb = flat(b), ec = flat(c), ed = flat(d);
  Array out(n);
  row("multiply-add chain", "65536", n, "Gelem/s", 1e-5, [](Tensor x, Tensor y, Tensor z) { return (x * y + z) * x - y; },
      [&] { out = (ea * eb + ec) * ea - eb; }, out, a, b, c);
  row("exp", "65536", n, "Gelem/s", 1e-5, [](Tensor x) { return exp(x); }, [&] { out = ea.exp(); }, out, a);
  row("tanh", "65536", n, "Gelem/s", 1e-5, [](Tensor x) { return tanh(x); }, [&] { out = ea.tanh(); }, out, a);
  row("sin", "65536", n, "Gelem/s", 1e-5, [](Tensor x) { return sin(x); }, [&] { out = ea.sin(); }, out, a);
  row("gelu(a*x+b)*c+d", "65536", n, "Gelem/s", 1e-4,
      [](Tensor x, Tensor y, Tensor z, Tensor w) {
        auto u = x * y + z;
        return 0.5f * u * (1 + tanh(0.79788456f * (u + 0.044715f * u * u * u))) * w + x;
      },
      [&] {
        out = ea * eb + ec;
        out = 0.5f * out * (1 + (0.79788456f * (out + 0.044715f * out * out * out)).tanh()) * ed + ea;
      },
      out, a, b, c, d);
}

void rows() {
  constexpr Eigen::Index n = 64, k = 1024;
  Tensor x = randn({n, k}), w = randn({k}), b = randn({k});
  auto ex = matrix(x);
  Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>> ew(w.data<float>().data(), k), eb(b.data<float>().data(), k);
  Matrix out(n, k);
  row("softmax", "64x1024", n * k, "Gelem/s", 1e-5, [](Tensor t) { return softmax(t, 1); },
      [&] {
        for (Eigen::Index i = 0; i < n; ++i) {
          auto r = out.row(i).array();
          r = (ex.row(i).array() - ex.row(i).maxCoeff()).exp();
          r *= 1 / r.sum();
        }
      },
      out, x);
  row("layer_norm", "64x1024", n * k, "Gelem/s", 1e-4, [](Tensor t, Tensor g, Tensor h) { return layer_norm(t, {t.size(1)}, g, h); },
      [&] {
        for (Eigen::Index i = 0; i < n; ++i) {
          auto r = out.row(i).array();
          r = ex.row(i).array() - ex.row(i).mean();
          r = r * (1 / std::sqrt(r.square().mean() + 1e-5f)) * ew + eb;
        }
      },
      out, x, w, b);
  Matrix column(1, k);
  row("column sum", "64x1024", n * k, "Gelem/s", 1e-4, [](Tensor t) { return sum(t, 0); }, [&] { column = ex.colwise().sum(); }, column, x);
  Matrix total(1, 1);
  row("full sum of squares", "64x1024", n * k, "Gelem/s", 1e-4, [](Tensor t) { return sum(t * t); }, [&] { total(0, 0) = ex.squaredNorm(); }, total, x);
}

void products() {
  struct Size {
    Eigen::Index m, n, k;
  };
  for (Size s : {Size{64, 64, 64}, Size{128, 128, 128}, Size{512, 512, 512}, Size{128, 768, 768}, Size{1, 768, 3072}}) {
    Tensor a = randn({s.m, s.k}), b = randn({s.k, s.n}), bias = randn({s.n});
    auto ea = matrix(a), eb = matrix(b);
    Eigen::Map<const Eigen::Array<float, 1, Eigen::Dynamic>> ebias(bias.data<float>().data(), s.n);
    Matrix out(s.m, s.n);
    std::string shape = std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
    double flops = 2.0 * static_cast<double>(s.m * s.n * s.k);
    row("matmul", shape, flops, "GFLOP/s", 1e-3, [](Tensor x, Tensor y) { return matmul(x, y); }, [&] { out.noalias() = ea * eb; }, out, a, b);
    row("matmul + bias + relu", shape, flops, "GFLOP/s", 1e-3, [](Tensor x, Tensor y, Tensor z) { return relu(matmul(x, y) + z); },
        [&] {
          out.noalias() = ea * eb;
          out = (out.array().rowwise() + ebias).cwiseMax(0.f);
        },
        out, a, b, bias);
  }
}

}  // namespace

int main() {
  set_thread_count(1);
  pointwise();
  rows();
  products();
}
