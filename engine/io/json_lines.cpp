#include "engine/io/json_lines.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/io/append.h"
#include "engine/io/atomic_file.h"

namespace engine {
namespace {

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct Printer {
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return number(value); }
  std::string operator()(const std::string& value) const { return json_quoted(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
};

/// Length of the file up to and with its last line break. -1 with errno where it cannot be read.
off_t whole_lines(int descriptor, off_t size) {
  std::array<char, 4096> block{};
  while (size > 0) {
    const off_t begin = size > static_cast<off_t>(block.size()) ? size - static_cast<off_t>(block.size()) : 0;
    const ssize_t got = ::pread(descriptor, block.data(), static_cast<size_t>(size - begin), begin);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    const auto at = std::string_view(block.data(), static_cast<size_t>(got)).rfind('\n');
    if (at != std::string_view::npos) return begin + static_cast<off_t>(at) + 1;
    size = begin;
  }
  return 0;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_object(std::span<const JsonField> fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) {
    if (text.size() > 1) text += ",";
    text += json_quoted(name) + ":" + std::visit(Printer{}, value);
  }
  return text + "}";
}

JsonLines::JsonLines(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_output_error("cannot open", path_, errno, "a file that can be appended to");
  struct stat status {};
  const bool seen = ::fstat(descriptor_, &status) == 0;
  const off_t whole = seen && S_ISREG(status.st_mode) ? whole_lines(descriptor_, status.st_size) : status.st_size;
  if (seen && whole >= 0 && (whole == status.st_size || ::ftruncate(descriptor_, whole) == 0)) return;
  const int error = errno;
  ::close(descriptor_);
  throw_output_error("cannot repair", path_, error, "a file of whole lines");
}

JsonLines::~JsonLines() { ::close(descriptor_); }

void JsonLines::append(std::span<const JsonField> fields) {
  detail::append_whole(descriptor_, path_, json_object(fields) + "\n");
}

}  // namespace engine
