// Edit distances between all paths of a lattice and one word sequence, on average, and how each step of them arose.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "core/clones.hpp"
#include "consensus/mbr_lattice.hpp"

namespace ninja {

// A word left over costs a little more than an error, so that of equal alignments the shorter one is taken.
constexpr double kExtra = 1.0 + static_cast<double>(1.0e-5f);
constexpr int64_t kMostDistanceBytes = int64_t{1} << 33;

enum Step : uint8_t { kPair = 1, kLeftOver = 2, kMissing = 3 };  // link and place; link alone; place alone

NINJA_CLONES void add_scaled(const double* from, double factor, int64_t length, double* to) {
  for (int64_t i = 0; i < length; ++i) to[i] += factor * from[i];
}

// The word sequence that paths are compared with: an epsilon before, between and after its words. Places count from 1.
class Hypothesis {
 public:
  // Take the words among `words`, between epsilons.
  void set(const std::vector<int32_t>& words) {
    place_.assign(2, 0);
    for (const int32_t word : words) {
      if (word == 0) continue;
      place_.push_back(word);
      place_.push_back(0);
    }
    size_t size = 16;
    while (size < 2 * place_.size()) size *= 2;
    cells_.assign(size, {0, 0, 0});
    for (int32_t q = 2; q <= length(); q += 2) {
      Cell& cell = find(place_[q]);
      if (cell.word == 0) cell = {place_[q], q, q};
      cell.last = q;
    }
  }
  int32_t length() const { return static_cast<int32_t>(place_.size()) - 1; }
  int32_t operator[](int64_t q) const { return place_[q]; }  // even places hold words

  struct Cell {
    int32_t word;
    int32_t first;  // place where the word stands first, and last; 0 if nowhere
    int32_t last;
  };
  const Cell& where(int32_t word) const { return const_cast<Hypothesis*>(this)->find(word); }

 private:
  Cell& find(int32_t word) {
    const size_t mask = cells_.size() - 1;
    size_t at = (static_cast<uint32_t>(word) * 0x9e3779b1u >> 8) & mask;
    while (cells_[at].word != word && cells_[at].word != 0) at = (at + 1) & mask;
    return cells_[at];
  }
  std::vector<int32_t> place_;
  std::vector<Cell> cells_;
};

// alpha' of Xu et al. 2011, figure 4: the average distance of the paths to a state from the first q places.
//
// Links of one state differ only from the place on where their word stands in the hypothesis. So one row is computed
// for all words that stand nowhere, one for epsilons, and only the rest of a row for words that do.
class Distances {
 public:
  // Returns the average distance of all paths from the whole hypothesis: the Bayes risk.
  double compute(const MbrLattice& lattice, const Hypothesis& hypothesis) {
    const int64_t columns = hypothesis.length() + 1;
    const int64_t rows = lattice.num_states;
    const auto links = static_cast<int64_t>(lattice.link.size());
    if (9 * rows + links > kMostDistanceBytes / columns) throw std::bad_alloc();
    columns_ = columns;
    row_.assign(rows * columns, 0.0);
    common_.resize(rows * columns);
    own_.clear();
    at_.resize(links);
    any_.resize(columns);
    none_.resize(columns);
    some_.resize(columns);
    row_[0] = 0.0;
    for (int64_t q = 1; q < columns; ++q) row_[q] = row_[q - 1] + (q % 2 == 0 ? 1.0 : 0.0);
    for (int64_t state = 0; state < rows; ++state) {
      const double* here = row_.data() + state * columns;
      bool any = false;
      int64_t none = -1;
      for (int64_t at = lattice.out[state]; at < lattice.out[state + 1]; ++at) {
        const MbrLattice::Link& link = lattice.link[at];
        double* there = row_.data() + link.dst * columns;
        if (link.word == 0) {
          if (none < 0) none = epsilon_row(here);
          at_[at] = {none, 0, static_cast<int32_t>(columns)};
          add_scaled(none_.data(), link.prob, columns, there);
          continue;
        }
        if (!any) word_row(here, common_.data() + state * columns);
        any = true;
        const Hypothesis::Cell& cell = hypothesis.where(link.word);
        at_[at] = {0, 0, 0};
        if (cell.first == 0) {
          add_scaled(any_.data(), link.prob, columns, there);
          continue;
        }
        const int64_t end = matching_row(here, hypothesis, cell, &at_[at]);
        add_scaled(any_.data(), link.prob, cell.first, there);
        add_scaled(some_.data() + cell.first, link.prob, end - cell.first, there + cell.first);
        add_scaled(any_.data() + end, link.prob, columns - end, there + end);
      }
    }
    return row_[rows * columns - 1];
  }

  // How the distance of a link from the first q places arose, q >= 1.
  Step step(int64_t link, int64_t src, int64_t q) const {
    const Own& own = at_[link];
    if (q >= own.begin && q < own.end) return static_cast<Step>(own_[own.pool + q]);
    return static_cast<Step>(common_[src * columns_ + q]);
  }

  size_t bytes() const { return 8 * row_.capacity() + common_.capacity() + own_.capacity() + 16 * at_.capacity(); }

  // The rows, no longer needed once the steps are known: space for the way back, all zeros.
  double* cleared() {
    std::fill(row_.begin(), row_.end(), 0.0);
    return row_.data();
  }

 private:
  struct Own {
    int64_t pool;  // step q of the link is own_[pool + q]
    int32_t begin, end;
  };

  // One place further: `pair` and `left_over` are known, the third way comes from the place before.
  static double best(double pair, double left_over, double missing, uint8_t* how) {
    const bool paired = pair <= left_over;
    const double least = paired ? pair : left_over;
    const bool is_missing = missing < least;
    *how = is_missing ? kMissing : paired ? kPair : kLeftOver;
    return is_missing ? missing : least;
  }

  // A word that stands nowhere in the hypothesis; places come in pairs, epsilon and word.
  void word_row(const double* from, uint8_t* how) {
    double* to = any_.data();
    double value = to[0] = from[0] + kExtra;
    to[1] = value = best(from[0] + 1.0, from[1] + kExtra, value, how + 1);
    for (int64_t q = 2; q < columns_; q += 2) {
      to[q] = value = best(from[q - 1] + 1.0, from[q] + kExtra, value + 1.0, how + q);
      to[q + 1] = value = best(from[q] + 1.0, from[q + 1] + kExtra, value, how + q + 1);
    }
  }

  int64_t epsilon_row(const double* from) {
    const auto pool = static_cast<int64_t>(own_.size());
    own_.resize(pool + columns_);
    uint8_t* how = own_.data() + pool;
    double* to = none_.data();
    double value = to[0] = from[0];
    to[1] = value = best(from[0], from[1], value, how + 1);
    for (int64_t q = 2; q < columns_; q += 2) {
      to[q] = value = best(from[q - 1] + 1.0, from[q], value + 1.0, how + q);
      to[q + 1] = value = best(from[q], from[q + 1], value, how + q + 1);
    }
    return pool;
  }

  // A word of the hypothesis, from its first place on, until it makes no difference any more. Returns that place.
  int64_t matching_row(const double* from, const Hypothesis& hypothesis, const Hypothesis::Cell& cell, Own* own) {
    own->begin = cell.first;
    own->pool = static_cast<int64_t>(own_.size()) - cell.first;
    own_.resize(own_.size() + columns_ - cell.first);
    uint8_t* how = own_.data() + own->pool;
    double* to = some_.data();
    double value = any_[cell.first - 1];
    int64_t q = cell.first;
    for (; q < columns_; q += 2) {
      const double wrong = hypothesis[q] == cell.word ? 0.0 : 1.0;
      to[q] = value = best(from[q - 1] + wrong, from[q] + kExtra, value + 1.0, how + q);
      to[q + 1] = value = best(from[q] + 1.0, from[q + 1] + kExtra, value, how + q + 1);
      if (value == any_[q + 1] && q >= cell.last) {
        q += 2;
        break;
      }
    }
    own->end = static_cast<int32_t>(q);
    own_.resize(own->pool + q);
    return q;
  }

  int64_t columns_ = 0;
  std::vector<double> row_;       // [states, columns]
  std::vector<uint8_t> common_;   // [states, columns]; steps of words that stand nowhere
  std::vector<uint8_t> own_;      // steps of epsilons and of words that do
  std::vector<Own> at_;           // [links]
  std::vector<double> any_, none_, some_;  // [columns]
};

}  // namespace ninja
