#include "engine/core/device.h"

#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>

#include "engine/core/error.h"
#include "kernels/common/cuda_error.h"

namespace engine {
namespace {

/// The ordinal behind "cuda" or "emulated": 0 where there is none.
int ordinal_of(const std::string& text, const std::string& kind) {
  if (text.size() == kind.size()) return 0;
  int index = 0;
  const char *begin = text.data() + kind.size() + 1, *end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(begin, end, index);
  if (failure != std::errc() || rest != end || index < 0 || begin == end) {
    throw ConfigError(fmt::format("--device: got \"{}\", expected {}:N with N an ordinal from 0", escaped(text), kind));
  }
  return index;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

/// Throws DeviceError where no device can be used at all.
int checked_device_count(const std::string& text) {
  int driver = 0, runtime = 0, count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) {
    throw DeviceError(fmt::format("--device {}: got no NVIDIA driver, expected one for CUDA {}", escaped(text),
                                  version_text(runtime)),
                      "install the driver, or use --device cpu");
  }
  if (status == cudaErrorInsufficientDriver) {
    throw DeviceError(fmt::format("--device {}: got a driver for CUDA {}, expected one for {} or later", escaped(text),
                                  version_text(driver), version_text(runtime)),
                      "update the NVIDIA driver, or use --device cpu");
  }
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  throw DeviceError(fmt::format("--device {}: got no device that the driver shows ({}; CUDA_VISIBLE_DEVICES {}), "
                                "expected one",
                                escaped(text), cudaGetErrorString(status),
                                visible == nullptr ? "is not set" : "= \"" + escaped(visible) + "\""),
                    "use --device cpu");
}

Device accelerator(const std::string& text, const std::string& kind) {
  const int index = ordinal_of(text, kind);
  const int count = checked_device_count(text);
  if (index >= count) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    throw DeviceError(fmt::format("--device {}: got ordinal {}, expected one below {}, the number of devices{}",
                                  escaped(text), index, count,
                                  visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES = \"" + escaped(visible) + "\")"));
  }
  return Device::accelerator(index);
}

}  // namespace

std::string name_of(Device device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return fmt::format("cuda:{}", device.index);
    case DeviceKind::emulated:
      return fmt::format("emulated:{}", device.index);
  }
  throw Error("[device] no such kind");
}

Device parse_device(const std::string& text) {
  if (text == "cpu") return Device::cpu();
  if (text == "auto") {
    if constexpr (!kernels::kBuiltWithCuda) return Device::cpu();
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? Device::accelerator() : Device::cpu();
  }
  const std::string kind = text.substr(0, text.find(':'));
  if (kind != "cuda" && kind != "emulated") {
    throw ConfigError(
        fmt::format("--device: got \"{}\", expected auto, cpu, cuda, cuda:N, emulated or emulated:N", escaped(text)));
  }
  ordinal_of(text, kind);
  if (kind == (kernels::kBuiltWithCuda ? "cuda" : "emulated")) return accelerator(text, kind);
  throw DeviceError(
      fmt::format("--device {}: got a build without {}, expected one with it", escaped(text),
                  kind == "cuda" ? "CUDA" : "the emulated device"),
      kind == "cuda" ? "build preset cuda, or use --device cpu" : "build preset release, or use --device cpu");
}

void use_device(Device device) {
  if (!device.is_cpu()) kernels::check_cuda(cudaSetDevice(device.index), "cudaSetDevice");
}

CpuDescription describe_cpu() {
  CpuDescription cpu{"unknown processor", 1, 0};
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) {
      cpu.name = line.substr(line.find(':') + 2);
      break;
    }
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpu.cores = CPU_COUNT(&set);
  cpu.memory_bytes = static_cast<long long>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return cpu;
}

std::vector<AcceleratorDescription> describe_accelerators() {
  std::vector<AcceleratorDescription> found;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return found;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    found.push_back({Device::accelerator(index), properties.name, static_cast<long long>(properties.totalGlobalMem),
                     properties.multiProcessorCount, properties.major, properties.minor});
  }
  return found;
}

}  // namespace engine
