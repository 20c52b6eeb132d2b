// Kernels of neural networks: log-normalisers of softmaxes, cells between matrix products, scores of words, and copies
// of rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/clones.hpp"

// Fused operations are allowed, because this file does not sum lattice costs. The compiler can vectorise loops with
// comparisons only without trapping math.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math", "fp-contract=fast")
#endif

namespace ninja {

// Computes e^x with an error of at most two units in the last place; x is clamped to [-87, 87]. As in Cephes' expf, x
// is split into a multiple of ln 2 and a remainder in ±ln(2)/2, for which a polynomial is evaluated.
inline float exponential(float x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer in the low bits
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
  bits += static_cast<int32_t>(static_cast<uint32_t>(exponent) << 23);  // the bits of the rounder are shifted out
  std::memcpy(&p, &bits, 4);
  return p;
}

constexpr int64_t kLanes = 64;  // number of independent sums, which fill vector registers and hide latency

// Computes log-normalisers of a softmax over a large vocabulary in two passes: for the greatest score, and for the sum.
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

// Each loop applies one function to one array: compilers vectorise such loops, but not a loop over a whole cell.
inline void sigmoids(const float* x, int64_t size, float* y) {
  for (int64_t i = 0; i < size; ++i) y[i] = 1.0f / (1.0f + exponential(-x[i]));
}
inline void tanhs(const float* x, int64_t size, float* y) {  // within 3e-7
  for (int64_t i = 0; i < size; ++i) y[i] = 2.0f / (1.0f + exponential(-2.0f * x[i])) - 1.0f;
}

// `gates` [num_rows, 4 * cells]: input, forget, output, candidate, before their non-linearities; overwritten.
// `old_cell` and `new_cell` [num_rows, cells], with a row stride; `output` [num_rows, cells].
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

// Rows of a matrix that need not be adjacent: row i of an operand is at first + row[i] * stride.
template <class T>
struct Rows {
  T* first;
  const int64_t* row;
  int64_t stride;  // number of elements from the start of a row to the start of the next
  T* operator[](int64_t i) const { return first + row[i] * stride; }
};

// One step of an LSTM layer, with the gates in the order of `lstm_cell`. Its inputs are sums of two rows: `below`,
// which depends on the layer below, and `before`, which depends on the history and is shared by its continuations.
// `gates` [4 * cells] is scratch memory; `output` [num_rows, cells].
NINJA_CLONES void lstm_step(Rows<const float> below, Rows<const float> before, Rows<const float> old_cell,
                            Rows<float> new_cell, int64_t num_rows, int64_t cells, float* gates, float* output) {
  float *in = gates, *forget = in + cells, *out = forget + cells, *candidate = out + cells;
  for (int64_t row = 0; row < num_rows; ++row) {
    const float *one = below[row], *other = before[row], *old = old_cell[row];
    float *after = new_cell[row], *to = output + row * cells;
    for (int64_t i = 0; i < 4 * cells; ++i) gates[i] = one[i] + other[i];
    sigmoids(in, 3 * cells, in);
    tanhs(candidate, cells, candidate);
    for (int64_t i = 0; i < cells; ++i) after[i] = forget[i] * old[i] + in[i] * candidate[i];
    tanhs(after, cells, to);
    for (int64_t i = 0; i < cells; ++i) to[i] *= out[i];
  }
}

// Computes Kaldi's LSTM cells from the results of the matrix product.
// `gates` [num_rows, 4 * cells], overwritten: input, forget, candidate, output, before their non-linearities.
// `peephole` [3, cells]: weights of the previous cell for the input and forget gates, and of the new cell for the
// output gate.
// `before` [num_rows, cells], with a row stride; `result` [num_rows, 2 * cells]: the cell and its output.
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

// Computes the score of word[i] after output i: the product of the output and row word[i] of `embedding`, times
// scale[word[i]] unless `scale` is null, plus bias[word[i]] unless `bias` is null.
template <class T>
inline void word_scores_of(Rows<const float> output, const T* embedding, const float* scale, const float* bias,
                           const int32_t* word, int64_t num_rows, int64_t width, float* score) {
  constexpr int64_t kAhead = 4, kLine = 64 / sizeof(T);  // rows to prefetch; elements in a cache line
  const int64_t whole = width / kLanes * kLanes;
  for (int64_t row = 0; row < num_rows; ++row) {
    if (row + kAhead < num_rows) {
      const T* later = embedding + word[row + kAhead] * width;
      for (int64_t i = 0; i < width; i += kLine) __builtin_prefetch(later + i);
    }
    const float* one = output[row];
    const T* other = embedding + word[row] * width;
    float sum[kLanes] = {};
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) sum[lane] += one[i + lane] * static_cast<float>(other[i + lane]);
    }
    float rest = 0.0f;
    for (int64_t i = whole; i < width; ++i) rest += one[i] * static_cast<float>(other[i]);
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
    }
    const float product = sum[0] + rest;
    score[row] = (scale ? product * scale[word[row]] : product) + (bias ? bias[word[row]] : 0.0f);
  }
}
NINJA_CLONES void word_scores(Rows<const float> output, const float* embedding, const float* scale, const float* bias,
                              const int32_t* word, int64_t num_rows, int64_t width, float* score) {
  word_scores_of(output, embedding, scale, bias, word, num_rows, width, score);
}
NINJA_CLONES void word_scores(Rows<const float> output, const int8_t* embedding, const float* scale, const float* bias,
                              const int32_t* word, int64_t num_rows, int64_t width, float* score) {
  word_scores_of(output, embedding, scale, bias, word, num_rows, width, score);
}

// Replaces each number x with x / (1 + e^-x).
NINJA_CLONES void silu(float* x, int64_t size) {
  for (int64_t i = 0; i < size; ++i) x[i] /= 1.0f + exponential(-x[i]);
}

struct Columns {
  const float* first;  // row 0
  int64_t stride;      // number of elements from the start of a row to the start of the next
  int64_t width;
};

// Writes the concatenation of row i of all pieces to row slot[i] of `slab`.
inline void scatter_rows(const std::vector<Columns>& pieces, const int64_t* slot, int64_t num_rows, float* slab,
                         int64_t stride) {
  for (int64_t row = 0; row < num_rows; ++row) {
    float* to = slab + slot[row] * stride;
    for (const Columns& piece : pieces) {
      std::memcpy(to, piece.first + row * piece.stride, piece.width * sizeof(float));
      to += piece.width;
    }
  }
}

}  // namespace ninja

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
