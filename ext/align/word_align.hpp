// Alignment of lattices to words or phones: one arc per unit, with exactly the labels (transition ids) of the unit.
//
// A place in the search is an input state with pending labels and words, which were read but not emitted. Only places
// at the end of a unit become states; from each, arcs are followed to the end of the unit. Places are visited in the
// order in which they are found.
// This is the fast aligner for the lattices of decoders, which are deterministic and have valid labels and no
// epsilons. Other lattices are processed by the general aligner, which follows Kaldi step by step. Both return the
// arcs, states and costs of Kaldi, in the same order and bit for bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "align/align_places.hpp"
#include "align/align_result.hpp"
#include "align/align_units.hpp"
#include "core/lattice.hpp"
#include "graph/potential.hpp"

namespace ninja {

class [[gnu::visibility("hidden")]] FastAligner {  // hidden visibility makes calls direct
 public:
  [[gnu::noinline]] AlignEnd align(const Arcs& arcs, const Alignments& alignments, const Labels& known,
                                   const AlignOptions& options) {
    arcs_ = &arcs;
    alignments_ = &alignments;
    known_ = known;
    options_ = options;
    end_ = AlignEnd::kAligned;
    alive_ = coaccessible(arcs);
    if (!alive_[0] || !is_deterministic()) return AlignEnd::kUnsure;
    clear();
    places_.add(places_.add_tail(0, {nullptr, 0}), nullptr, 0);
    for (int32_t place = 0; place < num_states() && end_ == AlignEnd::kAligned; ++place) {
      leave(place);
      check_size();
    }
    if (end_ != AlignEnd::kAligned) return end_;
    find_inner_places();
    found_.add_up();
    found_.reverse_inner_places();
    found_.sort_states();
    return end_;
  }

  // The result; the lattice must still be valid.
  int64_t num_states() const { return static_cast<int64_t>(places_.size()); }
  int64_t num_arcs() const { return found_.num_arcs(); }
  int64_t num_labels() const { return found_.num_labels(); }

  [[gnu::noinline]] void write(const Block& to) const {
    found_.write(places_, alignments_->ali, alignments_->ali_begin[arcs_->num_arcs], to);
  }

  // Approximate memory kept for the next lattice, in bytes.
  size_t room() const { return found_.room() + known_arcs_.size() * sizeof(Known); }

 private:
  // A path from the open place.
  struct Way {
    int32_t num_words, num_labels, num_steps;
    float graph, acoustic;  // of its steps; `add_up` recomputes sums over three or more arcs
    UnitScan scan;
  };
  struct Frame {
    int64_t arc, end;      // remaining arcs
    int32_t state, inner;  // the inner step that leads there, or -1
    Way way;
  };
  // An arc of the lattice, and cached results of reading it.
  struct Known {
    const int32_t* label;
    int32_t length;
    int32_t dst;  // -1 for a dead end
    int32_t word;
    float graph, acoustic;
    uint32_t first;  // properties of its first label, 0 if it has none
    struct Read {    // of the labels after the first
      int32_t cut;   // end of a unit; 0 if not read yet, -1 if there is none or the labels are invalid
      uint32_t phone;
      UnitScan::Phase phase;
      bool is_valid;
    } read[2];     // by whether the first label ends its phone
    struct Rest {  // after the unit
      int32_t tail;
      int32_t place[2];  // by whether the word of the arc, and no other, is pending
    } rest[3];           // the unit ends before this arc, or within it (by `read`)
  };

  void clear() {
    const auto num_arcs = static_cast<size_t>(arcs_->num_arcs);
    found_.clear();
    places_.clear(num_arcs);
    kept_.clear();
    num_pending_ = 0;
    if (known_arcs_.size() < num_arcs) known_arcs_.resize(num_arcs);
    const int64_t* begin = alignments_->ali_begin;
    for (size_t arc = 0; arc < num_arcs; ++arc) {
      Known& known = known_arcs_[arc];
      known.label = alignments_->ali + begin[arc];
      known.length = static_cast<int32_t>(begin[arc + 1] - begin[arc]);
      known.dst = alive_[arcs_->dst[arc]] ? arcs_->dst[arc] : -1;
      known.word = arcs_->word[arc];
      known.graph = arcs_->graph[arc];
      known.acoustic = arcs_->acoustic[arc];
      known.first = known.length > 0 ? known_.of[*known.label] : 0;
      known.read[0].cut = known.read[1].cut = 0;
      std::memset(known.rest, -1, sizeof(known.rest));
    }
  }

  bool is_deterministic() {
    const Arcs& arcs = *arcs_;
    seen_.assign(kWordsSeen, -1);
    for (int32_t state = 0; state < arcs.num_states; ++state) {
      const int64_t begin = arcs.arc_begin[state], end = arcs.arc_begin[state + 1];
      bool may_repeat = false;
      for (int64_t arc = begin; arc < end; ++arc) {
        int32_t& last = seen_[arcs.word[arc] & (kWordsSeen - 1)];
        may_repeat |= arcs.word[arc] == 0 || last == state;
        last = state;
      }
      if (!may_repeat) continue;
      sorted_.assign(arcs.word + begin, arcs.word + end);
      std::sort(sorted_.begin(), sorted_.end());
      if (sorted_[0] == 0 || std::adjacent_find(sorted_.begin(), sorted_.end()) != sorted_.end()) return false;
    }
    return true;
  }

  // Add the arcs of a place.
  void leave(int32_t place) {
    found_.open_place();
    const Place from = places_[place];
    Tail& tail = places_.tail(from.tail);
    if (tail.scan.phase == UnitScan::kStart &&
        !tail.scan.read(known_, options_.reorder, tail.labels.label, tail.labels.length, 0)) {
      return refuse();
    }
    const bool takes_word = options_.by_phone ? from.num_words > 0 : tail.scan.first_kind != kNonword;
    if (tail.scan.phase == UnitScan::kCut && from.num_words >= takes_word) {
      emit_pending(place, from, takes_word);
    } else {
      search(from, tail);
    }
    found_.close_place();
  }

  // Emit the unit that is complete within the pending labels of a place.
  void emit_pending(int32_t place, const Place& from, bool takes_word) {
    const Tail& tail = places_.tail(from.tail);
    const int32_t cut = tail.scan.cut;
    if (tail.next < 0) {
      const int32_t next = places_.add_tail(tail.state, {tail.labels.label + cut, tail.labels.length - cut});
      places_.tail(from.tail).next = next;  // the reference may be invalid now
    }
    const int32_t without_word = options_.by_phone ? 0 : options_.silence_word;
    const int32_t word = takes_word ? *places_.words(from) : without_word;
    const int32_t to = bounded(places_.add_rest(places_.tail(from.tail).next, place, takes_word));
    Unit& unit = found_.add(cut);
    unit.last = nullptr;
    unit.num_last = 0;
    unit.inner = -1;
    unit.place = to;
    unit.word = word;
    unit.graph = unit.acoustic = 0.0f;
  }

  // Follow arcs from a place until units are complete.
  void search(const Place& from, const Tail& tail) {
    make_room(from.num_words);
    const int32_t* pending = places_.words(from);
    std::copy_n(pending, from.num_words, words_.begin());
    frames_.clear();
    Frame& first = frames_.emplace_back();
    first.state = tail.state;
    first.inner = -1;
    first.way.num_words = from.num_words;
    first.way.num_labels = first.way.num_steps = 0;
    first.way.graph = first.way.acoustic = 0.0f;
    first.way.scan = tail.scan;
    append(first.way, {tail.labels, 0.0f, 0.0f});
    if (emit(first.state, first.way)) return;
    if (first.state == arcs_->num_states) return end(first.way);
    first.arc = arcs_->arc_begin[first.state];
    first.end = arcs_->arc_begin[first.state + 1];
    while (!frames_.empty() && end_ == AlignEnd::kAligned) {
      Frame& frame = frames_.back();
      const UnitScan::Phase phase = frame.way.scan.phase;
      if (phase == UnitScan::kInside || phase == UnitScan::kLeft) follow_simple(frame);
      if (frame.arc < frame.end) {
        follow(frame, frame.arc++);
        continue;
      }
      if (is_final(*arcs_, frame.state)) arrive_at_end(frame.state, frame.way);
      if (frame.inner >= 0) found_.close_inner(frame.inner);
      frames_.pop_back();
    }
  }

  // Follow arcs that complete the unit, as most do, up to the first that does not.
  void follow_simple(Frame& frame) {
    const Way& way = frame.way;
    const bool takes_word = options_.by_phone || way.scan.first_kind != kNonword;
    const bool takes_arc_word = takes_word && way.num_words == 0;
    const int32_t pending_word = takes_word ? words_[0] : options_.silence_word;
    const int32_t num_pending = way.num_words + 1 - takes_word;
    const int32_t* const pending = words_.data() + takes_word;
    const bool left = way.scan.phase == UnitScan::kLeft, may_end = left && !way.scan.goes_on();
    const uint32_t phone = way.scan.phone, loops = options_.reorder ? kLoop : 0;
    const bool is_long = way.num_steps >= 3;
    for (; frame.arc < frame.end; ++frame.arc) {
      Known& known = known_arcs_[frame.arc];
      if (known.dst < 0) continue;
      if (known.first == 0) return;
      int32_t num_last = 0, which = 0;
      if (!may_end || (known.first & loops)) {
        const bool begins = left && !(known.first & loops);  // another phone of the unit
        if (begins ? !(kWithin >> kind_of(known.first) & 1) : known.first >> kKindShift != phone) return;
        const bool leaves = (left && !begins) || (known.first & kFinal);
        num_last = known.read[leaves].cut;
        if (num_last == 0) num_last = read_rest(known, leaves);
        if (num_last < 0) return;
        which = 1 + leaves;
      }
      Known::Rest& rest = known.rest[which];
      int32_t place = num_pending <= 1 ? rest.place[num_pending] : -1;
      if (place < 0) {
        words_[way.num_words] = known.word;
        place = find_place(known, rest, known.length - num_last, pending, num_pending);
      }
      if (is_long) found_.note_long(false, frame.inner, known.graph, known.acoustic);
      Unit& unit = found_.add(way.num_labels + num_last);
      unit.last = known.label;
      unit.num_last = num_last;
      unit.inner = frame.inner;
      unit.place = place;
      unit.word = takes_arc_word ? known.word : pending_word;
      unit.graph = way.graph + known.graph;
      unit.acoustic = way.acoustic + known.acoustic;
    }
  }

  void follow(const Frame& frame, int64_t arc) {
    Known& known = known_arcs_[arc];
    if (known.dst < 0) return;
    words_[frame.way.num_words] = known.word;
    Way way = frame.way;
    if (!read(way.scan, way.num_labels, known)) return refuse();
    ++way.num_words;
    append(way, {{known.label, known.length}, known.graph, known.acoustic});
    arrive(known.dst, way);
  }

  void append(Way& way, Step step) {
    if (static_cast<int32_t>(steps_.size()) <= way.num_steps) steps_.resize(way.num_steps + 16);
    steps_[way.num_steps++] = step;
    way.num_labels += step.labels.length;
    way.graph += step.graph;
    way.acoustic += step.acoustic;
  }

  // Record an arc or an end whose costs depend on the order of additions.
  void note_long(const Way& way, bool is_end) {
    if (way.num_steps <= 3) return;
    const Step& last = steps_[way.num_steps - 1];
    found_.note_long(is_end, frames_.back().inner, last.graph, last.acoustic);
  }

  // Find the inner steps after which a unit may end on another path.
  void find_inner_places() {
    if (found_.inner().empty()) return;
    size_t size = 64;
    while (size < 8 * places_.size()) size *= 2;
    near_.assign(size, 0);
    const auto key = [size](int32_t state, int32_t num_words, int32_t num_labels) {
      return keyed_hash_with(keyed_hash(joined(state, num_words)), num_labels) & (size - 1);
    };
    for (const Place& place : places_) {
      const Tail& tail = places_.tail(place.tail);
      near_[key(tail.state, place.num_words, tail.labels.length)] = 1;
    }
    for (Inner& inner : found_.inner()) {
      if (near_[key(inner.state, inner.num_words, inner.num_labels)]) inner.is_place = is_place(inner);
    }
  }

  // Whether a unit may end after an inner step.
  bool is_place(const Inner& inner) {
    const Place& from = places_[inner.place];
    const Stretch pending = places_.tail(from.tail).labels;
    sorted_.resize(inner.num_labels + inner.num_words);
    int32_t* label = sorted_.data() + inner.num_labels;
    int32_t* word = label + inner.num_words;
    for (const Inner* at = &inner;; at = &found_.inner()[at->before]) {
      *--word = at->word;
      label = std::copy_n(at->step.labels.label, at->step.labels.length, label - at->step.labels.length);
      label -= at->step.labels.length;
      if (at->before < 0) break;
    }
    std::copy_n(places_.words(from), from.num_words, word - from.num_words);
    std::copy_n(pending.label, pending.length, label - pending.length);
    return places_.has(inner.state, sorted_.data() + inner.num_labels, inner.num_words,
                       {sorted_.data(), inner.num_labels});
  }

  // Read the labels of an arc. The result for all but the first label is cached.
  bool read(UnitScan& scan, int32_t before, Known& known) {
    if (known.length == 0 || scan.phase == UnitScan::kCut) return true;
    if (!scan.read_one(known.first, options_.reorder, before)) return false;
    if (scan.phase == UnitScan::kCut) return true;
    const bool leaves = scan.phase == UnitScan::kLeft;
    const Known::Read& rest = known.read[leaves];
    if (rest.cut == 0) read_rest(known, leaves);
    scan.phase = rest.phase;
    scan.phone = rest.phone;
    if (rest.phase == UnitScan::kCut) scan.cut = before + rest.cut;
    return rest.is_valid;
  }

  // Read the labels of an arc after the first, which may end its phone; return the end of a unit, or -1.
  int32_t read_rest(Known& known, bool leaves) {
    UnitScan scan;
    scan.phase = leaves ? UnitScan::kLeft : UnitScan::kInside;
    scan.phone = known.first >> kKindShift;
    const bool is_valid = scan.read(known_, options_.reorder, known.label + 1, known.length - 1, 1);
    const int32_t cut = is_valid && scan.phase == UnitScan::kCut ? scan.cut : -1;
    known.read[leaves] = {cut, scan.phone, scan.phase, is_valid};
    return cut;
  }

  // Emit a unit if one is complete, or continue the search.
  void arrive(int32_t state, const Way& way) {
    if (emit(state, way)) return;
    if (state == arcs_->num_states) return end(way);
    int32_t inner = -1;
    if (way.num_steps > 1) {
      inner = found_.add_inner({steps_[way.num_steps - 1], frames_.back().inner, found_.place(), state,
                                words_[way.num_words - 1], way.num_words, way.num_labels, num_arcs(), 0, false});
      check_size();
    }
    make_room(way.num_words);
    frames_.push_back({arcs_->arc_begin[state], arcs_->arc_begin[state + 1], state, inner, way});
  }

  // Continue from a final state to the end of the lattice.
  void arrive_at_end(int32_t state, Way way) {
    const int64_t begin = alignments_->final_ali_begin[state];
    const Stretch labels{alignments_->final_ali + begin,
                         static_cast<int32_t>(alignments_->final_ali_begin[state + 1] - begin)};
    if (!way.scan.read(known_, options_.reorder, labels.label, labels.length, way.num_labels)) return refuse();
    append(way, {labels, arcs_->final_graph[state], arcs_->final_acoustic[state]});
    if (!emit(static_cast<int32_t>(arcs_->num_states), way)) end(way);
  }

  bool emit(int32_t state, const Way& way) {
    if (way.scan.phase == UnitScan::kCut) {
      const bool takes_word = options_.by_phone ? way.num_words > 0 : way.scan.first_kind != kNonword;
      if (takes_word && way.num_words == 0) return false;
      const int32_t without_word = options_.by_phone ? 0 : options_.silence_word;
      add_arc(state, way, takes_word, takes_word ? words_[0] : without_word, way.scan.cut);
      return true;
    }
    if (options_.by_phone && way.num_words > 1) {
      add_arc(state, way, true, words_[0], 0);
      return true;
    }
    return false;
  }

  // At the end of the lattice, where the end of a unit is not implied by the next label.
  void end(const Way& way) {
    if (way.num_labels == 0 && way.num_words == 0) {
      note_long(way, true);
      found_.set_end(way.graph, way.acoustic);
      return;
    }
    const auto last = static_cast<int32_t>(arcs_->num_states);
    if (options_.by_phone) {
      if (way.num_labels > 0 && !way.scan.may_end()) return refuse();
      const bool takes_word = way.num_words > 0;
      return add_arc(last, way, takes_word, takes_word ? words_[0] : 0, way.num_labels);
    }
    const bool is_silence = way.scan.first_kind == kNonword;
    if (way.num_labels == 0 || !way.scan.may_end() || way.num_words != (is_silence ? 0 : 1)) return refuse();
    add_arc(last, way, !is_silence, is_silence ? options_.silence_word : words_[0], way.num_labels);
  }

  // Add an arc with the first `cut` labels of a path, to the place where the rest is pending.
  void add_arc(int32_t state, const Way& way, bool takes_word, int32_t word, int32_t cut) {
    const Stretch last = steps_[way.num_steps - 1].labels;
    const int32_t tail = places_.add_tail(state, rest_of(way, cut, way.num_labels - cut));
    const int32_t place = bounded(places_.add(tail, words_.data() + takes_word, way.num_words - takes_word));
    note_long(way, false);
    Unit& unit = found_.add(cut);
    unit.last = last.label;
    unit.num_last = way.num_steps > 1 ? std::max(cut - (way.num_labels - last.length), 0) : 0;
    unit.inner = way.num_steps > 1 ? frames_.back().inner : -1;
    unit.place = place;
    unit.word = word;
    unit.graph = way.graph;
    unit.acoustic = way.acoustic;
  }

  // Make room for another word after `num_words` words.
  void make_room(int32_t num_words) {
    if (static_cast<int32_t>(words_.size()) <= num_words) words_.resize(2 * num_words + 16);
  }

  void check_size() {
    const int64_t size = num_labels() + 6 * num_arcs() + 16 * static_cast<int64_t>(found_.inner().size());
    if (size > options_.max_labels) end_ = AlignEnd::kTooLarge;
  }

  // The `length` labels of a path after its first `first` labels.
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

  // The place after an arc where its last labels are pending.
  [[gnu::noinline]] int32_t find_place(const Known& known, Known::Rest& rest, int32_t length, const int32_t* word,
                                       int32_t num_words) {
    if (rest.tail < 0) rest.tail = places_.add_tail(known.dst, {known.label + known.length - length, length});
    const int32_t place = bounded(places_.add(rest.tail, word, num_words));
    if (num_words <= 1) rest.place[num_words] = place;
    return place;
  }

  // Check the limits on places and on their pending words.
  int32_t bounded(int32_t place) {
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
  int64_t num_pending_ = 0;  // labels in kept_
  std::vector<uint8_t> alive_;
  std::vector<int32_t> seen_;      // by the low bits of words, the last state with such a word
  std::vector<int32_t> sorted_;    // a buffer
  std::vector<uint8_t> near_;      // by the low bits of a hash, whether there is such a place
  std::vector<Known> known_arcs_;  // [num_arcs or more]
  Places places_;
  UnitArcs found_;
  std::vector<std::vector<int32_t>> kept_;  // pending labels of more than one arc
  std::vector<int32_t> words_;              // of the current path
  std::vector<Step> steps_;                 // its arcs, after the pending labels
  std::vector<Frame> frames_;
};

// An aligner that reuses the memory of earlier calls in this thread, unless an unusually large lattice has used it.
inline FastAligner& spare_aligner() {
  static thread_local FastAligner spare;
  constexpr size_t kMost = size_t{1} << 26;
  if (spare.room() > kMost) spare = FastAligner();
  return spare;
}

}  // namespace ninja
