#pragma once
// The step that residual networks repeat: a convolution without bias and the batch norm behind it.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/nn/layers.h"
#include "engine/ops/norm_conv2d.h"

namespace engine {

class ConvNorm {
 public:
  explicit ConvNorm(const Conv2dConfig& config) : conv_(config), norm_(config.out_channels) {}

  /// He's initialisation of the convolution called `name`.
  void init(uint64_t seed, const std::string& name);
  Conv2d& conv() { return conv_; }
  BatchNorm2d& norm() { return norm_; }
  Shape describe(const std::string& conv, const std::string& norm, const Shape& input,
                 std::vector<LayerDescription>& layers) const;

  /// Layer by layer.
  Tensor plain(const Tensor& x) { return norm_(conv_(x)); }
  Tensor relu(const Tensor& x, const Tensor& residual = Tensor()) { return norm_.forward_relu(conv_(x), residual); }

  // In training where may_fuse(): in the forms that training_forms_on() gives, and apart what they leave out.

  /// The convolution alone. Afterwards `input` is a tensor unless it was an activation that is never stored.
  NormConv2d convolve(Activation& input);
  /// What the norm makes of the convolution's result, to be applied by whoever reads it as far as its sums are known:
  /// relu(norm), relu(norm + shortcut), the norm alone.
  Activation relu(const NormConv2d& result);
  Activation end_block(const NormConv2d& result, const Shortcut& shortcut);
  Shortcut shortcut(const NormConv2d& result);

 private:
  Conv2d conv_;
  BatchNorm2d norm_;
};

}  // namespace engine
