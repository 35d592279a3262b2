#include "engine/ops/linear.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/cpu_path.h"
#include "engine/ops/device_path.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/matmul_device.h"

namespace engine {
namespace {

using kernels::LinearShape;
using kernels::MatmulShape;

/// A layer on the device of `like`, and the scratch that it may use.
struct DeviceLayer {
  DeviceLayer(const Tensor& like, const LinearShape& shape)
      : workspace(device_workspace(like, kernels::linear_device_workspace_bytes())),
        layer{.shape = shape,
              .type = element_type_of(like.dtype(), "linear"),
              .device = like.device().index,
              .workspace = workspace.raw()} {
    use_device(like.device());
  }
  Tensor workspace;
  kernels::LinearDevice layer;
};

void linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, const LinearShape& shape) {
  if (on_accelerator(x)) {
    const DeviceLayer device(x, shape);
    return kernels::linear_forward_device(device.layer, x.raw(), w.raw(), bias.defined() ? bias.raw() : nullptr,
                                          y.raw(), stream_of(x));
  }
  dispatch_cpu(
      x.dtype(), "linear",
      [&]<typename T>() {
        kernels::linear_forward_onednn(x.data<T>(), w.data<T>(), data_or_null<T>(bias), y.data<T>(), shape);
      },
      [&]<typename T>() {
        kernels::linear_forward_cpu<T>(x.data<T>(), w.data<T>(), data_or_null<T>(bias), y.data<T>(), shape);
      });
}

void linear_backward_data(const Tensor& grad_y, const Tensor& w, const Tensor& grad_x, const LinearShape& shape) {
  if (on_accelerator(w)) {
    const DeviceLayer device(w, shape);
    return kernels::linear_backward_data_device(device.layer, grad_y.raw(), w.raw(), grad_x.raw(), stream_of(w));
  }
  dispatch_cpu(
      w.dtype(), "linear",
      [&]<typename T>() {
        kernels::linear_backward_data_onednn(grad_y.data<T>(), w.data<T>(), grad_x.data<T>(), shape);
      },
      [&]<typename T>() {
        kernels::linear_backward_data_cpu<T>(grad_y.data<T>(), w.data<T>(), grad_x.data<T>(), shape);
      });
}

void linear_backward_weights(const Tensor& x, const Tensor& grad_y, const Tensor& grad_w, const Tensor& grad_bias,
                             const LinearShape& shape) {
  if (on_accelerator(x)) {
    const DeviceLayer device(x, shape);
    kernels::linear_backward_weights_device(device.layer, x.raw(), grad_y.raw(), grad_w.raw(), stream_of(x));
    if (grad_bias.defined()) bias_backward_on_device(grad_y, grad_bias, shape.batch, shape.out);
    return;
  }
  dispatch_cpu(
      x.dtype(), "linear",
      [&]<typename T>() {
        kernels::linear_backward_weights_onednn(x.data<T>(), grad_y.data<T>(), grad_w.data<T>(),
                                                data_or_null<T>(grad_bias), shape);
      },
      [&]<typename T>() {
        kernels::linear_backward_weights_cpu<T>(x.data<T>(), grad_y.data<T>(), grad_w.data<T>(),
                                                data_or_null<T>(grad_bias), shape);
      });
}

void product(const Tensor& a, const Tensor& b, const Tensor& c, const MatmulShape& shape) {
  dispatch_cpu(
      a.dtype(), "matmul", [&]<typename T>() { kernels::matmul_onednn(a.data<T>(), b.data<T>(), c.data<T>(), shape); },
      [&]<typename T>() { kernels::matmul_cpu<T>(a.data<T>(), b.data<T>(), c.data<T>(), shape); });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_rank("linear", "x", x, 2);
  check_rank("linear", "weight", weight, 2);
  check_shape("linear", "weight", weight, Shape{weight.dim(0), x.dim(1)}, x);
  const LinearShape shape{x.dim(0), x.dim(1), weight.dim(0)};
  if (bias.defined()) check_shape("linear", "bias", bias, Shape{shape.out}, x);
  Tensor y = x.new_empty({shape.batch, shape.out}, x.dtype());
  linear_forward(x, weight, bias, y, shape);
  if (!should_record({&x, &weight, &bias})) return y;
  const bool biased = bias.defined();
  record("linear", {&x, &weight, &bias}, {&y},
         [saved_x = x.detach(), w = weight.detach(), shape, biased](Gradients& gradients) {
           const Tensor grad_y = gradients.output(0).contiguous();
           if (gradients.wanted(1) || gradients.wanted(2)) {
             Tensor grad_w = gradients.target(1, w.shape(), w.dtype());
             Tensor grad_bias = biased ? gradients.target(2, Shape{shape.out}, w.dtype()) : Tensor();
             linear_backward_weights(saved_x, grad_y, grad_w, grad_bias, shape);
             if (gradients.wanted(1)) gradients.set(1, std::move(grad_w));
             if (gradients.wanted(2)) gradients.set(2, std::move(grad_bias));
           }
           if (gradients.wanted(0)) {
             Tensor grad_x = gradients.target(0, saved_x.shape(), w.dtype());
             linear_backward_data(grad_y, w, grad_x, shape);
             gradients.set(0, std::move(grad_x));
           }
         });
  return y;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check_rank("matmul", "a", a, 2);
  check_rank("matmul", "b", b, 2);
  check_shape("matmul", "b", b, Shape{a.dim(1), b.dim(1)}, a);
  ENGINE_CHECK(!on_accelerator(a), "[matmul] a: got a tensor on {}, expected one on the CPU", name_of(a.device()));
  const int64_t m = a.dim(0), k = a.dim(1), n = b.dim(1);
  Tensor c = a.new_empty({m, n}, a.dtype());
  product(a, b, c, {.m = m, .n = n, .k = k});
  if (!should_record({&a, &b})) return c;
  record("matmul", {&a, &b}, {&c}, [sa = a.detach(), sb = b.detach(), m, n, k](Gradients& gradients) {
    const Tensor grad_c = gradients.output(0).contiguous();
    if (gradients.wanted(0)) {
      Tensor grad_a = gradients.target(0, sa.shape(), sa.dtype());
      product(grad_c, sb, grad_a, {.m = m, .n = k, .k = n, .transpose_b = true});
      gradients.set(0, std::move(grad_a));
    }
    if (gradients.wanted(1)) {
      Tensor grad_b = gradients.target(1, sb.shape(), sb.dtype());
      product(sa, grad_c, grad_b, {.m = k, .n = n, .k = m, .transpose_a = true});
      gradients.set(1, std::move(grad_b));
    }
  });
  return c;
}

}  // namespace engine
