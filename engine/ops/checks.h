#pragma once
// Checks that every op makes of its arguments before it allocates.

#include "engine/core/error.h"
#include "engine/core/tensor.h"

namespace engine {

/// A contiguous tensor of floats that kernels of its device take: f32 or f64 on the CPU, f32, f16 or bf16 elsewhere;
/// `op` and `argument` are named in the error.
void check_input(const char* op, const char* argument, const Tensor& tensor);
/// The same with a given rank.
void check_rank(const char* op, const char* argument, const Tensor& tensor, int rank);
/// The same with a given shape, and with the type and device of `like`.
void check_shape(const char* op, const char* argument, const Tensor& tensor, const Shape& shape, const Tensor& like);

}  // namespace engine
