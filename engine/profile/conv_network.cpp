#include "engine/profile/conv_network.h"

#include <algorithm>

#include "kernels/input/input.h"

namespace engine {
namespace {

using kernels::Conv2dShape;
using kernels::ConvDirection;
using kernels::ConvPlanKey;

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

  /// With what it reads and where that comes from.
  NetworkConv conv(size_t index) const {
    NetworkConv conv{layers_[index].name, *layers_[index].convolution, ConvInput::stored, {}, norm_behind(index)};
    const auto [prefix, last] = split(conv.name);
    if (is_first_conv(index)) conv.input = ConvInput::picture;
    if (conv.input == ConvInput::picture || last.size() != 5 || !last.starts_with("conv")) return conv;
    if (last != "conv1") {
      const char before = static_cast<char>(last.back() - 1);
      if (!has(prefix + "bn" + before)) return conv;
      conv.input = ConvInput::activation;
      conv.sources = {shape_of(prefix + "conv" + before)};
      return conv;
    }
    const std::string before = block_before(index, prefix);
    if (before.empty()) return conv;
    conv.input = ConvInput::block_end;
    conv.sources = {last_conv(before)};
    if (!has(before + "downsample.1")) return conv;
    conv.input = ConvInput::dual_block_end;
    conv.sources.push_back(shape_of(before + "downsample.0"));
    return conv;
  }

 private:
  bool norm_behind(size_t index) const { return index + 1 < layers_.size() && layers_[index + 1].kind == "batch_norm"; }
  bool is_first_conv(size_t index) const {
    return std::none_of(layers_.begin(), layers_.begin() + static_cast<std::ptrdiff_t>(index),
                        [](const LayerDescription& layer) { return layer.convolution.has_value(); });
  }
  bool has(const std::string& name) const {
    return std::any_of(layers_.begin(), layers_.end(), [&](const auto& layer) { return layer.name == name; });
  }
  Conv2dShape shape_of(const std::string& name) const {
    return std::find_if(layers_.begin(), layers_.end(), [&](const auto& layer) { return layer.name == name; })
        ->convolution.value();
  }
  Conv2dShape last_conv(const std::string& prefix) const {
    int number = 1;
    while (has(prefix + "conv" + std::to_string(number + 1))) ++number;
    return shape_of(prefix + "conv" + std::to_string(number));
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

ConvSite site_of(Conv2dShape shape, int64_t batch, kernels::ElementType type) {
  shape.n = batch;
  return {.shape = shape, .type = type};
}

}  // namespace

std::vector<NetworkConv> conv_network(const std::vector<LayerDescription>& layers) {
  const Network network(layers);
  std::vector<NetworkConv> convs;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].convolution) convs.push_back(network.conv(i));
  }
  return convs;
}

ConvSite training_site(const NetworkConv& conv, int64_t batch, kernels::ElementType type,
                       const kernels::FusionTarget& target) {
  ConvSite site = site_of(conv.shape, batch, type);
  if (conv.input == ConvInput::picture) site.shape.c = kernels::padded_channels(site.shape.c, type);
  site.input = conv.input;
  site.norm_behind = conv.norm_behind;
  const auto summed = [&](size_t source) {
    const ConvSite before = site_of(conv.sources.at(source), batch, type);
    return training_forms(before, target).forward.epilogue == kernels::ConvEpilogue::statistics;
  };
  if (conv.sources.empty()) return site;
  if (site.input == ConvInput::dual_block_end && !summed(1)) site.input = ConvInput::block_end;
  if (!summed(0)) site.input = ConvInput::stored;
  return site;
}

ConvPlanKey training_key(const NetworkConv& conv, ConvDirection direction, int64_t batch, kernels::ElementType type,
                         const kernels::FusionTarget& target) {
  const ConvSite site = training_site(conv, batch, type, target);
  return {
      .shape = site.shape, .direction = direction, .type = type, .fusion = training_forms(site, target).of(direction)};
}

}  // namespace engine
