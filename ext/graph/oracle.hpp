// The path of a lattice nearest to a reference, by edit distance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/band.hpp"
#include "core/clones.hpp"

namespace ninja {

struct Oracle {
  int64_t substitutions = 0;
  int64_t insertions = 0;
  int64_t deletions = 0;
  bool reached = false;         // a path leads to a final state
  bool touches_band = false;    // the path touches the edge of the largest table: it may not have the fewest edits
  std::vector<int64_t> arc;     // the path, including epsilons
  std::vector<int32_t> before;  // number of words of the reference before each arc
  std::vector<char> touched;    // [num_states]; 1 if the window of the state is too narrow for the path

  int64_t edits() const { return substitutions + insertions + deletions; }
};

// Each state is compared with all words of the reference if these are at most kLeastOracleWords, or at most kWholeCells
// divided by twice the number of states. Otherwise it is compared with at least 2 * kLeastOracleWords words around its
// position, and with more if the path comes near the edge of the window, while the table has at most kMostOracleCells
// cells or twice the cells of the first table.
constexpr int64_t kWholeCells = int64_t{1} << 24;
constexpr int64_t kMostOracleCells = int64_t{1} << 26;
constexpr int64_t kLeastOracleWords = 256;
constexpr int32_t kUnreached = 1 << 29;  // a few more edits cannot overflow

NINJA_CLONES inline void take_word(const int32_t* next, const int32_t* reference, int32_t word, int64_t length,
                                   int32_t* here) {
  for (int64_t j = 0; j < length; ++j) {
    const int32_t insertion = next[j] + 1;
    const int32_t pair = next[j + 1] + (word != reference[j]);
    const int32_t least = insertion < pair ? insertion : pair;
    here[j] = here[j] < least ? here[j] : least;
  }
}

NINJA_CLONES inline void take_epsilon(const int32_t* next, int64_t length, int32_t* here) {
  for (int64_t j = 0; j < length; ++j) here[j] = here[j] < next[j] ? here[j] : next[j];
}

// rest[state][j] = fewest edits between a completion of the state and reference[j:], for j in the window of the state.
class RestEdits {
 public:
  RestEdits(const Arcs& arcs, const std::vector<int32_t>& reference, const Band& band) : band_(band) {
    first_.resize(arcs.num_states);
    int64_t cells = 0;
    for (int64_t state = 0; state < arcs.num_states; ++state) {  // plus a cell before and after
      first_[state] = cells + 1 - band.begin[state];
      cells += band.end[state] - band.begin[state] + 2;
    }
    rest_.assign(cells, kUnreached);
    const auto length = static_cast<int64_t>(reference.size()) - 1;
    for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
      int32_t* here = rest_.data() + first_[state];
      const int64_t begin = band.begin[state], end = band.end[state];
      if (is_final(arcs, state)) {
        for (int64_t j = begin; j < end; ++j) here[j] = static_cast<int32_t>(length - j);
      }
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        const int64_t dst = arcs.dst[arc];
        const int32_t* next = rest_.data() + first_[dst];
        const int32_t word = arcs.word[arc];
        const int64_t from = std::max<int64_t>(begin, band.begin[dst] - (word != 0));
        const int64_t to = std::min<int64_t>(end, band.end[dst]);
        if (word == 0) {
          take_epsilon(next + from, to - from, here + from);
        } else {
          take_word(next + from, reference.data() + from, word, to - from, here + from);
        }
      }
      for (int64_t j = end - 2; j >= begin; --j) here[j] = std::min(here[j], here[j + 1] + 1);
    }
  }

  int32_t operator()(int64_t state, int64_t j) const {
    return j < band_.begin[state] || j >= band_.end[state] ? kUnreached : rest_[first_[state] + j];
  }

 private:
  const Band& band_;
  std::vector<int64_t> first_;  // index of cell 0, even if outside the window
  std::vector<int32_t> rest_;
};

// Mark the states of a path where the band may be too narrow: within one width of the state's window on both sides,
// more than one word in three is an edit. `edit` is the number of words before each edit.
inline void mark_dense_edits(const Arcs& arcs, const Band& band, int64_t length, const std::vector<int64_t>& edit,
                             Oracle& path) {
  const auto edits_before = [&](int64_t j) { return std::lower_bound(edit.begin(), edit.end(), j) - edit.begin(); };
  int64_t state = 0;
  for (size_t at = 0; at < path.arc.size(); ++at) {
    const int64_t window = band.end[state] - band.begin[state];
    const int64_t first = std::max<int64_t>(0, path.before[at] - window);
    const int64_t last = std::min(length, path.before[at] + window);
    if (window <= length && 3 * (edits_before(last) - edits_before(first)) > last - first) path.touched[state] = 1;
    state = arcs.dst[path.arc[at]];
  }
}

// Fewest edits over all paths within the band. The last element of `reference` is a sentinel.
// Ties are broken by the order of arcs; substitutions are preferred to insertions, and insertions to deletions.
inline Oracle oracle_within(const Arcs& arcs, const std::vector<int32_t>& reference, const Band& band) {
  const auto length = static_cast<int64_t>(reference.size()) - 1;
  const RestEdits rest(arcs, reference, band);
  Oracle result;
  if (rest(0, 0) >= kUnreached) return result;
  result.reached = true;
  result.touched.assign(arcs.num_states, 0);
  std::vector<int64_t> edit;
  int64_t state = 0, j = 0;
  for (;;) {
    const int32_t here = rest(state, j);
    const int32_t begin = band.begin[state], end = band.end[state], margin = margin_of(end - begin);
    if ((begin > 0 && j - begin < margin) || (end <= length && end - j <= margin)) result.touched[state] = 1;
    if (is_final(arcs, state) && here == length - j) {
      result.deletions += length - j;
      while (j < length) edit.push_back(j++);
      mark_dense_edits(arcs, band, length, edit, result);
      return result;
    }
    int64_t next = -1;
    enum { kEpsilon, kMatch, kSubstitution, kInsertion } how = kEpsilon;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t dst = arcs.dst[arc];
      const int32_t word = arcs.word[arc];
      if (word == 0) {
        if (rest(dst, j) == here) {
          next = arc;
          how = kEpsilon;
          break;
        }
        continue;
      }
      const bool match = j < length && word == reference[j];
      if (j < length && rest(dst, j + 1) + !match == here) {
        next = arc;
        how = match ? kMatch : kSubstitution;
        break;
      }
      if (next < 0 && rest(dst, j) + 1 == here) {
        next = arc;
        how = kInsertion;
      }
    }
    if (next < 0) {  // no arc leads to the cell, so the word of the reference was deleted
      ++result.deletions;
      edit.push_back(j++);
      continue;
    }
    result.before.push_back(static_cast<int32_t>(j));
    result.substitutions += how == kSubstitution;
    result.insertions += how == kInsertion;
    if (how == kSubstitution || how == kInsertion) edit.push_back(j);
    j += how == kMatch || how == kSubstitution;
    result.arc.push_back(next);
    state = arcs.dst[next];
  }
}

struct ArcLinks {
  const Arcs& arcs;
  int64_t first(int64_t state) const { return arcs.arc_begin[state]; }
  int64_t last(int64_t state) const { return arcs.arc_begin[state + 1]; }
  int64_t dst(int64_t arc) const { return arcs.dst[arc]; }
};

// Position of the end of each word of the reference on a path.
inline std::vector<double> word_ends(const Arcs& arcs, const std::vector<double>& place, const Oracle& path,
                                     int64_t length) {
  std::vector<double> end;
  double last = 0.0;
  for (size_t at = 0; at < path.arc.size(); ++at) {
    while (static_cast<int32_t>(end.size()) < path.before[at]) end.push_back(last);
    last = std::max(last, place[arcs.dst[path.arc[at]]]);
  }
  end.resize(length, last);
  return end;
}

// Fewest edits over all paths. In a long recording, a state is compared only with the words around its position.
// Positions are spread evenly at first. Later rounds take them from the path of the previous round, with wider windows
// where this path comes near an edge or has many edits. The result is optimal if the band covers everything. Otherwise,
// a path with fewer edits would have to deviate from the result by at least an eighth of a window. It has that many
// edits where it departs and again where it returns, so that it would have to save more edits in between, where the
// result has few.
inline Oracle oracle(const Arcs& arcs, const int32_t* words, int64_t length, int64_t whole_cells = kWholeCells,
                     int64_t least_words = kLeastOracleWords, int64_t most_cells = kMostOracleCells) {
  if (arcs.num_states == 0) return {};
  std::vector<int32_t> reference(words, words + length);
  reference.push_back(-1);
  const int64_t half = std::max(least_words, whole_cells / (2 * arcs.num_states));
  if (half >= length) return oracle_within(arcs, reference, whole_band(arcs.num_states, length));

  const std::vector<double> place = relative_places(arcs);
  std::vector<double> end(length);
  for (int64_t j = 0; j < length; ++j) end[j] = static_cast<double>(j + 1) / static_cast<double>(length + 1);
  std::vector<int32_t> width(arcs.num_states, static_cast<int32_t>(half));
  Oracle best;
  for (;;) {
    const std::vector<int32_t> count = words_before(place, end);
    const Band band = band_around(ArcLinks{arcs}, count, width, length);
    if (!best.reached) {
      most_cells = std::max(most_cells, 2 * band.cells());
    } else if (band.cells() > most_cells) {
      best.touches_band = true;
      return best;
    }
    Oracle found = oracle_within(arcs, reference, band);
    if (!found.reached) return found;
    const bool touches = std::any_of(found.touched.begin(), found.touched.end(), [](char mark) { return mark != 0; });
    if (touches) {
      end = word_ends(arcs, place, found, length);
      widen(band, count, found.touched, length, width);
    }
    const int64_t edits = found.edits();
    if (!best.reached || edits <= best.edits()) best = std::move(found);
    if (!touches) {
      best.touches_band = best.edits() < edits;  // from an earlier band, at its edge
      return best;
    }
  }
}

}  // namespace ninja
