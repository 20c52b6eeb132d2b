// Parser of the fields NAME=VALUE of HTK's lattice files: names, quoted and escaped texts, and numbers.
// Source: HTK HNet.c (GetNextFieldName), HShell.c (ReadString).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/decimal.hpp"
#include "formats/text_lattices.hpp"

namespace ninja {

class SlfScanner {
 public:
  Vocabulary words;

  SlfScanner(const char* begin, const char* end) : at_(begin), end_(end) {}

 protected:
  enum Place { kField, kLineEnd, kFileEnd };

  [[noreturn]] void fail(std::string message) const { refuse(std::move(message), line_); }

  // Move to the next field of the line, and read its name and the '='.
  Place next_field(std::string_view& name) {
    while (is_blank(*at_)) ++at_;  // the file is followed by a NUL, which is not a blank
    if (at_ == end_) return kFileEnd;
    if (*at_ == '#') {
      const char* from = at_;
      at_ = end_of_line(at_);
      if (line_ == 1) first_comment_ = {from, static_cast<size_t>(at_ - from)};
      if (at_ == end_) return kFileEnd;
    }
    if (*at_ == '\n') return kLineEnd;
    const char* from = at_;
    while (is_name(*at_)) ++at_;
    name = {from, static_cast<size_t>(at_ - from)};
    if (name.empty() && *at_ == '.') {
      ++at_;
      while (is_blank(*at_)) ++at_;
      if (at_ < end_ && *at_ != '\n') fail("a '.' must be alone on its line");
      name = ".";
      return kField;
    }
    if (*at_ == '~') fail("field " + shown(name) + " is binary, which is not supported; write text lattices with HTK");
    if (name.empty() || *at_ != '=') fail("expected NAME=VALUE, found " + shown(rest_of_line(from)));
    ++at_;
    return kField;
  }

  static bool is_name(char letter) {
    return static_cast<uint8_t>((letter | 32) - 'a') < 26 || static_cast<uint8_t>(letter - '0') < 10 || letter == '_';
  }

  const char* end_of_line(const char* from) const {
    const void* stop = std::memchr(from, '\n', end_ - from);
    return stop == nullptr ? end_ : static_cast<const char*>(stop);
  }

  std::string_view rest_of_line(const char* from) const {
    return {from, static_cast<size_t>(end_of_line(from) - from)};
  }

  bool at_break(const char* at) const { return is_blank(*at) || *at == '\n' || at == end_; }

  void new_line() {
    ++at_;
    ++line_;
  }

  // Return a value with its quotes, and move to its end. A quote that is not closed before a blank is part of the
  // word, because some programs write words such as 'em without escapes.
  std::string_view raw_value(std::string_view name, bool& plain) {
    const char* from = at_;
    plain = true;
    if ((*at_ == '"' || *at_ == '\'') && !is_unclosed(*from)) {
      for (const char* stop = at_ + 1; stop < end_ && *stop != '\n'; ++stop) {
        if (*stop == '\\' && stop + 1 < end_ && stop[1] != '\n') {
          ++stop;
        } else if (*stop == *from && at_break(stop + 1)) {
          at_ = stop + 1;
          plain = false;
          return {from, static_cast<size_t>(at_ - from)};
        }
      }
      unclosed_[*from == '"'] = {from, end_of_line(from)};
    }
    while (!at_break(at_)) {
      if (*at_ == '\\') {
        plain = false;
        if (at_ + 1 < end_ && at_[1] == '\t')
          fail("there is a backslash before a tab; write two backslashes for one in a word");
        at_ += at_ + 1 < end_ && at_[1] != '\n';  // a blank after the backslash is part of the word
      }
      ++at_;
    }
    if (at_ == from) fail("field " + shown(name) + " has no value");
    return {from, static_cast<size_t>(at_ - from)};
  }

  // Return a value without quotes and escapes: a backslash and three octal digits represent a byte; other backslashes
  // are dropped. SRILM writes bytes from 127 on with a zero before their octal digits (\0303, or \037777777703 for a
  // signed char), and escapes a digit after such a byte; HTK would read a control character and digits.
  std::string_view text_value(std::string_view name) {
    bool plain = true;
    std::string_view raw = raw_value(name, plain);
    if (plain) return raw;
    if (raw.size() > 1 && (raw[0] == '"' || raw[0] == '\'') && raw.back() == raw[0])
      raw = raw.substr(1, raw.size() - 2);
    std::string text;
    bool of_srilm = false;  // the previous character was such a byte
    for (size_t at = 0; at < raw.size(); ++at) {
      const bool after_srilm = std::exchange(of_srilm, false);
      if (raw[at] != '\\') {
        text += raw[at];
        continue;
      }
      if (at + 1 == raw.size())
        fail("a backslash must be followed by a character or three octal digits: " + shown(raw));
      uint64_t byte = 0;
      size_t digits = 0;  // number of octal digits
      for (; digits < 12 && at + 1 + digits < raw.size(); ++digits) {
        const uint8_t digit = static_cast<uint8_t>(raw[at + 1 + digits] - '0');
        if (digit >= 8) break;
        byte = 8 * byte + digit;
      }
      of_srilm = digits >= 4 && raw[at + 1] == '0' &&
                 ((byte >= 0177 && byte <= 0377) || (byte >= 0xFFFFFF80 && byte <= 0xFFFFFFFF));
      if (of_srilm) {
        text += static_cast<char>(byte & 0377);
        at += digits;
      } else if (digits >= 3 && raw[at + 1] < '4' && !(after_srilm && raw[at + 1] != '0')) {
        text += static_cast<char>(64 * (raw[at + 1] - '0') + 8 * (raw[at + 2] - '0') + (raw[at + 3] - '0'));
        at += 3;
      } else {
        text += raw[++at];
      }
    }
    return words.own(std::move(text));
  }

  // Return whether the rest of the line is known to have no closing quote; a line is searched once for each quote.
  bool is_unclosed(char quote) const {
    const Stretch& searched = unclosed_[quote == '"'];
    return searched.begin <= at_ && at_ < searched.end;
  }

  int32_t integer(std::string_view name, int64_t limit) {
    int32_t number = 0;
    const char* stop = parse_integer(at_, number);
    if (stop == nullptr || !at_break(stop)) fail("field " + shown(name) + " is not an integer: " + shown(word_at(at_)));
    if (number < 0 || number >= limit) {
      fail(std::string(name) + "=" + std::to_string(number) + " is out of range" +
           (limit > 0 ? ": 0 to " + std::to_string(limit - 1) : ", as there are none"));
    }
    at_ = stop;
    return number;
  }

  double decimal(std::string_view name) {
    double number = 0;
    const char* stop = parse_decimal(at_, end_, number);
    if (stop == nullptr || !at_break(stop))
      fail("field " + shown(name) + " is not a finite number: " + shown(word_at(at_)));
    at_ = stop;
    return number;
  }

  std::string_view word_at(const char* from) const {
    const char* stop = from;
    while (!at_break(stop)) ++stop;
    return {from, static_cast<size_t>(stop - from)};
  }

  const char* at_;
  const char* const end_;
  int64_t line_ = 1;
  std::string_view first_comment_;  // comment on the first line of the file

 private:
  struct Stretch {
    const char* begin = nullptr;
    const char* end = nullptr;
  };
  Stretch unclosed_[2];  // ends of lines that have no closing quote, for ' and "
};

}  // namespace ninja
