// Determinized union of lattices: the best path of each word sequence, with its costs and its alignment.
//
// Weighted subset construction over all lattices at once. A new state is a set of (old state, residual labels, residual
// graph and acoustic cost). The common prefix of the labels and the cost of the best element are put on the arc, as in
// Kaldi. Two sets are equal if their states and labels are equal and their costs round to the same multiples of
// `delta`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/lattice.hpp"
#include "graph/growing_lattice.hpp"
#include "graph/label_strings.hpp"
#include "graph/potential.hpp"

namespace ninja {

struct Operand {
  Arcs arcs;
  Alignments labels;
  int64_t first;  // number of its state 0 among the states of all operands
};

// All operands must be connected and free of epsilons.
class Uniter {
 public:
  Uniter(const std::vector<Operand>& operands, double acoustic_scale, double delta, int64_t max_arcs,
         int64_t max_labels)
      : operands_(operands), scale_(acoustic_scale), step_(1.0 / delta), max_arcs_(max_arcs), max_labels_(max_labels) {}

  GrowingLattice unite() {
    int64_t num_states = 0;
    for (const Operand& operand : operands_) num_states += operand.arcs.num_states;
    single_.assign(num_states, -1);
    first_at_.assign(num_states, -1);
    for (const Operand& operand : operands_) subset_.push_back({static_cast<int32_t>(operand.first), 0, 0.0, 0.0});
    find();
    // The lowest state of a set increases along every arc, so sets in that order are in topological order.
    for (int64_t state = 0; state < num_states; ++state) {
      for (int32_t set = first_at_[state]; set >= 0; set = sets_[set].next) {
        leave(set);
        out_.too_large = out_.num_arcs() > max_arcs_ ||
                         static_cast<int64_t>(elements_.size()) > kElementsPerArc * max_arcs_ ||
                         static_cast<int64_t>(out_.ali.size()) + strings_.num_labels() > max_labels_;
        if (out_.too_large) return std::move(out_);
      }
    }
    for (int32_t& dst : out_.dst) dst = sets_[dst].number;
    return std::move(out_);
  }

 private:
  static constexpr int64_t kElementsPerArc = 20;

  struct Element {
    int32_t state;           // among the states of all operands
    int32_t string;          // residual labels
    double graph, acoustic;  // residual costs
  };
  struct Set {
    int64_t begin, end;  // in elements_
    int32_t next;        // previous set with the same lowest state
    int32_t number;
  };
  struct Step {
    uint64_t way;  // word and destination
    const int32_t* labels;
    int64_t length;
    int32_t string;
    Costs cost;
  };

  const Operand& operand_of(int32_t state) const {
    size_t i = operands_.size() - 1;
    while (operands_[i].first > state) --i;
    return operands_[i];
  }

  static bool is_plain(const Element& element) {
    return element.string == 0 && element.graph == 0.0 && element.acoustic == 0.0;
  }
  double rounded(double cost) const { return std::round(cost * step_) + 0.0; }  // avoids -0.0, which has another hash

  static uint64_t bits(double number) {
    uint64_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
  }

  bool same(const Set& set) const {
    if (set.end - set.begin != static_cast<int64_t>(subset_.size())) return false;
    for (size_t i = 0; i < subset_.size(); ++i) {
      const Element &a = elements_[set.begin + static_cast<int64_t>(i)], &b = subset_[i];
      if (a.state != b.state || a.string != b.string || rounded(a.graph) != rounded(b.graph) ||
          rounded(a.acoustic) != rounded(b.acoustic))
        return false;
    }
    return true;
  }

  int32_t add_set() {
    const auto set = static_cast<int32_t>(sets_.size());
    const auto begin = static_cast<int64_t>(elements_.size());
    elements_.insert(elements_.end(), subset_.begin(), subset_.end());
    int32_t lowest = subset_[0].state;
    for (const Element& element : subset_) lowest = std::min(lowest, element.state);
    sets_.push_back({begin, static_cast<int64_t>(elements_.size()), first_at_[lowest], -1});
    first_at_[lowest] = set;
    return set;
  }

  // Find or add the set with the elements of subset_, which are in the order of their states.
  int32_t find() {
    if (subset_.size() == 1 && is_plain(subset_[0])) {
      int32_t& set = single_[subset_[0].state];
      if (set < 0) set = add_set();
      return set;
    }
    uint64_t hash = subset_.size();
    for (const Element& element : subset_) {
      hash = keyed_hash_with(hash, static_cast<uint64_t>(element.state) << 32 | static_cast<uint32_t>(element.string));
      hash = keyed_hash_with(hash, bits(rounded(element.graph)));
      hash = keyed_hash_with(hash, bits(rounded(element.acoustic)));
    }
    for (int32_t entry = chains_.first(hash); entry >= 0; entry = chains_.next(entry)) {
      if (chains_.hash(entry) == hash && same(sets_[hashed_[entry]])) return hashed_[entry];
    }
    chains_.add(hash);
    hashed_.push_back(add_set());
    return hashed_.back();
  }

  void leave(int32_t set) {
    sets_[set].number = static_cast<int32_t>(out_.final_graph.size());
    const int64_t begin = sets_[set].begin, end = sets_[set].end;
    steps_.clear();
    int64_t final_element = -1;
    Costs stop;
    for (int64_t i = begin; i < end; ++i) {
      const Element element = elements_[i];
      const Operand& operand = operand_of(element.state);
      const Arcs& arcs = operand.arcs;
      const int64_t state = element.state - operand.first;
      const Costs residual = costs(element.graph, element.acoustic, scale_);
      if (is_final(arcs, state)) {
        const Costs here = residual + final_costs(arcs, state, scale_);
        if (final_element < 0 || better(here, stop)) {
          stop = here;
          final_element = i;
        }
      }
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        const int64_t from = operand.labels.ali_begin[arc];
        const uint64_t way =
            static_cast<uint64_t>(arcs.word[arc]) << 32 | static_cast<uint32_t>(operand.first + arcs.dst[arc]);
        steps_.push_back({way, operand.labels.ali + from, operand.labels.ali_begin[arc + 1] - from, element.string,
                          residual + arc_costs(arcs, arc, scale_)});
      }
    }
    order_.resize(steps_.size());
    for (size_t i = 0; i < steps_.size(); ++i) order_[i] = static_cast<int32_t>(i);
    const auto before = [this](int32_t a, int32_t b) {
      return steps_[a].way != steps_[b].way ? steps_[a].way < steps_[b].way : a < b;
    };
    std::sort(order_.begin(), order_.end(), before);
    for (size_t i = 0; i < order_.size();) {
      const uint64_t word = steps_[order_[i]].way >> 32;
      best_.clear();
      for (; i < order_.size() && steps_[order_[i]].way >> 32 == word; ++i) {
        const Step& step = steps_[order_[i]];
        if (best_.empty() || best_.back()->way != step.way) {
          best_.push_back(&step);
        } else if (better(step.cost, best_.back()->cost)) {
          best_.back() = &step;  // the comparison is strict, so the first of equal paths wins
        }
      }
      add_arc(static_cast<int32_t>(word));
    }
    if (final_element >= 0) {
      const Element& element = elements_[final_element];
      const Operand& operand = operand_of(element.state);
      strings_.append_to(element.string, out_.final_ali);
      append_labels(operand.labels.final_ali, operand.labels.final_ali_begin, element.state - operand.first,
                    out_.final_ali);
    }
    out_.close_state(final_element >= 0, static_cast<float>(stop.graph), static_cast<float>(stop.acoustic));
  }

  // Length of the common prefix of the labels of two steps, at most `most`.
  int64_t common(const Step& a, const Step& b, int64_t most) const {
    if (a.string == 0 && b.string == 0) {  // the usual case of similar lattices
      most = std::min({most, a.length, b.length});
      return std::mismatch(a.labels, a.labels + most, b.labels).first - a.labels;
    }
    most = std::min({most, length_of(a), length_of(b)});
    const auto at = [](const int32_t* residual, int64_t length, const Step& step, int64_t i) {
      return i < length ? residual[i] : step.labels[i - length];
    };
    const int32_t *residual_a = strings_.begin(a.string), *residual_b = strings_.begin(b.string);
    const int64_t length_a = strings_.size(a.string), length_b = strings_.size(b.string);
    int64_t i = 0;
    while (i < most && at(residual_a, length_a, a, i) == at(residual_b, length_b, b, i)) ++i;
    return i;
  }

  // Append labels [from, to) of a step: residual labels, then the labels of the arc.
  void spell(const Step& step, int64_t from, int64_t to, std::vector<int32_t>& pool) const {
    const int32_t* residual = strings_.begin(step.string);
    const int64_t length = strings_.size(step.string);
    if (from < length) pool.insert(pool.end(), residual + from, residual + std::min(to, length));
    if (to <= length) return;
    pool.insert(pool.end(), step.labels + std::max<int64_t>(from - length, 0), step.labels + (to - length));
  }

  int64_t length_of(const Step& step) const { return static_cast<int64_t>(strings_.size(step.string)) + step.length; }

  void add_arc(int32_t word) {
    const Step* first = best_[0];
    int64_t prefix = length_of(*first);
    for (size_t i = 1; i < best_.size(); ++i) {
      prefix = common(*best_[0], *best_[i], prefix);
      if (better(best_[i]->cost, first->cost)) first = best_[i];
    }
    spell(*best_[0], 0, prefix, out_.ali);
    subset_.clear();
    for (const Step* step : best_) {
      int32_t string = 0;
      const int64_t length = length_of(*step);
      if (length > prefix) {
        rest_.clear();
        spell(*step, prefix, length, rest_);
        string = strings_.intern(rest_.data(), rest_.size());
      }
      subset_.push_back({static_cast<int32_t>(step->way & 0xffffffffu), string, step->cost.graph - first->cost.graph,
                         step->cost.acoustic - first->cost.acoustic});
    }
    out_.add_arc(find(), word, static_cast<float>(first->cost.graph), static_cast<float>(first->cost.acoustic));
  }

  const std::vector<Operand>& operands_;
  const double scale_;
  const double step_;  // one over delta
  const int64_t max_arcs_, max_labels_;
  LabelStrings strings_;
  std::vector<int32_t> rest_;  // residual labels
  std::vector<Set> sets_;
  std::vector<Element> elements_, subset_;
  std::vector<int32_t> single_;    // [states of all operands] set of that state alone, without residuals
  std::vector<int32_t> first_at_;  // [states of all operands] last set with that lowest state
  Chains chains_;                  // hash table of the sets that are not in single_
  std::vector<int32_t> hashed_;    // [entries of chains_] set
  std::vector<Step> steps_;
  std::vector<int32_t> order_;
  std::vector<const Step*> best_;
  GrowingLattice out_;
};

inline GrowingLattice unite(const std::vector<Operand>& operands, double acoustic_scale, double delta, int64_t max_arcs,
                            int64_t max_labels) {
  return Uniter(operands, acoustic_scale, delta, max_arcs, max_labels).unite();
}

}  // namespace ninja
