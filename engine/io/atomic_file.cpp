#include "engine/io/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <vector>

#include "engine/core/error.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

/// A name in the folder of `path` that no other live object of this process has; processes may collide, so callers
/// create it exclusively and ask again.
fs::path temporary_beside(const fs::path& path) {
  static std::atomic<uint64_t> counter{0};
  return path.parent_path() / fmt::format("{}{}-{}", kTemporaryPrefix, getpid(), counter++);
}

/// Calls `create(name)` with fresh temporary names until one is not taken. Returns its result, and the name.
template <typename Create>
auto create_temporary(const fs::path& path, fs::path& name, Create create) {
  decltype(create(name)) result;
  do {
    name = temporary_beside(path);
    result = create(name);
  } while (result < 0 && errno == EEXIST);
  return result;
}

/// Makes a rename in the folder last. Some file systems cannot flush a folder, and say so with EINVAL.
int flush_folder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error = ::fsync(descriptor) < 0 && errno != EINVAL && errno != ENOTSUP ? errno : 0;
  ::close(descriptor);
  return error;
}

const char* hint_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free space there, or write to another disk";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "write to a folder that you may write to";
    default:
      return "";
  }
}

void refuse_special_target(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) < 0 || S_ISREG(status.st_mode)) return;
  throw_output_error("cannot write", path, S_ISDIR(status.st_mode) ? EISDIR : EINVAL, "a regular file or a new name");
}

void copy_whole(const fs::path& existing, const fs::path& name) {
  const int source = ::open(existing.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) throw_output_error("cannot copy", existing, errno, "a readable file");
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{source};
  struct stat status {};
  ::fstat(source, &status);
  AtomicFile copy(name, static_cast<uint64_t>(status.st_size));
  std::vector<std::byte> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t got = ::read(source, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_output_error("cannot copy", existing, errno, "a readable file");
    if (got == 0) break;
    copy.write(std::span<const std::byte>(buffer.data(), static_cast<size_t>(got)));
  }
  copy.commit();
}

}  // namespace

void throw_output_error(const char* what, const fs::path& path, int error, const std::string& expected) {
  throw OutputError(
      fmt::format("{}: {}: got {}, expected {}", what, escaped(path.native()), system_message(error), expected),
      hint_for(error));
}

AtomicFile::AtomicFile(fs::path path, uint64_t needed_bytes) : path_(std::move(path)), needed_(needed_bytes) {
  refuse_special_target(path_);
  descriptor_ = create_temporary(path_, temporary_, [](const fs::path& name) {
    return ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  });
  if (descriptor_ < 0) throw_output_error("cannot write", path_, errno, "a folder that takes new files");
  // Tells remove_stale_temporaries() that a live process writes this one; the kernel drops the lock with the process.
  ::flock(descriptor_, LOCK_EX | LOCK_NB);
  if (needed_ > 0 && ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(needed_)) < 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    fail("cannot write", errno);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());
  ::close(descriptor_);
  descriptor_ = -1;
}

void AtomicFile::fail(const char* what, int error) {
  const uint64_t got = written_;
  discard();
  const std::string needed = needed_ > 0 ? fmt::format("room for {} bytes", needed_) : "room for more";
  throw_output_error(what, path_, error, fmt::format("{} ({} were written)", needed, got));
}

void AtomicFile::put(std::span<const std::byte> bytes, uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t done = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("cannot write", done < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
    written_ = std::max(written_, offset);
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  ENGINE_CHECK(descriptor_ >= 0, "[atomic_file] write to {}: got a closed file", escaped(path_.native()));
  put(bytes, written_);
}

void AtomicFile::patch(uint64_t offset, std::span<const std::byte> bytes) {
  ENGINE_CHECK(descriptor_ >= 0 && offset <= written_ && bytes.size() <= written_ - offset,
               "[atomic_file] patch: got {} bytes at {}, expected a place in the {} written", bytes.size(), offset,
               written_);
  put(bytes, offset);
}

void AtomicFile::commit() {
  ENGINE_CHECK(descriptor_ >= 0, "[atomic_file] commit of {}: got a closed file", escaped(path_.native()));
  if (::fsync(descriptor_) < 0) fail("cannot flush", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) < 0) fail("cannot rename", errno);
  const int closed = ::close(descriptor_) < 0 ? errno : 0;
  descriptor_ = -1;
  const int flushed = flush_folder(path_);
  if (closed != 0 || flushed != 0) {
    throw_output_error("cannot flush", path_, closed != 0 ? closed : flushed, "a folder that can be flushed");
  }
}

void write_file(const fs::path& path, std::string_view text) {
  AtomicFile file(path, text.size());
  file.write(text);
  file.commit();
}

void link_file(const fs::path& existing, const fs::path& name) {
  refuse_special_target(name);
  fs::path temporary;
  int made =
      create_temporary(name, temporary, [&](const fs::path& fresh) { return ::link(existing.c_str(), fresh.c_str()); });
  if (made < 0 && errno != ENOENT && errno != ENOSPC && existing.parent_path() == name.parent_path()) {
    made = create_temporary(
        name, temporary, [&](const fs::path& fresh) { return ::symlink(existing.filename().c_str(), fresh.c_str()); });
  }
  if (made < 0) {
    copy_whole(existing, name);
    return;
  }
  const int renamed = ::rename(temporary.c_str(), name.c_str()) < 0 ? errno : 0;
  // rename() leaves both names where they already were links to one file.
  ::unlink(temporary.c_str());
  if (renamed != 0) throw_output_error("cannot rename", name, renamed, "a folder that takes new files");
  const int flushed = flush_folder(name);
  if (flushed != 0) throw_output_error("cannot flush", name, flushed, "a folder that can be flushed");
}

int remove_stale_temporaries(const fs::path& folder) {
  int removed = 0;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (!entry->path().filename().native().starts_with(kTemporaryPrefix)) continue;
    // O_NOFOLLOW: a symbolic link is never being written, and what it points to is not ours.
    const int descriptor = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool live = descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    if (!live && ::unlink(entry->path().c_str()) == 0) ++removed;
    if (descriptor >= 0) ::close(descriptor);
  }
  return removed;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (error) throw_output_error("cannot make folder", folder, error.value(), "a place that takes new folders");
}

}  // namespace engine
