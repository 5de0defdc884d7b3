// How exact products and reductions are: the largest error of any element of a result, for f32 and f64, against sums in
// a wider type. bench/accuracy_reductions.py prints the same rows for PyTorch, from the same numbers.
//
//     bench_accuracy_reductions [cuda]
//
// One line for each row: its name (blanks as '~'), the number of elements added up, the errors in f32 and in f64.
// Errors are in eps (2^-23, 2^-52) of the sum of the magnitudes of what is added up; those of `var` in eps of the
// variance.
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace sinter;

namespace {

Device device = Device::cpu();

/// Uniform in [0, 1) with 24 bits: element i of stream `seed`, the same in Python (splitmix64).
double uniform(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = (seed << 40) + (i + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-24;
}

struct Array {
  std::vector<std::int64_t> extents;
  std::vector<double> values;

  Array(std::uint64_t seed, std::vector<std::int64_t> shape) : extents(std::move(shape)) {
    std::int64_t count = 1;
    for (std::int64_t extent : extents) count *= extent;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(uniform(seed, static_cast<std::uint64_t>(i)));
  }
  double at(std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  Tensor tensor(DType dtype) const {
    Shape shape;
    for (std::int64_t extent : extents) shape.push_back(extent);
    Tensor all = copy_of(std::span<const double>(values), shape);
    return Tensor(cast(all, dtype)).to(device);
  }
};

/// The elements of a result, as numbers.
std::vector<long double> elements(const Tensor& result) {
  std::vector<long double> list;
  const Tensor here = Tensor(cast(result, DType::f64)).to(Device::cpu());
  for (double v : here.data<double>()) list.push_back(v);
  return list;
}

/// A sum of positive numbers that loses next to nothing.
struct Exact {
  long double total = 0, lost = 0;
  void add(long double x) {
    const long double sum = total + x, added = sum - total;
    lost += (total - (sum - added)) + (x - added);
    total = sum;
  }
  long double value() const { return total + lost; }
};

using Expected = std::function<long double(std::int64_t element)>;

/// The largest error of `f`, in eps of what is expected: all terms are positive.
double worst(DType dtype, const std::vector<Array>& inputs, const std::function<Tensor(const std::vector<Tensor>&)>& f,
             const std::vector<long double>& expected) {
  std::vector<Tensor> tensors;
  for (const Array& input : inputs) tensors.push_back(input.tensor(dtype));
  const auto compiled = jit::compile([&](const std::vector<Tensor>& in) { return f(in); });
  const std::vector<long double> found = elements(compiled(tensors));
  const long double eps = dtype == DType::f32 ? 0x1p-23L : 0x1p-52L;
  long double most = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    most = std::max(most, std::fabs(found[i] - expected[i]) / (eps * expected[i]));
  return static_cast<double>(most);
}

void row(std::string name, std::int64_t terms, const std::vector<Array>& inputs,
         const std::function<Tensor(const std::vector<Tensor>&)>& f, std::int64_t results, const Expected& expected) {
  std::vector<long double> values;
  for (std::int64_t i = 0; i < results; ++i) values.push_back(expected(i));
  std::replace(name.begin(), name.end(), ' ', '~');
  std::printf("%s %lld %.2f %.2f\n", name.c_str(), static_cast<long long>(terms), worst(DType::f32, inputs, f, values),
              worst(DType::f64, inputs, f, values));
  std::fflush(stdout);
}

/// The product of [m, k] and [k, n]; `steps` are those of element (i, p) of the left and (p, j) of the right factor.
struct Steps {
  std::int64_t left_row, left_k, right_k, right_column;
};
void product(const std::string& name, std::int64_t m, std::int64_t n, std::int64_t k, const Array& a, const Array& b,
             Steps s, const std::function<Tensor(const std::vector<Tensor>&)>& f) {
  row(name, k, {a, b}, f, m * n, [&](std::int64_t element) {
    const std::int64_t i = element / n, j = element % n;
    Exact sum;
    for (std::int64_t p = 0; p < k; ++p)
      sum.add(static_cast<long double>(a.at(i * s.left_row + p * s.left_k)) * b.at(p * s.right_k + j * s.right_column));
    return sum.value();
  });
}

void products() {
  for (std::int64_t k : {256, 1024, 4096, 16384})
    product("matmul", 64, 64, k, Array(1, {64, k}), Array(2, {k, 64}), {k, 1, 64, 1},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
  for (std::int64_t k : {4096, 50176})
    product("A^T B", 64, 64, k, Array(3, {k, 64}), Array(4, {k, 64}), {1, 64, 64, 1},
            [](const std::vector<Tensor>& in) { return matmul(in[0].t(), in[1]); });
  product("A B^T", 64, 64, 4096, Array(5, {64, 4096}), Array(6, {64, 4096}), {4096, 1, 1, 4096},
          [](const std::vector<Tensor>& in) { return matmul(in[0], in[1].t()); });
  product("matrix vector", 512, 1, 4096, Array(7, {512, 4096}), Array(8, {4096}), {4096, 1, 1, 1},
          [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
  product("vector matrix", 1, 512, 4096, Array(8, {4096}), Array(9, {4096, 512}), {1, 1, 512, 1},
          [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
  for (std::int64_t k : {10000, 1000000})
    product("dot", 1, 1, k, Array(10, {k}), Array(11, {k}), {1, 1, 1, 1},
            [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); });
}

void convolution() {
  constexpr std::int64_t channels = 512, filters = 32, size = 16, out = size - 2;
  const Array x(12, {1, channels, size, size}), w(13, {filters, channels, 3, 3});
  row(
      "conv 3x3x512", channels * 9, {x, w},
      [](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {.stride = 1, .padding = 0}); },
      filters * out * out,
      [&](std::int64_t element) {
        const std::int64_t f = element / (out * out), i = element / out % out, j = element % out;
        Exact sum;
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t p = 0; p < 9; ++p)
            sum.add(static_cast<long double>(x.at((c * size + i + p / 3) * size + j + p % 3)) *
                    w.at((f * channels + c) * 9 + p));
        return sum.value();
      });
}

/// The sum over `count` elements from `first` on, `step` apart; or their variance.
long double sum_of(const Array& x, std::int64_t first, std::int64_t step, std::int64_t count) {
  Exact sum;
  for (std::int64_t i = 0; i < count; ++i) sum.add(x.at(first + i * step));
  return sum.value();
}
long double var_of(const Array& x, std::int64_t first, std::int64_t step, std::int64_t count) {
  const long double mean = sum_of(x, first, step, count) / static_cast<long double>(count);
  Exact sum;
  for (std::int64_t i = 0; i < count; ++i) sum.add((x.at(first + i * step) - mean) * (x.at(first + i * step) - mean));
  return sum.value() / static_cast<long double>(count);
}

void reductions() {
  for (auto [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{64, 1024}, {1024, 256}, {4096, 64}, {100000, 16}}) {
    const Array x(14, {rows, columns});
    row(
        "column sums", rows, {x}, [](const std::vector<Tensor>& in) { return sum(in[0], 0); }, columns,
        [&, columns = columns, rows = rows](std::int64_t j) { return sum_of(x, j, columns, rows); });
    row(
        "var of columns", rows, {x}, [](const std::vector<Tensor>& in) { return var(in[0], 0); }, columns,
        [&, columns = columns, rows = rows](std::int64_t j) { return var_of(x, j, columns, rows); });
  }
  const Array y(15, {64, 4096}), z(16, {1000000}), u(17, {8, 64, 28, 28});
  row(
      "row sums", 4096, {y}, [](const std::vector<Tensor>& in) { return sum(in[0], 1); }, 64,
      [&](std::int64_t i) { return sum_of(y, i * 4096, 1, 4096); });
  row(
      "var of rows", 4096, {y}, [](const std::vector<Tensor>& in) { return var(in[0], 1); }, 64,
      [&](std::int64_t i) { return var_of(y, i * 4096, 1, 4096); });
  row(
      "sum of all", 1000000, {z}, [](const std::vector<Tensor>& in) { return sum(in[0]); }, 1,
      [&](std::int64_t) { return sum_of(z, 0, 1, 1000000); });
  row(
      "var of all", 1000000, {z}, [](const std::vector<Tensor>& in) { return var(in[0]); }, 1,
      [&](std::int64_t) { return var_of(z, 0, 1, 1000000); });
  row(
      "sum over a batch and an image", 8 * 784, {u},
      [](const std::vector<Tensor>& in) { return sum(in[0], {0, 2, 3}); }, 64,
      [&](std::int64_t c) {
        Exact sum;
        for (std::int64_t i = 0; i < 8 * 784; ++i) sum.add(u.at((i / 784 * 64 + c) * 784 + i % 784));
        return sum.value();
      });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "cuda") device = Device::cuda(0);
  products();
  convolution();
  reductions();
}
