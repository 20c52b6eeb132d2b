// A section of an HTK lattice file, and a check that all links have the same kinds of words and scores.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/text_lattices.hpp"

namespace ninja {

struct SlfCost {
  std::string field;  // name of the field on links and nodes
  int32_t item;       // index in a list separated by commas; -1 for a single number
  bool acoustic;
};

// A header and its lattice.
struct SlfSection {
  std::string_view name;  // name of a sub-lattice
  TextGraph text;
  std::vector<int32_t> sub;  // [nodes], the sub-lattice of each node, or -1; empty if there are no sub-lattices
  std::vector<int32_t> impossible_nodes;         // nodes whose words have probability 0
  std::vector<uint32_t> link_costs, node_costs;  // [links], [nodes] or empty; bits of the costs on each
};

// Return the bit of each cost; "acoustic" and "a" share a bit, and "language" and "l" share a bit.
inline std::vector<uint32_t> slf_cost_bits(const std::vector<SlfCost>& costs) {
  const auto short_name = [](const std::string& name) {
    return name == "acoustic" || name == "language" ? name.substr(0, 1) : name;
  };
  std::vector<uint32_t> bits;
  for (size_t number = 0; number < costs.size(); ++number) {
    size_t first = 0;
    while (costs[first].item != costs[number].item || costs[first].acoustic != costs[number].acoustic ||
           short_name(costs[first].field) != short_name(costs[number].field)) {
      ++first;
    }
    bits.push_back(1u << first);
  }
  return bits;
}

class SlfWhole {
 public:
  // `missing`: natural-log cost of links without a score that other links have; null if such links are errors.
  SlfWhole(SlfSection& section, const std::vector<SlfCost>& costs, const std::vector<uint32_t>& bits,
           const double* missing)
      : section_(section), text_(section.text), costs_(costs), bits_(bits), missing_(missing) {}

  void check() {
    refuse_passed_ends(text_, "link", Fault::kFormat);
    refuse_double_costs();
    refuse_lost_words();
    refuse_lost_costs();
  }

 private:
  int32_t node_of(int64_t link) const { return text_.word_begins ? text_.src[link] : text_.dst[link]; }

  // Return the word of a link or its node; kNoWord if neither has a word, not even the null word.
  int32_t word_of(int64_t link) const {
    if (text_.word[link] != kNoWord || text_.node_word.empty()) return text_.word[link];
    return text_.node_word[node_of(link)];
  }

  bool leads_to_sub(int64_t link) const { return !section_.sub.empty() && section_.sub[node_of(link)] >= 0; }

  uint32_t costs_of(int64_t link) const {
    return section_.link_costs[link] | (section_.node_costs.empty() ? 0 : section_.node_costs[node_of(link)]);
  }

  // A score of a node belongs to each link that gets its word, so the link must not have the same score.
  void refuse_double_costs() const {
    if (section_.node_costs.empty()) return;
    for (int64_t link = 0; link < text_.num_links(); ++link) {
      const int32_t node = node_of(link);
      if ((section_.link_costs[link] & section_.node_costs[node]) == 0) continue;
      refuse("the link and its node " + std::to_string(node) + " have the same score", text_.line[link]);
    }
  }

  // If there are words, every link needs a word or the null word. The first and the last node need neither.
  void refuse_lost_words() {
    bool on_links = false;
    for (int64_t link = 0; link < text_.num_links() && !on_links; ++link) on_links = text_.word[link] != kNoWord;
    has_words_ = on_links || !text_.node_word.empty() || !section_.sub.empty();
    if (!has_words_) return;
    for (int64_t link = 0; link < text_.num_links(); ++link) {
      if (word_of(link) != kNoWord || leads_to_sub(link)) continue;
      const int32_t node = node_of(link);
      if (on_links) {
        refuse("the link has no word (W=), but others have; write W=!NULL for no word", text_.line[link]);
      } else if (node != text_.start && node != text_.end) {
        refuse("the link gets the word of node " + std::to_string(node) +
                   ", which has none (W=), but others have; write W=!NULL for no word",
               text_.line[link]);
      }
    }
  }

  // A link without a word may lack scores, because SRILM does not write them.
  void refuse_lost_costs() {
    uint32_t found = 0, on_all = ~0u;
    for (int64_t link = 0; link < text_.num_links(); ++link) {
      found |= costs_of(link);
      on_all &= costs_of(link);
    }
    if ((found & ~on_all) == 0) return;
    for (int64_t link = 0; link < text_.num_links(); ++link) {
      const uint32_t lost = found & ~costs_of(link);
      if (lost == 0) continue;
      const int32_t word = word_of(link);
      const bool has_word = word > 0 || leads_to_sub(link) || (word == kNoWord && !has_words_);
      if (!has_word) continue;
      for (size_t number = 0; number < costs_.size(); ++number) {
        if (bits_[number] != 1u << number || (lost & bits_[number]) == 0) continue;
        const SlfCost& cost = costs_[number];
        if (missing_ == nullptr) {
          refuse("the link has no score " + cost.field + "=" +
                     (cost.item < 0 ? "" : " (item " + std::to_string(cost.item) + ")") +
                     ", but others have; specify a value for missing ones: --from slf:missing_score=0",
                 text_.line[link]);
        }
        (cost.acoustic ? text_.acoustic : text_.graph)[link] += static_cast<float>(*missing_);
      }
    }
  }

  SlfSection& section_;
  TextGraph& text_;
  const std::vector<SlfCost>& costs_;
  const std::vector<uint32_t>& bits_;
  const double* missing_;
  bool has_words_ = false;
};

}  // namespace ninja
