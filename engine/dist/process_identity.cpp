#include "engine/dist/process_identity.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

namespace engine {
namespace {

struct TableEntry {
  char state = '?';
  uint64_t started = 0;
};

/// proc(5), /proc/PID/stat: the state is the third field, the start time the 22nd; the second may hold spaces.
std::optional<TableEntry> table_entry(int64_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  TableEntry entry;
  fields >> entry.state;
  std::string skipped;
  constexpr int kBetween = 18;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  if (!(fields >> entry.started)) return std::nullopt;
  return entry;
}

template <size_t kSize>
void put(char (&target)[kSize], const std::string& text) {
  text.copy(target, kSize - 1);
}

}  // namespace

ProcessIdentity own_identity() {
  ProcessIdentity own;
  gethostname(own.host, sizeof own.host - 1);
  own.id = getpid();
  std::ifstream boot_file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(boot_file, boot);
  char space[64] = {};
  const ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
  const auto entry = table_entry(own.id);
  if (boot.empty() || length <= 0 || !entry) return own;
  put(own.table, boot + " " + space);
  own.started = entry->started;
  return own;
}

bool is_visible(const ProcessIdentity& process) {
  const ProcessIdentity own = own_identity();
  if (own.table[0] == '\0' || std::strcmp(own.table, process.table) != 0) return false;
  const auto entry = table_entry(process.id);
  return entry && entry->started == process.started;
}

bool has_ended(const ProcessIdentity& process) {
  const auto entry = table_entry(process.id);
  return !entry || entry->started != process.started || entry->state == 'Z' || entry->state == 'X';
}

}  // namespace engine
