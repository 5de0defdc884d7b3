// Op tables: axes moved and cut, diagonals and triangles, mirrored and repeated tensors, unequal parts, grids.
#include "op_table.hpp"

using namespace sinter_test;

namespace {

struct Move {
  const char* name;
  Tensor (*run)(const Inputs&);
  Array (*want)(const Arrays&);
  std::vector<Extents> inputs;
  Empty empty = Empty::works;
};

/// Rows of functions that move elements: exact for every dtype; in f64 the gradient too.
void check_moves(const std::vector<Move>& moves) {
  for (const Move& move : moves)
    for (DType dtype : {DType::bool_, DType::i32, DType::f32, DType::f64}) {
      Row row{std::string(move.name) + " " + std::string(name(dtype)), move.run, move.want, {}};
      for (const Extents& extents : move.inputs)
        row.inputs.push_back({extents, dtype, dtype == DType::bool_ ? Domain{0, 1} : Domain{-9, 9}});
      row.empty = move.empty;
      if (dtype == DType::f64) row.derivative = Derivative::first;
      check_row(row);
    }
}

std::int64_t size(const Array& x, std::size_t axis) { return x.extents[axis]; }

/// Element `at` of the result is what `value` says: an element of x by its coordinates, or nothing for 0.
template <class F>
Array chosen(const Array& x, Extents extents, F&& value) {
  Array out{x.dtype, std::move(extents), {}, {}};
  for (std::int64_t i = 0; i < oracle::count(out.extents); ++i) {
    const Extents from = value(oracle::coordinates(i, out.extents));
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < from.size(); ++axis) index = index * x.extents[axis] + from[axis];
    out.data.push_back(from.empty() ? 0 : x.data[static_cast<std::size_t>(index)]);
  }
  return out;
}
Array shaped(Array array, Extents extents) {
  array.extents = std::move(extents);
  return array;
}

}  // namespace

TEST_CASE("op table: axes moved and cut") {
  check_moves({
      {"unflatten",
       [](const Inputs& in) { return unflatten(in[0], -1, {2, -1}); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0), 2, 3}); },
       {{n, 6}}},
      {"movedim",
       [](const Inputs& in) { return movedim(in[0], {0, 2}, {1, 0}); },
       [](const Arrays& in) {
         return gathered(in[0], {4, size(in[0], 0), 3}, [](Extents at) { return Extents{at[1], at[2], at[0]}; });
       },
       {{n, 3, 4}}},
      {"squeeze of all",
       [](const Inputs& in) { return squeeze(in[0]); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 1), 2}); },
       {{1, n, 1, 2}}},
      {"squeeze and unsqueeze of several",
       [](const Inputs& in) { return unsqueeze(squeeze(in[0], {0, 2}), {1, -1}); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 1), 1, 2, 1}); },
       {{1, n, 1, 2}}},
      {"expand with -1",
       [](const Inputs& in) { return expand(in[0], {3, -1, 2}); },
       [](const Arrays& in) {
         return gathered(in[0], {3, size(in[0], 0), 2}, [](Extents at) { return Extents{at[1], 0}; });
       },
       {{n, 1}}},
      {"narrow",
       [](const Inputs& in) { return narrow(in[0], 1, 1, 2); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 2}, [](Extents at) { return Extents{at[0], at[1] + 1}; });
       },
       {{n, 4}}},
      {"select",
       [](const Inputs& in) { return select(in[0], 1, -1); },
       [](const Arrays& in) { return gathered(in[0], {size(in[0], 0)}, [](Extents at) { return Extents{at[0], 3}; }); },
       {{n, 4}}},
      {"as_strided",
       [](const Inputs& in) { return as_strided(in[0], {3, 2}, {4, -1}, 1); },
       [](const Arrays& in) { return gathered(in[0], {3, 2}, [](Extents at) { return Extents{at[0], 1 - at[1]}; }); },
       {{m, 4}}},
  });
}

TEST_CASE("op table: diagonals and triangles") {
  check_moves({
      {"diagonal",
       [](const Inputs& in) { return diagonal(in[0]); },
       [](const Arrays& in) {
         return gathered(in[0], {std::min<std::int64_t>(size(in[0], 0), 3)},
                         [](Extents at) { return Extents{at[0], at[0]}; });
       },
       {{m, 3}}},
      {"diagonal above, of other axes",
       [](const Inputs& in) { return diagonal(in[0], 1, 2, 0); },
       [](const Arrays& in) {
         return gathered(in[0], {3, std::max<std::int64_t>(0, std::min<std::int64_t>(size(in[0], 0) - 1, 4))},
                         [](Extents at) { return Extents{at[1] + 1, at[0], at[1]}; });
       },
       {{m, 3, 4}}},
      {"diagonal of a symbolic width",
       [](const Inputs& in) { return diagonal(in[0], -1); },
       [](const Arrays& in) {
         return gathered(in[0], {std::min<std::int64_t>(3, size(in[0], 1))},
                         [](Extents at) { return Extents{at[0] + 1, at[0]}; });
       },
       {{4, n}}},
      {"diagonal outside",
       [](const Inputs& in) { return diagonal(in[0], 7); },
       [](const Arrays& in) { return gathered(in[0], {0}, [](Extents) { return Extents{0, 0}; }); },
       {{n, 4}}},
      {"tril",
       [](const Inputs& in) { return tril(in[0], 1); },
       [](const Arrays& in) {
         return chosen(in[0], in[0].extents, [](Extents at) { return at[2] <= at[1] + 1 ? at : Extents{}; });
       },
       {{2, n, 5}}},
      {"triu",
       [](const Inputs& in) { return triu(in[0]); },
       [](const Arrays& in) {
         return chosen(in[0], in[0].extents, [](Extents at) { return at[1] >= at[0] ? at : Extents{}; });
       },
       {{4, n}}},
      {"diag of a vector",
       [](const Inputs& in) { return diag(in[0], -2); },
       [](const Arrays& in) {
         return chosen(in[0], {size(in[0], 0) + 2, size(in[0], 0) + 2},
                       [](Extents at) { return at[0] == at[1] + 2 ? Extents{at[1]} : Extents{}; });
       },
       {{n}},
       Empty::untested},
      {"diag_embed",
       [](const Inputs& in) { return diag_embed(in[0], 1, 0, 2); },
       [](const Arrays& in) {
         return chosen(in[0], {size(in[0], 1) + 1, 3, size(in[0], 1) + 1},
                       [](Extents at) { return at[2] == at[0] + 1 ? Extents{at[1], at[0]} : Extents{}; });
       },
       {{3, n}},
       Empty::untested},
  });
}

TEST_CASE("op table: mirrored and repeated tensors") {
  check_moves({
      {"flip",
       [](const Inputs& in) { return flip(in[0], {0, -1}); },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents,
                         [k = size(in[0], 0)](Extents at) { return Extents{k - 1 - at[0], at[1], 3 - at[2]}; });
       },
       {{n, 3, 4}}},
      {"rot90",
       [](const Inputs& in) { return rot90(in[0]); },
       [](const Arrays& in) {
         return gathered(in[0], {4, size(in[0], 0)}, [](Extents at) { return Extents{at[1], 3 - at[0]}; });
       },
       {{n, 4}}},
      {"rot90 three times",
       [](const Inputs& in) { return rot90(in[0], -1, {1, 2}); },
       [](const Arrays& in) {
         return gathered(in[0], {2, 4, size(in[0], 1)},
                         [k = size(in[0], 1)](Extents at) { return Extents{at[0], k - 1 - at[2], at[1]}; });
       },
       {{2, n, 4}}},
      {"repeat",
       [](const Inputs& in) { return repeat(in[0], {2, 1, 3}); },
       [](const Arrays& in) {
         return gathered(in[0], {2, size(in[0], 0), 6}, [](Extents at) { return Extents{at[1], at[2] % 2}; });
       },
       {{n, 2}}},
      {"repeat of many axes",
       [](const Inputs& in) { return repeat(in[0], {1, 2, 1, 2, 3}); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 4, 1, 4, 9},
                         [](Extents at) { return Extents{at[0], at[1] % 2, 0, at[3] % 2, at[4] % 3}; });
       },
       {{n, 2, 1, 2, 3}}},
      {"tile",
       [](const Inputs& in) { return tile(in[0], {2}); },
       [](const Arrays& in) {
         return gathered(in[0], {3, 2 * size(in[0], 1)}, [k = size(in[0], 1)](Extents at) {
           return Extents{at[0], at[1] % std::max<std::int64_t>(k, 1)};
         });
       },
       {{3, n}}},
      {"repeat_interleave",
       [](const Inputs& in) { return repeat_interleave(in[0], 3, 0); },
       [](const Arrays& in) {
         return gathered(in[0], {3 * size(in[0], 0), 2}, [](Extents at) { return Extents{at[0] / 3, at[1]}; });
       },
       {{n, 2}}},
      {"repeat_interleave of all",
       [](const Inputs& in) { return repeat_interleave(in[0], 2); },
       [](const Arrays& in) {
         return gathered(in[0], {4 * size(in[0], 0)}, [](Extents at) { return Extents{at[0] / 4, at[0] / 2 % 2}; });
       },
       {{n, 2}}},
  });
}

TEST_CASE("op table: parts, stacks and grids") {
  check_moves({
      {"chunk and column_stack",
       [](const Inputs& in) {
         const auto parts = chunk(in[0], 2, 1);  // 3 and 2
         return column_stack({parts[1], parts[0], select(in[0], 1, 0)});
       },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 6}, [](Extents at) {
           return Extents{at[0], at[1] < 2 ? at[1] + 3 : at[1] < 5 ? at[1] - 2 : 0};
         });
       },
       {{n, 5}}},
      {"split_with_sizes and vstack",
       [](const Inputs& in) {
         const auto parts = split_with_sizes(in[0], {1, 4}, 0);
         return vstack({parts[1], parts[0]});
       },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents, [](Extents at) { return Extents{(at[0] + 1) % 5, at[1]}; });
       },
       {{5, n}}},
      {"tensor_split and hstack",
       [](const Inputs& in) {
         auto parts = tensor_split(in[0], 2, 1);
         const auto tail = tensor_split(parts[1], {1, -1}, 1);
         return hstack({tail[2], parts[0], tail[0]});
       },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 6},
                         [](Extents at) { return Extents{at[0], at[1] == 0 ? 6 : at[1] - 1}; });
       },
       {{n, 7}}},
      {"unstack and dstack",
       [](const Inputs& in) {
         const auto parts = unstack(in[0], 1);
         return dstack({parts[1], parts[0]});
       },
       [](const Arrays& in) {
         return gathered(in[0], {1, size(in[0], 0), 2}, [](Extents at) { return Extents{at[1], 1 - at[2]}; });
       },
       {{n, 2}}},
      {"meshgrid",
       [](const Inputs& in) { return meshgrid({in[0], arange(3)})[0]; },
       [](const Arrays& in) { return gathered(in[0], {size(in[0], 0), 3}, [](Extents at) { return Extents{at[0]}; }); },
       {{n}}},
      {"meshgrid xy",
       [](const Inputs& in) { return meshgrid({in[0], arange(3), arange(2)}, GridIndexing::xy)[0]; },
       [](const Arrays& in) {
         return gathered(in[0], {3, size(in[0], 0), 2}, [](Extents at) { return Extents{at[1]}; });
       },
       {{n}}},
      {"block_diag",
       [](const Inputs& in) { return block_diag({in[0], in[0]}); },
       [](const Arrays& in) {
         const std::int64_t k = size(in[0], 0);
         return chosen(in[0], {2 * k, 6}, [k](Extents at) {
           const bool lower = at[0] >= k, right = at[1] >= 3;
           return lower == right ? Extents{lower ? at[0] - k : at[0], right ? at[1] - 3 : at[1]} : Extents{};
         });
       },
       {{n, 3}},
       Empty::untested},
  });
}

TEST_CASE("arrangements: made from nothing, and errors") {
  CHECK(to_vector<float>(eye(2, 3, 1)) == std::vector<float>{0, 1, 0, 0, 0, 1});
  CHECK(to_vector<int>(tril_indices(2, 3)) == std::vector<int>{0, 1, 1, 0, 0, 1});
  CHECK(to_vector<int>(triu_indices(2, 3, 1)) == std::vector<int>{0, 0, 1, 1, 2, 2});
  const std::vector<double> powers = to_vector<double>(vander(tensor({2.0, 3.0}), 3)), wanted{4, 2, 1, 9, 3, 1};
  for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(powers[i] == Approx(wanted[i]).epsilon(1e-14));
  CHECK(to_vector<int>(vander(tensor({2, 3}), 3, PowerOrder::increasing)) == std::vector<int>{1, 2, 4, 1, 3, 9});
  CHECK(to_vector<double>(arange(0.0, 1.0, 0.25)) == std::vector<double>{0, 0.25, 0.5, 0.75});
  CHECK(to_vector<double>(arange(1, -1, -0.5)) == std::vector<double>{1, 0.5, 0, -0.5});
  CHECK(arange(1.0, 0.0).shape() == Shape{0});
  CHECK(to_vector<double>(logspace(0, 2, 3, 2, {.dtype = DType::f64})) == std::vector<double>{1, 2, 4});
  CHECK(item<int>(trace(reshape(arange(9), {3, 3}))) == 12);
  CHECK(to_vector<int>(full_like(tensor({1, 2}), 7)) == std::vector<int>{7, 7});
  CHECK(rand_like(zeros({2, 3})).shape() == Shape{2, 3});
  CHECK(randn_like(zeros({4}, {.dtype = DType::f64})).dtype() == DType::f64);
  CHECK(atleast_3d(tensor({1, 2})).shape() == Shape{1, 2, 1});
  CHECK(broadcast_tensors({zeros({3, 1}), zeros({2})})[1].shape() == Shape{3, 2});
  CHECK(chunk(zeros({5}), 4).size() == 3);
  const Tensor x = zeros({2, 6});
  CHECK_THROWS_AS(unflatten(x, 1, {4, -1}), ShapeError);
  CHECK_THROWS_AS(movedim(x, {0, 0}, {0, 1}), IndexError);
  CHECK_THROWS_AS(movedim(x, {0, 1}, 0), IndexError);
  CHECK_THROWS_AS(squeeze(x, {0}), ShapeError);
  CHECK_THROWS_AS(unsqueeze(x, {0, 0}), IndexError);
  CHECK_THROWS_AS(expand(x, {-1, 2, 6}), ShapeError);
  CHECK_THROWS_AS(narrow(x, 1, 4, 3), IndexError);
  CHECK_THROWS_AS(as_strided(x, {3, 6}, {6, 1}), IndexError);
  CHECK_THROWS_AS(as_strided(x, {2}, {6, 1}), ShapeError);
  CHECK_THROWS_AS(diagonal(x, 0, 1, 1), IndexError);
  CHECK_THROWS_AS(diag(zeros({2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(tril(zeros({2})), ShapeError);
  CHECK_THROWS_AS(flip(x, {0, 0}), IndexError);
  CHECK_THROWS_AS(rot90(x, 1, {0}), IndexError);
  CHECK_THROWS_AS(repeat(x, {2}), ShapeError);
  CHECK_THROWS_AS(repeat(x, {-1, 1}), ShapeError);
  CHECK_THROWS_AS(split_with_sizes(x, {2, 3}, 1), ShapeError);
  CHECK_THROWS_AS(tensor_split(x, 0), ShapeError);
  CHECK_THROWS_AS(meshgrid({x}), ShapeError);
  CHECK_THROWS_AS(arange(0.0, 1.0, 0.0), ShapeError);
}
