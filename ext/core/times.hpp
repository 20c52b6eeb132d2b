// The frames of states, and the number of arcs that cross each frame.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/lattice.hpp"

namespace ninja {

constexpr int64_t kConsistent = -1;

// Fill in the frame of each state, -1 for unreachable states. Returns the first arc whose labels contradict another
// path, or kConsistent.
inline int64_t state_times(const Arcs& arcs, const Alignments& alignments, int32_t* time) {
  std::fill(time, time + arcs.num_states, -1);
  time[0] = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (time[state] < 0) continue;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t end = time[state] + (alignments.ali_begin[arc + 1] - alignments.ali_begin[arc]);
      int32_t& there = time[arcs.dst[arc]];
      if (there < 0) there = static_cast<int32_t>(end);
      if (there != end) return arc;
    }
  }
  return kConsistent;
}

// Return the first arc that ends before it begins, according to the times of a file, or kConsistent.
inline int64_t first_backward_arc(const Arcs& arcs, const int32_t* time) {
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      if (time[state] >= 0 && time[arcs.dst[arc]] < time[state]) return arc;
    }
  }
  return kConsistent;
}

// Return the frame at which the last reachable final state ends.
inline int64_t num_frames(const Arcs& arcs, const Alignments& alignments, const int32_t* time) {
  int64_t frames = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (time[state] < 0 || !is_final(arcs, state)) continue;
    const int64_t length = alignments.final_ali_begin[state + 1] - alignments.final_ali_begin[state];
    frames = std::max(frames, time[state] + length);
  }
  return frames;
}

// Call `take(start, end)` with the frames of each arc and of each final state with labels, clipped to `frames`.
template <class Take>
void for_each_stretch(const Arcs& arcs, const Alignments& alignments, const int32_t* time, int64_t frames,
                      const Take& take) {
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (time[state] < 0) continue;
    const int64_t start = std::min<int64_t>(time[state], frames);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      take(start, std::min<int64_t>(time[arcs.dst[arc]], frames));  // a dead end may be longer than any path
    }
    if (!is_final(arcs, state)) continue;
    const int64_t length = alignments.final_ali_begin[state + 1] - alignments.final_ali_begin[state];
    take(start, std::min<int64_t>(time[state] + length, frames));
  }
}

// Count the arcs and the final states with labels that cross each of `frames` frames.
inline void depth_per_frame(const Arcs& arcs, const Alignments& alignments, const int32_t* time, int64_t frames,
                            int32_t* depth) {
  std::fill(depth, depth + frames, 0);
  for_each_stretch(arcs, alignments, time, frames, [=](int64_t start, int64_t end) {
    if (start < frames) ++depth[start];
    if (end < frames) --depth[end];
  });
  for (int64_t frame = 1; frame < frames; ++frame) depth[frame] += depth[frame - 1];
}

// Return the sum of these counts; time and memory do not depend on the number of frames.
inline int64_t num_crossings(const Arcs& arcs, const Alignments& alignments, const int32_t* time, int64_t frames) {
  int64_t sum = 0;
  for_each_stretch(arcs, alignments, time, frames, [&](int64_t start, int64_t end) { sum += end - start; });
  return sum;
}

}  // namespace ninja
