// A hash table from pairs of numbers to indices.
#pragma once

#include <cstdint>
#include <vector>

#include "core/keyed_hash.hpp"

namespace ninja {

class PairMap {
 public:
  // Return the index of (a, b), -1 if the pair is new. The reference is valid until the next call.
  int32_t& operator()(int32_t a, int32_t b) {
    if (2 * (num_ + 1) > cells_.size()) grow();
    return find(joined(a, b)).place;
  }
  // Return the index of a pair, or -1, without inserting it.
  int32_t get(int32_t a, int32_t b) const {
    const uint64_t key = joined(a, b);
    size_t at = home(key);
    while (cells_[at].key != key && cells_[at].key != kEmpty) at = (at + 1) & (cells_.size() - 1);
    return cells_[at].place;
  }

 private:
  struct Cell {
    uint64_t key = kEmpty;
    int32_t place = -1;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // (-1, -1), which is not a valid pair

  size_t home(uint64_t key) const { return keyed_hash(key) & (cells_.size() - 1); }

  Cell& find(uint64_t key) {
    size_t at = home(key);
    while (cells_[at].key != key && cells_[at].key != kEmpty) at = (at + 1) & (cells_.size() - 1);
    if (cells_[at].key == kEmpty) {
      cells_[at].key = key;
      ++num_;
    }
    return cells_[at];
  }

  void grow() {
    std::vector<Cell> old(cells_.size() * 2);
    old.swap(cells_);
    num_ = 0;
    for (const Cell& cell : old) {
      if (cell.key != kEmpty) find(cell.key).place = cell.place;
    }
  }

  std::vector<Cell> cells_ = std::vector<Cell>(1 << 9);
  size_t num_ = 0;
};

// Pairs of a lattice state and another state, numbered in the order of insertion.
class StatePairs {
 public:
  explicit StatePairs(int64_t num_states) : first_(num_states, -1), last_(num_states, -1) {}

  // Not inlined, which makes the loops over arcs that call it a tenth faster.
  [[gnu::noinline]] int32_t operator()(int32_t state, int32_t other) {
    int32_t& found = known_(state, other);
    if (found >= 0) return found;
    const int32_t made = found = static_cast<int32_t>(pairs_.size());
    pairs_.push_back({other, -1, -1});
    (first_[state] < 0 ? first_[state] : pairs_[last_[state]].next) = made;
    last_[state] = made;
    return made;
  }

  // The first pair of a lattice state, and the next one of the same state, or -1.
  int32_t first(int64_t state) const { return first_[state]; }
  int32_t next(int32_t pair) const { return pairs_[pair].next; }
  int32_t other(int32_t pair) const { return pairs_[pair].other; }

  // Assign a state of the new lattice to a pair; `renumber` converts destinations from pairs to states.
  void number(int32_t pair, size_t new_state) { pairs_[pair].number = static_cast<int32_t>(new_state); }
  void renumber(std::vector<int32_t>& dst) const {
    for (int32_t& pair : dst) pair = pairs_[pair].number;
  }

 private:
  struct Pair {
    int32_t other, next, number;
  };

  std::vector<Pair> pairs_;
  std::vector<int32_t> first_, last_;  // [lattice states]
  PairMap known_;
};

}  // namespace ninja
