#pragma once

namespace engine::bench {

/// FP32 operations a second (a multiply-add counts as two) that `threads` threads reach together with independent
/// vector multiply-adds in registers: the roof under which products are judged. Measured at the first call for a number
/// of threads, which takes about 0.1 s, the best of some rounds.
double peak_flops(int threads);

/// Bytes a second that `threads` threads move in copying between arrays beyond the caches; read and written bytes both
/// count. Measured likewise.
double copy_bandwidth(int threads);

}  // namespace engine::bench
