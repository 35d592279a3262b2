#include "kernels/conv2d/conv2d.h"

#include <algorithm>
#include <stdexcept>

namespace engine::kernels {
namespace {

std::string pair(const char* name, int64_t height, int64_t width) {
  return std::string(" ") + name + ' ' + std::to_string(height) + 'x' + std::to_string(width);
}

}  // namespace

bool Conv2dShape::valid() const {
  const bool positive = std::min({n, h, w, c, k, r, s, stride_h, stride_w, dilation_h, dilation_w, groups}) > 0;
  if (!positive || std::min(pad_h, pad_w) < 0 || c % groups != 0 || k % groups != 0) return false;
  return h + 2 * pad_h > dilation_h * (r - 1) && w + 2 * pad_w > dilation_w * (s - 1);
}

std::string Conv2dShape::str() const {
  std::string text = 'n' + std::to_string(n) + ' ' + std::to_string(h) + 'x' + std::to_string(w) + 'x' +
                     std::to_string(c) + " -> k" + std::to_string(k) + ' ' + std::to_string(r) + 'x' +
                     std::to_string(s);
  text += pair("stride", stride_h, stride_w) + pair("pad", pad_h, pad_w);
  if (dilation_h != 1 || dilation_w != 1) text += pair("dilation", dilation_h, dilation_w);
  if (groups != 1) text += " groups " + std::to_string(groups);
  return text;
}

void Conv2dShape::require_valid() const {
  if (!valid()) throw std::invalid_argument("[conv2d] shape: got " + str() + ", expected a valid one");
}

}  // namespace engine::kernels
