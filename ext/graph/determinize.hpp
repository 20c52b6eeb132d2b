// Determinization over words that keeps the best path of each word sequence, with both costs and the alignment.
//
// Weighted subset construction. A new state is a set of (old state, residual), where the residual is the string of arcs
// since the last arc that all elements share. Costs and alignments follow from the arcs, so sets with equal strings are
// equal and costs are never compared for equality.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "graph/growing_lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

// Interned strings of arcs, each stored as its parent and its last arc; string 0 is empty.
// Source: Myers 1983, "An applicative random-access stack", for the jumps.
class ArcStrings {
 public:
  ArcStrings(const Arcs& arcs, double acoustic_scale) : arcs_(arcs), scale_(acoustic_scale) {
    nodes_.push_back({0, 0, 0, -1, {0.0, 0.0, 0.0}});
  }

  int32_t extend(int32_t string, int32_t arc) {
    const uint64_t name = static_cast<uint64_t>(string) << 32 | static_cast<uint32_t>(arc);
    const auto [place, is_new] = index_.try_emplace(name, static_cast<int32_t>(nodes_.size()));
    if (is_new) {
      const Node& parent = nodes_[string];
      const Node& above = nodes_[parent.jump];
      const bool are_equal = parent.length - above.length == above.length - nodes_[above.jump].length;
      nodes_.push_back({string, are_equal ? above.jump : string, parent.length + 1, arc,
                        parent.cost + arc_costs(arcs_, arc, scale_)});
    }
    return place->second;
  }

  const Costs& cost(int32_t string) const { return nodes_[string].cost; }

  // Longest common prefix of two strings of equal length, in logarithmic time.
  int32_t common(int32_t a, int32_t b) const {
    while (a != b) {
      const bool jumps = nodes_[a].jump != nodes_[b].jump;
      a = jumps ? nodes_[a].jump : nodes_[a].parent;
      b = jumps ? nodes_[b].jump : nodes_[b].parent;
    }
    return a;
  }

  // Append the arcs of a string after a prefix of it.
  void spell(int32_t string, int32_t prefix, std::vector<int32_t>& to) const {
    const size_t begin = to.size();
    for (; string != prefix; string = nodes_[string].parent) to.push_back(nodes_[string].arc);
    std::reverse(to.begin() + static_cast<std::ptrdiff_t>(begin), to.end());
  }

  int32_t without(int32_t string, int32_t prefix) {
    if (prefix == 0) return string;
    spelled_.clear();
    spell(string, prefix, spelled_);
    int32_t rest = 0;
    for (const int32_t arc : spelled_) rest = extend(rest, arc);
    return rest;
  }

 private:
  struct Node {
    int32_t parent;
    int32_t jump;  // a shorter prefix; its length depends only on the length of the string
    int32_t length;
    int32_t arc;
    Costs cost;  // cost of all arcs in the string
  };
  const Arcs& arcs_;
  const double scale_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t, KeyedHash> index_;
  std::vector<int32_t> spelled_;
};

constexpr int64_t kElementsPerArc = 20;  // bounds memory if subsets are large

// The lattice must be connected and free of epsilons, so that all strings of a subset have the same length.
inline GrowingLattice determinize(const Arcs& arcs, const Alignments& labels, double acoustic_scale, int64_t max_arcs) {
  struct Element {
    int32_t state;
    int32_t string;
  };
  struct Step {
    int32_t word, state, string, arc;  // destination, and the string before the arc
    Costs cost;
  };
  ArcStrings strings(arcs, acoustic_scale);
  struct Set {
    int64_t begin, end;  // in elements
    int32_t next;        // previous set with the same lowest state
    int32_t number;
  };
  std::unordered_map<std::string, int32_t, KeyedHash> known;  // subset -> set
  std::vector<Set> sets;
  std::vector<int32_t> first_at(arcs.num_states, -1);  // last set with that lowest state
  std::vector<Element> elements, subset;
  std::vector<Step> steps, best;
  std::string name;
  const auto find = [&](const std::vector<Element>& wanted) {  // elements are in the order of their states
    name.assign(reinterpret_cast<const char*>(wanted.data()), wanted.size() * sizeof(Element));
    const auto set = static_cast<int32_t>(sets.size());
    const auto [place, is_new] = known.try_emplace(name, set);
    if (is_new) {
      const auto begin = static_cast<int64_t>(elements.size());
      elements.insert(elements.end(), wanted.begin(), wanted.end());
      int32_t& first = first_at[wanted[0].state];
      sets.push_back({begin, static_cast<int64_t>(elements.size()), first, -1});
      first = set;
    }
    return place->second;
  };

  GrowingLattice result;
  std::vector<int32_t> spelled;
  const auto append_string = [&](int32_t string, std::vector<int32_t>& pool) {
    spelled.clear();
    strings.spell(string, 0, spelled);
    for (const int32_t arc : spelled) append_labels(labels.ali, labels.ali_begin, arc, pool);
  };
  // Append the state of a set, with its arcs to other sets.
  const auto leave = [&](int32_t set) {
    const int64_t begin = sets[set].begin, end = sets[set].end;
    sets[set].number = static_cast<int32_t>(result.final_graph.size());
    steps.clear();
    int32_t final_state = -1, final_string = 0;
    Costs final_cost;
    for (int64_t i = begin; i < end; ++i) {
      const Element element = elements[i];
      if (is_final(arcs, element.state)) {
        const Costs stop = strings.cost(element.string) + final_costs(arcs, element.state, acoustic_scale);
        if (final_state < 0 || better(stop, final_cost)) {
          final_cost = stop;
          final_state = element.state;
          final_string = element.string;
        }
      }
      for (int64_t arc = arcs.arc_begin[element.state]; arc < arcs.arc_begin[element.state + 1]; ++arc) {
        steps.push_back({arcs.word[arc], arcs.dst[arc], element.string, static_cast<int32_t>(arc),
                         strings.cost(element.string) + arc_costs(arcs, arc, acoustic_scale)});
      }
    }
    if (final_state >= 0) {
      append_string(final_string, result.final_ali);
      append_labels(labels.final_ali, labels.final_ali_begin, final_state, result.final_ali);
    }

    std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      return a.word != b.word ? a.word < b.word : a.state < b.state;
    });
    for (size_t i = 0; i < steps.size();) {
      const int32_t word = steps[i].word;
      best.clear();
      for (; i < steps.size() && steps[i].word == word; ++i) {
        if (best.empty() || best.back().state != steps[i].state) {
          best.push_back(steps[i]);
        } else if (better(steps[i].cost, best.back().cost)) {
          best.back() = steps[i];  // the comparison is strict, so the first of equal paths wins
        }
      }
      subset.clear();
      int32_t prefix = best[0].string;
      for (const Step& step : best) prefix = strings.common(prefix, step.string);
      append_string(prefix, result.ali);
      Costs cost = strings.cost(prefix);
      if (best.size() == 1) {
        append_labels(labels.ali, labels.ali_begin, best[0].arc, result.ali);
        cost = best[0].cost;
        subset.push_back({best[0].state, 0});
      } else {
        for (const Step& step : best) {
          subset.push_back({step.state, strings.extend(strings.without(step.string, prefix), step.arc)});
        }
      }
      result.add_arc(find(subset), word, static_cast<float>(cost.graph), static_cast<float>(cost.acoustic));
    }
    result.close_state(final_state >= 0, static_cast<float>(final_cost.graph), static_cast<float>(final_cost.acoustic));
  };

  find({{0, 0}});
  // The lowest state of a set increases along every arc, so sets in that order are in topological order.
  for (const int32_t& first : first_at) {
    for (int32_t set = first; set >= 0; set = sets[set].next) {
      leave(set);
      result.too_large =
          result.num_arcs() > max_arcs || static_cast<int64_t>(elements.size()) > kElementsPerArc * max_arcs;
      if (result.too_large) return result;
    }
  }
  for (int32_t& dst : result.dst) dst = sets[dst].number;
  return result;
}

}  // namespace ninja
