#pragma once
// What the emulated device's kernels did to memory in a run, for people who tune them.

#include <string>

namespace engine {

/// {"kernels": [...]} as JSON, as docs/kernel_debugging.md explains it, of all kernels since start_kernel_check()
/// (engine/core/emulation.h). Registers, spills and occupancy come from ptxas.json in `binary_folder` or above it, and
/// are null where there is none. Only in builds with the emulated device.
std::string kernel_report(const std::string& binary_folder);

}  // namespace engine
