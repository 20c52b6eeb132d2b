// A lattice while it is being read: arcs by source state, in the file's numbering, before they are ordered and copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/block.hpp"
#include "core/lattice.hpp"
#include "core/pool.hpp"

namespace ninja {

// What is wrong with one lattice. After a fatal fault nothing more of the archive can be read.
struct Fault {
  enum Kind { kNone, kLattice, kFormat, kSymbol };
  Kind kind = kNone;
  bool fatal = false;
  std::string message;
  int64_t line = -1;  // counted from 1; -1 in binary files
  int64_t byte = -1;  // offset in the file; -1 in text files
};

// Labels lie anywhere in the file's bytes, so they are unaligned.
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
  bool forward = true;       // every arc leads to a larger state
  Pool<int64_t> arc_begin;   // [num_states + 1]
  Pool<StagedFinal> finals;  // [num_states]
  Pool<StagedArc> arcs;      // [num_arcs], by source state
};

// Orders the states of a lattice topologically, as OpenFst's TopSort does: start first, reversed finishing order of a
// depth-first search that follows arcs in their order. States the start does not reach are left out.
class TopologicalOrder {
 public:
  Pool<int32_t> state_at;  // [num_kept], old state at each place
  Pool<int32_t> place_of;  // [num_states], -1 where left out
  int64_t num_kept = 0;

  // Returns a state on a cycle, or -1.
  int64_t sort(const Staging& lattice) {
    constexpr int32_t kUnseen = -1, kOpen = -2;
    const int64_t num_states = lattice.num_states;
    const int64_t* begin = lattice.arc_begin.begin();
    const StagedArc* arcs = lattice.arcs.begin();
    int32_t* place = place_of.reserve(num_states, 0);
    int32_t* order = state_at.reserve(num_states, 0);
    int64_t* next_arc = next_arc_.reserve(num_states, 0);
    int32_t* stack = stack_.reserve(num_states, 0);
    std::fill_n(place, num_states, kUnseen);
    int64_t depth = 0, num_finished = 0;
    int32_t state = static_cast<int32_t>(lattice.start);
    place[state] = kOpen;
    int64_t arc = begin[state], stop = begin[state + 1];
    while (true) {
      while (arc < stop) {
        const int32_t dst = arcs[arc++].dst;
        if (place[dst] == kOpen) return dst;
        if (place[dst] != kUnseen) continue;
        next_arc[state] = arc;
        stack[depth++] = state;
        state = dst;
        place[state] = kOpen;
        arc = begin[state];
        stop = begin[state + 1];
      }
      order[num_states - 1 - num_finished] = state;
      place[state] = static_cast<int32_t>(num_finished++);
      if (depth == 0) break;
      state = stack[--depth];
      arc = next_arc[state];
      stop = begin[state + 1];
    }
    num_kept = num_finished;
    if (num_kept < num_states) std::memmove(order, order + num_states - num_kept, num_kept * sizeof(int32_t));
    for (int64_t at = 0; at < num_kept; ++at) place[order[at]] = static_cast<int32_t>(at);
    return -1;
  }

 private:
  Pool<int64_t> next_arc_;
  Pool<int32_t> stack_;
};

// Copy a staged lattice into its final arrays, states in the given order (null: as they are).
template <bool kOrdered>
Block settle(const Staging& lattice, const TopologicalOrder* order) {
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
