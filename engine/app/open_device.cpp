#include "engine/app/open_device.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "engine/core/emulation.h"
#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/ops/conv_forms.h"
#include "engine/ops/device_path.h"
#include "engine/profile/kernel_report.h"
#include "kernels/common/library_handles.h"

namespace engine {
namespace {

constexpr const char* kMemoryVariable = "ENGINE_EMULATED_MEMORY_MIB";
constexpr int64_t kMostMebibytes = 1 << 20;

int64_t memory_of(const std::string& text) {
  int64_t mebibytes = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), mebibytes);
  if (failure != std::errc() || end != text.data() + text.size() || mebibytes < 1 || mebibytes > kMostMebibytes) {
    throw ConfigError(fmt::format("environment: {}: got \"{}\", expected a whole number from 1 to {}", kMemoryVariable,
                                  escaped(text), kMostMebibytes));
  }
  return mebibytes;
}

/// Before any data is read: throws LibraryError where a library is missing or does not fit the build.
void announce_libraries() {
  const kernels::LibraryVersion cudnn = kernels::cudnn_version(), cublaslt = kernels::cublaslt_version();
  if (cudnn.built.empty()) {
    log_info("cuDNN: not part of this build, convolutions run on the project's own kernels");
  } else {
    log_info("cuDNN {} (built for {}): {}", cudnn.loaded, cudnn.built, escaped(cudnn.path));
  }
  if (!cublaslt.built.empty()) {
    log_info("cuBLASLt {} (built for {}): {}", cublaslt.loaded, cublaslt.built, escaped(cublaslt.path));
  }
}

}  // namespace

Device open_device(const TrainConfig& config) {
  const Device device = parse_device(config.device);
  if (device.is_cpu()) return device;
  if constexpr (!kernels::kBuiltWithCuda) {
    set_emulated_schedule(config.schedule_seed);
    if (const char* mebibytes = std::getenv(kMemoryVariable)) set_emulated_memory(memory_of(mebibytes) << 20);
    if (config.kernel_check || !config.kernel_report.empty()) start_kernel_check();
  }
  use_device(device);
  if constexpr (kernels::kBuiltWithCuda) announce_libraries();
  kernels::ConvPlanOptions plans;
  plans.search = config.cudnn_search;
  plans.deterministic = config.deterministic;
  set_conv_plan_options(plans);
  set_fusion({.policy = fusion_policy(config.fusion)});
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
