#include "data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/error.h"

namespace engine::data {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw DataError(fmt::format("[file] cannot read: {}: got {}, expected a readable file", escaped(path), reason));
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (fd_ >= 0) return;
    if (errno == EMFILE || errno == ENFILE) {
      throw Error(fmt::format("[file] cannot open: {}: got {}", escaped(path), system_message(errno)),
                  "ulimit -n sets the limit of open files", ExitCode::data);
    }
    fail(path, system_message(errno));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Bytes read_file(const std::string& path) {
  const Descriptor file(path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) fail(path, system_message(errno));
  if (!S_ISREG(status.st_mode)) fail(path, S_ISDIR(status.st_mode) ? "a folder" : "something that is not a file");
  Bytes bytes(static_cast<size_t>(status.st_size));
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = read(file.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, system_message(errno));
    if (got == 0) fail(path, fmt::format("{} bytes of the {} that it had when it was opened", filled, bytes.size()));
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace engine::data
