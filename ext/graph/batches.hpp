// The graph kernels on batches: the entry of each operation. A lattice is a batch of one.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/batch.hpp"
#include "graph/best_path.hpp"
#include "graph/connect.hpp"
#include "graph/determinize_pruned_retry.hpp"
#include "graph/limit_depth.hpp"
#include "graph/minimize.hpp"
#include "graph/nbest.hpp"
#include "graph/oracle.hpp"
#include "graph/posteriors.hpp"
#include "graph/prune.hpp"
#include "graph/push.hpp"
#include "graph/select.hpp"

namespace ninja {

// Make smaller lattices of those that `choose(item, selection)` selects.
template <class Choose>
Results select_each(const Items& items, bool arc_map, const Choose& choose) {
  std::vector<int64_t> old_arc;
  Results results = each(items, [&](const Item& item, Item& made) -> std::string {
    Selection selection = take_selection();
    choose(item, selection);
    if (selection.num_states == 0) return kNoPathLeads;
    const size_t first = old_arc.size();
    if (selection.everything) {
      made = item;
      if (arc_map) {
        old_arc.resize(first + item.arcs.num_arcs);
        std::iota(old_arc.begin() + first, old_arc.end(), 0);
      }
    } else {
      NewLattice to;
      to.old_time = item.time;
      make_room(to, selection.num_states, selection.num_arcs, selection.num_labels, selection.num_final_labels);
      adopt(to, made);
      write_selection(item.arcs, item.labels, selection, to);
      if (arc_map) old_arc.insert(old_arc.end(), selection.arc.begin(), selection.arc.begin() + selection.num_arcs);
    }
    give_back(selection);
    return "";
  });
  results.arc_map = std::move(old_arc);
  return results;
}

inline Results prune_each(const Items& items, const Scales& scales, double beam, bool arc_map = false) {
  return select_each(items, arc_map, [&](const Item& item, Selection& selection) {
    prune(item.arcs, item.labels, scales, beam, selection);
  });
}

// `wanted` holds a 1 for each arc of all items that may stay; null: all may.
inline Results connect_each(const Items& items, const uint8_t* wanted = nullptr, bool arc_map = false) {
  return select_each(items, arc_map, [&](const Item& item, Selection& selection) {
    connect(item.arcs, item.labels, wanted, selection);
    if (wanted != nullptr) wanted += item.arcs.num_arcs;
  });
}

// Limit the depth of a lattice whose states have the frames of `time`.
inline Results limit_depth_of(const Items& items, const Scales& scales, const int32_t* time,
                              int64_t max_arcs_per_frame, bool arc_map) {
  return select_each(items, arc_map, [&](const Item& item, Selection& selection) {
    limit_depth(item.arcs, item.labels, scales, time, max_arcs_per_frame, selection);
  });
}

// Paths of lattices: path p has the arcs arc[arc_begin[p] : arc_begin[p + 1]].
struct Paths {
  std::vector<int64_t> arc;
  std::vector<int64_t> arc_begin{0};   // [paths + 1]
  std::vector<int64_t> path_begin{0};  // [items + 1], of each item; an item without a path has none
};

inline Paths best_paths(const Items& items, const Scales& scales) {
  Paths paths;
  std::vector<int64_t> path;
  for (const Item& item : items) {
    if (best_path(item.arcs, scales, path)) {
      append(path, paths.arc);
      paths.arc_begin.push_back(static_cast<int64_t>(paths.arc.size()));
    }
    paths.path_begin.push_back(static_cast<int64_t>(paths.arc_begin.size()) - 1);
  }
  return paths;
}

inline Paths nbest_paths(const Items& items, int64_t n, const Scales& scales) {
  Paths paths;
  for (const Item& item : items) {
    nbest(item.arcs, scales, n, paths.arc, paths.arc_begin);
    paths.path_begin.push_back(static_cast<int64_t>(paths.arc_begin.size()) - 1);
  }
  return paths;
}

inline Item linear_item(const Item& item, const int64_t* path, int64_t length) {
  const int64_t end = end_of_path(item.arcs, path, length);
  const int64_t final_labels = item.labels.final_ali_begin[end + 1] - item.labels.final_ali_begin[end];
  const PathSize size = measure_path(item.arcs, item.labels, path, length);
  Item made = item_like(item);
  NewLattice to;
  to.old_time = item.time;
  make_room(to, length + 1, length, size.num_labels - final_labels, final_labels);
  adopt(to, made);
  write_linear(item.arcs, item.labels, path, length, to);
  return made;
}

// Make a lattice of each path, on request with -1, -2, ... behind the key of its lattice.
inline Results path_lattices(const Items& items, const Paths& paths, bool numbered) {
  Results results;
  results.items.reserve(paths.arc_begin.size() - 1);
  for (size_t place = 0; place < items.size(); ++place) {
    const int64_t first = paths.path_begin[place], last = paths.path_begin[place + 1];
    if (first == last) results.failures.push_back({static_cast<int64_t>(place), kNoPathLeads});
    for (int64_t path = first; path < last; ++path) {
      const int64_t begin = paths.arc_begin[path];
      results.items.push_back(linear_item(items[place], paths.arc.data() + begin, paths.arc_begin[path + 1] - begin));
      if (numbered) results.items.back().key += "-" + std::to_string(path - first + 1);
    }
  }
  return results;
}

// Plan to push a connected lattice; "" or what is wrong with it.
inline std::string plan_within_bounds(const Item& item, bool strings, bool weights, double acoustic_scale,
                                      Pushing& plan) {
  constexpr int64_t kGrowth = 64, kRoom = int64_t{1} << 20;  // labels that pushing may make of one, and beyond that
  const int64_t before = item.labels.ali_begin[item.arcs.num_arcs] + item.labels.final_ali_begin[item.arcs.num_states];
  plan = plan_push(item.arcs, item.labels, strings, weights, acoustic_scale);
  if (plan.num_labels <= kGrowth * before + kRoom) return "";
  return "pushing would make " + std::to_string(plan.num_labels) + " labels of " + std::to_string(before) +
         "; push costs only";
}

inline bool has_labels(const Item& item) {
  return item.labels.ali_begin[item.arcs.num_arcs] > 0 || item.labels.final_ali_begin[item.arcs.num_states] > 0;
}

inline Results push_each(const Items& items, bool strings, bool weights, double acoustic_scale) {
  Results connected = connect_each(items);
  Results pushed = each(connected.items, [&](const Item& item, Item& made) -> std::string {
    const bool with_strings = strings && has_labels(item);
    if (!with_strings && !weights) {
      made = item;
      return "";
    }
    Pushing plan;
    std::string wrong = plan_within_bounds(item, with_strings, weights, acoustic_scale, plan);
    if (!wrong.empty()) return wrong;
    const bool timed = item.time != nullptr && !with_strings;
    Block to = new_block(item.arcs.num_states, item.arcs.num_arcs, plan.num_labels, plan.num_final_labels, timed);
    if (timed) std::copy_n(item.time, item.arcs.num_states, to.time);
    const Block written = to;
    adopt(to, made);
    write_pushed(item.arcs, item.labels, plan, written);
    made.compact = with_strings || item.compact;
    return "";
  });
  return joined(std::move(connected.failures), std::move(pushed));
}

inline Results minimize_each(const Items& items, bool strings, bool weights, double acoustic_scale, double delta) {
  Results connected = connect_each(items);
  Results merged = each(connected.items, [&](const Item& item, Item& made) -> std::string {
    const bool with_strings = strings && has_labels(item);
    Pushing plan;
    std::string wrong = plan_within_bounds(item, with_strings, weights, acoustic_scale, plan);
    if (!wrong.empty()) return wrong;
    const Minimized found = minimize(item.arcs, item.labels, plan, delta);
    Block to = new_block(found.merged.num_states, found.merged.num_arcs, found.merged.num_labels,
                         found.merged.num_final_labels);
    const Block written = to;
    adopt(to, made);
    write_minimized(item.arcs, found, written);
    made.compact = with_strings || item.compact;
    return "";
  });
  return joined(std::move(connected.failures), std::move(merged));
}

// Determinize lattices up to the first that does not reach the beam at once; return whether there is none. `last` tells
// how it ended for the last of them.
inline bool determinize_pruned_all(const Items& items, double beam, float acoustic_scale, double retry_cutoff,
                                   const DeterminizeBounds& bounds, Items& results, DeterminizedLattice& last) {
  return all(items, [&](const Item& item, Item& made) {
    last = determinize_pruned(item.arcs, item.labels, beam, acoustic_scale, retry_cutoff, bounds);
    if (last.num_states == 0) return false;
    adopt(std::move(last), made);
    made.compact = true;
    return last.stopped_by == Bound::kNone && last.effective_beam >= beam;
  }, results);
}

// The words of best paths, and what they cost.
struct PathWords {
  std::vector<int32_t> word;
  std::vector<int64_t> begin{0};  // [items + 1]
  std::vector<double> graph_cost, acoustic_cost;
  std::vector<int64_t> num_labels;
};

// Fill in the words of the best path of each item; returns the place of the first without a path, or -1.
inline int64_t best_words_all(const Items& items, const Scales& scales, PathWords& found) {
  const Paths paths = best_paths(items, scales);
  size_t path = 0;  // also the place of the item: each has one path, or the search ends there
  return first_failure(items, [&](const Item& item) {
    if (paths.path_begin[path + 1] == paths.path_begin[path]) return false;
    const int64_t* arc = paths.arc.data() + paths.arc_begin[path];
    const int64_t* end = paths.arc.data() + paths.arc_begin[++path];
    const PathSize size = measure_path(item.arcs, item.labels, arc, end - arc);
    for (; arc < end; ++arc) {
      if (item.arcs.word[*arc] != 0) found.word.push_back(item.arcs.word[*arc]);
    }
    found.begin.push_back(static_cast<int64_t>(found.word.size()));
    found.graph_cost.push_back(size.graph_cost);
    found.acoustic_cost.push_back(size.acoustic_cost);
    found.num_labels.push_back(size.num_labels);
    return true;
  });
}

// Arcs of at least some posterior, with their times in frames.
struct ProbableArcs {
  std::vector<int64_t> begin{0};  // [items + 1]
  std::vector<int32_t> start, frames, word;
  std::vector<double> posterior;
  std::vector<int32_t> label;
  std::vector<int64_t> label_begin{0};  // [arcs + 1], on request
};

// Fill in the arcs of each item; returns the place of the first without a path or whose times contradict, or -1.
inline int64_t probable_arcs_all(const Items& items, const Scales& scales, double least, bool with_labels,
                                 ProbableArcs& found) {
  std::vector<double> posterior;
  std::vector<int32_t> space;
  return first_failure(items, [&](const Item& item) {
    const Arcs& arcs = item.arcs;
    const int32_t* time = state_times(item, space);
    posterior.resize(arcs.num_arcs);
    if (time == nullptr || !posteriors(arcs, scales, posterior.data())) return false;
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        if (!(posterior[arc] >= least)) continue;
        found.start.push_back(time[state]);
        found.frames.push_back(time[arcs.dst[arc]] - time[state]);
        found.word.push_back(arcs.word[arc]);
        found.posterior.push_back(posterior[arc]);
        if (!with_labels) continue;
        found.label.insert(found.label.end(), item.labels.ali + item.labels.ali_begin[arc],
                           item.labels.ali + item.labels.ali_begin[arc + 1]);
        found.label_begin.push_back(static_cast<int64_t>(found.label.size()));
      }
    }
    found.begin.push_back(static_cast<int64_t>(found.start.size()));
    return true;
  });
}

// Nearest paths, each with its words, epsilons left out.
struct Oracles {
  std::vector<int64_t> substitutions, insertions, deletions;
  std::vector<int64_t> arc, arc_begin{0};
  std::vector<int32_t> word;
  std::vector<int64_t> word_begin{0};
  std::vector<int64_t> touches_band;
};

// Fill in the nearest path of each item to its reference, `words[begin[place]:begin[place + 1]]`; returns the place of
// the first without a path, or -1.
inline int64_t oracle_all(const Items& items, const int32_t* words, const int64_t* begin, int64_t whole_cells,
                          int64_t least_words, int64_t most_cells, Oracles& found) {
  return first_failure(items, [&](const Item& item) {
    const Oracle path = oracle(item.arcs, words + begin[0], begin[1] - begin[0], whole_cells, least_words, most_cells);
    if (!path.reached) return false;
    found.substitutions.push_back(path.substitutions);
    found.insertions.push_back(path.insertions);
    found.deletions.push_back(path.deletions);
    found.touches_band.push_back(path.touches_band);
    append(path.arc, found.arc);
    for (const int64_t arc : path.arc) {
      if (item.arcs.word[arc] != 0) found.word.push_back(item.arcs.word[arc]);
    }
    found.arc_begin.push_back(static_cast<int64_t>(found.arc.size()));
    found.word_begin.push_back(static_cast<int64_t>(found.word.size()));
    ++begin;
    return true;
  });
}

}  // namespace ninja
