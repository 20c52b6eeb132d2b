// Kaldi's text lattices, with one arc or final state per line, up to an empty line.
// Source: Kaldi lat/kaldi-lattice.cc (LatticeReader::ReadText), fstext/lattice-weight.h (operator >>).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/decimal.hpp"
#include "formats/kaldi_read.hpp"

namespace ninja {

inline bool blank(char letter) { return letter == ' ' || letter == '\t' || letter == '\r'; }

inline const char* skip_spaces(const char* at) {
  while (blank(*at)) ++at;
  return at;
}

// Quote at most 40 bytes of a file as ASCII, for messages.
inline std::string quote(const char* at, const char* end) {
  std::string shown(at, std::min<int64_t>(end - at, 40));
  for (char& letter : shown) letter = letter == '\t' ? ' ' : letter >= 32 && letter < 127 ? letter : '?';
  return "'" + shown + "'";
}

// Parses one text lattice at a time into a Staging. An invalid lattice is skipped up to its empty line.
class TextScanner {
 public:
  // Args: window [at, end), which begins at the end of the key's line; whether the file ends with it; the line number
  // of `at`. Moves `at` and `line` past the empty line if the lattice is complete.
  Scan scan(const char*& at, const char* end, bool at_end, int64_t& line, Staging& lattice, Fault& fault) {
    labels_.reserve((end - at) / 2 + kLabelSlack, 0);  // a label has at least two bytes
    num_labels_ = num_lines_ = num_finals_ = num_ordered_ = 0;
    max_state_ = -1;
    kind_ = Kind::kUnknown;
    lattice.num_arcs = 0;
    lattice.forward = true;
    const char* cursor = at;
    int64_t number = line;
    while (true) {
      const char* stop = static_cast<const char*>(std::memchr(cursor, '\n', end - cursor));
      if (stop == nullptr) {
        if (!at_end) return Scan::kMore;
        fault = Fault();
        fault.kind = Fault::kFormat;
        fault.fatal = true;
        fault.line = number;
        fault.message = "the file ends within a lattice, which must be followed by an empty line";
        return Scan::kFatal;
      }
      if (skip_spaces(cursor) == stop) {
        at = stop + 1;
        line = number + 1;
        break;
      }
      if (fault.kind == Fault::kNone && !parse_line(skip_spaces(cursor), stop, lattice, fault)) {
        note(fault, Fault::kFormat,
             "expected 'state next word graph,acoustic,labels' or 'state graph,acoustic,labels' "
             "with integer words, found " +
                 quote(cursor, stop));
      }
      if (fault.kind != Fault::kNone && fault.line < 0) fault.line = number;
      cursor = stop + 1;
      ++number;
    }
    if (fault.kind == Fault::kNone) assemble(lattice, fault);
    return Scan::kComplete;
  }

 private:
  enum class Kind { kUnknown, kCompact, kRaw };

  // Return whether a line fits the kind of the lattice, which its first lines determine.
  bool is(Kind kind) {
    if (kind_ == Kind::kUnknown) kind_ = kind;
    return kind_ == kind;
  }

  // Parse "graph,acoustic" and, of a compact lattice, ",labels" up to a space.
  const char* parse_weight(const char* at, const char* stop, StagedFinal& weight) {
    at = parse_cost(at, stop, weight.graph);
    if (at == nullptr || *at++ != ',') return nullptr;
    at = parse_cost(at, stop, weight.acoustic);
    if (at == nullptr) return nullptr;
    weight.labels = reinterpret_cast<const char*>(labels_.begin() + num_labels_);
    weight.num_labels = 0;
    if (*at != ',') return is(Kind::kRaw) ? at : nullptr;
    if (!is(Kind::kCompact)) return nullptr;
    ++at;
    int32_t* const first = labels_.begin() + num_labels_;
    int32_t* to = first;
    while (*at != '\n' && !blank(*at)) {
      const char* begin = at;
      uint32_t number = 0;
      for (uint32_t digit; (digit = static_cast<uint32_t>(*at - '0')) < 10; ++at) number = number * 10 + digit;
      if (at == begin || at - begin > 9) {  // negative, large or missing numbers
        at = parse_integer(begin, *to);
        if (at == nullptr) return nullptr;
      } else {
        *to = static_cast<int32_t>(number);
      }
      ++to;
      if (*at != '_') break;
      ++at;
    }
    num_labels_ += to - first;
    weight.num_labels = to - first;
    return at;
  }

  bool parse_line(const char* at, const char* stop, Staging& lattice, Fault& fault) {
    int32_t state = 0;
    at = parse_integer(at, state);
    if (at == nullptr || state < 0 || !(at == stop || blank(*at))) return false;
    if (num_lines_++ == 0) lattice.start = state;
    max_state_ = std::max<int64_t>(max_state_, state);
    at = skip_spaces(at);
    StagedFinal weight{0, 0, reinterpret_cast<const char*>(labels_.begin()), 0};
    int32_t dst = 0;
    const char* next = at == stop ? nullptr : parse_integer(at, dst);
    if (next == nullptr || !(next == stop || blank(*next))) {  // a final state
      if (at != stop) at = parse_weight(at, stop, weight);
      if (at == nullptr || skip_spaces(at) != stop) return false;
      check_final(weight, state, fault);
      finals_.reserve(num_finals_ + 1, num_finals_)[num_finals_] = {state, weight};
      ++num_finals_;
      return true;
    }
    int32_t word = 0, olabel = 0;
    at = skip_spaces(next);
    at = at == stop ? nullptr : parse_integer(at, word);
    if (at == nullptr || !(at == stop || blank(*at)) || dst < 0) return false;
    at = skip_spaces(at);
    if (at == stop) {
      if (!is(Kind::kCompact)) return false;
    } else {
      next = parse_integer(at, olabel);
      if (next != nullptr && (next == stop || blank(*next))) {  // a raw lattice: label, word and optionally a weight
        if (!is(Kind::kRaw)) return false;
        at = skip_spaces(next);
        if (at != stop) at = parse_weight(at, stop, weight);
        if (at == nullptr) return false;
        if (word != 0) {
          labels_[num_labels_] = word;
          weight.labels = reinterpret_cast<const char*>(labels_.begin() + num_labels_++);
          weight.num_labels = 1;
        }
        word = olabel;
      } else {
        at = parse_weight(at, stop, weight);
        if (at == nullptr || !is(Kind::kCompact)) return false;
      }
      if (skip_spaces(at) != stop) return false;
    }
    max_state_ = std::max<int64_t>(max_state_, dst);
    const int64_t arc = lattice.num_arcs++;
    src_.reserve(arc + 1, arc)[arc] = state;
    lattice.arcs.reserve(arc + 1, arc)[arc] = {
        dst, word, weight.graph, weight.acoustic, weight.labels, weight.num_labels};
    lattice.forward &= dst > state;
    if (num_ordered_ == arc && (arc == 0 || src_[arc - 1] <= state)) ++num_ordered_;
    if (word < 0 || !finite(weight.graph) || !finite(weight.acoustic)) {
      check_arc(lattice.arcs[arc], arc, state, max_state_ + 1, fault);
    }
    return true;
  }

  // Sort the arcs by source state and fill in the final states.
  void assemble(Staging& lattice, Fault& fault) {
    lattice.compact = kind_ != Kind::kRaw;
    if (max_state_ > 1024 + 16 * num_lines_) {  // bound the memory by the size of the text
      note(fault, Fault::kLattice,
           "state " + std::to_string(max_state_) + " in a lattice of " + std::to_string(num_lines_) +
               " lines; number the states from 0");
      return;
    }
    const int64_t num_states = lattice.num_states = max_state_ + 1;
    lattice.finals.reserve(num_states, 0);
    std::fill_n(lattice.finals.begin(), num_states,
                StagedFinal{kInfinity, kInfinity, reinterpret_cast<const char*>(labels_.begin()), 0});
    for (int64_t final = 0; final < num_finals_; ++final) lattice.finals[finals_[final].state] = finals_[final].weight;
    int64_t* begin = lattice.arc_begin.reserve(num_states + 1, 0);
    std::fill_n(begin, num_states + 1, 0);
    for (int64_t arc = 0; arc < lattice.num_arcs; ++arc) ++begin[src_[arc] + 1];
    for (int64_t state = 0; state < num_states; ++state) begin[state + 1] += begin[state];
    if (num_ordered_ == lattice.num_arcs) return;
    int64_t* next = next_.reserve(num_states, 0);
    std::copy_n(begin, num_states, next);
    StagedArc* unordered = unordered_.reserve(lattice.num_arcs, 0);
    std::copy_n(lattice.arcs.begin(), lattice.num_arcs, unordered);
    for (int64_t arc = 0; arc < lattice.num_arcs; ++arc) lattice.arcs[next[src_[arc]]++] = unordered[arc];
  }

  struct FinalLine {
    int32_t state;
    StagedFinal weight;
  };

  Kind kind_ = Kind::kUnknown;
  int64_t num_labels_ = 0, num_lines_ = 0, num_finals_ = 0, num_ordered_ = 0, max_state_ = -1;
  Pool<int32_t> labels_;
  Pool<int32_t> src_;
  Pool<FinalLine> finals_;
  Pool<int64_t> next_;
  Pool<StagedArc> unordered_;
};

}  // namespace ninja
