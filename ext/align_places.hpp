// Places in the search for units: an input state together with labels and words that were read but not given out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace ninja {

struct Stretch {
  const int32_t* label;
  int32_t length;
};

struct Place {
  uint64_t hash;
  Stretch labels;       // pending
  int64_t words;        // pending, where they begin among those of all places
  int32_t num_words;
  int32_t state;
  int32_t next;         // at the same state
};

class Places {
 public:
  void clear() {
    places_.clear();
    words_.clear();
    if (cells_.empty() || cells_.size() > 1 << 16) cells_.resize(1 << 10);
    std::fill(cells_.begin(), cells_.end(), -1);
  }

  size_t size() const { return places_.size(); }
  int64_t num_words() const { return static_cast<int64_t>(words_.size()); }
  Place& operator[](int32_t place) { return places_[place]; }
  const Place& operator[](int32_t place) const { return places_[place]; }
  const int32_t* words(const Place& place) const { return words_.data() + place.words; }
  const Place* begin() const { return places_.data(); }
  const Place* end() const { return places_.data() + places_.size(); }

  // The number of a place, and whether it is a new one. Its labels must stay where they are.
  std::pair<int32_t, bool> add(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) {
    const uint64_t hash = hash_of_place(state, word, num_words, labels);
    const size_t at = cell_of(state, word, num_words, labels, hash);
    if (cells_[at] >= 0) return {cells_[at], false};
    const auto place = static_cast<int32_t>(places_.size());
    cells_[at] = place;
    places_.push_back({hash, labels, this->num_words(), num_words, state, -1});
    words_.insert(words_.end(), word, word + num_words);
    if (2 * places_.size() > cells_.size()) grow();
    return {place, true};
  }

  // The number of a place, -1 if there is none.
  int32_t find(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) const {
    return cells_[cell_of(state, word, num_words, labels, hash_of_place(state, word, num_words, labels))];
  }

 private:
  static uint64_t hash_of_place(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) {
    return hash_of(labels.label, labels.length, hash_of(word, num_words, static_cast<uint64_t>(state) << 8));
  }

  // The cell that holds a place, or the empty one where it belongs.
  size_t cell_of(int32_t state, const int32_t* word, int32_t num_words, Stretch labels, uint64_t hash) const {
    size_t at = hash & (cells_.size() - 1);
    for (; cells_[at] >= 0; at = (at + 1) & (cells_.size() - 1)) {
      const Place& known = places_[cells_[at]];
      if (known.hash == hash && known.state == state && known.num_words == num_words &&
          known.labels.length == labels.length &&
          std::equal(word, word + num_words, words_.begin() + known.words) &&
          std::equal(labels.label, labels.label + labels.length, known.labels.label)) {
        break;
      }
    }
    return at;
  }

  static uint64_t hash_of(const int32_t* value, int32_t length, uint64_t hash) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
    hash = (hash ^ static_cast<uint64_t>(length)) * kFactor;
    uint64_t other = hash >> 32;
    for (; length >= 4; value += 4, length -= 4) {  // two sums, which need not wait for each other
      uint64_t four[2];
      std::memcpy(four, value, sizeof(four));
      hash = (hash ^ (hash >> 29) ^ four[0]) * kFactor;
      other = (other ^ (other >> 31) ^ four[1]) * kFactor;
    }
    hash ^= other ^ (other >> 32);
    if (length >= 2) {
      uint64_t two;
      std::memcpy(&two, value, sizeof(two));
      hash = (hash ^ (hash >> 29) ^ two) * kFactor;
      value += 2;
      length -= 2;
    }
    if (length > 0) hash = (hash ^ (hash >> 29) ^ static_cast<uint32_t>(*value)) * kFactor;
    return hash ^ (hash >> 32);
  }

  void grow() {
    cells_.assign(2 * cells_.size(), -1);
    for (size_t place = 0; place < places_.size(); ++place) {
      size_t at = places_[place].hash & (cells_.size() - 1);
      while (cells_[at] >= 0) at = (at + 1) & (cells_.size() - 1);
      cells_[at] = static_cast<int32_t>(place);
    }
  }

  std::vector<Place> places_;
  std::vector<int32_t> words_;
  std::vector<int32_t> cells_;  // hash table
};

}  // namespace ninja
