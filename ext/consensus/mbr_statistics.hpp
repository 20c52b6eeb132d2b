// Probabilities and times of the words at each place of a hypothesis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "consensus/mbr_band.hpp"
#include "consensus/mbr_distance.hpp"

namespace ninja {

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
  Entry& of(int32_t slot, int32_t word, int32_t place) {
    const int32_t number = place / kBlock;
    if (recent_[slot] < 0 || block_[recent_[slot]].number != number) turn(slot, number);
    int32_t& at = block_[recent_[slot]].entry[place % kBlock];
    if (at < 0) {
      at = static_cast<int32_t>(entry_.size());
      entry_.push_back({place, word, 0.0, 0.0, 0.0});
    }
    return entry_[at];
  }
  Entry& epsilon(int32_t place) { return epsilon_[place]; }

  // Replace `words` by the most probable word at each place; return whether the posterior changes at some place.
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

  // Entries sorted by place, decreasing probability in single precision, and decreasing word id, as in Kaldi. `begin`
  // is set to the first entry of each place. Entries of probability 0 are dropped.
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

  // Find or add a block, and make it the most recent one of its word. The blocks of a word are linked in the order of
  // their places. Since places are visited backwards, the block is among the first.
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

// A written word without lexical words, such as a comma.
inline bool is_mark(const MbrLattice::Link& link) { return link.word == 0 && link.form != 0; }

// The place of the epsilon after the words among the first q places.
inline int32_t gap_after(int32_t q) { return 2 * (q / 2) + 1; }

// Backward pass over all paths: distribute the probability of each state at each place over the previous states, along
// the steps of the alignments. Few places of a state have a nonzero probability. States with probability near the edge
// of their window are marked as touched. With `marks`, links with a form but no word are counted at the gap between
// words at which they are aligned.
template <bool marks = false>
void accumulate(const MbrLattice& lattice, int32_t num_slots, Distances& distances, int32_t places, double negligible,
                Statistics& statistics, std::vector<char>& touched) {
  distances.clear();  // now beta' of figure 5
  distances.row(lattice.num_states - 1)[places] = 1.0;
  statistics.reset(places, num_slots);
  touched.assign(lattice.num_states, 0);
  double discarded = 0.0;
  Statistics::Entry extra_link{};
  for (int64_t state = lattice.num_states - 1; state > 0; --state) {
    double* here = distances.row(state);
    const int32_t first = distances.begin(state), last = distances.end(state);
    int32_t low = first, high = last - 1;  // range of places with probability; a window consists of pairs of places
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
      double carried = 0.0;  // probability of paths in which place q + 1 is missing
      for (int32_t q = high; q >= low || carried != 0.0; --q) {
        const double value = q >= low ? carried + link.prob * here[q] : carried;
        carried = 0.0;
        if (value == 0.0) continue;
        if (q == least) {
          if constexpr (marks) {
            if (is_mark(link)) statistics.of(link.slot, link.form, gap_after(q)).add(value, begin, end);
          }
          there[q] += value;
          break;
        }
        const AlignStep step = steps[q];
        if constexpr (marks) {
          if (is_mark(link) && step != kMissing) {
            statistics.of(link.slot, link.form, gap_after(q)).add(value, begin, end);
          }
        }
        Statistics::Entry* entry = &statistics.epsilon(q);
        if (step == kPair && link.word != 0) entry = &statistics.of(link.slot, link.word, q);
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

}  // namespace ninja
