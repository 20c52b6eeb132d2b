// Search for the spans of a lattice that sound similar to strings of phones, measured by the weighted edit distance.
// 16 strings are compared at a time.
//
// For a string and the last state of a span, the search minimises
//
//     (cost of the best path through the span - cost of the lattice's best path) + weight * edit distance
//
// over all first states and all paths between them. Arc costs are first reduced by the best completions, so that the
// rows of the dynamic programme contain small non-negative numbers: the precision of floats is sufficient, and arcs
// outside the beam are known before the search. The cells of a row are positions in the string; an arc advances a row
// by the phones of its word.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "core/lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

// Strings of phones; string i is phone[begin[i] : begin[i + 1]].
struct PhoneStrings {
  int64_t count;
  const int64_t* begin;
  const int32_t* phone;
};

// The pronunciations of each arc's word: strings[first[unit] : first[unit + 1]]. An arc without strings is never part
// of a span; an arc with an empty string is silent.
struct Sounds {
  const int32_t* unit;   // [num_arcs]
  const int64_t* first;  // [num_units + 1]
  PhoneStrings strings;
};

// Costs of the phones 0 to count - 1, in units of distance.
struct PhoneCosts {
  int32_t count;
  const float* substitution;  // [count * count], row: the phone of the phrase, column: the phone of the lattice
  const float* insertion;     // [count], cost of a phone that is only in the lattice
  const float* deletion;      // [count], cost of a phone that is only in the phrase
};

struct SpanLimits {
  double acoustic_scale;
  float weight;        // cost of a unit of distance
  float beam;          // largest excess of the best path through a span over the best path of the lattice
  float max_distance;  // largest distance per phone of the string
  int32_t max_spans;   // largest number of spans per string
};

struct Spans {
  std::vector<int32_t> string, start, end;
  std::vector<float> excess, distance;  // [num_spans]
  std::vector<int64_t> arc_begin{0};    // the path: arc[arc_begin[i] : arc_begin[i + 1]]
  std::vector<int64_t> arc;
};

// The part of a lattice within the beam, with arcs grouped by their last state and unit.
class SpanLattice {
 public:
  struct Group {
    int32_t unit;
    int64_t begin, end;  // range in `member`
  };

  SpanLattice(const Arcs& arcs, const Sounds& sounds, const SpanLimits& limits)
      : through(arcs.num_states, kInfinity), reduced(arcs.num_arcs, kInfinity), source(arcs.num_arcs) {
    const auto cost = [&](int64_t arc) { return arc_costs(arcs, arc, limits.acoustic_scale).total; };
    const auto final_cost = [&](int64_t state) { return final_costs(arcs, state, limits.acoustic_scale).total; };
    const std::vector<double> rest = cost_to_end(arcs, cost, final_cost);
    std::vector<double> until(arcs.num_states, kNever);
    until[0] = 0.0;  // the excess of the start state is 0, because arc costs are reduced
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      through[state] = static_cast<float>(until[state]);
      if (until[state] > limits.beam || rest[state] == kNever) through[state] = kInfinity;
      if (!(through[state] < kInfinity)) continue;  // such a state has no row, so its arcs must not be in a group
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        source[arc] = static_cast<int32_t>(state);
        const int32_t dst = arcs.dst[arc];
        const double excess = cost(arc) + rest[dst] - rest[state];
        if (!(until[state] + excess <= limits.beam)) continue;
        reduced[arc] = static_cast<float>(std::max(excess, 0.0));
        until[dst] = std::min(until[dst], until[state] + std::max(excess, 0.0));
        if (sounds.first[sounds.unit[arc]] < sounds.first[sounds.unit[arc] + 1]) member.push_back(arc);
      }
    }
    std::sort(member.begin(), member.end(), [&](int64_t a, int64_t b) {
      if (arcs.dst[a] != arcs.dst[b]) return arcs.dst[a] < arcs.dst[b];
      return sounds.unit[a] != sounds.unit[b] ? sounds.unit[a] < sounds.unit[b] : a < b;
    });
    group_begin.assign(arcs.num_states + 1, 0);
    for (size_t i = 0; i < member.size(); ++i) {
      const int64_t arc = member[i];
      const bool joins = i > 0 && arcs.dst[member[i - 1]] == arcs.dst[arc] && group.back().unit == sounds.unit[arc];
      if (!joins) {
        group.push_back({sounds.unit[arc], static_cast<int64_t>(i), static_cast<int64_t>(i)});
        ++group_begin[arcs.dst[arc] + 1];
      }
      group.back().end = static_cast<int64_t>(i) + 1;
    }
    std::partial_sum(group_begin.begin(), group_begin.end(), group_begin.begin());
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      if (through[state] < kInfinity)
        row_of.push_back(static_cast<int32_t>(num_rows++));
      else
        row_of.push_back(-1);
    }
  }

  std::vector<float> through;   // excess of the best path through each state; infinite beyond the beam
  std::vector<float> reduced;   // excess that each arc adds
  std::vector<int32_t> source;  // first state of each arc
  std::vector<int64_t> member;  // arcs of all groups
  std::vector<Group> group;
  std::vector<int64_t> group_begin;  // groups entering state s: group[group_begin[s] : group_begin[s + 1]]
  std::vector<int32_t> row_of;       // row of each state in the search, -1 beyond the beam
  int64_t num_rows = 0;
};

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(4 * kLanes)));

const Lanes kNone{};  // zeros; adding a float to them copies the float to all lanes
const Lanes kUnreachedLanes = kNone + kInfinity;

// The total cost up to a position in 16 strings, and the part of this cost that is the excess of the path.
struct Cell {
  Lanes total, excess;
};

inline void take_better(Cell& cell, const Cell& other) {
  const auto better = other.total < cell.total;
  cell.total = better ? other.total : cell.total;
  cell.excess = better ? other.excess : cell.excess;
}

inline void take_better(Cell& cell, const Cell& other, const Lanes& cost) {
  take_better(cell, {other.total + cost, other.excess});
}

// The search for 16 strings of similar lengths. Cell i of a row is the position after i phones.
class SpanBlock {
 public:
  SpanBlock(const SpanLattice& lattice, const Sounds& sounds, const PhoneStrings& strings, const int32_t* chosen,
            int count, const PhoneCosts& costs, const SpanLimits& limits)
      : lattice_(lattice), sounds_(sounds), limits_(limits), count_(count), chosen_(chosen) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int32_t string = chosen[std::min(lane, count - 1)];
      length_[lane] = static_cast<int>(strings.begin[string + 1] - strings.begin[string]);
      longest_ = std::max(longest_, length_[lane]);
    }
    deletion_.assign(longest_ + 1, kNone);
    substitution_.assign(static_cast<size_t>(costs.count) * (longest_ + 1), kNone);
    insertion_.resize(costs.count);
    for (int32_t heard = 0; heard < costs.count; ++heard) insertion_[heard] = limits.weight * costs.insertion[heard];
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t begin = strings.begin[chosen[std::min(lane, count - 1)]];
      for (int place = 1; place <= length_[lane]; ++place) {
        const int32_t said = strings.phone[begin + place - 1];
        deletion_[place][lane] = limits.weight * costs.deletion[said];
        for (int32_t heard = 0; heard < costs.count; ++heard) {
          substitution_[static_cast<size_t>(heard) * (longest_ + 1) + place][lane] =
              limits.weight * costs.substitution[static_cast<size_t>(said) * costs.count + heard];
        }
      }
    }
  }

  void search(const Arcs& arcs, std::vector<Cell>& rows, Spans& spans) {
    rows_ = rows.data();
    source_.resize(longest_ + 1);
    moved_.resize(longest_ + 1);
    for (auto& ends : ends_) ends.clear();
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      if (lattice_.row_of[state] >= 0) fill(state);
    }
    for (int lane = 0; lane < count_; ++lane) {
      auto& ends = ends_[lane];
      std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.total < b.total; });
      const size_t count = std::min(ends.size(), static_cast<size_t>(limits_.max_spans));
      for (size_t i = 0; i < count; ++i) trace(lane, ends[i], spans);
    }
  }

 private:
  struct End {
    float total;
    int64_t state;
  };

  Cell* row(int64_t state) const { return rows_ + static_cast<int64_t>(lattice_.row_of[state]) * (longest_ + 1); }

  void move(Cell* cells, int32_t heard) const {
    const Lanes insertion = kNone + insertion_[heard];
    const Lanes* substitution = substitution_.data() + static_cast<size_t>(heard) * (longest_ + 1);
    Cell before = cells[0];
    cells[0].total += insertion;
    for (int place = 1; place <= longest_; ++place) {
      Cell cell{before.total + substitution[place], before.excess};
      before = cells[place];
      take_better(cell, before, insertion);
      take_better(cell, cells[place - 1], deletion_[place]);
      cells[place] = cell;
    }
  }

  void enter(const SpanLattice::Group& group) {
    std::fill(source_.begin(), source_.end(), Cell{kUnreachedLanes, kUnreachedLanes});
    for (int64_t i = group.begin; i < group.end; ++i) {
      const Cell* cells = row(lattice_.source[lattice_.member[i]]);
      const Lanes cost = kNone + lattice_.reduced[lattice_.member[i]];
      for (int place = 0; place <= longest_; ++place) {
        take_better(source_[place], {cells[place].total + cost, cells[place].excess + cost});
      }
    }
  }

  void fill(int64_t state) {
    Cell* here = row(state);
    std::fill(here, here + longest_ + 1, Cell{kUnreachedLanes, kUnreachedLanes});
    float total[kLanes], excess[kLanes];
    std::fill(total, total + kLanes, kInfinity);
    for (int64_t g = lattice_.group_begin[state]; g < lattice_.group_begin[state + 1]; ++g) {
      const SpanLattice::Group& group = lattice_.group[g];
      enter(group);
      for (int64_t s = sounds_.first[group.unit]; s < sounds_.first[group.unit + 1]; ++s) {
        const int64_t begin = sounds_.strings.begin[s], end = sounds_.strings.begin[s + 1];
        moved_ = source_;
        for (int64_t i = begin; i < end; ++i) move(moved_.data(), sounds_.strings.phone[i]);
        for (int place = 1; place <= longest_; ++place) take_better(here[place], moved_[place]);
        if (begin == end) continue;  // a span must not end with a silent word
        for (int lane = 0; lane < count_; ++lane) {
          const Cell& last = moved_[length_[lane]];
          if (last.total[lane] < total[lane]) {
            total[lane] = last.total[lane];
            excess[lane] = last.excess[lane];
          }
        }
      }
    }
    // A span may start here; an earlier start would only add insertions.
    here[0] = {kNone + lattice_.through[state], kNone + lattice_.through[state]};
    for (int place = 1; place <= longest_; ++place) take_better(here[place], here[place - 1], deletion_[place]);
    for (int lane = 0; lane < count_; ++lane) {
      if (total[lane] == kInfinity || excess[lane] > limits_.beam) continue;
      if (total[lane] - excess[lane] <= limits_.weight * limits_.max_distance * length_[lane]) {
        ends_[lane].push_back({total[lane], state});
      }
    }
  }

  // Trace the best path back from the end of a span; this repeats the computation of `fill` for one lane.
  void trace(int lane, const End& end, Spans& spans) {
    std::vector<int64_t> path;
    int64_t state = end.state;
    int place = length_[lane];
    bool sounded = true;
    for (;;) {
      const Step step = best_step(lane, state, place, sounded);
      const Cell* here = row(state);
      const bool skips = !sounded && place > 0 && here[place - 1].total[lane] + deletion_[place][lane] <= step.total;
      if (place == 0) break;
      if (skips) {
        --place;
        continue;
      }
      if (step.arc < 0) throw std::logic_error("a span has no backward path");
      path.push_back(step.arc);
      state = lattice_.source[step.arc];
      place = step.place;
      sounded = false;
    }
    std::reverse(path.begin(), path.end());
    float excess = lattice_.through[state];
    for (const int64_t arc : path) excess += lattice_.reduced[arc];
    spans.string.push_back(chosen_[lane]);
    spans.start.push_back(static_cast<int32_t>(state));
    spans.end.push_back(static_cast<int32_t>(end.state));
    spans.excess.push_back(excess);
    spans.distance.push_back(std::max(0.0f, (end.total - excess) / limits_.weight));
    spans.arc.insert(spans.arc.end(), path.begin(), path.end());
    spans.arc_begin.push_back(static_cast<int64_t>(spans.arc.size()));
  }

  struct Step {
    float total = kInfinity;
    int64_t arc = -1;
    int place = 0;
  };

  // Return the last arc of the best path to a position in a state, and the position before this arc.
  Step best_step(int lane, int64_t state, int place, bool sounded) {
    Step best;
    if (place == 0) return best;
    for (int64_t g = lattice_.group_begin[state]; g < lattice_.group_begin[state + 1]; ++g) {
      const SpanLattice::Group& group = lattice_.group[g];
      std::vector<float> entered(place + 1, kInfinity);
      std::vector<int64_t> by(place + 1, -1);
      for (int64_t i = group.begin; i < group.end; ++i) {
        const int64_t arc = lattice_.member[i];
        const Cell* cells = row(lattice_.source[arc]);
        for (int at = 0; at <= place; ++at) {
          const float total = cells[at].total[lane] + lattice_.reduced[arc];
          if (total < entered[at]) {
            entered[at] = total;
            by[at] = arc;
          }
        }
      }
      for (int64_t s = sounds_.first[group.unit]; s < sounds_.first[group.unit + 1]; ++s) {
        const int64_t begin = sounds_.strings.begin[s], end = sounds_.strings.begin[s + 1];
        if (begin == end && sounded) continue;
        std::vector<float> cost = entered;
        std::vector<int> from(place + 1);
        std::iota(from.begin(), from.end(), 0);
        for (int64_t i = begin; i < end; ++i) {
          const int32_t heard = sounds_.strings.phone[i];
          float before = cost[0];
          int origin = from[0];
          cost[0] += insertion_[heard];
          for (int at = 1; at <= place; ++at) {
            float total = before + substitution_[static_cast<size_t>(heard) * (longest_ + 1) + at][lane];
            int where = origin;
            before = cost[at];
            origin = from[at];
            if (before + insertion_[heard] < total) {
              total = before + insertion_[heard];
              where = origin;
            }
            if (cost[at - 1] + deletion_[at][lane] < total) {
              total = cost[at - 1] + deletion_[at][lane];
              where = from[at - 1];
            }
            cost[at] = total;
            from[at] = where;
          }
        }
        if (cost[place] < best.total) best = {cost[place], by[from[place]], from[place]};
      }
    }
    return best;
  }

  const SpanLattice& lattice_;
  const Sounds& sounds_;
  const SpanLimits& limits_;
  int count_;
  const int32_t* chosen_;
  int longest_ = 0;
  int length_[kLanes];
  std::vector<Lanes> deletion_, substitution_;
  std::vector<float> insertion_;
  std::vector<Cell> source_, moved_;
  Cell* rows_ = nullptr;
  std::vector<End> ends_[kLanes];
};

// The arcs by which the best path enters and leaves each state; -1 if there is no such arc.
struct BestArcs {
  std::vector<int64_t> in, out;
};

inline BestArcs best_arcs(const Arcs& arcs, double acoustic_scale) {
  BestArcs best;
  best.in.assign(arcs.num_states, -1);
  best.out.assign(arcs.num_states, -1);
  std::vector<double> until(arcs.num_states, kNever), rest(arcs.num_states, kNever);
  const auto cost = [&](int64_t arc) { return arc_costs(arcs, arc, acoustic_scale).total; };
  until[0] = 0.0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double total = until[state] + cost(arc);
      if (total < until[arcs.dst[arc]]) {
        until[arcs.dst[arc]] = total;
        best.in[arcs.dst[arc]] = arc;
      }
    }
  }
  for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
    rest[state] = final_costs(arcs, state, acoustic_scale).total;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const double total = rest[arcs.dst[arc]] + cost(arc);
      if (total < rest[state]) {
        rest[state] = total;
        best.out[state] = arc;
      }
    }
  }
  return best;
}

constexpr size_t kMostSearchBytes = size_t(1) << 30;

// Find the best spans of each string: at most one per last state, and at most `max_spans` in total.
// Throws std::overflow_error if the rows need more than kMostSearchBytes.
inline Spans find_spans(const Arcs& arcs, const Sounds& sounds, const PhoneStrings& strings, const PhoneCosts& costs,
                        const SpanLimits& limits) {
  Spans spans;
  const SpanLattice lattice(arcs, sounds, limits);
  std::vector<int32_t> order(strings.count);
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int32_t i) { return strings.begin[i + 1] - strings.begin[i]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return length(a) < length(b); });
  if (strings.count == 0) return spans;
  const size_t cells = static_cast<size_t>(lattice.num_rows) * static_cast<size_t>(length(order.back()) + 1);
  if (cells > kMostSearchBytes / sizeof(Cell)) throw std::overflow_error("");
  std::vector<Cell> rows(cells);
  for (int64_t begin = 0; begin < strings.count; begin += kLanes) {
    const int count = static_cast<int>(std::min<int64_t>(kLanes, strings.count - begin));
    SpanBlock(lattice, sounds, strings, order.data() + begin, count, costs, limits).search(arcs, rows, spans);
  }
  return spans;
}

}  // namespace ninja
