// A lattice of the hypotheses of a CTC search. Hypotheses share arcs up to their first different word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/pair_map.hpp"

namespace ninja {

struct CtcHypotheses {        // see the Python class `CtcResult`
  int64_t num_hypotheses;     // number of hypotheses in the lattice, the most probable first
  const int64_t* hypothesis;  // [num_hypotheses], indices of the hypotheses
  const double* logprob;      // [num_hypotheses]
  const int64_t* word_begin;
  const int32_t* node;
  const int32_t* first;
  const int32_t* end;
  const double* cost;
  const int32_t* alignment;  // [hypotheses, num_frames]
  int64_t num_frames;
  int32_t silence;  // label of a frame between words
  int64_t num_nodes;
  const int32_t* same;      // [num_nodes], the node that represents all nodes with the same words
  const int32_t* kind;      // [num_nodes]
  const int64_t* id_begin;  // [kinds + 1], ids of the words of each kind
  const int32_t* id;
};

class CtcLattice {
 public:
  std::vector<int64_t> arc_begin, ali_begin;
  std::vector<int32_t> dst, word, ali;
  std::vector<float> acoustic;

  void make(const CtcHypotheses& input) {
    std::vector<int32_t> state_of(input.num_nodes, kNone);
    std::vector<uint8_t> ended;
    for (int64_t number = 0; number < input.num_hypotheses; ++number) {
      const int64_t hypothesis = input.hypothesis[number];
      const int32_t* alignment = input.alignment + hypothesis * input.num_frames;
      int32_t at = 0;
      for (int64_t w = input.word_begin[hypothesis]; w < input.word_begin[hypothesis + 1]; ++w) {
        const int32_t node = input.same[input.node[w]];
        if (state_of[node] == kNone) {
          // In another hypothesis, the preceding words may end later.
          const int32_t late = std::max(input.first[w], time_[at]);
          const int32_t source = late > time_[at] ? pause(at, late) : at;
          const double cost = input.cost[w];
          const int32_t there = state(std::max(input.end[w], late), cost_to_[at] + static_cast<float>(cost));
          const int32_t kind = input.kind[node];
          for (int64_t id = input.id_begin[kind]; id < input.id_begin[kind + 1]; ++id) {
            arcs_.push_back({source, there, input.id[id], cost, alignment + late, time_[there] - late});
          }
          state_of[node] = there;
        }
        at = state_of[node];
      }
      ended.resize(time_.size());
      if (ended[at]) continue;  // only words missing from the table differ, so keep the better hypothesis
      ended[at] = 1;
      ends_.push_back({at, kNone, 0, -input.logprob[number] - cost_to_[at], nullptr, 0});
    }
    const int32_t last = state(static_cast<int32_t>(input.num_frames), 0.0);
    for (Arc& arc : ends_) {
      arc.dst = last;
      arc.length = time_[last] - time_[arc.src];
      arcs_.push_back(arc);
    }
    write(input.silence);
  }

 private:
  static constexpr int32_t kNone = -1;
  struct Arc {
    int32_t src, dst, word;
    double cost;
    const int32_t* columns;  // columns of the frames, null for silence
    int32_t length;          // number of frames
  };

  int32_t state(int32_t frame, double cost) {
    time_.push_back(frame);
    cost_to_.push_back(cost);
    return static_cast<int32_t>(time_.size() - 1);
  }

  // Return the state at frame `late`, after silence that begins in the state `at`.
  int32_t pause(int32_t at, int32_t late) {
    int32_t& after = paused_(at, late);
    if (after != kNone) return after;
    after = state(late, cost_to_[at]);
    arcs_.push_back({at, after, 0, 0.0, nullptr, late - time_[at]});
    return after;
  }

  // Arcs of a state keep the order of their creation.
  void write(int32_t silence) {
    arc_begin.assign(time_.size() + 1, 0);
    for (const Arc& arc : arcs_) ++arc_begin[arc.src + 1];
    std::partial_sum(arc_begin.begin(), arc_begin.end(), arc_begin.begin());
    std::vector<int64_t> next(arc_begin), order(arcs_.size());
    for (size_t arc = 0; arc < arcs_.size(); ++arc) order[next[arcs_[arc].src]++] = static_cast<int64_t>(arc);
    ali_begin.assign(1, 0);
    for (int64_t number : order) {
      const Arc& arc = arcs_[number];
      dst.push_back(arc.dst);
      word.push_back(arc.word);
      acoustic.push_back(static_cast<float>(arc.cost));
      for (int32_t frame = 0; frame < arc.length; ++frame) {
        ali.push_back(arc.columns ? arc.columns[frame] + 1 : silence);
      }
      ali_begin.push_back(static_cast<int64_t>(ali.size()));
    }
  }

  std::vector<int32_t> time_ = {0};  // [states]
  std::vector<double> cost_to_ = {0.0};
  std::vector<Arc> arcs_, ends_;
  PairMap paused_;
};

}  // namespace ninja
