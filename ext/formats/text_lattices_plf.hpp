// Parser of the lattices of Moses (PLF), which are lines of text.
// Source: Moses, "Word lattices" (PLF).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decimal.hpp"
#include "formats/text_tokens.hpp"

namespace ninja {

enum class PlfScores : int32_t { kAuto, kLog, kProbability, kScore };

// A lattice of Moses: a Python tuple of the arcs that leave each state, ('word', score..., distance).
class PlfParser : public TextTokens {
 public:
  // `graph` and `acoustic`: index of the score that becomes the cost, or -1.
  PlfParser(const char* begin, const char* end, int64_t line, PlfScores kind, int32_t graph, int32_t acoustic)
      : TextTokens(begin, end, line), kind_(kind), graph_(graph), acoustic_(acoustic) {}

  void parse() {
    skip_space();
    if (at_ == end_) {  // an empty line is the empty sentence, like "()"
      text.num_nodes = 1;
      return;
    }
    open();
    int64_t num_states = 0, furthest = 0;
    int64_t furthest_line = line_;
    while (!closed()) {
      open();
      while (!closed()) {
        const int64_t to = num_states + read_arc(static_cast<int32_t>(num_states));
        if (to > furthest) {
          furthest = to;
          furthest_line = line_;
        }
        comma();
      }
      comma();
      ++num_states;
    }
    if (furthest > num_states) {
      refuse(
          "an arc leads to state " + std::to_string(furthest) + ", but the last one is " + std::to_string(num_states),
          furthest_line);
    }
    text.num_nodes = num_states + 1;
    text.end = static_cast<int32_t>(num_states);
    skip_space();
    if (at_ != end_) fail("the line continues after the lattice: " + shown(seen()));
    if (num_scores_ >= 0 && (graph_ >= num_scores_ || acoustic_ >= num_scores_)) {
      fail("score " + std::to_string(std::max(graph_, acoustic_)) + " was selected, but arcs have " +
           std::to_string(num_scores_));
    }
    settle_costs();
  }

 private:
  void open() {
    skip_space();
    if (*at_ != '(') fail("expected '(', found " + shown(seen()));
    ++at_;
  }

  bool closed() {
    skip_space();
    if (at_ == end_) fail("the lattice ends within its parentheses");
    if (*at_ != ')') return false;
    ++at_;
    return true;
  }

  // Skip a comma, which is optional after the last element. Python requires it in a tuple of one element, but Joshua's
  // manual has lattices without it.
  void comma() {
    skip_space();
    if (*at_ == ',') {
      ++at_;
    } else if (*at_ != ')') {
      fail("expected ',' or ')', found " + shown(seen()));
    }
  }

  std::string_view quoted() {
    skip_space();
    const char quote = *at_;
    if (quote != '\'' && quote != '"') fail("expected a word in quotes, found " + shown(seen()));
    const char* from = ++at_;
    bool plain = true;
    for (; at_ < end_ && *at_ != quote && *at_ != '\n'; ++at_) {
      if (*at_ != '\\') continue;
      plain = false;
      if (++at_ == end_ || (*at_ != '\\' && *at_ != '\'' && *at_ != '"')) {
        fail("a backslash must be followed by a quote or a backslash: " +
             shown({from, static_cast<size_t>(at_ - from)}));
      }
    }
    const std::string_view raw(from, at_ - from);
    if (at_ == end_ || *at_ != quote) fail("the word has no closing quote: " + shown(raw));
    ++at_;
    if (raw.empty()) fail("the word is empty");
    if (plain) return raw;
    std::string made;
    for (size_t letter = 0; letter < raw.size(); ++letter) made += raw[letter += raw[letter] == '\\'];
    return words.own(std::move(made));
  }

  double number() {
    skip_space();
    double value = 0;
    const char* stop = at_ == end_ ? nullptr : parse_decimal(at_, end_, value);
    if (stop == nullptr) fail("expected a finite number, found " + shown(seen()));
    at_ = stop;
    return value;
  }

  // Read an arc; return its distance in states.
  int64_t read_arc(int32_t state) {
    open();
    const int64_t line = line_;
    const int32_t word = words.add(quoted(), line);
    const size_t first = scores_.size();
    double last = 0;
    bool any = false;
    skip_space();
    while (*at_ == ',') {
      ++at_;
      skip_space();
      if (*at_ == ')') break;
      if (any) scores_.push_back(last);
      last = number();
      any = true;
      skip_space();
    }
    if (*at_ != ')') fail("expected ',' or ')', found " + shown(seen()));
    ++at_;
    if (!any) fail("an arc needs a word, scores and a distance");
    const int32_t num_scores = static_cast<int32_t>(scores_.size() - first);
    if (num_scores_ < 0) num_scores_ = num_scores;
    if (num_scores != num_scores_) {
      refuse("an arc has " + std::to_string(num_scores) + " scores, the others " + std::to_string(num_scores_), line);
    }
    if (!(last >= 1 && last <= std::numeric_limits<int32_t>::max() / 2) || last != std::floor(last)) {
      refuse("the last number of an arc must be its distance, an integer of at least 1", line);
    }
    text.add_link(state, static_cast<int32_t>(std::min<double>(state + last, std::numeric_limits<int32_t>::max())),
                  word, 0, 0, line);
    return static_cast<int64_t>(last);
  }

  static constexpr double kRounding = 0.001;  // tolerance of logarithms of sums of probabilities

  // Determine the kind of the scores: probabilities if all are in (0, 1] and those of the first state's arcs sum to 1,
  // or if all are 1; otherwise logarithms.
  PlfScores kind_of(int32_t which) const {
    double first = 0;
    bool ones = true, probabilities = true;
    for (int64_t link = 0; link < text.num_links(); ++link) {
      const double score = scores_[link * num_scores_ + which];
      if (text.src[link] == 0) first += score;
      ones &= score == 1;
      probabilities &= score > 0 && score <= 1;
    }
    if (!probabilities) return PlfScores::kLog;
    return ones || std::fabs(first - 1) < 0.01 ? PlfScores::kProbability : PlfScores::kLog;
  }

  void settle_costs() {
    for (const bool acoustic : {false, true}) {
      const int32_t which = acoustic ? acoustic_ : graph_;
      if (which < 0 || num_scores_ < 0) continue;
      const PlfScores kind = kind_ == PlfScores::kAuto ? kind_of(which) : kind_;
      for (int64_t link = 0; link < text.num_links(); ++link) {
        (acoustic ? text.acoustic : text.graph)[link] =
            cost(kind, scores_[link * num_scores_ + which], text.line[link]);
      }
    }
  }

  static float cost(PlfScores kind, double score, int64_t line) {
    if (kind == PlfScores::kProbability) {
      if (!(score > 0 && score <= 1)) refuse("a score is not a probability above 0", line);
      return static_cast<float>(0 - std::log(score));
    }
    if (kind == PlfScores::kLog && score > kRounding) {
      refuse("a score is positive, so it is not the logarithm of a probability; set the kind of scores", line);
    }
    return static_cast<float>(0 - score);
  }

  std::vector<double> scores_;  // scores of all arcs, `num_scores_` each
  int32_t num_scores_ = -1;
  const PlfScores kind_;
  const int32_t graph_, acoustic_;
};

}  // namespace ninja
