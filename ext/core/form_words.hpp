// Lattices in which words are replaced by the numbers of their lexical forms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/batch.hpp"

namespace ninja {

// Codes of words: 0 for words without lexical words, kUnknownForm for words whose form is not known yet,
// kSeveralForms - k for the k-th form of several lexical words, and otherwise the number of the only lexical word,
// which is the word itself or a number from kFirstOtherForm on.
constexpr int32_t kUnknownForm = -1;
constexpr int32_t kSeveralForms = -2;
constexpr int32_t kFirstOtherForm = 1 << 30;

struct Forms {
  const int32_t* code;   // [size]
  int64_t size;          // number of words
  const int64_t* begin;  // [num_several + 1], offsets in `part`
  const int32_t* part;   // numbers of the lexical words in forms of several words
  int64_t num_several;

  int32_t of(int32_t word) const {
    if (static_cast<uint32_t>(word) >= static_cast<uint64_t>(size)) return kUnknownForm;
    return kSeveralForms - code[word] < num_several ? code[word] : kUnknownForm;  // another thread may have added it
  }
  int64_t length(int32_t of_code) const {  // number of arcs, at least 1
    return of_code > kSeveralForms ? 1 : begin[kSeveralForms - of_code + 1] - begin[kSeveralForms - of_code];
  }
  int32_t word(int32_t of_code, int64_t piece) const {
    return of_code > kSeveralForms ? of_code : part[begin[kSeveralForms - of_code] + piece];
  }
};

struct FormWords {
  // Words with unknown forms, and words beyond the table; the latter may occur several times.
  std::vector<int32_t> unknown;
  std::vector<int64_t> changed;  // indices of items in which words are replaced
  Items items;                   // all items, if some are changed; arrays that do not change are borrowed
};

// Whether an item has different words of the same form, or a word with no lexical word or with several.
class FormClashes {
 public:
  bool operator()(const Arcs& arcs, const Forms& forms) {
    if (++item_ == 0) {  // the count has wrapped
      first_.clear();
      item_ = 1;
    }
    for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
      const int32_t word = arcs.word[arc], number = forms.code[word];
      if (number < 0 || (number == 0 && word != 0)) return true;
      const size_t at =
          number < kFirstOtherForm ? number : static_cast<size_t>(forms.size) + (number - kFirstOtherForm);
      if (at >= first_.size()) first_.resize(std::max<size_t>(at + 1, forms.size + forms.size / 8));
      First& first = first_[at];
      if (first.item != item_) {
        first = {item_, word};
      } else if (first.word != word) {
        return true;
      }
    }
    return false;
  }

 private:
  struct First {  // the first word of a form
    uint32_t item = 0;
    int32_t word = 0;
  };
  uint32_t item_ = 0;
  std::vector<First> first_;
};

// The same arrays with words replaced by the numbers of their forms; each form must have at most one lexical word.
inline Item relabelled(const Item& item, const Forms& forms) {
  Item result = item;
  auto word = std::make_shared<std::vector<int32_t>>(item.arcs.word, item.arcs.word + item.arcs.num_arcs);
  for (int32_t& number : *word) number = forms.code[number];
  result.arcs.word = word->data();
  result.memory = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(item.memory, word);
  return result;
}

// Makes a lattice with a chain of arcs for each word with several lexical words. The first arc of a chain has the
// costs; labels and times are divided evenly. The states of a chain follow the state in which it begins, in the order
// of the arcs.
class ChainBuilder {
 public:
  ChainBuilder(const Item& item, const Forms& forms, bool labels)
      : item_(item), arcs_(item.arcs), forms_(forms), has_labels_(labels) {}

  Item build() {
    std::vector<int64_t> branching;  // states in which chains begin
    number_.resize(arcs_.num_states);
    int64_t num_states = 0;
    for (int64_t state = 0; state < arcs_.num_states; ++state) {
      const int64_t next = num_states + 1;
      number_[state] = static_cast<int32_t>(num_states++);
      for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
        num_states += length(arc) - 1;
      }
      if (num_states > next) branching.push_back(state);
    }
    reserve(num_states);
    int64_t state = 0;
    for (const int64_t chained : branching) {
      copy(state, chained);
      add(chained);
      state = chained + 1;
    }
    copy(state, arcs_.num_states);
    to_.arc_begin.push_back(static_cast<int64_t>(to_.dst.size()));
    Item result = item_like(item_);
    result.arcs = to_.arcs();
    result.labels = has_labels_ ? to_.alignments() : Alignments{};
    result.time = item_.time == nullptr ? nullptr : memory_->time.data();
    result.memory = std::move(memory_);
    result.written_arc = std::move(written_);
    return result;
  }

 private:
  struct Memory {
    LatticeArrays arrays;
    std::vector<int32_t> time;
  };

  int64_t length(int64_t arc) const { return forms_.length(forms_.code[arcs_.word[arc]]); }

  void reserve(int64_t num_states) {
    const size_t size = arcs_.num_arcs + (num_states - arcs_.num_states);  // a state of a chain has one arc
    for (auto* of_arcs : {&to_.dst, &to_.word}) of_arcs->reserve(size);
    for (auto* of_arcs : {&to_.graph, &to_.acoustic}) of_arcs->reserve(size);
    for (auto* of_states : {&to_.final_graph, &to_.final_acoustic}) of_states->reserve(num_states);
    to_.arc_begin.reserve(num_states + 1);
    written_->reserve(size);
    if (item_.time != nullptr) memory_->time.reserve(num_states);
    if (!has_labels_) return;
    to_.ali_begin.reserve(size + 1);
    to_.final_ali_begin.reserve(num_states + 1);
    to_.ali_begin.push_back(0);
    to_.final_ali_begin.push_back(0);
    to_.ali.reserve(item_.labels.ali_begin[arcs_.num_arcs]);
    to_.final_ali.reserve(item_.labels.final_ali_begin[arcs_.num_states]);
  }

  // Copies the states [first, last), in which no chains begin.
  void copy(int64_t first, int64_t last) {
    if (first == last) return;
    const int64_t begin = arcs_.arc_begin[first], end = arcs_.arc_begin[last];
    const int64_t arc_shift = static_cast<int64_t>(to_.dst.size()) - begin;
    for (int64_t state = first; state < last; ++state) to_.arc_begin.push_back(arcs_.arc_begin[state] + arc_shift);
    extend(to_.final_graph, arcs_.final_graph, first, last);
    extend(to_.final_acoustic, arcs_.final_acoustic, first, last);
    if (item_.time != nullptr) extend(memory_->time, item_.time, first, last);
    extend_lists(to_.final_ali, to_.final_ali_begin, item_.labels.final_ali, item_.labels.final_ali_begin, first, last);
    for (int64_t arc = begin; arc < end; ++arc) {
      to_.dst.push_back(number_[arcs_.dst[arc]]);
      to_.word.push_back(forms_.code[arcs_.word[arc]]);
      written_->push_back(arc);
    }
    extend(to_.graph, arcs_.graph, begin, end);
    extend(to_.acoustic, arcs_.acoustic, begin, end);
    extend_lists(to_.ali, to_.ali_begin, item_.labels.ali, item_.labels.ali_begin, begin, end);
  }

  template <typename T>
  static void extend(std::vector<T>& to, const T* from, int64_t first, int64_t last) {
    to.insert(to.end(), from + first, from + last);
  }

  template <typename T>
  void extend_lists(std::vector<T>& to, std::vector<int64_t>& to_begin, const T* from, const int64_t* begin,
                    int64_t first, int64_t last) {
    if (!has_labels_) return;
    const int64_t shift = static_cast<int64_t>(to.size()) - begin[first];
    for (int64_t list = first; list < last; ++list) to_begin.push_back(begin[list + 1] + shift);
    extend(to, from, begin[first], begin[last]);
  }

  // Adds a state, the first arcs of its chains, and the states of the chains with their arcs.
  void add(int64_t state) {
    add_state(arcs_.final_graph[state], arcs_.final_acoustic[state]);
    extend_lists(to_.final_ali, to_.final_ali_begin, item_.labels.final_ali, item_.labels.final_ali_begin, state,
                 state + 1);
    if (item_.time != nullptr) memory_->time.push_back(item_.time[state]);
    int32_t chain = number_[state] + 1;
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      add_arc(arc, 0, length(arc), chain);
      chain += static_cast<int32_t>(length(arc) - 1);
    }
    chain = number_[state] + 1;
    for (int64_t arc = arcs_.arc_begin[state]; arc < arcs_.arc_begin[state + 1]; ++arc) {
      const int64_t count = length(arc);
      for (int64_t piece = 1; piece < count; ++piece) {
        add_state(kInfinity, kInfinity);
        if (has_labels_) to_.final_ali_begin.push_back(static_cast<int64_t>(to_.final_ali.size()));
        if (item_.time != nullptr) {
          const int64_t step = static_cast<int64_t>(item_.time[arcs_.dst[arc]]) - item_.time[state];
          memory_->time.push_back(static_cast<int32_t>(item_.time[state] + step * piece / count));
        }
        add_arc(arc, piece, count, ++chain);
      }
    }
  }

  void add_state(float graph, float acoustic) {
    to_.arc_begin.push_back(static_cast<int64_t>(to_.dst.size()));
    to_.final_graph.push_back(graph);
    to_.final_acoustic.push_back(acoustic);
  }

  void add_arc(int64_t arc, int64_t piece, int64_t count, int32_t chain) {
    to_.dst.push_back(piece + 1 == count ? number_[arcs_.dst[arc]] : chain);
    to_.word.push_back(forms_.word(forms_.code[arcs_.word[arc]], piece));
    to_.graph.push_back(piece == 0 ? arcs_.graph[arc] : 0.0f);
    to_.acoustic.push_back(piece == 0 ? arcs_.acoustic[arc] : 0.0f);
    written_->push_back(piece == 0 ? arc : -1 - arc);
    if (!has_labels_) return;
    const int64_t first = item_.labels.ali_begin[arc], size = item_.labels.ali_begin[arc + 1] - first;
    extend(to_.ali, item_.labels.ali + first, size * piece / count, size * (piece + 1) / count);
    to_.ali_begin.push_back(static_cast<int64_t>(to_.ali.size()));
  }

  const Item& item_;
  const Arcs& arcs_;
  const Forms& forms_;
  const bool has_labels_;
  std::shared_ptr<Memory> memory_ = std::make_shared<Memory>();
  std::shared_ptr<std::vector<int64_t>> written_ = std::make_shared<std::vector<int64_t>>();
  LatticeArrays& to_ = memory_->arrays;
  std::vector<int32_t> number_;  // new number of each state
};

// Replaces words by their forms in each item that has a word different from its form. Unless `all` is true, items are
// skipped if `FormClashes` is false for them. Nothing is replaced while forms are unknown. The labels of lattices with
// chains are null pointers if `labels` is false.
inline FormWords form_words(const Items& items, const Forms& forms, bool all, bool labels) {
  FormWords result;
  std::vector<bool> listed;  // whether a word is in `unknown`
  const int32_t* const of_word = forms.code;
  const uint64_t size = forms.size;
  const auto is_changed = [=](int32_t word) { return static_cast<uint32_t>(word) >= size || of_word[word] != word; };
  // indices of items, and whether they have words with several lexical words
  std::vector<std::pair<int64_t, bool>> candidates;
  for (size_t place = 0; place < items.size(); ++place) {
    const int32_t* const end = items[place].arcs.word + items[place].arcs.num_arcs;
    bool has_several = false, has_other = false;
    for (const int32_t* at = items[place].arcs.word; (at = std::find_if(at, end, is_changed)) != end; ++at) {
      const int32_t word = *at, code = forms.of(word);
      has_other = true;
      has_several |= code <= kSeveralForms;
      if (code != kUnknownForm) continue;
      if (static_cast<uint32_t>(word) < size) {
        if (listed.empty()) listed.resize(size);
        if (listed[word]) continue;
        listed[word] = true;
      }
      result.unknown.push_back(word);
    }
    if (has_other) candidates.push_back({static_cast<int64_t>(place), has_several});
  }
  if (!result.unknown.empty()) return result;
  thread_local FormClashes have_clashes;
  for (const auto& [place, has_several] : candidates) {
    const Item& item = items[place];
    if (!all && !have_clashes(item.arcs, forms)) continue;
    if (result.items.empty()) result.items = items;
    result.items[place] = has_several ? ChainBuilder(item, forms, labels).build() : relabelled(item, forms);
    result.changed.push_back(place);
  }
  return result;
}

// The written form of each arc of some lexical lattices.
struct ArcForms {
  std::vector<int32_t> form;   // a written word, or -1 - n for the n-th part
  std::vector<int32_t> word;   // [num_parts], a written word with several lexical words
  std::vector<int32_t> piece;  // [num_parts], the index of one of its lexical words
};

// `written` are the original items, and `items` the same items after `form_words` has replaced the words at the indices
// `changed`.
inline ArcForms arc_forms(const Items& written, const Items& items, const int64_t* changed, int64_t num_changed) {
  ArcForms result;
  std::vector<int64_t> keys;                       // sorted keys of the parts of an item
  std::vector<std::pair<size_t, int64_t>> places;  // indices of the parts in `form`, and their keys
  std::vector<int32_t> count, piece;               // for each written arc
  for (const int64_t* place = changed; place != changed + num_changed; ++place) {
    const int64_t i = *place;
    const Arcs& arcs = written[i].arcs;
    if (items[i].written_arc == nullptr) {
      result.form.insert(result.form.end(), arcs.word, arcs.word + arcs.num_arcs);
      continue;
    }
    const std::vector<int64_t>& written_arc = *items[i].written_arc;
    const auto arc_of = [&](int64_t arc) { return arc < 0 ? -1 - arc : arc; };
    count.assign(arcs.num_arcs, 0);
    piece.assign(arcs.num_arcs, 0);
    for (const int64_t arc : written_arc) ++count[arc_of(arc)];
    keys.clear();
    places.clear();
    for (const int64_t of : written_arc) {  // the arcs of a chain are in order
      const int64_t arc = arc_of(of);
      if (count[arc] > 1) {
        keys.push_back(static_cast<int64_t>(arcs.word[arc]) << 32 | piece[arc]++);
        places.push_back({result.form.size(), keys.back()});
      }
      result.form.push_back(arcs.word[arc]);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const auto first = static_cast<int64_t>(result.word.size());
    for (const auto& [arc, key] : places) {
      const int64_t at = std::lower_bound(keys.begin(), keys.end(), key) - keys.begin();
      result.form[arc] = static_cast<int32_t>(-1 - (first + at));
    }
    for (const int64_t key : keys) {
      result.word.push_back(static_cast<int32_t>(key >> 32));
      result.piece.push_back(static_cast<int32_t>(key));
    }
  }
  return result;
}

}  // namespace ninja
