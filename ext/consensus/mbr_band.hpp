// Which words of the hypothesis each state of a long recording is compared with.
//
// Beyond kWholeWords states times words, a state is compared with the words around its time, or around its place where
// the lattice has no times. That nothing is lost shows when the shares of probability have been handed back: where more
// than kTouching of a state's share lies in the outer eighth of its window, the window is widened and all is computed
// again, until no state is touched or the band takes kMostWords and twice what it took first. What is left out then are
// alignments that run beside the ones found by an eighth of a window or more: they pay as many words on the way out and
// again on the way back, and would have to save more than that on the stretch between.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "consensus/mbr_lattice.hpp"
#include "core/band.hpp"
#include "graph/oracle.hpp"

namespace ninja {

constexpr int64_t kWholeWords = int64_t{1} << 18;  // states times words; each takes 18 bytes
constexpr int64_t kMostWords = int64_t{1} << 22;
constexpr int64_t kLeastWords = 32;                // to both sides of a state
// More than this is a difference in single precision, which decides between words that are equally probable.
constexpr double kTouching = 1e-13;
constexpr double kNegligible = 1e-16;  // shares that are followed no further in a band that is not all

class MbrBand {
 public:
  // Take the lattice that `lattice` was made of, the frames of its states, and the words decoding begins with: those of
  // the links of the best path or, where that is null, given ones.
  void start(const Arcs& arcs, const int32_t* time, const MbrLattice& lattice, const std::vector<int32_t>& words,
             const std::vector<int64_t>* links, int64_t whole_words, int64_t least_words, int64_t most_words) {
    const auto num_words = static_cast<int64_t>(words.size());
    const int64_t half = std::max(least_words, whole_words / (2 * lattice.num_states));
    is_whole_ = half >= num_words;
    if (is_whole_) return;
    most_words_ = std::max(most_words, 2 * lattice.num_states * (2 * half + 1));
    const bool timed = std::any_of(time, time + arcs.num_states, [](int32_t each) { return each > 0; });
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
    } else {  // where the path nearest to them has them
      end_ = word_ends(arcs, place, oracle(arcs, words.data(), num_words), num_words);
    }
    width_.assign(lattice.num_states, static_cast<int32_t>(half));
  }

  // The band for the words as they are now.
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

  // Whether there is more to compare touched states with.
  bool touches(const std::vector<char>& touched) const {
    return !is_whole_ && std::any_of(touched.begin(), touched.end(), [](char each) { return each != 0; });
  }

  // Widen the band around touched states; false if that takes too much.
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

  // The words have changed: `bin[k]` is where the new one came from, an odd number 2 w + 1 for old word w, 2 w for the
  // gap before it.
  void follow(const std::vector<int32_t>& bin) {
    if (is_whole_) return;
    std::vector<double> end;
    for (const int32_t each : bin) end.push_back(each == 0 ? 0.0 : end_[(each - 1) / 2]);
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
  std::vector<double> place_;   // [states], frame or share of the recording
  std::vector<double> end_;     // [words], likewise; rises
  std::vector<int32_t> width_;  // [states]
  std::vector<int32_t> count_;  // [states], words that end before it
  Band band_;
};

}  // namespace ninja
