#include <cmath>

#include "kernels/softmax_cross_entropy/softmax_cross_entropy.h"
#include "kernels/softmax_cross_entropy/softmax_cross_entropy_cuda.h"
#include "tests/kernels/device_operand.h"

namespace engine::testing {
namespace {

using kernels::SoftmaxCrossEntropy;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct Result {
  float loss;
  std::vector<float> gradient;
};

struct Options {
  size_t shift = 0;
  float grad_scale = 1;
  bool in_place = false;
};

template <typename T>
class SoftmaxCrossEntropyDevice : public DeviceTest {
 protected:
  Result run(const SoftmaxCrossEntropy& spec, const std::vector<float>& values, const std::vector<int64_t>& labels,
             const Options& options = {}) {
    const Operand<T> logits(stored<T>(values), options.shift), gradient(spec.rows * spec.classes, options.shift);
    const Operand<int64_t> places(labels, 0);
    const Operand<float> loss(1, 0), grad_scale(std::vector<float>{options.grad_scale}, 0);
    const DeviceArray<char> workspace(kernels::softmax_cross_entropy_workspace_bytes(spec.rows));
    const Operand<T>& result = options.in_place ? logits : gradient;
    kernels::softmax_cross_entropy_cuda<T>({.spec = spec,
                                            .logits = logits.data(),
                                            .labels = places.data(),
                                            .grad_logits = result.data(),
                                            .grad_scale = options.grad_scale == 1 ? nullptr : grad_scale.data(),
                                            .loss = loss.data(),
                                            .workspace = workspace.data()},
                                           stream());
    return {loss.read()[0], result.floats()};
  }

  Result reference(const SoftmaxCrossEntropy& spec, const std::vector<float>& values,
                   const std::vector<int64_t>& labels, double grad_loss = 1) {
    const std::vector<double> wide = converted<double>(rounded<T>(values));
    std::vector<double> gradient(wide.size());
    double loss = 0;
    kernels::softmax_cross_entropy_forward_cpu(spec, wide.data(), labels.data(), &loss);
    kernels::softmax_cross_entropy_backward_cpu(spec, wide.data(), labels.data(), grad_loss, gradient.data());
    return {static_cast<float>(loss), converted<float>(gradient)};
  }

  // `largest` is what a gradient can be at most.
  void expect_close(const Result& got, const Result& want, int64_t rows, double largest) {
    ExpectClose(std::vector<float>{got.loss}, std::vector<float>{want.loss},
                tolerance<float>(rows, OpClass::transcendental), "loss");
    ExpectClose(got.gradient, want.gradient, tolerance(kUnitRoundoff<T>, 1, OpClass::transcendental), "gradient",
                largest);
  }
};
TYPED_TEST_SUITE(SoftmaxCrossEntropyDevice, StorageTypes);

std::vector<int64_t> some_labels(int64_t rows, int64_t classes) {
  std::vector<int64_t> labels;
  for (int64_t row = 0; row < rows; ++row) labels.push_back(row * 997 % classes);
  return labels;
}

TYPED_TEST(SoftmaxCrossEntropyDevice, EqualsReference) {
  for (const int64_t classes : {1, 2, 10, 33, 256, 1000, 1024, 1025, 3000}) {
    for (const int64_t rows : {1, 3, 37}) {
      const std::vector<float> values = uniform<float>(rows * classes, 1, -8, 8);
      const std::vector<int64_t> labels = some_labels(rows, classes);
      for (const double smoothing : {0.0, 0.1, 1.0}) {
        const SoftmaxCrossEntropy spec{rows, classes, smoothing, static_cast<double>(rows)};
        const Result want = this->reference(spec, values, labels, 64);
        const double largest = 64.0 / static_cast<double>(rows);
        for (const Options& options :
             {Options{.grad_scale = 64}, {.shift = 1, .grad_scale = 64}, {.grad_scale = 64, .in_place = true}}) {
          this->expect_close(this->run(spec, values, labels, options), want, rows, largest);
        }
      }
    }
  }
}

// Rows by threads: one block sums the losses itself, or several leave them.
TYPED_TEST(SoftmaxCrossEntropyDevice, ShortRowsOfOneBlockAndOfMore) {
  for (const int64_t classes : {2, 7, 10, 24, 32}) {
    for (const int64_t rows : {32, 128, 129, 300}) {
      const std::vector<float> values = uniform<float>(rows * classes, 1, -8, 8);
      const std::vector<int64_t> labels = some_labels(rows, classes);
      const SoftmaxCrossEntropy spec{rows, classes, 0.1, static_cast<double>(rows)};
      this->expect_close(this->run(spec, values, labels, {.grad_scale = 64, .in_place = true}),
                         this->reference(spec, values, labels, 64), rows, 64.0 / static_cast<double>(rows));
    }
  }
}

TYPED_TEST(SoftmaxCrossEntropyDevice, SameBitsFromRunToRun) {
  for (const int64_t classes : {10, 1000, 2000}) {
    const SoftmaxCrossEntropy spec{67, classes, 0.1, 67};
    const std::vector<float> values = uniform<float>(67 * classes, 1, -8, 8);
    const Result first = this->run(spec, values, some_labels(67, classes));
    const Result second = this->run(spec, values, some_labels(67, classes));
    EXPECT_EQ(first.loss, second.loss);
    ExpectSameBits(first.gradient, second.gradient);
  }
}

TYPED_TEST(SoftmaxCrossEntropyDevice, EvaluationAddsToTheLossAlone) {
  const SoftmaxCrossEntropy spec{3, 10, 0, 3};
  const std::vector<float> values = uniform<float>(30, 1);
  const Operand<TypeParam> logits(stored<TypeParam>(values), 0);
  const Operand<int64_t> labels(some_labels(3, 10), 0);
  const Operand<float> loss(std::vector<float>{5}, 0);
  const DeviceArray<char> workspace(kernels::softmax_cross_entropy_workspace_bytes(3));
  kernels::SoftmaxCrossEntropyCuda<TypeParam> args{.spec = spec,
                                                   .logits = logits.data(),
                                                   .labels = labels.data(),
                                                   .loss = loss.data(),
                                                   .accumulate = true,
                                                   .workspace = workspace.data()};
  kernels::softmax_cross_entropy_cuda(args, this->stream());
  const float want = this->reference(spec, values, some_labels(3, 10)).loss;
  ExpectClose(loss.read(), std::vector<float>{5 + want}, tolerance<float>(3, OpClass::transcendental));
  args.spec.rows = 0;
  kernels::softmax_cross_entropy_cuda(args, this->stream());
  ExpectClose(loss.read(), std::vector<float>{5 + want}, tolerance<float>(3, OpClass::transcendental), "no rows");
  args.accumulate = false;
  kernels::softmax_cross_entropy_cuda(args, this->stream());
  EXPECT_EQ(loss.read()[0], 0);
}

// Alone, and among others in a row that a block takes.
TYPED_TEST(SoftmaxCrossEntropyDevice, AwkwardLogitsAsReference) {
  const std::vector<std::vector<float>> heads = {{0, -kInf, 0},        {-kInf, 0, 1},         {1, kNan, 2},
                                                 {kInf, 0, 0},         {-kInf, -kInf, -kInf}, {3e4F, 3e4F, -3e4F},
                                                 {-3e4F, -3e4F, -3e4F}};
  for (const std::vector<float>& head : heads) {
    for (const size_t classes : {3, 1032}) {
      std::vector<float> values = head;
      values.resize(classes, -kInf);
      for (const double smoothing : {0.0, 0.1}) {
        const SoftmaxCrossEntropy spec{
            .rows = 1, .classes = static_cast<int64_t>(classes), .label_smoothing = smoothing};
        for (const int64_t label : {0, 1, 2}) {
          this->expect_close(this->run(spec, values, {label}), this->reference(spec, values, {label}), 1, 1);
        }
      }
    }
  }
}

TYPED_TEST(SoftmaxCrossEntropyDevice, ImpossibleLabelShowsAsNan) {
  for (const int64_t classes : {3, 1032}) {
    for (const int64_t label : {int64_t{-1}, classes, int64_t{-100}, int64_t{1} << 40}) {
      const SoftmaxCrossEntropy spec{.rows = 2, .classes = classes};
      const Result got = this->run(spec, std::vector<float>(static_cast<size_t>(2 * classes), 1), {label, 0});
      EXPECT_TRUE(std::isnan(got.loss));
      for (size_t i = 0; i < got.gradient.size(); ++i) {
        EXPECT_EQ(std::isnan(got.gradient[i]), static_cast<int64_t>(i) < classes);
      }
    }
  }
}

class SoftmaxCrossEntropyDeviceCase : public SoftmaxCrossEntropyDevice<float> {};

// The handed figures have seven digits.
TEST_F(SoftmaxCrossEntropyDeviceCase, H_NUM_06_LabelSmoothingOnTheDevice) {
  constexpr double kDigits = 1.0 / (1 << 23);
  const SoftmaxCrossEntropy smoothed{.rows = 1, .classes = 3, .label_smoothing = 0.1};
  const Result one = run(smoothed, {2, 0, -1}, {0});
  ExpectClose(std::vector<float>{one.loss}, std::vector<float>{0.3365127F}, kDigits, "loss", 1);
  ExpectClose(one.gradient, std::vector<float>{-0.0895386F, 0.0808619F, 0.0086767F}, kDigits, "gradient", 1);
  const Result plain = run({.rows = 1, .classes = 3}, {2, 0, -1}, {0});
  ExpectClose(std::vector<float>{plain.loss}, std::vector<float>{0.1698460F}, kDigits, "plain", 1);
}

TEST_F(SoftmaxCrossEntropyDeviceCase, H_NUM_06_RepeatedSampleCountsTwiceOnTheDevice) {
  const SoftmaxCrossEntropy three{.rows = 3, .classes = 3, .label_smoothing = 0.1, .normalizer = 3};
  const SoftmaxCrossEntropy one{.rows = 1, .classes = 3, .label_smoothing = 0.1};
  const float repeated = run(one, {2, 0, -1}, {0}).loss, other = run(one, {0, 1, 0}, {2}).loss;
  const float got = run(three, {2, 0, -1, 0, 1, 0, 2, 0, -1}, {0, 2, 0}).loss;
  ExpectClose(std::vector<float>{got}, std::vector<float>{(2 * repeated + other) / 3},
              tolerance<float>(3, OpClass::reduction));
}

TEST_F(SoftmaxCrossEntropyDeviceCase, H_NUM_06_SmoothingOfOneIsUniformOnTheDevice) {
  const SoftmaxCrossEntropy spec{.rows = 1, .classes = 3, .label_smoothing = 1};
  const Result first = run(spec, {2, 0, -1}, {0}), last = run(spec, {2, 0, -1}, {2});
  EXPECT_EQ(first.loss, last.loss);
  ExpectSameBits(first.gradient, last.gradient);
}

}  // namespace
}  // namespace engine::testing
