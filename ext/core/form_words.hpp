// Lattices in which words are replaced by the numbers of their lexical forms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/batch.hpp"

namespace ninja {

// Codes of words: 0 for words without lexical words, kUnknownForm, kSeveralForms - k for the k-th form of several
// lexical words, otherwise the number of the only lexical word, which is the word itself or a number from
// kFirstOtherForm on.
constexpr int32_t kUnknownForm = -1;
constexpr int32_t kSeveralForms = -2;
constexpr int32_t kFirstOtherForm = 1 << 30;

struct Forms {
  const int32_t* code;   // [size]
  int64_t size;          // number of words
  const int64_t* begin;  // [num_several + 1], offsets in `part`
  const int32_t* part;   // numbers of the lexical words of words with several
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
  // words whose form is not known, or that are beyond the table; the latter may occur several times
  std::vector<int32_t> unknown;
  std::vector<int64_t> changed;  // indices of items in which words are replaced
  Items items;                   // all items, if some are changed; they borrow the other arrays
};

// Whether an item has different words with the same form, or a word without lexical words or with several.
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

// The same arrays with words replaced by the numbers of their forms, each of at most one lexical word.
inline Item relabelled(const Item& item, const Forms& forms) {
  Item result = item;
  auto word = std::make_shared<std::vector<int32_t>>(item.arcs.word, item.arcs.word + item.arcs.num_arcs);
  for (int32_t& number : *word) number = forms.code[number];
  result.arcs.word = word->data();
  result.memory = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(item.memory, word);
  return result;
}

// A lattice with a chain of arcs for each word with several lexical words. The first arc of a chain has the costs;
// labels and times are divided evenly. The states of a chain follow the state in which it begins, in the order of the
// arcs.
inline Item with_chains(const Item& item, const Forms& forms) {
  struct Memory {
    LatticeArrays arrays;
    std::vector<int32_t> time;
  };
  const Arcs& arcs = item.arcs;
  auto memory = std::make_shared<Memory>();
  auto written = std::make_shared<std::vector<int64_t>>();
  LatticeArrays& to = memory->arrays;
  std::vector<int32_t>& time = memory->time;
  std::vector<int32_t> number(arcs.num_states);
  int64_t num_states = 0;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    number[state] = static_cast<int32_t>(num_states++);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      num_states += forms.length(forms.code[arcs.word[arc]]) - 1;
    }
  }
  to.ali_begin.push_back(0);
  to.final_ali_begin.push_back(0);
  const auto add_state = [&](float graph, float acoustic) {
    to.arc_begin.push_back(static_cast<int64_t>(to.dst.size()));
    to.final_graph.push_back(graph);
    to.final_acoustic.push_back(acoustic);
  };
  const auto add_arc = [&](int64_t arc, int64_t piece, int64_t count, int32_t chain) {
    const int64_t first = item.labels.ali_begin[arc], labels = item.labels.ali_begin[arc + 1] - first;
    to.dst.push_back(piece + 1 == count ? number[arcs.dst[arc]] : chain);
    to.word.push_back(forms.word(forms.code[arcs.word[arc]], piece));
    to.graph.push_back(piece == 0 ? arcs.graph[arc] : 0.0f);
    to.acoustic.push_back(piece == 0 ? arcs.acoustic[arc] : 0.0f);
    to.ali.insert(to.ali.end(), item.labels.ali + first + labels * piece / count,
                  item.labels.ali + first + labels * (piece + 1) / count);
    to.ali_begin.push_back(static_cast<int64_t>(to.ali.size()));
    written->push_back(piece == 0 ? arc : -1 - arc);
  };
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    add_state(arcs.final_graph[state], arcs.final_acoustic[state]);
    const int64_t first_label = item.labels.final_ali_begin[state], end = item.labels.final_ali_begin[state + 1];
    to.final_ali.insert(to.final_ali.end(), item.labels.final_ali + first_label, item.labels.final_ali + end);
    to.final_ali_begin.push_back(static_cast<int64_t>(to.final_ali.size()));
    if (item.time != nullptr) time.push_back(item.time[state]);
    int32_t chain = number[state] + 1;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t count = forms.length(forms.code[arcs.word[arc]]);
      add_arc(arc, 0, count, chain);
      chain += static_cast<int32_t>(count - 1);
    }
    chain = number[state] + 1;
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t count = forms.length(forms.code[arcs.word[arc]]);
      for (int64_t piece = 1; piece < count; ++piece) {
        add_state(kInfinity, kInfinity);
        to.final_ali_begin.push_back(static_cast<int64_t>(to.final_ali.size()));
        if (item.time != nullptr) {
          const int64_t step = static_cast<int64_t>(item.time[arcs.dst[arc]]) - item.time[state];
          time.push_back(static_cast<int32_t>(item.time[state] + step * piece / count));
        }
        add_arc(arc, piece, count, ++chain);
      }
    }
  }
  to.arc_begin.push_back(static_cast<int64_t>(to.dst.size()));
  Item result = item_like(item);
  result.arcs = to.arcs();
  result.labels = to.alignments();
  result.time = item.time == nullptr ? nullptr : time.data();
  result.memory = std::move(memory);
  result.written_arc = std::move(written);
  return result;
}

// Replaces words in items with a word that differs from its form: in all such items, or only in those with different
// words that become equal. Nothing is replaced while forms are unknown.
inline FormWords form_words(const Items& items, const Forms& forms, bool all) {
  FormWords result;
  std::vector<bool> listed(forms.size);
  // indices of items, and whether they have words with several lexical words
  std::vector<std::pair<int64_t, bool>> candidates;
  for (size_t place = 0; place < items.size(); ++place) {
    const Arcs& arcs = items[place].arcs;
    bool has_several = false, has_other = false;
    for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
      const int32_t word = arcs.word[arc], code = forms.of(word);
      if (code == word) continue;
      has_other = true;
      has_several |= code <= kSeveralForms;
      if (code != kUnknownForm) continue;
      if (static_cast<uint32_t>(word) < static_cast<uint64_t>(forms.size)) {
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
    result.items[place] = has_several ? with_chains(item, forms) : relabelled(item, forms);
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

// `written` are the lattices whose words were replaced in `items`, at the places `changed`.
inline ArcForms arc_forms(const Items& written, const Items& items, const int64_t* changed, int64_t num_changed) {
  ArcForms result;
  std::vector<int64_t> keys;                       // sorted keys of the parts of an item
  std::vector<std::pair<size_t, int64_t>> places;  // indices of the parts in `form`, and their keys
  std::vector<int32_t> count, piece;               // by written arc
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
