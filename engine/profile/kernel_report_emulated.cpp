#include "engine/profile/kernel_report.h"

#include <nlohmann/json.hpp>

#include "engine/profile/occupancy.h"
#include "kernels/emulator/checker.h"
#include "kernels/emulator/emulator.h"

namespace engine {
namespace {

using Json = nlohmann::ordered_json;

Json row_of(const emulator::KernelReport& kernel, const std::map<std::string, KernelResources>& resources) {
  Json row = {{"name", kernel.name},
              {"launches", kernel.launches},
              {"block", kernel.block},
              {"bytes_used", kernel.bytes_used},
              {"sectors", kernel.sectors},
              {"coalescing", kernel.coalescing()},
              {"vector_share", kernel.vector_share()},
              {"bank_conflicts", kernel.bank_conflicts},
              {"divergence", kernel.divergence()},
              {"header_bytes", nullptr},
              {"registers", nullptr},
              {"spills", nullptr},
              {"occupancy", nullptr}};
  if (kernel.header_bytes) row["header_bytes"] = *kernel.header_bytes;
  const auto found = resources.find(kernel.name);
  if (found == resources.end()) return row;
  row["registers"] = found->second.registers;
  row["spills"] = found->second.spills;
  row["occupancy"] = occupancy(found->second, static_cast<int>(kernel.block));
  return row;
}

}  // namespace

std::string kernel_report(const std::string& binary_folder) {
  emulator::synchronize_all();
  const auto resources = read_kernel_resources(binary_folder);
  Json rows = Json::array();
  for (const emulator::KernelReport& kernel : emulator::kernel_reports()) rows.push_back(row_of(kernel, resources));
  return Json{{"kernels", rows}}.dump(2) + "\n";
}

}  // namespace engine
