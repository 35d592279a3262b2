// Any bytes as the image and the label file of an IDX pair: the first two bytes say where the first file ends.

#include <algorithm>
#include <cstdlib>

#include "data/idx.h"
#include "engine/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 2) return 0;
  const std::span<const uint8_t> all(bytes + 2, size - 2);
  const size_t cut = std::min<size_t>(all.size(), bytes[0] | bytes[1] << 8);
  try {
    const engine::data::PictureArray array =
        engine::data::parse_idx(all.first(cut), "images.gz", all.subspan(cut), "labels");
    const int64_t picture = int64_t{array.height} * array.width;
    if (static_cast<int64_t>(array.pixels.size()) != picture * array.size() || array.size() < 1) std::abort();
  } catch (const engine::DataError&) {
  }
  return 0;
}
