// Interned strings of labels, and the hash table that finds them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/keyed_hash.hpp"

namespace ninja {

// A chained hash table of entries 0, 1, …, whose keys the caller compares; the newest entry of a chain comes first.
class Chains {
 public:
  int32_t first(uint64_t hash) const { return heads_.empty() ? -1 : heads_[hash & (heads_.size() - 1)]; }
  int32_t next(int32_t entry) const { return entries_[entry].next; }
  uint64_t hash(int32_t entry) const { return entries_[entry].hash; }

  int32_t add(uint64_t hash) {
    if (entries_.size() >= heads_.size()) grow();
    const auto entry = static_cast<int32_t>(entries_.size());
    int32_t& head = heads_[hash & (heads_.size() - 1)];
    entries_.push_back({hash, head});
    head = entry;
    return entry;
  }

 private:
  struct Entry {
    uint64_t hash;
    int32_t next;
  };

  void grow() {
    heads_.assign(heads_.empty() ? 64 : 2 * heads_.size(), -1);
    for (size_t entry = 0; entry < entries_.size(); ++entry) {
      int32_t& head = heads_[entries_[entry].hash & (heads_.size() - 1)];
      entries_[entry].next = head;
      head = static_cast<int32_t>(entry);
    }
  }

  std::vector<int32_t> heads_;
  std::vector<Entry> entries_;
};

// Interned strings of labels; string 0 is empty.
class LabelStrings {
 public:
  LabelStrings() { intern(nullptr, 0); }

  int32_t intern(const int32_t* labels, size_t length) {
    uint64_t hash = length;
    for (size_t i = 0; i < length; ++i) hash = keyed_hash_with(hash, static_cast<uint32_t>(labels[i]));
    for (int32_t string = chains_.first(hash); string >= 0; string = chains_.next(string)) {
      if (chains_.hash(string) != hash || size(string) != length) continue;
      if (std::equal(labels, labels + length, begin(string))) return string;
    }
    pool_.insert(pool_.end(), labels, labels + length);
    ends_.push_back(static_cast<int64_t>(pool_.size()));
    return chains_.add(hash);
  }

  const int32_t* begin(int32_t string) const { return pool_.data() + (string == 0 ? 0 : ends_[string - 1]); }
  const int32_t* end(int32_t string) const { return pool_.data() + ends_[string]; }
  void append_to(int32_t string, std::vector<int32_t>& labels) const {
    labels.insert(labels.end(), begin(string), end(string));
  }
  size_t size(int32_t string) const { return static_cast<size_t>(end(string) - begin(string)); }
  int64_t num_labels() const { return static_cast<int64_t>(pool_.size()); }
  int64_t bytes() const { return static_cast<int64_t>(4 * pool_.size() + 28 * ends_.size()); }

 private:
  std::vector<int32_t> pool_;
  std::vector<int64_t> ends_;
  Chains chains_;
};

}  // namespace ninja
