// Places of the search for units. A place is an input state with pending labels and words, which were read but not
// emitted. The state and the labels of a place are its tail, which several places may share. Label sequences are long;
// therefore tails are rarely looked up by content, and places are looked up by their tails, most of which belong to a
// single place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "align/align_units.hpp"
#include "core/keyed_hash.hpp"

namespace ninja {

struct Stretch {
  const int32_t* label;
  int32_t length;
};

struct Tail {
  uint64_t hash;
  Stretch labels;  // pending
  UnitScan scan;   // state after the labels were read
  int32_t state;
  int32_t next;   // the tail after its first unit, if the unit ends within the tail; -1 if unknown
  int32_t place;  // the first place with this tail, in most cases the only one
};

struct Place {
  int64_t words;  // index of the first pending word in the words of all places
  int32_t num_words;
  int32_t tail;
};

// A hash table of item indices 0, 1, …; the caller compares the items. Memory is reused.
class Cells {
 public:
  void clear(size_t expected) {
    size_t size = 64;
    while (size < 4 * expected) size *= 2;
    reset(size);
  }

  // The cell of the item, or the empty cell (-1) for it.
  template <class IsWanted>
  int32_t& find(uint64_t hash, const IsWanted& is_wanted) {
    size_t at = hash & mask_;
    while (cells_[at] >= 0 && !is_wanted(cells_[at])) at = (at + 1) & mask_;
    return cells_[at];
  }

  // Grow the table if `num` items fill half of it or more.
  template <class HashOf>
  void grow(size_t num, const HashOf& hash_of) {
    if (2 * num <= mask_) return;
    reset(2 * (mask_ + 1));
    for (size_t item = 0; item < num; ++item) {
      find(hash_of(item), [](int32_t) { return false; }) = static_cast<int32_t>(item);
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
    place_cells_.clear(0);
    others_.clear();
  }

  size_t size() const { return places_.size(); }
  int64_t num_words() const { return static_cast<int64_t>(words_.size()); }
  const Place& operator[](int32_t place) const { return places_[place]; }
  Tail& tail(int32_t tail) { return tails_[tail]; }
  const Tail& tail(int32_t tail) const { return tails_[tail]; }
  const int32_t* words(const Place& place) const { return words_.data() + place.words; }
  const Place* begin() const { return places_.data(); }
  const Place* end() const { return places_.data() + places_.size(); }

  // Find or add a tail. Its labels must stay valid.
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
    added.next = added.place = -1;
    tail_cells_.grow(tails_.size(), [this](size_t item) { return tails_[item].hash; });
    return tail;
  }

  int32_t add(int32_t tail, const int32_t* word, int32_t num_words) {
    return add(tail, word, num_words, [this, word, num_words] {
      words_.insert(words_.end(), word, word + num_words);
      return this->num_words() - num_words;
    });
  }

  // Find or add the place with the pending words of another place after its first `first` words.
  int32_t add_rest(int32_t tail, int32_t place, int32_t first) {
    const int64_t begin = places_[place].words + first;
    return add(tail, words_.data() + begin, places_[place].num_words - first, [begin] { return begin; });
  }

  bool has(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) {
    const int32_t tail = tail_cell(state, labels, hash_of_labels(state, labels));
    return tail >= 0 && find(tail, word, num_words) >= 0;
  }

 private:
  int32_t& tail_cell(int32_t state, Stretch labels, uint64_t hash) {
    return tail_cells_.find(hash, [&](int32_t item) {
      const Tail& known = tails_[item];
      return known.hash == hash && known.state == state && known.labels.length == labels.length &&
             (labels.label == known.labels.label ||
              std::equal(labels.label, labels.label + labels.length, known.labels.label));
    });
  }

  template <class Keep>
  int32_t add(int32_t tail, const int32_t* word, int32_t num_words, const Keep& keep) {
    const int32_t first = tails_[tail].place;
    if (first >= 0 && has_words(first, word, num_words)) return first;
    const auto place = static_cast<int32_t>(places_.size());
    if (first < 0) {
      tails_[tail].place = place;
    } else {
      int32_t& cell = place_cell(tail, word, num_words);
      if (cell >= 0) return others_[cell];
      cell = static_cast<int32_t>(others_.size());
      others_.push_back(place);
    }
    Place& added = places_.emplace_back();  // filled in place, because a copy would stall on members just written
    added.words = keep();
    added.num_words = num_words;
    added.tail = tail;
    place_cells_.grow(others_.size(), [this](size_t item) {
      const Place& other = places_[others_[item]];
      return hash_of_words(other.tail, words(other), other.num_words);
    });
    return place;
  }

  int32_t find(int32_t tail, const int32_t* word, int32_t num_words) {
    const int32_t first = tails_[tail].place;
    if (first < 0 || has_words(first, word, num_words)) return first;
    const int32_t cell = place_cell(tail, word, num_words);
    return cell < 0 ? cell : others_[cell];
  }

  // Whether exactly these words are pending at a place.
  bool has_words(int32_t place, const int32_t* word, int32_t num_words) const {
    const Place& known = places_[place];
    if (known.num_words != num_words) return false;
    const int32_t* other = words(known);
    for (int32_t at = 0; at < num_words; ++at) {  // faster than a library call
      if (word[at] != other[at]) return false;
    }
    return true;
  }

  // The cell of a place that is not the first with its tail.
  int32_t& place_cell(int32_t tail, const int32_t* word, int32_t num_words) {
    return place_cells_.find(hash_of_words(tail, word, num_words), [&](int32_t item) {
      return places_[others_[item]].tail == tail && has_words(others_[item], word, num_words);
    });
  }

  static uint64_t hash_of_words(int32_t tail, const int32_t* word, int32_t num_words) {
    uint64_t hash = keyed_hash(joined(tail, num_words));
    for (int32_t at = 0; at < num_words; ++at) hash = keyed_hash_with(hash, static_cast<uint32_t>(word[at]));
    return hash;
  }

  // A sum of independent products, which run in parallel.
  static uint64_t hash_of_labels(int32_t state, Stretch labels) {
    const uint64_t* key = kHashKey.word;
    uint64_t hash = keyed_hash(joined(state, labels.length));
    const auto four = [&](const int32_t* label, int which) {
      uint64_t pair[2];
      std::memcpy(pair, label, sizeof(pair));
      hash += folded(pair[0] ^ key[2 * which], pair[1] ^ key[2 * which + 1]);
    };
    const int32_t* label = labels.label;
    int32_t length = labels.length;
    if (length >= 4) {
      for (; length > 16; label += 8, length -= 8) {
        four(label, 0);
        four(label + 4, 1);
        hash = keyed_hash(hash);
      }
      const int32_t inner = length >> 3 << 2;  // the blocks overlap unless 16 labels are left
      four(label, 0);
      four(label + inner, 1);
      four(label + length - 4 - inner, 2);
      four(label + length - 4, 3);
    } else {
      for (int32_t at = 0; at < length; ++at) hash = keyed_hash_with(hash, static_cast<uint32_t>(label[at]));
    }
    return keyed_hash(hash);
  }

  std::vector<Tail> tails_;
  std::vector<Place> places_;
  std::vector<int32_t> words_;
  std::vector<int32_t> others_;  // places that are not the first with their tails
  Cells tail_cells_, place_cells_;
};

}  // namespace ninja
