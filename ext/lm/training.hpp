// The sampled softmax of training in bfloat16, between its matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/clones.hpp"
#include "lm/cells.hpp"

// As in cells.hpp, fused operations are allowed, because this file does not sum lattice costs.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math", "fp-contract=fast")
#endif

namespace ninja {

using bfloat16 = uint16_t;  // the upper half of a float

inline float widened(bfloat16 x) {
  const uint32_t bits = static_cast<uint32_t>(x) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}

inline bfloat16 rounded(float x) {  // rounds to nearest, ties to even; x must not be NaN
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<bfloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline void round_to(const float* x, int64_t size, bfloat16* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = rounded(x[i]);
}

// Computes softmaxes over a sample of the vocabulary and each row's target.
// `score` [num_rows, length]: the sample's scores without `offset` [length]. They are replaced with the gradient of the
// loss times `share` and, if the penalty `self_normalize` is not 0, times 1 + 2 * self_normalize * normaliser.
// `target_score` [num_rows]: complete scores of the targets. `hit` [num_rows]: index of the target in the sample, from
// which it is excluded, or -1. Results: `normaliser` [num_rows], `target_slope` [num_rows]. The gradients of the
// sample, summed over rows, are added to `offset_slope` [length].
NINJA_CLONES void sampled_softmax(bfloat16* score, const float* offset, const float* target_score, const int64_t* hit,
                                  int64_t num_rows, int64_t length, float share, float self_normalize,
                                  float* normaliser, float* target_slope, float* offset_slope) {
  std::vector<float> buffer(static_cast<size_t>(length + kLanes));
  float* x = buffer.data();
  const int64_t whole = (length + kLanes - 1) / kLanes * kLanes;
  for (int64_t row = 0; row < num_rows; ++row, score += length) {
    for (int64_t i = 0; i < length; ++i) x[i] = widened(score[i]) + offset[i];
    for (int64_t i = length; i < whole; ++i) x[i] = -1e30f;
    if (hit[row] >= 0) x[hit[row]] = -1e30f;
    float lane_most[kLanes], lane_sum[kLanes];
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lane_most[lane] = target_score[row];
      lane_sum[lane] = 0.0f;
    }
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lane_most[lane] = x[i + lane] > lane_most[lane] ? x[i + lane] : lane_most[lane];
      }
    }
    float most = lane_most[0];
    for (int64_t lane = 1; lane < kLanes; ++lane) most = lane_most[lane] > most ? lane_most[lane] : most;
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        x[i + lane] = exponential(x[i + lane] - most);
        lane_sum[lane] += x[i + lane];
      }
    }
    double sum = std::exp(static_cast<double>(target_score[row] - most));
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += lane_sum[lane];
    normaliser[row] = static_cast<float>(most + std::log(sum));
    const float scale = share * (1.0f + 2.0f * self_normalize * normaliser[row]);
    target_slope[row] = scale * std::exp(target_score[row] - normaliser[row]) - share;
    const float factor = scale / static_cast<float>(sum);
    for (int64_t i = 0; i < length; ++i) x[i] *= factor;
    for (int64_t i = 0; i < length; ++i) offset_slope[i] += x[i];
    round_to(x, length, score);
  }
}

}  // namespace ninja

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
