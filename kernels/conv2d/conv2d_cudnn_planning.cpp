#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_cudnn_graphs.h"
#include "kernels/conv2d/conv2d_planning.h"

namespace engine::kernels {

PlannedConvolution plan_convolution(const ConvGpu& gpu, const ConvPlanKey& key, const ConvPlanOptions& options) {
  key.shape.require_valid();
  ConvGraph graph(key, {.sm_version = gpu.sm_version, .device_json = gpu.device_json}, options);
  for (int64_t i = 0; i < graph.candidates(); ++i) {
    if (graph.build(i)) return {graph.name(i), graph.workspace_bytes(i)};
  }
  throw LibraryError("cuDNN has no plan for " + key.str() + ": " + graph.failure());
}

}  // namespace engine::kernels
