#include "engine/ops/conv2d.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/conv2d_device.h"
#include "engine/ops/cpu_path.h"
#include "engine/ops/device_path.h"
#include "kernels/bias/bias_cuda.h"
#include "kernels/conv2d/conv2d.h"
#include "kernels/conv2d/conv2d_device.h"

namespace engine {
namespace {

using kernels::Conv2dShape;

/// Runs the plain plan of a direction on the device of `like`.
void run_plan(const Tensor& like, const Conv2dShape& shape, kernels::ConvDirection direction,
              const kernels::ConvBuffers& buffers) {
  run_conv_plan(like, {.shape = shape, .direction = direction, .type = element_type_of(like.dtype(), "conv2d")},
                buffers);
}

void device_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                    const Conv2dShape& shape) {
  run_plan(x, shape, kernels::ConvDirection::forward, {.x = x.raw(), .weight = weight.raw(), .y = y.raw()});
  if (!bias.defined()) return;
  dispatch_device(y.dtype(), "conv2d", [&]<typename T>() {
    kernels::bias_forward_cuda<T>({.x = y.data<T>(),
                                   .bias = bias.data<T>(),
                                   .y = y.data<T>(),
                                   .rows = shape.n * shape.out_h() * shape.out_w(),
                                   .channels = shape.k},
                                  stream_of(y));
  });
}

void device_backward_weights(const Tensor& x, const Tensor& grad_y, const Tensor& grad_weight, const Tensor& grad_bias,
                             const Conv2dShape& shape) {
  run_plan(x, shape, kernels::ConvDirection::backward_weights,
           {.x = x.raw(), .grad_y = grad_y.raw(), .grad_weight = grad_weight.raw()});
  if (grad_bias.defined()) {
    bias_backward_on_device(grad_y, grad_bias, shape.n * shape.out_h() * shape.out_w(), shape.k);
  }
}

void forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y, const Conv2dShape& shape) {
  if (on_accelerator(x)) return device_forward(x, weight, bias, y, shape);
  dispatch_cpu(
      x.dtype(), "conv2d",
      [&]<typename T>() {
        kernels::conv2d_forward_fast(x.data<T>(), weight.data<T>(), data_or_null<T>(bias), y.data<T>(), shape);
      },
      [&]<typename T>() {
        kernels::conv2d_forward_cpu<T>(x.data<T>(), weight.data<T>(), data_or_null<T>(bias), y.data<T>(), shape);
      });
}

void backward_data(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x, const Conv2dShape& shape) {
  if (on_accelerator(grad_y)) {
    return run_plan(grad_y, shape, kernels::ConvDirection::backward_data,
                    {.weight = weight.raw(), .grad_y = grad_y.raw(), .grad_x = grad_x.raw()});
  }
  dispatch_cpu(
      grad_y.dtype(), "conv2d",
      [&]<typename T>() {
        kernels::conv2d_backward_data_fast(grad_y.data<T>(), weight.data<T>(), grad_x.data<T>(), shape);
      },
      [&]<typename T>() {
        kernels::conv2d_backward_data_cpu<T>(grad_y.data<T>(), weight.data<T>(), grad_x.data<T>(), shape);
      });
}

void backward_weights(const Tensor& x, const Tensor& grad_y, const Tensor& grad_weight, const Tensor& grad_bias,
                      const Conv2dShape& shape) {
  if (on_accelerator(x)) return device_backward_weights(x, grad_y, grad_weight, grad_bias, shape);
  dispatch_cpu(
      x.dtype(), "conv2d",
      [&]<typename T>() {
        kernels::conv2d_backward_weights_fast(x.data<T>(), grad_y.data<T>(), grad_weight.data<T>(),
                                              data_or_null<T>(grad_bias), shape);
      },
      [&]<typename T>() {
        kernels::conv2d_backward_weights_cpu<T>(x.data<T>(), grad_y.data<T>(), grad_weight.data<T>(),
                                                data_or_null<T>(grad_bias), shape);
      });
}

}  // namespace

kernels::Conv2dShape conv2d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                  const Conv2dOptions& options) {
  check_rank("conv2d", "x", x, 4);
  check_rank("conv2d", "weight", weight, 4);
  ENGINE_CHECK(weight.dtype() == x.dtype(), "[conv2d] weight: got {}, expected {}", name_of(weight.dtype()),
               name_of(x.dtype()));
  ENGINE_CHECK(options.stride >= 1 && options.padding >= 0 && options.dilation >= 1,
               "[conv2d] options: got stride {}, padding {}, dilation {}, expected at least 1, 0, 1", options.stride,
               options.padding, options.dilation);
  const int64_t c = x.dim(3), k = weight.dim(0), groups = options.groups;
  ENGINE_CHECK(groups >= 1 && c % groups == 0 && k % groups == 0,
               "[conv2d] groups: got {}, expected a divisor of {} input and {} output channels", groups, c, k);
  ENGINE_CHECK(weight.dim(3) * groups == c, "[conv2d] x: got {} channels, expected {} (weight {}, groups {})", c,
               weight.dim(3) * groups, weight.shape().str(), groups);
  if (bias.defined()) check_shape("conv2d", "bias", bias, Shape{k}, x);
  const Conv2dShape shape{.n = x.dim(0),
                          .h = x.dim(1),
                          .w = x.dim(2),
                          .c = c,
                          .k = k,
                          .r = weight.dim(1),
                          .s = weight.dim(2),
                          .stride_h = options.stride,
                          .stride_w = options.stride,
                          .pad_h = options.padding,
                          .pad_w = options.padding,
                          .dilation_h = options.dilation,
                          .dilation_w = options.dilation,
                          .groups = groups};
  ENGINE_CHECK(shape.valid(), "[conv2d] x: got {}, expected pictures that the filter {} fits into", x.shape().str(),
               weight.shape().str());
  return shape;
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  const Conv2dShape shape = conv2d_shape(x, weight, bias, options);
  Tensor y = x.new_empty({shape.n, shape.out_h(), shape.out_w(), shape.k}, x.dtype());
  forward(x, weight, bias, y, shape);
  if (!should_record({&x, &weight, &bias})) return y;
  const bool biased = bias.defined();
  record("conv2d", {&x, &weight, &bias}, {&y},
         [saved_x = x.detach(), w = weight.detach(), shape, biased](Gradients& gradients) mutable {
           Tensor grad_y = gradients.take_output(0).contiguous();
           if (gradients.wanted(1) || gradients.wanted(2)) {
             Tensor grad_w = gradients.target(1, w.shape(), w.dtype());
             Tensor grad_bias = biased ? gradients.target(2, Shape{shape.k}, w.dtype()) : Tensor();
             backward_weights(saved_x, grad_y, grad_w, grad_bias, shape);
             if (gradients.wanted(1)) gradients.set(1, std::move(grad_w));
             if (gradients.wanted(2)) gradients.set(2, std::move(grad_bias));
           }
           const Shape x_shape = saved_x.shape();
           saved_x = Tensor();  // its memory may serve the gradient
           if (gradients.wanted(0)) {
             Tensor grad_x = gradients.target(0, x_shape, w.dtype());
             backward_data(grad_y, w, grad_x, shape);
             gradients.set(0, std::move(grad_x));
           }
         });
  return y;
}

}  // namespace engine
