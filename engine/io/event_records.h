#pragma once
// Records of TensorBoard event files, read and repaired. Inner part of tensorboard.h.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace engine::detail {

/// One record of the TFRecord format around `payload`.
std::string event_record(std::string_view payload);

/// Event files of a folder in alphabetical order.
std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder);

/// Takes the summaries of steps behind `last_step` out of an event file, and everything from the first record on that
/// is cut or damaged. Rewrites the file in one step, and only where that changes it. Throws OutputError.
void purge_events(const std::filesystem::path& path, int64_t last_step);

}  // namespace engine::detail
