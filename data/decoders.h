#pragma once
// The decoders behind decode_image(); not for use elsewhere.

#include <cstdint>
#include <span>
#include <string>

#include "data/decode.h"

namespace engine::data {

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image);
void decode_png(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image);
void decode_bmp(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image);

/// Throws the DataError of a picture that cannot be decoded.
[[noreturn]] void fail_image(const std::string& name, const std::string& got, const std::string& expected);

/// Throws DataError for a size of zero or above the limit.
void check_image_size(int64_t width, int64_t height, const std::string& name, const DecodeOptions& options);

}  // namespace engine::data
