// Copies of a few labels at a time, as they are made for every arc of an aligned lattice.
#pragma once

#include <cstdint>
#include <cstring>

namespace ninja {

// Copies out of a lattice's labels, or out of others, into room that ends at `end`.
struct LabelCopier {
  const int32_t* labels;
  int64_t num_labels;
  const int32_t* end;

  // Copy labels, and with them others that follow, for whole blocks take less time: what comes to stand behind the copy
  // must be written later.
  void blocks(const int32_t* from, int32_t length, int32_t* to) const {
    constexpr int32_t kBlock = 16;
    // Far beyond the last one where `from` is none of these labels.
    const uint64_t at = (reinterpret_cast<uintptr_t>(from) - reinterpret_cast<uintptr_t>(labels)) / sizeof(*from);
    const auto last = static_cast<uint64_t>(num_labels);
    if (at > last || last - at < static_cast<uint64_t>(length) + kBlock || end - to < length + kBlock) {
      return few(from, length, to);
    }
    for (int32_t done = 0; done < length; done += kBlock) std::memcpy(to + done, from + done, kBlock * sizeof(*to));
  }

  // Copy just these, without a call, which takes longer than a few labels do.
  static void few(const int32_t* from, int32_t length, int32_t* to) {
    constexpr int32_t kBlock = 4;
    if (length < kBlock) {
      for (int32_t at = 0; at < length; ++at) to[at] = from[at];
      return;
    }
    for (int32_t at = 0; at < length - kBlock; at += kBlock) std::memcpy(to + at, from + at, kBlock * sizeof(*to));
    std::memcpy(to + length - kBlock, from + length - kBlock, kBlock * sizeof(*to));
  }
};

}  // namespace ninja
