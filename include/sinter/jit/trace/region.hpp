// Regions: blocks of a model that are optimised and compiled once, however often they are called. Inside a trace a
// region is a call of a sub-graph; outside of one it is a compiled function. Blocks that nobody marked are found by the
// outline pass; a mark on a function without captures also spares their tracing.
#pragma once

#include <sinter/autodiff/trace.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/jit/compile.hpp>

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

/// Arguments of a region call, taken apart.
struct RegionArguments {
  std::vector<Ref<TensorImpl>> values;               // Tensors, Scalars and Variables in order
  std::vector<std::shared_ptr<VariableSlot>> slots;  // of the Variables among them, else null
  std::vector<std::int64_t> fixed;                   // what the body is specialised to
};
RegionArguments take_apart(tree::View arguments);

/// An argument as the function of a region takes it.
template <class T, class A>
T region_argument(const A& arg) {
  if constexpr (std::same_as<T, Tensor> && (std::same_as<A, Borrowed> || EigenLike<A>)) return copy_of(arg);
  else return T(autodiff_detail::held_argument(arg));
}

/// One body of a region, and the call that it was made for.
struct RegionBody;
/// The typed result of that call, for its static parts.
const void* result_of(const RegionBody& body);
/// Nothing that such a function holds can change between two calls; what it reads from elsewhere still can.
template <class F>
inline constexpr bool holds_nothing =
    std::is_empty_v<F> || (std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>);

/// Which region, and for which types of arguments and result.
struct RegionKey {
  std::shared_ptr<const void> region;
  const void* types = nullptr;
};
/// The body that this trace has of the region for such arguments, if it may be called without running the function; or
/// null.
const RegionBody* find_region(const RegionKey& key, const RegionArguments& arguments);
/// Records a call of a body that was found; gives the results.
std::vector<Ref<TensorImpl>> call_region(const RegionBody& body, const RegionArguments& arguments, Location where);
/// A trace of a region's body: every argument is a placeholder; Variables that the body captures become operands.
autodiff_detail::OpenTrace open_region();
void insert_region_placeholders(autodiff_detail::TransformTrace& trace, tree::Part arguments);
/// Ends the trace, which gave `result`, and records the call: of a body that an equal call has made before, or of a new
/// one. Bodies with effects, which stay in order only outside of regions, and those with a cut are written out.
std::vector<Ref<TensorImpl>> record_region(const RegionKey& key, const std::string& name,
                                           const RegionArguments& arguments, autodiff_detail::OpenTrace trace,
                                           tree::View result, std::shared_ptr<const void> owner, Location where);

}  // namespace jit_detail

/// What region() gives: called inside a trace, a call of one shared body; called outside, a compiled function.
template <class F>
class Region {
 public:
  Region(F f, std::string name, Location where)
      : compiled_(std::move(f), Options{}, where), name_(std::move(name)), where_(where) {}

  template <class... A>
  auto operator()(const A&... args) const {
    using Raw = typename expr_detail::CallResultOf<F, jit_detail::traced_arguments_t<F, A...>>::type;
    if constexpr (std::is_void_v<Raw>) {
      return compiled_(args...);
    } else {
      using R = autodiff_detail::held_result_t<Raw>;
      if (current_trace() == nullptr) return R(compiled_(args...));
      return call<R>(args...);
    }
  }
  /// Figures of the compiled function that runs when the region is called outside of a trace.
  Stats stats() const { return compiled_.stats(); }
  const F& function() const { return compiled_.function(); }

 private:
  template <class R, class... A>
  R call(const A&... args) const {
    using namespace jit_detail;
    using Arguments = traced_arguments_t<F, A...>;
    const RegionKey key{identity_, &types_tag<R, Arguments>};
    Arguments parameters = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Arguments{region_argument<std::tuple_element_t<I, Arguments>>(args)...};
    }(std::index_sequence_for<A...>{});
    const RegionArguments arguments = take_apart(tree::view_of(parameters));
    if constexpr (holds_nothing<F>)
      if (const RegionBody* body = find_region(key, arguments))
        return autodiff_detail::with_values(*static_cast<const R*>(result_of(*body)),
                                            call_region(*body, arguments, where_));
    autodiff_detail::OpenTrace trace = open_region();
    insert_region_placeholders(*trace, tree::part_of(parameters));
    const std::shared_ptr<const void> owner =
        share(R(autodiff_detail::call_held(compiled_.function(), std::as_const(parameters))));
    const R& result = *static_cast<const R*>(owner.get());
    return autodiff_detail::with_values(
        result, record_region(key, name_, arguments, std::move(trace), tree::view_of(result), owner, where_));
  }
  Compiled<F> compiled_;
  std::shared_ptr<const char> identity_ = std::make_shared<const char>();  // of this region and its copies
  std::string name_;
  Location where_;
};

/// Marks `f` as a block that repeats: in a compiled function it is optimised and compiled once for each kind of
/// arguments, and calls whose traces agree share the code. Weights are arguments (or members of a struct argument).
/// Shapes may be symbolic; regions nest. A function without captures is not even run at each call; one that holds
/// something is, as that may change.
template <class F>
Region<std::decay_t<F>> region(F&& f, std::string name = {}, Location where = std::source_location::current()) {
  return Region<std::decay_t<F>>(std::forward<F>(f), std::move(name), where);
}

/// Blocks of one type that share one compiled function; what they hold are its arguments.
template <class Block>
class CompiledRegions {
 public:
  CompiledRegions(std::vector<Block> blocks, Options options, Location where)
      : blocks_(std::move(blocks)), call_(Call{}, std::move(options), where) {}

  std::size_t size() const { return blocks_.size(); }
  /// Block number `i`, compiled: regions[2](x).
  auto operator[](std::size_t i) const {
    return [this, i](const auto&... args) { return call_(blocks_[i], args...); };
  }
  /// All blocks in order, each on the result of the one before. `more` goes to every block.
  template <class X, class... More>
  auto operator()(const X& x, const More&... more) const {
    Tensor y(In(x).tensor());
    for (const Block& block : blocks_) y = call_(block, y, more...);
    return y;
  }
  Stats stats() const { return call_.stats(); }

 private:
  struct Call {
    template <class... A>
    auto operator()(const Block& block, const A&... args) const {
      return block(args...);
    }
  };
  std::vector<Block> blocks_;
  Compiled<Call> call_;
};

/// Compiles the block that `model`, a list of blocks of one type, repeats, and not the model: what is compiled is one
/// block, once, and code around the calls stays ordinary C++. A block is a struct of Tensors or Variables with a const
/// operator().
template <class Block>
CompiledRegions<Block> compile_regions(std::vector<Block> model, Options options = {},
                                       Location where = std::source_location::current()) {
  return CompiledRegions<Block>(std::move(model), std::move(options), where);
}

}  // namespace jit
SINTER_NAMESPACE_END
