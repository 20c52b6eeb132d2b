// All paths of a small lattice, for slow twins of kernels.
#pragma once

#include <cmath>
#include <vector>

#include "inputs.hpp"
#include "core/lattice.hpp"

namespace fuzz {

using ninja::Arcs;

struct Path {
  std::vector<int64_t> arc;
  int64_t end;  // its last state
};

// Return the number of paths from the start to final states.
inline double num_paths(const Arcs& arcs) {
  std::vector<double> count(static_cast<size_t>(arcs.num_states));
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    count[state] = ninja::is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc)
      count[state] += count[arcs.dst[arc]];
  }
  return count.empty() ? 0 : count[0];
}

inline void follow(const Arcs& arcs, int64_t state, std::vector<int64_t>& arc, std::vector<Path>& found) {
  if (ninja::is_final(arcs, state)) found.push_back({arc, state});
  for (int64_t next = arcs.arc_begin[state]; next < arcs.arc_begin[state + 1]; ++next) {
    arc.push_back(next);
    follow(arcs, arcs.dst[next], arc, found);
    arc.pop_back();
  }
}

// Return all paths, in the order of their arcs; none if there are more than `most`.
inline std::vector<Path> all_paths(const Arcs& arcs, double most = 300) {
  std::vector<Path> found;
  std::vector<int64_t> arc;
  if (num_paths(arcs) <= most && arcs.num_states > 0) follow(arcs, 0, arc, found);
  return found;
}

// A path's cost: scaled acoustic and graph costs and a penalty for each word.
inline double cost_of(const Arcs& arcs, const Path& path, double acoustic_scale, double lm_scale, double word_penalty) {
  double sum = acoustic_scale * arcs.final_acoustic[path.end] + lm_scale * arcs.final_graph[path.end];
  for (const int64_t arc : path.arc) {
    sum += acoustic_scale * arcs.acoustic[arc] + lm_scale * arcs.graph[arc] + (arcs.word[arc] != 0 ? word_penalty : 0);
  }
  return sum;
}

inline bool near(double one, double other) { return std::abs(one - other) <= 1e-4 * (1 + std::abs(one)); }

// Expect that each copied arc leads from a copy of its source to a copy of its destination.
template <class Made>
void expect_copies(const Made& made, const Arcs& of) {
  const size_t num_states = made.state_map.size();
  expect(made.arc_begin.size() == num_states + 1 && made.arc_map.size() == made.dst.size(),
         "the arrays of copies fit each other");
  expect_arcs(made.arc_begin, made.dst);
  for (size_t state = 0; state < num_states; ++state) {
    const int32_t from = made.state_map[state];
    expect(from >= 0 && from < of.num_states, "a copy is one of a state");
    for (int64_t arc = made.arc_begin[state]; arc < made.arc_begin[state + 1]; ++arc) {
      const int64_t old = made.arc_map[arc];
      expect(old >= of.arc_begin[from] && old < of.arc_begin[from + 1] && made.state_map[made.dst[arc]] == of.dst[old],
             "a copy of an arc leads from a copy of its source to one of its destination");
    }
  }
}

}  // namespace fuzz
