// NumPy's files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): .npy, one array, and .npz, a
// zip archive of them.
#pragma once

#include <sinter/io/tensors.hpp>

SINTER_NAMESPACE_BEGIN
namespace io {

/// Reads a .npy file, versions 1 to 3: bool, integers of 8 to 64 bits, f16, f32, f64, c64, c128, and bf16 as ml_dtypes
/// writes it (V2). The Tensor shares the mapped file; big-endian arrays are copied, Fortran's order becomes a
/// permuted view. Throws IoError.
Tensor load_npy(const std::string& path, Location where = std::source_location::current());
/// Writes version 1, row-major, atomically.
void save_npy(const std::string& path, const Tensor& x, Location where = std::source_location::current());

/// Reads the arrays of a .npz file as numpy.savez writes it. Compressed archives are an error.
TensorMap load_npz(const std::string& path, Location where = std::source_location::current());
/// Writes an archive that numpy.load reads, atomically; data are aligned to 64 bytes in it.
void save_npz(const std::string& path, const TensorMap& tensors, Location where = std::source_location::current());

}  // namespace io
SINTER_NAMESPACE_END
