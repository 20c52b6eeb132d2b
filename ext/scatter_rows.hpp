// Put rows together from pieces that lie side by side, each where its slot is.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

namespace ninja {

struct Columns {
  const float* first;  // of row 0
  int64_t stride;      // from row to row
  int64_t width;
};

// Row i of all pieces, one after the other, becomes row slot[i] of `slab`.
inline void scatter_rows(const std::vector<Columns>& pieces, const int64_t* slot, int64_t num_rows, float* slab,
                         int64_t stride) {
  for (int64_t row = 0; row < num_rows; ++row) {
    float* to = slab + slot[row] * stride;
    for (const Columns& piece : pieces) {
      std::memcpy(to, piece.first + row * piece.stride, piece.width * sizeof(float));
      to += piece.width;
    }
  }
}

}  // namespace ninja
