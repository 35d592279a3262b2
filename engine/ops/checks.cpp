#include "engine/ops/checks.h"

namespace engine {

void check_input(const char* op, const char* argument, const Tensor& tensor) {
  ENGINE_CHECK(tensor.defined(), "[{}] {}: got an undefined tensor, expected values", op, argument);
  if (tensor.device().is_cpu()) {
    ENGINE_CHECK(is_floating(tensor.dtype()), "[{}] {}: got {}, expected f32, f64, f16 or bf16", op, argument,
                 name_of(tensor.dtype()));
  } else {
    ENGINE_CHECK(is_floating(tensor.dtype()) && tensor.dtype() != DType::f64,
                 "[{}] {}: got {} on {}, expected f32, f16 or bf16", op, argument, name_of(tensor.dtype()),
                 name_of(tensor.device()));
  }
  ENGINE_CHECK(tensor.is_contiguous(), "[{}] {}: got strides with gaps, expected a contiguous tensor", op, argument);
}

void check_rank(const char* op, const char* argument, const Tensor& tensor, int rank) {
  check_input(op, argument, tensor);
  ENGINE_CHECK(tensor.rank() == rank, "[{}] {}: got shape {}, expected rank {}", op, argument, tensor.shape().str(),
               rank);
}

void check_shape(const char* op, const char* argument, const Tensor& tensor, const Shape& shape, const Tensor& like) {
  check_input(op, argument, tensor);
  ENGINE_CHECK(tensor.device() == like.device(), "[{}] {}: got a tensor on {}, expected one on {}", op, argument,
               name_of(tensor.device()), name_of(like.device()));
  ENGINE_CHECK(tensor.shape() == shape && tensor.dtype() == like.dtype(), "[{}] {}: got {} {}, expected {} {}", op,
               argument, name_of(tensor.dtype()), tensor.shape().str(), name_of(like.dtype()), shape.str());
}

}  // namespace engine
