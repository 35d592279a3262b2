#pragma once
// Progress on standard output: a bar redrawn in place on a terminal, else one plain line each --log-every steps.

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

#include "engine/train/progress.h"

namespace engine {

enum class ProgressStyle {
  none,
  lines,  // no carriage return or escape byte; each line is flushed
  bar,    // one line, cut to the terminal's width, redrawn ten times a second at most
};

/// What suits a stream: `none` where quiet, `bar` on a terminal that can move its cursor (TERM is set and not "dumb").
ProgressStyle progress_style(std::FILE* stream, bool quiet);

/// The bar's line, at most `width` columns, ASCII only. Public for tests.
std::string progress_bar(const StepReport& report, int width);
/// The plain line. Public for tests.
std::string progress_line(const StepReport& report);

/// Calls come from the training thread but clear(), which any thread may call. A stream that fails is ignored: a run
/// does not end because nobody watches.
class ProgressDisplay : public ProgressListener {
 public:
  ProgressDisplay(std::FILE* stream, ProgressStyle style) : stream_(stream), style_(style) {}
  ~ProgressDisplay() override { ProgressDisplay::clear(); }

  void on_step(const StepReport& report, bool logged) override;
  void on_evaluation(int64_t done, int64_t total) override;
  void on_eval(const EvalReport& report) override;
  void clear() override;

 private:
  using Clock = std::chrono::steady_clock;

  bool due();
  void draw(const std::string& line);
  void write_line(const std::string& line);

  std::FILE* stream_;
  ProgressStyle style_;
  std::mutex mutex_;
  bool drawn_ = false;
  Clock::time_point last_draw_{};
};

}  // namespace engine
