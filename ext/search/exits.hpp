// The exits of each state of a lattice, i.e. its arcs and its end, in order of first-pass cost.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

struct Exit {
  float delta;  // cost of the best path through the exit, relative to the best path
  int32_t arc;  // -1 for the end of the path
};

class Exits {
 public:
  // `cost(arc)` and `end_cost(state)` are total first-pass costs. They are rounded to float as in Kaldi, so that
  // ties are the same: the end wins, then the earlier arc. Arcs into dead ends are not exits, and neither is an end or
  // arc whose cost exceeds the range of floats. A best completion below this range has the cost -inf.
  template <typename Cost, typename EndCost>
  Exits(const Arcs& arcs, Cost cost, EndCost end_cost)
      : ahead_(arcs.num_states, kNever), begin_(arcs.num_states), num_(arcs.num_states) {
    exits_.reserve(arcs.num_arcs + 1);
    std::vector<std::pair<double, int32_t>> ranked;
    for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
      ranked.clear();
      const auto add = [&](double through, int32_t arc) {
        const float rounded = static_cast<float>(through);
        overflow_ |= !std::isfinite(rounded);
        if (rounded < kInfinity) ranked.push_back({rounded, arc});
      };
      if (is_final(arcs, state)) add(end_cost(static_cast<int32_t>(state)), -1);
      for (int64_t a = arcs.arc_begin[state]; a < arcs.arc_begin[state + 1]; ++a) {
        const int32_t arc = static_cast<int32_t>(a);
        const double ahead = ahead_[arcs.dst[arc]];
        if (ahead < kNever) add(ahead + cost(arc), arc);
      }
      std::sort(ranked.begin(), ranked.end());
      begin_[state] = static_cast<int32_t>(exits_.size());
      num_[state] = static_cast<int32_t>(ranked.size());
      if (!ranked.empty()) ahead_[state] = ranked[0].first;
      for (const auto& [through, arc] : ranked) exits_.push_back({static_cast<float>(through - ahead_[state]), arc});
    }
  }

  // Cost of the best completion from a state; kNever if there is none.
  double ahead(int32_t state) const { return ahead_[state]; }
  // Whether the cost of any end or arc exceeds the range of floats.
  bool overflow() const { return overflow_; }
  int32_t num(int32_t state) const { return num_[state]; }
  const Exit& at(int32_t state, int32_t i) const { return exits_[begin_[state] + i]; }

 private:
  bool overflow_ = false;
  std::vector<double> ahead_;
  std::vector<int32_t> begin_, num_;  // [num_states] range in exits_
  std::vector<Exit> exits_;
};

}  // namespace ninja
