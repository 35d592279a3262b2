#include "kernels/emulator/checker_places.h"

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace emulator {
namespace {

struct Module {
  std::string file;
  uintptr_t address;   // asked for in ...
  uintptr_t bias = 0;  // ... a file whose addresses are that much lower
};

int find_module(dl_phdr_info* info, size_t, void* data) {
  auto& module = *static_cast<Module*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || module.address - info->dlpi_addr - part.p_vaddr >= part.p_memsz) continue;
    module.bias = info->dlpi_addr;
    module.file = info->dlpi_name;
    if (!module.file.empty()) return 1;
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length > 0) module.file.assign(path, static_cast<size_t>(length));
    return 1;
  }
  return 0;
}

/// Folder of the sources, as the compiler wrote it into the debug information; with a slash at the end, or empty.
std::string_view source_root() {
  constexpr std::string_view here = __FILE__, inside = "kernels/emulator/checker_places.cpp";
  return here.ends_with(inside) ? here.substr(0, here.size() - inside.size()) : std::string_view();
}

std::string from_root(std::string_view path) {
  const std::string_view root = source_root();
  if (!root.empty() && path.starts_with(root)) return std::string(path.substr(root.size()));
  for (const std::string_view top : {"/tests/", "/kernels/"}) {
    const size_t at = path.rfind(top);
    if (at != std::string_view::npos) return std::string(path.substr(at + 1));
  }
  return std::string(path);
}

/// Not "?", nor a system's header, nor what distributions' debug information says of their libraries
/// ("../sysdeps/...").
bool ours(std::string_view place) {
  return !place.empty() && std::string_view("/?.").find(place[0]) == std::string_view::npos;
}

}  // namespace

/// An addr2line that waits for addresses of one file.
class Addr2line {
 public:
  explicit Addr2line(const std::string& file);
  ~Addr2line() {
    if (socket_ >= 0) close(socket_);
  }
  Addr2line(const Addr2line&) = delete;
  Addr2line& operator=(const Addr2line&) = delete;

  /// "FILE:LINE" of the functions inlined there, the innermost first; empty where there is no tool.
  std::vector<std::string> ask(uintptr_t address);

 private:
  bool read_line(std::string& line);

  int socket_ = -1;
  std::string unread_;
};

Addr2line::Addr2line(const std::string& file) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string arguments[] = {"addr2line", "-a", "-i", "-e", file};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  arguments[3].data(), arguments[4].data(), nullptr};
  pid_t process = 0;
  const int failed = posix_spawnp(&process, "addr2line", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failed == 0) {
    socket_ = ends[0];
  } else {
    close(ends[0]);
  }
}

bool Addr2line::read_line(std::string& line) {
  size_t end = unread_.find('\n');
  while (end == std::string::npos) {
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    unread_.append(buffer, static_cast<size_t>(got));
    end = unread_.find('\n');
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return true;
}

std::vector<std::string> Addr2line::ask(uintptr_t address) {
  std::vector<std::string> frames;
  if (socket_ < 0) return frames;
  // Nothing says where an answer ends, so the null address, which has one line, is asked for, too.
  char question[32];
  const int length = std::snprintf(question, sizeof question, "%zx\n0\n", static_cast<size_t>(address));
  if (send(socket_, question, static_cast<size_t>(length), MSG_NOSIGNAL) != length) return frames;
  std::string line;
  while (read_line(line)) {
    const bool is_address = line.starts_with("0x");
    if (is_address && line.find_first_not_of("0x") == std::string::npos) {
      read_line(line);
      return frames;
    }
    if (!is_address) frames.push_back(line.substr(0, line.find(" (discriminator")));
  }
  close(std::exchange(socket_, -1));
  return frames;
}

Places& Places::get() {
  static Places places;
  return places;
}

Places::Places() = default;
Places::~Places() = default;

Places::Place Places::look_up(const void* return_address) {
  Place place{"?", "?"};
  Module module{"", reinterpret_cast<uintptr_t>(return_address) - 1};
  if (dl_iterate_phdr(find_module, &module) == 0) return place;
  auto& tool = tools_[module.file];
  if (tool == nullptr) tool = std::make_unique<Addr2line>(module.file);
  for (const std::string& line : tool->ask(module.address - module.bias)) {
    const std::string frame = from_root(line);
    if (place.innermost == "?") place.innermost = frame;
    const bool common = place.shown.starts_with("kernels/common/") || !ours(place.shown);
    if (common && (ours(frame) || place.shown == "?")) place.shown = frame;
  }
  return place;
}

const Places::Place& Places::find(const void* return_address) {
  const std::lock_guard lock(mutex_);
  const auto [known, fresh] = known_.try_emplace(return_address);
  if (fresh && return_address != nullptr) known->second = look_up(return_address);
  return known->second;
}

std::string Places::of_stack(std::span<const void* const> frames) {
  std::string program;
  for (const void* frame : frames) {
    if (frame == nullptr) break;
    const std::string& line = of(frame);
    if (ours(line)) return line;
    Module module{"", reinterpret_cast<uintptr_t>(frame) - 1};
    if (!program.empty() || dl_iterate_phdr(find_module, &module) == 0 || module.file.ends_with(".so") ||
        module.file.find(".so.") != std::string::npos) {
      continue;
    }
    char offset[32];
    std::snprintf(offset, sizeof offset, "+0x%zx", static_cast<size_t>(module.address - module.bias));
    program = module.file.substr(module.file.rfind('/') + 1) + offset;
  }
  return program;
}

bool Places::in_kernel_source(const void* return_address) {
  const std::string& innermost = find(return_address).innermost;
  return ours(innermost) && !innermost.starts_with("kernels/common/launch.h");
}

}  // namespace emulator
