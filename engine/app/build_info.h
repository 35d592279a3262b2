#pragma once
// What this binary was built from; CMake fills in build_info.cpp.in.

namespace engine::build {

extern const char* const kVersion;   // "0.1.0"
extern const char* const kType;      // "Release"
extern const char* const kCompiler;  // "GNU 12.2.0"
// Versions of what is built in, "13.0.48"; "" for what is not.
extern const char* const kCuda;
extern const char* const kCudnn;
extern const char* const kNccl;
extern const char* const kCudaArchitectures;  // "80, 90, 100"

}  // namespace engine::build
