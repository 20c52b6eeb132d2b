// The one way from a choice of arcs to a smaller lattice: drop what leads nowhere, renumber, copy.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"

namespace ninja {

// Which arcs and final states stay. An algorithm fills the three marks, `number_kept` the rest.
struct Selection {
  std::vector<uint8_t> keep_arc;    // [num_arcs], 1 only if the arc enters a state from which a kept final is reached
  std::vector<uint8_t> keep_final;  // [num_states]
  std::vector<uint8_t> alive;       // [num_states], a kept final can be reached through kept arcs

  std::vector<uint8_t> reached;     // [num_states], from the start through kept arcs
  std::vector<int64_t> arc;         // old arc of each new arc
  std::vector<int64_t> arc_begin;   // [new states]
  std::vector<int32_t> old_state;   // old state of each new state
  std::vector<int32_t> new_state;   // new state of each old state, undefined where dropped
  int64_t num_states = 0;
  int64_t num_arcs = 0;
  int64_t num_labels = 0;
  int64_t num_final_labels = 0;
  bool everything = false;          // nothing was dropped: the old lattice will do

  void resize(const Arcs& arcs) {
    keep_arc.resize(arcs.num_arcs);
    keep_final.resize(arcs.num_states);
    alive.resize(arcs.num_states);
  }
};

// Lend a selection whose vectors have room from earlier calls of the thread; give it back when done.
inline Selection& spare_selection() {
  static thread_local Selection spare;
  return spare;
}

inline Selection take_selection() { return std::move(spare_selection()); }

inline void give_back(Selection& selection) {
  constexpr size_t kMost = size_t{1} << 22;  // arcs; what an unusually large lattice took is freed instead
  if (std::max(selection.arc.capacity(), selection.reached.capacity()) <= kMost) spare_selection() = std::move(selection);
}

// Where the new lattice is written.
struct NewLattice : Block {
  const int32_t* old_time = nullptr;  // where there is none, `time` is not written
};

inline void make_room(NewLattice& to, int64_t num_states, int64_t num_arcs, int64_t num_labels,
                      int64_t num_final_labels) {
  static_cast<Block&>(to) = new_block(num_states, num_arcs, num_labels, num_final_labels, to.old_time != nullptr);
}

// Take away the arcs that enter dead ends; needs `keep_arc` and `keep_final`, fills `alive`.
inline void drop_dead_ends(const Arcs& arcs, Selection& selection) {
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    uint8_t alive = selection.keep_final[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      selection.keep_arc[arc] &= selection.alive[arcs.dst[arc]];
      alive |= selection.keep_arc[arc];
    }
    selection.alive[state] = alive;
  }
}

// Number the states that are reached and alive, in their order, and list the arcs between them.
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
  const int64_t* arc_begin = arcs.arc_begin;  // bytes may alias anything: what the loop needs is kept in locals
  const int64_t* ali_begin = alignments.ali_begin;
  const int32_t* dst = arcs.dst;
  int64_t states = 0, count = 0, final_labels = 0;
  bool finals_stay = true;
  for (int64_t state = 0; state < num_states; ++state) {
    if (!(reached[state] & alive[state])) continue;
    new_state[state] = static_cast<int32_t>(states);
    old_state[states] = static_cast<int32_t>(state);
    new_begin[states++] = count;
    if (keep_final[state]) {
      final_labels += alignments.final_ali_begin[state + 1] - alignments.final_ali_begin[state];
    } else if (is_final(arcs, state)) {
      finals_stay = false;
    }
    for (int64_t arc = arc_begin[state], end = arc_begin[state + 1]; arc < end; ++arc) {
      const uint8_t keep = keep_arc[arc];
      kept[count] = arc;  // overwritten by the next one if this one is dropped: no branch to mispredict
      count += keep;
      reached[dst[arc]] |= keep;
    }
  }
  new_begin[states] = count;
  selection.num_states = states;
  selection.num_arcs = count;
  selection.num_final_labels = final_labels;
  selection.everything = finals_stay && states == num_states && count == arcs.num_arcs;
  int64_t labels = 0;
  for (int64_t arc = 0; arc < count; ++arc) labels += ali_begin[kept[arc] + 1] - ali_begin[kept[arc]];
  selection.num_labels = labels;
}

inline void write_selection(const Arcs& arcs, const Alignments& alignments, const Selection& selection,
                            const NewLattice& to) {
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
    for (; arc < count && kept[arc] == last; ++arc, ++last) {  // neighbours are copied in one go
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
    if (to.old_time != nullptr) to.time[state] = to.old_time[old];
  }
}

}  // namespace ninja
