#include "engine/ops/pool2d.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/cpu_path.h"
#include "engine/ops/device_path.h"
#include "kernels/avg_pool2d/avg_pool2d.h"
#include "kernels/avg_pool2d/avg_pool2d_cuda.h"
#include "kernels/max_pool2d/max_pool2d.h"
#include "kernels/max_pool2d/max_pool2d_cuda.h"

namespace engine {
namespace {

using kernels::Pool2dShape;

void max_forward(const Pool2dShape& shape, const Tensor& x, const Tensor& y, const Tensor& index) {
  uint8_t* places = index.defined() ? index.data<uint8_t>() : nullptr;
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "max_pool2d", [&]<typename T>() {
      kernels::max_pool2d_forward_cuda(shape, x.data<T>(), y.data<T>(), places, stream_of(x));
    });
  }
  dispatch_cpu(
      x.dtype(), "max_pool2d",
      [&]<typename T>() { kernels::max_pool2d_forward_fast(shape, x.data<T>(), y.data<T>(), places); },
      [&]<typename T>() { kernels::max_pool2d_forward_cpu(shape, x.data<T>(), y.data<T>(), places); });
}

void max_backward(const Pool2dShape& shape, const Tensor& grad_y, const Tensor& index, const Tensor& grad_x) {
  if (on_accelerator(grad_y)) {
    return dispatch_device(grad_y.dtype(), "max_pool2d", [&]<typename T>() {
      kernels::max_pool2d_backward_cuda(shape, grad_y.data<T>(), index.data<uint8_t>(), grad_x.data<T>(),
                                        stream_of(grad_y));
    });
  }
  dispatch_cpu(
      grad_y.dtype(), "max_pool2d",
      [&]<typename T>() {
        kernels::max_pool2d_backward_fast(shape, grad_y.data<T>(), index.data<uint8_t>(), grad_x.data<T>());
      },
      [&]<typename T>() {
        kernels::max_pool2d_backward_cpu(shape, grad_y.data<T>(), index.data<uint8_t>(), grad_x.data<T>());
      });
}

void average_forward(const Pool2dShape& shape, const Tensor& x, const Tensor& y) {
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "avg_pool2d", [&]<typename T>() {
      kernels::avg_pool2d_forward_cuda(shape, x.data<T>(), y.data<T>(), stream_of(x));
    });
  }
  dispatch_floating(x.dtype(), "avg_pool2d",
                    [&]<typename T>() { kernels::avg_pool2d_forward_cpu(shape, x.data<T>(), y.data<T>()); });
}

void average_backward(const Pool2dShape& shape, const Tensor& grad_y, const Tensor& grad_x) {
  if (on_accelerator(grad_y)) {
    return dispatch_device(grad_y.dtype(), "avg_pool2d", [&]<typename T>() {
      kernels::avg_pool2d_backward_cuda(shape, grad_y.data<T>(), grad_x.data<T>(), stream_of(grad_y));
    });
  }
  dispatch_floating(grad_y.dtype(), "avg_pool2d",
                    [&]<typename T>() { kernels::avg_pool2d_backward_cpu(shape, grad_y.data<T>(), grad_x.data<T>()); });
}

/// x or its gradient as [n, spatial, c].
struct Planes {
  int64_t n, spatial, c;
};

void global_forward(const Tensor& x, const Tensor& y, const Planes& p) {
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "global_avg_pool", [&]<typename T>() {
      kernels::global_avg_pool_forward_cuda(x.data<T>(), y.data<T>(), p.n, p.spatial, p.c, stream_of(x));
    });
  }
  dispatch_floating(x.dtype(), "global_avg_pool", [&]<typename T>() {
    kernels::global_avg_pool_forward_cpu(x.data<T>(), y.data<T>(), p.n, p.spatial, p.c);
  });
}

void global_backward(const Tensor& grad_y, const Tensor& grad_x, const Planes& p) {
  if (on_accelerator(grad_y)) {
    return dispatch_device(grad_y.dtype(), "global_avg_pool", [&]<typename T>() {
      kernels::global_avg_pool_backward_cuda(grad_y.data<T>(), grad_x.data<T>(), p.n, p.spatial, p.c,
                                             stream_of(grad_y));
    });
  }
  dispatch_floating(grad_y.dtype(), "global_avg_pool", [&]<typename T>() {
    kernels::global_avg_pool_backward_cpu(grad_y.data<T>(), grad_x.data<T>(), p.n, p.spatial, p.c);
  });
}

}  // namespace

kernels::Pool2dShape checked_pool_shape(const char* op, const Tensor& x, const Pool2dOptions& options) {
  check_rank(op, "x", x, 4);
  const auto [kernel, stride, padding] = options;
  ENGINE_CHECK(
      kernel >= 1 && kernel <= 16 && stride >= 1 && padding >= 0 && padding <= kernel / 2,
      "[{}] options: got kernel {}, stride {}, padding {}, expected a kernel of 1 to 16 and at most half of it "
      "as padding",
      op, kernel, stride, padding);
  ENGINE_CHECK(x.dim(1) + 2 * padding >= kernel && x.dim(2) + 2 * padding >= kernel,
               "[{}] x: got {}, expected pictures that a window of {} fits into", op, x.shape().str(), kernel);
  return {.n = x.dim(0),
          .h = x.dim(1),
          .w = x.dim(2),
          .c = x.dim(3),
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_h = padding,
          .pad_w = padding};
}

Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  const Pool2dShape shape = checked_pool_shape("max_pool2d", x, options);
  Tensor y = x.new_empty({shape.n, shape.out_h(), shape.out_w(), shape.c}, x.dtype());
  const bool recorded = should_record({&x});
  const Tensor index = recorded ? y.new_empty(y.shape(), DType::u8) : Tensor();
  max_forward(shape, x, y, index);
  if (!recorded) return y;
  record("max_pool2d", {&x}, {&y}, [index, shape](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = gradients.target(0, {shape.n, shape.h, shape.w, shape.c}, grad_y.dtype());
    max_backward(shape, grad_y, index, grad_x);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  const Pool2dShape shape = checked_pool_shape("avg_pool2d", x, options);
  Tensor y = x.new_empty({shape.n, shape.out_h(), shape.out_w(), shape.c}, x.dtype());
  average_forward(shape, x, y);
  if (!should_record({&x})) return y;
  record("avg_pool2d", {&x}, {&y}, [shape](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = gradients.target(0, {shape.n, shape.h, shape.w, shape.c}, grad_y.dtype());
    average_backward(shape, grad_y, grad_x);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

Tensor global_avg_pool(const Tensor& x) {
  check_rank("global_avg_pool", "x", x, 4);
  ENGINE_CHECK(x.dim(1) > 0 && x.dim(2) > 0, "[global_avg_pool] x: got {}, expected pictures", x.shape().str());
  const Shape shape = x.shape();
  const Planes planes{shape[0], shape[1] * shape[2], shape[3]};
  Tensor y = x.new_empty({planes.n, planes.c}, x.dtype());
  global_forward(x, y, planes);
  if (!should_record({&x})) return y;
  record("global_avg_pool", {&x}, {&y}, [shape, planes](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = gradients.target(0, shape, grad_y.dtype());
    global_backward(grad_y, grad_x, planes);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
