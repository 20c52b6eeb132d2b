// The written forms of the words of a confusion network.
#pragma once

#include <cstdint>
#include <vector>

#include "consensus/mbr_statistics.hpp"

namespace ninja {

// Forms are word ids, or negative numbers of parts of words. All links with a form have the same lexical word.
struct WrittenForms {
  std::vector<int32_t> form;      // [entries], the most probable form of each word in its bin, 0 for none
  std::vector<int32_t> whole;     // [entries], the most probable form that is a whole word, 0 for none
  std::vector<int32_t> mark;      // [bins], the form without words (a mark) that is more probable than no mark, or 0
  std::vector<float> mark_share;  // [bins], posterior of the mark
  std::vector<float> mark_time;   // [bins, 2], average begin and end of the mark
};

// Sums of the posteriors of each form in each bin, from a backward pass over the links relabelled by their forms.
class FormStatistics {
 public:
  // Find the forms of the entries of bins, whose words are `word`, for a hypothesis of `places` places. This relabels
  // the links of the lattice and overwrites the distances.
  void find(MbrLattice& lattice, Distances& distances, int32_t places, double negligible, std::vector<char>& touched,
            const std::vector<int32_t>& word, const std::vector<int64_t>& bin_begin, WrittenForms& written) {
    written.form.assign(word.size(), 0);
    written.whole.assign(word.size(), 0);
    written.mark.assign(places, 0);
    written.mark_share.assign(places, 0.0f);
    written.mark_time.assign(2 * static_cast<size_t>(places), 0.0f);
    if (number_forms(lattice)) {  // each word has one form
      for (size_t entry = 0; entry < word.size(); ++entry) {
        const int32_t slot = lattice.slots.find(word[entry]);
        if (word[entry] != 0 && slot >= 0) take(form_of_[slot], entry, written);
      }
      return;
    }
    for (MbrLattice::Link& link : lattice.link) {
      link.slot = slots_.find(link.form);
      if (link.word != 0) link.word = link.form;
    }
    accumulate<true>(lattice, slots_.size(), distances, places, negligible, statistics_, touched);
    const std::vector<Statistics::Entry>& forms = statistics_.sorted(begin_);
    share_.assign(word.size(), 0.0f);
    whole_share_.assign(word.size(), 0.0f);
    entry_of_.assign(lattice.slots.size(), -1);
    for (int64_t bin = 0; bin < places; ++bin) {
      for (int64_t entry = bin_begin[bin]; entry < bin_begin[bin + 1]; ++entry) {
        entry_of_[lattice.slots.find(word[entry])] = entry;
      }
      double marks = 0.0;
      const Statistics::Entry* mark = nullptr;
      for (int64_t at = begin_[bin]; at < begin_[bin + 1]; ++at) {
        const Statistics::Entry& form = forms[at];
        if (form.word == 0) continue;
        const int32_t of = word_of_[slots_.find(form.word)];
        if (of == 0) {
          marks += form.gamma;
          if (mark == nullptr || precedes(form, static_cast<float>(mark->gamma), mark->word)) mark = &form;
          continue;
        }
        const int64_t entry = entry_of_[lattice.slots.find(of)];
        if (precedes(form, share_[entry], written.form[entry])) {
          written.form[entry] = form.word;
          share_[entry] = static_cast<float>(form.gamma);
        }
        if (form.word > 0 && precedes(form, whole_share_[entry], written.whole[entry])) {
          written.whole[entry] = form.word;
          whole_share_[entry] = static_cast<float>(form.gamma);
        }
      }
      if (mark != nullptr && mark->gamma > 1.0 - marks) {
        written.mark[bin] = mark->word;
        written.mark_share[bin] = static_cast<float>(std::min(mark->gamma, 1.0));
        written.mark_time[2 * bin] = static_cast<float>(mark->begin / mark->gamma);
        written.mark_time[2 * bin + 1] = static_cast<float>(mark->end / mark->gamma);
      }
    }
  }

  size_t bytes() const { return statistics_.bytes(); }

 private:
  // Number the forms of the links. Return whether each word has one form and there are no marks.
  bool number_forms(const MbrLattice& lattice) {
    slots_.clear();
    slots_.add(0);
    word_of_.assign(1, 0);
    form_of_.assign(lattice.slots.size(), 0);
    bool marks = false;
    for (const MbrLattice::Link& link : lattice.link) {
      marks |= is_mark(link);
      const int32_t slot = slots_.add(link.form);
      if (slot < static_cast<int32_t>(word_of_.size())) continue;
      word_of_.push_back(link.word);
      form_of_[link.slot] = link.form;
    }
    return !marks && slots_.size() == lattice.slots.size();
  }

  static void take(int32_t form, size_t entry, WrittenForms& written) {
    written.form[entry] = form;
    if (form > 0) written.whole[entry] = form;
  }

  // Whether a form is more probable, or equally probable and has a smaller id.
  static bool precedes(const Statistics::Entry& form, float share, int32_t id) {
    const auto gamma = static_cast<float>(form.gamma);
    return id == 0 || gamma > share || (gamma == share && form.word < id);
  }

  WordSlots slots_;                // of forms
  std::vector<int32_t> word_of_;   // [forms], 0 for marks
  std::vector<int32_t> form_of_;   // [words], the first form of each word
  std::vector<int64_t> entry_of_;  // [words], entry in the current or an earlier bin
  std::vector<float> share_, whole_share_;
  std::vector<int64_t> begin_;
  Statistics statistics_;
};

}  // namespace ninja
