// A lattice whose states are copied so that each copy has a single word history and each arc a single score.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/lattice.hpp"
#include "core/trie.hpp"

namespace ninja {

struct Unfolded {
  std::vector<int32_t> state_map;   // [num_states] state of the lattice
  std::vector<int64_t> arc_begin;   // [num_states + 1]
  std::vector<int32_t> dst;         // [num_arcs]
  std::vector<int64_t> arc_map;     // [num_arcs] arc of the lattice
  std::vector<int32_t> arc_node;    // [num_arcs] node of `trie` that scores the arc; kNoNode without a word
  std::vector<int32_t> final_node;  // [num_states] node of </s> after the copy's history; kNoNode if not final
  Trie trie;
};

// Copies are created in any order; they are visited and numbered in the topological order of the lattice's states.
class StateCopies {
 public:
  StateCopies(const Arcs& arcs, int64_t max_arcs, Unfolded& out)
      : of_state_(arcs.num_states), max_arcs_(max_arcs), out_(out) {
    out_.arc_begin.push_back(0);
  }

  int32_t add(int32_t state) {
    const int32_t copy = static_cast<int32_t>(number_.size());
    number_.push_back(-1);
    of_state_[state].push_back(copy);
    return copy;
  }

  // Copies of a state of the lattice, in order of creation.
  const std::vector<int32_t>& of(int64_t state) const { return of_state_[state]; }

  // Begins the arcs of a copy; all copies of lower states must be complete.
  void visit(int32_t copy, int64_t state) {
    number_[copy] = static_cast<int32_t>(out_.state_map.size());
    out_.state_map.push_back(static_cast<int32_t>(state));
    out_.arc_begin.push_back(out_.arc_begin.back());
    out_.final_node.push_back(kNoNode);
  }
  void add_arc(int64_t arc, int32_t copy, int32_t node) {
    if (static_cast<int64_t>(out_.dst.size()) >= max_arcs_) throw std::overflow_error("too many arcs");
    out_.dst.push_back(copy);
    out_.arc_map.push_back(arc);
    out_.arc_node.push_back(node);
    ++out_.arc_begin.back();
  }
  void finish(int32_t node) { out_.final_node.back() = node; }

  // Must be called after the last visit.
  void number() {
    for (int32_t& dst : out_.dst) dst = number_[dst];
  }

 private:
  std::vector<std::vector<int32_t>> of_state_;
  std::vector<int32_t> number_;  // [copies], -1 if not visited yet
  const int64_t max_arcs_;
  Unfolded& out_;
};

}  // namespace ninja
