// A lattice that a kernel writes state by state.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

// States are written in order. The caller appends the labels of an arc to `ali` before it adds the arc, and the final
// labels of a state to `final_ali` before it closes the state.
struct GrowingLattice : LatticeArrays {
  bool too_large = false;  // a bound was exceeded: the arrays are incomplete

  GrowingLattice() { arc_begin = ali_begin = final_ali_begin = {0}; }

  void add_arc(int32_t to, int32_t of_word, float graph_cost, float acoustic_cost) {
    dst.push_back(to);
    word.push_back(of_word);
    graph.push_back(graph_cost);
    acoustic.push_back(acoustic_cost);
    ali_begin.push_back(static_cast<int64_t>(ali.size()));
  }
  void close_state(bool is_final, float graph_cost, float acoustic_cost) {
    final_graph.push_back(is_final ? graph_cost : kInfinity);
    final_acoustic.push_back(is_final ? acoustic_cost : kInfinity);
    final_ali_begin.push_back(static_cast<int64_t>(final_ali.size()));
    arc_begin.push_back(static_cast<int64_t>(dst.size()));
  }
  int64_t num_arcs() const { return static_cast<int64_t>(dst.size()); }
};

inline void append_labels(const int32_t* pool, const int64_t* begin, int64_t owner, std::vector<int32_t>& to) {
  to.insert(to.end(), pool + begin[owner], pool + begin[owner + 1]);
}

}  // namespace ninja
