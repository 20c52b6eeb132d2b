// Alignment to words or phones as Kaldi does it, step by step: for lattices of any shape, damaged ones too.
//
// Source: Kaldi, lat/word-align-lattice.cc and lat/phone-align-lattice.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "align/align_graph.hpp"
#include "align/align_units.hpp"
#include "core/keyed_hash.hpp"
#include "core/lattice.hpp"

namespace ninja {

class GeneralAligner {
 public:
  // `expansion` > 0: stop at so many states with what there is.
  GeneralAligner(const Arcs& arcs, const Alignments& alignments, const Labels& known, const AlignOptions& options,
                 int64_t expansion)
      : arcs_(arcs), alignments_(alignments), known_(known), options_(options), expansion_(expansion) {}

  AlignGraph align() {
    place_of({0, {}, {}});
    while (!queue_.empty() && !to_.too_large) {
      to_.too_large = to_.size() > options_.max_labels;
      if (expansion_ > 0 && to_.num_states > expansion_) {
        to_.fault = AlignFault::kTooManyStates;
        break;
      }
      auto [place, state] = std::move(queue_.back());
      queue_.pop_back();
      leave(std::move(place), state);
    }
    return std::move(to_);
  }

 private:
  using Values = std::vector<int32_t>;
  struct Place {
    int32_t state;
    Values words, labels;
  };

  int32_t place_of(Place place) {
    name_.clear();
    const auto spell = [this](const int32_t* value, size_t length) {
      name_.append(reinterpret_cast<const char*>(value), length * sizeof(int32_t));
    };
    const auto num_words = static_cast<int32_t>(place.words.size());
    spell(&place.state, 1);
    spell(&num_words, 1);
    spell(place.words.data(), place.words.size());
    spell(place.labels.data(), place.labels.size());
    const auto [found, is_new] = number_.try_emplace(name_, to_.num_states);
    if (is_new) {
      ++to_.num_states;
      num_pending_ += static_cast<int64_t>(name_.size() / sizeof(int32_t));
      if (to_.num_states > options_.max_states || num_pending_ > options_.max_labels) to_.too_large = true;
      queue_.emplace_back(std::move(place), found->second);
    }
    return found->second;
  }

  void leave(Place place, int32_t from) {
    const bool given = options_.by_phone ? give_phone(place, from) || give_word(place, from) : give_unit(place, from);
    if (given) return;
    if (place.state == arcs_.num_states) return end(std::move(place), from);
    for (int64_t arc = arcs_.arc_begin[place.state]; arc < arcs_.arc_begin[place.state + 1]; ++arc) {
      advance(place, from, arcs_.dst[arc], arcs_.word[arc], arcs_.graph[arc], arcs_.acoustic[arc],
              alignments_.ali + alignments_.ali_begin[arc], alignments_.ali + alignments_.ali_begin[arc + 1]);
    }
    if (is_final(arcs_, place.state)) {
      advance(place, from, static_cast<int32_t>(arcs_.num_states), 0, arcs_.final_graph[place.state],
              arcs_.final_acoustic[place.state], alignments_.final_ali + alignments_.final_ali_begin[place.state],
              alignments_.final_ali + alignments_.final_ali_begin[place.state + 1]);
    }
  }

  void advance(const Place& place, int32_t from, int32_t dst, int32_t word, float graph, float acoustic,
               const int32_t* begin, const int32_t* end) {
    Place next = place;
    next.state = dst;
    next.labels.insert(next.labels.end(), begin, end);
    if (word != 0 && !options_.phones_as_words) next.words.push_back(word);
    const int32_t to = place_of(std::move(next));
    to_.add_arc(from, to, 0, graph, acoustic);
  }

  void give(Place& place, int32_t from, int32_t word, size_t num_labels, size_t num_words) {
    to_.ali.insert(to_.ali.end(), place.labels.begin(), place.labels.begin() + static_cast<int64_t>(num_labels));
    place.labels.erase(place.labels.begin(), place.labels.begin() + static_cast<int64_t>(num_labels));
    place.words.erase(place.words.begin(), place.words.begin() + static_cast<int64_t>(num_words));
    const int32_t to = place_of(std::move(place));
    to_.add_arc(from, to, word, 0.0f, 0.0f);
  }

  uint32_t known(const Place& place, size_t at) const { return known_.of[place.labels[at]]; }

  // Number of labels up to the transition that ends a phone and the loops after it; 0 if the end is not to be seen.
  size_t behind_phone(const Place& place, size_t at) const {
    const size_t length = place.labels.size();
    while (at < length && !(known(place, at) & kFinal)) ++at;
    if (at == length) return 0;
    ++at;
    if (options_.reorder) {
      while (at < length && (known(place, at) & kLoop)) ++at;
    }
    return at == length ? 0 : at;
  }

  // Whether the phone is another before the transition that ends it.
  bool changes(const Place& place, size_t at) const {
    const uint32_t phone = phone_of(known(place, at));
    for (; at < place.labels.size(); ++at) {
      if (phone_of(known(place, at)) != phone) return true;
      if (known(place, at) & kFinal) return false;
    }
    return false;
  }

  bool give_unit(Place& place, int32_t from) {
    if (place.labels.empty()) return false;
    const uint32_t kind = kind_of(known(place, 0)), phone = phone_of(known(place, 0));
    if (kind == kNonword) {
      if (changes(place, 0)) to_.note(AlignFault::kPhoneChanged);
      const size_t cut = behind_phone(place, 0);
      if (cut == 0) return false;
      give(place, from, options_.silence_word, cut, 0);
      return true;
    }
    if (place.words.empty() || (kind != kBegin && kind != kSingleton)) return false;
    size_t cut = behind_phone(place, 0);
    if (cut == 0) return false;
    if (phone_of(known(place, cut - 1)) != phone) to_.note(AlignFault::kPhoneChanged);
    if (kind == kBegin) {
      const size_t length = place.labels.size();
      for (; cut < length && kind_of(known(place, cut)) != kEnd; ++cut) {
        if (kind_of(known(place, cut)) != kInternal) to_.note(AlignFault::kUnexpectedPhone);
      }
      if (cut == length) return false;
      const uint32_t last = phone_of(known(place, cut));
      if (changes(place, cut)) to_.note(AlignFault::kPhoneChanged);
      cut = behind_phone(place, cut);
      if (cut == 0) return false;
      if (phone_of(known(place, cut - 1)) != last) to_.note(AlignFault::kPhoneChanged);
    }
    give(place, from, place.words[0], cut, 1);
    return true;
  }

  bool give_phone(Place& place, int32_t from) {
    if (place.labels.empty()) return false;
    if (changes(place, 0)) to_.note(AlignFault::kPhoneChanged);
    const size_t cut = behind_phone(place, 0);
    if (cut == 0) return false;
    give_phone(place, from, cut);
    return true;
  }

  void give_phone(Place& place, int32_t from, size_t cut) {
    const bool has_word = !place.words.empty();
    int32_t word = has_word ? place.words[0] : 0;
    if (options_.phones_as_words) word = static_cast<int32_t>(phone_of(known(place, 0)));
    // A unit without a word is no epsilon here: those go, with their costs, and nothing else does.
    give(place, from, word == 0 && cut > 0 ? options_.silence_word : word, cut, has_word ? 1 : 0);
  }

  bool give_word(Place& place, int32_t from) {
    if (place.words.size() < 2) return false;
    give(place, from, place.words[0], 0, 1);
    return true;
  }

  // At the end of the lattice, where no unit is over by itself.
  void end(Place place, int32_t from) {
    const size_t length = place.labels.size();
    if (length == 0 && place.words.empty()) {
      to_.final_state.push_back(from);
      return;
    }
    if (options_.by_phone) {
      if (length > 0) {
        size_t num_final = 0;
        for (size_t at = 0; at < length; ++at) {
          if (known(place, at) & kFinal) ++num_final;
          if (phone_of(known(place, at)) != phone_of(known(place, 0))) to_.note(AlignFault::kPhoneChanged);
        }
        if (num_final != 1) to_.note(AlignFault::kBrokenPhone);
      }
      if (length > 0) return give_phone(place, from, length);
      return give(place, from, place.words[0], 0, 1);
    }
    if (!place.words.empty() && length > 0) {
      if (!is_plausible(place)) to_.note(AlignFault::kInvalidWord);
      return give(place, from, place.words[0], length, 1);
    }
    if (length == 0) {
      to_.note(AlignFault::kWordsWithoutLabels);
      return give(place, from, 0, 0, place.words.size());
    }
    const bool is_silence = kind_of(known(place, 0)) == kNonword;
    if (is_silence) {
      if (phone_of(known(place, 0)) != phone_of(known(place, length - 1)) || !ends_phone(place)) {
        to_.note(AlignFault::kBrokenSilence);
      }
    } else {
      to_.note(AlignFault::kPartialWord);
    }
    give(place, from, is_silence ? options_.silence_word : options_.partial_word, length, 0);
  }

  bool ends_phone(const Place& place) const {
    size_t at = place.labels.size() - 1;
    while (options_.reorder && at > 0 && (known(place, at) & kLoop)) --at;
    return known(place, at) & kFinal;
  }

  bool is_plausible(const Place& place) const {
    const uint32_t first = known(place, 0), last = known(place, place.labels.size() - 1);
    const bool is_one = kind_of(first) == kSingleton && phone_of(first) == phone_of(last);
    return (is_one || (kind_of(first) == kBegin && kind_of(last) == kEnd)) && ends_phone(place);
  }

  const Arcs& arcs_;
  const Alignments& alignments_;
  const Labels known_;
  const AlignOptions options_;
  const int64_t expansion_;
  AlignGraph to_;
  int64_t num_pending_ = 0;
  std::string name_;
  std::unordered_map<std::string, int32_t, KeyedHash> number_;
  std::vector<std::pair<Place, int32_t>> queue_;
};

}  // namespace ninja
