// What alignment reads and writes: labels with what is known of them, units being read, and the arcs of the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ninja {

// What there is to know of a label: its phone, the phone's place in words, whether it ends the phone or loops.
constexpr uint32_t kLoop = 1, kFinal = 2;
constexpr int kKindShift = 2, kPhoneShift = 5;
enum PhoneKind : uint32_t { kNoKind, kBegin, kEnd, kSingleton, kInternal, kNonword };

struct Labels {
  const uint32_t* of;    // [num_labels + 1]; phone << 5 | kind << 2 | kFinal | kLoop
  int64_t num_labels;
};

inline uint32_t kind_of(uint32_t label) { return (label >> kKindShift) & 7; }
inline uint32_t phone_of(uint32_t label) { return label >> kPhoneShift; }

struct AlignOptions {
  bool by_phone;         // units are phones, not words; all phones have the kind kNonword then
  bool phones_as_words;  // arcs carry the phone instead of the word; general way only
  bool reorder;          // self-loops follow the transition that ends a phone
  int32_t silence_word;
  int32_t partial_word;
  int64_t max_states;
  int64_t max_labels;    // of the new lattice, and of what is pending at all places; an arc counts as a few
};

enum class AlignEnd { kAligned, kUnsure, kTooLarge };

struct AlignedArcs {
  std::vector<int64_t> arc_begin, ali_begin;
  std::vector<int32_t> dst, word, ali;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;
  int64_t num_labels = 0;  // in use at the begin of `ali`

  // Room for more labels.
  int32_t* more(int64_t length) {
    const int64_t begin = num_labels;
    num_labels += length;
    if (num_labels > static_cast<int64_t>(ali.size())) ali.resize(std::max<size_t>(num_labels, 2 * ali.size()));
    return ali.data() + begin;
  }
};

// Arrays of a lattice to be written to.
struct ArcArrays {
  int64_t* arc_begin;
  int32_t *dst, *word;
  float *graph, *acoustic;
  int64_t* ali_begin;
  int32_t* ali;
  float *final_graph, *final_acoustic;
};

// How far the first unit of some labels has been read.
struct UnitScan {
  enum Phase : uint8_t { kStart, kInside, kLeft, kCut };  // nothing read; before its phone's end; behind it; unit over
  Phase phase = kStart;
  uint32_t first_kind = kNoKind;
  uint32_t phone = 0;     // of the phone it is in, with its kind
  int32_t cut = -1;       // number of labels of the unit, once it is over

  // Read on, behind so many labels; false if Kaldi would find fault with these labels, or might.
  bool read(const Labels& known, bool reorder, const int32_t* label, int32_t length, int32_t before) {
    if (phase == kCut) return true;
    for (int32_t place = 0; place < length; ++place) {
      const uint32_t here = known.of[label[place]];
      if (phase == kInside) {
        if (here >> kKindShift != phone) return false;
      } else if (phase == kLeft && reorder && (here & kLoop)) {
        if (here >> kKindShift != phone) return false;
        continue;
      } else {
        const uint32_t kind = kind_of(here);
        if (phase == kStart) {
          if (kind != kBegin && kind != kSingleton && kind != kNonword) return false;
          first_kind = kind;
        } else {
          if (!goes_on()) {
            phase = kCut;
            cut = before + place;
            return true;
          }
          if (kind != kInternal && kind != kEnd) return false;
        }
        phone = here >> kKindShift;
        phase = kInside;
      }
      if (here & kFinal) phase = kLeft;
    }
    return true;
  }

  // Whether the unit may end with the last label read.
  bool may_end() const { return phase == kLeft && !goes_on(); }

  // Whether other phones of the word must follow the one it is in.
  bool goes_on() const { return (phone & 7) == kBegin || (phone & 7) == kInternal; }
};

// The first label that is no transition id, or whose phone has no kind; -1 if there is none.
inline int64_t first_unknown_label(const int32_t* label, int64_t length, const Labels& known) {
  for (int64_t place = 0; place < length; ++place) {
    if (label[place] < 1 || label[place] > known.num_labels || kind_of(known.of[label[place]]) == kNoKind) return place;
  }
  return -1;
}

}  // namespace ninja
