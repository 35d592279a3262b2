// Convolutions joined with the batch norms around them, in all forms, against the same network of plain ops.

#include "engine/ops/norm_conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "engine/autograd/backward.h"
#include "engine/core/error.h"
#include "engine/ops/cast.h"
#include "engine/ops/conv2d_device.h"
#include "engine/ops/pending_norm_device.h"
#include "tests/support/accelerator.h"
#include "tests/support/distance.h"
#include "tests/support/errors.h"
#include "tests/support/numeric.h"
#include "tests/support/tolerance.h"

namespace engine::testing {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvFusion;
using kernels::ConvPlanKey;
using kernels::ConvPrologue;

constexpr int64_t kChannels = 16;

enum class Taken { all, forward_only, gradient_only, sums_only };

bool taken(Taken which, const ConvPlanKey& key) {
  if (kernels::kBuiltWithCuda && !conv_fusion_exists(fusion_target(Device::accelerator()), key)) return false;
  if (key.fusion == ConvFusion{.epilogue = ConvEpilogue::statistics}) return true;
  switch (which) {
    case Taken::all:
      return true;
    case Taken::forward_only:
      return key.direction != ConvDirection::backward_data;
    case Taken::gradient_only:
      return key.direction == ConvDirection::backward_data;
    case Taken::sums_only:
      break;
  }
  return false;
}

struct Case {
  ConvInput input = ConvInput::activation;
  Taken forms = Taken::all;
  int64_t kernel = 1, stride = 1;
  DType dtype = DType::f32;
};

std::string name_of_case(const Case& c) {
  const std::map<ConvInput, std::string> inputs = {
      {ConvInput::activation, "activation"}, {ConvInput::block_end, "end"}, {ConvInput::dual_block_end, "dual_end"}};
  const std::map<Taken, std::string> forms = {{Taken::all, "all"},
                                              {Taken::forward_only, "forward"},
                                              {Taken::gradient_only, "gradient"},
                                              {Taken::sums_only, "sums"}};
  return inputs.at(c.input) + "_" + forms.at(c.forms) + "_" + std::to_string(c.kernel) + "x" +
         std::to_string(c.kernel) + "_" + std::to_string(c.stride) + "_" + name_of(c.dtype);
}

using Values = std::map<std::string, std::vector<float>>;

/// relu(bn(x * w) [+ shortcut]) * v, with the shortcut a tensor or bn(x2 * w2), and its gradients; twice as two micro-
/// batches would do it, the second adding to the first one's gradients.
class Network {
 public:
  Network(const Case& shape, Device device) : case_(shape), device_(device) {}

  Values run(bool fused) {
    const int64_t k = case_.kernel;
    leaf("x", {2, 7, 5, kChannels}, true);
    leaf("w", {kChannels, 1, 1, kChannels}, true);
    leaf("shortcut", {2, 7, 5, kChannels}, true);
    leaf("w2", {kChannels, 1, 1, kChannels}, true);
    leaf("v", {24, k, k, kChannels}, true);
    for (const char* norm : {"bn", "bn2"}) {
      leaf(std::string(norm) + ".weight", {kChannels}, false);
      leaf(std::string(norm) + ".bias", {kChannels}, false);
    }
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<Tensor> results = fused ? forward_fused() : forward_plain();
      std::vector<Tensor> upstream;
      for (size_t i = 0; i < results.size(); ++i) {
        values_["result " + std::to_string(i)] = floats(results[i]);
        upstream.push_back(tensor(results[i].shape(), 70 + i, true));
      }
      backward(std::move(results), std::move(upstream));
    }
    for (const auto& [name, leaf] : leaves_) {
      if (grad_of(leaf).defined()) values_["gradient of " + name] = floats(grad_of(leaf));
    }
    for (const auto& [name, state] : states_) {
      values_[name + " mean"] = floats(state.running_mean);
      values_[name + " variance"] = floats(state.running_var);
    }
    return values_;
  }

 private:
  std::vector<float> floats(const Tensor& tensor) const { return cast(tensor.detach(), DType::f32).to_vector<float>(); }
  /// On the CPU all is f32, of numbers that the case's type holds.
  Tensor tensor(const Shape& shape, uint64_t key, bool narrow, double low = -1) const {
    const Tensor host = Tensor::from_vector(shape, uniform<float>(shape.numel(), key, low, 1));
    const Tensor rounded = narrow ? cast(cast(host, case_.dtype), DType::f32) : host;
    const Tensor there = rounded.to(device_);
    return narrow && !device_.is_cpu() ? cast(there, case_.dtype) : there;
  }
  void leaf(const std::string& name, const Shape& shape, bool narrow) {
    const bool positive = name.ends_with(".weight");
    leaves_[name] = tensor(shape, 100 + leaves_.size(), narrow, positive ? 0.5 : -1);
    set_requires_grad(leaves_[name]);
  }
  const BatchNormState& state(const std::string& name) {
    if (!states_.contains(name)) {
      states_[name] = {leaves_[name + ".weight"], leaves_[name + ".bias"], tensor({kChannels}, 90, false),
                       tensor({kChannels}, 91, false, 0.5)};
    }
    return states_[name];
  }
  bool ends() const { return case_.input != ConvInput::activation; }
  bool dual() const { return case_.input == ConvInput::dual_block_end; }
  Conv2dOptions options() const { return {.stride = case_.stride, .padding = case_.kernel / 2}; }

  std::vector<Tensor> forward_plain() {
    const Tensor x = conv2d(leaves_["x"], leaves_["w"]);
    Tensor shortcut;
    if (ends()) shortcut = leaves_["shortcut"];
    if (dual()) shortcut = batch_norm(conv2d(leaves_["shortcut"], leaves_["w2"]), state("bn2"));
    const Tensor activated = batch_norm(x, state("bn"), {.relu = true}, shortcut);
    const Tensor y = conv2d(activated, leaves_["v"], Tensor(), options());
    return ends() ? std::vector<Tensor>{y, activated} : std::vector<Tensor>{y};
  }

  ConvForms forms_for(const Activation& input, const std::string& weight, const Conv2dOptions& options) {
    return training_forms(conv_site(input, leaves_[weight], options),
                          [&](const ConvPlanKey& key) { return taken(case_.forms, key); });
  }
  PendingNorm normed(const std::string& x, const std::string& weight, const std::string& norm) {
    const Activation input{.stored = leaves_[x]};
    const NormConv2d conv = norm_conv2d(input, leaves_[weight], {}, forms_for(input, weight, {}));
    return pending_norm(conv.y, conv.sums, state(norm), {});
  }
  std::vector<Tensor> forward_fused() {
    Activation input{.norm = normed("x", "w", "bn")};
    if (ends()) input.shortcut.tensor = leaves_["shortcut"];
    if (dual()) input.shortcut = {.norm = normed("shortcut", "w2", "bn2")};
    const ConvForms forms = forms_for(input, "v", options());
    if (!kernels::kBuiltWithCuda) {
      EXPECT_EQ(forms.joined(), case_.forms != Taken::sums_only && !(ends() && case_.forms == Taken::forward_only));
    }
    if (!forms.joined()) input = {.stored = computed(input)};
    const NormConv2d conv = norm_conv2d(input, leaves_["v"], options(), forms);
    EXPECT_EQ(conv.activated.defined(), ends() || !forms.joined());
    return ends() ? std::vector<Tensor>{conv.y, conv.activated} : std::vector<Tensor>{conv.y};
  }

  const Case& case_;
  Device device_;
  std::map<std::string, Tensor> leaves_;
  std::map<std::string, BatchNormState> states_;
  Values values_;
};

class NormConv2dTest : public WatchedAcceleratorTest, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    if (kernels::kBuiltWithCuda && GetParam().dtype != DType::f16)
      GTEST_SKIP() << "GPUs have these forms in FP16 alone";
    WatchedAcceleratorTest::SetUp();
  }
};

// In FP16 a value near 0 may pass the ReLU in one way and not in the other, so tensors are compared as a whole, with
// the plain ops' own distance from FP32 as the yardstick.
TEST_P(NormConv2dTest, EqualsThePlainOps) {
  const Case& c = GetParam();
  const Values truth = Network(c, Device::cpu()).run(false);
  const Values plain = Network(c, Device::accelerator()).run(false);
  const Values fused = Network(c, Device::accelerator()).run(true);
  ASSERT_EQ(fused.size(), truth.size());
  for (const auto& [name, want] : truth) {
    ASSERT_TRUE(fused.contains(name)) << name;
    if (c.dtype == DType::f32) {
      ExpectClose(fused.at(name), want, tolerance<float>(9 * kChannels, OpClass::transcendental), name);
    } else {
      const double yardstick =
          std::max(distance(plain.at(name), want), tolerance(kUnitRoundoffF16, 1, OpClass::elementwise));
      EXPECT_LT(yardstick, tolerance(kUnitRoundoffF16, 70, OpClass::reduction)) << name << ": too long";
      EXPECT_LE(distance(fused.at(name), want), kMostYardsticks * yardstick) << name;
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const ConvInput input : {ConvInput::activation, ConvInput::block_end, ConvInput::dual_block_end}) {
      for (const Taken forms : {Taken::all, Taken::forward_only, Taken::gradient_only, Taken::sums_only}) {
        all.push_back({input, forms, 1, 1, dtype});
        all.push_back({input, forms, 3, 2, dtype});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Forms, NormConv2dTest, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return name_of_case(instance.param); });

}  // namespace
}  // namespace engine::testing
