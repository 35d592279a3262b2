#pragma once
// Files that appear whole or not at all: written beside their target under a hidden name, flushed to the disk, renamed
// over the target; then the folder is flushed. A reader, also after a kill or a power cut, sees the old file or the new
// one. The temporary names begin with kTemporaryPrefix and no reader of the engine looks at such names.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace engine {

inline constexpr std::string_view kTemporaryPrefix = ".engine-tmp-";

/// One file in the making. All members but the destructor throw OutputError, which names the path, the bytes needed and
/// errno's text; the temporary is then gone and the target is as it was. A replaced link is replaced itself, not what
/// it points to. Not for use from several threads at once.
class AtomicFile {
 public:
  /// Opens the temporary in the folder of `path`. `needed_bytes` is the final size where it is known (0: unknown); it
  /// is reserved on the disk, so that a full one is found before anything is written. A target that exists and is no
  /// regular file (a folder, a device) is refused.
  explicit AtomicFile(std::filesystem::path path, uint64_t needed_bytes = 0);
  /// Removes the temporary unless commit() came through.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends; nothing is buffered in the process.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Overwrites bytes written before, from byte `offset` of the file.
  void patch(uint64_t offset, std::span<const std::byte> bytes);
  /// Flushes, renames, flushes the folder. Nothing may be written afterwards.
  void commit();

  uint64_t bytes_written() const { return written_; }

 private:
  void put(std::span<const std::byte> bytes, uint64_t offset);
  [[noreturn]] void fail(const char* what, int error);
  void discard() noexcept;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  uint64_t needed_;
  uint64_t written_ = 0;
  int descriptor_ = -1;
};

/// Writes a small file whole. Throws OutputError.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Makes `name` another name of the complete file `existing`, in one step for a reader: a hard link; where the file
/// system has none, a relative symbolic link in the same folder; else a copy. Replaces what stood under `name`. Throws
/// OutputError.
void link_file(const std::filesystem::path& existing, const std::filesystem::path& name);

/// Removes the temporaries that killed processes left in a folder; those that a live process is writing stay. Returns
/// how many were removed. A folder that cannot be read counts as empty.
int remove_stale_temporaries(const std::filesystem::path& folder);

/// Makes a folder and its parents. Throws OutputError.
void make_folder(const std::filesystem::path& folder);

/// "[what]: PATH: got TEXT OF ERRNO, expected EXPECTED" as OutputError, with a hint that fits the errno (full disk,
/// quota, size limit, permission).
[[noreturn]] void throw_output_error(const char* what, const std::filesystem::path& path, int error,
                                     const std::string& expected);

}  // namespace engine
