#include "engine/nn/conv_norm.h"

#include "engine/nn/init.h"

namespace engine {

void ConvNorm::init(uint64_t seed, const std::string& name) {
  init_he_normal_fan_out(conv_.weight(), seed, name + ".weight");
}

Shape ConvNorm::describe(const std::string& conv, const std::string& norm, const Shape& input,
                         std::vector<LayerDescription>& layers) const {
  return norm_.describe(norm, conv_.describe(conv, input, layers), layers);
}

NormConv2d ConvNorm::convolve(Activation& input) {
  const Tensor& weight = conv_.weight();
  const ConvForms forms = training_forms_on(weight.device(), conv_site(input, weight, conv_.options()));
  if (!forms.joined()) input = {.stored = computed(input)};
  NormConv2d result = norm_conv2d(input, weight, conv_.options(), forms);
  if (result.activated.defined()) input = {.stored = result.activated};
  return result;
}

Activation ConvNorm::relu(const NormConv2d& result) {
  if (result.sums.defined()) return {.norm = norm_.pending(result.y, result.sums)};
  return {.stored = norm_.forward_relu(result.y)};
}

Activation ConvNorm::end_block(const NormConv2d& result, const Shortcut& shortcut) {
  if (result.sums.defined()) return {.norm = norm_.pending(result.y, result.sums), .shortcut = shortcut};
  const Tensor residual = shortcut.norm.defined() ? apply_norm(shortcut.norm, false) : shortcut.tensor;
  return {.stored = norm_.forward_relu(result.y, residual)};
}

Shortcut ConvNorm::shortcut(const NormConv2d& result) {
  if (result.sums.defined()) return {.norm = norm_.pending(result.y, result.sums)};
  return {.tensor = norm_(result.y)};
}

}  // namespace engine
