// Parser of ARPA language models, which adds the n-grams in pieces of a stream to a builder.
//
//   \data\                 counts, one line per order: ngram 2=454705
//   \1-grams:              log10 probability, words, log10 back-off weight (0 if omitted; none for the highest order)
//   -1.604928 </s>
//   \end\                  the rest is ignored
//
// Source: ngram-format(5) of SRILM; the format is older: Paul and Baker 1992, "The design for the Wall Street
// Journal-based CSR corpus".
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/decimal.hpp"
#include "core/keyed_hash.hpp"
#include "lm/ngram_build.hpp"

namespace ninja {

// The distinct words of a model, numbered in order.
class WordList {
 public:
  WordList() : slot_(1024, -1) {}

  int32_t size() const { return static_cast<int32_t>(begin_.size() - 1); }
  std::string_view operator[](int32_t id) const {
    return std::string_view(text_).substr(begin_[id], begin_[id + 1] - begin_[id]);
  }

  int32_t find(std::string_view word) const { return slot_[place_of(word)]; }

  bool add(std::string_view word) {
    int32_t& slot = slot_[place_of(word)];
    if (slot >= 0) return false;
    slot = size();
    text_.append(word);
    begin_.push_back(text_.size());
    if (begin_.size() * 2 > slot_.size()) {
      slot_.assign(slot_.size() * 2, -1);
      for (int32_t id = 0; id < size(); ++id) slot_[place_of((*this)[id])] = id;
    }
    return true;
  }

 private:
  size_t place_of(std::string_view word) const {
    size_t place = keyed_hash(word) & (slot_.size() - 1);
    while (slot_[place] >= 0 && (*this)[slot_[place]] != word) place = (place + 1) & (slot_.size() - 1);
    return place;
  }

  std::string text_;
  std::vector<size_t> begin_{0};
  std::vector<int32_t> slot_;  // word ids by hash, -1 if free; at most half full
};

class ArpaReader {
 public:
  static constexpr int32_t kMaxOrder = 64;

  // `most_ngrams` is the number of n-grams that could fit into the file; it limits the memory reserved for its counts.
  explicit ArpaReader(int64_t most_ngrams) : most_ngrams_(most_ngrams) {}

  // Parse the complete lines in [text, text + size); returns the number of bytes consumed. After an error, all bytes
  // are ignored.
  int64_t feed(const char* text, int64_t size) {
    const char* at = text;
    const char* end = text + size;
    while (at < end && error_.empty() && part_ != kEnd) {
      const char* stop = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
      if (stop == nullptr) break;
      ++line_;
      take_line(at, stop);
      at = stop + 1;
    }
    return part_ == kEnd ? size : at - text;
  }

  // Must be called after the last piece.
  void close() {
    if (error_.empty() && part_ != kEnd) fail("the file ends before \\end\\; it is truncated");
  }

  // Must be called once, after close().
  NgramModel finish() { return builder_->finish(words_.find("<s>")); }

  const std::string& error() const { return error_; }
  int64_t line() const { return line_; }
  const WordList& words() const { return words_; }

 private:
  enum Part { kPreamble, kCounts, kNgrams, kEnd };

  void fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  static std::string quoted(std::string_view text) { return "'" + std::string(text.substr(0, 60)) + "'"; }
  static std::string quoted(const char* at, const char* end) { return quoted({at, static_cast<size_t>(end - at)}); }

  static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

  void take_line(const char* at, const char* end) {
    while (end > at && blank(end[-1])) --end;
    while (at < end && blank(*at)) ++at;
    if (at == end) return;
    const std::string_view text(at, static_cast<size_t>(end - at));
    if (part_ == kPreamble) {
      if (text == "\\data\\") part_ = kCounts;
    } else if (*at == '\\') {
      heading(text);
    } else if (part_ == kCounts) {
      count(at, end);
    } else {
      ngram(at, end);
    }
  }

  // "ngram 2=454705", possibly with spaces between its parts.
  void count(const char* at, const char* end) {
    const char* begin = at;
    const auto number = [&](int64_t& value) {
      while (at < end && blank(*at)) ++at;
      const char* first = at;
      value = 0;
      while (at < end && static_cast<unsigned char>(*at - '0') < 10 && at - first < 18) {
        value = value * 10 + (*at++ - '0');
      }
      const bool found = at > first;
      while (at < end && blank(*at)) ++at;
      return found;
    };
    int64_t order = 0, size = 0;
    const bool named = end - at > 5 && std::memcmp(at, "ngram", 5) == 0 && blank(at[5]);
    at += named ? 5 : 0;
    if (!named || !number(order) || at == end || *at++ != '=' || !number(size) || at != end) {
      return fail("expected 'ngram 1=COUNT' or '\\1-grams:', found " + quoted(begin, end));
    }
    const int64_t next = static_cast<int64_t>(count_.size()) + 1;
    if (order != next || order > kMaxOrder) {
      return fail("expected the number of " + std::to_string(next) + "-grams, found the number of " +
                  std::to_string(order) + "-grams" + (order > kMaxOrder ? "; the highest order is 64" : ""));
    }
    count_.push_back(size);
  }

  void heading(std::string_view text) {
    if (part_ == kCounts) {
      if (count_.empty()) return fail("no 'ngram 1=COUNT' between \\data\\ and " + quoted(text));
      int64_t longer = 0;
      for (size_t n = 1; n < count_.size(); ++n) longer += std::min(count_[n], most_ngrams_);
      builder_ = std::make_unique<NgramBuilder>(static_cast<int32_t>(count_.size()));
      builder_->reserve(std::min(count_[0], most_ngrams_), std::min(longer, most_ngrams_));
      part_ = kNgrams;
    } else if (builder_->flush(); builder_->duplicate() >= 0) {
      line_ = builder_->duplicate();
      return fail("the n-gram occurs twice");
    } else if (found_ != count_[order_ - 1]) {
      return fail("the section of " + std::to_string(order_) + "-grams has " + std::to_string(found_) +
                  ", but \\data\\ announces " + std::to_string(count_[order_ - 1]));
    }
    const std::string next = "\\" + std::to_string(order_ + 1) + "-grams:";
    if (order_ < static_cast<int32_t>(count_.size())) {
      if (text != next) return fail("expected " + next + ", found " + quoted(text));
      ++order_;
      found_ = 0;
      context_.clear();
    } else {
      if (text != "\\end\\") return fail("expected \\end\\, found " + quoted(text));
      part_ = kEnd;
    }
  }

  static const char* token_end(const char* at, const char* end) {
    while (at < end && !blank(*at)) ++at;
    return at;
  }

  // Parse a log10 number that fills [at, stop). `stop` is a blank or the end of the line.
  static bool number(const char* at, const char* stop, double& value) {
    float parsed = 0;
    if (parse_cost(at, stop, parsed) != stop || !std::isfinite(parsed)) return false;
    value = parsed * 2.302585092994045684;  // natural log
    return true;
  }

  void ngram(const char* at, const char* end) {
    if (found_ == count_[order_ - 1]) {
      return fail("more " + std::to_string(order_) + "-grams than the " + std::to_string(found_) +
                  " announced in \\data\\");
    }
    double logprob = 0, weight = 0;
    const char* stop = token_end(at, end);
    if (!number(at, stop, logprob)) return fail(quoted(at, stop) + " is not a log10 probability");
    if (logprob > 0) return fail("the log10 probability is above 0: " + quoted(at, stop));
    std::string_view word;
    int32_t id[kMaxOrder];
    for (int32_t i = 0; i < order_; ++i) {
      at = stop;
      while (at < end && blank(*at)) ++at;
      if (at == end) return fail(std::to_string(i) + " words in the section of " + std::to_string(order_) + "-grams");
      stop = token_end(at, end);
      word = std::string_view(at, static_cast<size_t>(stop - at));
      if (order_ == 1) break;
      if (last_word_[i] != word) {  // in sorted files, the first words remain the same
        last_id_[i] = words_.find(word);
        last_word_[i] = word;
      }
      id[i] = last_id_[i];
      if (id[i] < 0) return fail("the word " + quoted(word) + " is not among the 1-grams");
    }
    at = stop;
    while (at < end && blank(*at)) ++at;
    if (at < end) {
      stop = token_end(at, end);
      if (stop != end) return fail("unexpected text after the back-off weight: " + quoted(stop, end));
      if (!number(at, stop, weight)) return fail(quoted(at, stop) + " is not a back-off weight");
    }
    ++found_;
    int32_t node = NgramBuilder::kLeaf;
    if (order_ == 1) {
      if (!words_.add(word)) return fail("the word " + quoted(word) + " occurs twice");
      node = builder_->add_word(logprob);
    } else {
      if (context_.empty() || std::memcmp(context_.data(), id, context_.size() * sizeof(int32_t)) != 0) {
        context_.assign(id, id + order_ - 1);  // sorted files have runs with the same context
        context_node_ = builder_->context(id, order_ - 1);
      }
      node = builder_->add(context_node_, id[order_ - 1], order_, logprob, line_);
    }
    if (node != NgramBuilder::kLeaf) builder_->set_backoff(node, weight);
  }

  int64_t most_ngrams_;
  std::string error_;
  int64_t line_ = 0;
  Part part_ = kPreamble;
  std::vector<int64_t> count_;  // [orders], counts in the header
  int32_t order_ = 0;           // order of the section
  int64_t found_ = 0;           // n-grams of the section so far
  WordList words_;
  std::unique_ptr<NgramBuilder> builder_;
  std::string last_word_[kMaxOrder];  // words of the last line, and their ids
  int32_t last_id_[kMaxOrder] = {};
  std::vector<int32_t> context_;  // words of the last line's context
  int32_t context_node_ = 0;
};

}  // namespace ninja
