// Pruned determinization over words, as in lattice-determinize-pruned: best first, following epsilons.
//
// Weighted subset construction. A new state is a set of (old state, residual costs, residual alignment) of old states
// that are final or have an arc with a word. Arcs are queued by the cost of the best path through them, so arcs outside
// the beam are never created, and if a bound stops the search, its result is the best part. Costs are added in single
// precision and in Kaldi's order, so that the same path wins among nearly equal paths.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "graph/determinize_pruned_result.hpp"
#include "graph/determinize_pruned_strings.hpp"
#include "core/lattice.hpp"

namespace ninja {

class PrunedDeterminizer {
 public:
  // `keep_arc` selects the arcs to use, each on a path to the end; `rest` is the cost from each state to the end
  // through them.
  PrunedDeterminizer(const ScaledLattice& lattice, const std::vector<uint8_t>& keep_arc,
                     const std::vector<double>& rest, double beam, const DeterminizeBounds& bounds)
      : arcs_(lattice.arcs), labels_(lattice.labels), lattice_(lattice), keep_arc_(keep_arc), rest_(rest),
        best_(rest[0]), cutoff_(rest[0] + beam), beam_(beam), bounds_(bounds), start_table_(bounds.delta),
        table_(bounds.delta), way_(arcs_.num_states), known_(arcs_.num_states, -1), place_(arcs_.num_states, -1) {
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (keep_arc[arc]) way_[state] |= arcs_.word[arc] == 0 ? kEpsilon : kWord;
      }
      if (lattice.is_final(state)) way_[state] |= kFinal;
    }
  }

  SearchedLattice run() {
    follow({{0, 0, {}}});
    if (!spell_wanted() || found_.stopped_by != Bound::kNone) return std::move(found_);
    subset_.clear();
    for (size_t i = 0; i < wanted_.size(); ++i) {
      subset_.push_back({nodes_[wanted_[i]].state, intern(i, 0), nodes_[wanted_[i]].cost});
    }
    add_state(subset_, 0.0, SubsetTable<int32_t>::hash_of(subset_));
    while (!queue_.empty()) {
      const Waiting next = queue_.top();
      if (!out_of_bounds()) {
        queue_.pop();
        take(tasks_[next.task]);
      }
      if (found_.stopped_by != Bound::kNone) {  // a bound was exceeded before or during the task
        found_.effective_beam = std::min(beam_, std::max(0.0, next.priority - best_));
        return std::move(found_);
      }
    }
    found_.effective_beam = beam_;
    return std::move(found_);
  }

 private:
  enum : uint8_t { kEpsilon = 1, kWord = 2, kFinal = 4 };

  // An arc from an element of a subset; the string of the element precedes the labels of the arc.
  struct Step {
    int32_t arc;
    int32_t string;
    PairCost cost;
  };
  struct Task {  // the arcs with a word from a new state, which become one new arc
    int32_t state;
    int32_t word;
    int64_t first;
    int32_t count;
  };
  struct Waiting {
    double priority;
    int32_t task;
    bool operator<(const Waiting& other) const { return priority > other.priority; }
  };
  // A state reached by epsilons, and the last of these epsilons; -1 for a state of the subset itself.
  struct Node {
    int32_t state;
    int32_t arc;
    int32_t before;  // node before the arc, or the string of the element
    PairCost cost;
  };
  // The new state of a subset before its epsilons are followed.
  struct Entrance {
    int32_t state;
    int32_t string;
    PairCost cost;
  };

  const int32_t* ali(int64_t arc) const { return labels_.ali + labels_.ali_begin[arc]; }
  int64_t ali_size(int64_t arc) const { return labels_.ali_begin[arc + 1] - labels_.ali_begin[arc]; }

  void spell(const Step& step, std::vector<int32_t>& to) const {
    to.insert(to.end(), strings_.begin(step.string), strings_.end(step.string));
    to.insert(to.end(), ali(step.arc), ali(step.arc) + ali_size(step.arc));
  }

  void spell(const Node& node, std::vector<int32_t>& to) const {
    const auto begin = static_cast<std::ptrdiff_t>(to.size());
    const Node* at = &node;
    for (; at->arc >= 0; at = &nodes_[at->before]) {
      for (int64_t i = ali_size(at->arc); i > 0; --i) to.push_back(ali(at->arc)[i - 1]);
    }
    std::reverse(to.begin() + begin, to.end());
    to.insert(to.begin() + begin, strings_.begin(at->before), strings_.end(at->before));
  }

  template <class Path>
  bool is_better(const Path& a, const Path& b) {
    if (const int by_cost = compare(a.cost, b.cost)) return by_cost > 0;
    tie_[0].clear();
    tie_[1].clear();
    spell(a, tie_[0]);
    spell(b, tie_[1]);
    return compare_strings(tie_[0], tie_[1]) > 0;
  }

  // Add the state of a subset with its final costs, and a task for each word on its arcs within the beam.
  int32_t add_state(const std::vector<Element>& subset, double forward, uint64_t hash) {
    const auto state = static_cast<int32_t>(forward_.size());
    forward_.push_back(forward);
    if (subset.size() == 1) {  // has no residuals, except at the start, which no arc with a word enters
      known_[subset[0].state] = state;
    } else {
      table_.add(subset, hash, state);
    }
    add_final(subset, forward);
    steps_.clear();
    for (const Element& element : subset) {
      if (!(way_[element.state] & kWord)) continue;
      for (int64_t arc = arcs_.arc_begin[element.state]; arc < arcs_.arc_begin[element.state + 1]; ++arc) {
        if (arcs_.word[arc] == 0 || !keep_arc_[arc]) continue;
        steps_.push_back({static_cast<int32_t>(arc), element.string, element.cost + lattice_.cost(arc)});
      }
    }
    const auto before = [&](const Step& a, const Step& b) {
      if (arcs_.word[a.arc] != arcs_.word[b.arc]) return arcs_.word[a.arc] < arcs_.word[b.arc];
      return arcs_.dst[a.arc] < arcs_.dst[b.arc];
    };
    if (!std::is_sorted(steps_.begin(), steps_.end(), before)) std::sort(steps_.begin(), steps_.end(), before);
    for (size_t i = 0; i < steps_.size();) {
      const int32_t word = arcs_.word[steps_[i].arc];
      const size_t begin = i;
      double priority = kNever;
      for (; i < steps_.size() && arcs_.word[steps_[i].arc] == word; ++i) {
        priority = std::min(priority, total(steps_[i].cost) + rest_[arcs_.dst[steps_[i].arc]]);
      }
      priority += forward;
      if (priority > cutoff_) continue;
      const auto first = static_cast<int64_t>(kept_.size());
      for (size_t j = begin; j < i; ++j) {
        // Kaldi replaces an arc of several labels by a chain, so such arcs are compared after normalization only.
        const bool meets = j > begin && arcs_.dst[steps_[j].arc] == arcs_.dst[kept_.back().arc] &&
                           ali_size(steps_[j].arc) < 2 && ali_size(kept_.back().arc) < 2;
        if (!meets) {
          kept_.push_back(steps_[j]);
        } else if (is_better(steps_[j], kept_.back())) {
          kept_.back() = steps_[j];
        }
      }
      queue_.push({priority, static_cast<int32_t>(tasks_.size())});
      tasks_.push_back({state, word, first, static_cast<int32_t>(static_cast<int64_t>(kept_.size()) - first)});
    }
    return state;
  }

  void add_final(const std::vector<Element>& subset, double forward) {
    const Element* end = nullptr;
    PairCost end_cost;
    for (const Element& element : subset) {
      if (!(way_[element.state] & kFinal)) continue;
      const PairCost stop = element.cost + lattice_.final_cost(element.state);
      int better = end == nullptr ? 1 : compare(stop, end_cost);
      if (better == 0) {
        for (int side = 0; side < 2; ++side) {
          const Element& candidate = side == 0 ? element : *end;
          tie_[side].assign(strings_.begin(candidate.string), strings_.end(candidate.string));
          append_labels(labels_.final_ali, labels_.final_ali_begin, candidate.state, tie_[side]);
        }
        better = compare_strings(tie_[0], tie_[1]);
      }
      if (better > 0) {
        end = &element;
        end_cost = stop;
      }
    }
    const bool is_final = end != nullptr && total(end_cost) + forward <= cutoff_;
    found_.finals.push_back({is_final, end_cost, static_cast<int64_t>(found_.final_ali.size())});
    if (!is_final) return;
    strings_.append_to(end->string, found_.final_ali);
    append_labels(labels_.final_ali, labels_.final_ali_begin, end->state, found_.final_ali);
    ++num_arcs_;
  }

  // Add the arc of a task, and its destination.
  void take(const Task task) {
    NewArc arc{task.state, -1, task.word, {}, static_cast<int64_t>(found_.ali.size())};
    normalize(task, arc);
    if (found_.stopped_by == Bound::kNone) {
      const Entrance entrance = enter(subset_, forward_[task.state] + total(arc.cost));
      if (entrance.state >= 0) {
        arc.cost = arc.cost + entrance.cost;
        arc.dst = entrance.state;
        strings_.append_to(entrance.string, found_.ali);
        found_.arcs.push_back(arc);
        ++num_arcs_;
        return;
      }
    }
    found_.ali.resize(static_cast<size_t>(arc.ali));  // drop labels that belong to no arc
  }

  // Move the common labels and the best cost of the steps of a task to the new arc, and the residuals to `subset_`.
  void normalize(const Task& task, NewArc& arc) {
    const Step* steps = kept_.data() + task.first;
    subset_.clear();
    arc.cost = steps[0].cost;
    if (task.count == 1) {
      spell(steps[0], found_.ali);
      subset_.push_back({arcs_.dst[steps[0].arc], 0, {}});
      return;
    }
    spelled_.clear();
    for (int32_t i = 0; i < task.count; ++i) {
      if (i > 0 && compare(steps[i].cost, arc.cost) > 0) arc.cost = steps[i].cost;
      spell(steps[i], spelled_.labels);
      spelled_.close();
      if (exceeds_memory()) return;
    }
    const size_t shared = spelled_.shared();
    for (int32_t i = 0; i < task.count; ++i) {
      const Element element{arcs_.dst[steps[i].arc], intern(i, shared), steps[i].cost - arc.cost};
      if (!subset_.empty() && subset_.back().state == element.state) {
        Element& other = subset_.back();
        int better = compare(element.cost, other.cost);
        if (better == 0) {
          tie_[0].assign(strings_.begin(element.string), strings_.end(element.string));
          tie_[1].assign(strings_.begin(other.string), strings_.end(other.string));
          better = compare_strings(tie_[0], tie_[1]);
        }
        if (better > 0) other = element;
      } else {
        subset_.push_back(element);
      }
    }
    found_.ali.insert(found_.ali.end(), spelled_.begin(0), spelled_.begin(0) + shared);
    if (subset_.size() == 1) {  // all steps enter one state
      Element& only = subset_[0];
      strings_.append_to(only.string, found_.ali);
      arc.cost = arc.cost + only.cost;
      only = {only.state, 0, {}};
    }
  }

  // Find or add the state of a normalized subset, following its epsilons.
  Entrance enter(const std::vector<Element>& subset, double forward) {
    if (subset.size() == 1 && !(way_[subset[0].state] & kEpsilon)) {
      const int32_t old = subset[0].state;
      if (known_[old] < 0) add_state(subset, forward, 0);  // sets known_[old]
      return {known_[old], 0, {}};
    }
    const uint64_t hash = SubsetTable<Entrance>::hash_of(subset);
    if (const Entrance* found = start_table_.find(subset, hash)) return *found;
    const std::vector<Element> start(subset);  // `subset` may be subset_
    follow(start);
    if (wanted_.empty() || !spell_wanted()) return {-1, 0, {}};
    Entrance entrance{-1, 0, nodes_[wanted_[0]].cost};
    for (const int32_t node : wanted_) {
      if (compare(nodes_[node].cost, entrance.cost) > 0) entrance.cost = nodes_[node].cost;
    }
    const size_t shared = spelled_.shared();
    entrance.string = strings_.intern(spelled_.labels.data(), shared);
    subset_.clear();
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const Node& node = nodes_[wanted_[i]];
      subset_.push_back({node.state, intern(i, shared), node.cost - entrance.cost});
    }
    forward += total(entrance.cost);
    if (subset_.size() == 1) {
      const int32_t old = subset_[0].state;
      if (known_[old] < 0) add_state(subset_, forward, 0);
      entrance.state = known_[old];
    } else {
      const uint64_t name = SubsetTable<int32_t>::hash_of(subset_);
      const int32_t* found = table_.find(subset_, name);
      entrance.state = found != nullptr ? *found : add_state(subset_, forward, name);
    }
    start_table_.add(start, hash, entrance);
    return entrance;
  }

  // Follow epsilons from a subset. `nodes_` are all states reached, with the best path to each; `wanted_` are those
  // that are final or have an arc with a word, in order.
  void follow(const std::vector<Element>& start) {
    nodes_.clear();
    wanted_.clear();
    for (const Element& element : start) {
      place_[element.state] = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({element.state, -1, element.string, element.cost});
      open_.push(element.state);
    }
    int64_t followed = 0;
    while (!open_.empty()) {  // epsilons enter later states: the path to the first open state is final
      const int32_t state = open_.top();
      open_.pop();
      const int32_t here = place_[state];
      if (way_[state] & (kWord | kFinal)) wanted_.push_back(here);
      if (bounds_.max_loop > 0 && ++followed > bounds_.max_loop) found_.stopped_by = Bound::kLoop;
      if (!(way_[state] & kEpsilon) || found_.stopped_by == Bound::kLoop) continue;
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        if (arcs_.word[arc] != 0 || !keep_arc_[arc]) continue;
        const int32_t dst = arcs_.dst[arc];
        const Node node{dst, static_cast<int32_t>(arc), here, nodes_[here].cost + lattice_.cost(arc)};
        if (place_[dst] < 0) {
          place_[dst] = static_cast<int32_t>(nodes_.size());
          nodes_.push_back(node);
          open_.push(dst);
        } else if (is_better(node, nodes_[place_[dst]])) {
          nodes_[place_[dst]] = node;
        }
      }
    }
    for (const Node& node : nodes_) place_[node.state] = -1;
  }

  // Spell the strings of the wanted nodes; false if they exceed the memory bound.
  bool spell_wanted() {
    spelled_.clear();
    for (const int32_t node : wanted_) {
      spell(nodes_[node], spelled_.labels);
      spelled_.close();
      if (exceeds_memory()) return false;
    }
    return true;
  }

  // Return whether the spelled strings alone exceed the memory bound.
  bool exceeds_memory() {
    if (bounds_.max_mem <= 0 || spelled_.bytes() <= bounds_.max_mem) return false;
    found_.stopped_by = Bound::kMemory;
    return true;
  }

  // Intern a spelled string without its first `from` labels.
  int32_t intern(size_t string, size_t from) {
    return strings_.intern(spelled_.begin(string) + from, spelled_.size(string) - from);
  }

  int64_t bytes() const {
    return strings_.bytes() + start_table_.bytes() + table_.bytes() + found_.bytes() +
           static_cast<int64_t>(sizeof(Step) * kept_.size() + sizeof(Task) * tasks_.size() +
                                sizeof(Waiting) * queue_.size() + sizeof(double) * forward_.size());
  }

  bool out_of_bounds() {
    const auto over = [](int64_t count, int64_t most) { return most > 0 && count > most; };
    if (over(num_arcs_, bounds_.max_arcs)) found_.stopped_by = Bound::kArcs;
    if (over(static_cast<int64_t>(forward_.size()), bounds_.max_states)) found_.stopped_by = Bound::kStates;
    if (over(bytes(), bounds_.max_mem)) found_.stopped_by = Bound::kMemory;
    return found_.stopped_by != Bound::kNone;
  }

  const Arcs& arcs_;
  const Alignments& labels_;
  const ScaledLattice& lattice_;
  const std::vector<uint8_t>& keep_arc_;
  const std::vector<double>& rest_;
  const double best_, cutoff_, beam_;
  const DeterminizeBounds& bounds_;

  LabelStrings strings_;
  SubsetTable<Entrance> start_table_;  // subsets before their epsilons are followed
  SubsetTable<int32_t> table_;         // subsets of the new states
  std::vector<uint8_t> way_;           // [num_states], the ways to leave a state
  std::vector<int32_t> known_;         // [num_states], new state of the subset of this state alone, without residuals
  std::vector<double> forward_;        // cost of the best path to each new state
  std::vector<Task> tasks_;
  std::vector<Step> kept_;  // steps of the waiting tasks
  std::priority_queue<Waiting> queue_;
  int64_t num_arcs_ = 0;  // includes final states
  SearchedLattice found_;
  std::vector<Step> steps_;  // this and all following members are buffers
  std::vector<Element> subset_;
  std::vector<Node> nodes_;
  std::vector<int32_t> wanted_, place_, tie_[2];
  SpelledStrings spelled_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<int32_t>> open_;
};

}  // namespace ninja
