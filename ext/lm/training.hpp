// Kernels that train recurrent networks in bfloat16: cells and sampled softmaxes between their matrix products.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/clones.hpp"
#include "lm/cells.hpp"

// As in cells.hpp: no cost of a lattice is added up here, so that operations may be fused.
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

inline bfloat16 rounded(float x) {  // to nearest, ties to even; x is a number
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<bfloat16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline void widen(const bfloat16* x, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = widened(x[i]);
}
inline void round_to(const float* x, int64_t size, bfloat16* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = rounded(x[i]);
}

// A step of an LSTM layer between its products. Gates are ordered input, forget, candidate, output, as torch has them.
// `entry` [.., 4 * cells]: what the layer's input adds to the gates, row entry_row[i] for row i; `recurrent`
// [num_rows, 4 * cells]: what the last output adds, or null in the first step; `bias` [4 * cells].
// `old_cell` [num_rows, cells], or null: zeros. Filled in: `gates`, after their non-linearities, for the way back,
// `cell`, and `hidden`, what the cell lets out.
NINJA_CLONES void train_cell(const bfloat16* entry, const int64_t* entry_row, const bfloat16* recurrent,
                             const float* bias, const float* old_cell, int64_t num_rows, int64_t cells,
                             bfloat16* gates, float* cell, bfloat16* hidden) {
  std::vector<float> buffer(static_cast<size_t>(4 * cells)), tanh_cell(static_cast<size_t>(cells));
  float *in = buffer.data(), *forget = in + cells, *candidate = forget + cells, *out = candidate + cells;
  for (int64_t row = 0; row < num_rows; ++row) {
    const bfloat16* from = entry + entry_row[row] * 4 * cells;
    for (int64_t i = 0; i < 4 * cells; ++i) in[i] = bias[i] + widened(from[i]);
    if (recurrent) {
      const bfloat16* more = recurrent + row * 4 * cells;
      for (int64_t i = 0; i < 4 * cells; ++i) in[i] += widened(more[i]);
    }
    sigmoids(in, 2 * cells, in);
    tanhs(candidate, cells, candidate);
    sigmoids(out, cells, out);
    round_to(in, 4 * cells, gates + row * 4 * cells);
    float* after = cell + row * cells;
    for (int64_t i = 0; i < cells; ++i) after[i] = in[i] * candidate[i];
    if (old_cell) {
      const float* before = old_cell + row * cells;
      for (int64_t i = 0; i < cells; ++i) after[i] += forget[i] * before[i];
    }
    tanhs(after, cells, tanh_cell.data());
    bfloat16* to = hidden + row * cells;
    for (int64_t i = 0; i < cells; ++i) to[i] = rounded(tanh_cell[i] * out[i]);
  }
}

// The way back through `train_cell`. `hidden_slope` [num_rows, cells]: of the loss by what the cell lets out;
// `cell_slope` [num_rows, cells]: by the new cell from later steps, replaced by that of the old cell.
// `gates_slope` [num_rows, 4 * cells]: by the gates before their non-linearities; `bias_slope` [4 * cells]: its sum over
// rows is added.
NINJA_CLONES void train_cell_back(const bfloat16* gates, const float* old_cell, const float* cell,
                                  const bfloat16* hidden_slope, int64_t num_rows, int64_t cells, float* cell_slope,
                                  bfloat16* gates_slope, float* bias_slope) {
  std::vector<float> buffer(static_cast<size_t>(5 * cells));
  float *in = buffer.data(), *forget = in + cells, *candidate = forget + cells, *out = candidate + cells;
  float* squashed = out + cells;
  for (int64_t row = 0; row < num_rows; ++row) {
    widen(gates + row * 4 * cells, 4 * cells, in);
    tanhs(cell + row * cells, cells, squashed);
    const bfloat16* above = hidden_slope + row * cells;
    const float* before = old_cell ? old_cell + row * cells : nullptr;
    float* slope = cell_slope + row * cells;
    for (int64_t i = 0; i < cells; ++i) {
      const float by_hidden = widened(above[i]);
      const float by_cell = slope[i] + by_hidden * out[i] * (1.0f - squashed[i] * squashed[i]);
      out[i] = by_hidden * squashed[i] * out[i] * (1.0f - out[i]);
      const float by_in = by_cell * candidate[i] * in[i] * (1.0f - in[i]);
      candidate[i] = by_cell * in[i] * (1.0f - candidate[i] * candidate[i]);
      in[i] = by_in;
      slope[i] = by_cell;
    }
    if (before) {
      for (int64_t i = 0; i < cells; ++i) {
        const float by_cell = slope[i];
        slope[i] = by_cell * forget[i];
        forget[i] = by_cell * before[i] * forget[i] * (1.0f - forget[i]);
      }
    } else {
      for (int64_t i = 0; i < cells; ++i) forget[i] = 0.0f;
    }
    for (int64_t i = 0; i < 4 * cells; ++i) bias_slope[i] += in[i];
    round_to(in, 4 * cells, gates_slope + row * 4 * cells);
  }
}

// Add row i of `rows` [num_rows, width] to row to[i] of `sums` [.., width].
NINJA_CLONES void add_rows(const bfloat16* rows, const int64_t* to, int64_t num_rows, int64_t width, float* sums) {
  for (int64_t row = 0; row < num_rows; ++row, rows += width) {
    float* sum = sums + to[row] * width;
    for (int64_t i = 0; i < width; ++i) sum[i] += widened(rows[i]);
  }
}

// Softmaxes over a sample of the vocabulary and each row's target.
// `score` [num_rows, length]: of the sample, without `offset` [length]; replaced by the loss's slope, scaled by
// `share` and, where the penalty `self_normalize` is not 0, by 1 + 2 * self_normalize * normaliser.
// `target_score` [num_rows]: complete. `hit` [num_rows]: the target's place in the sample, which is left out, or -1.
// Filled in: `normaliser` [num_rows], `target_slope` [num_rows]; added to: `offset_slope` [length].
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
