// Searches several lattices in parallel, so that the language model is called with large batches.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "search/expansion.hpp"
#include "search/level_search.hpp"
#include "search/merged_lattice.hpp"
#include "search/pruned_search.hpp"

namespace ninja {

class Expander {
 public:
  Expander(const SearchOptions& options, int64_t root_slot) : options_(options), histories_(root_slot) {}

  // Adds a lattice, whose arrays must outlive `remove`, and returns its ticket. The language model first reads the
  // words of `context`.
  int32_t add(const Arcs& arcs, const int32_t* lm_word, const float* extra, const std::vector<int32_t>& context) {
    int32_t ticket = static_cast<int32_t>(places_.size());
    if (free_.empty()) {
      places_.emplace_back();
    } else {
      ticket = free_.back();
      free_.pop_back();
    }
    Place& place = places_[ticket];
    int32_t root = Histories::root();
    for (int32_t word : context) {
      root = histories_.intern(root, word);
      place.context.push_back(root);
    }
    if (options_.pruned) {  // Kaldi does not merge arcs and states either
      place.search = std::make_unique<PrunedSearch>(arcs, lm_word, extra, options_, histories_, root);
    } else {
      place.merged = std::make_unique<MergedLattice>(arcs, lm_word, extra);
      place.search = std::make_unique<LevelSearch>(place.merged->arcs(), place.merged->lm_word(), place.merged->extra(),
                                                   options_, histories_, root);
    }
    return ticket;
  }

  // Collects the requests of every running search.
  void gather() {
    wave_.clear();
    for (Place& place : places_) {
      if (!place.running()) continue;
      while (place.num_read < place.context.size() && histories_.slot(place.context[place.num_read]) >= 0) {
        if (place.num_read > 0) histories_.drop(place.context[place.num_read - 1]);
        ++place.num_read;
      }
      place.reading = place.num_read < place.context.size();
      if (place.reading) {
        wave_.make(histories_, place.context[place.num_read]);
      } else {
        place.search->gather(wave_);
      }
    }
  }

  // Takes the answers: a slot for each new history, and a log-probability for each word to score.
  void scatter(const int64_t* slots, const float* logprob) {
    for (size_t i = 0; i < wave_.advance_history.size(); ++i) {
      histories_.pending(wave_.advance_history[i]) = -1;
      histories_.set_slot(wave_.advance_history[i], slots[i]);
    }
    for (Place& place : places_) {
      if (place.running() && !place.reading) place.search->scatter(logprob);
    }
  }

  // Tickets of the searches that have ended, successfully or not, and have not been removed yet.
  std::vector<int32_t> ended() const {
    std::vector<int32_t> tickets;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].search && !places_[i].running()) tickets.push_back(static_cast<int32_t>(i));
    }
    return tickets;
  }

  // Ends a running search between two waves; see `Search::stop`.
  bool stop(int32_t ticket) { return places_[ticket].running() && places_[ticket].search->stop(); }

  const Search& search(int32_t ticket) const { return *places_[ticket].search; }

  // The result of an ended search: copies of the states and arcs of its lattice. Returns false if there are more than
  // `max_arcs` arcs.
  bool expanded(int32_t ticket, int64_t max_arcs, Copies& out) const {
    out = expansion(search(ticket));
    const MergedLattice* merged = places_[ticket].merged.get();
    return merged == nullptr || merged->unfold(out, max_arcs);
  }

  // The graph cost of each arc and final state of the lattice on the best path of the result that contains it; see
  // `replaced_costs`.
  void replaced(int32_t ticket, float* graph, float* final_graph) const {
    const MergedLattice* merged = places_[ticket].merged.get();
    const Arcs& arcs = search(ticket).arcs();
    std::vector<float> of_arc(arcs.num_arcs), of_end(arcs.num_states);
    const bool is_copied = merged != nullptr && merged->has_merged();
    replaced_costs(expansion(search(ticket)), arcs, options_.acoustic_scale, options_.word_penalty,
                   is_copied ? of_arc.data() : graph, is_copied ? of_end.data() : final_graph);
    if (is_copied) merged->spread(of_arc.data(), of_end.data(), graph, final_graph);
  }

  void remove(int32_t ticket) {
    places_[ticket].search->release();
    const Place& place = places_[ticket];
    for (size_t i = place.num_read > 0 ? place.num_read - 1 : 0; i < place.context.size(); ++i) {
      histories_.drop(place.context[i]);
    }
    places_[ticket] = {};
    free_.push_back(ticket);
  }

  const Wave& wave() const { return wave_; }
  std::vector<int64_t>& released() { return histories_.released(); }
  std::vector<int64_t> slots() const { return histories_.slots(); }

 private:
  struct Place {
    std::unique_ptr<MergedLattice> merged;  // the lattice that `search` visits; null if it visits the original
    std::unique_ptr<Search> search;
    std::vector<int32_t> context;  // histories of the context words; each is held until the next one is read
    size_t num_read = 0;           // number of context words that the model has read
    bool reading = false;          // whether the lattice requests a context word in the current wave

    bool running() const { return search && search->status() == SearchStatus::kRunning; }
  };

  const SearchOptions options_;
  Histories histories_;
  Wave wave_;
  std::vector<Place> places_;
  std::vector<int32_t> free_;
};

}  // namespace ninja
