// Epsilon removal that keeps both costs and the alignment of the best path between any two states.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "core/lattice.hpp"
#include "graph/growing_lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

struct EpsilonFree : GrowingLattice {
  std::vector<int32_t> state;  // [new states] old state of each; empty if no path leads to a final state
  bool exceeds_range = false;  // whether a cost exceeds single precision
};

// A state of an epsilon closure, with the best epsilon path to it. The labels of the path are the labels of the path to
// the source of `arc`, followed by the labels of `arc`.
struct Reached {
  Costs cost;
  int64_t arc = -1;  // the last epsilon with labels, -1 if there is none
  bool is_reached = false;
};

// For every state and every epsilon path that leaves it, copy the arcs at the end of the path to the state. Among
// copies with the same word and destination, the best is kept. The result has only states on a path to a final state.
inline EpsilonFree remove_epsilons(const Arcs& arcs, const Alignments& labels, double acoustic_scale, int64_t max_arcs,
                                   int64_t max_labels) {
  EpsilonFree result;
  const std::vector<uint8_t> leads = coaccessible(arcs);
  if (arcs.num_states == 0 || !leads[0]) return result;

  std::vector<uint8_t> wanted(arcs.num_states, 0);
  wanted[0] = 1;
  std::vector<Reached> closure(arcs.num_states);
  std::vector<int64_t> reached;                                                       // states of the closure
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<int64_t>> waiting;  // lowest state first
  std::map<std::pair<int32_t, int32_t>, size_t> place_of;  // (destination, word) -> index into kept
  std::vector<std::pair<Costs, int64_t>> kept;             // (cost, arc), in the order they were found
  std::vector<int32_t> source_of(arcs.num_arcs);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    std::fill(source_of.begin() + arcs.arc_begin[state], source_of.begin() + arcs.arc_begin[state + 1], state);
  }
  std::vector<int64_t> chain;
  const auto append_chain = [&](int64_t state, std::vector<int32_t>& pool) {
    chain.clear();
    for (int64_t arc = closure[state].arc; arc >= 0; arc = closure[source_of[arc]].arc) chain.push_back(arc);
    for (auto arc = chain.rbegin(); arc != chain.rend(); ++arc) append_labels(labels.ali, labels.ali_begin, *arc, pool);
  };
  const auto reach = [&](int64_t state) -> Reached& {
    if (!closure[state].is_reached) {
      closure[state].is_reached = true;
      reached.push_back(state);
      waiting.push(state);
    }
    return closure[state];
  };

  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!wanted[state]) continue;
    for (const int64_t earlier : reached) closure[earlier] = Reached();
    reached.clear();
    place_of.clear();
    kept.clear();
    reach(state).cost = {0.0, 0.0, 0.0};
    Costs end;
    int64_t end_state = -1;
    while (!waiting.empty()) {  // in topological order, so that the best path to a state is known
      const int64_t at = waiting.top();
      waiting.pop();
      const Costs here = closure[at].cost;
      const Costs stop = here + final_costs(arcs, at, acoustic_scale);
      if (is_final(arcs, at) && (end_state < 0 || better(stop, end))) {
        end = stop;
        end_state = at;
      }
      for (int64_t arc = arcs.arc_begin[at]; arc < arcs.arc_begin[at + 1]; ++arc) {
        if (!leads[arcs.dst[arc]]) continue;
        const Costs through = here + arc_costs(arcs, arc, acoustic_scale);
        if (arcs.word[arc] == 0) {
          Reached& next = reach(arcs.dst[arc]);
          const bool has_labels = labels.ali_begin[arc] < labels.ali_begin[arc + 1];
          if (better(through, next.cost)) next = {through, has_labels ? arc : closure[at].arc, true};
        } else {
          const auto [found, is_new] = place_of.try_emplace({arcs.dst[arc], arcs.word[arc]}, kept.size());
          if (is_new) {
            kept.emplace_back(through, arc);
          } else if (better(through, kept[found->second].first)) {
            kept[found->second] = {through, arc};
          }
        }
      }
    }
    for (const auto& [cost, arc] : kept) {
      append_chain(source_of[arc], result.ali);
      append_labels(labels.ali, labels.ali_begin, arc, result.ali);
      result.too_large = static_cast<int64_t>(result.ali.size()) > max_labels;
      if (result.too_large) return result;
      const auto graph = static_cast<float>(cost.graph), acoustic = static_cast<float>(cost.acoustic);
      result.exceeds_range |= !std::isfinite(graph) || !std::isfinite(acoustic);
      result.add_arc(arcs.dst[arc], arcs.word[arc], graph, acoustic);
      wanted[arcs.dst[arc]] = 1;
    }
    if (end_state >= 0) {
      append_chain(end_state, result.final_ali);
      append_labels(labels.final_ali, labels.final_ali_begin, end_state, result.final_ali);
    }
    const auto graph = static_cast<float>(end.graph), acoustic = static_cast<float>(end.acoustic);
    result.exceeds_range |= end_state >= 0 && (!std::isfinite(graph) || !std::isfinite(acoustic));
    result.close_state(end_state >= 0, graph, acoustic);
    result.state.push_back(static_cast<int32_t>(state));
    result.too_large = result.num_arcs() > max_arcs;
    if (result.too_large) return result;
  }
  std::vector<int32_t> place(arcs.num_states, -1);
  for (size_t i = 0; i < result.state.size(); ++i) place[result.state[i]] = static_cast<int32_t>(i);
  for (int32_t& dst : result.dst) dst = place[dst];
  return result;
}

}  // namespace ninja
