#include "engine/app/progress_display.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace engine {
namespace {

StepReport report(int64_t step) {
  StepReport r;
  r.step = step;
  r.total_steps = 200;
  r.epoch = 1;
  r.total_epochs = 8;
  r.loss = 1.2345;
  r.lr = 0.001;
  r.grad_norm = 2;
  r.images_per_second = 83.21;
  r.seconds_left = 3909;
  return r;
}

/// A stream in memory.
class Memory {
 public:
  Memory() : stream_(open_memstream(&data_, &size_)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    std::fclose(stream_);
    std::free(data_);
  }
  std::FILE* stream() { return stream_; }
  std::string text() {
    std::fflush(stream_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_;
};

TEST(ProgressDisplay, TheBarFillsItsWidth) {
  const std::string bar = progress_bar(report(100), 120);
  EXPECT_EQ(bar,
            "epoch 2/8  50% [####################--------------------] loss 1.2345 lr 0.001 83.2 img/s ETA 1:05:09");
  for (const int width : {0, 1, 20, 60, 80, 81, 200}) {
    EXPECT_LE(progress_bar(report(100), width).size(), static_cast<size_t>(width)) << width;
  }
  EXPECT_NE(progress_bar(report(200), 120).find("100% [########################################]"), std::string::npos);
}

TEST(ProgressDisplay, ValuesThatAreNotFiniteAreShown) {
  StepReport odd = report(1);
  odd.loss = std::nan("");
  odd.seconds_left = HUGE_VAL;
  EXPECT_NE(progress_bar(odd, 120).find("loss nan"), std::string::npos);
  EXPECT_NE(progress_bar(odd, 120).find("ETA -:--"), std::string::npos);
}

TEST(Cases, H_OPS_02_PlainLinesWithoutControlBytes) {
  Memory memory;
  {
    ProgressDisplay display(memory.stream(), ProgressStyle::lines);
    for (int64_t step = 1; step <= 20; ++step) display.on_step(report(step), step % 10 == 0);
    display.on_evaluation(5, 10);
    display.on_eval({});
  }
  const std::string text = memory.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Cases, H_OPS_02_TheBarIsRedrawnInPlaceAndNotTooOften) {
  Memory memory;
  ProgressDisplay display(memory.stream(), ProgressStyle::bar);
  for (int64_t step = 1; step <= 200; ++step) display.on_step(report(step), false);
  std::string text = memory.text();
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 3);
  EXPECT_NE(text.find("100%"), std::string::npos);
  display.clear();
  display.clear();
  const std::string end = "\r\x1b[K";
  EXPECT_EQ(memory.text(), text + end);
}

TEST(Cases, H_OPS_02_StyleFollowsTheStream) {
  Memory memory;
  EXPECT_EQ(progress_style(stdout, true), ProgressStyle::none);
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(progress_style(file, false), ProgressStyle::lines);
  std::fclose(file);
}

TEST(ProgressDisplay, QuietShowsNothing) {
  Memory memory;
  ProgressDisplay display(memory.stream(), ProgressStyle::none);
  display.on_step(report(10), true);
  display.on_eval({});
  display.clear();
  EXPECT_EQ(memory.text(), "");
}

}  // namespace
}  // namespace engine
