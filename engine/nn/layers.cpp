#include "engine/nn/layers.h"

#include "engine/autograd/checkpoint.h"
#include "engine/autograd/node.h"
#include "engine/core/error.h"
#include "engine/ops/batch_norm.h"
#include "engine/ops/bn_relu_max_pool.h"
#include "engine/ops/linear.h"
#include "engine/ops/pad_channels.h"
#include "engine/ops/view.h"
#include "kernels/conv2d/conv2d.h"

namespace engine {
namespace {

constexpr MemoryCategory kParameters = MemoryCategory::parameters;

Tensor parameter(const Shape& shape) { return Tensor::empty(shape, DType::f32, kParameters); }

Tensor filled(const Shape& shape, double value) {
  Tensor tensor = parameter(shape);
  tensor.fill(value);
  return tensor;
}

NamedTensor described(const char* name, ParameterKind kind, FileLayout layout = FileLayout::plain,
                      int64_t channels = 0) {
  return {.name = name, .tensor = {}, .layout = layout, .channels = channels, .kind = kind};
}

}  // namespace

Conv2d::Conv2d(const Conv2dConfig& config)
    : config_(config),
      weight_(
          parameter({config.out_channels, config.kernel, config.kernel, config.in_channels / config.options.groups})) {
  register_parameter(described("weight", ParameterKind::weight, FileLayout::filter), weight_);
  if (config.bias) {
    bias_ = parameter(Shape{config.out_channels});
    register_parameter(described("bias", ParameterKind::bias), bias_);
  }
}

Tensor Conv2d::forward(const Tensor& x) {
  // Pictures on accelerators may have a channel of zeros more.
  const bool padded = config_.options.groups == 1 && x.rank() == 4 && x.dim(3) > config_.in_channels;
  return observed(conv2d(x, padded ? pad_channels(weight_, x.dim(3)) : weight_, bias_, config_.options));
}

Shape Conv2d::describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const {
  const Conv2dOptions& options = config_.options;
  const kernels::Conv2dShape shape{.n = 1,
                                   .h = input[0],
                                   .w = input[1],
                                   .c = input[2],
                                   .k = config_.out_channels,
                                   .r = config_.kernel,
                                   .s = config_.kernel,
                                   .stride_h = options.stride,
                                   .stride_w = options.stride,
                                   .pad_h = options.padding,
                                   .pad_w = options.padding,
                                   .dilation_h = options.dilation,
                                   .dilation_w = options.dilation,
                                   .groups = options.groups};
  const Shape output{shape.out_h(), shape.out_w(), shape.k};
  const int64_t parameters = weight_.numel() + (bias_.defined() ? bias_.numel() : 0);
  layers.push_back({name, "conv2d", output, parameters, shape.macs(), shape});
  return output;
}

BatchNorm2d::BatchNorm2d(int64_t channels)
    : weight_(filled(Shape{channels}, 1)),
      bias_(filled(Shape{channels}, 0)),
      running_mean_(filled(Shape{channels}, 0)),
      running_var_(filled(Shape{channels}, 1)),
      batches_(Tensor::zeros(Shape{}, DType::i64, kParameters)) {
  register_parameter(described("weight", ParameterKind::norm), weight_);
  register_parameter(described("bias", ParameterKind::norm), bias_);
  register_buffer("running_mean", running_mean_);
  register_buffer("running_var", running_var_);
  register_buffer("num_batches_tracked", batches_);
}

Tensor BatchNorm2d::normalise(const Tensor& x, bool relu, const Tensor& residual) {
  count_batch();
  const BatchNormState state{weight_, bias_, running_mean_, running_var_};
  return observed(batch_norm(x, state, {.training = training(), .tracked = !recomputing(), .relu = relu}, residual));
}

void BatchNorm2d::count_batch() {
  if (training() && !recomputing()) ++*batches_.data<int64_t>();
}

Tensor BatchNorm2d::forward_relu_max_pool(const Tensor& x, const Pool2dOptions& pool) {
  count_batch();
  const BatchNormState state{weight_, bias_, running_mean_, running_var_};
  return observed(bn_relu_max_pool(x, state, {.training = training(), .tracked = !recomputing(), .relu = true}, pool));
}

PendingNorm BatchNorm2d::pending(const Tensor& x, const ConvSums& sums) {
  count_batch();
  const BatchNormState state{weight_, bias_, running_mean_, running_var_};
  return pending_norm(x, sums, state, {.training = true, .tracked = !recomputing()});
}

Tensor BatchNorm2d::forward(const Tensor& x) { return normalise(x, false, Tensor()); }

Tensor BatchNorm2d::forward_relu(const Tensor& x, const Tensor& residual) { return normalise(x, true, residual); }

Shape BatchNorm2d::describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const {
  layers.push_back({name, "batch_norm", input, weight_.numel() + bias_.numel(), 0});
  return input;
}

Linear::Linear(const LinearConfig& config)
    : config_(config),
      weight_(parameter({config.out_features, config.in_features})),
      bias_(parameter(Shape{config.out_features})) {
  const bool flattened = config.flattened_channels > 0;
  register_parameter(described("weight", ParameterKind::weight,
                               flattened ? FileLayout::flattened_linear : FileLayout::plain, config.flattened_channels),
                     weight_);
  register_parameter(described("bias", ParameterKind::bias), bias_);
}

Tensor Linear::forward(const Tensor& x) { return observed(linear(x.rank() > 2 ? flatten(x) : x, weight_, bias_)); }

Shape Linear::describe(const std::string& name, const Shape&, std::vector<LayerDescription>& layers) const {
  const Shape output{config_.out_features};
  layers.push_back({name, "linear", output, weight_.numel() + bias_.numel(), weight_.numel()});
  return output;
}

}  // namespace engine
