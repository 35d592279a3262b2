#include "engine/core/device.h"

#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <fstream>

#include "engine/core/error.h"

namespace engine {

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
  if (text == "auto" || text == "cpu") return Device::cpu();
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind != "cuda" && kind != "emulated") {
    throw ConfigError(fmt::format("--device: got \"{}\", expected auto or cpu", escaped(text)));
  }
  int index = 0;
  if (colon != std::string::npos) {
    const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
    const auto [rest, failure] = std::from_chars(begin, end, index);
    if (failure != std::errc() || rest != end || index < 0 || begin == end) {
      throw ConfigError(
          fmt::format("--device: got \"{}\", expected {}:N with N an ordinal from 0", escaped(text), kind));
    }
  }
  throw DeviceError(fmt::format("--device {}: this build has no {} support", escaped(text), kind),
                    "use --device cpu, which this build has");
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

}  // namespace engine
