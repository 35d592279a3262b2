#pragma once
// The layers that models are made of, with PyTorch's names and defaults.

#include "engine/nn/module.h"
#include "engine/ops/conv2d.h"
#include "engine/ops/pending_norm_device.h"
#include "engine/ops/pool2d.h"

namespace engine {

struct Conv2dConfig {
  int64_t in_channels;
  int64_t out_channels;
  int64_t kernel;
  Conv2dOptions options{};
  bool bias = false;
};

/// Parameters weight [k, r, s, c / groups] and, where asked for, bias [k]; uninitialised (engine/nn/init.h). Without
/// groups, x may have more channels than c, of zeros: the filter gets zeros for them, for as long as it is needed.
class Conv2d final : public Module {
 public:
  explicit Conv2d(const Conv2dConfig& config);
  Tensor forward(const Tensor& x) override;
  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override;
  Tensor& weight() { return weight_; }
  Tensor& bias() { return bias_; }
  const Conv2dOptions& options() const { return config_.options; }

 private:
  Conv2dConfig config_;
  Tensor weight_, bias_;
};

/// Parameters weight (ones) and bias (zeros), buffers running_mean, running_var and num_batches_tracked, [c] each.
/// Momentum 0.1, eps 1e-5.
class BatchNorm2d final : public Module {
 public:
  explicit BatchNorm2d(int64_t channels);
  Tensor forward(const Tensor& x) override;
  /// relu(bn(x) + residual) in one operation; residual may be undefined.
  Tensor forward_relu(const Tensor& x, const Tensor& residual = Tensor());
  /// max_pool2d(relu(bn(x))) in one operation.
  Tensor forward_relu_max_pool(const Tensor& x, const Pool2dOptions& pool);
  /// In training on accelerators: the same norm from the sums of x, to be applied by whoever reads it.
  PendingNorm pending(const Tensor& x, const ConvSums& sums);
  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override;
  Tensor& weight() { return weight_; }

 private:
  Tensor normalise(const Tensor& x, bool relu, const Tensor& residual);
  void count_batch();

  Tensor weight_, bias_, running_mean_, running_var_, batches_;
};

struct LinearConfig {
  int64_t in_features;
  int64_t out_features;
  int64_t flattened_channels = 0;  // above 0: the input is a flattened picture of so many channels
};

/// Parameters weight [out, in] and bias [out]; uninitialised. Takes [n, in], or pictures, which it flattens.
class Linear final : public Module {
 public:
  explicit Linear(const LinearConfig& config);
  Tensor forward(const Tensor& x) override;
  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override;
  Tensor& weight() { return weight_; }
  Tensor& bias() { return bias_; }

 private:
  LinearConfig config_;
  Tensor weight_, bias_;
};

}  // namespace engine
