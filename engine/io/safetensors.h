#pragma once
// The safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes little-endian length of the
// header, a JSON header {"__metadata__": {text: text}, NAME: {"dtype", "shape", "data_offsets": [begin, end]}}, then
// the tensors' bytes, row-major and little-endian, without holes. Tensors here are as the file has them; state_dict.h
// permutes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/shape.h"

namespace engine {

using Metadata = std::map<std::string, std::string>;

/// A header longer than this is refused unread.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

/// What the header says of one tensor, checked.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0;  ///< first byte, counted from the end of the header
  uint64_t end = 0;    ///< one past the last byte
  uint64_t bytes() const { return end - begin; }
};

/// Where a file's bytes come from; reads may come from several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Fills `out` from byte `offset`; false where the bytes are not (or no longer) there.
  virtual bool read(uint64_t offset, std::span<std::byte> out) const = 0;
};

/// A safetensors file whose header has been read and checked; tensors are read on demand. Whatever does not fit
/// (lengths, offsets, shapes, overlaps, holes, names that come twice, unknown types, nesting, metadata that is no text,
/// more than Shape::kMaxRank axes) is a CheckpointError that names the path and the tensor, raised before anything of
/// the size that the file claims is allocated. Copies share the open file.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  /// Reads from memory that must outlive the object; `name` stands for the path in errors.
  static SafetensorsFile from_memory(std::span<const std::byte> bytes, const std::string& name);

  /// In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// nullptr where there is none of that name.
  const TensorInfo* find(std::string_view name) const;
  const Metadata& metadata() const { return metadata_; }
  /// Escaped for messages.
  const std::string& path() const { return path_; }

  /// Copies the bytes of one of tensors() into `out`, which has info.bytes() bytes. Throws CheckpointError where the
  /// file has been cut since it was opened.
  void read(const TensorInfo& info, std::span<std::byte> out) const;

  /// SHA-256 of all bytes behind the header, in hexadecimal.
  std::string data_sha256() const;
  /// Compares data_sha256() with the metadata's entry of that name. Throws CheckpointError where they differ or the
  /// entry is missing.
  void verify_sha256() const;

 private:
  SafetensorsFile(std::shared_ptr<const ByteSource> source, std::string path);

  std::shared_ptr<const ByteSource> source_;
  std::string path_;
  uint64_t data_begin_ = 0;
  uint64_t data_bytes_ = 0;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  Metadata metadata_;
};

/// One tensor to write: either `bytes` are its bytes, which must live until the file is written, or `fill` is called
/// once, when its turn comes, and writes them into a buffer of just that size.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::span<const std::byte> bytes{};
  std::function<void(std::span<std::byte> out)> fill{};
};

/// Writes a file through AtomicFile and returns its size. Wider element types come first, else the order is that of
/// `entries`, so that every tensor is aligned (PyTorch's reader needs that). With `with_sha256` the metadata gets
/// `data_sha256`. Ill-formed UTF-8 in metadata becomes U+FFFD. Throws OutputError where the file cannot be written and
/// Error for names that come twice or bytes that do not fit the shape.
uint64_t write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
                           const Metadata& metadata = {}, bool with_sha256 = false);

}  // namespace engine
