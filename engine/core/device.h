#pragma once
// Where a tensor lives.

#include <string>
#include <vector>

#include "kernels/common/device.h"

namespace engine {

enum class DeviceKind { cpu, cuda, emulated };

/// The kind of device that this build has beside the CPU: a GPU, or the emulated one (kernels/emulator).
inline constexpr DeviceKind kAcceleratorKind = kernels::kBuiltWithCuda ? DeviceKind::cuda : DeviceKind::emulated;

/// A device and its ordinal.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device accelerator(int index = 0) { return {kAcceleratorKind, index}; }
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0", "emulated:1"
std::string name_of(Device device);

/// Reads "auto", "cpu", "cuda", "cuda:N", "emulated", "emulated:N". auto is a GPU where one works, else the CPU. Throws
/// ConfigError for another spelling and DeviceError for a device that this build or machine does not have, with the
/// reason: no driver, a driver too old, no kernels for the chip, no such ordinal.
Device parse_device(const std::string& text);

/// Makes a device the calling thread's: what the runtime allocates and launches next belongs to it. No effect for the
/// CPU.
void use_device(Device device);

/// What `info` shows of a machine.
struct CpuDescription {
  std::string name;
  int cores;
  long long memory_bytes;
};
CpuDescription describe_cpu();

struct AcceleratorDescription {
  Device device;
  std::string name;
  long long memory_bytes;
  int multiprocessors;
  int major, minor;  // compute capability
};
/// The devices of kAcceleratorKind that the runtime sees; none without a driver.
std::vector<AcceleratorDescription> describe_accelerators();

}  // namespace engine
