#pragma once
// Growing files: opened for appending, written a whole piece at a time.

#include <filesystem>
#include <string_view>

namespace engine::detail {

/// Appends `text` in one write to a descriptor opened with O_APPEND. Where it does not fit, what got in of it is cut
/// off again and OutputError thrown.
void append_whole(int descriptor, const std::filesystem::path& path, std::string_view text);

}  // namespace engine::detail
