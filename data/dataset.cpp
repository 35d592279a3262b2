#include "data/dataset.h"

#include <algorithm>
#include <array>

#include "data/openers.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

struct Entry {
  const char* name;
  DatasetPair (*open)(const DatasetOptions&);
  bool needs_path;
};

constexpr std::array kTable = {
    Entry{"samples", open_samples, false},         Entry{"mnist", open_mnist, true},
    Entry{"cifar10", open_cifar10, true},          Entry{"cifar100", open_cifar100, true},
    Entry{"imagefolder", open_image_folder, true}, Entry{"synthetic", open_synthetic, false},
};

}  // namespace

Image Dataset::load(int64_t index) const {
  Image image;
  load(index, image);
  return image;
}

Normalization default_normalization(const std::string& kind, ImageMode mode) {
  if (mode == ImageMode::gray) return {{0.1307F}, {0.3081F}};
  if (kind == "mnist") return {{0.1307F, 0.1307F, 0.1307F}, {0.3081F, 0.3081F, 0.3081F}};
  if (kind == "cifar10") return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  if (kind == "cifar100") return {{0.5071F, 0.4867F, 0.4408F}, {0.2675F, 0.2565F, 0.2761F}};
  return {{0.485F, 0.456F, 0.406F}, {0.229F, 0.224F, 0.225F}};
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTable) names.emplace_back(entry.name);
  return names;
}

DatasetPair open_dataset(const DatasetOptions& options) {
  const auto entry = std::find_if(kTable.begin(), kTable.end(), [&](const Entry& e) { return options.kind == e.name; });
  if (entry == kTable.end()) {
    throw ConfigError(
        fmt::format("[dataset] name: got \"{}\", expected one of {}", escaped(options.kind), joined(dataset_names())));
  }
  if (entry->needs_path && options.path.empty()) {
    throw ConfigError(fmt::format("[dataset] path of {}: got none, expected the folder of its files", options.kind),
                      "--data-path names it");
  }
  DatasetPair pair = entry->open(options);
  if (pair.mean.empty()) {
    Normalization usual = default_normalization(options.kind, pair.mode);
    pair.mean = std::move(usual.mean);
    pair.stddev = std::move(usual.stddev);
  }
  if (pair.summary.empty()) pair.summary = summary_of(options, pair);
  return pair;
}

std::vector<std::string> numbered_classes(const DatasetOptions& options, std::vector<std::string> own) {
  if (options.classes.empty()) return own;
  if (options.classes.size() < own.size()) {
    throw DataError(fmt::format("[dataset] classes of {}: got {}, expected at most the checkpoint's {}", options.kind,
                                own.size(), options.classes.size()));
  }
  return options.classes;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

std::vector<std::string> number_names(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string summary_of(const DatasetOptions& options, const DatasetPair& pair) {
  const int64_t train = pair.train ? pair.train->size() : 0, val = pair.val ? pair.val->size() : 0;
  const std::string where = options.path.empty() ? "" : fmt::format(" {}", escaped(options.path));
  return fmt::format("{}{}: {} classes, {} training and {} validation pictures, read as {}", options.kind, where,
                     pair.classes.size(), train, val, name_of(pair.mode));
}

}  // namespace engine::data
