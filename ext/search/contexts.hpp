// Contexts: all histories with the same last words share a context. The first such history represents the context.
#pragma once

#include <cstdint>
#include <vector>

#include "search/history.hpp"
#include "core/pair_map.hpp"

namespace ninja {

class Contexts {
 public:
  // Context 0 is the context of `root`. `num_words` is the length of contexts; 0 means whole histories.
  Contexts(Histories& histories, int32_t root, int32_t num_words)
      : histories_(histories), root_(root), num_words_(num_words) {
    histories_.hold(root);
    history_.push_back(root);
  }

  int32_t history(int32_t context) const { return history_[context]; }

  // The number of an ending, i.e. of the context of a history followed by a word; the context may not exist yet.
  int32_t ending(int32_t history, int32_t word) {
    int32_t& found = num_words_ > 0 ? place_(node(history, word), kEnding) : place_(history, word);
    if (found < 0) {
      found = static_cast<int32_t>(endings_.size());
      endings_.push_back({-1, -1});
    }
    return found;
  }

  // The context of an ending; -1 if it does not exist yet.
  int32_t context(int32_t ending) const { return endings_[ending].context; }

  // Creates the context of an ending, which is represented by this history if it is the first.
  int32_t enter(int32_t ending, int32_t history, int32_t word) {
    int32_t& context = endings_[ending].context;
    if (context < 0) {
      context = static_cast<int32_t>(history_.size());
      history_.push_back(histories_.intern(history, word));
    }
    return context;
  }

  // The history that represents a context, or a guess if the context does not exist yet.
  int32_t foresee(int32_t ending, int32_t history, int32_t word) {
    Ending& there = endings_[ending];
    if (there.context >= 0) return history_[there.context];
    if (there.guess < 0) {
      there.guess = histories_.intern(history, word);
      guessed_.push_back(there.guess);
    }
    return there.guess;
  }

  // Releases all histories.
  void release() {
    for (int32_t history : history_) histories_.drop(history);
    for (int32_t history : guessed_) histories_.drop(history);
    history_.clear();
    guessed_.clear();
  }

 private:
  static constexpr int32_t kStart = -1;   // used instead of a word if the context has no more words,
  static constexpr int32_t kEnding = -2;  // or has the maximum number of words

  struct Ending {
    int32_t context;
    int32_t guess;  // history that may represent the context later
  };

  // A node of the trie of contexts, which are read backward from the last word.
  int32_t node(int32_t history, int32_t word) {
    int32_t node = child(0, word);
    for (int32_t i = 1; i < num_words_; ++i, history = histories_.parent(history)) {
      if (history == root_) return child(node, kStart);
      node = child(node, histories_.word(history));
    }
    return node;
  }
  int32_t child(int32_t node, int32_t word) {
    int32_t& place = place_(node, word);
    if (place < 0) place = ++num_nodes_;
    return place;
  }

  Histories& histories_;
  const int32_t root_;
  const int32_t num_words_;
  std::vector<int32_t> history_;  // history that represents each context; the histories are held
  std::vector<int32_t> guessed_;  // all guessed histories; they are held
  std::vector<Ending> endings_;
  PairMap place_;  // (node, word) -> node, (node, kEnding) -> ending; for whole histories: (history, word) -> ending
  int32_t num_nodes_ = 0;
};

}  // namespace ninja
