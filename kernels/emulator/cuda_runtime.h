#pragma once
// The part of the CUDA runtime that this project uses, on the CPU: the same names and meanings as in NVIDIA's "CUDA
// Runtime API" and "CUDA C++ Programming Guide" (13.0). Streams are queues that run as late as the program allows;
// kernels run as loops over blocks and threads, with fibers where threads wait for each other.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/emulator/intrinsics.h"
#include "kernels/emulator/launch.h"
#include "kernels/emulator/runtime_api.h"
