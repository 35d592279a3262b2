#include "data/image.h"

namespace engine::data {
namespace {

/// Bytes that an Image keeps for later pictures; more than that is given back, so that one huge picture does not stay.
constexpr size_t kKeptBytes = size_t{16} << 20;

void to_gray(Image& image) {
  const size_t count = image.pixels.size() / 3;
  uint8_t* pixels = image.pixels.data();
  for (size_t i = 0; i < count; ++i) {
    // Weights of 16 fraction bits that add up to 1.
    const uint32_t sum = pixels[3 * i] * 19595U + pixels[3 * i + 1] * 38470U + pixels[3 * i + 2] * 7471U;
    pixels[i] = static_cast<uint8_t>((sum + 0x8000U) >> 16);
  }
  image.pixels.resize(count);
  image.channels = 1;
}

void to_rgb(Image& image) {
  const size_t count = image.pixels.size();
  image.pixels.resize(3 * count);
  uint8_t* pixels = image.pixels.data();
  for (size_t i = count; i-- > 0;) {
    const uint8_t gray = pixels[i];
    pixels[3 * i] = pixels[3 * i + 1] = pixels[3 * i + 2] = gray;
  }
  image.channels = 3;
}

}  // namespace

void Image::reshape(int new_height, int new_width, int new_channels) {
  height = new_height;
  width = new_width;
  channels = new_channels;
  const auto needed = static_cast<size_t>(bytes());
  if (pixels.capacity() > kKeptBytes && needed <= kKeptBytes) std::vector<uint8_t>().swap(pixels);
  pixels.resize(needed);
}

void convert(Image& image, ImageMode mode) {
  if (image.channels == channels_of(mode)) return;
  if (mode == ImageMode::gray) {
    to_gray(image);
  } else {
    to_rgb(image);
  }
}

}  // namespace engine::data
