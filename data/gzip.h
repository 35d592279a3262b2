#pragma once
// gzip (RFC 1952), in memory.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace engine::data {

bool is_gzip(std::span<const uint8_t> bytes);

/// Unpacks all members, whose checksums and lengths are checked. Throws DataError for damage, a cut end, bytes behind
/// the end, or more than `limit` bytes.
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& name, size_t limit);

}  // namespace engine::data
