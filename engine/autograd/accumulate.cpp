#include "engine/autograd/accumulate.h"

#include "engine/core/dispatch.h"
#include "engine/core/stream.h"
#include "kernels/add/add.h"
#include "kernels/add/add_cuda.h"

namespace engine {
namespace {

void check_alike(const Tensor& a, const Tensor& b) {
  ENGINE_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(), "[autograd] accumulate: got {} {}, expected {} {}",
               name_of(b.dtype()), b.shape().str(), name_of(a.dtype()), a.shape().str());
}

}  // namespace

void accumulate(const Tensor& target, const Tensor& gradient) {
  check_alike(target, gradient);
  const Tensor source = gradient.contiguous();
  if (!target.device().is_cpu()) {
    return dispatch_device(target.dtype(), "accumulate", [&]<typename T>() {
      kernels::add_accumulate_cuda(source.data<T>(), target.data<T>(), target.numel(),
                                   compute_stream(target.device()).handle());
    });
  }
  dispatch_floating(target.dtype(), "accumulate", [&]<typename T>() {
    kernels::add_accumulate_cpu(source.data<T>(), target.data<T>(), target.numel());
  });
}

Tensor accumulated(Tensor first, const Tensor& second) {
  check_alike(first, second);
  first = first.contiguous();
  if (first.owns_alone()) {
    accumulate(first, second);
    return first;
  }
  const Tensor other = second.contiguous();
  Tensor sum = first.new_empty(first.shape(), first.dtype());
  if (!sum.device().is_cpu()) {
    dispatch_device(sum.dtype(), "accumulate", [&]<typename T>() {
      kernels::add_forward_cuda(first.data<T>(), other.data<T>(), sum.data<T>(), sum.numel(),
                                compute_stream(sum.device()).handle());
    });
    return sum;
  }
  dispatch_floating(sum.dtype(), "accumulate", [&]<typename T>() {
    kernels::add_forward_cpu(first.data<T>(), other.data<T>(), sum.data<T>(), sum.numel());
  });
  return sum;
}

}  // namespace engine
