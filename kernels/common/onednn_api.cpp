#include "kernels/common/onednn_api.h"

namespace engine::kernels::onednn {
namespace {

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// oneDNN counts the pixels left out between taps.
dnnl::memory::dims gaps(const ConvolutionArgs& args) {
  dnnl::memory::dims result = args.dilations;
  for (auto& dilation : result) dilation -= 1;
  return result;
}

// 2.x reports some impossible shapes from the operation descriptor, others from the primitive descriptor.
template <typename Make>
auto empty_if_missing(Make&& make) -> decltype(make()) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments) throw;
    return {};
  }
}

// Both take the arguments of 3.x's constructors in its order, without engine, hint and attributes.
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attr, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu_engine(), args..., attr};
#else
  return {typename Primitive::desc(args...), attr, cpu_engine()};
#endif
}

template <typename Primitive, typename... Args>
typename Primitive::primitive_desc describe_backward(const dnnl::convolution_forward::primitive_desc& hint,
                                                     const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return {cpu_engine(), args..., hint, user_scratchpad()};
#else
  return {typename Primitive::desc(args...), user_scratchpad(), cpu_engine(), hint};
#endif
}

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& cpu_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory wrap(const dnnl::memory::desc& desc, const void* data) {
  return {desc, cpu_engine(), const_cast<void*>(data)};
}

dnnl::memory::desc strided(const dnnl::memory::dims& dims, const dnnl::memory::dims& strides,
                           dnnl::memory::data_type type) {
  return {dims, type, strides};
}

dnnl::memory::desc any_layout(const dnnl::memory::dims& dims, dnnl::memory::data_type type) {
  return {dims, type, dnnl::memory::format_tag::any};
}

dnnl::convolution_forward::primitive_desc convolution_forward(const ConvolutionArgs& args) {
  return empty_if_missing([&] {
    return describe<dnnl::convolution_forward>(user_scratchpad(), dnnl::prop_kind::forward_training,
                                               dnnl::algorithm::convolution_direct, args.src, args.weights, args.bias,
                                               args.dst, args.strides, gaps(args), args.padding, args.padding);
  });
}

dnnl::convolution_backward_data::primitive_desc convolution_backward_data(const ConvolutionArgs& args) {
  return empty_if_missing([&] {
    return describe_backward<dnnl::convolution_backward_data>(
        convolution_forward(args), dnnl::algorithm::convolution_direct, args.src, args.weights, args.dst, args.strides,
        gaps(args), args.padding, args.padding);
  });
}

dnnl::convolution_backward_weights::primitive_desc convolution_backward_weights(const ConvolutionArgs& args) {
  return empty_if_missing([&] {
    return describe_backward<dnnl::convolution_backward_weights>(
        convolution_forward(args), dnnl::algorithm::convolution_direct, args.src, args.weights, args.bias, args.dst,
        args.strides, gaps(args), args.padding, args.padding);
  });
}

dnnl::matmul::primitive_desc matmul(const MatmulArgs& args) {
  dnnl::primitive_attr attr = user_scratchpad();
  if (args.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0F);
    attr.set_post_ops(ops);
  }
  return empty_if_missing([&] {
    if (args.bias == dnnl::memory::desc()) return describe<dnnl::matmul>(attr, args.a, args.b, args.c);
    return describe<dnnl::matmul>(attr, args.a, args.b, args.bias, args.c);
  });
}

}  // namespace engine::kernels::onednn
