#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_gemm.h"
#include "kernels/conv2d/conv2d_onednn.h"
#include "kernels/conv2d/conv2d_select.h"
#include "kernels/conv2d/conv2d_winograd.h"
#include "kernels/matmul/matmul.h"

namespace engine::kernels {

void conv2d_forward_fast(const float* x, const float* weight, const float* bias, float* y, const Conv2dShape& shape) {
  shape.require_valid();
  switch (conv2d_select(shape, ConvDirection::forward)) {
    case ConvAlgorithm::onednn:
      return conv2d_forward_onednn(x, weight, bias, y, shape);
    case ConvAlgorithm::gemm:
      return conv2d_forward_gemm(x, weight, bias, y, shape);
    case ConvAlgorithm::winograd:
      return conv2d_forward_winograd(x, weight, bias, y, shape);
  }
}

void conv2d_backward_data_fast(const float* grad_y, const float* weight, float* grad_x, const Conv2dShape& shape) {
  shape.require_valid();
  switch (conv2d_select(shape, ConvDirection::backward_data)) {
    case ConvAlgorithm::onednn:
      return conv2d_backward_data_onednn(grad_y, weight, grad_x, shape);
    case ConvAlgorithm::gemm:
      return conv2d_backward_data_gemm(grad_y, weight, grad_x, shape);
    case ConvAlgorithm::winograd:
      return conv2d_backward_data_winograd(grad_y, weight, grad_x, shape);
  }
}

void conv2d_backward_weights_fast(const float* x, const float* grad_y, float* grad_weight, float* grad_bias,
                                  const Conv2dShape& shape) {
  shape.require_valid();
  switch (conv2d_select(shape, ConvDirection::backward_weights)) {
    case ConvAlgorithm::onednn:
      return conv2d_backward_weights_onednn(x, grad_y, grad_weight, grad_bias, shape);
    case ConvAlgorithm::gemm:
      conv2d_backward_weights_gemm(x, grad_y, grad_weight, shape);
      break;
    case ConvAlgorithm::winograd:
      conv2d_backward_weights_winograd(x, grad_y, grad_weight, shape);
      break;
  }
  if (grad_bias != nullptr) column_sum(grad_y, grad_bias, shape.y_numel() / shape.k, shape.k);
}

std::string conv2d_implementation(const Conv2dShape& shape, ConvDirection direction) {
  shape.require_valid();
  switch (conv2d_select(shape, direction)) {
    case ConvAlgorithm::onednn:
      return conv2d_onednn_implementation(shape, direction);
    case ConvAlgorithm::gemm:
      return "gemm";
    case ConvAlgorithm::winograd:
      return "winograd";
  }
  return "reference";
}

}  // namespace engine::kernels
