// Keep what lies on a path from the start to a final state, among all arcs or among some.
#pragma once

#include "graph/select.hpp"

namespace ninja {

// Tell quickly what is true of most lattices: everything lies on such a path. As states are in topological order, it is
// enough that each is entered, and left where it is not final. `entered` is room to work in.
inline bool is_connected(const Arcs& arcs, std::vector<uint8_t>& entered) {
  entered.assign(static_cast<size_t>(arcs.num_states), 0);
  entered[0] = 1;
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) entered[arcs.dst[arc]] = 1;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!entered[state]) return false;
    if (arcs.arc_begin[state] == arcs.arc_begin[state + 1] && !is_final(arcs, state)) return false;
  }
  return true;
}

// `wanted` holds a 1 for each arc that may stay; null: all may.
inline void connect(const Arcs& arcs, const Alignments& alignments, const uint8_t* wanted, Selection& selection) {
  if (wanted == nullptr && is_connected(arcs, selection.reached)) {
    selection.num_states = arcs.num_states;
    selection.everything = true;
    return;
  }
  selection.resize(arcs);
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) selection.keep_arc[arc] = wanted == nullptr || wanted[arc] != 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) selection.keep_final[state] = is_final(arcs, state);
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
}

}  // namespace ninja
