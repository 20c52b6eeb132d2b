// Keep only the best arcs that cross each frame.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
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
  Crossings(int64_t num_arcs, int64_t most, std::vector<uint8_t>& keep)
      : most_(static_cast<size_t>(most)), keep_(keep), is_rest_(num_arcs, 0) {}

  void add(const Crossing& crossing) {
    best_.insert(crossing);
    if (best_.size() <= most_) return;
    const auto worst = best_.begin();
    is_rest_[worst->arc] = 1;
    waiting_.push_back(worst->arc);
    rest_.insert(best_.extract(worst));
  }

  void remove(const Crossing& crossing) {
    if (is_rest_[crossing.arc]) {
      is_rest_[crossing.arc] = 0;
      rest_.erase(crossing);
      return;
    }
    best_.erase(crossing);
    if (rest_.empty()) return;
    const auto next = std::prev(rest_.end());
    is_rest_[next->arc] = 0;
    best_.insert(rest_.extract(next));
  }

  // Drop the surplus arcs of this frame. Dropping the same arcs of equal rank as Kaldi takes quadratic time in their
  // number; if there are too many of them, the last ones are dropped instead.
  void limit() {
    if (rest_.empty()) return;
    if (best_.begin()->logprob == std::prev(rest_.end())->logprob && best_.size() + rest_.size() <= kMostTied) {
      here_.assign(best_.begin(), best_.end());
      here_.insert(here_.end(), rest_.begin(), rest_.end());
      std::sort(here_.begin(), here_.end(), [](const Crossing& a, const Crossing& b) { return a.arc < b.arc; });
      const auto surplus = here_.begin() + static_cast<std::ptrdiff_t>(rest_.size());
      std::nth_element(here_.begin(), surplus, here_.end());
      for (auto crossing = here_.begin(); crossing != surplus; ++crossing) keep_[crossing->arc] = 0;
      return;
    }
    for (const int64_t arc : waiting_) {
      if (is_rest_[arc]) keep_[arc] = 0;
    }
    waiting_.clear();
  }

 private:
  static constexpr size_t kMostTied = 1024;

  struct ByRank {  // worst first
    bool operator()(const Crossing& a, const Crossing& b) const {
      return a.logprob != b.logprob ? a.logprob < b.logprob : a.arc > b.arc;
    }
  };

  const size_t most_;
  std::vector<uint8_t>& keep_;              // [num_arcs]
  std::vector<uint8_t> is_rest_;            // [num_arcs]
  std::set<Crossing, ByRank> best_, rest_;  // at most `most_` arcs, and the others
  std::vector<int64_t> waiting_;            // arcs that moved to the rest and are not dropped yet
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
  struct Event {
    int32_t frame;
    bool begins;
    Crossing crossing;
    bool operator<(const Event& other) const {
      return frame != other.frame ? frame < other.frame : begins < other.begins;
    }
  };
  std::vector<Event> events;
  for (int64_t state = 0; state < num_states; ++state) {
    selection.keep_final[state] = is_final(arcs, state);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double through = forward[state] + backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales);
      selection.keep_arc[arc] = through < kNoPath;  // arcs that lie on no complete path are dropped first
      if (!selection.keep_arc[arc]) continue;
      const Crossing crossing{static_cast<float>(best - through), arc};
      if (time[state] == time[arcs.dst[arc]]) continue;
      events.push_back({time[state], true, crossing});
      events.push_back({time[arcs.dst[arc]], false, crossing});
    }
  }
  std::sort(events.begin(), events.end());
  Crossings crossings(arcs.num_arcs, max_arcs_per_frame, selection.keep_arc);
  for (size_t at = 0; at < events.size();) {
    const int32_t frame = events[at].frame;
    for (; at < events.size() && events[at].frame == frame; ++at) {
      const Event& event = events[at];
      event.begins ? crossings.add(event.crossing) : crossings.remove(event.crossing);
    }
    crossings.limit();
  }
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
  if (selection.num_states > 0 || !(best < kNoPath)) return;
  // If ties have removed every complete path, keep the first of the best paths.
  for (int64_t state = 0; backward[state] != single_final_cost(arcs, state, scales);) {
    int64_t arc = arcs.arc_begin[state];
    while (backward[arcs.dst[arc]] + single_arc_cost(arcs, arc, scales) != backward[state]) ++arc;
    selection.keep_arc[arc] = 1;
    state = arcs.dst[arc];
  }
  drop_dead_ends(arcs, selection);
  number_kept(arcs, alignments, selection);
}

}  // namespace ninja
