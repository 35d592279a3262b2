#include "data/memory_dataset.h"

#include <algorithm>

#include "engine/core/error.h"

namespace engine::data {

MemoryDataset::MemoryDataset(PictureArray array, std::vector<std::string> classes, ImageMode mode)
    : Dataset(std::move(classes), mode), array_(std::move(array)) {
  for (int64_t i = 0; i < size(); ++i) {
    if (label(i) >= static_cast<int64_t>(classes_.size())) {
      throw DataError(fmt::format("[dataset] label: {}: got {}, expected 0 to {}", escaped(name_of(i)), label(i),
                                  classes_.size() - 1));
    }
  }
}

void MemoryDataset::load(int64_t index, Image& image) const {
  image.reshape(array_.height, array_.width, array_.channels);
  const size_t bytes = image.pixels.size(), plane = bytes / static_cast<size_t>(array_.channels);
  const uint8_t* source = array_.pixels.data() + static_cast<size_t>(index) * bytes;
  if (array_.planar) {
    const auto channels = static_cast<size_t>(array_.channels);
    for (size_t i = 0; i < plane; ++i) {
      for (size_t c = 0; c < channels; ++c) image.pixels[i * channels + c] = source[c * plane + i];
    }
  } else {
    std::copy_n(source, bytes, image.pixels.data());
  }
  convert(image, mode_);
}

std::string MemoryDataset::name_of(int64_t index) const {
  int64_t begin = 0;
  for (const auto& [file, end] : array_.files) {
    if (index < end) return fmt::format("{} record {}", file, index - begin);
    begin = end;
  }
  return fmt::format("record {}", index);
}

}  // namespace engine::data
