#pragma once

#include <type_traits>

namespace engine::kernels {

/// What values stored as T are computed in, and what statistics, parameters of batch norm and sums beside them are:
/// float for the 16-bit types, else T.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 2, float, T>;

/// Whether T is a 16-bit storage type.
template <typename T>
inline constexpr bool kNarrow = sizeof(T) == 2;

}  // namespace engine::kernels
