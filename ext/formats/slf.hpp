// Parser of HTK's standard lattice format, in one pass over the bytes.
// Source: S. Young et al., The HTK Book 3.4, chapter "Lattices and language models"; HTK HNet.c (ReadOneLattice).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/keyed_hash.hpp"
#include "formats/slf_scan.hpp"
#include "formats/slf_whole.hpp"

namespace ninja {

enum class SlfWords : int32_t { kAuto, kBegin, kEnd };

struct SlfOptions {
  double frame_shift = 0.01;  // seconds
  SlfWords words = SlfWords::kAuto;
  std::vector<SlfCost> costs;  // at most 32
  bool fill = false;           // links without a score get `missing_score`; otherwise they are errors
  double missing_score = 0;    // natural logarithm
};

class SlfParser : public SlfScanner {
 public:
  std::vector<SlfSection> sections;  // the last section is the lattice, and the others are its sub-lattices
  std::string_view utterance;        // name of the lattice in the header; empty if it has none
  std::vector<int64_t> num_costs;    // number of fields with each cost
  bool word_begins = false;

  SlfParser(const char* begin, const char* end, const SlfOptions& options)
      : SlfScanner(begin, end), num_costs(options.costs.size(), 0), options_(options), size_(end - begin) {}

  int64_t size() const { return size_; }  // size of the file in bytes

  void parse() {
    bits_ = slf_cost_bits(options_.costs);
    while (true) {
      SlfSection section;
      read_header(section);
      read_body(section);
      const bool more = !section.name.empty();
      if (more) number_of_.emplace(section.name, static_cast<int32_t>(sections.size()));
      sections.push_back(std::move(section));
      if (!more) break;
    }
  }

 private:
  static constexpr int32_t kNoFrame = std::numeric_limits<int32_t>::min();

  void read_header(SlfSection& section) {
    int32_t num_nodes = -1, num_links = -1;
    start_node_ = end_node_ = -1;
    base_given_ = false;
    std::string_view name;
    while (true) {
      const Place place = next_field(name);
      if (place == kFileEnd) fail("the file ends before N= and L=, the size of the lattice");
      if (place == kLineEnd) {
        if (num_nodes < 0 || num_links < 0) {
          new_line();
        } else if (body_begins()) {
          break;
        }
        continue;
      }
      if (name == "N" || name == "NODES") {
        only_once(num_nodes < 0, name);
        num_nodes = count(name, 4);  // a node has at least the field "I=0", or "S=0" on a link
      } else if (name == "L" || name == "LINKS") {
        only_once(num_links < 0, name);
        num_links = count(name, 11);  // a link has at least the fields "J=0 S=0 E=1"
      } else if (name == "I" || name == "J" || name == ".") {
        fail("expected N= and L= before " + shown(name));
      } else {
        read_entry(name, section);
      }
    }
    if (num_nodes == 0) fail("N=0: the lattice is empty");
    if (section.name.empty()) {
      if (!direction_given_) word_begins = first_comment_.find("by PocketSphinx") != std::string_view::npos;
      if (options_.words != SlfWords::kAuto) word_begins = options_.words == SlfWords::kBegin;
    }
    TextGraph& text = section.text;
    text.num_nodes = num_nodes;
    text.src.assign(num_links, -1);
    text.dst.resize(num_links);
    text.word.resize(num_links);
    text.line.resize(num_links);
    text.graph.resize(num_links);
    text.acoustic.resize(num_links);
    section.link_costs.resize(num_links);
    if (start_node_ >= num_nodes || end_node_ >= num_nodes) {
      fail((start_node_ >= num_nodes ? "start=" + std::to_string(start_node_) : "end=" + std::to_string(end_node_)) +
           " is not a node; the last node is " + std::to_string(num_nodes - 1));
    }
  }

  // Move from the end of a line to the next line with fields; return whether nodes or links begin there.
  bool body_begins() {
    while (true) {
      new_line();
      const char* at = at_;
      std::string_view name;
      const Place place = next_field(name);
      if (place == kLineEnd) continue;
      at_ = at;
      return place == kFileEnd || name == "I" || name == "J" || name == ".";
    }
  }

  void read_entry(std::string_view name, SlfSection& section) {
    const char* from = at_;
    if (name == "base") {
      only_once(!base_given_, name);
      base_given_ = true;
      const double base = decimal(name);
      if (base < 0 || (base > 0 && base < 1)) fail("base=" + std::string(from, at_) + " is not a base of logarithms");
      linear_ = base == 0;
      log_base_ = base == 0 || base == 1 ? 1 : std::log(base);  // 1 means natural logarithms in HTK
    } else if (name == "tscale") {
      time_scale_ = decimal(name);
      if (!(time_scale_ > 0)) fail("tscale=" + std::string(from, at_) + " is not positive");
    } else if (name == "start" || name == "end") {
      int32_t& node = name == "start" ? start_node_ : end_node_;
      only_once(node < 0, name);
      node = integer(name, std::numeric_limits<int32_t>::max());
    } else if (name == "dir") {
      const std::string_view value = text_value(name);
      if (value != "f" && value != "b") fail("dir=" + std::string(value.substr(0, 20)) + ", but must be f or b");
      direction_given_ = true;
      word_begins = value == "b";
    } else if (name == "SUBLAT" || name == "S") {
      only_once(section.name.empty(), name);
      section.name = text_value(name);
      if (number_of_.count(section.name) > 0) fail("there is a second sub-lattice " + shown(section.name));
      if (section.name.empty()) fail("the sub-lattice has no name");
    } else {
      const std::string_view value = at_break(at_) ? std::string_view() : text_value(name);
      if (utterance.empty() && (name == "UTTERANCE" || name == "U")) utterance = value;
    }
  }

  void only_once(bool first, std::string_view name) const {
    if (!first) fail(shown(name) + " occurs twice in the header");
  }

  // Read the number of nodes or links, which is bounded by the size of the file.
  int32_t count(std::string_view name, int64_t bytes_each) {
    const int32_t number = integer(name, std::numeric_limits<int32_t>::max());
    if (number > size_ / bytes_each) {
      fail(std::string(name) + "=" + std::to_string(number) + ", but the file has " + std::to_string(size_) +
           " bytes only");
    }
    return number;
  }

  void read_body(SlfSection& section) {
    TextGraph& text = section.text;
    std::vector<bool> known(text.num_nodes, false);
    int64_t num_nodes = 0, num_links = 0;
    bool ended = false;
    std::string_view name;
    while (true) {
      const Place place = next_field(name);
      if (place == kFileEnd) {
        if (!section.name.empty()) fail("the file ends within the sub-lattice " + shown(section.name));
        break;
      }
      if (place == kLineEnd) {
        new_line();
        continue;
      }
      if (name == ".") {
        if (section.name.empty()) {
          if (std::exchange(ended, true)) fail("there is a second '.'");
          continue;
        }
        break;
      }
      if (ended) fail("the lattice continues after its '.'");
      if (name == "I") {
        const int32_t node = integer("I", text.num_nodes);
        if (known[node]) fail("node " + std::to_string(node) + " is described twice");
        known[node] = true;
        ++num_nodes;
        read_node(section, node);
      } else if (name == "J") {
        const int32_t link = integer("J", text.num_links());
        if (text.src[link] >= 0) fail("link " + std::to_string(link) + " is described twice");
        ++num_links;
        read_link(section, link);
      } else if (name == "VERSION" || name == "V") {
        fail("a second lattice begins here, but files of this format contain one; split the file before each VERSION=");
      } else {
        fail("expected a node (I=) or a link (J=), found field " + shown(name));
      }
    }
    if (num_links < text.num_links()) {
      fail("L=" + std::to_string(text.num_links()) + ", but there are " + std::to_string(num_links) + " links");
    }
    if (num_nodes > 0 && num_nodes < text.num_nodes) {  // nodes without words and times may be omitted
      fail("N=" + std::to_string(text.num_nodes) + ", but there are " + std::to_string(num_nodes) + " nodes");
    }
    if (num_nodes == 0 && text.num_nodes > 2 * num_links + 1) {
      fail("N=" + std::to_string(text.num_nodes) + ", but there are no nodes, and links name fewer");
    }
    text.word_begins = word_begins;
    settle_times(text);
    settle_ends(text);
    const double missing = 0 - options_.missing_score;
    SlfWhole(section, options_.costs, bits_, options_.fill ? &missing : nullptr).check();
    settle_impossible(section);
  }

  void read_node(SlfSection& section, int32_t node) {
    TextGraph& text = section.text;
    double sums[2] = {0, 0};
    bool timed = false, worded = false;
    costs_seen_ = 0;
    is_possible_ = true;
    std::string_view name;
    while (next_field(name) == kField) {
      if (name == "t" || name == "time") {
        if (std::exchange(timed, true)) fail("the line has two times");
        if (text.time.empty()) text.time.assign(text.num_nodes, kNoFrame);
        text.time[node] = frame(decimal(name));
      } else if (name == "W" || name == "WORD") {
        if (std::exchange(worded, true)) fail("the line has two words or sub-lattices");
        if (text.node_word.empty()) text.node_word.assign(text.num_nodes, kNoWord);
        text.node_word[node] = words.add(text_value(name), line_);
      } else if (name == "L" || name == "SUBLAT") {
        if (std::exchange(worded, true)) fail("the line has two words or sub-lattices");
        if (section.sub.empty()) section.sub.assign(text.num_nodes, -1);
        section.sub[node] = section_named(text_value(name));
      } else if (add_costs(name, sums)) {
        if (text.node_graph.empty()) {
          text.node_graph.assign(text.num_nodes, 0);
          text.node_acoustic.assign(text.num_nodes, 0);
          section.node_costs.assign(text.num_nodes, 0);
        }
      } else {
        skip_value(name);
      }
    }
    if (!is_possible_) section.impossible_nodes.push_back(node);
    if (text.node_graph.empty()) return;
    section.node_costs[node] = costs_seen_;
    text.node_graph[node] = static_cast<float>(sums[0]);
    text.node_acoustic[node] = static_cast<float>(sums[1]);
  }

  void read_link(SlfSection& section, int32_t link) {
    TextGraph& text = section.text;
    double sums[2] = {0, 0};
    int32_t start = -1, end = -1, word = kNoWord;
    costs_seen_ = 0;
    is_possible_ = true;
    std::string_view name;
    while (next_field(name) == kField) {
      if (name == "S" || name == "START") {
        if (start >= 0) fail("the line has two start nodes");
        start = integer(name, text.num_nodes);
      } else if (name == "E" || name == "END") {
        if (end >= 0) fail("the line has two end nodes");
        end = integer(name, text.num_nodes);
      } else if (name == "W" || name == "WORD") {
        if (word != kNoWord) fail("the line has two words");
        word = words.add(text_value(name), line_);
      } else if (!add_costs(name, sums)) {
        skip_value(name);
      }
    }
    if (start < 0 || end < 0) fail("link " + std::to_string(link) + " has no " + (start < 0 ? "S=" : "E="));
    text.src[link] = start;
    text.dst[link] = end;
    text.word[link] = word;
    text.line[link] = line_;
    section.link_costs[link] = costs_seen_;
    if (!is_possible_) {
      text.impossible.resize(text.num_links(), 0);
      text.impossible[link] = 1;
    }
    text.graph[link] = static_cast<float>(sums[0]);
    text.acoustic[link] = static_cast<float>(sums[1]);
  }

  int32_t section_named(std::string_view name) const {
    const auto found = number_of_.find(name);
    if (found == number_of_.end()) fail("sub-lattice " + shown(name) + " is not defined before this line");
    return found->second;
  }

  // Return the frame at a time in seconds.
  int32_t frame(double seconds) {
    const double exact = seconds * time_scale_ / options_.frame_shift, rounded = std::nearbyint(exact);
    if (!(rounded >= 0 && rounded <= std::numeric_limits<int32_t>::max())) {
      fail("time " + std::to_string(seconds) + " s is out of range");
    }
    return static_cast<int32_t>(rounded);
  }

  // Convert a logarithm, or for base 0 a probability, to a natural-log cost.
  double cost(std::string_view name, int32_t item) {
    const char* from = at_;
    for (int32_t comma = 0; comma < item; ++comma) {
      while (!at_break(at_) && *at_ != ',') ++at_;
      if (at_break(at_))
        fail("field " + shown(name) + " has no item " + std::to_string(item) + ": " + shown(word_at(from)));
      ++at_;
    }
    double number = 0;
    const char* stop = parse_decimal(at_, end_, number);
    if (stop == nullptr && !linear_ && is_minus_infinity(word_at(at_))) {
      at_ += word_at(at_).size();
      is_possible_ = false;
      return 0;
    }
    if (stop == nullptr || !(at_break(stop) || (*stop == ',' && item >= 0))) {
      fail("field " + shown(name) + " is not a finite number: " + shown(word_at(from)));
    }
    at_ = stop;
    if (item >= 0) at_ += word_at(at_).size();
    if (!linear_) return 0 - number * log_base_;  // 0 - 0 is 0, while -0 has a sign
    if (number == 0) {
      is_possible_ = false;
      return 0;
    }
    if (!(number > 0)) fail("base=0 makes " + std::string(name) + "= a probability, but it is " + shown(word_at(from)));
    return 0 - std::log(number);
  }

  // SRILM writes this if a word or a pronunciation has probability 0.
  static bool is_minus_infinity(std::string_view score) {
    return score == "-inf" || score == "-Inf" || score == "-infinity" || score == "-Infinity";
  }

  // Add the costs of a field; returns whether it has any.
  bool add_costs(std::string_view name, double* sums) {
    const char* from = at_;
    bool any = false;
    for (size_t number = 0; number < options_.costs.size(); ++number) {
      const SlfCost& wanted = options_.costs[number];
      if (wanted.field != name) continue;
      if (costs_seen_ & bits_[number]) fail("field " + shown(name) + " occurs twice on this line");
      costs_seen_ |= bits_[number];
      ++num_costs[number];
      at_ = from;
      sums[wanted.acoustic] += cost(name, wanted.item);
      any = true;
    }
    return any;
  }

  void skip_value(std::string_view name) {
    if (name == ".") fail("a '.' must be alone on its line");
    bool plain = true;
    raw_value(name, plain);
  }

  // Links that get the word of an impossible node are also impossible.
  void settle_impossible(SlfSection& section) {
    TextGraph& text = section.text;
    if (!section.impossible_nodes.empty()) {
      std::vector<uint8_t> is_impossible(text.num_nodes, 0);
      for (const int32_t node : section.impossible_nodes) is_impossible[node] = 1;
      if (is_impossible[word_begins ? text.end : text.start])
        fail("the lattice's first or last word has probability 0");
      text.impossible.resize(text.num_links(), 0);
      for (int64_t link = 0; link < text.num_links(); ++link) {
        text.impossible[link] |= is_impossible[word_begins ? text.src[link] : text.dst[link]];
      }
    }
    if (text.impossible.empty()) return;
    if (!section.name.empty() || !section.sub.empty())
      fail("scores of probability 0 in files with sub-lattices are not supported");
  }

  // Times are kept only if all states have one.
  void settle_times(TextGraph& text) {
    if (std::count(text.time.begin(), text.time.end(), kNoFrame) > 0) text.time.clear();
  }

  // Find the first and the last node: those of the header, or else the nodes without incoming or outgoing links.
  void settle_ends(TextGraph& text) {
    std::vector<uint8_t> entered(text.num_nodes, 0), left(text.num_nodes, 0);
    for (int64_t link = 0; link < text.num_links(); ++link) entered[text.dst[link]] = left[text.src[link]] = 1;
    const auto only = [&](const std::vector<uint8_t>& passed, const char* what, const char* field) {
      int64_t found = -1;
      for (int64_t node = 0; node < text.num_nodes; ++node) {
        if (passed[node]) continue;
        if (found >= 0) {
          fail("nodes " + std::to_string(found) + " and " + std::to_string(node) + " have no links " + what +
               " them; which one " + (*field == 's' ? "is first? Add start=" : "is last? Add end="));
        }
        found = node;
      }
      if (found < 0)
        refuse("every node has links " + std::string(what) + " it, so there is a cycle", line_, Fault::kLattice);
      return static_cast<int32_t>(found);
    };
    text.start = start_node_ >= 0 ? start_node_ : only(entered, "into", "start");
    text.end = end_node_ >= 0 ? end_node_ : only(left, "out of", "end");
  }

  const SlfOptions& options_;
  const int64_t size_;
  std::vector<uint32_t> bits_;                                          // bit of each cost, see slf_cost_bits
  std::unordered_map<std::string_view, int32_t, KeyedHash> number_of_;  // numbers of the sub-lattices by name
  bool base_given_ = false, linear_ = false, direction_given_ = false;
  double log_base_ = 1;
  double time_scale_ = 1;
  int32_t start_node_ = -1, end_node_ = -1;  // according to the header
  uint32_t costs_seen_ = 0;                  // costs on this line
  bool is_possible_ = true;                  // no score on this line has probability 0
};

}  // namespace ninja
