// Composition of a lattice with a contextual grammar: states are pairs of a lattice state and a token set, created
// when a path reaches them; the grammar's score of its word is subtracted from the cost of each arc.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "context/context.hpp"
#include "core/copies.hpp"
#include "core/lattice.hpp"
#include "core/pair_map.hpp"

namespace ninja {

class ContextComposer {
 public:
  // Graph costs become graph_share * cost - the tracker's score.
  ContextComposer(const Arcs& arcs, ContextTracker* tracker, double graph_share, int64_t max_arcs)
      : arcs_(arcs), tracker_(tracker), graph_share_(graph_share), max_arcs_(max_arcs), pairs_(arcs.num_states) {}

  Composed compose(int32_t start) {
    pairs_(0, start);
    out_.arc_begin.push_back(0);
    // Arcs lead only to later states, so all token sets of a state are known before it is expanded.
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      int64_t num_pairs = 0;
      for (int32_t at = pairs_.first(state); at >= 0; at = pairs_.next(at)) ++num_pairs;
      out_.too_large = num_pairs * (arcs_.arc_begin[state + 1] - arcs_.arc_begin[state]) >
                       max_arcs_ - static_cast<int64_t>(out_.dst.size());
      if (out_.too_large) return std::move(out_);
      for (int32_t at = pairs_.first(state); at >= 0; at = pairs_.next(at)) {
        leave(state, at);
        if (out_.impossible >= 0) return std::move(out_);
      }
    }
    pairs_.renumber(out_.dst);
    return std::move(out_);
  }

 private:
  void leave(int64_t state, int32_t at) {
    const int32_t set = pairs_.other(at);
    pairs_.number(at, out_.state_map.size());
    out_.state_map.push_back(static_cast<int32_t>(state));
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      float score;
      const int32_t after = tracker_->advance(set, arcs_.word[arc], &score);
      if (after < 0) {
        out_.impossible = arc;
        return;
      }
      out_.dst.push_back(pairs_(arcs_.dst[arc], after));
      out_.graph.push_back(static_cast<float>(graph_share_ * arcs_.graph[arc] - score));
      out_.arc_map.push_back(arc);
    }
    out_.arc_begin.push_back(static_cast<int64_t>(out_.dst.size()));
    float final_graph = kInfinity;
    if (is_final(arcs_, state)) {
      const float score = tracker_->final_score(set);
      if (std::isinf(score)) out_.impossible = arcs_.num_arcs;
      final_graph = static_cast<float>(graph_share_ * arcs_.final_graph[state] - score);
    }
    out_.final_graph.push_back(final_graph);
  }

  const Arcs& arcs_;
  ContextTracker* tracker_;
  double graph_share_;
  int64_t max_arcs_;
  Composed out_;
  StatePairs pairs_;  // pairs of lattice states and token sets
};

inline Composed compose_context(const Arcs& arcs, ContextTracker* tracker, int32_t start, double graph_share,
                                int64_t max_arcs) {
  return ContextComposer(arcs, tracker, graph_share, max_arcs).compose(start);
}

}  // namespace ninja
