// Alignment of lattices to words or phones: one arc a unit, with exactly the labels (transition ids) of that unit.
//
// A place in the search is an input state together with the labels and words that were read but not yet given out.
// Only places behind a unit become states; from each the arcs are followed until the unit's end has been seen. Places
// are taken up in the order of their input states, and at one state with most pending first: every arc leads forward.
//
// This is the fast way, for lattices that are what decoders make: deterministic, without epsilons, each label sequence
// well formed. Anything else is left to the general way, which does step by step what Kaldi does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "align_units.hpp"
#include "lattice.hpp"

namespace ninja {

class FastAligner {
 public:
  [[gnu::noinline]] AlignEnd align(const Arcs& arcs, const Alignments& alignments, const Labels& known,
                                  const AlignOptions& options, AlignedArcs& to) {
    arcs_ = &arcs;
    alignments_ = &alignments;
    known_ = known;
    options_ = options;
    to_ = &to;
    end_ = AlignEnd::kAligned;
    find_alive();
    if (!is_deterministic()) return AlignEnd::kUnsure;
    clear();
    place_of(0, 0, 0, {nullptr, 0});
    for (int32_t state = 0; state <= arcs.num_states && end_ == AlignEnd::kAligned; ++state) {
      while (take_longest(state)) {
        leave(longest_);
        if (end_ != AlignEnd::kAligned) break;
      }
    }
    if (end_ != AlignEnd::kAligned) return end_;
    add_up();
    to.arc_begin.push_back(static_cast<int64_t>(to.dst.size()));
    for (int32_t& dst : to.dst) dst = number_[dst];
    return end_;
  }

 private:
  struct Stretch {
    const int32_t* label;
    int32_t length;
  };
  struct Step {
    Stretch labels;
    float graph, acoustic;
    int32_t state, num_words;  // behind it
  };
  // An arc of several steps whose costs wait until all places are known.
  struct Long {
    int64_t arc;              // or final state
    bool is_final;
    int32_t num_steps;
    size_t steps, words;      // where they begin
  };
  struct Place {
    uint64_t hash;
    Stretch labels;       // pending
    int64_t words;        // pending, where they begin in pending_words_
    int32_t num_words;
    int32_t state;
    int32_t next;         // at the same state
  };
  // A way from the place being left.
  struct Way {
    int32_t num_words, num_labels, num_steps;
    UnitScan scan;
  };
  struct Frame {
    int64_t arc, end;     // still to be followed
    Way way;
  };
  // What has been found out about an arc before.
  struct Memory {
    struct Read {         // of its labels behind the first one
      bool is_known, is_well;
      UnitScan::Phase phase;
      uint32_t phone;
      int32_t cut;
    } read[2];            // by whether the first label left its phone
    struct Rest {
      int32_t length, place;
    } rest[2];            // where so many of its labels are left and, in the second, its word
  };

  void clear() {
    to_->arc_begin.clear();
    to_->dst.clear();
    to_->word.clear();
    to_->graph.clear();
    to_->acoustic.clear();
    to_->num_labels = 0;
    to_->ali_begin.assign(1, 0);
    to_->final_graph.clear();
    to_->final_acoustic.clear();
    places_.clear();
    number_.clear();
    pending_words_.clear();
    kept_.clear();
    long_.clear();
    long_steps_.clear();
    long_words_.clear();
    num_pending_ = 0;
    waiting_.clear();
    at_state_.assign(arcs_->num_states + 1, -1);
    constexpr Memory kNothing = {{{false, false, UnitScan::kStart, 0, 0}, {false, false, UnitScan::kStart, 0, 0}},
                                 {{-1, -1}, {-1, -1}}};
    memory_.assign(arcs_->num_arcs, kNothing);
    if (cells_.empty() || cells_.size() > 1 << 16) cells_.resize(1 << 10);
    std::fill(cells_.begin(), cells_.end(), -1);
  }

  void find_alive() {
    const Arcs& arcs = *arcs_;
    alive_.resize(arcs.num_states);
    for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
      uint8_t alive = is_final(arcs, state);
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) alive |= alive_[arcs.dst[arc]];
      alive_[state] = alive;
    }
  }

  bool is_deterministic() {
    const Arcs& arcs = *arcs_;
    seen_.assign(kWordsSeen, -1);
    for (int32_t state = 0; state < arcs.num_states; ++state) {
      const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
      bool is_doubtful = false;
      for (int64_t arc = begin; arc < end; ++arc) {
        int32_t& last = seen_[arcs.word[arc] & (kWordsSeen - 1)];
        is_doubtful |= arcs.word[arc] == 0 || last == state;
        last = state;
      }
      if (!is_doubtful) continue;
      sorted_.assign(arcs.word + begin, arcs.word + end);
      std::sort(sorted_.begin(), sorted_.end());
      if (sorted_[0] == 0 || std::adjacent_find(sorted_.begin(), sorted_.end()) != sorted_.end()) return false;
    }
    return true;
  }

  // Take the place at a state with most pending out of those that wait.
  bool take_longest(int32_t state) {
    const auto pending = [this](int32_t place) { return places_[place].num_words + places_[place].labels.length; };
    const auto shorter = [&](int32_t a, int32_t b) { return pending(a) < pending(b); };
    if (waiting_.empty()) {
      for (int32_t place = at_state_[state]; place >= 0; place = places_[place].next) waiting_.push_back(place);
      if (waiting_.size() > 1) std::sort(waiting_.begin(), waiting_.end(), shorter);
    } else {
      for (int32_t place = at_state_[state]; place >= 0; place = places_[place].next) {
        waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), place, shorter), place);
      }
    }
    at_state_[state] = -1;
    if (waiting_.empty()) return false;
    longest_ = waiting_.back();
    waiting_.pop_back();
    return true;
  }

  // Make a state of a place, and its arcs.
  void leave(int32_t place) {
    number_[place] = static_cast<int32_t>(to_->arc_begin.size());
    to_->arc_begin.push_back(static_cast<int64_t>(to_->dst.size()));
    to_->final_graph.push_back(kInfinity);
    to_->final_acoustic.push_back(kInfinity);
    const Place from = places_[place];
    words_.assign(pending_words_.begin() + from.words, pending_words_.begin() + from.words + from.num_words);
    steps_.assign(1, {from.labels, 0.0f, 0.0f, from.state, from.num_words});
    Way way{from.num_words, from.labels.length, 1, {}};
    if (!way.scan.read(known_, options_.reorder, from.labels.label, from.labels.length, 0)) return refuse();
    frames_.clear();
    arrive(from.state, way, -1);
    while (!frames_.empty() && end_ == AlignEnd::kAligned) {
      Frame& frame = frames_.back();
      if (frame.arc == frame.end) {
        frames_.pop_back();
        continue;
      }
      const int64_t arc = frame.arc++;
      const int32_t dst = arcs_->dst[arc];
      if (!alive_[dst]) continue;
      way = frame.way;
      if (static_cast<int32_t>(words_.size()) <= way.num_words) words_.resize(way.num_words + 16);
      words_[way.num_words++] = arcs_->word[arc];
      const int64_t begin = alignments_->ali_begin[arc];
      const Stretch labels{alignments_->ali + begin, static_cast<int32_t>(alignments_->ali_begin[arc + 1] - begin)};
      if (!read(way, labels, arc)) return refuse();
      append(way, {labels, arcs_->graph[arc], arcs_->acoustic[arc], dst, way.num_words});
      arrive(dst, way, arc);
    }
  }

  void append(Way& way, Step step) {
    if (static_cast<int32_t>(steps_.size()) <= way.num_steps) steps_.resize(way.num_steps + 16);
    steps_[way.num_steps++] = step;
    way.num_labels += step.labels.length;
  }

  // What the steps of a way cost together. Sums of three and more are made again by `add_up`.
  Step sum(const Way& way, int64_t arc, bool is_end) {
    Step all{};
    for (int32_t at = 1; at < way.num_steps; ++at) {
      all.graph += steps_[at].graph;
      all.acoustic += steps_[at].acoustic;
    }
    if (way.num_steps > 3) {
      long_.push_back({arc, is_end, way.num_steps, long_steps_.size(), long_words_.size()});
      long_steps_.insert(long_steps_.end(), steps_.begin(), steps_.begin() + way.num_steps);
      long_words_.insert(long_words_.end(), words_.begin(), words_.begin() + way.num_words);
    }
    return all;
  }

  // Add costs up in Kaldi's order, for sums of single precision depend on it. Kaldi makes a chain of epsilons of the
  // steps, and takes epsilons away from the end on, but only where a unit ends before them: steps between two places are
  // summed forwards, and these sums backwards.
  void add_up() {
    for (const Long& each : long_) {
      const Step* step = long_steps_.data() + each.steps;
      float graph = 0.0f, acoustic = 0.0f;
      for (int32_t end = each.num_steps - 1; end > 0;) {
        int32_t begin = end - 1;
        while (begin > 0 && !is_place(step, begin, long_words_.data() + each.words)) --begin;
        Step part{};
        for (int32_t at = begin + 1; at <= end; ++at) {
          part.graph += step[at].graph;
          part.acoustic += step[at].acoustic;
        }
        graph = part.graph + graph;
        acoustic = part.acoustic + acoustic;
        end = begin;
      }
      (each.is_final ? to_->final_graph : to_->graph)[each.arc] = graph;
      (each.is_final ? to_->final_acoustic : to_->acoustic)[each.arc] = acoustic;
    }
  }

  // Whether a unit may end where a way stands behind one of its steps.
  bool is_place(const Step* step, int32_t at, const int32_t* words) {
    sorted_.clear();
    for (int32_t before = 0; before <= at; ++before) {
      sorted_.insert(sorted_.end(), step[before].labels.label, step[before].labels.label + step[before].labels.length);
    }
    const Stretch labels{sorted_.data(), static_cast<int32_t>(sorted_.size())};
    return cells_[cell_of(step[at].state, words, step[at].num_words, labels,
                          hash_of_place(step[at].state, words, step[at].num_words, labels))] >= 0;
  }

  // Read an arc's labels on a way; how the first one is read tells how the others are, so these are read once.
  bool read(Way& way, Stretch labels, int64_t arc) {
    UnitScan& scan = way.scan;
    if (labels.length == 0 || scan.phase == UnitScan::kCut) return true;
    if (!scan.read(known_, options_.reorder, labels.label, 1, way.num_labels)) return false;
    if (scan.phase == UnitScan::kCut) return true;
    Memory::Read& memory = memory_[arc].read[scan.phase == UnitScan::kLeft];
    if (!memory.is_known) {
      UnitScan rest = scan;
      const bool is_well = rest.read(known_, options_.reorder, labels.label + 1, labels.length - 1, 1);
      memory = {true, is_well, rest.phase, rest.phone, rest.cut};
    }
    scan.phase = memory.phase;
    scan.phone = memory.phone;
    if (memory.phase == UnitScan::kCut) scan.cut = way.num_labels + memory.cut;
    return memory.is_well;
  }

  // Give out a unit if one is over, or go on from a state, and end there if it is final.
  void arrive(int32_t state, const Way& way, int64_t arc) {
    if (give_out(state, way, arc)) return;
    if (state == arcs_->num_states) return end(way);
    frames_.push_back({arcs_->arc_begin[state], arcs_->arc_begin[state + 1], way});
    if (!is_final(*arcs_, state)) return;
    Way last = way;
    const int64_t begin = alignments_->final_ali_begin[state];
    const Stretch labels{alignments_->final_ali + begin,
                         static_cast<int32_t>(alignments_->final_ali_begin[state + 1] - begin)};
    if (!last.scan.read(known_, options_.reorder, labels.label, labels.length, last.num_labels)) return refuse();
    const auto end_state = static_cast<int32_t>(arcs_->num_states);
    append(last, {labels, arcs_->final_graph[state], arcs_->final_acoustic[state], end_state, last.num_words});
    if (!give_out(end_state, last, -1)) end(last);
  }

  bool give_out(int32_t state, const Way& way, int64_t arc) {
    if (way.scan.phase == UnitScan::kCut) {
      const bool takes_word = options_.by_phone ? way.num_words > 0 : way.scan.first_kind != kNonword;
      if (takes_word && way.num_words == 0) return false;
      const int32_t without_word = options_.by_phone ? 0 : options_.silence_word;
      add_arc(state, way, takes_word, takes_word ? words_[0] : without_word, way.scan.cut, arc);
      return true;
    }
    if (options_.by_phone && way.num_words > 1) {
      add_arc(state, way, true, words_[0], 0, -1);
      return true;
    }
    return false;
  }

  // At the end of the lattice, where no unit is over by itself.
  void end(const Way& way) {
    if (way.num_labels == 0 && way.num_words == 0) {
      const Step all = sum(way, static_cast<int64_t>(to_->final_graph.size()) - 1, true);
      to_->final_graph.back() = all.graph;
      to_->final_acoustic.back() = all.acoustic;
      return;
    }
    const auto last = static_cast<int32_t>(arcs_->num_states);
    if (options_.by_phone) {
      if (way.num_labels > 0 && !way.scan.may_end()) return refuse();
      const bool takes_word = way.num_words > 0;
      return add_arc(last, way, takes_word, takes_word ? words_[0] : 0, way.num_labels, -1);
    }
    const bool is_silence = way.scan.first_kind == kNonword;
    if (way.num_labels == 0 || !way.scan.may_end() || way.num_words != (is_silence ? 0 : 1)) return refuse();
    add_arc(last, way, !is_silence, is_silence ? options_.silence_word : words_[0], way.num_labels, -1);
  }

  // An arc with the first `cut` labels of a way to the place where the rest is pending; the way's last arc if it may
  // be remembered there.
  void add_arc(int32_t state, const Way& way, bool takes_word, int32_t word, int32_t cut, int64_t arc) {
    to_->word.push_back(word);
    const Step all = sum(way, static_cast<int64_t>(to_->graph.size()), false);
    to_->graph.push_back(all.graph);
    to_->acoustic.push_back(all.acoustic);
    int32_t left = cut, at = 0;
    int32_t* label = to_->more(cut);
    for (; at < way.num_steps && steps_[at].labels.length <= left; ++at) {
      label = std::copy_n(steps_[at].labels.label, steps_[at].labels.length, label);
      left -= steps_[at].labels.length;
    }
    if (left > 0) std::copy_n(steps_[at].labels.label, left, label);
    to_->ali_begin.push_back(to_->num_labels);
    if (to_->size() > options_.max_labels) end_ = AlignEnd::kTooLarge;

    const int32_t num_words = way.num_words - takes_word, length = way.num_labels - cut;
    // What is left of the arc's labels and, at most, its own word is the same on every way that ends with it.
    Memory::Rest* rest = nullptr;
    if (arc >= 0 && num_words <= 1 && at >= way.num_steps - 1) rest = &memory_[arc].rest[num_words];
    if (rest == nullptr || rest->length != length) {
      const int32_t place = place_of(state, takes_word, num_words, rest_of(way, at, left, length));
      if (rest != nullptr) *rest = {length, place};
      to_->dst.push_back(place);
    } else {
      to_->dst.push_back(rest->place);
    }
  }

  // The labels of a way behind the first ones of one of its stretches.
  Stretch rest_of(const Way& way, int32_t at, int32_t first, int32_t length) {
    if (length == 0) return {nullptr, 0};
    if (steps_[at].labels.length - first == length) return {steps_[at].labels.label + first, length};
    std::vector<int32_t> rest;
    rest.reserve(length);
    for (; at < way.num_steps; ++at, first = 0) {
      rest.insert(rest.end(), steps_[at].labels.label + first, steps_[at].labels.label + steps_[at].labels.length);
    }
    num_pending_ += length;
    if (num_pending_ > options_.max_labels) end_ = AlignEnd::kTooLarge;
    kept_.push_back(std::move(rest));
    return {kept_.back().data(), length};
  }

  // The place with some words of the way at hand and labels.
  int32_t place_of(int32_t state, int32_t first_word, int32_t num_words, Stretch labels) {
    const int32_t* word = words_.data() + first_word;
    const uint64_t hash = hash_of_place(state, word, num_words, labels);
    const size_t at = cell_of(state, word, num_words, labels, hash);
    if (cells_[at] >= 0) return cells_[at];
    const auto place = static_cast<int32_t>(places_.size());
    cells_[at] = place;
    places_.push_back({hash, labels, static_cast<int64_t>(pending_words_.size()), num_words, state, at_state_[state]});
    number_.push_back(-1);
    at_state_[state] = place;
    pending_words_.insert(pending_words_.end(), word, word + num_words);
    if (2 * places_.size() > cells_.size()) grow();
    if (place >= options_.max_states || static_cast<int64_t>(pending_words_.size()) > options_.max_labels) {
      end_ = AlignEnd::kTooLarge;
    }
    return place;
  }

  static uint64_t hash_of_place(int32_t state, const int32_t* word, int32_t num_words, Stretch labels) {
    return hash_of(labels.label, labels.length, hash_of(word, num_words, static_cast<uint64_t>(state) << 8));
  }

  // The cell that holds a place, or the empty one where it belongs.
  size_t cell_of(int32_t state, const int32_t* word, int32_t num_words, Stretch labels, uint64_t hash) const {
    size_t at = hash & (cells_.size() - 1);
    for (; cells_[at] >= 0; at = (at + 1) & (cells_.size() - 1)) {
      const Place& known = places_[cells_[at]];
      if (known.hash == hash && known.state == state && known.num_words == num_words &&
          known.labels.length == labels.length &&
          std::equal(word, word + num_words, pending_words_.begin() + known.words) &&
          std::equal(labels.label, labels.label + labels.length, known.labels.label)) {
        break;
      }
    }
    return at;
  }

  static uint64_t hash_of(const int32_t* value, int32_t length, uint64_t hash) {
    constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
    hash = (hash ^ static_cast<uint64_t>(length)) * kFactor;
    uint64_t other = hash >> 32;
    for (; length >= 4; value += 4, length -= 4) {  // two sums, which need not wait for each other
      uint64_t four[2];
      std::memcpy(four, value, sizeof(four));
      hash = (hash ^ (hash >> 29) ^ four[0]) * kFactor;
      other = (other ^ (other >> 31) ^ four[1]) * kFactor;
    }
    hash ^= other ^ (other >> 32);
    if (length >= 2) {
      uint64_t two;
      std::memcpy(&two, value, sizeof(two));
      hash = (hash ^ (hash >> 29) ^ two) * kFactor;
      value += 2;
      length -= 2;
    }
    if (length > 0) hash = (hash ^ (hash >> 29) ^ static_cast<uint32_t>(*value)) * kFactor;
    return hash ^ (hash >> 32);
  }

  void grow() {
    cells_.assign(2 * cells_.size(), -1);
    for (size_t place = 0; place < places_.size(); ++place) {
      size_t at = places_[place].hash & (cells_.size() - 1);
      while (cells_[at] >= 0) at = (at + 1) & (cells_.size() - 1);
      cells_[at] = static_cast<int32_t>(place);
    }
  }

  static constexpr int32_t kWordsSeen = 1 << 11;

  void refuse() { end_ = AlignEnd::kUnsure; }

  const Arcs* arcs_ = nullptr;
  const Alignments* alignments_ = nullptr;
  Labels known_{};
  AlignOptions options_{};
  AlignedArcs* to_ = nullptr;
  AlignEnd end_ = AlignEnd::kAligned;
  int64_t num_pending_ = 0;         // labels in kept_
  int32_t longest_ = -1;
  std::vector<uint8_t> alive_;
  std::vector<int32_t> seen_;       // by the last digits of words, the last state with such a word
  std::vector<int32_t> sorted_;     // and other lists that nobody needs for long
  std::vector<Memory> memory_;      // [num_arcs]
  std::vector<Place> places_;
  std::vector<int32_t> number_;     // new state of each place
  std::vector<int32_t> pending_words_;
  std::vector<std::vector<int32_t>> kept_;  // pending labels of more than one arc
  std::vector<int32_t> at_state_;   // last place found at each state and not yet waiting
  std::vector<int32_t> waiting_;    // places of the state at hand, most pending last
  std::vector<int32_t> cells_;      // hash table of places
  std::vector<int32_t> words_;      // of the way at hand
  std::vector<Step> steps_;         // its arcs, behind what was pending
  std::vector<Long> long_;
  std::vector<Step> long_steps_;
  std::vector<int32_t> long_words_;
  std::vector<Frame> frames_;
};

// Lend an aligner, and arrays, that have room from earlier calls of the thread.
inline FastAligner& spare_aligner() {
  static thread_local FastAligner spare;
  return spare;
}

inline AlignedArcs& spare_arcs() {
  static thread_local AlignedArcs spare;
  constexpr size_t kMost = size_t{1} << 24;  // labels; what an unusually large lattice took is freed
  if (spare.ali.size() > kMost) spare = AlignedArcs();
  return spare;
}

}  // namespace ninja
