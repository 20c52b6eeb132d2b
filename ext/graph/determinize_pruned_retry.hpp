// Pruned determinization of a lattice, repeated with smaller beams if a bound stops it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/determinize_pruned.hpp"
#include "graph/determinize_pruned_result.hpp"
#include "graph/potential.hpp"
#include "core/lattice.hpp"

namespace ninja {

constexpr int32_t kMostTries = 10;

// Cost from each state to the end over the arcs that are kept.
inline std::vector<double> cost_to_end(const ScaledLattice& lattice, const std::vector<uint8_t>& keep_arc) {
  return cost_to_end(
      lattice.arcs, [&](int64_t arc) { return keep_arc[arc] ? total(lattice.cost(arc)) : kNever; },
      [&](int64_t state) { return lattice.is_final(state) ? total(lattice.final_cost(state)) : kNever; });
}

// Drop the arcs from which no final state can be reached.
inline void drop_dead_ends(const Arcs& arcs, const std::vector<double>& rest, std::vector<uint8_t>& keep_arc) {
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) keep_arc[arc] &= rest[arcs.dst[arc]] < kNever;
}

// Drop the arcs whose best path costs more than the best path of all plus the beam.
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
  drop_dead_ends(arcs, rest, keep_arc);
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
      // In single precision no complete path may lie within a beam near 0: increase it by the rounding error.
      if (result.num_states > 0 || found.stopped_by != Bound::kNone || slack > 1.0 + std::fabs(rest[0])) return result;
      slack = slack == 0.0 ? 1e-6 * (1.0 + std::fabs(rest[0])) : 10.0 * slack;
      continue;
    }
    // Kaldi's rule: reduce the beam according to the beam that was reached, by half at most.
    const double reached = std::sqrt(result.effective_beam / result.beam);
    result.beam *= std::max(0.5, reached);
    ++result.retries;
    prune_arcs(lattice, rest, result.beam, keep_arc);
    rest = cost_to_end(lattice, keep_arc);
    drop_dead_ends(arcs, rest, keep_arc);
  }
}

}  // namespace ninja
