#pragma once
// Decoded pictures.

#include <cstdint>
#include <string_view>
#include <vector>

namespace engine::data {

/// What a picture is turned into when it is read. Gray is 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601), rounded as
/// Pillow's convert("L"); a gray picture becomes RGB by repetition.
enum class ImageMode { gray = 1, rgb = 3 };

inline int channels_of(ImageMode mode) { return static_cast<int>(mode); }
inline std::string_view name_of(ImageMode mode) { return mode == ImageMode::gray ? "gray" : "rgb"; }

/// 8-bit samples, rows from the top, [height, width, channels] without padding.
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> pixels;

  /// Sets the extents; the pixels are unspecified until written. Keeps the memory it has.
  void reshape(int new_height, int new_width, int new_channels);
  int64_t bytes() const { return int64_t{height} * width * channels; }
};

/// Turns a picture of 1 or 3 channels into `mode`, in place.
void convert(Image& image, ImageMode mode);

}  // namespace engine::data
