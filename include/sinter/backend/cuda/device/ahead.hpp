// CUDA's large libraries, opened on another thread while the program makes a context and its inputs: NVRTC, whose
// version every look into the cache on disk names, and cuBLASLt where an earlier process of this program ran products
// of it. What is not there in time is waited for as before.
#pragma once

#include <sinter/base/config.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

class Gpu;

namespace cuda_detail {

/// Before a device of this architecture is used for the first time: opens what this program will need. For a program
/// that has left nothing on disk NVRTC compiles something, too: the first compilation of a process takes 0.2 s.
void open_libraries_ahead(const std::string& architecture);
/// Once it can be used: cuBLASLt makes what it needs for the kinds of products that this program has run. The first
/// question about a kind takes it 80 ms.
void start_libraries_ahead(const Gpu& gpu);
/// This process runs a product of cuBLASLt of this kind (library_product.ipp): its program's next ones will, too.
void note_cublaslt_use(const std::string& kind);
/// Begins to open cuBLASLt, since this process is about to ask for it.
void open_cublaslt_ahead();

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
