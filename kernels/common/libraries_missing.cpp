// Builds for a GPU that were made without one of NVIDIA's libraries: convolutions run on the project's own kernels,
// other calls say what is missing.

#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_direct.h"
#include "kernels/conv2d/conv2d_plan_store.h"
#include "kernels/conv2d/conv2d_planning.h"
#include "kernels/matmul/matmul_device.h"

namespace engine::kernels {

#if defined(ENGINE_CUDA) && !defined(ENGINE_CUDNN)
LibraryVersion cudnn_version() { return {}; }
const ConvPlan& conv2d_plan(int device, const ConvPlanKey& key, const ConvPlanOptions&) {
  static ConvPlanStore store;
  return store.get(device, key, [&] { return make_direct_plan(key); });
}
PlannedConvolution plan_convolution(const ConvGpu&, const ConvPlanKey& key, const ConvPlanOptions&) {
  const std::unique_ptr<ConvPlan> plan = make_direct_plan(key);
  return {plan->engine(), plan->workspace_bytes()};
}
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
