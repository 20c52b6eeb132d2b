// The graph kernels on batches.
#pragma once

#include <string>
#include <vector>

#include "core/batch.hpp"
#include "graph/best_path.hpp"
#include "graph/connect.hpp"
#include "graph/prune.hpp"
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

inline Results best_path_each(const Items& items, const Scales& scales) {
  return each(items, [&](const Item& item, Item& made) -> std::string {
    static thread_local std::vector<int64_t> path;
    path.clear();
    if (!best_path(item.arcs, scales, path)) return kNoPathLeads;
    const int64_t length = static_cast<int64_t>(path.size());
    const int64_t end = length > 0 ? item.arcs.dst[path[length - 1]] : 0;
    const int64_t final_labels = item.labels.final_ali_begin[end + 1] - item.labels.final_ali_begin[end];
    const PathSize size = measure_path(item.arcs, item.labels, path.data(), length);
    NewLattice to;
    to.old_time = item.time;
    make_room(to, length + 1, length, size.num_labels - final_labels, final_labels);
    adopt(to, made);
    write_linear(item.arcs, item.labels, path.data(), length, to);
    return "";
  });
}

}  // namespace ninja
