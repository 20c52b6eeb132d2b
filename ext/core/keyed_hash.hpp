// Hash functions with a random key per process, so that untrusted input cannot be made to collide and slow tables down.
// Hash values differ between processes, so no result may depend on the order of the slots of a table.
//
// Source: Wang Yi, wyhash (github.com/wangyi-fudan/wyhash), the folded multiplication, here with a random key instead
// of the constants, as in Go's maps on processors without AES instructions (runtime/hash64.go).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace ninja {

struct HashKey {
  uint64_t word[8];
  HashKey() {
    std::random_device source;  // provided by the operating system or the processor
    for (uint64_t& random : word) random = static_cast<uint64_t>(source()) << 32 | source();
  }
};

inline const HashKey kHashKey;

// The exclusive or of the two halves of a 128-bit product.
inline uint64_t folded(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Two numbers as one value.
inline uint64_t joined(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

inline uint64_t keyed_hash(uint64_t value) { return folded(value ^ kHashKey.word[0], kHashKey.word[1]); }

// The hash of a sequence, computed from the hash of its beginning and its next value; a sequence begins with its
// length.
inline uint64_t keyed_hash_with(uint64_t hash, uint64_t value) {
  return folded(hash ^ value ^ kHashKey.word[0], kHashKey.word[1]);
}

inline uint64_t keyed_hash(std::string_view text) {
  uint64_t hash = keyed_hash(text.size());
  size_t at = 0;
  uint64_t piece = 0;
  for (; at + sizeof(piece) <= text.size(); at += sizeof(piece)) {
    std::memcpy(&piece, text.data() + at, sizeof(piece));
    hash = keyed_hash_with(hash, piece);
  }
  if (at == text.size()) return hash;
  piece = 0;
  std::memcpy(&piece, text.data() + at, text.size() - at);
  return keyed_hash_with(hash, piece);
}

// For the containers of the standard library.
struct KeyedHash {
  size_t operator()(uint64_t value) const { return keyed_hash(value); }
  size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

}  // namespace ninja
