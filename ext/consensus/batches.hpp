// Minimum Bayes risk decoding of batches.
#pragma once

#include <cstdint>
#include <vector>

#include "consensus/mbr.hpp"
#include "core/batch.hpp"

namespace ninja {

// The fields of a ``Consensus``, concatenated over several lattices.
struct Consensuses {
  std::vector<int32_t> words;
  std::vector<float> confidence, time;
  std::vector<int64_t> entry;           // of each word, only for items whose arcs have forms
  std::vector<int64_t> words_begin{0};  // [items + 1]
  std::vector<int64_t> bin_begin;       // relative to the entries of a lattice; has one more element than bins
  std::vector<float> bin_time;
  std::vector<int64_t> bins_begin{0};  // [items + 1]
  std::vector<int32_t> word;
  std::vector<float> posterior, entry_time;
  std::vector<int64_t> entries_begin{0};  // [items + 1]
  std::vector<double> risk;
  std::vector<int64_t> rounds, touches_band;
  WrittenForms forms;  // of the entries and bins of the items whose arcs have forms
};

// Decode each item, starting from `start[begin[i]:begin[i + 1]]` or, if `begin` is null, its best path; returns the
// index of the first item without a path or with contradictory times, or -1. `form` has the written form of each arc of
// the `num_written` items whose indices are in `written`.
inline int64_t decode_mbr_all(const Items& items, const Scales& scales, const int32_t* start, const int64_t* begin,
                              const int32_t* form, const int64_t* written, int64_t num_written, bool search,
                              bool silence, int64_t whole_words, int64_t least_words, int64_t most_words,
                              Consensuses& all) {
  std::vector<int32_t> space, words;
  const int64_t* const end = written + num_written;
  int64_t place = -1;
  return first_failure(items, [&](const Item& item) {
    const int32_t* time = state_times(item, space);
    if (time == nullptr) return false;
    if (begin != nullptr) {
      words.assign(start + begin[0], start + begin[1]);
      ++begin;
    }
    Consensus one;
    ++place;
    const bool is_written = written != end && *written == place;
    if (!decode_mbr(item.arcs, item.labels, time, is_written ? form : nullptr, scales,
                    begin != nullptr ? &words : nullptr, search, silence, whole_words, least_words, most_words, one)) {
      return false;
    }
    append(one.words, all.words);
    append(one.confidence, all.confidence);
    append(one.time, all.time);
    append(one.bin_begin, all.bin_begin);
    append(one.bin_time, all.bin_time);
    append(one.word, all.word);
    append(one.posterior, all.posterior);
    append(one.entry_time, all.entry_time);
    if (is_written) {
      form += item.arcs.num_arcs;
      ++written;
      append(one.entry, all.entry);
      append(one.forms.form, all.forms.form);
      append(one.forms.whole, all.forms.whole);
      append(one.forms.mark, all.forms.mark);
      append(one.forms.mark_share, all.forms.mark_share);
      append(one.forms.mark_time, all.forms.mark_time);
    }
    all.words_begin.push_back(static_cast<int64_t>(all.words.size()));
    all.bins_begin.push_back(static_cast<int64_t>(all.bin_time.size() / 2));
    all.entries_begin.push_back(static_cast<int64_t>(all.word.size()));
    all.risk.push_back(one.risk);
    all.rounds.push_back(one.rounds);
    all.touches_band.push_back(one.touches_band);
    return true;
  });
}

}  // namespace ninja
