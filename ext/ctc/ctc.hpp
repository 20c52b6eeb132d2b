// CTC prefix beam search: the most probable unit sequences, summed over alignments.
//
// A prefix is a sequence of units divided into words. Its probability is the sum over all its alignments so far, with
// separate sums for alignments that end with a blank and with the last unit. The best single alignment determines
// times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "ctc/ctc_best.hpp"
#include "ctc/ctc_prefixes.hpp"
#include "ctc/ctc_problem.hpp"

namespace ninja {

class CtcSearch {
 public:
  CtcSearch(const CtcUnits& units, const CtcLexicon& lexicon, const CtcBeam& beam)
      : units_(units), beam_(beam), prefixes_(units, lexicon) {
    for (int32_t unit = 0; unit < units.num_units; ++unit) {
      if (units.kind[unit] == kCtcBoundary) boundaries_.push_back(unit);
      if (units.kind[unit] != kCtcNever) allowed_.push_back(unit);
    }
    longer_.assign(1 + 2 * units.num_units, {0, kCtcNone});
  }

  // `logprob` [num_frames, num_units], row by row.
  void search(const double* logprob, int64_t num_frames, CtcResult& result) {
    slot_of_.assign(1, 0);
    now_.assign(1, {0, {0.0, {0.0, kCtcNone, kCtcNone}}, {kLogZero, {kLogZero, kCtcNone, kCtcNone}}, 0.0});
    for (int64_t frame = 0; frame < num_frames; ++frame) {
      advance(logprob + frame * units_.num_units, static_cast<int32_t>(frame));
      if (slot_of_.size() + marks_.size() > garbage_) collect();
    }
    write(num_frames, result);
  }

 private:
  using Node = CtcPrefixes::Node;
  static constexpr size_t kLeast = size_t{1} << 13;
  static constexpr double kLogZero = -std::numeric_limits<double>::infinity();
  static constexpr double kNegligible = 40.0;  // nats; adding exp(-40) times a number to the number does not change it

  struct Way {  // the best alignment of a prefix
    double score;
    int32_t mark;  // index of the alignment's last unit in `marks_`
    int32_t last;  // last frame of this unit
  };
  struct Score {
    double total;  // log-probability of all alignments
    Way way;
  };
  struct Prefix {
    int32_t node;
    Score blank;   // alignments that end with a blank
    Score label;   // alignments that end with the last unit, or with a repeated boundary
    double total;  // log-probability of all alignments
  };
  struct Mark {  // a unit of an alignment
    int32_t previous;
    int32_t first;          // first frame of the unit
    int32_t previous_last;  // last frame of the previous unit
    double before;          // log-probability of the alignment before the first frame
  };

  struct Longer {   // an existing prefix with one more unit
    int64_t round;  // round in which the entry is valid
    int32_t node;
  };

  static double log_add(double a, double b) {
    if (a < b) std::swap(a, b);
    return b < a - kNegligible || b == kLogZero ? a : a + std::log1p(std::exp(b - a));
  }

  static void add(Score& to, double total, const Way& way) {
    to.total = log_add(to.total, total);
    if (way.score > to.way.score) to.way = way;
  }

  static const Way& better(const Prefix& prefix) {
    return prefix.label.way.score > prefix.blank.way.score ? prefix.label.way : prefix.blank.way;
  }

  int32_t marked(const Way& from, int32_t frame) {
    marks_.push_back({from.mark, frame, from.last, from.score});
    return static_cast<int32_t>(marks_.size() - 1);
  }

  static bool before(const double* frame, int32_t a, int32_t b) {
    return frame[a] != frame[b] ? frame[a] > frame[b] : a < b;
  }

  // Select the units that are tried at a frame.
  void choose_units(const double* frame) {
    if (beam_.max_units == 0 || beam_.max_units >= units_.num_units) return;
    tried_.resize(units_.num_units);
    std::iota(tried_.begin(), tried_.end(), 0);
    std::nth_element(tried_.begin(), tried_.begin() + beam_.max_units, tried_.end(),
                     [frame](int32_t a, int32_t b) { return before(frame, a, b); });
    tried_.resize(beam_.max_units);
    chosen_.assign(units_.num_units, 0);
    allowed_.clear();
    for (int32_t unit : tried_) {
      chosen_[unit] = 1;
      if (units_.kind[unit] != kCtcNever) allowed_.push_back(unit);
    }
  }
  bool is_chosen(int32_t unit) const { return chosen_.empty() || chosen_[unit]; }

  // Compute the same prefixes one frame later, including transitions between prefixes of the beam.
  void stay(const double* frame, int32_t number) {
    const int32_t count = static_cast<int32_t>(now_.size());
    later_.resize(count);
    const double blank = frame[units_.blank];
    for (int32_t slot = 0; slot < count; ++slot) {
      const Prefix& prefix = now_[slot];
      const Node& node = prefixes_[prefix.node];
      Prefix& next = later_[slot];
      next.node = prefix.node;
      const Way& way = better(prefix);
      next.blank = {prefix.total + blank, {way.score + blank, way.mark, way.last}};
      next.label = {kLogZero, {kLogZero, kCtcNone, kCtcNone}};
      if (node.open) {
        const double again = frame[node.unit];
        const Way& same = prefix.label.way;
        add(next.label, prefix.label.total + again, {same.score + again, same.mark, number});
      } else {  // a repeated boundary does not change the prefix
        for (int32_t unit : boundaries_) {
          add(next.label, prefix.total + frame[unit], {way.score + frame[unit], way.mark, way.last});
        }
      }
      const int32_t above = node.parent == kCtcNone ? kCtcNone : slot_of_[node.parent];
      if (above != kCtcNone && is_chosen(node.unit))
        add_parent(now_[above], node, frame[node.unit], number, next.label);
      next.total = log_add(next.blank.total, next.label.total);
    }
  }

  // Add the alignments of the parent, followed by the last unit.
  void add_parent(const Prefix& parent, const Node& node, double logprob, int32_t number, Score& label) {
    const bool is_repeated = prefixes_[parent.node].unit == node.unit;  // a repeated unit requires a blank before it
    const Way& way = is_repeated ? parent.blank.way : better(parent);
    const double score = (is_repeated ? parent.blank.total : parent.total) + logprob;
    if (!(score > kLogZero)) return;
    label.total = log_add(label.total, score);
    if (way.score + logprob > label.way.score) label.way = {way.score + logprob, marked(way, number), number};
  }

  // Select the best among the prefixes of the beam and their extensions by one unit.
  const std::vector<CtcCandidate>& propose(const double* frame) {
    double best = kLogZero, worst = std::numeric_limits<double>::infinity();
    int64_t possible = 0;
    for (const Prefix& next : later_) {
      if (!(next.total > kLogZero)) continue;
      ++possible;
      best = std::max(best, next.total);
      worst = std::min(worst, next.total);
    }
    if (beam_.beam == 0 || possible < beam_.beam) worst = kLogZero;
    double likely = kLogZero;
    for (int32_t unit : allowed_) likely = std::max(likely, frame[unit]);
    const double most = now_.empty() ? kLogZero : now_[0].total;  // the first prefix is the best
    best_.begin(beam_.beam, std::max(worst, best - beam_.score_beam), std::max(best, most + likely));
    for (size_t slot = 0; slot < later_.size(); ++slot) {
      const double total = later_[slot].total;
      if (total >= best_.edge()) best_.offer({total, static_cast<int32_t>(slot), 0, later_[slot].node});
    }
    tried_.clear();
    for (int32_t unit : allowed_) {
      if (most + frame[unit] >= best_.edge()) tried_.push_back(unit);
    }
    std::sort(tried_.begin(), tried_.end(), [frame](int32_t a, int32_t b) { return before(frame, a, b); });
    for (size_t slot = 0; slot < now_.size(); ++slot) {
      if (tried_.empty() || now_[slot].total + frame[tried_[0]] < best_.edge()) break;
      extend(static_cast<int32_t>(slot), frame);
    }
    return best_.sorted();
  }

  // Add candidates for the prefix followed by each allowed unit, except prefixes that are already in the beam.
  void extend(int32_t slot, const double* frame) {
    const Prefix& prefix = now_[slot];
    const Node& node = prefixes_[prefix.node];
    ++round_;
    for (int32_t child = node.child; child != kCtcNone; child = prefixes_[child].sibling) {
      const int32_t column = CtcPrefixes::column(prefixes_[child].unit, prefixes_[child].begins);
      longer_[column] = {round_, child};
    }
    const auto offer = [&](int32_t unit, int32_t column) {
      const double score = (node.unit == unit ? prefix.blank.total : prefix.total) + frame[unit];
      if (score < best_.edge()) return;
      const int32_t child = longer_[column].round == round_ ? longer_[column].node : kCtcNone;
      if (child == kCtcNone || slot_of_[child] == kCtcNone) best_.offer({score, slot, column, child});
    };
    if (const int32_t* column = prefixes_.following(node)) {
      for (int32_t unit : tried_) {
        if (prefix.total + frame[unit] < best_.edge()) break;  // units are sorted by decreasing probability
        if (column[unit] != kCtcNone) offer(unit, column[unit]);
      }
    }
    prefixes_.within(node, [&](int32_t unit) {
      if (is_chosen(unit)) offer(unit, CtcPrefixes::column(unit, false));
    });
  }

  void advance(const double* frame, int32_t number) {
    choose_units(frame);
    stay(frame, number);
    const std::vector<CtcCandidate>& candidates = propose(frame);
    for (const Prefix& prefix : now_) slot_of_[prefix.node] = kCtcNone;
    next_.clear();
    for (const CtcCandidate& candidate : candidates) {
      if (candidate.score < candidates[0].score - beam_.score_beam) break;
      if (candidate.column == 0) {
        next_.push_back(later_[candidate.slot]);
        continue;
      }
      const Prefix& from = now_[candidate.slot];
      const int32_t unit = CtcPrefixes::unit_of(candidate.column);
      const Way& way = prefixes_[from.node].unit == unit ? from.blank.way : better(from);
      const Way on{way.score + frame[unit], marked(way, number), number};
      const int32_t node = candidate.node == kCtcNone ? prefixes_.add(from.node, candidate.column) : candidate.node;
      next_.push_back({node, {kLogZero, {kLogZero, kCtcNone, kCtcNone}}, {candidate.score, on}, candidate.score});
    }
    slot_of_.resize(prefixes_.size(), kCtcNone);
    std::swap(now_, next_);
    for (size_t slot = 0; slot < now_.size(); ++slot) slot_of_[now_[slot].node] = static_cast<int32_t>(slot);
  }

  // Remove prefixes and marks without a successor in the beam, so that memory does not grow with the frames.
  void collect() {
    node_to_.assign(prefixes_.size(), kCtcNone);
    mark_to_.assign(marks_.size(), kCtcNone);
    for (const Prefix& prefix : now_) {
      for (int32_t node = prefix.node; node != kCtcNone && node_to_[node] == kCtcNone; node = prefixes_[node].parent) {
        node_to_[node] = 0;
      }
      for (const Way* way : {&prefix.blank.way, &prefix.label.way}) {
        for (int32_t mark = way->mark; mark != kCtcNone && mark_to_[mark] == kCtcNone; mark = marks_[mark].previous) {
          mark_to_[mark] = 0;
        }
      }
    }
    node_to_[0] = 0;  // the empty prefix stays the first
    prefixes_.keep(node_to_);
    slot_of_.assign(prefixes_.size(), kCtcNone);
    int32_t kept = 0;
    for (size_t mark = 0; mark < marks_.size(); ++mark) {
      if (mark_to_[mark] == kCtcNone) continue;
      Mark moved = marks_[mark];
      if (moved.previous != kCtcNone) moved.previous = mark_to_[moved.previous];
      marks_[kept] = moved;
      mark_to_[mark] = kept++;
    }
    marks_.resize(kept);
    for (size_t slot = 0; slot < now_.size(); ++slot) {
      Prefix& prefix = now_[slot];
      prefix.node = node_to_[prefix.node];
      slot_of_[prefix.node] = static_cast<int32_t>(slot);
      for (Way* way : {&prefix.blank.way, &prefix.label.way}) {
        if (way->mark != kCtcNone) way->mark = mark_to_[way->mark];
      }
    }
    garbage_ = std::max(kLeast, 2 * (slot_of_.size() + marks_.size()));
  }

  struct Position {  // position of a unit in a hypothesis
    int32_t node;
    int32_t mark;
    int32_t last;  // last frame of the unit
  };

  void write(int64_t num_frames, CtcResult& result) const {
    std::vector<int32_t> word_node(prefixes_.size(), kCtcNone);  // node of the word that ends at each prefix
    std::vector<Position> positions;
    result.word_begin.assign(1, 0);
    result.unit_begin.assign(1, 0);
    result.alignment.reserve(now_.size() * num_frames);
    for (const Prefix& prefix : now_) {
      if (!prefixes_.is_sentence(prefix.node) || !(prefix.total > kLogZero)) continue;
      const Way& way = better(prefix);
      result.total.push_back(prefix.total);
      positions.clear();
      int32_t mark = way.mark, last = way.last;
      for (int32_t node = prefix.node; node != 0; node = prefixes_[node].parent) {
        if (prefixes_[node].open) positions.push_back({node, mark, last});
        last = marks_[mark].previous_last;
        mark = marks_[mark].previous;
      }
      const size_t frames = result.alignment.size();
      result.alignment.resize(frames + num_frames, static_cast<int32_t>(units_.blank));
      int32_t* alignment = result.alignment.data() + frames;
      int32_t above = kCtcNone;
      for (auto begin = positions.rbegin(); begin != positions.rend();) {
        auto end = begin + 1;
        while (end != positions.rend() && !prefixes_[end->node].begins) ++end;
        result.first.push_back(marks_[begin->mark].first);
        result.end.push_back((end - 1)->last + 1);
        const double from = above == kCtcNone ? 0.0 : marks_[begin->mark].before;
        result.cost.push_back(from - (end == positions.rend() ? way.score : marks_[end->mark].before));
        int32_t& here = word_node[(end - 1)->node];
        if (here == kCtcNone) {
          here = static_cast<int32_t>(result.parent.size());
          result.parent.push_back(above);
          result.state.push_back(prefixes_[(end - 1)->node].state);
          for (auto unit = begin; unit != end; ++unit) result.unit.push_back(prefixes_[unit->node].unit);
          result.unit_begin.push_back(static_cast<int64_t>(result.unit.size()));
        }
        above = here;
        result.node.push_back(here);
        for (; begin != end; ++begin) {
          std::fill(alignment + marks_[begin->mark].first, alignment + begin->last + 1, prefixes_[begin->node].unit);
        }
      }
      result.word_begin.push_back(static_cast<int64_t>(result.first.size()));
    }
  }

  const CtcUnits units_;
  const CtcBeam beam_;
  CtcPrefixes prefixes_;
  std::vector<int32_t> boundaries_;
  std::vector<int32_t> allowed_, tried_;  // units allowed at this frame, and units that may enter the beam
  std::vector<uint8_t> chosen_;           // [num_units], or empty if all units are tried
  std::vector<int32_t> slot_of_;          // [prefixes], index into `now_`
  std::vector<Mark> marks_;
  size_t garbage_ = kLeast;  // number of prefixes and marks that triggers `collect`
  std::vector<int32_t> node_to_, mark_to_;
  std::vector<Prefix> now_, later_, next_;
  std::vector<Longer> longer_;  // [columns]
  int64_t round_ = 0;
  CtcBest best_;
};

}  // namespace ninja
