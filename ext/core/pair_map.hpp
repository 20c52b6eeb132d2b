// A hash table from pairs of numbers to the place of what is kept for them.
#pragma once

#include <cstdint>
#include <vector>

namespace ninja {

class PairMap {
 public:
  // Place kept for (a, b), -1 in it if the pair is new. The reference lasts until the next call.
  int32_t& operator()(int32_t a, int32_t b) {
    if (2 * (num_ + 1) > cells_.size()) grow();
    return find(key_of(a, b)).place;
  }
  // The same without room being made for a new pair.
  int32_t get(int32_t a, int32_t b) const {
    const uint64_t key = key_of(a, b);
    size_t at = home(key);
    while (cells_[at].key != key && cells_[at].key != kEmpty) at = (at + 1) & (cells_.size() - 1);
    return cells_[at].place;
  }

 private:
  struct Cell {
    uint64_t key = kEmpty;
    int32_t place = -1;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // (-1, -1), which nobody asks for

  static uint64_t key_of(int32_t a, int32_t b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  }
  size_t home(uint64_t key) const {
    const uint64_t x = (key ^ (key >> 31)) * 0x9e3779b97f4a7c15u;
    return (x ^ (x >> 29)) & (cells_.size() - 1);
  }

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

}  // namespace ninja
