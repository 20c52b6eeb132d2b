// The log-normaliser of a softmax over a large vocabulary: one pass for the greatest score, one for the sum.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// The compiler makes one copy per instruction set and the loader picks the best; elsewhere there is one.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define NINJA_CLONES __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define NINJA_CLONES
#endif

namespace ninja {

constexpr int64_t kLanes = 64;  // sums kept side by side, so that vector registers fill and no addition waits

// e to the power of x ≤ 0, within two units of the last place; x below -87 counts as -87.
// Cephes' expf: split off a power of two, then a polynomial on ±ln(2)/2.
inline float exp_of_nonpositive(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, held in the low bits
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504088896341f + kRounder;
  const float power = shifted - kRounder;
  const float r = (x - power * 0.693359375f) + power * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t exponent, bits;
  std::memcpy(&exponent, &shifted, 4);
  std::memcpy(&bits, &p, 4);
  bits += static_cast<int32_t>(static_cast<uint32_t>(exponent) << 23);  // the rounder's own bits fall off the top
  std::memcpy(&p, &bits, 4);
  return p;
}

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
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += exp_of_nonpositive(score[i + lane] - most);
    }
    double total = 0.0;
    for (int64_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
    for (int64_t i = whole; i < length; ++i) total += exp_of_nonpositive(score[i] - most);
    result[row] = static_cast<float>(most + std::log(total));
  }
}

}  // namespace ninja
