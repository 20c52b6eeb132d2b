// Builds a back-off automaton from n-grams that are added one by one, shorter contexts first.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "lm/ngram.hpp"

namespace ninja {

// During construction, every n-gram shorter than the order is a node, and arcs lead to nodes. Only nodes with longer
// n-grams or a back-off weight become states.
class NgramBuilder {
 public:
  static constexpr int32_t kRoot = 0;
  static constexpr int32_t kLeaf = -1;  // an n-gram of the highest order, which is not a context and has no node

  explicit NgramBuilder(int32_t order) : order_(order) { add_node(kRoot, 0, 0); }

  // Reserve memory for words and for arcs of all longer n-grams.
  void reserve(int64_t num_words, int64_t num_ngrams) {
    model_.row.reserve(static_cast<size_t>(num_words));
    model_.table.reserve(num_ngrams);
  }

  int32_t num_words() const { return static_cast<int32_t>(model_.row.size()); }

  // Add the next word, whose id is the number of words so far; returns its node.
  int32_t add_word(double logprob) {
    const int32_t node = order_ > 1 ? add_node(kRoot, num_words(), 1) : kLeaf;
    model_.row.push_back({static_cast<float>(logprob), node});
    ++model_.num_ngrams;
    return node;
  }

  // Add the n-gram of a context node and a word, at least 2 words long; returns its node. The n-gram can be found as a
  // context only after flush(), because the memory for it is prefetched first. `place` is its position in the file.
  int32_t add(int32_t context, int32_t word, int32_t length, double logprob, int64_t place) {
    const int32_t node = length < order_ ? add_node(context, word, length) : kLeaf;
    Waiting& waits = waiting_[num_waiting_++ % kWaiting];
    if (num_waiting_ > kWaiting) settle(waits);
    waits = {{static_cast<float>(logprob), node}, context, word, place};
    model_.table.prefetch(context, word);
    is_context_[context] = 1;
    ++model_.num_ngrams;
    return node;
  }

  // Make all n-grams so far available as contexts.
  void flush() {
    const int64_t first = std::max<int64_t>(0, num_waiting_ - kWaiting);
    for (int64_t i = first; i < num_waiting_; ++i) settle(waiting_[i % kWaiting]);
    num_waiting_ = 0;
  }

  // The position of the first duplicate n-gram, or -1; complete after flush().
  int64_t duplicate() const { return duplicate_; }

  void set_backoff(int32_t node, double weight) { weight_[node] = static_cast<float>(weight); }

  // Find the node of a context. If its n-gram is missing, as after pruning, it is added with the probability that
  // backing off gives it and the back-off weight 1.
  int32_t context(const int32_t* word, int32_t length) {
    int32_t node = kRoot;
    for (int32_t i = 0; i < length; ++i) {
      const NgramArc* arc = node == kRoot ? &model_.row[word[i]] : model_.table.find(node, word[i]);
      if (arc != nullptr) {
        node = arc->next;
        continue;
      }
      const int32_t implied = add_node(node, word[i], i + 1);
      model_.table.add(node, word[i], {kImplied, implied});
      is_context_[node] = 1;
      implied_.push_back(implied);
      node = implied;
    }
    return node;
  }

  // Link every context to its longest known proper suffix, and every n-gram to its next state. `bos` is a word or
  // negative. The builder cannot be used afterwards.
  NgramModel finish(int32_t bos) {
    flush();
    const size_t num_nodes = word_.size();
    std::vector<int32_t> by_length(num_nodes);
    for (size_t node = 0; node < num_nodes; ++node) by_length[node] = static_cast<int32_t>(node);
    std::stable_sort(by_length.begin(), by_length.end(), [&](int32_t a, int32_t b) { return length_[a] < length_[b]; });
    link_.assign(num_nodes, kRoot);
    link_[kRoot] = kNoState;
    for (const int32_t node : by_length) {
      if (length_[node] > 1) link_[node] = shorter(context_[node], word_[node]);
    }
    std::stable_sort(implied_.begin(), implied_.end(), [&](int32_t a, int32_t b) { return length_[a] < length_[b]; });
    for (const int32_t node : implied_) {
      model_.table.find(context_[node], word_[node])->logprob = backed_off(context_[node], word_[node]);
    }

    std::vector<int32_t> state(num_nodes);  // state of the history that ends in each node
    model_.backoff.resize(num_nodes);
    for (const int32_t node : by_length) {
      const bool is_state = node == kRoot || is_context_[node] != 0 || weight_[node] != 0;
      state[node] = is_state ? node : state[link_[node]];
      if (node != kRoot) model_.backoff[node] = {weight_[node], state[link_[node]]};
    }
    // Longest n-grams first, while the arcs of shorter n-grams still lead to nodes.
    model_.table.for_each([&](int32_t context, int32_t word, NgramArc& arc) {
      if (arc.next == kLeaf) arc.next = kSettled - state[shorter(context, word)];
    });
    model_.table.for_each([&](int32_t, int32_t, NgramArc& arc) {
      arc.next = arc.next <= kSettled ? kSettled - arc.next : state[arc.next];
    });
    for (NgramArc& arc : model_.row) arc.next = arc.next == kLeaf ? kRoot : state[arc.next];
    model_.root = kRoot;
    model_.start = bos >= 0 ? model_.row[bos].next : kRoot;
    model_.order = order_;
    return std::move(model_);
  }

 private:
  struct Waiting {
    NgramArc arc;
    int32_t context, word;
    int64_t place;
  };
  static constexpr int64_t kWaiting = 16;  // maximum number of n-grams whose memory is being prefetched

  void settle(const Waiting& waits) {
    if (!model_.table.add(waits.context, waits.word, waits.arc) && duplicate_ < 0) duplicate_ = waits.place;
  }

  static constexpr int32_t kSettled = -2;  // arcs with `next` at or below this lead to the state kSettled - next
  static constexpr float kImplied = 0;     // placeholder until the probability is computed by backing off

  int32_t add_node(int32_t context, int32_t word, int32_t length) {
    if (word_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      throw std::length_error("more than 2^31 contexts");
    }
    context_.push_back(context);
    word_.push_back(word);
    length_.push_back(static_cast<uint8_t>(length));
    weight_.push_back(0);
    is_context_.push_back(0);
    return static_cast<int32_t>(word_.size() - 1);
  }

  // The node of the longest known proper suffix of (context, word).
  int32_t shorter(int32_t context, int32_t word) {
    for (int32_t from = link_[context]; from != kNoState; from = link_[from]) {
      if (from == kRoot) return model_.row[word].next;
      const NgramArc* arc = model_.table.find(from, word);
      if (arc != nullptr) return arc->next;
    }
    return kRoot;
  }

  float backed_off(int32_t context, int32_t word) {
    double paid = weight_[context];
    for (int32_t from = link_[context]; from != kRoot; from = link_[from]) {
      const NgramArc* arc = model_.table.find(from, word);
      if (arc != nullptr) return static_cast<float>(paid + arc->logprob);
      paid += weight_[from];
    }
    return static_cast<float>(paid + model_.row[word].logprob);
  }

  int32_t order_;
  NgramModel model_;
  Waiting waiting_[kWaiting];
  int64_t num_waiting_ = 0;  // number of n-grams since the last flush(), including settled ones
  int64_t duplicate_ = -1;
  std::vector<int32_t> context_, word_;  // [num_nodes] the n-gram of each node
  std::vector<uint8_t> length_;          // [num_nodes] number of its words
  std::vector<float> weight_;            // [num_nodes] back-off weight
  std::vector<uint8_t> is_context_;      // [num_nodes]
  std::vector<int32_t> link_;            // [num_nodes] node of the longest known proper suffix
  std::vector<int32_t> implied_;         // nodes of missing n-grams
};

}  // namespace ninja
