// Fuzzing of functions as users write them: random functions called with arguments of several C++ types, of several
// sizes (0 among them), with Variables that coincide with captured ones or do not, in every way there is of calling;
// compared with the same functions run uncompiled, on twins of the Variables and without regions. Places that overlap
// what a call reads are refused, and leave everything as it was.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../plan_harness.hpp"
#include "fuzz_loop.hpp"
#include "random_function.hpp"

#include <sinter/jit/backends.hpp>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <tuple>

using namespace sinter_test;

namespace {

using oracle::Array;
using Arrays = std::vector<Array>;
using Tensors = std::vector<Tensor>;

// Arguments that are equal leaf by leaf, and the results that belong to them.

struct Apples {
  Tensor u;
  int k = 1;
};
struct Pears {
  Tensor u;
  int k = 1;
};
enum class Colour { red = 1 };
enum class Solid { cube = 1 };
struct Labelled {
  Tensor z;
  int label = 0;
};

/// What is compiled: a function of two tensors (the second in a struct, or made of the first) and two Variables.
struct Called {
  const World* world;
  using Both = std::pair<Tensor, Tensor>;

  Both run(const Tensor& x, const Tensor& other, const Variable& a, const Variable& b) const {
    return FunctionRun(*world, {a, b}).run_all(x, other);
  }

  Tensor operator()(Tensor x, const Variable& a, const Variable& b, const Apples& kind) const {
    return run(x, kind.u + 1, a, b).second;
  }
  Both operator()(Tensor x, const Variable& a, const Variable& b, const Pears& kind) const {
    return run(x, kind.u * 0.5, a, b);
  }
  Tensors operator()(Tensor x, const Variable& a, const Variable& b, Colour) const {
    auto [y, z] = run(x, x + 2, a, b);
    return {y, z};
  }
  std::tuple<Tensor, Tensor> operator()(Tensor x, const Variable& a, const Variable& b, Solid) const {
    auto [y, z] = run(x, x - 2, a, b);
    return {z, y};
  }
  Labelled operator()(Tensor x, const Variable& a, const Variable& b, const std::string&) const {
    return {run(x, sin(x), a, b).second, 7};
  }
  Labelled operator()(Tensor x, const Variable& a, const Variable& b, const std::vector<int>&) const {
    return {run(x, cos(x), a, b).second, 8};
  }
};
constexpr int kinds = 6;
constexpr double rounding = 1e-8;  // what may lie between two ways to compute the same

Tensors tensors_of(const Tensor& x) { return {x}; }
Tensors tensors_of(const Called::Both& x) { return {x.first, x.second}; }
Tensors tensors_of(const std::tuple<Tensor, Tensor>& x) { return {std::get<0>(x), std::get<1>(x)}; }
Tensors tensors_of(const Tensors& x) { return x; }
Tensors tensors_of(const Labelled& x) { return {x.z, full({}, static_cast<double>(x.label))}; }
int places_of(int kind) { return kind == 0 || kind > 3 ? 1 : 2; }

Array array_of(const Tensor& x) {
  eval(x);
  return to_array(*x.impl());
}
Arrays arrays_of(const Tensors& tensors) {
  Arrays arrays;
  for (const Tensor& x : tensors) arrays.push_back(array_of(x));
  return arrays;
}
/// The elements of a tensor, which the caller may be made to write to.
double* memory_of(const Tensor& x) {
  return static_cast<double*>(const_cast<void*>(static_cast<const void*>(x.impl()->data())));
}

std::string type_text(const Array& array) {
  return std::string(name(array.dtype)) + Shape(std::span<const std::int64_t>(array.extents)).text();
}

void require_same(const Arrays& found, const Arrays& wanted, double tolerance, const std::string& what) {
  if (found.size() != wanted.size())
    throw std::runtime_error(what + ": " + std::to_string(found.size()) + " values, not " +
                             std::to_string(wanted.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (const std::string text = difference(found[i], wanted[i], tolerance); !text.empty())
      throw std::runtime_error(what + " " + std::to_string(i) + ", " + type_text(found[i]) + " for " +
                               type_text(wanted[i]) + ": " + text);
}

bool contains(const Block& block, Act act) {
  return std::any_of(block.begin(), block.end(),
                     [&](const Statement& s) { return s.act == act || contains(s.yes, act) || contains(s.no, act); });
}

/// Does the function change a number that regions read?
bool changes_number(const Block& block) {
  return std::any_of(block.begin(), block.end(), [](const Statement& s) {
    return s.act == Act::rescale || (s.act == Act::region && s.number == number_changes) || changes_number(s.yes) ||
           changes_number(s.no);
  });
}

/// Two Variables that a function holds and two that it does not.
struct Side {
  World world;
  std::vector<Variable> variables;

  Side(std::shared_ptr<const RandomFunction> function, const Arrays& values, const Tensor& held,
       const Tensor& weights) {
    for (const Array& array : values) variables.emplace_back(Tensor(to_value(array)));
    world.function = std::move(function);
    for (std::size_t i = 0; i < 2; ++i) world.captured.push_back(variables[i]);
    world.held = held;
    world.weights = weights;
  }
  Arrays values() const {
    Tensors now;
    for (const Variable& v : variables) now.push_back(v.value());
    return arrays_of(now);
  }
  void set(const Arrays& values) const {
    for (std::size_t i = 0; i < values.size(); ++i) variables[i].set(Tensor(to_value(values[i])));
  }
};

class FunctionFuzzer {
 public:
  FunctionFuzzer(std::shared_ptr<const RandomFunction> function, std::uint64_t seed)
      : function_(std::move(function)), random_(seed) {}

  void run() {
    width_ = extent();
    Arrays starts;
    for (int i = 0; i < 4; ++i) starts.push_back(values({width_}));
    held_ = values({width_});
    Array weights = values({width_, width_});
    for (auto& weight : weights.data)
      weight *= 0.25L / static_cast<long double>(width_);  // layers must not blow rounding up
    Side twin(function_, starts, Tensor(to_value(held_)), Tensor(to_value(weights)));
    subject_ = std::make_unique<Side>(function_, starts, Tensor(to_value(held_)), Tensor(to_value(weights)));
    Side& subject = *subject_;
    add_regions(subject.world);
    world_now() = &subject.world;
    may_refuse_ = changes_number(function_->block);
    subject.world.changes_number = may_refuse_;
    reads_ = contains(function_->block, Act::read);
    for (const Block& body : function_->bodies) reads_ |= contains(body, Act::read);
    const auto compiled = jit::compile(Called{&subject.world}, options());
    const int first = draw(kinds), second = draw(2) ? first : draw(kinds);
    const int calls = 4 + draw(5);
    for (int call = 0; call < calls; ++call) {
      const int kind = draw(2) ? first : second;
      history_ += "  call " + std::to_string(call) + " kind " + std::to_string(kind);
      switch (kind) {
        case 0:
          one_call(compiled, subject, twin, kind, [&](const Array& x) { return Apples{Tensor(to_value(x)), 1}; });
          break;
        case 1:
          one_call(compiled, subject, twin, kind, [&](const Array& x) { return Pears{Tensor(to_value(x)), 1}; });
          break;
        case 2: one_call(compiled, subject, twin, kind, [](const Array&) { return Colour::red; }); break;
        case 3: one_call(compiled, subject, twin, kind, [](const Array&) { return Solid::cube; }); break;
        case 4: one_call(compiled, subject, twin, kind, [](const Array&) { return std::string("a"); }); break;
        default: one_call(compiled, subject, twin, kind, [](const Array&) { return std::vector<int>{97}; }); break;
      }
      history_ += "\n";
    }
    require_same(arrays_of(results_), kept_, 0, "an earlier result, later:");
  }
  const std::string& history() const { return history_; }

 private:
  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  std::int64_t extent() {
    constexpr std::int64_t extents[] = {0, 1, 2, 3, 4, 5, 8, 17};
    return extents[draw(std::size(extents))];
  }
  Array values(std::vector<std::int64_t> extents) {
    Array array = Array::zeros(DType::f64, std::move(extents));
    for (auto& x : array.data) x = std::uniform_real_distribution<double>(-2, 2)(random_);
    return array;
  }

  jit::Options options() {
    static const bool is_registered = [] {
      jit::register_backend("hands on",
                            [](const Graph& graph, std::span<const Tensor>) { return jit::compile_graph(graph); });
      return true;
    }();
    jit::Options made;
    made.dynamic = draw(3) == 0 ? jit::Dynamic::always : jit::Dynamic::automatic;
    switch (draw(9)) {
      case 0: made.mode = jit::Mode::reduce_overhead; break;
      case 1:
        if (is_registered && !reads_) made.backend = "hands on";
        break;  // it takes whole graphs
      case 2: made.max_breaks = draw(3), is_exact_ = false; break;
      // A region outside of a trace is a compiled function, for which captured numbers are constants.
      case 3:
        if (!may_refuse_) {
          made.backend = "noop";
          is_exact_ = false;
        }
        break;
      case 4:
        if (!may_refuse_) {
          made.dynamic = jit::Dynamic::never;
          made.recompile_limit = draw(2);
          is_exact_ = false;
        }
        break;
      default: break;
    }
    history_ = "width " + std::to_string(width_) + ", dynamic " + std::to_string(static_cast<int>(made.dynamic)) +
               ", mode " + std::to_string(static_cast<int>(made.mode)) + ", backend '" + made.backend.name() +
               "', max_breaks " + std::to_string(made.max_breaks) + ", recompile_limit " +
               std::to_string(made.recompile_limit) + "\n";
    return made;
  }

  /// What a call is given, and what should come of it.
  struct Case {
    Array x;
    std::size_t a = 0, b = 0;  // which Variables
    Arrays before, after;      // of the Variables
    Arrays results;
    bool fails = false;  // with an error of the user's
  };

  /// What the function makes of these values uncompiled; the Variables' new values come after the results.
  template <class K>
  static Arrays uncompiled(const Side& twin, const Case& now, const K& kind) {
    twin.set(now.before);
    const jit::StanceGuard stance(jit::Stance::force_eager);
    Arrays made = arrays_of(
        tensors_of(Called{&twin.world}(Tensor(to_value(now.x)), twin.variables[now.a], twin.variables[now.b], kind)));
    const Arrays after = twin.values();
    made.insert(made.end(), after.begin(), after.end());
    return made;
  }
  Array nudged(Array array) {
    for (auto& x : array.data) x *= 1 + 1e-13L * (draw(3) - 1);
    return array;
  }
  /// Does the function, uncompiled, blow rounding up by so much, or see ties that rounding decides, that nothing can be
  /// said of its last eight digits?
  template <class K>
  bool blows_rounding_up(Side& twin, const Case& now, const K& kind) {
    const Arrays plainly = uncompiled(twin, now, kind);
    for (int attempt = 0; attempt < 6;
         ++attempt) {  // noise within hides what saturates, and none within keeps exact ties
      Case near = now;
      near.x = nudged(now.x);
      for (Array& value : near.before) value = nudged(value);
      if (attempt % 2 == 1) twin.world.noise = &random_;
      const Arrays moved = uncompiled(twin, near, kind);
      twin.world.noise = nullptr;
      for (std::size_t i = 0; i < plainly.size(); ++i)
        if (!difference(moved[i], plainly[i], rounding).empty()) return true;
    }
    return false;
  }

  template <class Compiled, class MakeKind>
  void one_call(const Compiled& f, const Side& subject, Side& twin, int kind, MakeKind&& make_kind) {
    Case now;
    const std::int64_t n = extent();
    now.x = values({n, width_});
    now.a = static_cast<std::size_t>(draw(4));
    now.b = static_cast<std::size_t>(draw(4));
    now.before = subject.values();
    try {
      now.results = uncompiled(twin, now, make_kind(now.x));
      now.after.assign(now.results.end() - static_cast<std::ptrdiff_t>(twin.variables.size()), now.results.end());
      now.results.resize(now.results.size() - twin.variables.size());
    } catch (const UserError&) { now.fails = true; }
    const int way = draw(6);
    const bool is_eager = draw(8) == 0;
    history_ += ", rows " + std::to_string(n) + ", Variables " + std::to_string(now.a) + " and " +
                std::to_string(now.b) + ", way " + std::to_string(way) + (is_eager ? ", uncompiled" : "");
    std::optional<jit::StanceGuard> stance;
    if (is_eager) stance.emplace(jit::Stance::force_eager);
    if (only_seed()) std::printf("%s\n", history_.c_str()), std::fflush(stdout);
    try {
      call_in_a_way(f, subject, twin, now, way, places_of(kind), is_exact_ && !is_eager, make_kind);
    } catch (const UserError& error) {
      const bool is_refusal =
          may_refuse_ && std::string(error.what()).find("changed between two calls in one trace") != std::string::npos;
      if (!now.fails && !is_refusal) throw;
      require_same(subject.values(), now.before, 0, "after an error, Variable");
      return;
    }
    if (now.fails) throw std::runtime_error("no error");
    require_same(arrays_of({subject.world.held}), {held_}, 0, "the captured Tensor");
  }

  template <class Compiled, class MakeKind>
  void call_in_a_way(const Compiled& f, const Side& subject, Side& twin, const Case& now, int way, int places,
                     bool is_exact, MakeKind&& make_kind) {
    const Variable &a = subject.variables[now.a], &b = subject.variables[now.b];
    const auto kind = make_kind(now.x);
    Tensor x(to_value(now.x));
    const auto check = [&](const Arrays& found, const Arrays& wanted, double tolerance, const std::string& what) {
      const Arrays after = subject.values();
      try {
        require_same(found, wanted, tolerance, what + ", result");
        require_same(after, now.after, rounding, what + ", Variable");
      } catch (const std::runtime_error&) {
        if (tolerance == 0 || !blows_rounding_up(twin, now, kind)) throw;
      }
    };
    if (way >= 4) {  // first of all: nothing may be known of the function yet
      refuse(f, subject, now, x, a, b, kind, places);
      if (!now.fails && draw(2)) return;
    }
    if (way == 3) return check(arrays_of(tensors_of(f(std::move(x), a, b, kind))), now.results, rounding, "donated");
    const Tensors results = tensors_of(f(x, a, b, kind));
    Arrays plainly = arrays_of(results), variables = subject.values();
    check(plainly, now.results, rounding, "plain");
    require_same(arrays_of({x}), {now.x}, 0, "the argument");
    if (draw(2) == 0)
      for (const Tensor& result : results) results_.push_back(result), kept_.push_back(array_of(result));
    if (way < 2) return;
    subject.set(now.before);
    if (reads_) {  // the first call of a path runs lazily after the read, which may round otherwise
      plainly = arrays_of(tensors_of(f(x, a, b, kind)));
      variables = subject.values();
      check(plainly, now.results, rounding, "again");
      subject.set(now.before);
    }
    std::vector<std::vector<double>> memory;
    std::vector<BorrowedMut> targets;
    for (int i = 0; i < places; ++i) {
      const Array& array = now.results[static_cast<std::size_t>(i)];
      memory.emplace_back(static_cast<std::size_t>(array.size()) + 1, -77.0);
      targets.push_back(borrow_mut(memory.back().data(), Shape(std::span<const std::int64_t>(array.extents))));
    }
    f.call_into(targets, x, a, b, kind);
    Arrays found = plainly;  // a label is delivered nowhere
    for (std::size_t i = 0; i < memory.size(); ++i) {
      std::copy_n(memory[i].begin(), found[i].data.size(), found[i].data.begin());
      if (memory[i].back() != -77.0) throw std::runtime_error("written past a place");
    }
    check(found, plainly, is_exact ? 0 : rounding, "into");
    require_same(subject.values(), variables, is_exact ? 0 : rounding, "into, against a plain call: Variable");
    require_same(arrays_of({x}), {now.x}, 0, "into, the argument");
  }

  /// One place overlaps something: the call is refused, and nothing is changed.
  template <class Compiled, class K>
  void refuse(const Compiled& f, const Side& subject, const Case& now, const Tensor& x, const Variable& a,
              const Variable& b, const K& kind, int places) {
    if (now.fails) return;
    std::vector<double> room(2048);
    std::vector<BorrowedMut> targets;
    double* at = room.data();
    for (int i = 0; i < places; ++i) {
      const Array& array = now.results[static_cast<std::size_t>(i)];
      if (array.size() == 0) return;
      targets.push_back(borrow_mut(at, Shape(std::span<const std::int64_t>(array.extents))));
      at += array.size();
    }
    const Tensor values[] = {subject.world.held, subject.variables[0].value(), a.value(), b.value(), x};
    const int victim = draw(6), moved = draw(places);
    BorrowedMut& target = targets[static_cast<std::size_t>(moved)];
    const std::int64_t size = now.results[static_cast<std::size_t>(moved)].size();
    if (victim == 5) {
      if (places < 2) return;
      targets[1].data = static_cast<double*>(targets[0].data) + draw(static_cast<int>(now.results[0].size()));
    } else {
      const std::int64_t spare = now.x.size() == 0 ? -1 : array_of(values[victim]).size() - size;
      if (spare < 0) return;
      target.data = memory_of(values[victim]) + draw(static_cast<int>(spare + 1));
    }
    history_ += ", over " + std::to_string(victim);
    bool is_refused = false;
    try {
      f.call_into(targets, x, a, b, kind);
    } catch (const UserError& error) {
      is_refused = std::string(error.what()).find("overlap") != std::string::npos || may_refuse_;
      if (!is_refused) throw;
    }
    if (!is_refused) throw std::runtime_error("a place over victim " + std::to_string(victim) + " was accepted");
    require_same(subject.values(), now.before, 0, "refused, Variable");
    require_same(arrays_of({x, subject.world.held}), {now.x, held_}, 0, "refused, argument or captured Tensor");
  }

  std::shared_ptr<const RandomFunction> function_;
  std::unique_ptr<Side> subject_;
  std::mt19937_64 random_;
  std::int64_t width_ = 1;
  Array held_;
  bool may_refuse_ = false, reads_ = false, is_exact_ = true;
  Tensors results_;
  Arrays kept_;
  std::string history_;
};

std::string failure(const RandomFunction& function, std::uint64_t seed) {
  auto fuzzer = std::make_unique<FunctionFuzzer>(std::make_shared<const RandomFunction>(function), seed);
  try {
    fuzzer->run();
  } catch (const std::exception& error) {
    return std::string(error.what()) + "\n" +
           fuzzer.release()->history();  // what a fault left may not bear destruction
  }
  return "";
}

/// Takes out every statement that the failure can do without.
bool shrink_block(RandomFunction& function, Block& block, const std::function<bool()>& still_fails) {
  bool is_smaller = false;
  for (std::size_t i = block.size(); i-- > 0;) {
    Block before = block;
    block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
    if (!block.empty() && still_fails()) {
      is_smaller = true;
      continue;
    }
    block = std::move(before);
    if (!block[i].yes.empty()) is_smaller |= shrink_block(function, block[i].yes, still_fails);
    if (!block[i].no.empty()) is_smaller |= shrink_block(function, block[i].no, still_fails);
  }
  return is_smaller;
}
RandomFunction shrunk(RandomFunction function, std::uint64_t seed) {
  const auto still_fails = [&] { return !failure(function, seed).empty(); };
  for (bool is_smaller = true; is_smaller;) {
    is_smaller = shrink_block(function, function.block, still_fails);
    for (Block& body : function.bodies) is_smaller |= shrink_block(function, body, still_fails);
  }
  return function;
}

}  // namespace

TEST_CASE("random functions agree with themselves uncompiled") {
  const LogCapture quiet("");
  const std::uint64_t functions = fuzz_loop(1, [](std::uint64_t seed) {
    INFO("seed " << seed);  // printed on a crash, too
    const RandomFunction function = FunctionGenerator(seed).generate();
    if (only_seed()) std::printf("%s", text_of(function).c_str());  // before a crash
    const std::string what = failure(function, seed);
    if (what.empty()) return;
    const RandomFunction small = shrunk(function, seed);
    FAIL("seed " << seed << ": " << what << "\nshrunk: " << failure(small, seed) << "\n" << text_of(small));
  });
  std::printf("%d functions agree\n", static_cast<int>(functions));
  CHECK(functions > 0);
}
