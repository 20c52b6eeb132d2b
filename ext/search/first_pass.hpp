// First-pass costs of a lattice: best completions, arcs within the beam, and levels of states.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

struct FirstPass {
  double best = kNever;              // cost of the best path, kNever if there is none
  std::vector<double> ahead;         // [num_states] cost of the best completion
  std::vector<int32_t> next_arc;     // [num_states] first arc of the best completion; -1 for the end of the path
  std::vector<char> alive;           // [num_arcs] whether the arc is on a path within the beam
  std::vector<int32_t> order;        // states on such paths, level by level
  std::vector<int32_t> level_begin;  // [num_levels + 1] offsets in `order`
};

// Costs are acoustic_scale * acoustic + graph + word_penalty per word. The level of a state is the number of arcs on
// the longest path to it, so that all arcs into a state come from lower levels. The best path is always alive, even if
// large costs cancel along it and rounding moves its cost beyond the beam.
inline FirstPass first_pass(const Arcs& arcs, double acoustic_scale, double word_penalty, double beam) {
  FirstPass pass;
  const int64_t n = arcs.num_states;
  auto cost = [&](int64_t arc) {
    return acoustic_scale * arcs.acoustic[arc] + arcs.graph[arc] + (arcs.word[arc] != 0 ? word_penalty : 0.0);
  };
  pass.ahead.assign(n, kNever);
  pass.next_arc.assign(n, -1);
  for (int64_t state = n - 1; state >= 0; --state) {
    double best =
        is_final(arcs, state) ? acoustic_scale * arcs.final_acoustic[state] + arcs.final_graph[state] : kNever;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      double through = cost(arc) + pass.ahead[arcs.dst[arc]];
      if (through < best) {  // in a tie, the final cost wins, then the earlier arc
        best = through;
        pass.next_arc[state] = static_cast<int32_t>(arc);
      }
    }
    pass.ahead[state] = best;
  }
  pass.best = pass.ahead[0];
  pass.alive.assign(arcs.num_arcs, 0);
  if (pass.best == kNever) return pass;

  // Without this small margin, the best path could be outside a beam of 0 because of rounding.
  const double limit = pass.best + beam + 1e-9 * (1.0 + std::abs(pass.best));
  std::vector<double> so_far(n, kNever);
  std::vector<int32_t> level(n, -1);
  so_far[0] = 0.0;
  level[0] = 0;
  int32_t deepest = 0;
  int64_t on_best = 0;  // the next state of the best path
  for (int64_t state = 0; state < n; ++state) {
    if (level[state] < 0) continue;
    deepest = std::max(deepest, level[state]);
    const int32_t best_arc = state == on_best ? pass.next_arc[state] : -1;
    if (best_arc >= 0) on_best = arcs.dst[best_arc];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      int32_t dst = arcs.dst[arc];
      double here = so_far[state] + cost(arc);
      if ((pass.ahead[dst] == kNever || here + pass.ahead[dst] > limit) && arc != best_arc) continue;
      pass.alive[arc] = 1;
      so_far[dst] = std::min(so_far[dst], here);
      level[dst] = std::max(level[dst], level[state] + 1);
    }
  }
  pass.level_begin.assign(deepest + 2, 0);
  for (int64_t state = 0; state < n; ++state) {
    if (level[state] >= 0) ++pass.level_begin[level[state] + 1];
  }
  for (int32_t i = 0; i <= deepest; ++i) pass.level_begin[i + 1] += pass.level_begin[i];
  pass.order.resize(pass.level_begin.back());
  std::vector<int32_t> place(pass.level_begin.begin(), pass.level_begin.end() - 1);
  for (int64_t state = 0; state < n; ++state) {
    if (level[state] >= 0) pass.order[place[level[state]]++] = static_cast<int32_t>(state);
  }
  return pass;
}

}  // namespace ninja
