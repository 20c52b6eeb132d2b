// Alignment to words or phones for lattices of any shape, including damaged ones, in the same steps as Kaldi.
//
// Source: Kaldi, lat/word-align-lattice.cc and lat/phone-align-lattice.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "align/align_graph.hpp"
#include "align/align_units.hpp"
#include "core/lattice.hpp"

namespace ninja {

class GeneralAligner {
 public:
  // If `expansion` > 0, stop with a partial result at this number of states.
  GeneralAligner(const Arcs& arcs, const Alignments& alignments, const Labels& known, const AlignOptions& options,
                 int64_t expansion)
      : arcs_(arcs), alignments_(alignments), known_(known), options_(options), expansion_(expansion) {}

  AlignGraph align() {
    state_of({0, {}, {}});
    while (!places_.empty() && !to_.too_large) {
      to_.too_large = to_.size() > options_.max_labels;
      if (expansion_ > 0 && to_.num_states > expansion_) {
        to_.fault = AlignFault::kTooManyStates;
        break;
      }
      auto [place, state] = places_.pop();
      leave(std::move(place), state);
    }
    return std::move(to_);
  }

 private:
  using Values = std::vector<int32_t>;
  struct Place {
    int32_t state;
    Values words, labels;

    void spell(std::string& name) const {
      name.append(reinterpret_cast<const char*>(&state), sizeof(state));
      spell_values(words, name);
      spell_values(labels, name);
    }
  };

  int32_t state_of(Place place) {
    return places_.state_of(std::move(place), options_.max_states, options_.max_labels, to_);
  }

  void leave(Place place, int32_t from) {
    if (options_.by_phone ? emit_phone(place, from) || emit_word(place, from) : emit_unit(place, from)) return;
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
    const int32_t to = state_of(std::move(next));
    to_.add_arc(from, to, 0, graph, acoustic);
  }

  void emit(Place& place, int32_t from, int32_t word, size_t num_labels, size_t num_words) {
    to_.ali.insert(to_.ali.end(), place.labels.begin(), place.labels.begin() + static_cast<int64_t>(num_labels));
    place.labels.erase(place.labels.begin(), place.labels.begin() + static_cast<int64_t>(num_labels));
    place.words.erase(place.words.begin(), place.words.begin() + static_cast<int64_t>(num_words));
    const int32_t to = state_of(std::move(place));
    to_.add_arc(from, to, word, 0.0f, 0.0f);
  }

  uint32_t known(const Place& place, size_t at) const { return known_.of[place.labels[at]]; }

  // Number of labels up to the transition that ends a phone and the loops after it; 0 if the end is not known yet.
  size_t end_of_phone(const Place& place, size_t at) const {
    const size_t length = place.labels.size();
    while (at < length && !(known(place, at) & kFinal)) ++at;
    if (at == length) return 0;
    ++at;
    if (options_.reorder) {
      while (at < length && (known(place, at) & kLoop)) ++at;
    }
    return at == length ? 0 : at;
  }

  // Whether the phone changes before the transition that ends it.
  bool changes(const Place& place, size_t at) const {
    const uint32_t phone = phone_of(known(place, at));
    for (; at < place.labels.size(); ++at) {
      if (phone_of(known(place, at)) != phone) return true;
      if (known(place, at) & kFinal) return false;
    }
    return false;
  }

  bool emit_unit(Place& place, int32_t from) {
    if (place.labels.empty()) return false;
    const uint32_t kind = kind_of(known(place, 0)), phone = phone_of(known(place, 0));
    if (kind == kNonword) {
      if (changes(place, 0)) to_.note(AlignFault::kPhoneChanged);
      const size_t cut = end_of_phone(place, 0);
      if (cut == 0) return false;
      emit(place, from, options_.silence_word, cut, 0);
      return true;
    }
    if (place.words.empty() || (kind != kBegin && kind != kSingleton)) return false;
    size_t cut = end_of_phone(place, 0);
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
      cut = end_of_phone(place, cut);
      if (cut == 0) return false;
      if (phone_of(known(place, cut - 1)) != last) to_.note(AlignFault::kPhoneChanged);
    }
    emit(place, from, place.words[0], cut, 1);
    return true;
  }

  bool emit_phone(Place& place, int32_t from) {
    if (place.labels.empty()) return false;
    if (changes(place, 0)) to_.note(AlignFault::kPhoneChanged);
    const size_t cut = end_of_phone(place, 0);
    if (cut == 0) return false;
    emit_phone(place, from, cut);
    return true;
  }

  void emit_phone(Place& place, int32_t from, size_t cut) {
    const bool has_word = !place.words.empty();
    int32_t word = has_word ? place.words[0] : 0;
    if (options_.phones_as_words) word = static_cast<int32_t>(phone_of(known(place, 0)));
    // A unit without a word must not be an epsilon here, since epsilons are removed.
    emit(place, from, word == 0 && cut > 0 ? options_.silence_word : word, cut, has_word ? 1 : 0);
  }

  bool emit_word(Place& place, int32_t from) {
    if (place.words.size() < 2) return false;
    emit(place, from, place.words[0], 0, 1);
    return true;
  }

  // At the end of the lattice, where the end of a unit is not implied by the next label.
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
      if (length > 0) return emit_phone(place, from, length);
      return emit(place, from, place.words[0], 0, 1);
    }
    if (!place.words.empty() && length > 0) {
      if (!is_plausible(place)) to_.note(AlignFault::kInvalidWord);
      return emit(place, from, place.words[0], length, 1);
    }
    if (length == 0) {
      to_.note(AlignFault::kWordsWithoutLabels);
      return emit(place, from, 0, 0, place.words.size());
    }
    const bool is_silence = kind_of(known(place, 0)) == kNonword;
    if (is_silence) {
      if (phone_of(known(place, 0)) != phone_of(known(place, length - 1)) || !ends_phone(place)) {
        to_.note(AlignFault::kBrokenSilence);
      }
    } else {
      to_.note(AlignFault::kPartialWord);
    }
    emit(place, from, is_silence ? options_.silence_word : options_.partial_word, length, 0);
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
  PlaceStack<Place> places_;
};

}  // namespace ninja
