// Prefix beam search over the frames of a CTC model: the most probable unit sequences, alignments summed.
//
// A prefix is a sequence of units cut into words. Its probability is that of all its alignments so far, kept apart by
// their last frame: blank or the last unit. Beside the sums goes the best single alignment, for times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "ctc_problem.hpp"

namespace ninja {

class CtcSearch {
 public:
  CtcSearch(const CtcUnits& units, const CtcLexicon& lexicon, const CtcBeam& beam)
      : units_(units), lexicon_(lexicon), beam_(beam) {
    for (int64_t unit = 0; unit < units.num_units; ++unit) {
      if (units.kind[unit] == kCtcBoundary) boundaries_.push_back(static_cast<int32_t>(unit));
    }
    cuts_ = boundaries_.empty() && lexicon.num_states > 0;
  }

  // `logprob` [num_frames, num_units], row by row.
  void search(const double* logprob, int64_t num_frames, CtcResult& result) {
    nodes_.assign(1, {kNone, kNone, lexicon_.num_states ? 0 : kNone, false, false});
    slot_of_.assign(1, 0);
    marks_.clear();
    child_.clear();
    child_.reserve(1 << 14);
    now_.assign(1, {0, {0.0, {0.0, kNone, kNone}}, {kLogZero, {kLogZero, kNone, kNone}}, 0.0});
    for (int64_t frame = 0; frame < num_frames; ++frame) {
      advance(logprob + frame * units_.num_units, static_cast<int32_t>(frame));
      if (nodes_.size() + marks_.size() > garbage_) collect();
    }
    write(result);
  }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr size_t kLeast = size_t{1} << 10;
  static constexpr double kLogZero = -std::numeric_limits<double>::infinity();
  static constexpr double kNegligible = 40.0;  // nats; adding less than exp(-40) of a number does not change it

  struct Node {      // a prefix: its parent and one unit more
    int32_t parent;
    int32_t unit;
    int32_t state;   // of the lexicon
    bool begins;     // the unit begins a word
    bool open;       // the prefix ends within a word, or at the end of one that nothing has closed yet
  };
  struct Way {       // the best alignment
    double score;
    int32_t mark;    // when its last unit began
    int32_t last;    // frame in which that unit was seen last
  };
  struct Score {
    double total;    // of all alignments
    Way way;
  };
  struct Prefix {
    int32_t node;
    Score blank;     // alignments that end with a blank
    Score label;     // with the last unit, or a boundary that adds nothing
    double total;    // both
  };
  struct Mark {      // a unit of an alignment
    int32_t previous;
    int32_t first;          // frame
    int32_t previous_last;  // last frame of the unit before
    double before;          // log-probability of the alignment before the first frame
  };
  struct Candidate {
    double score;
    int32_t slot;
    int32_t column;  // 0: the prefix as it is; 1 + 2 * unit + begins: with a unit more
    bool operator<(const Candidate& other) const {
      if (score != other.score) return score > other.score;
      return slot != other.slot ? slot < other.slot : column < other.column;
    }
  };

  static double log_add(double a, double b) {
    if (a < b) std::swap(a, b);
    return b < a - kNegligible || b == kLogZero ? a : a + std::log1p(std::exp(b - a));
  }

  static void add(Score& to, double total, const Way& way) {
    to.total = log_add(to.total, total);
    if (way.score > to.way.score) to.way = way;
  }

  const Way& better(const Prefix& prefix) const {
    return prefix.label.way.score > prefix.blank.way.score ? prefix.label.way : prefix.blank.way;
  }

  // The state of the lexicon after a unit, kNone: not allowed. Without a lexicon, kAnything.
  static constexpr int32_t kAnything = -2;
  int32_t spell(int32_t state, int32_t unit) const {
    if (!lexicon_.num_states) return kAnything;
    const int32_t* first = lexicon_.unit + lexicon_.child_begin[state];
    const int32_t* last = lexicon_.unit + lexicon_.child_begin[state + 1];
    const int32_t* found = std::lower_bound(first, last, unit);
    return found == last || *found != unit ? kNone : lexicon_.child[found - lexicon_.unit];
  }
  bool ends_here(const Node& node) const { return !node.open || !lexicon_.num_states || lexicon_.is_word[node.state]; }

  // Where a unit may lead from a prefix: on within the word, or to a new one.
  int32_t lead(const Node& node, int32_t unit, bool begins) const {
    const uint8_t kind = units_.kind[unit];
    if (kind == kCtcBoundary) {
      if (begins || !node.open || !ends_here(node)) return kNone;
      return lexicon_.num_states ? 0 : kAnything;
    }
    if (!begins) return node.open && kind == kCtcInside ? spell(node.state, unit) : kNone;
    if (node.open) {
      if (!ends_here(node)) return kNone;
      // Units that say nothing of words need a boundary between these, unless there is none and a lexicon cuts.
      if (kind == kCtcInside && !cuts_) return kNone;
    }
    return spell(0, unit);
  }

  void choose_units(const double* frame) {
    tried_.resize(units_.num_units);
    std::iota(tried_.begin(), tried_.end(), 0);
    const auto before = [frame](int32_t a, int32_t b) { return frame[a] != frame[b] ? frame[a] > frame[b] : a < b; };
    if (beam_.max_units > 0 && beam_.max_units < units_.num_units) {
      std::nth_element(tried_.begin(), tried_.begin() + beam_.max_units, tried_.end(), before);
      tried_.resize(beam_.max_units);
    }
    tried_.erase(std::remove_if(tried_.begin(), tried_.end(),
                                [this, frame](int32_t unit) {
                                  return units_.kind[unit] == kCtcNever || !(frame[unit] > kLogZero);
                                }),
                 tried_.end());
    std::sort(tried_.begin(), tried_.end(), before);
    is_tried_.assign(units_.num_units, 0);
    for (int32_t unit : tried_) is_tried_[unit] = 1;
  }

  int32_t marked(const Way& from, int32_t frame) {
    marks_.push_back({from.mark, frame, from.last, from.score});
    return static_cast<int32_t>(marks_.size() - 1);
  }

  // The same prefixes one frame later; what leads from one of them to another is taken along.
  void stay(const double* frame, int32_t number) {
    const size_t count = now_.size();
    later_.resize(count);
    taken_.clear();
    for (size_t slot = 0; slot < count; ++slot) {
      const Prefix& prefix = now_[slot];
      const Node& node = nodes_[prefix.node];
      Prefix& next = later_[slot];
      next.node = prefix.node;
      const Way& way = better(prefix);
      const double blank = frame[units_.blank];
      next.blank = {prefix.total + blank, {way.score + blank, way.mark, way.last}};
      next.label = {kLogZero, {kLogZero, kNone, kNone}};
      if (!node.open) {  // a boundary more adds nothing
        for (int32_t unit : boundaries_) {
          add(next.label, prefix.total + frame[unit], {way.score + frame[unit], way.mark, way.last});
        }
        continue;
      }
      const double again = frame[node.unit];
      const Way& same = prefix.label.way;
      add(next.label, prefix.label.total + again, {same.score + again, same.mark, number});
    }
    for (size_t slot = 0; slot < count; ++slot) {
      const Node& node = nodes_[now_[slot].node];
      if (node.parent == kNone || !is_tried_[node.unit]) continue;
      const int32_t above = slot_of_[node.parent];
      if (above == kNone) continue;
      const Prefix& parent = now_[above];
      const bool twice = nodes_[node.parent].unit == node.unit;  // needs a blank between
      const Way& way = twice ? parent.blank.way : better(parent);
      const double score = (twice ? parent.blank.total : parent.total) + frame[node.unit];
      taken_.push_back(above * columns() + column(node.unit, node.begins));
      if (!(score > kLogZero)) continue;
      Score& label = later_[slot].label;
      label.total = log_add(label.total, score);
      if (way.score + frame[node.unit] > label.way.score) {
        label.way = {way.score + frame[node.unit], marked(way, number), number};
      }
    }
    std::sort(taken_.begin(), taken_.end());
    for (Prefix& next : later_) next.total = log_add(next.blank.total, next.label.total);
  }

  static int32_t column(int32_t unit, bool begins) { return 1 + 2 * unit + (begins ? 1 : 0); }
  int64_t columns() const { return 1 + 2 * units_.num_units; }

  // Keep the best candidates if there are more than `most` and the beam has room for.
  // Returns a score that those that come must not be below.
  double trim(int64_t most) {
    if (beam_.beam == 0 || static_cast<int64_t>(candidates_.size()) < std::max(most, beam_.beam)) return kLogZero;
    std::nth_element(candidates_.begin(), candidates_.begin() + (beam_.beam - 1), candidates_.end());
    candidates_.resize(beam_.beam);
    return candidates_.back().score;
  }

  void propose(const double* frame) {
    candidates_.clear();
    for (size_t slot = 0; slot < later_.size(); ++slot) {
      if (later_[slot].total > kLogZero) candidates_.push_back({later_[slot].total, static_cast<int32_t>(slot), 0});
    }
    double least = trim(0);
    auto taken = taken_.begin();
    for (size_t slot = 0; slot < now_.size(); ++slot) {
      const Prefix& prefix = now_[slot];
      const Node& node = nodes_[prefix.node];
      const int64_t base = static_cast<int64_t>(slot) * columns();
      const auto taken_here = taken;
      if (beam_.beam > 0) least = std::max(least, trim(2 * beam_.beam));
      while (taken != taken_.end() && *taken < base + columns()) ++taken;
      for (int32_t unit : tried_) {
        if (prefix.total + frame[unit] < least) break;  // units come most probable first
        const double from = node.unit == unit ? prefix.blank.total : prefix.total;
        const double score = from + frame[unit];
        if (score < least || !(score > kLogZero)) continue;
        const bool within = units_.kind[unit] == kCtcBoundary || (node.open && units_.kind[unit] == kCtcInside);
        for (const bool begins : {false, true}) {
          if (begins ? within && !cuts_ : !within) continue;
          if (lead(node, unit, begins) == kNone) continue;
          const int32_t place = column(unit, begins);
          if (std::find(taken_here, taken, base + place) != taken) continue;
          candidates_.push_back({score, static_cast<int32_t>(slot), place});
        }
      }
    }
    trim(0);
    std::sort(candidates_.begin(), candidates_.end());
    if (candidates_.empty()) return;
    const double worst = candidates_.front().score - beam_.score_beam;
    while (candidates_.back().score < worst) candidates_.pop_back();
  }

  int32_t child(int32_t parent, int32_t place) {
    const int64_t key = static_cast<int64_t>(parent) * columns() + place;
    const auto found = child_.find(key);
    if (found != child_.end()) return found->second;
    const int32_t unit = (place - 1) / 2;
    const bool begins = (place - 1) % 2 == 1;
    const int32_t state = lead(nodes_[parent], unit, begins);
    const bool open = units_.kind[unit] != kCtcBoundary;
    const int32_t made = static_cast<int32_t>(nodes_.size());
    nodes_.push_back({parent, unit, state == kAnything ? kNone : state, begins, open});
    slot_of_.push_back(kNone);
    child_.emplace(key, made);
    return made;
  }

  void advance(const double* frame, int32_t number) {
    choose_units(frame);
    stay(frame, number);
    propose(frame);
    for (const Prefix& prefix : now_) slot_of_[prefix.node] = kNone;
    next_.clear();
    for (const Candidate& candidate : candidates_) {
      if (candidate.column == 0) {
        next_.push_back(later_[candidate.slot]);
        continue;
      }
      const Prefix& from = now_[candidate.slot];
      const int32_t unit = (candidate.column - 1) / 2;
      const bool twice = nodes_[from.node].unit == unit;
      const Way& way = twice ? from.blank.way : better(from);
      const Way on{way.score + frame[unit], marked(way, number), number};
      next_.push_back({child(from.node, candidate.column), {kLogZero, {kLogZero, kNone, kNone}},
                       {candidate.score, on}, candidate.score});
    }
    std::swap(now_, next_);
    for (size_t slot = 0; slot < now_.size(); ++slot) slot_of_[now_[slot].node] = static_cast<int32_t>(slot);
  }

  // Forget prefixes and marks that no kept prefix comes from, so that memory does not grow with the frames.
  void collect() {
    std::vector<int32_t> node_to(nodes_.size(), kNone), mark_to(marks_.size(), kNone);
    for (const Prefix& prefix : now_) {
      for (int32_t node = prefix.node; node != kNone && node_to[node] == kNone; node = nodes_[node].parent) {
        node_to[node] = 0;
      }
      for (const Way* way : {&prefix.blank.way, &prefix.label.way}) {
        for (int32_t mark = way->mark; mark != kNone && mark_to[mark] == kNone; mark = marks_[mark].previous) {
          mark_to[mark] = 0;
        }
      }
    }
    node_to[0] = 0;  // the empty prefix stays the first
    child_.clear();
    int32_t kept = 0;
    for (size_t node = 0; node < nodes_.size(); ++node) {  // parents come before their children
      if (node_to[node] == kNone) continue;
      Node moved = nodes_[node];
      if (moved.parent != kNone) {
        moved.parent = node_to[moved.parent];
        child_.emplace(static_cast<int64_t>(moved.parent) * columns() + column(moved.unit, moved.begins), kept);
      }
      slot_of_[kept] = slot_of_[node];
      nodes_[kept] = moved;
      node_to[node] = kept++;
    }
    nodes_.resize(kept);
    slot_of_.resize(kept);
    kept = 0;
    for (size_t mark = 0; mark < marks_.size(); ++mark) {
      if (mark_to[mark] == kNone) continue;
      Mark moved = marks_[mark];
      if (moved.previous != kNone) moved.previous = mark_to[moved.previous];
      marks_[kept] = moved;
      mark_to[mark] = kept++;
    }
    marks_.resize(kept);
    for (Prefix& prefix : now_) {
      prefix.node = node_to[prefix.node];
      for (Way* way : {&prefix.blank.way, &prefix.label.way}) {
        if (way->mark != kNone) way->mark = mark_to[way->mark];
      }
    }
    garbage_ = std::max(kLeast, 2 * (nodes_.size() + marks_.size()));
  }

  void write(CtcResult& result) {
    result.word_begin.assign(1, 0);
    result.unit_begin.assign(1, 0);
    std::vector<int32_t> path, marks, lasts;
    for (const Prefix& prefix : now_) {
      if (!ends_here(nodes_[prefix.node]) || !(prefix.total > kLogZero)) continue;
      const Way& way = better(prefix);
      result.total.push_back(prefix.total);
      result.best.push_back(way.score);
      path.clear();
      marks.clear();
      lasts.clear();
      int32_t mark = way.mark, last = way.last;
      for (int32_t node = prefix.node; nodes_[node].parent != kNone; node = nodes_[node].parent) {
        path.push_back(node);
        marks.push_back(mark);
        lasts.push_back(last);
        last = marks_[mark].previous_last;
        mark = marks_[mark].previous;
      }
      for (size_t at = path.size(); at-- > 0;) {
        const Node& node = nodes_[path[at]];
        if (!node.open) continue;
        if (node.begins) {
          result.unit_begin.push_back(static_cast<int64_t>(result.unit.size()));
          result.first.push_back(marks_[marks[at]].first);
          result.before.push_back(marks_[marks[at]].before);
          result.end.push_back(0);
          result.state.push_back(kNone);
        }
        result.unit.push_back(node.unit);
        result.unit_first.push_back(marks_[marks[at]].first);
        result.unit_end.push_back(lasts[at] + 1);
        result.unit_begin.back() = static_cast<int64_t>(result.unit.size());
        result.end.back() = lasts[at] + 1;
        result.state.back() = node.state;
      }
      result.word_begin.push_back(static_cast<int64_t>(result.first.size()));
    }
  }

  const CtcUnits units_;
  const CtcLexicon lexicon_;
  const CtcBeam beam_;
  std::vector<int32_t> boundaries_, tried_;
  bool cuts_ = false;                    // only the lexicon says where a word ends
  std::vector<uint8_t> is_tried_;        // [num_units]
  std::vector<Node> nodes_;
  std::vector<int32_t> slot_of_;         // [nodes], place in `now_`
  std::unordered_map<int64_t, int32_t> child_;
  std::vector<Mark> marks_;
  size_t garbage_ = kLeast;              // nodes and marks from which on it is worth looking for unused ones
  std::vector<Prefix> now_, later_, next_;
  std::vector<int64_t> taken_;           // (slot, column) that lead to a prefix of `now_`
  std::vector<Candidate> candidates_;
};

}  // namespace ninja
