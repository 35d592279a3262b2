#include "engine/app/open_device.h"

#include "engine/core/emulation.h"
#include "engine/core/log.h"
#include "engine/ops/device_path.h"

namespace engine {

Device open_device(const TrainConfig& config) {
  const Device device = parse_device(config.device);
  if (device.is_cpu()) return device;
  if constexpr (!kernels::kBuiltWithCuda) {
    set_emulated_schedule(config.schedule_seed);
  }
  use_device(device);
  kernels::ConvPlanOptions plans;
  plans.search = config.cudnn_search;
  plans.deterministic = config.deterministic;
  set_conv_plan_options(plans);
  for (const AcceleratorDescription& found : describe_accelerators()) {
    if (found.device != device) continue;
    log_info("{}: {}, {:.1f} GiB, {} multiprocessors, compute capability {}.{}", name_of(device), found.name,
             static_cast<double>(found.memory_bytes) / 0x1p30, found.multiprocessors, found.major, found.minor);
  }
  return device;
}

}  // namespace engine
