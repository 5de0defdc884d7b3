// Values and gradients at NaN, infinities, kinks, bounds and ties are PyTorch's. The table is made by
// tools/gradient_table.py; each of its rows is run in every way of calling. Operands of one row are rows of tensors, so
// that kernels see them side by side.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace sinter;

namespace {

struct TableRow {
  const char *op, *operands, *result, *gradients;
};
constexpr TableRow table[] = {
#include "gradient_table.inc"
};

using Inputs = std::vector<Tensor>;
using Function = std::function<Tensor(const Inputs&)>;
using Numbers = std::vector<double>;

/// Windows of a last axis that holds an image of `side` * `side`.
template <class Pool>
Tensor pooled(const Tensor& x, int side, const Pool& pool) {
  Shape shape = x.shape();
  const Tensor out = pool(reshape(x, {-1, 1, side, side}));
  shape.set(shape.rank() - 1, out.shape()[2] * out.shape()[3]);
  return reshape(out, shape);
}
Tensor rising(const Tensor& x) { return cast(arange(x.shape()[-1]), x.dtype()) + 1; }

const std::map<std::string_view, Function>& functions() {
  static const std::map<std::string_view, Function> all{
      {"abs", [](const Inputs& in) { return abs(in[0]); }},
      {"sign", [](const Inputs& in) { return sign(in[0]); }},
      {"neg", [](const Inputs& in) { return -in[0]; }},
      {"square", [](const Inputs& in) { return square(in[0]); }},
      {"reciprocal", [](const Inputs& in) { return reciprocal(in[0]); }},
      {"sqrt", [](const Inputs& in) { return sqrt(in[0]); }},
      {"rsqrt", [](const Inputs& in) { return rsqrt(in[0]); }},
      {"exp", [](const Inputs& in) { return exp(in[0]); }},
      {"log", [](const Inputs& in) { return log(in[0]); }},
      {"tanh", [](const Inputs& in) { return tanh(in[0]); }},
      {"erf", [](const Inputs& in) { return erf(in[0]); }},
      {"sin", [](const Inputs& in) { return sin(in[0]); }},
      {"cos", [](const Inputs& in) { return cos(in[0]); }},
      {"floor", [](const Inputs& in) { return floor(in[0]); }},
      {"ceil", [](const Inputs& in) { return ceil(in[0]); }},
      {"round", [](const Inputs& in) { return round(in[0]); }},
      {"trunc", [](const Inputs& in) { return trunc(in[0]); }},
      {"sigmoid", [](const Inputs& in) { return sigmoid(in[0]); }},
      {"relu", [](const Inputs& in) { return relu(in[0]); }},
      {"gelu", [](const Inputs& in) { return gelu(in[0]); }},
      {"silu", [](const Inputs& in) { return silu(in[0]); }},
      {"add", [](const Inputs& in) { return in[0] + in[1]; }},
      {"sub", [](const Inputs& in) { return in[0] - in[1]; }},
      {"mul", [](const Inputs& in) { return in[0] * in[1]; }},
      {"div", [](const Inputs& in) { return in[0] / in[1]; }},
      {"rem", [](const Inputs& in) { return in[0] % in[1]; }},
      {"pow", [](const Inputs& in) { return pow(in[0], in[1]); }},
      {"maximum", [](const Inputs& in) { return maximum(in[0], in[1]); }},
      {"minimum", [](const Inputs& in) { return minimum(in[0], in[1]); }},
      {"where_true", [](const Inputs& in) { return where(ones_like(in[0]) > 0, in[0], in[1]); }},
      {"where_false", [](const Inputs& in) { return where(ones_like(in[0]) < 0, in[0], in[1]); }},
      {"clamp", [](const Inputs& in) { return clamp(in[0], in[1], in[2]); }},
      {"clamp_numbers", [](const Inputs& in) { return clamp(in[0], -1, 1); }},
      {"clamp_empty", [](const Inputs& in) { return clamp(in[0], 1, -1); }},
      {"sum", [](const Inputs& in) { return sum(in[0], -1, keepdim); }},
      {"mean", [](const Inputs& in) { return mean(in[0], -1, keepdim); }},
      {"prod", [](const Inputs& in) { return prod(in[0], -1, keepdim); }},
      {"amax", [](const Inputs& in) { return amax(in[0], -1, keepdim); }},
      {"amin", [](const Inputs& in) { return amin(in[0], -1, keepdim); }},
      {"var", [](const Inputs& in) { return var(in[0], -1, keepdim); }},
      {"logsumexp", [](const Inputs& in) { return logsumexp(in[0], -1, keepdim); }},
      {"softmax", [](const Inputs& in) { return softmax(in[0], -1) * rising(in[0]); }},
      {"log_softmax", [](const Inputs& in) { return log_softmax(in[0], -1) * rising(in[0]); }},
      {"max_pool2d",
       [](const Inputs& in) { return pooled(in[0], 2, [](const Tensor& x) { return max_pool2d(x, 2); }); }},
      {"avg_pool2d",
       [](const Inputs& in) { return pooled(in[0], 2, [](const Tensor& x) { return avg_pool2d(x, 2); }); }},
      {"max_pool2d_overlapping",
       [](const Inputs& in) { return pooled(in[0], 3, [](const Tensor& x) { return max_pool2d(x, 2, 1); }); }},
  };
  return all;
}

Numbers numbers(std::string_view text) {
  Numbers out;
  for (const char* at = text.data(); at < text.data() + text.size();) {
    char* end = nullptr;
    out.push_back(std::strtod(at, &end));
    at = end + 1;
  }
  return out;
}
std::vector<Numbers> operands(std::string_view text) {
  std::vector<Numbers> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    out.push_back(numbers(text.substr(begin, end - begin)));
    begin = end + 2;
  }
  return out;
}

/// Rows of one op whose operands have the same lengths.
struct Group {
  std::vector<const TableRow*> rows;
  std::vector<std::size_t> lengths;
};
std::map<std::pair<std::string_view, std::vector<std::size_t>>, Group> groups() {
  std::map<std::pair<std::string_view, std::vector<std::size_t>>, Group> out;
  for (const TableRow& row : table) {
    std::vector<std::size_t> lengths;
    for (const Numbers& operand : operands(row.operands)) lengths.push_back(operand.size());
    Group& group = out[{row.op, lengths}];
    group.rows.push_back(&row);
    group.lengths = lengths;
  }
  return out;
}

Inputs inputs_of(const Group& group, DType dtype) {
  Inputs out;
  for (std::size_t i = 0; i < group.lengths.size(); ++i) {
    Numbers all;
    for (const TableRow* row : group.rows) {
      const std::vector<Numbers> given = operands(row->operands);
      all.insert(all.end(), given[i].begin(), given[i].end());
    }
    const Tensor x =
        copy_of(all, {static_cast<std::int64_t>(group.rows.size()), static_cast<std::int64_t>(group.lengths[i])});
    out.push_back(cast(x, dtype));
    eval(out.back());
  }
  return out;
}

bool same(double is, double wanted, double tolerance) {
  if (std::isnan(is) || std::isnan(wanted) || std::isinf(is) || std::isinf(wanted))
    return is == wanted || (std::isnan(is) && std::isnan(wanted));
  return std::abs(is - wanted) <= tolerance * (1 + std::abs(wanted));
}
bool same(const Numbers& is, const Numbers& wanted, double tolerance) {
  bool equal = is.size() == wanted.size();
  for (std::size_t i = 0; equal && i < is.size(); ++i) equal = same(is[i], wanted[i], tolerance);
  return equal;
}
Numbers part(const Tensor& x, std::size_t row) {
  const auto all = to_vector<double>(cast(x, DType::f64));
  const std::size_t length = static_cast<std::size_t>(static_cast<std::int64_t>(x.shape()[1]));
  return {all.begin() + static_cast<std::ptrdiff_t>(row * length),
          all.begin() + static_cast<std::ptrdiff_t>((row + 1) * length)};
}
std::string text(const Numbers& numbers) {
  std::string out;
  for (double x : numbers) out += (out.empty() ? "" : " ") + std::to_string(x);
  return out;
}

/// The result and the gradients by all operands of its sum, as one list.
using Both = std::function<Inputs(const Inputs&)>;
Inputs value_and_gradients(const Function& f, const Inputs& in) {
  auto [value, gradients] = jit::value_and_grad([&](const Inputs& x) {
    Tensor y = f(x);
    return std::pair(Tensor(sum(y)), y);
  })(in);
  Inputs out{value.second};
  out.insert(out.end(), gradients.begin(), gradients.end());
  return out;
}

/// gelu and silu go on to their limits at infinity, where PyTorch's formulas multiply it by 0.
bool goes_on_to_its_limit(const TableRow& row) {
  const std::string_view op = row.op, operands = row.operands;
  return (op == "gelu" || op == "silu") && (operands == "inf" || operands == "-inf");
}

void check_group(const Group& group, std::string_view way, DType dtype, const Both& both) {
  const Inputs in = inputs_of(group, dtype), out = both(in);
  const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-11;
  for (std::size_t r = 0; r < group.rows.size(); ++r) {
    const TableRow& row = *group.rows[r];
    if (dtype == DType::f32 && std::string_view(row.operands).find("e+") != std::string_view::npos)
      continue;  // overflows
    if (goes_on_to_its_limit(row)) {
      const bool is_positive = row.operands[0] != '-';
      CHECK(same(part(out[0], r), {is_positive ? std::numeric_limits<double>::infinity() : 0.0}, tolerance));
      CHECK(same(part(out[1], r), {is_positive ? 1.0 : 0.0}, tolerance));
      continue;
    }
    const std::vector<Numbers> gradients = operands(row.gradients);
    bool fits = same(part(out[0], r), numbers(row.result), tolerance);
    std::string is = text(part(out[0], r));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      fits = fits && same(part(out[i + 1], r), gradients[i], tolerance);
      is += "; " + text(part(out[i + 1], r));
    }
    INFO(way << ", " << name(dtype) << ": " << row.op << "(" << row.operands << ") gives " << is << "; PyTorch "
             << row.result << "; " << row.gradients);
    CHECK(fits);
  }
}

}  // namespace

TEST_CASE(
    "gradient table: values and gradients at kinks, bounds, ties and NaN are PyTorch's, however they are called") {
  for (const auto& [key, group] : groups()) {
    const Function& f = functions().at(key.first);
    for (DType dtype : {DType::f32, DType::f64}) {
      const Both plain = [&](const Inputs& in) { return value_and_gradients(f, in); };
      check_group(group, "lazily", dtype, plain);
      check_group(group, "compiled", dtype, jit::compile(plain));
      if (dtype == DType::f64) continue;
      check_group(group, "eager", dtype, jit::compile(plain, {.backend = "eager"}));
      check_group(group, "vmap of grad", dtype, jit::compile([&](const Inputs& in) {
                    return jit::vmap([&](const Inputs& one) { return value_and_gradients(f, one); })(in);
                  }));
      check_group(group, "grad of vmap", dtype, jit::compile([&](const Inputs& in) {
                    return value_and_gradients(
                        [&](const Inputs& x) { return jit::vmap([&](const Inputs& one) { return f(one); })(x); }, in);
                  }));
    }
  }
}
