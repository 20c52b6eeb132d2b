// All lattices in flight, searched side by side so that the language model is asked in large batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search.hpp"

namespace ninja {

class Expander {
 public:
  Expander(const SearchOptions& options, int64_t root_slot) : options_(options), histories_(root_slot) {}

  // Takes a lattice in; its arrays must stay until `remove`. Returns its ticket.
  int32_t add(const Arcs& arcs, const int32_t* lm_word, const float* extra) {
    int32_t ticket = static_cast<int32_t>(searches_.size());
    if (free_.empty()) {
      searches_.emplace_back();
    } else {
      ticket = free_.back();
      free_.pop_back();
    }
    searches_[ticket] = std::make_unique<Search>(arcs, lm_word, extra, options_, histories_);
    return ticket;
  }

  // Collects the questions of every running search.
  void gather() {
    wave_.clear();
    for (auto& search : searches_) {
      if (search && search->status() == SearchStatus::kRunning) search->gather(wave_);
    }
  }

  // Takes the answers: a slot for each history to make and a log-probability for each question.
  void scatter(const int64_t* slots, const float* logprob) {
    for (size_t i = 0; i < wave_.advance_history.size(); ++i) {
      histories_.pending(wave_.advance_history[i]) = -1;
      histories_.set_slot(wave_.advance_history[i], slots[i]);
    }
    for (auto& search : searches_) {
      if (search && search->status() == SearchStatus::kRunning) search->scatter(logprob);
    }
  }

  // Tickets of the searches that have ended since, well or not.
  std::vector<int32_t> ended() const {
    std::vector<int32_t> tickets;
    for (size_t i = 0; i < searches_.size(); ++i) {
      if (searches_[i] && searches_[i]->status() != SearchStatus::kRunning) tickets.push_back(static_cast<int32_t>(i));
    }
    return tickets;
  }

  const Search& search(int32_t ticket) const { return *searches_[ticket]; }

  void remove(int32_t ticket) {
    searches_[ticket]->release();
    searches_[ticket].reset();
    free_.push_back(ticket);
  }

  const Wave& wave() const { return wave_; }
  std::vector<int64_t>& released() { return histories_.released(); }
  std::vector<int64_t> slots() const { return histories_.slots(); }

 private:
  const SearchOptions options_;
  Histories histories_;
  Wave wave_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<int32_t> free_;
};

}  // namespace ninja
