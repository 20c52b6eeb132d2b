// Converts lattices of text formats, with nodes, links, and words on either, to the arrays of a lattice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "formats/staging.hpp"
#include "core/top_sort.hpp"

namespace ninja {

// Thrown by the parsers, and converted to a Fault before returning to Python.
struct Refusal {
  Fault::Kind kind;
  int64_t line;
  std::string message;
};

[[noreturn]] inline void refuse(std::string message, int64_t line, Fault::Kind kind = Fault::kFormat) {
  throw Refusal{kind, line, std::move(message)};
}

inline bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\v' || letter == '\f';
}

// Quote at most 40 bytes of a file as ASCII, for messages.
inline std::string shown(std::string_view text) {
  std::string quoted(text.substr(0, 40));
  for (char& letter : quoted) letter = letter == '\t' ? ' ' : letter >= 32 && letter < 127 ? letter : '?';
  return "'" + quoted + "'";
}

// Special words of links and nodes; other words are numbered from 1.
enum : int32_t { kNull = 0, kNoWord = -1, kSilent = -2 };

// The words of a file, numbered in the order of their first appearance.
class Vocabulary {
 public:
  struct Entry {
    std::string_view text;
    int64_t line;
    int32_t word;
  };

  Vocabulary() : slots_(64, -1) {}

  // Register a spelling of the null word or of silence.
  void add_silent(std::string_view text, int32_t word) { place(own(std::string(text)), -1, word); }

  // Return the word of a text. The text must outlive this object, as the file and the results of `own` do.
  int32_t add(std::string_view text, int64_t line) { return place(text, line, num_words_ + 1); }

  std::string_view own(std::string text) { return owned_.emplace_back(std::move(text)); }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  int32_t place(std::string_view text, int64_t line, int32_t word) {
    size_t slot = keyed_hash(text) & (slots_.size() - 1);
    while (slots_[slot] >= 0) {
      const Entry& entry = entries_[slots_[slot]];
      if (entry.text == text) return entry.word;
      slot = (slot + 1) & (slots_.size() - 1);
    }
    slots_[slot] = static_cast<int32_t>(entries_.size());
    entries_.push_back({text, line, word});
    num_words_ += word > 0;
    if (2 * entries_.size() > slots_.size()) grow();
    return word;
  }

  void grow() {
    slots_.assign(2 * slots_.size(), -1);
    for (size_t number = 0; number < entries_.size(); ++number) {
      size_t slot = keyed_hash(entries_[number].text) & (slots_.size() - 1);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<int32_t>(number);
    }
  }

  std::vector<int32_t> slots_;  // the size is a power of two; at least half of the slots are free
  std::vector<Entry> entries_;
  std::deque<std::string> owned_;
  int32_t num_words_ = 0;
};

// Which links without a word into the end become final costs of their source states.
enum class Fold : int32_t { kNever, kNull, kSilent };

// A lattice as in a file, with its node numbers.
struct TextGraph {
  int64_t num_nodes = 0;
  std::vector<int32_t> src, dst, word;  // [links]
  std::vector<int64_t> line;            // [links], line in the file, or -1
  std::vector<float> graph, acoustic;   // [links], costs
  // [links], whether a link has probability 0 and is dropped; empty if there are none
  std::vector<uint8_t> impossible;
  std::vector<int32_t> node_word;                // [nodes]; empty if there are no words on nodes
  std::vector<float> node_graph, node_acoustic;  // [nodes], costs of the node's word; may be empty
  std::vector<int32_t> time;                     // [nodes], frames; may be empty
  int32_t start = 0, end = 0;
  bool word_begins = false;  // words begin at their nodes instead of ending there
  int32_t last_frame = -1;   // end frame of a word that begins at the end node, or -1

  int64_t num_links() const { return static_cast<int64_t>(src.size()); }
  bool is_possible(int64_t link) const {
    return link >= static_cast<int64_t>(impossible.size()) || impossible[link] == 0;
  }
  void add_link(int32_t from, int32_t to, int32_t the_word, float graph_cost, float acoustic_cost, int64_t the_line) {
    src.push_back(from);
    dst.push_back(to);
    word.push_back(the_word);
    line.push_back(the_line);
    graph.push_back(graph_cost);
    acoustic.push_back(acoustic_cost);
  }
};

// The arrays of a lattice; see ninja/lattice/lattice.py.
struct TextLattice {
  std::vector<int64_t> arc_begin;
  std::vector<int32_t> dst, word;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
  std::vector<int32_t> time;  // may be empty
};

// Reject links into the first node or out of the last node, which are on no path.
inline void refuse_passed_ends(const TextGraph& text, const char* link_name, Fault::Kind kind) {
  for (int64_t link = 0; link < text.num_links(); ++link) {
    const bool leaves = text.src[link] == text.end;
    if (!leaves && text.dst[link] != text.start) continue;
    refuse("the " + std::string(link_name) + (leaves ? " leaves node " : " enters node ") +
               std::to_string(leaves ? text.end : text.start) + ", which is the " + (leaves ? "last" : "first") +
               " node of the lattice; correct the link or the node",
           text.line[link], kind);
  }
}

// Assign to each link its word, and the costs of the node whose word it gets.
inline void move_words(TextGraph& text) {
  for (int64_t link = 0; link < text.num_links(); ++link) {
    const int32_t node = text.word_begins ? text.src[link] : text.dst[link];
    const int32_t there = text.node_word.empty() ? kNoWord : text.node_word[node];
    int32_t& word = text.word[link];
    if (word == kNoWord) {
      word = there == kNoWord ? kSilent : there;  // there is no word, not even the null word
    } else if (there > 0 && there != word) {
      refuse("the link's word differs from that of node " + std::to_string(node), text.line[link]);
    }
    if (text.node_graph.empty()) continue;
    text.graph[link] += text.node_graph[node];
    text.acoustic[link] += text.node_acoustic[node];
  }
  // The word of the first node (or of the last one if words begin at nodes) needs a new link.
  const int32_t edge = text.word_begins ? text.end : text.start;
  const int32_t word = text.node_word.empty() ? kNoWord : text.node_word[edge];
  const float graph = text.node_graph.empty() ? 0 : text.node_graph[edge];
  const float acoustic = text.node_graph.empty() ? 0 : text.node_acoustic[edge];
  if (word <= 0 && graph == 0 && acoustic == 0) return;
  const int32_t made = static_cast<int32_t>(text.num_nodes++);
  if (text.word_begins) {
    if (!text.time.empty()) text.time.push_back(std::max(text.last_frame, text.time[edge]));
    text.add_link(edge, made, std::max(word, 0), graph, acoustic, -1);
    text.end = made;
  } else {
    if (!text.time.empty()) text.time.push_back(0);
    text.add_link(made, edge, std::max(word, 0), graph, acoustic, -1);
    text.start = made;
  }
}

// Return whether the links into the end can become final costs: they have no words, there is one per state, and no
// link leaves the end.
inline bool can_fold(const TextGraph& text, Fold fold) {
  if (fold == Fold::kNever || text.start == text.end) return false;
  std::vector<bool> leads(text.num_nodes, false);
  bool any = false;
  for (int64_t link = 0; link < text.num_links(); ++link) {
    if (text.src[link] == text.end) return false;
    if (text.dst[link] != text.end || !text.is_possible(link)) continue;
    if (text.word[link] > 0 || (text.word[link] == kSilent && fold == Fold::kNull)) return false;
    if (leads[text.src[link]]) return false;
    leads[text.src[link]] = any = true;
  }
  return any;
}

// Create a lattice. States keep the order of the nodes if all links lead to later nodes and the first node is the
// start; otherwise reachable states are sorted as in OpenFst's TopSort.
inline TextLattice assemble(TextGraph& text, Fold fold, const char* node_name) {
  move_words(text);
  const int64_t num_nodes = text.num_nodes, num_links = text.num_links();
  const bool folded = can_fold(text, fold);
  const auto ends = [&](int64_t link) { return folded && text.dst[link] == text.end; };
  const auto keep = [&](int64_t link) { return !ends(link) && text.is_possible(link); };
  TextLattice made;
  std::vector<int64_t> begin(num_nodes + 1, 0);
  bool forward = text.start == 0;
  for (int64_t link = 0; link < num_links; ++link) {
    if (!std::isfinite(text.graph[link]) || !std::isfinite(text.acoustic[link])) {
      refuse("a cost exceeds the range of float32", text.line[link], Fault::kLattice);
    }
    begin[text.src[link] + 1] += keep(link);
    forward &= text.dst[link] > text.src[link];
  }
  forward &= !folded || text.end == num_nodes - 1;
  for (int64_t node = 0; node < num_nodes; ++node) begin[node + 1] += begin[node];
  const int64_t num_kept = begin[num_nodes];
  std::vector<int32_t> at(num_kept), there(num_kept);  // links sorted by source, and their destinations
  std::vector<int64_t> next(begin.begin(), begin.end() - 1);
  for (int64_t link = 0; link < num_links; ++link) {
    if (!keep(link)) continue;
    const int64_t place = next[text.src[link]]++;
    at[place] = static_cast<int32_t>(link);
    there[place] = text.dst[link];
  }
  std::vector<int32_t> state_of(num_nodes);
  if (forward) {
    for (int64_t node = 0; node < num_nodes; ++node) state_of[node] = static_cast<int32_t>(node);
    if (folded) state_of[text.end] = -1;
  } else {
    const auto cycle = top_sort(num_nodes, begin.data(), there.data(), text.start, state_of.data());
    if (!cycle.empty()) {
      std::string nodes;
      for (size_t step = 0; step < std::min<size_t>(cycle.size(), 5); ++step)
        nodes += std::to_string(cycle[step]) + " -> ";
      const int32_t last = cycle.back(), first = cycle.front();
      int64_t line = -1;
      for (int64_t place = begin[last]; place < begin[last + 1]; ++place) {
        if (there[place] == first) line = text.line[at[place]];
      }
      nodes += cycle.size() > 5 ? "... -> " + std::to_string(first) : std::to_string(first);
      refuse("there is a cycle: " + std::string(node_name) + "s " + nodes, line, Fault::kLattice);
    }
  }
  const std::vector<int32_t> node_at = in_new_order(state_of);
  const auto num_states = static_cast<int64_t>(node_at.size());
  made.final_graph.assign(num_states, kInfinity);
  made.final_acoustic.assign(num_states, kInfinity);
  if (folded) {
    for (int64_t link = 0; link < num_links; ++link) {
      const int32_t state = ends(link) && text.is_possible(link) ? state_of[text.src[link]] : -1;
      if (state < 0) continue;
      made.final_graph[state] = text.graph[link];
      made.final_acoustic[state] = text.acoustic[link];
    }
  } else if (state_of[text.end] >= 0) {
    made.final_graph[state_of[text.end]] = made.final_acoustic[state_of[text.end]] = 0;
  }
  made.arc_begin.reserve(num_states + 1);
  made.dst.reserve(num_kept);
  made.word.reserve(num_kept);
  made.graph.reserve(num_kept);
  made.acoustic.reserve(num_kept);
  std::vector<bool> reached(num_states, false);
  reached[state_of[text.start]] = true;
  bool has_end = false;
  for (int64_t state = 0; state < num_states; ++state) {
    const int32_t node = node_at[state];
    made.arc_begin.push_back(static_cast<int64_t>(made.dst.size()));
    if (!text.time.empty()) made.time.push_back(text.time[node]);
    has_end |= reached[state] && made.final_graph[state] < kInfinity;
    for (int64_t place = begin[node]; place < begin[node + 1]; ++place) {
      const int32_t link = at[place];
      if (reached[state]) reached[state_of[there[place]]] = true;
      made.dst.push_back(state_of[there[place]]);
      made.word.push_back(std::max(text.word[link], 0));
      made.graph.push_back(text.graph[link]);
      made.acoustic.push_back(text.acoustic[link]);
    }
  }
  made.arc_begin.push_back(static_cast<int64_t>(made.dst.size()));
  if (!has_end) {
    const std::string name = node_name;
    refuse("no path leads from the first " + name + " (" + std::to_string(text.start) + ") to the last (" +
               std::to_string(text.end) + ")",
           -1, Fault::kLattice);
  }
  return made;
}

}  // namespace ninja
