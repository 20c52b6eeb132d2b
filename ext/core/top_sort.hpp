// Topological order of states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/pool.hpp"

namespace ninja {

// Orders states as OpenFst's TopSort does: the start first, in the reversed finishing order of a depth-first search
// that follows arcs in their order. States that cannot be reached from the start are omitted. Memory is reused between
// calls.
class TopSorter {
 public:
  Pool<int32_t> state_at;  // [num_kept], old state of each new state
  Pool<int32_t> place_of;  // [num_states], new state of each old state, -1 if omitted
  int64_t num_kept = 0;

  // Sort states; state s has the arcs [begin[s], begin[s + 1]), and `dst_of(arc)` is the destination of an arc.
  // Returns false if there is a cycle.
  template <class DstOf>
  bool sort(int64_t num_states, const int64_t* begin, const DstOf& dst_of, int32_t start) {
    constexpr int32_t kUnseen = -1, kOpen = -2;
    int32_t* place = place_of.reserve(num_states, 0);
    int32_t* order = state_at.reserve(num_states, 0);
    int64_t* next_arc = next_arc_.reserve(num_states, 0);
    int32_t* stack = stack_.reserve(num_states + 1, 0);
    std::fill_n(place, num_states, kUnseen);
    int64_t depth = 0, num_finished = 0;
    int32_t state = start;
    place[state] = kOpen;
    int64_t arc = begin[state], stop = begin[state + 1];
    while (true) {
      while (arc < stop) {
        const int32_t dst = dst_of(arc++);
        if (place[dst] == kOpen) {
          stack[depth++] = state;
          find_cycle(dst, depth);
          return false;
        }
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
    return true;
  }

  const std::vector<int32_t>& cycle() const { return cycle_; }  // states of the cycle in order, after a failed sort

 private:
  void find_cycle(int32_t first, int64_t depth) {
    const int32_t* stack = stack_.begin();
    cycle_.assign(std::find(stack, stack + depth, first), stack + depth);
  }

  Pool<int64_t> next_arc_;
  Pool<int32_t> stack_;
  std::vector<int32_t> cycle_;
};

// Number the states so that every arc leads to a higher number and the start is 0; states that cannot be reached get
// -1. `arc_begin` and `dst` are laid out as in a lattice. Returns the states of a cycle if there is one, else an empty
// vector.
inline std::vector<int32_t> top_sort(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, int32_t start,
                                     int32_t* new_state) {
  TopSorter sorter;
  if (!sorter.sort(num_states, arc_begin, [dst](int64_t arc) { return dst[arc]; }, start)) return sorter.cycle();
  std::copy_n(sorter.place_of.begin(), num_states, new_state);
  return {};
}

// Return the old state of each new state: the states that `top_sort` numbered, in their new order.
inline std::vector<int32_t> in_new_order(const std::vector<int32_t>& new_state) {
  std::vector<int32_t> old_state(new_state.size() - std::count(new_state.begin(), new_state.end(), -1));
  for (size_t state = 0; state < new_state.size(); ++state) {
    if (new_state[state] >= 0) old_state[new_state[state]] = static_cast<int32_t>(state);
  }
  return old_state;
}

}  // namespace ninja
