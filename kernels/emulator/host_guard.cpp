#include "kernels/emulator/host_guard.h"

#include <execinfo.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "kernels/emulator/runtime.h"

namespace emulator {
namespace {

constexpr size_t kMostTouches = 64;

#ifdef ENGINE_SANITIZED
constexpr bool kAvailable = false;
#else
constexpr bool kAvailable = true;
#endif

/// Filled by a signal handler, which must not allocate.
struct Notes {
  std::array<HostTouch, kMostTouches> touches;
  std::array<std::atomic<bool>, kMostTouches> filled{};
  std::atomic<size_t> next = 0;
};

Notes& notes() {
  static Notes& all = *new Notes;
  return all;
}

struct sigaction before {};

struct Fault {
  const void* instruction = nullptr;
  bool write = false;
};

Fault fault_of(const void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;  // of the page fault's error code
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  return {reinterpret_cast<const void*>(registers[REG_RIP]), (registers[REG_ERR] & kWriteBit) != 0};
#elif defined(__aarch64__)
  return {reinterpret_cast<const void*>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc), false};
#else
  (void)context;
  return {};
#endif
}

void note(const void* address, const void* context) {
  const size_t slot = notes().next.fetch_add(1);
  if (slot >= kMostTouches) return;
  const Fault fault = fault_of(context);
  HostTouch& touch = notes().touches[slot];
  touch = {address, fault.write, {}};
  void* stack[kHostFrames + 8];
  const int depth = backtrace(stack, static_cast<int>(std::size(stack)));
  // The handler's own frames lie before the instruction that was stopped.
  void* const* const end = stack + depth;
  void* const* from =
      std::find_if(static_cast<void* const*>(stack), end, [&](const void* at) { return at == fault.instruction; });
  if (from == end) from = stack + std::min(depth, 2);
  std::copy_n(from, std::min<size_t>(static_cast<size_t>(end - from), kHostFrames), touch.frames.begin());
  // Places are asked for by return address, which is behind the instruction.
  if (touch.frames[0] == fault.instruction) touch.frames[0] = static_cast<const char*>(fault.instruction) + 1;
  notes().filled[slot] = true;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  for (auto& device : Runtime::get().devices) {
    if (!device->arena->closed_at(info->si_addr)) continue;
    note(info->si_addr, context);
    device->arena->reopen();
    errno = saved;
    return;
  }
  // Somebody else's: the instruction runs again, with whoever handled faults before.
  sigaction(signal, &before, nullptr);
  errno = saved;
}

void install() {
  void* frame = nullptr;
  backtrace(&frame, 1);  // loads what it needs now, not in the handler
  notes();
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_sigaction == on_fault) return;
  sigaction(SIGSEGV, &action, &before);
}

}  // namespace

void start_host_guard() {
  if (!kAvailable) return;
  install();
  take_host_touches();
  Entry entry;
  entry.runtime().guard_devices(true);
}

void stop_host_guard() {
  if (!kAvailable) return;
  Entry entry;
  entry.runtime().guard_devices(false);
}

std::vector<HostTouch> take_host_touches() {
  std::vector<HostTouch> taken;
  for (size_t i = 0; i < kMostTouches; ++i) {
    if (!notes().filled[i].exchange(false)) continue;
    const HostTouch& touch = notes().touches[i];
    const bool known =
        std::any_of(taken.begin(), taken.end(), [&](const HostTouch& other) { return other.frames == touch.frames; });
    if (!known) taken.push_back(touch);
  }
  notes().next = 0;
  return taken;
}

}  // namespace emulator
