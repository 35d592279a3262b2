#include "kernels/common/cuda_error.h"

#include <string>

namespace engine::kernels {

CudaError::CudaError(cudaError_t code, const char* what)
    : std::runtime_error(std::string(what) + ": " + cudaGetErrorName(code) + ": " + cudaGetErrorString(code)),
      code_(code) {}

}  // namespace engine::kernels
