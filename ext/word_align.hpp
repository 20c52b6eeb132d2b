// Alignment of lattices to words or phones: one arc a unit, with exactly the labels (transition ids) of that unit.
//
// A place in the search is an input state together with the labels and words that were read but not yet given out.
// Only places behind a unit become states; from each the arcs are followed until the unit's end has been seen. Places
// are taken up in the order of their input states, and at one state with most pending first: every arc leads forward.
//
// This is the fast way, for lattices that are what decoders make: deterministic, without epsilons, each label sequence
// well formed. Anything else is left to the general way, which does step by step what Kaldi does. Both give the same
// arcs and states in the same order with the same costs, bit for bit: those of Kaldi.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "align_places.hpp"
#include "align_units.hpp"
#include "lattice.hpp"
#include "top_sort.hpp"

namespace ninja {

class FastAligner {
 public:
  [[gnu::noinline]] AlignEnd align(const Arcs& arcs, const Alignments& alignments, const Labels& known,
                                  const AlignOptions& options) {
    arcs_ = &arcs;
    alignments_ = &alignments;
    known_ = known;
    options_ = options;
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
    find_inner_places();
    add_up();
    reverse_inner_places();
    sort_states();
    return end_;
  }

  // The result; the lattice it was made of must still be there.
  int64_t num_states() const { return static_cast<int64_t>(left_.size()); }
  int64_t num_arcs() const { return static_cast<int64_t>(units_.size()); }
  int64_t num_labels() const { return num_labels_; }

  [[gnu::noinline]] void write(const ArcArrays& to) const {
    int64_t arc = 0, num_labels = 0;
    to.arc_begin[0] = to.ali_begin[0] = 0;
    for (size_t state = 0; state < left_.size(); ++state) {
      const int32_t before = old_state_[state];
      to.final_graph[state] = left_[before].final_graph;
      to.final_acoustic[state] = left_[before].final_acoustic;
      for (int64_t at = arc_begin_[before]; at < arc_begin_[before + 1]; ++at, ++arc) {
        const Unit& unit = units_[at];
        to.dst[arc] = new_state_[dst_[at]];
        to.word[arc] = unit.word;
        to.graph[arc] = unit.graph;
        to.acoustic[arc] = unit.acoustic;
        write_labels(places_[left_[before].place], unit, to.ali + num_labels);
        to.ali_begin[arc + 1] = num_labels += unit.num_labels;
      }
      to.arc_begin[state + 1] = arc;
    }
  }

  // Room that is kept for the next lattice, in bytes, about.
  size_t room() const { return units_.capacity() * sizeof(Unit) + inner_.capacity() * sizeof(Inner); }

 private:
  struct Step {
    Stretch labels;
    float graph, acoustic;
  };
  // A step behind which no unit is over, and all that was found behind it.
  struct Inner {
    Step step;
    int32_t before;                // the inner step before it, or -1 behind the place that was left
    int32_t place;                 // that was left
    int32_t state, word;           // its own word
    int32_t num_words, num_labels; // pending behind it
    int64_t begin, end;            // arcs
    bool is_place;                 // whether a unit may end there on another way
  };
  // A unit given out: an arc. Its labels are those of the place, of inner steps, and of the last step on the way there,
  // as far as they belong to it.
  struct Unit {
    const int32_t* last;           // labels of the last step
    int32_t num_last, num_labels;
    int32_t inner;                 // the last but one step, -1 if none
    int32_t place, word;           // where it leads to
    float graph, acoustic;
  };
  // A state of the result: a place that was left.
  struct Left {
    int32_t place;
    float final_graph, final_acoustic;
  };
  // An arc of several steps whose costs wait until all places are known.
  struct Long {
    int64_t arc;                   // or final state
    bool is_final;
    int32_t before;                // the inner step before its last one
    float graph, acoustic;         // of its last step
  };
  // A way from the place being left.
  struct Way {
    int32_t num_words, num_labels, num_steps;
    float graph, acoustic;  // of its steps; three and more are added up again by `add_up`
    UnitScan scan;
  };
  struct Frame {
    int64_t arc, end;     // still to be followed
    int32_t state, inner; // the inner step that led there, -1 if none did
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
    units_.clear();
    left_.clear();
    arc_begin_.assign(1, 0);
    num_labels_ = 0;
    places_.clear();
    number_.clear();
    kept_.clear();
    inner_.clear();
    long_.clear();
    num_pending_ = 0;
    waiting_.clear();
    at_state_.assign(arcs_->num_states + 1, -1);
    constexpr Memory kNothing = {{{false, false, UnitScan::kStart, 0, 0}, {false, false, UnitScan::kStart, 0, 0}},
                                 {{-1, -1}, {-1, -1}}};
    memory_.assign(arcs_->num_arcs, kNothing);
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
    number_[place] = static_cast<int32_t>(left_.size());
    left_.push_back({place, kInfinity, kInfinity});
    const Place from = places_[place];
    if (static_cast<int32_t>(words_.size()) < from.num_words) words_.resize(from.num_words + 16);
    std::copy_n(places_.words(from), from.num_words, words_.begin());
    Way way{from.num_words, 0, 0, 0.0f, 0.0f, {}};
    append(way, {from.labels, 0.0f, 0.0f});
    if (!way.scan.read(known_, options_.reorder, from.labels.label, from.labels.length, 0)) return refuse();
    frames_.clear();
    arrive(from.state, way, -1);
    while (!frames_.empty() && end_ == AlignEnd::kAligned) {
      Frame& frame = frames_.back();
      if (frame.arc == frame.end) {
        if (is_final(*arcs_, frame.state)) arrive_at_end(frame.state, frame.way);
        if (frame.inner >= 0) inner_[frame.inner].end = num_arcs();
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
      append(way, {labels, arcs_->graph[arc], arcs_->acoustic[arc]});
      arrive(dst, way, arc);
    }
    arc_begin_.push_back(num_arcs());
  }

  void append(Way& way, Step step) {
    if (static_cast<int32_t>(steps_.size()) <= way.num_steps) steps_.resize(way.num_steps + 16);
    steps_[way.num_steps++] = step;
    way.num_labels += step.labels.length;
    way.graph += step.graph;
    way.acoustic += step.acoustic;
  }

  // Note an arc, or the end of a way, whose costs depend on the order in which they are added up.
  void note_long(const Way& way, int64_t arc, bool is_end) {
    if (way.num_steps <= 3) return;
    const Step& last = steps_[way.num_steps - 1];
    long_.push_back({arc, is_end, frames_.back().inner, last.graph, last.acoustic});
  }

  // Add costs up in Kaldi's order, for sums of single precision depend on it. Kaldi makes a chain of epsilons of the
  // steps, and takes epsilons away from the end on, but only where a unit ends before them: steps between two places
  // are summed forwards, and these sums backwards.
  void add_up() {
    for (const Long& each : long_) {
      float graph = 0.0f, acoustic = 0.0f;
      parts_.assign(1, {{nullptr, 0}, each.graph, each.acoustic});
      for (int32_t at = each.before;; at = inner_[at].before) {
        if (at < 0 || inner_[at].is_place) {
          Step part{};
          for (; !parts_.empty(); parts_.pop_back()) {
            part.graph += parts_.back().graph;
            part.acoustic += parts_.back().acoustic;
          }
          graph = part.graph + graph;
          acoustic = part.acoustic + acoustic;
        }
        if (at < 0) break;
        parts_.push_back(inner_[at].step);
      }
      (each.is_final ? left_[each.arc].final_graph : units_[each.arc].graph) = graph;
      (each.is_final ? left_[each.arc].final_acoustic : units_[each.arc].acoustic) = acoustic;
    }
  }

  // Find out behind which inner steps a unit may end on another way.
  void find_inner_places() {
    size_t size = 64;
    while (size < 8 * places_.size()) size *= 2;
    seen_.assign(size, 0);
    const auto key = [size](int32_t state, int32_t num_words, int32_t num_labels) {
      return ((static_cast<uint32_t>(state) * 64 + num_words) * 512 + num_labels) * 0x9e3779b1u >> 7 & (size - 1);
    };
    for (const Place& place : places_) seen_[key(place.state, place.num_words, place.labels.length)] = 1;
    for (Inner& inner : inner_) {
      if (seen_[key(inner.state, inner.num_words, inner.num_labels)]) inner.is_place = is_place(inner);
    }
  }

  // Whether a unit may end where a way stands behind an inner step.
  bool is_place(const Inner& inner) {
    const Place& from = places_[inner.place];
    sorted_.resize(inner.num_labels + inner.num_words);
    int32_t* label = sorted_.data() + inner.num_labels;
    int32_t* word = label + inner.num_words;
    for (const Inner* at = &inner;; at = &inner_[at->before]) {
      *--word = at->word;
      label = std::copy_n(at->step.labels.label, at->step.labels.length, label - at->step.labels.length);
      label -= at->step.labels.length;
      if (at->before < 0) break;
    }
    std::copy_n(places_.words(from), from.num_words, word - from.num_words);
    std::copy_n(from.labels.label, from.labels.length, label - from.labels.length);
    return places_.find(inner.state, sorted_.data() + inner.num_labels, inner.num_words,
                        {sorted_.data(), inner.num_labels}) >= 0;
  }

  // Put arcs in Kaldi's order. Kaldi takes a state's epsilons away from the last to the first and then turns the arcs
  // round: they stay as they were found, but for those behind an inner place, which were turned round before.
  void reverse_inner_places() {
    for (auto inner = inner_.rbegin(); inner != inner_.rend(); ++inner) {
      if (inner->is_place) std::reverse(units_.begin() + inner->begin, units_.begin() + inner->end);
    }
  }

  void sort_states() {
    dst_.resize(units_.size());
    for (size_t arc = 0; arc < units_.size(); ++arc) dst_[arc] = number_[units_[arc].place];
    new_state_.resize(left_.size());
    old_state_.resize(left_.size());
    top_sort(num_states(), arc_begin_.data(), dst_.data(), 0, new_state_.data());
    for (size_t state = 0; state < left_.size(); ++state) old_state_[new_state_[state]] = static_cast<int32_t>(state);
  }

  // From the last to the first.
  void write_labels(const Place& from, const Unit& unit, int32_t* to) const {
    int32_t length = unit.num_labels - unit.num_last;
    copy_few(unit.last, unit.num_last, to + length);
    for (int32_t at = unit.inner; length > 0 && at >= 0; at = inner_[at].before) {
      const Stretch& labels = inner_[at].step.labels;
      const int32_t begin = inner_[at].num_labels - labels.length;
      if (begin >= length) continue;
      copy_few(labels.label, length - begin, to + begin);
      length = begin;
    }
    copy_few(from.labels.label, length, to);
  }

  // Copy without a call, which takes longer than a few labels do.
  static void copy_few(const int32_t* from, int32_t length, int32_t* to) {
    constexpr int32_t kBlock = 4;
    if (length < kBlock) {
      for (int32_t at = 0; at < length; ++at) to[at] = from[at];
      return;
    }
    for (int32_t at = 0; at < length - kBlock; at += kBlock) std::memcpy(to + at, from + at, kBlock * sizeof(int32_t));
    std::memcpy(to + length - kBlock, from + length - kBlock, kBlock * sizeof(int32_t));
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

  // Give out a unit if one is over, or get ready to go on.
  void arrive(int32_t state, const Way& way, int64_t arc) {
    if (give_out(state, way, arc)) return;
    if (state == arcs_->num_states) return end(way);
    int32_t inner = -1;
    if (way.num_steps > 1) {
      inner = static_cast<int32_t>(inner_.size());
      inner_.push_back({steps_[way.num_steps - 1], frames_.back().inner, left_.back().place, state,
                        words_[way.num_words - 1], way.num_words, way.num_labels, num_arcs(), 0, false});
      check_size();
    }
    frames_.push_back({arcs_->arc_begin[state], arcs_->arc_begin[state + 1], state, inner, way});
  }

  // Go on from a final state to the end of the lattice.
  void arrive_at_end(int32_t state, Way way) {
    const int64_t begin = alignments_->final_ali_begin[state];
    const Stretch labels{alignments_->final_ali + begin,
                         static_cast<int32_t>(alignments_->final_ali_begin[state + 1] - begin)};
    if (!way.scan.read(known_, options_.reorder, labels.label, labels.length, way.num_labels)) return refuse();
    append(way, {labels, arcs_->final_graph[state], arcs_->final_acoustic[state]});
    if (!give_out(static_cast<int32_t>(arcs_->num_states), way, -1)) end(way);
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
      note_long(way, num_states() - 1, true);
      left_.back().final_graph = way.graph;
      left_.back().final_acoustic = way.acoustic;
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
    const Stretch last = steps_[way.num_steps - 1].labels;
    const int32_t before = way.num_labels - last.length;  // of its labels come before the last step
    const int32_t num_words = way.num_words - takes_word, length = way.num_labels - cut;
    // What is left of the arc's labels and, at most, its own word is the same on every way that ends with it.
    Memory::Rest* rest = nullptr;
    if (arc >= 0 && num_words <= 1 && cut >= before) rest = &memory_[arc].rest[num_words];
    int32_t place;
    if (rest == nullptr || rest->length != length) {
      place = place_of(state, takes_word, num_words, rest_of(way, cut, length));
      if (rest != nullptr) *rest = {length, place};
    } else {
      place = rest->place;
    }
    note_long(way, num_arcs(), false);
    const int32_t inner = way.num_steps > 1 ? frames_.back().inner : -1;
    units_.push_back({last.label, std::max(cut - before, 0), cut, inner, place, word, way.graph, way.acoustic});
    num_labels_ += cut;
    check_size();
  }

  void check_size() {
    const int64_t size = num_labels_ + 6 * num_arcs() + 16 * static_cast<int64_t>(inner_.size());
    if (size > options_.max_labels) end_ = AlignEnd::kTooLarge;
  }

  // The labels of a way behind its first ones.
  Stretch rest_of(const Way& way, int32_t first, int32_t length) {
    if (length == 0) return {nullptr, 0};
    int32_t at = 0;
    for (; steps_[at].labels.length <= first; ++at) first -= steps_[at].labels.length;
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
    const auto [place, is_new] = places_.add(state, words_.data() + first_word, num_words, labels);
    if (!is_new) return place;
    places_[place].next = at_state_[state];
    at_state_[state] = place;
    number_.push_back(-1);
    if (place >= options_.max_states || places_.num_words() > options_.max_labels) end_ = AlignEnd::kTooLarge;
    return place;
  }

  static constexpr int32_t kWordsSeen = 1 << 11;

  void refuse() { end_ = AlignEnd::kUnsure; }

  const Arcs* arcs_ = nullptr;
  const Alignments* alignments_ = nullptr;
  Labels known_{};
  AlignOptions options_{};
  AlignEnd end_ = AlignEnd::kAligned;
  int64_t num_pending_ = 0;         // labels in kept_
  int64_t num_labels_ = 0;          // of units
  int32_t longest_ = -1;
  std::vector<uint8_t> alive_;
  std::vector<int32_t> seen_;       // by the last digits of words, the last state with such a word
  std::vector<int32_t> sorted_;     // and other lists that nobody needs for long
  std::vector<Memory> memory_;      // [num_arcs]
  Places places_;
  std::vector<int32_t> number_;     // new state of each place
  std::vector<std::vector<int32_t>> kept_;  // pending labels of more than one arc
  std::vector<int32_t> at_state_;   // last place found at each state and not yet waiting
  std::vector<int32_t> waiting_;    // places of the state at hand, most pending last
  std::vector<int32_t> words_;      // of the way at hand
  std::vector<Step> steps_;         // its arcs, behind what was pending
  std::vector<Unit> units_;         // arcs of the result
  std::vector<int64_t> arc_begin_;
  std::vector<Left> left_;          // states of the result, in the order in which they were found
  std::vector<int32_t> dst_, new_state_, old_state_;
  std::vector<Inner> inner_;        // each behind the one before it
  std::vector<Long> long_;
  std::vector<Step> parts_;         // of a sum
  std::vector<Frame> frames_;
};

// Lend an aligner that has room from earlier calls of the thread; what an unusually large lattice took is freed.
inline FastAligner& spare_aligner() {
  static thread_local FastAligner spare;
  constexpr size_t kMost = size_t{1} << 26;
  if (spare.room() > kMost) spare = FastAligner();
  return spare;
}

}  // namespace ninja
