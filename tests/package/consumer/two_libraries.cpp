// Two shared libraries that each have Sinter in them work side by side, and what one is told does not reach the other.
#include <cstddef>
#include <cstdio>
#include <functional>
#include <thread>

extern "C" {
float left_sum(int count, float s);
float right_sum(int count, float s);
void left_set_memory_limit(std::size_t bytes);
std::size_t left_calls();
std::size_t right_calls();
}

namespace {
int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

void call(float (*sum)(int, float), bool& is_right) {
  for (int i = 1; i <= 200; ++i)
    is_right = is_right && sum(i % 7 * 1000 + 5, 2) == static_cast<float>(3 * (i % 7 * 1000 + 5));
}
}  // namespace

int main() {
  bool left_is_right = true, more_are_right = true, right_is_right = true;
  std::thread threads[] = {std::thread(call, left_sum, std::ref(left_is_right)),
                           std::thread(call, left_sum, std::ref(more_are_right)),
                           std::thread(call, right_sum, std::ref(right_is_right))};
  for (std::thread& thread : threads) thread.join();
  expect(left_is_right && more_are_right && right_is_right, "sums, from several threads");
  expect(left_calls() == 400 && right_calls() == 200, "each library counts its own calls");
  left_set_memory_limit(1);
  expect(left_sum(100000, 1) == -1, "the limit holds in the library that set it");
  expect(right_sum(100000, 1) == 200000, "and not in the other");
  if (failures == 0) std::printf("5 7 9\n");  // what consumer.cmake looks for
  return failures;
}
