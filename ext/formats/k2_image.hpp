// Converts the tensor of arcs of a k2 Fsa to the arrays of a lattice.
// A row of the tensor is {i32 source, i32 destination, i32 label, f32 score}. Sources do not decrease, the last state
// is the only final one, and only the arcs into it have the label -1 (k2/csrc/fsa.h; k2 rejects other tensors).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/block.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// Borrowed pointers, valid for one call.
struct K2Fsa {
  int64_t num_arcs = 0;
  int64_t num_states = 0;
  const int32_t* arcs = nullptr;  // [4 * num_arcs]
  const int32_t* word = nullptr;  // [num_arcs]; null if labels are words
  const float* lm = nullptr;      // [num_arcs], the part of the score that becomes the graph cost; may be null
  const float* am = nullptr;      // [num_arcs], acoustic part, used if lm + am is the score; null: use score - lm
  bool as_graph = false;          // without `lm`, the score becomes the graph cost instead of the acoustic cost
};

// The error of an FSA, if any.
struct K2Fault {
  std::string error;
  int64_t arc = -1;        // the invalid arc, or -1
  bool malformed = false;  // the FSA is also invalid for k2; otherwise it is valid, but not a lattice
};

// The order and the size of the lattice, or a fault; if there is a fault, the other fields are undefined.
struct K2Plan {
  K2Fault fault;
  bool fold = true;             // arcs into the final state become final costs, and the state is removed
  bool sorted = true;           // states keep their numbers; `state` and `number` are empty
  std::vector<int64_t> row;     // [k2 states + 1], first arc of each k2 state
  std::vector<int32_t> state;   // [num_states], the k2 state of each state
  std::vector<int32_t> number;  // [k2 states], the state of each k2 state, or -1
  int64_t num_states = 0;
  int64_t num_arcs = 0;
};

namespace k2_image {

inline const int32_t* row_of(const K2Fsa& fsa, int64_t arc) { return fsa.arcs + 4 * arc; }

inline float score_of(const K2Fsa& fsa, int64_t arc) {
  float score;
  std::memcpy(&score, row_of(fsa, arc) + 3, sizeof(score));
  return score;
}

// k2 also sets the word labels of arcs into the final state to -1; other words are not negative.
inline int32_t word_of(const K2Fsa& fsa, int64_t arc) {
  const int32_t label = row_of(fsa, arc)[2];
  const int32_t word = fsa.word == nullptr ? label : fsa.word[arc];
  return word == -1 && label == -1 ? 0 : word;
}

struct Costs {
  float graph, acoustic;
};

enum class Split { kNone, kLm, kBoth };  // attributes that split a score

template <Split split>
inline Costs costs_of(const K2Fsa& fsa, int64_t arc) {
  const float score = score_of(fsa, arc);
  if (split == Split::kNone) return fsa.as_graph ? Costs{0 - score, 0} : Costs{0, 0 - score};
  const float lm = fsa.lm[arc];
  if (split == Split::kBoth && lm + fsa.am[arc] == score) return {0 - lm, 0 - fsa.am[arc]};
  return {0 - lm, lm - score};
}

inline bool wrong(const K2Fsa& fsa, const int32_t* row, int64_t before) {
  const int64_t last = fsa.num_states - 1;
  return row[0] < before || row[0] >= last || row[1] < 0 || row[1] > last || (row[2] == -1) != (row[1] == last) ||
         row[2] < -1;
}

inline K2Fault malformed(const K2Fsa& fsa, int64_t arc, int64_t before) {
  const int32_t* row = row_of(fsa, arc);
  const std::string states = std::to_string(fsa.num_states);
  std::string message;
  if (row[0] < before || row[0] >= fsa.num_states - 1) {
    message = "leaves state " + std::to_string(row[0]) + " after state " + std::to_string(before) + ", of " + states +
              " states of which the last is final";
  } else if (row[1] < 0 || row[1] >= fsa.num_states) {
    message = "enters state " + std::to_string(row[1]) + " of " + states;
  } else {
    message = "has the label " + std::to_string(row[2]) + " and enters state " + std::to_string(row[1]) + " of " +
              states + "; arcs into the last state, and only these, have the label -1";
  }
  return {message, arc, true};
}

// Check the shape, fill `row`, and determine whether to fold and whether the states are in topological order.
inline void inspect(const K2Fsa& fsa, K2Plan& plan) {
  const int64_t last = fsa.num_states - 1;
  plan.row.assign(fsa.num_states + 1, 0);
  int64_t before = 0, ending = -1;
  for (int64_t arc = 0; arc < fsa.num_arcs; ++arc) {
    const int32_t* row = row_of(fsa, arc);
    if (wrong(fsa, row, before)) {
      plan.fault = malformed(fsa, arc, before);
      return;
    }
    for (; before < row[0]; ++before) plan.row[before + 1] = arc;
    plan.sorted = plan.sorted && row[1] > row[0];
    if (row[1] != last) continue;
    plan.fold = plan.fold && word_of(fsa, arc) == 0 && ending != row[0];
    ending = row[0];
    --plan.num_arcs;  // minus the number of final arcs; the number of all arcs is added below
  }
  for (; before < fsa.num_states; ++before) plan.row[before + 1] = fsa.num_arcs;
  plan.num_arcs = plan.fold ? plan.num_arcs + fsa.num_arcs : fsa.num_arcs;
  plan.num_states = fsa.num_states - plan.fold;
  if (ending < 0) plan.fault.error = "no arc enters the final state, so there is no path";
}

// Renumber the states, omitting those that cannot be reached.
inline void sort(const K2Fsa& fsa, K2Plan& plan) {
  const int64_t last = fsa.num_states - 1;
  std::vector<int32_t> dst(fsa.num_arcs);
  for (int64_t arc = 0; arc < fsa.num_arcs; ++arc) dst[arc] = row_of(fsa, arc)[1];
  plan.number.resize(fsa.num_states);
  const std::vector<int32_t> cycle = top_sort(fsa.num_states, plan.row.data(), dst.data(), 0, plan.number.data());
  if (!cycle.empty()) {
    plan.fault.error = "state " + std::to_string(cycle[0]) + " lies on a cycle; a lattice must be acyclic";
    return;
  }
  if (plan.number[last] < 0) {
    plan.fault.error = "the final state cannot be reached, so there is no path";
    return;
  }
  if (plan.fold) {  // remove the final state
    const int32_t removed = plan.number[last];
    for (int32_t& number : plan.number) number -= number > removed;
    plan.number[last] = -1;
  }
  plan.num_states = plan.num_arcs = 0;
  for (int32_t number : plan.number) plan.num_states += number >= 0;
  plan.state.resize(plan.num_states);
  for (int64_t state = 0; state < fsa.num_states; ++state) {
    if (plan.number[state] < 0) continue;
    plan.state[plan.number[state]] = static_cast<int32_t>(state);
    for (int64_t arc = plan.row[state]; arc < plan.row[state + 1]; ++arc) {
      plan.num_arcs += !plan.fold || row_of(fsa, arc)[1] != last;
    }
  }
}

// Returns whether all costs are finite and all words valid.
template <Split split>
inline bool fill(const K2Fsa& fsa, const K2Plan& plan, const Block& to) {
  const int64_t last = fsa.num_states - 1;
  int64_t place = 0;
  bool sound = true;
  for (int64_t state = 0; state < plan.num_states; ++state) {
    const int64_t was = plan.sorted ? state : plan.state[state];
    const float end = !plan.fold && was == last ? 0 : INFINITY;
    to.arc_begin[state] = place;
    to.final_graph[state] = to.final_acoustic[state] = end;
    const int64_t arcs_end = plan.row[was + 1];
    for (int64_t arc = plan.row[was]; arc < arcs_end; ++arc) {
      const int32_t dst = row_of(fsa, arc)[1];
      const Costs costs = costs_of<split>(fsa, arc);
      sound &= std::isfinite(costs.graph) & std::isfinite(costs.acoustic);
      if (plan.fold && dst == last) {
        to.final_graph[state] = costs.graph;
        to.final_acoustic[state] = costs.acoustic;
        continue;
      }
      const int32_t word = word_of(fsa, arc);
      sound &= word >= 0;
      to.dst[place] = plan.sorted ? dst : plan.number[dst];
      to.word[place] = word;
      to.graph[place] = costs.graph;
      to.acoustic[place] = costs.acoustic;
      ++place;
    }
  }
  to.arc_begin[plan.num_states] = place;
  return sound;
}

// Returns the first arc with an invalid word or cost.
template <Split split>
inline K2Fault unsound(const K2Fsa& fsa) {
  for (int64_t arc = 0; arc < fsa.num_arcs; ++arc) {
    const int32_t word = word_of(fsa, arc);
    if (word < 0) return {"has the word label " + std::to_string(word), arc, false};
    const Costs costs = costs_of<split>(fsa, arc);
    if (std::isfinite(costs.graph) && std::isfinite(costs.acoustic)) continue;
    const std::string lm = split == Split::kNone ? "" : " and the LM score " + std::to_string(fsa.lm[arc]);
    return {"has the score " + std::to_string(score_of(fsa, arc)) + lm, arc, false};
  }
  return {};
}

template <Split split>
inline K2Fault filled(const K2Fsa& fsa, const K2Plan& plan, const Block& to) {
  return fill<split>(fsa, plan, to) ? K2Fault{} : unsound<split>(fsa);
}

}  // namespace k2_image

// Determine the number of states and arcs of the lattice, and their order.
inline K2Plan plan_k2(const K2Fsa& fsa) {
  K2Plan plan;
  if (fsa.num_states < 1) {
    plan.fault.error = "the FSA is empty: it has no states";
    return plan;
  }
  k2_image::inspect(fsa, plan);
  if (plan.fault.error.empty() && !plan.sorted) k2_image::sort(fsa, plan);
  return plan;
}

// Fill the arrays `to`, which are undefined if there is a fault.
inline K2Fault fill_k2(const K2Fsa& fsa, const K2Plan& plan, const Block& to) {
  using k2_image::Split;
  if (fsa.lm == nullptr) return k2_image::filled<Split::kNone>(fsa, plan, to);
  if (fsa.am == nullptr) return k2_image::filled<Split::kLm>(fsa, plan, to);
  return k2_image::filled<Split::kBoth>(fsa, plan, to);
}

}  // namespace ninja
