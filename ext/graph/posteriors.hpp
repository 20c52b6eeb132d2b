// Posteriors of arcs by the forward-backward algorithm.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/scales.hpp"

namespace ninja {

// A running log-sum of exp(-cost), which computes one exponential per term for any order and range.
struct LogSum {
  double least = kNoPath;  // smallest cost so far
  double sum = 0.0;        // sum of exp(least - cost)

  void add(double cost) {
    if (!(cost < kNoPath)) return;
    if (cost < least) {
      sum = sum * std::exp(cost - least) + 1.0;  // exp(-inf) = 0 at the first term
      least = cost;
    } else {
      sum += std::exp(least - cost);
    }
  }
  double cost() const { return sum > 0.0 ? least - std::log(sum) : kNoPath; }
};

// Compute the posterior of each arc and, unless null, of the end of paths in each state; false if there is no path from
// the start to a final state.
//
// The backward pass normalises the arcs of a state to probabilities given the state, relative to the largest term, so
// that nothing overflows and only terms below 1e-300 underflow. The forward pass multiplies them by the probability of
// the state. This takes one exponential per arc and one logarithm per state.
inline bool posteriors(const Arcs& arcs, const Scales& scales, double* posterior, double* of_final = nullptr) {
  static thread_local std::vector<double> backward_space, inside_space;
  backward_space.resize(arcs.num_states);
  inside_space.assign(arcs.num_states, 0.0);
  double* backward = backward_space.data();  // total cost of all completions of a state
  double* inside = inside_space.data();      // probability of a state
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) posterior[arc] = arc_cost(arcs, arc, scales);
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
    const double stop = final_cost(arcs, state, scales);
    double least = stop;
    if (of_final != nullptr) of_final[state] = 0.0;
    for (int64_t arc = begin; arc < end; ++arc) {
      posterior[arc] += backward[arcs.dst[arc]];
      least = std::min(least, posterior[arc]);
    }
    if (!(least < kNoPath)) {  // a dead end
      backward[state] = kNoPath;
      for (int64_t arc = begin; arc < end; ++arc) posterior[arc] = 0.0;
      continue;
    }
    if (end - begin == 1 && !(stop < kNoPath)) {
      backward[state] = least;
      posterior[begin] = 1.0;
      continue;
    }
    double sum = stop < kNoPath ? std::exp(least - stop) : 0.0;
    for (int64_t arc = begin; arc < end; ++arc) sum += posterior[arc] = std::exp(least - posterior[arc]);
    backward[state] = least - std::log(sum);
    const double scale = 1.0 / sum;
    if (of_final != nullptr && stop < kNoPath) of_final[state] = std::exp(least - stop) * scale;
    for (int64_t arc = begin; arc < end; ++arc) posterior[arc] *= scale;
  }
  if (!(backward[0] < kNoPath)) return false;
  inside[0] = 1.0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const double here = inside[state];
    if (of_final != nullptr) of_final[state] *= here;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      inside[arcs.dst[arc]] += posterior[arc] *= here;
    }
  }
  return true;
}

// Compute the total cost of all paths from the start to each state and from each state to the end, +inf if there is no
// path. Returns the total cost of all paths.
inline double forward_backward(const Arcs& arcs, const Scales& scales, double* alpha, double* beta) {
  std::vector<LogSum> forward(arcs.num_states);
  forward[0].add(0.0);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    alpha[state] = forward[state].cost();
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      forward[arcs.dst[arc]].add(alpha[state] + arc_cost(arcs, arc, scales));
    }
  }
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    LogSum backward;
    backward.add(final_cost(arcs, state, scales));
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      backward.add(arc_cost(arcs, arc, scales) + beta[arcs.dst[arc]]);
    }
    beta[state] = backward.cost();
  }
  return beta[0];
}

}  // namespace ninja
