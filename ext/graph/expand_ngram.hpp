// States split until each stands for one state of an automaton that follows the words: the last n - 1 of them, or how
// much of a transcript has been said.
// Source: Kaldi, latbin/lattice-expand-ngram.cc and fstext/deterministic-fst-inl.h, UnweightedNgramFst;
// latbin/lattice-difference.cc.
#pragma once

#include <cstdint>
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

// Follow an automaton with a state 0 and `after(state, word)`; epsilons leave it where it is.
template <class After>
SplitLattice split(const Arcs& arcs, int64_t max_arcs, const After& after) {
  SplitLattice out;
  StatePairs pairs(arcs.num_states);
  pairs(0, 0);
  out.arc_begin.push_back(0);
  // Arcs lead to later states only: all pairs of a state are known when its turn comes.
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (int32_t at = pairs.first(state); at >= 0; at = pairs.next(at)) {
      const int32_t followed = pairs.other(at);
      pairs.number(at, out.state_map.size());
      out.state_map.push_back(static_cast<int32_t>(state));
      out.followed.push_back(followed);
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        const int32_t word = arcs.word[arc];
        out.arc_map.push_back(arc);
        out.dst.push_back(pairs(arcs.dst[arc], word == 0 ? followed : after(followed, word)));
      }
      out.arc_begin.push_back(static_cast<int64_t>(out.dst.size()));
      out.too_large = static_cast<int64_t>(out.dst.size()) > max_arcs;
      if (out.too_large) return out;
    }
  }
  pairs.renumber(out.dst);
  return out;
}

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

inline SplitLattice expand_ngram(const Arcs& arcs, int32_t num_words, int64_t max_arcs) {
  LastWords words(num_words);
  return split(arcs, max_arcs, [&](int32_t history, int32_t word) { return words.after(history, word); });
}

// The automaton counts the words of the transcript that have been said, and nothing else; one more than it has:
// something else has been said, too.
inline SplitLattice follow_transcript(const Arcs& arcs, const int32_t* words, int64_t length, int64_t max_arcs) {
  const auto most = static_cast<int32_t>(length);
  return split(arcs, max_arcs, [&](int32_t said, int32_t word) {
    return said < most && words[said] == word ? said + 1 : most + 1;
  });
}

}  // namespace ninja
