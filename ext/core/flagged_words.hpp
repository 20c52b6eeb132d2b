// The lattices of a batch that have a word with a flag.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch.hpp"

namespace ninja {

constexpr uint8_t kUnknownFlag = 2;

struct FlaggedWords {
  std::vector<int64_t> place;    // of the items with a word whose flag is not 0
  std::vector<int32_t> unknown;  // words whose flag is unknown, or beyond the flags; these may occur several times
};

inline FlaggedWords flagged_words(const Items& items, const uint8_t* flag, int64_t size) {
  FlaggedWords found;
  std::vector<bool> listed(size);
  for (size_t place = 0; place < items.size(); ++place) {
    const Arcs& arcs = items[place].arcs;
    uint8_t any = 0;
    for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
      const int32_t word = arcs.word[arc];
      const uint8_t of_word = static_cast<uint32_t>(word) < static_cast<uint64_t>(size) ? flag[word] : kUnknownFlag;
      any |= of_word;
      if (of_word != kUnknownFlag) continue;
      if (static_cast<uint32_t>(word) < static_cast<uint64_t>(size)) {
        if (listed[word]) continue;
        listed[word] = true;
      }
      found.unknown.push_back(word);
    }
    if (any != 0) found.place.push_back(static_cast<int64_t>(place));
  }
  return found;
}

}  // namespace ninja
