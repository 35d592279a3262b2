#include "models/resnet.h"

#include "engine/nn/conv_norm.h"
#include "engine/nn/init.h"
#include "engine/ops/pool2d.h"

namespace engine::models {
namespace {

constexpr Pool2dOptions kStemPool{.kernel = 3, .stride = 2, .padding = 1};

Conv2dConfig conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {
      .in_channels = in, .out_channels = out, .kernel = kernel, .options = {.stride = stride, .padding = kernel / 2}};
}

/// Names the shortcut's layers "0" and "1", as PyTorch's Sequential does.
class Downsample final : public Module {
 public:
  Downsample(int64_t in, int64_t out, int64_t stride) : layers_(conv(in, out, 1, stride)) {
    register_child("0", layers_.conv());
    register_child("1", layers_.norm());
  }
  Tensor forward(const Tensor& x) override { return layers_.plain(x); }
  Shortcut fused(const Tensor& x) {
    Activation input{.stored = x};
    return layers_.shortcut(layers_.convolve(input));
  }
  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override {
    return layers_.describe(name + ".0", name + ".1", input, layers);
  }
  void init(uint64_t seed, const std::string& name) { layers_.init(seed, name + ".0"); }

 private:
  ConvNorm layers_;
};

struct BlockConfig {
  bool bottleneck;
  int64_t in;     // channels
  int64_t width;  // of the 3x3 convolutions
  int64_t stride;
  int64_t out() const { return bottleneck ? 4 * width : width; }
};

/// Two 3x3 convolutions, or 1x1, 3x3, 1x1 with the stride in the 3x3; the shortcut is added before the last ReLU.
class Block final : public Module {
 public:
  Block(const BlockConfig& config, const ModelOptions& options, const std::string& name) {
    const auto [bottleneck, in, width, stride] = config;
    std::vector<Conv2dConfig> convs;
    if (bottleneck) {
      convs = {conv(in, width, 1, 1), conv(width, width, 3, stride), conv(width, config.out(), 1, 1)};
    } else {
      convs = {conv(in, width, 3, stride), conv(width, width, 3, 1)};
    }
    for (size_t i = 0; i < convs.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      layers_.push_back(std::make_unique<ConvNorm>(convs[i]));
      register_child("conv" + number, layers_.back()->conv());
      register_child("bn" + number, layers_.back()->norm());
      layers_.back()->init(options.seed, name + ".conv" + number);
    }
    if (options.zero_init_residual) layers_.back()->norm().weight().fill(0);
    if (stride != 1 || in != config.out()) {
      downsample_ = std::make_unique<Downsample>(in, config.out(), stride);
      register_child("downsample", *downsample_);
      downsample_->init(options.seed, name + ".downsample");
    }
  }

  bool is_block() const override { return true; }

  Tensor forward(const Tensor& x) override {
    if (training() && may_fuse(x)) return computed(fused({.stored = x}));
    Tensor shortcut = downsample_ ? (*downsample_)(x) : x;
    Tensor out = layers_[0]->relu(x);
    for (size_t i = 1; i + 1 < layers_.size(); ++i) out = layers_[i]->relu(out);
    return layers_.back()->relu(out, shortcut);
  }

  /// The same where convolutions may be fused, from a block's end that is still to be computed to one that is.
  Activation fused(Activation input) {
    const NormConv2d first = layers_[0]->convolve(input);
    const Shortcut shortcut = downsample_ ? downsample_->fused(input.stored) : Shortcut{.tensor = input.stored};
    Activation out = layers_[0]->relu(first);
    for (size_t i = 1; i + 1 < layers_.size(); ++i) out = layers_[i]->relu(layers_[i]->convolve(out));
    return layers_.back()->end_block(layers_.back()->convolve(out), shortcut);
  }

  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override {
    Shape shape = input;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      shape = layers_[i]->describe(name + ".conv" + number, name + ".bn" + number, shape, layers);
    }
    if (downsample_) downsample_->describe(name + ".downsample", input, layers);
    return shape;
  }

 private:
  std::vector<std::unique_ptr<ConvNorm>> layers_;
  std::unique_ptr<Downsample> downsample_;
};

/// Blocks one after another, named by their number.
class Stage final : public Module {
 public:
  Stage(BlockConfig config, int64_t blocks, const ModelOptions& options, const std::string& name) {
    for (int64_t i = 0; i < blocks; ++i) {
      const std::string number = std::to_string(i);
      blocks_.push_back(std::make_unique<Block>(config, options, name + "." + number));
      register_child(number, *blocks_.back());
      config.in = config.out();
      config.stride = 1;
    }
  }

  Tensor forward(const Tensor& x) override {
    if (training() && may_fuse(x)) return computed(fused({.stored = x}));
    Tensor out = x;
    for (const auto& block : blocks_) out = (*block)(out);
    return out;
  }

  /// A checkpointed block is computed by itself, from tensor to tensor.
  Activation fused(Activation out) {
    for (const auto& block : blocks_) {
      out = block->checkpointed() ? Activation{.stored = (*block)(computed(out))} : block->fused(std::move(out));
    }
    return out;
  }

  Shape describe(const std::string& name, const Shape& input, std::vector<LayerDescription>& layers) const override {
    Shape shape = input;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      shape = blocks_[i]->describe(name + "." + std::to_string(i), shape, layers);
    }
    return shape;
  }

 private:
  std::vector<std::unique_ptr<Block>> blocks_;
};

class ResNet final : public Module {
 public:
  ResNet(const ResNetConfig& shape, const ModelOptions& options)
      : stem_({.in_channels = 3, .out_channels = shape.width, .kernel = 7, .options = {.stride = 2, .padding = 3}}) {
    register_child("conv1", stem_.conv());
    register_child("bn1", stem_.norm());
    stem_.init(options.seed, "conv1");
    BlockConfig config{.bottleneck = shape.bottleneck, .in = shape.width, .width = shape.width, .stride = 1};
    for (size_t i = 0; i < shape.blocks.size(); ++i) {
      const std::string name = "layer" + std::to_string(i + 1);
      stages_[i] = std::make_unique<Stage>(config, shape.blocks[i], options, name);
      register_child(name, *stages_[i]);
      config = {.bottleneck = shape.bottleneck, .in = config.out(), .width = 2 * config.width, .stride = 2};
    }
    fc_ = std::make_unique<Linear>(LinearConfig{.in_features = config.in, .out_features = options.num_classes});
    register_child("fc", *fc_);
    init_uniform_fan_in(fc_->weight(), config.in, options.seed, "fc.weight");
    init_uniform_fan_in(fc_->bias(), config.in, options.seed, "fc.bias");
  }

  Tensor forward(const Tensor& x) override {
    Tensor out = stem_.norm().forward_relu_max_pool(stem_.conv()(x), kStemPool);
    if (training() && may_fuse(out)) {
      out = fused({.stored = std::move(out)});
    } else {
      for (const auto& stage : stages_) out = (*stage)(out);
    }
    return (*fc_)(global_avg_pool(out));
  }

  Shape describe(const std::string&, const Shape& input, std::vector<LayerDescription>& layers) const override {
    Shape shape = stem_.describe("conv1", "bn1", input, layers);
    const auto pooled = [](int64_t extent) { return (extent + 2 * kStemPool.padding - kStemPool.kernel) / 2 + 1; };
    shape = {pooled(shape[0]), pooled(shape[1]), shape[2]};
    layers.push_back({"maxpool", "max_pool2d", shape, 0, 0});
    for (size_t i = 0; i < stages_.size(); ++i) {
      shape = stages_[i]->describe("layer" + std::to_string(i + 1), shape, layers);
    }
    layers.push_back({"avgpool", "global_avg_pool", Shape{shape[2]}, 0, 0});
    return fc_->describe("fc", Shape{shape[2]}, layers);
  }

 private:
  Tensor fused(Activation out) {
    for (const auto& stage : stages_) out = stage->fused(std::move(out));
    return computed(out);
  }

  ConvNorm stem_;
  std::array<std::unique_ptr<Stage>, 4> stages_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace

std::unique_ptr<Module> make_resnet(const ResNetConfig& config, const ModelOptions& options) {
  return std::make_unique<ResNet>(config, options);
}
std::unique_ptr<Module> make_resnet18(const ModelOptions& options) {
  return make_resnet({.bottleneck = false, .blocks = {2, 2, 2, 2}}, options);
}
std::unique_ptr<Module> make_resnet34(const ModelOptions& options) {
  return make_resnet({.bottleneck = false, .blocks = {3, 4, 6, 3}}, options);
}
std::unique_ptr<Module> make_resnet50(const ModelOptions& options) {
  return make_resnet({.bottleneck = true, .blocks = {3, 4, 6, 3}}, options);
}
std::unique_ptr<Module> make_resnet101(const ModelOptions& options) {
  return make_resnet({.bottleneck = true, .blocks = {3, 4, 23, 3}}, options);
}
std::unique_ptr<Module> make_resnet152(const ModelOptions& options) {
  return make_resnet({.bottleneck = true, .blocks = {3, 8, 36, 3}}, options);
}

}  // namespace engine::models
