// Composition of two lattices over their words.
//
// Composed states are triples of a state of each and the filter: 1 behind an epsilon of the second lattice, after which
// none of the first may be taken until a word was. So each pair of paths with equal words makes just one path, on which
// the first's epsilons come before the second's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lattice.hpp"
#include "core/pair_map.hpp"

namespace ninja {

// States in topological order, those that lead nowhere included.
struct ComposedPair {
  bool too_large = false;               // more than max_arcs arcs: nothing else holds
  std::vector<int64_t> arc_begin;       // [num_states + 1]
  std::vector<int32_t> dst;             // [num_arcs]
  std::vector<int64_t> first, second;   // [num_arcs] arc of either lattice, -1: it stays where it is
  std::vector<int32_t> of_first, of_second;  // [num_states] state of either lattice
};

class PairComposer {
 public:
  PairComposer(const Arcs& a, const Arcs& b, int64_t max_arcs) : a_(a), b_(b), max_arcs_(max_arcs) {}

  ComposedPair compose() {
    sort_second();
    // Every arc raises the sum of the two states: taken in its order, the triples are sorted.
    at_sum_.assign(static_cast<size_t>(a_.num_states + b_.num_states), -1);
    triple(0, 0, 0);
    out_.arc_begin.push_back(0);
    for (size_t sum = 0; sum < at_sum_.size(); ++sum) {
      for (int32_t at = at_sum_[sum]; at >= 0; at = triples_[at].next) {
        leave(at);
        out_.too_large = static_cast<int64_t>(out_.dst.size()) > max_arcs_;
        if (out_.too_large) return std::move(out_);
      }
    }
    for (int32_t& dst : out_.dst) dst = triples_[dst].number;
    return std::move(out_);
  }

 private:
  struct Triple {
    int32_t a, b;
    int32_t filter;
    int32_t next;    // with the same sum, made before
    int32_t number;
  };

  // Arcs of each state of the second lattice in the order of their words; epsilons come first.
  void sort_second() {
    order_.resize(static_cast<size_t>(b_.num_arcs));
    for (int64_t arc = 0; arc < b_.num_arcs; ++arc) order_[arc] = arc;
    const auto before = [this](int64_t x, int64_t y) {
      return b_.word[x] != b_.word[y] ? b_.word[x] < b_.word[y] : x < y;
    };
    for (int64_t state = 0; state < b_.num_states; ++state) {
      std::sort(order_.begin() + b_.arc_begin[state], order_.begin() + b_.arc_begin[state + 1], before);
    }
  }

  int32_t triple(int32_t a, int32_t b, int32_t filter) {
    int32_t& found = known_(a, 2 * b + filter);
    if (found >= 0) return found;
    const int32_t made = found = static_cast<int32_t>(triples_.size());
    int32_t& place = at_sum_[static_cast<size_t>(a) + static_cast<size_t>(b)];
    triples_.push_back({a, b, filter, place, -1});
    place = made;
    return made;
  }

  void add(int64_t first, int64_t second, int32_t to) {
    out_.first.push_back(first);
    out_.second.push_back(second);
    out_.dst.push_back(to);
  }

  void leave(int32_t from) {
    const Triple here = triples_[from];
    triples_[from].number = static_cast<int32_t>(out_.of_first.size());
    out_.of_first.push_back(here.a);
    out_.of_second.push_back(here.b);
    const int64_t* begin = order_.data() + b_.arc_begin[here.b];
    const int64_t* end = order_.data() + b_.arc_begin[here.b + 1];
    for (int64_t arc = a_.arc_begin[here.a]; arc < a_.arc_begin[here.a + 1]; ++arc) {
      const int32_t word = a_.word[arc];
      if (word == 0) {
        if (here.filter == 0) add(arc, -1, triple(a_.dst[arc], here.b, 0));
        continue;
      }
      const int64_t* match = std::lower_bound(begin, end, word, [this](int64_t x, int32_t wanted) { return b_.word[x] < wanted; });
      for (; match != end && b_.word[*match] == word; ++match) add(arc, *match, triple(a_.dst[arc], b_.dst[*match], 0));
    }
    for (const int64_t* each = begin; each != end && b_.word[*each] == 0; ++each) {
      add(-1, *each, triple(here.a, b_.dst[*each], 1));
    }
    out_.arc_begin.push_back(static_cast<int64_t>(out_.dst.size()));
  }

  const Arcs& a_;
  const Arcs& b_;
  const int64_t max_arcs_;
  ComposedPair out_;
  std::vector<int64_t> order_;
  std::vector<Triple> triples_;
  std::vector<int32_t> at_sum_;
  PairMap known_;
};

inline ComposedPair compose_pair(const Arcs& a, const Arcs& b, int64_t max_arcs) {
  return PairComposer(a, b, max_arcs).compose();
}

}  // namespace ninja
