#include "kernels/conv2d/conv2d_fusion.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace engine::kernels {
namespace {

const char* name_of(ConvPrologue prologue) {
  switch (prologue) {
    case ConvPrologue::none:
      return "none";
    case ConvPrologue::scale_bias_relu:
      return "scale_bias_relu";
    case ConvPrologue::scale_bias_add_relu:
      return "scale_bias_add_relu";
    case ConvPrologue::dual_scale_bias_add_relu:
      return "dual_scale_bias_add_relu";
  }
  return "?";
}

const char* name_of(ConvEpilogue epilogue) {
  switch (epilogue) {
    case ConvEpilogue::none:
      return "none";
    case ConvEpilogue::statistics:
      return "statistics";
    case ConvEpilogue::norm_backward:
      return "norm_backward";
    case ConvEpilogue::add_norm_backward:
      return "add_norm_backward";
    case ConvEpilogue::add_dual_norm_backward:
      return "add_dual_norm_backward";
  }
  return "?";
}

const char* name_of(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::forward:
      return "forward";
    case ConvDirection::backward_data:
      return "backward_data";
    case ConvDirection::backward_weights:
      return "backward_weights";
  }
  return "?";
}

}  // namespace

std::string conv_fusion_name(const ConvFusion& fusion) {
  if (fusion.prologue == ConvPrologue::none) return name_of(fusion.epilogue);
  const std::string prologue = name_of(fusion.prologue);
  return fusion.epilogue == ConvEpilogue::none ? prologue : prologue + "+" + name_of(fusion.epilogue);
}

std::string ConvPlanKey::str() const {
  return shape.str() + " " + name_of(direction) + " " + element_name(type) + " " + conv_fusion_name(fusion);
}

bool conv_fusion_valid(ConvDirection direction, const ConvFusion& fusion) {
  switch (direction) {
    case ConvDirection::forward:
      return fusion.epilogue == ConvEpilogue::none || fusion.epilogue == ConvEpilogue::statistics;
    case ConvDirection::backward_data:
      return fusion.prologue == ConvPrologue::none && fusion.epilogue != ConvEpilogue::statistics;
    case ConvDirection::backward_weights:
      return fusion.epilogue == ConvEpilogue::none &&
             (fusion.prologue == ConvPrologue::none || fusion.prologue == ConvPrologue::scale_bias_relu);
  }
  return false;
}

namespace {

enum class Generation { ampere, hopper, blackwell, other };

Generation generation(int sm_version) {
  switch (sm_version / 10) {
    case 8:
      return Generation::ampere;
    case 9:
      return Generation::hopper;
    case 10:
      return Generation::blackwell;
    default:
      return Generation::other;
  }
}

bool fits(const Conv2dShape& shape) {
  return shape.c % 8 == 0 && shape.k % 8 == 0 && shape.groups == 1 && shape.dilation_h == 1 && shape.dilation_w == 1;
}

/// What Hopper's fused engines index with.
bool below_2_31(const Conv2dShape& shape) {
  return std::max(shape.x_numel(), shape.y_numel()) <= std::numeric_limits<int32_t>::max();
}

bool filter_of_1_3_5(const Conv2dShape& shape) {
  return shape.r == shape.s && (shape.r == 1 || shape.r == 3 || shape.r == 5);
}

bool stride_1(const Conv2dShape& shape) { return shape.stride_h == 1 && shape.stride_w == 1; }

bool forward_exists(Generation gpu, bool deterministic, const ConvPlanKey& key) {
  if (!filter_of_1_3_5(key.shape)) return false;
  const bool statistics = key.fusion.epilogue == ConvEpilogue::statistics;
  switch (key.fusion.prologue) {
    case ConvPrologue::none:
      return gpu != Generation::blackwell || !deterministic;
    case ConvPrologue::scale_bias_relu:
      return gpu == Generation::ampere || (gpu == Generation::hopper && statistics);
    case ConvPrologue::scale_bias_add_relu:
    case ConvPrologue::dual_scale_bias_add_relu:
      return gpu == Generation::hopper && statistics && key.shape.r == 1 && stride_1(key.shape);
  }
  return false;
}

bool backward_data_exists(Generation gpu, const ConvPlanKey& key) {
  return gpu != Generation::hopper || key.fusion.epilogue == ConvEpilogue::norm_backward || stride_1(key.shape);
}

}  // namespace

bool conv_fusion_exists(const FusionTarget& target, const ConvPlanKey& key) {
  if (!conv_fusion_valid(key.direction, key.fusion)) return false;
  if (key.fusion == ConvFusion{}) return true;
  const Generation gpu = generation(target.sm_version);
  if (gpu == Generation::other || key.type != ElementType::f16 || !fits(key.shape)) return false;
  if (gpu == Generation::hopper && !below_2_31(key.shape)) return false;
  switch (key.direction) {
    case ConvDirection::forward:
      return forward_exists(gpu, target.deterministic, key);
    case ConvDirection::backward_data:
      return backward_data_exists(gpu, key);
    case ConvDirection::backward_weights:
      return gpu != Generation::blackwell && filter_of_1_3_5(key.shape);
  }
  return false;
}

ConvPlanKey conv_fusion_choice(const FusionTarget& target, ConvPlanKey key) {
  if (!conv_fusion_valid(key.direction, key.fusion)) {
    throw std::invalid_argument("[conv2d] fusion: got " + key.str() + ", expected one that its direction can have");
  }
  const auto wanted = [&](const ConvFusion& fusion) {
    ConvPlanKey form = key;
    form.fusion = fusion;
    if (!conv_fusion_exists(target, form)) return false;
    const bool norm = key.direction == ConvDirection::backward_data && fusion.epilogue != ConvEpilogue::none;
    return target.policy == FusionPolicy::on || !norm || generation(target.sm_version) == Generation::hopper;
  };
  const ConvFusion all = key.fusion;
  key.fusion = {};
  if (target.policy == FusionPolicy::off) return key;
  for (const ConvFusion& fusion : {all, ConvFusion{.epilogue = all.epilogue}, ConvFusion{.prologue = all.prologue}}) {
    if (wanted(fusion)) {
      key.fusion = fusion;
      break;
    }
  }
  return key;
}

}  // namespace engine::kernels
