// Any bytes as an image file, in both modes: a picture within the limit or a DataError, and nothing else.

#include <cstdlib>

#include "data/decode.h"
#include "engine/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  constexpr int64_t kMaxPixels = 1 << 16;
  for (const auto mode : {engine::data::ImageMode::rgb, engine::data::ImageMode::gray}) {
    try {
      engine::data::Image image;
      engine::data::decode_image({bytes, size}, "input", {mode, kMaxPixels}, image);
      const int64_t pixels = int64_t{image.width} * image.height;
      const bool whole = static_cast<int64_t>(image.pixels.size()) == image.bytes();
      if (!whole || pixels < 1 || pixels > kMaxPixels || image.channels != channels_of(mode)) std::abort();
    } catch (const engine::DataError&) {
    }
  }
  return 0;
}
