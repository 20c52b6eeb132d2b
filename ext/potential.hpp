// Best completions of a lattice in both costs, and what follows from them: pushing, classes of equal arcs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lattice.hpp"

namespace ninja {

// A pair of costs, ordered as Kaldi orders them: by the total, ties by graph minus acoustic cost.
struct Costs {
  double total = kNever;
  double graph = kNever;
  double acoustic = kNever;
};

inline bool better(const Costs& a, const Costs& b) {
  return a.total < b.total || (a.total == b.total && a.graph - a.acoustic < b.graph - b.acoustic);
}

inline Costs costs(double graph, double acoustic, double acoustic_scale) {
  return {acoustic_scale * acoustic + graph, graph, acoustic};
}

inline Costs operator+(const Costs& a, const Costs& b) {
  return {a.total + b.total, a.graph + b.graph, a.acoustic + b.acoustic};
}

inline Costs arc_costs(const Arcs& arcs, int64_t arc, double acoustic_scale) {
  return costs(arcs.graph[arc], arcs.acoustic[arc], acoustic_scale);
}

inline Costs final_costs(const Arcs& arcs, int64_t state, double acoustic_scale) {
  return is_final(arcs, state) ? costs(arcs.final_graph[state], arcs.final_acoustic[state], acoustic_scale) : Costs();
}

// Cost of the best way from each state to the end; infinite at dead ends.
inline std::vector<Costs> best_completion(const Arcs& arcs, double acoustic_scale) {
  std::vector<Costs> rest(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    rest[state] = final_costs(arcs, state, acoustic_scale);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest[arcs.dst[arc]];
      if (after.total == kNever) continue;
      const Costs through = arc_costs(arcs, arc, acoustic_scale) + after;
      if (better(through, rest[state])) rest[state] = through;
    }
  }
  return rest;
}

// Smallest and largest cost of a path from state 0 to a final state, over an acyclic machine in topological order.
inline void path_extremes(int64_t num_states, const int64_t* arc_begin, const int32_t* dst, const double* cost,
                          const double* final_cost, double* least, double* most) {
  std::vector<double> low(num_states, kNever), high(num_states, -kNever);
  for (int64_t state = num_states - 1; state >= 0; --state) {
    if (final_cost[state] < kNever) low[state] = high[state] = final_cost[state];
    for (int64_t arc = arc_begin[state]; arc < arc_begin[state + 1]; ++arc) {
      if (low[dst[arc]] == kNever) continue;
      low[state] = std::min(low[state], cost[arc] + low[dst[arc]]);
      high[state] = std::max(high[state], cost[arc] + high[dst[arc]]);
    }
  }
  *least = num_states > 0 ? low[0] : kNever;
  *most = num_states > 0 ? high[0] : -kNever;
}

// Alignments pushed towards the start: each state gives the labels that all its completions begin with to the arcs
// entering it. State 0 keeps its own, for nothing enters it.
struct PushedAlignments {
  std::vector<int64_t> ali_begin, final_ali_begin;
  std::vector<int32_t> ali, final_ali;
};

constexpr size_t kMostPushed = 1024;  // labels; a long lattice that nowhere branches would take their square in memory

inline PushedAlignments push_alignments(const Arcs& arcs, const Alignments& labels) {
  using String = std::vector<int32_t>;
  std::vector<String> common(arcs.num_states);  // labels that every completion of a state begins with
  std::vector<char> leads(arcs.num_states, 0);
  PushedAlignments pushed;
  std::vector<String> on_arc(arcs.num_arcs), on_final(arcs.num_states);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    String& prefix = common[state];
    const auto meet = [&](const String& string) {
      if (!leads[state]) {
        prefix = string;
        leads[state] = 1;
      } else {
        const auto end = prefix.begin() + std::min(prefix.size(), string.size());
        prefix.erase(std::mismatch(prefix.begin(), end, string.begin()).first, prefix.end());
      }
    };
    if (is_final(arcs, state)) {
      on_final[state].assign(labels.final_ali + labels.final_ali_begin[state],
                             labels.final_ali + labels.final_ali_begin[state + 1]);
      meet(on_final[state]);
    }
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      String& string = on_arc[arc];
      string.assign(labels.ali + labels.ali_begin[arc], labels.ali + labels.ali_begin[arc + 1]);
      const String& after = common[arcs.dst[arc]];
      string.insert(string.end(), after.begin(), after.end());
      if (leads[arcs.dst[arc]]) meet(string);
    }
    if (prefix.size() > kMostPushed) prefix.resize(kMostPushed);  // still the same for states of equal completions
    if (state == 0) prefix.clear();
    const auto cut = static_cast<std::ptrdiff_t>(prefix.size());
    if (is_final(arcs, state)) on_final[state].erase(on_final[state].begin(), on_final[state].begin() + cut);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      if (leads[arcs.dst[arc]]) on_arc[arc].erase(on_arc[arc].begin(), on_arc[arc].begin() + cut);
    }
  }
  pushed.ali_begin.push_back(0);
  for (const String& string : on_arc) {
    pushed.ali.insert(pushed.ali.end(), string.begin(), string.end());
    pushed.ali_begin.push_back(static_cast<int64_t>(pushed.ali.size()));
  }
  pushed.final_ali_begin.push_back(0);
  for (const String& string : on_final) {
    pushed.final_ali.insert(pushed.final_ali.end(), string.begin(), string.end());
    pushed.final_ali_begin.push_back(static_cast<int64_t>(pushed.final_ali.size()));
  }
  return pushed;
}

// Name each arc, and each final state as arc num_arcs + state, by the first one that carries the same: word, alignment,
// and both costs up to `delta` after pushing towards the start. The lattice must be connected.
inline void equal_arcs(const Arcs& arcs, const PushedAlignments& labels, const std::vector<Costs>& rest, double delta,
                       int32_t* like, int32_t* final_like) {
  std::unordered_map<std::string, int32_t> first;
  std::string name;
  const auto append = [&](const void* bytes, size_t size) { name.append(static_cast<const char*>(bytes), size); };
  const auto look_up = [&](int64_t word, double graph, double acoustic, const std::vector<int32_t>& pool,
                           const std::vector<int64_t>& begin, int64_t at, int64_t id) {
    const double rounded[2] = {std::round(graph / delta) + 0.0, std::round(acoustic / delta) + 0.0};  // no -0
    name.clear();
    append(&word, sizeof(word));
    append(rounded, sizeof(rounded));
    append(pool.data() + begin[at], sizeof(int32_t) * static_cast<size_t>(begin[at + 1] - begin[at]));
    return first.emplace(name, static_cast<int32_t>(id)).first->second;
  };
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const Costs& here = rest[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest[arcs.dst[arc]];
      like[arc] = look_up(arcs.word[arc], arcs.graph[arc] + after.graph - here.graph,
                          arcs.acoustic[arc] + after.acoustic - here.acoustic, labels.ali, labels.ali_begin, arc, arc);
    }
    final_like[state] = -1;
    if (is_final(arcs, state)) {
      final_like[state] = look_up(-1, arcs.final_graph[state] - here.graph, arcs.final_acoustic[state] - here.acoustic,
                                  labels.final_ali, labels.final_ali_begin, state, arcs.num_arcs + state);
    }
  }
}

}  // namespace ninja
