#include "engine/ops/device_path.h"

#include <atomic>

#include "kernels/bias/bias_cuda.h"
#include "kernels/cast/cast_cuda.h"

namespace engine {
namespace {

std::atomic<bool> tf32_allowed{false};

kernels::ConvPlanOptions& plan_options() {
  static kernels::ConvPlanOptions options;
  return options;
}

}  // namespace

kernels::ElementType element_type_of(DType dtype, const char* op) {
  switch (dtype) {
    case DType::f32:
      return tf32_allowed ? kernels::ElementType::tf32 : kernels::ElementType::f32;
    case DType::f16:
      return kernels::ElementType::f16;
    case DType::bf16:
      return kernels::ElementType::bf16;
    default:
      throw Error(fmt::format("[{}] type: got {} on an accelerator, expected f32, f16 or bf16", op, name_of(dtype)));
  }
}

void set_allow_tf32(bool allow) { tf32_allowed = allow; }

void set_conv_plan_options(const kernels::ConvPlanOptions& options) { plan_options() = options; }
const kernels::ConvPlanOptions& conv_plan_options() { return plan_options(); }

Tensor device_workspace(const Tensor& like, int64_t bytes) {
  return like.new_empty(Shape{bytes}, DType::u8, MemoryCategory::workspace);
}

void bias_backward_on_device(const Tensor& grad_y, const Tensor& grad_bias, int64_t rows, int64_t channels) {
  const Tensor workspace =
      device_workspace(grad_y, static_cast<int64_t>(kernels::bias_backward_workspace_bytes(rows, channels)));
  const bool narrow = grad_bias.dtype() != DType::f32;
  const Tensor sums = narrow ? grad_bias.new_empty(grad_bias.shape(), DType::f32) : grad_bias;
  dispatch_device(grad_y.dtype(), "bias", [&]<typename T>() {
    kernels::bias_backward_cuda<T>({.grad_y = grad_y.data<T>(),
                                    .grad_bias = sums.data<float>(),
                                    .rows = rows,
                                    .channels = channels,
                                    .workspace = workspace.raw()},
                                   stream_of(grad_y));
    if (narrow) kernels::cast_cuda(sums.data<float>(), grad_bias.data<T>(), channels, stream_of(grad_y));
  });
}

}  // namespace engine
