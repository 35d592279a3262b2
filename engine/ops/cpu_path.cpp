#include "engine/ops/cpu_path.h"

#include <atomic>

namespace engine {
namespace {
std::atomic<CpuPath> path_in_force{CpuPath::fast};
}

void set_cpu_path(CpuPath path) { path_in_force = path; }
CpuPath cpu_path() { return path_in_force; }

}  // namespace engine
