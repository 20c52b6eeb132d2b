// Keep only the best arcs that cross each frame.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/scales.hpp"
#include "graph/potential.hpp"
#include "graph/select.hpp"

namespace ninja {

// An arc, and the cost of the best path minus the cost of the best path through the arc, which is 0 or less up to
// rounding. As in Kaldi, the difference has single precision, so that there are ties.
struct Crossing {
  float logprob;
  int64_t arc;
  bool operator<(const Crossing& other) const { return logprob < other.logprob; }
};

// The arcs that cross the current frame. Only frames in which an arc begins or ends are visited, so that time and
// memory depend on the number of arcs, not of frames.
class Crossings {
 public:
  Crossings(const std::vector<float>& logprob, int64_t most, std::vector<uint8_t>& keep)
      : logprob_(logprob), most_(static_cast<size_t>(most)), keep_(keep), part_(logprob.size(), Part::kNone) {}

  void add(int64_t arc) {
    insert(arc, best_);
    if (best_.size <= most_) return;
    const int64_t worst = pop(best_);
    insert(worst, rest_);
    waiting_.push_back(worst);
  }

  void remove(int64_t arc) {
    Heap& heap = part_[arc] == Part::kBest ? best_ : rest_;
    part_[arc] = Part::kNone;
    --heap.size;
    if (heap.arcs.size() > 2 * heap.size + kMostTied) drop_ended(heap);
    if (heap.part == Part::kBest && rest_.size > 0) insert(pop(rest_), best_);
  }

  // Drop the surplus arcs of this frame. Dropping the same arcs of equal rank as Kaldi takes quadratic time in their
  // number; if there are too many of them, the last ones are dropped instead.
  void limit() {
    if (rest_.size == 0) return;
    if (logprob_[top(best_)] == logprob_[top(rest_)] && best_.size + rest_.size <= kMostTied) {
      here_.clear();
      for (const Heap* heap : {&best_, &rest_}) {
        for (const int64_t arc : heap->arcs) {
          if (part_[arc] == heap->part) here_.push_back({logprob_[arc], arc});
        }
      }
      std::sort(here_.begin(), here_.end(), [](const Crossing& a, const Crossing& b) { return a.arc < b.arc; });
      const auto surplus = here_.begin() + static_cast<std::ptrdiff_t>(rest_.size);
      std::nth_element(here_.begin(), surplus, here_.end());
      for (auto crossing = here_.begin(); crossing != surplus; ++crossing) keep_[crossing->arc] = 0;
      return;
    }
    for (const int64_t arc : waiting_) {
      if (part_[arc] == Part::kRest) keep_[arc] = 0;
    }
    waiting_.clear();
  }

 private:
  static constexpr size_t kMostTied = 1024;

  enum class Part : uint8_t { kNone, kBest, kRest };

  // A heap from which arcs that have ended are removed when they reach the top, or when they are the majority.
  struct Heap {
    Part part;
    std::vector<int64_t> arcs;
    size_t size = 0;  // arcs that have not ended
  };

  bool is_worse(int64_t a, int64_t b) const { return logprob_[a] != logprob_[b] ? logprob_[a] < logprob_[b] : a > b; }

  // Compare arcs for std::push_heap: the worst of the best arcs, and the best of the others, is at the top.
  auto below_in(const Heap& heap) const {
    return [this, is_best = heap.part == Part::kBest](int64_t a, int64_t b) {
      return is_best ? is_worse(b, a) : is_worse(a, b);
    };
  }

  void insert(int64_t arc, Heap& heap) {
    part_[arc] = heap.part;
    ++heap.size;
    heap.arcs.push_back(arc);
    std::push_heap(heap.arcs.begin(), heap.arcs.end(), below_in(heap));
  }

  void drop_ended(Heap& heap) {
    const auto has_ended = [&](int64_t arc) { return part_[arc] != heap.part; };
    heap.arcs.erase(std::remove_if(heap.arcs.begin(), heap.arcs.end(), has_ended), heap.arcs.end());
    std::make_heap(heap.arcs.begin(), heap.arcs.end(), below_in(heap));
  }

  // Return the arc at the top of a heap whose size is not 0.
  int64_t top(Heap& heap) {
    while (part_[heap.arcs.front()] != heap.part) {
      std::pop_heap(heap.arcs.begin(), heap.arcs.end(), below_in(heap));
      heap.arcs.pop_back();
    }
    return heap.arcs.front();
  }

  int64_t pop(Heap& heap) {
    const int64_t arc = top(heap);
    std::pop_heap(heap.arcs.begin(), heap.arcs.end(), below_in(heap));
    heap.arcs.pop_back();
    --heap.size;
    return arc;
  }

  const std::vector<float>& logprob_;  // [num_arcs]
  const size_t most_;
  std::vector<uint8_t>& keep_;  // [num_arcs]
  std::vector<Part> part_;      // [num_arcs]
  Heap best_{Part::kBest, {}};  // at most `most_` arcs
  Heap rest_{Part::kRest, {}};
  std::vector<int64_t> waiting_;  // arcs that moved to the rest and are not dropped yet
  std::vector<Crossing> here_;
};

// Source: Kaldi, lat/lattice-functions.cc, CompactLatticeLimitDepth.
inline void limit_depth(const Arcs& arcs, const Alignments& alignments, const Scales& exact, const int32_t* time,
                        int64_t max_arcs_per_frame, Selection& selection) {
  const Scales scales = single(exact);
  const int64_t num_states = arcs.num_states;
  std::vector<double> forward(num_states, kNoPath);
  forward[0] = 0.0;
  double best = kNoPath;
  for (int64_t state = 0; state < num_states; ++state) {
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int32_t dst = arcs.dst[arc];
      forward[dst] = std::min(forward[dst], forward[state] + single_arc_cost(arcs, arc, scales));
    }
    best = std::min(best, forward[state] + single_final_cost(arcs, state, scales));
  }
  const std::vector<double> backward = cost_to_end(
      arcs, [&](int64_t arc) { return single_arc_cost(arcs, arc, scales); },
      [&](int64_t state) { return single_final_cost(arcs, state, scales); });
  best = 0.5 * (best + backward[0]);

  selection.resize(arcs);
  std::vector<float> logprob(arcs.num_arcs);
  struct Event {
    uint32_t at;  // twice the frame; plus 1 where the arc begins, so that arcs that end there are removed first
    int64_t arc;
  };
  std::vector<Event> events;
  events.reserve(2 * arcs.num_arcs);
  for (int64_t state = 0; state < num_states; ++state) {
    selection.keep_final[state] = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double through = forward[state] + backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales);
      selection.keep_arc[arc] = through < kNoPath;  // arcs that lie on no complete path are dropped first
      logprob[arc] = static_cast<float>(best - through);
      const auto begin = static_cast<uint32_t>(time[state]), end = static_cast<uint32_t>(time[arcs.dst[arc]]);
      if (!selection.keep_arc[arc] || begin == end) continue;
      events.push_back({2 * begin + 1, arc});
      events.push_back({2 * end, arc});
    }
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  const auto select = [&] {
    Crossings crossings(logprob, max_arcs_per_frame, selection.keep_arc);
    for (size_t at = 0; at < events.size();) {
      const uint32_t frame = events[at].at / 2;
      for (; at < events.size() && events[at].at / 2 == frame; ++at) {
        events[at].at % 2 == 1 ? crossings.add(events[at].arc) : crossings.remove(events[at].arc);
      }
      crossings.limit();
    }
    drop_dead_ends(arcs, selection);
    number_kept(arcs, alignments, selection);
  };
  select();
  if (selection.num_states > 0 || !(best < kNoPath)) return;
  // Ties have removed every complete path: select again, and rank the arcs of the first of the best paths above others.
  std::fill(selection.keep_arc.begin(), selection.keep_arc.end(), 1);
  for (int64_t state = 0; backward[state] != single_final_cost(arcs, state, scales);) {
    int64_t arc = arcs.arc_begin[state];
    while (backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales) != backward[state]) ++arc;
    logprob[arc] = std::numeric_limits<float>::infinity();
    state = arcs.dst[arc];
  }
  select();
}

}  // namespace ninja
