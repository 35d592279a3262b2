#pragma once
// Stacks on which threads of a block run, and switches between them. One operating system thread at a time uses them.

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

struct Fiber {
  boost::context::fiber context;  // where it stopped; empty while it runs
  const void* stack = nullptr;    // lowest address
  size_t stack_bytes = 0;
  void* sanitizer_stack = nullptr;
};

/// Fibers that all run the same endless function: each is given out, runs until it is idle, and is given back. Stacks
/// stay for the life of the process.
class FiberPool {
 public:
  explicit FiberPool(void (*work)()) : work_(work) {}
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  Fiber& take();
  void give_back(Fiber& fiber) { idle_.push_back(&fiber); }
  /// Stops the running fiber and goes on where `target` stopped.
  void switch_to(Fiber& target);
  /// The fiber that runs, main() outside of all.
  Fiber& running() { return *running_; }
  Fiber& main() { return main_; }
  size_t size() const { return fibers_.size(); }

 private:
  Fiber& create();
  static void leave(Fiber& self, const Fiber& target);
  void arrive(Fiber& self, boost::context::fiber&& from);

  void (*work_)();
  Fiber main_;
  Fiber* running_ = &main_;
  Fiber* previous_ = nullptr;
  std::deque<Fiber> fibers_;
  std::vector<Fiber*> idle_;
};

// Here, so that they become part of whatever waits: after a switch the processor foretells no return right.

inline void FiberPool::leave([[maybe_unused]] Fiber& self, [[maybe_unused]] const Fiber& target) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&self.sanitizer_stack, target.stack, target.stack_bytes);
#endif
}

inline void FiberPool::arrive([[maybe_unused]] Fiber& self, boost::context::fiber&& from) {
#if defined(__SANITIZE_ADDRESS__)
  const void* stack = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.sanitizer_stack, &stack, &bytes);
  if (previous_ == &main_) {
    main_.stack = stack;
    main_.stack_bytes = bytes;
  }
#endif
  previous_->context = std::move(from);
}

inline void FiberPool::switch_to(Fiber& target) {
  Fiber& self = *running_;
  previous_ = &self;
  running_ = &target;
  leave(self, target);
  boost::context::fiber from = std::move(target.context).resume();
  arrive(self, std::move(from));
}

}  // namespace emulator
