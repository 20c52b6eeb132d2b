// Products of rows with the weights of a layer. A row's result has the same bits in any batch: each number is summed
// in the order of the inputs, which BLAS does not guarantee.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif

namespace ninja {

constexpr int64_t kPanel = 32;  // number of outputs per panel; weights are stored by panel, then input, then output

inline int64_t packed_size(int64_t num_outputs, int64_t num_inputs) {
  return (num_outputs + kPanel - 1) / kPanel * kPanel * num_inputs;
}

// Packs `weight` [num_outputs, num_inputs]; zeros fill the last panel.
inline void pack_weights(const float* weight, int64_t num_outputs, int64_t num_inputs, float* packed) {
  for (int64_t first = 0; first < num_outputs; first += kPanel, packed += kPanel * num_inputs) {
    for (int64_t output = first; output < first + kPanel; ++output) {
      for (int64_t input = 0; input < num_inputs; ++input) {
        packed[input * kPanel + output - first] = output < num_outputs ? weight[output * num_inputs + input] : 0.0f;
      }
    }
  }
}

// Computes two vectors of outputs for NUM rows, with the sums in registers.
#define NINJA_MULTIPLY(NAME, TARGET, LANES, MOST)                                                                    \
  typedef float NAME##Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));                         \
  template <int NUM>                                                                                                 \
  TARGET void NAME##_block(const float* const* row, const float* packed, int64_t num_inputs, float* const* result) { \
    NAME##Vector sum[NUM][2] = {};                                                                                   \
    for (int64_t input = 0; input < num_inputs; ++input, packed += kPanel) {                                         \
      const NAME##Vector one = *reinterpret_cast<const NAME##Vector*>(packed);                                       \
      const NAME##Vector other = *reinterpret_cast<const NAME##Vector*>(packed + LANES);                             \
      for (int i = 0; i < NUM; ++i) {                                                                                \
        sum[i][0] += row[i][input] * one;                                                                            \
        sum[i][1] += row[i][input] * other;                                                                          \
      }                                                                                                              \
    }                                                                                                                \
    for (int i = 0; i < NUM; ++i) {                                                                                  \
      std::memcpy(result[i], &sum[i][0], 4 * LANES);                                                                 \
      std::memcpy(result[i] + LANES, &sum[i][1], 4 * LANES);                                                         \
    }                                                                                                                \
  }                                                                                                                  \
  struct NAME {                                                                                                      \
    static constexpr int64_t kMost = MOST, kOutputs = 2 * LANES;                                                     \
    static void run(int64_t num, const float* const* row, const float* packed, int64_t num_inputs,                   \
                    float* const* result) {                                                                          \
      using Block = void (*)(const float* const*, const float*, int64_t, float* const*);                             \
      static constexpr Block kBlock[] = {NAME##_block<1>, NAME##_block<2>, NAME##_block<3>,                          \
                                         NAME##_block<4>, NAME##_block<5>, NAME##_block<6>};                         \
      kBlock[num - 1](row, packed, num_inputs, result);                                                              \
    }                                                                                                                \
  };

NINJA_MULTIPLY(MultiplyPlain, , 4, 4)
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define NINJA_MULTIPLY_X86
NINJA_MULTIPLY(MultiplyAvx2, __attribute__((target("avx2,fma"))), 8, 6)
NINJA_MULTIPLY(MultiplyAvx512, __attribute__((target("avx512f"))), 16, 6)
#endif

template <class Kernel>
void multiply_with(const std::vector<const float*>& row, const float* packed, const float* bias, int64_t num_outputs,
                   int64_t num_inputs, const std::vector<float*>& result) {
  const int64_t num_rows = static_cast<int64_t>(row.size());
  float sums[Kernel::kMost][Kernel::kOutputs];
  float* target[Kernel::kMost];
  for (int64_t i = 0; i < Kernel::kMost; ++i) target[i] = sums[i];
  for (int64_t first = 0; first < num_outputs; first += Kernel::kOutputs) {
    const float* weights = packed + first / kPanel * kPanel * num_inputs + first % kPanel;
    const int64_t width = std::min(Kernel::kOutputs, num_outputs - first);
    for (int64_t i = 0; i < num_rows; i += Kernel::kMost) {
      const int64_t num = std::min(Kernel::kMost, num_rows - i);
      Kernel::run(num, row.data() + i, weights, num_inputs, target);
      for (int64_t j = 0; j < num; ++j) {
        float* to = result[i + j] + first;
        for (int64_t k = 0; k < width; ++k) to[k] = bias ? sums[j][k] + bias[first + k] : sums[j][k];
      }
    }
  }
}

// The best instruction set of this processor: 0 baseline, 1 AVX2 with FMA, 2 AVX-512.
inline int instruction_level() {
#ifdef NINJA_MULTIPLY_X86
  if (__builtin_cpu_supports("avx512f")) return 2;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 1;
#endif
  return 0;
}

// Computes result[i] [num_outputs] = weights · row[i] + bias from packed weights; a null `bias` is 0. `level` must be
// at most `instruction_level`.
inline void multiply(const std::vector<const float*>& row, const float* packed, const float* bias, int64_t num_outputs,
                     int64_t num_inputs, int level, const std::vector<float*>& result) {
#ifdef NINJA_MULTIPLY_X86
  if (level == 2) return multiply_with<MultiplyAvx512>(row, packed, bias, num_outputs, num_inputs, result);
  if (level == 1) return multiply_with<MultiplyAvx2>(row, packed, bias, num_outputs, num_inputs, result);
#endif
  multiply_with<MultiplyPlain>(row, packed, bias, num_outputs, num_inputs, result);
}

}  // namespace ninja

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
