// The graph kernels on batches.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/batch.hpp"
#include "graph/best_path.hpp"
#include "graph/connect.hpp"
#include "graph/determinize_pruned_retry.hpp"
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
Results select_each(const Items& items, const Choose& choose) {
  return each(items, [&](const Item& item, Item& made) -> std::string {
    Selection selection = take_selection();
    choose(item, selection);
    if (selection.num_states == 0) return kNoPathLeads;
    if (selection.everything) {
      made = item;
    } else {
      NewLattice to;
      to.old_time = item.time;
      make_room(to, selection.num_states, selection.num_arcs, selection.num_labels, selection.num_final_labels);
      adopt(to, made);
      write_selection(item.arcs, item.labels, selection, to);
    }
    give_back(selection);
    return "";
  });
}

inline Results prune_each(const Items& items, const Scales& scales, double beam) {
  return select_each(items, [&](const Item& item, Selection& selection) {
    prune(item.arcs, item.labels, scales, beam, selection);
  });
}

inline Results connect_each(const Items& items) {
  return select_each(items, [](const Item& item, Selection& selection) {
    connect(item.arcs, item.labels, nullptr, selection);
  });
}

inline Item linear_item(const Item& item, const int64_t* path, int64_t length) {
  const int64_t end = length > 0 ? item.arcs.dst[path[length - 1]] : 0;
  const int64_t final_labels = item.labels.final_ali_begin[end + 1] - item.labels.final_ali_begin[end];
  const PathSize size = measure_path(item.arcs, item.labels, path, length);
  Item made;
  made.key = item.key;
  made.compact = item.compact;
  made.origin = item.origin;
  NewLattice to;
  to.old_time = item.time;
  make_room(to, length + 1, length, size.num_labels - final_labels, final_labels);
  adopt(to, made);
  write_linear(item.arcs, item.labels, path, length, to);
  return made;
}

inline Results best_path_each(const Items& items, const Scales& scales) {
  return each(items, [&](const Item& item, Item& made) -> std::string {
    static thread_local std::vector<int64_t> path;
    path.clear();
    if (!best_path(item.arcs, scales, path)) return kNoPathLeads;
    made = linear_item(item, path.data(), static_cast<int64_t>(path.size()));
    return "";
  });
}

// The n best paths of each lattice, each under the lattice's key with -1, -2, ... behind it.
inline Results nbest_each(const Items& items, int64_t n, const Scales& scales) {
  Results results;
  std::vector<int64_t> arcs, begin;
  for (size_t place = 0; place < items.size(); ++place) {
    arcs.clear();
    begin.clear();
    nbest(items[place].arcs, scales, n, arcs, begin);
    if (begin.size() == 1) results.failures.push_back({static_cast<int64_t>(place), kNoPathLeads});
    for (size_t path = 0; path + 1 < begin.size(); ++path) {
      results.items.push_back(linear_item(items[place], arcs.data() + begin[path], begin[path + 1] - begin[path]));
      results.items.back().key += "-" + std::to_string(path + 1);
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

// Determinize all lattices, if each reaches the beam at once.
inline bool determinize_pruned_all(const Items& items, double beam, float acoustic_scale,
                                   const DeterminizeBounds& bounds, Items& results) {
  return all(items, [&](const Item& item, Item& made) {
    DeterminizedLattice found = determinize_pruned(item.arcs, item.labels, beam, acoustic_scale, 0.0, bounds);
    if (found.stopped_by != Bound::kNone || found.num_states == 0 || found.effective_beam < beam) return false;
    adopt(std::move(found), made);
    made.compact = true;
    return true;
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
  std::vector<int64_t> path;
  return first_failure(items, [&](const Item& item) {
    path.clear();
    if (!best_path(item.arcs, scales, path)) return false;
    const PathSize size = measure_path(item.arcs, item.labels, path.data(), static_cast<int64_t>(path.size()));
    for (const int64_t arc : path) {
      if (item.arcs.word[arc] != 0) found.word.push_back(item.arcs.word[arc]);
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
