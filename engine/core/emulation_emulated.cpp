#include "engine/core/emulation.h"
#include "kernels/emulator/emulator.h"

namespace engine {

void set_emulated_schedule(uint64_t seed) {
  emulator::Settings settings = emulator::settings();
  settings.schedule_seed = seed;
  emulator::configure(settings);
}

}  // namespace engine
