#pragma once
// A run of several processes under mpirun, seen from outside.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temp_dir.h"

namespace engine::testing {

/// A word of the program that stands for the job's folder.
inline const std::string kJobFolder = "@folder@";

/// Each rank's standard error and exit code lie in files of the job's folder. mpirun and the ranks end with the object.
class Job {
 public:
  /// `before` stands between mpirun and the program: more of its options.
  Job(int count, const std::vector<std::string>& program, const std::vector<std::string>& before = {}) : count_(count) {
    const std::string script =
        "trap : TERM INT\n\"$@\" 2>\"$0/err.$OMPI_COMM_WORLD_RANK\"\ncode=$?\n"
        "echo $code >\"$0/code.$OMPI_COMM_WORLD_RANK\"\nexit $code\n";
    // Where a container forbids the copy between processes, Open MPI would say so at each start.
    std::vector<std::string> words{
        "mpirun", "--oversubscribe",    "--bind-to", "none", "--mca", "btl_vader_single_copy_mechanism", "none",
        "-np",    std::to_string(count)};
    words.insert(words.begin() + 1, before.begin(), before.end());
    words.insert(words.end(), {"sh", "-c", script, folder()});
    for (const std::string& word : program) words.push_back(word == kJobFolder ? folder() : word);
    start(words);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() {
    for (int rank = 0; rank < count_; ++rank) {
      if (const auto id = number("pid", rank); id && !number("code", rank)) kill(static_cast<pid_t>(*id), SIGKILL);
    }
    if (ended()) return;
    kill(id_, SIGTERM);
    if (!wait_until([&] { return ended(); }, 10)) kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }

  std::string folder() const { return folder_.path(); }
  /// The number in a rank's file, once it is there.
  std::optional<int64_t> number(const std::string& kind, int rank) const {
    std::ifstream file(folder() + "/" + kind + "." + std::to_string(rank));
    int64_t value = 0;
    if (file >> value && file.get() == '\n') return value;
    return std::nullopt;
  }
  bool all_have(const std::string& kind) const {
    for (int rank = 0; rank < count_; ++rank) {
      if (!number(kind, rank)) return false;
    }
    return true;
  }
  std::string error(int rank) const {
    std::ifstream file(folder() + "/err." + std::to_string(rank));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void send(int rank, int signal) const { kill(static_cast<pid_t>(number("pid", rank).value()), signal); }
  bool ended() {
    if (!ended_) ended_ = waitpid(id_, nullptr, WNOHANG) == id_;
    return ended_;
  }

  template <typename Condition>
  static bool wait_until(Condition&& condition, double seconds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

 private:
  void start(const std::vector<std::string>& words) {
    std::vector<char*> pointers;
    for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    id_ = fork();
    if (id_ < 0) throw std::runtime_error("fork failed");
    if (id_ != 0) return;
    const std::string log = folder() + "/mpirun";
    if (freopen(log.c_str(), "w", stdout) == nullptr || dup2(1, 2) < 0) _exit(126);
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1);  // Open MPI does not free all
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }

  TempDir folder_;
  int count_;
  pid_t id_ = -1;
  bool ended_ = false;
};

}  // namespace engine::testing
