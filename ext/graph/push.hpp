// Pushing towards the start: the common prefix of the labels of all completions of a state, and the cost of its best
// completion, move to the arcs that enter it. State 0 keeps them, since no arc enters it.
// Source: Kaldi, lat/push-lattice.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

// The labels of one completion of a state, in pieces: the final labels of a final state, otherwise the labels along the
// first arc of each state.
class Completion {
 public:
  Completion(const Arcs& arcs, const Alignments& labels) : arcs_(arcs), labels_(labels) {}

  void begin_at_arc(int64_t arc) {
    take(labels_.ali, labels_.ali_begin, arc);
    state = arcs_.dst[arc];
  }
  void begin_at_final(int64_t from) {
    take(labels_.final_ali, labels_.final_ali_begin, from);
    state = -1;
  }
  void begin_at_state(int64_t from) {
    at = end = nullptr;
    state = from;
  }

  // Advance to the next piece, which may be empty; there must be one.
  void next() {
    if (is_final(arcs_, state)) {
      begin_at_final(state);
    } else {
      begin_at_arc(arcs_.arc_begin[state]);
    }
  }

  void skip(int64_t count) {
    while (end - at < count) {
      count -= end - at;
      next();
    }
    at += count;
  }
  int32_t* copy(int64_t count, int32_t* to) {
    while (count > 0) {
      if (at == end) {
        next();
        continue;
      }
      const int64_t here = std::min<int64_t>(count, end - at);
      std::memcpy(to, at, sizeof(int32_t) * static_cast<size_t>(here));
      to += here;
      at += here;
      count -= here;
    }
    return to;
  }

  const int32_t* at = nullptr;  // remaining labels of the piece
  const int32_t* end = nullptr;
  int64_t state = -1;  // state where the next piece begins, -1 if there is none

 private:
  void take(const int32_t* pool, const int64_t* begin, int64_t of) {
    at = pool + begin[of];
    end = pool + begin[of + 1];
  }

  const Arcs& arcs_;
  const Alignments& labels_;
};

// Length of the common prefix of two completions, at most `most`; both must have at least `most` labels.
inline int64_t common_labels(Completion a, Completion b, int64_t most) {
  int64_t count = 0;
  while (count < most) {
    if (a.at == a.end && b.at == b.end && a.state == b.state) return most;  // the rest of both is the same
    if (a.at == a.end) {
      a.next();
    } else if (b.at == b.end) {
      b.next();
    } else {
      const int64_t here =
          std::min({static_cast<int64_t>(a.end - a.at), static_cast<int64_t>(b.end - b.at), most - count});
      const int64_t same = std::mismatch(a.at, a.at + here, b.at).first - a.at;
      count += same;
      if (same < here) return count;
      a.at += here;
      b.at += here;
    }
  }
  return count;
}

// Length of the common prefix of all completions of a state if it can be determined from the labels of its arcs; -1 if
// the labels of one arc are a prefix of all others.
inline int64_t common_on_arcs(const Arcs& arcs, const Alignments& labels, int64_t state) {
  const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
  const int32_t* first = labels.ali + labels.ali_begin[begin];
  int64_t common = labels.ali_begin[begin + 1] - labels.ali_begin[begin];
  bool parted = false;
  for (int64_t arc = begin + 1; arc < end; ++arc) {
    const int32_t* other = labels.ali + labels.ali_begin[arc];
    const int64_t both = std::min(common, labels.ali_begin[arc + 1] - labels.ali_begin[arc]);
    int64_t same = 0;
    while (same < both && first[same] == other[same]) ++same;
    if (same < both) {
      common = same;
      parted = true;
      if (same == 0) break;
    } else if (both < common) {
      return -1;
    }
  }
  return parted ? common : -1;
}

// The same length, found by comparing completions to their ends; `shift` is the number of labels pushed from each later
// state.
inline int64_t common_on_completions(const Arcs& arcs, const Alignments& labels, const std::vector<int64_t>& shift,
                                     int64_t state) {
  const bool ends = is_final(arcs, state);
  int64_t common =
      ends ? labels.final_ali_begin[state + 1] - labels.final_ali_begin[state] : std::numeric_limits<int64_t>::max();
  int64_t arc = arcs.arc_begin[state];
  const int64_t end = arcs.arc_begin[state + 1];
  for (int64_t out = arc; out < end; ++out) {
    common = std::min(common, labels.ali_begin[out + 1] - labels.ali_begin[out] + shift[arcs.dst[out]]);
  }
  Completion first(arcs, labels), other(arcs, labels);
  if (ends) {
    first.begin_at_final(state);
  } else {
    first.begin_at_arc(arc++);
  }
  for (; arc < end && common > 0; ++arc) {
    other.begin_at_arc(arc);
    common = common_labels(first, other, common);
  }
  return common;
}

// Number of labels to push from each state. The lattice must be connected.
inline void label_shifts(const Arcs& arcs, const Alignments& labels, std::vector<int64_t>& shift) {
  shift.assign(static_cast<size_t>(arcs.num_states), 0);
  for (int64_t state = arcs.num_states - 1; state > 0; --state) {
    const int64_t arc = arcs.arc_begin[state], num_arcs = arcs.arc_begin[state + 1] - arc;
    int64_t common = -1;
    if (!is_final(arcs, state)) {
      common = num_arcs == 1 ? labels.ali_begin[arc + 1] - labels.ali_begin[arc] + shift[arcs.dst[arc]]
                             : common_on_arcs(arcs, labels, state);
    }
    shift[state] = common >= 0 ? common : common_on_completions(arcs, labels, shift, state);
  }
}

// A plan to push a connected lattice.
struct Pushing {
  std::vector<int64_t> shift;  // number of labels pushed from each state; empty if alignments are not pushed
  int64_t num_labels = 0;      // number of labels after pushing
  int64_t num_final_labels = 0;
  std::vector<Costs> rest;  // costs of the best completion of each state; empty if costs are not pushed
};

inline Pushing plan_push(const Arcs& arcs, const Alignments& labels, bool strings, bool weights,
                         double acoustic_scale) {
  Pushing plan;
  if (weights) plan.rest = best_completion(arcs, acoustic_scale);
  plan.num_labels = labels.ali_begin[arcs.num_arcs];
  plan.num_final_labels = labels.final_ali_begin[arcs.num_states];
  if (!strings) return plan;
  label_shifts(arcs, labels, plan.shift);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    plan.num_labels -= plan.shift[state] * (arcs.arc_begin[state + 1] - arcs.arc_begin[state]);
    const bool ends = is_final(arcs, state);  // labels of states that are not final are dropped
    plan.num_final_labels -=
        ends ? plan.shift[state] : labels.final_ali_begin[state + 1] - labels.final_ali_begin[state];
  }
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) plan.num_labels += plan.shift[arcs.dst[arc]];
  return plan;
}

// Output arrays of pushed alignments, with the sizes of the plan and, for `ali`, kLabelSlack more elements.
struct PushedLabels {
  int64_t* ali_begin;
  int32_t* ali;
  int64_t* final_ali_begin;
  int32_t* final_ali;
};

inline void push_labels(const Arcs& arcs, const Alignments& labels, const std::vector<int64_t>& shift,
                        const PushedLabels& to) {
  Completion completion(arcs, labels);
  int64_t* ali_begin = to.ali_begin;
  int64_t* final_ali_begin = to.final_ali_begin;
  int32_t* ali = to.ali;
  int32_t* final_ali = to.final_ali;
  const int32_t* const pool_end = labels.ali + labels.ali_begin[arcs.num_arcs];
  const auto copy = [&](const int32_t* from, int64_t length) {
    if (pool_end - from >= length + kLabelSlack) {
      ali = copy_labels(ali, reinterpret_cast<const char*>(from), length);
    } else {
      ali = std::copy(from, from + length, ali);
    }
  };
  *ali_begin++ = *final_ali_begin++ = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const int64_t pushed = shift[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t begin = labels.ali_begin[arc], length = labels.ali_begin[arc + 1] - begin;
      const int64_t dst = arcs.dst[arc];
      const int64_t beyond = std::max<int64_t>(pushed - length, 0);  // pushed labels that come from `dst`
      const int64_t more = shift[dst] - beyond;
      if (length > pushed) copy(labels.ali + begin + pushed, length - pushed);
      if (more > 0) {
        const int64_t next = arcs.arc_begin[dst];
        if (!is_final(arcs, dst) && labels.ali_begin[next + 1] - labels.ali_begin[next] >= shift[dst]) {
          copy(labels.ali + labels.ali_begin[next] + beyond, more);
        } else {
          completion.begin_at_state(dst);
          completion.skip(beyond);
          ali = completion.copy(more, ali);
        }
      }
      *ali_begin++ = ali - to.ali;
    }
    if (is_final(arcs, state)) {
      const int64_t from = labels.final_ali_begin[state] + pushed, count = labels.final_ali_begin[state + 1] - from;
      final_ali = std::copy(labels.final_ali + from, labels.final_ali + from + count, final_ali);
    }
    *final_ali_begin++ = final_ali - to.final_ali;
  }
}

// `rest` is the cost of the best completion of each state.
inline void push_costs(const Arcs& arcs, const std::vector<Costs>& rest, const Block& to) {
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const Costs here = state == 0 ? Costs{0.0, 0.0, 0.0} : rest[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest[arcs.dst[arc]];
      to.graph[arc] = static_cast<float>(arcs.graph[arc] + after.graph - here.graph);
      to.acoustic[arc] = static_cast<float>(arcs.acoustic[arc] + after.acoustic - here.acoustic);
    }
    to.final_graph[state] = to.final_acoustic[state] = kInfinity;
    if (!is_final(arcs, state)) continue;
    to.final_graph[state] = static_cast<float>(arcs.final_graph[state] - here.graph);
    to.final_acoustic[state] = static_cast<float>(arcs.final_acoustic[state] - here.acoustic);
  }
}

// Whether costs that were computed in double precision fit in single precision.
inline bool costs_fit(const Arcs& arcs) {
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
    if (!std::isfinite(arcs.graph[arc]) || !std::isfinite(arcs.acoustic[arc])) return false;
  }
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (std::isfinite(arcs.final_graph[state]) != std::isfinite(arcs.final_acoustic[state])) return false;
  }
  return true;
}

inline void write_pushed(const Arcs& arcs, const Alignments& labels, const Pushing& plan, const Block& to) {
  std::copy_n(arcs.arc_begin, arcs.num_states + 1, to.arc_begin);
  std::copy_n(arcs.dst, arcs.num_arcs, to.dst);
  std::copy_n(arcs.word, arcs.num_arcs, to.word);
  if (plan.shift.empty()) {
    std::copy_n(labels.ali_begin, arcs.num_arcs + 1, to.ali_begin);
    std::copy_n(labels.ali, plan.num_labels, to.ali);
    std::copy_n(labels.final_ali_begin, arcs.num_states + 1, to.final_ali_begin);
    std::copy_n(labels.final_ali, plan.num_final_labels, to.final_ali);
  } else {
    push_labels(arcs, labels, plan.shift, {to.ali_begin, to.ali, to.final_ali_begin, to.final_ali});
  }
  if (plan.rest.empty()) {
    std::copy_n(arcs.graph, arcs.num_arcs, to.graph);
    std::copy_n(arcs.acoustic, arcs.num_arcs, to.acoustic);
    std::copy_n(arcs.final_graph, arcs.num_states, to.final_graph);
    std::copy_n(arcs.final_acoustic, arcs.num_states, to.final_acoustic);
  } else {
    push_costs(arcs, plan.rest, to);
  }
}

}  // namespace ninja
