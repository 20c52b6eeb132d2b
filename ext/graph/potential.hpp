// Best completions of the states of a lattice, and the extreme costs of its paths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

// A pair of costs, ordered as Kaldi orders them: by the total, ties by graph minus acoustic cost.
struct Costs {
  double total = kNever;
  double graph = kNever;
  double acoustic = kNever;
};

inline bool better(const Costs& a, const Costs& b) {
  return a.total < b.total || (a.total == b.total && a.graph - a.acoustic < b.graph - b.acoustic);
}

inline Costs costs(double graph, double acoustic, double acoustic_scale) {
  return {acoustic_scale * acoustic + graph, graph, acoustic};
}

inline Costs operator+(const Costs& a, const Costs& b) {
  return {a.total + b.total, a.graph + b.graph, a.acoustic + b.acoustic};
}

inline Costs arc_costs(const Arcs& arcs, int64_t arc, double acoustic_scale) {
  return costs(arcs.graph[arc], arcs.acoustic[arc], acoustic_scale);
}

inline Costs final_costs(const Arcs& arcs, int64_t state, double acoustic_scale) {
  return is_final(arcs, state) ? costs(arcs.final_graph[state], arcs.final_acoustic[state], acoustic_scale) : Costs();
}

// For each state, 1 if a final state can be reached.
inline std::vector<uint8_t> coaccessible(const Arcs& arcs) {
  std::vector<uint8_t> leads(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    leads[state] = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc)
      leads[state] |= leads[arcs.dst[arc]];
  }
  return leads;
}

// Cost of the best path from each state to the end, where `arc_cost(arc)` and `final_cost(state)` may be infinite.
template <class ArcCost, class FinalCost>
std::vector<double> cost_to_end(const Arcs& arcs, const ArcCost& arc_cost, const FinalCost& final_cost) {
  std::vector<double> rest(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    double best = final_cost(state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      best = std::min(best, arc_cost(arc) + rest[arcs.dst[arc]]);
    }
    rest[state] = best;
  }
  return rest;
}

// Costs of the best path from each state to the end, according to `better`.
inline std::vector<Costs> best_completion(const Arcs& arcs, double acoustic_scale) {
  std::vector<Costs> rest(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    rest[state] = final_costs(arcs, state, acoustic_scale);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest[arcs.dst[arc]];
      if (after.total == kNever) continue;
      const Costs through = arc_costs(arcs, arc, acoustic_scale) + after;
      if (better(through, rest[state])) rest[state] = through;
    }
  }
  return rest;
}

// Smallest and largest cost of a path from state 0 to a final state of an acyclic machine in topological order.
inline void path_extremes(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, const double* cost,
                          const double* final_cost, double* least, double* most) {
  std::vector<double> low(num_states, kNever), high(num_states, -kNever);
  for (int64_t state = num_states - 1; state >= 0; --state) {
    if (final_cost[state] < kNever) low[state] = high[state] = final_cost[state];
    for (int64_t arc = arc_begin[state]; arc < arc_begin[state + 1]; ++arc) {
      if (low[dst[arc]] == kNever) continue;
      low[state] = std::min(low[state], cost[arc] + low[dst[arc]]);
      high[state] = std::max(high[state], cost[arc] + high[dst[arc]]);
    }
  }
  *least = num_states > 0 ? low[0] : kNever;
  *most = num_states > 0 ? high[0] : -kNever;
}

}  // namespace ninja
