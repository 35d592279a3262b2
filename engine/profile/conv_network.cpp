#include "engine/profile/conv_network.h"

#include <algorithm>

namespace engine {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvFusion;
using kernels::ConvPlanKey;
using kernels::ConvPrologue;

struct SplitName {
  std::string prefix;  // "layer1.0."
  std::string last;    // "conv2"
};

SplitName split(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? SplitName{"", name} : SplitName{name.substr(0, dot + 1), name.substr(dot + 1)};
}

class Network {
 public:
  explicit Network(const std::vector<LayerDescription>& layers) : layers_(layers) {}

  ConvInput input_of(size_t index) const {
    const auto [prefix, last] = split(layers_[index].name);
    if (is_first_conv(index)) return ConvInput::picture;
    if (last.size() != 5 || !last.starts_with("conv")) return ConvInput::stored;
    if (last != "conv1") {
      const std::string norm = prefix + "bn" + static_cast<char>(last.back() - 1);
      return has(norm) ? ConvInput::activation : ConvInput::stored;
    }
    const std::string before = block_before(index, prefix);
    if (before.empty()) return ConvInput::stored;
    return has(before + "downsample.1") ? ConvInput::dual_block_end : ConvInput::block_end;
  }

  bool norm_behind(size_t index) const { return index + 1 < layers_.size() && layers_[index + 1].kind == "batch_norm"; }

 private:
  bool is_first_conv(size_t index) const {
    return std::none_of(layers_.begin(), layers_.begin() + static_cast<std::ptrdiff_t>(index),
                        [](const LayerDescription& layer) { return layer.convolution.has_value(); });
  }
  bool has(const std::string& name) const {
    return std::any_of(layers_.begin(), layers_.end(), [&](const auto& layer) { return layer.name == name; });
  }
  /// Prefix of the block whose last layers stand right before this one; empty where there is none.
  std::string block_before(size_t index, const std::string& prefix) const {
    if (prefix.empty()) return "";
    const std::string& neighbour = layers_[index - 1].name;
    const size_t inner = neighbour.find(".downsample.");
    const std::string before = inner != std::string::npos ? neighbour.substr(0, inner + 1) : split(neighbour).prefix;
    return has(before + "conv1") ? before : "";
  }

  const std::vector<LayerDescription>& layers_;
};

ConvFusion wanted_forward(const NetworkConv& conv) {
  ConvFusion fusion;
  if (conv.norm_behind) fusion.epilogue = ConvEpilogue::statistics;
  if (conv.input == ConvInput::activation) fusion.prologue = ConvPrologue::scale_bias_relu;
  if (conv.input == ConvInput::block_end) fusion.prologue = ConvPrologue::scale_bias_add_relu;
  if (conv.input == ConvInput::dual_block_end) fusion.prologue = ConvPrologue::dual_scale_bias_add_relu;
  return fusion;
}

ConvFusion wanted_backward_data(const NetworkConv& conv) {
  switch (conv.input) {
    case ConvInput::activation:
      return {.epilogue = ConvEpilogue::norm_backward};
    case ConvInput::block_end:
      return {.epilogue = ConvEpilogue::add_norm_backward};
    case ConvInput::dual_block_end:
      return {.epilogue = ConvEpilogue::add_dual_norm_backward};
    case ConvInput::picture:
    case ConvInput::stored:
      break;
  }
  return {};
}

}  // namespace

std::vector<NetworkConv> conv_network(const std::vector<LayerDescription>& layers) {
  const Network network(layers);
  std::vector<NetworkConv> convs;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].convolution) continue;
    convs.push_back({layers[i].name, *layers[i].convolution, network.input_of(i), network.norm_behind(i)});
  }
  return convs;
}

ConvPlanKey training_key(const NetworkConv& conv, ConvDirection direction, int64_t batch, kernels::ElementType type,
                         const kernels::FusionTarget& target) {
  ConvPlanKey key{
      .shape = conv.shape, .direction = ConvDirection::forward, .type = type, .fusion = wanted_forward(conv)};
  key.shape.n = batch;
  key = conv_fusion_choice(target, key);
  if (direction == ConvDirection::forward) return key;
  // The weight gradient recomputes the input exactly where the forward pass did not store it.
  const bool not_stored = key.fusion.prologue == ConvPrologue::scale_bias_relu;
  key.direction = direction;
  key.fusion = direction == ConvDirection::backward_data ? wanted_backward_data(conv) : ConvFusion{};
  if (direction == ConvDirection::backward_weights && not_stored) key.fusion.prologue = ConvPrologue::scale_bias_relu;
  return conv_fusion_choice(target, key);
}

}  // namespace engine
