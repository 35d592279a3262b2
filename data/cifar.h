#pragma once
// The binary form of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning Multiple Layers of Features from Tiny Images",
// 2009): records of one label byte (CIFAR-100: coarse, then fine) and 3072 bytes, red, green and blue plane of 32 x 32.

#include <cstdint>
#include <span>
#include <string>

#include "data/memory_dataset.h"

namespace engine::data {

struct CifarLayout {
  int label_bytes;  // the last one is the label
  int classes;
};
inline constexpr CifarLayout kCifar10{1, 10}, kCifar100{2, 100};

/// Adds the records of a file to `array`. Throws DataError for a size that is no multiple of a record's, for no record,
/// and for a label out of range, with the record's number.
void append_cifar(std::span<const uint8_t> bytes, const std::string& name, const CifarLayout& layout,
                  PictureArray& array);

}  // namespace engine::data
