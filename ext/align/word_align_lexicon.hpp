// Alignment to words by a lexicon, for lattices whose phones do not indicate word boundaries.
//
// The lattice must be aligned to phones: an arc is one phone, or a word without labels, or a phone with a word. Phones
// and words are pending until they match an entry of the lexicon.
//
// Source: Kaldi, lat/word-align-lattice-lexicon.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"
#include "core/pair_map.hpp"
#include "align/word_align_general.hpp"

namespace ninja {

// Entries (word, output word, phones) as a tree of phones; word 0 represents silence and other units without a word.
class AlignLexicon {
 public:
  // `entry` is the concatenation of the entries, `begin` [num_entries + 1] their offsets.
  AlignLexicon(const int32_t* entry, const int64_t* begin, int64_t num_entries) {
    nodes_.emplace_back();
    for (int64_t at = 0; at < num_entries; ++at) {
      const int32_t word = entry[begin[at]], output = entry[begin[at] + 1];
      const auto num_phones = static_cast<int32_t>(begin[at + 1] - begin[at] - 2);
      int32_t node = 0;
      for (int64_t place = begin[at] + 2; place < begin[at + 1]; ++place) {
        if (node != 0) nodes_[node].passing.push_back(word);
        int32_t& next = children_(node, entry[place]);
        if (next < 0) {
          next = static_cast<int32_t>(nodes_.size());
          nodes_.emplace_back();
        }
        node = next;
      }
      nodes_[node].ending.emplace_back(word, output);
      auto& [least, most] = lengths_.try_emplace(word, num_phones, num_phones).first->second;
      least = std::min(least, num_phones);
      most = std::max(most, num_phones);
    }
    for (Node& node : nodes_) {
      std::sort(node.passing.begin(), node.passing.end());
      node.passing.erase(std::unique(node.passing.begin(), node.passing.end()), node.passing.end());
      std::sort(node.ending.begin(), node.ending.end());
    }
  }

  // Smallest and largest number of phones of the entries of a word; null if it has none.
  const std::pair<int32_t, int32_t>* lengths(int32_t word) const {
    const auto found = lengths_.find(word);
    return found == lengths_.end() ? nullptr : &found->second;
  }

  // Node after some phones, -1 if no entry begins with them.
  int32_t node(const int32_t* phone, size_t length) const {
    int32_t node = 0;
    for (size_t at = 0; at < length && node >= 0; ++at) node = children_.get(node, phone[at]);
    return node;
  }

  // Output word of the entry with a word and the phones of a node, -1 if there is none.
  int32_t output(int32_t node, int32_t word) const {
    if (node < 0) return -1;
    const auto& ending = nodes_[node].ending;
    const auto found = std::lower_bound(ending.begin(), ending.end(), std::pair<int32_t, int32_t>(word, -1));
    return found == ending.end() || found->first != word ? -1 : found->second;
  }

  // Whether the phones of a node are the beginning of a longer entry of the word.
  bool may_continue(int32_t node, int32_t word) const {
    if (node < 0) return false;
    const auto& passing = nodes_[node].passing;
    return std::binary_search(passing.begin(), passing.end(), word);
  }

 private:
  struct Node {
    std::vector<int32_t> passing;  // words of longer entries, in increasing order
    std::vector<std::pair<int32_t, int32_t>>
        ending;  // (word, output word) of entries that end here, in increasing order
  };
  std::vector<Node> nodes_;
  PairMap children_;
  std::unordered_map<int32_t, std::pair<int32_t, int32_t>, KeyedHash> lengths_;
};

struct LexiconOptions {
  int32_t no_word;  // replaces word 0 in the result, so that it is not an epsilon
  int32_t partial_word;
  int64_t expansion;  // if > 0, the maximum number of states
  int64_t max_states, max_labels;
};

class LexiconAligner {
 public:
  LexiconAligner(const Arcs& arcs, const Alignments& alignments, const Labels& known, const AlignLexicon& lexicon,
                 const LexiconOptions& options)
      : arcs_(arcs), alignments_(alignments), known_(known), lexicon_(lexicon), options_(options) {}

  AlignGraph align() {
    int64_t num_finals = 0;
    for (int64_t state = 0; state < arcs_.num_states; ++state) num_finals += is_final(arcs_, state);
    one_final_ = num_finals == 1;
    state_of({});
    while (!places_.empty() && !to_.too_large && unknown_word_ < 0) {
      to_.too_large = to_.size() > options_.max_labels;
      if (options_.expansion > 0 && to_.num_states > options_.expansion) {
        to_.final_state.clear();
        to_.fault = AlignFault::kTooManyStates;
        return std::move(to_);
      }
      const auto [place, state] = places_.pop();
      leave(place, state);
    }
    finish();
    return std::move(to_);
  }

  // Word of the lattice without an entry, or -1; the result is incomplete if there is one.
  int32_t unknown_word() const { return unknown_word_; }

 private:
  using Values = std::vector<int32_t>;
  // Changes due to the last step: only new combinations are tried, so that none is tried twice.
  enum Fresh : int32_t { kOld, kNew, kAllNew };
  struct Place {
    int32_t state = 0;
    int32_t phones_are = kOld;
    int32_t word_is = kOld;  // of the first word
    Values words, phones;
    Values end;  // of the labels of each phone
    Values labels;

    void spell(std::string& name) const {
      const int32_t head[] = {state, phones_are, word_is};
      name.append(reinterpret_cast<const char*>(head), sizeof(head));
      spell_values(words, name);
      spell_values(end, name);
      spell_values(labels, name);
    }
  };

  int32_t state_of(Place place) {
    const int32_t state = places_.state_of(std::move(place), options_.max_states, options_.max_labels, to_);
    has_units_.resize(to_.num_states);
    return state;
  }

  void leave(const Place& place, int32_t from) {
    emit_fillers(place, from);
    emit_words(place, from);
    const bool is_end = place.state == arcs_.num_states || is_plain_end(place.state);
    if (may_continue(place) && place.state < arcs_.num_states) {
      for (int64_t arc = arcs_.arc_begin[place.state]; arc < arcs_.arc_begin[place.state + 1]; ++arc) {
        const int64_t begin = alignments_.ali_begin[arc], end = alignments_.ali_begin[arc + 1];
        advance(place, from, arcs_.dst[arc], arcs_.word[arc], arcs_.graph[arc], arcs_.acoustic[arc],
                alignments_.ali + begin, alignments_.ali + end);
      }
      if (!is_end && is_final(arcs_, place.state)) {
        advance(place, from, static_cast<int32_t>(arcs_.num_states), 0, arcs_.final_graph[place.state],
                arcs_.final_acoustic[place.state], nullptr, nullptr);
      }
    }
    if (is_end) ends_.emplace_back(place, from);
  }

  // The only final state, with no cost and no arcs.
  bool is_plain_end(int32_t state) const {
    return one_final_ && is_final(arcs_, state) && arcs_.arc_begin[state] == arcs_.arc_begin[state + 1] &&
           arcs_.final_graph[state] == 0.0f && arcs_.final_acoustic[state] == 0.0f;
  }

  void advance(const Place& place, int32_t from, int32_t dst, int32_t word, float graph, float acoustic,
               const int32_t* begin, const int32_t* end) {
    Place next = place;
    next.state = dst;
    next.word_is = kOld;
    next.phones_are = kOld;
    if (word != 0) {
      next.words.push_back(word);
      if (next.words.size() == 1) next.word_is = kNew;
    }
    if (begin != end) {
      next.phones.push_back(static_cast<int32_t>(phone_of(known_.of[*begin])));
      next.labels.insert(next.labels.end(), begin, end);
      next.end.push_back(static_cast<int32_t>(next.labels.size()));
      next.phones_are = kNew;
    }
    const int32_t to = state_of(std::move(next));
    to_.add_arc(from, to, 0, graph, acoustic);
  }

  bool may_continue(const Place& place) const {
    if (place.phones.empty() || place.words.empty()) return true;
    const int32_t node = lexicon_.node(place.phones.data(), place.phones.size());
    return lexicon_.may_continue(node, 0) || lexicon_.may_continue(node, place.words[0]);
  }

  void emit_fillers(const Place& place, int32_t from) {
    const auto* lengths = lexicon_.lengths(0);
    const auto num_phones = static_cast<int32_t>(place.phones.size());
    if (lengths == nullptr) return;
    if (place.phones_are == kAllNew) {
      for (int32_t num = lengths->first; num <= std::min(lengths->second, num_phones); ++num)
        emit_entry(place, from, 0, num);
    } else if (place.phones_are == kNew && lengths->first <= num_phones && num_phones <= lengths->second) {
      emit_entry(place, from, 0, num_phones);
    }
  }

  void emit_words(const Place& place, int32_t from) {
    if (place.words.empty()) return;
    const int32_t word = place.words[0];
    const auto num_phones = static_cast<int32_t>(place.phones.size());
    if (place.word_is == kNew || place.phones_are == kAllNew) {
      const auto* lengths = lexicon_.lengths(word);
      if (lengths == nullptr) {
        unknown_word_ = word;
        return;
      }
      for (int32_t num = lengths->first; num <= std::min(lengths->second, num_phones); ++num) {
        emit_entry(place, from, word, num);
      }
    } else if (place.phones_are == kNew) {
      emit_entry(place, from, word, num_phones);
    }
  }

  // Emit the entry of a word with this number of phones, if there is one.
  void emit_entry(const Place& place, int32_t from, int32_t word, int32_t num_phones) {
    const int32_t output = lexicon_.output(lexicon_.node(place.phones.data(), num_phones), word);
    if (output < 0) return;
    Place next;
    next.state = place.state;
    next.phones.assign(place.phones.begin() + num_phones, place.phones.end());
    next.words.assign(place.words.begin() + (word == 0 ? 0 : 1), place.words.end());
    const int32_t cut = num_phones == 0 ? 0 : place.end[num_phones - 1];
    next.labels.assign(place.labels.begin() + cut, place.labels.end());
    for (size_t at = num_phones; at < place.end.size(); ++at) next.end.push_back(place.end[at] - cut);
    next.word_is = word != 0 && !next.words.empty() ? kNew : kOld;
    // After a word without phones, all phones are tried again, as silence may precede the next word.
    next.phones_are = !next.phones.empty() && (num_phones > 0 || word != 0) ? kAllNew : kOld;
    emit(place, from, std::move(next), output == 0 ? options_.no_word : output, cut);
  }

  void emit(const Place& place, int32_t from, Place next, int32_t word, int32_t cut) {
    to_.ali.insert(to_.ali.end(), place.labels.begin(), place.labels.begin() + cut);
    const int32_t to = state_of(std::move(next));
    has_units_[from] = 1;
    to_.add_arc(from, to, word, 0.0f, 0.0f);
  }

  void finish() {
    for (const auto& [place, state] : ends_) {
      if (place.labels.empty() && place.words.empty()) to_.final_state.push_back(state);
    }
    if (!to_.final_state.empty()) return;
    to_.note(ends_.empty() ? AlignFault::kNothingEnds : AlignFault::kForcedOut);
    for (const auto& [place, state] : ends_) {
      if (has_units_[state]) continue;
      Place next;
      next.state = place.state;
      next.word_is = kNew;
      next.phones_are = kNew;
      const int32_t word = place.words.empty() ? options_.partial_word : place.words[0];
      const int32_t before = to_.num_states;
      emit(place, state, std::move(next), word, static_cast<int32_t>(place.labels.size()));
      if (to_.num_states > before) to_.final_state.push_back(to_.dst.back());
    }
  }

  const Arcs& arcs_;
  const Alignments& alignments_;
  const Labels known_;
  const AlignLexicon& lexicon_;
  const LexiconOptions options_;
  AlignGraph to_;
  bool one_final_ = false;
  int32_t unknown_word_ = -1;
  std::vector<uint8_t> has_units_;  // whether a state has arcs that are not epsilons
  PlaceStack<Place> places_;
  std::vector<std::pair<Place, int32_t>> ends_;
};

}  // namespace ninja
