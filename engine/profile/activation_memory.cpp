#include "engine/profile/activation_memory.h"

#include <algorithm>

namespace engine {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvPrologue;

class Walk {
 public:
  Walk(const std::vector<LayerDescription>& layers, int64_t batch, kernels::ElementType type,
       const kernels::FusionTarget& target)
      : layers_(layers), convs_(conv_network(layers)), batch_(batch), type_(type), target_(target) {}

  int64_t peak(const Shape& input) const {
    const int64_t element = kernels::element_bytes(type_);
    int64_t kept = input.numel() * element, worst = kept;
    for (size_t i = 0; i < layers_.size(); ++i) {
      kept += kept_by(i);
      int64_t gradients = 2 * layers_[i].output_shape.numel();
      if (layers_[i].convolution) {
        // Those of its result and its input, and the one that waits for the shortcut.
        gradients = layers_[i].output_shape.numel() + 2 * layers_[i].convolution->x_numel();
      }
      worst = std::max(worst, kept + gradients * element);
    }
    return batch_ * worst;
  }

 private:
  int64_t kept_by(size_t i) const {
    const LayerDescription& layer = layers_[i];
    const int64_t values = layer.output_shape.numel(), bytes = values * kernels::element_bytes(type_);
    if (layer.kind == "max_pool2d") return bytes + values;
    if (layer.kind != "batch_norm") return bytes;
    if (i + 1 < layers_.size() && layers_[i + 1].kind == "max_pool2d") return 0;
    if (layer.name.ends_with(".downsample.1")) return 0;
    const NetworkConv* reader = reader_of(i);
    if (reader == nullptr) return bytes + values / 8;
    if (reader->input == ConvInput::activation) {
      return form(*reader, ConvDirection::forward).prologue == ConvPrologue::none ? bytes : 0;
    }
    // Where the gradient's form computes the ReLU's argument again, no bits are kept.
    return form(*reader, ConvDirection::backward_data).epilogue == ConvEpilogue::none ? bytes + values / 8 : bytes;
  }

  /// The first convolution behind a batch norm, the shortcut's left aside.
  const NetworkConv* reader_of(size_t norm) const {
    for (size_t i = norm + 1; i < layers_.size(); ++i) {
      if (!layers_[i].convolution || layers_[i].name.ends_with(".downsample.0")) continue;
      const auto same = [&](const NetworkConv& conv) { return conv.name == layers_[i].name; };
      return &*std::find_if(convs_.begin(), convs_.end(), same);
    }
    return nullptr;
  }
  kernels::ConvFusion form(const NetworkConv& conv, ConvDirection direction) const {
    return training_key(conv, direction, std::max<int64_t>(batch_, 1), type_, target_).fusion;
  }

  const std::vector<LayerDescription>& layers_;
  std::vector<NetworkConv> convs_;
  int64_t batch_;
  kernels::ElementType type_;
  const kernels::FusionTarget& target_;
};

}  // namespace

int64_t activation_bytes(const std::vector<LayerDescription>& layers, const Shape& input, int64_t batch,
                         kernels::ElementType type, const kernels::FusionTarget& target) {
  return Walk(layers, batch, type, target).peak(input);
}

}  // namespace engine
