// Epsilon removal that keeps both costs and the alignment of every best way around.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

struct EpsilonFree : LatticeArrays {
  bool too_large = false;      // more than max_arcs arcs: nothing else holds
  std::vector<int32_t> state;  // [new states] old state of each; empty: no path leads to a final state
};

// One state of an epsilon closure: the best epsilon path to it, as a chain of arcs.
struct Reached {
  Costs cost;
  int64_t before = -1;  // state the last epsilon left
  int64_t arc = -1;     // the last epsilon; -1 at the closure's own state
};

// For every state and every epsilon path leaving it, copy the arcs at that path's end back to the state; of copies with
// equal word and destination the best stays. The result holds only states on a path to a final state.
inline EpsilonFree remove_epsilons(const Arcs& arcs, const Alignments& labels, double acoustic_scale, int64_t max_arcs) {
  EpsilonFree result;
  std::vector<char> leads(arcs.num_states, 0);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    leads[state] = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) leads[state] |= leads[arcs.dst[arc]];
  }
  if (arcs.num_states == 0 || !leads[0]) return result;

  std::vector<char> wanted(arcs.num_states, 0);
  wanted[0] = 1;
  std::map<int64_t, Reached> closure;                            // in topological order
  std::map<std::pair<int32_t, int32_t>, size_t> place_of;         // (destination, word) -> place in kept
  std::vector<std::pair<Costs, int64_t>> kept;                    // (cost, arc), in the order they were met
  std::vector<int64_t> chain;
  const auto append_chain = [&](int64_t state, std::vector<int32_t>& pool) {
    chain.clear();
    for (const Reached* at = &closure.at(state); at->arc >= 0; at = &closure.at(at->before)) chain.push_back(at->arc);
    for (auto arc = chain.rbegin(); arc != chain.rend(); ++arc) {
      pool.insert(pool.end(), labels.ali + labels.ali_begin[*arc], labels.ali + labels.ali_begin[*arc + 1]);
    }
  };
  std::vector<int32_t> source_of(arcs.num_arcs);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    std::fill(source_of.begin() + arcs.arc_begin[state], source_of.begin() + arcs.arc_begin[state + 1], state);
  }

  result.arc_begin.push_back(0);
  result.ali_begin.push_back(0);
  result.final_ali_begin.push_back(0);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!wanted[state]) continue;
    closure.clear();
    place_of.clear();
    kept.clear();
    closure[state].cost = {0.0, 0.0, 0.0};
    Costs end;
    int64_t end_state = -1;
    for (auto at = closure.begin(); at != closure.end(); ++at) {  // epsilons lead forwards: new states come later
      const Costs here = at->second.cost;
      const Costs stop = here + final_costs(arcs, at->first, acoustic_scale);
      if (is_final(arcs, at->first) && (end_state < 0 || better(stop, end))) {
        end = stop;
        end_state = at->first;
      }
      for (int64_t arc = arcs.arc_begin[at->first]; arc < arcs.arc_begin[at->first + 1]; ++arc) {
        if (!leads[arcs.dst[arc]]) continue;
        const Costs through = here + arc_costs(arcs, arc, acoustic_scale);
        if (arcs.word[arc] == 0) {
          Reached& next = closure[arcs.dst[arc]];
          if (better(through, next.cost)) next = {through, at->first, arc};
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
      result.ali.insert(result.ali.end(), labels.ali + labels.ali_begin[arc], labels.ali + labels.ali_begin[arc + 1]);
      result.ali_begin.push_back(static_cast<int64_t>(result.ali.size()));
      result.dst.push_back(arcs.dst[arc]);
      result.word.push_back(arcs.word[arc]);
      result.graph.push_back(static_cast<float>(cost.graph));
      result.acoustic.push_back(static_cast<float>(cost.acoustic));
      wanted[arcs.dst[arc]] = 1;
    }
    if (end_state >= 0) {
      append_chain(end_state, result.final_ali);
      result.final_ali.insert(result.final_ali.end(), labels.final_ali + labels.final_ali_begin[end_state],
                              labels.final_ali + labels.final_ali_begin[end_state + 1]);
    }
    result.final_ali_begin.push_back(static_cast<int64_t>(result.final_ali.size()));
    result.final_graph.push_back(end_state < 0 ? kInfinity : static_cast<float>(end.graph));
    result.final_acoustic.push_back(end_state < 0 ? kInfinity : static_cast<float>(end.acoustic));
    result.arc_begin.push_back(static_cast<int64_t>(result.dst.size()));
    result.state.push_back(static_cast<int32_t>(state));
    if (static_cast<int64_t>(result.dst.size()) > max_arcs) {
      result.too_large = true;
      return result;
    }
  }
  std::vector<int32_t> place(arcs.num_states, -1);
  for (size_t i = 0; i < result.state.size(); ++i) place[result.state[i]] = static_cast<int32_t>(i);
  for (int32_t& dst : result.dst) dst = place[dst];
  return result;
}

}  // namespace ninja
