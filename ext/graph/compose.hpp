// Composition of a lattice, by its words, with a weighted transducer, which may have cycles and failure arcs.
//
// A failure arc (phi) is followed if a state has no arc for a word, and consumes no word. As in Kaldi, the final cost
// of a state that is not final is the cost of its failure arc plus the final cost of the destination of this arc.
//
// Composed states are triples of a lattice state, an FST state and a filter. The filter is 1 after an epsilon of the
// FST, and forbids epsilons of the lattice until the next word. Each pair of matching paths therefore becomes one
// path, in which epsilons of the lattice precede epsilons of the FST.
//
// Source: Kaldi, latbin/lattice-compose.cc, fstext/fstext-utils-inl.h (PhiCompose, PropagateFinal).
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/fst_image.hpp"
#include "core/lattice.hpp"
#include "core/pair_map.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// States in topological order, including dead ends.
struct Composition {
  bool too_large = false;          // more than max_arcs arcs: the arrays are incomplete
  int64_t cycle = -1;              // a state of the FST on a cycle of epsilons: the arrays are incomplete
  std::vector<int64_t> arc_begin;  // [num_states + 1]
  std::vector<int32_t> dst, word;  // [num_arcs]
  std::vector<int64_t> arc_map;    // [num_arcs] arc of the lattice, -1 for an epsilon of the FST
  std::vector<int64_t> fst_arc;    // [num_arcs] arc of the FST, -1 for an epsilon of the lattice
  std::vector<double> cost;        // [num_arcs] cost in the FST, including failure arcs
  std::vector<int32_t> state_map;  // [num_states] state of the lattice
  std::vector<int32_t> fst_state;  // [num_states] state of the FST
  std::vector<double> final_cost;  // [num_states] final cost in the FST, +inf if not final
};

class Composer {
 public:
  // `start` is the start of the FST; `phi` the label of its failure arcs, -1 if it has none.
  Composer(const Arcs& arcs, const FstArcs& fst, int64_t start, int32_t phi, int64_t max_arcs)
      : arcs_(arcs), fst_(fst), start_(start), phi_(phi), max_arcs_(max_arcs) {}

  Composition compose() {
    triple(0, static_cast<int32_t>(start_), 0);
    raw_.arc_begin.push_back(0);
    for (size_t at = 0; at < triples_.size(); ++at) {
      leave(triples_[at]);
      raw_.arc_begin.push_back(static_cast<int64_t>(raw_.dst.size()));
      if (exceeds_bound()) return std::move(raw_);
    }
    const auto num_states = static_cast<int64_t>(triples_.size());
    std::vector<int32_t> number(triples_.size());
    const std::vector<int32_t> cycle = top_sort(num_states, raw_.arc_begin.data(), raw_.dst.data(), 0, number.data());
    if (!cycle.empty()) {
      raw_.cycle = triples_[cycle[0]].fst;
      return std::move(raw_);
    }
    return sorted(number);
  }

 private:
  struct Triple {
    int32_t state, fst, filter;
  };

  bool exceeds_bound() { return raw_.too_large = static_cast<int64_t>(raw_.dst.size()) > max_arcs_; }

  int32_t triple(int32_t state, int32_t fst, int32_t filter) {
    int32_t& found = known_[filter](state, fst);
    if (found < 0) {
      found = static_cast<int32_t>(triples_.size());
      triples_.push_back({state, fst, filter});
    }
    return found;
  }

  void add(int64_t arc, int64_t fst_arc, int32_t word, double cost, int32_t to) {
    raw_.arc_map.push_back(arc);
    raw_.fst_arc.push_back(fst_arc);
    raw_.word.push_back(word);
    raw_.cost.push_back(cost);
    raw_.dst.push_back(to);
  }

  // Arcs [first, last) of a state with an input label.
  std::pair<int64_t, int64_t> with_label(int64_t state, int32_t label) const {
    const auto range =
        std::equal_range(fst_.ilabel + fst_.arc_begin[state], fst_.ilabel + fst_.arc_begin[state + 1], label);
    return {range.first - fst_.ilabel, range.second - fst_.ilabel};
  }

  // Follow the failure arc of a state; false if there is none.
  bool fail(int64_t& state, double& cost) const {
    if (phi_ < 0) return false;
    const auto [first, last] = with_label(state, phi_);
    if (first == last) return false;
    cost += fst_.cost[first];
    state = fst_.dst[first];
    return true;
  }

  double final_cost(int64_t state) const {
    double cost = 0.0;
    for (int64_t steps = 0; steps <= fst_.num_states; ++steps) {  // failure arcs may form a cycle
      if (fst_.final_cost[state] < kNever) return cost + fst_.final_cost[state];
      if (!fail(state, cost)) break;
    }
    return kNever;
  }

  void leave(const Triple here) {
    raw_.state_map.push_back(here.state);
    raw_.fst_state.push_back(here.fst);
    raw_.final_cost.push_back(is_final(arcs_, here.state) ? final_cost(here.fst) : kNever);
    for (int64_t arc = arcs_.arc_begin[here.state]; arc < arcs_.arc_begin[here.state + 1]; ++arc) {
      if (exceeds_bound()) return;  // many arcs of a state may have the same word on both sides
      const int32_t word = arcs_.word[arc];
      if (word == 0) {
        if (here.filter == 0) add(arc, -1, 0, 0.0, triple(arcs_.dst[arc], here.fst, 0));
        continue;
      }
      int64_t state = here.fst;
      double cost = 0.0;
      for (int64_t steps = 0; steps <= fst_.num_states; ++steps) {
        const auto [first, last] = with_label(state, word);
        for (int64_t match = first; match < last; ++match) {
          add(arc, match, fst_.olabel[match], cost + fst_.cost[match], triple(arcs_.dst[arc], fst_.dst[match], 0));
        }
        if (first < last || !fail(state, cost)) break;
      }
    }
    const auto [first, last] = with_label(here.fst, 0);
    for (int64_t epsilon = first; epsilon < last; ++epsilon) {
      add(-1, epsilon, fst_.olabel[epsilon], fst_.cost[epsilon], triple(here.state, fst_.dst[epsilon], 1));
    }
  }

  Composition sorted(const std::vector<int32_t>& number) const {
    Composition out;
    for (auto* column : {&out.dst, &out.word}) column->reserve(raw_.dst.size());
    for (auto* column : {&out.arc_map, &out.fst_arc}) column->reserve(raw_.dst.size());
    out.cost.reserve(raw_.dst.size());
    out.arc_begin.push_back(0);
    for (const int32_t state : in_new_order(number)) {
      out.state_map.push_back(raw_.state_map[state]);
      out.fst_state.push_back(raw_.fst_state[state]);
      out.final_cost.push_back(raw_.final_cost[state]);
      for (int64_t arc = raw_.arc_begin[state]; arc < raw_.arc_begin[state + 1]; ++arc) {
        out.dst.push_back(number[raw_.dst[arc]]);
        out.word.push_back(raw_.word[arc]);
        out.arc_map.push_back(raw_.arc_map[arc]);
        out.fst_arc.push_back(raw_.fst_arc[arc]);
        out.cost.push_back(raw_.cost[arc]);
      }
      out.arc_begin.push_back(static_cast<int64_t>(out.dst.size()));
    }
    return out;
  }

  const Arcs& arcs_;
  const FstArcs& fst_;
  const int64_t start_;
  const int32_t phi_;
  const int64_t max_arcs_;
  Composition raw_;  // in the order in which triples were found
  std::vector<Triple> triples_;
  PairMap known_[2];
};

// The arcs of a lattice, state by state in the order of their words, and of equal words in their old order.
inline std::vector<int64_t> arcs_by_word(const Arcs& arcs) {
  std::vector<int64_t> order(static_cast<size_t>(arcs.num_arcs));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    std::sort(order.begin() + arcs.arc_begin[state], order.begin() + arcs.arc_begin[state + 1],
              [&](int64_t a, int64_t b) { return std::pair(arcs.word[a], a) < std::pair(arcs.word[b], b); });
  }
  return order;
}

inline Composition compose(const Arcs& arcs, const FstArcs& fst, int64_t start, int32_t phi, int64_t max_arcs) {
  return Composer(arcs, fst, start, phi, max_arcs).compose();
}

}  // namespace ninja
