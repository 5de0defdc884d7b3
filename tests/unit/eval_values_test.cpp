// eval of several values, and of structs, tuples and containers that hold tensors.
#include "catch.hpp"
#include "checks.hpp"

#include <sinter/sinter.hpp>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
struct State {
  Tensor position, velocity;
  int steps = 3;
};
/// An aggregate with a base, which is a list for whoever takes spans.
struct List : std::vector<Tensor> {};
}  // namespace

TEST_CASE("eval of several values makes all of them ready, and nothing else") {
  Tensor a = ones({3}) * 2, b = ones({3}) + 1, c = exp(a), d = a * 4, apart = a - 1;
  eval(a, b);
  CHECK((a.is_ready() && b.is_ready()));
  CHECK(!c.is_ready());
  eval(a + 5, c, d);
  CHECK((c.is_ready() && d.is_ready()));
  CHECK(!apart.is_ready());
  CHECK(floats(d) == std::vector<float>{8, 8, 8});
}

TEST_CASE("eval of what holds tensors") {
  Tensor a = arange(3, {.dtype = DType::f32});
  const State state{a + 1, a * 3};
  eval(state);
  CHECK((state.position.is_ready() && state.velocity.is_ready()));

  std::pair nested{Tensor(a + 2), State{a + 3, a + 4}};
  eval(nested);
  CHECK((nested.first.is_ready() && nested.second.velocity.is_ready()));

  std::vector<Tensor> list{a + 5, a + 6};
  std::array<Tensor, 2> pair{a + 7, a + 8};
  std::map<std::string, Tensor> named{{"w", a + 9}};
  std::optional<Tensor> perhaps = a + 10, none;
  eval(list);
  eval(pair, named, perhaps);
  eval(none);
  CHECK((list[1].is_ready() && pair[1].is_ready() && named.at("w").is_ready() && perhaps->is_ready()));

  List derived;
  derived.push_back(a + 12);
  eval(derived);
  CHECK(derived[0].is_ready());
  derived.push_back(a + 13);
  eval(derived, state);
  CHECK(derived[1].is_ready());

  Variable slot(a + 11, "slot");
  eval(slot, state);
  CHECK(slot.value().is_ready());
  const auto step = jit::compile([](const State& s) { return std::tuple{s.position * 2, s.velocity}; });
  eval(step(state));
}
