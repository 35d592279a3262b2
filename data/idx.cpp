#include "data/idx.h"

#include <algorithm>
#include <filesystem>

#include "data/decode.h"
#include "data/file.h"
#include "data/gzip.h"
#include "data/openers.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

constexpr uint32_t kImages = 0x00000803, kLabels = 0x00000801;
constexpr size_t kLimit = size_t{4} << 30;
constexpr int64_t kDigits = 10;

[[noreturn]] void fail(const std::string& name, const std::string& got, const std::string& expected,
                       const std::string& hint = "") {
  throw DataError(fmt::format("[idx] cannot read: {}: got {}, expected {}", escaped(name), got, expected), hint);
}

uint32_t big_endian(std::span<const uint8_t> bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         uint32_t{bytes[at + 3]};
}

const char* type_name(unsigned type) {
  switch (type) {
    case 0x08:
      return "unsigned byte";
    case 0x09:
      return "signed byte";
    case 0x0B:
      return "short";
    case 0x0C:
      return "int";
    case 0x0D:
      return "float";
    case 0x0E:
      return "double";
    default:
      return nullptr;
  }
}

void check_magic(std::span<const uint8_t> bytes, const std::string& name, uint32_t wanted) {
  const uint32_t magic = big_endian(bytes, 0);
  if (magic == wanted) return;
  const std::string got = fmt::format("magic number 0x{:08x}", magic);
  const std::string expected = fmt::format("0x{:08x} ({})", wanted, wanted == kImages ? "images" : "labels");
  if (magic == (wanted == kImages ? kLabels : kImages)) fail(name, got, expected, "images and labels look swapped");
  if (magic == __builtin_bswap32(wanted)) fail(name, got, expected, "its bytes are in reverse order");
  const unsigned type = magic >> 8;
  if (type <= 0xFF && type != 0x08 && type_name(type) != nullptr) {
    fail(name, fmt::format("{} (elements of type {})", got, type_name(type)), expected);
  }
  fail(name, fmt::format("{} ({})", got, describe_content(bytes)), expected);
}

/// The extents of a file, whose size is checked against them.
std::vector<int64_t> read_header(std::span<const uint8_t> bytes, const std::string& name, uint32_t wanted) {
  const size_t rank = wanted & 0xFF, header = 4 + 4 * rank;
  if (bytes.size() >= 4) check_magic(bytes, name, wanted);
  if (bytes.size() < header) fail(name, fmt::format("{} bytes", bytes.size()), fmt::format("a header of {}", header));
  std::vector<int64_t> extents;
  const size_t left = bytes.size() - header;
  size_t elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    extents.push_back(big_endian(bytes, 4 + 4 * i));
    const auto extent = static_cast<size_t>(extents.back());
    if (extent == 0) fail(name, "an extent of 0", "at least one picture of at least one pixel");
    // Once it is above what is left it stays there, and can not wrap around.
    elements = elements > left || extent > left / elements ? left + 1 : elements * extent;
  }
  if (elements != left) {
    std::string claimed;
    for (size_t i = 0; i < rank; ++i) claimed += fmt::format("{}{}", i > 0 ? " x " : "", big_endian(bytes, 4 + 4 * i));
    fail(name, fmt::format("{} bytes behind the header", left), claimed);
  }
  return extents;
}

/// Holds what was unpacked, or refers to the file's own bytes.
struct Plain {
  std::vector<uint8_t> unpacked;
  std::span<const uint8_t> bytes;
};

Plain plain(std::span<const uint8_t> bytes, const std::string& name) {
  Plain result;
  result.bytes = bytes;
  if (is_gzip(bytes)) {
    result.unpacked = gunzip(bytes, name, kLimit);
    result.bytes = result.unpacked;
  } else if (name.ends_with(".gz") && (bytes.empty() || bytes[0] != 0)) {
    fail(name, describe_content(bytes), "gzip data", "an interrupted or redirected download looks like this");
  }
  return result;
}

std::vector<std::string> spellings(const std::string& stem, const std::string& what) {
  std::vector<std::string> names;
  for (const char* end : {"", ".gz"}) {
    for (const char* separator : {"-", "."}) names.push_back(stem + "-" + what + separator + "ubyte" + end);
  }
  for (std::string& name : names) name.insert(name.find("ubyte"), what == "images" ? "idx3-" : "idx1-");
  return names;
}

std::string find_file(const std::string& folder, const std::string& stem, const std::string& what) {
  for (const std::string& name : spellings(stem, what)) {
    std::string path = folder + "/" + name;
    if (std::error_code ignored; std::filesystem::exists(path, ignored)) return path;
  }
  return "";
}

std::unique_ptr<Dataset> make_part(PictureArray array, const DatasetPair& pair) {
  if (array.size() == 0) return nullptr;
  return std::make_unique<MemoryDataset>(std::move(array), pair.classes, pair.mode);
}

}  // namespace

PictureArray parse_idx(std::span<const uint8_t> images, const std::string& images_name, std::span<const uint8_t> labels,
                       const std::string& labels_name) {
  const Plain image_file = plain(images, images_name), label_file = plain(labels, labels_name);
  const std::vector<int64_t> extents = read_header(image_file.bytes, images_name, kImages);
  const int64_t count = read_header(label_file.bytes, labels_name, kLabels)[0];
  if (count != extents[0]) {
    fail(labels_name, fmt::format("{} labels", count), fmt::format("{}, one a picture", extents[0]));
  }
  constexpr int64_t kLargestSide = 65535;
  if (extents[1] > kLargestSide || extents[2] > kLargestSide) {
    fail(images_name, fmt::format("pictures of {} x {}", extents[1], extents[2]),
         fmt::format("sides of at most {}", kLargestSide));
  }
  PictureArray array;
  array.height = static_cast<int>(extents[1]);
  array.width = static_cast<int>(extents[2]);
  array.channels = 1;
  array.pixels.assign(image_file.bytes.begin() + 16, image_file.bytes.end());
  array.labels.assign(label_file.bytes.begin() + 8, label_file.bytes.end());
  array.files.emplace_back(images_name, count);
  return array;
}

PictureArray read_idx(const std::string& folder, const std::string& stem, bool optional) {
  const std::string images = find_file(folder, stem, "images"), labels = find_file(folder, stem, "labels");
  if (images.empty() && labels.empty() && optional) return {};
  if (images.empty() || labels.empty()) {
    const std::string what = images.empty() ? "images" : "labels";
    fail(folder, fmt::format("no {} file of \"{}\"", what, stem),
         fmt::format("one of {}", joined(spellings(stem, what))));
  }
  const Bytes image_bytes = read_file(images), label_bytes = read_file(labels);
  return parse_idx(image_bytes.span(), images, label_bytes.span(), labels);
}

DatasetPair open_mnist(const DatasetOptions& options) {
  DatasetPair pair;
  PictureArray train, val;
  if (options.open_train) train = read_idx(options.path, "train", false);
  if (options.open_val) val = read_idx(options.path, "t10k", true);
  int64_t classes = kDigits;
  for (const PictureArray* part : {&train, &val}) {
    for (const uint8_t label : part->labels) classes = std::max<int64_t>(classes, label + 1);
  }
  pair.mode = options.mode.value_or(ImageMode::gray);
  pair.classes = numbered_classes(options, number_names(classes));
  pair.native_height = std::max(train.height, val.height);
  pair.native_width = std::max(train.width, val.width);
  if (train.size() > 0 && val.size() > 0 && (train.height != val.height || train.width != val.width)) {
    pair.native_height = pair.native_width = 0;
  }
  pair.train = make_part(std::move(train), pair);
  pair.val = make_part(std::move(val), pair);
  return pair;
}

}  // namespace engine::data
