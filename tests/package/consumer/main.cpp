#include <cstdio>
#include <vector>

std::vector<float> added(const std::vector<float>& left, const std::vector<float>& right);

int main() {
  for (float value : added({1, 2, 3}, {4, 5, 6})) std::printf("%g ", value);
  std::printf("\n");
}
