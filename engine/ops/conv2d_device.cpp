#include "engine/ops/conv2d_device.h"

#include <utility>

#include "engine/ops/device_path.h"

namespace engine {
namespace {

thread_local ConvPlanObserver plan_observer;

}  // namespace

void set_conv_plan_observer(ConvPlanObserver observer) { plan_observer = std::move(observer); }

void run_conv_plan(const Tensor& like, const kernels::ConvPlanKey& key, const kernels::ConvBuffers& buffers) {
  const Device device = like.device();
  use_device(device);
  const kernels::ConvPlan& plan = kernels::conv2d_plan(device.index, key, conv_plan_options());
  if (plan_observer) plan_observer(key);
  const Tensor workspace = device_workspace(like, plan.workspace_bytes());
  plan.run(buffers, workspace.raw(), stream_of(like));
}

}  // namespace engine
