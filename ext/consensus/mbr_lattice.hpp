// The lattice of minimum Bayes risk decoding: one final state, and the probability of each arc given its destination.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/scales.hpp"
#include "graph/potential.hpp"

namespace ninja {

// Numbers words from 0 in the order of their first occurrence.
class WordSlots {
 public:
  void clear() {
    word_.clear();
    std::fill(cells_.begin(), cells_.end(), -1);
  }
  int32_t size() const { return static_cast<int32_t>(word_.size()); }
  int32_t add(int32_t word) {
    if (2 * (word_.size() + 1) > cells_.size()) {
      cells_.assign(2 * cells_.size(), -1);
      for (size_t at = 0; at < word_.size(); ++at) cells_[cell(word_[at])] = static_cast<int32_t>(at);
    }
    int32_t& slot = cells_[cell(word)];
    if (slot < 0) {
      slot = size();
      word_.push_back(word);
    }
    return slot;
  }
  int32_t find(int32_t word) const { return cells_[cell(word)]; }  // -1 if it did not occur

 private:
  size_t cell(int32_t word) const {
    const size_t mask = cells_.size() - 1;
    size_t at = keyed_hash(static_cast<uint32_t>(word)) & mask;
    while (cells_[at] >= 0 && word_[cells_[at]] != word) at = (at + 1) & mask;
    return at;
  }
  std::vector<int32_t> word_;
  std::vector<int32_t> cells_ = std::vector<int32_t>(1 << 8, -1);
};

// Sums use Kaldi's order and precision, since rounding decides between alignments of equal cost.
struct MbrLattice {
  struct Link {
    int32_t src;
    int32_t dst;
    int32_t word;
    int32_t slot;   // number of the word in the lattice, 0 for epsilon
    float loglike;  // negative cost
    int32_t form;   // written form, 0 for none
    double prob;    // probability of the link given dst
  };
  int64_t num_states;        // the last state is the only final one
  std::vector<Link> link;    // sorted by source; a link to an added final state is the last link of its source
  std::vector<int64_t> out;  // [num_states + 1]; links leaving a state
  std::vector<int64_t> in;   // [num_states + 1]; links entering a state are entering[in[state]] : [in[state + 1]]
  std::vector<int64_t> entering;
  WordSlots slots;
  std::vector<int32_t> time;    // [num_states], frames
  std::vector<int32_t> origin;  // [num_states], state of the original lattice, -1 for an added final state
};

// log(exp(x) + exp(y)), with the shortcut of Kaldi's LogAdd.
inline double log_add(double x, double y) {
  if (x < y) std::swap(x, y);
  static const double least = std::log(std::numeric_limits<double>::epsilon());
  const double difference = y - x;
  return difference >= least ? x + std::log1p(std::exp(difference)) : x;
}

constexpr double kMostRounding = 1e-6;  // of the sum of the probabilities of the links that enter a state

// Convert the connected part of a lattice; false if no path leads from the start to a final state, or if the costs of
// all paths exceed single precision. `time` is the frame of each state, `form` the written form of each arc, or null.
// Buffers of `to` are reused.
inline bool prepare_mbr(const Arcs& arcs, const Alignments& labels, const int32_t* time, const int32_t* form,
                        const Scales& exact, MbrLattice& to) {
  const Scales scales = single(exact);
  const std::vector<uint8_t> leads = coaccessible(arcs);
  if (!leads[0]) return false;
  std::vector<uint8_t> reached(arcs.num_states + 1, 0);
  int64_t finals = 0, last = -1;
  reached[0] = 1;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!(reached[state] &= leads[state])) continue;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) reached[arcs.dst[arc]] = 1;
    if (is_final(arcs, state)) {
      ++finals;
      last = state;
    }
  }
  const auto final_labels = [&](int64_t state) {
    return static_cast<int32_t>(labels.final_ali_begin[state + 1] - labels.final_ali_begin[state]);
  };
  // Kaldi adds no final state if there is only one, without costs, labels and arcs.
  bool add = finals > 1 || scales.lm * arcs.final_graph[last] != 0.0 ||
             scales.acoustic * arcs.final_acoustic[last] != 0.0 || final_labels(last) > 0;
  for (int64_t arc = arcs.arc_begin[last]; arc < arcs.arc_begin[last + 1]; ++arc) add |= leads[arcs.dst[arc]] != 0;

  // Number the states that are kept, in order.
  std::vector<int32_t> number(arcs.num_states, -1);
  to.time.clear();
  to.origin.clear();
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!reached[state] || (!add && state > last)) continue;
    number[state] = static_cast<int32_t>(to.time.size());
    to.time.push_back(time[state]);
    to.origin.push_back(static_cast<int32_t>(state));
  }
  int32_t end = add ? static_cast<int32_t>(to.time.size()) : number[last];
  if (add) {
    to.time.push_back(0);
    to.origin.push_back(-1);
  }
  to.num_states = static_cast<int64_t>(to.time.size());

  to.link.clear();
  to.slots.clear();
  to.slots.add(0);
  to.out.assign(1, 0);
  to.in.assign(to.num_states + 1, 0);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (number[state] < 0) continue;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      if (!leads[arcs.dst[arc]]) continue;
      float graph = static_cast<float>(scales.lm * arcs.graph[arc]);
      if (arcs.word[arc] != 0) graph += static_cast<float>(scales.word_penalty);
      const float cost = graph + static_cast<float>(scales.acoustic * arcs.acoustic[arc]);
      const int32_t word = arcs.word[arc], form_id = form == nullptr ? 0 : form[arc];
      to.link.push_back({number[state], number[arcs.dst[arc]], word, to.slots.add(word), -cost, form_id, 0.0});
    }
    if (add && is_final(arcs, state)) {
      const float cost = static_cast<float>(scales.lm * arcs.final_graph[state]) +
                         static_cast<float>(scales.acoustic * arcs.final_acoustic[state]);
      to.link.push_back({number[state], end, 0, 0, -cost, 0, 0.0});
      to.time[end] = std::max(to.time[end], time[state] + final_labels(state));
    }
    to.out.push_back(static_cast<int64_t>(to.link.size()));
  }
  if (add) to.out.push_back(static_cast<int64_t>(to.link.size()));

  std::vector<double> alpha(to.num_states, -kNoPath);
  alpha[0] = 0.0;
  for (const MbrLattice::Link& link : to.link) {
    alpha[link.dst] = log_add(alpha[link.dst], alpha[link.src] + link.loglike);
    ++to.in[link.dst + 1];
  }
  if (!std::isfinite(alpha[end])) return false;
  for (int64_t state = 0; state < to.num_states; ++state) to.in[state + 1] += to.in[state];
  std::vector<int64_t> place(to.in.begin(), to.in.end() - 1);
  to.entering.resize(to.link.size());
  for (size_t at = 0; at < to.link.size(); ++at) {
    MbrLattice::Link& link = to.link[at];
    // 0 if all paths to the state have infinite costs
    link.prob = alpha[link.dst] > -kNoPath ? std::exp(alpha[link.src] + link.loglike - alpha[link.dst]) : 0.0;
    to.entering[place[link.dst]++] = static_cast<int64_t>(at);
  }
  // Large costs round the sums; Kaldi does not normalise, so that small deviations stay.
  for (int64_t state = 1; state < to.num_states; ++state) {
    double sum = 0.0;
    for (int64_t at = to.in[state]; at < to.in[state + 1]; ++at) sum += to.link[to.entering[at]].prob;
    if (sum == 0.0 || std::abs(sum - 1.0) <= kMostRounding) continue;
    for (int64_t at = to.in[state]; at < to.in[state + 1]; ++at) to.link[to.entering[at]].prob /= sum;
  }
  return true;
}

// The links with words on the best path, or on the first of equal paths. Costs are added in single precision, as in
// OpenFst.
inline std::vector<int64_t> best_links(const MbrLattice& lattice) {
  struct Best {
    float cost;
    int64_t link;
  };
  std::vector<Best> best(lattice.num_states, {kInfinity, -1});
  best[0].cost = 0.0f;
  for (size_t at = 0; at < lattice.link.size(); ++at) {
    const MbrLattice::Link& link = lattice.link[at];
    const float cost = best[link.src].cost - link.loglike;
    if (cost < best[link.dst].cost) best[link.dst] = {cost, static_cast<int64_t>(at)};
  }
  std::vector<int64_t> links;
  for (int64_t at = best[lattice.num_states - 1].link; at >= 0; at = best[lattice.link[at].src].link) {
    if (lattice.link[at].word != 0) links.push_back(at);
  }
  std::reverse(links.begin(), links.end());
  return links;
}

}  // namespace ninja
