// Checks the invariants of lattices in the columns of a file.
//
// Only the lengths of the columns are trusted: a lattice that passes is safe for all kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/clones.hpp"

namespace ninja {

enum class Flaw : int {
  kNone,
  kStates,     // there are no states, or the lengths of the arrays are inconsistent
  kArcBegin,   // arc_begin does not increase from 0 to the number of arcs
  kDst,        // an arc enters a state that does not exist or does not follow its source
  kWord,       // a word id is negative or beyond the symbol table
  kCost,       // the cost of an arc is infinite or NaN
  kFinalCost,  // a final cost is -inf or NaN
  kNoFinal,    // no state is final
  kAliBegin,   // ali_begin does not increase from 0 to the number of labels
  kFinalAliBegin,
};

// A lattice in the columns.
struct NativeRow {
  int64_t num_begins = 0;  // length of arc_begin: states + 1
  int64_t num_arcs = 0;
  int64_t num_labels = 0;
  int64_t num_final_labels = 0;
  int64_t num_words = 0;  // word ids must be less than this number
  const int64_t* arc_begin = nullptr;
  const int32_t* dst = nullptr;
  const int32_t* word = nullptr;
  const float* graph = nullptr;
  const float* acoustic = nullptr;
  const int64_t* ali_begin = nullptr;        // [num_arcs + 1]
  const float* final_graph = nullptr;        // [states]
  const float* final_acoustic = nullptr;     // [states]
  const int64_t* final_ali_begin = nullptr;  // [states + 1]
};

struct NativeFlaw {
  Flaw flaw = Flaw::kNone;
  int64_t place = 0;  // the invalid arc or state, if any
};

namespace native_check {

// The loops below collect errors in a sign bit without branches, so that they are vectorised.

// Differences of non-negative numbers cannot overflow.
NINJA_CLONES bool rises(const int64_t* begin, int64_t count, int64_t end) {
  uint64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    wrong |= static_cast<uint64_t>(begin[i]) | (static_cast<uint64_t>(begin[i + 1]) - static_cast<uint64_t>(begin[i]));
  }
  return begin[0] == 0 && begin[count] == end && static_cast<int64_t>(wrong) >= 0;
}

inline int32_t bits(const float* cost, int64_t place) {
  int32_t value;
  std::memcpy(&value, cost + place, sizeof(value));
  return value;
}

constexpr int32_t kInfiniteBits = 0x7f800000;  // bits of infinity; without the sign, larger values are NaN

inline int32_t size_bits(const float* cost, int64_t place) { return bits(cost, place) & 0x7fffffff; }

inline bool finite(const float* cost, int64_t place) { return size_bits(cost, place) < kInfiniteBits; }

inline bool all_finite(const float* cost, int64_t count) {
  int32_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) wrong |= kInfiniteBits - 1 - size_bits(cost, i);
  return wrong >= 0;
}

inline bool all_below(const int32_t* id, int64_t count, int64_t limit) {  // ids are in [0, limit); limit in [1, 2^31]
  const uint32_t largest = static_cast<uint32_t>(limit - 1);
  uint32_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) wrong |= static_cast<uint32_t>(id[i]) | (largest - static_cast<uint32_t>(id[i]));
  return static_cast<int32_t>(wrong) >= 0;
}

// Arcs are stored by source, so an arc leads to a later state if the arcs of that state follow it. All `dst` must be
// valid.
inline bool all_onward(const int64_t* arc_begin, const int32_t* dst, int64_t count) {
  int64_t right = -1;
  for (int64_t arc = 0; arc < count; ++arc) right &= arc - arc_begin[dst[arc]];
  return right < 0;
}

// Returns a negative number if a final cost is -inf or NaN.
inline int32_t wrong_end(const float* cost, int64_t state) {
  const int32_t size = size_bits(cost, state);
  return (kInfiniteBits - size) | (~(size - kInfiniteBits) & bits(cost, state));
}

template <typename Wrong>
inline int64_t first(int64_t count, Wrong wrong) {
  for (int64_t i = 0; i < count; ++i) {
    if (wrong(i)) return i;
  }
  return 0;
}

}  // namespace native_check

NINJA_CLONES NativeFlaw check_native(const NativeRow& row) {
  using namespace native_check;
  const int64_t num_states = row.num_begins - 1;
  if (num_states < 1 || num_states > INT32_MAX) return {Flaw::kStates, 0};
  if (!rises(row.arc_begin, num_states, row.num_arcs)) return {Flaw::kArcBegin, 0};
  const auto wrong_dst = [&](int64_t arc) {
    return row.dst[arc] < 0 || row.dst[arc] >= num_states || row.arc_begin[row.dst[arc]] <= arc;
  };
  if (!all_below(row.dst, row.num_arcs, num_states) || !all_onward(row.arc_begin, row.dst, row.num_arcs)) {
    return {Flaw::kDst, first(row.num_arcs, wrong_dst)};
  }
  if (row.num_words < 1 ? row.num_arcs > 0 : !all_below(row.word, row.num_arcs, row.num_words)) {
    return {Flaw::kWord,
            first(row.num_arcs, [&](int64_t arc) { return row.word[arc] < 0 || row.word[arc] >= row.num_words; })};
  }
  if (!all_finite(row.graph, row.num_arcs) || !all_finite(row.acoustic, row.num_arcs)) {
    return {Flaw::kCost,
            first(row.num_arcs, [&](int64_t arc) { return !finite(row.graph, arc) || !finite(row.acoustic, arc); })};
  }
  int32_t ends = 0, wrong = 0;  // negative if a state is final, or if a cost is invalid
  for (int64_t state = 0; state < num_states; ++state) {
    ends |=
        (size_bits(row.final_graph, state) - kInfiniteBits) & (size_bits(row.final_acoustic, state) - kInfiniteBits);
    wrong |= wrong_end(row.final_graph, state) | wrong_end(row.final_acoustic, state);
  }
  if (wrong < 0) {
    return {Flaw::kFinalCost, first(num_states, [&](int64_t state) {
              return wrong_end(row.final_graph, state) < 0 || wrong_end(row.final_acoustic, state) < 0;
            })};
  }
  if (ends >= 0) return {Flaw::kNoFinal, 0};
  if (!rises(row.ali_begin, row.num_arcs, row.num_labels)) return {Flaw::kAliBegin, 0};
  if (!rises(row.final_ali_begin, num_states, row.num_final_labels)) return {Flaw::kFinalAliBegin, 0};
  return {};
}

}  // namespace ninja
