// Op tables: views, updates, joins and parts, gathers, and tensors from nothing.
#include "op_table.hpp"

using namespace sinter_test;

namespace {

constexpr DType all_dtypes[] = {DType::bool_, DType::i32, DType::i64, DType::u64, DType::f32, DType::f64};

/// Rows of ops that move elements: checked for every dtype, exactly; in f64 the gradient too.
struct Move {
  const char* name;
  Tensor (*run)(const Inputs&);
  Array (*want)(const Arrays&);
  std::vector<Extents> inputs;
  Empty empty = Empty::works;
};

Domain domain_for(DType dtype) { return dtype == DType::bool_ ? Domain{0, 1} : Domain{-9, 9}; }

void check_moves(const std::vector<Move>& moves) {
  for (const Move& move : moves)
    for (DType dtype : all_dtypes) {
      Row row{std::string(move.name) + " " + std::string(name(dtype)), move.run, move.want, {}};
      for (const Extents& extents : move.inputs) row.inputs.push_back({extents, dtype, domain_for(dtype)});
      row.empty = move.empty;
      if (dtype == DType::f64) row.derivative = Derivative::first;
      check_row(row);
    }
}

/// `array` with other extents; elements stay in order.
Array shaped(Array array, Extents extents) {
  array.extents = std::move(extents);
  return array;
}
/// base with value's elements put where `place` says, all in coordinates.
template <class F>
Array placed(Array base, const Array& value, F&& place) {
  for (std::int64_t i = 0; i < oracle::count(value.extents); ++i) {
    const Extents at = place(oracle::coordinates(i, value.extents));
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) index = index * base.extents[axis] + at[axis];
    base.data[static_cast<std::size_t>(index)] = value.data[static_cast<std::size_t>(i)];
  }
  return base;
}
Array filled(DType dtype, Extents extents, double value) {
  Array array{dtype, std::move(extents), {}, {}};
  array.data.assign(static_cast<std::size_t>(oracle::count(array.extents)), value);
  return array;
}
/// Array along `axis`, one after the other.
Array joined(const Arrays& parts, std::size_t axis) {
  Extents extents = parts[0].extents;
  extents[axis] = 0;
  for (const Array& part : parts) extents[axis] += part.extents[axis];
  Array whole = filled(parts[0].dtype, extents, 0);
  std::int64_t start = 0;
  for (const Array& part : parts) {
    whole = placed(whole, part, [&](Extents at) {
      at[axis] += start;
      return at;
    });
    start += part.extents[axis];
  }
  return whole;
}
std::int64_t at_least_0(std::int64_t x) { return std::max<std::int64_t>(x, 0); }
std::int64_t size(const Array& x, std::size_t axis) { return x.extents[axis]; }

}  // namespace

TEST_CASE("op table: views") {
  check_moves({
      {"reshape",
       [](const Inputs& in) { return reshape(in[0], {in[0].size(0), 3, 2}); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0), 3, 2}); },
       {{n, 6}}},
      {"reshape that merges",
       [](const Inputs& in) { return reshape(in[0], {in[0].size(0) * 3, 4}); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0) * 3, 4}); },
       {{n, 3, 4}}},
      {"reshape to -1",
       [](const Inputs& in) { return reshape(in[0], {-1, 2}); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0) * 2, 2}); },
       {{n, 4}}},
      {"flatten",
       [](const Inputs& in) { return flatten(in[0]); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0) * 6}); },
       {{n, 2, 3}}},
      {"flatten of the last",
       [](const Inputs& in) { return flatten(in[0], 1); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0), 6}); },
       {{n, 2, 3}}},
      {"permute",
       [](const Inputs& in) { return permute(in[0], {2, 0, 1}); },
       [](const Arrays& in) {
         return gathered(in[0], {4, size(in[0], 0), 3}, [](Extents at) { return Extents{at[1], at[2], at[0]}; });
       },
       {{n, 3, 4}}},
      {"permute and merge",
       [](const Inputs& in) { return reshape(permute(in[0], {1, 0}), {-1}); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0) * 5},
                         [k = size(in[0], 0)](Extents at) { return Extents{at[0] % k, at[0] / k}; });
       },
       {{n, 5}},
       Empty::untested},
      {"transpose",
       [](const Inputs& in) { return transpose(in[0], 0, -1); },
       [](const Arrays& in) {
         return gathered(in[0], {4, 3, size(in[0], 0)}, [](Extents at) { return Extents{at[2], at[1], at[0]}; });
       },
       {{n, 3, 4}}},
      {"expand",
       [](const Inputs& in) { return expand(in[0], {2, in[0].size(0), 5}); },
       [](const Arrays& in) {
         return gathered(in[0], {2, size(in[0], 0), 5}, [](Extents at) { return Extents{at[1], 0}; });
       },
       {{n, 1}}},
      {"unsqueeze",
       [](const Inputs& in) { return unsqueeze(in[0], 1); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0), 1, 3}); },
       {{n, 3}}},
      {"squeeze",
       [](const Inputs& in) { return squeeze(in[0], -2); },
       [](const Arrays& in) { return shaped(in[0], {size(in[0], 0), 3}); },
       {{n, 1, 3}}},
      {"slice",
       [](const Inputs& in) { return in[0](slice(1, 4), all); },
       [](const Arrays& in) { return gathered(in[0], {3, 4}, [](Extents at) { return Extents{at[0] + 1, at[1]}; }); },
       {{5, 4}}},
      {"slice with a step",
       [](const Inputs& in) { return in[0](all, slice(1, 8, 3)); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 3}, [](Extents at) { return Extents{at[0], 1 + 3 * at[1]}; });
       },
       {{n, 9}}},
      {"slice of the end",
       [](const Inputs& in) { return in[0](all, slice(-3)); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0), 3}, [](Extents at) { return Extents{at[0], at[1] + 4}; });
       },
       {{n, 7}}},
      {"slice of a dynamic axis",
       [](const Inputs& in) { return in[0](slice(1, -1, 2)); },
       [](const Arrays& in) {
         return gathered(in[0], {(size(in[0], 0) - 1) / 2, 3},
                         [](Extents at) { return Extents{1 + 2 * at[0], at[1]}; });
       },
       {{n, 3}},
       Empty::untested},
      {"slice backwards",
       [](const Inputs& in) { return in[0](slice({}, {}, -1)); },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents,
                         [k = size(in[0], 0)](Extents at) { return Extents{k - 1 - at[0], at[1]}; });
       },
       {{n, 3}}},
      {"slice backwards of a dynamic axis with a step",
       [](const Inputs& in) { return in[0](slice(-2, {}, -2), slice(3, 0, -2)); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 0) / 2, 2},
                         [k = size(in[0], 0)](Extents at) { return Extents{k - 2 - 2 * at[0], 3 - 2 * at[1]}; });
       },
       {{n, 5}},
       Empty::untested},
      {"position",
       [](const Inputs& in) { return in[0](all, 2); },
       [](const Arrays& in) { return gathered(in[0], {size(in[0], 0)}, [](Extents at) { return Extents{at[0], 2}; }); },
       {{n, 4}}},
      {"position from the end",
       [](const Inputs& in) { return in[0](-1); },
       [](const Arrays& in) {
         return gathered(in[0], {4}, [k = size(in[0], 0)](Extents at) { return Extents{k - 1, at[0]}; });
       },
       {{n, 4}},
       Empty::untested},
      {"view of a view of a view",
       [](const Inputs& in) { return transpose(in[0](slice(0, 6, 2), all, slice(1)), 0, 2)(all, 1); },
       [](const Arrays& in) {
         return gathered(in[0], {size(in[0], 2) - 1, 3}, [](Extents at) { return Extents{2 * at[1], 1, at[0] + 1}; });
       },
       {{6, 3, m}}},
      {"view, then arithmetic",
       [](const Inputs& in) { return Tensor(maximum(transpose(in[0], 0, 1), in[0](slice(0, 3), slice(0, 3)))); },
       [](const Arrays& in) {
         Array out = in[0];
         for (std::int64_t i = 0; i < 9; ++i)
           out.data[static_cast<std::size_t>(i)] = std::max(in[0].data[static_cast<std::size_t>(i)],
                                                            in[0].data[static_cast<std::size_t>(i % 3 * 3 + i / 3)]);
         return out;
       },
       {{3, 3}}},
  });
}

TEST_CASE("op table: updates") {
  check_moves({
      {"update of a column",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(all, 1) = in[1];
         return u;
       },
       [](const Arrays& in) { return placed(in[0], in[1], [](Extents at) { return Extents{at[0], 1}; }); },
       {{n, 4}, {n}}},
      {"update with steps",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(all, slice(1, 8, 3)) = in[1];
         return u;
       },
       [](const Arrays& in) { return placed(in[0], in[1], [](Extents at) { return Extents{at[0], 1 + 3 * at[1]}; }); },
       {{n, 9}, {n, 3}}},
      {"update backwards",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(slice({}, {}, -1), slice(7, {}, -3)) = in[1];
         return u;
       },
       [](const Arrays& in) {
         return placed(in[0], in[1],
                       [k = size(in[0], 0)](Extents at) { return Extents{k - 1 - at[0], 7 - 3 * at[1]}; });
       },
       {{n, 9}, {n, 3}}},
      {"update by a broadcast value",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(slice(1, 3)) = in[1];
         return u;
       },
       [](const Arrays& in) {
         const Array two{in[1].dtype, {2, 4}, oracle::broadcast(in[1].data, {4}, {2, 4})};
         return placed(in[0], two, [](Extents at) { return Extents{at[0] + 1, at[1]}; });
       },
       {{5, 4}, {4}}},
      {"update of one element",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(-1, 2) = in[1];
         return u;
       },
       [](const Arrays& in) {
         return placed(in[0], in[1], [k = size(in[0], 0)](Extents) { return Extents{k - 1, 2}; });
       },
       {{n, 4}, {}},
       Empty::untested},
      {"two updates",
       [](const Inputs& in) {
         Tensor u = in[0];
         u.at(0) = in[1];
         u.at(all, 0) = in[2];
         return u;
       },
       [](const Arrays& in) {
         const Array once = placed(in[0], in[1], [](Extents at) { return Extents{0, at[0]}; });
         return placed(once, in[2], [](Extents at) { return Extents{at[0], 0}; });
       },
       {{3, m}, {m}, {3}},
       Empty::untested},
  });
  for (DType dtype : {DType::f32, DType::f64, DType::i32}) {
    Row row{"update in place " + std::string(name(dtype)),
            [](const Inputs& in) {
              Tensor u = in[0];
              u.at(all, 1) += in[1];
              u.at(0) *= 2;
              return u;
            },
            [](const Arrays& in) {
              Array out = in[0];
              const auto width = static_cast<std::size_t>(size(out, 1));
              for (std::size_t i = 0; i < in[1].data.size(); ++i)
                out.data[i * width + 1] = rounded_to(out.dtype, out.data[i * width + 1] + in[1].data[i], {-100, 100});
              for (std::size_t i = 0; i < width; ++i) out.data[i] *= 2;
              return out;
            },
            {{{n, 4}, dtype, {-9, 9}}, {{n}, dtype, {-9, 9}}}};
    row.empty = Empty::untested;
    if (dtype == DType::f64) row.derivative = Derivative::first;
    check_row(row);
  }
}

TEST_CASE("op table: joins and parts") {
  check_moves({
      {"pad",
       [](const Inputs& in) { return pad(in[0], {{1, 0}, {2, 3}}); },
       [](const Arrays& in) {
         return placed(filled(in[0].dtype, {size(in[0], 0) + 1, 8}, 0), in[0],
                       [](Extents at) { return Extents{at[0] + 1, at[1] + 2}; });
       },
       {{n, 3}}},
      {"pad with a value",
       [](const Inputs& in) { return pad(in[0], {{0, 2}}, 1); },
       [](const Arrays& in) {
         return placed(filled(in[0].dtype, {size(in[0], 0) + 2}, 1), in[0], [](Extents at) { return at; });
       },
       {{n}}},
      {"concat",
       [](const Inputs& in) { return concat(in, 0); },
       [](const Arrays& in) { return joined(in, 0); },
       {{n, 3}, {2, 3}, {m, 3}}},
      {"concat along the last",
       [](const Inputs& in) { return concat({in[0], in[1], in[0]}, -1); },
       [](const Arrays& in) { return joined({in[0], in[1], in[0]}, 1); },
       {{n, 3}, {n, 1}}},
      {"concat of one",
       [](const Inputs& in) { return concat({in[0]}, 0); },
       [](const Arrays& in) { return in[0]; },
       {{n, 3}}},
      {"stack",
       [](const Inputs& in) { return stack({in[0], in[1]}, 1); },
       [](const Arrays& in) {
         return joined({shaped(in[0], {size(in[0], 0), 1, 3}), shaped(in[1], {size(in[0], 0), 1, 3})}, 1);
       },
       {{n, 3}, {n, 3}}},
      {"split",
       [](const Inputs& in) {
         auto [a, b, c] = split<3>(in[0], 1);
         return concat({c, a, b}, 1);
       },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents, [](Extents at) { return Extents{at[0], (at[1] + 4) % 6}; });
       },
       {{n, 6}}},
      {"split into two of a dynamic axis",
       [](const Inputs& in) { return concat({in[0], split(concat({in[0], in[0]}, 0), 2, 0)[1]}, 1); },
       [](const Arrays& in) { return joined({in[0], in[0]}, 1); },
       {{n, 3}}},
      {"roll",
       [](const Inputs& in) { return roll(in[0], 2, 0); },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents,
                         [k = size(in[0], 0)](Extents at) { return Extents{(at[0] + 2 * k - 2) % k, at[1]}; });
       },
       {{n, 3}}},
      {"roll back",
       [](const Inputs& in) { return roll(in[0], -1, 1); },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents, [](Extents at) { return Extents{at[0], (at[1] + 1) % 5}; });
       },
       {{n, 5}}},
      {"roll by more than the extent",
       [](const Inputs& in) { return roll(in[0], 13, 1); },
       [](const Arrays& in) {
         return gathered(in[0], in[0].extents, [](Extents at) { return Extents{at[0], (at[1] + 2) % 5}; });
       },
       {{n, 5}}},
  });
}

TEST_CASE("op table: take, embedding and gathers by index") {
  for (DType index : {DType::i32, DType::i64})
    for (DType dtype : all_dtypes) {
      auto row = [&](std::string what, Function run, Oracle want, std::vector<Spec> inputs) {
        Row result{what + " " + std::string(name(dtype)) + " " + std::string(name(index)), std::move(run),
                   std::move(want), std::move(inputs)};
        if (dtype == DType::f64) result.derivative = Derivative::first;
        check_row(result);
      };
      const Domain domain = domain_for(dtype);
      auto at_index = [](const Array& i, std::int64_t k) {
        return static_cast<std::int64_t>(i.data[static_cast<std::size_t>(k)]);
      };
      row(
          "take along 0", [](const Inputs& in) { return take(in[0], in[1]); },
          [=](const Arrays& in) {
            return gathered(in[0], {size(in[1], 0), 3},
                            [&](Extents at) { return Extents{at_index(in[1], at[0]), at[1]}; });
          },
          {{{5, 3}, dtype, domain}, {{n}, index, {0, 4}}});
      row(
          "take along -1", [](const Inputs& in) { return take(in[0], in[1], -1); },
          [=](const Arrays& in) {
            return gathered(in[0], {size(in[0], 0), 7},
                            [&](Extents at) { return Extents{at[0], at_index(in[1], at[1])}; });
          },
          {{{n, 4}, dtype, domain}, {{7}, index, {0, 3}}});
      row(
          "take in the middle by two axes", [](const Inputs& in) { return take(in[0], in[1], 1); },
          [=](const Arrays& in) {
            return gathered(in[0], {2, size(in[1], 0), 2, 3},
                            [&](Extents at) { return Extents{at[0], at_index(in[1], at[1] * 2 + at[2]), at[3]}; });
          },
          {{{2, 4, 3}, dtype, domain}, {{n, 2}, index, {0, 3}}});
      row(
          "embedding", [](const Inputs& in) { return embedding(in[1], in[0]); },
          [=](const Arrays& in) {
            return gathered(in[0], {2, size(in[1], 1), 3}, [&](Extents at) {
              return Extents{at_index(in[1], at[0] * size(in[1], 1) + at[1]), at[2]};
            });
          },
          {{{9, 3}, dtype, domain}, {{2, n}, index, {0, 8}}});
      row(
          "x(all, indices)", [](const Inputs& in) { return in[0](all, in[1]); },
          [=](const Arrays& in) {
            return gathered(in[0], {size(in[0], 0), 3},
                            [&](Extents at) { return Extents{at[0], at_index(in[1], at[1])}; });
          },
          {{{n, 4}, dtype, domain}, {{3}, index, {0, 3}}});
    }
}

TEST_CASE("op table: an index out of range is an error, and not of what is around it") {
  for (DType index : {DType::i32, DType::i64})
    for (double wrong : {5.0, -1.0, 2147483647.0, -2147483648.0})
      for (const Mode& mode : modes()) {
        INFO(std::string(name(index)) << " " << wrong << ", " << mode.name);
        const Inputs in = tensors({{DType::f32, {5, 3}, Numbers(15, 1.0)}, {index, {4}, {0, 4, wrong, 1}}});
        const Function run = [](const Inputs& x) { return sum(take(x[0], x[1]) * 2); };
        CHECK_THROWS_AS(item<float>(run_in(mode, run, in)),
                        IndexError);  // on a device the error comes when the value is read
        const Inputs good{in[0], take(in[1], copy_of(std::vector<std::int64_t>{0, 1, 3}))};
        CHECK(item<float>(run_in(mode, run, good)) == 18);
      }
}

TEST_CASE("op table: one_hot") {
  for (DType index : {DType::i32, DType::i64})
    for (DType dtype : all_dtypes)
      check_row({"one_hot " + std::string(name(dtype)) + " " + std::string(name(index)),
                 [dtype](const Inputs& in) { return one_hot(in[0], 5, dtype); },
                 [dtype](const Arrays& in) {
                   Array out = filled(dtype, {size(in[0], 0), 3, 5}, 0);
                   for (std::size_t i = 0; i < in[0].data.size(); ++i)
                     out.data[i * 5 + static_cast<std::size_t>(in[0].data[i])] = 1;
                   return out;
                 },
                 {{{n, 3}, index, {0, 4}}}});
}

TEST_CASE("op table: tensors from nothing") {
  struct Factory {
    const char* name;
    std::function<Tensor()> run;
    Array want;
    Tolerance tolerance = oracle::exact;
  };
  std::vector<Factory> factories;
  for (DType dtype : all_dtypes) {
    const double value = dtype == DType::bool_ ? 1 : dtype == DType::u64 ? 2 : is_floating(dtype) ? -2.5 : -2;
    factories.push_back({"full", [=] { return full({2, 3}, value, {.dtype = dtype}); }, filled(dtype, {2, 3}, value)});
    factories.push_back({"zeros", [=] { return zeros({0, 3}, {.dtype = dtype}); }, filled(dtype, {0, 3}, 0)});
    factories.push_back({"ones", [=] { return ones({}, {.dtype = dtype}); }, filled(dtype, {}, 1)});
    factories.push_back({"ones_like", [=] { return ones_like(zeros({4}, {.dtype = dtype})); }, filled(dtype, {4}, 1)});
    factories.push_back(
        {"zeros_like", [=] { return zeros_like(ones({4, 1}, {.dtype = dtype})); }, filled(dtype, {4, 1}, 0)});
    factories.push_back(
        {"eye", [=] { return eye(3, {.dtype = dtype}); }, {dtype, {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}}});
    if (dtype == DType::bool_) continue;
    factories.push_back({"arange", [=] { return arange(2, 9, 3, {.dtype = dtype}); }, {dtype, {3}, {2, 5, 8}}});
    factories.push_back({"arange down", [=] { return arange(4, -2, -2, {.dtype = dtype}); }, {dtype, {3}, {4, 2, 0}}});
    factories.push_back({"arange of nothing", [=] { return arange(4, 4, 1, {.dtype = dtype}); }, {dtype, {0}, {}}});
    factories.push_back(
        {"arange of a count", [=] { return arange(Dim(4), {.dtype = dtype}); }, {dtype, {4}, {0, 1, 2, 3}}});
    if (!is_floating(dtype)) continue;
    factories.push_back({"linspace",
                         [=] { return linspace(-1, 2, 7, {.dtype = dtype}); },
                         {dtype, {7}, {-1, -0.5, 0, 0.5, 1, 1.5, 2}},
                         {1, 1, 1}});
    factories.push_back({"linspace of one", [=] { return linspace(3, 5, 1, {.dtype = dtype}); }, {dtype, {1}, {3}}});
    factories.push_back({"linspace of two", [=] { return linspace(3, 5, 2, {.dtype = dtype}); }, {dtype, {2}, {3, 5}}});
  }
  for (const Factory& factory : factories)
    for (const Mode& mode : modes()) {
      INFO(factory.name << " " << std::string(name(factory.want.dtype)) << ", " << mode.name);
      CHECK(difference_of([&] { return run_in(mode, [&](const Inputs&) { return factory.run(); }, {}); }, factory.want,
                          factory.tolerance) == "");
    }
}

TEST_CASE("op table: tensors from nothing as large as an argument") {
  for (DType dtype : {DType::i32, DType::i64, DType::f32, DType::f64}) {
    check_row({"arange " + std::string(name(dtype)),
               [dtype](const Inputs& in) { return arange(in[0].size(0), {.dtype = dtype}) * 2 + 1; },
               [dtype](const Arrays& in) {
                 Array out = filled(dtype, {size(in[0], 0)}, 0);
                 for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] = 2 * static_cast<double>(i) + 1;
                 return out;
               },
               {{{n}, DType::f32}}});
    check_row({"eye and full " + std::string(name(dtype)),
               [dtype](const Inputs& in) {
                 return eye(in[0].size(0), {.dtype = dtype}) + full({in[0].size(0), 1}, 2, {.dtype = dtype});
               },
               [dtype](const Arrays& in) {
                 Array out = filled(dtype, {size(in[0], 0), size(in[0], 0)}, 2);
                 for (std::int64_t i = 0; i < size(in[0], 0); ++i)
                   out.data[static_cast<std::size_t>(i * size(in[0], 0) + i)] = 3;
                 return out;
               },
               {{{n}, DType::f32}}});
  }
}

TEST_CASE("op table: bounds of slices and positions against an extent that changes") {
  // Each size is right by itself: bounds are clipped or refused for it, whatever the function was compiled for before.
  struct Bound {
    const char* name;
    Tensor (*run)(const Inputs&);
    std::int64_t (*start)(std::int64_t), (*stop)(std::int64_t);  // of extent n; stop below start: an error
  };
  const Bound bounds[] = {
      {"x(slice(3, 9))", [](const Inputs& in) { return in[0](slice(3, 9)); },
       [](std::int64_t k) { return std::min<std::int64_t>(3, k); },
       [](std::int64_t k) { return std::min<std::int64_t>(9, k); }},
      {"x(slice(-5))", [](const Inputs& in) { return in[0](slice(-5)); },
       [](std::int64_t k) { return at_least_0(k - 5); }, [](std::int64_t k) { return k; }},
      {"x(slice(0, -5))", [](const Inputs& in) { return in[0](slice(0, -5)); },
       [](std::int64_t) { return std::int64_t{0}; }, [](std::int64_t k) { return at_least_0(k - 5); }},
      {"x(slice(3, -3))", [](const Inputs& in) { return in[0](slice(3, -3)); },
       [](std::int64_t k) { return std::min<std::int64_t>(3, k); },
       [](std::int64_t k) { return std::max(std::min<std::int64_t>(3, k), k - 3); }},
      {"x(slice(size - 6, size - 1))",
       [](const Inputs& in) { return in[0](slice(in[0].size(0) - 6, in[0].size(0) - 1)); },
       [](std::int64_t k) { return k < 6 ? at_least_0(2 * k - 6) : k - 6; },
       [](std::int64_t k) { return std::max(k - 1, k < 6 ? at_least_0(2 * k - 6) : std::int64_t{0}); }},
      {"x(slice(0, size + 4))", [](const Inputs& in) { return in[0](slice(0, in[0].size(0) + 4)); },
       [](std::int64_t) { return std::int64_t{0}; }, [](std::int64_t k) { return k; }},
      {"x(4)", [](const Inputs& in) { return unsqueeze(in[0](4), 0); }, [](std::int64_t) { return std::int64_t{4}; },
       [](std::int64_t k) { return std::int64_t{k > 4 ? 5 : -1}; }},
      {"x(-4)", [](const Inputs& in) { return unsqueeze(in[0](-4), 0); }, [](std::int64_t k) { return k - 4; },
       [](std::int64_t k) { return k >= 4 ? k - 3 : -1 - k; }},
      {"x(size - 4)", [](const Inputs& in) { return unsqueeze(in[0](in[0].size(0) - 4), 0); },
       [](std::int64_t k) { return k < 4 ? 2 * k - 4 : k - 4; },
       [](std::int64_t k) { return k < 4 ? (2 * k - 4 >= 0 ? 2 * k - 3 : -9) : k - 3; }},
  };
  for (const Bound& bound : bounds)
    for (jit::Dynamic dynamic : {jit::Dynamic::automatic, jit::Dynamic::always})
      for (const Mode& mode : modes()) {
        if (mode.backend == nullptr) continue;
        const auto function = compiled(bound.run, mode, dynamic);
        for (std::int64_t extent : {12, 11, 4, 3, 20, 5, 2, 6}) {
          INFO(bound.name << ", extent " << extent << ", " << mode.name
                          << (dynamic == jit::Dynamic::always ? ", always dynamic" : ""));
          const Arrays in = make_inputs({{{extent, 3}, DType::f32}}, 0);
          const std::int64_t start = bound.start(extent), stop = bound.stop(extent);
          if (stop < start) {
            CHECK_THROWS_AS(function(tensors(in)), IndexError);
            CHECK_THROWS_AS(bound.run(tensors(in)), IndexError);
          } else {
            const Array want =
                gathered(in[0], {stop - start, 3}, [&](Extents at) { return Extents{at[0] + start, at[1]}; });
            CHECK(difference_of([&] { return function(tensors(in)); }, want, oracle::exact) == "");
            CHECK(difference_of([&] { return bound.run(tensors(in)); }, want, oracle::exact) == "");
          }
        }
      }
}

TEST_CASE("op table: roll by any distance of an extent that changes") {
  for (std::int64_t shift : {1, 5, 13, -2, -7, -30})
    for (const Mode& mode : modes()) {
      if (mode.backend == nullptr) continue;
      const auto function = compiled([shift](const Inputs& in) { return roll(in[0], shift, 0); }, mode);
      for (std::int64_t extent : {12, 5, 4, 13, 7, 2, 31}) {
        INFO("roll by " << shift << ", extent " << extent << ", " << mode.name);
        const Arrays in = make_inputs({{{extent, 3}, DType::f32}}, 0);
        const Array want = gathered(in[0], in[0].extents, [&](Extents at) {
          return Extents{(at[0] - shift % extent + 2 * extent) % extent, at[1]};
        });
        CHECK(difference_of([&] { return function(tensors(in)); }, want, oracle::exact) == "");
      }
      CHECK(function.stats().compiles <= 4);
    }
}
