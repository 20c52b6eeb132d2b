// Determinization over words that keeps, for each word sequence, the best path: both costs and the alignment.
//
// Weighted subset construction. A new state is a set of (old state, residual): the residual is the string of arcs taken
// since the last arc all elements share. Costs and alignment follow from the arcs, so equal sets of strings are equal in
// everything and no cost is ever compared for equality.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "graph/potential.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// Strings of arcs, each stored once as its parent and its last arc; string 0 is empty.
class ArcStrings {
 public:
  ArcStrings(const Arcs& arcs, double acoustic_scale) : arcs_(arcs), scale_(acoustic_scale) {
    nodes_.push_back({0, -1, {0.0, 0.0, 0.0}});
  }

  int32_t extend(int32_t string, int32_t arc) {
    const uint64_t name = static_cast<uint64_t>(string) << 32 | static_cast<uint32_t>(arc);
    const auto [place, is_new] = index_.try_emplace(name, static_cast<int32_t>(nodes_.size()));
    if (is_new) {
      const Node parent = nodes_[string];
      nodes_.push_back({string, arc, parent.cost + arc_costs(arcs_, arc, scale_)});
    }
    return place->second;
  }

  const Costs& cost(int32_t string) const { return nodes_[string].cost; }

  // Longest string that both, of equal length, begin with.
  int32_t common(int32_t a, int32_t b) const {
    while (a != b) {
      a = nodes_[a].parent;
      b = nodes_[b].parent;
    }
    return a;
  }

  // The arcs of a string that follow a prefix of it, first to last, appended to `to`.
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
    int32_t arc;
    Costs cost;  // of all its arcs
  };
  const Arcs& arcs_;
  const double scale_;
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, int32_t, KeyedHash> index_;
  std::vector<int32_t> spelled_;
};

struct Determinized {
  bool too_large = false;                  // beyond the bound: nothing else holds
  std::vector<int64_t> arc_begin;          // states in topological order, state 0 the start
  std::vector<int32_t> dst, word;
  std::vector<int64_t> taken_begin;        // [num_arcs + 1]
  std::vector<int32_t> taken;              // old arcs that each arc stands for
  std::vector<int32_t> final_state;        // old final state that each state ends in, -1 = not final
  std::vector<int64_t> final_taken_begin;  // [num_states + 1]
  std::vector<int32_t> final_taken;        // old arcs still to be taken before it
};

constexpr int64_t kElementsPerArc = 20;  // bounds memory where subsets are large

// The lattice must be connected and free of epsilons. Each arc is then a word, and all strings of a subset are as long.
inline Determinized determinize(const Arcs& arcs, double acoustic_scale, int64_t max_arcs) {
  struct Element {
    int32_t state;
    int32_t string;
  };
  struct Step {
    int32_t word, state, string, arc;  // to the state, by the arc behind the string
    Costs cost;
  };
  ArcStrings strings(arcs, acoustic_scale);
  std::unordered_map<std::string, int32_t, KeyedHash> known;  // subset -> new state
  std::vector<std::pair<int64_t, int64_t>> subset_of;  // [begin, end) in elements
  std::vector<Element> elements, subset;
  std::vector<Step> steps, best;
  std::string name;
  const auto find = [&](const std::vector<Element>& wanted) {
    name.assign(reinterpret_cast<const char*>(wanted.data()), wanted.size() * sizeof(Element));
    const auto [place, is_new] = known.try_emplace(name, static_cast<int32_t>(subset_of.size()));
    if (is_new) {
      const auto begin = static_cast<int64_t>(elements.size());
      elements.insert(elements.end(), wanted.begin(), wanted.end());
      subset_of.emplace_back(begin, static_cast<int64_t>(elements.size()));
    }
    return place->second;
  };

  Determinized raw;  // states in the order they were met
  raw.arc_begin.push_back(0);
  raw.taken_begin.push_back(0);
  raw.final_taken_begin.push_back(0);
  find({{0, 0}});
  for (size_t state = 0; state < subset_of.size(); ++state) {
    const auto [begin, end] = subset_of[state];
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
    raw.final_state.push_back(final_state);
    if (final_state >= 0) strings.spell(final_string, 0, raw.final_taken);
    raw.final_taken_begin.push_back(static_cast<int64_t>(raw.final_taken.size()));

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
          best.back() = steps[i];  // strict: of equal paths the first stays
        }
      }
      subset.clear();
      if (best.size() == 1) {
        strings.spell(best[0].string, 0, raw.taken);
        raw.taken.push_back(best[0].arc);
        subset.push_back({best[0].state, 0});
      } else {
        int32_t prefix = best[0].string;
        for (const Step& step : best) prefix = strings.common(prefix, step.string);
        strings.spell(prefix, 0, raw.taken);
        for (const Step& step : best) {
          subset.push_back({step.state, strings.extend(strings.without(step.string, prefix), step.arc)});
        }
      }
      raw.taken_begin.push_back(static_cast<int64_t>(raw.taken.size()));
      raw.word.push_back(word);
      raw.dst.push_back(find(subset));
    }
    raw.arc_begin.push_back(static_cast<int64_t>(raw.dst.size()));
    if (static_cast<int64_t>(raw.dst.size()) > max_arcs ||
        static_cast<int64_t>(elements.size()) > kElementsPerArc * max_arcs) {
      raw.too_large = true;
      return raw;
    }
  }

  const auto num_states = static_cast<int64_t>(subset_of.size());
  std::vector<int32_t> number(num_states);
  top_sort(num_states, raw.arc_begin.data(), raw.dst.data(), 0, number.data());
  Determinized sorted;
  sorted.arc_begin.push_back(0);
  sorted.taken_begin.push_back(0);
  sorted.final_taken_begin.push_back(0);
  for (const int32_t state : in_new_order(number)) {
    for (int64_t arc = raw.arc_begin[state]; arc < raw.arc_begin[state + 1]; ++arc) {
      sorted.dst.push_back(number[raw.dst[arc]]);
      sorted.word.push_back(raw.word[arc]);
      sorted.taken.insert(sorted.taken.end(), raw.taken.begin() + raw.taken_begin[arc],
                          raw.taken.begin() + raw.taken_begin[arc + 1]);
      sorted.taken_begin.push_back(static_cast<int64_t>(sorted.taken.size()));
    }
    sorted.arc_begin.push_back(static_cast<int64_t>(sorted.dst.size()));
    sorted.final_state.push_back(raw.final_state[state]);
    sorted.final_taken.insert(sorted.final_taken.end(), raw.final_taken.begin() + raw.final_taken_begin[state],
                              raw.final_taken.begin() + raw.final_taken_begin[state + 1]);
    sorted.final_taken_begin.push_back(static_cast<int64_t>(sorted.final_taken.size()));
  }
  return sorted;
}

}  // namespace ninja
