// Numbers in Kaldi's text lattices, printed like a C++ stream (%g, 6 digits) and parsed like strtod.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace ninja {

constexpr size_t kMaxNumber = 16;  // maximum number of bytes that print_cost and print_integer may write

// An integer below 10,000 as text followed by '_', for fast printing of alignments.
struct SmallInteger {
  char text[7];
  uint8_t length;  // with the '_'
};

inline const std::array<SmallInteger, 10000>& small_integers() {
  static const auto table = [] {
    std::array<SmallInteger, 10000> made{};
    for (int32_t number = 0; number < 10000; ++number) {
      SmallInteger& entry = made[number];
      char* end = std::to_chars(entry.text, entry.text + 6, number).ptr;
      *end++ = '_';
      entry.length = static_cast<uint8_t>(end - entry.text);
    }
    return made;
  }();
  return table;
}

inline char* print_integer(char* out, int32_t number) {
  if (static_cast<uint32_t>(number) < 10000) {
    const SmallInteger& entry = small_integers()[number];
    std::memcpy(out, entry.text, 7);
    return out + entry.length - 1;
  }
  return std::to_chars(out, out + kMaxNumber, number).ptr;
}

// Print a cost as `std::ostream << float` does, with OpenFst's names of infinity and NaN.
inline char* print_cost(char* out, float cost) {
  static constexpr double kPower[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
  const auto name = [&](const char* text, size_t length) {
    std::memcpy(out, text, length);
    return out + length;
  };
  if (std::isnan(cost)) return name("BadNumber", 9);
  if (std::signbit(cost)) *out++ = '-';
  const double size = std::fabs(static_cast<double>(cost));
  if (size == 0) return name("0", 1);
  if (std::isinf(size)) return name("Infinity", 8);
  if (size < 1e-4 || size >= 999999.5) {
#ifdef __cpp_lib_to_chars
    return std::to_chars(out, out + kMaxNumber, size, std::chars_format::general, 6).ptr;
#else
    return out + std::snprintf(out, kMaxNumber, "%g", size);
#endif
  }
  int shift = 5;  // decimal places that leave 6 digits before the point
  if (size >= 1) {
    while (size >= kPower[6 - shift]) --shift;
  } else {
    while (size * kPower[shift] < 1e5) ++shift;
  }
  // Exact: a float has 24 significant bits and 10^9 has 21, so the only rounding is lrint's, half to even.
  int64_t digits = std::lrint(size * kPower[shift]);
  if (digits == 1000000) {
    digits = 100000;
    --shift;
  }
  char text[6];
  for (int place = 5; place >= 0; --place) {
    text[place] = static_cast<char>('0' + digits % 10);
    digits /= 10;
  }
  int length = 6;
  const int whole = 6 - shift;  // digits before the point, <= 0 below 0.1
  while (length > 1 && length > whole && text[length - 1] == '0') --length;
  if (whole <= 0) {
    *out++ = '0';
    *out++ = '.';
    for (int zero = whole; zero < 0; ++zero) *out++ = '0';
    std::memcpy(out, text, 6);
    return out + length;
  }
  std::memcpy(out, text, 6);
  if (length <= whole) return out + whole;
  std::memmove(out + whole + 1, text + whole, 6 - whole);
  out[whole] = '.';
  return out + length + 1;
}

// Parse an integer, of which at most 11 digits are read; null if there is none or its absolute value exceeds INT32_MAX.
inline const char* parse_integer(const char* at, int32_t& number) {
  const bool negative = *at == '-';
  at += negative;
  const char* begin = at;
  int64_t size = 0;
  while (static_cast<unsigned char>(*at - '0') < 10 && at - begin < 11) size = size * 10 + (*at++ - '0');
  if (at == begin || size > std::numeric_limits<int32_t>::max()) return nullptr;
  number = static_cast<int32_t>(negative ? -size : size);
  return at;
}

// Parse a finite decimal number in [at, end); null if there is none. `*end` must be readable and not part of a number.
inline const char* parse_decimal(const char* at, const char* end, double& number) {
  static constexpr double kPower[] = {1,   1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                      1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  const bool negative = *at == '-';
  at += negative || *at == '+';
  const char* first = at;
  uint64_t digits = 0;
  while (static_cast<unsigned char>(*at - '0') < 10) digits = digits * 10 + (*at++ - '0');
  int64_t num_digits = at - first, places = 0;
  if (*at == '.') {
    const char* point = ++at;
    while (static_cast<unsigned char>(*at - '0') < 10) digits = digits * 10 + (*at++ - '0');
    places = at - point;
    num_digits += places;
  }
  if (num_digits == 0) return nullptr;
  double size = 0;
  if (num_digits <= 15 && (*at | 32) != 'e') {
    size = static_cast<double>(digits) / kPower[places];  // both are exact, so the quotient is correctly rounded
  } else {
#ifdef __cpp_lib_to_chars
    const auto [stop, failure] = std::from_chars(first, end, size);
    if (failure == std::errc::result_out_of_range) return nullptr;
    at = stop;
#else
    char* stop = nullptr;
    size = std::strtod(first, &stop);
    at = stop;
#endif
    if (!std::isfinite(size)) return nullptr;
  }
  number = negative ? -size : size;
  return at;
}

// Parse a cost as `parse_decimal` does, or OpenFst's name of a value that is not finite.
inline const char* parse_cost(const char* at, const char* end, float& cost) {
  double number = 0;
  if (const char* stop = parse_decimal(at, end, number)) {
    cost = static_cast<float>(number);
    return stop;
  }
  const auto named = [&](const char* text, size_t length, float value) {
    if (static_cast<size_t>(end - at) < length || std::memcmp(at, text, length) != 0) return false;
    cost = value;
    at += length;
    return true;
  };
  if (named("Infinity", 8, std::numeric_limits<float>::infinity())) return at;
  if (named("-Infinity", 9, -std::numeric_limits<float>::infinity())) return at;
  if (named("BadNumber", 9, std::numeric_limits<float>::quiet_NaN())) return at;
  return nullptr;
}

}  // namespace ninja
