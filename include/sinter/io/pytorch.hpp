// Checkpoints of PyTorch (torch.save, the zip format of version 1.6 on): their tensors, read without running any code.
#pragma once

#include <sinter/io/tensors.hpp>

SINTER_NAMESPACE_BEGIN
namespace io {

/// The tensors of a file by the keys that lead to them, joined by dots: "0.weight" of a state_dict, "model.0.weight" of
/// a dict that holds one; elements of lists by number. Numbers and strings are left out. Tensors share the mapped file;
/// views that are not row-major are copied. Only what tensors, parameters, dicts, lists and tuples are made of is read:
/// a file that names another class or function is an IoError that says which, and nothing of it is called.
TensorMap load_pytorch(const std::string& path, Location where = std::source_location::current());

}  // namespace io
SINTER_NAMESPACE_END
