// Exact composition of a lattice with an n-gram model: states are pairs of a lattice state and a model state, created
// when a path reaches them; the model's cost of its word is added to each arc.
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
  // `lm_word` is the model's word of each arc, -1 if it has none; `extra` is added to the model's cost.
  NgramComposer(const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra, int32_t eos,
                double scale, int64_t max_arcs)
      : arcs_(arcs), model_(model), lm_word_(lm_word), extra_(extra), eos_(eos), scale_(scale), max_arcs_(max_arcs),
        pairs_(arcs.num_states) {}

  Composed compose() {
    pairs_(0, model_.start);
    out_.arc_begin.push_back(0);
    // Arcs lead only to later states, so all model states of a lattice state are known when it is expanded.
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      if (pairs_.first(state) < 0) continue;
      int64_t num_pairs = 0;
      for (int32_t at = pairs_.first(state); at >= 0; at = pairs_.next(at)) ++num_pairs;
      out_.too_large = num_pairs * (arcs_.arc_begin[state + 1] - arcs_.arc_begin[state]) >
                       max_arcs_ - static_cast<int64_t>(out_.dst.size());
      if (out_.too_large) return std::move(out_);
      ask(state);
      leave(state);
      if (out_.impossible >= 0) return std::move(out_);
    }
    pairs_.renumber(out_.dst);
    return std::move(out_);
  }

 private:
  // Look up all words of a lattice state in one call of the model.
  void ask(int64_t state) {
    asked_state_.clear();
    asked_word_.clear();
    const bool ends = is_final(arcs_, state);
    for (int32_t at = pairs_.first(state); at >= 0; at = pairs_.next(at)) {
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (lm_word_[arc] < 0) continue;
        asked_state_.push_back(pairs_.other(at));
        asked_word_.push_back(lm_word_[arc]);
      }
      if (!ends) continue;
      asked_state_.push_back(pairs_.other(at));
      asked_word_.push_back(eos_);
    }
    logprob_.resize(asked_state_.size());
    after_.resize(asked_state_.size());
    model_.look_up(asked_state_.data(), asked_word_.data(), static_cast<int64_t>(asked_state_.size()), logprob_.data(),
                   after_.data());
  }

  // Create the new states and arcs of a lattice state from the results.
  void leave(int64_t state) {
    size_t answer = 0;
    for (int32_t at = pairs_.first(state); at >= 0; at = pairs_.next(at)) {
      pairs_.number(at, out_.state_map.size());
      const int32_t lm_state = pairs_.other(at);
      out_.state_map.push_back(static_cast<int32_t>(state));
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        double cost = arcs_.graph[arc];
        int32_t after = lm_state;
        if (lm_word_[arc] >= 0) {
          if (std::isinf(logprob_[answer])) out_.impossible = arc;
          cost += scale_ * (extra_[arc] - logprob_[answer]);
          after = static_cast<int32_t>(after_[answer++]);
        }
        out_.dst.push_back(pairs_(arcs_.dst[arc], after));
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
  StatePairs pairs_;  // with the model's states
  std::vector<int64_t> asked_state_, after_;
  std::vector<int32_t> asked_word_;
  std::vector<float> logprob_;
};

inline Composed compose_ngram(const Arcs& arcs, const NgramModel& model, const int32_t* lm_word, const float* extra,
                              int32_t eos, double scale, int64_t max_arcs) {
  return NgramComposer(arcs, model, lm_word, extra, eos, scale, max_arcs).compose();
}

}  // namespace ninja
