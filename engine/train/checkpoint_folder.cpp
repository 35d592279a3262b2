#include "engine/train/checkpoint_folder.h"

#include <algorithm>
#include <charconv>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/train/checkpoint.h"

namespace engine {
namespace {

constexpr std::string_view kPrefix = "checkpoint-step-", kSuffix = ".safetensors";
constexpr size_t kDigits = 8;

std::string name_of_step(int64_t step) { return fmt::format("{}{:0{}}{}", kPrefix, step, kDigits, kSuffix); }

std::optional<int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  int64_t step = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  // Signs, other lengths and whatever else was not written here do not come out the same.
  return step >= 0 && name == name_of_step(step) ? std::optional(step) : std::nullopt;
}

}  // namespace

std::filesystem::path CheckpointFolder::path_of(int64_t step) const { return folder_ / name_of_step(step); }

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& item : std::filesystem::directory_iterator(folder_, error)) {
    if (const auto step = step_in(item.path().filename().string())) found.push_back(*step);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void CheckpointFolder::add(int64_t step, bool is_best, int64_t keep_last,
                           const std::function<void(const std::filesystem::path&)>& write) {
  write(path_of(step));
  link_file(path_of(step), last());
  if (is_best) link_file(path_of(step), best());
  prune(step, keep_last);
}

void CheckpointFolder::prune(int64_t newest, int64_t keep_last) {
  std::vector<int64_t> all = steps();
  // Where a run went back to an earlier file, later ones (damaged, or of the part given up) are not its newest.
  std::erase_if(all, [&](int64_t step) { return step > newest; });
  for (size_t i = 0; i + static_cast<size_t>(keep_last) < all.size(); ++i) {
    std::error_code error;
    const auto path = path_of(all[i]);
    if (std::filesystem::equivalent(path, best(), error)) continue;
    std::filesystem::remove(path, error);
    if (error) log_warn("checkpoint {} could not be removed: {}", escaped(path.string()), error.message());
  }
}

std::vector<int64_t> CheckpointFolder::steps_of_the_line() const {
  std::vector<int64_t> all = steps();
  std::error_code error;
  const auto written = std::filesystem::last_write_time(last(), error);
  const auto newest = std::find_if(all.begin(), all.end(), [&](int64_t step) {
    std::error_code ignored;
    return std::filesystem::equivalent(path_of(step), last(), ignored);
  });
  if (error || newest == all.end()) return all;
  const int64_t last_step = *newest;
  // A later file that was written after the last one is the newest itself: the process ended before it was linked.
  std::erase_if(all, [&](int64_t step) {
    std::error_code failed;
    return step > last_step && std::filesystem::last_write_time(path_of(step), failed) <= written && !failed;
  });
  return all;
}

std::optional<SafetensorsFile> CheckpointFolder::newest_whole() const {
  const std::vector<int64_t> all = steps_of_the_line();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    try {
      return open_checkpoint(path_of(*step));
    } catch (const CheckpointError& error) {
      log_warn("passing over a damaged checkpoint: {}", error.what());
    }
  }
  return std::nullopt;
}

}  // namespace engine
