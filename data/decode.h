#pragma once
// Image files to pixels: JPEG by libjpeg-turbo, PNG and BMP by stb_image, chosen by the first bytes and never by the
// name.
//
// The same in all formats:
// - EXIF orientation is ignored, as torchvision's ImageFolder does; so published weights and accuracies compare.
// - Alpha is dropped: the colour that is stored under it stays (Pillow's convert("RGB")).
// - 16-bit samples are reduced to their upper 8 bits.
// - A file that ends early is refused. A JPEG without its end marker counts as cut, even if only those two bytes are
//   missing. What follows the end of the picture is not looked at.
// - A picture with more than `max_pixels` pixels is refused before memory for its pixels is allocated.
// CMYK and YCCK JPEGs become RGB by R = C K / 255 with the inverted inks that Adobe's segment announces; without that
// segment the inks are taken as plain ones, R = (255 - C) (255 - K) / 255. A palette index past the palette's end is
// black.

#include <cstdint>
#include <span>
#include <string>

#include "data/image.h"

namespace engine::data {

/// Pillow's limit: a quarter of a GiB of RGB pixels.
inline constexpr int64_t kDefaultMaxImagePixels = 178956970;

struct DecodeOptions {
  ImageMode mode = ImageMode::rgb;
  int64_t max_pixels = kDefaultMaxImagePixels;
};

/// Decodes the bytes of a file; `name` is for messages. `image` is overwritten and its memory reused. Throws DataError
/// "[image] NAME: got ..., expected ...".
void decode_image(std::span<const uint8_t> bytes, const std::string& name, const DecodeOptions& options, Image& image);

/// The same for a file. Throws DataError where it cannot be read.
void decode_image_file(const std::string& path, const DecodeOptions& options, Image& image);

/// What the content looks like, in words: "an empty file", "a JPEG", "a gzip archive", ...
std::string describe_content(std::span<const uint8_t> bytes);

}  // namespace engine::data
