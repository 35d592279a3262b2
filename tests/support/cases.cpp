#include "tests/support/cases.h"

#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace engine::testing {
namespace {

/// Runs tar without a shell: the names in the archive are odd on purpose.
void unpack(const std::string& archive, const std::string& folder) {
  const pid_t child = fork();
  if (child == 0) {
    execlp("tar", "tar", "-xzf", archive.c_str(), "-C", folder.c_str(), "--no-same-owner", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
    throw std::runtime_error("tar could not unpack " + archive);
  }
}

struct Unpacked {
  TempDir folder;
  Unpacked() { unpack(source_path("tests/cases/hand.tar.gz"), folder.str()); }
};

}  // namespace

std::string case_path(std::string_view name) {
  static const Unpacked unpacked;
  return unpacked.folder.file("hand/" + std::string(name));
}

std::string source_path(std::string_view name) { return test_data_dir() + "/" + std::string(name); }

}  // namespace engine::testing
