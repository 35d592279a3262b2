// Any bytes as a CIFAR-10 and as a CIFAR-100 file.

#include <cstdlib>

#include "data/cifar.h"
#include "engine/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  for (const auto& layout : {engine::data::kCifar10, engine::data::kCifar100}) {
    try {
      engine::data::PictureArray array;
      engine::data::append_cifar({bytes, size}, "input", layout, array);
      const engine::data::MemoryDataset set(std::move(array), std::vector<std::string>(100, "name"),
                                            engine::data::ImageMode::gray);
      engine::data::Image image;
      static_cast<const engine::data::Dataset&>(set).load(set.size() - 1, image);
      if (image.pixels.size() != 32 * 32) std::abort();
    } catch (const engine::DataError&) {
    }
  }
  return 0;
}
