#include <nlohmann/json.hpp>

#include "engine/app/commands.h"
#include "engine/app/json_text.h"
#include "engine/app/options.h"
#include "engine/app/standard_output.h"
#include "engine/core/error.h"
#include "engine/ops/conv_forms.h"
#include "engine/profile/gpu_plan.h"
#include "models/registry.h"

namespace engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kUsualClasses = 1000;

const char* name_of(kernels::ConvDirection direction) {
  switch (direction) {
    case kernels::ConvDirection::forward:
      return "forward";
    case kernels::ConvDirection::backward_data:
      return "backward_data";
    case kernels::ConvDirection::backward_weights:
      return "backward_weight";
  }
  return "?";
}

kernels::ElementType element_type(const std::string& precision) {
  if (precision == "tf32") return kernels::ElementType::tf32;
  if (precision == "bf16") return kernels::ElementType::bf16;
  return precision == "fp16" ? kernels::ElementType::f16 : kernels::ElementType::f32;
}

/// Buffers of the parameters' size that the optimizer keeps.
int64_t optimizer_slots(const GivenFlags& given, const models::ModelInfo& info) {
  const auto opt = given.find("opt");
  const std::string name = opt != given.end() ? opt->second.texts.back() : info.fixed_size ? "adam" : "sgd";
  return name.starts_with("adam") ? 2 : 1;
}

GpuPlanRequest request_of(const Settings& settings) {
  GpuPlanRequest request;
  request.gpu = find_gpu(settings.command.gpu);
  request.batch = settings.run.batch_size;
  request.fusion = fusion_policy(settings.run.fusion);
  request.type = element_type(settings.run.precision);
  return request;
}

Json json_of(const GpuPlan& plan) {
  Json plans = Json::array(), unplanned = Json::array();
  for (const PlannedLayer& layer : plan.plans) {
    plans.push_back({{"layer", layer.layer},
                     {"direction", name_of(layer.direction)},
                     {"fusion", layer.fusion},
                     {"engine", layer.engine},
                     {"workspace_bytes", layer.workspace_bytes}});
  }
  for (const UnplannedLayer& layer : plan.unplanned) {
    unplanned.push_back({{"layer", layer.layer},
                         {"direction", name_of(layer.direction)},
                         {"fusion", layer.fusion},
                         {"reason", layer.reason}});
  }
  const PlannedMemory& memory = plan.memory;
  return {{"memory",
           {{"parameters", memory.parameters},
            {"gradients", memory.gradients},
            {"optimizer", memory.optimizer},
            {"activations", memory.activations},
            {"workspace", memory.workspace},
            {"total", memory.total()}}},
          {"largest_batch", plan.largest_batch},
          {"fits", plan.fits},
          {"plans", plans},
          {"unplanned", unplanned}};
}

std::string text_of(const GpuPlan& plan, const GpuPlanRequest& request) {
  std::string text =
      fmt::format("{:<24} {:<16} {:<34} {:>12}  {}\n", "layer", "direction", "fusion", "workspace MiB", "engine");
  for (const PlannedLayer& layer : plan.plans) {
    text += fmt::format("{:<24} {:<16} {:<34} {:>12.1f}  {}\n", layer.layer, name_of(layer.direction), layer.fusion,
                        static_cast<double>(layer.workspace_bytes) / 0x1p20, layer.engine);
  }
  for (const UnplannedLayer& layer : plan.unplanned) {
    text += fmt::format("{:<24} {:<16} {:<34} no plan: {}\n", layer.layer, name_of(layer.direction), layer.fusion,
                        layer.reason);
  }
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  const PlannedMemory& memory = plan.memory;
  text += fmt::format(
      "memory, GiB: parameters {:.2f}, gradients {:.2f}, optimizer {:.2f}, activations {:.2f}, workspace {:.2f}, total "
      "{:.2f}\n",
      gib(memory.parameters), gib(memory.gradients), gib(memory.optimizer), gib(memory.activations),
      gib(memory.workspace), gib(memory.total()));
  return text + fmt::format("{}: batch {} {}; the largest batch is {}\n", request.gpu.name, request.batch,
                            plan.fits ? "fits" : "does not fit", plan.largest_batch);
}

}  // namespace

int plan_command(const CommandLine& line) {
  const Settings settings = resolve(line.flags, kPlan);
  if (settings.command.gpu.empty()) {
    throw ConfigError(
        fmt::format("command line: --gpu: got none, expected {} or a file", fmt::join(gpu_names(), ", ")));
  }
  const models::ModelInfo& info = models::find_model(settings.run.model);
  GpuPlanRequest request = request_of(settings);
  request.optimizer_slots = optimizer_slots(line.flags, info);
  const int64_t classes = settings.run.num_classes > 0 ? settings.run.num_classes
                          : info.fixed_size            ? 10
                                                       : kUsualClasses;
  const bool sized = line.flags.contains("train-crop-size") && !info.fixed_size;
  const int64_t size = sized ? settings.run.data.train_crop_size : info.picture_size;
  const auto model = info.make({.num_classes = classes});
  const GpuPlan plan = plan_for_gpu(ModelOutline::of(*model, Shape{size, size, info.channels}), request);
  print(settings.command.json ? json_text(json_of(plan)) : text_of(plan, request));
  return 0;
}

}  // namespace engine
