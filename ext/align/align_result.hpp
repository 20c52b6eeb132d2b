// Collects the arcs of an alignment by their source places, sorts them in Kaldi's order, and writes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "align/align_places.hpp"
#include "align/align_units.hpp"
#include "core/block.hpp"
#include "core/lattice.hpp"

namespace ninja {

// Copies labels, mostly of a lattice, into memory that ends at `end`.
struct LabelCopier {
  const int32_t* labels;
  int64_t num_labels;
  const int32_t* end;

  // Copy labels in whole blocks, which is faster; labels after the copy are overwritten and must be written later.
  void blocks(const int32_t* from, int32_t length, int32_t* to) const {
    constexpr int32_t kBlock = 16;
    // If `from` does not point to a label of the lattice, `at` exceeds `last`.
    const uint64_t at = (reinterpret_cast<uintptr_t>(from) - reinterpret_cast<uintptr_t>(labels)) / sizeof(*from);
    const auto last = static_cast<uint64_t>(num_labels);
    if (at > last || last - at < static_cast<uint64_t>(length) + kBlock || end - to < length + kBlock) {
      return few(from, length, to);
    }
    for (int32_t done = 0; done < length; done += kBlock) std::memcpy(to + done, from + done, kBlock * sizeof(*to));
  }

  // Copy exactly these labels, without the overhead of a call.
  static void few(const int32_t* from, int32_t length, int32_t* to) {
    constexpr int32_t kBlock = 4;
    if (length < kBlock) {
      for (int32_t at = 0; at < length; ++at) to[at] = from[at];
      return;
    }
    for (int32_t at = 0; at < length - kBlock; at += kBlock) std::memcpy(to + at, from + at, kBlock * sizeof(*to));
    std::memcpy(to + length - kBlock, from + length - kBlock, kBlock * sizeof(*to));
  }
};

struct Step {
  Stretch labels;
  float graph, acoustic;
};

// A step that ends no unit, and the arcs found after it.
struct Inner {
  Step step;
  int32_t before;  // previous inner step, -1 for the first one of a place
  int32_t place;   // where the search began
  int32_t state, word;
  int32_t num_words, num_labels;  // numbers of pending words and labels after the step
  int64_t begin, end;             // arcs
  bool is_place;                  // whether a unit may end there on another path
};

// An arc of the result. Its labels come from the place, from inner steps and from the last step, as far as they belong
// to the unit.
struct Unit {
  const int32_t* last;  // labels of the last step
  int32_t num_last, num_labels;
  int32_t inner;        // the last inner step, or -1
  int32_t place, word;  // destination
  float graph, acoustic;
};

class [[gnu::visibility("hidden")]] UnitArcs {  // hidden visibility makes calls direct
 public:
  void clear() {
    num_arcs_ = num_labels_ = 0;
    arc_begin_.assign(1, 0);
    ends_.clear();
    inner_.clear();
    long_.clear();
  }

  int64_t num_arcs() const { return num_arcs_; }
  int64_t num_labels() const { return num_labels_; }

  // Approximate memory kept for the next lattice, in bytes.
  size_t room() const { return units_.size() * sizeof(Unit) + inner_.capacity() * sizeof(Inner); }

  // The open place: arcs and the end are added to it until it is closed.
  int32_t place() const { return static_cast<int32_t>(ends_.size()) - 1; }
  void open_place() { ends_.push_back({kInfinity, kInfinity}); }
  void close_place() { arc_begin_.push_back(num_arcs_); }
  void set_end(float graph, float acoustic) { ends_.back() = {graph, acoustic}; }

  // Add an arc. The caller sets its members in place, since a copy would stall on members just written.
  Unit& add(int32_t num_labels) {
    if (num_arcs_ == static_cast<int64_t>(units_.size())) units_.resize(2 * units_.size() + 1024);
    num_labels_ += num_labels;
    Unit& unit = units_[num_arcs_++];
    unit.num_labels = num_labels;
    return unit;
  }

  // Add a step that ends no unit.
  int32_t add_inner(const Inner& inner) {
    inner_.push_back(inner);
    return static_cast<int32_t>(inner_.size()) - 1;
  }
  void close_inner(int32_t inner) { inner_[inner].end = num_arcs_; }
  std::vector<Inner>& inner() { return inner_; }
  const std::vector<Inner>& inner() const { return inner_; }

  // Record that the costs of the next arc, or of the end, are sums over inner steps and a last step, since sums depend
  // on the order of additions.
  void note_long(bool is_end, int32_t before, float graph, float acoustic) {
    long_.push_back({is_end ? place() : num_arcs_, is_end, before, graph, acoustic});
  }

  // Add costs in Kaldi's order, which determines rounding. Kaldi converts the steps to a chain of epsilons and removes
  // them from the last state to the first, but only at states where a unit ends: the costs of steps between two places
  // are summed forwards, and these sums backwards.
  void add_up() {
    for (const Long& sum : long_) {
      float graph = 0.0f, acoustic = 0.0f;
      parts_.assign(1, {{nullptr, 0}, sum.graph, sum.acoustic});
      for (int32_t at = sum.before;; at = inner_[at].before) {
        if (at < 0 || inner_[at].is_place) {
          Step part{};
          for (; !parts_.empty(); parts_.pop_back()) {
            part.graph += parts_.back().graph;
            part.acoustic += parts_.back().acoustic;
          }
          graph = part.graph + graph;
          acoustic = part.acoustic + acoustic;
        }
        if (at < 0) break;
        parts_.push_back(inner_[at].step);
      }
      (sum.is_end ? ends_[sum.arc].graph : units_[sum.arc].graph) = graph;
      (sum.is_end ? ends_[sum.arc].acoustic : units_[sum.arc].acoustic) = acoustic;
    }
  }

  // Sort arcs in Kaldi's order. Kaldi removes the epsilons of a state from the last to the first and then reverses the
  // arcs: they keep the order in which they were found, except after an inner place, where they were reversed before.
  void reverse_inner_places() {
    for (auto inner = inner_.rbegin(); inner != inner_.rend(); ++inner) {
      if (inner->is_place) std::reverse(units_.begin() + inner->begin, units_.begin() + inner->end);
    }
  }

  // Sort states in the order of OpenFst's TopSort, as `top_sort` does; all states are reachable, and there are no
  // cycles.
  void sort_states() {
    constexpr int32_t kUnseen = -1, kSeen = 0;
    const auto num_states = static_cast<int32_t>(ends_.size());
    new_state_.assign(num_states, kUnseen);
    old_state_.resize(num_states);
    walks_.resize(num_states);
    const Unit* const units = units_.data();
    int32_t* const seen = new_state_.data();
    Walk* walk = walks_.data();
    *walk = {0, units + arc_begin_[0], units + arc_begin_[1]};
    seen[0] = kSeen;
    for (int32_t number = num_states;;) {
      while (walk->arc < walk->end && seen[walk->arc->place] != kUnseen) ++walk->arc;
      if (walk->arc < walk->end) {
        const int32_t place = walk->arc++->place;
        seen[place] = kSeen;
        ++walk;
        walk->place = place;
        walk->arc = units + arc_begin_[place];
        walk->end = units + arc_begin_[place + 1];
        continue;
      }
      old_state_[--number] = walk->place;
      if (walk == walks_.data()) break;
      --walk;
    }
    for (int32_t state = 0; state < num_states; ++state) new_state_[old_state_[state]] = state;
  }

  // Write the arcs; the labels of the places and of the lattice must still be valid.
  void write(const Places& places, const int32_t* labels, int64_t num_labels, const Block& to) const {
    const LabelCopier copy{labels, num_labels, to.ali + num_labels_};
    int32_t* dst = to.dst;
    int32_t* word = to.word;
    float* graph = to.graph;
    float* acoustic = to.acoustic;
    int64_t* ali_begin = to.ali_begin;
    int32_t* ali = to.ali;
    to.arc_begin[0] = *ali_begin = 0;
    std::fill_n(to.final_ali_begin, ends_.size() + 1, 0);
    for (size_t state = 0; state < ends_.size(); ++state) {
      const int32_t before = old_state_[state];
      const Stretch from = places.tail(places[before].tail).labels;
      to.final_graph[state] = ends_[before].graph;
      to.final_acoustic[state] = ends_[before].acoustic;
      const Unit* const end = units_.data() + arc_begin_[before + 1];
      for (const Unit* unit = units_.data() + arc_begin_[before]; unit < end; ++unit) {
        *dst++ = new_state_[unit->place];
        *word++ = unit->word;
        *graph++ = unit->graph;
        *acoustic++ = unit->acoustic;
        copy.blocks(from.label, std::min(from.length, unit->num_labels), ali);
        if (unit->inner >= 0) write_inner(*unit, ali);
        copy.blocks(unit->last, unit->num_last, ali + unit->num_labels - unit->num_last);
        ali += unit->num_labels;
        *++ali_begin = ali - to.ali;
      }
      to.arc_begin[state + 1] = dst - to.dst;
    }
  }

 private:
  struct End {
    float graph, acoustic;
  };
  // An arc of several steps, whose costs are summed when all places are known.
  struct Long {
    int64_t arc;  // or place
    bool is_end;
    int32_t before;         // the last inner step
    float graph, acoustic;  // costs of its last step
  };
  // A state of the depth-first search, and its remaining arcs.
  struct Walk {
    int32_t place;
    const Unit *arc, *end;
  };

  // Write the labels of the inner steps of a unit.
  void write_inner(const Unit& unit, int32_t* to) const {
    int32_t length = unit.num_labels - unit.num_last;
    for (int32_t at = unit.inner; at >= 0; at = inner_[at].before) {
      const Stretch& labels = inner_[at].step.labels;
      const int32_t begin = inner_[at].num_labels - labels.length;
      if (begin >= length) continue;
      LabelCopier::few(labels.label, length - begin, to + begin);
      length = begin;
    }
  }

  int64_t num_arcs_ = 0, num_labels_ = 0;  // totals over all units
  std::vector<Unit> units_;                // arcs of the result, and unused elements
  std::vector<int64_t> arc_begin_;
  std::vector<End> ends_;     // of the places, which are the states of the result before sorting
  std::vector<Inner> inner_;  // each step follows the step before it
  std::vector<Long> long_;
  std::vector<Step> parts_;  // terms of a sum
  std::vector<int32_t> new_state_, old_state_;
  std::vector<Walk> walks_;
};

}  // namespace ninja
