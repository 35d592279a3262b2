#include <filesystem>

#include "data/openers.h"
#include "engine/core/error.h"

namespace engine::data {
namespace {

namespace fs = std::filesystem;

/// Where the sources were when this was compiled; a build that is not moved finds its own tree.
fs::path source_folder() { return fs::path(__FILE__).parent_path() / "samples"; }

fs::path installed_folder() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / "../share/engine/samples";
}

}  // namespace

std::string samples_folder() {
  std::error_code ignored;
  const fs::path candidates[] = {source_folder(), installed_folder().lexically_normal()};
  for (const fs::path& folder : candidates) {
    if (fs::is_directory(folder, ignored)) return folder.string();
  }
  throw DataError(fmt::format("[samples] bundled data: got no folder, expected {} or {}",
                              escaped(candidates[0].string()), escaped(candidates[1].string())),
                  "--dataset and --data-path name your own data");
}

DatasetPair open_samples(const DatasetOptions& options) {
  DatasetOptions inner = options;
  const bool digits = options.sample_set == "digits";
  if (!digits && options.sample_set != "photos") {
    throw ConfigError(fmt::format("[samples] set: got \"{}\", expected digits or photos", escaped(options.sample_set)));
  }
  inner.kind = digits ? "mnist" : "imagefolder";
  inner.path = samples_folder() + (digits ? "/mnist" : "/sign_digits");
  DatasetPair pair = open_dataset(inner);
  pair.summary = fmt::format("samples ({}), {}", digits ? "MNIST digits" : "photos of hand signs", pair.summary);
  return pair;
}

}  // namespace engine::data
