#pragma once
// The checkpoints of a run's output folder.

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "engine/io/safetensors.h"

namespace engine {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// "checkpoint-step-00000042.safetensors" in the folder.
  std::filesystem::path path_of(int64_t step) const;
  /// Steps of the files there, ascending.
  std::vector<int64_t> steps() const;
  /// Writes a step's file by calling `write` with its path, makes last.safetensors name it, and best.safetensors where
  /// `is_best`; then removes all but the newest `keep_last` up to this step and the best. At least one whole file is
  /// there at any time. Throws OutputError.
  void add(int64_t step, bool is_best, int64_t keep_last,
           const std::function<void(const std::filesystem::path&)>& write);
  /// The newest file that is whole, also by its digest; damaged ones are passed over with a warning that names them.
  /// Where a run went back to an earlier step, later files of the part that was given up do not count.
  std::optional<SafetensorsFile> newest_whole() const;

 private:
  /// steps() without those of a part that was given up: steps behind the last file's, written before it.
  std::vector<int64_t> steps_of_the_line() const;
  void prune(int64_t newest, int64_t keep_last);
  std::filesystem::path last() const { return folder_ / "last.safetensors"; }
  std::filesystem::path best() const { return folder_ / "best.safetensors"; }

  std::filesystem::path folder_;
};

}  // namespace engine
