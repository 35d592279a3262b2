#pragma once
// cuBLASLt as found at run time (library_handles.h). For builds with CUDA.

#include <cublasLt.h>

namespace engine::kernels {

/// The functions that this project calls.
struct CublasLt {
  decltype(&cublasLtMatmulDescCreate) matmul_desc_create;
  decltype(&cublasLtMatmulDescDestroy) matmul_desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) matmul_desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;
};

/// Throws LibraryError where the library is missing or does not fit the build.
const CublasLt& cublaslt();

/// The process's handle on a device, which must be current. Threads may share it. Throws LibraryError.
cublasLtHandle_t cublaslt_handle(int device);

/// Throws LibraryError with the library's words unless `status` is success; `call` names the call.
void check_cublaslt(cublasStatus_t status, const char* call);

}  // namespace engine::kernels
