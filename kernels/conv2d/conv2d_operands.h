#pragma once
// Which of the buffers a key uses.

#include <cstdint>

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

namespace detail {

template <typename F>
void visit_norm(ConvBuffers::Norm& norm, int64_t image_bytes, int64_t channels, F& f) {
  const int64_t floats = 4 * channels;
  f("norm.x", norm.x, image_bytes, false);
  for (const float** read : {&norm.mean, &norm.invstd, &norm.gamma, &norm.beta}) f("norm input", *read, floats, false);
  for (float** written : {&norm.grad_gamma, &norm.grad_beta, &norm.scale_grad, &norm.scale_x, &norm.offset}) {
    f("norm output", *written, floats, true);
  }
}

template <typename F>
void visit_prologue(const ConvPlanKey& key, ConvBuffers& b, F& f) {
  const ConvPrologue prologue = key.fusion.prologue;
  const int64_t element = element_bytes(key.type), image = key.shape.x_numel() * element, row = key.shape.c * element;
  if (prologue == ConvPrologue::none) return;
  f("scale", b.scale, row, false);
  f("bias", b.bias, row, false);
  if (prologue == ConvPrologue::scale_bias_relu) return;
  f("residual", b.residual, image, false);
  f("activated", b.activated, image, true);
  if (prologue == ConvPrologue::scale_bias_add_relu) return;
  f("residual_scale", b.residual_scale, row, false);
  f("residual_bias", b.residual_bias, row, false);
}

template <typename F>
void visit_epilogue(const ConvPlanKey& key, ConvBuffers& b, F& f) {
  const ConvEpilogue epilogue = key.fusion.epilogue;
  const int64_t image = key.shape.x_numel() * element_bytes(key.type);
  if (epilogue == ConvEpilogue::none) return;
  if (epilogue == ConvEpilogue::statistics) {
    f("sum", b.sum, 4 * key.shape.k, true);
    f("sum_of_squares", b.sum_of_squares, 4 * key.shape.k, true);
    return;
  }
  visit_norm(b.norm, image, key.shape.c, f);
  if (epilogue == ConvEpilogue::norm_backward) return;
  f("shortcut_grad", b.shortcut_grad, image, false);
  if (epilogue == ConvEpilogue::add_norm_backward) f("residual", b.residual, image, false);
  if (epilogue == ConvEpilogue::add_dual_norm_backward) visit_norm(b.residual_norm, image, key.shape.c, f);
}

}  // namespace detail

/// Calls f(name, pointer, bytes, written) for each buffer that the key uses; `pointer` is a reference to the member.
template <typename F>
void visit_operands(const ConvPlanKey& key, ConvBuffers& buffers, F&& f) {
  const int64_t element = element_bytes(key.type);
  const int64_t x = key.shape.x_numel() * element, y = key.shape.y_numel() * element;
  const int64_t weight = key.shape.weight_numel() * element;
  switch (key.direction) {
    case ConvDirection::forward:
      f("x", buffers.x, x, false);
      f("weight", buffers.weight, weight, false);
      f("y", buffers.y, y, true);
      break;
    case ConvDirection::backward_data:
      f("grad_y", buffers.grad_y, y, false);
      f("weight", buffers.weight, weight, false);
      f("grad_x", buffers.grad_x, x, true);
      break;
    case ConvDirection::backward_weights:
      f("x", buffers.x, x, false);
      f("grad_y", buffers.grad_y, y, false);
      f("grad_weight", buffers.grad_weight, weight, true);
      break;
  }
  detail::visit_prologue(key, buffers, f);
  detail::visit_epilogue(key, buffers, f);
}

/// Throws std::invalid_argument that names the first buffer which the key uses and which is null.
void require_operands(const ConvPlanKey& key, const ConvBuffers& buffers);

/// Throws std::invalid_argument for a shape or a fusion that makes no sense.
void require_plannable(const ConvPlanKey& key);

}  // namespace engine::kernels
