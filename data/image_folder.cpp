#include "data/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "engine/core/error.h"
#include "engine/core/log.h"

namespace engine::data {
namespace {

namespace fs = std::filesystem;
using FolderId = std::pair<dev_t, ino_t>;

constexpr std::array<std::string_view, 12> kExtensions = {"jpg", "jpeg", "jpe",  "jfif", "png", "bmp",
                                                          "tif", "tiff", "webp", "gif",  "ppm", "pgm"};

bool has_image_extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

[[noreturn]] void fail(const std::string& path, const std::string& got, const std::string& hint = "") {
  throw DataError(
      fmt::format("[imagefolder] cannot read: {}: got {}, expected a folder of class folders", escaped(path), got),
      hint);
}

FolderId id_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) fail(path, system_message(errno));
  return {status.st_dev, status.st_ino};
}

struct Entries {
  std::vector<std::string> folders, files, dead;  // names, sorted by bytes
  int64_t hidden = 0;
};

Entries list(const std::string& folder) {
  Entries entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code ignored;
    const fs::file_type type = it->status(ignored).type();
    if (name.starts_with(".")) {
      ++entries.hidden;
    } else if (type == fs::file_type::directory) {
      entries.folders.push_back(std::move(name));
    } else if (type == fs::file_type::not_found || type == fs::file_type::none) {
      entries.dead.push_back(std::move(name));
    } else {
      entries.files.push_back(std::move(name));
    }
  }
  if (error) fail(folder, error.message());
  for (auto* names : {&entries.folders, &entries.files, &entries.dead}) std::sort(names->begin(), names->end());
  return entries;
}

class Walk {
 public:
  Walk(const std::string& root, FolderScan& scan) : root_(id_of(root)), scan_(scan) {}

  void take_class(const std::string& folder) {
    seen_ = {root_};
    const size_t before = scan_.paths.size();
    visit(folder);
    scan_.counts.push_back(static_cast<int64_t>(scan_.paths.size() - before));
    scan_.labels.resize(scan_.paths.size(), static_cast<int64_t>(scan_.counts.size()) - 1);
  }

  void ignore(const std::string& folder, const Entries& entries) {
    scan_.ignored += entries.hidden + static_cast<int64_t>(entries.dead.size());
    for (const std::string& name : entries.dead) {
      log_warn("[imagefolder] link to nothing, left out: {}", escaped(folder + "/" + name));
    }
  }

 private:
  void visit(const std::string& folder) {
    if (!seen_.insert(id_of(folder)).second) return;
    const Entries entries = list(folder);
    ignore(folder, entries);
    for (const std::string& name : entries.files) {
      if (has_image_extension(name)) {
        scan_.paths.push_back(folder + "/" + name);
      } else {
        ++scan_.ignored;
      }
    }
    for (const std::string& name : entries.folders) visit(folder + "/" + name);
  }

  FolderId root_;
  FolderScan& scan_;
  std::set<FolderId> seen_;
};

void require_folder(const std::string& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) fail(root, "no such folder");
  if (error) fail(root, error.message());
  if (status.type() != fs::file_type::directory) fail(root, "something that is not a folder");
}

}  // namespace

FolderScan scan_folder(const std::string& root) {
  require_folder(root);
  FolderScan scan;
  Walk walk(root, scan);
  const Entries top = list(root);
  walk.ignore(root, top);
  scan.ignored += static_cast<int64_t>(top.files.size());
  scan.classes = top.folders;
  for (const std::string& name : top.folders) walk.take_class(root + "/" + name);
  return scan;
}

std::vector<std::string> folder_classes(const std::string& root) {
  require_folder(root);
  return list(root).folders;
}

}  // namespace engine::data
