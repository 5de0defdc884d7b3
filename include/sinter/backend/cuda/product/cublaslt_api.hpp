// cuBLASLt, opened when it is first asked for: it is large. The table's type is complete in cublaslt_api.ipp, which
// includes the toolkit's header, and which .ipp files of this back end include to call a function.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

struct CublasLtApi;

/// Can cuBLASLt be opened here? `why` receives what was tried.
bool has_cublaslt(std::string* why = nullptr);
/// Is it open, or known not to be there? Otherwise the others here open it.
bool is_cublaslt_open() noexcept;
/// 130000 for 13.0.0; 0 where there is none.
std::size_t cublaslt_version();
/// Begins the stored bytes of an algorithm, which another version of the library reads in another way.
std::string cublaslt_algorithm_mark();
/// The library's functions, once has_cublaslt() has said that they are there.
const CublasLtApi& cublaslt_api();

}  // namespace cuda
SINTER_NAMESPACE_END
