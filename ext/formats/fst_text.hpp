// Parses lines of OpenFst's text format, which are arcs and final states, into arrays with numbered states and arcs
// sorted by source. Source: OpenFst 1.8.4, script/compile-impl.h (FstCompiler).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decimal.hpp"
#include "formats/text_lattices.hpp"

namespace ninja {

// Properties of the lines that distinguish an acceptor from a transducer.
struct FstTextLook {
  bool three = false;  // a line has three fields
  bool five = false;
  bool fourth_integer = true;  // the last field of every line of four fields is an integer
  bool fourth_weight = true;
  std::vector<std::string_view> fourth;  // distinct fourth fields
};

enum class FstTextFault : int { kNone, kFields, kState, kWeight, kEmpty, kLost };

// The FST, or a fault; if there is a fault, the other fields are undefined.
struct FstText {
  FstTextFault fault = FstTextFault::kNone;
  int64_t line = 0;        // line of the fault
  std::string_view field;  // the invalid field
  int64_t num_fields = 0;
  Vocabulary labels;                // output labels as text, numbered from 1
  std::vector<int32_t> ids;         // [labels + 1], 0 and the labels as integers; empty if one is not an integer
  std::vector<int64_t> arc_begin;   // [states + 1]
  std::vector<int32_t> dst, label;  // [arcs]
  std::vector<double> cost;         // [arcs]
  std::vector<double> final_cost;   // [states], +inf if not final
};

namespace fst_text {

constexpr int kMostFields = 6;  // maximum number of fields of a line that are stored; more fields are only counted

inline bool is_digit(char letter) { return static_cast<unsigned char>(letter - '0') < 10; }

// Find the fields of the line that begins at `at`; return their number, and move `at` after the end of the line.
inline int64_t split(const char*& at, const char* end, std::string_view* fields) {
  int64_t count = 0;
  while (true) {
    while (at < end && is_blank(*at)) ++at;
    if (at == end) return count;
    if (*at == '\n') {
      ++at;
      return count;
    }
    const char* from = at;
    while (at < end && !is_blank(*at) && *at != '\n') ++at;
    if (count < kMostFields) fields[count] = {from, static_cast<size_t>(at - from)};
    ++count;
  }
}

inline bool is_integer(std::string_view text) {
  return !text.empty() && text.size() <= 10 && std::all_of(text.begin(), text.end(), is_digit);
}

// Read a state or a word id.
inline bool to_id(std::string_view text, int32_t& id) {
  if (!is_integer(text)) return false;
  int64_t number = 0;
  for (char letter : text) number = 10 * number + (letter - '0');
  id = static_cast<int32_t>(number);
  return number <= std::numeric_limits<int32_t>::max();
}

// [+-] digits [. digits] [e [+-] 1 to 4 digits], with a digit before the e; or [+-] inf or infinity, optionally with a
// capital I.
inline bool is_weight(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  if (at < end && (*at == '+' || *at == '-')) ++at;
  if (at < end && (*at == 'i' || *at == 'I')) {
    const std::string_view rest(at + 1, static_cast<size_t>(end - at - 1));
    return rest == "nf" || rest == "nfinity";
  }
  const char* first = at;
  while (at < end && is_digit(*at)) ++at;
  int64_t digits = at - first;
  if (at < end && *at == '.') {
    first = ++at;
    while (at < end && is_digit(*at)) ++at;
    digits += at - first;
  }
  if (digits == 0) return false;
  if (at == end) return true;
  if (*at != 'e' && *at != 'E') return false;
  if (++at < end && (*at == '+' || *at == '-')) ++at;
  return end - at >= 1 && end - at <= 4 && std::all_of(at, end, is_digit);
}

// Parsing stops at the end of the field, where a space, a line break or a NUL follows.
inline bool to_weight(std::string_view text, double& weight) {
  if (!is_weight(text)) return false;
  const char* at = text.data();
  const size_t sign = *at == '+' || *at == '-';
  if (at[sign] == 'i' || at[sign] == 'I') {
    weight = *at == '-' ? -INFINITY : INFINITY;
    return true;
  }
  if (parse_decimal(at, at + text.size(), weight) == nullptr) weight = std::strtod(at, nullptr);
  return std::isfinite(weight);  // a number that exceeds the range of double is not the zero of the semiring
}

// Numbers states in the order of their names, except that the start state and the first state are exchanged.
class StateNumbers {
 public:
  StateNumbers(const std::vector<int32_t>& src, const std::vector<int32_t>& dst,
               const std::vector<std::pair<int32_t, double>>& finals, int32_t start) {
    int32_t largest = start;
    for (int32_t name : src) largest = std::max(largest, name);
    for (int32_t name : dst) largest = std::max(largest, name);
    for (const auto& final : finals) largest = std::max(largest, final.first);
    dense_ = largest / 4 <= static_cast<int64_t>(src.size() + finals.size()) + 1000;
    if (dense_) {
      names_.assign(static_cast<size_t>(largest) + 1, 0);
      const auto seen = [&](int32_t name) { names_[name] = 1; };
      std::for_each(src.begin(), src.end(), seen);
      std::for_each(dst.begin(), dst.end(), seen);
      for (const auto& final : finals) seen(final.first);
      seen(start);
      for (int32_t& name : names_) name = name ? count_++ : -1;
    } else {
      names_.reserve(src.size() + dst.size() + finals.size() + 1);
      names_.insert(names_.end(), src.begin(), src.end());
      names_.insert(names_.end(), dst.begin(), dst.end());
      for (const auto& final : finals) names_.push_back(final.first);
      names_.push_back(start);
      std::sort(names_.begin(), names_.end());
      names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
      count_ = static_cast<int32_t>(names_.size());
    }
    start_ = rank(start);
  }

  int32_t count() const { return count_; }

  int32_t operator()(int32_t name) const {
    const int32_t place = rank(name);
    return place == start_ ? 0 : place == 0 ? start_ : place;
  }

 private:
  int32_t rank(int32_t name) const {
    if (dense_) return names_[name];
    return static_cast<int32_t>(std::lower_bound(names_.begin(), names_.end(), name) - names_.begin());
  }

  bool dense_ = true;
  std::vector<int32_t> names_;  // if dense, the number of each name; otherwise, the sorted names
  int32_t count_ = 0;
  int32_t start_ = 0;
};

}  // namespace fst_text

// Find the first line whose arc enters a state, and the field that names the state.
inline void find_entry(const char* at, const char* end, int32_t state, FstText& made) {
  using namespace fst_text;
  std::string_view fields[kMostFields];
  for (; at < end; ++made.line) {
    int32_t name = 0;
    if (split(at, end, fields) <= 2 || !to_id(fields[1], name) || name != state) continue;
    made.field = fields[1];
    return;
  }
}

// Determine the properties of the lines before their kind is known.
inline FstTextLook look_at_fst_text(const char* at, const char* end) {
  using namespace fst_text;
  FstTextLook look;
  Vocabulary fourth;
  bool repeats = true;  // all lines of four fields have the same label twice, for example a word that is a number
  std::string_view fields[kMostFields];
  while (at < end) {
    const int64_t count = split(at, end, fields);
    look.three |= count == 3;
    if (count == 5) {
      look.five = true;
      break;
    }
    if (look.three || count != 4) continue;
    look.fourth_integer = look.fourth_integer && is_integer(fields[3]);
    look.fourth_weight = look.fourth_weight && is_weight(fields[3]);
    repeats = repeats && fields[2] == fields[3];
    fourth.add(fields[3], 0);
  }
  look.fourth_weight = look.fourth_weight && (!repeats || fourth.entries().empty());
  for (const Vocabulary::Entry& entry : fourth.entries()) look.fourth.push_back(entry.text);
  return look;
}

// Parse the lines of an acceptor or a transducer. `*end` must be readable and NUL.
inline void read_fst_text(const char* at, const char* end, int64_t line, bool acceptor, FstText& made) {
  using namespace fst_text;
  const char* const begin = at;
  const int64_t first_line = line, most = acceptor ? 4 : 5;
  std::vector<int32_t> src, dst, label;
  std::vector<double> cost;
  std::vector<std::pair<int32_t, double>> finals;
  std::string_view fields[kMostFields];
  const auto fail = [&](FstTextFault fault, std::string_view field, int64_t count) {
    made.fault = fault;
    made.line = line;
    made.field = field;
    made.num_fields = count;
  };
  int32_t start = -1;
  for (; at < end; ++line) {
    const int64_t count = split(at, end, fields);
    if (count == 0) continue;
    int32_t from = 0, to = 0;
    double weight = 0;
    const bool is_final = count <= 2;
    if (!is_final && (count < most - 1 || count > most)) return fail(FstTextFault::kFields, fields[0], count);
    if (!to_id(fields[0], from)) return fail(FstTextFault::kState, fields[0], count);
    if (!is_final && !to_id(fields[1], to)) return fail(FstTextFault::kState, fields[1], count);
    if ((count == 2 || count == most) && !to_weight(fields[count - 1], weight)) {
      return fail(FstTextFault::kWeight, fields[count - 1], count);
    }
    if (start < 0) start = from;
    if (is_final) {
      finals.emplace_back(from, weight);
      continue;
    }
    src.push_back(from);
    dst.push_back(to);
    label.push_back(made.labels.add(fields[acceptor ? 2 : 3], line));
    cost.push_back(weight);
  }
  if (start < 0) return fail(FstTextFault::kEmpty, {}, 0);
  made.ids.assign(made.labels.entries().size() + 1, 0);
  for (size_t i = 1; i < made.ids.size(); ++i) {
    if (to_id(made.labels.entries()[i - 1].text, made.ids[i])) continue;
    made.ids.clear();
    break;
  }

  const StateNumbers number_of(src, dst, finals, start);
  made.final_cost.assign(number_of.count(), INFINITY);
  // The last line of a state takes precedence.
  for (const auto& [name, weight] : finals) made.final_cost[number_of(name)] = weight;
  made.arc_begin.assign(number_of.count() + 1, 0);
  for (int32_t& name : src) {
    name = number_of(name);
    ++made.arc_begin[name + 1];
  }
  for (int32_t state = 0; state < number_of.count(); ++state) made.arc_begin[state + 1] += made.arc_begin[state];
  // OpenFst prints a line for every state: a state without arcs is final, possibly with an infinite cost.
  std::vector<bool> has_line(number_of.count());
  for (const int32_t state : src) has_line[state] = true;
  for (const auto& final : finals) has_line[number_of(final.first)] = true;
  for (const int32_t name : dst) {
    if (has_line[number_of(name)]) continue;
    fail(FstTextFault::kLost, {}, 0);
    made.line = first_line;
    return find_entry(begin, end, name, made);
  }
  std::vector<int64_t> next(made.arc_begin.begin(), made.arc_begin.end() - 1);
  made.dst.resize(src.size());
  made.label.resize(src.size());
  made.cost.resize(src.size());
  for (size_t arc = 0; arc < src.size(); ++arc) {
    const int64_t to = next[src[arc]]++;
    made.dst[to] = number_of(dst[arc]);
    made.label[to] = label[arc];
    made.cost[to] = cost[arc];
  }
}

}  // namespace ninja
