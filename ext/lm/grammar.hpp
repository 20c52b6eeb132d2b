// Kaldi's grammar (G.fst), an OpenFst acceptor with back-off arcs, used directly as the automaton.
// Back-off arcs have epsilon as output label (and #0 as input label in Kaldi), and there is at most one per state;
// other arcs have their word as output label. The start is the state after <s>, and the final weight is the cost of
// </s>; arcs with <s> and </s> are also supported. A word backs off only if the state has no arc for it; plain
// composition would use the cheaper path.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lm/const_arpa.hpp"
#include "core/fst_machine.hpp"
#include "lm/ngram.hpp"

namespace ninja {

// The labels of special words, -1 if the symbol table lacks them.
struct GrammarLabels {
  int32_t backoff = -1, bos = -1, eos = -1;
};

namespace grammar {

class Builder {
 public:
  Builder(const ParsedFst& fst, int64_t start, const GrammarLabels& label)
      : fst_(fst), start_(start), label_(label), num_states_(static_cast<int64_t>(fst.final_cost.size())) {}

  // Returns the reason why the machine is not a grammar, or an empty string.
  std::string build(NumberedNgrams& out) {
    if (label_.eos < 0) return "the symbol table lacks </s>";
    std::string error = find_backoffs(out.model);
    if (error.empty()) error = find_order(out.model);
    if (!error.empty()) return error;
    find_root(out.model);
    number_words(out);
    const NgramArc nothing{-std::numeric_limits<float>::infinity(), out.model.root};
    out.model.row.assign(out.word_id.size(), nothing);
    out.model.table.reserve(static_cast<int64_t>(fst_.dst.size()) + num_states_);
    for (int64_t state = 0; state < num_states_; ++state) {
      for (int64_t arc = fst_.arc_begin[state]; arc < fst_.arc_begin[state + 1]; ++arc) {
        if (is_backoff(arc)) continue;
        double cost = fst_.cost[arc];
        if (fst_.olabel[arc] == label_.eos) cost += fst_.final_cost[fst_.dst[arc]];
        if (!add(out, state, fst_.olabel[arc], cost, fst_.dst[arc])) {
          return "state " + std::to_string(state) + " has two arcs with the word id " +
                 std::to_string(fst_.olabel[arc]) + "; determinize it";
        }
      }
      if (!add(out, state, label_.eos, fst_.final_cost[state], state)) {
        return "state " + std::to_string(state) + " is final and has an arc with </s>";
      }
    }
    out.bos = word_of(out, label_.bos);
    out.eos = word_of(out, label_.eos);
    out.model.start = static_cast<int32_t>(start_);
    for (int64_t arc = fst_.arc_begin[start_]; arc < fst_.arc_begin[start_ + 1]; ++arc) {
      if (label_.bos >= 0 && fst_.olabel[arc] == label_.bos) out.model.start = fst_.dst[arc];
    }
    return "";
  }

 private:
  bool is_backoff(int64_t arc) const { return fst_.olabel[arc] == 0 || fst_.olabel[arc] == label_.backoff; }

  std::string find_backoffs(NgramModel& model) const {
    model.backoff.resize(static_cast<size_t>(num_states_));
    for (int64_t state = 0; state < num_states_; ++state) {
      for (int64_t arc = fst_.arc_begin[state]; arc < fst_.arc_begin[state + 1]; ++arc) {
        if (!is_backoff(arc)) continue;
        if (fst_.ilabel[arc] != 0 && label_.backoff >= 0 && fst_.ilabel[arc] != label_.backoff) {
          return "an arc of state " + std::to_string(state) + " has input word id " + std::to_string(fst_.ilabel[arc]) +
                 " but no output; a grammar must be an acceptor";
        }
        if (model.backoff[state].state != kNoState) {
          return "state " + std::to_string(state) + " has two back-off arcs; a back-off model has at most one";
        }
        model.backoff[state] = {static_cast<float>(-fst_.cost[arc]), fst_.dst[arc]};
      }
    }
    return "";
  }

  // The order is the length of the longest back-off chain, in states.
  std::string find_order(NgramModel& model) const {
    std::vector<int32_t> height(static_cast<size_t>(num_states_), 0);  // -1 on the current chain
    std::vector<int32_t> chain;
    for (int64_t state = 0; state < num_states_; ++state) {
      int32_t at = static_cast<int32_t>(state);
      for (; at != kNoState && height[at] == 0; at = model.backoff[at].state) {
        height[at] = -1;
        chain.push_back(at);
      }
      if (at != kNoState && height[at] < 0) return "the back-off arcs of state " + std::to_string(at) + " form a cycle";
      int32_t longest = at == kNoState ? 0 : height[at];
      for (; !chain.empty(); chain.pop_back()) height[chain.back()] = ++longest;
      model.order = std::max(model.order, longest);
    }
    return "";
  }

  // Of the states without a back-off arc, the state with the most words gets the plain array.
  void find_root(NgramModel& model) const {
    int64_t most = -1;
    for (int64_t state = 0; state < num_states_; ++state) {
      const int64_t count = fst_.arc_begin[state + 1] - fst_.arc_begin[state];
      if (model.backoff[state].state != kNoState || count <= most) continue;
      most = count;
      model.root = static_cast<int32_t>(state);
    }
  }

  void number_words(NumberedNgrams& out) const {
    out.word_id.push_back(label_.eos);
    for (size_t arc = 0; arc < fst_.olabel.size(); ++arc) {
      if (!is_backoff(static_cast<int64_t>(arc))) out.word_id.push_back(fst_.olabel[arc]);
    }
    std::sort(out.word_id.begin(), out.word_id.end());
    out.word_id.erase(std::unique(out.word_id.begin(), out.word_id.end()), out.word_id.end());
  }

  int32_t word_of(const NumberedNgrams& out, int32_t label) const {
    const auto found = std::lower_bound(out.word_id.begin(), out.word_id.end(), label);
    return found == out.word_id.end() || *found != label ? -1 : static_cast<int32_t>(found - out.word_id.begin());
  }

  bool add(NumberedNgrams& out, int64_t state, int32_t label, double cost, int64_t next) const {
    if (std::isinf(cost)) return true;
    const int32_t word = word_of(out, label), from = static_cast<int32_t>(state);
    const NgramArc arc{static_cast<float>(-cost), static_cast<int32_t>(next)};
    ++out.model.num_ngrams;
    if (from == out.model.root) {
      if (!std::isinf(out.model.row[word].logprob)) return false;
      out.model.row[word] = arc;
      return true;
    }
    if (out.model.table.find(from, word) != nullptr) return false;
    out.model.table.add(from, word, arc);
    return true;
  }

  const ParsedFst& fst_;
  int64_t start_;
  GrammarLabels label_;
  int64_t num_states_;
};

}  // namespace grammar

inline NumberedNgrams grammar_of(const Machine& machine, const GrammarLabels& label) {
  NumberedNgrams out;
  out.error = grammar::Builder(machine.fst, machine.start, label).build(out);
  return out;
}

}  // namespace ninja
