// Data in and out: copies, memory of others and who keeps it alive, Eigen objects of either order, numbers, vectors and
// text that reads like NumPy's.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <Eigen/Dense>

#include <limits>
#include <memory>
#include <sstream>

using namespace sinter;

TEST_CASE("copy_of: a copy, of every element type") {
  std::vector<float> f{1, 2, 3, 4, 5, 6};
  Tensor x = copy_of(f, {2, 3});
  f[0] = 100;
  CHECK(x.shape() == Shape{2, 3});
  CHECK(to_vector<float>(x) == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(copy_of(std::vector<double>{1}).dtype() == DType::f64);
  CHECK(copy_of(std::vector<std::int32_t>{1}).dtype() == DType::i32);
  CHECK(copy_of(std::vector<std::int64_t>{1}).dtype() == DType::i64);
  const float raw[] = {7, 8, 9};
  CHECK(to_vector<float>(copy_of(std::span<const float>(raw), {3})) == std::vector<float>{7, 8, 9});
  CHECK(to_vector<float>(copy_of(borrow(raw, {3}))) == std::vector<float>{7, 8, 9});
  const bool flags[] = {true, false};
  CHECK(copy_of(borrow(flags, {2})).dtype() == DType::bool_);
  CHECK(to_vector<bool>(copy_of(borrow(flags, {2}))) == std::vector<bool>{true, false});
  CHECK(copy_of(std::vector<float>{}, {0, 4}).shape() == Shape{0, 4});
  CHECK(copy_of(std::vector<float>{5}, {}).rank() == 0);
  std::string text = message_of<ShapeError>([&] { copy_of(f, {4, 2}); });
  CHECK(has(text, "shape (4, 2) needs 8 elements, 6 are there [host_test.cpp:"));
  CHECK_THROWS_AS(copy_of(f, {-6}), ShapeError);
}

TEST_CASE("tensor: literals") {
  Tensor m = tensor({{1.f, 2.f}, {3.f, 4.f}});
  CHECK(m.shape() == Shape{2, 2});
  CHECK(to_vector<float>(m) == std::vector<float>{1, 2, 3, 4});
  CHECK(tensor({1, 2, 3}).dtype() == DType::i32);
  CHECK(tensor({true, false}).dtype() == DType::bool_);
  CHECK(tensor({1.5, 2.5}).dtype() == DType::f64);
  CHECK(has(message_of<ShapeError>([] { tensor({{1.f, 2.f}, {3.f}}); }), "rows have different lengths: 2 and 1"));
}

TEST_CASE("tensor: one number, and literals of three levels") {
  CHECK(tensor(1.5).shape() == Shape{});
  CHECK(tensor(1.5).dtype() == DType::f64);
  CHECK(item<float>(tensor(2.5f) * 2) == 5);
  CHECK(tensor(true).dtype() == DType::bool_);
  CHECK(tensor(std::complex<float>(1, 2)).dtype() == DType::c64);
  CHECK(tensor<float>({1}).shape() == Shape{1});  // a list of one, as before
  CHECK(tensor<float>({}).shape() == Shape{0, 0});
  CHECK(tensor<float>({{}, {}}).shape() == Shape{2, 0});
  CHECK(tensor<std::uint8_t>({{0, 100}, {0, 255}}).shape() == Shape{2, 2});
  Tensor planes = tensor({{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}});
  CHECK(planes.shape() == Shape{2, 2, 3});
  CHECK(to_vector<int>(planes(1, 0)) == std::vector<int>{7, 8, 9});
  CHECK(has(message_of<ShapeError>([] { tensor({{{1, 2}, {3, 4}}, {{5, 6}}}); }),
            "planes have different numbers of rows: 2 and 1"));
  CHECK(has(message_of<ShapeError>([] { tensor({{{1, 2}, {3}}}); }), "rows have different lengths: 2 and 1"));
}

TEST_CASE("adopt: takes the vector's memory") {
  std::vector<float> data{1, 2, 3, 4};
  const float* memory = data.data();
  Tensor x = adopt(std::move(data), {2, 2});
  CHECK(x.data<float>().data() == memory);
  CHECK_FALSE(x.impl()->storage->is_ours());
  Tensor y = x + 1;
  x = Tensor();
  CHECK(to_vector<float>(y) == std::vector<float>{2, 3, 4, 5});
  CHECK_THROWS_AS(adopt(std::vector<float>{1, 2}, {3}), ShapeError);
  CHECK(adopt(std::vector<double>{}, {0}).numel() == 0);
}

TEST_CASE("from_blob: the owner lives as long as anything that reads it") {
  auto owner = std::make_shared<std::vector<std::int32_t>>(std::vector<std::int32_t>{1, 2, 3, 4});
  std::weak_ptr<std::vector<std::int32_t>> watch = owner;
  Tensor x = from_blob(owner, owner->data(), {2, 2}, DType::i32);
  owner.reset();
  CHECK_FALSE(watch.expired());
  Tensor row = x(1), later = x * 10;
  x = Tensor();
  CHECK_FALSE(watch.expired());  // a pending statement holds it
  CHECK(to_vector<int>(later) == std::vector<int>{10, 20, 30, 40});
  later = Tensor();
  CHECK_FALSE(watch.expired());
  CHECK(to_vector<int>(row) == std::vector<int>{3, 4});
  row = Tensor();
  CHECK(watch.expired());
  static const double constants[] = {1, 2};
  CHECK(to_vector<double>(from_blob(nullptr, constants, {2}, DType::f64)) ==
        std::vector<double>{1, 2});  // outlives all
  CHECK_THROWS_AS(from_blob(nullptr, constants, {-2}, DType::f64), ShapeError);
}

TEST_CASE("borrow: lent for one call, seen fresh each time") {
  float data[] = {1, 2, 3, 4};
  auto f = jit::compile([](Tensor x) { return x * 2; });
  CHECK(to_vector<float>(f(borrow(data, {4}))) == std::vector<float>{2, 4, 6, 8});
  data[0] = 10;
  CHECK(to_vector<float>(f(borrow(data, {4})))[0] == 20);
  CHECK(f.stats().compiles == 1);
  std::vector<float> v{5, 6};
  CHECK(to_vector<float>(f(borrow(v, {2, 1}))) == std::vector<float>{10, 12});
  CHECK_THROWS_AS(borrow(v, {3}), ShapeError);
  CHECK_THROWS_AS(borrow(std::span<const float>(v), {1}), ShapeError);
  // A result that is a view of lent memory is a copy.
  auto same = jit::compile([](Tensor x) { return x; });
  Tensor kept = same(borrow(data, {4})),
         view = jit::compile([](Tensor x) { return transpose(reshape(x, {2, 2}), 0, 1); })(borrow(data, {4}));
  data[0] = -1;
  CHECK(to_vector<float>(kept)[0] == 10);
  CHECK(to_vector<float>(view) == std::vector<float>{10, 3, 2, 4});
}

TEST_CASE("Eigen: matrices of either order, vectors, maps with strides") {
  Eigen::MatrixXf columns(2, 3);
  columns << 1, 2, 3, 4, 5, 6;
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = columns;
  std::vector<float> want{1, 2, 3, 4, 5, 6};
  CHECK(copy_of(columns).shape() == Shape{2, 3});
  CHECK(to_vector<float>(copy_of(columns)) == want);
  CHECK(to_vector<float>(copy_of(rows)) == want);
  Eigen::Vector3d v(1, 2, 3);
  CHECK(copy_of(v).shape() == Shape{3});
  CHECK(copy_of(v).dtype() == DType::f64);
  Eigen::RowVector2i r(4, 5);
  CHECK(to_vector<int>(copy_of(r)) == std::vector<int>{4, 5});
  float memory[12];
  for (int i = 0; i < 12; ++i) memory[i] = static_cast<float>(i);
  Eigen::Map<Eigen::MatrixXf, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>> strided(
      memory, 2, 3, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(4, 2));
  CHECK(to_vector<float>(copy_of(strided)) == std::vector<float>{0, 4, 8, 2, 6, 10});
  Eigen::Map<Eigen::VectorXf, 0, Eigen::InnerStride<>> every_third(memory, 4, Eigen::InnerStride<>(3));
  CHECK(to_vector<float>(copy_of(every_third)) == std::vector<float>{0, 3, 6, 9});
  auto block = columns.block(0, 1, 2, 2);
  CHECK(to_vector<float>(copy_of(block)) == std::vector<float>{2, 3, 5, 6});
  CHECK(copy_of(Eigen::MatrixXd(0, 4)).shape() == Shape{0, 4});
}

TEST_CASE("Eigen: as arguments of compiled functions, in their own layout") {
  auto f = jit::compile([](Tensor a, Tensor b) { return a * 10 + b; });
  Eigen::MatrixXf a(2, 3), b(2, 3);
  a << 1, 2, 3, 4, 5, 6;
  b.setConstant(0.5f);
  CHECK(to_vector<float>(f(a, b)) == std::vector<float>{10.5, 20.5, 30.5, 40.5, 50.5, 60.5});
  Eigen::Matrix<float, 2, 3, Eigen::RowMajor> c = a;
  CHECK(to_vector<float>(f(c, b)) == std::vector<float>{10.5, 20.5, 30.5, 40.5, 50.5, 60.5});
  CHECK(to_vector<float>(f(a.block(0, 0, 2, 2), b.block(0, 0, 2, 2))) == std::vector<float>{10.5, 20.5, 40.5, 50.5});
  Eigen::MatrixXf out(2, 3);
  f.into(out)(a, b);
  CHECK(out.isApprox(a * 10 + b));
  Eigen::Matrix<float, 2, 3, Eigen::RowMajor> out_rows;
  f.into(out_rows)(c, b);
  CHECK(out_rows.isApprox(a * 10 + b));
}

TEST_CASE("Eigen: tensors to matrices and vectors") {
  Tensor x = reshape(arange(6), {2, 3}).to(DType::f32);
  Eigen::MatrixXf m = to_eigen<Eigen::MatrixXf>(x);
  CHECK(m(0, 2) == 2);
  CHECK(m(1, 0) == 3);
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  CHECK(to_eigen<Rows>(x).isApprox(m));
  CHECK(to_eigen<Eigen::MatrixXf>(transpose(x, 0, 1)).isApprox(m.transpose()));
  CHECK(to_eigen<Eigen::VectorXf>(x(1)) == Eigen::Vector3f(3, 4, 5));
  CHECK(to_eigen<Eigen::Vector3f>(x(1)) == Eigen::Vector3f(3, 4, 5));
  CHECK((to_eigen<Eigen::Matrix<float, 2, 3>>(x) - m).norm() == 0);
  CHECK_THROWS_AS(to_eigen<Eigen::VectorXf>(x), ShapeError);
  CHECK_THROWS_AS(to_eigen<Eigen::MatrixXf>(x(0)), ShapeError);
  CHECK_THROWS_AS(to_eigen<Eigen::MatrixXd>(x), DTypeError);
  CHECK_THROWS_AS(to_eigen<Eigen::Vector4f>(x(1)), ShapeError);
  CHECK_THROWS_AS((to_eigen<Eigen::Matrix<float, 3, 3>>(x)), ShapeError);
  Eigen::MatrixXf target(2, 3);
  copy_to(borrow_mut(target), x + 1);
  CHECK(target.isApprox((m.array() + 1).matrix()));
  Eigen::MatrixXf wrong(3, 2);
  CHECK_THROWS_AS(copy_to(borrow_mut(wrong), x), ShapeError);
}

TEST_CASE("numbers and vectors out") {
  Tensor x = tensor({1.5f, -2.5f, 3.0f});
  CHECK(item<float>(x(1)) == -2.5f);
  CHECK(item<int>(x(1)) == -2);
  CHECK(item<bool>(x(0) > 1));
  CHECK(item<double>(reshape(sum(x), {1, 1})) == 2);
  CHECK(to_vector<int>(x) == std::vector<int>{1, -2, 3});
  CHECK(to_vector<bool>(x > 0) == std::vector<bool>{true, false, true});
  CHECK(to_vector<double>(x * 2) == std::vector<double>{3, -5, 6});
  CHECK(to_vector<float>(zeros({0})).empty());
  CHECK(blame_of<ShapeError>([&] { item<float>(x); }) == blame("item"));
  CHECK(blame_of<ShapeError>([&] { x.item(); }) == blame("item"));
  std::span<const float> data = x.data<float>();
  CHECK(data.size() == 3);
  CHECK(data[2] == 3);
  Tensor column = reshape(x, {3, 1}), t = transpose(reshape(arange(4), {2, 2}), 0, 1);
  CHECK(t.data<std::int64_t>()[1] == 2);  // row-major, whatever the layout was
  CHECK(t.impl()->is_dense());
  CHECK(blame_of<DTypeError>([&] { x.data<double>(); }) == blame("data"));
  Scalar s = sum(x).item();
  CHECK(s.number() == 2);
  CHECK(item<float>(Variable(x).value()(2)) == 3);
  CHECK(x(1).item<float>() == -2.5f);
  CHECK((sum(x) * 2).item<double>() == 4);
  CHECK(Variable(sum(x)).item<int>() == 2);
  CHECK(blame_of<ShapeError>([&] { x.item<float>(); }) == blame("item"));
}

// The expected texts are what numpy.array2string(x, separator=", ") of NumPy 1.26 gives.
TEST_CASE("printing reads like NumPy's") {
  auto text = [](const In& x) { return to_string(x); };
  CHECK(text(tensor({1, 2, 3})) == "[1, 2, 3]");
  CHECK(text(reshape(arange(6), {2, 3})) == "[[0, 1, 2],\n [3, 4, 5]]");
  CHECK(text(tensor({1, -20, 3})) == "[  1, -20,   3]");
  CHECK(text(reshape(arange(8), {2, 2, 2})) == "[[[0, 1],\n  [2, 3]],\n\n [[4, 5],\n  [6, 7]]]");
  CHECK(text(tensor({1.f, 2.f})) == "[1., 2.]");
  CHECK(text(tensor({1.5f, -2.25f, 100.f})) == "[  1.5 ,  -2.25, 100.  ]");
  CHECK(text(tensor({0.1f, 0.25f})) == "[0.1 , 0.25]");
  CHECK(text(tensor({0.1, 1.0 / 3})) == "[0.1       , 0.33333333]");
  CHECK(text(tensor({1e10, 1.0})) == "[1.e+10, 1.e+00]");
  CHECK(text(tensor({0.00001, 1.0})) == "[1.e-05, 1.e+00]");
  CHECK(text(tensor({1.0, 0.0001})) == "[1.e+00, 1.e-04]");
  CHECK(text(tensor({1.5e-7, -2.25e3})) == "[ 1.50e-07, -2.25e+03]");
  CHECK(text(tensor({1e100, 1.0})) == "[1.e+100, 1.e+000]");
  CHECK(text(tensor({1e8, 1e8})) == "[1.e+08, 1.e+08]");
  CHECK(text(tensor({0.3f, 1.2345678e-5f})) == "[3.0000001e-01, 1.2345678e-05]");  // 0.3f has these digits
  CHECK(text(cast(tensor({0.1f, 65504.f, 6e-8f}), DType::f16)) == "[1.00e-01, 6.55e+04, 5.96e-08]");
  CHECK(text(tensor({999.0, 1.0})) == "[999.,   1.]");
  CHECK(text(tensor({0.0, -0.0})) == "[ 0., -0.]");
  CHECK(text(tensor({1.f, std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()})) ==
        "[  1.,  nan, -inf]");
  CHECK(text(tensor({1.25, std::numeric_limits<double>::infinity()})) == "[1.25,  inf]");
  CHECK(text(tensor({std::numeric_limits<double>::infinity()})) == "[inf]");
  CHECK(text(tensor({true, false})) == "[ True, False]");
  CHECK(text(tensor({true, true})) == "[ True,  True]");
  CHECK(text(zeros({0})) == "[]");
  CHECK(text(zeros({2, 0, 3})) == "[]");
  CHECK(text(full({}, 2)) == "2.0");
  CHECK(text(full({}, 0.1)) == "0.1");
  CHECK(text(full({}, 1e-5, {.dtype = DType::f64})) == "1e-05");
  CHECK(text(full({}, 1e16, {.dtype = DType::f64})) == "1e+16");
  CHECK(text(full({}, -7, {.dtype = DType::i32})) == "-7");
  CHECK(text(tensor({2.f})(0) > 1) == "True");
  CHECK(text(ones({2, 1})) == "[[1.],\n [1.]]");
}

TEST_CASE("printing: long axes are shortened, long lines wrapped") {
  CHECK(to_string(arange(1001)) == "[   0,    1,    2, ...,  998,  999, 1000]");
  CHECK(to_string(reshape(arange(2000), {1000, 2})) ==
        "[[   0,    1],\n [   2,    3],\n [   4,    5],\n ...,\n [1994, 1995],\n [1996, 1997],\n [1998, 1999]]");
  CHECK(to_string(reshape(arange(1200), {3, 400})) ==
        "[[   0,    1,    2, ...,  397,  398,  399],\n [ 400,  401,  402, ...,  797,  798,  799],\n [ 800,  801,  802, "
        "..., 1197, 1198, 1199]]");
  CHECK(to_string(arange(30)) ==
        "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n 18, 19, 20, 21, 22, 23, 24, 25, "
        "26, 27, 28, 29]");
  CHECK(to_string(reshape(arange(40), {2, 20})) ==
        "[[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n  18, 19],\n [20, 21, 22, 23, 24, "
        "25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,\n  38, 39]]");
}

TEST_CASE("printing to a stream") {
  std::ostringstream out;
  Tensor x = tensor({1.f, 2.f});
  out << x << x + 1 << Variable(x) << full({}, 3) << " " << Scalar(0.5) << transpose(reshape(arange(4), {2, 2}), 0, 1);
  CHECK(out.str() == "[1., 2.]\n[2., 3.]\n[1., 2.]\n3.0 0.5[[0, 2],\n [1, 3]]\n");
}
