// Level search and pruned search, several lattices side by side, with a language model made of hashes.
// Covers: search/expander.hpp search/level_search.hpp search/pruned_search.hpp search/search.hpp search/expansion.hpp
// Covers: search/first_pass.hpp search/exits.hpp search/contexts.hpp search/history.hpp search/wave.hpp core/copies.hpp
// Covers: core/pair_map.hpp search/merged_lattice.hpp
#include "search/expander.hpp"

#include <map>
#include <set>

#include "core/batch.hpp"
#include "lattices.hpp"
#include "mutate.hpp"
#include "paths.hpp"
#include "search/expansion.hpp"

namespace {

constexpr int32_t kEos = 99;
constexpr int64_t kRootSlot = 7;

// Scores of words after the last `order` words; slots are numbers that live until they are given back.
class HashedModel {
 public:
  HashedModel(int32_t order, bool forbids) : order_(order), forbids_(forbids) { history_[kRootSlot] = {}; }

  float logprob(const std::vector<int32_t>& history, int32_t word) const {
    uint32_t hash = static_cast<uint32_t>(word) + 17;
    for (size_t at = history.size() - std::min<size_t>(order_, history.size()); at < history.size(); ++at) {
      hash = (hash ^ static_cast<uint32_t>(history[at])) * 0x9e3779b1u;
      hash ^= hash >> 15;
    }
    if (forbids_ && hash % 61 == 5) return -INFINITY;
    return -static_cast<float>(hash % 40) / 8;
  }
  const std::vector<int32_t>& at(int64_t slot) const {
    const auto found = history_.find(slot);
    fuzz::expect(found != history_.end(), "a slot that is asked is in use");
    return found->second;
  }
  int64_t advance(int64_t slot, int32_t word) {
    std::vector<int32_t> longer = at(slot);
    longer.push_back(word);
    history_[next_] = longer;
    return next_++;
  }
  void release(std::vector<int64_t>& slots) {
    for (const int64_t slot : slots) fuzz::expect(history_.erase(slot) == 1, "a slot is given back once");
    slots.clear();
  }
  size_t size() const { return history_.size(); }

 private:
  const int32_t order_;
  const bool forbids_;
  std::map<int64_t, std::vector<int32_t>> history_;
  int64_t next_ = 100;
};

struct Asked {
  explicit Asked(fuzz::Draw& draw, const fuzz::Shape& shape) : lattice(draw, shape) {
    const ninja::Arcs arcs = lattice.arcs();
    const std::vector<int32_t> of_arc = fuzz::lm_words(arcs, draw.ConsumeIntegral<uint8_t>());
    std::vector<float> cost;
    for (const int32_t word : of_arc) cost.push_back(word == 1 ? 0.5f : 0.0f);
    for (int left = draw.ConsumeIntegralInRange<int>(0, 2); left > 0; --left) {
      context.push_back(draw.ConsumeIntegralInRange<int32_t>(1, 3));
    }
    lm_word = std::make_unique<fuzz::Array<int32_t>>(of_arc);
    extra = std::make_unique<fuzz::Array<float>>(cost);
  }
  fuzz::DrawnLattice lattice;
  std::unique_ptr<fuzz::Array<int32_t>> lm_word;
  std::unique_ptr<fuzz::Array<float>> extra;
  std::vector<int32_t> context;
};

// See that every cost is what the model says after all words before it, and that the best path of the first pass is there.
void expect_paths(const ninja::Arcs& made, const ninja::Copies& copies, const Asked& asked, const HashedModel& model,
                  const ninja::SearchOptions& options) {
  const ninja::Arcs arcs = asked.lattice.arcs();
  const int32_t* lm_word = asked.lm_word->data();
  const ninja::FirstPass pass = ninja::first_pass(arcs, options.acoustic_scale, options.word_penalty, 1e30);
  std::vector<int64_t> best;
  for (int32_t state = 0; pass.next_arc[state] >= 0; state = arcs.dst[best.back()])
    best.push_back(pass.next_arc[state]);
  const std::vector<fuzz::Path> paths = fuzz::all_paths(made);
  bool has_best = paths.empty() || options.pruned;
  for (const fuzz::Path& path : paths) {
    std::vector<int32_t> history = asked.context;
    std::vector<int64_t> old;
    for (const int64_t arc : path.arc) {
      old.push_back(copies.arc_map[arc]);
      double surprise = 0;
      if (const int32_t word = lm_word[old.back()]; word >= 0) {
        surprise = asked.extra->data()[old.back()] - static_cast<double>(model.logprob(history, word));
        history.push_back(word);
      }
      const double graph = options.graph_share * arcs.graph[old.back()] + options.lm_scale * surprise;
      fuzz::expect(made.graph[arc] == static_cast<float>(graph), "an arc costs what the model says of its history");
    }
    const double end = options.graph_share * arcs.final_graph[copies.state_map[path.end]] -
                       options.lm_scale * static_cast<double>(model.logprob(history, kEos));
    fuzz::expect(made.final_graph[path.end] == static_cast<float>(end), "an end costs what the model says of it");
    has_best |= old == best;
  }
  fuzz::expect(has_best, "the first pass's best path survives");
}

// The slow twin of replaced_costs.
void expect_replaced(const ninja::Arcs& made, const ninja::Copies& copies, const ninja::Arcs& arcs,
                     const ninja::SearchOptions& options) {
  const auto num_arcs = static_cast<size_t>(arcs.num_arcs), num_states = static_cast<size_t>(arcs.num_states);
  std::vector<float> graph(num_arcs), final_graph(num_states);
  ninja::replaced_costs(copies, arcs, options.acoustic_scale, options.word_penalty, graph.data(), final_graph.data());
  const std::vector<fuzz::Path> paths = fuzz::all_paths(made);
  if (paths.empty()) return;
  std::vector<double> least(num_arcs, INFINITY);
  std::vector<char> right(num_arcs, 0);
  const auto cost = [&](const fuzz::Path& path) {
    return fuzz::cost_of(made, path, options.acoustic_scale, 1, options.word_penalty);
  };
  for (const fuzz::Path& path : paths) {
    for (const int64_t arc : path.arc) least[copies.arc_map[arc]] = std::min(least[copies.arc_map[arc]], cost(path));
  }
  for (const fuzz::Path& path : paths) {
    for (const int64_t arc : path.arc) {
      const int64_t old = copies.arc_map[arc];
      right[old] |= fuzz::near(cost(path), least[old]) && made.graph[arc] == graph[old];
    }
  }
  for (size_t arc = 0; arc < num_arcs; ++arc) {
    fuzz::expect(right[arc] || (least[arc] == INFINITY && graph[arc] == INFINITY),
                 "an arc costs what it costs on the best path through it");
  }
}

void expect_expansion(const ninja::Expander& expander, int32_t ticket, const Asked& asked, const HashedModel& model,
                      const ninja::SearchOptions& options, bool wild, bool exact, bool complete) {
  const ninja::Arcs arcs = asked.lattice.arcs();
  ninja::Copies copies;
  fuzz::expect(expander.expanded(ticket, 1 << 24, copies), "a small lattice stays small");
  fuzz::expect_copies(copies, arcs);
  for (size_t state = 0; state < copies.state_map.size(); ++state) {
    fuzz::expect(copies.final_graph[state] == INFINITY || ninja::is_final(arcs, copies.state_map[state]),
                 "only final states are copied as such");
  }
  fuzz::expect(!copies.state_map.empty(), "there is a path");
  ninja::Block block = ninja::copy(copies, arcs, asked.lattice.labels());
  ninja::Item item;
  ninja::adopt(block, item);
  if (wild) return;
  fuzz::expect_lattice(item.arcs, item.labels);
  if (exact) expect_paths(item.arcs, copies, asked, model, options);
  if (complete) fuzz::expect(fuzz::num_paths(item.arcs) == fuzz::num_paths(arcs), "without bounds all paths are there");
  expect_replaced(item.arcs, copies, arcs, options);
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape = fuzz::small_shape();
  shape.wild = draw.ConsumeIntegralInRange<int>(0, 3) == 3;
  shape.words = draw.ConsumeBool() ? 2 : 5;
  ninja::SearchOptions options;
  const bool complete = draw.ConsumeBool();
  const auto beam = [&draw, complete] {
    return complete || draw.ConsumeBool() ? INFINITY : draw.ConsumeIntegralInRange<int>(0, 40) / 8.0;
  };
  const auto bound = [&draw, complete](int most) {
    return complete || draw.ConsumeBool() ? 0 : draw.ConsumeIntegralInRange<int>(1, most);
  };
  options.graph_share = draw.ConsumeIntegralInRange<int>(0, 4) / 4.0;
  options.lm_scale = draw.ConsumeIntegralInRange<int>(1, 8) / 4.0;
  options.acoustic_scale = draw.ConsumeIntegralInRange<int>(0, 8) / 4.0;
  options.word_penalty = draw.ConsumeIntegralInRange<int>(-2, 2) / 2.0;
  options.beam = beam();
  options.first_pass_beam = beam();
  options.growth_ratio = draw.ConsumeIntegralInRange<int>(8, 16) / 8.0;
  options.max_hyps = bound(4);
  options.max_active = bound(4);
  options.max_arcs = complete || draw.ConsumeBool() ? 100000 : draw.ConsumeIntegralInRange<int64_t>(1, 20);
  options.merge_order = draw.ConsumeBool() ? 0 : draw.ConsumeIntegralInRange<int32_t>(1, 3);
  options.eos = kEos;
  options.pruned = draw.ConsumeBool();
  options.per_arc = draw.ConsumeBool();
  options.look_ahead = draw.ConsumeBool();
  options.calibrate = draw.ConsumeBool();
  const auto order = draw.ConsumeIntegralInRange<int32_t>(0, 4);
  const bool forbids = draw.ConsumeIntegralInRange<int>(0, 7) == 7;
  const bool exact = options.merge_order == 0 || options.merge_order >= order;
  HashedModel model(order, forbids);
  std::vector<std::unique_ptr<Asked>> asked;
  for (int left = draw.ConsumeIntegralInRange<int>(1, 3); left > 0; --left) {
    asked.push_back(std::make_unique<Asked>(draw, shape));
  }

  ninja::Expander expander(options, kRootSlot);
  std::map<int32_t, const Asked*> running;
  size_t added = 0;
  for (int wave = 0; added < asked.size() || !running.empty(); ++wave) {
    fuzz::expect(wave < 20000, "a search ends");
    if (added < asked.size()) {
      const Asked& next = *asked[added++];
      const int32_t ticket = expander.add(next.lattice.arcs(), next.lm_word->data(), next.extra->data(), next.context);
      fuzz::expect(running.emplace(ticket, &next).second, "a ticket is free");
    }
    for (const int32_t ticket : expander.ended()) {
      const ninja::Search& search = expander.search(ticket);
      const bool has_path = fuzz::num_paths(running.at(ticket)->lattice.arcs()) > 0;
      switch (search.status()) {
        case ninja::SearchStatus::kDone:
          expect_expansion(expander, ticket, *running.at(ticket), model, options, shape.wild, exact, complete);
          break;
        case ninja::SearchStatus::kNotFinite:
          fuzz::expect(forbids || shape.wild, "what the model says is finite");
          break;
        case ninja::SearchStatus::kOverflow:
          fuzz::expect(shape.wild, "costs are within the range of floats");
          break;
        case ninja::SearchStatus::kTooLarge:
          fuzz::expect(!options.pruned && options.max_arcs < 100000, "there are too many arcs");
          break;
        default:
          fuzz::expect(!has_path || shape.wild, "there is no path");
      }
      expander.remove(ticket);
      running.erase(ticket);
    }
    expander.gather();
    model.release(expander.released());
    const ninja::Wave& asks = expander.wave();
    std::vector<int64_t> slot;
    std::vector<float> logprob;
    for (size_t at = 0; at < asks.advance_slot.size(); ++at) {
      slot.push_back(model.advance(asks.advance_slot[at], asks.advance_word[at]));
    }
    std::set<std::pair<int64_t, int32_t>> questions;
    for (size_t at = 0; at < asks.score_slot.size(); ++at) {
      const int64_t where = asks.score_slot[at];
      fuzz::expect(where >= -static_cast<int64_t>(slot.size()), "a slot that is asked is in use or being made");
      fuzz::expect(questions.emplace(where, asks.score_word[at]).second, "each question is asked once");
      logprob.push_back(model.logprob(model.at(where < 0 ? slot[-1 - where] : where), asks.score_word[at]));
    }
    const fuzz::Array<int64_t> slots(slot);
    const fuzz::Array<float> logprobs(logprob);
    expander.scatter(slots.data(), logprobs.data());
  }
  expander.gather();
  model.release(expander.released());
  fuzz::expect(model.size() == 1 && expander.slots() == std::vector<int64_t>{kRootSlot}, "every slot is given back");
}
