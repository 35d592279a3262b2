#include "kernels/emulator/access_hooks.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/emulator/observer.h"

namespace emulator {
namespace {

// Read before each access of every kernel, watched or not: everything else comes after it.
std::atomic<bool> watched{false};
// Also off while the observer works, whose own containers may have been compiled with hooks.
thread_local bool watched_here = false;

struct Access {
  size_t bytes;
  bool write;
  bool atomic = false;
};

[[gnu::noinline]] void tell(const void* address, Access access, const void* pc) {
  Observer* const watcher = observer();
  if (!watched_here || watcher == nullptr) return;
  watched_here = false;
  watcher->access(address, access.bytes, access.write, access.atomic, pc);
  watched_here = true;
}

[[gnu::noinline]] void tell_pieces(const void* address, Access access, const void* pc) {
  const auto at = reinterpret_cast<uintptr_t>(address) | access.bytes;
  const size_t piece = at % 4 == 0 ? 4 : at % 2 == 0 ? 2 : 1;
  for (size_t i = 0; i < access.bytes; i += piece) {
    tell(static_cast<const char*>(address) + i, {piece, access.write, access.atomic}, pc);
  }
}

inline bool listening() { return __builtin_expect(watched.load(std::memory_order_relaxed), 0); }

inline void seen(const void* address, Access access, const void* pc) {
  if (listening()) tell(address, access, pc);
}

inline void seen_pieces(const void* address, Access access, const void* pc) {
  if (listening()) tell_pieces(address, access, pc);
}

}  // namespace

void watch_accesses() {
  watched_here = true;
  watched.store(true, std::memory_order_relaxed);
}

void unwatch_accesses() {
  watched.store(false, std::memory_order_relaxed);
  watched_here = false;
}

namespace {

template <typename T>
T atomic_load(const volatile T* p, const void* pc) {
  seen(const_cast<const T*>(p), {sizeof(T), false, true}, pc);
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

template <typename T>
void atomic_store(volatile T* p, T value, const void* pc) {
  seen(const_cast<const T*>(p), {sizeof(T), true, true}, pc);
  __atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}

template <typename T, typename Change>
T atomic_change(volatile T* p, const void* pc, Change change) {
  seen(const_cast<const T*>(p), {sizeof(T), true, true}, pc);
  return change(p);
}

template <typename T>
bool atomic_compare_exchange(volatile T* p, T* expected, T wanted, const void* pc) {
  seen(const_cast<const T*>(p), {sizeof(T), true, true}, pc);
  return __atomic_compare_exchange_n(p, expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

}  // namespace
}  // namespace emulator

using emulator::seen;
using emulator::seen_pieces;

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}

#define __pc __builtin_return_address(0)

#define __plain_hooks(n)                                                                      \
  void __tsan_read##n(void* p) { seen(p, {n, false}, __pc); }                                 \
  void __tsan_write##n(void* p) { seen(p, {n, true}, __pc); }                                 \
  void __tsan_read##n##_pc(void* p, void* pc) { seen(p, {n, false}, pc); }                    \
  void __tsan_write##n##_pc(void* p, void* pc) { seen(p, {n, true}, pc); }                    \
  void __tsan_volatile_read##n(void* p) { seen(p, {n, false}, __pc); }                        \
  void __tsan_volatile_write##n(void* p) { seen(p, {n, true}, __pc); }                        \
  void __tsan_unaligned_read##n(const void* p) { seen_pieces(p, {n, false}, __pc); }          \
  void __tsan_unaligned_write##n(void* p) { seen_pieces(p, {n, true}, __pc); }                \
  void __tsan_unaligned_volatile_read##n(const void* p) { seen_pieces(p, {n, false}, __pc); } \
  void __tsan_unaligned_volatile_write##n(void* p) { seen_pieces(p, {n, true}, __pc); }

__plain_hooks(1);
__plain_hooks(2);
__plain_hooks(4);
__plain_hooks(8);
__plain_hooks(16);

void __tsan_read_range(void* p, size_t n) { seen_pieces(p, {n, false}, __pc); }
void __tsan_write_range(void* p, size_t n) { seen_pieces(p, {n, true}, __pc); }
void __tsan_read_range_pc(void* p, size_t n, void* pc) { seen_pieces(p, {n, false}, pc); }
void __tsan_write_range_pc(void* p, size_t n, void* pc) { seen_pieces(p, {n, true}, pc); }
void __tsan_vptr_read(void** p) { seen(p, {sizeof(void*), false}, __pc); }
void __tsan_vptr_update(void** p, void*) { seen(p, {sizeof(void*), true}, __pc); }

#define __fetch_hook(bits, name)                                                                                  \
  uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t* p, uint##bits##_t value, int) {      \
    return emulator::atomic_change(p, __pc,                                                                       \
                                   [=](auto* at) { return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST); }); \
  }

#define __atomic_hooks(bits)                                                                                     \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                             \
    return emulator::atomic_load(p, __pc);                                                                       \
  }                                                                                                              \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t value, int) {                      \
    emulator::atomic_store(p, value, __pc);                                                                      \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t value, int) {         \
    return emulator::atomic_change(p, __pc,                                                                      \
                                   [=](auto* at) { return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); });  \
  }                                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* p, uint##bits##_t* expected,        \
                                                    uint##bits##_t wanted, int, int) {                           \
    return emulator::atomic_compare_exchange(p, expected, wanted, __pc);                                         \
  }                                                                                                              \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t* p, uint##bits##_t* expected,          \
                                                  uint##bits##_t wanted, int, int) {                             \
    return emulator::atomic_compare_exchange(p, expected, wanted, __pc);                                         \
  }                                                                                                              \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t* p, uint##bits##_t expected, \
                                                            uint##bits##_t wanted, int, int) {                   \
    emulator::atomic_compare_exchange(p, &expected, wanted, __pc);                                               \
    return expected;                                                                                             \
  }                                                                                                              \
  __fetch_hook(bits, add);                                                                                       \
  __fetch_hook(bits, sub);                                                                                       \
  __fetch_hook(bits, and);                                                                                       \
  __fetch_hook(bits, or);                                                                                        \
  __fetch_hook(bits, xor);                                                                                       \
  __fetch_hook(bits, nand)

__atomic_hooks(8);
__atomic_hooks(16);
__atomic_hooks(32);
__atomic_hooks(64);

}  // extern "C"
