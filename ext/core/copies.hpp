// What a lattice made of another one's arcs and states takes over unchanged: words, acoustic costs, alignments.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

// The old arc of each new arc, and the old state of each new state with its new final cost (+inf: no longer final).
struct Origin {
  std::vector<int64_t> arc_map;     // [num_arcs]
  std::vector<int32_t> state_map;   // [num_states]
  std::vector<float> final_graph;   // [num_states]
};

// A lattice composed with a language model, as copies of its arcs and states.
struct ComposedLattice {
  bool too_large = false;
  int64_t impossible = -1;          // arc of the old lattice whose word the model does not allow; num_arcs: </s>
  Origin origin;
  std::vector<int64_t> arc_begin;   // [num_states + 1]
  std::vector<int32_t> dst;         // [num_arcs]
  std::vector<float> graph;         // [num_arcs]
};

// Lengths of the alignment pools that copies() fills.
inline void pool_sizes(const Origin& origin, const Alignments& old, int64_t* num_ali, int64_t* num_final_ali) {
  *num_ali = *num_final_ali = 0;
  for (const int64_t arc : origin.arc_map) *num_ali += old.ali_begin[arc + 1] - old.ali_begin[arc];
  for (size_t i = 0; i < origin.state_map.size(); ++i) {
    const int32_t state = origin.state_map[i];
    if (origin.final_graph[i] < kInfinity) *num_final_ali += old.final_ali_begin[state + 1] - old.final_ali_begin[state];
  }
}

// Where the copies go: arrays of the right sizes.
struct Copies {
  int32_t* word;
  float* acoustic;
  int64_t* ali_begin;
  int32_t* ali;
  float* final_acoustic;
  int64_t* final_ali_begin;
  int32_t* final_ali;
};

inline void copy(const Origin& origin, const Arcs& arcs, const Alignments& old, const Copies& to) {
  int64_t size = 0;
  const auto stretch = [&](int32_t* pool, const int32_t* from, int64_t begin, int64_t end) {
    if (end > begin) std::memcpy(pool + size, from + begin, static_cast<size_t>(end - begin) * sizeof(int32_t));
    size += end - begin;
  };
  for (size_t i = 0; i < origin.arc_map.size(); ++i) {
    const int64_t arc = origin.arc_map[i];
    to.word[i] = arcs.word[arc];
    to.acoustic[i] = arcs.acoustic[arc];
    to.ali_begin[i] = size;
    stretch(to.ali, old.ali, old.ali_begin[arc], old.ali_begin[arc + 1]);
  }
  to.ali_begin[origin.arc_map.size()] = size;
  size = 0;
  for (size_t i = 0; i < origin.state_map.size(); ++i) {
    const int32_t state = origin.state_map[i];
    const bool is_final = origin.final_graph[i] < kInfinity;
    to.final_acoustic[i] = is_final ? arcs.final_acoustic[state] : kInfinity;
    to.final_ali_begin[i] = size;
    if (is_final) stretch(to.final_ali, old.final_ali, old.final_ali_begin[state], old.final_ali_begin[state + 1]);
  }
  to.final_ali_begin[origin.state_map.size()] = size;
}

}  // namespace ninja
