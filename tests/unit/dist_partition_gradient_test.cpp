// Derivatives of partitioned functions, taken from outside: of operations under random layouts on four ranks against
// one, of any order, on the tape and compiled, with random numbers, and where there are none.
#include "catch.hpp"
#include "partition_checks.hpp"
#include "partition_rows.hpp"

#include <sinter/dist.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/attention.hpp>

#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;
using namespace partition_checks;

namespace {
/// A loss that weighs the elements of what it is given, so that no gradient is uniform.
Tensor loss_of_whole(const Tensor& y) { return sum(square(y) + y / 2); }
Tensor mlp(const Tensor& w1, const Tensor& w2, const Tensor& x) {
  return mean(square(matmul(tanh(matmul(x, w1)), w2)));
}
const dist::Layout rows_by_data{{0, "data"}}, columns{{1, "model"}}, by_rows{{0, "model"}};
}  // namespace

TEST_CASE("dist: gradients of partitioned functions from outside, operations under random layouts") {
  std::vector<Row> table;
  std::vector<List> arguments, want;
  for (const Row& row : rows()) {
    List list;
    for (std::size_t i = 0; i < row.shapes.size(); ++i)
      list.push_back(numbers(row.shapes[i], static_cast<double>(7 * table.size() + i)));
    const Tensor result = row.fn(list);
    if (!is_floating(result.dtype())) continue;
    List gradients = jit::grad([&](const List& x) { return loss_of_whole(row.fn(x)); })(list);
    for (const Tensor& x : gradients) eval(x);
    table.push_back(row);
    arguments.push_back(std::move(list));
    want.push_back(std::move(gradients));
  }
  CHECK(table.size() > 45);
  CHECK(problem_on(four, [&](dist::World) {
          std::mt19937 random(11);  // the same on all ranks
          const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
          for (std::size_t r = 0; r < table.size(); ++r) {
            const auto [options, parts, text] =
                divide(table[r], arguments[r], table[r].fn(arguments[r]).shape(), Device::cpu(), draw);
            try {
              const auto divided = dist::partition([&](const List& x) { return table[r].fn(x); }, four, options);
              const auto gradient = jit::grad([&](const List& x) { return loss_of_whole(divided(x)); });
              const List got = r % 4 == 2 ? jit::compile(gradient)(parts) : gradient(parts);
              for (std::size_t i = 0; i < got.size(); ++i)
                expect(is_near(whole_of(got[i], options.inputs[i]), want[r][i], 5 * table[r].rtol),
                       "another gradient by argument " + std::to_string(i));
            } catch (const dist::DistError&) { throw; } catch (const std::exception& error) {
              throw std::runtime_error(text + ": " + error.what());
            }
          }
        }) == "");
}

TEST_CASE("dist: gradients of partitioned functions from outside, by tape, twice, forwards, and of what is captured") {
  const Tensor w1 = numbers({6, 8}, 1), w2 = numbers({8, 4}, 2), x = numbers({12, 6}, 3), v = numbers({6, 8}, 4);
  const auto [loss, slopes] = jit::value_and_grad<0, 1>(mlp)(w1, w2, x);
  const Tensor first = std::get<0>(slopes), second = std::get<1>(slopes);
  const auto curved = [&](const Tensor& a) { return sum(jit::grad<0>(mlp)(a, w2, x) * v); };
  const Tensor curvature = jit::grad(curved)(w1);
  const Tensor along = sum(first * v);
  for (const Tensor& each : {loss, first, second, curvature, along}) eval(each);
  CHECK(problem_on(four, [&](dist::World) {
          const auto divided = dist::partition(mlp, four, {.inputs = {columns, by_rows, rows_by_data}});
          const Tensor p1 = part_of(w1, columns), p2 = part_of(w2, by_rows), px = part_of(x, rows_by_data),
                       pv = part_of(v, columns);
          const auto compiled = jit::compile(divided);
          for (const bool is_compiled : {false, true}) {
            const Variable a(p1 + 0), b(p2 + 0);
            a.requires_grad();
            b.requires_grad();
            const Tensor got = is_compiled ? compiled(a.value(), b.value(), px) : divided(a.value(), b.value(), px);
            got.backward();
            const jit::NoGradGuard guard;
            expect(is_near(got, loss), "the loss");
            expect(is_near(whole_of(a.grad(), columns), first), "by the tape, w1");
            expect(is_near(whole_of(b.grad(), by_rows), second), "by the tape, w2");
          }
          const auto [value, gradient] = jit::compile(jit::value_and_grad<0, 1>(divided))(p1, p2, px);
          expect(is_near(value, loss), "the value");
          expect(is_near(whole_of(std::get<0>(gradient), columns), first), "w1");
          expect(is_near(whole_of(std::get<1>(gradient), by_rows), second), "w2");
          // Sums over parts are sums over ranks: so is what is differentiated again.
          const auto again = jit::grad([&](const Tensor& part) {
            return dist::all_reduce(sum(jit::grad<0>(divided)(part, p2, px) * pv), "model");
          });
          const double twice = dist::axis_size("model");  // derivatives of collectives are of the sum of all losses
          expect(is_near(whole_of(again(p1) / twice, columns), curvature), "twice");
          expect(is_near(whole_of(jit::compile(again)(p1) / twice, columns), curvature), "twice, compiled");
          const auto [primal, tangent] =
              jit::jvp([&](const Tensor& part) { return divided(part, p2, px); }, std::tuple(p1), std::tuple(pv));
          expect(is_near(primal, loss) && is_near(tangent, along), "forwards");
          const auto captured = jit::grad([&](const Tensor& whole) {
            const auto f = [&](const Tensor& examples) { return mlp(whole, w2, examples); };
            return dist::partition(f, four, {.inputs = {rows_by_data}})(px);
          });
          expect(is_near(captured(w1), first), "of what is captured");
        }) == "");
}

TEST_CASE("dist: gradients of partitioned functions from outside, random numbers, batches that change, and errors") {
  const Tensor x = numbers({8, 6}, 1), w = numbers({6, 4}, 2);
  const auto noisy = [](const Tensor& weight, const Tensor& batch) {
    return mean(square(matmul(batch, weight) * (1 + rand({batch.size(0), 4}))));
  };
  CHECK(problem_on(four, [&](dist::World) {
          const dist::PartitionOptions by_batch{.inputs = {{}, rows_by_data}};
          const Tensor part = part_of(x, rows_by_data);
          manual_seed(3);
          const Tensor inside = dist::partition(jit::grad<0>(noisy), four, by_batch)(w, part);
          manual_seed(3);
          const auto outside = jit::grad<0>(dist::partition(noisy, four, by_batch));
          expect(is_near(outside(w, part), inside), "random numbers");
          const auto compiled = jit::compile(jit::grad<0>(dist::partition(
              [](const Tensor& weight, const Tensor& batch) { return sum(square(matmul(batch, weight))); }, four,
              by_batch)));
          for (const std::int64_t half : {2, 3, 1, 4, 5}) {
            const Tensor batch = numbers({2 * half, 6}, static_cast<double>(half));
            const Tensor want = 2 * matmul(transpose(batch, 0, 1), matmul(batch, w));
            expect(is_near(compiled(w, part_of(batch, rows_by_data)), want), "a batch of " + std::to_string(half));
          }
        }) == "");
  CHECK_THAT(problem_on(four,
                        [&](dist::World) {
                          const auto f = dist::partition(
                              [](const Tensor& weight) {
                                jit::print("{}", sum(weight));
                                return sum(square(weight));
                              },
                              four, {});
                          jit::grad(f)(w);
                        }),
             Catch::Contains("a partitioned function is differentiated from outside that has effects, as jit::print"));
}

TEST_CASE("dist: gradients of several results of a partitioned function compute it once more, not once for each") {
  const Tensor w = numbers({8, 6}, 1), x = numbers({4, 8}, 2);
  const auto f = [](const Tensor& weight, const Tensor& batch) {
    const Tensor h = tanh(matmul(batch, weight));  // a sum over ranks, where the weight's rows are divided
    return std::tuple(sum(square(h)), sum(h, 1), Tensor(h * 2), argmax(h, 1));
  };
  const auto loss = [](const auto& results) {
    return std::get<0>(results) + sum(square(std::get<1>(results))) + sum(exp(std::get<2>(results)));
  };
  const Tensor want = jit::grad<0>([&](const Tensor& a, const Tensor& b) { return loss(f(a, b)); })(w, x);
  const Tensor of_one = jit::grad<0>([&](const Tensor& a, const Tensor& b) { return sum(std::get<1>(f(a, b))); })(w, x);
  for (const Tensor& each : {want, of_one}) eval(each);
  const dist::Mesh two({{"model", 2}});
  const dist::Layout by_columns{{1, "model"}};
  const auto sums_in = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("for tanh"); at != std::string::npos; at = text.find("for tanh", at + 1)) ++count;
    return count;
  };
  std::mutex mutex;
  std::string lines;
  const auto sink_before = Context::get().sink;
  const auto logs_before = Context::get().logs;
  set_logs("dist");
  Context::get().sink = [&](std::string_view, std::string_view line) {
    const std::scoped_lock lock(mutex);
    lines += std::string(line) + "\n";
  };
  const std::string problem = problem_on(two, [&](dist::World) {
    const auto divided =
        dist::partition(f, two, {.inputs = {by_rows, by_columns}, .outputs = {{}, {}, by_columns, {}}});
    const auto gradient = jit::grad<0>([&](const Tensor& a, const Tensor& b) {
      auto results = divided(a, b);
      // Results of ranks are parts: the whole's loss is a sum over them.
      return std::get<0>(results) + sum(square(std::get<1>(results))) +
             dist::all_reduce(sum(exp(std::get<2>(results))), "model") / dist::axis_size("model");
    });
    const Tensor pw = part_of(w, by_rows), px = part_of(x, by_columns);
    expect(is_near(whole_of(jit::compile(gradient)(pw, px), by_rows), want), "by all results");
    const auto by_one = jit::grad<0>([&](const Tensor& a, const Tensor& b) { return sum(std::get<1>(divided(a, b))); });
    expect(is_near(whole_of(by_one(pw, px), by_rows), of_one), "by one of them");
  });
  Context::get().sink = sink_before;
  Context::get().logs = logs_before;
  CHECK(problem == "");
  INFO(lines);
  CHECK(sums_in(lines) == 2 * (2 + 2));  // of two ranks: forward and backward, twice
}

namespace {
/// q, k and v's gradients as attention's derivative on devices has them: end to end, and taken apart.
std::tuple<Tensor, Tensor, Tensor> attention_gradients(const Tensor& q, const Tensor& k, const Tensor& v,
                                                       const Tensor& dout) {
  const Tensor out = scaled_dot_product_attention(q, k, v);
  const Tensor packed(record_op(op_info<ops::ScaledDotProductAttentionGradient>,
                                {Leaf(q.impl()), Leaf(k.impl()), Leaf(v.impl()), Leaf(out.impl()), Leaf(dout.impl())},
                                {}, {}));
  const Dim first = q.numel(), second = first + k.numel(), third = second + v.numel();
  return {reshape(packed(slice(0, first)), q.shape()), reshape(packed(slice(first, second)), k.shape()),
          reshape(packed(slice(second, third)), v.shape())};
}
}  // namespace

TEST_CASE("dist: gradients of attention are divided by batch and heads") {
  const Tensor q = numbers({2, 4, 6, 8}, 1), k = numbers({2, 4, 5, 8}, 2), v = numbers({2, 4, 5, 3}, 3),
               dout = numbers({2, 4, 6, 3}, 4);
  const auto [dq, dk, dv] = attention_gradients(q, k, v, dout);
  for (const Tensor& each : {dq, dk, dv}) eval(each);
  const dist::Layout layout{{0, "data"}, {1, "model"}};
  CHECK(problem_on(four, [&](dist::World) {
          const auto divided =
              dist::partition(attention_gradients, four,
                              {.inputs = {layout, layout, layout, layout}, .outputs = {layout, layout, layout}});
          const Tensor pq = part_of(q, layout), pk = part_of(k, layout), pv = part_of(v, layout),
                       pd = part_of(dout, layout);
          expect(kinds_of(divided.explain(pq, pk, pv, pd)).empty(), "collectives");
          for (const bool is_compiled : {false, true}) {
            const auto got = is_compiled ? jit::compile(divided)(pq, pk, pv, pd) : divided(pq, pk, pv, pd);
            expect(is_near(whole_of(std::get<0>(got), layout), dq), "by q");
            expect(is_near(whole_of(std::get<1>(got), layout), dk), "by k");
            expect(is_near(whole_of(std::get<2>(got), layout), dv), "by v");
          }
          // What reads all of them keeps them together.
          const auto together = dist::partition(
              [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
                const Tensor out = scaled_dot_product_attention(a, b, c);
                return sum(square(Tensor(record_op(
                    op_info<ops::ScaledDotProductAttentionGradient>,
                    {Leaf(a.impl()), Leaf(b.impl()), Leaf(c.impl()), Leaf(out.impl()), Leaf(d.impl())}, {}, {}))));
              },
              four, {.inputs = {layout, layout, layout, layout}});
          expect(is_near(together(pq, pk, pv, pd), sum(square(dq)) + sum(square(dk)) + sum(square(dv))), "together");
        }) == "");
}

TEST_CASE("dist: a partitioned function that is not compiled has one plan, however often it is called") {
  const Tensor x = numbers({8, 6}, 1), w = numbers({6, 4}, 2);
  std::int64_t early = 0, late = 0;
  CHECK(problem_on(four, [&](dist::World world) {
          const auto f =
              dist::partition([](const Tensor& weight, const Tensor& batch) { return matmul(batch, weight); }, four,
                              {.inputs = {{}, rows_by_data}, .outputs = {rows_by_data}});
          const Tensor part = part_of(x, rows_by_data);
          eval(part);
          for (int i = 0; i < 50; ++i) {
            eval(f(w, part));
            dist::barrier();
            if (world.rank() == 0 && (i == 4 || i == 49)) (i == 4 ? early : late) = jit::lazy_stats().graphs;
            dist::barrier();
          }
        }) == "");
  CHECK(early == late);
}
