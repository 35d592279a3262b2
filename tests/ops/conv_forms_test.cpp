// What convolutions are fused with, decided for every residual network and every generation of GPUs.

#include "engine/ops/conv_forms.h"

#include <gtest/gtest.h>

#include <map>

#include "engine/core/error.h"
#include "engine/profile/conv_network.h"
#include "models/registry.h"
#include "tests/support/accelerator.h"
#include "tests/support/errors.h"

namespace engine::testing {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvFusion;
using kernels::ConvPlanKey;
using kernels::ConvPrologue;
using kernels::ElementType;
using kernels::FusionPolicy;
using kernels::FusionTarget;

constexpr ConvDirection kDirections[] = {ConvDirection::forward, ConvDirection::backward_data,
                                         ConvDirection::backward_weights};

const std::vector<NetworkConv>& network(const std::string& name) {
  static std::map<std::string, std::vector<NetworkConv>> known;
  const auto [found, fresh] = known.try_emplace(name);
  if (fresh) {
    const models::ModelInfo& info = models::find_model(name);
    std::vector<LayerDescription> layers;
    info.make({})->describe("", Shape{info.picture_size, info.picture_size, info.channels}, layers);
    found->second = conv_network(layers);
  }
  return found->second;
}

class ResNetForms : public ::testing::TestWithParam<const char*> {
 protected:
  /// f(site, target, forms) for every convolution, batch, GPU and policy.
  template <typename F>
  void each(ElementType type, F&& f) const {
    for (const NetworkConv& conv : network(GetParam())) {
      for (const int sm_version : {80, 86, 90, 100, 120}) {
        for (const FusionPolicy policy : {FusionPolicy::off, FusionPolicy::automatic, FusionPolicy::on}) {
          for (const int64_t batch : {1, 256, 8192}) {
            const FusionTarget target{.sm_version = sm_version, .policy = policy};
            const ConvSite site = training_site(conv, batch, type, target);
            SCOPED_TRACE(conv.name + " sm_" + std::to_string(sm_version) + " batch " + std::to_string(batch));
            f(site, target, training_forms(site, target));
          }
        }
      }
    }
  }
  static bool exists(const FusionTarget& target, const ConvSite& site, ConvDirection direction,
                     const ConvFusion& fusion) {
    return conv_fusion_exists(target,
                              {.shape = site.shape, .direction = direction, .type = site.type, .fusion = fusion});
  }
};

TEST_P(ResNetForms, ExistAndFitToOneAnother) {
  each(ElementType::f16, [](const ConvSite& site, const FusionTarget& target, const ConvForms& forms) {
    for (const ConvDirection direction : kDirections) {
      EXPECT_TRUE(exists(target, site, direction, forms.of(direction))) << conv_fusion_name(forms.of(direction));
      if (target.policy == FusionPolicy::off) {
        EXPECT_EQ(forms.of(direction), ConvFusion{});
      }
    }
    const ConvPrologue forward = forms.forward.prologue;
    EXPECT_EQ(forward == ConvPrologue::scale_bias_relu,
              forms.backward_weights.prologue == ConvPrologue::scale_bias_relu);
    if (forward == ConvPrologue::scale_bias_add_relu) {
      EXPECT_EQ(forms.backward_data.epilogue, ConvEpilogue::add_norm_backward);
    }
    if (forward == ConvPrologue::dual_scale_bias_add_relu) {
      EXPECT_EQ(forms.backward_data.epilogue, ConvEpilogue::add_dual_norm_backward);
    }
  });
}

TEST_P(ResNetForms, AreTakenWhereverThereIsOne) {
  const std::map<ConvInput, std::pair<ConvPrologue, ConvEpilogue>> wanted = {
      {ConvInput::activation, {ConvPrologue::scale_bias_relu, ConvEpilogue::norm_backward}},
      {ConvInput::block_end, {ConvPrologue::scale_bias_add_relu, ConvEpilogue::add_norm_backward}},
      {ConvInput::dual_block_end, {ConvPrologue::dual_scale_bias_add_relu, ConvEpilogue::add_dual_norm_backward}}};
  each(ElementType::f16, [&](const ConvSite& site, const FusionTarget& target, const ConvForms& forms) {
    if (target.policy != FusionPolicy::on) return;
    const bool sums = exists(target, site, ConvDirection::forward, {.epilogue = ConvEpilogue::statistics});
    EXPECT_EQ(forms.forward.epilogue == ConvEpilogue::statistics, sums);
    if (!wanted.contains(site.input)) return;
    const auto [prologue, epilogue] = wanted.at(site.input);
    EXPECT_EQ(forms.backward_data.epilogue == epilogue,
              exists(target, site, ConvDirection::backward_data, {.epilogue = epilogue}));
    EXPECT_EQ(forms.forward.prologue == prologue,
              exists(target, site, ConvDirection::forward, {prologue, forms.forward.epilogue}));
  });
}

TEST_P(ResNetForms, AreFp16s) {
  for (const ElementType type : {ElementType::f32, ElementType::tf32, ElementType::bf16}) {
    each(type, [](const ConvSite& site, const FusionTarget&, const ConvForms& forms) {
      EXPECT_EQ(forms, ConvForms{});
      EXPECT_TRUE(site.input == ConvInput::stored || site.input == ConvInput::picture);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ResNetForms,
                         ::testing::Values("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"));

// By hand: ResNet-50 has 53 convolutions, of which the 7x7 leaves no sums; 2 inside each of its 16 blocks; and 15 that
// read the block before, 4 of them one with a projection.
TEST(ConvForms, CountsOfResNet50) {
  const auto counts = [](const FusionTarget& target) {
    std::map<std::string, int> found;
    for (const NetworkConv& conv : network("resnet50")) {
      for (const ConvDirection direction : kDirections) {
        const ConvPlanKey key = training_key(conv, direction, 256, ElementType::f16, target);
        if (key.fusion.prologue != ConvPrologue::none)
          ++found[kernels::conv_fusion_name({.prologue = key.fusion.prologue})];
        if (key.fusion.epilogue != ConvEpilogue::none)
          ++found[kernels::conv_fusion_name({.epilogue = key.fusion.epilogue})];
      }
    }
    return found;
  };
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(counts({.sm_version = 80}), (Counts{{"statistics", 52}, {"scale_bias_relu", 64}}));
  EXPECT_EQ(counts({.sm_version = 90}), (Counts{{"statistics", 52},
                                                {"scale_bias_relu", 64},
                                                {"norm_backward", 32},
                                                {"scale_bias_add_relu", 11},
                                                {"add_norm_backward", 11},
                                                {"dual_scale_bias_add_relu", 4},
                                                {"add_dual_norm_backward", 4}}));
  EXPECT_EQ(counts({.sm_version = 100}), (Counts{{"statistics", 52}}));
  EXPECT_EQ(counts({.sm_version = 100, .deterministic = true}), Counts{});
  EXPECT_EQ(counts({.sm_version = 120}), Counts{});
}

TEST(ConvForms, DoWithoutWhatIsRefused) {
  const ConvSite site{.shape = {.n = 8, .h = 14, .w = 14, .c = 64, .k = 64}, .input = ConvInput::activation};
  const auto without = [&](ConvDirection direction, ConvFusion fusion) {
    return training_forms(site,
                          [=](const ConvPlanKey& key) { return key.direction != direction || key.fusion != fusion; });
  };
  const ConvFusion sums{.epilogue = ConvEpilogue::statistics}, again{.prologue = ConvPrologue::scale_bias_relu};
  const ConvFusion whole{again.prologue, sums.epilogue}, gradient{.epilogue = ConvEpilogue::norm_backward};
  EXPECT_EQ(without(ConvDirection::forward, {}), (ConvForms{whole, gradient, again}));
  EXPECT_EQ(without(ConvDirection::forward, whole), (ConvForms{sums, gradient, {}}));
  EXPECT_EQ(without(ConvDirection::forward, sums), (ConvForms{again, gradient, again}));
  EXPECT_EQ(without(ConvDirection::backward_data, gradient), (ConvForms{whole, {}, again}));
  EXPECT_EQ(without(ConvDirection::backward_weights, again), (ConvForms{sums, gradient, {}}));
}

TEST(ConvForms, PoliciesHaveNames) {
  EXPECT_EQ(fusion_policy("auto"), FusionPolicy::automatic);
  EXPECT_EQ(fusion_policy("on"), FusionPolicy::on);
  EXPECT_EQ(fusion_policy("off"), FusionPolicy::off);
  ExpectError<ConfigError>([] { fusion_policy("maybe"); }, {"--fusion", "\"maybe\"", "auto, on or off"});
}

class FusionSettingsTest : public AcceleratorTest {};

TEST_F(FusionSettingsTest, ReachTheDevice) {
  const Tensor pictures = Tensor::zeros({2}, DType::f16, MemoryCategory::activations, Device::accelerator());
  EXPECT_TRUE(may_fuse(pictures));
  EXPECT_FALSE(may_fuse(Tensor::zeros({2})));
  EXPECT_FALSE(may_fuse(Tensor::zeros({2}, DType::bf16, MemoryCategory::activations, Device::accelerator())));
  EXPECT_GE(fusion_target(Device::accelerator()).sm_version, 80);
  if (!kernels::kBuiltWithCuda) {
    EXPECT_EQ(fusion_target(Device::accelerator()).sm_version, 90);
  }
  EXPECT_EQ(fusion_target(Device::cpu()).sm_version, 0);
  const FusionScope scope({.policy = FusionPolicy::off, .sm_version = 80});
  EXPECT_FALSE(may_fuse(pictures));
  EXPECT_EQ(fusion_target(Device::accelerator()).sm_version, 80);
}

}  // namespace
}  // namespace engine::testing
