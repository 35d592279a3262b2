#include "engine/io/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "engine/core/error.h"
#include "engine/io/safetensors_header.h"
#include "engine/io/sha256.h"

namespace engine {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and are copied as they are");

constexpr uint64_t kLengthBytes = 8;

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  bool read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Reads with pread(): a file that somebody cuts gives a short read, where a mapping would end the process (SIGBUS).
class DiskSource final : public ByteSource {
 public:
  DiskSource(int descriptor, uint64_t size) : descriptor_(descriptor), size_(size) {}
  ~DiskSource() override { ::close(descriptor_); }
  DiskSource(const DiskSource&) = delete;
  DiskSource& operator=(const DiskSource&) = delete;
  uint64_t size() const override { return size_; }
  bool read(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const ssize_t got = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return true;
  }

 private:
  int descriptor_;
  uint64_t size_;
};

[[noreturn]] void refuse_cut(const std::string& path, const std::string& tensor) {
  detail::refuse_safetensors(path, tensor, "the end of the file or a failed read",
                             "all bytes that were there when it was opened");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::shared_ptr<const ByteSource> source, std::string path)
    : source_(std::move(source)), path_(std::move(path)) {
  const uint64_t size = source_->size();
  if (size < kLengthBytes) {
    detail::refuse_safetensors(path_, "", fmt::format("a file of {} bytes", size),
                               "at least 8, the length of the header");
  }
  uint64_t length = 0;
  if (!source_->read(0, std::as_writable_bytes(std::span(&length, 1)))) refuse_cut(path_, "");
  const uint64_t most = std::min(size - kLengthBytes, kMaxHeaderBytes);
  if (length > most) {
    detail::refuse_safetensors(path_, "", fmt::format("a header length of {} bytes", length),
                               fmt::format("at most {} (the file has {} bytes)", most, size));
  }
  std::string header(length, '\0');
  if (!source_->read(kLengthBytes, std::as_writable_bytes(std::span(header)))) refuse_cut(path_, "");
  data_begin_ = kLengthBytes + length;
  data_bytes_ = size - data_begin_;
  detail::SafetensorsHeader parsed = detail::parse_safetensors_header(header, data_bytes_, path_);
  tensors_ = std::move(parsed.tensors);
  metadata_ = std::move(parsed.metadata);
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  const std::string name = escaped(path.native());
  // O_NONBLOCK: a pipe would make open() wait for a writer. It means nothing for regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    throw CheckpointError(
        fmt::format("cannot read safetensors: {}: got {}, expected a readable file", name, system_message(errno)));
  }
  struct stat status {};
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  const auto source = std::make_shared<DiskSource>(descriptor, regular ? static_cast<uint64_t>(status.st_size) : 0);
  if (!regular) {
    throw CheckpointError(
        fmt::format("cannot read safetensors: {}: got a folder or device, expected a regular file", name));
  }
  return SafetensorsFile(source, name);
}

SafetensorsFile SafetensorsFile::from_memory(std::span<const std::byte> bytes, const std::string& name) {
  return SafetensorsFile(std::make_shared<MemorySource>(bytes), escaped(name));
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto at = index_.find(name);
  return at == index_.end() ? nullptr : &tensors_[at->second];
}

void SafetensorsFile::read(const TensorInfo& info, std::span<std::byte> out) const {
  ENGINE_CHECK(out.size() == info.bytes() && info.end <= data_bytes_,
               "[safetensors] read of {}: got {} bytes, expected {}", detail::shown(info.name), out.size(),
               info.bytes());
  if (!source_->read(data_begin_ + info.begin, out)) refuse_cut(path_, detail::shown(info.name));
}

std::string SafetensorsFile::data_sha256() const {
  Sha256 digest;
  std::vector<std::byte> block(std::min<uint64_t>(data_bytes_, uint64_t{1} << 20));
  for (uint64_t at = 0; at < data_bytes_; at += block.size()) {
    const auto part = std::span(block).first(std::min<uint64_t>(block.size(), data_bytes_ - at));
    if (!source_->read(data_begin_ + at, part)) refuse_cut(path_, "");
    digest.update(part);
  }
  return digest.finish();
}

void SafetensorsFile::verify_sha256() const {
  const auto wanted = metadata_.find("data_sha256");
  if (wanted == metadata_.end()) {
    detail::refuse_safetensors(path_, "", "metadata without data_sha256", "the digest of the data");
  }
  const std::string digest = data_sha256();
  if (digest != wanted->second) {
    detail::refuse_safetensors(path_, "", "data with SHA-256 " + digest, detail::shown(wanted->second));
  }
}

}  // namespace engine
