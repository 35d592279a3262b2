#pragma once
// The IDX format of MNIST and Fashion-MNIST (LeCun, Cortes and Burges): big-endian magic number and extents, then
// bytes.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/memory_dataset.h"

namespace engine::data {

/// One part from the bytes of its two files, each plain or gzip. Throws DataError with what was found and expected:
/// magic number (0x00000803 for images, 0x00000801 for labels), sizes, and counts that do not fit each other.
PictureArray parse_idx(std::span<const uint8_t> images, const std::string& images_name, std::span<const uint8_t> labels,
                       const std::string& labels_name);

/// One part from a folder, `stem` "train" or "t10k": the first of STEM-images-idx3-ubyte, STEM-images.idx3-ubyte and
/// these two with .gz that is there (so a plain file wins over a packed one), and labels likewise. An array of no
/// pictures where there is no file of either kind and the part is `optional`. Throws DataError that lists the names
/// tried.
PictureArray read_idx(const std::string& folder, const std::string& stem, bool optional);

}  // namespace engine::data
