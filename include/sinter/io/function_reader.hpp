// Reads what function_writer.hpp writes. The file is not trusted: what it says is bounded before memory is taken for
// it, every node goes through the rules that recording goes through, and what is wrong is an IoError.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/jit/saved/saved_function.hpp>
#include <sinter/tensor/tensor.hpp>

#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// What a file holds. The Variables have no slots yet.
struct ReadFunctions {
  jit::SavedBundle bundle;
  std::vector<Tensor> values;  // of the Variables
};
struct ReadChoices {
  std::string weights{};  // the file of the weights, where it is another than when they were saved
  bool checks_weights = true;
  bool trusts_code = false;  // else what is said to be code is not looked at
};
ReadFunctions read_functions(const std::string& path, const ReadChoices& choices, Location where);

}  // namespace io::io_detail
SINTER_NAMESPACE_END
