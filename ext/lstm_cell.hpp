// What an LSTM cell does between its two matrix products, in one pass over memory.
#pragma once

#include <cstdint>

#include "exponential.hpp"

namespace ninja {

// Loops over one function of one array each: these the compiler turns into vector instructions, a whole cell it does not.
inline void sigmoids(const float* x, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = 1.0f / (1.0f + exponential(-x[i]));
}
inline void tanhs(const float* x, int64_t size, float* y) {  // within 3e-7
  for (int64_t i = 0; i < size; ++i) y[i] = 2.0f / (1.0f + exponential(-2.0f * x[i])) - 1.0f;
}

// `gates` [num_rows, 4 * cells]: input, forget, output, candidate, before their non-linearities; overwritten.
// `old_cell` and `new_cell` [num_rows, cells], their rows a stride apart; `output` [num_rows, cells].
NINJA_CLONES void lstm_cell(float* gates, const float* old_cell, int64_t old_stride, float* new_cell,
                            int64_t new_stride, int64_t num_rows, int64_t cells, float* output) {
  for (int64_t row = 0; row < num_rows; ++row) {
    float *in = gates + row * 4 * cells, *forget = in + cells, *out = forget + cells, *candidate = out + cells;
    const float* before = old_cell + row * old_stride;
    float *after = new_cell + row * new_stride, *to = output + row * cells;
    sigmoids(in, 3 * cells, in);
    tanhs(candidate, cells, candidate);
    for (int64_t i = 0; i < cells; ++i) after[i] = forget[i] * before[i] + in[i] * candidate[i];
    tanhs(after, cells, to);
    for (int64_t i = 0; i < cells; ++i) to[i] *= out[i];
  }
}

}  // namespace ninja
