// Parsers of the lattice files of CMU Sphinx and SRILM (PFSG).
// Source: pocketsphinx src/ps_lattice.c (ps_lattice_read); SRILM, pfsg-format(5).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decimal.hpp"
#include "formats/text_tokens.hpp"

namespace ninja {

// A lattice of Sphinx 3 or PocketSphinx: words begin at nodes, and an edge has the acoustic score of the word of its
// source node.
class SphinxParser : public TextTokens {
 public:
  // `base`: base of the logarithms, 0 if the file must contain it; `bracketed`: words in [] or ++ are also silence.
  SphinxParser(const char* begin, const char* end, double base, bool bracketed)
      : TextTokens(begin, end, 1), base_(base), bracketed_(bracketed) {}

  void parse() {
    text.last_frame = parameter("Frames", std::numeric_limits<int32_t>::max());
    text.num_nodes = parameter("Nodes", (end_ - at_) / 10 + 1);
    skip_line();
    read_nodes();
    text.start = parameter("Initial", text.num_nodes);
    text.end = parameter("Final", text.num_nodes);
    const int32_t num_best = parameter("BestSegAscr", std::numeric_limits<int32_t>::max());
    skip_line();
    for (int32_t best = 0; best < num_best; ++best) {
      if (at_ == end_) fail("the file ends within BestSegAscr");
      skip_line();
    }
    seek("Edges");
    refuse_end_frames();
    skip_line();
    read_edges();
    refuse_passed_ends(text, "edge", Fault::kFormat);
    text.word_begins = true;
  }

 private:
  // Skip comments and empty lines, and then a name at the beginning of a line.
  void seek(const char* name) {
    while (true) {
      skip_space();
      if (at_ == end_) fail("the file ends before '" + std::string(name) + "'");
      if (*at_ != '#') break;
      static constexpr std::string_view kBase = "# -logbase ";
      if (std::string_view(at_, end_ - at_).substr(0, kBase.size()) == kBase) {
        at_ += kBase.size();
        const double given = decimal("the base of logarithms");
        if (!(given > 1)) fail("the base of logarithms must be greater than 1");
        if (std::exchange(base_given_, true) && given != base_) fail("there is a second base of logarithms");
        base_ = given;
      }
      skip_line();
    }
    const std::string_view found = word();
    if (found != name) fail("expected '" + std::string(name) + "', found " + shown(found));
  }

  int32_t parameter(const char* name, int64_t limit) {
    seek(name);
    skip_spaces();
    return integer(name, limit);
  }

  void read_nodes() {
    text.node_word.assign(text.num_nodes, kNoWord);
    text.time.assign(text.num_nodes, -1);
    for (int64_t number = 0; number < text.num_nodes; ++number) {
      skip_space();
      if (at_ == end_) fail("the file ends within the nodes");
      const int32_t node = integer("the node", text.num_nodes);
      if (text.time[node] >= 0) fail("node " + std::to_string(node) + " is described twice");
      skip_spaces();
      const std::string_view name = word();
      if (name.empty()) fail("node " + std::to_string(node) + " has no word");
      text.node_word[node] = word_of(name);
      skip_spaces();
      constexpr int64_t kLatest = std::numeric_limits<int32_t>::max();
      text.time[node] = integer("the first frame", kLatest);
      skip_spaces();
      integer("the first end", kLatest);
      skip_spaces();
      integer("the last end", kLatest);
      skip_line();  // the best scores of Sphinx 3, or an id of PocketSphinx; the scores of edges are used
    }
  }

  // Remove the pronunciation number of a word.
  int32_t word_of(std::string_view name) {
    const size_t size = name.size();
    if (bracketed_ && size >= 2 && name.front() == '[' && name.back() == ']') return kSilent;
    if (bracketed_ && size >= 4 && name.substr(0, 2) == "++" && name.substr(size - 2) == "++") return kSilent;
    const size_t open = name.back() == ')' ? name.rfind('(') : std::string_view::npos;
    if (open != std::string_view::npos && open > 0 && open + 2 < size) {
      int32_t parsed = 0;
      const char* stop = parse_integer(name.data() + open + 1, parsed);
      if (stop == name.data() + size - 1 && parsed > 0) name = name.substr(0, open);
    }
    return words.add(name, line_);
  }

  // Sphinx 3 can write edges with the frame in which a word ends instead of the next node.
  void refuse_end_frames() const {
    const void* stop = std::memchr(at_, '\n', end_ - at_);
    const std::string_view rest(at_, (stop == nullptr ? end_ : static_cast<const char*>(stop)) - at_);
    if (rest.find("ENDFRAME") != std::string_view::npos) {
      fail("the edges lead to frames instead of nodes; configure Sphinx to write FROM-NODEID TO-NODEID ASCORE");
    }
  }

  void read_edges() {
    if (base_ == 0) fail("there is no line '# -logbase' with the base of the scores; set it with --from sphinx:base=");
    const double factor = std::log(base_);
    while (true) {
      skip_space();
      if (at_ == end_) fail("the file ends within the edges: 'End' is missing");
      if (*at_ == '#') {
        skip_line();
        continue;
      }
      if (*at_ == 'E') break;
      const int64_t line = line_;
      const int32_t from = integer("the first node", text.num_nodes);
      skip_spaces();
      const int32_t to = integer("the second node", text.num_nodes);
      skip_spaces();
      int32_t score = 0;
      const char* stop = at_ == end_ ? nullptr : parse_integer(at_, score);
      if (stop == nullptr || !at_break(stop)) fail("the score is not an integer of 32 bits: " + shown(seen()));
      at_ = stop;
      skip_spaces();
      if (at_ != end_ && *at_ != '\n') fail("the edge has more fields than two nodes and a score: " + shown(seen()));
      text.add_link(from, to, kNoWord, 0, static_cast<float>(0 - score * factor), line);
    }
    if (word() != "End") fail("expected 'End'");
    skip_space();
    if (at_ != end_) fail("the file continues after 'End': " + shown(seen()));
  }

  double base_;
  const bool bracketed_;
  bool base_given_ = false;
};

// A probabilistic finite-state grammar of SRILM, with words on nodes and a cost on each transition.
class PfsgParser : public TextTokens {
 public:
  std::string_view name;

  using TextTokens::TextTokens;

  // Parse the lattice at the current position.
  void parse() {
    expect("name");
    skip_spaces();
    name = word();
    if (name.empty()) fail("the lattice has no name");
    expect("nodes");
    skip_space();
    const int32_t num_nodes = count("the number of nodes", 2);
    if (num_nodes == 0) fail("the lattice is empty: it has no nodes");
    text.num_nodes = num_nodes;
    text.node_word.reserve(num_nodes);
    for (int32_t node = 0; node < num_nodes; ++node) {
      skip_space();
      if (at_ == end_) fail("the file ends within the nodes");
      const std::string_view label = word();
      text.node_word.push_back(words.add(label, line_));
    }
    expect("initial");
    skip_space();
    text.start = integer("the initial node", num_nodes);
    expect("final");
    skip_space();
    text.end = integer("the final node", num_nodes);
    expect("transitions");
    skip_space();
    const int32_t num_transitions = count("the number of transitions", 6);
    for (int32_t transition = 0; transition < num_transitions; ++transition) {
      skip_space();
      const int64_t line = line_;
      const int32_t from = integer("the first node", num_nodes);
      skip_space();
      const int32_t to = integer("the second node", num_nodes);
      skip_space();
      const double score = decimal("the cost");
      text.add_link(from, to, kNoWord, static_cast<float>(0 - score / kScale), 0, line);
    }
    refuse_passed_ends(text, "transition", Fault::kLattice);
    skip_space();
  }

  static constexpr double kScale = 10000.5;  // factor of natural logarithms

 private:
  void expect(const char* keyword) {
    skip_space();
    const std::string_view found = at_ == end_ ? std::string_view() : word();
    if (found != keyword) {
      fail("expected '" + std::string(keyword) + "', found " +
           (at_ == end_ && found.empty() ? "the end" : shown(found)));
    }
  }
};

}  // namespace ninja
