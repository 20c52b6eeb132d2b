// Input and output of the CTC search; see ctc.hpp.
#pragma once

#include <cstdint>
#include <vector>

namespace ninja {

enum : uint8_t {
  kCtcInside,    // continues the word, or begins one if none is open
  kCtcBegins,    // begins a word
  kCtcBoundary,  // ends a word
  kCtcNever,     // is never part of a hypothesis, like the blank
};

struct CtcUnits {
  int64_t num_units;
  int64_t blank;
  const uint8_t* kind;  // [num_units]
};

// A tree of spellings with the root 0; the children of a state are sorted by unit.
struct CtcLexicon {
  int64_t num_states;          // 0 allows any word
  const int64_t* child_begin;  // [num_states + 1]
  const int32_t* unit;         // [num_children]
  const int32_t* child;        // [num_children]
  const uint8_t* is_word;      // [num_states], whether a spelling ends in the state
};

struct CtcBeam {
  int64_t beam;       // number of prefixes that are kept; 0 for all
  double score_beam;  // nats; prefixes whose score is more than this below the best score are dropped
  int64_t max_units;  // number of most probable units that are tried per frame; 0 for all
};

struct CtcResult {
  // Words as a tree, parents first: sequences that begin with the same units in the same words share nodes.
  std::vector<int32_t> parent;      // [nodes], -1 for the first word
  std::vector<int32_t> state;       // [nodes], state of the lexicon; -1 without a lexicon
  std::vector<int64_t> unit_begin;  // [nodes + 1]
  std::vector<int32_t> unit;
  // Hypotheses, best first.
  std::vector<double> total;        // log-probability of all alignments
  std::vector<int64_t> word_begin;  // words of hypothesis h are word_begin[h] : word_begin[h + 1]
  std::vector<int32_t> node;        // [words], node in the tree
  std::vector<int32_t> first, end;  // [words], first frame, and last frame plus 1, in the best alignment
  std::vector<double> cost;         // [words], cost of the best alignment from a word to the next word
  std::vector<int32_t> alignment;   // [hypotheses, frames], the column at each frame of the best alignment
};

}  // namespace ninja
