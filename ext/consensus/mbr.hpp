// Minimum-Bayes-risk decoding: the words of least expected error, and the confusion network around them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "consensus/mbr_distance.hpp"

namespace ninja {

struct Consensus {
  std::vector<int32_t> words;       // decoded
  std::vector<float> confidence;    // [words]
  std::vector<float> time;          // [words, 2], frames
  std::vector<int64_t> bin_begin;   // [bins + 1]
  std::vector<int32_t> word;        // [entries], each bin from the most probable on
  std::vector<float> posterior;     // [entries]
  std::vector<float> entry_time;    // [entries, 2]
  std::vector<float> bin_time;      // [bins, 2]
  double risk = 0.0;
  int64_t rounds = 0;
};

// gamma and tau of Xu et al. 2011, figure 5 and appendix C: which words stand at each place, how often, and when.
class Statistics {
 public:
  struct Entry {
    int32_t place;
    int32_t word;
    double gamma;
    double begin;
    double end;
  };

  void reset(int64_t places) {
    entry_.clear();
    epsilon_.assign(places + 1, {0, 0, 0.0, 0.0, 0.0});
    for (int64_t place = 0; place <= places; ++place) epsilon_[place].place = static_cast<int32_t>(place);
    std::fill(cells_.begin(), cells_.end(), -1);
  }

  void add(int32_t place, int32_t word, double gamma, double begin, double end) {
    if (gamma == 0.0) return;  // Kaldi does not count these as seen
    Entry& entry = word == 0 ? epsilon_[place] : find(place, word);
    entry.gamma += gamma;
    entry.begin += begin * gamma;
    entry.end += end * gamma;
  }

  // Entries by place, each place's from the most probable on, equal ones from the largest word id on. Kaldi compares
  // in single precision. `begin` gets the first entry of each place, counted from 0.
  const std::vector<Entry>& sorted(std::vector<int64_t>& begin) {
    const auto places = static_cast<int64_t>(epsilon_.size()) - 1;
    for (int64_t place = 1; place <= places; ++place) {
      if (epsilon_[place].gamma != 0.0) entry_.push_back(epsilon_[place]);
    }
    begin.assign(places + 1, 0);
    for (const Entry& entry : entry_) ++begin[entry.place];
    for (int64_t place = 1; place <= places; ++place) begin[place] += begin[place - 1];
    rank_.resize(entry_.size());
    next_.assign(begin.begin(), begin.end());
    for (size_t at = 0; at < entry_.size(); ++at) {
      rank_[next_[entry_[at].place - 1]++] = {order_of(entry_[at]), static_cast<int32_t>(at)};
    }
    for (int64_t place = 0; place < places; ++place) {
      std::sort(rank_.begin() + begin[place], rank_.begin() + begin[place + 1],
                [](const Rank& a, const Rank& b) { return a.order < b.order; });
    }
    sorted_.clear();
    for (const Rank& rank : rank_) sorted_.push_back(entry_[rank.entry]);
    return sorted_;
  }

  size_t bytes() const { return sizeof(int32_t) * cells_.size() + 2 * sizeof(Entry) * entry_.capacity(); }

 private:
  struct Rank {
    uint64_t order;
    int32_t entry;
  };

  // Smaller for what comes first: the bits of floats that are not negative are ordered as these are.
  static uint64_t order_of(const Entry& entry) {
    const auto gamma = static_cast<float>(entry.gamma);
    uint32_t bits;
    std::memcpy(&bits, &gamma, 4);
    return ~((static_cast<uint64_t>(bits) << 32) | static_cast<uint32_t>(entry.word));
  }

  Entry& find(int32_t place, int32_t word) {
    if (2 * (entry_.size() + 1) > cells_.size()) grow();
    int32_t& cell = cells_[slot(place, word)];
    if (cell < 0) {
      cell = static_cast<int32_t>(entry_.size());
      entry_.push_back({place, word, 0.0, 0.0, 0.0});
    }
    return entry_[cell];
  }

  size_t slot(int32_t place, int32_t word) const {
    const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(place)) << 32) | static_cast<uint32_t>(word);
    const uint64_t mixed = key * 0x9e3779b97f4a7c15u;
    size_t at = (mixed ^ (mixed >> 32)) & (cells_.size() - 1);
    while (cells_[at] >= 0 && (entry_[cells_[at]].place != place || entry_[cells_[at]].word != word)) {
      at = (at + 1) & (cells_.size() - 1);
    }
    return at;
  }

  void grow() {
    cells_.assign(2 * cells_.size(), -1);
    for (size_t at = 0; at < entry_.size(); ++at) {
      cells_[slot(entry_[at].place, entry_[at].word)] = static_cast<int32_t>(at);
    }
  }

  std::vector<Entry> entry_, epsilon_, sorted_;
  std::vector<int32_t> cells_ = std::vector<int32_t>(1 << 10, -1);  // places in entry_, -1: free
  std::vector<Rank> rank_;
  std::vector<int64_t> next_;
};

// The way back over all paths: hand each state's share of probability at each place to the states before it, along the
// steps that the distances took. Few places of a state have any.
inline void accumulate(const MbrLattice& lattice, Distances& distances, int32_t places, Statistics& statistics) {
  const int64_t columns = places + 1;
  double* share = distances.cleared();  // beta' of figure 5, [states, columns]
  share[(lattice.num_states - 1) * columns + places] = 1.0;
  statistics.reset(places);
  std::vector<int32_t> held;  // places of a state with a share, from the last on
  for (int64_t state = lattice.num_states - 1; state > 0; --state) {
    const double* here = share + state * columns;
    held.clear();
    for (int32_t q = places; q >= 0; --q) {
      if (here[q] != 0.0) held.push_back(q);
    }
    for (int64_t in = lattice.in[state]; in < lattice.in[state + 1]; ++in) {
      const int64_t at = lattice.entering[in];
      const MbrLattice::Link& link = lattice.link[at];
      double* there = share + link.src * columns;
      const double begin = lattice.time[link.src], end = lattice.time[state];
      double carried = 0.0;  // from the place after, which the link left out
      size_t next = 0;
      for (int32_t q = places; next < held.size() || carried != 0.0; --q) {
        if (carried == 0.0) q = held[next];
        double value = carried;
        carried = 0.0;
        if (next < held.size() && held[next] == q) {
          value += link.prob * here[q];
          ++next;
        }
        if (q == 0) {
          there[0] += value;
          break;
        }
        switch (distances.step(at, link.src, q)) {
          case kPair:
            there[q - 1] += value;
            statistics.add(q, link.word, value, begin, end);
            break;
          case kLeftOver:
            there[q] += value;
            break;
          case kMissing:
            carried = value;
            statistics.add(q, 0, value, end, end);
            break;
        }
      }
    }
  }
  double carried = 0.0;
  for (int32_t q = places; q >= 1; --q) {
    carried += share[q];
    statistics.add(q, 0, carried, lattice.time[0], lattice.time[0]);
  }
}

// Times of words that follow each other must not overlap: the time of both is divided as they were long.
inline void part_last_two(std::vector<float>& time) {
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
constexpr size_t kMostSpareBytes = size_t{1} << 23;  // what an unusually large lattice took is freed

// Memory that one call after the other works in.
struct MbrSpace {
  MbrLattice lattice;
  Hypothesis hypothesis;
  Distances distances;
  Statistics statistics;
};

// Decode, beginning with the words that stand in the result: with `search` they are improved until the expected error
// falls no more, without, only the statistics around them are computed. With `silence` epsilons between them are kept.
// Source: Kaldi, lat/sausages.cc; Xu, Povey, Mangu, Zhu 2011, "Minimum Bayes Risk decoding and system combination
// based on a recursion for edit distance", figures 4-6.
inline void decode_mbr(bool search, bool silence, MbrSpace& space, Consensus& result) {
  auto& [lattice, hypothesis, distances, statistics] = space;
  std::vector<int32_t>& words = result.words;
  const std::vector<Statistics::Entry>* entries = nullptr;
  for (result.rounds = 1;; ++result.rounds) {
    hypothesis.set(words);
    const int32_t places = hypothesis.length();
    result.risk = distances.compute(lattice, hypothesis);
    accumulate(lattice, distances, places, statistics);
    entries = &statistics.sorted(result.bin_begin);
    words.resize(places);
    bool improved = false;
    for (int32_t place = 0; place < places; ++place) {
      words[place] = hypothesis[place + 1];
      if (!search) continue;
      const auto first = entries->begin() + result.bin_begin[place];
      const auto end = entries->begin() + result.bin_begin[place + 1];
      float now = 0.0f;
      for (auto entry = first; entry != end; ++entry) {
        if (entry->word == words[place]) now = static_cast<float>(entry->gamma);
      }
      improved |= now != static_cast<float>(first->gamma);
      words[place] = first->word;
    }
    if (!improved || result.rounds == kMostRounds) break;
  }

  for (const Statistics::Entry& entry : *entries) {
    const auto posterior = static_cast<float>(entry.gamma);
    result.word.push_back(entry.word);
    result.posterior.push_back(posterior);
    const double share = posterior > 0.0f ? posterior : entry.gamma;  // the least are 0 in single precision
    result.entry_time.push_back(static_cast<float>(entry.begin / share));
    result.entry_time.push_back(static_cast<float>(entry.end / share));
  }
  size_t kept = 0;
  for (size_t place = 0; place < words.size(); ++place) {
    const int64_t begin = result.bin_begin[place], end = result.bin_begin[place + 1];
    double first = 0.0, last = 0.0;
    for (int64_t at = begin; at < end; ++at) {
      first += (*entries)[at].begin;
      last += (*entries)[at].end;
    }
    result.bin_time.push_back(static_cast<float>(first));
    result.bin_time.push_back(static_cast<float>(last));
    if (place > 0 && result.bin_time[2 * place - 1] > result.bin_time[2 * place]) {
      const auto middle = static_cast<float>(
          0.5 * static_cast<double>(result.bin_time[2 * place - 1] + result.bin_time[2 * place]));
      result.bin_time[2 * place - 1] = result.bin_time[2 * place] = middle;
    }
    if (words[place] == 0 && !silence) continue;
    int64_t at = begin;
    while (at < end && result.word[at] != words[place]) ++at;
    result.confidence.push_back(at < end ? result.posterior[at] : 0.0f);
    if (at == end) at = begin;  // a word that was given, and is not in the lattice
    result.time.push_back(result.entry_time[2 * at]);
    result.time.push_back(result.entry_time[2 * at + 1]);
    part_last_two(result.time);
    words[kept++] = words[place];
  }
  words.resize(kept);
}

// Decode a lattice, beginning with `start` or, if that is null, its best path; false if no path leads to a final state.
inline bool decode_mbr(const Arcs& arcs, const Alignments& labels, const int32_t* time, const Scales& scales,
                       const std::vector<int32_t>* start, bool search, bool silence, Consensus& result) {
  static thread_local std::unique_ptr<MbrSpace> spare;
  if (!spare) spare = std::make_unique<MbrSpace>();
  MbrSpace& space = *spare;
  if (!prepare_mbr(arcs, labels, time, scales, space.lattice)) return false;
  if (start != nullptr) {
    result.words = *start;
  } else {
    best_words(space.lattice, result.words);
  }
  decode_mbr(search, silence, space, result);
  if (space.distances.bytes() + space.statistics.bytes() > kMostSpareBytes) spare.reset();
  return true;
}

}  // namespace ninja
