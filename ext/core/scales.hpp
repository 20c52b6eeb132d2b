// The total cost of an arc, computed from its graph and acoustic cost with scales.
#pragma once

#include "core/lattice.hpp"

namespace ninja {

constexpr double kNoPath = std::numeric_limits<double>::infinity();

struct Scales {
  double acoustic;
  double lm;
  double word_penalty;  // added to each arc that has a word
};

inline double arc_cost(const Arcs& arcs, int64_t arc, const Scales& scales) {
  return scales.lm * arcs.graph[arc] + scales.acoustic * arcs.acoustic[arc] +
         (arcs.word[arc] != 0 ? scales.word_penalty : 0.0);
}

// Finality is tested first, because a scale of 0 would convert the infinite cost to NaN.
inline double final_cost(const Arcs& arcs, int64_t state, const Scales& scales) {
  if (!is_final(arcs, state)) return kNoPath;
  return scales.lm * arcs.final_graph[state] + scales.acoustic * arcs.final_acoustic[state];
}

// Kaldi's tools scale a lattice before they process it, so their scales and scaled costs have single precision. The
// same precision is needed to keep the same arcs at the edge of a beam.
inline double single(double cost) { return static_cast<float>(cost); }

inline Scales single(const Scales& scales) {
  return {single(scales.acoustic), single(scales.lm), single(scales.word_penalty)};
}

inline double single_arc_cost(const Arcs& arcs, int64_t arc, const Scales& scales) {
  return single(scales.lm * arcs.graph[arc]) + single(scales.acoustic * arcs.acoustic[arc]) +
         (arcs.word[arc] != 0 ? scales.word_penalty : 0.0);
}

inline double single_final_cost(const Arcs& arcs, int64_t state, const Scales& scales) {
  if (!is_final(arcs, state)) return kNoPath;
  return single(scales.lm * arcs.final_graph[state]) + single(scales.acoustic * arcs.final_acoustic[state]);
}

}  // namespace ninja
