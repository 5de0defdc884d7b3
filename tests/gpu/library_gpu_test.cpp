// Transforms and factorisations on a GPU: by cuFFT, cuSOLVER and cuBLAS, against the CPU and against what they must
// satisfy.
#include "catch.hpp"
#include "checks.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using Catch::Contains;
using sinter_test::largest_difference;

namespace {
bool is_missing() { return !cuda::is_available(); }
const Device gpu = Device::cuda(0);

Tensor noise(const std::vector<std::int64_t>& shape, DType dtype, int seed) {
  const Tensor made = cast(sinter_test::noise(shape, seed), dtype);
  return made;
}
Tensor complex_noise(const std::vector<std::int64_t>& shape, DType dtype, int seed) {
  std::vector<std::int64_t> pairs = shape;
  pairs.push_back(2);
  return view_as_complex(noise(pairs, dtype, seed));
}
double tolerance(DType dtype) { return dtype == DType::f64 ? 1e-10 : 2e-4; }

/// The function on both devices.
template <class F>
double difference(const F& f, const Tensor& x) {
  const Tensor there = f(x.to(gpu)), here = f(x);
  CHECK(there.device() == gpu);
  const auto parts = [](const Tensor& t) { return is_complex(t.dtype()) ? Tensor(view_as_real(t)) : t; };
  return largest_difference(parts(there), parts(here));
}
/// Well conditioned.
Tensor positive(const std::vector<std::int64_t>& shape, DType dtype, int seed) {
  const Tensor a = noise(shape, dtype, seed);
  const std::int64_t n = shape.back();
  return Tensor(matmul(a, transpose(a, -1, -2)) + eye(n, {.dtype = dtype, .device = Device::cpu()}) * 2);
}
Tensor mirrored(const Tensor& a) { return transpose(a, -1, -2); }
}  // namespace

TEST_CASE("complex transforms of any axis, length, norm and batch agree with the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(name(dtype));
    const double close = tolerance(dtype);
    for (const std::int64_t n : {1, 2, 3, 8, 15, 17, 64, 101, 1000, 1024}) {
      INFO("length " << n);
      const Tensor x = complex_noise({3, n}, dtype, static_cast<int>(n));
      for (const fft::Norm norm : {fft::Norm::backward, fft::Norm::ortho, fft::Norm::forward}) {
        CHECK(difference([&](const Tensor& t) { return fft::fft(t, {.norm = norm}); }, x) < close * 10);
        CHECK(difference([&](const Tensor& t) { return fft::ifft(t, {.norm = norm}); }, x) < close * 10);
      }
    }
    const Tensor x = complex_noise({3, 20, 4, 12, 5}, dtype, 7);
    for (int axis = 0; axis < 5; ++axis)
      CHECK(difference([&](const Tensor& t) { return fft::fft(t, {.dim = axis}); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::fft2(t); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::fftn(t); }, x) < close * 10);
    CHECK(difference([](const Tensor& t) { return fft::ifftn(t, {.dim = {0, 2, 3}}); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::fft(t, {.n = 33, .dim = 1}); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::fft(Tensor(transpose(t, 1, 3)), {.dim = 2}); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::fft(Tensor(t(slice(1, 3))), {.dim = 1}); }, x) < close);
  }
}

TEST_CASE("transforms of real numbers and back, and their gradients, agree with the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(name(dtype));
    const double close = tolerance(dtype);
    for (const std::int64_t n : {1, 2, 3, 8, 15, 64, 101, 1000}) {
      INFO("length " << n);
      const Tensor x = noise({5, n}, dtype, static_cast<int>(n));
      for (const fft::Norm norm : {fft::Norm::backward, fft::Norm::ortho}) {
        CHECK(difference([&](const Tensor& t) { return fft::rfft(t, {.norm = norm}); }, x) < close);
        CHECK(difference([&](const Tensor& t) { return fft::ihfft(t, {.norm = norm}); }, x) < close);
        const Tensor spectrum = complex_noise({5, n / 2 + 1}, dtype, 3);
        CHECK(difference([&](const Tensor& t) { return fft::irfft(t, {.n = n, .norm = norm}); }, spectrum) < close);
        CHECK(difference([&](const Tensor& t) { return fft::hfft(t, {.n = n, .norm = norm}); }, spectrum) < close * 10);
      }
    }
    const Tensor x = noise({6, 9, 10}, dtype, 5);
    CHECK(difference([](const Tensor& t) { return fft::rfftn(t); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::rfft(t, {.dim = 1}); }, x) < close);
    CHECK(difference([](const Tensor& t) { return fft::irfftn(fft::rfftn(t), {.s = {6, 9, 10}}); }, x) < close);
    // One element in: rows begin where numbers' pairs do not.
    CHECK(difference([](const Tensor& t) { return fft::rfft(Tensor(reshape(t, {540})(slice(1, 540)))); }, x) < close);
    const auto loss = [](const Tensor& t) {
      const Tensor y = fft::irfft(fft::rfft(t, {.norm = fft::Norm::ortho}), {.n = 12});
      return Tensor(sum(y * y * y));
    };
    CHECK(difference([&](const Tensor& t) { return jit::grad(loss)(t); }, x) < close);
    auto compiled = jit::compile([](Tensor t) { return Tensor(real(fft::ifft(fft::fft(t * 2) * 0.5f)) + 1); });
    CHECK(largest_difference(compiled(x.to(gpu)), Tensor(x + 1)) < close);
  }
}

TEST_CASE("factorisations on a GPU: one matrix, batches, odd sizes") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(name(dtype));
    const double close = tolerance(dtype) * 50;
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{1, 1}, {3, 3}, {40, 5, 5}, {3, 17, 17}, {2, 2, 33, 33}, {65, 65}, {2, 600, 600}}) {
      INFO("shape " << Tensor(zeros(Shape(std::vector<Dim>(shape.begin(), shape.end())))).shape().text());
      const Tensor p = positive(shape, dtype, 4),
                   a = noise(shape, dtype, 5) + eye(shape.back(), {.dtype = dtype, .device = Device::cpu()}) * 4;
      CHECK(difference([](const Tensor& t) { return linalg::cholesky(t); }, p) < close);
      CHECK(difference([](const Tensor& t) { return linalg::cholesky(t, {.upper = true}); }, p) < close);
      CHECK(difference([](const Tensor& t) { return linalg::lu_factor(t).lu; }, a) < close);
      CHECK(difference([](const Tensor& t) { return linalg::lu_factor(t).pivots; }, a) == 0);
      CHECK(difference([](const Tensor& t) { return linalg::inv(t); }, a) < close);
      if (shape.back() < 30) CHECK(difference([](const Tensor& t) { return linalg::det(t / 4); }, a) < close);
      CHECK(difference([](const Tensor& t) { return linalg::solve(t, t * 2 + 1); }, a) < close);
      CHECK(difference([](const Tensor& t) { return linalg::solve(t, t(all, 0), {.left = true}); },
                       Tensor(reshape(a, {-1, shape.back(), shape.back()})(0))) < close);
      for (const bool upper : {false, true})
        for (const bool left : {false, true})
          for (const bool unit : {false, true})
            CHECK(difference(
                      [&](const Tensor& t) {
                        return linalg::solve_triangular(unit ? Tensor(t / static_cast<float>(4 * shape.back())) : t, t,
                                                        {.upper = upper, .left = left, .unitriangular = unit});
                      },
                      a) < close * 20);
    }
    const Tensor wide = noise({4, 3, 7}, dtype, 1), tall = noise({4, 7, 3}, dtype, 2);
    for (const Tensor& x : {wide, tall}) {
      const Tensor there = x.to(gpu);
      const linalg::Lu f = linalg::lu(there);
      CHECK(largest_difference(matmul(f.p, matmul(f.l, f.u)), x) < close);
    }
  }
}

TEST_CASE("QR, singular values and eigenvalues on a GPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : {DType::f32, DType::f64}) {
    INFO(name(dtype));
    const double close = tolerance(dtype) * 20;
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{1, 1}, {5, 3}, {3, 5}, {6, 8, 8}, {6, 9, 4}, {6, 4, 9}, {2, 50, 40}, {2, 40, 50}}) {
      const Tensor x = noise(shape, dtype, 6), there = x.to(gpu);
      const std::int64_t rows = shape[shape.size() - 2];
      INFO("shape " << x.shape().text());
      for (const linalg::QrMode mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
        const linalg::Qr f = linalg::qr(there, mode);
        CHECK(largest_difference(matmul(f.q, f.r), x) < close);
        CHECK(largest_difference(matmul(mirrored(f.q), f.q),
                                 Tensor(zeros_like(matmul(mirrored(f.q), f.q)) +
                                        eye(f.q.shape()[-1].value(), {.dtype = dtype, .device = gpu}))) < close);
        CHECK(largest_difference(Tensor(tril(f.r, -1)), Tensor(zeros_like(f.r))) == 0);
      }
      CHECK(largest_difference(Tensor(abs(linalg::qr(there, linalg::QrMode::r).r)),
                               Tensor(abs(linalg::qr(x, linalg::QrMode::r).r))) < close);
      const std::int64_t steps = std::min(rows, shape.back());
      for (const bool full : {false, true}) {
        const linalg::Svd f = linalg::svd(there, {.full_matrices = full});
        const Tensor u = narrow(f.u, -1, 0, steps), vh = narrow(f.vh, -2, 0, steps);
        CHECK(largest_difference(matmul(u * unsqueeze(f.s, -2), vh), x) < close);
        CHECK(f.u.shape()[-1].value() == (full ? rows : steps));
        CHECK(largest_difference(matmul(mirrored(f.u), f.u),
                                 Tensor(zeros_like(matmul(mirrored(f.u), f.u)) +
                                        eye(f.u.shape()[-1].value(), {.dtype = dtype, .device = gpu}))) < close);
      }
      CHECK(difference([](const Tensor& t) { return linalg::svdvals(t); }, x) < close);
      CHECK(difference([](const Tensor& t) { return linalg::pinv(t); }, x) < close * 50);
    }
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{1, 1}, {7, 7}, {30, 4, 4}, {3, 40, 40}, {130, 130}, {40000, 3, 3}}) {
      const Tensor x = positive(shape, dtype, 8), there = x.to(gpu);
      INFO("shape " << x.shape().text());
      const linalg::Eigh f = linalg::eigh(there);
      CHECK(largest_difference(matmul(f.eigenvectors * unsqueeze(f.eigenvalues, -2), mirrored(f.eigenvectors)), x) <
            close * 10);
      CHECK(difference([](const Tensor& t) { return linalg::eigvalsh(t); }, x) < close * 10);
      const auto loss = [](const Tensor& t) { return Tensor(sum(linalg::eigvalsh(t) * linalg::eigvalsh(t))); };
      CHECK(difference([&](const Tensor& t) { return jit::grad(loss)(t); }, x) < close * 50);
    }
  }
}

TEST_CASE("matrices without a result: the same errors as on the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const auto message = [](const auto& f) -> std::string {
    try {
      eval(f());
    } catch (const LinalgError& error) { return error.what(); }
    return "no error";
  };
  Tensor batch = Tensor(expand(eye(10, {.device = Device::cpu()}), {2, 3, 10, 10})) * 2;
  Tensor bad = batch;
  bad.at(1, 2, 4, 4) = -1.f;
  const Tensor there = bad.to(gpu);
  CHECK(message([&] { return linalg::cholesky(there); }) != "no error");
  CHECK_THAT(message([&] { return linalg::cholesky(there); }),
             Contains("matrix (1, 2) of (2, 3) is not positive definite: its leading minor of order 5"));
  const linalg::CholeskyEx told = linalg::cholesky_ex(there);
  CHECK(to_vector<std::int32_t>(told.info) == std::vector<std::int32_t>{0, 0, 0, 0, 0, 5});
  Tensor nan = batch;
  nan.at(0, 1, 3, 3) = std::numeric_limits<float>::quiet_NaN();
  CHECK_THAT(message([&] { return linalg::cholesky(nan.to(gpu)); }), Contains("matrix (0, 1) of (2, 3)"));
  CHECK_THAT(message([&] { return linalg::eigh(nan.to(gpu)).eigenvalues; }),
             Contains("matrix (0, 1) of (2, 3) has elements that are not finite"));
  CHECK_THAT(message([&] { return linalg::svd(nan.to(gpu)).s; }), Contains("has elements that are not finite"));
  Tensor singular = batch;
  singular.at(0, 2, 6, 6) = 0.f;
  CHECK_THAT(message([&] { return linalg::inv(singular.to(gpu)); }),
             Contains("inv: matrix (0, 2) of (2, 3) is singular: pivot 7 is 0"));
  Tensor small = Tensor(narrow(narrow(singular, -1, 4, 4), -2, 4, 4));
  CHECK_THAT(message([&] { return linalg::solve(small.to(gpu), small.to(gpu)); }),
             Contains("solve: matrix (0, 2) of (2, 3) is singular: pivot 3 is 0"));
  CHECK(largest_difference(linalg::det(small.to(gpu)), linalg::det(small)) == 0);
  // A NaN leaves pivots that name rows.
  const std::vector<std::int32_t> rows = to_vector<std::int32_t>(linalg::lu_factor_ex(nan.to(gpu)).pivots);
  CHECK(std::all_of(rows.begin(), rows.end(), [](std::int32_t row) { return row >= 1 && row <= 10; }));
  const linalg::LuFactors factors = linalg::lu_factor(batch.to(gpu));
  const Tensor pivots = Tensor(factors.pivots * 0), right = ones({2, 3, 10, 1}, {.device = gpu});
  CHECK_THAT(message_of([&] { to_vector<float>(linalg::lu_solve(factors.lu, pivots, right)); }),
             Contains("lu_solve: pivot 0 names no row of 10"));
  // The device goes on.
  CHECK(largest_difference(linalg::cholesky(batch.to(gpu)), linalg::cholesky(batch)) < 1e-6);
}

TEST_CASE("many small systems are one kernel, and agree with the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n = 1; n <= 8; ++n) {
      INFO(name(dtype) << " " << n);
      const Tensor a =
          noise({1000, n, n}, dtype, static_cast<int>(n)) + eye(n, {.dtype = dtype, .device = Device::cpu()}) * 3;
      const double close = tolerance(dtype) * 10;
      for (const std::int64_t columns : {std::int64_t{1}, std::int64_t{3}, std::int64_t{16}}) {
        const Tensor b = noise({1000, n, columns}, dtype, 9);
        CHECK(largest_difference(linalg::solve(a.to(gpu), b.to(gpu)), linalg::solve(a, b)) < close);
      }
      CHECK(difference([](const Tensor& t) { return linalg::inv(t); }, a) < close);
      CHECK(difference([](const Tensor& t) { return linalg::det(t / 3); }, a) < close * 10);
      const auto loss = [](const Tensor& t) { return Tensor(sum(linalg::inv(t) * linalg::inv(t))); };
      CHECK(difference([&](const Tensor& t) { return jit::grad(loss)(t); }, a) < close * 20);
    }
}

TEST_CASE("two threads on streams of their own use the libraries at once") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = complex_noise({16, 256}, DType::f32, 1), a = positive({4, 32, 32}, DType::f32, 2);
  const Tensor y = fft::fft(x), l = linalg::cholesky(a);
  eval(y);
  eval(l);
  std::vector<double> worst(2, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      cuda::Stream stream;
      const cuda::StreamGuard guard(stream);
      for (int i = 0; i < 10; ++i) {
        worst[t] =
            std::max(worst[t], largest_difference(Tensor(view_as_real(fft::fft(x.to(gpu)))), Tensor(view_as_real(y))));
        worst[t] = std::max(worst[t], largest_difference(linalg::cholesky(a.to(gpu)), l));
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(worst[0] < 1e-3);
  CHECK(worst[1] < 1e-3);
}

TEST_CASE("quantised products: rows rounded to i8 by tensor cores, few rows by the packed weight") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const auto moved = [](QuantizedWeight w) {
    w.values = w.values.to(gpu);
    w.scales = w.scales.to(gpu);
    w.zero_points = w.zero_points.to(gpu);
    return w;
  };
  const Tensor weight = sinter_test::noise({256, 96}, 1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    INFO(name(dtype));
    const double close = dtype == DType::f32 ? 1e-4 : 0.15;
    for (const std::int64_t rows : {17, 33, 200}) {
      const Tensor x = Tensor(cast(sinter_test::noise({rows, 256}, 2), dtype));
      const QuantizedWeight w = quantize_weight(weight);
      const QuantizedMatmulOptions dynamic{.activations = Activations::dynamic_i8};
      auto f = jit::compile([=](Tensor a, QuantizedWeight b) { return quantized_matmul(a, b, dynamic); });
      CHECK(largest_difference(f(x.to(gpu), moved(w)), quantized_matmul(x, w, dynamic)) < close);
      CHECK(f.explain(x.to(gpu), moved(w)).text().find("quantized_matmul [cuda]") != std::string::npos);
    }
    for (const int bits : {4, 8})
      for (const std::int64_t group : {std::int64_t{0}, std::int64_t{32}, std::int64_t{64}})
        for (const auto scheme : {QuantizationScheme::symmetric, QuantizationScheme::affine})
          for (const std::int64_t rows : {1, 2, 3, 8, 9}) {
            if (dtype != DType::f32 && (rows % 2 == 0 || group == 64)) continue;  // a compilation each
            INFO(bits << " bits, group " << group << ", rows " << rows);
            const Tensor x = Tensor(cast(sinter_test::noise({rows, 256}, 3), dtype));
            const QuantizedWeight w = quantize_weight(weight, {.bits = bits, .group = group, .scheme = scheme});
            auto f = jit::compile([](Tensor a, QuantizedWeight b) { return quantized_matmul(a, b); });
            CHECK(largest_difference(f(x.to(gpu), moved(w)), quantized_matmul(x, w)) < close);
          }
  }
  // On tensor cores: groups of 128, columns that are no multiple of 16, one or two blocks of 16 beside each other, a
  // row that is not finite, zero points of all 8 bits.
  struct Extents {
    std::int64_t depth, columns;
  };
  for (const auto [depth, columns] : {Extents{384, 100}, Extents{4224, 100}, Extents{384, 8209}, Extents{128, 8192}})
    for (const int bits : {4, 8})
      for (const auto scheme : {QuantizationScheme::symmetric, QuantizationScheme::affine}) {
        INFO(bits << " bits, k " << depth << ", columns " << columns);
        const double close = depth > 1000 ? 1e-2 : 1e-3;
        const Tensor x = sinter_test::noise({2, depth}, 3);
        const QuantizedWeight w =
            quantize_weight(sinter_test::noise({depth, columns}, 1), {.bits = bits, .group = 128, .scheme = scheme});
        CHECK(largest_difference(quantized_matmul(x.to(gpu), moved(w)), quantized_matmul(x, w)) < close);
        Tensor with_infinity = sinter_test::noise({2, depth}, 3);
        with_infinity.at(1, 5) = std::numeric_limits<float>::infinity();
        const std::vector<float> got = to_vector<float>(quantized_matmul(with_infinity.to(gpu), moved(w)));
        const std::vector<float> want = to_vector<float>(quantized_matmul(with_infinity, w));
        std::size_t unlike = 0;
        for (std::size_t i = 0; i < got.size(); ++i)
          if (std::isfinite(want[i]) ? !(std::abs(got[i] - want[i]) < close) : std::isfinite(got[i])) ++unlike;
        CHECK(unlike == 0);
        for (const DType dtype : {DType::bf16, DType::f16})
          for (const std::int64_t rows : {1, 8}) {
            if (depth != 384) continue;
            INFO(name(dtype) << ", rows " << rows);
            const Tensor narrow_x = Tensor(cast(sinter_test::noise({rows, depth}, 3), dtype));
            const Tensor exact = quantized_matmul(narrow_x.to(DType::f32), w);
            const double one_rounding = item<float>(amax(abs(exact))) * (dtype == DType::bf16 ? 0x1p-8 : 0x1p-11);
            auto f = jit::compile([](Tensor a, QuantizedWeight b) { return quantized_matmul(a, b); });
            const Tensor found = f(narrow_x.to(gpu), moved(w)).to(DType::f32);
            CHECK(largest_difference(found, exact) < 1.01 * one_rounding + close);
            CHECK(f.explain(narrow_x.to(gpu), moved(w)).text().find("cast") == std::string::npos);  // read as it lies
          }
      }
  QuantizedWeight any_zero = quantize_weight(sinter_test::noise({256, 96}, 1),
                                             {.bits = 4, .group = 128, .scheme = QuantizationScheme::affine});
  for (const int first : {0, 64, 127, 128, 200, 255}) {
    INFO("zero points from " << first);
    any_zero.zero_points = remainder(arange(2 * 96, {.dtype = DType::i64, .device = Device::cpu()}) + first, 256)
                               .reshape({96, 2})
                               .to(DType::u8);
    const Tensor x = sinter_test::noise({2, 256}, 3);
    const Tensor exact = quantized_matmul(x, any_zero);
    CHECK(largest_difference(quantized_matmul(x.to(gpu), moved(any_zero)), exact) < 0.05);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Tensor narrow_x = Tensor(cast(x, dtype)), wanted = quantized_matmul(narrow_x.to(DType::f32), any_zero);
      const double close = item<float>(amax(abs(wanted))) * 0x1p-7;
      CHECK(largest_difference(quantized_matmul(narrow_x.to(gpu), moved(any_zero)).to(DType::f32), wanted) < close);
    }
  }
  // A weight that lies anywhere in memory.
  const Tensor here = sinter_test::noise({3, 256}, 3), more = sinter_test::noise({40, 256}, 3);
  QuantizedWeight moved_by_one = quantize_weight(weight);
  const Tensor few = quantized_matmul(here, moved_by_one),
               many = quantized_matmul(more, moved_by_one, {.activations = Activations::dynamic_i8});
  const Tensor bytes = reshape(moved_by_one.values, {-1});
  moved_by_one = moved(moved_by_one);
  const Tensor longer = concat({narrow(bytes, 0, 0, 1), bytes}, 0).to(gpu);
  moved_by_one.values = reshape(narrow(longer, 0, 1, 96 * 256), {96, 256});
  CHECK(largest_difference(quantized_matmul(here.to(gpu), moved_by_one), few) < 1e-4);
  CHECK(largest_difference(quantized_matmul(more.to(gpu), moved_by_one, {.activations = Activations::dynamic_i8}),
                           many) < 1e-4);
  // A row that is not finite has no integers.
  Tensor x = sinter_test::noise({32, 256}, 4);
  x.at(3, 5) = std::numeric_limits<float>::infinity();
  const QuantizedWeight w = moved(quantize_weight(weight));
  const Tensor y = quantized_matmul(x.to(gpu), w, {.activations = Activations::dynamic_i8});
  const std::vector<float> values = to_vector<float>(y);
  CHECK(std::isnan(values[3 * 96]));
  CHECK_FALSE(std::isnan(values[2 * 96]));
}

TEST_CASE("gpu: integer_matmul and scaled_matmul are the CPU's, by tensor cores where they fit") {
  const auto integers_of = [](const Shape& shape, int seed) {
    const Tensor k = arange(shape.numel(), {.dtype = DType::i64});
    return Tensor(remainder(k * k * 31 + k * 17 + seed, 256)).reshape(shape).to(DType::i8);
  };
  const auto by_integers = [](Tensor a, Tensor w) { return integer_matmul(a, transpose(w, 0, 1)); };
  for (const std::int64_t rows : {5, 32, 200})
    for (const std::int64_t depth : {64, 100}) {
      INFO(rows << " x " << depth);
      const Tensor a = integers_of({rows, depth}, 1), w = integers_of({48, depth}, 2);
      auto f = jit::compile(by_integers);
      CHECK(to_vector<std::int32_t>(f(a.to(gpu), w.to(gpu))) == to_vector<std::int32_t>(by_integers(a, w)));
      const bool is_whole =
          f.explain(a.to(gpu), w.to(gpu)).text().find("integer_matmul_rows [cuda]") != std::string::npos;
      CHECK(is_whole == (rows >= 32 && depth == 64));
    }
  for (const DType left : {DType::f8e4m3, DType::f8e5m2})
    for (const DType right : {DType::f8e4m3, DType::f8e5m2})
      for (const DType result : {DType::f32, DType::bf16, DType::f16}) {
        INFO(name(left) << " by " << name(right) << " in " << name(result));
        const auto by_f8 = [=](Tensor a, Tensor w, Tensor scale) {
          return scaled_matmul(a, transpose(w, 0, 1), scale, 0.25F, {.dtype = result});
        };
        const Tensor a = Tensor(cast(sinter_test::noise({33, 128}, 3), left)),
                     w = Tensor(cast(sinter_test::noise({64, 128}, 4), right)),
                     scale = full({}, 2.F, {.device = Device::cpu()});
        CHECK(largest_difference(jit::compile(by_f8)(a.to(gpu), w.to(gpu), scale.to(gpu)), by_f8(a, w, scale)) <
              (result == DType::f32 ? 0.02 : 0.2));
      }
  // Scales of rows and columns, of one of them, and such as lie at no multiple of 16 bytes: the library's own.
  for (const DType result : {DType::f32, DType::bf16, DType::f16}) {
    const auto by_rows = [=](Tensor a, Tensor w, Tensor rows, Tensor columns) {
      return scaled_matmul(a, transpose(w, 0, 1), rows, columns, {.dtype = result});
    };
    const auto by_columns = [=](Tensor a, Tensor w, Tensor columns) {
      return scaled_matmul(a, transpose(w, 0, 1), 0.5F, columns, {.dtype = result});
    };
    const Tensor a = Tensor(cast(sinter_test::noise({48, 128}, 3), DType::f8e4m3)),
                 w = Tensor(cast(sinter_test::noise({64, 128}, 4), DType::f8e4m3)),
                 rows = sinter_test::noise({48, 1}, 5), columns = sinter_test::noise({64}, 6);
    const double close = result == DType::f32 ? 0.02 : 0.2;
    auto both = jit::compile(by_rows);
    auto one = jit::compile(by_columns);
    CHECK(largest_difference(both(a.to(gpu), w.to(gpu), rows.to(gpu), columns.to(gpu)), by_rows(a, w, rows, columns)) <
          close);
    CHECK(largest_difference(one(a.to(gpu), w.to(gpu), columns.to(gpu)), by_columns(a, w, columns)) < close);
    const Tensor longer = concat({columns, columns}, 0).to(gpu);
    CHECK(largest_difference(one(a.to(gpu), w.to(gpu), narrow(longer, 0, 1, 64)),
                             by_columns(a, w, narrow(concat({columns, columns}, 0), 0, 1, 64))) < close);
    const std::string text = both.explain(a.to(gpu), w.to(gpu), rows.to(gpu), columns.to(gpu)).text();
    INFO(text);
    if (result == DType::bf16)
      CHECK(text.find("plan: 1 kernels") != std::string::npos);  // nothing is left to one of ours
  }
  // Rows that are not known, and a scale that is an element of others.
  auto any_rows = jit::compile(
      [](Tensor a, Tensor w, Tensor scales) {
        return scaled_matmul(a, transpose(w, 0, 1), scales(1), 0.25F, {.dtype = DType::f32});
      },
      {.dynamic = jit::Dynamic::always});
  const Tensor w = Tensor(cast(sinter_test::noise({64, 128}, 4), DType::f8e4m3)),
               scales = tensor({3.F, 2.F}).to(Device::cpu());
  for (const std::int64_t rows : {1, 2, 5, 17}) {
    INFO(rows << " rows");
    const Tensor a = Tensor(cast(sinter_test::noise({rows, 128}, 3), DType::f8e4m3));
    const Tensor expected = scaled_matmul(a, transpose(w, 0, 1), 2.F, 0.25F, {.dtype = DType::f32});
    CHECK(largest_difference(any_rows(a.to(gpu), w.to(gpu), scales.to(gpu)), expected) < 0.02);
  }
}
