// For each state of a long lattice, the window of a word sequence with which the state is compared.
//
// Comparing all states with all words takes quadratic time and memory. It is enough to compare a state with a window of
// words around its time. The algorithm checks whether its result touches the edge of a window, and widens it there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

// A count of words fits a state if begin[state] <= count < end[state]. The windows of consecutive states overlap, and a
// later window never begins earlier.
struct Band {
  std::vector<int32_t> begin, end;

  int64_t cells() const {
    int64_t sum = 0;
    for (size_t state = 0; state < begin.size(); ++state) sum += end[state] - begin[state];
    return sum;
  }
};

// Distance in words from the edge of a window at which a result touches the window. With a distance of two words, one
// in 5,000 decodings of nearly flat lattices missed a better result outside a window of nine words; with four, none of
// 16,000 did.
inline int32_t margin_of(int32_t window) { return std::max(4, window / 8); }

inline Band whole_band(int64_t num_states, int64_t num_words) {
  return {std::vector<int32_t>(num_states, 0), std::vector<int32_t>(num_states, static_cast<int32_t>(num_words + 1))};
}

// Relative positions of the states of a lattice without times, from 0 at the start to 1 at the ends. They are computed
// from the mean numbers of words both before and after a state, so that long parallel parts, as in a union of lattices,
// stay aligned.
inline std::vector<double> relative_places(const Arcs& arcs) {
  std::vector<double> before(arcs.num_states, 0.0), after(arcs.num_states, 0.0);
  std::vector<int32_t> ways(arcs.num_states, 0);
  ways[0] = 1;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (ways[state] == 0) continue;  // unreachable
    before[state] /= ways[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      before[arcs.dst[arc]] += before[state] + (arcs.word[arc] != 0);
      ++ways[arcs.dst[arc]];
    }
  }
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    int64_t leading = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t dst = arcs.dst[arc];
      if (after[dst] < 0.0) continue;  // a dead end
      after[state] += after[dst] + (arcs.word[arc] != 0);
      ++leading;
    }
    after[state] = leading == 0 ? -1.0 : after[state] / static_cast<double>(leading);
  }
  std::vector<double> place(arcs.num_states, 0.0);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const double all = before[state] + after[state];
    if (after[state] >= 0.0 && all > 0.0) place[state] = before[state] / all;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      double& there = place[arcs.dst[arc]];
      there = std::max(there, place[state]);  // a dead end takes the position of its predecessors
    }
  }
  for (int64_t state = arcs.num_states - 1; state > 0; --state) {
    if (ways[state] > 0) continue;
    place[state] = 1.0;  // unreachable: use the position of its successors
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      place[state] = std::min(place[state], place[arcs.dst[arc]]);
    }
  }
  return place;
}

// Count the words that end no later than each state. `word_end` is sorted.
inline std::vector<int32_t> words_before(const std::vector<double>& place, const std::vector<double>& word_end) {
  std::vector<int32_t> count(place.size());
  for (size_t state = 0; state < place.size(); ++state) {
    const auto later = std::upper_bound(word_end.begin(), word_end.end(), place[state]);
    count[state] = static_cast<int32_t>(later - word_end.begin());
  }
  return count;
}

// Create the band of windows around the word count of each state, with `width` words on both sides. `Links` has
// first(state), last(state) and dst(link).
template <class Links>
Band band_around(const Links& links, const std::vector<int32_t>& count, const std::vector<int32_t>& width,
                 int64_t num_words) {
  const auto num_states = static_cast<int64_t>(count.size());
  Band band = whole_band(num_states, num_words);
  for (int64_t state = num_states - 1; state >= 0; --state) {
    band.begin[state] = std::max(0, count[state] - width[state]);
    for (int64_t link = links.first(state); link < links.last(state); ++link) {
      band.begin[state] = std::min(band.begin[state], band.begin[links.dst(link)]);
    }
  }
  band.begin[0] = 0;
  for (int64_t state = 0; state < num_states; ++state) {
    int64_t end = static_cast<int64_t>(count[state]) + width[state] + 1;
    for (int64_t link = links.first(state); link < links.last(state); ++link) {
      end = std::max<int64_t>(end, band.begin[links.dst(link)] + 1);
    }
    band.end[state] = static_cast<int32_t>(std::min(end, num_words + 1));
  }
  return band;
}

// Double the width of touched states, and of all states with a word count inside a touched window.
inline void widen(const Band& band, const std::vector<int32_t>& count, const std::vector<char>& touched,
                  int64_t num_words, std::vector<int32_t>& width) {
  std::vector<int32_t> change(num_words + 2, 0);
  for (size_t state = 0; state < touched.size(); ++state) {
    if (!touched[state]) continue;
    ++change[band.begin[state]];
    --change[band.end[state]];
  }
  for (int64_t words = 0; words <= num_words; ++words) change[words + 1] += change[words];
  for (size_t state = 0; state < touched.size(); ++state) {
    if (change[count[state]] > 0) width[state] = static_cast<int32_t>(std::min<int64_t>(2 * width[state], num_words));
  }
}

}  // namespace ninja
