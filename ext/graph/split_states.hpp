// Splits states so that each corresponds to one state of an automaton over the words. The state of the automaton is
// either the last n - 1 words or the number of matched words of a transcript.
// Source: Kaldi, latbin/lattice-expand-ngram.cc and fstext/deterministic-fst-inl.h, UnweightedNgramFst;
// latbin/lattice-difference.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lattice.hpp"
#include "core/pair_map.hpp"

namespace ninja {

// States in topological order, including dead ends.
struct SplitLattice {
  bool too_large = false;                // more than max_arcs arcs: the arrays are incomplete
  std::vector<int64_t> arc_begin;        // [num_states + 1]
  std::vector<int32_t> dst;              // [num_arcs]
  std::vector<int64_t> arc_map;          // [num_arcs] old arc
  std::vector<int32_t> state_map;        // [num_states] old state
  std::vector<int32_t> automaton_state;  // [num_states]
};

// Follow an automaton with the start 0 and the next state `after(state, word)`; epsilons do not change its state.
template <class After>
SplitLattice split(const Arcs& arcs, int64_t max_arcs, const After& after) {
  SplitLattice out;
  StatePairs pairs(arcs.num_states);
  pairs(0, 0);
  out.arc_begin.push_back(0);
  // Arcs lead to later states only, so all pairs of a state are known when it is visited.
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (int32_t at = pairs.first(state); at >= 0; at = pairs.next(at)) {
      const int32_t current = pairs.other(at);
      pairs.number(at, out.state_map.size());
      out.state_map.push_back(static_cast<int32_t>(state));
      out.automaton_state.push_back(current);
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        const int32_t word = arcs.word[arc];
        out.arc_map.push_back(arc);
        out.dst.push_back(pairs(arcs.dst[arc], word == 0 ? current : after(current, word)));
      }
      out.arc_begin.push_back(static_cast<int64_t>(out.dst.size()));
      out.too_large = static_cast<int64_t>(out.dst.size()) > max_arcs;
      if (out.too_large) return out;
    }
  }
  pairs.renumber(out.dst);
  return out;
}

// Histories of at most `most` last words.
class LastWords {
 public:
  explicit LastWords(int32_t most) : most_(most) { nodes_.push_back({0, 0, 0}); }

  int32_t after(int32_t history, int32_t word) {
    if (most_ == 0) return history;
    if (nodes_[history].length < most_) return extended(history, word);
    words_.clear();
    for (int32_t at = history; nodes_[at].length > 1; at = nodes_[at].shorter) words_.push_back(nodes_[at].word);
    int32_t shorter = 0;
    for (auto last = words_.rbegin(); last != words_.rend(); ++last) shorter = extended(shorter, *last);
    return extended(shorter, word);
  }

 private:
  struct Node {
    int32_t shorter;  // without its last word
    int32_t word;
    int32_t length;
  };

  int32_t extended(int32_t history, int32_t word) {
    int32_t& child = child_(history, word);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({history, word, nodes_[history].length + 1});
    }
    return child;
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

// The automaton counts the words that match the beginning of the transcript; after any other word its state is one more
// than the length of the transcript.
inline SplitLattice follow_transcript(const Arcs& arcs, const int32_t* words, int64_t length, int64_t max_arcs) {
  const auto most = static_cast<int32_t>(length);
  return split(arcs, max_arcs, [&](int32_t count, int32_t word) {
    return count < most && words[count] == word ? count + 1 : most + 1;
  });
}

}  // namespace ninja
