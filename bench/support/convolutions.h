#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/conv2d/conv2d.h"

namespace engine::bench {

struct NamedConvolution {
  std::string name;
  kernels::Conv2dShape shape;
  int count;  // how often the model has it
};

/// The 23 distinct convolutions of ResNet-50 v1.5 (stride in the 3x3), 53 with their counts, at a square picture size.
inline std::vector<NamedConvolution> resnet50_convolutions(int64_t batch, int64_t picture = 224) {
  const auto same = [batch](int64_t size, int64_t c, int64_t k, int64_t filter, int64_t stride) {
    const int64_t pad = filter / 2;
    return kernels::Conv2dShape{.n = batch,
                                .h = size,
                                .w = size,
                                .c = c,
                                .k = k,
                                .r = filter,
                                .s = filter,
                                .stride_h = stride,
                                .stride_w = stride,
                                .pad_h = pad,
                                .pad_w = pad};
  };
  std::vector<NamedConvolution> list = {{"stem", same(picture, 3, 64, 7, 2), 1}};
  int64_t size = (list[0].shape.out_h() + 1) / 2, channels = 64;
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage, stride = stage == 0 ? 1 : 2;
    const std::string prefix = "stage" + std::to_string(stage + 1) + '.';
    const int64_t inner = (size + stride - 1) / stride;
    list.push_back({prefix + "first.conv1", same(size, channels, width, 1, 1), 1});
    if (stride == 2) list.push_back({prefix + "first.conv2", same(size, width, width, 3, stride), 1});
    list.push_back({prefix + "shortcut", same(size, channels, 4 * width, 1, stride), 1});
    list.push_back({prefix + "conv1", same(inner, 4 * width, width, 1, 1), blocks[stage] - 1});
    list.push_back({prefix + "conv2", same(inner, width, width, 3, 1), blocks[stage] - (stride == 2 ? 1 : 0)});
    list.push_back({prefix + "conv3", same(inner, width, 4 * width, 1, 1), blocks[stage]});
    size = inner;
    channels = 4 * width;
  }
  return list;
}

/// SimpleCNN's only convolution, 3x3 without padding on 28x28 digits.
inline NamedConvolution simple_cnn_convolution(int64_t batch) {
  return {"simple_cnn", {.n = batch, .h = 28, .w = 28, .c = 1, .k = 32, .r = 3, .s = 3}, 1};
}

}  // namespace engine::bench
