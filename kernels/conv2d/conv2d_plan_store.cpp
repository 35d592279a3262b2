#include "kernels/conv2d/conv2d_plan_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace engine::kernels {
namespace {

constexpr const char* kFormat = "convolution-plan 1";

/// 64 bits of Fowler, Noll and Vo's FNV-1a.
uint64_t fnv1a(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

std::string hex(uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

std::string file_name(std::string text) {
  for (char& letter : text) {
    const bool plain = (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
                       (letter >= 'A' && letter <= 'Z') || letter == '.' || letter == '-';
    if (!plain) letter = '_';
  }
  return text;
}

bool write_whole(const std::filesystem::path& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(file) == 0;
  return (close(file) == 0) && written;
}

}  // namespace

size_t ConvPlanStore::Hash::operator()(const Entry& entry) const {
  const Conv2dShape& s = entry.key.shape;
  const int64_t numbers[] = {entry.device,
                             s.n,
                             s.h,
                             s.w,
                             s.c,
                             s.k,
                             s.r,
                             s.s,
                             s.stride_h,
                             s.stride_w,
                             s.pad_h,
                             s.pad_w,
                             s.dilation_h,
                             s.dilation_w,
                             s.groups,
                             static_cast<int64_t>(entry.key.direction),
                             static_cast<int64_t>(entry.key.type),
                             static_cast<int64_t>(entry.key.fusion.prologue),
                             static_cast<int64_t>(entry.key.fusion.epilogue)};
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t number : numbers) hash = (hash ^ static_cast<uint64_t>(number)) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 32);
}

const ConvPlan& ConvPlanStore::get(int device, const ConvPlanKey& key,
                                   const std::function<std::unique_ptr<ConvPlan>()>& make) {
  const std::lock_guard lock(mutex_);
  const Entry entry{device, key};
  const auto found = plans_.find(entry);
  if (found != plans_.end()) return *found->second;
  return *plans_.emplace(entry, make()).first->second;
}

ConvChoiceFile::ConvChoiceFile(const std::filesystem::path& folder, const std::string& gpu, const std::string& library,
                               const ConvPlanKey& key)
    : subject_(gpu + ", " + library + ", " + key.str()),
      path_(folder / file_name(gpu + "-" + library) / (hex(fnv1a(subject_)) + ".plan")) {}

std::optional<std::string> ConvChoiceFile::read() const {
  std::ifstream file(path_);
  std::string format, subject, engine, checksum;
  for (std::string* line : {&format, &subject, &engine, &checksum}) {
    if (!std::getline(file, *line)) return std::nullopt;
  }
  if (format != kFormat || subject != subject_ || checksum != hex(fnv1a(subject + '\n' + engine))) return std::nullopt;
  return engine;
}

bool ConvChoiceFile::write(const std::string& engine) const {
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  std::ostringstream name;
  name << ".engine-tmp-" << getpid() << '-' << path_.filename().string();
  const std::filesystem::path temporary = path_.parent_path() / name.str();
  const std::string text =
      std::string(kFormat) + '\n' + subject_ + '\n' + engine + '\n' + hex(fnv1a(subject_ + '\n' + engine)) + '\n';
  std::filesystem::remove(temporary, error);
  if (write_whole(temporary, text)) {
    std::filesystem::rename(temporary, path_, error);
    if (!error) return true;
  }
  std::filesystem::remove(temporary, error);
  return false;
}

}  // namespace engine::kernels
