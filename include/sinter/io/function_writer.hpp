// Writes compiled functions: a head of 64 bytes, one part with everything but weights, and the weights.
// function_reader.hpp reads it; docs/saving.md says what users may rely on.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/runtime/program_code.hpp>

#include <span>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

struct WriteChoices {
  std::string weights{};                              // the file of the weights; empty: this one
  std::span<const runtime_detail::CodeEntry> code{};  // to go into the file, marked as this build's
};
/// Writes the file, and the file of its weights where they are to be outside of it and it is not there.
void write_functions(const jit::SavedBundle& bundle, const std::string& path, const WriteChoices& choices,
                     Location where);

}  // namespace io::io_detail
SINTER_NAMESPACE_END
