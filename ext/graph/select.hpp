// Selection of arcs: drop dead ends, renumber states, and copy the rest to a new lattice.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"

namespace ninja {

// The arcs and final states to keep. An algorithm fills the first three arrays, `number_kept` the rest.
struct Selection {
  std::vector<uint8_t> keep_arc;    // [num_arcs], 1 only if a kept final state is reachable from the arc
  std::vector<uint8_t> keep_final;  // [num_states]
  std::vector<uint8_t> alive;       // [num_states], a kept final state is reachable through kept arcs

  std::vector<uint8_t> reached;    // [num_states], reachable from the start through kept arcs
  std::vector<int64_t> arc;        // old arc of each new arc
  std::vector<int64_t> arc_begin;  // [new states]
  std::vector<int32_t> old_state;  // old state of each new state
  std::vector<int32_t> new_state;  // new state of each old state, undefined for dropped states
  int64_t num_states = 0;
  int64_t num_arcs = 0;
  int64_t num_labels = 0;
  int64_t num_final_labels = 0;
  bool everything = false;  // nothing was dropped, so the old lattice is the result

  void resize(const Arcs& arcs) {
    keep_arc.resize(arcs.num_arcs);
    keep_final.resize(arcs.num_states);
    alive.resize(arcs.num_states);
  }
};

// A selection that reuses the memory of earlier calls in this thread, unless an unusually large lattice has used it.
inline Selection& spare_selection() {
  static thread_local Selection spare;
  constexpr size_t kMost = size_t{1} << 22;  // arcs
  if (std::max(spare.arc.capacity(), spare.reached.capacity()) > kMost) spare = Selection();
  return spare;
}

// The functions below copy the addresses of arrays to local variables, because stores of bytes may alias all others.

// Drop the arcs that enter dead ends; reads `keep_arc` and `keep_final`, fills `alive`.
inline void drop_dead_ends(Arcs arcs, Selection& selection) {
  uint8_t* keep_arc = selection.keep_arc.data();
  const uint8_t* keep_final = selection.keep_final.data();
  uint8_t* alive = selection.alive.data();
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    uint8_t any = keep_final[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      keep_arc[arc] &= alive[arcs.dst[arc]];
      any |= keep_arc[arc];
    }
    alive[state] = any;
  }
}

// Number the states that are reached and alive, in order, and list the arcs between them.
inline void number_kept(const Arcs& arcs, const Alignments& alignments, Selection& selection) {
  const int64_t num_states = arcs.num_states;
  selection.reached.assign(num_states, 0);
  selection.reached[0] = 1;
  if (static_cast<int64_t>(selection.arc.size()) < arcs.num_arcs + 1) selection.arc.resize(arcs.num_arcs + 1);
  if (static_cast<int64_t>(selection.new_state.size()) < num_states) {
    selection.new_state.resize(num_states);
    selection.old_state.resize(num_states);
    selection.arc_begin.resize(num_states + 1);
  }
  int64_t* kept = selection.arc.data();
  uint8_t* reached = selection.reached.data();
  const uint8_t* keep_arc = selection.keep_arc.data();
  const uint8_t* keep_final = selection.keep_final.data();
  const uint8_t* alive = selection.alive.data();
  int32_t* new_state = selection.new_state.data();
  int32_t* old_state = selection.old_state.data();
  int64_t* new_begin = selection.arc_begin.data();
  const int64_t* arc_begin = arcs.arc_begin;
  const int64_t* ali_begin = alignments.ali_begin;
  const int32_t* dst = arcs.dst;
  int64_t states = 0, count = 0, final_labels = 0;
  bool all_finals = true;
  for (int64_t state = 0; state < num_states; ++state) {
    if (!(reached[state] & alive[state])) continue;
    new_state[state] = static_cast<int32_t>(states);
    old_state[states] = static_cast<int32_t>(state);
    new_begin[states++] = count;
    if (keep_final[state]) {
      final_labels += alignments.final_ali_begin[state + 1] - alignments.final_ali_begin[state];
    } else if (is_final(arcs, state)) {
      all_finals = false;
    }
    for (int64_t arc = arc_begin[state], end = arc_begin[state + 1]; arc < end; ++arc) {
      const uint8_t keep = keep_arc[arc];
      kept[count] = arc;  // the next arc overwrites a dropped one, which avoids an unpredictable branch
      count += keep;
      reached[dst[arc]] |= keep;
    }
  }
  new_begin[states] = count;
  selection.num_states = states;
  selection.num_arcs = count;
  selection.num_final_labels = final_labels;
  selection.everything = all_finals && states == num_states && count == arcs.num_arcs;
  int64_t labels = 0;
  for (int64_t arc = 0; arc < count; ++arc) labels += ali_begin[kept[arc] + 1] - ali_begin[kept[arc]];
  selection.num_labels = labels;
}

// Write the selected lattice; `time` of the old states may be null.
inline void write_selection(const Arcs& arcs, const Alignments& alignments, const int32_t* time,
                            const Selection& selection, const Block& to) {
  const int64_t* kept = selection.arc.data();
  const int32_t* new_state = selection.new_state.data();
  const int64_t count = selection.num_arcs;
  std::memcpy(to.arc_begin, selection.arc_begin.data(), sizeof(int64_t) * (selection.num_states + 1));
  for (int64_t arc = 0; arc < count; ++arc) {
    const int64_t old = kept[arc];
    to.dst[arc] = new_state[arcs.dst[old]];
    to.word[arc] = arcs.word[old];
    to.graph[arc] = arcs.graph[old];
    to.acoustic[arc] = arcs.acoustic[old];
  }
  int64_t labels = 0;
  to.ali_begin[0] = 0;
  for (int64_t arc = 0; arc < count;) {
    const int64_t first = kept[arc], from = alignments.ali_begin[first];
    const int64_t shift = labels - from;
    int64_t last = first;
    for (; arc < count && kept[arc] == last; ++arc, ++last) {  // copy consecutive arcs at once
      to.ali_begin[arc + 1] = alignments.ali_begin[last + 1] + shift;
    }
    const int64_t length = alignments.ali_begin[last] - from;
    std::memcpy(to.ali + labels, alignments.ali + from, sizeof(int32_t) * length);
    labels += length;
  }
  labels = 0;
  to.final_ali_begin[0] = 0;
  for (int64_t state = 0; state < selection.num_states; ++state) {
    const int64_t old = selection.old_state[state];
    const bool keep = selection.keep_final[old] != 0;
    to.final_graph[state] = keep ? arcs.final_graph[old] : kInfinity;
    to.final_acoustic[state] = keep ? arcs.final_acoustic[old] : kInfinity;
    if (keep) {
      const int64_t from = alignments.final_ali_begin[old];
      const int64_t length = alignments.final_ali_begin[old + 1] - from;
      if (length > 0) std::memcpy(to.final_ali + labels, alignments.final_ali + from, sizeof(int32_t) * length);
      labels += length;
    }
    to.final_ali_begin[state + 1] = labels;
    if (time != nullptr) to.time[state] = time[old];
  }
}

// Return whether everything lies on a path from the start to a final state, as in most lattices. Since states are in
// topological order, it is enough that every state is entered, and left if it is not final. `entered` is a buffer.
inline bool is_connected(Arcs arcs, std::vector<uint8_t>& entered) {
  entered.assign(static_cast<size_t>(arcs.num_states), 0);
  uint8_t* mark = entered.data();
  mark[0] = 1;
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) mark[arcs.dst[arc]] = 1;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!entered[state]) return false;
    if (arcs.arc_begin[state] == arcs.arc_begin[state + 1] && !is_final(arcs, state)) return false;
  }
  return true;
}

// Keep the arcs on a path from the start to a final state through the arcs of `wanted`, or all arcs if it is null.
inline void connect(Arcs arcs, const Alignments& alignments, const uint8_t* wanted, Selection& selection) {
  if (wanted == nullptr && is_connected(arcs, selection.reached)) {
    selection.num_states = arcs.num_states;
    selection.everything = true;
    return;
  }
  selection.resize(arcs);
  uint8_t* keep_arc = selection.keep_arc.data();
  uint8_t* keep_final = selection.keep_final.data();
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) keep_arc[arc] = wanted == nullptr || wanted[arc] != 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) keep_final[state] = is_final(arcs, state);
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
}

}  // namespace ninja
