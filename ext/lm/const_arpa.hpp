// Kaldi's const-arpa file (G.carpa): an n-gram model in one block of 32-bit words.
//
//   \0B<ConstArpaLm> <LmInfo> bos eos unk order </LmInfo> <LmStates> size, i32[size] </LmStates>
//   <LmUnigram> words, i64[words] </LmUnigram> <LmOverflow> size, i64[size] </LmOverflow> </ConstArpaLm>
// Scalars are preceded by a byte with their size. A state in LmStates has: f32 ln probability, f32 ln back-off weight,
// i32 number of children, and for each child {i32 word, i32 what}. If `what` is even, the child is a leaf, and `what`
// has the bits of its ln probability. If it is odd, the child is a state at distance what / 2 from its parent or, if
// that is not positive, at entry -(what / 2) of the overflow table. Entries of the two tables are 1 + an index in
// LmStates, or 0 for none.
//
// Source: Kaldi, src/lm/const-arpa-lm.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/fst_image.hpp"
#include "lm/ngram_build.hpp"

namespace ninja {

// A model read from a file with word ids only. If `error` is not empty, the other fields are undefined.
struct NumberedNgrams {
  std::string error;
  int64_t byte = -1;  // offset at which the file is malformed; -1 if it is well formed, but not a language model
  NgramModel model;
  std::vector<int32_t> word_id;          // [num_words] the file's id of each word of the model, ascending
  int32_t bos = -1, eos = -1, unk = -1;  // words of the model; -1 if missing
};

namespace const_arpa {

using fst_image::Cursor;
using fst_image::Malformed;

inline void expect(Cursor& cursor, const std::string& token) {
  for (const char wanted : token + " ") {
    const int64_t here = cursor.at();
    if (cursor.get<char>(token.c_str()) != wanted) throw Malformed{"expected the token " + token, here};
  }
}

template <typename T>
inline T scalar(Cursor& cursor, const char* what) {
  const int64_t here = cursor.at();
  if (cursor.get<char>(what) != static_cast<char>(sizeof(T))) {
    throw Malformed{std::string("expected an integer of ") + std::to_string(sizeof(T)) + " bytes: " + what, here};
  }
  return cursor.get<T>(what);
}

// Skip the `size` entries of a table, which have `width` bytes each; returns their offset.
inline int64_t table(Cursor& cursor, int64_t size, int64_t width, const char* what) {
  if (size < 0 || size > cursor.left() / width) {
    throw Malformed{std::string(what) + " declares " + std::to_string(size) + " entries, but " +
                        std::to_string(cursor.left()) + " bytes are left",
                    cursor.at()};
  }
  const int64_t begin = cursor.at();
  cursor.skip(size * width);
  return begin;
}

class Reader {
 public:
  Reader(const char* bytes, int64_t size) : bytes_(bytes), cursor_(bytes, size) {}

  void read(NumberedNgrams& out) {
    layout();
    NgramBuilder builder(order_);
    // A state takes at least three 32-bit words, and a child takes two; this limits the number of n-grams.
    builder.reserve(num_unigrams_, num_states_ / 2);
    std::vector<int32_t> new_id(static_cast<size_t>(num_unigrams_), -1);
    for (int32_t id = 0; id < num_unigrams_; ++id) {
      const int64_t place = entry(unigrams_ + 8 * id);
      if (place == -1) continue;
      new_id[id] = builder.num_words();
      out.word_id.push_back(id);
      visit(builder, place, builder.add_word(probability(place)), 1);
    }
    while (!open_.empty()) {
      const Context context = open_.back();
      open_.pop_back();
      children(builder, context, new_id);
    }
    builder.flush();
    if (builder.duplicate() >= 0) throw Malformed{"the n-gram occurs twice", builder.duplicate()};
    const auto known = [&](int32_t id) { return id >= 0 && id < num_unigrams_ ? new_id[id] : -1; };
    out.bos = known(bos_);
    out.eos = known(eos_);
    out.unk = known(unk_);
    out.model = builder.finish(out.bos);
  }

 private:
  struct Context {
    int64_t place;  // index in LmStates
    int32_t node;
    int32_t length;
  };

  template <typename T>
  T load(int64_t byte) const {
    T value;
    std::memcpy(&value, bytes_ + byte, sizeof(T));
    return value;
  }

  // The index in LmStates that an entry of another table contains; -1 if it contains none.
  int64_t entry(int64_t byte) const {
    // Avoids the overflow of the smallest int64.
    return std::max(load<int64_t>(byte), std::numeric_limits<int64_t>::min() + 1) - 1;
  }

  int64_t byte_of(int64_t place) const { return states_ + 4 * place; }

  void layout() {
    for (const char wanted : {'\0', 'B'}) {
      if (cursor_.get<char>("the header") != wanted) throw Malformed{"not a binary Kaldi file", 0};
    }
    expect(cursor_, "<ConstArpaLm>");
    expect(cursor_, "<LmInfo>");
    bos_ = scalar<int32_t>(cursor_, "<s>");
    eos_ = scalar<int32_t>(cursor_, "</s>");
    unk_ = scalar<int32_t>(cursor_, "<unk>");
    const int64_t here = cursor_.at();
    order_ = scalar<int32_t>(cursor_, "the order");
    if (order_ < 1 || order_ > 64) {
      throw Malformed{"the order is " + std::to_string(order_) + ", but must be 1 to 64", here};
    }
    expect(cursor_, "</LmInfo>");
    expect(cursor_, "<LmStates>");
    num_states_ = scalar<int64_t>(cursor_, "the size of LmStates");
    states_ = table(cursor_, num_states_, 4, "LmStates");
    expect(cursor_, "</LmStates>");
    expect(cursor_, "<LmUnigram>");
    num_unigrams_ = scalar<int32_t>(cursor_, "the size of LmUnigram");
    unigrams_ = table(cursor_, num_unigrams_, 8, "LmUnigram");
    expect(cursor_, "</LmUnigram>");
    expect(cursor_, "<LmOverflow>");
    num_overflow_ = scalar<int32_t>(cursor_, "the size of LmOverflow");
    overflow_ = table(cursor_, num_overflow_, 8, "LmOverflow");
    expect(cursor_, "</LmOverflow>");
    expect(cursor_, "</ConstArpaLm>");
    if (cursor_.left() > 0) throw Malformed{"bytes follow the end of the model", cursor_.at()};
  }

  double checked(float logprob, int64_t place) const {
    if (!std::isfinite(logprob) || logprob > 0) {
      throw Malformed{"a natural-log probability is invalid: " + std::to_string(logprob), byte_of(place)};
    }
    return logprob;
  }

  double probability(int64_t place) const {
    if (place < 0 || place > num_states_ - 3) {
      throw Malformed{
          "a state begins at " + std::to_string(place) + ", but LmStates has size " + std::to_string(num_states_),
          states_};
    }
    return checked(load<float>(byte_of(place)), place);
  }

  // Set the back-off weight of a state, whose children are read later. The node may be a leaf at the highest order.
  void visit(NgramBuilder& builder, int64_t place, int32_t node, int32_t length) {
    const float weight = load<float>(byte_of(place + 1));
    const int32_t count = load<int32_t>(byte_of(place + 2));
    if (!std::isfinite(weight))
      throw Malformed{"a back-off weight is invalid: " + std::to_string(weight), byte_of(place + 1)};
    if (count < 0 || count > (num_states_ - place - 3) / 2) {
      throw Malformed{"a state declares " + std::to_string(count) + " children", byte_of(place + 2)};
    }
    // In a valid file, states do not overlap, so their total size is at most the size of the table.
    taken_ += 3 + 2 * static_cast<int64_t>(count);
    if (taken_ > num_states_) throw Malformed{"states overlap", byte_of(place)};
    if (node == NgramBuilder::kLeaf) {
      if (count > 0)
        throw Malformed{"an n-gram is longer than the order " + std::to_string(order_), byte_of(place + 2)};
      return;
    }
    builder.set_backoff(node, weight);
    if (count > 0) open_.push_back({place, node, length});
  }

  void children(NgramBuilder& builder, const Context& parent, const std::vector<int32_t>& new_id) {
    const int32_t count = load<int32_t>(byte_of(parent.place + 2));
    for (int32_t i = 0; i < count; ++i) {
      const int64_t at = parent.place + 3 + 2 * static_cast<int64_t>(i);
      const int32_t id = load<int32_t>(byte_of(at)), what = load<int32_t>(byte_of(at + 1));
      if (id < 0 || id >= num_unigrams_ || new_id[id] < 0) {
        throw Malformed{"an n-gram ends in word " + std::to_string(id) + ", which has no 1-gram", byte_of(at)};
      }
      const bool is_state = what % 2 != 0;
      int64_t place = -1;
      if (is_state) {
        place = what / 2 > 0 ? parent.place + what / 2 : -1;
        if (what / 2 <= 0) {
          if (-(what / 2) >= num_overflow_) throw Malformed{"an index exceeds LmOverflow", byte_of(at + 1)};
          place = entry(overflow_ + 8 * -static_cast<int64_t>(what / 2));
        }
      }
      const double logprob = is_state ? probability(place) : checked(load<float>(byte_of(at + 1)), at + 1);
      const int32_t node = builder.add(parent.node, new_id[id], parent.length + 1, logprob, byte_of(at));
      if (is_state) visit(builder, place, node, parent.length + 1);
    }
  }

  const char* bytes_;
  Cursor cursor_;
  int32_t bos_ = 0, eos_ = 0, unk_ = 0, order_ = 0;
  int64_t states_ = 0, num_states_ = 0;  // byte offset of LmStates, and its number of 32-bit words
  int64_t unigrams_ = 0, overflow_ = 0;
  int32_t num_unigrams_ = 0, num_overflow_ = 0;
  int64_t taken_ = 0;          // total size of the states so far
  std::vector<Context> open_;  // contexts whose children have not been read yet
};

}  // namespace const_arpa

inline NumberedNgrams read_const_arpa(const char* bytes, int64_t size) {
  NumberedNgrams out;
  fst_image::store_error(out, [&] { const_arpa::Reader(bytes, size).read(out); });
  return out;
}

}  // namespace ninja
