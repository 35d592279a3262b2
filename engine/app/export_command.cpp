#include <charconv>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/app/commands.h"
#include "engine/app/json_text.h"
#include "engine/app/options.h"
#include "engine/app/standard_output.h"
#include "engine/core/error.h"
#include "engine/train/checkpoint.h"

namespace engine {
namespace {

constexpr std::string_view kModelPrefix = "model.";
constexpr std::string_view kAveragePrefix = "ema.";
constexpr std::string_view kCounter = "num_batches_tracked";

SafetensorsEntry copied(const SafetensorsFile& file, const std::string& name, const TensorInfo& source) {
  SafetensorsEntry entry{name, source.dtype, source.shape, {}, {}};
  entry.fill = [&file, &source](std::span<std::byte> out) { file.read(source, out); };
  return entry;
}

/// The model's tensors under their bare names; those of the average where wanted and kept.
std::vector<SafetensorsEntry> entries_of(const SafetensorsFile& file, bool average, int64_t step) {
  std::vector<SafetensorsEntry> entries;
  bool averaged = false;
  for (const TensorInfo& info : file.tensors()) {
    if (!info.name.starts_with(kModelPrefix)) continue;
    const std::string name = info.name.substr(kModelPrefix.size());
    const TensorInfo* source = average ? file.find(std::string(kAveragePrefix) + name) : nullptr;
    averaged = averaged || source != nullptr;
    entries.push_back(copied(file, name, source != nullptr ? *source : info));
    // PyTorch counts batches beside the running statistics; the engine's momentum is constant and needs no count.
    constexpr std::string_view kMean = "running_mean";
    if (!name.ends_with(kMean)) continue;
    const std::string counter = name.substr(0, name.size() - kMean.size()) + std::string(kCounter);
    if (file.find(std::string(kModelPrefix) + counter) != nullptr) continue;
    SafetensorsEntry entry{counter, DType::i64, Shape{}, {}, {}};
    entry.fill = [step](std::span<std::byte> out) { std::memcpy(out.data(), &step, sizeof step); };
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    throw CheckpointError(fmt::format("checkpoint: {}: got no tensors of a model, expected some", file.path()));
  }
  if (average && !averaged) {
    throw CheckpointError(fmt::format("checkpoint: {}: got no moving average, expected one for --ema", file.path()),
                          "train with --ema-decay");
  }
  return entries;
}

int64_t step_of(const SafetensorsFile& file) {
  const auto step = file.metadata().find("step");
  int64_t value = 0;
  if (step != file.metadata().end()) {
    std::from_chars(step->second.data(), step->second.data() + step->second.size(), value);
  }
  return value;
}

}  // namespace

int export_command(const CommandLine& line) {
  const Settings settings = resolve(line.flags, kExport);
  const CommandSettings& command = settings.command;
  if (command.checkpoint.empty()) throw ConfigError("command line: --checkpoint: got none, expected a file");
  if (command.to.empty()) throw ConfigError("command line: --to: got none, expected a file to write");
  std::error_code ignored;
  if (std::filesystem::equivalent(command.checkpoint, command.to, ignored)) {
    throw ConfigError("command line: --to: got the checkpoint itself, expected another file");
  }
  const SafetensorsFile file = open_checkpoint(command.checkpoint);
  const auto entries = entries_of(file, command.ema, step_of(file));
  const uint64_t bytes = write_safetensors(command.to, entries, {{"format", "pt"}});
  if (command.json) {
    print(json_text({{"tensors", entries.size()}, {"bytes", bytes}}));
  } else {
    print(fmt::format("{} tensors, {} bytes: {}\n", entries.size(), bytes, escaped(command.to)));
  }
  return 0;
}

}  // namespace engine
