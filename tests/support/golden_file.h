#pragma once
// What golden.cpp and golden_file.cpp share.

#include <filesystem>
#include <string>

namespace engine::testing::detail {

/// All bytes of a file; throws std::runtime_error with its path.
std::string read_bytes(const std::filesystem::path& path);

}  // namespace engine::testing::detail
