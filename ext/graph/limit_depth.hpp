// Keep only the best arcs that cross each frame.
#pragma once

#include <algorithm>

#include "core/scales.hpp"
#include "graph/select.hpp"

namespace ninja {

// An arc and how far the best path through it lies from the best one: 0 or a little more, in single precision as in
// Kaldi, where that makes ties.
struct Crossing {
  float logprob;
  int64_t arc;
  bool operator<(const Crossing& other) const { return logprob < other.logprob; }
};

// Source: Kaldi, lat/lattice-functions.cc, CompactLatticeLimitDepth.
inline void limit_depth(const Arcs& arcs, const Alignments& alignments, const Scales& exact, const int32_t* time,
                        int64_t frames, int64_t max_arcs_per_frame, Selection& selection) {
  const Scales scales = single(exact);
  const int64_t num_states = arcs.num_states;
  std::vector<double> forward(num_states, kNoPath), backward(num_states);
  forward[0] = 0.0;
  double best = kNoPath;
  for (int64_t state = 0; state < num_states; ++state) {
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int32_t dst = arcs.dst[arc];
      forward[dst] = std::min(forward[dst], forward[state] + single_arc_cost(arcs, arc, scales));
    }
    best = std::min(best, forward[state] + single_final_cost(arcs, state, scales));
  }
  for (int64_t state = num_states - 1; state >= 0; --state) {
    backward[state] = single_final_cost(arcs, state, scales);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      backward[state] = std::min(backward[state], backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales));
    }
  }
  best = 0.5 * (best + backward[0]);

  selection.resize(arcs);
  std::vector<std::vector<Crossing>> crossings(frames);
  for (int64_t state = 0; state < num_states; ++state) {
    selection.keep_final[state] = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double through = forward[state] + backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales);
      selection.keep_arc[arc] = through < kNoPath;  // the others are on no path and must not take a place
      if (!selection.keep_arc[arc]) continue;
      const Crossing crossing{static_cast<float>(best - through), arc};
      for (int64_t frame = time[state]; frame < time[arcs.dst[arc]]; ++frame) crossings[frame].push_back(crossing);
    }
  }
  for (std::vector<Crossing>& here : crossings) {
    const int64_t surplus = static_cast<int64_t>(here.size()) - max_arcs_per_frame;
    if (surplus <= 0) continue;
    std::nth_element(here.begin(), here.begin() + surplus, here.end());
    for (int64_t rank = 0; rank < surplus; ++rank) selection.keep_arc[here[rank].arc] = 0;
  }
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
  if (selection.num_states > 0 || !(best < kNoPath)) return;
  // Equally good paths took each other's places: the first of them stays.
  for (int64_t state = 0; backward[state] != single_final_cost(arcs, state, scales);) {
    int64_t arc = arcs.arc_begin[state];
    while (backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales) != backward[state]) ++arc;
    selection.keep_arc[arc] = 1;
    state = arcs.dst[arc];
  }
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
}

}  // namespace ninja
