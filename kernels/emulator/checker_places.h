#pragma once
// Source lines of instructions, read from the debug information by addr2line (binutils).

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

namespace emulator {

class Addr2line;

/// For several threads at once.
class Places {
 public:
  /// The process's own. Its addr2line, one per binary, ends with the process.
  static Places& get();
  Places();
  ~Places();

  /// "kernels/relu/relu_cuda.cu:31" of the call that returns there: the innermost inlined function outside of
  /// kernels/common and of the system's headers. "?" without debug information or addr2line; empty for null.
  const std::string& of(const void* return_address) { return find(return_address).shown; }
  /// The first line of the project's own in a stack of return addresses, the innermost first; "PROGRAM+0x1234" of the
  /// program's innermost function where lines are not known.
  std::string of_stack(std::span<const void* const> frames);
  /// Whether the line was written by this project, and in a kernel (launch.h is not).
  bool in_kernel_source(const void* return_address);

 private:
  struct Place {
    std::string shown, innermost;
  };
  const Place& find(const void* return_address);
  Place look_up(const void* return_address);

  std::mutex mutex_;
  std::unordered_map<const void*, Place> known_;
  std::unordered_map<std::string, std::unique_ptr<Addr2line>> tools_;
};

}  // namespace emulator
