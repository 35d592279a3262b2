#pragma once
// GPUs as plans need to know them, built in or from a file.

#include <cstdint>
#include <string>
#include <vector>

namespace engine {

struct GpuDescription {
  std::string name;  // "NVIDIA H200"
  int sm_version = 0;
  int64_t memory_bytes = 0;
  std::string json;  // as cuDNN's device property descriptor takes it
};

/// "a100", "h100", "h200", "b200".
const std::vector<std::string>& gpu_names();

/// A built-in one by its name, else the one in a JSON file. The keys of such a file are those of the built-in ones
/// (`deviceName`, `deviceVer`, `multiProcessorCount`, ...), which docs/cuda.md lists. Throws ConfigError that names
/// what was given: no such name or file, no JSON, a key that is missing or of the wrong kind.
GpuDescription find_gpu(const std::string& name_or_file);

}  // namespace engine
