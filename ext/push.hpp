// Pushing towards the start: labels that all completions of a state begin with go to the arcs that enter it, and so does
// the cost of its best completion. State 0 keeps its own, for nothing enters it.
// Source: Kaldi, lat/push-lattice.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lattice.hpp"
#include "potential.hpp"

namespace ninja {

// The labels of one completion of a state, piece by piece: of its final state if it is final, else along its first arc.
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

  // Go on to the next piece, which may be empty; there must be one.
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

  const int32_t* at = nullptr;   // labels of the piece that are left
  const int32_t* end = nullptr;
  int64_t state = -1;            // where the next piece begins, -1: nowhere

 private:
  void take(const int32_t* pool, const int64_t* begin, int64_t of) {
    at = pool + begin[of];
    end = pool + begin[of + 1];
  }

  const Arcs& arcs_;
  const Alignments& labels_;
};

// How many labels two completions begin with in common, of `most` at most, which both must have.
inline int64_t common_labels(Completion a, Completion b, int64_t most) {
  int64_t count = 0;
  while (count < most) {
    if (a.at == a.end && b.at == b.end && a.state == b.state) return most;  // the same from here on
    if (a.at == a.end) {
      a.next();
    } else if (b.at == b.end) {
      b.next();
    } else {
      const int64_t here = std::min({static_cast<int64_t>(a.end - a.at), static_cast<int64_t>(b.end - b.at), most - count});
      const int64_t same = std::mismatch(a.at, a.at + here, b.at).first - a.at;
      count += same;
      if (same < here) return count;
      a.at += here;
      b.at += here;
    }
  }
  return count;
}

// Tell quickly what is true of most states: two of its arcs begin with different labels.
inline bool first_labels_differ(const Arcs& arcs, const Alignments& labels, int64_t state) {
  const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
  if (labels.ali_begin[begin] == labels.ali_begin[begin + 1]) return false;
  const int32_t first = labels.ali[labels.ali_begin[begin]];
  for (int64_t arc = begin + 1; arc < end; ++arc) {
    const int64_t at = labels.ali_begin[arc];
    if (at < labels.ali_begin[arc + 1] && labels.ali[at] != first) return true;
  }
  return false;
}

// How many labels each state gives away. The lattice must be connected.
inline void label_shifts(const Arcs& arcs, const Alignments& labels, std::vector<int64_t>& shift) {
  shift.assign(static_cast<size_t>(arcs.num_states), 0);
  for (int64_t state = arcs.num_states - 1; state > 0; --state) {
    const bool ends = is_final(arcs, state);
    int64_t least = ends ? labels.final_ali_begin[state + 1] - labels.final_ali_begin[state]
                         : std::numeric_limits<int64_t>::max();
    int64_t arc = arcs.arc_begin[state];
    const int64_t end = arcs.arc_begin[state + 1];
    for (int64_t each = arc; each < end; ++each) {
      least = std::min(least, labels.ali_begin[each + 1] - labels.ali_begin[each] + shift[arcs.dst[each]]);
    }
    if (least > 0 && !ends && first_labels_differ(arcs, labels, state)) least = 0;
    Completion first(arcs, labels), other(arcs, labels);
    if (ends) {
      first.begin_at_final(state);
    } else {
      first.begin_at_arc(arc++);
    }
    for (; arc < end && least > 0; ++arc) {
      other.begin_at_arc(arc);
      least = common_labels(first, other, least);
    }
    shift[state] = least;
  }
}

// Lengths of the pools that push_labels() fills.
inline void pushed_sizes(const Arcs& arcs, const Alignments& labels, const std::vector<int64_t>& shift,
                         int64_t* num_labels, int64_t* num_final_labels) {
  *num_labels = labels.ali_begin[arcs.num_arcs];
  *num_final_labels = labels.final_ali_begin[arcs.num_states];
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    *num_labels -= shift[state] * (arcs.arc_begin[state + 1] - arcs.arc_begin[state]);
    if (is_final(arcs, state)) *num_final_labels -= shift[state];
  }
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) *num_labels += shift[arcs.dst[arc]];
}

// The four arrays have room as Alignments demands and pushed_sizes() says.
inline void push_labels(const Arcs& arcs, const Alignments& labels, const std::vector<int64_t>& shift,
                        int64_t* ali_begin, int32_t* ali, int64_t* final_ali_begin, int32_t* final_ali) {
  Completion completion(arcs, labels);
  const int32_t* const ali_start = ali;
  const int32_t* const final_start = final_ali;
  const auto copy = [&ali](const int32_t* from, int64_t length) {
    if (length <= 0) return;
    std::memcpy(ali, from, static_cast<size_t>(length) * sizeof(int32_t));
    ali += length;
  };
  *ali_begin++ = *final_ali_begin++ = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const int64_t away = shift[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t first = labels.ali_begin[arc], own = labels.ali_begin[arc + 1] - first;
      const int64_t more = shift[arcs.dst[arc]], beyond = std::max<int64_t>(away - own, 0);  // labels given away of those
      copy(labels.ali + first + away, own - away);
      if (more > beyond) {
        completion.begin_at_state(arcs.dst[arc]);
        completion.skip(beyond);
        ali = completion.copy(more - beyond, ali);
      }
      *ali_begin++ = ali - ali_start;
    }
    if (is_final(arcs, state)) {
      const int64_t from = labels.final_ali_begin[state] + away, count = labels.final_ali_begin[state + 1] - from;
      std::copy(labels.final_ali + from, labels.final_ali + from + count, final_ali);
      final_ali += count;
    }
    *final_ali_begin++ = final_ali - final_start;
  }
}

// `rest` is the cost of the best completion of each state.
inline void push_costs(const Arcs& arcs, const std::vector<Costs>& rest, float* graph, float* acoustic,
                       float* final_graph, float* final_acoustic) {
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const Costs here = state == 0 ? Costs{0.0, 0.0, 0.0} : rest[state];
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest[arcs.dst[arc]];
      graph[arc] = static_cast<float>(arcs.graph[arc] + after.graph - here.graph);
      acoustic[arc] = static_cast<float>(arcs.acoustic[arc] + after.acoustic - here.acoustic);
    }
    final_graph[state] = final_acoustic[state] = kInfinity;
    if (!is_final(arcs, state)) continue;
    final_graph[state] = static_cast<float>(arcs.final_graph[state] - here.graph);
    final_acoustic[state] = static_cast<float>(arcs.final_acoustic[state] - here.acoustic);
  }
}

}  // namespace ninja
