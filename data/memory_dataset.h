#pragma once
// A set whose pictures, all of one size, lie in memory.

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace engine::data {

/// Pictures and labels as a file stores them.
struct PictureArray {
  int height = 0, width = 0, channels = 0;
  bool planar = false;  // all of one channel, then all of the next; else interleaved
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  /// Names of the files and, for each, the first record that is not its own any more.
  std::vector<std::pair<std::string, int64_t>> files;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

class MemoryDataset : public Dataset {
 public:
  MemoryDataset(PictureArray array, std::vector<std::string> classes, ImageMode mode);
  int64_t size() const override { return array_.size(); }
  int64_t label(int64_t index) const override { return array_.labels[static_cast<size_t>(index)]; }
  void load(int64_t index, Image& image) const override;
  using Dataset::load;
  /// "FILE record N", N from 0 within the file.
  std::string name_of(int64_t index) const override;

 private:
  PictureArray array_;
};

}  // namespace engine::data
