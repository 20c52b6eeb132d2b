// The result of a search as a lattice, whose states are the surviving hypotheses and whose arcs are their links.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/copies.hpp"
#include "search/search.hpp"

namespace ninja {

// Hypotheses are numbered level by level, so the states are in topological order. Dead ends are removed.
inline Copies expansion(const Search& search) {
  Copies out;
  const auto& hyps = search.hypotheses();
  const auto& links = search.links();
  std::vector<char> useful(hyps.size());
  for (size_t h = 0; h < hyps.size(); ++h) useful[h] = hyps[h].final_graph < kInfinity;
  for (size_t i = links.size(); i-- > 0;) useful[links[i].from] |= useful[links[i].to];  // links are sorted by `to`

  std::vector<int32_t> state(hyps.size(), -1);
  for (size_t h = 0; h < hyps.size(); ++h) {
    if (!useful[h]) continue;
    state[h] = static_cast<int32_t>(out.state_map.size());
    out.state_map.push_back(hyps[h].state);
    out.final_graph.push_back(hyps[h].final_graph);
  }
  out.arc_begin.assign(out.state_map.size() + 1, 0);
  for (const auto& link : links) {
    if (state[link.to] >= 0) ++out.arc_begin[state[link.from] + 1];
  }
  for (size_t s = 0; s + 1 < out.arc_begin.size(); ++s) out.arc_begin[s + 1] += out.arc_begin[s];
  const int64_t num_arcs = out.arc_begin.back();
  out.dst.resize(num_arcs);
  out.graph.resize(num_arcs);
  out.arc_map.resize(num_arcs);
  std::vector<int64_t> place(out.arc_begin.begin(), out.arc_begin.end() - 1);
  for (const auto& link : links) {
    if (state[link.to] < 0) continue;
    int64_t arc = place[state[link.from]]++;
    out.dst[arc] = state[link.to];
    out.graph[arc] = link.graph;
    out.arc_map[arc] = link.arc;
  }
  return out;
}

// The graph cost of each arc and final state of the searched lattice on the best path of the expansion that contains
// it; +inf if there is none. The cost of a path is acoustic_scale * acoustic + graph + word_penalty per word.
inline void replaced_costs(const Copies& out, const Arcs& arcs, double acoustic_scale, double word_penalty,
                           float* graph, float* final_graph) {
  const int64_t n = static_cast<int64_t>(out.state_map.size());
  auto cost = [&](int64_t i) {
    const int64_t arc = out.arc_map[i];
    return acoustic_scale * arcs.acoustic[arc] + out.graph[i] + (arcs.word[arc] != 0 ? word_penalty : 0.0);
  };
  auto end = [&](int64_t s) {
    return out.final_graph[s] == kInfinity
               ? kNever
               : out.final_graph[s] + acoustic_scale * arcs.final_acoustic[out.state_map[s]];
  };
  std::vector<double> so_far(n, kNever), ahead(n, kNever);
  for (int64_t s = n - 1; s >= 0; --s) {
    ahead[s] = end(s);
    for (int64_t i = out.arc_begin[s]; i < out.arc_begin[s + 1]; ++i) {
      ahead[s] = std::min(ahead[s], cost(i) + ahead[out.dst[i]]);
    }
  }
  std::vector<double> best_arc(arcs.num_arcs, kNever), best_end(arcs.num_states, kNever);
  std::fill(graph, graph + arcs.num_arcs, kInfinity);
  std::fill(final_graph, final_graph + arcs.num_states, kInfinity);
  if (n > 0) so_far[0] = 0.0;
  for (int64_t s = 0; s < n; ++s) {
    const int64_t state = out.state_map[s];
    if (so_far[s] + end(s) < best_end[state]) {
      best_end[state] = so_far[s] + end(s);
      final_graph[state] = out.final_graph[s];
    }
    for (int64_t i = out.arc_begin[s]; i < out.arc_begin[s + 1]; ++i) {
      const double here = so_far[s] + cost(i);
      so_far[out.dst[i]] = std::min(so_far[out.dst[i]], here);
      if (here + ahead[out.dst[i]] < best_arc[out.arc_map[i]]) {
        best_arc[out.arc_map[i]] = here + ahead[out.dst[i]];
        graph[out.arc_map[i]] = out.graph[i];
      }
    }
  }
}

}  // namespace ninja
