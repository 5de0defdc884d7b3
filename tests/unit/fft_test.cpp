// Fourier transforms: values and gradients by PyTorch, direct sums in double for all sizes, layouts, threads, errors.
#include "../catch.hpp"
#include "../checks.hpp"
#include "fft_values.hpp"

#include <sinter/ops/fft_plan.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <numbers>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

using Number = std::complex<double>;
using Numbers = std::vector<Number>;
Numbers complex_numbers(const In& x) { return to_vector<Number>(cast(x, DType::c128)); }

/// The numbers that fft_values.py works with.
std::vector<double> some(std::int64_t count, std::int64_t step, std::int64_t modulus) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<double>((i * step + 11) % modulus) / (static_cast<double>(modulus) / 4) - 2);
  return out;
}
Tensor real_operand(const Shape& shape) { return reshape(copy_of(some(shape.numel().value(), 37, 101)), shape); }
Tensor complex_operand(const Shape& shape) {
  return complex(real_operand(shape), reshape(copy_of(some(shape.numel().value(), 53, 97)), shape));
}
/// The sum of the parts of y times weights.
Tensor weighed(const Tensor& y, std::pair<int, int> first, std::pair<int, int> second) {
  const Tensor flat = reshape(y, {-1});
  const std::int64_t count = flat.size(0).value();
  if (!is_complex(y)) return sum(flat * copy_of(some(count, first.first, first.second)));
  return sum(real(flat) * copy_of(some(count, first.first, first.second))) +
         sum(imag(flat) * copy_of(some(count, second.first, second.second)));
}

/// sum over j of x_j e^(sign 2 pi i j k / n).
Numbers direct_sums(const Numbers& x, int sign) {
  const std::size_t n = x.size();
  Numbers roots, out;
  for (std::size_t k = 0; k < n; ++k)
    roots.push_back(std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n)));
  for (std::size_t k = 0; k < n; ++k) {
    Number total = 0;
    for (std::size_t j = 0; j < n; ++j) total += x[j] * roots[j * k % n];
    out.push_back(total);
  }
  return out;
}
/// The largest difference relative to the largest number.
double distance(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return 1e9;
  double worst = 0, largest = 1e-300;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}
double distance(const In& a, const In& b) { return distance(complex_numbers(a), complex_numbers(b)); }

std::vector<int> list_of(const std::string& text) {
  std::vector<int> out;
  if (text == "-") return out;
  std::istringstream in(text);
  for (std::string each; std::getline(in, each, ',');) out.push_back(std::stoi(each));
  return out;
}
struct Row {
  std::string name, shape, lengths, dim, norm;
  double value = 0, slope = 0;
};

Tensor short_time(const Row& row, const Tensor& x) {
  const std::vector<int> n = list_of(row.lengths), flags = list_of(row.dim);
  const Tensor window = window::hann(n[2], {.ends = window::Ends::periodic, .dtype = DType::f64}) + 0.1;
  if (row.name == "stft")
    return stft(x, n[0],
                {.hop_length = n[1],
                 .win_length = n[2],
                 .window = window,
                 .center = flags[0] != 0,
                 .normalized = flags[1] != 0});
  return istft(
      x, n[0],
      {.hop_length = n[1], .win_length = n[2], .window = window, .center = flags[0] != 0, .normalized = flags[1] != 0});
}
Tensor result_of(const Row& row, const Tensor& x) {
  if (row.name == "stft" || row.name == "istft") return short_time(row, x);
  const std::vector<int> n = list_of(row.lengths), dim = list_of(row.dim);
  const auto norm = static_cast<fft::Norm>(std::stoi(row.norm));
  if (row.name == "fftshift") return fft::fftshift(x, dim);
  if (row.name == "ifftshift") return fft::ifftshift(x, dim);
  using One = Tensor (*)(const In&, fft::Options);
  using Many = Tensor (*)(const In&, fft::ManyOptions);
  static const std::map<std::string, One> ones{{"fft", fft::fft},     {"ifft", fft::ifft}, {"rfft", fft::rfft},
                                               {"irfft", fft::irfft}, {"hfft", fft::hfft}, {"ihfft", fft::ihfft}};
  if (const auto found = ones.find(row.name); found != ones.end())
    return found->second(x, {.n = n.empty() ? std::nullopt : std::optional<Dim>(n[0]), .dim = dim[0], .norm = norm});
  static const std::map<std::string, Many> manies{
      {"fft2", fft::fft2},     {"ifft2", fft::ifft2}, {"rfft2", fft::rfft2},   {"irfft2", fft::irfft2},
      {"hfft2", fft::hfft2},   {"fftn", fft::fftn},   {"ifftn", fft::ifftn},   {"rfftn", fft::rfftn},
      {"irfftn", fft::irfftn}, {"hfftn", fft::hfftn}, {"ihfft2", fft::ihfft2}, {"ihfftn", fft::ihfftn}};
  Shape s;
  for (const int each : n) s.push_back(each);
  return manies.at(row.name)(x, {.s = s, .dim = dim, .norm = norm});
}
bool takes_real(const std::string& name) {
  return name.starts_with("rfft") || name.starts_with("ihfft") || name == "stft";
}

const Tensor signal16 = real_operand({16});

}  // namespace

/// First, while there are few tables.
TEST_CASE("a row that is not transformed along itself makes no tables for that") {
  for (const std::int64_t n : {64, 67}) eval(fft::fft(complex_operand({3, n})));  // rows and columns of the next one
  const std::size_t before = fft_detail::cached_plans();
  if (before > 32) SINTER_SKIP("tables of other tests fill the cache");
  eval(fft::fft(complex_operand({1, 64 * 67})));
  CHECK(fft_detail::cached_plans() == before + 1);
}

TEST_CASE("transforms and their gradients by PyTorch") {
  std::istringstream lines(fft_values);
  std::map<std::string, int> count;
  for (Row row; lines >> row.name >> row.shape >> row.lengths >> row.dim >> row.norm >> row.value >> row.slope;) {
    Shape shape;
    for (const int extent : list_of(row.shape)) shape.push_back(extent);
    const Tensor x = takes_real(row.name) ? real_operand(shape) : complex_operand(shape);
    const auto loss = [&](Tensor t) { return weighed(result_of(row, t), {29, 89}, {31, 83}); };
    auto [value, slope] = jit::value_and_grad(loss)(x);
    INFO(row.name << " of " << row.shape << ", " << row.lengths << ", " << row.dim << ", norm " << row.norm);
    CHECK(item<double>(value) == Approx(row.value).epsilon(1e-11).margin(1e-11));
    CHECK(item<double>(weighed(slope, {41, 79}, {43, 73})) == Approx(row.slope).epsilon(1e-11).margin(1e-11));
    ++count[row.name];
  }
  CHECK(count.size() == 22);
  for (const auto& [name, rows] : count) {
    INFO(name);
    CHECK(rows >= 30);
  }
}

TEST_CASE("all lengths against direct sums, f64 and f32, one row and several") {
  std::vector<std::int64_t> lengths{48,  49,  60,  64,  77,  97,  101,  128,  143,
                                    243, 256, 361, 500, 509, 512, 1009, 1024, 2018};
  for (std::int64_t n = 1; n <= 40; ++n) lengths.push_back(n);
  for (const std::int64_t n : {56, 72, 80, 96, 120, 160, 192, 200, 320, 384, 448, 640}) lengths.push_back(n);
  for (const std::int64_t n : lengths)
    for (const std::int64_t rows : {1, 11, 32, 37}) {  // alone, part of a vector, whole ones, and more
      INFO("length " << n << ", rows " << rows);
      const Tensor x = complex_operand({rows, n}), r = real_operand({rows, n});
      const Tensor last = x(rows - 1), last_real = r(rows - 1);
      const Numbers forward = direct_sums(complex_numbers(last), -1), inverse = direct_sums(complex_numbers(last), 1);
      const Numbers whole = direct_sums(complex_numbers(last_real), -1);
      const Numbers half(whole.begin(), whole.begin() + n / 2 + 1);
      for (const DType dtype : {DType::f64, DType::f32}) {
        const double tolerance = dtype == DType::f64 ? 2e-14 : 2e-6;
        const Tensor z = cast(x, dtype == DType::f64 ? DType::c128 : DType::c64), real_rows = cast(r, dtype);
        CHECK(distance(complex_numbers(fft::fft(z)(rows - 1)), forward) < tolerance);
        CHECK(distance(complex_numbers(fft::ifft(z, {.norm = fft::Norm::forward})(rows - 1)), inverse) < tolerance);
        const Tensor spectrum = fft::rfft(real_rows);
        CHECK(distance(complex_numbers(spectrum(rows - 1)), half) < tolerance);
        CHECK(distance(fft::irfft(spectrum, {.n = n}), real_rows) < tolerance);
      }
    }
}

TEST_CASE("long lines, powers of two and primes") {
  for (const std::int64_t n : {4096, 6144, 8192, 10007, 16384, 30030, 65536, 20014}) {
    INFO("length " << n);
    const Tensor x = complex_operand({2, n}), r = real_operand({n});
    CHECK(distance(fft::ifft(fft::fft(x)), x) < 1e-13);
    CHECK(distance(fft::irfft(fft::rfft(r), {.n = n}), r) < 1e-13);
    // A tone of frequency 3 is one number, and a line in columns is what it is in rows.
    const Tensor phase = arange(n, {.dtype = DType::f64}) * (6 * std::numbers::pi / static_cast<double>(n));
    const Numbers tone = complex_numbers(fft::fft(polar(1.0 + 0 * phase, phase)));
    CHECK(std::abs(tone[3] - static_cast<double>(n)) < 1e-9 * static_cast<double>(n));
    CHECK(std::abs(tone[4]) < 1e-9 * static_cast<double>(n));
    CHECK(distance(transpose(fft::fft(transpose(x, 0, 1), {.dim = 0}), 0, 1), fft::fft(x)) < 1e-13);
    // f32, and more rows, which are taken in another order.
    const Tensor z = complex_operand({9, n});
    CHECK(distance(fft::fft(z)(8), fft::fft(z(8))) < 1e-13);
    CHECK(distance(fft::fft(z.to(DType::c64))(8), fft::fft(z(8))) < 2e-6);
    CHECK(distance(fft::irfft(fft::rfft(r.to(DType::f32)), {.n = n}), r) < 2e-6);
  }
}

TEST_CASE("layouts: axes, strides, empty batches, operands of other dtypes") {
  for (const std::int64_t inner : {1, 2, 3, 4, 8, 9, 17})
    for (const std::int64_t outer : {1, 3}) {
      const Tensor x = complex_operand({outer, 12, inner});
      const Tensor rows = movedim(x, 1, 2);
      CHECK(distance(movedim(fft::fft(x, {.dim = 1}), 1, 2), fft::fft(rows)) < 1e-14);
      const Tensor r = real(x);
      CHECK(distance(movedim(fft::rfft(r, {.dim = 1}), 1, 2), fft::rfft(movedim(r, 1, 2))) < 1e-14);
    }
  const Tensor x = complex_operand({6, 20});
  const Tensor strided = x(slice(0, 6, 2), slice(1, 20, 3));
  const Tensor dense = reshape(copy_of(complex_numbers(strided)), {3, 7});
  CHECK(distance(fft::fft(strided), fft::fft(dense)) == 0);
  CHECK(fft::fft(zeros({0, 5})).shape() == Shape{0, 5});
  CHECK(fft::rfft(zeros({3, 0, 5})).shape() == Shape{3, 0, 3});
  CHECK(fft::irfft(zeros({0, 3}, {.dtype = DType::c64})).shape() == Shape{0, 4});
  CHECK(fft::fft(arange(4)).dtype() == DType::c64);
  CHECK(fft::rfft(arange(4)).dtype() == DType::c64);
  CHECK(fft::rfft(ones({4}, {.dtype = DType::f64})).dtype() == DType::c128);
  CHECK(fft::irfft(ones({4}, {.dtype = DType::c128})).dtype() == DType::f64);
  CHECK(distance(fft::rfft(signal16, {.n = 10}), fft::rfft(signal16(slice(0, 10)))) == 0);
  CHECK(distance(fft::fftn(full({}, 2.0, {.dtype = DType::f64})), full({}, 2.0, {.dtype = DType::f64})) == 0);
}

TEST_CASE("a NaN stays in its row") {
  Tensor x = real_operand({9, 12});
  x.at(4, 5) = std::nan("");
  const std::vector<double> parts = doubles(view_as_real(fft::rfft(x)));
  const std::vector<double> clean = doubles(view_as_real(fft::rfft(real_operand({9, 12}))));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i / 14 == 4) continue;
    CHECK(parts[i] == clean[i]);
  }
  CHECK(std::isnan(parts[4 * 14]));
}

TEST_CASE("compiled with sizes that change, under vmap, and with derivatives of derivatives") {
  auto smooth = [](Tensor x) {
    const Tensor spectrum = fft::rfft(x * 2);
    return fft::irfft(spectrum * exp(-0.1 * arange(spectrum.size(-1), {.dtype = DType::f64})), {.n = x.size(-1)});
  };
  auto compiled = jit::compile(smooth);
  for (const std::int64_t n : {5, 8, 9, 16, 31}) {
    const Tensor x = real_operand({3, n});
    CHECK(distance(compiled(x), smooth(x)) < 1e-14);
    CHECK(distance(jit::vmap(smooth)(x), smooth(x)) < 1e-14);
    CHECK(distance(jit::vmap([](Tensor z) { return fft::fft2(z); })(complex_operand({4, 3, n})),
                   fft::fft2(complex_operand({4, 3, n}))) < 1e-14);
  }
  // The energy of a spectrum is n times that of the signal (Parseval): gradient 2 n x, second derivative 2 n.
  const auto energy = [](Tensor x) {
    const Tensor y = fft::fft(x);
    return sum(square(real(y)) + square(imag(y)));
  };
  const Tensor x = real_operand({7});
  CHECK(distance(jit::grad(energy)(x), 14 * x) < 1e-13);
  const Tensor direction = real_operand({7}) + 1;
  CHECK(distance(jit::grad([&](Tensor t) { return sum(jit::grad(energy)(t) * direction); })(x), 14 * direction) <
        1e-13);
  CHECK(distance(jit::jvp([](Tensor t) { return fft::irfft(fft::rfft(t), {.n = 7}); }, x, direction).second,
                 direction) < 1e-13);
}

TEST_CASE("results do not depend on the number of threads, and tables are bounded") {
  const int threads = thread_count();
  const Tensor x = complex_operand({200, 96}), line = complex_operand({1 << 15}), r = real_operand({150, 75});
  std::vector<Numbers> seen;
  for (const int count : {1, 4}) {
    set_thread_count(count);
    seen.push_back(complex_numbers(fft::fft2(x)));
    seen.push_back(complex_numbers(fft::fft(line)));
    seen.push_back(complex_numbers(fft::rfft2(r)));
  }
  set_thread_count(threads);
  for (std::size_t i = 0; i < 3; ++i) CHECK(seen[i] == seen[i + 3]);
  for (std::int64_t n = 100; n < 200; ++n) eval(fft::fft(zeros({n})));
  CHECK(fft_detail::cached_plans() <= 64);
}

TEST_CASE("frequencies") {
  CHECK(near(doubles(fft::fftfreq(5)), {0, 0.2, 0.4, -0.4, -0.2}, 1e-7));
  CHECK(near(doubles(fft::fftfreq(4, 0.5, {.dtype = DType::f64})), {0, 0.5, -1, -0.5}, 1e-15));
  CHECK(near(doubles(fft::rfftfreq(2)), {0, 0.5}, 1e-15));
  const TensorOptions f64{.dtype = DType::f64};  // those of every other factory
  CHECK(fft::fftfreq(4, 0.5, f64).dtype() == DType::f64);
  CHECK(fft::rfftfreq(4, 0.5, f64).dtype() == DType::f64);
  CHECK(fft::fftfreq(4).dtype() == DType::f32);
  CHECK(near(doubles(fft::rfftfreq(7, 0.1, {.dtype = DType::f64})), {0, 10 / 7., 20 / 7., 30 / 7.}, 1e-15));
  CHECK(near(doubles(fft::rfftfreq(1)), {0}, 1e-15));
  CHECK(fft::fftfreq(3).dtype() == DType::f32);
}

TEST_CASE("fftconvolve") {
  const auto direct = [](const Numbers& a, const Numbers& b) {
    Numbers out(a.size() + b.size() - 1);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < b.size(); ++j) out[i + j] += a[i] * b[j];
    return out;
  };
  const auto middle = [](const Numbers& a, std::size_t count) {
    const auto start = static_cast<std::ptrdiff_t>((a.size() - count) / 2);
    return Numbers(a.begin() + start, a.begin() + start + static_cast<std::ptrdiff_t>(count));
  };
  for (const auto& [n, m] : {std::pair<int, int>{1, 1}, {5, 3}, {3, 5}, {16, 16}, {40, 7}, {97, 31}}) {
    const Tensor x = real_operand({n}), y = real_operand({m}) + 0.5, z = complex_operand({m});
    const Numbers whole = direct(complex_numbers(x), complex_numbers(y));
    CHECK(distance(complex_numbers(fft::fftconvolve(x, y)), whole) < 1e-13);
    CHECK(distance(complex_numbers(fft::fftconvolve(x, y, {.mode = fft::ConvolveMode::same})),
                   middle(whole, static_cast<std::size_t>(n))) < 1e-13);
    const int valid = std::max(n, m) - std::min(n, m) + 1;
    CHECK(distance(complex_numbers(fft::fftconvolve(x, y, {.mode = fft::ConvolveMode::valid})),
                   middle(whole, static_cast<std::size_t>(valid))) < 1e-13);
    CHECK(distance(complex_numbers(fft::fftconvolve(x, z)), direct(complex_numbers(x), complex_numbers(z))) < 1e-13);
  }
  // Rows by one kernel, and images.
  const Tensor rows = real_operand({3, 10}), kernel = real_operand({1, 4});
  const Tensor by_rows = fft::fftconvolve(rows, kernel, {.axes = 1});
  CHECK(distance(by_rows(2), fft::fftconvolve(rows(2), kernel(0))) < 1e-13);
  const Tensor image = real_operand({6, 7}), spot = real_operand({3, 2});
  Tensor expected = zeros({8, 8}, {.dtype = DType::f64});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) expected.at(slice(i, i + 6), slice(j, j + 7)) += image * spot(i, j);
  CHECK(distance(fft::fftconvolve(image, spot), expected) < 1e-13);
  const Tensor slope = jit::grad([&](Tensor k) { return sum(fft::fftconvolve(image, k) * expected); })(spot);
  CHECK(item<double>(slope(2, 1)) ==
        Approx(item<double>(sum(image * expected(slice(2, 8), slice(1, 8))))).epsilon(1e-12));
}

TEST_CASE("stft and istft: there and back, complex signals, two sides") {
  const Tensor x = real_operand({2, 50}),
               window = window::hann(16, {.ends = window::Ends::periodic, .dtype = DType::f64});
  const Tensor spectra = stft(x, 16, {.window = window});
  CHECK(spectra.shape() == Shape{2, 9, 13});
  CHECK(distance(istft(spectra, 16, {.window = window, .length = 48}), x(all, slice(0, 48))) < 1e-13);
  CHECK(istft(spectra, 16, {.window = window}).shape() == Shape{2, 48});
  CHECK(istft(spectra, 16, {.window = window, .length = 60}).shape() == Shape{2, 60});
  const Tensor two_sided = stft(x, 16, {.window = window, .onesided = false});
  CHECK(two_sided.shape() == Shape{2, 16, 13});
  CHECK(distance(two_sided(all, slice(0, 9)), spectra) < 1e-13);
  CHECK(distance(istft(two_sided, 16, {.window = window, .length = 48}), x(all, slice(0, 48))) < 1e-13);
  const Tensor z = complex(x, 2 * x);
  CHECK(distance(stft(z, 16, {.window = window}), two_sided + std::complex<double>(0, 2) * two_sided) < 1e-13);
  CHECK(stft(ones({20}), 8).shape() == Shape{5, 11});
}

TEST_CASE("errors") {
  const Tensor x = real_operand({4}), z = complex_operand({4});
  CHECK(has(message_of<DTypeError>([&] { fft::rfft(z); }), "fft::rfft: x is c128, it must be real"));
  CHECK(has(message_of<DTypeError>([&] { fft::rfft(z); }), "use fft::fft, or real(x)"));
  CHECK(has(message_of<DTypeError>([&] { fft::fft(cast(x, DType::f16)); }),
            "x is f16, it must be f32, f64, c64 or c128"));
  CHECK(has(message_of<ShapeError>([&] { fft::fft(x, {.n = 0}); }), "fft::fft: a transform of 0 numbers is asked for"));
  CHECK(has(message_of<ShapeError>([&] { fft::fft(zeros({3, 0})); }), "a transform of 0 numbers"));
  CHECK(has(message_of<ShapeError>([&] { fft::irfft(z(slice(0, 1))); }), "fft::irfft: a transform of 0 numbers"));
  CHECK(has(message_of<ShapeError>([&] { fft::fft(full({}, 1.0)); }), "x is (), at least one axis is required"));
  CHECK(has(message_of<IndexError>([&] { fft::fft(x, {.dim = 1}); }), "fft::fft: axis 1 is out of range"));
  CHECK(has(message_of<ShapeError>([&] { fft::fft2(x); }), "fft::fft2: x has 1 axes, 2 are transformed"));
  CHECK(has(message_of<IndexError>([&] { fft::fftn(zeros({2, 2}), {.dim = {0, -2}}); }), "an axis is named twice"));
  CHECK(has(message_of<ShapeError>([&] { fft::fftn(zeros({2, 2}), {.s = {2}, .dim = {0, 1}}); }),
            "1 lengths for 2 axes"));
  CHECK(has(message_of<ShapeError>([&] { fft::rfftn(full({}, 1.0)); }), "no axis is transformed"));
  CHECK(has(message_of<UserError>([&] { fft::fftfreq(0); }), "fft::fftfreq: n is 0, it must be from 1 to 4294967296"));
  CHECK(has(message_of<DTypeError>([&] { fft::fftfreq(3, 1, {.dtype = DType::i32}); }), "the dtype is i32"));
  CHECK(has(message_of<ShapeError>([&] { fft::fftconvolve(x, zeros({2, 2})); }), "equally many axes"));
  CHECK(has(message_of<ShapeError>(
                [&] { fft::fftconvolve(zeros({2, 5}), zeros({3, 4}), {.mode = fft::ConvolveMode::valid}); }),
            "one of them must be at least as long"));
  CHECK(has(message_of<ShapeError>([&] { stft(x, 16, {.center = false}); }), "the signal is shorter than a frame"));
  CHECK(has(message_of<UserError>([&] { stft(x, 0); }), "stft: n_fft is 0, it must be at least 1"));
  CHECK(has(message_of<UserError>([&] { stft(x, 4, {.hop_length = 0}); }), "hop_length is 0"));
  CHECK(has(message_of<UserError>([&] { stft(x, 4, {.win_length = 5}); }),
            "win_length is 5, it must be from 1 to n_fft = 4"));
  CHECK(
      has(message_of<ShapeError>([&] { stft(x, 4, {.window = zeros({3})}); }), "the window is (3,), win_length is 4"));
  CHECK(has(message_of<UserError>([&] { stft(z, 4, {.onesided = true}); }), "a one-sided spectrum is asked for"));
  CHECK(has(message_of<ShapeError>([&] { istft(zeros({4, 3}), 4); }), "x has 4 frequencies") == false);
  CHECK(has(message_of<ShapeError>([&] { istft(zeros({6, 3}), 4); }), "x has 6 frequencies, n_fft is 4"));
  CHECK(blame_of<DTypeError>([&] { fft::rfft(z); }) == blame("fft::rfft"));
  const Tensor deep = ones({1, 1, 1, 1, 1, 1, 1, 4});
  for (const auto& transform : {fft::fft, fft::ifft, fft::rfft, fft::ihfft}) {
    const std::string text = message_of<ShapeError>([&] { transform(deep, {}); });
    CHECK(has(text, "x is (1, 1, 1, 1, 1, 1, 1, 4), and complex tensors have at most 7 axes"));
    CHECK(has(text, "fft_test.cpp"));
  }
  CHECK(has(message_of<UserError>([&] { fft::fftfreq(std::int64_t{1} << 60); }), "it must be from 1 to 4294967296"));
  CHECK(has(message_of<ShapeError>([&] { istft(zeros({3, 1}, {.dtype = DType::c64}), 4); }), "leaves no sample"));
}

TEST_CASE("the bits of a line do not depend on how many lie beside it", "[fft]") {
  constexpr std::int64_t lines = 48, few = 12;
  const auto numbers = [](const Tensor& x) { return doubles(is_complex(x) ? Tensor(view_as_real(x)) : x); };
  const auto is_same = [&](const Tensor& many, const Tensor& part, int axis, std::int64_t first) {
    return numbers(narrow(many, axis, first, few)) == numbers(part);
  };
  for (std::int64_t n : {2,  3,  4,  5,  6,  7,  8,   9,   10,  12,  15,  16,  17,  20,  24,  25,  30,   32,
                         35, 48, 49, 64, 96, 80, 100, 128, 131, 192, 210, 250, 256, 224, 320, 512, 1024, 4096})
    for (const DType dtype : {DType::f32, DType::f64}) {
      manual_seed(n);
      const Tensor rows = complex(randn({lines, n}, {.dtype = dtype}), randn({lines, n}, {.dtype = dtype}));
      const Tensor columns = transpose(rows, 0, 1) * 2;
      const Tensor many = fft::fft(rows), inverse = fft::ifft(columns, {.dim = 0}), half = fft::rfft(real(rows));
      const Tensor back = fft::irfft(half, {.n = n}), scaled = fft::rfft(real(rows), {.norm = fft::Norm::ortho});
      const Tensor conjugate_half = fft::ihfft(real(rows)), from_conjugate = fft::hfft(half, {.n = n});
      CAPTURE(n, name(dtype));
      for (std::int64_t first = 0; first < lines; first += few) {
        CHECK(is_same(many, fft::fft(narrow(rows, 0, first, few)), 0, first));
        CHECK(is_same(inverse, fft::ifft(narrow(columns, 1, first, few), {.dim = 0}), 1, first));
        const Tensor few_real = real(narrow(rows, 0, first, few)), few_half = narrow(half, 0, first, few);
        CHECK(is_same(half, fft::rfft(few_real), 0, first));
        CHECK(is_same(scaled, fft::rfft(few_real, {.norm = fft::Norm::ortho}), 0, first));
        CHECK(is_same(back, fft::irfft(few_half, {.n = n}), 0, first));
        CHECK(is_same(conjugate_half, fft::ihfft(few_real), 0, first));
        CHECK(is_same(from_conjugate, fft::hfft(few_half, {.n = n}), 0, first));
      }
      if (n % 32 != 0) continue;  // up to four lines are cut into rows and columns of their own
      for (const std::int64_t single : {1, 4}) {
        CHECK(numbers(narrow(many, 0, 7, single)) == numbers(fft::fft(narrow(rows, 0, 7, single))));
        if (n % 64 != 0) continue;  // of real numbers half the length
        CHECK(numbers(narrow(half, 0, 7, single)) == numbers(fft::rfft(real(narrow(rows, 0, 7, single)))));
        CHECK(numbers(narrow(back, 0, 7, single)) == numbers(fft::irfft(narrow(half, 0, 7, single), {.n = n})));
      }
    }
}

TEST_CASE("a line of its own is what it is among others, as rows and columns of any shape", "[fft]") {
  for (const std::int64_t n : {400, 500, 999, 1000, 2000, 4000, 20000, 20020, 65536, 100000}) {
    const Tensor x = complex_operand({2, n}), r = real_operand({n});
    CAPTURE(n);
    CHECK(distance(fft::fft(x(0)), transpose(fft::fft(transpose(x, 0, 1), {.dim = 0}), 0, 1)(0)) < 1e-14);
    CHECK(distance(fft::ifft(fft::fft(x(1))), x(1)) < 1e-14);
    CHECK(distance(fft::ifft(fft::fft(x(1).to(DType::c64))), x(1)) < 2e-6);
    CHECK(distance(fft::rfft(r), fft::fft(r)(slice(0, n / 2 + 1))) < 1e-14);
    CHECK(distance(fft::irfft(fft::rfft(r), {.n = n}), r) < 1e-14);
    CHECK(distance(fft::irfft(fft::rfft(r.to(DType::f32)), {.n = n}), r) < 2e-6);
  }
}

TEST_CASE("a NaN stays in its row, of short rows side by side") {
  for (const std::int64_t n : {3, 5, 7, 9, 15}) {
    Tensor x = real_operand({40, n});
    const std::vector<double> clean = doubles(view_as_real(fft::rfft(x)));
    x.at(21, 1) = std::nan("");
    const std::vector<double> parts = doubles(view_as_real(fft::rfft(x)));
    const std::size_t row = static_cast<std::size_t>(2 * (n / 2 + 1));
    CAPTURE(n);
    for (std::size_t i = 0; i < parts.size(); ++i)
      if (i / row != 21) CHECK(parts[i] == clean[i]);
    CHECK(std::isnan(parts[21 * row]));
  }
}

TEST_CASE("the bits of a line of odd length do not depend on which part of the lines it is in", "[fft]") {
  for (std::int64_t n : {225, 315, 1001}) {  // 64 lines are a part
    const Tensor rows = randn({70, n});
    const Tensor many = fft::rfft(rows), part = fft::rfft(narrow(rows, 0, 0, 65));
    CAPTURE(n);
    CHECK(to_vector<float>(view_as_real(narrow(many, 0, 64, 1))) ==
          to_vector<float>(view_as_real(narrow(part, 0, 64, 1))));
    CHECK(to_vector<float>(narrow(fft::irfft(many, {.n = n}), 0, 64, 1)) ==
          to_vector<float>(narrow(fft::irfft(narrow(many, 0, 0, 65), {.n = n}), 0, 64, 1)));
  }
}
