// Op tables: einsum against a sum over all letters, and the other products; their errors.
#include "../checks.hpp"
#include "op_table.hpp"

#include <map>

using namespace sinter_test;

namespace {

/// The equation's operands and result, explicit and without blanks; `...` is written as letters by the rows' oracles.
struct Letters {
  std::vector<std::string> operands;
  std::string output;
};
Letters letters_of(const std::string& equation) {
  const std::size_t arrow = equation.find("->");
  Letters out{{""}, equation.substr(arrow + 2)};
  for (char c : equation.substr(0, arrow)) {
    if (c == ',') out.operands.emplace_back();
    else out.operands.back().push_back(c);
  }
  return out;
}

/// The definition: for each element of the result the sum over all values of the letters that it does not name.
Array einsum_oracle(const std::string& equation, const Arrays& in) {
  const Letters letters = letters_of(equation);
  std::map<char, std::int64_t> extents;
  for (std::size_t k = 0; k < in.size(); ++k)
    for (std::size_t i = 0; i < in[k].extents.size(); ++i) {
      std::int64_t& extent = extents[letters.operands[k][i]];
      extent = extent == 0 || extent == 1 ? in[k].extents[i] : extent;
    }
  std::string order = letters.output;
  for (auto [letter, extent] : extents)
    if (order.find(letter) == std::string::npos) order.push_back(letter);
  Array out{in[0].dtype, {}, {}, {}};
  Extents whole;
  for (char letter : order) whole.push_back(extents[letter]);
  out.extents.assign(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(letters.output.size()));
  out.data.assign(static_cast<std::size_t>(oracle::count(out.extents)), 0);
  out.scale = out.data;
  const std::int64_t inner = oracle::count(whole) == 0 ? 0 : oracle::count(whole) / oracle::count(out.extents);
  for (std::int64_t i = 0; i < oracle::count(whole); ++i) {
    const Extents at = oracle::coordinates(i, whole);
    double product = 1;
    for (std::size_t k = 0; k < in.size(); ++k) {
      std::int64_t index = 0;
      for (std::size_t axis = 0; axis < in[k].extents.size(); ++axis) {
        const std::int64_t position = at[order.find(letters.operands[k][axis])];
        index = index * in[k].extents[axis] + (in[k].extents[axis] == 1 ? 0 : position);
      }
      product *= in[k].data[static_cast<std::size_t>(index)];
    }
    out.data[static_cast<std::size_t>(i / inner)] += product;
    out.scale[static_cast<std::size_t>(i / inner)] += std::abs(product);
  }
  return out;
}

#ifdef SINTER_TEST_ON_GPU  // where no kernel multiplies matrices of integers
constexpr DType product_dtypes[] = {DType::f32, DType::f64};
#else
constexpr DType product_dtypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::u64};
#endif

struct Product {
  const char* equation;  // as users write it
  const char* meaning;   // without `...`, explicit; empty: the equation itself
  std::vector<Extents> inputs;
  Empty empty = Empty::works;
};
const std::vector<Product> products{
    {"ij,jk->ik", "", {{n, 4}, {4, 3}}},
    {"ij, jk", "ij,jk->ik", {{2, n}, {n, 3}}},
    {"ij,jk->ki", "", {{n, 4}, {4, 3}}},
    {"ji,kj->ik", "", {{4, n}, {3, 4}}},
    {"bij,bjk->bik", "", {{2, n, 3}, {2, 3, 4}}},
    {"bhqd,bkhd->bhqk", "", {{1, 2, n, 2}, {1, m, 2, 2}}},
    {"bhqk,bkhd->bqhd", "", {{1, 2, n, m}, {1, m, 2, 2}}},
    {"ii->i", "", {{4, 4}}},
    {"ii", "ii->", {{n, n}}},
    {"iij,jk->ik", "", {{4, 4, n}, {n, 2}}},
    {"iji->j", "", {{3, n, 3}}},
    {"ijk->", "", {{n, 3, 2}}},
    {"kji", "kji->ijk", {{n, 3, 2}}},
    {"ijk->ki", "", {{n, 3, 2}}},
    {"i,j->ij", "", {{n}, {3}}},
    {"i,i", "i,i->", {{n}, {n}}},
    {"bi,bi->b", "", {{n, 4}, {n, 4}}},
    {"ij,j->i", "", {{n, 4}, {4}}},
    {"i,ij->j", "", {{n}, {n, 4}}},
    {"ij,kl->", "", {{n, 2}, {3, 2}}},
    {"ij,ij->ij", "", {{n, 2}, {n, 2}}},
    {",i->i", "", {{}, {n}}},
    {"...ij,...jk->...ik", "abij,bjk->abik", {{2, 3, n, 4}, {3, 4, 2}}},
    {"...i,i...", "abi,ib->ab", {{2, 3, n}, {n, 3}}},
    {"i...->...i", "iab->abi", {{n, 2, 3}}},
    {"...,...->...", "ab,ab->ab", {{n, 1}, {n, 4}}},
    {"ij,jk->ik", "", {{n, 1}, {4, 3}}},
    {"ab,bc,cd->ad", "", {{n, 3}, {3, 4}, {4, 2}}},
    {"ab,bc,cd,de,ea->", "", {{n, 2}, {2, 3}, {3, 2}, {2, 4}, {4, n}}},
    {"abc,cd,def,af->be", "", {{2, n, 3}, {3, 2}, {2, 4, 2}, {2, 2}}},
    {"i,i,i->i", "", {{n}, {n}, {n}}},
    {"ba,ca,da->bcd", "", {{n, 4}, {3, 4}, {2, 4}}},
};

std::string without_blanks(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

}  // namespace

TEST_CASE("op table: einsum") {
  for (const Product& product : products)
    for (DType dtype : product_dtypes) {
      const std::string equation = product.equation;
      const std::string meaning = product.meaning[0] == 0 ? without_blanks(equation) : product.meaning;
      Row row{"einsum " + equation + " " + std::string(name(dtype)),
              [equation](const Inputs& in) { return einsum(equation, in); },
              [meaning](const Arrays& in) { return einsum_oracle(meaning, in); },
              {},
              Tolerance{24, 24, 0}};
      for (const Extents& extents : product.inputs) row.inputs.push_back({extents, dtype, {-3, 3}});
      row.empty = product.empty;
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
}

TEST_CASE("einsum: many operands, and order of contraction") {
  std::vector<Tensor> chain;
  std::string equation;
  for (int i = 0; i < 12; ++i) {
    chain.push_back(full({2, 2}, i == 0 ? 1 : 0.5, {.dtype = DType::f64}));
    equation += std::string(i == 0 ? "" : ",") + static_cast<char>('a' + i) + static_cast<char>('b' + i);
  }
  CHECK(doubles(einsum(equation + "->am", chain)) == std::vector<double>{1, 1, 1, 1});
  // A row first: 3 products of a row with a matrix, no product of matrices of 400 rows.
  const Tensor wide = full({400, 400}, 1. / 400, {.dtype = DType::f64}), row = ones({400}, {.dtype = DType::f64});
  CHECK(item<double>(einsum("ab,bc,cd,d->a", wide, wide, wide, row)(0)) == Approx(1));
}

TEST_CASE("einsum: errors quote the equation and point at the letter") {
  const Tensor x = zeros({2, 3}), y = zeros({4, 5});
  CHECK_THAT(message_of([&] { einsum("ij,jk->ik", x, y); }),
             Catch::Contains("'j' of operand 1 has extent 4, elsewhere it has 3, in \"ij,jk->ik\"") &&
                 Catch::Contains("\n  ij,jk->ik\n     ^"));
  CHECK_THAT(message_of([&] { einsum("ij->iz", x); }),
             Catch::Contains("the result's 'z' is in no operand") && Catch::Contains("\n  ij->iz\n       ^"));
  CHECK_THAT(message_of([&] { einsum("ij->ii", x); }), Catch::Contains("'i' stands twice in the result"));
  CHECK_THAT(message_of([&] { einsum("i;j", x); }), Catch::Contains("';' is no letter") && Catch::Contains("\n   ^"));
  CHECK_THAT(message_of([&] { einsum("ijk", x); }), Catch::Contains("operand 0 is (2, 3) and has 3 letters"));
  CHECK_THAT(message_of([&] { einsum("ij,jk", x); }), Catch::Contains("names 2 operands, 1 are given"));
  CHECK_THAT(message_of([&] { einsum("...i...", x); }), Catch::Contains("a second ..."));
  CHECK_THROWS_AS(einsum("ij->ij", x > 0), DTypeError);
  CHECK_THROWS_AS(einsum("ij->i,j", x), UserError);
}

namespace {

struct Named {
  const char* name;
  Tensor (*run)(const Inputs&);
  const char* meaning;  // of einsum's oracle
  std::vector<Extents> inputs;
};

}  // namespace

TEST_CASE("op table: products by name") {
  const std::vector<Named> rows{
      {"tensordot", [](const Inputs& in) { return tensordot(in[0], in[1]); }, "abc,bcd->ad", {{n, 2, 3}, {2, 3, 4}}},
      {"tensordot of axes",
       [](const Inputs& in) { return tensordot(in[0], in[1], {2, 0}, {0, -1}); },
       "abc,cda->bd",
       {{2, n, 3}, {3, 4, 2}}},
      {"tensordot of none", [](const Inputs& in) { return tensordot(in[0], in[1], 0); }, "ab,c->abc", {{n, 2}, {3}}},
      {"inner", [](const Inputs& in) { return inner(in[0], in[1]); }, "abk,ck->abc", {{2, n, 3}, {4, 3}}},
      {"outer", [](const Inputs& in) { return outer(in[0], in[1]); }, "a,b->ab", {{n}, {3}}},
      {"dot", [](const Inputs& in) { return dot(in[0], in[1]); }, "a,a->", {{n}, {n}}},
      {"vdot", [](const Inputs& in) { return vdot(in[0], in[1]); }, "ab,ab->", {{n, 2}, {n, 2}}},
      {"mv", [](const Inputs& in) { return mv(in[0], in[1]); }, "ab,b->a", {{n, 4}, {4}}},
      {"bmm", [](const Inputs& in) { return bmm(in[0], in[1]); }, "abc,acd->abd", {{2, n, 3}, {2, 3, 4}}},
      {"matmul", [](const Inputs& in) { return matmul(in[0], in[1]); }, "ab,bc->ac", {{n, 4}, {4, 5}}},
      {"kron",
       [](const Inputs& in) { return reshape(kron(in[0], in[1]), {in[0].size(0), 2, 2, 3}); },
       "ab,cd->acbd",
       {{n, 2}, {2, 3}}},
      {"multi_dot",
       [](const Inputs& in) { return multi_dot({in[0], in[1], in[2]}); },
       "ab,bc,c->a",
       {{n, 3}, {3, 4}, {4}}},
      {"addbmm of nothing",
       [](const Inputs& in) { return addbmm(zeros({1}, {.dtype = in[0].dtype()}), in[0], in[1]); },
       "abc,acd->bd",
       {{2, n, 3}, {2, 3, 4}}},
  };
  for (const Named& named : rows)
    for (DType dtype : product_dtypes) {
      const std::string meaning = named.meaning;
      Row row{std::string(named.name) + " " + std::string(name(dtype)),
              named.run,
              [meaning](const Arrays& in) { return einsum_oracle(meaning, in); },
              {},
              Tolerance{24, 24, 0}};
      for (const Extents& extents : named.inputs) row.inputs.push_back({extents, dtype, {-3, 3}});
      row.empty = Empty::untested;
      if (dtype == DType::f64) row.derivative = Derivative::second;
      check_row(row);
    }
}

TEST_CASE("op table: cross and cdist") {
  for (DType dtype : {DType::f32, DType::f64, DType::i32}) {
    Row row{"cross " + std::string(name(dtype)),
            [](const Inputs& in) { return cross(in[0], in[1], 1); },
            [](const Arrays& in) {
              Array out{in[0].dtype, {in[0].extents[0], 3}, {}, {}};
              for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
                auto a = [&](std::int64_t k) { return in[0].data[static_cast<std::size_t>(i / 3 * 3 + k % 3)]; };
                auto b = [&](std::int64_t k) { return in[1].data[static_cast<std::size_t>(k % 3)]; };
                const std::int64_t k = i % 3;
                out.data.push_back(a(k + 1) * b(k + 2) - a(k + 2) * b(k + 1));
                out.scale.push_back(std::abs(a(k + 1) * b(k + 2)) + std::abs(a(k + 2) * b(k + 1)));
              }
              return out;
            },
            {{{n, 3}, dtype, {-4, 4}}, {{1, 3}, dtype, {-4, 4}}},
            Tolerance{2, 2, 0}};
    if (dtype == DType::f64) row.derivative = Derivative::second;
    check_row(row);
    if (!is_floating(dtype)) continue;
    for (double p : {2.0, 1.0, 3.0, 0.0, std::numeric_limits<double>::infinity()}) {
      Row distance{"cdist " + std::to_string(p) + " " + std::string(name(dtype)),
                   [p](const Inputs& in) { return cdist(in[0], in[1], p); },
                   [p](const Arrays& in) {
                     const std::int64_t rows = in[0].extents[1], others = in[1].extents[0];
                     Array out{in[0].dtype, {in[0].extents[0], rows, others}, {}, {}};
                     for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
                       double total = 0;
                       for (std::int64_t k = 0; k < 4; ++k) {
                         const double gap = std::abs(in[0].data[static_cast<std::size_t>(i / others * 4 + k)] -
                                                     in[1].data[static_cast<std::size_t>(i % others * 4 + k)]);
                         if (std::isinf(p)) total = std::max(total, gap);
                         else total += p == 0 ? (gap != 0 ? 1 : 0) : std::pow(gap, p);
                       }
                       out.data.push_back(p == 0 || std::isinf(p) ? total : std::pow(total, 1 / p));
                     }
                     return out;
                   },
                   {{{2, n, 4}, dtype, {-4, 4}}, {{3, 4}, dtype, {-4, 4}}},
                   Tolerance{16, 16, 1}};
      if (dtype == DType::f64 && p >= 1 && !std::isinf(p)) distance.derivative = Derivative::first;
      distance.strided = Strided::distinct;
      check_row(distance);
    }
  }
  CHECK(doubles(jit::grad([](Tensor x) { return sum(cdist(x, x)); })(tensor({{1.0, 2.0}}))) ==
        std::vector<double>{0, 0});
}

TEST_CASE("products: added products, powers, errors") {
  const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}), ones22 = ones({2, 2}, {.dtype = DType::f64});
  CHECK(doubles(addmm(ones22, a, a, {.beta = 2, .alpha = 0.5})) == std::vector<double>{5.5, 7, 9.5, 13});
  CHECK(doubles(addmm(ones22 / 0.0, a, a, {.beta = 0})) == std::vector<double>{7, 10, 15, 22});
  CHECK(doubles(addmv(tensor({1.0, 1.0}), a, tensor({1.0, 1.0}))) == std::vector<double>{4, 8});
  CHECK(doubles(addr(ones22, tensor({1.0, 2.0}), tensor({3.0, 4.0}))) == std::vector<double>{4, 5, 7, 9});
  const Tensor batch = stack({a, a}, 0);
  CHECK(doubles(baddbmm(ones({2, 1, 1}, {.dtype = DType::f64}), batch, batch))[3] == 23);
  CHECK(doubles(matrix_power(a, 0)) == std::vector<double>{1, 0, 0, 1});
  CHECK(doubles(matrix_power(a, 5)) == std::vector<double>{1069, 1558, 2337, 3406});
  CHECK(doubles(matrix_power(batch, 2))[7] == 22);
  CHECK(matmul(tensor({{1, 2}}), tensor({{3}, {4}})).dtype() == DType::i32);
  CHECK_THROWS_AS(matmul(a > 0, a > 0), DTypeError);
  CHECK_THROWS_AS(dot(a, a), ShapeError);
  CHECK_THROWS_AS(dot(tensor({1.0}), tensor({1.0, 2.0})), ShapeError);
  CHECK_THROWS_AS(tensordot(a, a, 3), ShapeError);
  CHECK_THROWS_AS(tensordot(a, a, {0}, Axes{}), ShapeError);
  CHECK_THROWS_AS(mv(a, a), ShapeError);
  CHECK_THROWS_AS(bmm(a, a), ShapeError);
  CHECK_THROWS_AS(cross(a, a), ShapeError);
  CHECK_THROWS_AS(addmm(ones({3, 2, 2}), a, a), ShapeError);
  CHECK_THROWS_AS(multi_dot({a}), ShapeError);
  CHECK_THROWS_AS(multi_dot({a, ones({3, 2})}), ShapeError);
  CHECK(near(doubles(matrix_power(a, -1)), {-2, 1, 1.5, -0.5}, 1e-12));
  CHECK_THROWS_AS(matrix_power(ones({2, 3}), 2), ShapeError);
  CHECK_THROWS_AS(cdist(a, ones({2, 3})), ShapeError);
  CHECK_THROWS_AS(kron(ones({1, 1, 1, 1, 1}), a), ShapeError);
}
