#pragma once
// The one place that knows how oneDNN 2.x and 3.x differ: 2.x makes a primitive descriptor from an operation
// descriptor, 3.x from the arguments themselves. Only the *_onednn.cpp files of kernels/ include this.

#include <oneapi/dnnl/dnnl.hpp>
#include <type_traits>

#include "kernels/common/half.h"

namespace engine::kernels::onednn {

/// The process's CPU engine.
const dnnl::engine& cpu_engine();

/// The calling thread's stream.
dnnl::stream& cpu_stream();

/// An input or output as oneDNN sees it. oneDNN takes inputs, too, by a pointer that is not const.
dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data);

/// oneDNN's name of float and BFloat16.
template <typename T>
constexpr dnnl::memory::data_type type_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, BFloat16>);
  return std::is_same_v<T, float> ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// A dense or strided tensor.
dnnl::memory::desc strided(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides,
                           dnnl::memory::data_type type);

/// A tensor whose layout oneDNN may choose.
dnnl::memory::desc any_layout(const dnnl::memory::dims& dims, dnnl::memory::data_type type);

/// The operands of a convolution primitive in any of its directions. `bias` is a zero descriptor where there is none.
struct ConvolutionArgs {
  dnnl::memory::desc src, weights, bias, dst;
  dnnl::memory::dims strides, dilations, padding;  // a dense filter has dilation 1; the padding is on both sides
};

// Descriptors of primitives that use a caller's scratchpad; empty (false as a bool) where oneDNN has no implementation.
dnnl::convolution_forward::primitive_desc convolution_forward(const ConvolutionArgs& args);
dnnl::convolution_backward_data::primitive_desc convolution_backward_data(const ConvolutionArgs& args);
dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(const ConvolutionArgs& args);

/// c = a * b + bias, or c += a * b. `bias` is a zero descriptor where there is none.
struct MatmulArgs {
  dnnl::memory::desc a, b, bias, c;
  bool accumulate = false;
};
dnnl::matmul::primitive_desc matmul(const MatmulArgs& args);

}  // namespace engine::kernels::onednn
