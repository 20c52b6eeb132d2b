// Exact composition of a lattice with an n-gram model: states are pairs of a lattice state and a model state, made as
// paths reach them; every arc pays the model's cost of its word.
#pragma once

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/copies.hpp"
#include "core/lattice.hpp"
#include "lm/ngram.hpp"
#include "core/pair_map.hpp"

namespace ninja {

class NgramComposer {
 public:
  // `lm_word` is the model's word of each arc, -1 where it sees none; `extra` is a cost on top of the model's.
  NgramComposer(const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra, int32_t eos,
                double scale, int64_t max_arcs)
      : arcs_(arcs), model_(model), lm_word_(lm_word), extra_(extra), eos_(eos), scale_(scale), max_arcs_(max_arcs) {}

  Composed compose() {
    first_.assign(static_cast<size_t>(arcs_.num_states), -1);
    last_ = first_;
    pair(0, model_.start);
    out_.arc_begin.push_back(0);
    // Arcs lead to later states only: all model states of a lattice state are known when its turn comes.
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      if (first_[state] < 0) continue;
      int64_t num_pairs = 0;
      for (int32_t at = first_[state]; at >= 0; at = pairs_[at].next) ++num_pairs;
      out_.too_large = num_pairs * (arcs_.arc_begin[state + 1] - arcs_.arc_begin[state]) >
                       max_arcs_ - static_cast<int64_t>(out_.dst.size());
      if (out_.too_large) return std::move(out_);
      ask(state);
      leave(state);
      if (out_.impossible >= 0) return std::move(out_);
    }
    for (int32_t& dst : out_.dst) dst = pairs_[dst].number;
    return std::move(out_);
  }

 private:
  struct Pair {
    int32_t lm_state;
    int32_t next;         // pair of the same lattice state, in order of discovery
    int32_t number = -1;  // its state in the new lattice
  };

  int32_t pair(int32_t state, int32_t lm_state) {
    int32_t& found = known_(state, lm_state);
    if (found >= 0) return found;
    const int32_t made = found = static_cast<int32_t>(pairs_.size());
    pairs_.push_back({lm_state, -1});
    (first_[state] < 0 ? first_[state] : pairs_[last_[state]].next) = made;
    last_[state] = made;
    return made;
  }

  // Put all questions of a lattice state to the model at once.
  void ask(int64_t state) {
    asked_state_.clear();
    asked_word_.clear();
    const bool ends = is_final(arcs_, state);
    for (int32_t at = first_[state]; at >= 0; at = pairs_[at].next) {
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (lm_word_[arc] < 0) continue;
        asked_state_.push_back(pairs_[at].lm_state);
        asked_word_.push_back(lm_word_[arc]);
      }
      if (!ends) continue;
      asked_state_.push_back(pairs_[at].lm_state);
      asked_word_.push_back(eos_);
    }
    logprob_.resize(asked_state_.size());
    after_.resize(asked_state_.size());
    model_.look_up(asked_state_.data(), asked_word_.data(), static_cast<int64_t>(asked_state_.size()), logprob_.data(),
                   after_.data());
  }

  // Make the new states and arcs of a lattice state from the answers.
  void leave(int64_t state) {
    size_t answer = 0;
    for (int32_t at = first_[state]; at >= 0; at = pairs_[at].next) {
      pairs_[at].number = static_cast<int32_t>(out_.state_map.size());
      const int32_t lm_state = pairs_[at].lm_state;  // pairs_ grows below
      out_.state_map.push_back(static_cast<int32_t>(state));
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        double cost = arcs_.graph[arc];
        int32_t after = lm_state;
        if (lm_word_[arc] >= 0) {
          if (std::isinf(logprob_[answer])) out_.impossible = arc;
          cost += scale_ * (extra_[arc] - logprob_[answer]);
          after = static_cast<int32_t>(after_[answer++]);
        }
        const int32_t to = pair(arcs_.dst[arc], after);
        out_.dst.push_back(to);
        out_.graph.push_back(static_cast<float>(cost));
        out_.arc_map.push_back(arc);
      }
      out_.arc_begin.push_back(static_cast<int64_t>(out_.dst.size()));
      float final_graph = kInfinity;
      if (is_final(arcs_, state)) {
        if (std::isinf(logprob_[answer])) out_.impossible = arcs_.num_arcs;
        final_graph = static_cast<float>(arcs_.final_graph[state] - scale_ * logprob_[answer++]);
      }
      out_.final_graph.push_back(final_graph);
    }
  }

  const Arcs& arcs_;
  const NgramModel& model_;
  const int32_t* lm_word_;
  const float* extra_;
  int32_t eos_;
  double scale_;
  int64_t max_arcs_;
  Composed out_;
  PairMap known_;
  std::vector<Pair> pairs_;
  std::vector<int32_t> first_, last_;  // [lattice states] pairs of each, -1: none
  std::vector<int64_t> asked_state_, after_;
  std::vector<int32_t> asked_word_;
  std::vector<float> logprob_;
};

inline Composed compose_ngram(const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra,
                              int32_t eos, double scale, int64_t max_arcs) {
  return NgramComposer(arcs, model, lm_word, extra, eos, scale, max_arcs).compose();
}

}  // namespace ninja
