// Keep what lies on a path from the start to a final state, among all arcs or among some.
#pragma once

#include "select.hpp"

namespace ninja {

// `wanted` holds a 1 for each arc that may stay; null: all may.
inline void connect(const Arcs& arcs, const Alignments& alignments, const uint8_t* wanted, Selection& selection) {
  selection.resize(arcs);
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) selection.keep_arc[arc] = wanted == nullptr || wanted[arc] != 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) selection.keep_final[state] = is_final(arcs, state);
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
}

}  // namespace ninja
