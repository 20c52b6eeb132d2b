// Minimum Bayes risk decoding: the words of least expected error, and a confusion network aligned with them.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "consensus/mbr_band.hpp"
#include "consensus/mbr_distance.hpp"

namespace ninja {

struct Consensus {
  std::vector<int32_t> words;      // decoded
  std::vector<float> confidence;   // [words]
  std::vector<float> time;         // [words, 2], frames
  std::vector<int64_t> bin_begin;  // [bins + 1]
  std::vector<int32_t> word;       // [entries], in each bin by decreasing probability
  std::vector<float> posterior;    // [entries]
  std::vector<float> entry_time;   // [entries, 2]
  std::vector<float> bin_time;     // [bins, 2]
  double risk = 0.0;
  int64_t rounds = 0;
  bool touches_band = false;  // the largest band is too narrow: the result is approximate
};

// gamma and tau of Xu et al. 2011, figure 5 and appendix C: the probability and the times of each word at each place.
class Statistics {
 public:
  struct Entry {
    int32_t place;
    int32_t word;
    double gamma;
    double begin;
    double end;

    void add(double share, double from, double to) {
      gamma += share;
      begin += from * share;
      end += to * share;
    }
  };

  void reset(int32_t places, int32_t num_slots) {
    entry_.clear();
    block_.clear();
    recent_.assign(num_slots, -1);
    first_.assign(num_slots, -1);
    epsilon_.assign(places + 1, {0, 0, 0.0, 0.0, 0.0});
    for (int32_t place = 0; place <= places; ++place) epsilon_[place].place = place;
  }

  // The sums of a word, or of epsilons, at a place; valid until the next call.
  Entry& of(const MbrLattice::Link& link, int32_t place) {
    const int32_t number = place / kBlock;
    if (recent_[link.slot] < 0 || block_[recent_[link.slot]].number != number) turn(link.slot, number);
    int32_t& at = block_[recent_[link.slot]].entry[place % kBlock];
    if (at < 0) {
      at = static_cast<int32_t>(entry_.size());
      entry_.push_back({place, link.word, 0.0, 0.0, 0.0});
    }
    return entry_[at];
  }
  Entry& epsilon(int32_t place) { return epsilon_[place]; }

  // Replace `words` by the most probable word at each place; whether the posterior changes at some place.
  bool improve(std::vector<int32_t>& words) {
    best_.assign(words.size(), ~uint64_t{0});
    now_.assign(words.size(), 0.0f);
    each([&](const Entry& entry) {
      best_[entry.place - 1] = std::min(best_[entry.place - 1], order_of(entry));
      if (entry.word == words[entry.place - 1]) now_[entry.place - 1] = static_cast<float>(entry.gamma);
    });
    bool improved = false;
    for (size_t place = 0; place < words.size(); ++place) {
      const uint64_t best = ~best_[place];
      const auto bits = static_cast<uint32_t>(best >> 32);
      float gamma;
      std::memcpy(&gamma, &bits, 4);
      improved |= now_[place] != gamma;
      words[place] = static_cast<int32_t>(best & 0xffffffffu);
    }
    return improved;
  }

  // Entries sorted by place, decreasing probability in single precision, and decreasing word id, as in Kaldi. `begin` is
  // set to the first entry of each place. Entries of probability 0 are dropped.
  const std::vector<Entry>& sorted(std::vector<int64_t>& begin) {
    const auto places = static_cast<int64_t>(epsilon_.size()) - 1;
    begin.assign(places + 1, 0);
    each([&](const Entry& entry) { ++begin[entry.place]; });
    for (int64_t place = 1; place <= places; ++place) begin[place] += begin[place - 1];
    rank_.resize(begin[places]);
    next_.assign(begin.begin(), begin.end());
    each([&](const Entry& entry) { rank_[next_[entry.place - 1]++] = {order_of(entry), &entry}; });
    sorted_.clear();
    for (int64_t place = 0; place < places; ++place) {
      std::sort(rank_.begin() + begin[place], rank_.begin() + begin[place + 1],
                [](const Rank& a, const Rank& b) { return a.order < b.order; });
    }
    for (const Rank& rank : rank_) sorted_.push_back(*rank.entry);
    return sorted_;
  }

  size_t bytes() const { return sizeof(Entry) * (entry_.capacity() + sorted_.capacity()); }

 private:
  static constexpr int32_t kBlock = 8;
  struct Block {            // the entries of a word at kBlock places
    int32_t number;         // of the block of places
    int32_t next;           // block of later places of the word, or -1
    int32_t entry[kBlock];  // -1 if there is none yet
  };
  struct Rank {
    uint64_t order;
    const Entry* entry;
  };

  // A sort key. The bits of nonnegative floats have the order of the floats.
  static uint64_t order_of(const Entry& entry) {
    const auto gamma = static_cast<float>(entry.gamma);
    uint32_t bits;
    std::memcpy(&bits, &gamma, 4);
    return ~((static_cast<uint64_t>(bits) << 32) | static_cast<uint32_t>(entry.word));
  }

  // Find or add a block and make it the recent one of its word. The blocks of a word are linked in the order of their
  // places. Since places are visited backwards, the wanted block is among the first.
  void turn(int32_t slot, int32_t number) {
    int32_t* link = &first_[slot];
    while (*link >= 0 && block_[*link].number < number) link = &block_[*link].next;
    if (*link < 0 || block_[*link].number != number) {
      const Block block{number, *link, {}};
      *link = static_cast<int32_t>(block_.size());
      recent_[slot] = *link;
      block_.push_back(block);
      std::fill(block_.back().entry, block_.back().entry + kBlock, -1);
    } else {
      recent_[slot] = *link;
    }
  }

  // Call `take` with each entry of nonzero probability.
  template <class Take>
  void each(Take take) const {
    for (const Entry& entry : entry_) {
      if (entry.gamma != 0.0) take(entry);
    }
    for (size_t place = 1; place < epsilon_.size(); ++place) {
      if (epsilon_[place].gamma != 0.0) take(epsilon_[place]);
    }
  }

  std::vector<Entry> entry_, epsilon_, sorted_;
  std::vector<Block> block_;
  std::vector<int32_t> recent_;  // [slots], last used block of the word, or -1
  std::vector<int32_t> first_;   // [slots], block of its first places, or -1
  std::vector<uint64_t> best_;
  std::vector<float> now_;
  std::vector<Rank> rank_;
  std::vector<int64_t> next_;
};

// Backward pass over all paths: distribute the probability of each state at each place over the previous states, along
// the steps of the alignments. Few places of a state have any. States with probability near the edge of their window are
// marked as touched.
inline void accumulate(const MbrLattice& lattice, Distances& distances, int32_t places, double negligible,
                       Statistics& statistics, std::vector<char>& touched) {
  distances.clear();  // now beta' of figure 5
  distances.row(lattice.num_states - 1)[places] = 1.0;
  statistics.reset(places, lattice.slots.size());
  touched.assign(lattice.num_states, 0);
  double discarded = 0.0;
  Statistics::Entry extra_link{};
  for (int64_t state = lattice.num_states - 1; state > 0; --state) {
    double* here = distances.row(state);
    const int32_t first = distances.begin(state), last = distances.end(state);
    int32_t low = first, high = last - 1;  // places with probability lie between; windows are pairs of places
    while (high > first && here[high] + here[high - 1] <= negligible) high -= 2;
    if (high < first) continue;
    while (here[low] + here[low + 1] <= negligible) low += 2;
    if (first > 0 || last <= places) {
      const int32_t margin = 2 * margin_of((last - first) / 2);  // two places per word
      double outside = 0.0;
      for (int32_t q = low; q <= high; ++q) {
        if (here[q] <= negligible) here[q] = 0.0;
        if ((first > 0 && q < first + margin) || (last <= places && q >= last - margin)) outside += here[q];
      }
      touched[state] = outside > kTouching;
    }
    const double end = lattice.time[state];
    for (int64_t in = lattice.in[state]; in < lattice.in[state + 1]; ++in) {
      const int64_t at = lattice.entering[in];
      const MbrLattice::Link& link = lattice.link[at];
      const Distances::Steps steps = distances.steps(at, link.src);
      double* there = distances.row(link.src);
      const int32_t least = distances.begin(link.src);
      const double begin = lattice.time[link.src];
      double carried = 0.0;  // from the next place, which is missing from the link
      for (int32_t q = high; q >= low || carried != 0.0; --q) {
        const double value = q >= low ? carried + link.prob * here[q] : carried;
        carried = 0.0;
        if (value == 0.0) continue;
        if (q == least) {
          there[q] += value;
          break;
        }
        const AlignStep step = steps[q];
        Statistics::Entry* entry = &statistics.epsilon(q);
        if (step == kPair && link.word != 0) entry = &statistics.of(link, q);
        // Without branches, since steps are unpredictable.
        (step == kExtraLink ? &extra_link : entry)->add(value, step == kMissing ? end : begin, end);
        *(step == kMissing ? &discarded : there + q - (step == kPair)) += value;
        carried = step == kMissing ? value : 0.0;
      }
    }
  }
  const double* share = distances.row(0);
  double carried = 0.0;
  for (int32_t q = places; q >= 1; --q) {
    if (q < distances.end(0)) carried += share[q];
    statistics.epsilon(q).add(carried, lattice.time[0], lattice.time[0]);
  }
}

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

// Buffers of one call after another.
struct MbrSpace {
  MbrLattice lattice;
  MbrBand band;
  Hypothesis hypothesis;
  Distances distances;
  Statistics statistics;
  std::vector<char> touched;
  std::vector<int32_t> bin;
};

// Decode, starting from the words of the result. With `search` they are improved until the expected error does not
// decrease; otherwise only the statistics are computed. With `silence` epsilons between words are kept.
// Source: Kaldi, lat/sausages.cc; Xu, Povey, Mangu, Zhu 2011, "Minimum Bayes Risk decoding and system combination
// based on a recursion for edit distance", figures 4-6.
inline void decode_mbr(bool search, bool silence, MbrSpace& space, Consensus& result) {
  auto& [lattice, band, hypothesis, distances, statistics, touched, bin] = space;
  std::vector<int32_t>& words = result.words;
  for (result.rounds = 1;; ++result.rounds) {
    hypothesis.set(words, lattice.slots);
    const int32_t places = hypothesis.length();
    const Band* within = &band.of(lattice, static_cast<int64_t>(words.size()));
    for (;;) {
      result.risk = distances.compute(lattice, hypothesis, *within);
      accumulate(lattice, distances, places, band.negligible(), statistics, touched);
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
    if (at == end) at = begin;  // a word of the initial hypothesis that is not in the lattice
    result.time.push_back(result.entry_time[2 * at]);
    result.time.push_back(result.entry_time[2 * at + 1]);
    separate_last_two(result.time);
    words[kept++] = words[place];
  }
  words.resize(kept);
}

// Decode a lattice, starting from `start` or, if it is null, the best path; false if no path leads to a final state.
inline bool decode_mbr(const Arcs& arcs, const Alignments& labels, const int32_t* time, const Scales& scales,
                       const std::vector<int32_t>* start, bool search, bool silence, int64_t whole_words,
                       int64_t least_words, int64_t most_words, Consensus& result) {
  static thread_local std::unique_ptr<MbrSpace> spare;
  if (!spare) spare = std::make_unique<MbrSpace>();
  MbrSpace& space = *spare;
  if (!prepare_mbr(arcs, labels, time, scales, space.lattice)) return false;
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
  decode_mbr(search, silence, space, result);
  if (space.distances.bytes() + space.statistics.bytes() > kMostSpareBytes) spare.reset();
  return true;
}

}  // namespace ninja
