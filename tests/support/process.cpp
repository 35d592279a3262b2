#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/test_data.h"

namespace engine::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::string_view kErrorPrefix = "engine_train: error: ";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// In the child: never returns.
[[noreturn]] void execute(const std::vector<std::string>& args, const ProcessOptions& options) {
  const std::string program = engine_program();
  std::vector<std::string> words{program};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
  execv(program.c_str(), pointers.data());
  _exit(127);
}

void redirect(const std::string& path, int descriptor, int flags) {
  const int file = open(path.c_str(), flags, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
  close(file);
}

ProcessResult result_of(int status) {
  ProcessResult result;
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

}  // namespace

std::vector<std::string> ProcessResult::errors() const {
  std::vector<std::string> found;
  std::istringstream stream(err);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(kErrorPrefix)) found.push_back(line.substr(kErrorPrefix.size()));
  }
  return found;
}

EngineProcess::EngineProcess(const std::vector<std::string>& args, const ProcessOptions& options)
    : timeout_seconds_(options.timeout_seconds) {
  const std::string out = options.output.empty() ? streams_.file("out") : options.output;
  const std::string err = streams_.file("err");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    redirect("/dev/null", STDIN_FILENO, O_RDONLY);
    redirect(out, STDOUT_FILENO, O_WRONLY | O_CREAT | O_TRUNC);
    redirect(err, STDERR_FILENO, O_WRONLY | O_CREAT | O_TRUNC);
    execute(args, options);
  }
}

EngineProcess::~EngineProcess() {
  if (ended_) return;
  send(SIGKILL);
  waitpid(pid_, &status_, 0);
}

void EngineProcess::send(int signal) const {
  if (!ended_) kill(pid_, signal);
}

std::string EngineProcess::text_of(const char* stream) const { return read_file(streams_.file(stream)); }

bool EngineProcess::poll() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool EngineProcess::wait_for(const std::string& text) {
  const auto end = Clock::now() + std::chrono::seconds(timeout_seconds_);
  while (Clock::now() < end) {
    const bool there = (text_of("out") + text_of("err")).find(text) != std::string::npos;
    if (poll()) return false;
    if (there) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

ProcessResult EngineProcess::wait() {
  const auto end = Clock::now() + std::chrono::seconds(timeout_seconds_);
  while (!poll()) {
    if (Clock::now() > end) send(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ProcessResult result = result_of(status_);
  result.out = text_of("out");
  result.err = text_of("err");
  return result;
}

ProcessResult run_engine(const std::vector<std::string>& args, const ProcessOptions& options) {
  return EngineProcess(args, options).wait();
}

ProcessResult run_engine_on_terminal(const std::vector<std::string>& args, int columns, const ProcessOptions& options) {
  winsize size{};
  size.ws_row = 40;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("forkpty failed");
  if (child == 0) execute(args, options);
  std::string drawn;
  const auto end = Clock::now() + std::chrono::seconds(options.timeout_seconds);
  pollfd readable{terminal, POLLIN, 0};
  while (Clock::now() < end) {
    if (poll(&readable, 1, 100) <= 0) continue;
    char buffer[4096];
    const ssize_t count = read(terminal, buffer, sizeof buffer);
    if (count <= 0) break;  // EIO: the other end is closed
    drawn.append(buffer, static_cast<size_t>(count));
  }
  if (Clock::now() >= end) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  ProcessResult result = result_of(status);
  result.out = drawn;
  return result;
}

std::string source_dir() { return test_data_dir(); }

}  // namespace engine::testing
