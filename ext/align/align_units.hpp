// Properties of labels, options of an alignment, and the scanner that finds the end of a unit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/lattice.hpp"

namespace ninja {

// Properties of a label: its phone, the position of the phone in words, whether it ends the phone or loops.
constexpr uint32_t kLoop = 1, kFinal = 2;
constexpr int kKindShift = 2, kPhoneShift = 5;
enum PhoneKind : uint32_t { kNoKind, kBegin, kEnd, kSingleton, kInternal, kNonword };
// Sets of kinds: phones that begin a unit, that follow another phone of the unit, and that precede another one.
constexpr uint32_t kStarts = 1 << kBegin | 1 << kSingleton | 1 << kNonword;
constexpr uint32_t kWithin = 1 << kInternal | 1 << kEnd, kGoesOn = 1 << kBegin | 1 << kInternal;

struct Labels {
  const uint32_t* of;  // [num_labels + 1]; phone << 5 | kind << 2 | kFinal | kLoop; of[0] is 1 if all have a kind
  int64_t num_labels;
};

inline uint32_t kind_of(uint32_t label) { return (label >> kKindShift) & 7; }
inline uint32_t phone_of(uint32_t label) { return label >> kPhoneShift; }

struct AlignOptions {
  bool by_phone;         // units are phones instead of words; then all phones have the kind kNonword
  bool phones_as_words;  // arcs have the phone instead of the word; general aligner only
  bool reorder;          // self-loops follow the transition that ends a phone
  int32_t silence_word;
  int32_t partial_word;
  int64_t max_states;
  int64_t max_labels;  // of the new lattice, and pending at all places; an arc counts as six
};

enum class AlignEnd { kAligned, kUnsure, kTooLarge };

// State of a scan for the end of the first unit in a label sequence.
struct UnitScan {
  enum Phase : uint8_t {
    kStart,
    kInside,
    kLeft,
    kCut
  };  // nothing was read; before the end of the phone; after it; the unit is complete
  Phase phase = kStart;
  uint32_t first_kind = kNoKind;
  uint32_t phone = 0;  // current phone, with its kind
  int32_t cut = -1;    // number of labels of the complete unit

  // Read labels that follow `before` other labels; false if Kaldi reports, or may report, a fault of these labels.
  bool read(const Labels& known, bool reorder, const int32_t* label, int32_t length, int32_t before) {
    if (phase == kCut || length == 0) return true;
    int32_t place = 0;
    if (phase == kStart && !start(known.of[label[place++]])) return false;
    // Bits instead of branches, which would be unpredictable.
    const uint32_t loops = reorder ? kLoop : 0;
    uint32_t left = phase == kLeft, last = phone;
    for (; place < length; ++place) {
      const uint32_t here = known.of[label[place]], there = here >> kKindShift;
      const uint32_t begins = left & ~(here & loops);  // another phone of the same unit
      const uint32_t follows = kGoesOn >> (last & 7) & kWithin >> (there & 7), stays = last == there;
      if (!(((begins & follows) | (~begins & stays)) & 1)) break;
      left = (left & here & loops) | (here / kFinal & 1);
      last = there;
    }
    phone = last;
    phase = left ? kLeft : kInside;
    if (place == length) return true;
    if (!left || goes_on() || (known.of[label[place]] & loops)) return false;
    phase = kCut;
    cut = before + place;
    return true;
  }

  // Read one label with the given properties, if the unit is not complete.
  bool read_one(uint32_t here, bool reorder, int32_t before) {
    if (phase == kStart) return start(here);
    if (phase == kLeft && !(reorder && (here & kLoop))) {
      if (!goes_on()) {
        phase = kCut;
        cut = before;
        return true;
      }
      if (!(kWithin >> kind_of(here) & 1)) return false;
    } else if (here >> kKindShift != phone) {
      return false;
    }
    phone = here >> kKindShift;
    if (phase == kInside || !(reorder && (here & kLoop))) phase = here & kFinal ? kLeft : kInside;
    return true;
  }

  bool start(uint32_t here) {
    first_kind = kind_of(here);
    phone = here >> kKindShift;
    phase = here & kFinal ? kLeft : kInside;
    return kStarts >> first_kind & 1;
  }

  // Whether the unit may end after the last label.
  bool may_end() const { return phase == kLeft && !goes_on(); }

  // Whether the current phone must be followed by another phone of the word.
  bool goes_on() const { return kGoesOn >> (phone & 7) & 1; }
};

// Index of the first label that is not a transition id or whose phone has no kind; -1 if there is none.
inline int64_t first_unknown_label(const int32_t* label, int64_t length, const Labels& known) {
  constexpr int64_t kBlock = 256;  // checked together, since nearly all are valid
  const auto most = static_cast<uint32_t>(known.num_labels);
  for (int64_t begin = 0; begin < length; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, length);
    uint32_t is_invalid = known.of[0] == 0;
    for (int64_t place = begin; place < end; ++place) is_invalid |= static_cast<uint32_t>(label[place]) - 1 >= most;
    for (int64_t place = begin; is_invalid && place < end; ++place) {
      const int32_t id = label[place];
      if (id < 1 || id > known.num_labels || kind_of(known.of[id]) == kNoKind) return place;
    }
  }
  return -1;
}

}  // namespace ninja
