// Partitioned functions: the operations under random layouts on four ranks against one, random programs, plans that are
// known, and what cannot be divided.
#include "catch.hpp"
#include "partition_checks.hpp"
#include "partition_rows.hpp"

#include <sinter/dist.hpp>

#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

using namespace sinter;
using namespace partition_checks;

TEST_CASE("dist: partition, operations under random layouts on four ranks give what one gives") {
  const RowTable table = make_table(rows());
  const unsigned seed = 20261126;
  INFO("seed " << seed);
  CHECK(problem_on(four, [&](dist::World) {
          std::mt19937 random(seed);  // the same on all ranks
          const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
          for (std::size_t r = 0; r < table.rows.size(); ++r)
            for (int round = 0; round < 6; ++round) {
              const DividedRow divided =
                  divide(table.rows[r], table.arguments[r], table.want[r].shape(), Device::cpu(), draw);
              check_divided(table.rows[r], divided, four, table.want[r], table.rows[r].rtol,
                            round % 3 == 2 ? RowRun::compiled : RowRun::lazy);
            }
        }) == "");
}

namespace {
/// A program of random operations on tensors of 8 x 8, with statements of layouts in between.
Tensor random_program(unsigned seed, const Tensor& a, const Tensor& b) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  List values{a, b};
  for (int step = 0; step < 10; ++step) {
    const Tensor x = values[static_cast<std::size_t>(draw(static_cast<int>(values.size())))];
    const Tensor y = values[static_cast<std::size_t>(draw(static_cast<int>(values.size())))];
    const int axis = draw(2);
    Tensor made;
    switch (draw(15)) {
      case 0: made = x + y; break;
      case 1: made = x * y; break;
      case 2: made = x - sum(y, axis, keepdim) / 8; break;
      case 3: made = matmul(x, y) / 8; break;
      case 4: made = transpose(x, 0, 1); break;
      case 5: made = softmax(x, axis); break;
      case 6: made = where(x > amax(y, axis, keepdim) / 2, x, y); break;
      case 7: made = reshape(transpose(reshape(x, {4, 2, 8}), 0, 1), {8, 8}); break;
      case 8: made = concat({x(slice(0, 4)), y(slice(2, 6))}, 0); break;
      case 9: made = tanh(x); break;
      case 10: made = cumsum(x, axis) / 8; break;
      case 11: made = take(x, cast(abs(y(0)) * 7.9, DType::i64) % 8, axis); break;
      case 12: made = dist::lay_out(x, random_layout(x.shape(), draw)); break;
      case 13: made = dist::replicate(x); break;
      default: made = dist::size() == 1 ? x : dist::shard(x, {axis, "model"});
    }
    values.push_back(made);
  }
  return values.back() + values[values.size() - 2];
}
}  // namespace

TEST_CASE("dist: partition, random programs divided at random, with their gradients") {
  const Tensor a = numbers({8, 8}, 1), b = numbers({8, 8}, 2);
  constexpr unsigned programs = 40;
  const auto loss_of = [](unsigned seed) {
    return [seed](Tensor x, Tensor y) {
      const Tensor out = random_program(seed, x, y);
      return std::pair(sum(square(out)) / 64, out);
    };
  };
  std::vector<List> want;
  for (unsigned seed = 0; seed < programs; ++seed) {
    auto [loss, gradient] = jit::value_and_grad<0>(loss_of(seed))(a, b);
    want.push_back({loss.first, loss.second, gradient});
    for (const Tensor& x : want.back()) eval(x);
  }
  CHECK(problem_on(four, [&](dist::World) {
          for (unsigned seed = 0; seed < programs; ++seed) {
            std::mt19937 random(1000 + seed);
            const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
            const dist::Layout of_a = random_layout(a.shape(), draw), of_b = random_layout(b.shape(), draw),
                               of_out = random_layout(a.shape(), draw), of_gradient = random_layout(a.shape(), draw);
            const auto divided = dist::partition(jit::value_and_grad<0>(loss_of(seed)), four,
                                                 {.inputs = {of_a, of_b}, .outputs = {{}, of_out, of_gradient}});
            const auto compiled = jit::compile(divided);
            const Tensor part_a = part_of(a, of_a), part_b = part_of(b, of_b);
            const auto [value, gradient] = seed % 4 == 0 ? compiled(part_a, part_b) : divided(part_a, part_b);
            const std::string text = "program " + std::to_string(seed);
            expect(is_near(value.first, want[seed][0]), text + ": another loss");
            expect(is_near(whole_of(value.second, of_out), want[seed][1]), text + ": another result");
            expect(is_near(whole_of(gradient, of_gradient), want[seed][2]), text + ": another gradient");
          }
        }) == "");
}

namespace {
struct Weights {
  Tensor first, second;
};
Tensor network(const Weights& w, const Tensor& x) { return matmul(gelu(matmul(x, w.first)), w.second); }
const auto loss_and_gradients =
    jit::value_and_grad<0>([](Weights w, Tensor x, Tensor y) { return mean(square(network(w, x) - y)); });
}  // namespace

TEST_CASE("dist: partition, known plans") {
  // Data parallel: the gradients and the loss are added, in one collective, and nothing else.
  const Tensor x = numbers({128, 16}, 1), y = numbers({128, 8}, 2);
  const Weights w{numbers({16, 32}, 3), numbers({32, 8}, 4)};
  const dist::Mesh data({{"data", 2}});
  const auto by_batch = dist::partition(loss_and_gradients, data, {.inputs = {{}, {{0, "data"}}, {{0, "data"}}}});
  const dist::PartitionReport plan = dist::explain_partition(by_batch, w, x, y);
  CHECK(kinds_of(plan) == Kinds{"all_reduce(sum) over 'data'"});
  CHECK(plan.bytes == 4 * (1 + 16 * 32 + 32 * 8));  // 2 (n - 1) / n of each, with n = 2
  REQUIRE(plan.links.size() == 1);
  CHECK(plan.links[0].axis == "data");
  CHECK(plan.links[0].bytes == plan.bytes);
  CHECK(plan.work_seconds > 0);
  CHECK(plan.link_seconds > 0);
  CHECK_THAT(plan.text, Catch::Contains("f32[256, 8] = matmul  {0: data} [dist_partition_test.cpp:"));
  CHECK_THAT(plan.text, Catch::Contains("of %11 f32[] and 2 more over 'data': 3076 bytes"));
  CHECK_THAT(plan.text, Catch::Contains("1 collective, 3076 bytes from each rank, over 'data' 3076"));
  // Large ones go alone, for they would have to be copied.
  const Weights large{numbers({16, 32768}, 3), numbers({32768, 8}, 4)};
  CHECK(kinds_of(by_batch.explain(large, x, y)) == Kinds{"all_reduce(sum) over 'data'", "all_reduce(sum) over 'data'"});

  // Two products with the hidden axis divided: one sum of the results forwards, none in the gradients of the weights.
  const dist::Mesh model({{"model", 2}});
  const dist::Layout columns{{1, "model"}}, by_rows{{0, "model"}};
  const auto forward = dist::partition([](Tensor a, Tensor b, Tensor v) { return network({a, b}, v); }, model,
                                       {.inputs = {columns, by_rows, {}}});
  CHECK(kinds_of(forward.explain(numbers({16, 256}, 1), numbers({256, 8}, 2), x)) ==
        Kinds{"all_reduce(sum) over 'model'"});

  // With the batch divided, too: the gradients are added over "data", and nothing else of them is sent.
  const auto both =
      dist::partition(loss_and_gradients, four,
                      {.inputs = {columns, by_rows, {{0, "data"}}, {{0, "data"}}}, .outputs = {{}, columns, by_rows}});
  CHECK(kinds_of(both.explain(Weights{numbers({16, 256}, 1), numbers({256, 8}, 2)}, x, y)) ==
        Kinds{"reduce_scatter(sum, axis 0) over 'model'", "all_gather(axis 0) over 'model'",
              "all_reduce(sum) over 'data'", "all_reduce(sum) over 'data, model'"});

  // Along an axis that nobody names nothing is divided.
  const auto unused = dist::partition(loss_and_gradients, four, {.inputs = {{}, {{0, "data"}}, {{0, "data"}}}});
  CHECK(kinds_of(unused.explain(w, x, y)) == kinds_of(plan));
  // The gradients of attention of 128 keys or more, one operation, are divided along the batch, and nothing is sent.
  const std::vector<dist::Layout> batch{{{0, "data"}}, {{0, "data"}}, {{0, "data"}}};
  const auto attention = jit::grad<0, 1, 2>([](Tensor q, Tensor k, Tensor v) {
    return Tensor(sum(square(scaled_dot_product_attention(q, k, v, {.causal = true}))));
  });
  const auto attended = dist::partition(attention, data, {.inputs = batch, .outputs = batch});
  const Tensor q = numbers({2, 130, 4}, 5);
  const dist::PartitionReport of_attention = attended.explain(q, q, q);
  CHECK(of_attention.collectives.empty());
  CHECK_THAT(of_attention.text, Catch::Contains("scaled_dot_product_attention_gradient"));
  // What has no rule is whole; a statement moves a value.
  const auto whole = dist::partition([](Tensor v) { return linalg::qr(v).r; }, data, {.inputs = {{{0, "data"}}}});
  CHECK(kinds_of(whole.explain(x)) == Kinds{"all_gather(axis 0) over 'data'"});
  const auto moved = dist::partition([](Tensor v) { return sum(square(dist::shard(exp(v), {1, "data"})), 0); }, data,
                                     {.inputs = {{{0, "data"}}}});
  CHECK(kinds_of(moved.explain(x)) == Kinds{"all_to_all(axis 1 to 0) over 'data'", "all_gather(axis 0) over 'data'"});
  // A mesh of one: nothing is moved.
  const auto alone =
      dist::partition(loss_and_gradients, dist::Mesh({{"data", 1}}), {.inputs = {{}, {{0, "data"}}, {}}});
  CHECK(alone.explain(w, x, y).collectives.empty());
}

TEST_CASE("dist: partition, training on meshes of 1, 2 and 4, compiled, with Variables and random numbers") {
  const Tensor x = numbers({16, 8}, 1), y = numbers({16, 2}, 2);
  const auto train = [&](const dist::Mesh& mesh, const dist::Layout& batch) {
    std::vector<double> losses;
    const std::string problem = problem_on(mesh, [&](dist::World world) {
      manual_seed(7);
      const Variable w(numbers({8, 2}, 3));
      const auto step = jit::compile(dist::partition(
          [&](Tensor v, Tensor t, Scalar rate) {
            const auto [loss, gradient] = jit::value_and_grad<0>([&](Tensor weight) {
              const Tensor noise = randn(v.shape()) * 0.1;
              return mean(square(matmul(dropout(v, 0.25) + noise, weight) - t));
            })(w.value());
            w -= rate * gradient;
            return loss;
          },
          mesh, {.inputs = {batch, batch, {}}}));
      for (int i = 0; i < 6; ++i) {
        const Tensor v = i < 3 ? x : x(slice(0, 8)), t = i < 3 ? y : y(slice(0, 8));  // another batch size
        const double loss = item<double>(step(part_of(v, batch), part_of(t, batch), 0.1));
        if (world.rank() == 0) losses.push_back(loss);
      }
    });
    CHECK(problem == "");
    return losses;
  };
  const std::vector<double> one = train(dist::Mesh({{"data", 1}}), {{0, "data"}});
  REQUIRE(one.size() == 6);
  for (const auto& [mesh, batch] :
       {std::pair(dist::Mesh({{"data", 2}}), dist::Layout{{0, "data"}}), std::pair(four, dist::Layout{{0, "data"}}),
        std::pair(four, dist::Layout{{0, {"data", "model"}}})}) {
    const std::vector<double> losses = train(mesh, batch);
    REQUIRE(losses.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(losses[i] == Approx(one[i]).epsilon(1e-5));
  }
}

TEST_CASE("dist: partition, what is refused, and ranks that differ") {
  const dist::Mesh two({{"data", 2}});
  const Tensor x = numbers({4, 6}, 1);
  const auto twice = [](Tensor v) { return Tensor(v * 2); };
  const auto problem_of = [&](const auto& fn, const dist::Mesh& mesh, dist::PartitionOptions options) {
    try {
      dist::partition(fn, mesh, std::move(options)).explain(x);
    } catch (const std::exception& error) { return std::string(error.what()); }
    return std::string();
  };
  CHECK_THAT(problem_of(twice, two, {.inputs = {{}, {}}}),
             Catch::Contains("partition: 2 layouts for 1 arguments with 1 tensors"));
  CHECK_THAT(problem_of(twice, two, {.outputs = {{}, {}}}), Catch::Contains("2 layouts for 1 results"));
  CHECK_THAT(problem_of(twice, two, {.inputs = {{{0, "model"}}}}),
             Catch::Contains("there is no axis 'model' in the mesh (data 2)"));
  CHECK_THAT(problem_of(twice, two, {.inputs = {{{2, "data"}}}}), Catch::Contains("IndexError: partition"));
  CHECK_THAT(problem_of(twice, two, {.inputs = {{{0, "data"}, {1, "data"}}}}),
             Catch::Contains("the axis 'data' of the mesh divides two axes of one tensor"));
  CHECK_THAT(problem_of(twice, four, {.inputs = {{{0, "model"}, {0, "data"}}}}),
             Catch::Contains("axis 0 is divided over 'model' before 'data'"));
  CHECK_THAT(problem_of([](Tensor v) { return dist::all_reduce(v); }, two, {}),
             Catch::Contains("all_reduce: a collective in a function that dist::partition divides"));
  const auto divided = dist::partition(twice, two, {.inputs = {{{0, "data"}}}, .outputs = {{{0, "data"}}}});
  CHECK_THROWS_WITH(divided(x), Catch::Contains("the mesh (data 2) has 2 ranks, the program 1"));
  CHECK(problem_on(two, [&](dist::World) {
          const auto of_complex = dist::partition([](Tensor z) { return sum(square(real(z) + imag(z))); }, two,
                                                  {.inputs = {{{0, "data"}}}});
          const Tensor slope = jit::grad([&](Tensor v) { return of_complex(complex(v, v)); })(x);
          expect(is_near(slope, 8 * x), "the gradient of a partitioned function of complex numbers");
        }) == "");
  const auto of_variable =
      dist::partition([](Variable v, Tensor t) { return Tensor(v.value() + t); }, two, {.inputs = {{{0, "data"}}, {}}});
  CHECK_THROWS_WITH(of_variable.explain(Variable(x), x),
                    Catch::Contains("number 0 of the arguments has a layout, but no tensors"));
  const auto of_two =
      dist::partition([](List v, Scalar s) { return Tensor(v[0] * s + v[1]); }, two, {.inputs = {{{0, "data"}}, {}}});
  CHECK_THROWS_WITH(of_two.explain(List{x, x}, 2.0),
                    Catch::Contains("ambiguous: 2 layouts for 2 arguments with 2 tensors"));

  // Elsewhere, and on a mesh of one, statements are nothing.
  CHECK(is_near(dist::lay_out(x, {{0, "data"}}), x));
  const auto alone = dist::partition([](Tensor v) { return dist::replicate(dist::shard(v, {0, "data"})); },
                                     dist::Mesh({{"data", 1}}), {.inputs = {{{0, "data"}}}});
  CHECK(is_near(alone(x), x));
  // But mistakes in them are found there, too.
  const auto problem_alone = [&](const auto& fn, dist::PartitionOptions options) {
    return problem_on(dist::Mesh({{"data", 1}}), [&](dist::World) {
      eval(dist::partition(fn, dist::Mesh({{"data", 1}}), std::move(options))(x));
    });
  };
  CHECK_THAT(problem_alone(twice, {.outputs = {{}, {}}}), Catch::Contains("2 layouts for 1 results"));
  CHECK_THAT(problem_alone(twice, {.outputs = {{{5, "data"}}}}), Catch::Contains("IndexError: partition"));
  CHECK_THAT(problem_alone([](Tensor v) { return dist::shard(v, {7, "data"}); }, {}),
             Catch::Contains("IndexError: shard"));
  CHECK_THAT(problem_alone([](Tensor v) { return dist::lay_out(v, {{0, "model"}}); }, {}),
             Catch::Contains("there is no axis 'model'"));

  // Parts of different sizes, other functions, and a rank that fails: everybody is told.
  CHECK_THAT(problem_on(two,
                        [&](dist::World world) {
                          const auto total = dist::partition([](Tensor v) { return Tensor(v - mean(v, 0)); }, two,
                                                             {.inputs = {{{0, "data"}}}});
                          eval(total(x(slice(0, 2 + world.rank()))));
                        }),
             Catch::Contains("DistError"));
  CHECK_THAT(problem_on(two,
                        [&](dist::World world) {
                          const auto sums =
                              dist::partition([&](Tensor v) { return world.rank() == 0 ? sum(v, 0) : amax(v, 0); }, two,
                                              {.inputs = {{{0, "data"}}}});
                          eval(sums(x));
                        }),
             Catch::Contains("the calls of the ranks differ"));
  CHECK(problem_on(two, [&](dist::World world) {
          const auto sums = dist::partition(
              [&](Tensor v) {
                if (world.rank() == 1) throw std::runtime_error("out of data");
                return sum(v, 0);
              },
              two, {.inputs = {{{0, "data"}}}});
          eval(sums(x));
        }) == "out of data");
  CHECK(problem_on(two, [&](dist::World) {
          expect(is_near(whole_of(divided(dist::shard(x, {0})), {{0, "data"}}), x * 2), "after failures");
        }) == "");
}

TEST_CASE("dist: partition, the log has a line for each collective of a rank, which says what it is for") {
  const dist::Mesh two({{"data", 2}});
  const dist::Layout batch{{0, "data"}};
  const Tensor x = numbers({4, 6}, 1), y = numbers({4, 2}, 2);
  const Weights w{numbers({6, 8}, 3), numbers({8, 2}, 4)};
  const auto lines_of = [&](const std::function<void(dist::World)>& fn) {
    std::vector<std::string> lines;
    std::mutex mutex;
    const auto sink_before = Context::get().sink;
    const auto logs_before = Context::get().logs;
    set_logs("dist");
    Context::get().sink = [&](std::string_view, std::string_view line) {
      const std::scoped_lock lock(mutex);
      lines.emplace_back(line);
    };
    CHECK(problem_on(two, fn) == "");
    Context::get().sink = sink_before;
    Context::get().logs = logs_before;
    return lines;
  };
  const auto factor = dist::partition([](Tensor v) { return linalg::qr(v).r; }, two, {.inputs = {batch}});
  auto lines = lines_of([&](dist::World) { eval(factor(x)); });
  REQUIRE(lines.size() == 2);  // both ranks trace it
  CHECK_THAT(lines[0], Catch::Contains("partition: all_gather(axis 0) of %0 f32[8, 6] over 'data' for qr, which takes "
                                       "no parts [dist_partition_test.cpp:"));
  // Results count, and what has two readers is moved once.
  const auto step = dist::partition(loss_and_gradients, two, {.inputs = {{}, batch, batch}});
  lines = lines_of([&](dist::World) { eval(step(w, x, y).first); });
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[0], Catch::Contains("and 2 more over 'data' for a result [dist_partition_test.cpp:"));
  const auto shared =
      dist::partition([](Tensor v) { return Tensor(linalg::qr(v).r + linalg::svd(v).s(0)); }, two, {.inputs = {batch}});
  CHECK(lines_of([&](dist::World) { eval(shared(x)); }).size() == 2);
}
