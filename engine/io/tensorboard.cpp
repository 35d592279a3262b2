#include "engine/io/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/io/append.h"
#include "engine/io/atomic_file.h"
#include "engine/io/event_records.h"
#include "tensorboard_event.pb.h"

namespace engine {
namespace {

namespace fs = std::filesystem;

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// TIME of a name events.out.tfevents.TIME.*; 0 where there is none.
int64_t time_of(const fs::path& path) {
  const std::string name = path.filename().native();
  int64_t time = 0;
  for (size_t i = std::string_view("events.out.tfevents.").size(); i < name.size() && name[i] >= '0' && name[i] <= '9';
       ++i) {
    if (__builtin_mul_overflow(time, 10, &time) || __builtin_add_overflow(time, name[i] - '0', &time)) return 0;
  }
  return time;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

void put(int descriptor, const fs::path& path, const event::Event& event) {
  detail::append_whole(descriptor, path, detail::event_record(event.SerializeAsString()));
}

event::Event event_at(int64_t step) {
  event::Event event;
  event.set_wall_time(wall_time());
  event.set_step(step);
  return event;
}

/// Upper bounds 1e-12, 1.1e-12, ... and their negatives, up to the largest float, in rising order.
const std::vector<double>& bucket_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < std::numeric_limits<float>::max(); limit *= 1.1) positive.push_back(limit);
    positive.push_back(std::numeric_limits<double>::max());
    std::vector<double> all(positive.rbegin(), positive.rend());
    for (double& limit : all) limit = -limit;
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

}  // namespace

Histogram histogram_of(std::span<const float> values) {
  const std::vector<double>& limits = bucket_limits();
  std::vector<double> counts(limits.size(), 0);
  Histogram histogram;
  for (const float raw : values) {
    const double value = raw;
    if (!std::isfinite(value)) continue;
    histogram.min = histogram.count == 0 ? value : std::min(histogram.min, value);
    histogram.max = histogram.count == 0 ? value : std::max(histogram.max, value);
    histogram.count += 1;
    histogram.sum += value;
    histogram.sum_squares += value * value;
    counts[static_cast<size_t>(std::lower_bound(limits.begin(), limits.end(), value) - limits.begin())] += 1;
  }
  const auto filled = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), filled);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), filled).base();
  if (first == counts.end()) {
    histogram.limits = {0};
    histogram.counts = {0};
    return histogram;
  }
  histogram.limits.assign(limits.begin() + (first - counts.begin()), limits.begin() + (last - counts.begin()));
  histogram.counts.assign(first, last);
  return histogram;
}

EventWriter::EventWriter(const fs::path& folder, int64_t resume_step) {
  auto time = static_cast<int64_t>(wall_time());
  for (const fs::path& older : detail::event_files(folder)) {
    // Readers take the files in the order of their names, and a killed run may have begun within this second.
    time = std::max(time, time_of(older) + 1);
    if (resume_step >= 0) detail::purge_events(older, resume_step);
  }
  for (int number = 0; descriptor_ < 0; ++number) {
    path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", time, host_name(), getpid(), number);
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST)
      throw_output_error("cannot write", path_, errno, "a folder that takes new files");
  }
  try {
    event::Event version = event_at(0);
    version.set_file_version("brain.Event:2");
    put(descriptor_, path_, version);
    if (resume_step >= 0) {
      event::Event start = event_at(resume_step + 1);
      start.mutable_session_log()->set_status(event::SessionLog::START);
      put(descriptor_, path_, start);
    }
  } catch (...) {
    ::close(descriptor_);
    ::unlink(path_.c_str());
    throw;
  }
}

EventWriter::~EventWriter() { ::close(descriptor_); }

void EventWriter::scalars(int64_t step, std::span<const ScalarPoint> points) {
  event::Event event = event_at(step);
  for (const auto& [tag, value] : points) {
    event::Summary::Value* entry = event.mutable_summary()->add_value();
    entry->set_tag(tag);
    entry->set_simple_value(static_cast<float>(value));
  }
  put(descriptor_, path_, event);
}

void EventWriter::histogram(int64_t step, const std::string& tag, const Histogram& histogram) {
  event::Event event = event_at(step);
  event::Summary::Value* entry = event.mutable_summary()->add_value();
  entry->set_tag(tag);
  event::HistogramProto* histo = entry->mutable_histo();
  histo->set_min(histogram.min);
  histo->set_max(histogram.max);
  histo->set_num(histogram.count);
  histo->set_sum(histogram.sum);
  histo->set_sum_squares(histogram.sum_squares);
  *histo->mutable_bucket_limit() = {histogram.limits.begin(), histogram.limits.end()};
  *histo->mutable_bucket() = {histogram.counts.begin(), histogram.counts.end()};
  put(descriptor_, path_, event);
}

}  // namespace engine
