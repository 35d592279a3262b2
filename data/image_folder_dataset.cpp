#include <algorithm>
#include <filesystem>
#include <string_view>

#include "data/image_folder.h"
#include "data/openers.h"
#include "engine/core/error.h"
#include "engine/core/log.h"

namespace engine::data {
namespace {

namespace fs = std::filesystem;

class ImageFolderDataset : public Dataset {
 public:
  ImageFolderDataset(FolderScan scan, std::vector<std::string> classes, const DecodeOptions& decode)
      : Dataset(std::move(classes), decode.mode),
        paths_(std::move(scan.paths)),
        labels_(std::move(scan.labels)),
        decode_(decode) {}

  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  void load(int64_t index, Image& image) const override {
    decode_image_file(paths_[static_cast<size_t>(index)], decode_, image);
  }
  using Dataset::load;
  std::string name_of(int64_t index) const override { return paths_[static_cast<size_t>(index)]; }

 private:
  std::vector<std::string> paths_;
  std::vector<int64_t> labels_;
  DecodeOptions decode_;
};

[[noreturn]] void fail(const std::string& where, const std::string& got, const std::string& expected,
                       const std::string& hint = "") {
  throw DataError(fmt::format("[imagefolder] {}: got {}, expected {}", escaped(where), got, expected), hint);
}

void check_pictures(const std::string& root, const FolderScan& scan, bool training) {
  if (scan.paths.empty()) {
    fail(root, fmt::format("no picture in {} class folders", scan.classes.size()), "CLASS/FILE.jpg and the like");
  }
  for (size_t i = 0; i < scan.classes.size(); ++i) {
    if (scan.counts[i] > 0) continue;
    const std::string folder = root + "/" + scan.classes[i];
    if (training) fail(folder, "a class without any picture", "at least one", "remove the folder or fill it");
    log_warn("[imagefolder] a class without any validation picture: {}", escaped(folder));
  }
}

/// Turns the labels of a scan into indices of `classes`.
void relabel(const std::string& root, const std::vector<std::string>& classes, std::string_view owner,
             FolderScan& scan) {
  std::vector<int64_t> map;
  for (const std::string& name : scan.classes) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end()) {
      fail(root + "/" + name, "a class that " + std::string(owner) + " lacks",
           fmt::format("one of its {} classes", classes.size()));
    }
    map.push_back(found - classes.begin());
  }
  for (int64_t& label : scan.labels) label = map[static_cast<size_t>(label)];
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void check_root(const DatasetOptions& options) {
  if (!is_folder(options.path)) fail(options.path, "no such folder", "a folder with train/ and val/");
  const bool train = is_folder(options.path + "/train"), val = is_folder(options.path + "/val");
  if (options.open_train ? !train : !train && !val) {
    fail(options.path, "no train/ in it", "train/CLASS/FILE and val/CLASS/FILE");
  }
}

}  // namespace

DatasetPair open_image_folder(const DatasetOptions& options) {
  check_root(options);
  const std::string train = options.path + "/train", val = options.path + "/val";
  const DecodeOptions decode{options.mode.value_or(ImageMode::rgb), options.max_image_pixels};
  DatasetPair pair;
  pair.mode = decode.mode;
  pair.classes = options.classes;
  if (pair.classes.empty()) pair.classes = folder_classes(is_folder(train) ? train : val);
  const std::string owner = options.classes.empty() ? "train/" : "the checkpoint";
  int64_t ignored = 0;
  const auto open = [&](const std::string& root, bool training) {
    FolderScan scan = scan_folder(root);
    check_pictures(root, scan, training);
    relabel(root, pair.classes, owner, scan);
    ignored += scan.ignored;
    return std::make_unique<ImageFolderDataset>(std::move(scan), pair.classes, decode);
  };
  if (options.open_train) pair.train = open(train, true);
  if (options.open_val && is_folder(val)) pair.val = open(val, false);
  pair.summary = fmt::format("{}, {} files ignored", summary_of(options, pair), ignored);
  return pair;
}

}  // namespace engine::data
