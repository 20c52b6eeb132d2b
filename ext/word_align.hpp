// Alignment of lattices to words or phones: one arc a unit, with exactly the labels (transition ids) of that unit.
//
// A place in the search is an input state together with the labels and words that were read but not yet given out.
// Only places behind a unit become states; from each the arcs are followed until the unit's end has been seen. Places
// are taken up in the order in which they are found.
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

#include "align_labels.hpp"
#include "align_places.hpp"
#include "align_units.hpp"
#include "lattice.hpp"

namespace ninja {

class [[gnu::visibility("hidden")]] FastAligner {  // hidden: calls go straight to it
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
    places_.add(places_.add_tail(0, {nullptr, 0}), nullptr, 0);
    for (int32_t place = 0; place < num_states() && end_ == AlignEnd::kAligned; ++place) {
      leave(place);
      check_size();
    }
    if (end_ != AlignEnd::kAligned) return end_;
    find_inner_places();
    add_up();
    reverse_inner_places();
    sort_states();
    return end_;
  }

  // The result; the lattice it was made of must still be there.
  int64_t num_states() const { return static_cast<int64_t>(places_.size()); }
  int64_t num_arcs() const { return static_cast<int64_t>(units_.size()); }
  int64_t num_labels() const { return num_labels_; }

  [[gnu::noinline]] void write(const ArcArrays& to) const {
    int64_t arc = 0, num_labels = 0;
    to.arc_begin[0] = to.ali_begin[0] = 0;
    for (size_t state = 0; state < ends_.size(); ++state) {
      const int32_t before = old_state_[state];
      const Stretch from = places_.tail(places_[before].tail).labels;
      to.final_graph[state] = ends_[before].graph;
      to.final_acoustic[state] = ends_[before].acoustic;
      for (int64_t at = arc_begin_[before]; at < arc_begin_[before + 1]; ++at, ++arc) {
        const Unit& unit = units_[at];
        to.dst[arc] = new_state_[unit.place];
        to.word[arc] = unit.word;
        to.graph[arc] = unit.graph;
        to.acoustic[arc] = unit.acoustic;
        write_labels(from, unit, to.ali + num_labels, to.ali + num_labels_);
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
  struct End {
    float graph, acoustic;
  };
  // An arc of several steps whose costs wait until all places are known.
  struct Long {
    int64_t arc;                   // or place
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
  // A state on the way through the result, and its arcs that have not yet been followed.
  struct Walk {
    int32_t place;
    int64_t arc, end;
  };
  // What has been found out about an arc before.
  struct Memory {
    uint32_t first;       // what is known of its first label
    struct Read {         // of its labels behind the first one
      bool is_known, is_well;
      UnitScan::Phase phase;
      uint32_t phone;
      int32_t cut;
    } read[2];            // by whether the first label left its phone
    struct Rest {
      int32_t length, tail, place;
    } rest[2];            // where so many of its labels are left and, in the second, its word
  };

  void clear() {
    const auto num_arcs = static_cast<size_t>(arcs_->num_arcs);
    units_.clear();
    ends_.clear();
    arc_begin_.assign(1, 0);
    num_labels_ = 0;
    places_.clear(num_arcs);
    kept_.clear();
    inner_.clear();
    long_.clear();
    num_pending_ = 0;
    memory_.resize(num_arcs);
    for (size_t arc = 0; arc < num_arcs; ++arc) {
      const int64_t begin = alignments_->ali_begin[arc];
      const bool has_labels = begin < alignments_->ali_begin[arc + 1];
      memory_[arc] = {has_labels ? known_.of[alignments_->ali[begin]] : 0, {}, {{-1, -1, -1}, {-1, -1, -1}}};
    }
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

  // Find the arcs of a place.
  void leave(int32_t place) {
    ends_.push_back({kInfinity, kInfinity});
    const Place& from = places_[place];
    Tail& tail = places_.tail(from.tail);
    if (tail.scan.phase == UnitScan::kStart &&
        !tail.scan.read(known_, options_.reorder, tail.labels.label, tail.labels.length, 0)) {
      return refuse();
    }
    make_room(from.num_words);
    const int32_t* pending = places_.words(from);
    for (int32_t each = 0; each < from.num_words; ++each) words_[each] = pending[each];
    frames_.clear();
    Frame& first = frames_.emplace_back();
    first.state = tail.state;
    first.inner = -1;
    first.way.num_words = from.num_words;
    first.way.num_labels = first.way.num_steps = 0;
    first.way.graph = first.way.acoustic = 0.0f;
    first.way.scan = tail.scan;
    append(first.way, {tail.labels, 0.0f, 0.0f});
    if (give_out(first.state, first.way, -1)) {
      frames_.clear();
    } else if (first.state == arcs_->num_states) {
      end(first.way);
      frames_.clear();
    } else {
      first.arc = arcs_->arc_begin[first.state];
      first.end = arcs_->arc_begin[first.state + 1];
    }
    while (!frames_.empty() && end_ == AlignEnd::kAligned) {
      Frame& frame = frames_.back();
      if (frame.arc == frame.end) {
        if (is_final(*arcs_, frame.state)) arrive_at_end(frame.state, frame.way);
        if (frame.inner >= 0) inner_[frame.inner].end = num_arcs();
        frames_.pop_back();
        continue;
      }
      follow(frame, frame.arc++);
    }
    arc_begin_.push_back(num_arcs());
  }

  // Go on along an arc.
  void follow(const Frame& frame, int64_t arc) {
    const int32_t dst = arcs_->dst[arc];
    if (!alive_[dst]) return;
    const int32_t num_labels = frame.way.num_labels;
    const int64_t begin = alignments_->ali_begin[arc];
    const Stretch labels{alignments_->ali + begin, static_cast<int32_t>(alignments_->ali_begin[arc + 1] - begin)};
    words_[frame.way.num_words] = arcs_->word[arc];
    UnitScan scan = frame.way.scan;
    if (!read(scan, num_labels, labels, memory_[arc])) return refuse();
    const Step step{labels, arcs_->graph[arc], arcs_->acoustic[arc]};
    if (scan.phase == UnitScan::kCut && scan.cut >= num_labels) {  // most arcs end here, and need no more than this
      const bool takes_word = options_.by_phone || scan.first_kind != kNonword;
      const int32_t length = num_labels + labels.length - scan.cut;
      const int32_t place = place_on_arc(dst, arc, {labels.label + labels.length - length, length},
                                         words_.data() + takes_word, frame.way.num_words + 1 - takes_word);
      if (frame.way.num_steps >= 3) long_.push_back({num_arcs(), false, frame.inner, step.graph, step.acoustic});
      add_unit({labels.label, labels.length - length, scan.cut, frame.inner, place,
                takes_word ? words_[0] : options_.silence_word, frame.way.graph + step.graph,
                frame.way.acoustic + step.acoustic});
      return;
    }
    Way way = frame.way;
    way.scan = scan;
    ++way.num_words;
    append(way, step);
    arrive(dst, way, arc);
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
      (each.is_final ? ends_[each.arc].graph : units_[each.arc].graph) = graph;
      (each.is_final ? ends_[each.arc].acoustic : units_[each.arc].acoustic) = acoustic;
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
    for (const Place& place : places_) {
      const Tail& tail = places_.tail(place.tail);
      seen_[key(tail.state, place.num_words, tail.labels.length)] = 1;
    }
    for (Inner& inner : inner_) {
      if (seen_[key(inner.state, inner.num_words, inner.num_labels)]) inner.is_place = is_place(inner);
    }
  }

  // Whether a unit may end where a way stands behind an inner step.
  bool is_place(const Inner& inner) {
    const Place& from = places_[inner.place];
    const Stretch pending = places_.tail(from.tail).labels;
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
    std::copy_n(pending.label, pending.length, label - pending.length);
    return places_.has(inner.state, sorted_.data() + inner.num_labels, inner.num_words,
                       {sorted_.data(), inner.num_labels});
  }

  // Put arcs in Kaldi's order. Kaldi takes a state's epsilons away from the last to the first and then turns the arcs
  // round: they stay as they were found, but for those behind an inner place, which were turned round before.
  void reverse_inner_places() {
    for (auto inner = inner_.rbegin(); inner != inner_.rend(); ++inner) {
      if (inner->is_place) std::reverse(units_.begin() + inner->begin, units_.begin() + inner->end);
    }
  }

  // In the order of OpenFst's TopSort, as `top_sort` does it; here all states can be reached, and there are no cycles.
  void sort_states() {
    constexpr int32_t kUnseen = -1, kSeen = 0;
    auto number = static_cast<int32_t>(num_states());
    new_state_.assign(number, kUnseen);
    old_state_.resize(number);
    new_state_[0] = kSeen;
    walks_.assign(1, {0, arc_begin_[0], arc_begin_[1]});
    while (!walks_.empty()) {
      Walk& walk = walks_.back();
      while (walk.arc < walk.end && new_state_[units_[walk.arc].place] != kUnseen) ++walk.arc;
      if (walk.arc == walk.end) {
        old_state_[--number] = walk.place;
        walks_.pop_back();
        continue;
      }
      const int32_t place = units_[walk.arc++].place;
      new_state_[place] = kSeen;
      Walk& next = walks_.emplace_back();
      next.place = place;
      next.arc = arc_begin_[place];
      next.end = arc_begin_[place + 1];
    }
    for (int32_t state = 0; state < num_states(); ++state) new_state_[old_state_[state]] = state;
  }

  void write_labels(const Stretch& from, const Unit& unit, int32_t* to, const int32_t* end) const {
    const int64_t num_known = alignments_->ali_begin[arcs_->num_arcs];
    const LabelCopier copy{alignments_->ali, num_known, end};
    copy.blocks(from.label, std::min(from.length, unit.num_labels), to);
    int32_t length = unit.num_labels - unit.num_last;
    for (int32_t at = unit.inner; at >= 0; at = inner_[at].before) {
      const Stretch& labels = inner_[at].step.labels;
      const int32_t begin = inner_[at].num_labels - labels.length;
      if (begin >= length) continue;
      LabelCopier::few(labels.label, length - begin, to + begin);
      length = begin;
    }
    copy.blocks(unit.last, unit.num_last, to + unit.num_labels - unit.num_last);
  }

  // Read an arc's labels behind others; how the first one is read tells how the rest is, so that is read once.
  bool read(UnitScan& scan, int32_t before, Stretch labels, Memory& memory) {
    if (labels.length == 0 || scan.phase == UnitScan::kCut) return true;
    if (!scan.read_one(memory.first, options_.reorder, before)) return false;
    if (scan.phase == UnitScan::kCut) return true;
    Memory::Read& known = memory.read[scan.phase == UnitScan::kLeft];
    if (!known.is_known) {
      UnitScan rest = scan;
      const bool is_well = rest.read(known_, options_.reorder, labels.label + 1, labels.length - 1, 1);
      known = {true, is_well, rest.phase, rest.phone, rest.cut};
    }
    scan.phase = known.phase;
    scan.phone = known.phone;
    if (known.phase == UnitScan::kCut) scan.cut = before + known.cut;
    return known.is_well;
  }

  // Give out a unit if one is over, or get ready to go on.
  void arrive(int32_t state, const Way& way, int64_t arc) {
    if (give_out(state, way, arc)) return;
    if (state == arcs_->num_states) return end(way);
    int32_t inner = -1;
    if (way.num_steps > 1) {
      inner = static_cast<int32_t>(inner_.size());
      inner_.push_back({steps_[way.num_steps - 1], frames_.back().inner, place_at_hand(), state,
                        words_[way.num_words - 1], way.num_words, way.num_labels, num_arcs(), 0, false});
      check_size();
    }
    make_room(way.num_words);
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
      add_arc(state, way, true, words_[0], 0, arc);
      return true;
    }
    return false;
  }

  // At the end of the lattice, where no unit is over by itself.
  void end(const Way& way) {
    if (way.num_labels == 0 && way.num_words == 0) {
      note_long(way, place_at_hand(), true);
      ends_.back() = {way.graph, way.acoustic};
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

  // An arc with the first `cut` labels of a way to the place where the rest is pending. `arc`: the way's last step, if
  // that is one.
  void add_arc(int32_t state, const Way& way, bool takes_word, int32_t word, int32_t cut, int64_t arc) {
    const Stretch last = steps_[way.num_steps - 1].labels;
    const int32_t before = way.num_labels - last.length;  // of its labels come before the last step
    const int32_t num_words = way.num_words - takes_word, length = way.num_labels - cut;
    const int32_t* pending = words_.data() + takes_word;
    int32_t place;
    if (arc >= 0 && cut >= before) {
      place = place_on_arc(state, arc, {last.label + last.length - length, length}, pending, num_words);
    } else if (way.num_steps == 1 && way.scan.phase == UnitScan::kCut) {
      const int32_t from = places_[place_at_hand()].tail;
      if (places_.tail(from).next < 0) {
        const int32_t next = places_.add_tail(state, {last.label + cut, length});
        places_.tail(from).next = next;
      }
      place = add_place(places_.tail(from).next, pending, num_words);
    } else {
      place = add_place(places_.add_tail(state, rest_of(way, cut, length)), pending, num_words);
    }
    note_long(way, num_arcs(), false);
    const int32_t inner = way.num_steps > 1 ? frames_.back().inner : -1;
    const int32_t num_last = way.num_steps > 1 ? std::max(cut - before, 0) : 0;
    add_unit({last.label, num_last, cut, inner, place, word, way.graph, way.acoustic});
  }

  void add_unit(const Unit& unit) {
    units_.emplace_back() = unit;  // piece by piece: to copy at once what has just been put together means to wait
    num_labels_ += unit.num_labels;
  }

  // For a word more than these.
  void make_room(int32_t num_words) {
    if (static_cast<int32_t>(words_.size()) <= num_words) words_.resize(2 * num_words + 16);
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

  // The place behind an arc where the last of its labels are pending. Without other words than its own these are the
  // same on every way that ends with it.
  int32_t place_on_arc(int32_t state, int64_t arc, Stretch labels, const int32_t* word, int32_t num_words) {
    Memory::Rest& rest = memory_[arc].rest[num_words > 0];
    if (num_words <= 1 && rest.length == labels.length && rest.place >= 0) return rest.place;
    return find_place(rest, state, labels, word, num_words);
  }

  [[gnu::noinline]] int32_t find_place(Memory::Rest& rest, int32_t state, Stretch labels, const int32_t* word,
                                       int32_t num_words) {
    if (rest.length != labels.length) rest = {labels.length, places_.add_tail(state, labels), -1};
    const int32_t place = add_place(rest.tail, word, num_words);
    if (num_words <= 1) rest.place = place;
    return place;
  }

  int32_t add_place(int32_t tail, const int32_t* word, int32_t num_words) {
    const int32_t place = places_.add(tail, word, num_words);
    if (place >= options_.max_states || places_.num_words() > options_.max_labels) end_ = AlignEnd::kTooLarge;
    return place;
  }

  int32_t place_at_hand() const { return static_cast<int32_t>(ends_.size()) - 1; }

  static constexpr int32_t kWordsSeen = 1 << 11;

  void refuse() { end_ = AlignEnd::kUnsure; }

  const Arcs* arcs_ = nullptr;
  const Alignments* alignments_ = nullptr;
  Labels known_{};
  AlignOptions options_{};
  AlignEnd end_ = AlignEnd::kAligned;
  int64_t num_pending_ = 0;         // labels in kept_
  int64_t num_labels_ = 0;          // of units
  std::vector<uint8_t> alive_;
  std::vector<int32_t> seen_;       // by the last digits of words, the last state with such a word
  std::vector<int32_t> sorted_;     // and other lists that nobody needs for long
  std::vector<Memory> memory_;      // [num_arcs]
  Places places_;
  std::vector<std::vector<int32_t>> kept_;  // pending labels of more than one arc
  std::vector<int32_t> words_;      // of the way at hand
  std::vector<Step> steps_;         // its arcs, behind what was pending
  std::vector<Unit> units_;         // arcs of the result
  std::vector<int64_t> arc_begin_;
  std::vector<End> ends_;           // of the places that were left: states of the result, before they are sorted
  std::vector<int32_t> new_state_, old_state_;
  std::vector<Walk> walks_;
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
