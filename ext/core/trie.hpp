// A growing trie of words: equal prefixes share a node.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "core/keyed_hash.hpp"

namespace ninja {

constexpr int32_t kTrieRoot = -1;  // the empty prefix; it has no entry, so nodes are numbered from 0
constexpr int32_t kNoNode = -2;

class Trie {
 public:
  Trie() : table_(1 << 10, kNoNode) {}

  // Finds or creates the node `prefix + word`; parents precede their children.
  int32_t child(int32_t prefix, int32_t word) {
    if (2 * (parent_.size() + 1) > table_.size()) grow();
    const size_t place = locate(prefix, word);
    if (table_[place] != kNoNode) return table_[place];
    if (parent_.size() >= kMost) throw std::length_error("too many nodes in a trie");
    const int32_t node = static_cast<int32_t>(parent_.size());
    table_[place] = node;
    parent_.push_back(prefix);
    word_.push_back(word);
    return node;
  }

  // The node `prefix + word`, or kNoNode.
  int32_t find(int32_t prefix, int32_t word) const { return table_[locate(prefix, word)]; }

  int32_t size() const { return static_cast<int32_t>(parent_.size()); }
  int32_t parent(int32_t node) const { return parent_[node]; }
  int32_t word(int32_t node) const { return word_[node]; }
  const std::vector<int32_t>& parent() const { return parent_; }
  const std::vector<int32_t>& word() const { return word_; }

 private:
  static constexpr size_t kMost = size_t{1} << 30;

  // Return the slot of a node, or the free slot for it.
  size_t locate(int32_t prefix, int32_t word) const {
    const size_t mask = table_.size() - 1;
    size_t place = keyed_hash(joined(prefix, word)) & mask;
    while (table_[place] != kNoNode && (parent_[table_[place]] != prefix || word_[table_[place]] != word)) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void grow() {
    table_.assign(2 * table_.size(), kNoNode);
    for (size_t node = 0; node < parent_.size(); ++node) {
      table_[locate(parent_[node], word_[node])] = static_cast<int32_t>(node);
    }
  }

  std::vector<int32_t> parent_, word_;
  std::vector<int32_t> table_;  // hash table of the nodes
};

// Add sequences and write the node of each of their words; sequence s is word[begin[s] : begin[s + 1]].
inline void add_sequences(Trie& trie, const int32_t* word, const int64_t* begin, int64_t num_sequences, int32_t* node) {
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence) {
    int32_t at = kTrieRoot;
    for (int64_t place = begin[sequence]; place < begin[sequence + 1]; ++place) {
      node[place] = at = trie.child(at, word[place]);
    }
  }
}

// Add the nodes of another trie, in which parents precede children, below a node, and write the new number of each.
inline void add_nodes(Trie& trie, const int32_t* parent, const int32_t* word, int64_t count, int32_t below,
                      int32_t* node) {
  for (int64_t other = 0; other < count; ++other) {
    node[other] = trie.child(parent[other] < 0 ? below : node[parent[other]], word[other]);
  }
}

}  // namespace ninja
