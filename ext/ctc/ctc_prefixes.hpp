// The prefixes of a CTC search as a tree, and the units that may follow each prefix.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ctc/ctc_problem.hpp"

namespace ninja {

constexpr int32_t kCtcNone = -1;

class CtcPrefixes {
 public:
  struct Node {  // a prefix: its parent and one more unit
    int32_t parent;
    int32_t unit;
    int32_t state;    // state of the lexicon
    bool begins;      // the unit begins a word
    bool open;        // the last word may continue
    int32_t child;    // the longer prefix that was added last
    int32_t sibling;  // the previous child of the parent
  };

  CtcPrefixes(const CtcUnits& units, const CtcLexicon& lexicon) : units_(units), lexicon_(lexicon) {
    const int32_t num_units = static_cast<int32_t>(units.num_units);
    first_state_.assign(num_units, kCtcNone);
    if (lexicon.num_states) {
      for (int64_t at = lexicon.child_begin[0]; at < lexicon.child_begin[1]; ++at) {
        first_state_[lexicon.unit[at]] = lexicon.child[at];
      }
    }
    // If no unit is a boundary, the lexicon separates words.
    const bool separates = lexicon.num_states && std::count(units.kind, units.kind + num_units, kCtcBoundary) == 0;
    after_end_.assign(num_units, kCtcNone);
    after_boundary_.assign(num_units, kCtcNone);
    for (int32_t unit = 0; unit < num_units; ++unit) {
      const uint8_t kind = units.kind[unit];
      if (kind == kCtcBoundary) after_end_[unit] = column(unit, false);
      if (kind != kCtcInside && kind != kCtcBegins) continue;
      const bool known = !lexicon.num_states || first_state_[unit] != kCtcNone;
      if (known) after_boundary_[unit] = column(unit, true);
      if (kind == kCtcBegins || separates) {
        if (known) after_end_[unit] = column(unit, true);
      } else if (!lexicon.num_states) {
        after_end_[unit] = column(unit, false);
      }
    }
    clear();
  }

  void clear() {
    nodes_.assign(1, {kCtcNone, kCtcNone, lexicon_.num_states ? 0 : kCtcNone, false, false, kCtcNone, kCtcNone});
  }

  static int32_t column(int32_t unit, bool begins) { return 1 + 2 * unit + (begins ? 1 : 0); }
  static int32_t unit_of(int32_t column) { return (column - 1) / 2; }

  const Node& operator[](int32_t node) const { return nodes_[node]; }
  int32_t size() const { return static_cast<int32_t>(nodes_.size()); }

  bool is_sentence(int32_t node) const { return !nodes_[node].open || ends_here(nodes_[node]); }

  // Return the column of each unit, -1 if the unit may not follow the prefix; return null if no unit may follow. Units
  // that continue a word of the lexicon are not included; see `within`.
  const int32_t* following(const Node& node) const {
    if (!node.open) return after_boundary_.data();
    return ends_here(node) ? after_end_.data() : nullptr;
  }

  // Call `take(unit)` for each unit that continues an open word of the lexicon.
  template <class Take>
  void within(const Node& node, Take take) const {
    if (!lexicon_.num_states || !node.open) return;
    for (int64_t at = lexicon_.child_begin[node.state]; at < lexicon_.child_begin[node.state + 1]; ++at) {
      if (units_.kind[lexicon_.unit[at]] == kCtcInside) take(lexicon_.unit[at]);
    }
  }

  // Add the prefix with one more unit, in a column where it may follow.
  int32_t add(int32_t parent, int32_t column) {
    const int32_t unit = unit_of(column);
    const bool begins = column % 2 == 0, open = units_.kind[unit] != kCtcBoundary;
    int32_t state = kCtcNone;
    if (lexicon_.num_states) state = !open ? 0 : begins ? first_state_[unit] : spell(nodes_[parent].state, unit);
    nodes_.push_back({parent, unit, state, begins, open, kCtcNone, nodes_[parent].child});
    return nodes_[parent].child = size() - 1;
  }

  // Remove the prefixes whose element of `moved` is kCtcNone, and write the new numbers of the other prefixes to
  // `moved`. The parents of the other prefixes must also be kept.
  void keep(std::vector<int32_t>& moved) {
    int32_t kept = 0;
    for (int32_t node = 0; node < size(); ++node) {  // parents come before their children
      if (moved[node] == kCtcNone) continue;
      Node& to = nodes_[kept] = nodes_[node];
      to.child = kCtcNone;
      if (to.parent != kCtcNone) {
        to.parent = moved[to.parent];
        to.sibling = nodes_[to.parent].child;
        nodes_[to.parent].child = kept;
      }
      moved[node] = kept++;
    }
    nodes_.resize(kept);
  }

 private:
  bool ends_here(const Node& node) const { return !lexicon_.num_states || lexicon_.is_word[node.state]; }

  int32_t spell(int32_t state, int32_t unit) const {
    const int32_t* first = lexicon_.unit + lexicon_.child_begin[state];
    const int32_t* last = lexicon_.unit + lexicon_.child_begin[state + 1];
    return lexicon_.child[std::lower_bound(first, last, unit) - lexicon_.unit];
  }

  const CtcUnits units_;
  const CtcLexicon lexicon_;
  std::vector<int32_t> first_state_;                 // [num_units], lexicon state after the first unit of a word
  std::vector<int32_t> after_end_, after_boundary_;  // [num_units], column in which a unit may follow
  std::vector<Node> nodes_;                          // the first node is the empty prefix
};

}  // namespace ninja
