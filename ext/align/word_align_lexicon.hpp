// Alignment to words by a lexicon, for lattices whose phones do not tell where words begin and end.
//
// The lattice has been aligned to phones before: an arc is one phone, or a word without labels, or a phone with the
// word that is read with it. Phones and words that were read wait until they are an entry of the lexicon.
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

// Entries (word, word to put, phones) as a tree of phones; word 0 stands for what has none, as silence.
class AlignLexicon {
 public:
  // `entry` holds the entries behind each other, `begin` [num_entries + 1] where each begins.
  AlignLexicon(const int32_t* entry, const int64_t* begin, int64_t num_entries) {
    nodes_.emplace_back();
    for (int64_t at = 0; at < num_entries; ++at) {
      const int32_t word = entry[begin[at]], put = entry[begin[at] + 1];
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
      nodes_[node].ending.emplace_back(word, put);
      const auto [found, is_new] = lengths_.try_emplace(word, num_phones, num_phones);
      found->second.first = std::min(found->second.first, num_phones);
      found->second.second = std::max(found->second.second, num_phones);
    }
    for (Node& node : nodes_) {
      std::sort(node.passing.begin(), node.passing.end());
      node.passing.erase(std::unique(node.passing.begin(), node.passing.end()), node.passing.end());
      std::sort(node.ending.begin(), node.ending.end());
    }
  }

  // Fewest and most phones of a word's entries, null if it has none.
  const std::pair<int32_t, int32_t>* lengths(int32_t word) const {
    const auto found = lengths_.find(word);
    return found == lengths_.end() ? nullptr : &found->second;
  }

  // Node that phones lead to, -1 if no entry begins with them.
  int32_t node(const int32_t* phone, size_t length) const {
    int32_t node = 0;
    for (size_t at = 0; at < length && node >= 0; ++at) node = children_.get(node, phone[at]);
    return node;
  }

  // Word to put for a word with just the phones that lead to a node, -1 if there is no such entry.
  int32_t put(int32_t node, int32_t word) const {
    if (node < 0) return -1;
    const auto& ending = nodes_[node].ending;
    const auto found = std::lower_bound(ending.begin(), ending.end(), std::pair<int32_t, int32_t>(word, -1));
    return found == ending.end() || found->first != word ? -1 : found->second;
  }

  // Whether more phones behind those that lead to a node may make an entry of the word.
  bool may_continue(int32_t node, int32_t word) const {
    if (node < 0) return false;
    const auto& passing = nodes_[node].passing;
    return std::binary_search(passing.begin(), passing.end(), word);
  }

 private:
  struct Node {
    std::vector<int32_t> passing;                      // words with entries that go on from here, sorted
    std::vector<std::pair<int32_t, int32_t>> ending;  // (word, word to put) with entries that end here, sorted
  };
  std::vector<Node> nodes_;
  PairMap children_;
  std::unordered_map<int32_t, std::pair<int32_t, int32_t>, KeyedHash> lengths_;
};

struct LexiconOptions {
  int32_t no_word;       // stands for word 0 in the result, which must not be taken for an epsilon
  int32_t partial_word;
  int64_t expansion;     // > 0: refuse beyond so many states
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
    place_of({});
    while (!queue_.empty() && !to_.too_large && unknown_word_ < 0) {
      to_.too_large = to_.size() > options_.max_labels;
      if (options_.expansion > 0 && to_.num_states > options_.expansion) {
        to_.final_state.clear();
        to_.fault = AlignFault::kTooManyStates;
        return std::move(to_);
      }
      const auto [place, state] = std::move(queue_.back());
      queue_.pop_back();
      leave(place, state);
    }
    finish();
    return std::move(to_);
  }

  // Word of the lattice that no entry has, -1 if there is none; nothing else holds if there is one.
  int32_t unknown_word() const { return unknown_word_; }

 private:
  using Values = std::vector<int32_t>;
  // What the latest step has brought: only what is new is tried, so that nothing is tried twice.
  enum Fresh : int32_t { kOld, kNew, kAllNew };
  struct Place {
    int32_t state = 0;
    int32_t phones_are = kOld;
    int32_t word_is = kOld;  // the first one
    Values words, phones;
    Values end;              // behind the labels of each phone
    Values labels;
  };

  int32_t place_of(Place place) {
    name_.clear();
    const auto spell = [this](const Values& values) {
      const size_t size = values.size();
      name_.append(reinterpret_cast<const char*>(&size), sizeof(size));
      name_.append(reinterpret_cast<const char*>(values.data()), size * sizeof(int32_t));
    };
    const int32_t head[] = {place.state, place.phones_are, place.word_is};
    name_.append(reinterpret_cast<const char*>(head), sizeof(head));
    spell(place.words);
    spell(place.end);
    spell(place.labels);
    const auto [found, is_new] = number_.try_emplace(name_, to_.num_states);
    if (is_new) {
      ++to_.num_states;
      gives_.push_back(0);
      num_pending_ += static_cast<int64_t>(name_.size() / sizeof(int32_t));
      if (to_.num_states > options_.max_states || num_pending_ > options_.max_labels) to_.too_large = true;
      queue_.emplace_back(std::move(place), found->second);
    }
    return found->second;
  }

  void leave(const Place& place, int32_t from) {
    take_fillers(place, from);
    take_words(place, from);
    const bool is_end = place.state == arcs_.num_states || is_plain_end(place.state);
    if (may_go_on(place) && place.state < arcs_.num_states) {
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
    const int32_t to = place_of(std::move(next));
    to_.add_arc(from, to, 0, graph, acoustic);
  }

  bool may_go_on(const Place& place) const {
    if (place.phones.empty() || place.words.empty()) return true;
    const int32_t node = lexicon_.node(place.phones.data(), place.phones.size());
    return lexicon_.may_continue(node, 0) || lexicon_.may_continue(node, place.words[0]);
  }

  void take_fillers(const Place& place, int32_t from) {
    const auto* lengths = lexicon_.lengths(0);
    const auto num_phones = static_cast<int32_t>(place.phones.size());
    if (lengths == nullptr) return;
    if (place.phones_are == kAllNew) {
      for (int32_t num = lengths->first; num <= std::min(lengths->second, num_phones); ++num) take(place, from, 0, num);
    } else if (place.phones_are == kNew && lengths->first <= num_phones && num_phones <= lengths->second) {
      take(place, from, 0, num_phones);
    }
  }

  void take_words(const Place& place, int32_t from) {
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
        take(place, from, word, num);
      }
    } else if (place.phones_are == kNew) {
      take(place, from, word, num_phones);
    }
  }

  // Give out an entry, if there is one of the word and so many phones.
  void take(const Place& place, int32_t from, int32_t word, int32_t num_phones) {
    const int32_t put = lexicon_.put(lexicon_.node(place.phones.data(), num_phones), word);
    if (put < 0) return;
    Place next;
    next.state = place.state;
    next.phones.assign(place.phones.begin() + num_phones, place.phones.end());
    next.words.assign(place.words.begin() + (word == 0 ? 0 : 1), place.words.end());
    const int32_t cut = num_phones == 0 ? 0 : place.end[num_phones - 1];
    next.labels.assign(place.labels.begin() + cut, place.labels.end());
    for (size_t at = num_phones; at < place.end.size(); ++at) next.end.push_back(place.end[at] - cut);
    next.word_is = word != 0 && !next.words.empty() ? kNew : kOld;
    // After a word without phones they are all tried again: silence may come first.
    next.phones_are = !next.phones.empty() && (num_phones > 0 || word != 0) ? kAllNew : kOld;
    give(place, from, std::move(next), put == 0 ? options_.no_word : put, cut);
  }

  void give(const Place& place, int32_t from, Place next, int32_t word, int32_t cut) {
    to_.ali.insert(to_.ali.end(), place.labels.begin(), place.labels.begin() + cut);
    const int32_t to = place_of(std::move(next));
    gives_[from] = 1;
    to_.add_arc(from, to, word, 0.0f, 0.0f);
  }

  void finish() {
    for (const auto& [place, state] : ends_) {
      if (place.labels.empty() && place.words.empty()) to_.final_state.push_back(state);
    }
    if (!to_.final_state.empty()) return;
    to_.note(ends_.empty() ? AlignFault::kNothingEnds : AlignFault::kForcedOut);
    for (const auto& [place, state] : ends_) {
      if (gives_[state]) continue;
      Place next;
      next.state = place.state;
      next.word_is = kNew;
      next.phones_are = kNew;
      const int32_t word = place.words.empty() ? options_.partial_word : place.words[0];
      const int32_t before = to_.num_states;
      give(place, state, std::move(next), word, static_cast<int32_t>(place.labels.size()));
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
  int64_t num_pending_ = 0;
  int32_t unknown_word_ = -1;
  std::string name_;
  std::unordered_map<std::string, int32_t, KeyedHash> number_;
  std::vector<uint8_t> gives_;  // of each state, whether it has arcs that are no epsilons
  std::vector<std::pair<Place, int32_t>> queue_, ends_;
};

}  // namespace ninja
