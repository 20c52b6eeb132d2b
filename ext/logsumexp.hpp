// The log-normaliser of a softmax over a large vocabulary: one pass for the greatest score, one for the sum.
#pragma once

#include <cmath>
#include <cstdint>

#include "exponential.hpp"

namespace ninja {

constexpr int64_t kLanes = 64;  // sums kept side by side, so that vector registers fill and no addition waits

// `score` [num_rows, length], row by row; `result` [num_rows].
NINJA_CLONES void logsumexp(const float* score, int64_t num_rows, int64_t length, float* result) {
  for (int64_t row = 0; row < num_rows; ++row, score += length) {
    const int64_t whole = length / kLanes * kLanes;
    float greatest[kLanes], sum[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      greatest[lane] = score[0];
      sum[lane] = 0.0f;
    }
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        greatest[lane] = score[i + lane] > greatest[lane] ? score[i + lane] : greatest[lane];
      }
    }
    float most = greatest[0];
    for (int64_t lane = 1; lane < kLanes; ++lane) most = greatest[lane] > most ? greatest[lane] : most;
    for (int64_t i = whole; i < length; ++i) most = score[i] > most ? score[i] : most;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += exponential(score[i + lane] - most);
    }
    double total = 0.0;
    for (int64_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
    for (int64_t i = whole; i < length; ++i) total += exponential(score[i] - most);
    result[row] = static_cast<float>(most + std::log(total));
  }
}

}  // namespace ninja
