#include "engine/dist/reduce.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "engine/core/dispatch.h"

namespace engine {
namespace {

constexpr int64_t kBlock = 1024;  // elements: sums of a block stay in the first-level cache

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, int64_t>, T, float>;

/// Keeps a NaN of either side.
template <typename S>
S larger(S a, S b) {
  return b > a || b != b ? b : a;
}

template <typename T>
void reduce_block(ReduceOp op, std::span<const void* const> sources, T* target, int64_t begin, int64_t count) {
  using S = Sum<T>;
  std::array<S, kBlock> sums;
  const T* first = static_cast<const T*>(sources[0]) + begin;
  for (int64_t i = 0; i < count; ++i) sums[static_cast<size_t>(i)] = static_cast<S>(first[i]);
  for (const void* source : sources.subspan(1)) {
    const T* values = static_cast<const T*>(source) + begin;
    if (op == ReduceOp::max) {
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) sums[i] = larger(sums[i], static_cast<S>(values[i]));
    } else {
      for (size_t i = 0; i < static_cast<size_t>(count); ++i) sums[i] += static_cast<S>(values[i]);
    }
  }
  const S divisor = op == ReduceOp::average ? static_cast<S>(sources.size()) : S{1};
  for (int64_t i = 0; i < count; ++i) target[begin + i] = static_cast<T>(sums[static_cast<size_t>(i)] / divisor);
}

template <typename T>
void reduce_typed(ReduceOp op, std::span<const void* const> sources, void* target, int64_t count) {
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    reduce_block(op, sources, static_cast<T*>(target), begin, std::min(kBlock, count - begin));
  }
}

}  // namespace

void reduce_elements(DType dtype, ReduceOp op, std::span<const void* const> sources, void* target, int64_t count) {
  dispatch_all(dtype, "reduce", [&]<typename T>() {
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, uint8_t>) {
      throw Error(fmt::format("[reduce] type: got {}", name_of(dtype)));
    } else {
      reduce_typed<T>(op, sources, target, count);
    }
  });
}

}  // namespace engine
