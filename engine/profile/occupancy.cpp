#include "engine/profile/occupancy.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace engine {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;
constexpr int kMostRegisters = 255;

int64_t rounded_up(int64_t value, int64_t portion) { return (value + portion - 1) / portion * portion; }

bool has_numbers(const nlohmann::json& entry) {
  for (const char* key : {"registers", "spills", "stack", "shared"}) {
    if (!entry.is_object() || !entry.contains(key) || !entry[key].is_number_integer()) return false;
  }
  return true;
}

}  // namespace

double occupancy(const KernelResources& kernel, int block, const MultiprocessorLimits& limits) {
  if (block < 1 || block > kMostThreads || kernel.registers > kMostRegisters) return 0.0;
  const int64_t warps = (block + kWarp - 1) / kWarp;
  int64_t blocks = std::min<int64_t>(limits.blocks, limits.warps / warps);
  if (kernel.registers > 0) {
    const int64_t of_warp = rounded_up(int64_t{kernel.registers} * kWarp, limits.registers_per_warp_portion);
    // Each of four schedulers has its own registers, so warps that fit come in fours.
    constexpr int64_t kSchedulers = 4;
    const int64_t resident = limits.registers / of_warp / kSchedulers * kSchedulers;
    blocks = std::min(blocks, resident / warps);
  }
  const int64_t shared = rounded_up(kernel.shared + limits.shared_per_block_reserved, limits.shared_portion);
  blocks = std::min(blocks, limits.shared_bytes / shared);
  return static_cast<double>(blocks * warps) / limits.warps;
}

std::map<std::string, KernelResources> read_kernel_resources(const std::string& binary_folder) {
  std::map<std::string, KernelResources> kernels;
  for (const char* place : {"/ptxas.json", "/../ptxas.json"}) {
    std::ifstream file(binary_folder + place, std::ios::binary);
    const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
    if (!report.is_object()) continue;
    for (const auto& [name, entry] : report.items()) {
      if (!has_numbers(entry)) continue;
      kernels[name] = {entry["registers"], entry["spills"], entry["stack"], entry["shared"]};
    }
    break;
  }
  return kernels;
}

}  // namespace engine
