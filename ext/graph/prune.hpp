// Beam pruning: keep the arcs on paths within the beam of the best path.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/scales.hpp"
#include "graph/select.hpp"

namespace ninja {

struct PruneWorkspace {
  std::vector<double> cost;      // [num_arcs]
  std::vector<double> forward;   // [num_states], best cost from the start
  std::vector<double> backward;  // [num_states], best cost to the end
  std::vector<double> stop;      // [num_states], final cost
};

// Costs are added in the order of Kaldi's PruneLattice, so that the same arcs are kept at the edge of the beam.
inline void prune(const Arcs& arcs, const Alignments& alignments, const Scales& exact, double beam,
                  Selection& selection) {
  static thread_local PruneWorkspace space;
  const Scales scales = single(exact);
  const int64_t num_states = arcs.num_states;
  space.cost.resize(arcs.num_arcs);
  space.forward.assign(num_states, kNoPath);
  space.backward.resize(num_states);
  space.stop.resize(num_states);
  selection.resize(arcs);
  double* cost = space.cost.data();
  double* forward = space.forward.data();
  double* backward = space.backward.data();
  double* stop = space.stop.data();
  uint8_t* keep_arc = selection.keep_arc.data();
  uint8_t* keep_final = selection.keep_final.data();
  uint8_t* alive = selection.alive.data();
  const int64_t* arc_begin = arcs.arc_begin;  // local copies, because stores of bytes may alias anything
  const int32_t* arc_dst = arcs.dst;

  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) cost[arc] = single_arc_cost(arcs, arc, scales);
  forward[0] = 0.0;
  double best = kNoPath;
  for (int64_t state = 0; state < num_states; ++state) {
    const double here = forward[state];
    for (int64_t arc = arc_begin[state], end = arc_begin[state + 1]; arc < end; ++arc) {
      const int32_t dst = arc_dst[arc];
      forward[dst] = std::min(forward[dst], here + cost[arc]);
    }
    stop[state] = single_final_cost(arcs, state, scales);
    best = std::min(best, here + stop[state]);
  }
  // Due to rounding, a beam near 0 may contain no complete path; it is then increased by the rounding error.
  for (double slack = 0.0;; slack = slack == 0.0 ? 1e-12 : 10.0 * slack) {
    const double cutoff = best + beam + slack * (1.0 + std::fabs(best));
    for (int64_t state = num_states - 1; state >= 0; --state) {
      const double here = forward[state];
      double to_end = stop[state];
      uint8_t any = to_end < kNoPath && to_end + here <= cutoff;
      keep_final[state] = any;
      for (int64_t arc = arc_begin[state], end = arc_begin[state + 1]; arc < end; ++arc) {
        const int32_t dst = arc_dst[arc];
        const double through = cost[arc] + backward[dst];
        to_end = std::min(to_end, through);
        const uint8_t keep = (here + through <= cutoff) & alive[dst];
        keep_arc[arc] = keep;
        any |= keep;
      }
      alive[state] = any;
      backward[state] = to_end;
    }
    number_kept(arcs, alignments, selection);
    if (selection.num_states > 0 || !(best < kNoPath) || slack > 1.0) return;
  }
}

}  // namespace ninja
