// Formats the rows of columns as tab-separated lines of text.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/decimal.hpp"
#include "core/pool.hpp"

namespace ninja {

// A column; its kind determines the members that are used.
struct TextColumn {
  enum Kind { kIntegers, kNumbers, kNames, kRuns };
  Kind kind;
  const int32_t* integer;  // value of each row; kNames: index of the name of each row; kRuns: the pool of all integers
  const double* number;    // kNumbers: value of each row, printed as %.7g
  // kRuns: offsets of the integers of each row in the pool; kNames: offsets of the characters of each name
  const int64_t* begin;
  const int64_t* end;
  const char* letters;  // kNames
  char separator;       // kRuns: between the integers of a row
  bool may_lack;        // kRuns: omit the tab if a row has no integers
};

constexpr int64_t kMostOfInteger = 12;  // maximum number of bytes of an integer and its separator
constexpr int64_t kMostOfNumber = 24;

// Print a number as printf prints %.7g, and NaN without a sign.
inline char* print_number(char* to, double number) {
  if (std::isnan(number)) number = std::fabs(number);
#ifdef __cpp_lib_to_chars
  return std::to_chars(to, to + kMostOfNumber, number, std::chars_format::general, 7).ptr;
#else
  return to + std::snprintf(to, kMostOfNumber, "%.7g", number);
#endif
}

inline char* print_run(char* to, const int32_t* from, const int32_t* end, char separator) {
  for (; from < end; ++from) {
    to = print_integer(to, *from);
    *to++ = separator;
  }
  return to - 1;
}

// Print the rows [first, last); each line begins with `prefix`.
inline void print_rows(std::string_view prefix, const std::vector<TextColumn>& columns, int64_t first, int64_t last,
                       Output& output) {
  for (int64_t row = first; row < last; ++row) {
    int64_t most = static_cast<int64_t>(prefix.size()) + static_cast<int64_t>(kMaxNumber) + 1;
    for (const TextColumn& column : columns) {
      if (column.kind == TextColumn::kRuns) {
        most += 1 + kMostOfInteger * (column.end[row] - column.begin[row]);
      } else if (column.kind == TextColumn::kNames) {
        most += 1 + column.end[column.integer[row]] - column.begin[column.integer[row]];
      } else {
        most += kMostOfNumber;
      }
    }
    char* to = output.reserve(most);
    std::memcpy(to, prefix.data(), prefix.size());
    to += prefix.size();
    for (const TextColumn& column : columns) {
      if (column.kind == TextColumn::kRuns && column.may_lack && column.begin[row] == column.end[row]) continue;
      *to++ = '\t';
      switch (column.kind) {
        case TextColumn::kIntegers:
          to = print_integer(to, column.integer[row]);
          break;
        case TextColumn::kNumbers:
          to = print_number(to, column.number[row]);
          break;
        case TextColumn::kNames: {
          const int64_t begin = column.begin[column.integer[row]], length = column.end[column.integer[row]] - begin;
          std::memcpy(to, column.letters + begin, static_cast<size_t>(length));
          to += length;
          break;
        }
        case TextColumn::kRuns:
          if (column.begin[row] < column.end[row]) {
            to = print_run(to, column.integer + column.begin[row], column.integer + column.end[row], column.separator);
          }
          break;
      }
    }
    *to++ = '\n';
    output.keep(to);
  }
}

}  // namespace ninja
