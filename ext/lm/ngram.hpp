// A back-off language model as an automaton, with lookups for batches of words.
//
// A state is a context: the longest suffix of the history that affects scores. A word is looked up among the arcs of
// the state, and otherwise among the arcs of its back-off states, whose weights are added. One open-addressing table
// with the keys (state, word) contains all arcs except the arcs of the root, the empty context. These are in a plain
// array, because the root has an arc for nearly every word.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/keyed_hash.hpp"

namespace ninja {

constexpr int32_t kNoState = -1;

struct NgramArc {
  float logprob;  // natural log
  int32_t next;   // state after the word
};

struct Backoff {
  float weight = 0;  // natural log
  int32_t state = kNoState;
};

// A map from (state, word) to arcs: linear probing, never more than 3/4 full, so that unsuccessful lookups end soon.
class NgramTable {
 public:
  struct Slot {
    uint64_t key;
    NgramArc arc;
  };

  void reserve(int64_t count) {
    if (count > capacity_of(slots_.size())) rehash(count);
  }

  NgramArc* find(int32_t state, int32_t word) {
    return const_cast<NgramArc*>(static_cast<const NgramTable*>(this)->find(state, word));
  }

  const NgramArc* find(int32_t state, int32_t word) const {
    if (slots_.empty()) return nullptr;
    const uint64_t key = joined(state, word);
    for (size_t place = home(key);; place = place + 1 == slots_.size() ? 0 : place + 1) {
      if (slots_[place].key == key) return &slots_[place].arc;
      if (slots_[place].key == kEmpty) return nullptr;
    }
  }

  // Add an arc; returns false and changes nothing if the state has an arc for the word already.
  bool add(int32_t state, int32_t word, NgramArc arc) {
    if (size_ + 1 > capacity_of(slots_.size())) rehash(2 * size_ + 16);
    const bool added = put({joined(state, word), arc});
    size_ += added;
    return added;
  }

  void prefetch(int32_t state, int32_t word) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[home(joined(state, word))]);
  }

  template <typename Visit>
  void for_each(Visit visit) {
    for (Slot& slot : slots_) {
      if (slot.key != kEmpty) visit(static_cast<int32_t>(slot.key >> 32), static_cast<int32_t>(slot.key), slot.arc);
    }
  }

  int64_t size() const { return size_; }
  int64_t bytes() const { return static_cast<int64_t>(slots_.size() * sizeof(Slot)); }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // states and words are not negative

  static int64_t capacity_of(size_t num_slots) { return static_cast<int64_t>(num_slots - num_slots / 4); }

  size_t home(uint64_t key) const {
    return static_cast<size_t>(static_cast<unsigned __int128>(keyed_hash(key)) * slots_.size() >> 64);
  }

  bool put(const Slot& slot) {
    size_t place = home(slot.key);
    while (slots_[place].key != kEmpty) {
      if (slots_[place].key == slot.key) return false;
      place = place + 1 == slots_.size() ? 0 : place + 1;
    }
    slots_[place] = slot;
    return true;
  }

  void rehash(int64_t count) {
    std::vector<Slot> old(static_cast<size_t>(count + count / 2 + 8), Slot{kEmpty, {}});
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.key != kEmpty) put(slot);
    }
  }

  std::vector<Slot> slots_;
  int64_t size_ = 0;
};

struct NgramModel {
  NgramTable table;
  std::vector<NgramArc> row;     // [num_words] arcs of the root; -inf for words that it lacks
  std::vector<Backoff> backoff;  // [num_states]
  int32_t root = 0;
  int32_t start = 0;  // state after <s>
  int32_t order = 0;
  int64_t num_ngrams = 0;
  int32_t first_added = std::numeric_limits<int32_t>::max();  // id of the first word that `add` added

  // Add a word with the same score after every history, without back-off weights; the next word is scored after the
  // state `next`. Returns the word.
  int32_t add(float logprob, int32_t next) {
    first_added = std::min(first_added, num_words());
    row.push_back({logprob, next});
    return num_words() - 1;
  }

  int32_t num_words() const { return static_cast<int32_t>(row.size()); }
  int64_t num_states() const { return static_cast<int64_t>(backoff.size()); }

  int64_t bytes() const {
    return table.bytes() + static_cast<int64_t>(row.size() * sizeof(NgramArc) + backoff.size() * sizeof(Backoff));
  }

  // Score words after states and find the states after them; either output may be null. A word that no state of the
  // back-off chain has gets the score -inf and leads to the end of the chain. Returns the first index of an invalid
  // state or word, else -1.
  int64_t look_up(const int64_t* state, const int32_t* word, int64_t count, float* logprob, int64_t* next) const {
    // Memory latency dominates, so the memory for a block of lookups is prefetched.
    constexpr int64_t kBlock = 32;
    struct Lookup {
      int32_t state, word;
      int64_t place;
      double weight;  // sum of the back-off weights
    };
    Lookup lookup[kBlock];
    for (int64_t begin = 0; begin < count; begin += kBlock) {
      int64_t open = std::min(kBlock, count - begin);
      for (int64_t i = 0; i < open; ++i) {
        const int64_t place = begin + i;
        if (static_cast<uint64_t>(state[place]) >= backoff.size() || static_cast<uint32_t>(word[place]) >= row.size()) {
          return place;
        }
        const int32_t from = word[place] < first_added ? static_cast<int32_t>(state[place]) : root;
        lookup[i] = {from, word[place], place, 0.0};
        prefetch(lookup[i].state, lookup[i].word);
      }
      while (open > 0) {
        int64_t num_open = 0;
        for (int64_t i = 0; i < open; ++i) {
          Lookup& current = lookup[i];
          const NgramArc* arc = current.state == root ? &row[current.word] : table.find(current.state, current.word);
          if (arc == nullptr) {
            const Backoff& back = backoff[current.state];
            if (back.state != kNoState) {
              current.weight += back.weight;
              current.state = back.state;
              prefetch(current.state, current.word);
              lookup[num_open++] = current;
              continue;
            }
          }
          const float last = arc == nullptr ? -std::numeric_limits<float>::infinity() : arc->logprob;
          if (logprob != nullptr) logprob[current.place] = static_cast<float>(current.weight + last);
          if (next != nullptr) next[current.place] = arc == nullptr ? current.state : arc->next;
        }
        open = num_open;
      }
    }
    return -1;
  }

 private:
  void prefetch(int32_t state, int32_t word) const {
    if (state == root) {
      __builtin_prefetch(&row[word]);
    } else {
      table.prefetch(state, word);
      __builtin_prefetch(&backoff[state]);
    }
  }
};

}  // namespace ninja
