// Copies the labels of an arc. There are few labels, and calling memcpy would take longer than copying them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ninja {

constexpr int64_t kLabelSlack = 24;  // labels after the last one that copy_labels may read and write

// Copy labels in steps of 32 bytes, in at least three steps (most arcs need no more, and a loop would be mispredicted).
inline int32_t* copy_labels(int32_t* to, const char* from, int64_t num_labels) {
  std::memcpy(to, from, 32);
  std::memcpy(to + 8, from + 32, 32);
  std::memcpy(to + 16, from + 64, 32);
  for (int64_t label = kLabelSlack; label < num_labels; label += 8) std::memcpy(to + label, from + 4 * label, 32);
  return to + num_labels;
}

// Copy runs of a pool one after another. Run i is pool[begin[i] : begin[i] + length[i]].
inline void copy_runs(const int32_t* pool, const int64_t* begin, const int64_t* length, int64_t num_runs, int32_t* to) {
  for (int64_t run = 0; run < num_runs; ++run) to = std::copy_n(pool + begin[run], length[run], to);
}

}  // namespace ninja
