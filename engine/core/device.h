#pragma once
// Where a tensor lives.

#include <string>

namespace engine {

enum class DeviceKind { cpu, cuda, emulated };

/// A device and its ordinal. This build computes on the CPU; other kinds get their allocator and kernels with the CUDA
/// build, and asking for one here is a DeviceError.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  static Device cpu() { return {}; }
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0", "emulated:1"
std::string name_of(Device device);

/// Reads "auto", "cpu", "cuda", "cuda:N", "emulated", "emulated:N". auto is the best device that works here. Throws
/// ConfigError for another spelling and DeviceError for a device that this build or machine does not have.
Device parse_device(const std::string& text);

/// What `info` shows of a machine.
struct CpuDescription {
  std::string name;
  int cores;
  long long memory_bytes;
};
CpuDescription describe_cpu();

}  // namespace engine
