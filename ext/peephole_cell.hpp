// What Kaldi's LSTM cell does after its matrix product, in one pass over memory.
#pragma once

#include <cstdint>

#include "lstm_cell.hpp"

namespace ninja {

// `gates` [num_rows, 4 * cells], overwritten: input, forget, candidate, output, before their non-linearities.
// `peephole` [3, cells]: how much the cell adds to the input, forget (the cell before) and output gate (the cell after).
// `before` [num_rows, cells], its rows a stride apart; `result` [num_rows, 2 * cells]: the cell, and what it lets out.
NINJA_CLONES void peephole_cell(float* gates, const float* before, int64_t stride, const float* peephole,
                                int64_t num_rows, int64_t cells, float* result) {
  const float *to_in = peephole, *to_forget = peephole + cells, *to_out = peephole + 2 * cells;
  for (int64_t row = 0; row < num_rows; ++row, before += stride, gates += 4 * cells, result += 2 * cells) {
    float *in = gates, *forget = in + cells, *candidate = forget + cells, *out = candidate + cells;
    float *cell = result, *let_out = result + cells;
    for (int64_t i = 0; i < cells; ++i) in[i] += to_in[i] * before[i];
    for (int64_t i = 0; i < cells; ++i) forget[i] += to_forget[i] * before[i];
    sigmoids(in, 2 * cells, in);
    tanhs(candidate, cells, candidate);
    for (int64_t i = 0; i < cells; ++i) cell[i] = forget[i] * before[i] + in[i] * candidate[i];
    for (int64_t i = 0; i < cells; ++i) out[i] += to_out[i] * cell[i];
    sigmoids(out, cells, out);
    tanhs(cell, cells, let_out);
    for (int64_t i = 0; i < cells; ++i) let_out[i] *= out[i];
  }
}

}  // namespace ninja
