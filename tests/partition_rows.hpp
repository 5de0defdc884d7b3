// The operations that are run under random layouts, on threads of the host and on GPUs.
#pragma once

#include "partition_checks.hpp"

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace partition_checks {
inline const dist::Mesh four({{"data", 2}, {"model", 2}});

/// A layout that the shape allows on the mesh of four; `draw` gives numbers below its argument.
inline dist::Layout random_layout(const Shape& shape, const std::function<int(int)>& draw) {
  dist::Layout layout;
  std::vector<std::int64_t> extents;
  for (const Dim extent : shape) extents.push_back(static_cast<std::int64_t>(extent));
  for (const char* name : {"data", "model"}) {
    const int axis = draw(shape.rank() + 1) - 1;
    if (axis < 0 || extents[static_cast<std::size_t>(axis)] % 2 != 0) continue;
    extents[static_cast<std::size_t>(axis)] /= 2;
    layout.placements.push_back({axis, name});
  }
  return layout;
}
struct Row {
  const char* name;
  std::vector<Shape> shapes;
  std::function<Tensor(const List&)> fn;
  double rtol = 1e-4;
};
/// Numbers for each row, and what it gives of them on one rank.
struct RowTable {
  std::vector<Row> rows;
  std::vector<List> arguments{};
  List want{};
};
inline RowTable make_table(std::vector<Row> rows) {
  RowTable table{std::move(rows)};
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    List list;
    for (std::size_t i = 0; i < table.rows[r].shapes.size(); ++i)
      list.push_back(numbers(table.rows[r].shapes[i], static_cast<double>(10 * r + i)));
    for (const Tensor& x : list) eval(x);
    table.want.push_back(table.rows[r].fn(list));
    eval(table.want.back());
    table.arguments.push_back(std::move(list));
  }
  return table;
}
/// A row divided at random: layouts of its arguments and its result, and a rank's parts, on its device.
struct DividedRow {
  dist::PartitionOptions options{};
  List parts{};
  std::string text{};
};
inline DividedRow divide(const Row& row, const List& arguments, const Shape& result, Device device,
                         const std::function<int(int)>& draw) {
  DividedRow divided{.text = std::string(row.name) + ":"};
  for (const Tensor& x : arguments) {
    divided.options.inputs.push_back(random_layout(x.shape(), draw));
    divided.text += " " + text_of(divided.options.inputs.back());
    divided.parts.push_back(part_of(x.to(device), divided.options.inputs.back()));
  }
  divided.options.outputs.push_back(random_layout(result, draw));
  divided.text += " -> " + text_of(divided.options.outputs[0]);
  return divided;
}
/// Runs it, compiled or not; throws, with what it was, where it gives another result than one rank.
enum class RowRun : std::uint8_t { lazy, compiled };
inline void check_divided(const Row& row, const DividedRow& divided, const dist::Mesh& mesh, const Tensor& want,
                          double rtol, RowRun how) {
  try {
    const auto fn = dist::partition([&](const List& x) { return row.fn(x); }, mesh, divided.options);
    const Tensor got = how == RowRun::compiled ? jit::compile(fn)(divided.parts) : fn(divided.parts);
    expect(is_near(whole_of(got, divided.options.outputs[0]).to(Device::cpu()), want, rtol), "another result");
  } catch (const dist::DistError&) { throw; } catch (const std::exception& error) {
    throw std::runtime_error(divided.text + ": " + error.what());
  }
}
inline std::vector<Row> rows() {
  const auto index = [](const Tensor& x) { return cast(abs(x) * 7.9, DType::i64); };
  return {
      {"add, broadcast", {{4, 6}, {6}}, [](const List& x) { return Tensor(x[0] + x[1] * 2); }},
      {"column and row", {{4, 1}, {1, 8}}, [](const List& x) { return Tensor(x[0] * x[1] - x[0]); }},
      {"where", {{4, 6}, {4, 6}}, [](const List& x) { return Tensor(where(x[0] > 0, x[1], exp(x[0]))); }},
      {"comparison", {{4, 6}, {4, 6}}, [](const List& x) { return Tensor(x[0] < x[1]); }},
      {"odd extents", {{3, 5}}, [](const List& x) { return Tensor(tanh(x[0]) + 1); }},
      {"sum of rows", {{4, 6}}, [](const List& x) { return sum(x[0], 1); }},
      {"sum of columns", {{4, 6}}, [](const List& x) { return sum(x[0], 0, keepdim); }},
      {"sum of all", {{4, 6}}, [](const List& x) { return sum(x[0] * x[0]); }},
      {"mean", {{4, 6}, {6}}, [](const List& x) { return Tensor(mean(x[0], 0) * x[1]); }},
      {"var", {{4, 8}}, [](const List& x) { return var(x[0], 1); }},
      {"amax", {{4, 6}}, [](const List& x) { return Tensor(amax(x[0], 1) - amin(x[0])); }},
      {"prod", {{4, 6}}, [](const List& x) { return prod(x[0], 1); }},
      {"argmax", {{4, 6}}, [](const List& x) { return argmax(x[0], 1); }},
      {"any", {{4, 6}}, [](const List& x) { return any(x[0] > 0.9, 1); }},
      {"cumsum", {{4, 6}}, [](const List& x) { return cumsum(x[0], 1); }},
      {"sort", {{4, 6}}, [](const List& x) { return sort(x[0], 1).values; }},
      {"topk", {{4, 8}}, [](const List& x) { return topk(x[0], 3).values; }},
      {"flip", {{4, 6}}, [](const List& x) { return flip(x[0], 0); }},
      {"transpose", {{4, 6, 2}}, [](const List& x) { return permute(x[0], {2, 0, 1}); }},
      {"reshape, joined", {{4, 6, 2}}, [](const List& x) { return reshape(x[0], {24, 2}); }},
      {"reshape, split", {{8, 6}}, [](const List& x) { return reshape(x[0], {4, 2, 2, 3}); }},
      {"reshape, mixed", {{4, 6}}, [](const List& x) { return reshape(x[0], {6, 4}); }},
      {"expand", {{4, 1}}, [](const List& x) { return broadcast_to(x[0], {2, 4, 6}); }},
      {"slice", {{4, 8}}, [](const List& x) { return x[0](all, slice(1, 7)); }},
      {"slice, steps", {{8, 4}}, [](const List& x) { return x[0](slice(0, 8, 2)); }},
      {"concat", {{4, 2}, {4, 6}}, [](const List& x) { return concat({x[0], x[1]}, 1); }},
      {"stack", {{4, 2}, {4, 2}}, [](const List& x) { return stack({x[0], x[1]}, 0); }},
      {"pad", {{4, 6}}, [](const List& x) { return pad(x[0], {{0, 0}, {1, 2}}); }},
      {"matmul", {{4, 8}, {8, 6}}, [](const List& x) { return matmul(x[0], x[1]); }},
      {"matmul, batch", {{2, 4, 8}, {2, 8, 6}}, [](const List& x) { return matmul(x[0], x[1]); }},
      {"matmul, vector", {{4, 8}, {8}}, [](const List& x) { return matmul(x[0], x[1]); }},
      {"einsum", {{2, 4, 6}, {6, 8}}, [](const List& x) { return einsum("bij,jk->bki", x[0], x[1]); }},
      {"sums that stay sums",
       {{4, 8}, {8, 6}},
       [](const List& x) { return Tensor(2 * transpose(matmul(x[0], x[1]), 0, 1) + matmul(x[0], x[1])(0, 0)); }},
      {"softmax", {{4, 8}}, [](const List& x) { return softmax(x[0], 1); }},
      {"log_softmax", {{4, 8}}, [](const List& x) { return log_softmax(x[0], 0); }},
      {"logsumexp", {{4, 8}}, [](const List& x) { return logsumexp(x[0], 1); }},
      {"layer_norm", {{4, 8}, {8}, {8}}, [](const List& x) { return layer_norm(x[0], {8}, x[1], x[2]); }},
      {"cross_entropy", {{4, 8}, {4}}, [=](const List& x) { return cross_entropy(x[0], index(x[1])); }},
      {"take", {{8, 6}, {4, 2}}, [=](const List& x) { return take(x[0], index(x[1]), 0); }},
      {"embedding", {{8, 6}, {4, 2}}, [=](const List& x) { return embedding(index(x[1]), x[0]); }},
      {"gather", {{4, 8}, {4, 2}}, [=](const List& x) { return take_along_axis(x[0], index(x[1]), 1); }},
      {"attention",
       {{2, 4, 6}, {2, 4, 6}, {2, 4, 2}},
       [](const List& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }},
      {"gradients of attention",
       {{2, 4, 6}, {2, 5, 6}, {2, 5, 2}, {2, 4, 2}, {4, 5}},
       [](const List& x) {
         const Tensor out = call("scaled_dot_product_attention", {x[0], x[1], x[2], x[4]})[0];
         return call("scaled_dot_product_attention_gradient", {x[0], x[1], x[2], out, x[3], x[4]}, "packing=batch")[0];
       }},
      {"conv2d", {{2, 4, 6, 6}, {4, 4, 3, 3}}, [](const List& x) { return conv2d(x[0], x[1]); }},
      {"conv2d, groups",
       {{2, 4, 6, 6}, {4, 2, 3, 3}},
       [](const List& x) { return conv2d(x[0], x[1], {.padding = 1, .groups = 2}); }},
      {"take along axis 1", {{4, 8, 2}, {4, 2}}, [=](const List& x) { return take(x[0], index(x[1]), 1); }},
      {"cumprod", {{4, 6}}, [](const List& x) { return cumprod(x[0], 1); }},
      {"complex",
       {{4, 8}, {4, 8}},
       [](const List& x) {
         const Tensor z = dist::lay_out(complex(x[0], x[1]), {{1, "data"}});
         return abs(fft::fft(z * view_as_complex(stack({x[1], x[0]}, -1)) + sum(z, 0)));
       }},
      {"max_pool2d", {{2, 4, 6, 6}}, [](const List& x) { return max_pool2d(x[0], 2); }},
      {"cholesky",
       {{2, 4, 4}},
       [](const List& x) {
         return linalg::cholesky(matmul(x[0], transpose(x[0], 1, 2)) + 5 * eye(4, {.device = x[0].device()}));
       }},
      {"solve",
       {{4, 4}, {4, 2}},
       [](const List& x) { return linalg::solve(x[0] + 5 * eye(4, {.device = x[0].device()}), x[1]); }},
      {"update",
       {{4, 6}, {4, 2}},
       [](const List& x) {
         Tensor u = x[0];
         u.at(all, slice(1, 3)) = x[1];
         return u;
       }},
      {"arange", {{4, 6}}, [](const List& x) { return Tensor(x[0] + arange(6, {.device = x[0].device()})); }},
      {"integers", {{4, 6}}, [=](const List& x) { return Tensor(sum(index(x[0]), 0) * 3); }},
      {"f16",
       {{4, 8}, {8, 6}},
       [](const List& x) { return cast(matmul(cast(x[0], DType::f16), cast(x[1], DType::f16)), DType::f32); },
       2e-3},
      {"fori_loop",
       {{4, 6}},
       [](const List& x) {
         return jit::fori_loop(0, 3, [](Scalar, Tensor carry) { return Tensor(carry * 0.5 + 1); }, x[0]);
       }},
      {"region",
       {{4, 8}, {8, 8}},
       [](const List& x) {
         const auto block = jit::region([](Tensor h, Tensor w) { return Tensor(tanh(matmul(h, w))); });
         return block(block(x[0], x[1]), x[1]);
       }},
      {"vmap",
       {{4, 8}, {8, 6}},
       [](const List& x) { return jit::vmap([&](Tensor row) { return matmul(row, x[1]); })(x[0]); }},
      {"gradient",
       {{4, 8}, {8, 6}},
       [](const List& x) {
         return jit::grad([&](Tensor w) { return sum(square(softmax(matmul(x[0], w), 1))); })(x[1]);
       }},
      {"gradient of an embedding",
       {{8, 6}, {4, 2}},
       [=](const List& x) {
         return jit::grad([&](Tensor table) { return sum(square(take(table, index(x[1]), 0))); })(x[0]);
       }},
      {"gradient of a convolution",
       {{2, 4, 6, 6}, {4, 4, 3, 3}},
       [](const List& x) { return jit::grad([&](Tensor w) { return sum(square(conv2d(x[0], w))); })(x[1]); }},
      {"gradient of amax",
       {{4, 8}},
       [](const List& x) { return jit::grad([](Tensor v) { return sum(square(amax(v, 1))); })(x[0]); }},
  };
}
}  // namespace partition_checks
