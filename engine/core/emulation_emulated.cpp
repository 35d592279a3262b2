#include "engine/core/emulation.h"

#include "engine/core/error.h"
#include "kernels/emulator/checker.h"
#include "kernels/emulator/emulator.h"

namespace engine {
namespace {

// Kernels of sanitizer builds are compiled without the hooks that tell the checker of their accesses.
#ifdef ENGINE_SANITIZED
constexpr bool kWatchable = false;
#else
constexpr bool kWatchable = true;
#endif

}  // namespace

void set_emulated_schedule(uint64_t seed) {
  emulator::Settings settings = emulator::settings();
  settings.schedule_seed = seed;
  emulator::configure(settings);
}

void set_emulated_memory(int64_t bytes) {
  emulator::Settings settings = emulator::settings();
  settings.memory_bytes = static_cast<size_t>(bytes);
  emulator::configure(settings);
}

uint64_t emulated_work() {
  const emulator::Counters counters = emulator::counters();
  return counters.kernels + counters.libraries;
}

void start_kernel_check() {
  if constexpr (kWatchable) emulator::enable_checker();
}

void stop_kernel_check() {
  if constexpr (kWatchable) emulator::disable_checker();
}

void require_sound_kernels() {
  if (!emulator::checker_enabled() || emulator::finding_count() == 0) return;
  throw Error(emulator::findings().front().text(), "docs/kernel_debugging.md tells how to read this");
}

}  // namespace engine
