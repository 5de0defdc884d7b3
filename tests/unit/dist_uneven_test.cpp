// Axes that ranks cannot divide equally: collectives by hand, operations under random layouts with their gradients
// against one rank, training with a last batch that is smaller, and parts that are not this rank's.
#include "catch.hpp"
#include "partition_checks.hpp"
#include "partition_rows.hpp"

#include <sinter/dist.hpp>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using namespace partition_checks;

namespace {
/// From ... to this rank's positions of an axis of so many, by hand.
std::pair<std::int64_t, std::int64_t> own_range(std::int64_t extent, int rank, int size) {
  std::int64_t begin = 0;
  for (int r = 0;; ++r) {
    const std::int64_t count = extent / size + (r < extent % size ? 1 : 0);
    if (r == rank) return {begin, begin + count};
    begin += count;
  }
}
/// A layout of any axes, on a mesh of "data" and perhaps "model"; parts may be unequal or empty.
dist::Layout any_layout(const Shape& shape, const dist::Mesh& mesh, const std::function<int(int)>& draw) {
  dist::Layout layout;
  int taken = -1;
  for (const dist::MeshAxis& axis : mesh.axes()) {
    const int chosen = draw(shape.rank() + 1) - 1;
    if (chosen < 0 || chosen == taken) continue;
    layout.placements.push_back({chosen, axis.name, static_cast<std::int64_t>(shape[chosen])});
    taken = chosen;
  }
  if (layout.placements.empty() && shape.rank() > 0 && mesh.axes().size() > 1 && draw(3) == 0)
    layout.placements.push_back({0, {"data", "model"}, static_cast<std::int64_t>(shape[0])});
  return layout;
}
Tensor loss_of_whole(const Tensor& y) { return sum(square(y) + y / 2); }
}  // namespace

TEST_CASE("dist: collectives of axes that are not divided equally") {
  for (const auto& [ranks, extent] : {std::pair(4, 10), std::pair(4, 2), std::pair(3, 7), std::pair(2, 1)})
    CHECK(problem_on(dist::Mesh({{"data", ranks}}), [&, n = extent](dist::World world) {
            const auto [begin, end] = own_range(n, world.rank(), world.size());
            const Tensor x = numbers({n, 3}, 1), own = x(slice(begin, end));
            const std::string text = std::to_string(n) + " over " + std::to_string(world.size());
            expect(static_cast<bool>(array_equal(dist::shard(x, {0}), own)), "shard of " + text);
            expect(static_cast<bool>(array_equal(dist::shard(transpose(x, 0, 1), {1, "data"}), transpose(own, 0, 1))),
                   "shard of axis 1 of " + text);
            expect(static_cast<bool>(array_equal(dist::replicate(own, {0, "data", n}), x)), "replicate of " + text);
            const Tensor whole = dist::all_gather(transpose(own, 0, 1), 1, {}, n);
            expect(static_cast<bool>(array_equal(whole, transpose(x, 0, 1))), "all_gather of " + text);
            const Tensor numbers_of_rank = cast(x * 100, DType::i64) + world.rank();
            expect(static_cast<bool>(array_equal(dist::reduce_scatter(numbers_of_rank),
                                                 dist::all_reduce(numbers_of_rank)(slice(begin, end)))),
                   "reduce_scatter of " + text);
            const Tensor flags = x > 0;
            expect(static_cast<bool>(array_equal(dist::all_gather(flags(slice(begin, end)), 0, {}, n), flags)),
                   "all_gather of bool, " + text);
            // Rows of parts of columns: what each rank has of its rows goes to whom the columns belong.
            const Tensor square_of = numbers({3 * world.size(), n}, 2);
            const Tensor rows_of = square_of(slice(3 * world.rank(), 3 * world.rank() + 3));
            expect(static_cast<bool>(array_equal(dist::all_to_all(rows_of, 1, 0), square_of(all, slice(begin, end)))),
                   "all_to_all of " + text);
            const auto total = jit::grad([&, size = n](Tensor part) {
              return sum(dist::all_gather(part, 0, {}, size) * x);  // each rank's loss counts
            });
            expect(is_near(total(own), own * world.size()), "the gradient of all_gather of " + text);
            const auto of_shard = jit::compile(jit::grad([](Tensor v) { return sum(square(dist::shard(v, {0}))); }));
            expect(is_near(dist::all_reduce(of_shard(x)), 2 * x), "the gradient of shard of " + text);
            const auto mapped = jit::vmap([](Tensor v) { return dist::shard(v, {0}); });
            expect(static_cast<bool>(array_equal(mapped(stack({x, x * 2}, 0))(1), own * 2)),
                   "vmap of shard of " + text);
            const auto compiled = jit::compile([](Tensor v) { return sum(dist::shard(v, {0}), 0); });
            for (const std::int64_t rows : {n, n + 1, n, n + 5}) {
              const auto [from, to] = own_range(rows, world.rank(), world.size());
              const Tensor other = numbers({rows, 2}, 3);
              expect(is_near(compiled(other), sum(other(slice(from, to)), 0)), "compiled shard of " + text);
            }
          }) == "");
}

TEST_CASE("dist: partition, operations under random layouts of unequal parts, and their gradients") {
  std::vector<Row> table;
  std::vector<List> arguments, slopes;
  List want;
  for (const Row& row : rows()) {
    List list;
    for (std::size_t i = 0; i < row.shapes.size(); ++i)
      list.push_back(numbers(row.shapes[i], static_cast<double>(9 * table.size() + i)));
    want.push_back(row.fn(list));
    List gradients;
    if (is_floating(want.back().dtype()))
      gradients = jit::grad([&](const List& x) { return loss_of_whole(row.fn(x)); })(list);
    eval(want.back());
    for (const Tensor& x : gradients) eval(x);
    table.push_back(row);
    arguments.push_back(std::move(list));
    slopes.push_back(std::move(gradients));
  }
  for (const dist::Mesh& mesh :
       {dist::Mesh({{"data", 3}}), dist::Mesh({{"data", 2}, {"model", 2}}), dist::Mesh({{"data", 5}})})
    CHECK(problem_on(mesh, [&](dist::World) {
            std::mt19937 random(5);  // the same on all ranks
            const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
            for (std::size_t r = 0; r < table.size(); ++r) {
              dist::PartitionOptions options;
              List parts;
              std::string text = mesh.text() + " " + table[r].name + ":";
              for (const Tensor& x : arguments[r]) {
                options.inputs.push_back(any_layout(x.shape(), mesh, draw));
                text += " " + text_of(options.inputs.back());
                parts.push_back(part_of(x, options.inputs.back()));
              }
              options.outputs.push_back(any_layout(want[r].shape(), mesh, draw));
              text += " -> " + text_of(options.outputs[0]);
              try {
                const auto divided = dist::partition([&](const List& x) { return table[r].fn(x); }, mesh, options);
                const Tensor got = r % 5 == 0 ? jit::compile(divided)(parts) : divided(parts);
                expect(is_near(whole_of(got, options.outputs[0]), want[r], table[r].rtol), "another result");
                if (r % 2 == 0 || slopes[r].empty()) continue;
                const List back = jit::grad([&](const List& x) { return loss_of_whole(divided(x)); })(parts);
                for (std::size_t i = 0; i < back.size(); ++i)
                  expect(is_near(whole_of(back[i], options.inputs[i]), slopes[r][i], 5 * table[r].rtol),
                         "another gradient by argument " + std::to_string(i));
              } catch (const dist::DistError&) { throw; } catch (const std::exception& error) {
                throw std::runtime_error(text + ": " + error.what());
              }
            }
          }) == "");
}

TEST_CASE("dist: partition, training with a last batch that ranks divide unequally") {
  const Tensor x = numbers({18, 5}, 1), y = numbers({18, 2}, 2);
  const auto train = [&](int ranks) {
    std::vector<double> losses;
    const dist::Mesh mesh({{"data", ranks}});
    CHECK(problem_on(mesh, [&](dist::World world) {
            Tensor w = numbers({5, 2}, 3);
            const auto loss_of = [](Tensor weight, Tensor v, Tensor t) { return mean(square(matmul(v, weight) - t)); };
            const auto step_for = [&](std::int64_t batch) {
              const dist::Layout rows{{0, "data", batch}};
              return jit::compile(dist::partition(jit::value_and_grad<0>(loss_of), mesh, {.inputs = {{}, rows, rows}}));
            };
            const auto full = step_for(8), last = step_for(2);
            for (int i = 0; i < 6; ++i) {  // batches of 8, 8 and 2
              const std::int64_t begin = 8 * (i % 3), end = std::min<std::int64_t>(begin + 8, 18);
              const Tensor v = dist::shard(x(slice(begin, end)), {0}), t = dist::shard(y(slice(begin, end)), {0});
              const auto [loss, gradient] = i % 3 == 2 ? last(w, v, t) : full(w, v, t);
              w = w - 0.1f * gradient;
              if (world.rank() == 0) losses.push_back(item<double>(loss));
            }
          }) == "");
    return losses;
  };
  const std::vector<double> one = train(1);
  REQUIRE(one.size() == 6);
  for (const int ranks : {3, 4}) {
    const std::vector<double> losses = train(ranks);
    REQUIRE(losses.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(losses[i] == Approx(one[i]).epsilon(1e-5));
  }
}

TEST_CASE("dist: batch normalisation with the statistics of all ranks, of batches of any sizes") {
  const Tensor x = numbers({7, 3, 2}, 1) * 3 + 1, weight = numbers({3}, 2), direction = numbers({7, 3, 2}, 3);
  const Tensor old_mean = numbers({3}, 4), old_var = square(numbers({3}, 5)) + 1;
  const auto whole = batch_norm_training(x, old_mean, old_var, 0.3, {.weight = weight});
  const Tensor slope = jit::grad([&](const Tensor& v) {
    return sum(batch_norm_training(v, old_mean, old_var, 0.3, {.weight = weight}).value * direction);
  })(x);
  for (const Tensor& each : {whole.value, whole.running_mean, whole.running_var, slope}) eval(each);
  for (const int ranks : {1, 2, 4, 8})  // of eight one has no example
    CHECK(problem_on(dist::Mesh({{"data", ranks}}), [&](dist::World world) {
            const auto [begin, end] = own_range(7, world.rank(), world.size());
            const Tensor own = x(slice(begin, end)), d = direction(slice(begin, end));
            const auto of_part = [&](const Tensor& v) {
              return dist::batch_norm_training(v, old_mean, old_var, 0.3, {.weight = weight}, "data");
            };
            const auto found = of_part(own);
            expect(is_near(found.value, whole.value(slice(begin, end))), "the value");
            expect(is_near(found.running_mean, whole.running_mean), "the running mean");
            expect(is_near(found.running_var, whole.running_var), "the running variance");
            const auto gradient = jit::grad([&](const Tensor& v) { return sum(of_part(v).value * d); });
            expect(is_near(gradient(own), slope(slice(begin, end)), 1e-3), "the gradient");
            expect(is_near(jit::compile(gradient)(own), slope(slice(begin, end)), 1e-3), "the compiled gradient");
          }) == "");
  CHECK_THROWS_WITH(dist::batch_norm_training(x(0)(0), old_mean, old_var),
                    Catch::Contains("ShapeError: batch_norm_training: x is f32[2]"));
  CHECK_THROWS_WITH(dist::batch_norm_training(x, ones({2}), old_var),
                    Catch::Contains("the running statistics are f32[2], x is f32[7, 3, 2]"));
  CHECK_THROWS_WITH(dist::batch_norm_training(cast(x, DType::i64), old_mean, old_var),
                    Catch::Contains("DTypeError: batch_norm_training: x is i64[7, 3, 2]"));
}

TEST_CASE("dist: unequal parts in shard_map, in plans, and parts that are not this rank's") {
  const Tensor x = numbers({7, 4}, 1);
  const dist::Mesh three({{"data", 3}});
  const dist::Layout rows_of_seven{{0, "data", 7}};
  const auto scaled = dist::shard_map([](Tensor part) { return Tensor(part * dist::all_reduce(sum(part), "data")); },
                                      three, {rows_of_seven}, {rows_of_seven});
  CHECK(is_near(scaled(x), x * sum(x)));
  // The work is divided, and nothing is moved but the sum.
  const auto divided =
      dist::partition([](Tensor v) { return sum(square(tanh(v))); }, three, {.inputs = {rows_of_seven}});
  CHECK(kinds_of(divided.explain(x(slice(0, 3)))) == Kinds{"all_reduce(sum) over 'data'"});
  CHECK_THROWS_WITH(divided.explain(x(slice(0, 2))),
                    Catch::Contains("ShapeError: partition: an argument is f32[2, 4] on rank 0, where its layout has 3 "
                                    "of 7 along axis 0"));
  CHECK_THROWS_WITH(dist::partition([](Tensor v) { return v; }, three, {.inputs = {{{0, "data", -1}}}}).explain(x),
                    Catch::Contains("ShapeError: partition: the extent of axis 0 is -1"));
  CHECK_THAT(problem_on(three, [&](dist::World) { dist::all_gather(x, 0, {}, 7); }),
             Catch::Contains("ShapeError: all_gather: this rank's part of an axis of 7 is axis 0 of f32[7, 4], and "
                             "should have "));
  CHECK_THAT(problem_on(three, [&](dist::World) { dist::all_to_all(x, 0, 0); }),
             Catch::Contains("ShapeError: all_to_all: axis 0 of f32[7, 4] is not divided equally by 3 ranks"));
}

TEST_CASE("dist: a compiled partitioned function has a version for each rank where their parts are unequal inside") {
  const dist::Mesh line({{"data", 4}}), square_mesh({{"data", 2}, {"model", 2}});
  const auto f = jit::compile(dist::partition([](Tensor x) { return std::tuple(Tensor(x * 2), zeros({10})); }, line,
                                              {.inputs = {{}}, .outputs = {{}, {{0, "data"}}}}));
  CHECK(problem_on(line, [&](dist::World world) {
          for (int i = 0; i < 3; ++i) {
            const auto [doubled, part] = f(ones({2}));
            eval(part);
            expect(part.size(0) == (world.rank() < 2 ? 3 : 2), "a part of " + part.impl()->type.text());
          }
        }) == "");
  // 2 divides 10, and 2 does not divide 5.
  const dist::Layout by_both{{0, "data", 10}, {0, "model", 10}};
  const auto g = jit::compile(dist::partition([](Tensor x) { return Tensor(x + 1); }, square_mesh,
                                              {.inputs = {by_both}, .outputs = {by_both}}));
  const Tensor whole = numbers({10}, 1);
  CHECK(problem_on(square_mesh, [&](dist::World world) {
          for (int i = 0; i < 3; ++i) {
            const Tensor part = part_of(whole, by_both);
            const Tensor got = g(part);
            expect(got.size(0) == (world.rank() % 2 == 0 ? 3 : 2), "a part of " + got.impl()->type.text());
            expect(is_near(got, part + 1), "a part");
          }
        }) == "");
}
