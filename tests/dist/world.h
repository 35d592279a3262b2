#pragma once
// Tests that run in every process of a run under mpirun, or in one alone.

#include "engine/dist/communicator.h"

namespace engine::testing {

/// The communicator of the test program, connected at first use; all processes run the same tests in the same order.
Communicator& world();

/// What one rank gives of a series: small whole numbers, exact in every type, and different by rank and element.
inline int value_of(int rank, int64_t element) { return static_cast<int>((element * 7 + rank * 5) % 16) - 6 + rank; }

}  // namespace engine::testing
