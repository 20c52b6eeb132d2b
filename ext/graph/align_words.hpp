// The cheapest alignment of two word sequences, with a cost for each kind of error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ninja {

struct EditCosts {
  int64_t insertion;
  int64_t deletion;
  int64_t substitution;
};

// Positions of aligned pairs in each sequence, -1 if a sequence has no word.
struct WordAlignment {
  std::vector<int32_t> reference;
  std::vector<int32_t> hypothesis;
};

// Among moves of equal cost, the diagonal one is preferred, then the insertion, then the deletion. Since the path is
// traced from the end, substitutions come last in a run of errors.
inline WordAlignment align_words(const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns,
                                 const EditCosts& costs) {
  enum Move : uint8_t { kDiagonal, kInsertion, kDeletion };
  const int64_t width = columns + 1;
  std::vector<uint8_t> move(static_cast<size_t>((rows + 1) * width), kDeletion);
  std::vector<int64_t> above(static_cast<size_t>(width)), here(static_cast<size_t>(width));
  for (int64_t j = 1; j <= columns; ++j) {
    above[j] = j * costs.insertion;
    move[j] = kInsertion;
  }
  for (int64_t i = 1; i <= rows; ++i) {
    here[0] = i * costs.deletion;
    uint8_t* row = move.data() + i * width;
    for (int64_t j = 1; j <= columns; ++j) {
      int64_t best = above[j - 1] + (reference[i - 1] == hypothesis[j - 1] ? 0 : costs.substitution);
      row[j] = kDiagonal;
      if (const int64_t cost = here[j - 1] + costs.insertion; cost < best) {
        best = cost;
        row[j] = kInsertion;
      }
      if (const int64_t cost = above[j] + costs.deletion; cost < best) {
        best = cost;
        row[j] = kDeletion;
      }
      here[j] = best;
    }
    std::swap(above, here);
  }

  WordAlignment alignment;
  for (int64_t i = rows, j = columns; i > 0 || j > 0;) {
    const uint8_t last = move[i * width + j];
    alignment.reference.push_back(last == kInsertion ? -1 : static_cast<int32_t>(--i));
    alignment.hypothesis.push_back(last == kDeletion ? -1 : static_cast<int32_t>(--j));
  }
  std::reverse(alignment.reference.begin(), alignment.reference.end());
  std::reverse(alignment.hypothesis.begin(), alignment.hypothesis.end());
  return alignment;
}

}  // namespace ninja
