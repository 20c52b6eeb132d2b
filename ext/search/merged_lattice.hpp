// The lattice that a search visits, in which arcs and states with equal completions are merged.
//
// Two arcs are equal if they have the same word in the language model, equal costs and equal destinations; two states
// are equal if their final costs and their sets of arcs are equal. Lattices whose hypotheses differ only in capitals
// and punctuation contain each path several times; without merging, the copies would compete for the limits of the
// search, and estimates that are exact for one copy would be inexact for another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/copies.hpp"
#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "core/pair_map.hpp"

namespace ninja {

class MergedLattice {
 public:
  // `lm_word` and `extra` are as for `Search`; all arrays must outlive this object.
  MergedLattice(const Arcs& arcs, const int32_t* lm_word, const float* extra)
      : old_(arcs), old_lm_word_(lm_word), old_extra_(extra), arcs_(arcs) {
    find_equal();
    has_merged_ = num_states_ < arcs.num_states || num_arcs_ < arcs.num_arcs;
    if (has_merged_) build();
    std::vector<Shape>().swap(shape_);
    std::vector<int32_t>().swap(table_);
    std::vector<int32_t>().swap(sorted_);
  }

  bool has_merged() const { return has_merged_; }
  const Arcs& arcs() const { return arcs_; }
  const int32_t* lm_word() const { return has_merged_ ? lm_word_.data() : old_lm_word_; }
  const float* extra() const { return has_merged_ ? extra_.data() : old_extra_; }

  // Converts copies of the merged lattice's states and arcs to copies of the original's; returns false if there are
  // more than `max_arcs`. Each path of the result corresponds to one path of the original.
  bool unfold(Copies& copies, int64_t max_arcs) const {
    if (!has_merged_) return true;
    const auto num_copies = static_cast<int64_t>(copies.state_map.size());
    Copies out;
    out.state_map.reserve(num_copies);
    out.final_graph.reserve(num_copies);
    out.arc_begin.reserve(num_copies + 1);
    out.dst.reserve(copies.dst.size());
    out.arc_map.reserve(copies.dst.size());
    out.graph.reserve(copies.dst.size());
    StatePairs pairs(num_copies);                      // pairs of a copy and an original state
    std::vector<int64_t> through(arcs_.num_arcs, -1);  // index in `copies` of each arc of the current copy's state
    if (num_copies > 0) pairs(0, 0);
    out.arc_begin.push_back(0);
    for (int64_t copy = 0; copy < num_copies; ++copy) {
      const int64_t begin = copies.arc_begin[copy], end = copies.arc_begin[copy + 1];
      for (int64_t i = begin; i < end; ++i) through[copies.arc_map[i]] = i;
      for (int32_t pair = pairs.first(copy); pair >= 0; pair = pairs.next(pair)) {
        const int32_t state = pairs.other(pair);
        pairs.number(pair, out.state_map.size());
        out.state_map.push_back(state);
        out.final_graph.push_back(copies.final_graph[copy]);
        for (int64_t arc = old_.arc_begin[state]; arc < old_.arc_begin[state + 1]; ++arc) {
          const int64_t i = through[arc_number_[arc]];
          if (i < 0) continue;
          out.dst.push_back(pairs(copies.dst[i], old_.dst[arc]));
          out.arc_map.push_back(arc);
          out.graph.push_back(copies.graph[i]);
        }
        if (static_cast<int64_t>(out.dst.size()) > max_arcs) return false;
        out.arc_begin.push_back(static_cast<int64_t>(out.dst.size()));
      }
      for (int64_t i = begin; i < end; ++i) through[copies.arc_map[i]] = -1;
    }
    pairs.renumber(out.dst);
    copies = std::move(out);
    return true;
  }

  // Copies the costs of merged arcs and states to all arcs and states that were merged into them.
  void spread(const float* graph, const float* final_graph, float* to_graph, float* to_final) const {
    for (int64_t arc = 0; arc < old_.num_arcs; ++arc) to_graph[arc] = graph[arc_number_[arc]];
    for (int64_t state = 0; state < old_.num_states; ++state) to_final[state] = final_graph[state_number_[state]];
  }

 private:
  struct Key {
    uint64_t hash;
    int32_t arc;
  };
  struct Shape {  // description of a state
    uint64_t hash;
    int64_t begin, end;  // its distinct arcs in `sorted_`
  };

  static uint64_t bits(float value) {
    value += 0.0f;  // -0 is 0
    uint32_t number;
    std::memcpy(&number, &value, sizeof(number));
    return number;
  }

  uint64_t hash_of(int64_t arc) const {
    const uint64_t way = joined(old_lm_word_[arc], state_number_[old_.dst[arc]]);
    const uint64_t costs = bits(old_.graph[arc]) << 32 | bits(old_.acoustic[arc]);
    return keyed_hash_with(keyed_hash_with(keyed_hash(way), costs), bits(old_extra_[arc]) << 1 | has_word(arc));
  }
  bool has_word(int64_t arc) const { return old_.word[arc] != 0; }

  bool equal_arcs(int64_t a, int64_t b) const {
    return old_lm_word_[a] == old_lm_word_[b] && state_number_[old_.dst[a]] == state_number_[old_.dst[b]] &&
           old_.graph[a] == old_.graph[b] && old_.acoustic[a] == old_.acoustic[b] && old_extra_[a] == old_extra_[b] &&
           has_word(a) == has_word(b);
  }

  bool equal_ends(int64_t a, int64_t b) const {
    if (!is_final(old_, a) || !is_final(old_, b)) return is_final(old_, a) == is_final(old_, b);
    return old_.final_graph[a] == old_.final_graph[b] && old_.final_acoustic[a] == old_.final_acoustic[b];
  }

  // Sets `state_number_` and `arc_number_` to the representative of each state and arc. The representative of a class
  // is its highest state, so that arcs still lead to higher numbers.
  void find_equal() {
    state_number_.resize(old_.num_states);
    arc_number_.resize(old_.num_arcs);
    shape_.resize(old_.num_states);
    sorted_.reserve(old_.num_arcs);
    size_t size = 64;
    while (size < 2 * static_cast<size_t>(old_.num_states)) size *= 2;
    table_.assign(size, -1);
    for (int64_t state = old_.num_states - 1; state >= 0; --state) place(state);
  }

  void place(int64_t state) {
    uint64_t hash = is_final(old_, state)
                        ? keyed_hash_with(1, bits(old_.final_graph[state]) << 32 | bits(old_.final_acoustic[state]))
                        : 0;
    keys_.clear();
    for (int64_t arc = old_.arc_begin[state]; arc < old_.arc_begin[state + 1]; ++arc) {
      keys_.push_back({hash_of(arc), static_cast<int32_t>(arc)});
    }
    if (keys_.size() > 1) {
      std::sort(keys_.begin(), keys_.end(),
                [](const Key& a, const Key& b) { return a.hash != b.hash ? a.hash < b.hash : a.arc < b.arc; });
    }
    const auto first = static_cast<int64_t>(sorted_.size());
    for (const Key& key : keys_) {
      const bool is_new = static_cast<int64_t>(sorted_.size()) == first || !equal_arcs(sorted_.back(), key.arc);
      if (is_new) {
        sorted_.push_back(key.arc);
        hash += key.hash;
      }
      arc_number_[key.arc] = sorted_.back();
    }
    state_number_[state] = static_cast<int32_t>(state);
    shape_[state] = {hash, first, static_cast<int64_t>(sorted_.size())};
    if (state > 0) {  // the start state is not merged
      size_t at = keyed_hash(hash) & (table_.size() - 1);
      while (table_[at] >= 0 && !equal(state, table_[at])) at = (at + 1) & (table_.size() - 1);
      if (table_[at] >= 0) {
        merge(state, table_[at]);
        return;
      }
      table_[at] = static_cast<int32_t>(state);
    }
    ++num_states_;
    num_arcs_ += static_cast<int64_t>(sorted_.size()) - first;
  }

  bool equal(int64_t state, int64_t other) const {
    const Shape &a = shape_[state], &b = shape_[other];
    return a.hash == b.hash && a.end - a.begin == b.end - b.begin && equal_ends(state, other) &&
           std::equal(sorted_.begin() + a.begin, sorted_.begin() + a.end, sorted_.begin() + b.begin,
                      [this](int32_t mine, int32_t its) { return equal_arcs(mine, its); });
  }

  void merge(int64_t state, int32_t other) {
    const int64_t first = shape_[state].begin, others = shape_[other].begin;
    for (int64_t i = first; i < shape_[state].end; ++i) arc_number_[sorted_[i]] = sorted_[others + i - first];
    // Duplicate arcs were mapped to the first equal arc before.
    for (const Key& key : keys_) arc_number_[key.arc] = arc_number_[arc_number_[key.arc]];
    sorted_.resize(first);
    state_number_[state] = other;
  }

  // Builds the arrays of the merged lattice; states and arcs keep their order.
  void build() {
    std::vector<int32_t> number(old_.num_states, -1);
    arc_begin_.reserve(num_states_ + 1);
    for (std::vector<float>* costs : {&graph_, &acoustic_, &extra_}) costs->reserve(num_arcs_);
    for (std::vector<float>* costs : {&final_graph_, &final_acoustic_}) costs->reserve(num_states_);
    for (std::vector<int32_t>* numbers : {&dst_, &word_, &lm_word_}) numbers->reserve(num_arcs_);
    for (int64_t state = 0; state < old_.num_states; ++state) {
      if (state_number_[state] == state) number[state] = static_cast<int32_t>(final_graph_.size());
      if (number[state] < 0) continue;
      arc_begin_.push_back(static_cast<int64_t>(dst_.size()));
      final_graph_.push_back(old_.final_graph[state]);
      final_acoustic_.push_back(old_.final_acoustic[state]);
      for (int64_t arc = old_.arc_begin[state]; arc < old_.arc_begin[state + 1]; ++arc) {
        if (arc_number_[arc] != arc) continue;
        dst_.push_back(state_number_[old_.dst[arc]]);
        word_.push_back(old_.word[arc]);
        lm_word_.push_back(old_lm_word_[arc]);
        extra_.push_back(old_extra_[arc]);
        graph_.push_back(old_.graph[arc]);
        acoustic_.push_back(old_.acoustic[arc]);
      }
    }
    arc_begin_.push_back(static_cast<int64_t>(dst_.size()));
    for (int32_t& dst : dst_) dst = number[dst];
    for (int32_t& state : state_number_) state = number[state];
    // The arcs of a representative follow the arcs of the states merged into it, so the numbers of arcs are set last.
    std::vector<int32_t> of_arc(old_.num_arcs, -1);
    int32_t count = 0;
    for (int64_t arc = 0; arc < old_.num_arcs; ++arc) {
      if (arc_number_[arc] == arc) of_arc[arc] = count++;
    }
    for (int32_t& arc : arc_number_) arc = of_arc[arc];
    arcs_ = {num_states_,   num_arcs_,        arc_begin_.data(),   dst_.data(),           word_.data(),
             graph_.data(), acoustic_.data(), final_graph_.data(), final_acoustic_.data()};
  }

  const Arcs old_;
  const int32_t* const old_lm_word_;
  const float* const old_extra_;

  std::vector<int32_t> state_number_, arc_number_;  // merged state and arc of each state and arc of the original
  int64_t num_states_ = 0, num_arcs_ = 0;
  bool has_merged_ = false;
  Arcs arcs_;
  std::vector<int64_t> arc_begin_;
  std::vector<int32_t> dst_, word_, lm_word_;
  std::vector<float> graph_, acoustic_, extra_, final_graph_, final_acoustic_;

  std::vector<Shape> shape_;     // [num_states]; this and all following members are scratch space of the constructor
  std::vector<int32_t> table_;   // representatives by hash, open addressing
  std::vector<int32_t> sorted_;  // distinct arcs of each representative, sorted by hash
  std::vector<Key> keys_;
};

}  // namespace ninja
