// Input and output of pruned determinization: a lattice with scaled costs, bounds, and the determinized lattice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "graph/determinize_pruned_strings.hpp"
#include "core/lattice.hpp"
#include "core/top_sort.hpp"
#include "graph/growing_lattice.hpp"

namespace ninja {

// Acoustic costs are scaled in single precision before the search, as in Kaldi's tools.
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
  float delta;       // subsets whose costs differ by no more are equal
  int64_t max_mem;   // approximate number of bytes; no bound if 0 or less, as for the bounds below
  int64_t max_arcs;  // includes final states
  int64_t max_states;
  int64_t max_loop;  // maximum number of states that epsilons reach from one subset
};

// Reason to stop a search: none, a bound, or costs outside the range of single precision.
enum class Bound : int32_t { kNone, kMemory, kArcs, kStates, kLoop, kPrecision };

struct NewArc {
  int32_t src, dst, word;
  PairCost cost;
  int64_t ali;  // offset of its labels in the pool; they end where the labels of the next arc begin
};

struct NewFinal {
  bool is_final;
  PairCost cost;
  int64_t ali;
};

// States and arcs in the order of their creation.
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

struct DeterminizedLattice : GrowingLattice {
  Bound stopped_by = Bound::kNone;
  double beam = 0.0;            // beam of the last try
  double effective_beam = 0.0;  // beam that the last try reached
  int32_t retries = 0;
  int32_t num_states = 0;  // 0 if no path was found within the bounds
};

// Write the connected lattice in topological order, arcs in the order of their words, with unscaled costs.
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
  std::vector<uint8_t> alive(num_found, 0);  // a final state can be reached
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
  // Append the labels of an arc or final state, which end where the labels of the next arc or state begin.
  const auto append = [](const auto& items, size_t id, const std::vector<int32_t>& from, std::vector<int32_t>& pool) {
    const auto last = id + 1 < items.size() ? items[id + 1].ali : static_cast<int64_t>(from.size());
    pool.insert(pool.end(), from.begin() + items[id].ali, from.begin() + last);
  };
  const auto unscaled = [&](const PairCost& cost) {
    const auto acoustic = static_cast<float>(unscale * cost.acoustic);
    if (!std::isfinite(cost.graph) || !std::isfinite(acoustic)) to.stopped_by = Bound::kPrecision;
    return acoustic;
  };
  for (const int32_t state : old) {
    if (!alive[state]) continue;
    for (int64_t i = begin[state]; i < begin[state + 1]; ++i) {
      const int32_t id = order[i];
      const NewArc& arc = found.arcs[id];
      if (!alive[arc.dst]) continue;
      append(found.arcs, static_cast<size_t>(id), found.ali, to.ali);
      to.add_arc(number[arc.dst], arc.word, arc.cost.graph, unscaled(arc.cost));
    }
    const NewFinal& end = found.finals[state];
    append(found.finals, static_cast<size_t>(state), found.final_ali, to.final_ali);
    to.close_state(end.is_final, end.cost.graph, end.is_final ? unscaled(end.cost) : kInfinity);
  }
}

}  // namespace ninja
