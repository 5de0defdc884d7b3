// What follows a trace: the derivative, passes and code of a new entry, here or in the background.
#pragma once

#include <sinter/jit/call/making.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/entry_code.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/call/marks.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/debug/failures.hpp>
#include <sinter/jit/effects/custom_run.ipp>  // input_values
#include <sinter/jit/trace/trace_tree.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL jit_detail::PlanChoices FunctionState::gradient_choices(const Entry& entry) const {
  return {.backend = options_.backend.name(),
          .fuse = fusion_choices(options_),
          .as_one = options_.mode == Mode::reduce_overhead || options_.mode == Mode::max_autotune,
          .allow_fallback = options_.allow_fallback,
          .precision = entry.precision,
          .compile = suppressed_if_wanted(compilers_.backward),
          .in_background = options_.mode == Mode::background,
          .suppresses_errors = suppresses_errors(),
          .is_tuned = is_tuned(options_.mode),
          .tune_seconds = options_.tune_seconds,
          .where = where_};
}

SINTER_DECL BackendFunction FunctionState::suppressed_if_wanted(const BackendFunction& compiler) const {
  return compiler && suppresses_errors() ? jit_detail::suppressing(compiler, compilers_.name, where_) : compiler;
}

SINTER_DECL Graph FunctionState::with_gradient(Entry& entry, const ArgList& args, Graph program,
                                               std::vector<std::uint8_t> on_tape) const {
  std::vector<std::uint8_t> wanted, is_number;
  std::size_t captured = 0;
  for (std::size_t i = 0; i < entry.end.inputs.size(); ++i) {
    const PlanInput& input = entry.end.inputs[i];
    const bool is_leaf = input.source == PlanInput::Source::leaf;
    const std::uint8_t is_on_tape =
        is_leaf ? entry.tape.leaves[as_index(input.index)] : entry.tape.captured[captured++];
    wanted.push_back(is_on_tape != 0 && is_differentiable(program.type(program.inputs()[i]).dtype));
    is_number.push_back(is_leaf && args.leaves()[as_index(input.index)].kind == LeafKind::scalar);
  }
  jit_detail::PlanChoices choices = gradient_choices(entry);
  choices.is_number = std::move(is_number);
  entry.gradient = jit_detail::make_gradient(program, wanted, std::move(on_tape), std::move(choices));
  if (entry.gradient == nullptr) return program;
  entry.end.saved = entry.gradient->saved_count();
  entry.end.results += entry.end.saved;
  return entry.gradient->forward();
}

SINTER_DECL void FunctionState::generate(Entry& entry, const ArgList& args, Graph traced,
                                         std::vector<std::uint8_t> on_tape) {
  jit_detail::Stopwatch watch;
  const bool is_custom = compilers_.forward || compilers_.backward;  // they are shown the sizes as they are
  const std::vector<Dim> solution = solve_symbols(entry.guards, args.leaves(), is_custom ? Divide::no : Divide::yes);
  check_marks(entry.guards, args.leaves(), solution);
  Graph specialised = substitute_symbols(traced, solution, entry.guards.symbols);
  entry.traced = std::move(traced);
  const bool gives_tape = std::find(on_tape.begin(), on_tape.end(), 1) != on_tape.end() && entry.tape.is_needed;
  entry.drops_tape = gives_tape && args.has_places;
  if (gives_tape && !args.has_places)
    specialised = with_gradient(entry, args, std::move(specialised), std::move(on_tape));
  if (compilers_.forward) {
    jit_detail::compile_custom(entry, suppressed_if_wanted(compilers_.forward), compilers_.name, std::move(specialised),
                               args.leaves(), where_);
    entry.codegen_ms = watch.lap_ms();
    return;
  }
  const std::string& backend = options_.backend.name();
  try {
    const jit_detail::CompilingNote compiling(specialised, backend);
    generate_code(entry, args, {specialised, solution, backend});
  } catch (const OutOfMemory&) { throw; } catch (const Error& error) {
    jit_detail::minify_failure(specialised, backend, error.what(), where_);
    if (!suppresses_errors()) throw;
    if (is_logged("errors", LogLevel::warning))  // the text has values of all inputs
      warn("errors", jit_detail::suppressed_text(specialised, backend, error.what(), where_));
    generate_code(entry, args, {specialised, solution, "eager"});
    entry.runs_ahead = false;
    entry.background.reset();
  }
  entry.passes_ms = watch.lap_ms() - entry.codegen_ms;
  if (jit_detail::minifies_wrong_results())
    jit_detail::minify_if_wrong(specialised, backend, jit_detail::input_values(entry, args.leaves()), where_);
}

SINTER_DECL bool FunctionState::suppresses_errors() const {
  return options_.suppress_errors || jit_detail::suppresses_all_errors();
}

SINTER_DECL jit_detail::CodeInput FunctionState::code_input(Entry& entry, const ArgList& args,
                                                            const CodeRequest& request) const {
  jit_detail::CodeInput input;
  input.graph = request.graph;
  for (const PlanInput& place : entry.end.inputs) {
    const bool is_leaf = place.source == PlanInput::Source::leaf;
    input.is_number.push_back(is_leaf && args.leaves()[as_index(place.index)].kind == LeafKind::scalar);
    InputLayout layout;
    const LeafSpec* spec = is_leaf ? &entry.guards.leaves[as_index(place.index)] : nullptr;
    for (std::size_t axis = 0; spec != nullptr && !spec->is_dense && axis < spec->rank; ++axis)
      layout.push_back(spec->stride_dims[axis].substitute(request.solution));
    input.layouts.push_back(std::move(layout));
  }
  input.may_donate = jit_detail::find_donors(entry.end, entry.guards.leaves);
  if (entry.gradient != nullptr) input.may_donate.clear();  // the tape holds what the code reads
  return input;
}

SINTER_DECL void FunctionState::put_code(Entry& entry, jit_detail::VersionCode code, std::string_view backend) const {
  entry.backend = backend;
  entry.optimised = std::move(code.optimised);
  entry.end.plan = std::move(code.plan);
  for (std::size_t i = 0; i < entry.end.inputs.size(); ++i) entry.end.inputs[i].as_float = code.is_narrowed[i] != 0;
  entry.codegen_ms = code.codegen_ms;
}

SINTER_DECL void FunctionState::generate_code(Entry& entry, const ArgList& args, const CodeRequest& request) const {
  jit_detail::CodeChoices choices = jit_detail::CodeChoices::of(options_, entry.precision, where_);
  choices.backend = request.backend;
  jit_detail::CodeInput input = code_input(entry, args, request);
  if (is_tuned(options_.mode) && request.backend != "eager")
    for (const Tensor& value : jit_detail::input_values(entry, args.leaves())) input.values.push_back(value.impl());
  entry.specialised = request.graph;
  if (options_.mode != Mode::background) return put_code(entry, make_code(input, choices), request.backend);
  put_code(entry, make_code(input, choices.uncompiled()), "eager");
  entry.runs_ahead = true;
  entry.background = std::make_shared<jit_detail::BackgroundState>(std::move(input));
}

SINTER_DECL void FunctionState::submit(const Entry& entry) {
  if (entry.background == nullptr) return;
  if (entry.runs_ahead) return jit_detail::submit_entry(weak_from_this(), entry, background_work(entry));
  std::vector<std::shared_ptr<const SegmentCode>> segments;
  {
    std::scoped_lock lock(mutex_);
    segments = entry.tree->take_uncompiled();
  }
  jit_detail::submit_segments(weak_from_this(), entry, background_work(entry), std::move(segments));
}

SINTER_DECL void FunctionState::guard_precision(Entry& entry) const {
  const bool matters = entry.end.plan == nullptr ||
                       entry.end.plan->depends_on_precision();  // trees grow, and others' plans are their own
  entry.precisions = options_.matmul_precision || !matters ? all_precisions : precision_bit(entry.precision);
}

}  // namespace jit
SINTER_NAMESPACE_END
