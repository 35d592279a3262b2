#include "engine/app/standard_output.h"

#include <cerrno>
#include <cstdio>

#include "engine/core/error.h"

namespace engine {

void print(std::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw OutputError(
        fmt::format("output: standard output: got {}, expected to write {} bytes", system_message(errno), text.size()));
  }
}

}  // namespace engine
