// Names that the standard library has, too: with both namespaces at hand, tensors go to Sinter's functions and numbers
// and iterators to the others.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

using namespace std;
using namespace sinter;

TEST_CASE("gcd and lcm of two Tensors beside those of <numeric>") {
  Tensor a = tensor({4, 6, 0}), b = tensor({6, 9, 5});
  CHECK(to_vector<int>(gcd(a, b)) == vector<int>{2, 3, 5});
  CHECK(to_vector<int>(lcm(a, b)) == vector<int>{12, 18, 0});
  CHECK(gcd(12, 18) == 6);
  Variable slot(a, "slot");
  CHECK(to_vector<int>(gcd(slot, slot)) == vector<int>{4, 6, 0});
  CHECK(to_vector<int>(sinter::gcd(a * 2, b + 0)) == vector<int>{2, 3, 5});
  CHECK(to_vector<int>(sinter::gcd(slot, b)) == vector<int>{2, 3, 5});
  CHECK(to_vector<int>(sinter::lcm(a + 0, slot)) == vector<int>{4, 6, 0});
  CHECK(to_vector<int>(sinter::gcd(9, b)) == vector<int>{3, 9, 1});
  try {
    (void)gcd(ones({2}), a);
    FAIL("floats have no divisors");
  } catch (const DTypeError& error) {
    CHECK(error.where().line + 3 == static_cast<decltype(error.where().line)>(__LINE__));
  }
}

TEST_CASE("functions that both namespaces have") {
  Tensor x = tensor({0.25f, -1.5f, 4.f}), y = tensor({1.f, 2.f, 3.f});
  CHECK(to_vector<float>(clamp(x, 0, 1)) == vector<float>{0.25f, 0, 1});
  CHECK(to_vector<float>(clamp(x, y - 1, y)) == vector<float>{0.25f, 1, 3});
  CHECK(to_vector<float>(lerp(x, y, 0.5)) == vector<float>{0.625f, 0.25f, 3.5f});
  CHECK(to_vector<float>(fmax(x, 1)) == vector<float>{1, 1, 4});
  CHECK(to_vector<float>(sqrt(abs(x)) + pow(y, 2) + hypot(x, 0) * 0) == vector<float>{1.5f, sqrt(1.5f) + 4, 11});
  CHECK(to_vector<float>(sort(x, 0).values) == vector<float>{-1.5f, 0.25f, 4});
  vector<Tensor> list{x, y};
  sort(list.begin(), list.end(), [](const Tensor& a, const Tensor& b) { return item(sum(a)) > item(sum(b)); });
  CHECK(sinter::is_same(list[0], y));
  swap(list[0], list[1]);
  CHECK(sinter::is_same(list[0], x));
  CHECK(pow(2.0, 3) == 8);
}
