#pragma once
// Plans that a process has made, and choices that searches left on the disk.

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "kernels/conv2d/conv2d_device.h"

namespace engine::kernels {

/// Plans by device and key, for the life of the process. Threads may call at once.
class ConvPlanStore {
 public:
  /// The plan, made by make() at the first request; other requests wait meanwhile. What make() throws is thrown, and
  /// the next request tries again.
  const ConvPlan& get(int device, const ConvPlanKey& key, const std::function<std::unique_ptr<ConvPlan>()>& make);

 private:
  struct Entry {
    int device;
    ConvPlanKey key;
    bool operator==(const Entry&) const = default;
  };
  struct Hash {
    size_t operator()(const Entry& entry) const;
  };
  std::mutex mutex_;
  std::unordered_map<Entry, std::unique_ptr<ConvPlan>, Hash> plans_;
};

/// A file that remembers which engine a search chose for one key.
class ConvChoiceFile {
 public:
  /// A file of its own for each GPU name, library version and key. Touches no disk.
  ConvChoiceFile(const std::filesystem::path& folder, const std::string& gpu, const std::string& library,
                 const ConvPlanKey& key);
  const std::filesystem::path& path() const { return path_; }
  /// The engine's name; nothing where there is no such file, or it is damaged or another key's.
  std::optional<std::string> read() const;
  /// Writes it whole or not at all; false where the disk refuses.
  bool write(const std::string& engine) const;

 private:
  std::string subject_;  // what the choice is for, in one line
  std::filesystem::path path_;
};

}  // namespace engine::kernels
