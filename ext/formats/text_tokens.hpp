// Parser of words and numbers that are separated by spaces, for the simpler text formats.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "core/decimal.hpp"
#include "formats/text_lattices.hpp"

namespace ninja {

// Reads words that are separated by spaces, and counts lines. The bytes must be followed by a NUL.
class TextTokens {
 public:
  Vocabulary words;
  TextGraph text;

  TextTokens(const char* begin, const char* end, int64_t line) : at_(begin), end_(end), line_(line) {}

  int64_t line() const { return line_; }
  const char* at() const { return at_; }

 protected:
  [[noreturn]] void fail(std::string message) const { refuse(std::move(message), line_); }

  bool at_break(const char* at) const { return is_blank(*at) || *at == '\n' || at == end_; }

  void skip_spaces() {
    while (is_blank(*at_)) ++at_;
  }

  void skip_space() {
    for (; is_blank(*at_) || *at_ == '\n'; ++at_) line_ += *at_ == '\n';
  }

  void skip_line() {
    const void* stop = std::memchr(at_, '\n', end_ - at_);
    at_ = stop == nullptr ? end_ : static_cast<const char*>(stop) + 1;
    line_ += stop != nullptr;
  }

  std::string_view word() {
    const char* from = at_;
    while (!at_break(at_)) ++at_;
    return {from, static_cast<size_t>(at_ - from)};
  }

  std::string_view seen() const {
    const char* stop = at_;
    while (!at_break(stop)) ++stop;
    return {at_, static_cast<size_t>(stop - at_)};
  }

  int32_t integer(const char* what, int64_t limit) {
    int32_t number = 0;
    const char* stop = at_ == end_ ? nullptr : parse_integer(at_, number);
    if (stop == nullptr || !at_break(stop)) fail(std::string(what) + " is not an integer: " + shown(seen()));
    if (number < 0 || number >= limit) {
      fail(std::string(what) + " " + std::to_string(number) + " is out of range: 0 to " + std::to_string(limit - 1));
    }
    at_ = stop;
    return number;
  }

  double decimal(const char* what) {
    double number = 0;
    const char* stop = at_ == end_ ? nullptr : parse_decimal(at_, end_, number);
    if (stop == nullptr || !at_break(stop)) fail(std::string(what) + " is not a finite number: " + shown(seen()));
    at_ = stop;
    return number;
  }

  // Read a number of items, each of which has at least `bytes_each` bytes in the file.
  int32_t count(const char* what, int64_t bytes_each) {
    const int32_t number = integer(what, std::numeric_limits<int32_t>::max());
    if (number > (end_ - at_) / bytes_each + 1) {
      fail(std::string(what) + " is " + std::to_string(number) + ", but " + std::to_string(end_ - at_) +
           " bytes follow");
    }
    return number;
  }

  const char* at_;
  const char* const end_;
  int64_t line_;
};

}  // namespace ninja
