#pragma once
// Failures of the CUDA runtime as exceptions. kernels/ throws CudaError; engine/core turns it into the engine's errors.

#include <stdexcept>

#include "kernels/common/device.h"

namespace engine::kernels {

/// A call of the runtime that failed: "WHAT: cudaErrorName: description".
class CudaError : public std::runtime_error {
 public:
  CudaError(cudaError_t code, const char* what);
  cudaError_t code() const { return code_; }

 private:
  cudaError_t code_;
};

/// Throws CudaError unless `code` is cudaSuccess; `what` names the call.
inline void check_cuda(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw CudaError(code, what);
}

}  // namespace engine::kernels
