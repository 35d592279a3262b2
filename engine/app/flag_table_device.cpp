#include "engine/app/flag_table.h"
#include "engine/core/device.h"

namespace engine {
namespace {

bool accelerated(const TrainConfig& c) { return c.device != "cpu" && (c.device != "auto" || kernels::kBuiltWithCuda); }

std::vector<Flag> emulation_flags() {
  return {
      {.name = "schedule-seed",
       .target = [](Settings& s) -> uint64_t& { return s.run.schedule_seed; },
       .help =
           "of the order in which the emulated device runs blocks, threads and streams; results do not depend on it",
       .shown_default = "0",
       .limits = {0, 1.8e19},
       .applies = accelerated},
      {.name = "kernel-check",
       .target = [](Settings& s) -> bool& { return s.run.kernel_check; },
       .help = "watch every access of the emulated device's kernels; a fault ends the run",
       .applies = accelerated},
      {.name = "kernel-report",
       .target = [](Settings& s) -> std::string& { return s.run.kernel_report; },
       .help = "file for what the emulated device's kernels did to memory, as JSON",
       .metavar = "FILE.json",
       .optional = true,
       .applies = accelerated},
  };
}

}  // namespace

std::vector<Flag> device_flags() {
  std::vector<Flag> flags = {
      {.name = "fusion",
       .target = [](Settings& s) -> std::string& { return s.run.fusion; },
       .help =
           "compute batch norm, ReLU and additions inside convolutions, in FP16: where it saves time as far as known, "
           "wherever there is a way, or nowhere",
       .shown_default = "auto",
       .choices = {"auto", "on", "off"},
       .commands = kTrain | kPlan,
       .applies = accelerated},
      {.name = "no-cuda-graph",
       .target = [](Settings& s) -> bool& { return s.run.no_cuda_graph; },
       .help = "enqueue each step's work anew instead of replaying it as one graph",
       .applies = accelerated},
  };
  if constexpr (kernels::kBuiltWithCuda) {
    flags.push_back({.name = "cudnn-search",
                     .target = [](Settings& s) -> bool& { return s.run.cudnn_search; },
                     .help = "time every plan that cuDNN has for a convolution and keep the fastest",
                     .applies = accelerated});
  } else {
    const std::vector<Flag> more = emulation_flags();
    flags.insert(flags.end(), more.begin(), more.end());
  }
  return flags;
}

std::vector<Flag> plan_flags() {
  return {
      {.name = "gpu",
       .target = [](Settings& s) -> std::string& { return s.command.gpu; },
       .help = "a GPU by name, or a file that describes one (docs/cuda.md)",
       .metavar = "a100|h100|h200|b200|FILE.json",
       .commands = kPlan,
       .optional = true},
  };
}

}  // namespace engine
