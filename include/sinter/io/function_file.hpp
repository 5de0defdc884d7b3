// jit::save and jit::load: compiled functions in files. A file holds graphs, guards and weights: what is loaded is
// compiled where it runs, from the graphs, or found in that user's cache of code. Machine code is in a file only where
// that is asked for, and used only where the loading program says that it trusts the file.
#pragma once

#include <sinter/base/optional.hpp>
#include <sinter/jit/compile.hpp>
#include <sinter/jit/saved/replay.hpp>

#include <array>
#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A compiled function of any type.
class AnyFunction {
 public:
  template <class F>
  AnyFunction(const Compiled<F>& function) : state_(jit_detail::StateAccess::of(function)) {}
  template <class Signature>
  AnyFunction(const Function<Signature>& function) : state_(function.state()) {}
  const FunctionState& state() const { return *state_; }

 private:
  std::shared_ptr<FunctionState> state_;
};
struct NamedFunction {
  std::string name;
  AnyFunction function;
};

struct SaveOptions {
  /// A file of safetensors for the weights. Where it exists, what it holds with the same bits is not written again;
  /// else it is made, with Variables by name. Empty: weights are in the file of the function.
  std::string weights = {};
  /// Puts the machine code of the functions beside their graphs, for LoadOptions::trust_code.
  bool code = false;
};

/// Writes what is compiled of a function: a version for each kind of arguments that it was called with or warmed up
/// for, with its symbolic extents and guards; captured Tensors; captured Variables by name, with their values now. The
/// file is replaced as a whole. Throws UserError for what no file can hold, with its line, and IoError.
void save(const AnyFunction& function, const std::string& path, const SaveOptions& options = {},
          Location where = std::source_location::current());
/// Several functions, which share Variables and weights: jit::save({{"prefill", f}, {"decode", g}}, path).
void save(std::initializer_list<NamedFunction> functions, const std::string& path, const SaveOptions& options = {},
          Location where = std::source_location::current());

struct LoadOptions {
  std::string name = {};           // of the function, in a file of several
  std::string weights = {};        // the file of the weights, where it is another than when they were saved
  Optional<Options> options = {};  // unset: those of the function that was saved
  bool check_weights = true;       // false: weights are not compared with their checksums, and read when used
  /// Runs the machine code in the file where it was made by this build of the program, for this instruction set. Only
  /// for files that come from those whom you would let run a program.
  bool trust_code = false;
};

class FunctionFile;
namespace jit_detail {
struct OpenFunctionFile;
/// The types that a loaded function is to have.
struct WantedTypes {
  std::span<const tree::Layout* const> arguments;
  const tree::Layout& result;
};
std::shared_ptr<const OpenFunctionFile> open_function_file(const std::string& path, const LoadOptions& options,
                                                           Location where);
std::shared_ptr<const SavedProgram> program_in(const OpenFunctionFile& file, const std::string& name,
                                               const WantedTypes& types, Location where);
/// Those that the file was opened with, else those of the function that was saved.
Options options_for(const OpenFunctionFile& file, const SavedProgram& program);
void use_saved(FunctionState& function, std::shared_ptr<const SavedProgram> program);
/// The file that a loaded function came from.
class FromFile {
 public:
  /// The Variables that the functions of the file captured, by name. They may be set, trained, saved, or loaded into:
  /// `auto state = f.variables(); io::load_state_dict(state, io::load_safetensors(path));`
  std::map<std::string, Variable> variables() const;

 protected:
  explicit FromFile(std::shared_ptr<const OpenFunctionFile> file) : file_(std::move(file)) {}
  std::shared_ptr<const OpenFunctionFile> file_;
};
template <class R>
using loaded_result_t = std::conditional_t<std::is_void_v<R>, Nothing, R>;
}  // namespace jit_detail

/// A function of a file: called, compiled, differentiated and asked like what jit::compile() gives.
template <class Signature>
class Loaded;
template <class R, class... A>
class Loaded<R(A...)> : public Compiled<jit_detail::SavedCallee<R(A...)>>, public jit_detail::FromFile {
  friend class FunctionFile;
  Loaded(std::shared_ptr<const jit_detail::OpenFunctionFile> file, std::shared_ptr<const SavedProgram> program,
         Location where)
      : Compiled<jit_detail::SavedCallee<R(A...)>>({program}, jit_detail::options_for(*file, *program), where),
        FromFile(std::move(file)) {
    jit_detail::use_saved(*jit_detail::StateAccess::of(*this), std::move(program));
  }
};

/// A file of functions. Those that are loaded from one object share their Variables.
class FunctionFile {
 public:
  /// Reads and checks the file. Throws IoError for one that is damaged, or no file of jit::save.
  explicit FunctionFile(const std::string& path, const LoadOptions& options = {},
                        Location where = std::source_location::current());

  std::vector<std::string> names() const;
  std::map<std::string, Variable> variables() const;
  /// The versions of each function: their types and guards.
  std::string text() const;
  /// The function of that name ("": the only one). Throws UserError where its types have another structure.
  template <class Signature>
  Loaded<Signature> load(const std::string& name = {}, Location where = std::source_location::current()) const {
    return load_as(std::type_identity<Signature>(), name, where);
  }

 private:
  template <class R, class... A>
  Loaded<R(A...)> load_as(std::type_identity<R(A...)>, const std::string& name, Location where) const {
    static_assert(((!std::is_floating_point_v<A>) && ...),
                  "sinter: a float or double argument of a compiled function is a Scalar: jit::load<R(Scalar)>");
    const std::array<const tree::Layout*, sizeof...(A) + 1> arguments{&tree::LayoutOf<std::remove_cvref_t<A>>::value...,
                                                                      nullptr};
    auto program = jit_detail::program_in(
        *file_, name, {std::span(arguments).first(sizeof...(A)), tree::LayoutOf<jit_detail::loaded_result_t<R>>::value},
        where);
    return {file_, std::move(program), where};
  }
  std::shared_ptr<const jit_detail::OpenFunctionFile> file_;
};

/// The function in a file, for calls in this process: jit::load<Tensor(Tensor, Scalar)>(path). `Signature` has the
/// structure of the arguments and result that the function was saved with; names of types do not matter. A call with
/// arguments that a saved version takes is compiled from its graph, at its first time; any other is a RecompileError
/// that names the guard.
template <class Signature>
Loaded<Signature> load(const std::string& path, const LoadOptions& options = {},
                       Location where = std::source_location::current()) {
  return FunctionFile(path, options, where).template load<Signature>(options.name, where);
}

}  // namespace jit
SINTER_NAMESPACE_END
