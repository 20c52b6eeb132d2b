// A wave: the distinct requests of all running searches to the language model.
#pragma once

#include <cstdint>
#include <vector>

#include "core/keyed_hash.hpp"
#include "search/history.hpp"

namespace ninja {

struct Wave {
  std::vector<int64_t> advance_slot;     // slots of the parents of new histories
  std::vector<int32_t> advance_word;     // words that extend the parents
  std::vector<int32_t> advance_history;  // new histories, whose slots are returned
  std::vector<int64_t> score_slot;       // slots of the histories to score after; -1 - i for the i-th new history
  std::vector<int32_t> score_word;       // words to score after these histories

  void clear() {
    advance_slot.clear();
    advance_word.clear();
    advance_history.clear();
    score_slot.clear();
    score_word.clear();
    ++epoch_;
  }

  // Requests a history after which no word is scored in this wave.
  void make(Histories& histories, int32_t history) { slot_of(histories, history); }

  // Requests the score of `word` after `history`; returns its index among the answers.
  int32_t ask(Histories& histories, int32_t history, int32_t word) {
    if (2 * (score_word.size() + 1) > table_.size()) grow();
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(history)) << 32) | static_cast<uint32_t>(word);
    Entry& entry = find(key);
    if (entry.epoch == epoch_) return entry.index;
    entry = {key, epoch_, static_cast<int32_t>(score_word.size())};
    score_slot.push_back(slot_of(histories, history));
    score_word.push_back(word);
    return entry.index;
  }

 private:
  struct Entry {
    uint64_t key = 0;
    uint32_t epoch = 0;
    int32_t index = 0;
  };

  int64_t slot_of(Histories& histories, int32_t history) {
    int64_t slot = histories.slot(history);
    if (slot >= 0) return slot;
    int32_t& pending = histories.pending(history);
    if (pending < 0) {
      pending = static_cast<int32_t>(advance_history.size());
      advance_slot.push_back(histories.slot(histories.parent(history)));
      advance_word.push_back(histories.word(history));
      advance_history.push_back(history);
    }
    return -1 - static_cast<int64_t>(pending);
  }

  Entry& find(uint64_t key) {
    size_t place = keyed_hash(key) & (table_.size() - 1);
    while (table_[place].epoch == epoch_ && table_[place].key != key) place = (place + 1) & (table_.size() - 1);
    return table_[place];
  }

  void grow() {
    std::vector<Entry> old(table_.size() * 2);
    old.swap(table_);
    for (const Entry& entry : old) {
      if (entry.epoch == epoch_) find(entry.key) = entry;
    }
  }

  std::vector<Entry> table_ = std::vector<Entry>(1 << 12);
  uint32_t epoch_ = 1;
};

}  // namespace ninja
