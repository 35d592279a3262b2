#include "kernels/emulator/fiber.h"

#include <sys/mman.h>

#include <boost/context/preallocated.hpp>
#include <cstdlib>
#include <memory>
#include <new>

namespace emulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 256 << 10;

struct KeepStack {
  void deallocate(boost::context::stack_context&) {}
};

char* map_stack() {
  void* memory = mmap(nullptr, kPage + kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  char* stack = static_cast<char*>(memory) + kPage;
  if (mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return stack;
}

}  // namespace

Fiber& FiberPool::create() {
  Fiber& fiber = fibers_.emplace_back();
  char* stack = map_stack();
  fiber.stack = stack;
  fiber.stack_bytes = kStackBytes;
  // Frames of neighbouring fibers would otherwise share a few cache sets.
  const size_t shift = fibers_.size() * 448 % kPage / 64 * 64;
  boost::context::stack_context context;
  context.sp = stack + kStackBytes - shift;
  context.size = kStackBytes - shift;
  const boost::context::preallocated where(context.sp, context.size, context);
  fiber.context =
      boost::context::fiber(std::allocator_arg, where, KeepStack(), [this, &fiber](boost::context::fiber&& from) {
        arrive(fiber, std::move(from));
        work_();
        std::abort();
        return std::move(main_.context);
      });
  return fiber;
}

Fiber& FiberPool::take() {
  if (idle_.empty()) return create();
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

}  // namespace emulator
