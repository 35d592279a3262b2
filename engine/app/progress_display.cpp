#include "engine/app/progress_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace engine {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kUsualWidth = 80;
constexpr int kWidestBar = 40;

/// Asked anew for each drawing, so that a resized window is followed.
int width_of(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  if (const char* text = std::getenv("COLUMNS")) std::from_chars(text, text + std::string_view(text).size(), columns);
  return columns > 0 ? columns : kUsualWidth;
}

/// "1:05:09" or "5:09"
std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e8) return "-:--";
  const auto s = static_cast<int64_t>(std::ceil(seconds));
  if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

double share(int64_t done, int64_t total) {
  return total <= 0 ? 0 : std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
}

/// Text with a bar between its halves that fills what is left of the width.
std::string with_bar(const std::string& head, const std::string& tail, double done, int width) {
  std::string line = head;
  const int room = std::min(width - static_cast<int>(head.size() + tail.size()) - 3, kWidestBar);
  if (room >= 4) {
    const auto filled = static_cast<size_t>(std::floor(done * room));
    line += '[' + std::string(filled, '#') + std::string(static_cast<size_t>(room) - filled, '-') + "] ";
  }
  line += tail;
  if (width >= 0 && line.size() > static_cast<size_t>(width)) line.resize(static_cast<size_t>(width));
  return line;
}

}  // namespace

ProgressStyle progress_style(std::FILE* stream, bool quiet) {
  if (quiet) return ProgressStyle::none;
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term).empty() || std::string_view(term) == "dumb";
  return isatty(fileno(stream)) == 1 && !dumb ? ProgressStyle::bar : ProgressStyle::lines;
}

std::string progress_bar(const StepReport& report, int width) {
  const double done = share(report.step, report.total_steps);
  const std::string head =
      fmt::format("epoch {}/{} {:3.0f}% ", report.epoch + 1, report.total_epochs, std::floor(100 * done));
  const std::string tail = fmt::format("loss {:.4f} lr {:.3g} {:.1f} img/s ETA {}", report.loss, report.lr,
                                       report.images_per_second, duration(report.seconds_left));
  return with_bar(head, tail, done, width);
}

std::string progress_line(const StepReport& report) {
  return fmt::format("epoch {}/{} step {}/{} loss {:.4f} lr {:.6g} grad_norm {:.4g} {:.1f} img/s ETA {}",
                     report.epoch + 1, report.total_epochs, report.step, report.total_steps, report.loss, report.lr,
                     report.grad_norm, report.images_per_second, duration(report.seconds_left));
}

bool ProgressDisplay::due() {
  const auto now = Clock::now();
  if (now - last_draw_ < kRedrawInterval) return false;
  last_draw_ = now;
  return true;
}

void ProgressDisplay::draw(const std::string& line) {
  const std::lock_guard lock(mutex_);
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "\r{}\x1b[K", line);
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fflush(stream_);
  drawn_ = true;
}

void ProgressDisplay::write_line(const std::string& line) {
  clear();
  const std::lock_guard lock(mutex_);
  const std::string text = line + '\n';
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fflush(stream_);
}

void ProgressDisplay::on_step(const StepReport& report, bool logged) {
  if (style_ == ProgressStyle::lines && logged) write_line(progress_line(report));
  const bool last = report.step == report.total_steps;
  // The last column stays free: some terminals wrap as soon as it is filled.
  if (style_ == ProgressStyle::bar && (due() || last)) draw(progress_bar(report, width_of(stream_) - 1));
}

void ProgressDisplay::on_evaluation(int64_t done, int64_t total) {
  if (style_ != ProgressStyle::bar || !due()) return;
  const double part = share(done, total);
  draw(with_bar("evaluation ", fmt::format("{:3.0f}% {}/{}", std::floor(100 * part), done, total), part,
                width_of(stream_) - 1));
}

void ProgressDisplay::on_eval(const EvalReport& report) {
  if (style_ == ProgressStyle::none) return;
  write_line(fmt::format("epoch {} val_loss {:.4f} val_top1 {:.2f} % val_top5 {:.2f} % of {} images in {:.1f} s",
                         report.epoch + 1, report.val_loss, report.val_top1, report.val_top5, report.images,
                         report.seconds));
}

void ProgressDisplay::clear() {
  const std::lock_guard lock(mutex_);
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace engine
