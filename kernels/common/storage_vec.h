#pragma once
// Vectors of floats (vec.h) from and to memory that holds floats or 16-bit floats, converted in registers, rounded as
// half.h says; and loops over elements in such vectors.

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/common/half.h"
#include "kernels/common/vec.h"
#include "kernels/common/wide.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace engine::kernels {

typedef uint16_t ShortVector __attribute__((vector_size(kLanes * sizeof(uint16_t))));
typedef uint32_t WordVector __attribute__((vector_size(kLanes * sizeof(uint32_t))));

#if defined(__AVX512F__)
// The forms of instructions without a mask are declared with an uninitialised operand, which GCC 12 warns about.
inline constexpr __mmask16 kAllLanes = 0xFFFF;
#endif

inline Vector load(const BFloat16* from) {
#if defined(__AVX512F__)
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return reinterpret_cast<Vector>(reinterpret_cast<WordVector>(_mm512_maskz_cvtepu16_epi32(kAllLanes, bits)) << 16);
#else
  ShortVector bits;
  std::memcpy(&bits, from, sizeof(bits));
  return reinterpret_cast<Vector>(__builtin_convertvector(bits, WordVector) << 16);
#endif
}

inline void store(BFloat16* to, Vector value) {
  const auto bits = reinterpret_cast<WordVector>(value);
  const WordVector rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  const WordVector chosen = (bits & 0x7FFFFFFF) > 0x7F800000 ? bits | 0x400000 : rounded;
  const ShortVector shorts = __builtin_convertvector(chosen >> 16, ShortVector);
  std::memcpy(static_cast<void*>(to), &shorts, sizeof(shorts));
}

inline Vector load(const Half* from) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  Vector value;
  for (int i = 0; i < kLanes; ++i) value[i] = static_cast<float>(from[i]);
  return value;
#endif
}

inline void store(Half* to, Vector value) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_maskz_cvtps_ph(kAllLanes, value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#else
  for (int i = 0; i < kLanes; ++i) to[i] = Half(value[i]);
#endif
}

/// One element, or a vector of neighbours: V is Wide<T> or Vector.
template <typename V, typename T>
inline V load_as(const T* from) {
  if constexpr (std::is_same_v<V, Vector>) {
    return load(from);
  } else {
    return static_cast<V>(*from);
  }
}

template <typename T>
inline void store_as(T* to, Vector value) {
  store(to, value);
}
template <typename T>
inline void store_as(T* to, Wide<T> value) {
  *to = T(value);
}

/// Calls f.operator()<Vector>(i) for whole vectors of [0, count), then f.operator()<float>(i) for single elements.
template <typename F>
inline void for_each_vector(int64_t count, F&& f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f.template operator()<Vector>(i);
  for (; i < count; ++i) f.template operator()<float>(i);
}

namespace detail {
// The last vector overlaps the one before it, as single conversions of some types are slow.
template <typename From, typename To>
inline void convert_all(const From* from, To* to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_as(to + i, load(from + i));
  if (i < count && count >= kLanes) return store_as(to + count - kLanes, load(from + count - kLanes));
  for (; i < count; ++i) to[i] = To(static_cast<float>(from[i]));
}
}  // namespace detail

/// Copies count elements into floats; no overlap.
template <typename T>
inline void widen(const T* from, float* to, int64_t count) {
  detail::convert_all(from, to, count);
}

/// Copies count floats, rounded to T; no overlap.
template <typename T>
inline void narrow(const float* from, T* to, int64_t count) {
  detail::convert_all(from, to, count);
}

}  // namespace engine::kernels
