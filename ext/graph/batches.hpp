// Entry points of the graph kernels, which take batches. A lattice is a batch of one.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/batch.hpp"
#include "graph/best_path.hpp"
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

// Select arcs of each lattice by `choose(item, selection)`.
template <class Choose>
Results select_each(const Items& items, bool arc_map, const Choose& choose) {
  std::vector<int64_t> old_arc;
  Results results = each(items, [&](const Item& item, Item& result) -> std::string {
    Selection& selection = spare_selection();
    choose(item, selection);
    if (selection.num_states == 0) return kNoPathLeads;
    if (selection.everything) {
      result = item;
      if (arc_map) {
        const size_t first = old_arc.size();
        old_arc.resize(first + item.arcs.num_arcs);
        std::iota(old_arc.begin() + first, old_arc.end(), 0);
      }
      return "";
    }
    Block to = new_block(selection.num_states, selection.num_arcs, selection.num_labels, selection.num_final_labels,
                         item.time != nullptr);
    const Block written = to;
    adopt(to, result);
    write_selection(item.arcs, item.labels, item.time, selection, written);
    if (arc_map) old_arc.insert(old_arc.end(), selection.arc.begin(), selection.arc.begin() + selection.num_arcs);
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

// `wanted` has an element for each arc of all items, 1 if the arc may be kept; null if all arcs may be kept.
inline Results connect_each(const Items& items, const uint8_t* wanted = nullptr, bool arc_map = false) {
  return select_each(items, arc_map, [&](const Item& item, Selection& selection) {
    connect(item.arcs, item.labels, wanted, selection);
    if (wanted != nullptr) wanted += item.arcs.num_arcs;
  });
}

// Limit the depth of a lattice; `time` is the frame of each state.
inline Results limit_depth_of(const Items& items, const Scales& scales, const int32_t* time, int64_t max_arcs_per_frame,
                              bool arc_map) {
  return select_each(items, arc_map, [&](const Item& item, Selection& selection) {
    limit_depth(item.arcs, item.labels, scales, time, max_arcs_per_frame, selection);
  });
}

// Paths of lattices: path p has the arcs arc[arc_begin[p] : arc_begin[p + 1]].
struct Paths {
  std::vector<int64_t> arc;
  std::vector<int64_t> arc_begin{0};   // [paths + 1]
  std::vector<int64_t> path_begin{0};  // [items + 1]; an item without a path has none
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

// Replace the arcs of the paths that end at arc_begin[first] and later by the written arcs; see `Item::written_arc`.
inline void to_written_arcs(const Item& item, size_t first, Paths& paths) {
  int64_t size = paths.arc_begin[first - 1], begin = size;
  for (size_t path = first; path < paths.arc_begin.size(); ++path) {
    const int64_t end = paths.arc_begin[path];
    for (; begin < end; ++begin) {
      const int64_t written = (*item.written_arc)[paths.arc[begin]];
      if (written >= 0) paths.arc[size++] = written;
    }
    paths.arc_begin[path] = size;
  }
  paths.arc.resize(size);
}

inline Paths nbest_paths(const Items& items, int64_t n, const Scales& scales) {
  Paths paths;
  for (const Item& item : items) {
    const size_t first = paths.arc_begin.size();
    nbest(item.arcs, scales, n, paths.arc, paths.arc_begin);
    if (item.written_arc != nullptr) to_written_arcs(item, first, paths);
    paths.path_begin.push_back(static_cast<int64_t>(paths.arc_begin.size()) - 1);
  }
  return paths;
}

inline Item linear_item(const Item& item, const int64_t* path, int64_t length) {
  const int64_t end = end_of_path(item.arcs, path, length);
  const int64_t final_labels = item.labels.final_ali_begin[end + 1] - item.labels.final_ali_begin[end];
  const PathSize size = measure_path(item.arcs, item.labels, path, length);
  Block to = new_block(length + 1, length, size.num_labels - final_labels, final_labels, item.time != nullptr);
  write_linear(item.arcs, item.labels, item.time, path, length, to);
  Item result = item_like(item);
  adopt(to, result);
  return result;
}

// Create a lattice from each path; if `numbered`, append -1, -2, ... to the key.
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

// Connect each lattice, plan the pushing, and call `apply(item, plan, result)` to write the result.
template <class Apply>
Results push_with(const Items& items, bool strings, bool weights, double acoustic_scale, const Apply& apply) {
  constexpr int64_t kGrowth = 64, kRoom = int64_t{1} << 20;  // bound on new labels: kGrowth per old label plus kRoom
  Results connected = connect_each(items);
  Results results = each(connected.items, [&](const Item& item, Item& result) -> std::string {
    const int64_t num_labels = item.labels.ali_begin[item.arcs.num_arcs];
    const int64_t before = num_labels + item.labels.final_ali_begin[item.arcs.num_states];
    const bool with_strings = strings && before > 0;
    Pushing plan = plan_push(item.arcs, item.labels, with_strings, weights, acoustic_scale);
    if (plan.num_labels > kGrowth * before + kRoom) {
      return "pushing would create " + std::to_string(plan.num_labels) + " labels of " + std::to_string(before) +
             "; push costs only";
    }
    apply(item, plan, result);
    if (!costs_fit(result.arcs)) return "the new costs exceed the range of float32; scale the costs down first";
    if (result.memory != nullptr) result.compact = with_strings || item.compact;
    return "";
  });
  return joined(std::move(connected.failures), std::move(results));
}

inline Results push_each(const Items& items, bool strings, bool weights, double acoustic_scale) {
  return push_with(items, strings, weights, acoustic_scale, [](const Item& item, const Pushing& plan, Item& result) {
    if (plan.shift.empty() && plan.rest.empty()) {
      result = item;
      return;
    }
    const bool timed = item.time != nullptr && plan.shift.empty();
    Block to = new_block(item.arcs.num_states, item.arcs.num_arcs, plan.num_labels, plan.num_final_labels, timed);
    const Block written = to;
    adopt(to, result);
    if (timed) std::copy_n(item.time, item.arcs.num_states, written.time);
    write_pushed(item.arcs, item.labels, plan, written);
  });
}

inline Results minimize_each(const Items& items, bool strings, bool weights, double acoustic_scale, double delta) {
  return push_with(items, strings, weights, acoustic_scale, [&](const Item& item, Pushing& plan, Item& result) {
    const Minimized minimized = minimize(item.arcs, item.labels, plan, delta);
    const Merged& merged = minimized.merged;
    Block to = new_block(merged.num_states, merged.num_arcs, merged.num_labels, merged.num_final_labels);
    const Block written = to;
    adopt(to, result);
    write_minimized(item.arcs, minimized, written);
  });
}

// Determinize lattices until one does not reach the beam in one try; return whether all reach it. `last` describes the
// last lattice.
inline bool determinize_pruned_all(const Items& items, double beam, float acoustic_scale, double retry_cutoff,
                                   const DeterminizeBounds& bounds, Items& results, DeterminizedLattice& last) {
  return all(
      items,
      [&](const Item& item, Item& result) {
        last = determinize_pruned(item.arcs, item.labels, beam, acoustic_scale, retry_cutoff, bounds);
        if (last.num_states == 0) return false;
        adopt(std::move(last), result);
        result.compact = true;
        return last.stopped_by == Bound::kNone && last.effective_beam >= beam;
      },
      results);
}

// The words and costs of best paths.
struct PathWords {
  std::vector<int32_t> word;
  std::vector<int64_t> begin{0};  // [items + 1]
  std::vector<double> graph_cost, acoustic_cost;
  std::vector<int64_t> num_labels;
};

// Find the words of the best path of each item; returns the index of the first item without a path, or -1.
inline int64_t best_words_all(const Items& items, const Scales& scales, PathWords& result) {
  const Paths paths = best_paths(items, scales);
  size_t path = 0;  // also the index of the item: the search ends at an item without a path
  return first_failure(items, [&](const Item& item) {
    if (paths.path_begin[path + 1] == paths.path_begin[path]) return false;
    const int64_t* arc = paths.arc.data() + paths.arc_begin[path];
    const int64_t* end = paths.arc.data() + paths.arc_begin[++path];
    const PathSize size = measure_path(item.arcs, item.labels, arc, end - arc);
    for (; arc < end; ++arc) {
      if (item.arcs.word[*arc] != 0) result.word.push_back(item.arcs.word[*arc]);
    }
    result.begin.push_back(static_cast<int64_t>(result.word.size()));
    result.graph_cost.push_back(size.graph_cost);
    result.acoustic_cost.push_back(size.acoustic_cost);
    result.num_labels.push_back(size.num_labels);
    return true;
  });
}

// Arcs with at least a given posterior, and their times in frames.
struct ProbableArcs {
  std::vector<int64_t> begin{0};  // [items + 1]
  std::vector<int32_t> start, frames, word;
  std::vector<double> posterior;
  std::vector<int32_t> label;
  std::vector<int64_t> label_begin{0};  // [arcs + 1], only with labels
};

// Find the arcs of each item; returns the index of the first item without a path or with contradictory times, or -1.
inline int64_t probable_arcs_all(const Items& items, const Scales& scales, double least, bool with_labels,
                                 ProbableArcs& result) {
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
        result.start.push_back(time[state]);
        result.frames.push_back(time[arcs.dst[arc]] - time[state]);
        result.word.push_back(arcs.word[arc]);
        result.posterior.push_back(posterior[arc]);
        if (!with_labels) continue;
        append_labels(item.labels.ali, item.labels.ali_begin, arc, result.label);
        result.label_begin.push_back(static_cast<int64_t>(result.label.size()));
      }
    }
    result.begin.push_back(static_cast<int64_t>(result.start.size()));
    return true;
  });
}

// The path nearest to each reference, and its words without epsilons.
struct Oracles {
  std::vector<int64_t> substitutions, insertions, deletions;
  std::vector<int64_t> arc, arc_begin{0};
  std::vector<int32_t> word;
  std::vector<int64_t> word_begin{0};
  std::vector<int64_t> touches_band;
};

// Find the path of each item nearest to its reference, `words[begin[i]:begin[i + 1]]`; returns the index of the first
// item without a path, or -1. The words of a path are taken from `written`, the same lattices with their written words.
inline int64_t oracle_all(const Items& items, const Items& written, const int32_t* words, const int64_t* begin,
                          int64_t whole_cells, int64_t least_words, int64_t most_cells, Oracles& result) {
  auto lattice = written.begin();
  return first_failure(items, [&](const Item& item) {
    const Oracle path = oracle(item.arcs, words + begin[0], begin[1] - begin[0], whole_cells, least_words, most_cells);
    if (!path.reached) return false;
    result.substitutions.push_back(path.substitutions);
    result.insertions.push_back(path.insertions);
    result.deletions.push_back(path.deletions);
    result.touches_band.push_back(path.touches_band);
    for (int64_t arc : path.arc) {
      if (item.written_arc != nullptr) arc = (*item.written_arc)[arc];
      if (arc < 0) continue;  // this arc is a later word of a form
      result.arc.push_back(arc);
      if (lattice->arcs.word[arc] != 0) result.word.push_back(lattice->arcs.word[arc]);
    }
    result.arc_begin.push_back(static_cast<int64_t>(result.arc.size()));
    result.word_begin.push_back(static_cast<int64_t>(result.word.size()));
    ++begin;
    ++lattice;
    return true;
  });
}

}  // namespace ninja
