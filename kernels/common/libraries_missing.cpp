// Builds for a GPU that were made without one of NVIDIA's libraries: calls say so.

#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_planning.h"
#include "kernels/matmul/matmul_device.h"

namespace engine::kernels {

#if defined(ENGINE_CUDA) && !defined(ENGINE_CUDNN)
namespace {
[[noreturn]] void no_cudnn(const ConvPlanKey& key) {
  throw LibraryError("cuDNN is not part of this build: no plan for " + key.str());
}
}  // namespace
LibraryVersion cudnn_version() { return {}; }
const ConvPlan& conv2d_plan(int, const ConvPlanKey& key, const ConvPlanOptions&) { no_cudnn(key); }
PlannedConvolution plan_convolution(const ConvGpu&, const ConvPlanKey& key, const ConvPlanOptions&) { no_cudnn(key); }
#endif

#if defined(ENGINE_CUDA) && !defined(ENGINE_CUBLAS)
namespace {
[[noreturn]] void no_cublaslt() { throw LibraryError("cuBLASLt is not part of this build"); }
}  // namespace
LibraryVersion cublaslt_version() { return {}; }
int64_t linear_device_workspace_bytes() { return 0; }
void linear_forward_device(const LinearDevice&, const void*, const void*, const void*, void*, cudaStream_t) {
  no_cublaslt();
}
void linear_backward_data_device(const LinearDevice&, const void*, const void*, void*, cudaStream_t) { no_cublaslt(); }
void linear_backward_weights_device(const LinearDevice&, const void*, const void*, void*, cudaStream_t) {
  no_cublaslt();
}
#endif

}  // namespace engine::kernels
