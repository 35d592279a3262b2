#include "data/decode.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "data/decoders.h"
#include "data/file.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

using namespace std::string_view_literals;

enum class Format { jpeg, png, bmp, other };

struct Signature {
  size_t offset;
  std::string_view magic;
  std::string_view words;
  Format format = Format::other;
};

constexpr std::array kSignatures = {
    Signature{0, "\xFF\xD8\xFF"sv, "a JPEG", Format::jpeg},
    Signature{0, "\x89PNG\r\n\x1A\n"sv, "a PNG", Format::png},
    Signature{0, "BM"sv, "a BMP", Format::bmp},
    Signature{8, "WEBP"sv, "a WebP image"},
    Signature{0, "GIF8"sv, "a GIF image"},
    Signature{0, "II*\0"sv, "a TIFF image"},
    Signature{0, "MM\0*"sv, "a TIFF image"},
    Signature{4, "ftyp"sv, "an HEIF, AVIF or MP4 file"},
    Signature{0, "\0\0\0\x0CjP  "sv, "a JPEG 2000 image"},
    Signature{0, "\xFF\x0A"sv, "a JPEG XL image"},
    Signature{0, "8BPS"sv, "a Photoshop file"},
    Signature{0, "P5"sv, "a PGM image"},
    Signature{0, "P6"sv, "a PPM image"},
    Signature{0, "\x1F\x8B"sv, "a gzip archive"},
    Signature{0, "PK\x03\x04"sv, "a ZIP archive"},
    Signature{0, "%PDF"sv, "a PDF document"},
};

const Signature* signature_of(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Signature& signature : kSignatures) {
    if (text.size() >= signature.offset && text.substr(signature.offset).starts_with(signature.magic)) {
      return &signature;
    }
  }
  return nullptr;
}

/// The first bytes as lower-case text with leading white space removed; empty where they are no text.
std::string text_head(std::span<const uint8_t> bytes) {
  std::string head;
  for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 64))) {
    if (byte >= 0x7F || (byte < 0x20 && std::isspace(byte) == 0)) return "";
    if (!head.empty() || std::isspace(byte) == 0) head += static_cast<char>(std::tolower(byte));
  }
  return head;
}

}  // namespace

std::string describe_content(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return "an empty file";
  if (bytes.size() < 4) return fmt::format("a file of {} byte{}", bytes.size(), bytes.size() == 1 ? "" : "s");
  if (const Signature* signature = signature_of(bytes)) return std::string(signature->words);
  const std::string text = text_head(bytes);
  if (text.starts_with("<!doctype html") || text.starts_with("<html")) return "an HTML page";
  if (text.starts_with("<")) return "XML or HTML text";
  if (!text.empty()) return "plain text";
  return fmt::format("unknown content that begins with {:02x} {:02x} {:02x} {:02x}", bytes[0], bytes[1], bytes[2],
                     bytes[3]);
}

void fail_image(const std::string& name, const std::string& got, const std::string& expected) {
  throw DataError(fmt::format("[image] cannot decode: {}: got {}, expected {}", escaped(name), got, expected));
}

void check_image_size(int64_t width, int64_t height, const std::string& name, const DecodeOptions& options) {
  if (width < 1 || height < 1) fail_image(name, fmt::format("{} x {} pixels", width, height), "at least one pixel");
  if (width > options.max_pixels / height) {
    throw DataError(fmt::format("[image] picture too large: {}: got {} x {} pixels, expected at most {} in all",
                                escaped(name), width, height, options.max_pixels),
                    "--max-image-pixels sets the limit");
  }
}

void decode_image(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image) {
  const Signature* signature = signature_of(bytes);
  switch (signature != nullptr ? signature->format : Format::other) {
    case Format::jpeg:
      return decode_jpeg(bytes, name, options, image);
    case Format::png:
      return decode_png(bytes, name, options, image);
    case Format::bmp:
      return decode_bmp(bytes, name, options, image);
    case Format::other:
      fail_image(name, describe_content(bytes), "a JPEG, PNG or BMP");
  }
}

void decode_image_file(const std::string& path, const DecodeOptions& options, Image& image) {
  decode_image(read_file(path).span(), path, options, image);
}

}  // namespace engine::data
