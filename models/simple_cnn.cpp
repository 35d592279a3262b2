#include "models/simple_cnn.h"

#include "engine/core/error.h"
#include "engine/nn/init.h"
#include "engine/nn/layers.h"
#include "engine/ops/relu.h"

namespace engine::models {
namespace {

constexpr int64_t kPicture = 28, kKernel = 3, kChannels = 32;
constexpr int64_t kFeatures = (kPicture - kKernel + 1) * (kPicture - kKernel + 1) * kChannels;

class SimpleCnn final : public Module {
 public:
  explicit SimpleCnn(const ModelOptions& options)
      : conv1_({.in_channels = 1, .out_channels = kChannels, .kernel = kKernel, .bias = true}),
        fc1_({.in_features = kFeatures, .out_features = options.num_classes, .flattened_channels = kChannels}) {
    register_child("conv1", conv1_);
    register_child("fc1", fc1_);
    init_uniform_fan_in(conv1_.weight(), kKernel * kKernel, options.seed, "conv1.weight");
    init_uniform_fan_in(conv1_.bias(), kKernel * kKernel, options.seed, "conv1.bias");
    init_uniform_fan_in(fc1_.weight(), kFeatures, options.seed, "fc1.weight");
    init_uniform_fan_in(fc1_.bias(), kFeatures, options.seed, "fc1.bias");
  }

  Tensor forward(const Tensor& x) override {
    ENGINE_CHECK(x.rank() == 4 && x.dim(1) == kPicture && x.dim(2) == kPicture && x.dim(3) == 1,
                 "[simple_cnn] x: got {}, expected [n, {}, {}, 1]", x.shape().str(), kPicture, kPicture);
    return fc1_(relu(conv1_(x)));
  }

  Shape describe(const std::string&, const Shape& input, std::vector<LayerDescription>& layers) const override {
    return fc1_.describe("fc1", conv1_.describe("conv1", input, layers), layers);
  }

 private:
  Conv2d conv1_;
  Linear fc1_;
};

}  // namespace

std::unique_ptr<Module> make_simple_cnn(const ModelOptions& options) { return std::make_unique<SimpleCnn>(options); }

}  // namespace engine::models
