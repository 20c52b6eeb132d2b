// Level-by-level search: hypotheses, each with its word history, are extended along the levels of the lattice.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "search/first_pass.hpp"
#include "search/search.hpp"

namespace ninja {

class LevelSearch final : public Search {
 public:
  LevelSearch(const Arcs& arcs, const int32_t* lm_word, const float* extra, const SearchOptions& options,
              Histories& histories, int32_t root)
      : Search(arcs, lm_word, extra, options, histories, root) {
    pass_ = first_pass(arcs, options.acoustic_scale, options.word_penalty, options.first_pass_beam);
    if (pass_.best == kNever) {
      status_ = SearchStatus::kNoPath;
      return;
    }
    for (int32_t state = 0; pass_.next_arc[state] >= 0; state = arcs.dst[pass_.next_arc[state]]) {
      best_arcs_.push_back(pass_.next_arc[state]);
      best_end_ = arcs.dst[pass_.next_arc[state]];
    }
    head_.assign(arcs.num_states, -1);
    kept_on_arc_.assign(arcs.num_arcs, 0);
    correction_.assign(arcs.num_states, 0.0);
    if (options.calibrate || std::isfinite(options.beam)) {
      histories_.hold(root_);
      best_histories_.push_back(root_);
    } else {
      begin();
    }
  }

  void gather(Wave& wave) override {
    if (level_ < 0) {
      gather_best(wave);
    } else {
      gather_level(wave);
    }
  }

  void scatter(const float* logprob) override {
    if (level_ < 0) {
      scatter_best(logprob);
    } else {
      scatter_level(logprob);
    }
  }

  // The rest of the path keeps its first-pass costs, plus the changes that the look-ahead expects.
  bool stop() override {
    int32_t best = -1;
    for (int32_t state = 0; level_ >= 0 && state < arcs_.num_states; ++state) {
      for (int32_t c = head_[state]; c >= 0; c = candidates_[c].next) {
        if (best < 0 || candidates_[c].prospect < candidates_[best].prospect) best = c;
      }
    }
    if (best < 0 || candidates_[best].from < 0) return false;
    const Candidate& candidate = candidates_[best];
    int32_t state = arcs_.dst[candidate.arc];
    links_.push_back({candidate.from, static_cast<int32_t>(hyps_.size()), candidate.arc, candidate.graph});
    hyps_.push_back({state, kInfinity});
    while (pass_.next_arc[state] >= 0) {
      const int32_t arc = pass_.next_arc[state], from = static_cast<int32_t>(hyps_.size()) - 1;
      state = arcs_.dst[arc];
      links_.push_back({from, from + 1, arc, rounded(arcs_.graph[arc] + expected(arc))});
      hyps_.push_back({state, kInfinity});
    }
    hyps_.back().final_graph = rounded(arcs_.final_graph[state] + correction_[state]);
    live_.resize(hyps_.size());
    first_live_ = static_cast<int32_t>(hyps_.size());
    status_ = overflows_ ? SearchStatus::kOverflow : SearchStatus::kDone;
    return true;
  }

  void release() override {
    for (int32_t history : best_histories_) histories_.drop(history);
    best_histories_.clear();
    drop_live();
    for (int32_t head : head_) {
      for (int32_t c = head; c >= 0; c = candidates_[c].next) histories_.drop(candidates_[c].history);
    }
    head_.clear();
  }

 private:
  struct Live {  // an active hypothesis
    double cost;
    int32_t history;
    bool on_best;  // whether the words are a prefix of the first pass's best path; such a hypothesis always survives
  };
  struct Candidate {
    double cost;
    double prospect;
    int32_t from;
    int32_t arc;
    int32_t history;
    float graph;
    int32_t next;
    bool on_best;
  };
  struct Group {  // candidates in a state whose histories are considered equal
    double prospect;
    int32_t winner;
    int32_t state;
    bool keep;
    bool on_best;
  };
  // Open-addressing table of groups, which is cleared in time proportional to the expected number of groups.
  class GroupTable {
   public:
    void clear(size_t expected) {
      size_t size = 16;
      while (size < 2 * expected) size *= 2;
      cells_.assign(size, -1);
    }
    int32_t& at(uint64_t place) { return cells_[place & (cells_.size() - 1)]; }

   private:
    std::vector<int32_t> cells_;
  };
  struct Ask {
    int32_t hyp;
    int32_t arc;    // -1 for the end of the sentence
    int32_t place;  // index of the answer; -1 for an arc without a word
  };

  double old_cost(int32_t arc) const { return arc_cost(arc, arcs_.graph[arc]); }
  double ahead(int32_t state) const { return options_.look_ahead ? pass_.ahead[state] + correction_[state] : 0.0; }

  // The best path of the first pass is scored first: its new cost is an upper bound on the best cost, and the
  // difference of the models along it corrects the look-ahead (Kaldi's delta, which this search knows exactly from the
  // start).
  void gather_best(Wave& wave) {
    while (position_ < best_arcs_.size() && lm_word_[best_arcs_[position_]] < 0) {
      best_graph_.push_back(new_graph(arcs_.graph[best_arcs_[position_++]], 0.0));
    }
    int32_t word = position_ < best_arcs_.size() ? lm_word_[best_arcs_[position_]] : options_.eos;
    asks_.assign(1, {0, 0, wave.ask(histories_, best_histories_.back(), word)});
  }

  void scatter_best(const float* logprob) {
    double surprise = -logprob[asks_[0].place];
    if (!std::isfinite(surprise)) {
      status_ = SearchStatus::kNotFinite;
      return;
    }
    if (position_ < best_arcs_.size()) {
      int32_t arc = best_arcs_[position_++];
      best_graph_.push_back(new_graph(arcs_.graph[arc], surprise + extra_[arc]));
      best_histories_.push_back(histories_.intern(best_histories_.back(), lm_word_[arc]));
      return;
    }
    double total = final_cost(best_end_, new_graph(arcs_.final_graph[best_end_], surprise));
    for (size_t i = best_arcs_.size(); i-- > 0;) {
      int32_t arc = best_arcs_[i];
      if (options_.calibrate) correction_[arcs_.dst[arc]] = total - pass_.ahead[arcs_.dst[arc]];
      total += arc_cost(arc, best_graph_[i]);
    }
    if (!std::isfinite(total)) {
      status_ = SearchStatus::kOverflow;
      return;
    }
    best_complete_ = total;
    if (options_.calibrate) calibrate(surprise, total - pass_.best);
    begin();
  }

  // Elsewhere, the completion follows the first pass until it meets the best path. The share of the old graph costs
  // that is removed from arcs without words and from the end is known (n-best lists have all their graph cost there).
  // Each word is expected to change its cost by the mean change of the words on the best path, and the end by the same
  // amount as the end of the best path.
  void calibrate(double surprise_at_end, double difference) {
    int64_t words = 0;
    double of_words = 0.0;
    std::vector<char> known(arcs_.num_states, 0);
    known[0] = 1;
    for (size_t i = 0; i < best_arcs_.size(); ++i) {
      const int32_t arc = best_arcs_[i];
      known[arcs_.dst[arc]] = 1;
      if (lm_word_[arc] < 0) continue;
      ++words;
      of_words += best_graph_[i] - arcs_.graph[arc];
    }
    per_word_ = words > 0 ? of_words / static_cast<double>(words) : difference;
    correction_[0] = difference;
    for (int64_t state = arcs_.num_states - 1; state >= 0; --state) {
      if (known[state]) continue;
      const int32_t arc = pass_.next_arc[state];
      if (arc >= 0) {
        correction_[state] = correction_[arcs_.dst[arc]] + expected(arc);
      } else if (is_final(arcs_, state)) {
        const double old = arcs_.final_graph[state];
        correction_[state] = new_graph(old, surprise_at_end) - old;
      }
    }
  }

  // The expected change of an arc's graph cost.
  double expected(int32_t arc) const {
    if (lm_word_[arc] >= 0) return per_word_;
    return options_.calibrate ? new_graph(arcs_.graph[arc], 0.0) - arcs_.graph[arc] : 0.0;
  }

  void begin() {
    level_ = 0;
    histories_.hold(root_);
    candidates_.push_back({0.0, ahead(0), -1, -1, root_, 0.0f, -1, true});
    head_[0] = 0;
  }

  void gather_level(Wave& wave) {
    groups_.clear();
    accepted_.clear();
    for (int32_t i = pass_.level_begin[level_]; i < pass_.level_begin[level_ + 1]; ++i) recombine(pass_.order[i]);
    if (options_.max_active > 0 && static_cast<int64_t>(groups_.size()) > options_.max_active) limit_active();

    first_live_ = static_cast<int32_t>(hyps_.size());
    group_hyp_.assign(groups_.size(), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].keep) continue;
      const Candidate& winner = candidates_[groups_[g].winner];
      group_hyp_[g] = static_cast<int32_t>(hyps_.size());
      hyps_.push_back({groups_[g].state, kInfinity});
      live_.push_back({winner.cost, winner.history, groups_[g].on_best});
      histories_.hold(winner.history);
    }
    for (const auto& [group, c] : accepted_) {
      const Candidate& candidate = candidates_[c];
      if (group >= 0 && group_hyp_[group] >= 0 && candidate.from >= 0) {
        links_.push_back({candidate.from, group_hyp_[group], candidate.arc, candidate.graph});
      }
      histories_.drop(candidate.history);
      free_.push_back(c);
    }

    asks_.clear();
    for (int32_t h = first_live_; h < static_cast<int32_t>(hyps_.size()); ++h) {
      if (static_cast<int64_t>(links_.size() + asks_.size()) > options_.max_arcs) {
        status_ = SearchStatus::kTooLarge;
        return;
      }
      ask_onward(wave, h);
    }
  }

  // Selects the surviving hypotheses of a state in order of prospect. In a tie, the candidate with the lower index
  // wins; it is not necessarily older, because indices are reused.
  void recombine(int32_t state) {
    sorted_.clear();
    for (int32_t c = head_[state]; c >= 0; c = candidates_[c].next) sorted_.push_back(c);
    head_[state] = -1;
    std::sort(sorted_.begin(), sorted_.end(), [&](int32_t a, int32_t b) {
      const Candidate &x = candidates_[a], &y = candidates_[b];
      return x.prospect != y.prospect ? x.prospect < y.prospect : a < b;
    });
    const double limit = best_complete_ + options_.beam;
    const size_t first_group = groups_.size();
    table_.clear(sorted_.size());
    for (int32_t c : sorted_) {
      const Candidate& candidate = candidates_[c];
      accepted_.push_back({-1, c});
      if (candidate.prospect > limit && !candidate.on_best) continue;
      int32_t& group = find_group(candidate.history);
      if (group < 0) {
        int64_t kept = options_.per_arc ? (candidate.arc < 0 ? 0 : kept_on_arc_[candidate.arc])
                                        : static_cast<int64_t>(groups_.size() - first_group);
        if (options_.max_hyps > 0 && kept >= options_.max_hyps && !candidate.on_best) continue;
        group = static_cast<int32_t>(groups_.size());
        groups_.push_back({candidate.prospect, c, state, true, candidate.on_best});
      } else if (candidate.on_best) {
        groups_[group].on_best = true;
      }
      if (candidate.arc >= 0) ++kept_on_arc_[candidate.arc];
      accepted_.back().first = group;
    }
  }

  // The table entry of the group of hypotheses with the same last words as `history`; -1 if there is no group yet.
  int32_t& find_group(int32_t history) {
    uint64_t place = histories_.suffix_hash(history, options_.merge_order);
    for (;; ++place) {
      int32_t& group = table_.at(place);
      if (group < 0) return group;
      if (histories_.same_suffix(candidates_[groups_[group].winner].history, history, options_.merge_order)) {
        return group;
      }
    }
  }

  void limit_active() {
    ranked_.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) ranked_[g] = static_cast<int32_t>(g);
    std::nth_element(ranked_.begin(), ranked_.begin() + options_.max_active, ranked_.end(), [&](int32_t a, int32_t b) {
      return groups_[a].prospect != groups_[b].prospect ? groups_[a].prospect < groups_[b].prospect : a < b;
    });
    for (size_t i = options_.max_active; i < ranked_.size(); ++i) {
      groups_[ranked_[i]].keep = groups_[ranked_[i]].on_best;
    }
  }

  void ask_onward(Wave& wave, int32_t h) {
    const Live& hyp = live_[h];
    const int32_t state = hyps_[h].state;
    const double limit = best_complete_ + options_.first_pass_beam;
    if (is_final(arcs_, state)) asks_.push_back({h, -1, wave.ask(histories_, hyp.history, options_.eos)});
    for (int64_t a = arcs_.arc_begin[state]; a < arcs_.arc_begin[state + 1]; ++a) {
      int32_t arc = static_cast<int32_t>(a);
      if (!pass_.alive[arc]) continue;
      double guess = hyp.cost + old_cost(arc) + expected(arc) + ahead(arcs_.dst[arc]);
      bool on_best = hyp.on_best && pass_.next_arc[state] == arc;
      if (guess > limit && !on_best) continue;
      int32_t place = lm_word_[arc] < 0 ? -1 : wave.ask(histories_, hyp.history, lm_word_[arc]);
      asks_.push_back({h, arc, place});
    }
  }

  void scatter_level(const float* logprob) {
    for (const Ask& ask : asks_) {
      double surprise = ask.place < 0 ? 0.0 : -static_cast<double>(logprob[ask.place]);
      if (!std::isfinite(surprise)) {
        status_ = SearchStatus::kNotFinite;
        return;
      }
      if (ask.arc < 0) {
        finish(ask.hyp, surprise);
      } else {
        push(ask, surprise);
      }
    }
    num_expanded_ += static_cast<int64_t>(asks_.size());
    drop_live();
    if (++level_ + 1 == static_cast<int32_t>(pass_.level_begin.size())) status_ = SearchStatus::kDone;
    if (overflows_) status_ = SearchStatus::kOverflow;
  }

  void drop_live() {
    for (int32_t h = first_live_; h < static_cast<int32_t>(hyps_.size()); ++h) histories_.drop(live_[h].history);
    first_live_ = static_cast<int32_t>(hyps_.size());
  }

  void finish(int32_t h, double surprise) {
    double graph = new_graph(arcs_.final_graph[hyps_[h].state], surprise);
    hyps_[h].final_graph = rounded(graph);
    best_complete_ = std::min(best_complete_, live_[h].cost + final_cost(hyps_[h].state, graph));
  }

  void push(const Ask& ask, double surprise) {
    const Live& hyp = live_[ask.hyp];
    const int32_t arc = ask.arc, dst = arcs_.dst[arc];
    double graph = new_graph(arcs_.graph[arc], surprise + extra_[arc]);
    double cost = hyp.cost + arc_cost(arc, graph);
    double prospect = cost + ahead(dst);
    bool on_best = hyp.on_best && pass_.next_arc[hyps_[ask.hyp].state] == arc;
    if (prospect > best_complete_ + options_.beam && !on_best) return;
    int32_t history = hyp.history;
    if (lm_word_[arc] < 0) {
      histories_.hold(history);
    } else {
      history = histories_.intern(history, lm_word_[arc]);
    }
    Candidate candidate{cost, prospect, ask.hyp, arc, history, rounded(graph), head_[dst], on_best};
    if (free_.empty()) {
      head_[dst] = static_cast<int32_t>(candidates_.size());
      candidates_.push_back(candidate);
    } else {
      head_[dst] = free_.back();
      free_.pop_back();
      candidates_[head_[dst]] = candidate;
    }
  }

  FirstPass pass_;
  std::vector<int32_t> best_arcs_;       // arcs of the first pass's best path
  std::vector<double> best_graph_;       // their new graph costs
  std::vector<int32_t> best_histories_;  // their histories, held until the search ends
  size_t position_ = 0;
  int32_t best_end_ = 0;
  std::vector<double> correction_;  // [num_states] correction of the look-ahead
  double per_word_ = 0.0;
  double best_complete_ = kNever;

  int32_t level_ = -1;
  int32_t first_live_ = 0;  // hypotheses from this index on hold their histories
  std::vector<Live> live_;  // [num_hypotheses]
  std::vector<Candidate> candidates_;
  std::vector<int32_t> free_;         // unused indices in candidates_
  std::vector<int32_t> head_;         // [num_states] first candidate waiting in the state
  std::vector<int32_t> kept_on_arc_;  // [num_arcs] number of surviving hypotheses that use the arc

  std::vector<Ask> asks_;  // this member and all members below are scratch space for one level
  std::vector<Group> groups_;
  std::vector<int32_t> group_hyp_;
  std::vector<std::pair<int32_t, int32_t>> accepted_;  // (group or -1, candidate)
  std::vector<int32_t> sorted_, ranked_;
  GroupTable table_;
};

}  // namespace ninja
