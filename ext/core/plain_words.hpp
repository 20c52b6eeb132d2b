// Words that are their own basic forms because they consist of lower-case or caseless letters and apostrophes only.
#pragma once

#include <cstdint>

namespace ninja {

// Whether a letter is in a range of letters that case folding and normalisation leave unchanged.
inline bool is_plain_letter(uint32_t letter) {
  if (letter < 0x80) return letter - 'a' < 26;
  if (letter < 0x100) return letter >= 0xE0 && letter != 0xF7;  // à to ÿ, without ÷
  return letter - 0x430 < 0x22 || letter - 0x3041 < 0x56 ||     // а to ё, ぁ to ゖ
         letter - 0x30A1 < 0x5A || letter - 0x4E00 < 0x5200 ||  // ァ to ヺ, 一 to 鿿
         letter - 0xAC00 < 0x2BA4;                              // 가 to 힣
}

// Whether a word consists of plain letters, with single apostrophes between them and at one end at most.
template <typename Char>
bool is_plain_word(const Char* word, int64_t size) {
  const bool begins = size > 0 && word[0] == '\'';
  bool is_after_letter = false;
  for (int64_t i = begins; i < size; ++i) {
    if (is_plain_letter(word[i])) {
      is_after_letter = true;
    } else if (word[i] == '\'' && is_after_letter) {
      is_after_letter = false;
    } else {
      return false;
    }
  }
  return is_after_letter || (size > 1 && !begins);
}

// Whether a word consists of the letters a to z only, as most words do.
inline bool has_small_letters(const uint8_t* word, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    if (static_cast<uint8_t>(word[i] - 'a') >= 26) return false;
  }
  return size > 0;
}

}  // namespace ninja
