// Places in the search for units: an input state together with labels and words that were read but not given out.
//
// Many places have their state and labels in common: a tail. Labels are long, so tails are found by content seldom, and
// places by the numbers of their tails.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "align_units.hpp"

namespace ninja {

struct Stretch {
  const int32_t* label;
  int32_t length;
};

struct Tail {
  uint64_t hash;
  Stretch labels;       // pending
  UnitScan scan;        // of the labels, once they are read
  int32_t state;
  int32_t next;         // the tail behind its first unit, if that is over within it; -1: not known
};

struct Place {
  int64_t words;        // pending, where they begin among those of all places
  int32_t num_words;
  int32_t tail;
};

// A hash table of numbers 0, 1, …; what they stand for is known outside. Room is used again.
class Cells {
 public:
  void clear(size_t expected) {
    size_t size = 64;
    while (size < 2 * expected) size *= 2;
    reset(size);
  }

  // The cell with the number that is wanted, or the empty one (-1) where it belongs.
  template <class IsWanted>
  int32_t& find(uint64_t hash, const IsWanted& is_wanted) {
    size_t at = hash & mask_;
    while (cells_[at] >= 0 && !is_wanted(cells_[at])) at = (at + 1) & mask_;
    return cells_[at];
  }

  // Make room for more than so many.
  template <class HashOf>
  void grow(size_t num, const HashOf& hash_of) {
    if (2 * num <= mask_) return;
    reset(2 * (mask_ + 1));
    for (size_t each = 0; each < num; ++each) {
      find(hash_of(each), [](int32_t) { return false; }) = static_cast<int32_t>(each);
    }
  }

 private:
  void reset(size_t size) {
    if (cells_.size() < size) cells_.resize(size);
    std::fill_n(cells_.begin(), size, -1);
    mask_ = size - 1;
  }

  std::vector<int32_t> cells_;
  size_t mask_ = 0;
};

class [[gnu::visibility("hidden")]] Places {
 public:
  void clear(size_t expected) {
    tails_.clear();
    places_.clear();
    words_.clear();
    tail_cells_.clear(expected);
    place_cells_.clear(expected);
  }

  size_t size() const { return places_.size(); }
  int64_t num_words() const { return static_cast<int64_t>(words_.size()); }
  const Place& operator[](int32_t place) const { return places_[place]; }
  Tail& tail(int32_t tail) { return tails_[tail]; }
  const Tail& tail(int32_t tail) const { return tails_[tail]; }
  const int32_t* words(const Place& place) const { return words_.data() + place.words; }
  const Place* begin() const { return places_.data(); }
  const Place* end() const { return places_.data() + places_.size(); }

  // The number of a tail. Its labels must stay where they are.
  int32_t add_tail(int32_t state, Stretch labels) {
    const uint64_t hash = hash_of_labels(state, labels);
    int32_t& cell = tail_cell(state, labels, hash);
    if (cell >= 0) return cell;
    const auto tail = static_cast<int32_t>(tails_.size());
    cell = tail;
    Tail& added = tails_.emplace_back();
    added.hash = hash;
    added.labels = labels;
    added.state = state;
    added.next = -1;
    tail_cells_.grow(tails_.size(), [this](size_t each) { return tails_[each].hash; });
    return tail;
  }

  int32_t add(int32_t tail, const int32_t* word, int32_t num_words) {
    int32_t& cell = place_cell(tail, word, num_words);
    if (cell >= 0) return cell;
    const auto place = static_cast<int32_t>(places_.size());
    cell = place;
    Place& added = places_.emplace_back();  // put together where it stays: a copy would wait for its pieces
    added.words = this->num_words();
    added.num_words = num_words;
    added.tail = tail;
    for (int32_t each = 0; each < num_words; ++each) words_.push_back(word[each]);
    place_cells_.grow(places_.size(), [this](size_t each) {
      return hash_of_words(places_[each].tail, words(places_[each]), places_[each].num_words);
    });
    return place;
  }

  bool has(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) {
    const int32_t tail = tail_cell(state, labels, hash_of_labels(state, labels));
    return tail >= 0 && place_cell(tail, word, num_words) >= 0;
  }

 private:
  static constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;

  int32_t& tail_cell(int32_t state, Stretch labels, uint64_t hash) {
    return tail_cells_.find(hash, [&](int32_t each) {
      const Tail& known = tails_[each];
      return known.hash == hash && known.state == state && known.labels.length == labels.length &&
             (labels.label == known.labels.label ||
              std::equal(labels.label, labels.label + labels.length, known.labels.label));
    });
  }

  int32_t& place_cell(int32_t tail, const int32_t* word, int32_t num_words) {
    return place_cells_.find(hash_of_words(tail, word, num_words), [&](int32_t each) {
      const Place& known = places_[each];
      if (known.tail != tail || known.num_words != num_words) return false;
      for (int32_t at = 0; at < num_words; ++at) {  // a call would take longer
        if (word[at] != words(known)[at]) return false;
      }
      return true;
    });
  }

  static uint64_t hash_of_words(int32_t tail, const int32_t* word, int32_t num_words) {
    uint64_t hash = (static_cast<uint64_t>(tail) << 32 | static_cast<uint32_t>(num_words)) * kFactor;
    for (int32_t each = 0; each < num_words; ++each) {
      hash = (hash ^ hash >> 32 ^ static_cast<uint32_t>(word[each])) * kFactor;
    }
    return hash ^ hash >> 32;
  }

  static uint64_t hash_of_labels(int32_t state, Stretch labels) {
    uint64_t hash = (static_cast<uint64_t>(state) << 32 | static_cast<uint32_t>(labels.length)) * kFactor;
    uint64_t other = hash >> 32;
    const auto add = [&](const int32_t* label) {
      uint64_t four[2];
      std::memcpy(four, label, sizeof(four));
      hash = (hash ^ (hash >> 29) ^ four[0]) * kFactor;  // two sums, which need not wait for each other
      other = (other ^ (other >> 31) ^ four[1]) * kFactor;
    };
    if (labels.length >= 4) {
      const int32_t* last = labels.label + labels.length - 4;
      for (const int32_t* label = labels.label; label < last; label += 4) add(label);
      add(last);
    } else {
      int32_t few[4] = {0, 0, 0, 0};
      for (int32_t each = 0; each < labels.length; ++each) few[each] = labels.label[each];
      add(few);
    }
    hash ^= other ^ (other >> 32);
    return hash ^ (hash >> 32);
  }

  std::vector<Tail> tails_;
  std::vector<Place> places_;
  std::vector<int32_t> words_;
  Cells tail_cells_, place_cells_;
};

}  // namespace ninja
