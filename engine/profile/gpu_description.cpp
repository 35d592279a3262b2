#include "engine/profile/gpu_description.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/core/error.h"

namespace engine {
namespace {

using Json = nlohmann::ordered_json;

/// What differs between the built-in GPUs; NVIDIA's data sheets and the CUDA Programming Guide's table of compute
/// capabilities.
struct Chip {
  const char* name;
  const char* device_name;
  int version;  // 900 for compute capability 9.0
  int multiprocessors;
  int shared_bytes;  // that a block can ask for
  int clock_khz;
  int memory_clock_khz;
  int64_t l2_bytes;
  int64_t memory_bytes;
  int bus_bits;
};

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGB = 1'000'000'000;
constexpr Chip kChips[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 800, 108, 166912, 1410000, 1593000, 40 * kMiB, 85 * kGB, 5120},
    {"h100", "NVIDIA H100 80GB HBM3", 900, 132, 232448, 1980000, 2619000, 50 * kMiB, 85 * kGB, 5120},
    {"h200", "NVIDIA H200", 900, 132, 232448, 1980000, 3201000, 60 * kMiB, 150 * kGB, 6144},
    {"b200", "NVIDIA B200", 1000, 148, 232448, 1980000, 3201000, 126 * kMiB, 192 * kGB, 8192},
};

Json describe(const Chip& chip) {
  return {{"deviceName", chip.device_name},
          {"cudaDeviceId", 0},
          {"deviceVer", chip.version},
          {"driverVer", 13000},
          {"maxGridSize", {2147483647, 65535, 65535}},
          {"maxBlockSize", {1024, 1024, 64}},
          {"regsPerBlock", 65536},
          {"multiProcessorCount", chip.multiprocessors},
          {"warpSize", 32},
          {"maxSharedMemoryPerBlock", 49152},
          {"maxSharedMemoryPerBlockOptin", chip.shared_bytes},
          {"reservedSharedMemoryPerBlock", 1024},
          {"maxRegistersPerSM", 65536},
          {"maxCtasPerSM", 32},
          {"maxThreadsPerBlock", 1024},
          {"maxThreadsPerSM", 2048},
          {"pciDeviceId", 0},
          {"isTccDriver", 0},
          {"supportCoopLaunch", 1},
          {"smClockRateKHz", chip.clock_khz},
          {"memClockRateKHz", chip.memory_clock_khz},
          {"l2CacheSize", chip.l2_bytes},
          {"totalGlobalMem", chip.memory_bytes},
          {"memoryBusWidth", chip.bus_bits}};
}

GpuDescription from_json(const Json& json) {
  return {.name = json["deviceName"].get<std::string>(),
          .sm_version = json["deviceVer"].get<int>() / 10,
          .memory_bytes = json["totalGlobalMem"].get<int64_t>(),
          .json = json.dump()};
}

std::string kind_of(const Json& value) {
  if (value.is_array()) return fmt::format("an array of {}", value.size());
  if (value.is_number_integer()) return "an integer";
  return value.type_name();
}

/// The same keys and kinds of values as in a built-in description.
void check_keys(const std::string& file, const Json& json) {
  if (!json.is_object()) {
    throw ConfigError(fmt::format("[plan] gpu: {}: got {}, expected a JSON object", file, kind_of(json)));
  }
  const Json pattern = describe(kChips[0]);
  for (const auto& [key, value] : pattern.items()) {
    if (!json.contains(key)) {
      throw ConfigError(fmt::format("[plan] gpu: {}: got no \"{}\", expected {}", file, key, kind_of(value)),
                        "the keys of a GPU description are listed in docs/cuda.md");
    }
    if (kind_of(json[key]) != kind_of(value)) {
      throw ConfigError(
          fmt::format("[plan] gpu: {}: {}: got {}, expected {}", file, key, kind_of(json[key]), kind_of(value)));
    }
  }
}

[[noreturn]] void throw_unreadable(const std::string& path, int error) {
  throw ConfigError(fmt::format("[plan] gpu: {}: got {}, expected {} or a JSON file", escaped(path),
                                system_message(error), fmt::join(gpu_names(), ", ")));
}

std::string read(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw_unreadable(path, EISDIR);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) throw_unreadable(path, errno);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw_unreadable(path, EIO);
  return text.str();
}

GpuDescription from_file(const std::string& path) {
  const std::string text = read(path), name = escaped(path);
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw ConfigError(fmt::format("[plan] gpu: {}: got a fault at byte {}, expected JSON", name, error.byte));
  }
  check_keys(name, json);
  return from_json(json);
}

}  // namespace

const std::vector<std::string>& gpu_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Chip& chip : kChips) all.emplace_back(chip.name);
    return all;
  }();
  return names;
}

GpuDescription find_gpu(const std::string& name_or_file) {
  for (const Chip& chip : kChips) {
    if (chip.name == name_or_file) return from_json(describe(chip));
  }
  return from_file(name_or_file);
}

}  // namespace engine
