// The graph of the general aligners, in which input arcs are epsilons and units are arcs, and its epsilon removal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "align/align_units.hpp"
#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "core/top_sort.hpp"
#include "graph/growing_lattice.hpp"

namespace ninja {

// Fault of a lattice; the first one is reported.
enum class AlignFault {
  kNone,
  kPhoneChanged,     // the phone changes before its final transition
  kUnexpectedPhone,  // a phone that is not allowed within a word
  kInvalidWord,      // an invalid word at the end of the lattice
  kWordsWithoutLabels,
  kBrokenSilence,  // an incomplete silence at the end of the lattice
  kPartialWord,    // an incomplete word at the end of the lattice
  kBrokenPhone,    // an incomplete phone at the end of the lattice
  kTooManyStates,
  kForcedOut,  // words or phones at the end of the lattice that match no entry of the lexicon
  kNothingEnds
};

// A graph whose states are in any order; epsilons (word 0) have costs, but no labels.
struct AlignGraph {
  std::vector<int32_t> src, dst, word, ali, final_state;
  std::vector<float> graph, acoustic;
  std::vector<int64_t> ali_begin{0};
  int32_t num_states = 0;
  AlignFault fault = AlignFault::kNone;
  bool too_large = false;  // a bound was exceeded, and the graph is incomplete

  void add_arc(int32_t from, int32_t to, int32_t of_word, float graph_cost, float acoustic_cost) {
    src.push_back(from);
    dst.push_back(to);
    word.push_back(of_word);
    graph.push_back(graph_cost);
    acoustic.push_back(acoustic_cost);
    ali_begin.push_back(static_cast<int64_t>(ali.size()));
  }
  // Memory in units of a label (4 bytes).
  int64_t size() const { return static_cast<int64_t>(ali.size() + 7 * word.size()); }

  void note(AlignFault first) {
    if (fault == AlignFault::kNone) fault = first;
  }
};

// Assigns a state to each place of a search and pushes new places onto a stack. `Place` has `spell(name)`, which
// appends its content to a string; places with the same content are the same place.
template <class Place>
class PlaceStack {
 public:
  // Return the state of a place; set `too_large` of the graph if it exceeds the limits on states or pending labels.
  int32_t state_of(Place place, int64_t max_states, int64_t max_labels, AlignGraph& graph) {
    name_.clear();
    place.spell(name_);
    const auto [entry, is_new] = state_.try_emplace(name_, graph.num_states);
    const int32_t state = entry->second;
    if (is_new) {
      ++graph.num_states;
      num_pending_ += static_cast<int64_t>(name_.size() / sizeof(int32_t));
      if (graph.num_states > max_states || num_pending_ > max_labels) graph.too_large = true;
      stack_.emplace_back(std::move(place), state);
    }
    return state;
  }
  bool empty() const { return stack_.empty(); }
  std::pair<Place, int32_t> pop() {
    auto top = std::move(stack_.back());
    stack_.pop_back();
    return top;
  }

 private:
  int64_t num_pending_ = 0;
  std::string name_;
  std::unordered_map<std::string, int32_t, KeyedHash> state_;
  std::vector<std::pair<Place, int32_t>> stack_;
};

inline void spell_values(const std::vector<int32_t>& values, std::string& name) {
  const size_t size = values.size();
  name.append(reinterpret_cast<const char*>(&size), sizeof(size));
  name.append(reinterpret_cast<const char*>(values.data()), size * sizeof(int32_t));
}

// Removes the epsilons of a graph as OpenFst's RmEpsilon, Connect and TopSort do: arcs and states have the same order,
// and costs are added in the same order.
class EpsilonRemover {
 public:
  explicit EpsilonRemover(const AlignGraph& graph) : graph_(graph), num_states_(graph.num_states) {}

  // Sets `too_large` if the result needs more than `max_labels` labels; an arc counts as six.
  LatticeArrays remove(int64_t max_labels, bool& too_large) {
    arrange();
    for (auto state = old_.rbegin(); state != old_.rend(); ++state) {
      if (is_wanted_[*state] && leads_[*state]) expand(*state);
      too_large = num_labels_ + 6 * static_cast<int64_t>(arcs_.size()) > max_labels;
      if (too_large) return {};
    }
    return sorted();
  }

  // Keep the epsilons, but remove dead ends.
  LatticeArrays keep() {
    arrange();
    for (int64_t state = 0; state < num_states_; ++state) {
      const auto begin = static_cast<int64_t>(arcs_.size());
      for (int64_t at = begin_[state]; at < begin_[state + 1]; ++at) {
        const int64_t arc = arc_[at];
        if (leads_[graph_.dst[arc]]) arcs_.push_back({arc, {graph_.graph[arc], graph_.acoustic[arc]}});
      }
      range_[state] = {begin, static_cast<int64_t>(arcs_.size())};
    }
    return sorted();
  }

 private:
  struct Cost {
    float graph, acoustic;
    Cost operator+(const Cost& other) const { return {graph + other.graph, acoustic + other.acoustic}; }
    bool operator<(const Cost& other) const {
      const float total = graph + acoustic, others = other.graph + other.acoustic;
      return total != others ? total < others : graph < other.graph;
    }
  };
  struct Arc {
    int64_t arc;  // arc of the graph with its word, labels and destination
    Cost cost;
  };
  struct Range {
    int64_t begin, end;
  };

  // Sort arcs by state and states topologically, and find dead ends.
  void arrange() {
    const auto num_arcs = static_cast<int64_t>(graph_.dst.size());
    begin_.assign(num_states_ + 1, 0);
    for (const int32_t state : graph_.src) ++begin_[state + 1];
    for (int64_t state = 0; state < num_states_; ++state) begin_[state + 1] += begin_[state];
    std::vector<int64_t> next(begin_.begin(), begin_.end() - 1);
    std::vector<int32_t> dst(num_arcs);
    arc_.resize(num_arcs);
    is_wanted_.assign(num_states_, 0);
    is_wanted_[0] = 1;
    for (int64_t arc = 0; arc < num_arcs; ++arc) {
      dst[next[graph_.src[arc]]] = graph_.dst[arc];
      arc_[next[graph_.src[arc]]++] = arc;
      if (graph_.word[arc] != 0) is_wanted_[graph_.dst[arc]] = 1;
    }
    number_.resize(num_states_);
    top_sort(num_states_, begin_.data(), dst.data(), 0, number_.data());
    old_ = in_new_order(number_);
    end_.assign(num_states_, {kInfinity, kInfinity});
    leads_.assign(num_states_, 0);
    for (const int32_t state : graph_.final_state) {
      end_[state] = {0.0f, 0.0f};
      leads_[state] = 1;
    }
    for (auto state = old_.rbegin(); state != old_.rend(); ++state) {
      for (int64_t at = begin_[*state]; at < begin_[*state + 1]; ++at) leads_[*state] |= leads_[dst[at]];
    }
    cost_.resize(num_states_);
    reached_.assign(num_states_, -1);
    visited_.assign(num_states_, -1);
    range_.assign(num_states_, {-1, -1});
  }

  bool is_epsilon(int64_t arc) const { return graph_.word[arc] == 0 && leads_[graph_.dst[arc]]; }

  // Compute the costs of all states reached by epsilons from a state that is not expanded yet.
  void reach(int32_t from) {
    closure_.assign(1, from);
    reached_[from] = from;
    for (size_t next = 0; next < closure_.size(); ++next) {
      const int32_t state = closure_[next];
      cost_[state] = {kInfinity, kInfinity};
      if (range_[state].begin >= 0) continue;
      for (int64_t at = begin_[state]; at < begin_[state + 1]; ++at) {
        const int32_t dst = graph_.dst[arc_[at]];
        if (!is_epsilon(arc_[at]) || reached_[dst] == from) continue;
        reached_[dst] = from;
        closure_.push_back(dst);
      }
    }
    std::sort(closure_.begin(), closure_.end(), [this](int32_t a, int32_t b) { return number_[a] < number_[b]; });
    cost_[from] = {0.0f, 0.0f};
    for (const int32_t state : closure_) {
      if (range_[state].begin >= 0) continue;
      for (int64_t at = begin_[state]; at < begin_[state + 1]; ++at) {
        if (!is_epsilon(arc_[at])) continue;
        Cost& there = cost_[graph_.dst[arc_[at]]];
        const Cost through = cost_[state] + Cost{graph_.graph[arc_[at]], graph_.acoustic[arc_[at]]};
        if (through < there) there = through;
      }
    }
  }

  void expand(int32_t from) {
    reach(from);
    const auto begin = static_cast<int64_t>(arcs_.size());
    Cost end{kInfinity, kInfinity};
    stack_.assign(1, from);
    while (!stack_.empty()) {
      const int32_t state = stack_.back();
      stack_.pop_back();
      if (visited_[state] == from) continue;
      visited_[state] = from;
      const Cost here = cost_[state], stop = here + end_[state];
      if (stop < end) end = stop;
      for (int64_t at = range_[state].begin; at < range_[state].end; ++at) {
        add(begin, {arcs_[at].arc, here + arcs_[at].cost});
      }
      if (range_[state].begin >= 0) continue;
      for (int64_t at = begin_[state]; at < begin_[state + 1]; ++at) {
        const int64_t arc = arc_[at];
        if (is_epsilon(arc)) {
          stack_.push_back(graph_.dst[arc]);
        } else if (leads_[graph_.dst[arc]]) {
          add(begin, {arc, here + Cost{graph_.graph[arc], graph_.acoustic[arc]}});
        }
      }
    }
    std::reverse(arcs_.begin() + begin, arcs_.end());
    range_[from] = {begin, static_cast<int64_t>(arcs_.size())};
    end_[from] = end;
  }

  // Add an arc; of several arcs with the same word and destination, keep the best.
  void add(int64_t begin, Arc arc) {
    const uint64_t key = static_cast<uint64_t>(graph_.word[arc.arc]) << 32 | static_cast<uint32_t>(graph_.dst[arc.arc]);
    const auto [last, is_new] = place_.try_emplace(key, static_cast<int64_t>(arcs_.size()));
    if (is_new || last->second < begin) {
      last->second = static_cast<int64_t>(arcs_.size());
      arcs_.push_back(arc);
      num_labels_ += length(arc.arc);
      return;
    }
    Arc& other = arcs_[last->second];
    if (!is_better(arc, other)) return;
    num_labels_ += length(arc.arc) - length(other.arc);
    other = arc;
  }

  int64_t length(int64_t arc) const { return graph_.ali_begin[arc + 1] - graph_.ali_begin[arc]; }

  // Whether `a` has a lower cost or, at equal costs, fewer labels or, at equal lengths, greater labels.
  bool is_better(const Arc& a, const Arc& b) const {
    if (a.cost < b.cost || b.cost < a.cost) return a.cost < b.cost;
    if (length(a.arc) != length(b.arc)) return length(a.arc) < length(b.arc);
    const int32_t* one = graph_.ali.data() + graph_.ali_begin[a.arc];
    const int32_t* other = graph_.ali.data() + graph_.ali_begin[b.arc];
    return std::lexicographical_compare(other, other + length(b.arc), one, one + length(a.arc));
  }

  LatticeArrays sorted() {
    std::vector<int64_t> begin{0};
    std::vector<int32_t> dst;
    for (const Range& range : range_) {
      for (int64_t at = range.begin; at < range.end; ++at) dst.push_back(graph_.dst[arcs_[at].arc]);
      begin.push_back(static_cast<int64_t>(dst.size()));
    }
    top_sort(num_states_, begin.data(), dst.data(), 0, number_.data());
    GrowingLattice to;
    for (const int32_t state : in_new_order(number_)) {
      const Range& range = range_[state];
      for (int64_t at = range.begin; at < range.end; ++at) {
        const int64_t arc = arcs_[at].arc;
        append_labels(graph_.ali.data(), graph_.ali_begin.data(), arc, to.ali);
        to.add_arc(number_[graph_.dst[arc]], graph_.word[arc], arcs_[at].cost.graph, arcs_[at].cost.acoustic);
      }
      to.close_state(true, end_[state].graph, end_[state].acoustic);
    }
    return to;
  }

  const AlignGraph& graph_;
  const int32_t num_states_;
  int64_t num_labels_ = 0;
  std::vector<int64_t> begin_, arc_;        // arcs of each state
  std::vector<int32_t> number_, old_;       // topological order
  std::vector<uint8_t> is_wanted_, leads_;  // an arc with a word enters the state; the state leads to a final state
  std::vector<Cost> cost_, end_;            // of the path from the state being expanded; final cost
  std::vector<int32_t> reached_, visited_;  // last expanded state that reached the state
  std::vector<int32_t> closure_, stack_;
  std::vector<Range> range_;  // arcs of expanded states
  std::vector<Arc> arcs_;
  std::unordered_map<uint64_t, int64_t, KeyedHash> place_;  // index of the last arc with a word and destination
};

}  // namespace ninja
