// Writer of the nodes and links of HTK's standard lattice format; costs are unchanged when they are read again.
// Source: HTK HNet.c (WriteOneLattice).
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

struct SlfStyle {
  const int32_t* time = nullptr;  // [num_states], frames, or null
  double frame_shift = 0.01;      // seconds
  int decimals = 2;               // number of decimals of times
  double log_base = 1;            // divisor of natural logarithms
  bool linear = false;            // write probabilities instead of logarithms
  bool end = false;               // add an end node after the final states
  int32_t end_time = -1;
};

class SlfLines {
 public:
  SlfLines(const SlfStyle& style) : style_(style) {}

  std::string lines;

  void node(int64_t number, int32_t time) {
    lines += "I=";
    integer(number);
    if (style_.time != nullptr) {
      lines += "\tt=";
      fixed(time * style_.frame_shift);
    }
    lines += '\n';
  }

  void link(int64_t number, int64_t start, int64_t end, const std::string& word, float graph, float acoustic) {
    lines += "J=";
    integer(number);
    lines += "\tS=";
    integer(start);
    lines += "\tE=";
    integer(end);
    lines += "\tW=";
    lines += word;
    lines += "\ta=";
    score(acoustic);
    lines += "\tl=";
    score(graph);
    lines += '\n';
  }

 private:
  void integer(int64_t number) {
    char text[24];
    lines.append(text, std::to_chars(text, text + sizeof text, number).ptr - text);
  }

  // The fewest digits that are read as the same number.
  template <class Number>
  void shortest(Number number) {
    char text[40];
#ifdef __cpp_lib_to_chars
    lines.append(text, std::to_chars(text, text + sizeof text, number).ptr - text);
#else
    lines.append(text, std::snprintf(text, sizeof text, sizeof(Number) == 4 ? "%.9g" : "%.17g", double{number}));
#endif
  }

  void score(float cost) {
    const double log = cost == 0 ? 0 : -static_cast<double>(cost);
    if (style_.linear) {
      shortest(std::exp(log));
    } else if (style_.log_base == 1) {
      shortest(static_cast<float>(log));
    } else {
      shortest(log / style_.log_base);
    }
  }

  void fixed(double seconds) {
    char text[64];
    lines.append(text, std::snprintf(text, sizeof text, "%.*f", style_.decimals, seconds));
  }

  const SlfStyle& style_;
};

// Return the lines of all nodes and links. `place` is the index in `texts` of the word of each arc.
inline std::string slf_lines(const Arcs& arcs, const int32_t* place, const std::vector<std::string>& texts,
                             const SlfStyle& style) {
  SlfLines out(style);
  out.lines.reserve(16 * arcs.num_states + 48 * arcs.num_arcs + 64);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    out.node(state, style.time == nullptr ? 0 : style.time[state]);
  }
  if (style.end) out.node(arcs.num_states, style.end_time);
  int64_t state = 0, number = 0;
  for (; number < arcs.num_arcs; ++number) {
    while (arcs.arc_begin[state + 1] <= number) ++state;
    out.link(number, state, arcs.dst[number], texts[place[number]], arcs.graph[number], arcs.acoustic[number]);
  }
  if (!style.end) return out.lines;
  static const std::string kNullWord = "!NULL";
  for (state = 0; state < arcs.num_states; ++state) {
    if (!is_final(arcs, state)) continue;
    out.link(number++, state, arcs.num_states, kNullWord, arcs.final_graph[state], arcs.final_acoustic[state]);
  }
  return out.lines;
}

}  // namespace ninja
