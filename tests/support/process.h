#pragma once
// engine_train as a process, seen from outside.

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace engine::testing {

struct ProcessResult {
  int code = -1;   // exit code; -1 where a signal ended it
  int signal = 0;  // that signal
  std::string out, err;

  /// Lines of standard error that begin with "engine_train: error: ", without that prefix.
  std::vector<std::string> errors() const;
};

struct ProcessOptions {
  std::string folder = {};                              // to run in; empty: the test's
  std::map<std::string, std::string> environment = {};  // set on top of the test's
  std::string output = {};                              // file for standard output; empty: it comes back in `out`
  int timeout_seconds = 120;                            // SIGKILL after it
};

/// A running engine_train; killed with the object.
class EngineProcess {
 public:
  explicit EngineProcess(const std::vector<std::string>& args, const ProcessOptions& options = {});
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;
  ~EngineProcess();

  void send(int signal) const;
  /// Waits until standard output or standard error holds a text; false where the process ended or the time was up.
  bool wait_for(const std::string& text);
  /// Whether it has ended by now.
  bool ended() { return poll(); }
  ProcessResult wait();

 private:
  bool poll();
  std::string text_of(const char* stream) const;

  TempDir streams_;
  int timeout_seconds_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

ProcessResult run_engine(const std::vector<std::string>& args, const ProcessOptions& options = {});

/// Runs engine_train on a pseudo-terminal of so many columns; out has all that it drew.
ProcessResult run_engine_on_terminal(const std::vector<std::string>& args, int columns,
                                     const ProcessOptions& options = {});

/// Where the sources lie, for tests that read them.
std::string source_dir();

}  // namespace engine::testing
