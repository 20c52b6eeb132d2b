// What an arc costs: the two costs of a lattice joined into one by the scales of a computation.
#pragma once

#include "core/lattice.hpp"

namespace ninja {

constexpr double kNoPath = std::numeric_limits<double>::infinity();

struct Scales {
  double acoustic;
  double lm;
  double word_penalty;  // added to each arc that carries a word
};

inline double arc_cost(const Arcs& arcs, int64_t arc, const Scales& scales) {
  return scales.lm * arcs.graph[arc] + scales.acoustic * arcs.acoustic[arc] +
         (arcs.word[arc] != 0 ? scales.word_penalty : 0.0);
}

// Asks first whether the state is final: a scale of 0 would turn the infinite cost into NaN.
inline double final_cost(const Arcs& arcs, int64_t state, const Scales& scales) {
  if (!is_final(arcs, state)) return kNoPath;
  return scales.lm * arcs.final_graph[state] + scales.acoustic * arcs.final_acoustic[state];
}

// Kaldi's tools scale a lattice before they look at it, so their scales and scaled costs are single precision.
// Arcs at the very edge of a beam fall on the same side only if ours are too.
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
