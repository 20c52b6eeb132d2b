// Growable memory that is reused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

namespace ninja {

// A growable array that is not initialised, because parsers write every element that they use.
template <class T>
class Pool {
 public:
  // Reserve `size` elements and keep the first `used` ones.
  T* reserve(int64_t size, int64_t used) {
    if (size > capacity_) {
      const int64_t capacity = std::max(size, 2 * capacity_);
      std::unique_ptr<T[]> grown(new T[capacity]);
      if (used > 0) std::memcpy(grown.get(), memory_.get(), used * sizeof(T));
      memory_ = std::move(grown);
      capacity_ = capacity;
    }
    return memory_.get();
  }
  T& operator[](int64_t at) { return memory_[at]; }
  const T& operator[](int64_t at) const { return memory_[at]; }
  T* begin() { return memory_.get(); }
  const T* begin() const { return memory_.get(); }

 private:
  std::unique_ptr<T[]> memory_;
  int64_t capacity_ = 0;
};

// Bytes to be written to a file.
class Output {
 public:
  // Reserve `size` bytes and return a pointer to them; `keep` sets the end of the bytes that were written.
  char* reserve(int64_t size) { return bytes_.reserve(size_ + size, size_) + size_; }
  void keep(const char* end) { size_ = end - bytes_.begin(); }
  void clear() { size_ = 0; }
  const char* data() const { return bytes_.begin(); }
  int64_t size() const { return size_; }

 private:
  Pool<char> bytes_;
  int64_t size_ = 0;
};

}  // namespace ninja
