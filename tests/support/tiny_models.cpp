#include "tests/support/tiny_models.h"

#include "engine/nn/init.h"
#include "engine/nn/layers.h"
#include "engine/ops/relu.h"

namespace engine::testing {
namespace {

constexpr int64_t kFilters = 4, kFeatures = kTinySize * kTinySize * kFilters;

class TinyModel final : public Module {
 public:
  TinyModel(uint64_t seed, bool normed)
      : conv_({.in_channels = kTinyChannels,
               .out_channels = kFilters,
               .kernel = 3,
               .options = {.padding = 1},
               .bias = true}),
        fc_({.in_features = kFeatures, .out_features = kTinyClasses, .flattened_channels = kFilters}) {
    register_child("conv", conv_);
    if (normed) {
      norm_ = std::make_unique<BatchNorm2d>(kFilters);
      register_child("bn", *norm_);
    }
    register_child("fc", fc_);
    init_uniform_fan_in(conv_.weight(), 9 * kTinyChannels, seed, "conv.weight");
    init_uniform_fan_in(conv_.bias(), 9 * kTinyChannels, seed, "conv.bias");
    init_uniform_fan_in(fc_.weight(), kFeatures, seed, "fc.weight");
    init_uniform_fan_in(fc_.bias(), kFeatures, seed, "fc.bias");
  }

  Tensor forward(const Tensor& x) override {
    const Tensor h = conv_(x);
    return fc_(norm_ ? norm_->forward_relu(h) : relu(h));
  }

  Shape describe(const std::string&, const Shape& input, std::vector<LayerDescription>& layers) const override {
    Shape shape = conv_.describe("conv", input, layers);
    if (norm_) shape = norm_->describe("bn", shape, layers);
    return fc_.describe("fc", shape, layers);
  }

 private:
  Conv2d conv_;
  std::unique_ptr<BatchNorm2d> norm_;
  Linear fc_;
};

}  // namespace

std::unique_ptr<Module> make_tiny_model(uint64_t seed) { return std::make_unique<TinyModel>(seed, true); }
std::unique_ptr<Module> make_plain_model(uint64_t seed) { return std::make_unique<TinyModel>(seed, false); }

}  // namespace engine::testing
