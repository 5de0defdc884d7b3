// Random functions as users write them: C++ code that is traced, with regions, reads, updates of Variables, gradients,
// maps and loops nested in each other. ProgramGenerator makes graphs; what is made here exists only while a function
// runs, such as which Variables coincide and what a captured number is at a call. All values are (n, m); n changes from
// call to call.
#pragma once

#include <sinter/sinter.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sinter_test {

using namespace sinter;

enum class Act : std::uint8_t {
  mix,
  soft,
  turn,
  shift,
  product,
  spread,
  normal,
  mask,
  peak,
  layers,  // of tensors alone
  row,
  scaled,
  region,
  grad,
  map,
  loop,  // of what the function reaches, and of blocks
  update,
  rescale,
  read,  // not within maps and loops
  count
};
constexpr const char* act_names[] = {"mix",  "soft", "turn",   "shift",   "product", "spread", "normal",
                                     "mask", "peak", "layers", "row",     "scaled",  "region", "grad",
                                     "map",  "loop", "update", "rescale", "read"};

struct Statement {
  Act act = Act::mix;
  int a = 0, b = 0;   // operands: how many values ago they were made
  int which = 0;      // a choice that depends on the act
  double number = 0;  // a threshold
  std::vector<Statement> yes, no;
};
using Block = std::vector<Statement>;
constexpr double number_changes = 2;  // of a region: the number it reads changes between two calls

struct RandomFunction {
  std::vector<Block> bodies;  // of regions; each calls only those before it, and the first ones neither read nor update
  int pure_bodies = 1;
  Block block;
  int end = 0;  // where the captured Tensor is used at last: directly, in a region, in a gradient
};

class FunctionGenerator {
 public:
  explicit FunctionGenerator(std::uint64_t seed) : random_(seed) {}

  RandomFunction generate() {
    const int bodies = 1 + draw(3);
    function_.pure_bodies = 1 + draw(2);
    for (int i = 0; i < bodies; ++i)
      function_.bodies.push_back(body(i < function_.pure_bodies ? Place::pure : Place::region));
    function_.pure_bodies = std::min(function_.pure_bodies, bodies);
    function_.block = block(2 + draw(7), Place::top, 2);
    function_.end = draw(3);
    return function_;
  }

 private:
  enum class Place : std::uint8_t {
    top,
    region,
    pure
  };  // what a block may do: everything; not rescale; no effect at all

  int draw(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }

  Block block(int length, Place place, int depth) {
    Block block;
    for (int i = 0; i < length; ++i) block.push_back(statement(place, depth));
    return block;
  }
  /// Most bodies do what calls may not share, too.
  Block body(Place place) {
    Block made = block(1 + draw(4), place, 1);
    Statement first = made.front();
    switch (draw(4)) {
      case 0: first.act = Act::scaled; break;
      case 1:
        if (place != Place::pure) first.act = Act::update;
        break;
      case 2:
        if (place == Place::pure) return made;
        nest(first, Act::read, place, 1);
        first.no = block(1 + draw(2), place, 0);
        break;
      default: return made;
    }
    made.insert(made.begin() + draw(2), first);
    return made;
  }
  Statement statement(Place place, int depth) {
    constexpr Act simple[] = {Act::mix,    Act::soft,   Act::turn, Act::shift, Act::product,
                              Act::spread, Act::normal, Act::mask, Act::row,   Act::scaled};
    Statement made;
    made.a = draw(3);
    made.b = draw(4);
    made.which = draw(1024);
    made.number = 0.1371 * (draw(21) - 10);
    made.act = simple[draw(std::size(simple))];
    switch (draw(16)) {
      case 0:
      case 1:
      case 2:
        if (!function_.bodies.empty()) made.act = Act::region;
        if (place == Place::pure) made.which = made.which / 4 * 4;  // see body()
        break;
      case 3:
      case 4:
        if (depth > 0) nest(made, Act::grad, place, depth);
        break;
      case 5:
        if (depth > 0) nest(made, Act::map, Place::pure, depth);
        break;
      case 6:
        if (depth > 0) nest(made, Act::loop, Place::pure, depth);
        break;
      case 7:
      case 8:
        if (place != Place::pure) made.act = Act::update;
        break;
      case 9:
        if (place == Place::top) made.act = Act::rescale;
        break;
      case 12:
      case 13:
        if (place != Place::top) break;
        made.act = Act::region;
        made.which |= 32 + 512;
        made.number = draw(2) ? number_changes : 0;
        break;
      case 10:
        if (place == Place::pure || depth == 0) break;
        nest(made, Act::read, place, depth);
        made.no = block(1 + draw(2), place, depth - 1);
        break;
      case 11: made.act = draw(4) == 0 ? Act::peak : Act::layers; break;
      default: break;
    }
    return made;
  }
  void nest(Statement& made, Act act, Place place, int depth) {
    made.act = act;
    made.yes = block(1 + draw(3), act == Act::grad && place == Place::top ? Place::region : place, depth - 1);
  }

  std::mt19937_64 random_;
  RandomFunction function_;
};

inline void append_text(std::string& out, const Block& block, const std::string& indent) {
  for (const Statement& s : block) {
    out += indent + act_names[static_cast<int>(s.act)] + "(" + std::to_string(s.a) + ", " + std::to_string(s.b) +
           ", which " + std::to_string(s.which) + ", " + std::to_string(s.number) + ")\n";
    append_text(out, s.yes, indent + "  | ");
    append_text(out, s.no, indent + "  else ");
  }
}
inline std::string text_of(const RandomFunction& function) {
  std::string out =
      "end " + std::to_string(function.end) + ", " + std::to_string(function.pure_bodies) + " pure bodies\n";
  for (std::size_t i = 0; i < function.bodies.size(); ++i) {
    out += "body " + std::to_string(i) + ":\n";
    append_text(out, function.bodies[i], "  ");
  }
  out += "function:\n";
  append_text(out, function.block, "  ");
  return out;
}

struct World;

/// A body as a function with captures: what it reads through `world` may change between two calls.
struct HoldingBody {
  const World* world = nullptr;
  int body = 0;  // -1: adds the captured Tensor
  Tensor operator()(const Tensor& x, const Tensor& y, const Variable& given) const;
};
/// As a function without captures, which reaches the world by a global.
enum class BodyNumber : int {};  // part of what the region is specialised to
struct BareBody {
  Tensor operator()(const Tensor& x, const Tensor& y, const Variable& given, BodyNumber body) const;
};
inline const World*& world_now() {
  static const World* world = nullptr;
  return world;
}

/// What a function reaches besides its arguments.
struct World {
  std::shared_ptr<const RandomFunction> function;
  std::vector<Variable> captured;                               // (m), two of them
  Tensor held, weights;                                         // (m), (m, m)
  std::shared_ptr<double> scale = std::make_shared<double>(1);  // a C++ number that the function sets as it runs
  std::mt19937_64* noise = nullptr;  // if given, every value is moved by a few of its last digits
  bool changes_number = false;
  bool has_regions = false;  // or bodies are called as they are
  std::vector<jit::Region<HoldingBody>> regions;
  std::vector<jit::Region<BareBody>> bare;
};

/// One run of a block.
class FunctionRun {
 public:
  FunctionRun(const World& world, std::vector<Variable> given) : world_(world), given_(std::move(given)) {}

  Tensor run(const Block& block, std::vector<Tensor> values) const {
    for (const Statement& s : block) {
      Tensor made = apply(s, values[values.size() - 1 - static_cast<std::size_t>(s.a) % values.size()],
                          values[values.size() - 1 - static_cast<std::size_t>(s.b) % values.size()]);
      values.push_back(world_.noise != nullptr ? made * near_one(made.shape()) : std::move(made));
    }
    return values.back();
  }

  /// The whole function: an (n, m) and an (m).
  std::pair<Tensor, Tensor> run_all(const Tensor& x, const Tensor& other) const {
    *world_.scale = 1;
    const Tensor y = run(world_.function->block, {x, other});
    Tensor z = tanh(sum(y, 0)) + world_.captured[0];
    switch (world_.function->end) {
      case 0: return {y, z + world_.held};
      case 1:
        return {y, world_.has_regions ? world_.regions.back()(z, z, world_.captured[0]) : Tensor(z + world_.held)};
      default: return {y, z + jit::grad([this](Tensor q) { return sum(sin(q) * world_.held); })(z)};
    }
  }

 private:
  Tensor near_one(const Shape& shape) const {
    std::vector<double> factors(static_cast<std::size_t>(shape.numel().value()));
    for (double& factor : factors) factor = 1 + 1e-13 * (static_cast<double>((*world_.noise)() % 3) - 1);
    return reshape(copy_of(factors), shape);
  }
  Variable variable(int which) const {
    const auto all = world_.captured.size() + given_.size(), at = static_cast<std::size_t>(which) % all;
    return at < world_.captured.size() ? world_.captured[at] : given_[at - world_.captured.size()];
  }
  Tensor apply(const Statement& s, const Tensor& a, const Tensor& b) const {
    const Dim n = a.size(0), m = a.size(1);
    const int axis = s.which % 2;
    switch (s.act) {
      case Act::mix: return tanh(a * b + 0.25);
      case Act::soft: return softmax(a, axis) - b * 0.5;
      case Act::turn: return transpose(softmax(transpose(a, 0, 1), axis) * cos(transpose(b, 0, 1)), 0, 1);
      case Act::shift: return concat({a, b}, 0)(slice(n / 2, n / 2 + n));
      case Act::product: return tanh(matmul(a, tanh(matmul(transpose(a, 0, 1), b))));
      case Act::spread: return tanh(expand(sum(a, axis, keepdim), {n, m}) * 0.25 + b);
      case Act::normal: return tanh(layer_norm(a, {m}, world_.held, world_.held));
      case Act::mask: return where(a > s.number, a, b);
      case Act::peak: return tanh(a - amax(b, axis, keepdim));
      case Act::layers: {
        Tensor h = a;
        for (int i = 0; i < 4 + s.which % 4; ++i) h = tanh(matmul(h, world_.weights) + b);
        return h;
      }
      case Act::row: return tanh(a + variable(s.which));
      case Act::scaled: return tanh(a * *world_.scale);
      case Act::region: return call_region(s, a, b);
      case Act::grad: return gradient(s, a, b);
      case Act::map: {
        const auto both = [](const Tensor& first, const Tensor& second) {
          return concat({unsqueeze(first, 0), unsqueeze(second, 0)}, 0);
        };
        const auto mapped = jit::vmap([&](Tensor u, Tensor w) { return run(s.yes, {w, u}); });
        return sum(mapped(both(a, b), both(b, a)), 0) * 0.5;
      }
      case Act::loop: return jit::fori_loop(0, s.which % 4, [&](Scalar, Tensor h) { return run(s.yes, {b, h}); }, a);
      case Act::update:
        if (s.which % 8 < 5) variable(s.which / 8) += tanh(sum(a, 0)) * 0.125;
        else
          variable(s.which / 8)
              .set(tanh(variable(s.which / 8) + variable(s.which / 32) +
                        sum(b, 0)));  // reads it: what a call replaces unread, nobody needs
        return a;
      case Act::rescale: *world_.scale = 0.5 * (1 + s.which % 3); return a;
      case Act::read:
        if (item(sum(a)) > s.number) return run(s.yes, {b, a});
        return run(s.no, {b, a});
      case Act::count: break;
    }
    throw std::logic_error("no such act");
  }
  Tensor gradient(const Statement& s, const Tensor& a, const Tensor& b) const {
    const auto loss = [&](Tensor y) { return sum(run(s.yes, {b, y})); };
    if (s.which % 3 > 0) return tanh(jit::grad(loss)(a));
    auto [value, slope] = jit::value_and_grad(loss)(a);
    return tanh(slope + value);
  }
  /// Pure blocks have a `which` that is a multiple of 4, others any: those call every body.
  Tensor body(const Statement& s, const Tensor& x, const Tensor& y, int call = 0) const {
    const auto known = static_cast<int>(world_.function->bodies.size()) - 1;
    const int bodies = s.which % 4 == 0 ? std::min(world_.function->pure_bodies - 1, known) + 1 : known + 1;
    const int at = std::min(s.which / 64 % bodies, limit_ - 1);
    if (at < 0) return tanh(x + y);
    const Variable given = variable(s.which / 16 + call);
    if (!world_.has_regions) return called(world_, at, x, y, given);
    // Without captures, a change is seen for certain only at the second call.
    const bool may_be_bare = !world_.changes_number || s.number == number_changes || limit_ < 1000;
    if ((s.which & 8) != 0 && may_be_bare) return world_.bare[0](x, y, given, BodyNumber{at});
    return world_.regions[static_cast<std::size_t>(at)](x, y, given);
  }
  /// One or several calls, for these rows, more, or fewer; what is read in them and what they are given changes.
  Tensor call_region(const Statement& s, const Tensor& x, const Tensor& y) const {
    const Dim n = x.size(0), half = n / 2;
    Tensor out;
    switch (s.which / 256 % 4) {
      case 0: out = body(s, concat({x, y}, 0), concat({y, x}, 0))(slice(0, n)); break;
      case 1: out = concat({body(s, x(slice(0, half)), y(slice(0, half))), x(slice(half, n))}, 0); break;
      default: out = body(s, x, y); break;
    }
    for (int call = 1; (s.which & 32) != 0 && call < 2 + s.which % 5; ++call) {
      if ((s.which >> call & 1) != 0) out = -out;
      if (s.number == number_changes) *world_.scale = *world_.scale == 0.5 ? 1.5 : 0.5;
      out = body(s, out, y, s.which >= 512 ? 0 : call);
    }
    return out;
  }

  friend struct HoldingBody;
  friend struct BareBody;
  static Tensor called(const World& world, int body, const Tensor& x, const Tensor& y, const Variable& given) {
    FunctionRun run(world, {given});
    run.limit_ = body;
    return run.run(world.function->bodies[static_cast<std::size_t>(body)], {y, x});
  }

  const World& world_;
  std::vector<Variable> given_;
  int limit_ = 1000;  // bodies from here on are not called
};

inline Tensor HoldingBody::operator()(const Tensor& x, const Tensor& y, const Variable& given) const {
  return body < 0 ? Tensor(x + world->held) : FunctionRun::called(*world, body, x, y, given);
}
inline Tensor BareBody::operator()(const Tensor& x, const Tensor& y, const Variable& given, BodyNumber body) const {
  return FunctionRun::called(*world_now(), static_cast<int>(body), x, y, given);
}

/// Regions hold the world's address: it must not move.
inline void add_regions(World& world) {
  world.has_regions = true;
  for (int i = 0; i < static_cast<int>(world.function->bodies.size()); ++i)
    world.regions.push_back(jit::region(HoldingBody{&world, i}));
  world.regions.push_back(jit::region(HoldingBody{&world, -1}));
  world.bare.push_back(jit::region(BareBody{}));
}

}  // namespace sinter_test
