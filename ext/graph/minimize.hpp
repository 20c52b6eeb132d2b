// Minimization: merge states with the same completions, from the end of the lattice to its start.
// Source: Kaldi, lat/minimize-lattice.cc, for the definition of equality.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"
#include "graph/label_strings.hpp"
#include "graph/potential.hpp"
#include "graph/push.hpp"

namespace ninja {

// Representatives of merged states; those that are still reachable are numbered in their order.
struct Merged {
  std::vector<int32_t> same;    // [old states] representative of each state
  std::vector<int32_t> number;  // [old states] new number, -1 if removed
  int64_t num_states = 0;
  int64_t num_arcs = 0;
  int64_t num_labels = 0;
  int64_t num_final_labels = 0;
};

class Minimizer {
 public:
  // `arcs` is connected, and `labels` are the labels to compare; `rest` is the cost of the best completion of each
  // state, which is subtracted when costs are compared.
  Minimizer(const Arcs& arcs, const Alignments& labels, const std::vector<Costs>& rest, double delta)
      : arcs_(arcs), labels_(labels), rest_(rest), delta_(delta) {}

  Merged merge() {
    const auto num_states = static_cast<size_t>(arcs_.num_states);
    out_.same.resize(num_states);
    hash_.resize(num_states);
    next_.resize(num_states);
    size_t size = 64;
    while (size < 2 * num_states) size *= 2;
    table_.assign(size, -1);
    for (int64_t state = arcs_.num_states - 1; state >= 0; --state) place(state);
    number();
    return std::move(out_);
  }

 private:
  static constexpr int kMostCompared = 64;  // maximum number of states of the same shape with which a state is compared

  // A cheap digest: labels are compared before states are merged.
  static uint64_t digest(const int32_t* pool, const int64_t* begin, int64_t of) {
    const int64_t first = begin[of], last = begin[of + 1] - 1;
    if (last < first) return 0;
    return keyed_hash_with(static_cast<uint64_t>(last - first + 1),
                           static_cast<uint64_t>(pool[first]) << 32 | static_cast<uint32_t>(pool[last]));
  }

  // The properties of an arc that are compared.
  struct Key {
    uint64_t way;  // its word, and the representative of its destination
    uint64_t labels;
    double graph, acoustic;
    int64_t arc;
  };
  static bool before(const Key& a, const Key& b) {
    if (a.way != b.way) return a.way < b.way;
    if (a.labels != b.labels) return a.labels < b.labels;
    return a.graph + a.acoustic < b.graph + b.acoustic;
  }

  uint64_t way(int64_t arc) const {
    return static_cast<uint64_t>(arcs_.word[arc]) << 32 | static_cast<uint32_t>(out_.same[arcs_.dst[arc]]);
  }

  void spell(int64_t state, std::vector<Key>& keys) const {
    keys.clear();
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      const Costs& after = rest_[arcs_.dst[arc]];
      keys.push_back({way(arc), digest(labels_.ali, labels_.ali_begin, arc),
                      arcs_.graph[arc] + after.graph - rest_[state].graph,
                      arcs_.acoustic[arc] + after.acoustic - rest_[state].acoustic, arc});
    }
    std::sort(keys.begin(), keys.end(), before);
  }

  // Find the representative of a state, or make the state a representative.
  void place(int64_t state) {
    uint64_t hash = is_final(arcs_, state) ? 1 + digest(labels_.final_ali, labels_.final_ali_begin, state) : 0;
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      hash += keyed_hash_with(keyed_hash_with(arcs_.num_states, way(arc)),
                              digest(labels_.ali, labels_.ali_begin, arc));  // the same for any order of arcs
    }
    hash_[state] = hash;
    out_.same[state] = static_cast<int32_t>(state);
    size_t at = keyed_hash_with(hash, 0) & (table_.size() - 1);
    while (table_[at] >= 0 && hash_[table_[at]] != hash) at = (at + 1) & (table_.size() - 1);
    if (table_[at] >= 0) spell(state, mine_);
    int compared = 0;
    for (int32_t other = table_[at]; other >= 0 && compared < kMostCompared; other = next_[other], ++compared) {
      if (!equal(state, other)) continue;
      out_.same[state] = other;
      return;
    }
    next_[state] = table_[at];
    table_[at] = static_cast<int32_t>(state);
  }

  bool near(double a, double b) const { return std::abs(a - b) <= delta_; }

  static bool same_labels(const int32_t* pool, const int64_t* begin, int64_t a, int64_t b) {
    const int64_t length = begin[a + 1] - begin[a];
    return begin[b + 1] - begin[b] == length && std::equal(pool + begin[a], pool + begin[a] + length, pool + begin[b]);
  }

  // Whether a state, whose arcs are in mine_, equals another state.
  bool equal(int64_t state, int64_t other) {
    if (is_final(arcs_, state) != is_final(arcs_, other)) return false;
    if (arcs_.arc_begin[other + 1] - arcs_.arc_begin[other] != static_cast<int64_t>(mine_.size())) return false;
    if (is_final(arcs_, state) &&
        (!near(arcs_.final_graph[state] - rest_[state].graph, arcs_.final_graph[other] - rest_[other].graph) ||
         !near(arcs_.final_acoustic[state] - rest_[state].acoustic,
               arcs_.final_acoustic[other] - rest_[other].acoustic) ||
         !same_labels(labels_.final_ali, labels_.final_ali_begin, state, other)))
      return false;
    spell(other, its_);
    for (size_t i = 0; i < mine_.size(); ++i) {
      const Key &a = mine_[i], &b = its_[i];
      if (a.way != b.way || a.labels != b.labels || !near(a.graph, b.graph) || !near(a.acoustic, b.acoustic)) {
        return false;
      }
    }
    for (size_t i = 0; i < mine_.size(); ++i) {
      if (!same_labels(labels_.ali, labels_.ali_begin, mine_[i].arc, its_[i].arc)) return false;
    }
    return true;
  }

  void number() {
    out_.number.assign(out_.same.size(), -1);
    out_.number[0] = 0;
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      if (out_.number[state] < 0) continue;
      const int64_t begin = arcs_.arc_begin[state], end = arcs_.arc_begin[state + 1];
      out_.number[state] = static_cast<int32_t>(out_.num_states++);
      out_.num_arcs += end - begin;
      out_.num_labels += labels_.ali_begin[end] - labels_.ali_begin[begin];
      out_.num_final_labels += labels_.final_ali_begin[state + 1] - labels_.final_ali_begin[state];
      for (int64_t arc = begin; arc < end; ++arc) out_.number[out_.same[arcs_.dst[arc]]] = 0;
    }
  }

  const Arcs& arcs_;
  const Alignments& labels_;
  const std::vector<Costs>& rest_;
  const double delta_;
  Merged out_;
  std::vector<uint64_t> hash_;
  std::vector<int32_t> next_;   // previous state with the same hash
  std::vector<int32_t> table_;  // open addressing by hash: the last state of each hash
  std::vector<Key> mine_, its_;
};

// A plan to write a connected lattice without its merged states.
struct Minimized {
  // Alignments, and their memory if they were pushed.
  Alignments labels;
  std::unique_ptr<int64_t[]> begins;
  std::unique_ptr<int32_t[]> pools;

  std::vector<Costs> rest;  // costs of the best completion of each state, subtracted when costs are compared
  Merged merged;
};

// The result has pushed alignments. Costs are pushed for the comparison only, and their plan is moved into the result.
inline Minimized minimize(const Arcs& arcs, const Alignments& labels, Pushing& plan, double delta) {
  Minimized out;
  out.labels = labels;
  if (!plan.shift.empty()) {
    out.begins.reset(new int64_t[arcs.num_arcs + 1 + arcs.num_states + 1]);
    out.pools.reset(new int32_t[plan.num_final_labels + plan.num_labels + kLabelSlack]);
    int64_t* const final_begin = out.begins.get() + arcs.num_arcs + 1;
    int32_t* const ali = out.pools.get() + plan.num_final_labels;
    push_labels(arcs, labels, plan.shift, {out.begins.get(), ali, final_begin, out.pools.get()});
    out.labels = {out.begins.get(), ali, final_begin, out.pools.get()};
  }
  out.rest = std::move(plan.rest);
  if (out.rest.empty()) out.rest.assign(static_cast<size_t>(arcs.num_states), {0.0, 0.0, 0.0});
  out.merged = Minimizer(arcs, out.labels, out.rest, delta).merge();
  return out;
}

inline void write_minimized(const Arcs& arcs, const Minimized& minimized, const Block& to) {
  const Alignments& labels = minimized.labels;
  const std::vector<Costs>& rest = minimized.rest;
  const Merged& merged = minimized.merged;
  int64_t count = 0, num_labels = 0, num_final_labels = 0;
  to.arc_begin[0] = to.ali_begin[0] = to.final_ali_begin[0] = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const int32_t place = merged.number[state];
    if (place < 0) continue;
    const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
    const int64_t first = labels.ali_begin[begin], shift = num_labels - first;
    std::copy_n(labels.ali + first, labels.ali_begin[end] - first, to.ali + num_labels);
    num_labels += labels.ali_begin[end] - first;
    for (int64_t arc = begin; arc < end; ++arc, ++count) {
      const int32_t dst = arcs.dst[arc], there = merged.same[dst];
      to.dst[count] = merged.number[there];
      to.word[count] = arcs.word[arc];
      // Add the difference of the completions of the destination and its representative.
      to.graph[count] = static_cast<float>(arcs.graph[arc] + (rest[dst].graph - rest[there].graph));
      to.acoustic[count] = static_cast<float>(arcs.acoustic[arc] + (rest[dst].acoustic - rest[there].acoustic));
      to.ali_begin[count + 1] = labels.ali_begin[arc + 1] + shift;
    }
    to.arc_begin[place + 1] = count;
    to.final_graph[place] = arcs.final_graph[state];
    to.final_acoustic[place] = arcs.final_acoustic[state];
    const int64_t from = labels.final_ali_begin[state], length = labels.final_ali_begin[state + 1] - from;
    std::copy_n(labels.final_ali + from, length, to.final_ali + num_final_labels);
    to.final_ali_begin[place + 1] = num_final_labels += length;
  }
}

}  // namespace ninja
