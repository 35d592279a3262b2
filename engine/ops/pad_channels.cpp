#include "engine/ops/pad_channels.h"

#include "engine/autograd/node.h"
#include "engine/core/dispatch.h"
#include "engine/ops/checks.h"
#include "engine/ops/device_path.h"
#include "kernels/pad_channels/pad_channels.h"
#include "kernels/pad_channels/pad_channels_cuda.h"

namespace engine {
namespace {

using kernels::PadChannels;

void forward(const PadChannels& spec, const Tensor& x, const Tensor& y) {
  if (on_accelerator(x)) {
    return dispatch_device(x.dtype(), "pad_channels", [&]<typename T>() {
      kernels::pad_channels_forward_cuda(spec, x.data<T>(), y.data<T>(), stream_of(x));
    });
  }
  dispatch_floating(x.dtype(), "pad_channels",
                    [&]<typename T>() { kernels::pad_channels_forward_cpu(spec, x.data<T>(), y.data<T>()); });
}

void backward(const PadChannels& spec, const Tensor& grad_y, const Tensor& grad_x) {
  if (on_accelerator(grad_y)) {
    return dispatch_device(grad_y.dtype(), "pad_channels", [&]<typename T>() {
      kernels::pad_channels_backward_cuda(spec, grad_y.data<T>(), grad_x.data<T>(), stream_of(grad_y));
    });
  }
  dispatch_floating(grad_y.dtype(), "pad_channels", [&]<typename T>() {
    kernels::pad_channels_backward_cpu(spec, grad_y.data<T>(), grad_x.data<T>());
  });
}

}  // namespace

Tensor pad_channels(const Tensor& x, int64_t channels) {
  check_input("pad_channels", "x", x);
  ENGINE_CHECK(x.rank() >= 1 && channels >= x.dim(-1),
               "[pad_channels] channels: got {} for x {}, expected at least x's", channels, x.shape().str());
  if (channels == x.dim(-1)) return x;
  const Shape shape = x.shape();
  std::vector<int64_t> extents(shape.extents().begin(), shape.extents().end());
  extents.back() = channels;
  const PadChannels spec{.rows = x.dim(-1) == 0 ? 0 : x.numel() / x.dim(-1), .channels = x.dim(-1), .padded = channels};
  Tensor y = x.new_empty(Shape(extents), x.dtype());
  forward(spec, x, y);
  if (!should_record({&x})) return y;
  record("pad_channels", {&x}, {&y}, [spec, shape](Gradients& gradients) {
    const Tensor grad_y = gradients.take_output(0).contiguous();
    Tensor grad_x = gradients.target(0, shape, grad_y.dtype());
    backward(spec, grad_y, grad_x);
    gradients.set(0, std::move(grad_x));
  });
  return y;
}

}  // namespace engine
