// What pruned determinization takes and gives: a lattice with scaled costs, bounds, and the lattice that was made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/determinize_pruned_strings.hpp"
#include "core/lattice.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// Kaldi's tools scale acoustic costs before they look at a lattice, in single precision.
struct ScaledLattice {
  ScaledLattice(const Arcs& arcs, const Alignments& labels, float acoustic_scale)
      : arcs(arcs), labels(labels), acoustic(arcs.num_arcs), final_acoustic(arcs.num_states) {
    const double scale = acoustic_scale;
    for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) acoustic[arc] = static_cast<float>(scale * arcs.acoustic[arc]);
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      if (is_final(state)) final_acoustic[state] = static_cast<float>(scale * arcs.final_acoustic[state]);
    }
  }

  bool is_final(int64_t state) const { return ninja::is_final(arcs, state); }
  PairCost cost(int64_t arc) const { return {arcs.graph[arc], acoustic[arc]}; }
  PairCost final_cost(int64_t state) const { return {arcs.final_graph[state], final_acoustic[state]}; }

  const Arcs& arcs;
  const Alignments& labels;
  std::vector<float> acoustic, final_acoustic;
};

struct DeterminizeBounds {
  float delta;         // subsets whose costs differ by no more are one
  int64_t max_mem;     // bytes, roughly; 0 or less is no bound, here and below
  int64_t max_arcs;    // final states count, too
  int64_t max_states;
  int64_t max_loop;    // states reached over epsilons from one subset
};

// What ended a search: nothing, a bound, or costs beyond single precision.
enum class Bound : int32_t { kNone, kMemory, kArcs, kStates, kLoop, kPrecision };

struct NewArc {
  int32_t src, dst, word;
  PairCost cost;
  int64_t ali;  // where its labels begin in the pool; they end where the next arc's begin
};

struct NewFinal {
  bool is_final;
  PairCost cost;
  int64_t ali;
};

// States and arcs in the order in which they were made.
struct SearchedLattice {
  Bound stopped_by = Bound::kNone;
  double effective_beam = 0.0;
  std::vector<NewArc> arcs;
  std::vector<NewFinal> finals;  // [num_states]
  std::vector<int32_t> ali, final_ali;

  int64_t bytes() const {
    return static_cast<int64_t>(sizeof(NewArc) * arcs.size() + sizeof(NewFinal) * finals.size() +
                                sizeof(int32_t) * (ali.size() + final_ali.size()));
  }
};

struct DeterminizedLattice : LatticeArrays {
  Bound stopped_by = Bound::kNone;
  double beam = 0.0;            // of the last try
  double effective_beam = 0.0;  // what the last try reached
  int32_t retries = 0;
  int32_t num_states = 0;       // 0: no path was found within the bounds
};

// Keep what lies on a path, in topological order, arcs in the order of their words, costs unscaled.
inline void write_sorted(const SearchedLattice& found, float acoustic_scale, DeterminizedLattice& to) {
  const auto num_found = static_cast<int64_t>(found.finals.size());
  if (num_found == 0) return;
  const double unscale = 1.0 / acoustic_scale;
  std::vector<int64_t> begin(num_found + 1, 0);
  for (const NewArc& arc : found.arcs) ++begin[arc.src + 1];
  for (int64_t state = 0; state < num_found; ++state) begin[state + 1] += begin[state];
  std::vector<int64_t> place(begin.begin(), begin.end() - 1);
  std::vector<int32_t> order(found.arcs.size()), dst(found.arcs.size());
  for (size_t arc = 0; arc < found.arcs.size(); ++arc) {
    order[place[found.arcs[arc].src]++] = static_cast<int32_t>(arc);
  }
  for (int64_t state = 0; state < num_found; ++state) {
    std::sort(order.begin() + begin[state], order.begin() + begin[state + 1],
              [&](int32_t a, int32_t b) { return found.arcs[a].word < found.arcs[b].word; });
  }
  for (size_t i = 0; i < order.size(); ++i) dst[i] = found.arcs[order[i]].dst;
  std::vector<int32_t> number(num_found);
  top_sort(num_found, begin.data(), dst.data(), 0, number.data());
  const std::vector<int32_t> old = in_new_order(number);
  std::vector<uint8_t> alive(num_found, 0);  // an end can be reached
  for (auto state = old.rbegin(); state != old.rend(); ++state) {
    alive[*state] = found.finals[*state].is_final;
    for (int64_t i = begin[*state]; i < begin[*state + 1]; ++i) alive[*state] |= alive[dst[i]];
  }
  if (!alive[0]) return;
  for (const int32_t state : old) {
    if (alive[state]) number[state] = to.num_states++;
  }
  const auto reserve = [](size_t count, auto&... arrays) { (arrays.reserve(count), ...); };
  reserve(found.arcs.size() + 1, to.dst, to.word, to.graph, to.acoustic, to.ali_begin);
  reserve(to.num_states + 1, to.arc_begin, to.final_graph, to.final_acoustic, to.final_ali_begin);
  reserve(found.ali.size(), to.ali);
  to.arc_begin.push_back(0);
  to.ali_begin.push_back(0);
  to.final_ali_begin.push_back(0);
  const auto copy = [](const std::vector<int32_t>& from, int64_t first, int64_t last, std::vector<int32_t>& pool,
                       std::vector<int64_t>& ends) {
    pool.insert(pool.end(), from.begin() + first, from.begin() + last);
    ends.push_back(static_cast<int64_t>(pool.size()));
  };
  const auto finite = [](float graph, float acoustic) { return std::isfinite(graph) && std::isfinite(acoustic); };
  for (const int32_t state : old) {
    if (!alive[state]) continue;
    for (int64_t i = begin[state]; i < begin[state + 1]; ++i) {
      const int32_t id = order[i];
      const NewArc& arc = found.arcs[id];
      if (!alive[arc.dst]) continue;
      to.dst.push_back(number[arc.dst]);
      to.word.push_back(arc.word);
      to.graph.push_back(arc.cost.graph);
      to.acoustic.push_back(static_cast<float>(unscale * arc.cost.acoustic));
      if (!finite(arc.cost.graph, to.acoustic.back())) to.stopped_by = Bound::kPrecision;
      const size_t next = static_cast<size_t>(id) + 1;
      const auto pool_end = static_cast<int64_t>(found.ali.size());
      copy(found.ali, arc.ali, next < found.arcs.size() ? found.arcs[next].ali : pool_end, to.ali, to.ali_begin);
    }
    to.arc_begin.push_back(static_cast<int64_t>(to.dst.size()));
    const NewFinal& end = found.finals[state];
    to.final_graph.push_back(end.is_final ? end.cost.graph : kInfinity);
    to.final_acoustic.push_back(end.is_final ? static_cast<float>(unscale * end.cost.acoustic) : kInfinity);
    const size_t next = static_cast<size_t>(state) + 1;
    const auto pool_end = static_cast<int64_t>(found.final_ali.size());
    copy(found.final_ali, end.ali, next < found.finals.size() ? found.finals[next].ali : pool_end, to.final_ali,
         to.final_ali_begin);
    if (end.is_final && !finite(end.cost.graph, to.final_acoustic.back())) to.stopped_by = Bound::kPrecision;
  }
}

}  // namespace ninja
