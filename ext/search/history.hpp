// Hash-consed word histories: equal word sequences share one entry, and therefore one language model state.
#pragma once

#include <cstdint>
#include <vector>

#include "core/keyed_hash.hpp"

namespace ninja {

constexpr int32_t kNoHistory = -1;
constexpr int64_t kNoSlot = -1;    // the history has no slot yet; its parent counts it in `waiting`
constexpr int64_t kReleased = -2;  // the slot of the history has been released

// An entry exists while it is held or has a longer history. Its slot (the language model's state after its words)
// exists while the entry is held or a longer history must still be advanced from it.
class Histories {
 public:
  explicit Histories(int64_t root_slot) : table_(1 << 12, kNoHistory) {
    entries_.push_back({kNoHistory, -1, root_slot, 1, 0, 0});  // the empty history is always held
  }

  static constexpr int32_t root() { return 0; }

  // Finds or creates the history `parent + word`, and holds it.
  int32_t intern(int32_t parent, int32_t word) {
    if (2 * (num_live_ + 1) > table_.size()) grow();
    size_t place = keyed_hash(joined(parent, word)) & (table_.size() - 1);
    while (table_[place] != kNoHistory) {
      Entry& found = entries_[table_[place]];
      if (found.parent == parent && found.word == word) {
        ++found.holders;
        if (found.slot == kReleased) {
          found.slot = kNoSlot;
          ++entries_[parent].waiting;
        }
        return table_[place];
      }
      place = (place + 1) & (table_.size() - 1);
    }
    int32_t id = static_cast<int32_t>(entries_.size());
    if (free_.empty()) {
      entries_.push_back({});
    } else {
      id = free_.back();
      free_.pop_back();
    }
    entries_[id] = {parent, word, kNoSlot, 1, 0, 0};
    ++entries_[parent].children;
    ++entries_[parent].waiting;
    table_[place] = id;
    ++num_live_;
    return id;
  }

  void hold(int32_t id) { ++entries_[id].holders; }

  void drop(int32_t id) {
    --entries_[id].holders;
    settle(id);
  }

  int64_t slot(int32_t id) const { return entries_[id].slot; }
  int32_t parent(int32_t id) const { return entries_[id].parent; }
  int32_t word(int32_t id) const { return entries_[id].word; }

  void set_slot(int32_t id, int64_t slot) {
    entries_[id].slot = slot;
    int32_t parent = entries_[id].parent;
    --entries_[parent].waiting;
    settle(parent);
  }

  // Index of a history in the list of histories to advance in this wave; -1 if it is not in the list.
  int32_t& pending(int32_t id) { return entries_[id].pending; }

  // Hash of the last `order` words (0 means all words), and an exact comparison, because hashes can collide.
  uint64_t suffix_hash(int32_t id, int order) const {
    if (order == 0) return keyed_hash(static_cast<uint64_t>(id));
    uint64_t sum = 0;
    for (int i = 0; i < order && id != root(); ++i, id = entries_[id].parent) {
      sum = keyed_hash_with(sum, static_cast<uint32_t>(entries_[id].word));
    }
    return sum;
  }
  bool same_suffix(int32_t a, int32_t b, int order) const {
    if (order == 0) return a == b;
    for (int i = 0; i < order; ++i) {
      if (a == b) return true;
      if (a == root() || b == root() || entries_[a].word != entries_[b].word) return false;
      a = entries_[a].parent;
      b = entries_[b].parent;
    }
    return true;
  }

  // Unused slots, which the caller must release in the language model and remove from the list.
  std::vector<int64_t>& released() { return released_; }
  // All slots in use, including the slot of the root.
  std::vector<int64_t> slots() const {
    std::vector<int64_t> all{entries_[root()].slot};
    for (size_t id = 1; id < entries_.size(); ++id) {  // the order does not depend on hashes
      if (entries_[id].slot >= 0) all.push_back(entries_[id].slot);
    }
    return all;
  }

 private:
  struct Entry {
    int32_t parent;
    int32_t word;
    int64_t slot;
    int32_t holders;   // number of holders: hypotheses, candidates and contexts with this history
    int32_t children;  // number of entries that are one word longer
    int32_t waiting;   // number of children without a slot
    int32_t pending = -1;
  };

  uint64_t hash(int32_t id) const { return keyed_hash(joined(entries_[id].parent, entries_[id].word)); }

  // Releases the slot and the entry `id` if they are unused, and then the unused slots and entries of its ancestors.
  void settle(int32_t id) {
    while (id != root() && entries_[id].holders == 0) {
      Entry& entry = entries_[id];
      if (entry.waiting == 0 && entry.slot >= 0) {
        released_.push_back(entry.slot);
        entry.slot = kReleased;
      }
      if (entry.children > 0) return;
      int32_t parent = entry.parent;
      erase(id);
      --entries_[parent].children;
      if (entry.slot == kNoSlot) --entries_[parent].waiting;
      free_.push_back(id);
      id = parent;
    }
  }

  void erase(int32_t id) {  // backward-shift deletion keeps probe chains intact
    size_t mask = table_.size() - 1;
    size_t hole = hash(id) & mask;
    while (table_[hole] != id) hole = (hole + 1) & mask;
    for (size_t next = (hole + 1) & mask; table_[next] != kNoHistory; next = (next + 1) & mask) {
      size_t home = hash(table_[next]) & mask;
      if (((next - home) & mask) >= ((next - hole) & mask)) {
        table_[hole] = table_[next];
        hole = next;
      }
    }
    table_[hole] = kNoHistory;
    --num_live_;
  }

  void grow() {
    std::vector<int32_t> old(table_.size() * 2, kNoHistory);
    old.swap(table_);
    for (int32_t id : old) {
      if (id == kNoHistory) continue;
      size_t place = hash(id) & (table_.size() - 1);
      while (table_[place] != kNoHistory) place = (place + 1) & (table_.size() - 1);
      table_[place] = id;
    }
  }

  std::vector<Entry> entries_;
  std::vector<int32_t> table_;
  std::vector<int32_t> free_;
  std::vector<int64_t> released_;
  size_t num_live_ = 0;
};

}  // namespace ninja
