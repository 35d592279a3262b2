#include "kernels/topk/topk.h"
#include "kernels/topk/topk_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

template <typename T>
class TopKDevice : public DeviceTest {};
TYPED_TEST_SUITE(TopKDevice, StorageTypes);

TYPED_TEST(TopKDevice, CountsAsReferenceDoes) {
  for (const int64_t classes : {1, 2, 10, 33, 1000, 2056}) {
    for (const int64_t rows : {0, 1, 6, 131}) {
      // Few distinct values: ties, at the label, too; and NaN, infinities.
      std::vector<float> values = awkward<TypeParam>(rows * classes, 1);
      for (float& value : values) value = std::abs(value) < 5 ? std::round(value) : value;
      std::vector<int64_t> labels;
      for (int64_t row = 0; row < rows; ++row) labels.push_back((row * 7 + 3) % (classes + 2) - 1);
      for (const size_t shift : {0, 1}) {
        const Operand<TypeParam> logits(stored<TypeParam>(values), shift);
        const Operand<int64_t> places(labels, 0);
        for (const int64_t k : {0, 1, 5, 400, 3000}) {
          const Operand<int32_t> correct(std::vector<int32_t>{1000}, 0);
          kernels::topk_correct_cuda<TypeParam>({.logits = logits.data(),
                                                 .labels = places.data(),
                                                 .rows = rows,
                                                 .classes = classes,
                                                 .k = k,
                                                 .correct = correct.data()},
                                                this->stream());
          EXPECT_EQ(correct.read()[0] - 1000,
                    kernels::topk_correct_cpu(values.data(), labels.data(), rows, classes, k));
        }
      }
    }
  }
}

}  // namespace
}  // namespace engine::testing
