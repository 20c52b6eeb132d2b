// The path of a lattice nearest to a reference, by edit distance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

struct Oracle {
  int64_t substitutions = 0;
  int64_t insertions = 0;
  int64_t deletions = 0;
  bool reached = false;           // false: no path leads to a final state
  std::vector<int64_t> arc;       // the path, epsilons included
};

// Fewest edits over all paths: rest[state][j] = edits from a state to the end with reference[j:] still to be matched.
// Ties are ruled by the arcs' order; a substitution is preferred to an insertion, an insertion to a deletion.
inline Oracle oracle(const Arcs& arcs, const int32_t* reference, int64_t length) {
  constexpr int32_t kUnreached = 1 << 29;  // adding a few edits to it cannot overflow
  const int64_t width = length + 1;
  std::vector<int32_t> rest(static_cast<size_t>(arcs.num_states * width), kUnreached);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    int32_t* here = rest.data() + state * width;
    if (is_final(arcs, state)) {
      for (int64_t j = 0; j <= length; ++j) here[j] = static_cast<int32_t>(length - j);
    }
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int32_t* next = rest.data() + arcs.dst[arc] * width;
      const int32_t word = arcs.word[arc];
      if (word == 0) {
        for (int64_t j = 0; j <= length; ++j) here[j] = std::min(here[j], next[j]);
      } else {
        for (int64_t j = 0; j < length; ++j) {
          here[j] = std::min(here[j], std::min(next[j] + 1, next[j + 1] + (word != reference[j])));
        }
        here[length] = std::min(here[length], next[length] + 1);
      }
    }
    for (int64_t j = length - 1; j >= 0; --j) here[j] = std::min(here[j], here[j + 1] + 1);
  }

  Oracle result;
  if (arcs.num_states == 0 || rest[0] >= kUnreached) return result;
  result.reached = true;
  int64_t state = 0, j = 0;
  for (;;) {
    const int32_t* here = rest.data() + state * width;
    if (is_final(arcs, state) && here[j] == length - j) {
      result.deletions += length - j;
      return result;
    }
    int64_t taken = -1;
    enum { kEpsilon, kMatch, kSubstitution, kInsertion } how = kEpsilon;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int32_t* next = rest.data() + arcs.dst[arc] * width;
      const int32_t word = arcs.word[arc];
      if (word == 0) {
        if (next[j] == here[j]) {
          taken = arc;
          how = kEpsilon;
          break;
        }
        continue;
      }
      const bool match = j < length && word == reference[j];
      if (j < length && next[j + 1] + !match == here[j]) {
        taken = arc;
        how = match ? kMatch : kSubstitution;
        break;
      }
      if (taken < 0 && next[j] + 1 == here[j]) {
        taken = arc;
        how = kInsertion;
      }
    }
    if (taken < 0) {  // no arc explains the count: the reference word is missing from the path
      ++result.deletions;
      ++j;
      continue;
    }
    result.substitutions += how == kSubstitution;
    result.insertions += how == kInsertion;
    j += how == kMatch || how == kSubstitution;
    result.arc.push_back(taken);
    state = arcs.dst[taken];
  }
}

}  // namespace ninja
