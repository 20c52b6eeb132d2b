// Topological order of states given in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ninja {

// Number the states so that every arc leads to a higher one and the start is 0, in the order of OpenFst's TopSort:
// depth first along the arcs, last finished first numbered. States that cannot be reached get -1.
// `arc_begin` and `dst` are laid out as in a lattice. Returns the states of a cycle if there is one, else nothing.
inline std::vector<int32_t> top_sort(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, int32_t start,
                                     int32_t* new_state) {
  enum : uint8_t { kUnseen, kOpen, kDone };
  std::vector<uint8_t> mark(num_states, kUnseen);
  std::vector<int64_t> next_arc(arc_begin, arc_begin + num_states);
  std::vector<int32_t> stack{start}, finished;
  mark[start] = kOpen;
  while (!stack.empty()) {
    const int32_t state = stack.back();
    if (next_arc[state] == arc_begin[state + 1]) {
      mark[state] = kDone;
      finished.push_back(state);
      stack.pop_back();
      continue;
    }
    const int32_t there = dst[next_arc[state]++];
    if (mark[there] == kOpen) return {std::find(stack.begin(), stack.end(), there), stack.end()};
    if (mark[there] == kUnseen) {
      mark[there] = kOpen;
      stack.push_back(there);
    }
  }
  std::fill(new_state, new_state + num_states, -1);
  int32_t number = 0;
  for (auto state = finished.rbegin(); state != finished.rend(); ++state) new_state[*state] = number++;
  return {};
}

// Return the old state of each new one: those that `top_sort` numbered, in their new order.
inline std::vector<int32_t> in_new_order(const std::vector<int32_t>& new_state) {
  std::vector<int32_t> old_state(new_state.size() - std::count(new_state.begin(), new_state.end(), -1));
  for (size_t state = 0; state < new_state.size(); ++state) {
    if (new_state[state] >= 0) old_state[new_state[state]] = static_cast<int32_t>(state);
  }
  return old_state;
}

}  // namespace ninja
