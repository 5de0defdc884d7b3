// Fuzzing of calls: random programs compiled once and called with arguments of every layout, donated or kept, into
// memory of the caller, with results held over several calls, and as steps that assign Variables; all compared with the
// oracle. What a call must not write to (arguments, other handles, held results, old values of Variables) is looked at
// afterwards.
#include "../catch.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"
#include "random_program.hpp"

#include <sinter/expr/capture.hpp>
#include <sinter/sinter.hpp>

#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using oracle::Array;
using Arrays = std::vector<Array>;
using Tensors = std::vector<Tensor>;

constexpr int calls_of_a_program = 5;

Tensors replayed(const Graph& graph, const Tensors& inputs) {
  std::vector<Ref<TensorImpl>> values;
  for (const Tensor& x : inputs) values.push_back(x.impl());
  Tensors outputs;
  for (auto& value : replay(graph, values)) outputs.emplace_back(std::move(value));
  return outputs;
}

double tolerance(DType dtype) { return dtype == DType::f32 ? 2e-3 : dtype == DType::f64 ? 1e-9 : 0; }

void require_same(const Tensor& found, const Array& wanted, const std::string& what) {
  if (const std::string text = difference(to_array(*found.impl()), wanted, 0); !text.empty())
    throw std::runtime_error(what + ": " + text);
}

// Layouts

Array reversed(const Array& array) {
  Array out = Array::zeros(array.dtype, {array.extents.rbegin(), array.extents.rend()});
  std::size_t flat = 0;
  oracle::for_each_index(array.extents, [&](const oracle::Extents& index) {
    out.data[oracle::flat_index(out.extents, {index.rbegin(), index.rend()})] = array.data[flat++];
  });
  return out;
}

/// Element i of the first axis at offset + step * i; numbers that spoil every result between them.
Array spread(const Array& array, std::int64_t offset, std::int64_t step) {
  Array out = array;
  out.extents[0] = offset + step * array.extents[0] + 1;
  out.data.assign(static_cast<std::size_t>(out.size()), 1e30L);
  const std::int64_t row = array.extents[0] == 0 ? 0 : array.size() / array.extents[0];
  for (std::int64_t i = 0; i < array.size(); ++i)
    out.data[static_cast<std::size_t>((offset + step * (i / row)) * row + i % row)] =
        array.data[static_cast<std::size_t>(i)];
  return out;
}

Tensor reversed(const Tensor& x) {
  switch (x.rank()) {
    case 1: return x;
    case 2: return permute(x, {1, 0});
    case 3: return permute(x, {2, 1, 0});
    default: return permute(x, {3, 2, 1, 0});
  }
}

/// A ready Tensor of these elements, dense or a view of other memory. May change the elements (equal along a stretched
/// axis).
Tensor laid_out(Array& array, int layout) {
  if (array.extents.empty() || array.extents.size() > 4 || (layout > 4 && array.extents[0] == 0)) layout = 0;
  const std::int64_t rows = array.extents.empty() ? 1 : array.extents[0];
  Tensor x;
  switch (layout) {
    case 0: x = Tensor(to_value(array)); break;
    case 1: x = Tensor(to_value(spread(array, 1, 1)))(slice(1, rows + 1)); break;
    case 2: x = Tensor(to_value(spread(array, 1, 2)))(slice(1, 2 * rows + 1, 2)); break;
    case 3: x = reversed(Tensor(to_value(reversed(array)))); break;
    case 4: {
      const Array other = reversed(array);
      x = reversed(Tensor(to_value(spread(other, 2, 3)))(slice(2, 3 * other.extents[0] + 2, 3)));
      break;
    }
    default: {
      const std::size_t row = array.data.size() / static_cast<std::size_t>(rows);
      for (std::size_t i = row; i < array.data.size(); ++i) array.data[i] = array.data[i - row];
      Array first = array;
      first.extents[0] = 1;
      first.data.resize(row);
      x = expand(Tensor(to_value(first)), Shape(std::span<const std::int64_t>(array.extents)));
    }
  }
  eval(x);
  return x;
}

class CallFuzzer {
 public:
  CallFuzzer(const Graph& graph, std::uint64_t seed) : graph_(graph), random_(seed) {}

  void run() {
    jit::Options options;
    if (draw(2) == 0) options.mode = jit::Mode::reduce_overhead;
    call_function(options);
    step_variables(options);
  }

 private:
  struct Held {
    Tensor value;
    Array now;
    std::string what;
  };

  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  void look_at_held() {
    for (const Held& held : held_) require_same(held.value, held.now, held.what + ", later");
    held_.clear();
  }

  /// What a call was given, and what should come of it.
  struct Case {
    std::string name;
    Arrays inputs, wanted, plainly;  // `plainly`: what the plainest call gave, if there was one
  };
  static Arrays arrays_of(const Tensors& results) {
    Arrays arrays;
    for (const Tensor& x : results) arrays.push_back(to_array(*x.impl()));
    return arrays;
  }
  void require_near(const Array& found, const Case& test_case, std::size_t j) {
    if (!test_case.plainly.empty())  // one version ran: bit for bit, whatever rounding decides
      if (const std::string text = difference(found, test_case.plainly[j], 0); !text.empty())
        throw std::runtime_error(test_case.name + ", output " + std::to_string(j) + ", against a plain call: " + text);
    const Array& wanted = test_case.wanted[j];
    const std::string text = difference(found, wanted, tolerance(wanted.dtype));
    if (text.empty() || is_at_a_jump(graph_, test_case.inputs, wanted, j, tolerance(wanted.dtype))) return;
    throw std::runtime_error(test_case.name + ", output " + std::to_string(j) + ": " + text);
  }

  void call_function(const jit::Options& options) {
    auto f = jit::compile([this](const Tensors& x) { return replayed(graph_, x); }, options);
    // One layout for each input through all calls, mostly: each kind of layouts is another version.
    std::vector<int> layouts;
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) layouts.push_back(draw(2) ? 0 : draw(6));
    for (int call = 0; call < calls_of_a_program; ++call) {
      Arrays arrays = random_inputs(graph_, {}, static_cast<unsigned>(random_()));
      Tensors inputs;
      for (std::size_t i = 0; i < arrays.size(); ++i) inputs.push_back(laid_out(arrays[i], layouts[i]));
      Case test_case{"call " + std::to_string(call), arrays, oracle::evaluate(graph_, arrays), {}};
      test_case.plainly = arrays_of(f(inputs));
      switch (draw(3)) {
        case 0: {
          compare(f(inputs), test_case);
          require_unchanged(inputs, test_case);
          break;
        }
        case 1: donate(f, std::move(inputs), test_case); break;
        default: into(f, inputs, test_case); break;
      }
    }
    look_at_held();
  }

  void compare(const Tensors& results, const Case& test_case) {
    for (std::size_t j = 0; j < results.size(); ++j) {
      const Array now = to_array(*results[j].impl());
      require_near(now, test_case, j);
      if (draw(2) == 0) held_.push_back({results[j], now, test_case.name + ", output " + std::to_string(j)});
    }
  }
  void require_unchanged(const Tensors& inputs, const Case& test_case) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      require_same(inputs[i], test_case.inputs[i], test_case.name + ", input " + std::to_string(i) + " afterwards");
  }

  template <class F>
  void donate(const F& f, Tensors inputs, Case test_case) {
    test_case.name += ", donated";
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (draw(3) == 0)
        held_.push_back({inputs[i], test_case.inputs[i], test_case.name + ", a handle of input " + std::to_string(i)});
    compare(f(std::move(inputs)), test_case);
  }

  template <class F>
  void into(const F& f, const Tensors& inputs, Case test_case) {
    test_case.name += ", into";
    std::vector<std::vector<double>> places;  // aligned for every dtype
    std::vector<BorrowedMut> targets;
    for (const Array& array : test_case.wanted) {
      const Shape shape(std::span<const std::int64_t>(array.extents));
      auto& place = places.emplace_back(static_cast<std::size_t>(array.size()) + 1, -77.0);
      visit_dtype(array.dtype, [&](auto tag) {
        targets.push_back(borrow_mut(reinterpret_cast<decltype(tag)*>(place.data()), shape));
      });
    }
    f.call_into(targets, inputs);
    for (std::size_t j = 0; j < places.size(); ++j) {
      Array found = Array::zeros(test_case.wanted[j].dtype, test_case.wanted[j].extents);
      visit_dtype(found.dtype, [&](auto tag) {
        const auto* data = reinterpret_cast<const decltype(tag)*>(places[j].data());
        for (std::size_t k = 0; k < found.data.size(); ++k) found.data[k] = static_cast<oracle::Number>(data[k]);
      });
      require_near(found, test_case, j);
      if (places[j].back() != -77.0) throw std::runtime_error(test_case.name + ": written past the place");
    }
    require_unchanged(inputs, test_case);
  }

  /// The inputs are Variables; results of their types become their values.
  void step_variables(const jit::Options& options) {
    const auto inputs = graph_.inputs(), outputs = graph_.outputs();
    std::vector<int> given(inputs.size(), -1);  // the output that a Variable becomes
    for (std::size_t j = 0; j < outputs.size(); ++j)
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (given[i] < 0 && identical(graph_.type(outputs[j]), graph_.type(inputs[i])) && draw(3) > 0) {
          given[i] = static_cast<int>(j);
          break;
        }
    Arrays state = random_inputs(graph_, {}, static_cast<unsigned>(random_()));
    std::vector<Variable> variables;
    for (Array& array : state) variables.emplace_back(laid_out(array, draw(3) ? 0 : draw(6)));
    const bool has_results = draw(2) == 0;
    auto step = jit::compile(
        [this, variables, given, has_results] {
          Tensors values;
          for (const Variable& v : variables) values.push_back(v);
          const Tensors results = replayed(graph_, values);
          for (std::size_t i = 0; i < variables.size(); ++i)
            if (given[i] >= 0) variables[i].set(results[static_cast<std::size_t>(given[i])]);
          return has_results ? results : Tensors{results[0]};
        },
        options);
    for (int call = 0; call < calls_of_a_program; ++call) {
      const Case test_case{"step " + std::to_string(call), state, oracle::evaluate(graph_, state), {}};
      for (std::size_t i = 0; i < variables.size(); ++i)
        if (draw(4) == 0)
          held_.push_back(
              {variables[i].value(), state[i], test_case.name + ", the old value of Variable " + std::to_string(i)});
      compare(step(), test_case);
      for (std::size_t i = 0; i < variables.size(); ++i) {
        const Array now = to_array(*variables[i].value().impl());
        if (given[i] >= 0) require_near(now, test_case, static_cast<std::size_t>(given[i]));
        else require_same(variables[i].value(), state[i], test_case.name + ", Variable " + std::to_string(i));
        state[i] = now;  // so that rounding does not grow from step to step
      }
    }
    look_at_held();
  }

  const Graph& graph_;
  std::mt19937_64 random_;
  std::vector<Held> held_;
};

}  // namespace

TEST_CASE("random programs agree however they are called") {
  int programs = 0;
  fuzz_loop(1, [&](std::uint64_t seed) {
    const Graph graph = ProgramGenerator(seed).generate();
    if (!graph.symbols().empty()) return;  // its attributes name symbols of its own
    try {
      CallFuzzer(graph, seed).run();
    } catch (const std::exception& error) { FAIL("seed " << seed << ": " << error.what() << "\n" << graph.text()); }
    ++programs;
  });
  std::printf("%d programs agree\n", programs);
  CHECK((programs > 0 || only_seed()));
}
