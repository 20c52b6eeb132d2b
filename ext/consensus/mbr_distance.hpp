// Average edit distances between the paths of a lattice and one word sequence, and the steps of the alignments.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/band.hpp"
#include "core/clones.hpp"
#include "consensus/mbr_lattice.hpp"

namespace ninja {

// An extra word of the lattice costs a little more than 1, so that of equal alignments the shorter one is preferred.
constexpr double kExtra = 1.0 + static_cast<double>(1.0e-5f);

enum AlignStep : uint8_t { kPair = 1, kExtraLink = 2, kMissing = 3 };  // link and place, link only, place only

NINJA_CLONES void add_scaled(const double* from, double factor, int64_t length, double* to) {
  for (int64_t i = 0; i < length; ++i) to[i] += factor * from[i];
}

// The word sequence with which paths are compared. Epsilons precede, separate and follow its words; places start at 1.
class Hypothesis {
 public:
  // Set the words, without epsilons.
  void set(const std::vector<int32_t>& words, const WordSlots& slots) {
    place_.assign(2 * words.size() + 2, 0);
    begin_.assign(slots.size() + 1, 0);
    for (size_t at = 0; at < words.size(); ++at) {
      place_[2 * at + 2] = words[at];
      const int32_t slot = slots.find(words[at]);
      if (slot >= 0) ++begin_[slot + 1];
    }
    for (int32_t slot = 0; slot < slots.size(); ++slot) begin_[slot + 1] += begin_[slot];
    places_.resize(begin_.back());
    for (size_t at = words.size(); at-- > 0;) {  // backwards: turns ends of slots into begins
      const int32_t slot = slots.find(words[at]);
      if (slot >= 0) places_[--begin_[slot + 1]] = static_cast<int32_t>(2 * at + 2);
    }
    begin_.erase(begin_.begin());
    begin_.push_back(static_cast<int32_t>(places_.size()));
  }
  int32_t length() const { return static_cast<int32_t>(place_.size()) - 1; }
  int32_t operator[](int64_t q) const { return place_[q]; }  // even places hold words

  struct Range {
    int32_t first;  // first and last place of a word, 0 if there is none
    int32_t last;
  };
  // First and last place of the word of a slot with begin <= place < end.
  Range where(int32_t slot, int32_t begin, int32_t end) const {
    const int32_t* first = places_.data() + begin_[slot];
    const int32_t* last = places_.data() + begin_[slot + 1];
    if (first != last && *first < begin) first = std::lower_bound(first, last, begin);
    if (first != last && last[-1] >= end) last = std::lower_bound(first, last, end);
    return first == last ? Range{0, 0} : Range{*first, last[-1]};
  }

 private:
  std::vector<int32_t> place_;
  std::vector<int32_t> begin_;  // [slots + 1]; the places of slot s are places_[begin_[s]] : places_[begin_[s + 1]]
  std::vector<int32_t> places_;
};

// alpha' of Xu et al. 2011, figure 4: the average distance of the paths to a state from the first q places.
//
// The rows of the links of a state differ only from the first place of their word in the hypothesis. So one row is
// computed for all words that do not occur in the hypothesis, one for epsilons, and for other words only the rest of a
// row.
//
// The row of a state is computed for the places of its window in a band; other distances are treated as infinite, and
// are thus never too small. If the steps of the alignments of all paths stay within the band, they are bit for bit the
// same as without a band: omitted terms could not have been minimal, and the remaining terms are computed from the same
// numbers in the same order.
class Distances {
 public:
  // Returns the average distance of all paths from the hypothesis: the Bayes risk.
  double compute(const MbrLattice& lattice, const Hypothesis& hypothesis, const Band& band) {
    lay_out(lattice, band);
    const int64_t rows = lattice.num_states;
    const auto columns = static_cast<size_t>(hypothesis.length() + 1);
    any_.resize(columns);
    none_.resize(columns);
    some_.resize(columns);
    double* start = row_.data() + at_[0].row;
    for (int64_t q = 1; q < at_[0].end; ++q) start[q] = start[q - 1] + (q % 2 == 0 ? 1.0 : 0.0);
    for (int64_t state = 0; state < rows; ++state) {
      const Row& at = at_[state];
      const double* here = row_.data() + at.row;
      bool any = false;
      int64_t none = -1;
      for (int64_t link_at = lattice.out[state]; link_at < lattice.out[state + 1]; ++link_at) {
        const MbrLattice::Link& link = lattice.link[link_at];
        const Row& next = at_[link.dst];
        double* there = row_.data() + next.row;
        if (link.word == 0) {
          if (none < 0) none = epsilon_row(here, at);
          own_at_[link_at] = {none, at.begin, at.last};
          add(none_, link.prob, next.begin, next.end, there);
          continue;
        }
        if (!any) word_row(here, at, common_.data() + at.row);
        any = true;
        // To pair a word, the previous place must be in the window.
        const Hypothesis::Range range = hypothesis.where(link.slot, at.begin + 1, next.end);
        own_at_[link_at] = {0, 0, 0};
        if (range.first == 0) {
          add(any_, link.prob, next.begin, next.end, there);
          continue;
        }
        const int32_t end = matching_row(here, hypothesis, link.word, range, next.end, &own_at_[link_at]);
        const int32_t first = std::max(range.first, next.begin);
        add(any_, link.prob, next.begin, first, there);
        add(some_, link.prob, first, end, there);
        add(any_, link.prob, std::max(end, first), next.end, there);
      }
    }
    return row_[at_[rows - 1].row + hypothesis.length()];
  }

  // The window of a state: begin <= place < end.
  int32_t begin(int64_t state) const { return at_[state].begin; }
  int32_t end(int64_t state) const { return at_[state].end; }

  // The last step of the alignment of a link with the first q places, begin(src) < q.
  struct Steps {
    const uint8_t* own;
    const uint8_t* common;
    int32_t begin;  // of own
    uint32_t count;

    AlignStep operator[](int32_t q) const {
      return static_cast<AlignStep>((static_cast<uint32_t>(q - begin) < count ? own : common)[q]);
    }
  };
  Steps steps(int64_t link, int64_t src) const {
    const Own& own = own_at_[link];
    return {own_.data() + own.pool, common_.data() + at_[src].row, own.begin,
            static_cast<uint32_t>(own.end - own.begin)};
  }

  size_t bytes() const { return 8 * row_.capacity() + common_.capacity() + own_.capacity() + 16 * own_at_.capacity(); }

  // Reset the distances, which are not needed once the steps are known, for the backward pass.
  void clear() { std::fill(row_.begin(), row_.end(), 0.0); }
  double* row(int64_t state) { return row_.data() + at_[state].row; }  // element q for place q

 private:
  struct Row {
    int64_t row;         // index of place 0 in row_ and common_, even if outside the window
    int32_t begin, end;  // window of the state
    int32_t last;        // end of the windows of the next states, at least `end`; distances in between are infinite
  };
  struct Own {
    int64_t pool;  // step q of the link is own_[pool + q]
    int32_t begin, end;
  };

  void lay_out(const MbrLattice& lattice, const Band& band) {
    at_.resize(lattice.num_states);
    int64_t cells = 0;
    for (int64_t state = 0; state < lattice.num_states; ++state) {
      Row& at = at_[state];
      at.begin = 2 * band.begin[state];
      at.end = at.last = 2 * band.end[state];
      for (int64_t link = lattice.out[state]; link < lattice.out[state + 1]; ++link) {
        at.last = std::max(at.last, 2 * band.end[lattice.link[link].dst]);
      }
      at.row = cells - at.begin;
      cells += at.last - at.begin;
    }
    row_.assign(cells, 0.0);
    for (const Row& at : at_) {
      std::fill(row_.begin() + at.row + at.end, row_.begin() + at.row + at.last,
                std::numeric_limits<double>::infinity());
    }
    common_.resize(cells);
    own_.clear();
    own_at_.resize(lattice.link.size());
  }

  static void add(const std::vector<double>& from, double factor, int64_t begin, int64_t end, double* to) {
    if (begin < end) add_scaled(from.data() + begin, factor, end - begin, to + begin);
  }

  // The least of three distances, and its step.
  static double best(double pair, double extra, double missing, uint8_t* how) {
    const bool paired = pair <= extra;
    const double least = paired ? pair : extra;
    const bool is_missing = missing < least;
    *how = is_missing ? kMissing : paired ? kPair : kExtraLink;
    return is_missing ? missing : least;
  }

  // The row of a word that is not in the hypothesis; places come in pairs, epsilon and word.
  void word_row(const double* from, const Row& at, uint8_t* how) {
    double* to = any_.data();
    const int64_t begin = at.begin;
    double value = to[begin] = from[begin] + kExtra;
    to[begin + 1] = value = best(from[begin] + 1.0, from[begin + 1] + kExtra, value, how + begin + 1);
    for (int64_t q = begin + 2; q < at.last; q += 2) {
      to[q] = value = best(from[q - 1] + 1.0, from[q] + kExtra, value + 1.0, how + q);
      to[q + 1] = value = best(from[q] + 1.0, from[q + 1] + kExtra, value, how + q + 1);
    }
  }

  int64_t epsilon_row(const double* from, const Row& at) {
    const int64_t begin = at.begin;
    const auto pool = static_cast<int64_t>(own_.size()) - begin;
    own_.resize(pool + at.last);
    uint8_t* how = own_.data() + pool;
    double* to = none_.data();
    double value = to[begin] = from[begin];
    to[begin + 1] = value = best(from[begin], from[begin + 1], value, how + begin + 1);
    for (int64_t q = begin + 2; q < at.last; q += 2) {
      to[q] = value = best(from[q - 1] + 1.0, from[q], value + 1.0, how + q);
      to[q + 1] = value = best(from[q], from[q + 1], value, how + q + 1);
    }
    return pool;
  }

  // The row of a word of the hypothesis, from its first place until it equals the common row. Returns the end.
  int32_t matching_row(const double* from, const Hypothesis& hypothesis, int32_t word, Hypothesis::Range range,
                       int32_t end, Own* own) {
    own->begin = range.first;
    own->pool = static_cast<int64_t>(own_.size()) - range.first;
    own_.resize(own_.size() + end - range.first);
    uint8_t* how = own_.data() + own->pool;
    double* to = some_.data();
    double value = any_[range.first - 1];
    int32_t q = range.first;
    for (; q < end; q += 2) {
      const double wrong = hypothesis[q] == word ? 0.0 : 1.0;
      to[q] = value = best(from[q - 1] + wrong, from[q] + kExtra, value + 1.0, how + q);
      to[q + 1] = value = best(from[q] + 1.0, from[q + 1] + kExtra, value, how + q + 1);
      if (value == any_[q + 1] && q >= range.last) {
        q += 2;
        break;
      }
    }
    own->end = q;
    own_.resize(own->pool + q);
    return q;
  }

  std::vector<Row> at_;                    // [states]
  std::vector<double> row_;                // distances of all states
  std::vector<uint8_t> common_;            // likewise, steps of words that are not in the hypothesis
  std::vector<uint8_t> own_;               // steps of epsilons and of words in the hypothesis
  std::vector<Own> own_at_;                // [links]
  std::vector<double> any_, none_, some_;  // [places]
};

}  // namespace ninja
