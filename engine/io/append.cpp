#include "engine/io/append.h"

#include <unistd.h>

#include <cerrno>
#include <string>

#include "engine/core/error.h"
#include "engine/io/atomic_file.h"

namespace engine::detail {

void append_whole(int descriptor, const std::filesystem::path& path, std::string_view text) {
  const off_t begin = ::lseek(descriptor, 0, SEEK_END);
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t done = ::write(descriptor, rest.data(), rest.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      const int error = errno;
      // Half a piece would spoil what is appended once there is room again.
      if (rest.size() < text.size() && begin >= 0 && ::ftruncate(descriptor, begin) < 0) {
        throw_output_error("cannot repair", path, errno, "a file of whole pieces");
      }
      throw_output_error("cannot write", path, error, fmt::format("room for {} bytes", text.size()));
    }
    // A short write is taken up again only to learn why it was short.
    rest.remove_prefix(static_cast<size_t>(done));
  }
}

}  // namespace engine::detail
