// The path of least cost, and the words, labels and costs of a path.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/scales.hpp"
#include "graph/select.hpp"

namespace ninja {

// A path is a sequence of arcs. It ends in the destination of its last arc, or in the start if it is empty.
struct PathSize {
  int64_t num_words;
  int64_t num_labels;
  double graph_cost;  // unscaled, including the final state
  double acoustic_cost;
};

inline int64_t end_of_path(const Arcs& arcs, const int64_t* path, int64_t length) {
  return length > 0 ? arcs.dst[path[length - 1]] : 0;
}

inline PathSize measure_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length) {
  const int64_t end = end_of_path(arcs, path, length);
  PathSize size{0, alignments.final_ali_begin[end + 1] - alignments.final_ali_begin[end], 0.0, 0.0};
  for (int64_t place = 0; place < length; ++place) {
    const int64_t arc = path[place];
    size.num_words += arcs.word[arc] != 0;
    size.num_labels += alignments.ali_begin[arc + 1] - alignments.ali_begin[arc];
    size.graph_cost += arcs.graph[arc];
    size.acoustic_cost += arcs.acoustic[arc];
  }
  size.graph_cost += arcs.final_graph[end];
  size.acoustic_cost += arcs.final_acoustic[end];
  return size;
}

inline void write_path(const Arcs& arcs, const Alignments& alignments, const int64_t* path, int64_t length,
                       int32_t* words, int32_t* labels) {
  const auto copy = [&](const int32_t* from, int64_t count) {
    if (count > 0) std::memcpy(labels, from, sizeof(int32_t) * count);
    labels += count;
  };
  for (int64_t place = 0; place < length; ++place) {
    const int64_t arc = path[place], begin = alignments.ali_begin[arc];
    if (arcs.word[arc] != 0) *words++ = arcs.word[arc];
    copy(alignments.ali + begin, alignments.ali_begin[arc + 1] - begin);
  }
  const int64_t end = end_of_path(arcs, path, length), begin = alignments.final_ali_begin[end];
  copy(alignments.final_ali + begin, alignments.final_ali_begin[end + 1] - begin);
}

// Write a path as a linear lattice with length + 1 states; `time` of the old states may be null.
inline void write_linear(const Arcs& arcs, const Alignments& alignments, const int32_t* time, const int64_t* path,
                         int64_t length, const Block& to) {
  int64_t labels = 0;
  int64_t state = 0;
  to.ali_begin[0] = 0;
  to.final_ali_begin[0] = 0;
  for (int64_t place = 0; place <= length; ++place) {
    to.arc_begin[place] = place;
    to.final_graph[place] = kInfinity;
    to.final_acoustic[place] = kInfinity;
    to.final_ali_begin[place + 1] = 0;
    if (time != nullptr) to.time[place] = time[state];
    if (place == length) break;
    const int64_t arc = path[place], begin = alignments.ali_begin[arc];
    const int64_t count = alignments.ali_begin[arc + 1] - begin;
    to.dst[place] = static_cast<int32_t>(place + 1);
    to.word[place] = arcs.word[arc];
    to.graph[place] = arcs.graph[arc];
    to.acoustic[place] = arcs.acoustic[arc];
    if (count > 0) std::memcpy(to.ali + labels, alignments.ali + begin, sizeof(int32_t) * count);
    to.ali_begin[place + 1] = labels += count;
    state = arcs.dst[arc];
  }
  to.arc_begin[length + 1] = length;
  const int64_t begin = alignments.final_ali_begin[state];
  const int64_t count = alignments.final_ali_begin[state + 1] - begin;
  to.final_graph[length] = arcs.final_graph[state];
  to.final_acoustic[length] = arcs.final_acoustic[state];
  if (count > 0) std::memcpy(to.final_ali, alignments.final_ali + begin, sizeof(int32_t) * count);
  to.final_ali_begin[length + 1] = count;
}

// Find the arcs of the best path; false if there is no path.
// Ties are broken as in Compare of Kaldi's lattice weights: the smaller graph cost wins, then the earlier path.
inline bool best_path(const Arcs& arcs, const Scales& scales, std::vector<int64_t>& path) {
  struct Best {
    double total;
    double graph;
    int64_t arc;
    int64_t src;
  };
  static thread_local std::vector<Best> best;
  best.assign(arcs.num_states, {kNoPath, kNoPath, -1, -1});
  best[0] = {0.0, 0.0, -1, -1};
  Best end{kNoPath, kNoPath, -1, -1};  // src: the final state of the best path
  Best* states = best.data();
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const Best here = states[state];
    if (!(here.total < kNoPath)) continue;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double graph = scales.lm * arcs.graph[arc] + (arcs.word[arc] != 0 ? scales.word_penalty : 0.0);
      const double total = here.total + (graph + scales.acoustic * arcs.acoustic[arc]);
      Best& there = states[arcs.dst[arc]];
      if (total > there.total) continue;
      if (total == there.total && !(here.graph + graph < there.graph)) continue;
      there = {total, here.graph + graph, arc, state};
    }
    if (!is_final(arcs, state)) continue;
    const double total = here.total + final_cost(arcs, state, scales);
    const double graph = here.graph + scales.lm * arcs.final_graph[state];
    if (total < end.total || (total == end.total && graph < end.graph)) end = {total, graph, -1, state};
  }
  path.clear();
  if (end.src < 0) return false;
  for (int64_t state = end.src; states[state].arc >= 0; state = states[state].src) path.push_back(states[state].arc);
  std::reverse(path.begin(), path.end());
  return true;
}

}  // namespace ninja
