// Pruned composition: arcs are expanded in order of the expected cost of a complete path.
// Source: Xu et al. 2018; Kaldi, lattice-lmrescore-kaldi-rnnlm-pruned, with the same order of expansion, also in ties.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "search/contexts.hpp"
#include "search/exits.hpp"
#include "core/pair_map.hpp"
#include "search/search.hpp"

namespace ninja {

// A state is a pair of a lattice state and a context. Kaldi scores one word per step; this search continues until a
// score is missing, and then requests all scores that it will probably need, which does not change the result.
class PrunedSearch final : public Search {
 public:
  PrunedSearch(const Arcs& arcs, const int32_t* lm_word, const float* extra, const SearchOptions& options,
               Histories& histories, int32_t root)
      : Search(arcs, lm_word, extra, options, histories, root),
        acoustic_scale_(static_cast<float>(options.acoustic_scale)),
        exits_(
            arcs, [&](int32_t arc) { return cost(arc, arcs.graph[arc]); },
            [&](int32_t state) { return end_cost(state, arcs.final_graph[state]); }),
        contexts_(histories, root, options.merge_order) {
    if (!std::isfinite(exits_.ahead(0))) {
      status_ = exits_.overflow() ? SearchStatus::kOverflow : SearchStatus::kNoPath;
      return;
    }
    states_.push_back({0, 0});
    states_[0].so_far = 0.0;
    place_(0, 0) = 0;
    run();
  }

  void gather(Wave& wave) override {
    asks_.clear();
    ++round_;
    foreseen_.clear();
    next_.clear();
    foresee_queued(0);
    // Until a path is complete, there is no cutoff, and the deepest state is expanded.
    int32_t num_questions = complete_ ? kQuestions : 1;
    for (int32_t i = 0; i < kVisits && num_questions > 0 && !next_.empty(); ++i) num_questions -= look_on(wave);
  }

  void scatter(const float* logprob) override {
    for (const auto& [score, place] : asks_) scores_[score].logprob = logprob[place];
    run();
  }

  void release() override { contexts_.release(); }

 private:
  static constexpr int64_t kFirstLimit = 100;       // number of arcs at the second update
  static constexpr float kDepthPenalty = -1000.0f;  // expands the deepest state first until a path is complete
  static constexpr int32_t kQuestions = 8;          // requesting states per wave; more save waves but waste scores
  static constexpr int32_t kVisits = 32;            // maximum number of simulated steps to find these states
  static constexpr int32_t kMissing = -1;           // a score that has not been requested yet
  static constexpr int32_t kNoQuestion = -2;        // an arc that takes no word

  struct State {
    int32_t lattice_state;
    int32_t context;
    double so_far = kNever;
    double ahead = kNever;    // cost of the best completion that is known so far
    float correction = 0.0f;  // correction of the first pass's best completion
    int32_t exit = 0;         // next exit to expand
    int32_t depth = 0;
    int32_t previous = -1;  // previous state on the best path to this state
    int32_t first_link = -1;
    int32_t last_link = -1;
    float final_graph = kInfinity;
  };
  struct Score {  // score of a word after a history
    float logprob;
    int32_t round;   // round in which the score was requested
    int32_t ending;  // ending of the history followed by the word; -1 until it is needed
  };
  struct Foreseen {  // a state, which may not exist yet, whose `exit` will probably be expanded
    int32_t lattice_state;
    int32_t history;
    int32_t exit;
    int32_t queued;  // index of the state in the queue, or -1
    float correction;
    double so_far;
  };
  using Entry = std::pair<float, int32_t>;  // expected cost relative to the first pass's best path, and an index

  // Costs are summed and rounded as in Kaldi, so that ties are the same.
  double scaled(float acoustic) const { return static_cast<float>(acoustic_scale_ * acoustic); }
  double cost(int32_t arc, float graph) const { return graph + scaled(arcs_.acoustic[arc]) + penalty(arc); }
  double end_cost(int32_t state, float graph) const { return graph + scaled(arcs_.final_acoustic[state]); }

  // The expected cost of the best path through the next exit of a State or Foreseen, relative to the best path of the
  // first pass.
  template <typename S>
  float expected(const S& state) const {
    return static_cast<float>(state.so_far + exits_.ahead(state.lattice_state) + state.correction +
                              exits_.at(state.lattice_state, state.exit).delta - exits_.ahead(0));
  }

  int32_t word_of(const Exit& exit) const { return exit.arc < 0 ? options_.eos : lm_word_[exit.arc]; }

  static void push(std::vector<Entry>& queue, Entry entry) {
    queue.push_back(entry);
    std::push_heap(queue.begin(), queue.end(), std::greater<Entry>());
  }
  static int32_t pop(std::vector<Entry>& queue) {
    std::pop_heap(queue.begin(), queue.end(), std::greater<Entry>());
    const int32_t place = queue.back().second;
    queue.pop_back();
    return place;
  }

  // Expands exits until a score is missing, or no exit is below the cutoff.
  void run() {
    for (;;) {
      if (!in_round_) {
        if (best_ != kNever && num_arcs() >= options_.max_arcs) return finish();
        look_back();
        limit_ = next_limit();
        in_round_ = true;
      }
      while (num_arcs() < limit_ && !queue_.empty()) {
        const State& state = states_[queue_.front().second];
        const Exit& exit = exits_.at(state.lattice_state, state.exit);
        const int32_t word = word_of(exit);
        const int32_t score = word < 0 ? kNoQuestion : score_place_(contexts_.history(state.context), word);
        if (score == kMissing) return;
        expand(pop(queue_), exit.arc, score);
        if (status_ != SearchStatus::kRunning) return;
      }
      if (queue_.empty()) return finish();
      in_round_ = false;
    }
  }

  int64_t num_arcs() const { return static_cast<int64_t>(links_.size()); }
  int64_t next_limit() const {
    if (links_.empty()) return kFirstLimit;
    const int64_t limit = std::max(static_cast<int64_t>(num_arcs() * options_.growth_ratio), num_arcs() + 1);
    return best_ == kNever ? limit : std::min(limit, options_.max_arcs);
  }

  void expand(int32_t s, int32_t arc, int32_t score) {
    const double surprise = score < 0 ? 0.0 : -static_cast<double>(scores_[score].logprob);
    if (!std::isfinite(surprise)) {
      status_ = SearchStatus::kNotFinite;
      return;
    }
    ++num_expanded_;
    if (++states_[s].exit < exits_.num(states_[s].lattice_state)) enqueue(s);
    if (arc < 0) {
      end(states_[s], surprise);
    } else {
      follow(s, arc, score, surprise);
    }
    if (overflows_) status_ = SearchStatus::kOverflow;
  }

  void enqueue(int32_t s) {
    const float key = expected(states_[s]);
    if (key < cutoff_) push(queue_, {key, s});
  }

  void end(State& state, double surprise) {
    state.final_graph = rounded(new_graph(arcs_.final_graph[state.lattice_state], surprise));
    if (complete_) return;
    complete_ = true;
    look_back();
  }

  void follow(int32_t s, int32_t arc, int32_t score, double surprise) {
    int32_t context = states_[s].context;
    if (score >= 0) {
      surprise += extra_[arc];
      const int32_t history = contexts_.history(context);
      context = contexts_.enter(ending(score, history, lm_word_[arc]), history, lm_word_[arc]);
    }
    const float graph = rounded(new_graph(arcs_.graph[arc], surprise));
    int32_t& place = place_(arcs_.dst[arc], context);
    if (place < 0) {
      place = static_cast<int32_t>(states_.size());
      states_.push_back({arcs_.dst[arc], context});
      State& made = states_.back();
      made.so_far = states_[s].so_far + cost(arc, graph);
      made.depth = states_[s].depth + 1;
      made.correction = states_[s].correction + made.depth * depth_penalty();
      enqueue(place);
    }
    const int32_t link = static_cast<int32_t>(links_.size());
    links_.push_back({s, place, arc, graph});
    next_link_.push_back(-1);
    State& from = states_[s];
    (from.last_link < 0 ? from.first_link : next_link_[from.last_link]) = link;
    from.last_link = link;
  }

  int32_t ending(int32_t score, int32_t history, int32_t word) {
    int32_t& found = scores_[score].ending;
    if (found < 0) found = contexts_.ending(history, word);
    return found;
  }

  float depth_penalty() const { return complete_ ? 0.0f : kDepthPenalty; }

  // Updates the whole expansion: exact costs of paths to states and of completions, corrections of completions that are
  // not known yet, and the queue.
  void look_back() {
    sort_states();
    for (State& state : states_) state.so_far = kNever;
    states_[0].so_far = 0.0;
    for (int32_t s : order_) {
      const State& from = states_[s];
      for (int32_t link = from.first_link; link >= 0; link = next_link_[link]) {
        State& to = states_[links_[link].to];
        const double so_far = from.so_far + cost(links_[link].arc, links_[link].graph);
        if (!(so_far < to.so_far)) continue;  // in a tie, the earlier path wins
        to.so_far = so_far;
        to.previous = s;
        to.depth = from.depth + 1;
      }
    }
    for (size_t i = order_.size(); i-- > 0;) {
      State& state = states_[order_[i]];
      state.ahead = state.final_graph == kInfinity ? kNever : end_cost(state.lattice_state, state.final_graph);
      for (int32_t link = state.first_link; link >= 0; link = next_link_[link]) {
        const double through = cost(links_[link].arc, links_[link].graph) + states_[links_[link].to].ahead;
        state.ahead = std::min(state.ahead, through);
      }
    }
    best_ = states_[0].ahead;
    cutoff_ = static_cast<float>(best_ - exits_.ahead(0) + options_.beam);

    queue_.clear();
    for (int32_t s : order_) {
      State& state = states_[s];
      if (state.ahead < kNever) {
        state.correction = static_cast<float>(state.ahead - exits_.ahead(state.lattice_state));
      } else {
        state.correction = s == 0 ? 0.0f : states_[state.previous].correction + depth_penalty();
      }
      if (state.exit == exits_.num(state.lattice_state)) continue;
      const float key = expected(state);
      if (key < cutoff_) queue_.push_back({key, s});
    }
    std::make_heap(queue_.begin(), queue_.end(), std::greater<Entry>());
  }

  // Orders states by lattice state, which is topological, and by age.
  void sort_states() {
    std::vector<int32_t> begin(arcs_.num_states + 1, 0);
    for (const State& state : states_) ++begin[state.lattice_state + 1];
    for (int64_t i = 0; i < arcs_.num_states; ++i) begin[i + 1] += begin[i];
    order_.resize(states_.size());
    for (size_t s = 0; s < states_.size(); ++s) order_[begin[states_[s].lattice_state]++] = static_cast<int32_t>(s);
  }

  void finish() {
    if (best_ == kNever) {  // no path is complete, but the expected costs of all others exceed the range of floats
      status_ = SearchStatus::kOverflow;
      return;
    }
    sort_states();
    std::vector<int32_t> number(states_.size()), begin(states_.size() + 1, 0);
    hyps_.reserve(states_.size());
    for (int32_t s : order_) {
      number[s] = static_cast<int32_t>(hyps_.size());
      hyps_.push_back({states_[s].lattice_state, states_[s].final_graph});
    }
    for (Link& link : links_) {
      link.from = number[link.from];
      link.to = number[link.to];
      ++begin[link.to + 1];
    }
    for (size_t s = 0; s < states_.size(); ++s) begin[s + 1] += begin[s];
    std::vector<Link> sorted(links_.size());
    for (const Link& link : links_) sorted[begin[link.to]++] = link;
    links_.swap(sorted);
    status_ = SearchStatus::kDone;
  }

  // Simulates one step of the expansion in its probable order after the missing score. Returns the number of requested
  // states, 0 or 1.
  int32_t look_on(Wave& wave) {
    Foreseen next = foreseen_[pop(next_)];
    if (next.queued >= 0) {  // the queue is a heap, in which entry i precedes entries 2i + 1 and 2i + 2
      foresee_queued(2 * next.queued + 1);
      foresee_queued(2 * next.queued + 2);
      next.queued = -1;
    }
    const Exit& exit = exits_.at(next.lattice_state, next.exit);
    const int32_t word = word_of(exit);
    const int32_t score = word < 0 ? kNoQuestion : score_place_.get(next.history, word);
    if (score == kMissing) {
      ask(wave, next);
      return 1;
    }
    if (score >= 0 && scores_[score].round == round_) return 0;  // already requested in this wave
    if (exit.arc >= 0) foresee_beyond(next, exit.arc, score);
    if (++next.exit < exits_.num(next.lattice_state)) foresee(next);
    return 0;
  }

  void foresee(const Foreseen& next) {
    const float key = expected(next);
    if (!(key < cutoff_)) return;  // this condition also excludes NaN
    push(next_, {key, static_cast<int32_t>(foreseen_.size())});
    foreseen_.push_back(next);
  }

  void foresee_queued(size_t place) {
    if (place >= queue_.size()) return;
    const State& state = states_[queue_[place].second];
    foresee({state.lattice_state, contexts_.history(state.context), state.exit, static_cast<int32_t>(place),
             state.correction, state.so_far});
  }

  // Adds the state that an arc leads to, unless it exists or has been foreseen already.
  void foresee_beyond(const Foreseen& from, int32_t arc, int32_t score) {
    double surprise = 0.0;
    int32_t history = from.history;
    if (score >= 0) {
      surprise = extra_[arc] - static_cast<double>(scores_[score].logprob);
      const int32_t there = ending(score, history, lm_word_[arc]);
      const int32_t context = contexts_.context(there);
      if (context >= 0 && place_.get(arcs_.dst[arc], context) >= 0) return;
      history = contexts_.foresee(there, history, lm_word_[arc]);
    }
    int32_t& seen = seen_(arcs_.dst[arc], history);
    if (seen == round_) return;
    seen = round_;
    const float graph = static_cast<float>(new_graph(arcs_.graph[arc], surprise));
    foresee({arcs_.dst[arc], history, 0, -1, from.correction, from.so_far + cost(arc, graph)});
  }

  // Requests the score of an exit, and of the following exits that are needed if the expected costs do not change.
  void ask(Wave& wave, Foreseen next) {
    for (bool first = true; next.exit < exits_.num(next.lattice_state); ++next.exit, first = false) {
      const Exit& exit = exits_.at(next.lattice_state, next.exit);
      if (!first && !(complete_ ? expected(next) < cutoff_ : exit.delta < options_.beam)) return;
      const int32_t word = word_of(exit);
      if (word < 0) continue;
      int32_t& place = score_place_(next.history, word);
      if (place != kMissing) continue;
      place = static_cast<int32_t>(scores_.size());
      scores_.push_back({0.0f, round_, -1});
      asks_.push_back({place, wave.ask(histories_, next.history, word)});
    }
  }

  const double acoustic_scale_;  // rounded to a float
  const Exits exits_;
  Contexts contexts_;
  std::vector<State> states_;
  PairMap place_;                   // (lattice state, context) -> state
  std::vector<int32_t> next_link_;  // [num_links] next link out of the same state, -1 after the last
  std::vector<Entry> queue_;        // heap of states with the best at the front
  float cutoff_ = kInfinity;        // exits at or above it are not expanded
  double best_ = kNever;            // cost of the best complete path at the last update
  bool complete_ = false;           // whether a path is complete
  bool in_round_ = false;           // whether the search is between two updates
  int64_t limit_ = 0;               // number of arcs at which the next update takes place
  std::vector<int32_t> order_;      // states in the order of `sort_states`

  std::vector<Score> scores_;
  PairMap score_place_;                            // (history, word) -> score
  std::vector<std::pair<int32_t, int32_t>> asks_;  // requests of this wave: a score and the index of its answer
  int32_t round_ = 0;                              // number of waves so far
  std::vector<Foreseen> foreseen_;
  std::vector<Entry> next_;  // heap of foreseen states, like the queue
  PairMap seen_;             // (lattice state, history) -> round in which it was foreseen
};

}  // namespace ninja
