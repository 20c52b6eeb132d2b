// The interface of a search, which requests scores of the language model in waves and results in an expanded lattice.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "search/history.hpp"
#include "core/lattice.hpp"
#include "search/wave.hpp"

namespace ninja {

struct SearchOptions {
  double graph_share;  // factor by which the old graph cost is multiplied
  double lm_scale;     // factor by which the language model's -ln p is multiplied
  double acoustic_scale;
  double word_penalty;
  double beam;
  double first_pass_beam;
  double growth_ratio;  // pruned search: factor by which the expansion grows between two updates
  int32_t max_hyps;     // 0 means no limit
  int32_t max_active;   // 0 means no limit
  int64_t max_arcs;     // per expansion; the pruned search stops at this number, other searches fail
  int32_t merge_order;  // number of last words by which histories are compared; 0 compares whole histories
  int32_t eos;
  bool pruned;      // expand the best arc first instead of level by level
  bool per_arc;     // hypotheses compete on each arc (arc-beam) instead of in each state (push-forward)
  bool look_ahead;  // prospects include the first pass's best completion
  bool calibrate;   // the new model's cost of the first pass's best path corrects completions
};

// kNotFinite: the model returned NaN or probability zero; kOverflow: the cost of a path or arc exceeds the range of
// floats.
enum class SearchStatus : int32_t { kRunning, kDone, kNoPath, kNotFinite, kTooLarge, kOverflow };

class Search {
 public:
  // A surviving hypothesis, which is a state of the expanded lattice.
  struct Hypothesis {
    int32_t state;
    float final_graph;  // new final cost, +inf if not final
  };
  // An arc of the expanded lattice.
  struct Link {
    int32_t from;
    int32_t to;
    int32_t arc;
    float graph;
  };

  // `lm_word` [num_arcs]: the language model's id of each arc's word, -1 for no word; `extra` [num_arcs]: cost in
  // addition to the model's score, for unknown words; `root`: the history in which every path starts.
  Search(const Arcs& arcs, const int32_t* lm_word, const float* extra, const SearchOptions& options,
         Histories& histories, int32_t root)
      : arcs_(arcs), lm_word_(lm_word), extra_(extra), options_(options), histories_(histories), root_(root) {}
  virtual ~Search() = default;

  // Adds the requests of this lattice to the next wave.
  virtual void gather(Wave& wave) = 0;
  // Takes the answers of the wave, which are natural-log probabilities.
  virtual void scatter(const float* logprob) = 0;
  // Ends a running search with the best hypothesis so far, completed by the first pass; returns false if there is none.
  virtual bool stop() { return false; }
  // Releases all histories.
  virtual void release() = 0;

  SearchStatus status() const { return status_; }
  const Arcs& arcs() const { return arcs_; }
  // The result of a search that is done: hypotheses in topological order, and links sorted by `to`.
  const std::vector<Hypothesis>& hypotheses() const { return hyps_; }
  const std::vector<Link>& links() const { return links_; }
  int64_t num_expanded() const { return num_expanded_; }

 protected:
  // Scales the old graph cost and adds the language model's cost. `surprise` is -ln p, or a difference of such costs,
  // which may be negative.
  double new_graph(double old_graph, double surprise) const {
    return options_.graph_share * old_graph + options_.lm_scale * surprise;
  }
  // Rounds a new graph cost. With an infinite cost, the result could lack a path, so the search must end.
  float rounded(double graph) {
    const float cost = static_cast<float>(graph);
    overflows_ |= !std::isfinite(cost);
    return cost;
  }
  double penalty(int32_t arc) const { return arcs_.word[arc] != 0 ? options_.word_penalty : 0.0; }
  // Total cost of an arc whose graph cost is `graph`, and of ending in a state.
  double arc_cost(int32_t arc, double graph) const {
    return options_.acoustic_scale * arcs_.acoustic[arc] + graph + penalty(arc);
  }
  double final_cost(int32_t state, double graph) const {
    return options_.acoustic_scale * arcs_.final_acoustic[state] + graph;
  }

  const Arcs arcs_;
  const int32_t* lm_word_;
  const float* extra_;
  const SearchOptions& options_;
  Histories& histories_;
  const int32_t root_;

  SearchStatus status_ = SearchStatus::kRunning;
  bool overflows_ = false;  // whether a new cost exceeds the range of floats
  std::vector<Hypothesis> hyps_;
  std::vector<Link> links_;
  int64_t num_expanded_ = 0;
};

}  // namespace ninja
