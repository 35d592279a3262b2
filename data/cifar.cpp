#include "data/cifar.h"

#include <memory>
#include <sstream>

#include "data/file.h"
#include "data/openers.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

constexpr int kSide = 32;
constexpr size_t kPixelBytes = size_t{3} * kSide * kSide;

constexpr const char* kNames10 = "airplane automobile bird cat deer dog frog horse ship truck";
constexpr const char* kNames100 =
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle "
    "caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant "
    "flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man "
    "maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree "
    "plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train "
    "trout tulip turtle wardrobe whale willow_tree wolf woman worm";

std::vector<std::string> words(const char* text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

std::unique_ptr<Dataset> read_part(const DatasetOptions& options, const std::vector<std::string>& files,
                                   const CifarLayout& layout, const DatasetPair& pair) {
  PictureArray array;
  for (const std::string& file : files) {
    const std::string path = options.path + "/" + file;
    append_cifar(read_file(path).span(), path, layout, array);
  }
  return std::make_unique<MemoryDataset>(std::move(array), pair.classes, pair.mode);
}

struct Files {
  std::vector<std::string> train, val;
};

DatasetPair open_cifar(const DatasetOptions& options, const CifarLayout& layout, const Files& files,
                       const char* names) {
  DatasetPair pair;
  pair.mode = options.mode.value_or(ImageMode::rgb);
  pair.classes = numbered_classes(options, words(names));
  pair.native_height = pair.native_width = kSide;
  if (options.open_train) pair.train = read_part(options, files.train, layout, pair);
  if (options.open_val) pair.val = read_part(options, files.val, layout, pair);
  return pair;
}

}  // namespace

void append_cifar(std::span<const uint8_t> bytes, const std::string& name, const CifarLayout& layout,
                  PictureArray& array) {
  const auto label_bytes = static_cast<size_t>(layout.label_bytes);
  const size_t record = label_bytes + kPixelBytes;
  if (bytes.empty() || bytes.size() % record != 0) {
    throw DataError(fmt::format("[cifar] cannot read: {}: got {} bytes, expected a multiple of {}", escaped(name),
                                bytes.size(), record));
  }
  array.height = array.width = kSide;
  array.channels = 3;
  array.planar = true;
  for (size_t at = 0; at < bytes.size(); at += record) {
    const uint8_t label = bytes[at + label_bytes - 1];
    if (label >= layout.classes) {
      throw DataError(fmt::format("[cifar] label: {} record {}: got {}, expected 0 to {}", escaped(name), at / record,
                                  label, layout.classes - 1));
    }
    array.labels.push_back(label);
    const auto pixels = bytes.subspan(at + label_bytes, kPixelBytes);
    array.pixels.insert(array.pixels.end(), pixels.begin(), pixels.end());
  }
  array.files.emplace_back(name, array.size());
}

DatasetPair open_cifar10(const DatasetOptions& options) {
  Files files{{}, {"test_batch.bin"}};
  for (int i = 1; i <= 5; ++i) files.train.push_back(fmt::format("data_batch_{}.bin", i));
  return open_cifar(options, kCifar10, files, kNames10);
}

DatasetPair open_cifar100(const DatasetOptions& options) {
  return open_cifar(options, kCifar100, {{"train.bin"}, {"test.bin"}}, kNames100);
}

}  // namespace engine::data
