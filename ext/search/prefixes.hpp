// The best word prefixes of a lattice as a trie, and the lattice unfolded along this trie.
#pragma once

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "search/path_ends.hpp"
#include "search/unfold.hpp"

namespace ninja {

// Prefixes are found in order of prospect, which is the cost of the best path that begins with the prefix. The lattice
// is determinized on the fly (a prefix has all states to which it leads), so every prefix occurs once. The first
// prefixes are the best, because no prefix has a better prospect than its own prefixes. A prefix is dropped if better
// prefixes with the same last `merge_order` words (0 means all words) lead to all of its states: the words after it
// would have similar scores. Prefixes are dropped only after the best sentence is complete, because the better prefixes
// may lead to these states at a higher cost.
class Prefixes {
 public:
  Prefixes(const Arcs& arcs, const Scales& scales, const int32_t* lm_word, int32_t eos, double beam, int64_t max_nodes,
           int32_t merge_order, int64_t max_places)
      : arcs_(arcs), scales_(scales), lm_word_(lm_word), eos_(eos),
        max_nodes_(max_nodes > 0 ? max_nodes : std::numeric_limits<int64_t>::max()), merge_order_(merge_order),
        max_places_(max_places), ahead_(costs_ahead(arcs, scales)), places_(arcs, scales, lm_word, kNoWord) {
    if (!(ahead_[0] < kNoPath)) return;
    // Without this small margin, the best path could be outside a beam of 0 because of rounding.
    limit_ = std::min(ahead_[0] + beam + 1e-9 * (1.0 + std::abs(ahead_[0])), std::numeric_limits<double>::max());
    places_.add(PathEnds::start());
    grow(kTrieRoot);
    bool complete = false;  // whether the best sentence is in the trie
    while (!candidates_.empty() && (trie_.size() < max_nodes_ || !complete)) {
      std::pop_heap(candidates_.begin(), candidates_.end());
      const Candidate best = candidates_.back();
      candidates_.pop_back();
      if (best.word != eos_ && !is_news(best) && complete) continue;
      const int32_t node = trie_.child(best.parent, best.word);
      if (best.word == eos_) {
        complete = true;
        bounded_ = true;
        place_begin_.push_back(place_begin_.back());
        continue;
      }
      for (int32_t step = best.first; step < best.last; ++step) places_.add(steps_[step].place);
      grow(node);
    }
  }

  bool empty() const { return trie_.size() == 0; }

  // Unfolds the arcs within the beam: a copy is a pair of a state and a trie node, so that a path whose words are in
  // the trie keeps its whole history. A path whose next word is not in the trie continues from the node with the same
  // word and state whose history has the most last words in common; without such a node, the path ends.
  void unfold(int64_t max_arcs, Unfolded& out) {
    index_by_state();
    const std::vector<char> alive = within_beam();
    StateCopies copies(arcs_, max_arcs, out);
    Trie pairs;  // pairs of a state and a node, stored like a prefix and a word; each pair is a copy
    std::vector<int32_t> node_of;
    const auto copy_of = [&](int32_t state, int32_t node) {
      const int32_t copy = pairs.child(state, node);
      if (copy == static_cast<int32_t>(node_of.size())) {
        node_of.push_back(node);
        copies.add(state);
      }
      return copy;
    };
    copy_of(0, kTrieRoot);
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      for (const int32_t copy : copies.of(state)) {
        const int32_t here = node_of[copy];
        copies.visit(copy, state);
        if (is_final(arcs_, state)) copies.finish(end_after(here, state));
        for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
          if (!alive[arc]) continue;
          const int32_t dst = arcs_.dst[arc];
          if (lm_word_[arc] == kNoWord) {
            copies.add_arc(arc, copy_of(dst, here), kNoNode);
            continue;
          }
          int32_t node = trie_.find(here, lm_word_[arc]);
          if (node == kNoNode) node = nearest(here, lm_word_[arc], dst);
          if (node != kNoNode) copies.add_arc(arc, copy_of(dst, node), node);
        }
      }
    }
    copies.number();
    out.trie = trie_;
  }

 private:
  static constexpr int32_t kNoWord = -1;

  struct Step {  // a place to which a word leads from a prefix
    int32_t word;
    double through;
    PathEnd place;
    bool operator<(const Step& other) const {
      return word != other.word ? word < other.word : place.state < other.place.state;
    }
  };
  struct Candidate {  // a prefix that may become a node
    double prospect;
    int32_t parent;
    int32_t word;
    int32_t first, last;                            // range of steps
    bool operator<(const Candidate& other) const {  // the front of the heap is the cheapest candidate, then the latest
      return prospect != other.prospect ? prospect > other.prospect : first < other.first;
    }
  };

  // Records the states of a prefix; returns whether any of them is new for its last words.
  bool is_news(const Candidate& prefix) {
    if (merge_order_ == 0) return true;
    bool news = false;
    for (int32_t step = prefix.first; step < prefix.last; ++step) {
      const int32_t count = ends_.size();
      int32_t end = ends_.child(kTrieRoot, steps_[step].place.state);
      int32_t above = prefix.parent, word = prefix.word;
      for (int32_t length = 0; length < merge_order_; ++length) {
        end = ends_.child(end, word);
        if (word == kNoWord) break;  // the beginning of the sentence, which counts as a word
        word = above < 0 ? kNoWord : trie_.word(above);
        above = above < 0 ? above : trie_.parent(above);
      }
      news |= ends_.size() > count;
    }
    return news;
  }

  // Stores the collected places of a node, and creates candidates for the words that follow.
  void grow(int32_t node) {
    const size_t begin = pool_.size();
    places_.close(ahead_, limit_, pool_);
    place_begin_.push_back(static_cast<int64_t>(pool_.size()));
    const size_t first_step = steps_.size();
    double end = kNoPath;
    for (size_t at = begin; at < pool_.size(); ++at) {
      const PathEnd place = pool_[at];
      end = std::min(end, place.total + final_cost(arcs_, place.state, scales_));
      for (int64_t arc = arcs_.arc_begin[place.state]; arc < arcs_.arc_begin[place.state + 1]; ++arc) {
        if (lm_word_[arc] == kNoWord) continue;
        const PathEnd next = places_.behind(place, arc);
        const double through = next.total + ahead_[next.state];
        if (through <= limit_) steps_.push_back({lm_word_[arc], through, next});
      }
    }
    if (static_cast<int64_t>(pool_.size() + steps_.size()) > max_places_)
      throw std::overflow_error("too many prefixes");
    std::sort(steps_.begin() + first_step, steps_.end());
    for (size_t from = first_step, to; from < steps_.size(); from = to) {
      double prospect = kNoPath;
      for (to = from; to < steps_.size() && steps_[to].word == steps_[from].word; ++to) {
        prospect = std::min(prospect, steps_[to].through);
      }
      push({prospect, node, steps_[from].word, static_cast<int32_t>(from), static_cast<int32_t>(to)});
    }
    const int32_t none = static_cast<int32_t>(steps_.size());
    if (end <= limit_) push({end, node, eos_, none, none});
  }

  // Stores a candidate, unless the best sentence is complete and the candidate is not better than `max_nodes` others.
  void push(const Candidate& candidate) {
    if (static_cast<int64_t>(known_.size()) >= max_nodes_) {
      if (bounded_ && !(candidate.prospect < known_.front())) return;
      std::pop_heap(known_.begin(), known_.end());
      known_.pop_back();
    }
    known_.push_back(candidate.prospect);
    std::push_heap(known_.begin(), known_.end());
    candidates_.push_back(candidate);
    std::push_heap(candidates_.begin(), candidates_.end());
  }

  // Lists for each state the nodes that lead to it, sorted by their word.
  void index_by_state() {
    nodes_at_.assign(arcs_.num_states, {});
    for (int32_t node = 0; node < trie_.size(); ++node) {
      for (int64_t at = place_begin_[node]; at < place_begin_[node + 1]; ++at) {
        nodes_at_[pool_[at].state].push_back(node);
      }
    }
    for (auto& nodes : nodes_at_) {
      std::stable_sort(nodes.begin(), nodes.end(), [&](int32_t a, int32_t b) { return trie_.word(a) < trie_.word(b); });
    }
  }

  std::vector<char> within_beam() const {
    std::vector<char> alive(arcs_.num_arcs, 0);
    std::vector<double> so_far(arcs_.num_states, kNoPath);
    so_far[0] = 0.0;
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        const double there = so_far[state] + arc_cost(arcs_, arc, scales_);
        if (!(there + ahead_[arcs_.dst[arc]] <= limit_)) continue;
        alive[arc] = 1;
        so_far[arcs_.dst[arc]] = std::min(so_far[arcs_.dst[arc]], there);
      }
    }
    return alive;
  }

  // Number of last words that two prefixes have in common.
  int common_suffix(int32_t a, int32_t b) const {
    int length = 0;
    for (; a >= 0 && b >= 0 && a != b && trie_.word(a) == trie_.word(b); ++length) {
      a = trie_.parent(a);
      b = trie_.parent(b);
    }
    return length;
  }

  // The node of `word` that leads to `state` and has the most last words in common with `history`; in a tie, the
  // node with the best prospect wins.
  int32_t nearest(int32_t history, int32_t word, int32_t state) const {
    const std::vector<int32_t>& nodes = nodes_at_[state];
    auto node = std::lower_bound(nodes.begin(), nodes.end(), word,
                                 [&](int32_t other, int32_t wanted) { return trie_.word(other) < wanted; });
    int32_t best = kNoNode;
    for (int longest = -1; node != nodes.end() && trie_.word(*node) == word; ++node) {
      const int length = common_suffix(history, trie_.parent(*node));
      if (length <= longest) continue;
      longest = length;
      best = *node;
    }
    return best;
  }

  // The node of </s> after `history`, or after the most similar history with which a sentence may end in `state`.
  int32_t end_after(int32_t history, int64_t state) const {
    int32_t best = trie_.find(history, eos_);
    if (best != kNoNode) return best;
    int longest = -1;
    for (const int32_t node : nodes_at_[state]) {
      const int32_t end = trie_.find(node, eos_);
      if (end == kNoNode) continue;
      const int length = common_suffix(history, node);
      if (length > longest || (length == longest && end < best)) {
        longest = length;
        best = end;
      }
    }
    return best;
  }

  const Arcs arcs_;
  const Scales scales_;
  const int32_t* lm_word_;
  const int32_t eos_;
  const int64_t max_nodes_;
  const int32_t merge_order_;
  const int64_t max_places_;
  const std::vector<double> ahead_;  // [num_states] cost of the best completion
  PathEnds places_;
  double limit_ = 0.0;  // cost of a path at the edge of the beam
  bool bounded_ = false;
  Trie trie_;  // nodes in order of prospect
  Trie ends_;  // a state, followed by the last words of the prefixes that lead to it, in reverse order
  std::vector<PathEnd> pool_;
  std::vector<int64_t> place_begin_;  // [nodes + 1] offsets in `pool_`, after the places of the empty prefix
  std::vector<Step> steps_;
  std::vector<Candidate> candidates_;           // heap with the best at the front
  std::vector<double> known_;                   // the best prospects, as a heap with the highest cost at the front
  std::vector<std::vector<int32_t>> nodes_at_;  // [num_states]
};

}  // namespace ninja
