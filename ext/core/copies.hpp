// Lattices that consist of copies of the states and arcs of another lattice, with their words, acoustic costs and
// alignments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"

namespace ninja {

struct Copies {
  std::vector<int32_t> state_map;  // [num_states] old state
  std::vector<int64_t> arc_begin;  // [num_states + 1]
  std::vector<int32_t> dst;        // [num_arcs]
  std::vector<int64_t> arc_map;    // [num_arcs] old arc
  std::vector<float> graph;        // [num_arcs] new cost
  std::vector<float> final_graph;  // [num_states] new cost, +inf if not final
};

// Copies that result from composition with a language model.
struct Composed : Copies {
  bool too_large = false;
  int64_t impossible = -1;  // old arc with a word of probability 0, or num_arcs for </s>
};

// Copy the labels of those arcs or states `ids` that are wanted, and set the offsets of the labels of each.
template <class Ids, class Wanted>
void copy_runs(const Ids& ids, const Wanted& wanted, const int64_t* begin, const int32_t* pool, int64_t* to_begin,
               int32_t* to) {
  int64_t size = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    to_begin[i] = size;
    const int64_t first = begin[ids[i]], length = begin[ids[i] + 1] - first;
    if (length == 0 || !wanted(i)) continue;
    std::memcpy(to + size, pool + first, static_cast<size_t>(length) * sizeof(int32_t));
    size += length;
  }
  to_begin[ids.size()] = size;
}

inline Block copy(const Copies& copies, const Arcs& arcs, const Alignments& old) {
  const std::vector<int64_t>& arc_map = copies.arc_map;
  const std::vector<int32_t>& state_map = copies.state_map;
  const auto is_final = [&](size_t state) { return copies.final_graph[state] < kInfinity; };
  int64_t num_labels = 0, num_final_labels = 0;
  for (const int64_t arc : arc_map) num_labels += old.ali_begin[arc + 1] - old.ali_begin[arc];
  for (size_t i = 0; i < state_map.size(); ++i) {
    const int32_t state = state_map[i];
    if (is_final(i)) num_final_labels += old.final_ali_begin[state + 1] - old.final_ali_begin[state];
  }
  const Block to = new_block(state_map.size(), arc_map.size(), num_labels, num_final_labels);
  std::copy(copies.arc_begin.begin(), copies.arc_begin.end(), to.arc_begin);
  std::copy(copies.dst.begin(), copies.dst.end(), to.dst);
  std::copy(copies.graph.begin(), copies.graph.end(), to.graph);
  std::copy(copies.final_graph.begin(), copies.final_graph.end(), to.final_graph);
  for (size_t i = 0; i < arc_map.size(); ++i) {
    to.word[i] = arcs.word[arc_map[i]];
    to.acoustic[i] = arcs.acoustic[arc_map[i]];
  }
  for (size_t i = 0; i < state_map.size(); ++i) {
    to.final_acoustic[i] = is_final(i) ? arcs.final_acoustic[state_map[i]] : kInfinity;
  }
  copy_runs(arc_map, [](size_t) { return true; }, old.ali_begin, old.ali, to.ali_begin, to.ali);
  copy_runs(state_map, is_final, old.final_ali_begin, old.final_ali, to.final_ali_begin, to.final_ali);
  return to;
}

}  // namespace ninja
