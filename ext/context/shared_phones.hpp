// The phones that a phrase shares with the words that it sounds like, in the alignment with the smallest distance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "context/augment.hpp"

namespace ninja {

// Words of a sentence and the string that is aligned with them; word i has the pronunciations of sounds.unit[i].
struct AlignedSpan {
  int32_t string;
  int32_t begin, end;  // first word, and last word plus 1; each has a pronunciation
};

struct SharedCell {
  float distance = std::numeric_limits<float>::infinity();
  float weight = 0.0f;

  // If the distances are equal, the larger weight is preferred.
  void relax(float other_distance, float other_weight) {
    if (other_distance < distance || (other_distance == distance && other_weight > weight)) {
      distance = other_distance;
      weight = other_weight;
    }
  }
};

// Return the sum of the weights of those phones of the string that are aligned with the same phone. Of several
// pronunciations of a word, the one with the smallest distance is used.
inline float shared_weight(const AlignedSpan& span, const Sounds& sounds, const PhoneStrings& strings,
                           const PhoneCosts& costs, const float* weight) {
  const int32_t* phone = strings.phone + strings.begin[span.string];
  const int64_t length = strings.begin[span.string + 1] - strings.begin[span.string];
  std::vector<SharedCell> cells(length + 1), row(length + 1), merged(length + 1);
  cells[0].distance = 0.0f;
  for (int64_t i = 1; i <= length; ++i) cells[i].distance = cells[i - 1].distance + costs.deletion[phone[i - 1]];
  for (int32_t word = span.begin; word < span.end; ++word) {
    std::fill(merged.begin(), merged.end(), SharedCell());
    const int32_t unit = sounds.unit[word];
    for (int64_t sound = sounds.first[unit]; sound < sounds.first[unit + 1]; ++sound) {
      row = cells;
      for (int64_t at = sounds.strings.begin[sound]; at < sounds.strings.begin[sound + 1]; ++at) {
        const int32_t heard = sounds.strings.phone[at];
        SharedCell before = row[0];
        row[0].distance += costs.insertion[heard];
        for (int64_t i = 1; i <= length; ++i) {
          const int32_t spoken = phone[i - 1];
          const SharedCell old = row[i];
          const float substitution = costs.substitution[static_cast<int64_t>(spoken) * costs.count + heard];
          row[i] = SharedCell();
          row[i].relax(before.distance + substitution, before.weight + (spoken == heard ? weight[spoken] : 0.0f));
          row[i].relax(old.distance + costs.insertion[heard], old.weight);
          row[i].relax(row[i - 1].distance + costs.deletion[spoken], row[i - 1].weight);
          before = old;
        }
      }
      for (int64_t i = 0; i <= length; ++i) merged[i].relax(row[i].distance, row[i].weight);
    }
    cells.swap(merged);
  }
  return cells[length].weight;
}

}  // namespace ninja
