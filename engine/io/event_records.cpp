#include "engine/io/event_records.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "engine/core/error.h"
#include "engine/core/log.h"
#include "engine/io/atomic_file.h"
#include "engine/io/crc32c.h"
#include "tensorboard_event.pb.h"

namespace engine::detail {
namespace {

static_assert(std::endian::native == std::endian::little, "record lengths and checksums are copied as they are");

constexpr size_t kHeadBytes = 12, kTailBytes = 4;

template <typename T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

template <typename T>
T number_at(std::string_view text, size_t at) {
  T value;
  std::memcpy(&value, text.data() + at, sizeof(value));
  return value;
}

uint32_t masked(std::string_view text) { return masked_crc32c(std::as_bytes(std::span(text))); }

/// Payload of the record at the front of `rest`; false where it is cut or damaged.
bool parse_record(std::string_view rest, std::string_view& payload) {
  if (rest.size() < kHeadBytes + kTailBytes || number_at<uint32_t>(rest, 8) != masked(rest.substr(0, 8))) return false;
  const auto length = number_at<uint64_t>(rest, 0);
  if (length > rest.size() - kHeadBytes - kTailBytes) return false;
  payload = rest.substr(kHeadBytes, length);
  return number_at<uint32_t>(rest, kHeadBytes + length) == masked(payload);
}

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  // An empty file sets failbit on `text`; only what befell `file` counts.
  if (!file) throw_output_error("cannot read", path, errno, "an event file of this run");
  return std::move(text).str();
}

}  // namespace

std::string event_record(std::string_view payload) {
  const std::string length = raw(static_cast<uint64_t>(payload.size()));
  return length + raw(masked(length)) + std::string(payload) + raw(masked(payload));
}

std::vector<std::filesystem::path> event_files(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().native().starts_with("events.out.tfevents.")) files.push_back(entry->path());
  }
  if (error) throw_output_error("cannot read", folder, error.value(), "the folder of a run");
  std::sort(files.begin(), files.end());
  return files;
}

void purge_events(const std::filesystem::path& path, int64_t last_step) {
  const std::string text = read_whole(path);
  std::string kept;
  std::string_view rest = text, payload;
  while (parse_record(rest, payload)) {
    const size_t bytes = kHeadBytes + payload.size() + kTailBytes;
    event::Event event;
    const bool known = event.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
    if (!known || !event.has_summary() || event.step() <= last_step) kept += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }
  if (!rest.empty())
    log_warn("{}: the last {} bytes are cut or damaged, and are dropped", escaped(path.native()), rest.size());
  if (kept.size() != text.size()) write_file(path, kept);
}

}  // namespace engine::detail
