#include "engine/train/resume.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/train/checkpoint.h"
#include "engine/train/checkpoint_folder.h"

namespace engine {
namespace {

/// Flags that a resumed run may give anew; --epochs is here but for the cosine schedule, which depends on it.
constexpr std::array kChangeable = {
    "epochs",
    "steps",
    "batch-size",
    "accumulate-steps",
    "device",
    "threads",
    "no-cuda-graph",
    "cudnn-search",
    "schedule-seed",
    "kernel-check",
    "kernel-report",
    "workers",
    "data-path",
    "on-bad-image",
    "max-image-pixels",
    "on-nonfinite",
    "output-dir",
    "resume",
    "save-every-steps",
    "keep-last",
    "log-every",
    "log-file",
    "save-every-epochs",
    "histograms",
    "quiet",
    "deterministic",
    "init-weights",
    "reset-head",
    "test-only",
    "config",
    "precision",
    "loss-scale",
    "fusion",
    "memory-budget",
    "gradient-checkpointing",
};

bool may_change(const std::string& flag, const ConfigValues& now) {
  if (flag == "epochs") {
    return std::none_of(now.begin(), now.end(),
                        [](const auto& item) { return item.first == "lr-scheduler" && item.second == "\"cosine\""; });
  }
  return std::find(kChangeable.begin(), kChangeable.end(), flag) != kChangeable.end();
}

}  // namespace

std::optional<SafetensorsFile> find_checkpoint(const OutputConfig& output) {
  if (output.resume.empty()) return std::nullopt;
  if (output.resume != "auto") return open_checkpoint(output.resume);
  auto newest = CheckpointFolder(output.output_dir).newest_whole();
  if (!newest) log_info("--resume auto: no checkpoint in {}, starting from the beginning", escaped(output.output_dir));
  return newest;
}

void check_resumable(const ConfigValues& before, const ConfigValues& now) {
  constexpr const char* kOff = "off";  // flags without effect are not among the values
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [flag, value] : before) values[flag] = {value, kOff};
  for (const auto& [flag, value] : now) {
    const auto [entry, is_new] = values.try_emplace(flag, kOff, value);
    if (!is_new) entry->second.second = value;
  }
  for (const auto& [flag, change] : values) {
    const auto& [old, value] = change;
    if (old == value) continue;
    if (!may_change(flag, now)) {
      throw ConfigError(
          fmt::format("--resume: --{}: got {}, expected {} as the run was started with", flag, value, old),
          flag == "epochs" ? "the cosine schedule depends on it; start a new run with --init-weights instead"
                           : "give the same value, or start a new run with --init-weights");
    }
    if (flag != "resume") log_info("resumed with another --{}: {} in place of {}", flag, value, old);
  }
}

}  // namespace engine
