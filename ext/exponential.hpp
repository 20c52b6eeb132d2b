// The exponential function, written so that the compiler turns loops over it into vector instructions.
#pragma once

#include <cstdint>
#include <cstring>

// The compiler makes one copy per instruction set and the loader picks the best; elsewhere there is one.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define NINJA_CLONES __attribute__((target_clones("avx512f", "avx2,fma", "default")))
#else
#define NINJA_CLONES
#endif

namespace ninja {

// e to the power of x, within two units of the last place; x counts as -87 below that, and as 87 above.
// Cephes' expf: split off a power of two, then a polynomial on ±ln(2)/2.
inline float exponential(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer, held in the low bits
  x = x < -87.0f ? -87.0f : x;
  x = x > 87.0f ? 87.0f : x;
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

}  // namespace ninja
