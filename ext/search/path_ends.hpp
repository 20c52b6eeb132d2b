// The states of a lattice to which a word sequence leads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/scales.hpp"

namespace ninja {

struct PathEnd {  // a state, and the cost of the best path to this state with a certain word sequence
  double total;   // scaled
  double graph;   // unscaled
  double acoustic;
  int32_t state;
};

// The best path to each state, collected arc by arc. `label` contains a word id for each arc; the id `epsilon` means
// that the arc has no word.
class PathEnds {
 public:
  PathEnds(const Arcs& arcs, const Scales& scales, const int32_t* label, int32_t epsilon)
      : arcs_(arcs), scales_(scales), label_(label), epsilon_(epsilon), index_(arcs.num_states, kNone) {}

  // The place of the empty word sequence.
  static PathEnd start() { return {0.0, 0.0, 0.0, 0}; }

  PathEnd behind(const PathEnd& place, int64_t arc) const {
    return {place.total + arc_cost(arcs_, arc, scales_), place.graph + arcs_.graph[arc],
            place.acoustic + arcs_.acoustic[arc], arcs_.dst[arc]};
  }

  void add(const PathEnd& place) {
    int32_t& index = index_[place.state];
    if (index == kNone) {
      index = static_cast<int32_t>(places_.size());
      places_.push_back(place);
      agenda_.push_back(place.state);
      std::push_heap(agenda_.begin(), agenda_.end(), later);
    } else if (place.total < places_[index].total) {  // in a tie, the earlier path wins
      places_[index] = place;
    }
  }

  // Follows epsilons, lowest state first, and moves all places to `pool`, sorted by state. PathEnds whose cost plus
  // `ahead` exceeds `limit` are dropped.
  void close(const std::vector<double>& ahead, double limit, std::vector<PathEnd>& pool) {
    while (!agenda_.empty()) {
      std::pop_heap(agenda_.begin(), agenda_.end(), later);
      const int32_t state = agenda_.back();
      agenda_.pop_back();
      const PathEnd here = places_[index_[state]];
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (label_[arc] == epsilon_) add(behind(here, arc));
      }
    }
    const size_t first = pool.size();
    for (const PathEnd& place : places_) {
      index_[place.state] = kNone;
      if (place.total + ahead[place.state] <= limit) pool.push_back(place);
    }
    places_.clear();
    std::sort(pool.begin() + first, pool.end(), [](const PathEnd& a, const PathEnd& b) { return a.state < b.state; });
  }

 private:
  static constexpr int32_t kNone = -1;
  static bool later(int32_t a, int32_t b) { return a > b; }

  const Arcs arcs_;
  const Scales scales_;
  const int32_t* label_;
  const int32_t epsilon_;
  std::vector<int32_t> index_;  // [num_states] index into `places_`
  std::vector<PathEnd> places_;
  std::vector<int32_t> agenda_;  // heap of states whose epsilons have not been followed yet
};

// Cost of the best completion from each state; +inf if there is none.
inline std::vector<double> costs_ahead(const Arcs& arcs, const Scales& scales) {
  std::vector<double> ahead(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    ahead[state] = final_cost(arcs, state, scales);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      ahead[state] = std::min(ahead[state], arc_cost(arcs, arc, scales) + ahead[arcs.dst[arc]]);
    }
  }
  return ahead;
}

}  // namespace ninja
