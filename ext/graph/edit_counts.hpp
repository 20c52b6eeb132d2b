// The fewest edits between two sequences, by kind, in a band around the diagonal (Ukkonen 1985).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

namespace ninja {

struct EditCounts {
  int32_t insertions;
  int32_t deletions;
  int32_t substitutions;
};

namespace edits {

struct Cell {
  int32_t total = std::numeric_limits<int32_t>::max() / 2;  // value outside the band
  int32_t insertions = 0;
  int32_t deletions = 0;
};

// Ties are broken as in Kaldi's LevenshteinEditDistance: a deletion or insertion is preferred to an equally good pair,
// and an insertion to an equally good deletion.
//
// A path through cell (i, j) has at least |i - j| edits before it and |rows - columns - (i - j)| after it, so paths
// with at most `most` edits stay in a band. `most` is at least the difference of the lengths.
inline Cell last_cell(const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns,
                      int64_t most) {
  const int64_t above = (most + rows - columns) / 2, below = (most - rows + columns) / 2;  // i - j is in -below … above
  std::vector<Cell> before(static_cast<size_t>(rows) + 1), here(static_cast<size_t>(rows) + 1);
  for (int64_t i = 0; i <= std::min(rows, above); ++i)
    before[i] = {static_cast<int32_t>(i), 0, static_cast<int32_t>(i)};
  for (int64_t j = 1; j <= columns; ++j) {
    const int64_t low = std::max<int64_t>(0, j - below), high = std::min(rows, j + above);
    if (low > 0) here[low - 1] = Cell();
    for (int64_t i = low; i <= high; ++i) {
      const Cell& inserted = before[i];
      Cell cell{inserted.total + 1, inserted.insertions + 1, inserted.deletions};
      if (i > 0) {
        const Cell& deleted = here[i - 1];
        const Cell& paired = before[i - 1];
        if (deleted.total < inserted.total) cell = {deleted.total + 1, deleted.insertions, deleted.deletions + 1};
        const int32_t total = paired.total + (reference[i - 1] != hypothesis[j - 1]);
        if (total < cell.total) cell = {total, paired.insertions, paired.deletions};
      }
      here[i] = cell;
    }
    std::swap(before, here);
  }
  return before[rows];
}

}  // namespace edits

// The number of edits allowed is doubled until it suffices.
inline EditCounts edit_counts(const int32_t* reference, int64_t rows, const int32_t* hypothesis, int64_t columns) {
  constexpr int64_t kFirst = 16;
  const int64_t longest = std::max(rows, columns);
  int64_t most = std::min(longest, std::abs(rows - columns) + kFirst);
  edits::Cell last = edits::last_cell(reference, rows, hypothesis, columns, most);
  while (last.total > most) {  // never if `most` is the longest length
    most = std::min(longest, 2 * most);
    last = edits::last_cell(reference, rows, hypothesis, columns, most);
  }
  return {last.insertions, last.deletions, last.total - last.insertions - last.deletions};
}

}  // namespace ninja
