#include "tests/support/test_data.h"

#include <cstdlib>
#include <filesystem>

namespace engine::testing {
namespace {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path();
}

}  // namespace

std::string test_data_dir() {
  if (const char* named = std::getenv("ENGINE_TEST_DATA"); named != nullptr && *named != '\0') return named;
  std::error_code ignored;
  if (fs::exists(fs::path(ENGINE_SOURCE_DIR) / "tests", ignored)) return ENGINE_SOURCE_DIR;
  return (program_folder().parent_path() / "test-data").string();
}

std::string engine_program() {
  std::error_code ignored;
  const fs::path beside = program_folder() / "engine_train";
  return fs::exists(beside, ignored) ? beside.string() : ENGINE_BINARY;
}

}  // namespace engine::testing
