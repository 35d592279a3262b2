#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "data/decoders.h"
#include "engine/core/error.h"

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_NO_STDIO
#include <stb/stb_image.h>

namespace engine::data {
namespace {

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

uint32_t little_endian(const uint8_t* p) {
  return uint32_t{p[3]} << 24 | uint32_t{p[2]} << 16 | uint32_t{p[1]} << 8 | uint32_t{p[0]};
}

/// stb_image expands palettes through a table that it leaves unset past the palette's end: `source` with the entries up
/// to `full` added as black ones. `at` is where they go.
std::vector<uint8_t> with_zeros(std::span<const uint8_t> source, size_t at, size_t count) {
  std::vector<uint8_t> copy(source.size() + count);
  std::copy_n(source.begin(), at, copy.begin());
  std::copy(source.begin() + static_cast<std::ptrdiff_t>(at), source.end(),
            copy.begin() + static_cast<std::ptrdiff_t>(at + count));
  return copy;
}

void decode(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  int width = 0, height = 0, channels = 0;
  const int size = static_cast<int>(bytes.size());
  const auto fail = [&] {
    fail_image(name, fmt::format("{} with \"{}\"", describe_content(bytes), stbi_failure_reason()),
               "a whole, undamaged file");
  };
  if (stbi_info_from_memory(bytes.data(), size, &width, &height, &channels) == 0) fail();
  check_image_size(width, height, name, options);
  const int wanted = options.mode == ImageMode::gray && channels <= 2 ? 1 : 3;
  const std::unique_ptr<stbi_uc, void (*)(void*)> pixels(
      stbi_load_from_memory(bytes.data(), size, &width, &height, &channels, wanted), stbi_image_free);
  if (!pixels) fail();
  image.reshape(height, width, wanted);
  std::memcpy(image.pixels.data(), pixels.get(), image.pixels.size());
  convert(image, options.mode);
}

void check_file_size(std::span<const uint8_t> bytes, const std::string& name) {
  constexpr size_t kLargest = size_t{1} << 30;
  if (bytes.size() > kLargest) fail_image(name, fmt::format("{} bytes", bytes.size()), "at most 1 GiB");
}

struct PngFacts {
  size_t palette_at = 0;  // of the chunk; 0 where there is none
  size_t palette_entries = 0;
  unsigned depth = 0;
  unsigned colour_type = 0;
};

/// Walks the chunks of a PNG (ISO/IEC 15948), because stb_image checks neither checksums nor, in all cases, the end.
PngFacts check_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options) {
  constexpr std::string_view kWanted = "a whole, undamaged PNG";
  PngFacts facts;
  size_t at = 8;
  for (bool first = true;; first = false) {
    if (bytes.size() - at < 12) fail_image(name, "a PNG that is cut", std::string(kWanted));
    const size_t length = big_endian(&bytes[at]);
    if (length > bytes.size() - at - 12) fail_image(name, "a PNG that is cut", std::string(kWanted));
    const std::string_view type(reinterpret_cast<const char*>(&bytes[at + 4]), 4);
    const uint8_t* body = &bytes[at + 8];
    const bool critical = (bytes[at + 4] & 0x20) == 0;
    if (critical && crc32(0, &bytes[at + 4], static_cast<uInt>(length + 4)) != big_endian(body + length)) {
      fail_image(name, fmt::format("a PNG with a wrong checksum of {}", escaped(type)), std::string(kWanted));
    }
    if (first) {
      if (type != "IHDR" || length != 13) fail_image(name, "a PNG without a header", std::string(kWanted));
      check_image_size(big_endian(body), big_endian(body + 4), name, options);
      facts.depth = body[8];
      facts.colour_type = body[9];
    } else if (type == "PLTE") {
      facts.palette_at = at;
      facts.palette_entries = length / 3;
    } else if (type == "IEND") {
      return facts;
    }
    at += length + 12;
  }
}

}  // namespace

void decode_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  check_file_size(bytes, name);
  const PngFacts facts = check_png(bytes, name, options);
  const size_t full = size_t{1} << std::min(facts.depth, 8U);
  if (facts.colour_type != 3 || facts.palette_at == 0 || facts.palette_entries >= full) {
    return decode(bytes, name, options, image);
  }
  const size_t entries = facts.palette_entries, added = 3 * (full - entries);
  std::vector<uint8_t> padded = with_zeros(bytes, facts.palette_at + 8 + 3 * entries, added);
  const size_t length = 3 * full;
  padded[facts.palette_at + 2] = static_cast<uint8_t>(length >> 8);
  padded[facts.palette_at + 3] = static_cast<uint8_t>(length);
  decode(padded, name, options, image);
}

void decode_bmp(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  constexpr size_t kFileHeader = 14, kInfoHeader = 40;
  const std::string wanted = "a whole BMP with a Windows header, not compressed";
  check_file_size(bytes, name);
  if (bytes.size() < kFileHeader + kInfoHeader) fail_image(name, "a BMP that is cut", wanted);
  const size_t begin = little_endian(&bytes[10]), header = little_endian(&bytes[14]);
  if (header < kInfoHeader || header > bytes.size() || begin < kFileHeader + header) {
    fail_image(name, fmt::format("a BMP with a header of {} bytes and pixels at {}", header, begin), wanted);
  }
  const int64_t width = static_cast<int32_t>(little_endian(&bytes[18]));
  const int64_t height = std::abs(int64_t{static_cast<int32_t>(little_endian(&bytes[22]))});
  const int64_t depth = bytes[28] | bytes[29] << 8;
  check_image_size(width, height, name, options);
  const int64_t stride = (width * depth + 31) / 32 * 4, last_row = (width * depth + 7) / 8;
  const int64_t needed = static_cast<int64_t>(begin) + stride * (height - 1) + last_row;
  if (static_cast<int64_t>(bytes.size()) < needed) {
    fail_image(name, fmt::format("a BMP of {} bytes that is cut", bytes.size()), fmt::format("{} bytes", needed));
  }

  const size_t entries = (begin - kFileHeader - header) / 4, full = 256;
  if (depth > 8 || entries == 0 || entries >= full) return decode(bytes, name, options, image);
  const size_t added = 4 * (full - entries), moved = begin + added;
  std::vector<uint8_t> padded = with_zeros(bytes, begin, added);
  for (size_t i = 0; i < 4; ++i) padded[10 + i] = static_cast<uint8_t>(moved >> (8 * i));
  decode(padded, name, options, image);
}

}  // namespace engine::data
