#include "engine/ops/conv_forms.h"

#include <map>
#include <mutex>
#include <set>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/ops/device_path.h"
#include "kernels/common/library_handles.h"

namespace engine {
namespace {

using kernels::ConvDirection;
using kernels::ConvEpilogue;
using kernels::ConvFusion;
using kernels::ConvPlanKey;
using kernels::ConvPrologue;
using kernels::FusionPolicy;

ConvPrologue prologue_for(ConvInput input) {
  switch (input) {
    case ConvInput::activation:
      return ConvPrologue::scale_bias_relu;
    case ConvInput::block_end:
      return ConvPrologue::scale_bias_add_relu;
    case ConvInput::dual_block_end:
      return ConvPrologue::dual_scale_bias_add_relu;
    case ConvInput::picture:
    case ConvInput::stored:
      break;
  }
  return ConvPrologue::none;
}

ConvEpilogue gradient_for(ConvInput input) {
  switch (input) {
    case ConvInput::activation:
      return ConvEpilogue::norm_backward;
    case ConvInput::block_end:
      return ConvEpilogue::add_norm_backward;
    case ConvInput::dual_block_end:
      return ConvEpilogue::add_dual_norm_backward;
    case ConvInput::picture:
    case ConvInput::stored:
      break;
  }
  return ConvEpilogue::none;
}

FusionSettings& settings() {
  static FusionSettings own;
  return own;
}

int sm_version_of(Device device) {
  static std::mutex mutex;
  static std::map<int, int> known;
  const std::lock_guard lock(mutex);
  if (known.empty()) {
    for (const AcceleratorDescription& found : describe_accelerators()) {
      known[found.device.index] = found.major * 10 + found.minor;
    }
  }
  return known[device.index];
}

/// Whether the library of the device has a plan after all: tables are of one version of it.
bool has_plan(Device device, const ConvPlanKey& key) {
  static std::mutex mutex;
  static std::set<std::string> missing;
  const std::string name = key.str();
  {
    const std::lock_guard lock(mutex);
    if (missing.contains(name)) return false;
  }
  try {
    use_device(device);
    kernels::conv2d_plan(device.index, key, conv_plan_options());
    return true;
  } catch (const kernels::LibraryError& error) {
    const std::lock_guard lock(mutex);
    missing.insert(name);
    if (missing.size() == 1) log_warn("--fusion: some convolutions are computed in parts: {}: {}", name, error.what());
    return false;
  }
}

}  // namespace

const ConvFusion& ConvForms::of(ConvDirection direction) const {
  switch (direction) {
    case ConvDirection::forward:
      return forward;
    case ConvDirection::backward_data:
      return backward_data;
    case ConvDirection::backward_weights:
      break;
  }
  return backward_weights;
}

bool ConvForms::joined() const {
  return forward.prologue != ConvPrologue::none || backward_data.epilogue != ConvEpilogue::none;
}

ConvForms training_forms(const ConvSite& site, const ConvFormTest& taken) {
  const auto has = [&](ConvDirection direction, const ConvFusion& form) {
    return taken({.shape = site.shape, .direction = direction, .type = site.type, .fusion = form});
  };
  ConvForms forms;
  if (site.norm_behind && has(ConvDirection::forward, {.epilogue = ConvEpilogue::statistics})) {
    forms.forward.epilogue = ConvEpilogue::statistics;
  }
  const ConvFusion gradient{.epilogue = gradient_for(site.input)};
  if (gradient.epilogue == ConvEpilogue::none) return forms;
  if (has(ConvDirection::backward_data, gradient)) forms.backward_data = gradient;

  const ConvFusion whole{.prologue = prologue_for(site.input), .epilogue = forms.forward.epilogue};
  const ConvFusion again{.prologue = whole.prologue};
  const bool activation = site.input == ConvInput::activation;
  const bool fits =
      activation ? has(ConvDirection::backward_weights, again) : forms.backward_data.epilogue != ConvEpilogue::none;
  if (!fits || !has(ConvDirection::forward, whole)) return forms;
  forms.forward = whole;
  if (activation) forms.backward_weights = again;
  return forms;
}

ConvForms training_forms(const ConvSite& site, const kernels::FusionTarget& target) {
  return training_forms(site, [&](const ConvPlanKey& key) { return conv_fusion_choice(target, key) == key; });
}

void set_fusion(const FusionSettings& fresh) { settings() = fresh; }
const FusionSettings& fusion() { return settings(); }

FusionPolicy fusion_policy(const std::string& name) {
  if (name == "auto") return FusionPolicy::automatic;
  if (name == "on") return FusionPolicy::on;
  if (name == "off") return FusionPolicy::off;
  throw ConfigError(fmt::format("--fusion: got \"{}\", expected auto, on or off", escaped(name)));
}

kernels::FusionTarget fusion_target(Device device) {
  const FusionSettings& own = settings();
  return {.sm_version = own.sm_version != 0 ? own.sm_version
                        : device.is_cpu()   ? 0
                                            : sm_version_of(device),
          .deterministic = conv_plan_options().deterministic,
          .policy = own.policy};
}

bool may_fuse(const Tensor& x) {
  const FusionSettings& own = settings();
  return on_accelerator(x) && (x.dtype() == DType::f16 || own.any_type) && own.policy != FusionPolicy::off;
}

ConvForms training_forms_on(Device device, const ConvSite& site) {
  const kernels::FusionTarget target = fusion_target(device);
  return training_forms(site, [&](const ConvPlanKey& key) {
    ConvPlanKey asked = key;
    if (settings().any_type) asked.type = kernels::ElementType::f16;
    return conv_fusion_choice(target, asked) == asked && has_plan(device, key);
  });
}

}  // namespace engine
