#include <functional>
#include <vector>

#include "kernels/common/cuda_error.h"
#include "kernels/common/storage_floats.h"
#include "kernels/matmul/matmul_device.h"

namespace engine::kernels {
namespace {

/// A matrix or vector of the layer in device memory.
struct Operand {
  const void* data;
  int64_t count;
  emulator::Span span(ElementType type) const { return {data, static_cast<size_t>(count * element_bytes(type))}; }
};

void put(const char* name, const LinearDevice& layer, std::vector<Operand> reads, const Operand& write,
         cudaStream_t stream, std::function<void()> body) {
  if (write.count == 0) return;
  std::vector<emulator::Span> spans;
  for (const Operand& read : reads) spans.push_back(read.span(layer.type));
  check_cuda(emulator::launch_library(name, stream, std::move(spans), {write.span(layer.type)}, std::move(body)), name);
}

}  // namespace

int64_t linear_device_workspace_bytes() { return 0; }

void linear_forward_device(const LinearDevice& layer, const void* x, const void* weight, const void* bias, void* y,
                           cudaStream_t stream) {
  const LinearShape shape = layer.shape;
  const int64_t x_count = shape.batch * shape.in, weight_count = shape.out * shape.in;
  const int64_t y_count = shape.batch * shape.out, bias_count = bias != nullptr ? shape.out : 0;
  std::vector<Operand> reads{{x, x_count}, {weight, weight_count}};
  if (bias != nullptr) reads.push_back({bias, bias_count});
  put("linear_forward", layer, std::move(reads), {y, y_count}, stream, [=, type = layer.type] {
    const FloatsIn x_floats(x, x_count, type), weight_floats(weight, weight_count, type);
    const FloatsIn bias_floats(bias, bias_count, type);
    FloatsOut y_floats(y, y_count, type);
    linear_forward_onednn(x_floats.data(), weight_floats.data(), bias_floats.data(), y_floats.data(), shape);
    y_floats.store();
  });
}

void linear_backward_data_device(const LinearDevice& layer, const void* grad_y, const void* weight, void* grad_x,
                                 cudaStream_t stream) {
  const LinearShape shape = layer.shape;
  const int64_t x_count = shape.batch * shape.in, weight_count = shape.out * shape.in;
  const int64_t y_count = shape.batch * shape.out;
  put("linear_backward_data", layer, {{grad_y, y_count}, {weight, weight_count}}, {grad_x, x_count}, stream,
      [=, type = layer.type] {
        const FloatsIn grad_floats(grad_y, y_count, type), weight_floats(weight, weight_count, type);
        FloatsOut x_floats(grad_x, x_count, type);
        linear_backward_data_onednn(grad_floats.data(), weight_floats.data(), x_floats.data(), shape);
        x_floats.store();
      });
}

void linear_backward_weights_device(const LinearDevice& layer, const void* x, const void* grad_y, void* grad_weight,
                                    cudaStream_t stream) {
  const LinearShape shape = layer.shape;
  const int64_t x_count = shape.batch * shape.in, weight_count = shape.out * shape.in;
  const int64_t y_count = shape.batch * shape.out;
  put("linear_backward_weights", layer, {{x, x_count}, {grad_y, y_count}}, {grad_weight, weight_count}, stream,
      [=, type = layer.type] {
        const FloatsIn x_floats(x, x_count, type), grad_floats(grad_y, y_count, type);
        FloatsOut weight_floats(grad_weight, weight_count, type);
        linear_backward_weights_onednn(x_floats.data(), grad_floats.data(), weight_floats.data(), nullptr, shape);
        weight_floats.store();
      });
}

}  // namespace engine::kernels
