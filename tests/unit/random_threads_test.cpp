// The default generator is per thread, in compiled functions too.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <thread>

using namespace sinter;

namespace {

/// What `draw` gives in a thread of its own, `count` times.
template <class F>
std::vector<std::vector<float>> in_thread(int count, F draw) {
  std::vector<std::vector<float>> drawn;
  std::thread([&] {
    for (int i = 0; i < count; ++i) drawn.push_back(draw());
  }).join();
  return drawn;
}

}  // namespace

TEST_CASE("compiled functions draw from the calling thread's generator") {
  auto noise = jit::compile([](Tensor x) { return x + rand({4}); });
  auto reading = jit::compile([](Tensor x) {  // a trace tree
    Tensor u = rand({4});
    return item(sum(u)) > 100 ? Tensor(x + u) : Tensor(x - rand({4}));
  });
  const Tensor zero = zeros({4});
  auto draw = [&] { return floats(noise(zero)); };
  auto draw_in_tree = [&] { return floats(reading(zero)); };
  manual_seed(7);
  std::vector<std::vector<float>> first, first_in_tree;
  for (int i = 0; i < 4; ++i) first.push_back(draw());
  for (int i = 0; i < 4; ++i) first_in_tree.push_back(draw_in_tree());
  manual_seed(7);
  auto other = in_thread(4, [&, seeded = false]() mutable {
    if (!std::exchange(seeded, true)) manual_seed(8);
    return draw();
  });
  auto same = in_thread(8, [&, i = 0]() mutable {
    if (i == 0) manual_seed(7);
    return i++ < 4 ? draw() : draw_in_tree();
  });
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(same[i] == first[i]);
    CHECK(same[i + 4] == first_in_tree[i]);
    CHECK(other[i] != first[i]);
  }
  CHECK(draw() == first[0]);  // what other threads drew has not moved this one's
  CHECK(noise.stats().compiles == 1);
  CHECK(reading.stats().compiles == 1);
}

TEST_CASE("threads that were not seeded draw different numbers, and concurrent calls do not share a counter") {
  auto noise = jit::compile([](Tensor x) { return x + rand({4}); });
  const Tensor zero = zeros({4});
  noise(zero);
  auto a = in_thread(1, [&] { return floats(noise(zero)); }), b = in_thread(1, [&] { return floats(noise(zero)); });
  CHECK(a != b);
  std::vector<std::vector<float>> seen[2];
  std::thread threads[2];
  for (int t = 0; t < 2; ++t)
    threads[t] = std::thread([&, t] {
      manual_seed(t);
      for (int i = 0; i < 200; ++i) seen[t].push_back(floats(noise(zero)));
    });
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 2; ++t) {
    manual_seed(t);
    for (int i = 0; i < 200; ++i) CHECK(floats(noise(zero)) == seen[t][static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("a near miss: a generator of one's own is one Variable, for all threads") {
  Generator own(5);
  auto next = jit::compile([&] {
    Tensor before = own.counter;
    own.counter += 1;
    return before + 0;
  });
  CHECK(item<int>(next()) == 0);
  std::thread([&] { CHECK(item<int>(next()) == 1); }).join();
  CHECK(item<int>(next()) == 2);
}
