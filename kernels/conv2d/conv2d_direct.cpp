#include "kernels/conv2d/conv2d_direct.h"

#include "kernels/common/half.h"
#include "kernels/common/library_handles.h"
#include "kernels/conv2d/conv2d_direct_cuda.h"
#include "kernels/conv2d/conv2d_operands.h"

namespace engine::kernels {
namespace {

template <typename T>
void run_direct(const ConvPlanKey& key, const ConvBuffers& b, void* workspace, cudaStream_t stream) {
  const auto read = [](const void* p) { return static_cast<const T*>(p); };
  const auto written = [](void* p) { return static_cast<T*>(p); };
  switch (key.direction) {
    case ConvDirection::forward:
      return conv2d_forward_direct_cuda(read(b.x), read(b.weight), written(b.y), key.shape, stream);
    case ConvDirection::backward_data:
      return conv2d_backward_data_direct_cuda(read(b.grad_y), read(b.weight), written(b.grad_x), key.shape, stream);
    case ConvDirection::backward_weights:
      return conv2d_backward_weights_direct_cuda<T>(
          {.x = read(b.x), .grad_y = read(b.grad_y), .grad_weight = written(b.grad_weight), .workspace = workspace},
          key.shape, stream);
  }
}

class DirectPlan final : public ConvPlan {
 public:
  explicit DirectPlan(const ConvPlanKey& key) : key_(key) {}

  int64_t workspace_bytes() const override {
    if (key_.direction != ConvDirection::backward_weights) return 0;
    return conv2d_backward_weights_direct_workspace_bytes(key_.shape);
  }
  std::string engine() const override { return "direct"; }

  void run(const ConvBuffers& buffers, void* workspace, cudaStream_t stream) const override {
    require_operands(key_, buffers);
    switch (key_.type) {
      case ElementType::f16:
        return run_direct<Half>(key_, buffers, workspace, stream);
      case ElementType::bf16:
        return run_direct<BFloat16>(key_, buffers, workspace, stream);
      case ElementType::f32:
      case ElementType::tf32:
        return run_direct<float>(key_, buffers, workspace, stream);
    }
  }

 private:
  ConvPlanKey key_;
};

}  // namespace

std::unique_ptr<ConvPlan> make_direct_plan(const ConvPlanKey& key) {
  require_plannable(key);
  require_direct(key.shape);
  if (!(key.fusion == ConvFusion{})) {
    throw LibraryError("cuDNN is not part of this build, which fused convolutions need: no plan for " + key.str());
  }
  return std::make_unique<DirectPlan>(key);
}

}  // namespace engine::kernels
