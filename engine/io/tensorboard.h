#pragma once
// TensorBoard event files: records of {length, its CRC, a serialised Event, its CRC}, as TensorFlow's TFRecord format
// defines them (https://www.tensorflow.org/tutorials/load_data/tfrecord), with the messages of tensorboard_event.proto.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace engine {

/// Counts of values by bucket; bucket i holds values in (limits[i - 1], limits[i]], the first from min on.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_squares = 0;
  std::vector<double> limits;
  std::vector<double> counts;
};

/// Histogram of the finite values over buckets that grow by a tenth (TensorFlow's choice); empty buckets at both ends
/// are left out. Without any finite value all fields are 0 and there is one bucket.
Histogram histogram_of(std::span<const float> values);

using ScalarPoint = std::pair<std::string, double>;  ///< tag and value

/// Writes one event file, named events.out.tfevents.TIME.HOST.PID.N, later in alphabetical order than those in the
/// folder. Each call goes to the kernel at once. Members throw OutputError. Not for use from several threads at once.
class EventWriter {
 public:
  /// A fresh file in `folder`, which must exist. `resume_step` is the last step that a resumed run keeps (0: none), and
  /// negative for a new run: points behind it are taken out of the folder's older event files, records that a kill cut
  /// off too, and the new file begins with a session-start record at resume_step + 1, at which readers drop what they
  /// had read from there on.
  explicit EventWriter(const std::filesystem::path& folder, int64_t resume_step = -1);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void scalars(int64_t step, std::span<const ScalarPoint> points);
  void scalars(int64_t step, std::initializer_list<ScalarPoint> points) {
    scalars(step, std::span(points.begin(), points.size()));
  }
  void histogram(int64_t step, const std::string& tag, const Histogram& histogram);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace engine
