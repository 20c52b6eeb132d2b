// A lattice that is being parsed: arcs sorted by source state, with the state numbers of the file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/block.hpp"
#include "core/lattice.hpp"
#include "core/pool.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// The error of a lattice. After a fatal fault the rest of the archive cannot be read.
struct Fault {
  enum Kind { kNone, kLattice, kFormat, kSymbol };
  Kind kind = kNone;
  bool fatal = false;
  std::string message;
  int64_t line = -1;  // counted from 1; -1 in binary files
  int64_t byte = -1;  // offset in the file; -1 in text files
};

// Labels may begin at any byte of the file, so they are unaligned.
struct StagedArc {
  int32_t dst;
  int32_t word;
  float graph;
  float acoustic;
  const char* labels;
  int64_t num_labels;
};

struct StagedFinal {
  float graph;
  float acoustic;
  const char* labels;
  int64_t num_labels;
};

struct Staging {
  bool compact = true;
  int64_t start = 0;
  int64_t num_states = 0;
  int64_t num_arcs = 0;
  bool forward = true;       // every arc leads to a higher state number
  Pool<int64_t> arc_begin;   // [num_states + 1]
  Pool<StagedFinal> finals;  // [num_states]
  Pool<StagedArc> arcs;      // [num_arcs], by source state
};

// Copy a staged lattice to its final arrays, with states in the given order, or in the same order if it is null.
template <bool kOrdered>
Block settle(const Staging& lattice, const TopSorter* order) {
  const int64_t* from_begin = lattice.arc_begin.begin();
  const StagedArc* arcs = lattice.arcs.begin();
  const StagedFinal* finals = lattice.finals.begin();
  const int32_t* state_at = kOrdered ? order->state_at.begin() : nullptr;
  const int32_t* place_of = kOrdered ? order->place_of.begin() : nullptr;
  const int64_t num_states = kOrdered ? order->num_kept : lattice.num_states;
  int64_t num_arcs = 0, num_labels = 0, num_final_labels = 0;
  for (int64_t place = 0; place < num_states; ++place) {
    const int64_t state = kOrdered ? state_at[place] : place;
    num_final_labels += finals[state].num_labels;
    num_arcs += from_begin[state + 1] - from_begin[state];
    for (int64_t arc = from_begin[state]; arc < from_begin[state + 1]; ++arc) num_labels += arcs[arc].num_labels;
  }
  Block block = new_block(num_states, num_arcs, num_labels, num_final_labels);
  block.compact = lattice.compact;
  int32_t* __restrict dst = block.dst;
  int32_t* __restrict word = block.word;
  float* __restrict graph = block.graph;
  float* __restrict acoustic = block.acoustic;
  int64_t* __restrict ali_begin = block.ali_begin;
  int32_t* __restrict ali = block.ali;
  int64_t to = 0, label = 0, final_label = 0;
  for (int64_t place = 0; place < num_states; ++place) {
    const int64_t state = kOrdered ? state_at[place] : place;
    const StagedFinal& final = finals[state];
    block.arc_begin[place] = to;
    block.final_graph[place] = final.graph;
    block.final_acoustic[place] = final.acoustic;
    block.final_ali_begin[place] = final_label;
    if (final.num_labels > 0) std::memcpy(block.final_ali + final_label, final.labels, 4 * final.num_labels);
    final_label += final.num_labels;
    const StagedArc* stop = arcs + from_begin[state + 1];
    for (const StagedArc* arc = arcs + from_begin[state]; arc < stop; ++arc, ++to) {
      dst[to] = kOrdered ? place_of[arc->dst] : arc->dst;
      word[to] = arc->word;
      graph[to] = arc->graph;
      acoustic[to] = arc->acoustic;
      ali_begin[to] = label;
      copy_labels(ali + label, arc->labels, arc->num_labels);
      label += arc->num_labels;
    }
  }
  block.arc_begin[num_states] = num_arcs;
  block.ali_begin[num_arcs] = num_labels;
  block.final_ali_begin[num_states] = num_final_labels;
  return block;
}

}  // namespace ninja
