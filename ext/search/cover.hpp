// Posterior-based expansion and path cover (Li, Povey, Khudanpur 2021).
#pragma once

#include <cmath>
#include <vector>

#include "graph/posteriors.hpp"
#include "search/unfold.hpp"

namespace ninja {

// Copies states by posterior: an arc of a copy leads to a separate copy if the summed posterior of the paths through it
// exceeds `min_posterior`; all other arcs lead to a shared copy. States are visited in topological order, so that the
// probability of reaching a shared copy is complete before it is used. Returns false if there is no path.
inline bool expand_by_posterior(const Arcs& arcs, const Scales& scales, double min_posterior, int64_t max_arcs,
                                const int32_t* lm_word, Unfolded& out) {
  constexpr int32_t kNone = -1;
  std::vector<double> alpha(arcs.num_states), beta(arcs.num_states);
  const double total = forward_backward(arcs, scales, alpha.data(), beta.data());
  if (!(total < kNoPath)) return false;
  const double most = -std::log(min_posterior);  // arcs within this cost of the total get separate copies
  StateCopies copies(arcs, max_arcs, out);
  std::vector<LogSum> reach(1);  // [copies] total cost of all paths to the copy
  std::vector<int32_t> shared(arcs.num_states, kNone);
  reach[copies.add(0)].add(0.0);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (const int32_t copy : copies.of(state)) {
      const double here = reach[copy].cost();
      copies.visit(copy, state);
      if (is_final(arcs, state)) copies.finish(kTrieRoot);
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        const int32_t dst = arcs.dst[arc];
        if (!(beta[dst] < kNoPath)) continue;
        const double there = here + arc_cost(arcs, arc, scales);
        const bool own = there + beta[dst] - total < most;
        int32_t target = own ? kNone : shared[dst];
        if (target == kNone) {
          target = copies.add(dst);
          reach.emplace_back();
          if (!own) shared[dst] = target;
        }
        reach[target].add(there);
        copies.add_arc(arc, target, lm_word[arc] < 0 ? kNoNode : kTrieRoot);
      }
    }
  }
  copies.number();
  return true;
}

// Assigns to each arc its history on the best of the paths that cover it.
//
// For each arc, the cover contains the best path through it: the best prefix to its state, the arc, and the best
// suffix. This is also the best path of the cover that contains the arc, and determines its score. So the history of an
// arc is the best prefix to its state, and paths need not be stored. The same applies to final states.
inline void cover(const Arcs& arcs, const Scales& scales, const int32_t* lm_word, int32_t eos, Unfolded& out) {
  const size_t num_states = out.state_map.size();
  std::vector<double> best(num_states, kNoPath);
  std::vector<int32_t> prefix(num_states, kTrieRoot);
  if (num_states > 0) best[0] = 0.0;
  for (size_t state = 0; state < num_states; ++state) {
    for (int64_t copy = out.arc_begin[state]; copy < out.arc_begin[state + 1]; ++copy) {
      const int64_t arc = out.arc_map[copy];
      int32_t node = prefix[state];
      if (out.arc_node[copy] != kNoNode) out.arc_node[copy] = node = out.trie.child(node, lm_word[arc]);
      const double cost = best[state] + arc_cost(arcs, arc, scales);
      if (cost < best[out.dst[copy]]) {  // in a tie, the earlier arc wins
        best[out.dst[copy]] = cost;
        prefix[out.dst[copy]] = node;
      }
    }
    if (out.final_node[state] != kNoNode) out.final_node[state] = out.trie.child(prefix[state], eos);
  }
}

}  // namespace ninja
