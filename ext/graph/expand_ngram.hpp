// States split until each stands for one state of an automaton that follows the words: the last n - 1 of them, or how
// much of a transcript has been said.
// Source: Kaldi, latbin/lattice-expand-ngram.cc and fstext/deterministic-fst-inl.h, UnweightedNgramFst;
// latbin/lattice-difference.cc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/lattice.hpp"
#include "core/pair_map.hpp"

namespace ninja {

// States in topological order, those that lead nowhere included.
struct SplitLattice {
  bool too_large = false;          // more than max_arcs arcs: nothing else holds
  std::vector<int64_t> arc_begin;  // [num_states + 1]
  std::vector<int32_t> dst;        // [num_arcs]
  std::vector<int64_t> arc_map;    // [num_arcs] old arc
  std::vector<int32_t> state_map;  // [num_states] old state
  std::vector<int32_t> followed;   // [num_states] state of the automaton
};

// The automaton has a state 0 and `after(state, word)`; epsilons leave it where it is.
template <class Automaton>
class Splitter {
 public:
  Splitter(const Arcs& arcs, Automaton& automaton, int64_t max_arcs)
      : arcs_(arcs), automaton_(automaton), max_arcs_(max_arcs) {}

  SplitLattice split() {
    first_.assign(static_cast<size_t>(arcs_.num_states), -1);
    last_ = first_;
    pair(0, 0);
    out_.arc_begin.push_back(0);
    // Arcs lead to later states only: all pairs of a state are known when its turn comes.
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      for (int32_t at = first_[state]; at >= 0; at = pairs_[at].next) {
        pairs_[at].number = static_cast<int32_t>(out_.state_map.size());
        const int32_t followed = pairs_[at].followed;  // pairs_ grows below
        out_.state_map.push_back(static_cast<int32_t>(state));
        out_.followed.push_back(followed);
        for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
          const int32_t word = arcs_.word[arc];
          out_.arc_map.push_back(arc);
          out_.dst.push_back(pair(arcs_.dst[arc], word == 0 ? followed : automaton_.after(followed, word)));
        }
        out_.arc_begin.push_back(static_cast<int64_t>(out_.dst.size()));
        out_.too_large = static_cast<int64_t>(out_.dst.size()) > max_arcs_;
        if (out_.too_large) return std::move(out_);
      }
    }
    for (int32_t& dst : out_.dst) dst = pairs_[dst].number;
    return std::move(out_);
  }

 private:
  struct Pair {
    int32_t followed, next, number;
  };

  int32_t pair(int32_t state, int32_t followed) {
    int32_t& found = known_(state, followed);
    if (found >= 0) return found;
    const int32_t made = found = static_cast<int32_t>(pairs_.size());
    pairs_.push_back({followed, -1, -1});
    (first_[state] < 0 ? first_[state] : pairs_[last_[state]].next) = made;
    last_[state] = made;
    return made;
  }

  const Arcs& arcs_;
  Automaton& automaton_;
  const int64_t max_arcs_;
  SplitLattice out_;
  std::vector<Pair> pairs_;
  std::vector<int32_t> first_, last_;  // [old states] pairs of each, -1: none
  PairMap known_;
};

// The last words, `most` of them at most.
class LastWords {
 public:
  explicit LastWords(int32_t most) : most_(most) { nodes_.push_back({0, 0, 0}); }

  int32_t after(int32_t history, int32_t word) {
    if (most_ == 0) return history;
    if (nodes_[history].length < most_) return extended(history, word);
    words_.clear();
    for (int32_t at = history; nodes_[at].length > 1; at = nodes_[at].shorter) words_.push_back(nodes_[at].word);
    int32_t kept = 0;
    for (auto each = words_.rbegin(); each != words_.rend(); ++each) kept = extended(kept, *each);
    return extended(kept, word);
  }

 private:
  struct Node {
    int32_t shorter;  // without its last word
    int32_t word;
    int32_t length;
  };

  int32_t extended(int32_t history, int32_t word) {
    int32_t& found = child_(history, word);
    if (found >= 0) return found;
    const int32_t made = found = static_cast<int32_t>(nodes_.size());
    nodes_.push_back({history, word, nodes_[history].length + 1});
    return made;
  }

  const int32_t most_;
  std::vector<Node> nodes_;
  std::vector<int32_t> words_;
  PairMap child_;
};

// How many words of a transcript have been said, and nothing else; one more than it has: something else has, too.
class Transcript {
 public:
  Transcript(const int32_t* words, int64_t length) : words_(words), length_(static_cast<int32_t>(length)) {}

  int32_t after(int32_t said, int32_t word) const {
    return said < length_ && words_[said] == word ? said + 1 : length_ + 1;
  }

 private:
  const int32_t* words_;
  const int32_t length_;
};

inline SplitLattice expand_ngram(const Arcs& arcs, int32_t num_words, int64_t max_arcs) {
  LastWords words(num_words);
  return Splitter<LastWords>(arcs, words, max_arcs).split();
}

inline SplitLattice follow_transcript(const Arcs& arcs, const int32_t* words, int64_t length, int64_t max_arcs) {
  Transcript transcript(words, length);
  return Splitter<Transcript>(arcs, transcript, max_arcs).split();
}

}  // namespace ninja
