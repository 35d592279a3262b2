#pragma once
// Processes of one host, told from each other for as long as they live.

#include <cstdint>

namespace engine {

/// Of fixed size, to be sent.
struct ProcessIdentity {
  char host[64] = {};
  char table[128] = {};  // which process table it stands in: the kernel's run and the name space; empty: unknown
  int64_t id = 0;
  uint64_t started = 0;  // in the kernel's ticks, as ids are used again
};

ProcessIdentity own_identity();

/// Whether the calling process can see it in its own process table.
bool is_visible(const ProcessIdentity& process);
/// For one that was visible: whether it has ended, also where its parent has not noticed yet.
bool has_ended(const ProcessIdentity& process);

}  // namespace engine
