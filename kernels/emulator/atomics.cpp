// Threads of a kernel never run at the same time, so a plain read and write is atomic.

#include <algorithm>
#include <utility>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/observer.h"

namespace {

template <typename T, typename Change>
T atomically(T* address, const void* pc, Change change) {
  if (emulator::Observer* watcher = emulator::observer()) watcher->access(address, sizeof(T), true, true, pc);
  return std::exchange(*address, change(*address));
}

}  // namespace

int atomicAdd(int* address, int value) {
  return atomically(address, __builtin_return_address(0), [&](int old) {
    return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
  });
}
unsigned atomicAdd(unsigned* address, unsigned value) {
  return atomically(address, __builtin_return_address(0), [&](unsigned old) { return old + value; });
}
unsigned atomicOr(unsigned* address, unsigned value) {
  return atomically(address, __builtin_return_address(0), [&](unsigned old) { return old | value; });
}
unsigned atomicMax(unsigned* address, unsigned value) {
  return atomically(address, __builtin_return_address(0), [&](unsigned old) { return std::max(old, value); });
}
