#pragma once
// The functions that the compiler calls before each access to memory where it is told -fsanitize=thread. Here they hand
// the accesses of kernels to the observer; the compiler's own library, which would define them too, is not linked.
//
// The names and what they mean are GCC's (gcc/sanitizer.def): __tsan_readN and __tsan_writeN for accesses of N bytes at
// an address that the type promises to be a multiple of N, __tsan_unaligned_* where it does not, __tsan_*_range for
// aggregates, __tsan_atomicN_* in place of atomic instructions, which these functions have to carry out.
//
// Accesses that a GPU would split are told in pieces: unaligned ones and ranges as 4 bytes each, or as 2 or 1 where the
// address is no multiple of 4. A GPU moves 16 bytes at once only where the type asks for it.

namespace emulator {

/// From now on the calling thread's accesses go to the observer, until unwatch_accesses(). One thread at a time: what
/// others do meanwhile is none of a kernel's business and is not told.
void watch_accesses();
void unwatch_accesses();

}  // namespace emulator
