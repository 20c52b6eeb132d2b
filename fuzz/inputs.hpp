// The input of a fuzzing target: bytes in allocations of exact size, so that sanitizers see every access beyond them,
// and values that are drawn from it.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace fuzz {

using Draw = FuzzedDataProvider;  // numbers are taken from the end of an input; the remaining bytes are a file

// End the run because a kernel violates its contract.
[[noreturn]] inline void broken(const std::string& promise) {
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

inline void expect(bool holds, const char* promise) {
  if (!holds) broken(promise);
}

// Bytes on the heap, followed by exactly the zeros that the reader may access.
class Bytes {
 public:
  Bytes(const void* from, size_t size, size_t slack = 0)
      : size_(size), memory_(static_cast<char*>(std::malloc(size + slack))) {
    if (size > 0) std::memcpy(memory_, from, size);
    if (slack > 0) std::memset(memory_ + size, 0, slack);
  }
  explicit Bytes(const std::string& text, size_t slack = 0) : Bytes(text.data(), text.size(), slack) {}
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  ~Bytes() { std::free(memory_); }

  const char* begin() const { return memory_; }
  const char* end() const { return memory_ + size_; }
  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  size_t size_;
  char* memory_;
};

// Return the remaining bytes of an input.
inline std::string rest(Draw& draw) { return draw.ConsumeRemainingBytesAsString(); }

// An array without spare capacity, which a std::vector may have, so that reading beyond it is detected.
template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& from) : bytes_(from.data(), from.size() * sizeof(T)) {}
  const T* data() const { return reinterpret_cast<const T*>(bytes_.begin()); }

 private:
  Bytes bytes_;
};

// Expect that the arcs are divided among the states in order, and that each leads to a later state.
inline void expect_arcs(const std::vector<int64_t>& arc_begin, const std::vector<int32_t>& dst) {
  expect(!arc_begin.empty() && arc_begin.front() == 0 && arc_begin.back() == static_cast<int64_t>(dst.size()) &&
             std::is_sorted(arc_begin.begin(), arc_begin.end()),
         "the arcs of the states are all arcs");
  const auto num_states = static_cast<int32_t>(arc_begin.size()) - 1;
  for (int32_t state = 0; state < num_states; ++state) {
    for (int64_t arc = arc_begin[state]; arc < arc_begin[state + 1]; ++arc) {
      expect(dst[arc] > state && dst[arc] < num_states, "every arc leads to a later state");
    }
  }
}

}  // namespace fuzz
