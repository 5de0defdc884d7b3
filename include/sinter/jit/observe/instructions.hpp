// The instruction log: every operation as it ran, one line each, to be read by people and programs, and to be run again
// on made up values. Writing one is begun and ended in timeline.hpp; this is for whoever reads.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// One line: a kernel with the operations in it, or an operation that the host ran.
struct Instruction {
  std::int64_t line = 0;         // of the file
  std::int64_t time = 0;         // nanoseconds since the log began
  std::int64_t nanoseconds = 0;  // that it took, those of the instructions inside it included
  std::int64_t thread = 0;       // by the system's number
  std::int64_t graph = 0;        // number of the compiled graph in the log
  std::int64_t step = 0;         // of the graph's plan
  std::string device, backend, kind, kernel;
  std::string lines, scope;                        // of the program: "train.cpp:41, train.cpp:43", "train/step"
  std::string precision;                           // of products of f32 matrices, where that is not f32
  std::vector<std::vector<std::int64_t>> strides;  // of each input in elements; none: row-major without gaps
  bool has_failed = false;                         // it threw
  std::string text;                                // the operations, as parse_graph() reads them; "": they are no graph
};

/// Reads one line. Throws UserError, at that line of `file`, where it is no instruction.
Instruction parse_instruction(std::string_view text, std::string_view file = {}, std::int64_t line = 0);
/// Reads a log; empty lines and those that begin with '#' say nothing. Throws UserError where the file cannot be read
/// or a line is no instruction, with its number.
std::vector<Instruction> read_instruction_log(const std::string& path,
                                              Location where = std::source_location::current());

struct ReplayOptions {
  std::int64_t repeat = 5;   // runs that are timed, after one that is not
  std::string backend = {};  // "": the one that ran it, where this build has it, else the best there is
  std::uint64_t seed = 0;    // of the values
};
struct Replayed {
  double nanoseconds = 0;    // of its kernels, the shortest run
  std::int64_t kernels = 0;  // that it became here
  std::string skipped;       // why it cannot run again; "": it has
};
/// Runs the operations again on made up values of the same types, strides and sizes: numbers from 0.25 to 1.25,
/// integers that are in range where they choose elements, square matrices that can be factored. What runs sub-graphs is
/// skipped, for the steps of these have lines of their own; so are functions of the program, effects, and what fails on
/// such values.
Replayed replay(const Instruction& instruction, const ReplayOptions& options = {});

}  // namespace jit
SINTER_NAMESPACE_END
