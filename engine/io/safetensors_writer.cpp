// The writing half of safetensors.h.

#include <algorithm>
#include <set>

#include "engine/core/error.h"
#include "engine/io/atomic_file.h"
#include "engine/io/json_lines.h"
#include "engine/io/safetensors.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/sha256.h"

namespace engine {
namespace {

constexpr size_t kDigestDigits = 64;
constexpr std::string_view kDigestKey = "data_sha256";

uint64_t bytes_of(const SafetensorsEntry& entry) {
  return static_cast<uint64_t>(entry.shape.numel()) * size_of(entry.dtype);
}

std::vector<const SafetensorsEntry*> aligned_order(std::span<const SafetensorsEntry> entries) {
  std::vector<const SafetensorsEntry*> order;
  std::set<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    ENGINE_CHECK(names.insert(entry.name).second && entry.name != "__metadata__", "[safetensors] name {}: got it twice",
                 detail::shown(entry.name));
    ENGINE_CHECK(entry.fill || entry.bytes.size() == bytes_of(entry),
                 "[safetensors] tensor {}: got {} bytes, expected {}", detail::shown(entry.name), entry.bytes.size(),
                 bytes_of(entry));
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return size_of(a->dtype) > size_of(b->dtype);
  });
  return order;
}

struct Header {
  std::string text;      ///< with the eight bytes of its length
  size_t digest_at = 0;  ///< where the digest's digits stand, in the file
  uint64_t data_bytes = 0;
};

Header make_header(std::span<const SafetensorsEntry* const> order, Metadata metadata, bool with_sha256) {
  Header header;
  if (with_sha256) metadata[std::string(kDigestKey)] = std::string(kDigestDigits, '0');
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      json += (json.back() == '{' ? "" : ",") + json_quoted(key) + ":" + json_quoted(value);
      if (key == kDigestKey) header.digest_at = sizeof(uint64_t) + json.size() - 1 - kDigestDigits;
    }
    json += "}";
  }
  for (const SafetensorsEntry* entry : order) {
    const uint64_t begin = header.data_bytes;
    header.data_bytes += bytes_of(*entry);
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json.size() > 1 ? "," : "",
                        json_quoted(entry->name), detail::safetensors_name(entry->dtype),
                        fmt::join(entry->shape.extents(), ","), begin, header.data_bytes);
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  const uint64_t length = json.size();
  header.text = std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json;
  return header;
}

}  // namespace

uint64_t write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                           const Metadata& metadata, bool with_sha256) {
  const std::vector<const SafetensorsEntry*> order = aligned_order(entries);
  const Header header = make_header(order, metadata, with_sha256);
  const uint64_t total = header.text.size() + header.data_bytes;
  AtomicFile file(path, total);
  file.write(header.text);
  Sha256 digest;
  std::vector<std::byte> buffer;
  for (const SafetensorsEntry* entry : order) {
    std::span<const std::byte> bytes = entry->bytes;
    if (entry->fill) {
      buffer.resize(bytes_of(*entry));
      entry->fill(buffer);
      bytes = buffer;
    }
    if (with_sha256) digest.update(bytes);
    file.write(bytes);
  }
  if (with_sha256) {
    // The digest is known once the data has passed by; until the rename nobody sees the zeros that hold its place.
    const std::string digits = digest.finish();
    file.patch(header.digest_at, std::as_bytes(std::span(digits)));
  }
  file.commit();
  return total;
}

}  // namespace engine
