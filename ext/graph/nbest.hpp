// The n best word sequences, each with its best path.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/scales.hpp"

namespace ninja {

// Lawler's partition of the set of all word sequences, with determinization on the fly: a *place* is the set of states
// after a word prefix, each with its best cost, so every prefix and hence every word sequence occurs once. Since the
// cost to the end is known exactly, the estimate of a place is the cost of its best completion: the best word is
// followed without a queue, and every other word on the way is a candidate for another word sequence of known cost.
// Sequences of equal cost come in the order of the states in which they end, as in `best_path`, and then of their arcs.
// Neither candidates beyond the n-th best nor states of a place that lead only to such candidates are stored, so
// memory is bounded even if many paths have the same words.
class NBest {
 public:
  struct Result {
    double cost;
    int32_t end;   // state
    int32_t last;  // last element of the path
  };

  // Find at most n sequences, sorted by cost and end; none if there is no path.
  void search(const Arcs& arcs, const Scales& scales, int64_t n) {
    if (arcs.num_arcs >= kMost) throw std::length_error("too many arcs");
    arcs_ = arcs;
    n_ = n;
    pool_.clear();
    candidates_.clear();
    best_ranks_.clear();
    results_.clear();
    look_back(scales);
    if (!(to_end_[0] < kNoPath)) return;
    pool_.push_back({0.0, 0, kNone, kNone});
    if (admit({to_end_[0], end_[0]})) push({to_end_[0], end_[0], 0, 1});
    while (!candidates_.empty() && static_cast<int64_t>(results_.size()) < n_) {
      std::pop_heap(candidates_.begin(), candidates_.end());
      const Candidate best = candidates_.back();
      candidates_.pop_back();
      follow(best);
    }
    std::stable_sort(results_.begin(), results_.end(),
                     [](const Result& a, const Result& b) { return Rank{a.cost, a.end} < Rank{b.cost, b.end}; });
  }

  const std::vector<Result>& results() const { return results_; }

  void path(const Result& result, std::vector<int64_t>& arcs) const {
    arcs.clear();
    for (int32_t at = result.last; pool_[at].arc != kNone; at = pool_[at].previous) arcs.push_back(pool_[at].arc);
    std::reverse(arcs.begin(), arcs.end());
  }

  // Free the memory of an unusually large lattice.
  void trim() {
    if (pool_.capacity() * sizeof(Element) > (size_t{1} << 26)) *this = NBest();
  }

 private:
  using Rank = std::pair<double, int32_t>;  // the cost of a word sequence and the state in which it ends

  static constexpr int32_t kNone = -1;
  static constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

  struct Element {  // one state of a place
    double cost;    // cost of the best path with the prefix
    int32_t state;
    int32_t arc;       // its last arc
    int32_t previous;  // the element before that arc
  };
  struct Candidate {  // the best word sequence through a place
    double cost;
    int32_t end;                                    // state
    int32_t first;                                  // the place has the elements [first, first + count)
    int32_t count;                                  // 0 if the sequence ends in `first`
    bool operator<(const Candidate& other) const {  // the front of a heap is the largest: cheapest, then earliest
      if (cost != other.cost) return cost > other.cost;
      return end != other.end ? end > other.end : first > other.first;
    }
  };
  struct Step {  // an arc with a word that leaves a place
    int32_t word;
    int32_t dst;
    double cost;
    double through;  // cost of the best path through the arc, from the start to the end
    int32_t arc;
    int32_t previous;
    int32_t end;
    bool operator<(const Step& other) const {
      if (word != other.word) return word < other.word;
      if (dst != other.dst) return dst < other.dst;
      return cost != other.cost ? cost < other.cost : arc < other.arc;
    }
  };
  struct Word {  // the steps of one word
    size_t begin, end;
    Rank through;
  };
  enum : uint8_t { kUnknown, kSimple, kMixed };

  void look_back(const Scales& scales) {
    const int64_t num_states = arcs_.num_states;
    cost_.resize(arcs_.num_arcs);
    through_.resize(arcs_.num_arcs);
    to_end_.resize(num_states);
    stop_cost_.resize(num_states);
    best_arc_.resize(num_states);
    end_.resize(num_states);
    kind_.assign(num_states, kUnknown);
    element_of_.assign(num_states, kNone);
    largest_ = 0.0;
    for (int64_t arc = 0; arc < arcs_.num_arcs; ++arc) {
      cost_[arc] = arc_cost(arcs_, arc, scales);
      largest_ = std::max(largest_, std::abs(cost_[arc]));
    }
    for (int64_t state = num_states - 1; state >= 0; --state) {
      stop_cost_[state] = final_cost(arcs_, state, scales);
      Rank least{stop_cost_[state], static_cast<int32_t>(state)};
      int32_t best = kNone;
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        through_[arc] = cost_[arc] + to_end_[arcs_.dst[arc]];
        const Rank through{through_[arc], end_[arcs_.dst[arc]]};
        if (through_[arc] < kNoPath && through < least) {
          least = through;
          best = static_cast<int32_t>(arc);
        }
      }
      to_end_[state] = least.first;
      end_[state] = least.second;
      best_arc_[state] = best;
    }
  }

  // Whether a candidate is among the n best known so far; if so, count it.
  bool admit(const Rank& rank) {
    if (static_cast<int64_t>(best_ranks_.size()) < n_) {
      best_ranks_.push_back(rank);
      std::push_heap(best_ranks_.begin(), best_ranks_.end());
      return true;
    }
    if (!(rank < best_ranks_.front())) return false;
    std::pop_heap(best_ranks_.begin(), best_ranks_.end());
    best_ranks_.back() = rank;
    std::push_heap(best_ranks_.begin(), best_ranks_.end());
    return true;
  }

  // Largest cost of interest, with a margin for rounding if costs are added in another order, even large costs that
  // cancel.
  double limit() const {
    if (static_cast<int64_t>(best_ranks_.size()) < n_) return std::numeric_limits<double>::max();
    const double worst = best_ranks_.front().first;
    return worst + 1e-9 * (1.0 + std::abs(worst)) + 1e-12 * largest_;
  }

  void push(const Candidate& candidate) {
    candidates_.push_back(candidate);
    std::push_heap(candidates_.begin(), candidates_.end());
  }

  int32_t add(const Element& element) {
    if (static_cast<int64_t>(pool_.size()) >= kMost) throw std::length_error("too many hypotheses; prune first");
    pool_.push_back(element);
    return static_cast<int32_t>(pool_.size() - 1);
  }

  // Whether all arcs of a state, except arcs into dead ends, have different words: then each word leads to one state,
  // and no grouping is needed.
  bool simple(int32_t state) {
    uint8_t& kind = kind_[state];
    if (kind != kUnknown) return kind == kSimple;
    words_seen_.clear();
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      if (through_[arc] < kNoPath) words_seen_.push_back(arcs_.word[arc]);
    }
    std::sort(words_seen_.begin(), words_seen_.end());
    const bool distinct = std::adjacent_find(words_seen_.begin(), words_seen_.end()) == words_seen_.end();
    kind = distinct && (words_seen_.empty() || words_seen_.front() != 0) ? kSimple : kMixed;
    return kind == kSimple;
  }

  // Complete a candidate with the best words, and add a candidate for every other word on the way.
  void follow(Candidate at) {
    while (at.count > 0) {
      const bool single = at.count == 1 && simple(pool_[at.first].state);
      if (!(single ? step_from_state(at) : step_from_set(at))) return;
    }
    results_.push_back({at.cost, at.end, at.first});
  }

  bool step_from_state(Candidate& at) {
    const Element from = pool_[at.first];
    const int32_t state = from.state, best = best_arc_[state];
    if (best != kNone && stop_cost_[state] < kNoPath) {
      const double cost = from.cost + stop_cost_[state];
      if (admit({cost, state})) push({cost, state, at.first, 0});
    }
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      if (arc == best || !(through_[arc] < kNoPath)) continue;
      const double cost = from.cost + through_[arc];
      const int32_t end = end_[arcs_.dst[arc]];
      if (!admit({cost, end})) continue;
      push({cost, end, add({from.cost + cost_[arc], arcs_.dst[arc], static_cast<int32_t>(arc), at.first}), 1});
    }
    if (best == kNone) {
      at.count = 0;
    } else {
      at.first = add({from.cost + cost_[best], arcs_.dst[best], best, at.first});
    }
    return true;
  }

  bool step_from_set(Candidate& at) {
    steps_.clear();
    words_.clear();
    Rank stop{kNoPath, kNone};
    const int32_t stop_at = close(at, stop);
    std::sort(steps_.begin(), steps_.end());
    for (size_t begin = 0, end; begin < steps_.size(); begin = end) {
      Rank least{steps_[begin].through, steps_[begin].end};
      for (end = begin + 1; end < steps_.size() && steps_[end].word == steps_[begin].word; ++end) {
        least = std::min(least, Rank{steps_[end].through, steps_[end].end});
      }
      words_.push_back({begin, end, least});
    }
    size_t best = words_.size();  // the word to follow; none if it is best to stop
    Rank least = stop;
    for (size_t word = 0; word < words_.size(); ++word) {
      if (words_[word].through < least) {
        least = words_[word].through;
        best = word;
      }
    }
    if (!(least.first < kNoPath)) return false;
    if (best < words_.size() && stop.first < kNoPath && admit(stop)) push({stop.first, stop.second, stop_at, 0});
    for (size_t word = 0; word < words_.size(); ++word) {
      if (word != best && admit(words_[word].through)) push(enter(words_[word]));
    }
    at = best < words_.size() ? enter(words_[best]) : Candidate{at.cost, stop.second, stop_at, 0};
    return true;
  }

  // Follow the epsilons from a place, lowest state first, and collect arcs with words in `steps_`.
  // Returns the element where it is best to stop, and its rank in `stop`.
  int32_t close(const Candidate& at, Rank& stop) {
    const double most = limit();
    const auto later = [](int32_t a, int32_t b) { return a > b; };
    agenda_.clear();
    for (int32_t element = at.first; element < at.first + at.count; ++element) {
      element_of_[pool_[element].state] = element;
      agenda_.push_back(pool_[element].state);
    }
    std::make_heap(agenda_.begin(), agenda_.end(), later);
    int32_t stop_at = kNone;
    while (!agenda_.empty()) {
      std::pop_heap(agenda_.begin(), agenda_.end(), later);
      const int32_t state = agenda_.back(), here = element_of_[state];
      agenda_.pop_back();
      element_of_[state] = kNone;
      const double so_far = pool_[here].cost;
      if (so_far + stop_cost_[state] < stop.first) {  // states come in rising order
        stop = {so_far + stop_cost_[state], state};
        stop_at = here;
      }
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (!(so_far + through_[arc] <= most)) continue;
        const int32_t dst = arcs_.dst[arc];
        const Element next{so_far + cost_[arc], dst, static_cast<int32_t>(arc), here};
        if (arcs_.word[arc] != 0) {
          steps_.push_back({arcs_.word[arc], dst, next.cost, so_far + through_[arc], next.arc, here, end_[dst]});
        } else if (element_of_[dst] == kNone) {
          element_of_[dst] = add(next);
          agenda_.push_back(dst);
          std::push_heap(agenda_.begin(), agenda_.end(), later);
        } else if (next.cost < pool_[element_of_[dst]].cost) {
          pool_[element_of_[dst]] = next;  // the arcs of `dst` are visited later, because its number is higher
        }
      }
    }
    return stop_at;
  }

  // Add the place after a word: each state once, with its best cost.
  Candidate enter(const Word& word) {
    Candidate place{word.through.first, word.through.second, static_cast<int32_t>(pool_.size()), 0};
    for (size_t step = word.begin; step < word.end; ++step) {
      if (step > word.begin && steps_[step].dst == steps_[step - 1].dst) continue;
      add({steps_[step].cost, steps_[step].dst, steps_[step].arc, steps_[step].previous});
      ++place.count;
    }
    return place;
  }

  Arcs arcs_{};
  int64_t n_ = 0;
  double largest_ = 0.0;                    // largest absolute cost of an arc
  std::vector<double> cost_, through_;      // [num_arcs], cost of the arc; with the best cost to the end
  std::vector<double> to_end_, stop_cost_;  // [num_states]
  std::vector<int32_t> best_arc_;           // [num_states], kNone if it is best to stop
  std::vector<int32_t> end_;                // [num_states], where the best completion ends
  std::vector<uint8_t> kind_;               // [num_states]
  std::vector<int32_t> element_of_;         // [num_states], element of the place that is being closed
  std::vector<Element> pool_;
  std::vector<Candidate> candidates_;  // heap, cheapest first
  std::vector<Rank> best_ranks_;       // heap, the last first: the n best known word sequences
  std::vector<Result> results_;
  std::vector<int32_t> agenda_, words_seen_;
  std::vector<Step> steps_;
  std::vector<Word> words_;
};

// Append the arcs of the n best paths, and the end of each path.
inline void nbest(const Arcs& arcs, const Scales& scales, int64_t n, std::vector<int64_t>& path_arc,
                  std::vector<int64_t>& path_end) {
  static thread_local NBest search;
  std::vector<int64_t> path;
  search.search(arcs, scales, n);
  for (const NBest::Result& result : search.results()) {
    search.path(result, path);
    path_arc.insert(path_arc.end(), path.begin(), path.end());
    path_end.push_back(static_cast<int64_t>(path_arc.size()));
  }
  search.trim();
}

}  // namespace ninja
