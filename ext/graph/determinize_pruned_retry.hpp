// Pruned determinization of a whole lattice: one try, and more on a pruned lattice where the bounds cut it short.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/determinize_pruned.hpp"
#include "graph/determinize_pruned_result.hpp"
#include "core/lattice.hpp"

namespace ninja {

constexpr int32_t kMostTries = 10;

// Cost from each state to the end over the arcs kept.
inline std::vector<double> cost_to_end(const ScaledLattice& lattice, const std::vector<uint8_t>& keep_arc) {
  const Arcs& arcs = lattice.arcs;
  std::vector<double> rest(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    double best = lattice.is_final(state) ? total(lattice.final_cost(state)) : kNever;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      if (keep_arc[arc]) best = std::min(best, total(lattice.cost(arc)) + rest[arcs.dst[arc]]);
    }
    rest[state] = best;
  }
  return rest;
}

// Let go of the arcs from which there is no way to the end.
inline void drop_ways_to_nowhere(const Arcs& arcs, const std::vector<double>& rest, std::vector<uint8_t>& keep_arc) {
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) keep_arc[arc] &= rest[arcs.dst[arc]] < kNever;
}

// Let go of the arcs whose best path is worse than the best of all by more than the beam.
inline void prune_arcs(const ScaledLattice& lattice, const std::vector<double>& rest, double beam,
                       std::vector<uint8_t>& keep_arc) {
  const Arcs& arcs = lattice.arcs;
  std::vector<double> forward(arcs.num_states, kNever);
  forward[0] = 0.0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (forward[state] == kNever) continue;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      if (!keep_arc[arc]) continue;
      const int32_t dst = arcs.dst[arc];
      const double here = forward[state] + total(lattice.cost(arc));
      forward[dst] = std::min(forward[dst], here);
      keep_arc[arc] = here + rest[dst] <= rest[0] + beam;
    }
  }
}

inline DeterminizedLattice determinize_pruned(const Arcs& arcs, const Alignments& labels, double beam,
                                              float acoustic_scale, double retry_cutoff,
                                              const DeterminizeBounds& bounds) {
  const ScaledLattice lattice(arcs, labels, acoustic_scale);
  std::vector<uint8_t> keep_arc(arcs.num_arcs, 1);
  std::vector<double> rest = cost_to_end(lattice, keep_arc);
  DeterminizedLattice result;
  if (!std::isfinite(rest[0])) {
    if (rest[0] != kNever) result.stopped_by = Bound::kPrecision;
    return result;
  }
  drop_ways_to_nowhere(arcs, rest, keep_arc);
  result.beam = beam;
  double slack = 0.0;
  while (true) {
    const SearchedLattice found = PrunedDeterminizer(lattice, keep_arc, rest, result.beam + slack, bounds).run();
    result.stopped_by = found.stopped_by;
    result.effective_beam = std::min(result.beam, found.effective_beam);
    if (found.stopped_by == Bound::kLoop) return result;
    const bool retry = found.stopped_by != Bound::kNone && result.beam < kNever && retry_cutoff > 0.0 &&
                       result.effective_beam < retry_cutoff * result.beam && result.retries + 1 < kMostTries;
    if (!retry) {
      write_sorted(found, acoustic_scale, result);
      // Single precision may leave no whole path within a beam near 0; then the beam gives way by what rounding takes.
      if (result.num_states > 0 || found.stopped_by != Bound::kNone || slack > 1.0 + std::fabs(rest[0])) return result;
      slack = slack == 0.0 ? 1e-6 * (1.0 + std::fabs(rest[0])) : 10.0 * slack;
      continue;
    }
    // Kaldi's rule: the less was reached, the more goes, but never more than half.
    const double reached = std::sqrt(result.effective_beam / result.beam);
    result.beam *= std::max(0.5, reached);
    ++result.retries;
    prune_arcs(lattice, rest, result.beam, keep_arc);
    rest = cost_to_end(lattice, keep_arc);
    drop_ways_to_nowhere(arcs, rest, keep_arc);
  }
}

}  // namespace ninja
