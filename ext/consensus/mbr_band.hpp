// For each state of a long recording, the words of the hypothesis with which the state is compared.
//
// If the number of states times twice the number of words exceeds kWholeWords, and there are more than kLeastWords
// words, a state is compared with the words around its time, or around its relative position if the lattice has no
// times. If more than kTouching of the probability of a state lies in the outer eighth of its window, the window is
// widened and everything is computed again, until no state is touched or the band would exceed both kMostWords and
// twice its first size. An alignment that leaves the band deviates from the alignments found by an eighth of a window
// or more. It has that many errors where it departs and again where it returns, so that it would have to save more
// errors in between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "consensus/mbr_lattice.hpp"
#include "core/band.hpp"
#include "graph/oracle.hpp"

namespace ninja {

constexpr int64_t kWholeWords = int64_t{1} << 18;  // states times words; 18 bytes for each
constexpr int64_t kMostWords = int64_t{1} << 22;
constexpr int64_t kLeastWords = 32;  // on both sides of a state
// Larger probabilities may change results in single precision, which decide between equally probable words.
constexpr double kTouching = 1e-13;
constexpr double kNegligible = 1e-16;  // probabilities that are dropped in a partial band

class MbrBand {
 public:
  // `arcs` is the original lattice, `time` the frame of its states, `words` the initial hypothesis, and `links` the
  // links of the best path with these words, or null.
  void start(const Arcs& arcs, const int32_t* time, const MbrLattice& lattice, const std::vector<int32_t>& words,
             const std::vector<int64_t>* links, int64_t whole_words, int64_t least_words, int64_t most_words) {
    const auto num_words = static_cast<int64_t>(words.size());
    const int64_t half = std::max(least_words, whole_words / (2 * lattice.num_states));
    is_whole_ = half >= num_words;
    if (is_whole_) return;
    most_words_ = std::max(most_words, 2 * lattice.num_states * (2 * half + 1));
    const bool timed = std::any_of(time, time + arcs.num_states, [](int32_t frame) { return frame > 0; });
    std::vector<double> place = timed ? std::vector<double>(time, time + arcs.num_states) : relative_places(arcs);
    place_.clear();
    double last = 0.0;
    for (const int32_t state : lattice.origin) {
      place_.push_back(state < 0 ? last : place[state]);
      last = std::max(last, place_.back());
    }
    if (links != nullptr) {
      end_.clear();
      last = 0.0;
      for (const int64_t link : *links) end_.push_back(last = std::max(last, place_[lattice.link[link].dst]));
    } else {  // use the ends on the path that is nearest to the words
      end_ = word_ends(arcs, place, oracle(arcs, words.data(), num_words), num_words);
    }
    width_.assign(lattice.num_states, static_cast<int32_t>(half));
  }

  // The band for the current number of words.
  const Band& of(const MbrLattice& lattice, int64_t num_words) {
    num_words_ = num_words;
    if (is_whole_) {
      band_.begin.assign(lattice.num_states, 0);
      band_.end.assign(lattice.num_states, static_cast<int32_t>(num_words + 1));
    } else {
      count_ = words_before(place_, end_);
      band_ = band_around(Links{lattice}, count_, width_, num_words);
    }
    return band_;
  }

  // Whether touched states can be compared with more words.
  bool touches(const std::vector<char>& touched) const {
    return !is_whole_ && std::any_of(touched.begin(), touched.end(), [](char mark) { return mark != 0; });
  }

  // Widen the band around touched states; false if it would become too large.
  bool widen(const MbrLattice& lattice, const std::vector<char>& touched) {
    std::vector<int32_t> width = width_;
    ninja::widen(band_, count_, touched, num_words_, width);
    Band wider = band_around(Links{lattice}, count_, width, num_words_);
    if (wider.cells() > most_words_) return false;
    width_ = std::move(width);
    band_ = std::move(wider);
    return true;
  }

  double negligible() const { return is_whole_ ? 0.0 : kNegligible; }

  // Update positions after a change of words: word k comes from place `bin[k]`, which is 2 w + 1 for the old word w and
  // 2 w for the gap before it.
  void follow(const std::vector<int32_t>& bin) {
    if (is_whole_) return;
    std::vector<double> end;
    for (const int32_t place : bin) end.push_back(place == 0 ? 0.0 : end_[(place - 1) / 2]);
    end_ = std::move(end);
  }

 private:
  struct Links {
    const MbrLattice& lattice;
    int64_t first(int64_t state) const { return lattice.out[state]; }
    int64_t last(int64_t state) const { return lattice.out[state + 1]; }
    int64_t dst(int64_t link) const { return lattice.link[link].dst; }
  };

  bool is_whole_ = true;
  int64_t num_words_ = 0, most_words_ = 0;
  std::vector<double> place_;   // [states], frame or relative position
  std::vector<double> end_;     // [words], end of each word in the same unit; non-decreasing
  std::vector<int32_t> width_;  // [states]
  std::vector<int32_t> count_;  // [states], words that end before the state
  Band band_;
};

}  // namespace ninja
