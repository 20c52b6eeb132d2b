// Mutations that keep most of a file's shape: whole lines and fields of text, whole words of binary files; and random
// bytes for targets that draw numbers from them.
//
// A target that includes this header uses them for half of its mutations, and those of libFuzzer for the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "inputs.hpp"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace fuzz {

using Random = std::minstd_rand;

inline size_t below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

inline size_t give_back(const std::string& made, uint8_t* data, size_t max_size) {
  const size_t size = std::min(made.size(), max_size);
  if (size > 0) std::memcpy(data, made.data(), size);
  return size;
}

// Pieces between separators, each with its separator.
inline std::vector<std::string> pieces(const std::string& text, const char* separators) {
  std::vector<std::string> found;
  size_t at = 0;
  while (at < text.size()) {
    size_t stop = text.find_first_of(separators, at);
    stop = stop == std::string::npos ? text.size() : stop + 1;
    found.push_back(text.substr(at, stop - at));
    at = stop;
  }
  return found;
}

inline size_t mutate_text(uint8_t* data, size_t size, size_t max_size, Random& random) {
  static const char* const kNumbers[] = {"0",
                                         "1",
                                         "-1",
                                         "2",
                                         "7",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483648",
                                         "99999999999999999999",
                                         "1e38",
                                         "1e39",
                                         "-1e400",
                                         "1e-400",
                                         "0.1234567890123456789",
                                         "inf",
                                         "-Infinity",
                                         "nan",
                                         "BadNumber",
                                         ".",
                                         "-",
                                         "+1",
                                         "1e",
                                         "0x10",
                                         ""};
  const std::string text(reinterpret_cast<char*>(data), size);
  const bool by_line = random() % 2;
  std::vector<std::string> part = pieces(text, by_line ? "\n" : " \t\n=,_()'");
  if (part.empty()) return LLVMFuzzerMutate(data, size, max_size);
  const size_t one = below(random, part.size()), other = below(random, part.size());
  switch (random() % (by_line ? 4 : 6)) {
    case 0:
      part.insert(part.begin() + other, part[one]);
      break;
    case 1:
      std::swap(part[one], part[other]);
      break;
    case 2:
      part.erase(part.begin() + one);
      break;
    case 3:
      part[one] = part[other];
      break;
    default:
      part[one] = kNumbers[below(random, std::size(kNumbers))] + part[one].substr(part[one].size() - 1);
  }
  std::string made;
  for (const std::string& each : part) made += each;
  return give_back(made, data, max_size);
}

// Change, move or insert words of four bytes at a random offset, because headers have any length.
inline size_t mutate_words(uint8_t* data, size_t size, size_t max_size, Random& random) {
  static constexpr uint32_t kWords[] = {0,          1,          2,          3,          4,          0xFFFFFFFF,
                                        0xFFFFFFFE, 0x7FFFFFFF, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000,
                                        0x3F800000, 0x00010000, 0x10000000, 0x7F7FFFFF};
  if (size < 8) return LLVMFuzzerMutate(data, size, max_size);
  std::string bytes(reinterpret_cast<char*>(data), size);
  const size_t count = size / 4, shift = below(random, 4);
  const size_t one = std::min(4 * below(random, count) + shift, size - 4),
               other = std::min(4 * below(random, count) + shift, size - 4);
  uint32_t word;
  std::memcpy(&word, &bytes[one], 4);
  switch (random() % 6) {
    case 0:
      word = kWords[below(random, std::size(kWords))];
      break;
    case 1:
      word += static_cast<uint32_t>(below(random, 9)) - 4;
      break;
    case 2:
      std::memcpy(&word, &bytes[other], 4);
      break;
    case 3:
      word = static_cast<uint32_t>(below(random, size + 2));
      break;
    case 4:
      bytes.insert(other, bytes.substr(one, 4 * (1 + below(random, 8))));
      return give_back(bytes, data, max_size);
    default:
      bytes.erase(one, 4 * (1 + below(random, 8)));
      return give_back(bytes, data, max_size);
  }
  std::memcpy(&bytes[one], &word, 4);
  return give_back(bytes, data, max_size);
}

// Numbers are drawn from the end of an input. libFuzzer prefers short inputs, in which all later numbers are 0, so half of
// the mutations extend an input at its front or replace it with random bytes.
inline size_t mutate_drawn(uint8_t* data, size_t size, size_t max_size, Random& random) {
  if (random() % 2) return LLVMFuzzerMutate(data, size, max_size);
  std::string bytes(64 + below(random, 960), '\0');
  for (char& each : bytes) each = static_cast<char>(random() >> 8);
  if (random() % 2) bytes.append(reinterpret_cast<char*>(data), size);
  return give_back(bytes, data, max_size);
}

inline size_t mutate_any(uint8_t* data, size_t size, size_t max_size, Random& random) {
  return random() % 2 ? mutate_text(data, size, max_size, random) : mutate_words(data, size, max_size, random);
}

}  // namespace fuzz

#define FUZZ_MUTATE(by)                                                                                       \
  extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) { \
    fuzz::Random random(seed);                                                                                \
    if (random() % 2) return LLVMFuzzerMutate(data, size, max_size);                                          \
    return fuzz::by(data, size, max_size, random);                                                            \
  }

// A target with these mutations: its body reads an input from `draw`, of `size` bytes in all.
#define FUZZ_TARGET(by)                                                     \
  static void test_input(fuzz::Draw& draw, size_t size);                    \
  FUZZ_MUTATE(by)                                                           \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    fuzz::Draw draw(data, size);                                            \
    test_input(draw, size);                                                 \
    return 0;                                                               \
  }                                                                         \
  static void test_input(fuzz::Draw& draw, [[maybe_unused]] size_t size)
