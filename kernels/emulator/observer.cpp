#include "kernels/emulator/observer.h"

namespace emulator {
namespace {

Observer* watching = nullptr;

}  // namespace

void set_observer(Observer* observer) { watching = observer; }
Observer* observer() { return watching; }

}  // namespace emulator
