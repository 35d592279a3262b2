#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_planning.h"

namespace engine::kernels {

PlannedConvolution plan_convolution(const ConvGpu&, const ConvPlanKey& key, const ConvPlanOptions&) {
  throw LibraryError("cuDNN is not part of this build: no plan for " + key.str());
}

}  // namespace engine::kernels
