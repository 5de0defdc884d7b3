// A user's file with std::mdspan, for compilers that have it: spans of all layouts in and out, and what is refused.
#include <sinter/mdspan.hpp>

#include <complex>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace sinter;

namespace {

int failures = 0;
void check(bool holds, const char* what, int line) {
  if (holds) return;
  std::printf("mdspan.cpp:%d: %s\n", line, what);
  ++failures;
}
#define CHECK(condition) check(static_cast<bool>(condition), #condition, __LINE__)

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) { return error.what(); }
  return "";
}
bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::printf("not in: %s\n", text.c_str());
  return false;
}
using Floats = std::vector<float>;

void test_layouts_in() {
  Floats numbers{1, 2, 3, 4, 5, 6};
  const auto elements = [](const Tensor& x) { return to_vector<float>(x); };
  std::mdspan right(numbers.data(), 2, 3);
  CHECK(copy_of(right).shape() == Shape({2, 3}) && elements(copy_of(right)) == numbers);
  std::mdspan<float, std::extents<int, 2, std::dynamic_extent>, std::layout_left> left(numbers.data(), 3);
  CHECK(elements(copy_of(left)) == Floats({1, 3, 5, 2, 4, 6}));
  const std::layout_stride::mapping<std::extents<unsigned, 2, 2>> every_second({}, std::array{3u, 2u});
  const std::mdspan<const float, std::extents<unsigned, 2, 2>, std::layout_stride> strided(numbers.data(),
                                                                                           every_second);
  CHECK(elements(copy_of(strided)) == Floats({1, 3, 4, 6}));
  // Lent to a compiled function, and for its result.
  auto twice = jit::compile([](Tensor x) { return x * 2; });
  CHECK(elements(twice(borrow(left))) == Floats({2, 6, 10, 4, 8, 12}));
  Floats results(6), spread(12, -1);
  std::mdspan<float, std::extents<int, 2, 3>> target(results.data());
  twice.into(borrow_mut(target))(borrow(right));
  CHECK(results == Floats({2, 4, 6, 8, 10, 12}));
  copy_to(borrow_mut(std::mdspan<float, std::dextents<int, 2>, std::layout_stride>(
              spread.data(), std::layout_stride::mapping(std::dextents<int, 2>(2, 3), std::array{6, 2}))),
          copy_of(right));
  CHECK(spread == Floats({1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1}));
  // Rank 0, no elements, other dtypes.
  CHECK(copy_of(std::mdspan<float, std::extents<int>>(numbers.data())).rank() == 0);
  CHECK(copy_of(std::mdspan<float, std::dextents<int, 2>>(numbers.data(), 0, 3)).shape() == Shape({0, 3}));
  std::vector<std::complex<double>> z{{1, 2}, {3, 4}};
  CHECK(copy_of(std::mdspan(z.data(), 2)).dtype() == DType::c128);
  std::uint8_t bytes[] = {1, 255};
  CHECK(to_vector<int>(copy_of(std::mdspan(bytes, 2))) == std::vector<int>({1, 255}));
}

void test_layouts_out() {
  const Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}}), columns = x.t();
  const auto dense = mdspan_of<float, std::extents<int, 2, 3>, std::layout_right>(x);
  static_assert(std::is_same_v<decltype(dense)::element_type, const float>);
  CHECK(dense.extent(1) == 3 && dense.mapping()(1, 2) == 5 && dense.data_handle()[5] == 6);
  CHECK(dense.data_handle() == x.data<float>().data());  // no copy
  eval(columns);
  const auto seen = mdspan_of<float, 2>(columns);
  CHECK(seen.extent(0) == 3 && seen.stride(0) == 1 && seen.stride(1) == 3);
  CHECK(seen.data_handle() == dense.data_handle());
  const auto left = mdspan_of<float, 2, std::layout_left>(columns);
  CHECK(left.data_handle() == dense.data_handle() && left.data_handle()[left.mapping()(2, 1)] == 6);
  const auto copied = mdspan_of<float, 2, std::layout_right>(columns);
  CHECK(copied.data_handle()[1] == 4 && copied.data_handle()[copied.mapping()(2, 1)] == 6);
  CHECK((mdspan_of<float, 2, std::layout_right>(columns).data_handle() == copied.data_handle()));  // kept
  // Strides that no layout has: a copy. One index, none, and rank 0.
  const Tensor repeated = expand(tensor({7.f}), {3}), reversed = x(all, slice({}, {}, -1));
  eval(repeated);
  const auto sevens = mdspan_of<float, 1>(repeated);
  CHECK(sevens.stride(0) == 1 && sevens.data_handle()[2] == 7);
  const auto backwards = mdspan_of<float, 2>(reversed);
  CHECK(backwards.data_handle()[backwards.mapping()(1, 0)] == 6);
  const Tensor last = x(slice(1, 2)), empty = zeros({3, 0}), two = full({}, 2, {.dtype = DType::f64});
  const auto row = mdspan_of<float, 2>(last);
  CHECK(row.extent(0) == 1 && row.data_handle()[row.mapping()(0, 2)] == 6);
  const auto none = mdspan_of<float, 2>(empty);
  CHECK(none.empty() && none.extent(0) == 3 && none.stride(0) == 1);
  CHECK((*mdspan_of<double, std::extents<int>>(two).data_handle() == 2));
  // There and back.
  CHECK(to_vector<float>(copy_of(seen)) == to_vector<float>(columns));
  // Lazily, with the value that it then has.
  const Tensor sum = x(0) + 1;
  CHECK((mdspan_of<float, 1>(sum).extent(0) == 3));
}

void test_what_is_refused() {
  const Tensor x = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  CHECK(has(message_of<DTypeError>([&] { mdspan_of<double, 2>(x); }),
            "mdspan_of: x is f32[2, 3], the elements of the span are f64"));
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, 1>(x); }),
            "mdspan_of: x is (2, 3), the extents of the span are (any)"));
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, std::extents<int, 2, 4>>(x); }),
            "x is (2, 3), the extents of the span are (2, 4)"));
  // What an index_type cannot count: extents, the last element, a stride.
  const Tensor many = zeros({300}), square = zeros({100, 100}), few = square(slice(0, 2), slice(0, 1)),
               none = zeros({0, 100, 100});
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, std::dextents<signed char, 1>>(many); }), "x is (300,)"));
  using Small = std::dextents<signed char, 2>;
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, Small>(square); }),
            "x is f32[100, 100], whose elements and strides reach to 10000; the index_type of the span counts to 127"));
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, Small, std::layout_right>(square); }), "reach to 10000"));
  CHECK((mdspan_of<float, Small>(few).extent(0) == 2));
  CHECK(has(message_of<ShapeError>([&] { mdspan_of<float, std::dextents<signed char, 3>>(none); }), "reach to 10000"));
  CHECK((mdspan_of<float, std::dextents<short, 2>>(square).stride(0) == 100));
  const std::string text = message_of<UserError>([&] { mdspan_of<float, 2, std::layout_left>(x); });
  CHECK(has(text, "x is f32[2, 3] with strides (3, 1), and no layout_left has these"));
  CHECK(has(text, "mdspan.cpp:"));
  const auto traced = jit::compile([](Tensor y) {
    CHECK(has(message_of<UserError>([&] { (void)mdspan_of<float, 2>(y); }), "mdspan_of"));
    return y + 1;
  });
  (void)traced(x);
}

}  // namespace

int main() {
  test_layouts_in();
  test_layouts_out();
  test_what_is_refused();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
