// Contextual grammars by token passing: an n-gram model whose class words expand to lists of phrases.
//
// A history has several states of the grammar: outside all phrases, or inside one. Each is a token: a state with the
// score of the best path to it. The token set of a history depends only on its words, so sets are interned and
// numbered: for the caller, the grammar is deterministic, and a state is an integer. The score of a word is the change
// of the best token's score, so the bonus of an unfinished phrase is removed when the phrase is not continued.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lm/ngram.hpp"
#include "core/keyed_hash.hpp"
#include "core/pair_map.hpp"

namespace ninja {

constexpr int32_t kOutside = -1;  // the list of a token that is outside all phrases
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// The phrases of one list and class: a deterministic acyclic acceptor of word ids, arcs sorted by word. Bonuses are in
// units of the boost of one word. State 0 is the start.
struct Phrases {
  std::vector<int64_t> arc_begin;  // [num_states + 1]
  std::vector<int32_t> word, dst;  // [num_arcs]
  std::vector<float> bonus;        // [num_arcs]
  std::vector<float> final_bonus;  // [num_states], NaN if no phrase ends

  bool ends(int32_t state) const { return !std::isnan(final_bonus[state]); }
  bool goes_on(int32_t state) const { return arc_begin[state] < arc_begin[state + 1]; }
  // Return the arc that accepts a word, or -1 if there is none.
  int64_t find(int32_t state, int32_t wanted) const {
    const auto begin = word.begin() + arc_begin[state], end = word.begin() + arc_begin[state + 1];
    const auto at = std::lower_bound(begin, end, wanted);
    return at == end || *at != wanted ? -1 : at - word.begin();
  }
};

// A language model, its word for each symbol (-1 for unknown symbols), and an additional cost for each symbol.
struct BoundModel {
  const NgramModel* model = nullptr;
  const int32_t* word = nullptr;
  const float* cost = nullptr;
  int32_t eos = 0;

  // Return ln p(symbol | state), and write the state after the symbol to `next`.
  double score(int32_t state, int32_t symbol, int32_t* next) const {
    if (word[symbol] < 0) {  // the symbol is unknown, and the model has no <unk>
      *next = state;
      return kImpossible;
    }
    return look_up(state, word[symbol], next) - cost[symbol];
  }
  double look_up(int32_t state, int32_t model_word, int32_t* next) const {
    const int64_t from = state;
    int64_t to;
    float logprob;
    if (model->look_up(&from, &model_word, 1, &logprob, &to) >= 0) throw std::logic_error("a word of another model");
    *next = static_cast<int32_t>(to);
    return logprob;
  }
};

struct ContextOptions {
  double scale = 1;          // factor applied to the log-probabilities of both models
  double class_share = 1;    // weight of the class model in a linear mixture
  double class_boost = 0;    // score for entering a class, in nats
  double keyword_boost = 0;  // score for each word of a phrase, in nats
  int32_t max_tokens = 10;   // maximum number of tokens in a set; 0 for no limit
};

struct Token {
  int32_t state;  // state of the class model; inside a phrase of a class, the state after the class word
  int32_t list;   // index in the utterance's lists, or kOutside
  int32_t node;   // state in the acceptor of that list's phrases
  double score;   // natural log, relative to the best token

  bool same_place(const Token& other) const { return state == other.state && list == other.list && node == other.node; }
  bool before(const Token& other) const {
    if (list != other.list) return list < other.list;
    return node != other.node ? node < other.node : state < other.state;
  }
};

// The phrases of an utterance.
struct UtteranceLists {
  struct List {
    const Phrases* phrases;
    int32_t class_word;  // word of the class model; -1 for phrases without a class, which are boosted anywhere
  };
  std::vector<List> lists;
  std::vector<const Phrases*> unwanted;  // phrases with a negative weight
};

class ContextTracker {
 public:
  ContextTracker(const BoundModel& class_model, const BoundModel& old_model, const uint8_t* no_word,
                 const ContextOptions& options)
      : class_(class_model), old_(old_model), no_word_(no_word), options_(options) {}

  void clear() {
    sets_.clear();
    utterances_.clear();
    known_.clear();
    steps_.clear();
    after_ = PairMap();
  }

  // Return the state before the first word of an utterance.
  int32_t start(UtteranceLists lists) {
    utterances_.push_back(std::move(lists));
    Set first;
    first.utterance = static_cast<int32_t>(utterances_.size()) - 1;
    if (old_.model != nullptr) first.old_state = old_.model->start;
    first.tokens.push_back({class_.model == nullptr ? 0 : class_.model->start, kOutside, 0, 0.0});
    return intern(std::move(first));
  }

  // Return the state after a word, and write the score of the word to `score`. If the grammar does not allow the word,
  // the state is -1 and the score -inf.
  int32_t advance(int32_t set, int32_t symbol, float* score) {
    if (no_word_[symbol]) {
      *score = 0;
      return set;
    }
    int32_t& number = after_(set, symbol);
    if (number < 0) {
      const int32_t added = number = static_cast<int32_t>(steps_.size());
      steps_.push_back({-1, 0.0f});
      double gain;
      Set next = step(sets_[set], symbol, &gain, nullptr);
      const int32_t to = next.tokens.empty() ? -1 : intern(std::move(next));
      steps_[added] = {to, static_cast<float>(gain)};
      *score = steps_[added].score;
      return to;
    }
    *score = steps_[number].score;
    return steps_[number].to;
  }

  // Return the score of ending the sentence in a state.
  float final_score(int32_t set) const {
    const Set& here = sets_[set];
    const double old_score = old_end(here);
    double best = kImpossible;
    for (const Token& token : here.tokens) {
      if (token.list == kOutside) best = std::max(best, ended(token, old_score));
    }
    if (std::isinf(old_score)) return static_cast<float>(kImpossible);
    return static_cast<float>(best - options_.scale * old_score);
  }

  int64_t size() const { return static_cast<int64_t>(sets_.size()); }
  bool has(int64_t set) const { return set >= 0 && set < size(); }

  // The words of a phrase on the best path of the grammar through a sentence.
  struct PhraseSpan {
    int32_t begin, end;  // first word, and last word plus 1
    int32_t list;
  };

  // Return the phrases on the best path of the grammar, in order. Positions also count symbols that are not words.
  std::vector<PhraseSpan> explain(int32_t start, const int32_t* symbol, int64_t count) const {
    struct Column {
      std::vector<Token> tokens;
      std::vector<Origin> origin;
    };
    std::vector<Column> column(static_cast<size_t>(count) + 1);
    Set at = sets_[start];
    column[0].tokens = at.tokens;
    column[0].origin.assign(at.tokens.size(), {});
    for (int64_t i = 0; i < count; ++i) {
      if (no_word_[symbol[i]]) {
        column[i + 1].tokens = column[i].tokens;
        for (size_t token = 0; token < column[i].tokens.size(); ++token) {
          column[i + 1].origin.push_back({static_cast<int32_t>(token), false, false, kOutside});
        }
        continue;
      }
      double gain;
      at = step(at, symbol[i], &gain, &column[i + 1].origin);
      if (at.tokens.empty()) return {};
      column[i + 1].tokens = at.tokens;
    }
    int32_t best = -1;
    double most = kImpossible;
    for (size_t token = 0; token < at.tokens.size(); ++token) {
      const Token& here = at.tokens[token];
      if (here.list != kOutside) continue;
      const double score = ended(here, old_end(at));
      if (best < 0 || score > most) {
        best = static_cast<int32_t>(token);
        most = score;
      }
    }
    std::vector<PhraseSpan> spans;
    if (best < 0) return spans;
    int32_t open = -1;  // span whose first word has not been reached yet, as tokens are traced backwards
    for (int64_t i = count; i > 0; --i) {
      const Origin& origin = column[i].origin[best];
      if (origin.ended) {
        spans.push_back({-1, static_cast<int32_t>(i), origin.list});
        open = static_cast<int32_t>(spans.size()) - 1;
      }
      if (origin.entered && open >= 0) {
        spans[open].begin = static_cast<int32_t>(i) - 1;
        open = -1;
      }
      best = origin.token;
    }
    std::reverse(spans.begin(), spans.end());
    return spans;
  }

 private:
  struct Set {
    int32_t utterance = 0;
    int32_t old_state = 0;
    std::vector<Token> tokens;                          // sorted by place, distinct
    std::vector<std::pair<int32_t, int32_t>> unwanted;  // (index, state) of unwanted phrases in progress
  };
  struct Step {
    int32_t to;
    float score;
  };
  struct Origin {
    int32_t token = -1;       // token of the previous set
    bool entered = false;     // whether the word is the first of a phrase
    bool ended = false;       // whether the word is the last of a phrase
    int32_t list = kOutside;  // list of the phrase that ended
  };
  struct Candidate {
    Token token;
    Origin origin;
  };

  // Return ln of the linear mixture of the probabilities of both models; without an old model, the class model's score.
  double mixed(double class_score, double old_score) const {
    if (old_.model == nullptr) return class_score;
    const double of_class = std::log(options_.class_share) + class_score;
    const double of_old = std::log1p(-options_.class_share) + old_score;
    const double larger = std::max(of_class, of_old);
    return std::isinf(larger) ? larger : larger + std::log1p(std::exp(std::min(of_class, of_old) - larger));
  }

  // Return the score of </s> under the old model, 0 without an old model.
  double old_end(const Set& set) const {
    int32_t ignored;
    return old_.model == nullptr ? 0.0 : old_.look_up(set.old_state, old_.eos, &ignored);
  }

  // Return the score of a token outside all phrases, including the score of </s>.
  double ended(const Token& token, double old_score) const {
    if (class_.model == nullptr) return token.score;
    int32_t ignored;
    return token.score + options_.scale * mixed(class_.look_up(token.state, class_.eos, &ignored), old_score);
  }

  Set step(const Set& from, int32_t symbol, double* gain, std::vector<Origin>* origins) const {
    const UtteranceLists& utterance = utterances_[from.utterance];
    Set to;
    to.utterance = from.utterance;
    double old_score = 0;
    if (old_.model != nullptr) old_score = old_.score(from.old_state, symbol, &to.old_state);
    std::vector<Candidate> candidates;
    for (size_t token = 0; token < from.tokens.size(); ++token) {
      expand(from.tokens[token], static_cast<int32_t>(token), symbol, old_score, utterance, &candidates);
    }
    // Of several paths to the same state, the best one is kept; of equally good paths, the first one.
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.token.same_place(b.token) ? a.token.score > b.token.score : a.token.before(b.token);
    });
    const auto same = [](const Candidate& a, const Candidate& b) { return a.token.same_place(b.token); };
    candidates.erase(std::unique(candidates.begin(), candidates.end(), same), candidates.end());
    prune(&candidates);
    double best = kImpossible;
    for (const Candidate& candidate : candidates) best = std::max(best, candidate.token.score);
    *gain = best - options_.scale * old_score + penalty(from, symbol, utterance, &to);
    if (std::isinf(best) || std::isinf(old_score)) {
      *gain = kImpossible;
      return to;
    }
    for (Candidate& candidate : candidates) {
      // Scores are rounded to a grid, because equal sets must be bit-identical regardless of the path to them.
      candidate.token.score = std::round((candidate.token.score - best) * kGrid) / kGrid;
      to.tokens.push_back(candidate.token);
      if (origins != nullptr) origins->push_back(candidate.origin);
    }
    return to;
  }

  // Add the successors of a token.
  void expand(const Token& token, int32_t number, int32_t symbol, double old_score, const UtteranceLists& utterance,
              std::vector<Candidate>* candidates) const {
    int32_t next = token.state;
    double plain = 0;
    if (class_.model != nullptr && (token.list == kOutside || utterance.lists[token.list].class_word < 0)) {
      plain = options_.scale * mixed(class_.score(token.state, symbol, &next), old_score);
    }
    if (token.list != kOutside) {
      const auto& list = utterance.lists[token.list];
      const int64_t arc = list.phrases->find(token.node, symbol);
      if (arc >= 0)
        enter(next, token.list, list, arc, token.score + plain, {number, false, false, kOutside}, candidates);
      return;
    }
    if (!std::isinf(plain)) {
      candidates->push_back({{next, kOutside, 0, token.score + plain}, {number, false, false, kOutside}});
    }
    for (size_t index = 0; index < utterance.lists.size(); ++index) {
      const auto& list = utterance.lists[index];
      const int64_t arc = list.phrases->find(0, symbol);
      if (arc < 0) continue;
      int32_t after = next;
      double entry = plain;
      if (list.class_word >= 0) {
        entry = class_.look_up(token.state, list.class_word, &after);
        if (old_.model != nullptr) entry += std::log(options_.class_share);
        entry = options_.scale * entry + options_.class_boost;
      }
      enter(after, static_cast<int32_t>(index), list, arc, token.score + entry, {number, true, false, kOutside},
            candidates);
    }
  }

  // Add the tokens after an arc of a phrase acceptor.
  void enter(int32_t state, int32_t number, const UtteranceLists::List& list, int64_t arc, double score, Origin origin,
             std::vector<Candidate>* candidates) const {
    if (std::isinf(score)) return;
    const Phrases& phrases = *list.phrases;
    const int32_t node = phrases.dst[arc];
    score += options_.keyword_boost * phrases.bonus[arc];
    if (phrases.goes_on(node)) candidates->push_back({{state, number, node, score}, origin});
    if (!phrases.ends(node)) return;
    origin.ended = true;
    origin.list = number;
    candidates->push_back({{state, kOutside, 0, score + options_.keyword_boost * phrases.final_bonus[node]}, origin});
  }

  // Keep the best tokens, with at least one outside all phrases, because phrases may be discontinued.
  void prune(std::vector<Candidate>* candidates) const {
    const size_t most = static_cast<size_t>(options_.max_tokens);
    if (most == 0 || candidates->size() <= most) return;
    std::stable_sort(candidates->begin(), candidates->end(),
                     [](const Candidate& a, const Candidate& b) { return a.token.score > b.token.score; });
    const auto is_outside = [](const Candidate& candidate) { return candidate.token.list == kOutside; };
    const auto cut = candidates->begin() + static_cast<int64_t>(most);
    const auto first = std::find_if(candidates->begin(), candidates->end(), is_outside);
    if (first >= cut && first != candidates->end()) *(cut - 1) = *first;
    candidates->erase(cut, candidates->end());
    std::sort(candidates->begin(), candidates->end(),
              [](const Candidate& a, const Candidate& b) { return a.token.before(b.token); });
  }

  // Return the score of the unwanted phrases that end with this word, ≤ 0, and add the unwanted phrases in progress
  // after the word to a set.
  double penalty(const Set& from, int32_t symbol, const UtteranceLists& utterance, Set* to) const {
    double sum = 0;
    const auto follow = [&](int32_t index, int32_t state) {
      const Phrases& phrases = *utterance.unwanted[index];
      const int64_t arc = phrases.find(state, symbol);
      if (arc < 0) return;
      const int32_t node = phrases.dst[arc];
      if (phrases.ends(node)) sum += options_.keyword_boost * phrases.final_bonus[node];
      if (phrases.goes_on(node)) to->unwanted.emplace_back(index, node);
    };
    for (const auto& [index, state] : from.unwanted) follow(index, state);
    for (size_t index = 0; index < utterance.unwanted.size(); ++index) follow(static_cast<int32_t>(index), 0);
    std::sort(to->unwanted.begin(), to->unwanted.end());
    return sum;
  }

  static constexpr double kGrid = 1 << 20;

  static uint64_t hash(const Set& set) {
    uint64_t sum = keyed_hash(joined(set.utterance, set.old_state));
    for (const Token& token : set.tokens) {
      sum = keyed_hash_with(sum, joined(token.state, token.list));
      sum = keyed_hash_with(sum, static_cast<uint32_t>(token.node));
      sum = keyed_hash_with(sum, static_cast<uint64_t>(static_cast<int64_t>(token.score * kGrid)));
    }
    for (const auto& [index, state] : set.unwanted) { sum = keyed_hash_with(sum, joined(index, state)); }
    return sum;
  }

  static bool equal(const Set& a, const Set& b) {
    if (a.utterance != b.utterance || a.old_state != b.old_state || a.unwanted != b.unwanted ||
        a.tokens.size() != b.tokens.size()) {
      return false;
    }
    for (size_t i = 0; i < a.tokens.size(); ++i) {
      if (!a.tokens[i].same_place(b.tokens[i]) || a.tokens[i].score != b.tokens[i].score) return false;
    }
    return true;
  }

  int32_t intern(Set set) {
    const uint64_t sum = hash(set);
    const auto [first, last] = known_.equal_range(sum);
    for (auto at = first; at != last; ++at) {
      if (equal(sets_[at->second], set)) return at->second;
    }
    constexpr size_t most = std::numeric_limits<int32_t>::max();
    if (sets_.size() >= most) throw std::length_error("too many sets of tokens");
    const int32_t number = static_cast<int32_t>(sets_.size());
    known_.emplace(sum, number);
    sets_.push_back(std::move(set));
    return number;
  }

  BoundModel class_, old_;
  const uint8_t* no_word_;  // [symbols]
  ContextOptions options_;
  std::vector<UtteranceLists> utterances_;
  std::vector<Set> sets_;
  std::unordered_multimap<uint64_t, int32_t, KeyedHash> known_;
  std::vector<Step> steps_;
  PairMap after_;  // (set, symbol) -> step
};

}  // namespace ninja
