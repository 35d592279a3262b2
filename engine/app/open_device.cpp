#include "engine/app/open_device.h"

#include <filesystem>

#include "engine/core/emulation.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/ops/device_path.h"
#include "engine/profile/kernel_report.h"

namespace engine {

Device open_device(const TrainConfig& config) {
  const Device device = parse_device(config.device);
  if (device.is_cpu()) return device;
  if constexpr (!kernels::kBuiltWithCuda) {
    set_emulated_schedule(config.schedule_seed);
    if (config.kernel_check || !config.kernel_report.empty()) start_kernel_check();
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

void finish_device(const TrainConfig& config, Device device) {
  if (device.is_cpu()) return;
  if constexpr (!kernels::kBuiltWithCuda) {
    compute_stream(device).synchronize();
    if (config.kernel_report.empty()) return;
    const auto binary = std::filesystem::read_symlink("/proc/self/exe");
    write_file(config.kernel_report, kernel_report(binary.parent_path().string()));
    log_info("kernel report: {}", escaped(config.kernel_report));
  }
}

}  // namespace engine
