// Minimum Bayes risk decoding: the words of least expected error, and a confusion network aligned with them.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "consensus/mbr_forms.hpp"
#include "consensus/mbr_statistics.hpp"

namespace ninja {

struct Consensus {
  std::vector<int32_t> words;      // decoded words
  std::vector<float> confidence;   // [words]
  std::vector<float> time;         // [words, 2], frames
  std::vector<int64_t> entry;      // [words], entry of each word, or -1 - bin for a word without entry
  std::vector<int64_t> bin_begin;  // [bins + 1]
  std::vector<int32_t> word;       // [entries], in each bin by decreasing probability
  std::vector<float> posterior;    // [entries]
  std::vector<float> entry_time;   // [entries, 2]
  std::vector<float> bin_time;     // [bins, 2]
  double risk = 0.0;
  int64_t rounds = 0;
  bool touches_band = false;  // the largest band is too narrow: the result is approximate
  WrittenForms forms;         // if the arcs have forms
};

// If the last two words overlap, divide their time in proportion to their durations.
inline void separate_last_two(std::vector<float>& time) {
  const size_t count = time.size() / 2;
  if (count < 2) return;
  float* first = time.data() + 2 * (count - 2);
  float* second = first + 2;
  if (!(first[1] > second[0])) return;
  const float before = count > 2 ? first[-1] : 0.0f;
  const float left = std::max(before, std::min(first[0], second[0]));
  const float right = std::max(first[1], second[1]);
  const float first_length = first[1] - first[0], second_length = second[1] - second[0];
  const float middle = first_length > 0 ? left + (right - left) * first_length / (first_length + second_length) : left;
  first[0] = left;
  first[1] = second[0] = middle;
  second[1] = right;
}

constexpr int64_t kMostRounds = 102;
constexpr size_t kMostSpareBytes = size_t{1} << 23;  // more memory is freed after a call

// Buffers that are reused between calls.
struct MbrSpace {
  MbrLattice lattice;
  MbrBand band;
  Hypothesis hypothesis;
  Distances distances;
  Statistics statistics;
  FormStatistics forms;
  std::vector<char> touched;
  std::vector<int32_t> bin;
};

// Decode, starting from the words of the result. With `search` they are improved until the expected error does not
// decrease; otherwise only the statistics are computed. With `silence` epsilons between words are kept. With `forms`
// the written form of each entry is found.
// Source: Kaldi, lat/sausages.cc; Xu, Povey, Mangu, Zhu 2011, "Minimum Bayes Risk decoding and system combination
// based on a recursion for edit distance", figures 4-6.
inline void decode_mbr(bool search, bool silence, bool forms, MbrSpace& space, Consensus& result) {
  auto& [lattice, band, hypothesis, distances, statistics, form_statistics, touched, bin] = space;
  std::vector<int32_t>& words = result.words;
  for (result.rounds = 1;; ++result.rounds) {
    hypothesis.set(words, lattice.slots);
    const int32_t places = hypothesis.length();
    const Band* within = &band.of(lattice, static_cast<int64_t>(words.size()));
    for (;;) {
      result.risk = distances.compute(lattice, hypothesis, *within);
      accumulate(lattice, lattice.slots.size(), distances, places, band.negligible(), statistics, touched);
      if (!band.touches(touched)) break;
      if (!band.widen(lattice, touched)) {
        result.touches_band = true;
        break;
      }
    }
    words.resize(places);
    for (int32_t place = 0; place < places; ++place) words[place] = hypothesis[place + 1];
    const bool improved = search && statistics.improve(words);
    if (!improved || result.rounds == kMostRounds) break;
    bin.clear();
    for (int32_t place = 0; place < places; ++place) {
      if (words[place] == 0) continue;
      words[bin.size()] = words[place];
      bin.push_back(place);
    }
    words.resize(bin.size());
    band.follow(bin);
  }

  const std::vector<Statistics::Entry>& entries = statistics.sorted(result.bin_begin);
  for (const Statistics::Entry& entry : entries) {
    const auto posterior = static_cast<float>(entry.gamma);
    result.word.push_back(entry.word);
    result.posterior.push_back(posterior);
    // Very small posteriors are inexact or 0 in single precision.
    const double share = posterior >= std::numeric_limits<float>::min() ? posterior : entry.gamma;
    result.entry_time.push_back(static_cast<float>(entry.begin / share));
    result.entry_time.push_back(static_cast<float>(entry.end / share));
  }
  size_t kept = 0;
  for (size_t place = 0; place < words.size(); ++place) {
    const int64_t begin = result.bin_begin[place], end = result.bin_begin[place + 1];
    double first = 0.0, last = 0.0;
    for (int64_t at = begin; at < end; ++at) {
      first += entries[at].begin;
      last += entries[at].end;
    }
    result.bin_time.push_back(static_cast<float>(first));
    result.bin_time.push_back(static_cast<float>(last));
    if (place > 0 && result.bin_time[2 * place - 1] > result.bin_time[2 * place]) {
      const auto middle =
          static_cast<float>(0.5 * static_cast<double>(result.bin_time[2 * place - 1] + result.bin_time[2 * place]));
      result.bin_time[2 * place - 1] = result.bin_time[2 * place] = middle;
    }
    if (words[place] == 0 && !silence) continue;
    int64_t at = begin;
    while (at < end && result.word[at] != words[place]) ++at;
    result.confidence.push_back(at < end ? result.posterior[at] : 0.0f);
    result.entry.push_back(at < end ? at : -1 - static_cast<int64_t>(place));
    if (at == end) at = begin;  // a word of the initial hypothesis that is not in the lattice
    result.time.push_back(result.entry_time[2 * at]);
    result.time.push_back(result.entry_time[2 * at + 1]);
    separate_last_two(result.time);
    words[kept++] = words[place];
  }
  if (forms) {
    form_statistics.find(lattice, distances, static_cast<int32_t>(words.size()), band.negligible(), touched,
                         result.word, result.bin_begin, result.forms);
  }
  words.resize(kept);
}

// Decode a lattice, starting from `start` or, if it is null, the best path; false if no path leads to a final state.
// `form` is the written form of each arc, or null.
inline bool decode_mbr(const Arcs& arcs, const Alignments& labels, const int32_t* time, const int32_t* form,
                       const Scales& scales, const std::vector<int32_t>* start, bool search, bool silence,
                       int64_t whole_words, int64_t least_words, int64_t most_words, Consensus& result) {
  static thread_local std::unique_ptr<MbrSpace> spare;
  if (!spare) spare = std::make_unique<MbrSpace>();
  MbrSpace& space = *spare;
  if (!prepare_mbr(arcs, labels, time, form, scales, space.lattice)) return false;
  std::vector<int64_t> links;
  if (start == nullptr) {
    links = best_links(space.lattice);
    for (const int64_t link : links) result.words.push_back(space.lattice.link[link].word);
  } else {
    std::copy_if(start->begin(), start->end(), std::back_inserter(result.words),
                 [](int32_t word) { return word != 0; });
  }
  space.band.start(arcs, time, space.lattice, result.words, start == nullptr ? &links : nullptr, whole_words,
                   least_words, most_words);
  decode_mbr(search, silence, form != nullptr, space, result);
  const size_t bytes = space.distances.bytes() + space.statistics.bytes() + space.forms.bytes();
  if (bytes > kMostSpareBytes) spare.reset();
  return true;
}

}  // namespace ninja
