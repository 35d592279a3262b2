#pragma once
// Which forms the convolutions of a network take in training. This is the one place that decides, for the engine's own
// steps as for `engine_train plan`; kernels/conv2d/conv2d_fusion.h says what exists.

#include <functional>

#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "kernels/conv2d/conv2d_fusion.h"

namespace engine {

/// What a convolution reads. A batch norm counts where its statistics come from the epilogue of the convolution before
/// it; what another one has computed is `stored`.
enum class ConvInput {
  picture,         // no gradient is needed
  stored,          // a tensor that exists anyway
  activation,      // relu(batch norm), read by this convolution alone
  block_end,       // relu(batch norm + tensor)
  dual_block_end,  // relu(batch norm + batch norm)
};

/// A convolution with what stands around it.
struct ConvSite {
  kernels::Conv2dShape shape;  // of the whole batch
  kernels::ElementType type = kernels::ElementType::f32;
  ConvInput input = ConvInput::stored;
  bool norm_behind = true;
};

struct ConvForms {
  kernels::ConvFusion forward{}, backward_data{}, backward_weights{};
  const kernels::ConvFusion& of(kernels::ConvDirection direction) const;
  /// Whether the convolution computes what is pending of its input, in one direction at least.
  bool joined() const;
  bool operator==(const ConvForms&) const = default;
};

/// Whether a form is to be taken where it makes sense.
using ConvFormTest = std::function<bool(const kernels::ConvPlanKey& key)>;

/// The richest forms that fit to one another: weight gradients compute the input again exactly where the forward pass
/// does not store it, and the end of a block is computed inside a convolution only where its gradient is, too.
ConvForms training_forms(const ConvSite& site, const ConvFormTest& taken);
/// The same for a GPU: what it has and what the policy wants (conv_fusion_choice).
ConvForms training_forms(const ConvSite& site, const kernels::FusionTarget& target);

/// How this process fuses; set before the first step, off the threads that train.
struct FusionSettings {
  kernels::FusionPolicy policy = kernels::FusionPolicy::automatic;
  // For tests, on the emulated device, which computes every form in every type:
  int sm_version = 0;     // decide as on such a chip (80, 90, ...); 0: on the device's own
  bool any_type = false;  // and for any type as for FP16
};
void set_fusion(const FusionSettings& settings);
const FusionSettings& fusion();

/// Other settings for as long as it lives.
class FusionScope {
 public:
  explicit FusionScope(const FusionSettings& settings) : before_(fusion()) { set_fusion(settings); }
  ~FusionScope() { set_fusion(before_); }
  FusionScope(const FusionScope&) = delete;
  FusionScope& operator=(const FusionScope&) = delete;

 private:
  FusionSettings before_;
};

/// "auto", "on" or "off"; throws ConfigError for anything else.
kernels::FusionPolicy fusion_policy(const std::string& name);

/// What this process's settings come to on a device.
kernels::FusionTarget fusion_target(Device device);

/// Whether a network that gets x may have fused forms at all: FP16 on an accelerator, not switched off.
bool may_fuse(const Tensor& x);

/// training_forms() for work on a device, without forms for which the library there turns out to have no plan; the
/// first of them is logged. Makes the plans of the forms that it takes.
ConvForms training_forms_on(Device device, const ConvSite& site);

}  // namespace engine
