// Contextual grammars by token passing: an n-gram model whose class words stand for lists of phrases.
//
// What may follow a history is not one state of such a grammar but several: outside all phrases, or inside one. Each is
// a token, a state with the score of the best way to it. The set of a history's tokens depends on its words alone, so
// sets are interned and numbered: to whoever asks, the grammar is deterministic, and a state is an integer. What a word
// scores is the change of the best token, so that a bonus paid for a phrase begun is taken back when the phrase fails.
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

constexpr int32_t kOutside = -1;  // a token that is inside no phrase
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

// The phrases of one list and class: a deterministic acyclic acceptor of word ids, arcs sorted by word. Bonuses are in
// units of the boost of one word. State 0 is the start.
struct Phrases {
  std::vector<int64_t> arc_begin;   // [num_states + 1]
  std::vector<int32_t> word, dst;   // [num_arcs]
  std::vector<float> bonus;         // [num_arcs]
  std::vector<float> final_bonus;   // [num_states], NaN where no phrase ends

  bool ends(int32_t state) const { return !std::isnan(final_bonus[state]); }
  bool goes_on(int32_t state) const { return arc_begin[state] < arc_begin[state + 1]; }
  // The arc on a word, or -1.
  int64_t find(int32_t state, int32_t wanted) const {
    const auto begin = word.begin() + arc_begin[state], end = word.begin() + arc_begin[state + 1];
    const auto at = std::lower_bound(begin, end, wanted);
    return at == end || *at != wanted ? -1 : at - word.begin();
  }
};

// A language model and its word for each symbol, -1: none; `cost` comes on top of the model's.
struct BoundModel {
  const NgramModel* model = nullptr;
  const int32_t* word = nullptr;
  const float* cost = nullptr;
  int32_t eos = 0;

  // ln p(symbol | state), and the state after it.
  double score(int32_t state, int32_t symbol, int32_t* next) const {
    if (word[symbol] < 0) {  // the model lacks it, and has no <unk>
      *next = state;
      return kImpossible;
    }
    return ask(state, word[symbol], next) - cost[symbol];
  }
  double ask(int32_t state, int32_t own_word, int32_t* next) const {
    const int64_t from = state;
    int64_t to;
    float logprob;
    if (model->look_up(&from, &own_word, 1, &logprob, &to) >= 0) throw std::logic_error("a word of another model");
    *next = static_cast<int32_t>(to);
    return logprob;
  }
};

struct ContextOptions {
  double scale = 1;          // of the log-probabilities of both models
  double class_share = 1;    // of the class model, where both mix linearly
  double class_boost = 0;    // on entering a class, in nats
  double keyword_boost = 0;  // for each word of a phrase, in nats
  int32_t max_tokens = 10;   // 0: no bound
};

struct Token {
  int32_t state;  // of the class model; inside a phrase of a class, the one after the class word
  int32_t list;   // of the utterance's lists, or kOutside
  int32_t node;   // state among the phrases of that list
  double score;   // natural log, relative to the best token

  bool same_place(const Token& other) const {
    return state == other.state && list == other.list && node == other.node;
  }
  bool before(const Token& other) const {
    if (list != other.list) return list < other.list;
    return node != other.node ? node < other.node : state < other.state;
  }
};

// Which phrases an utterance has.
struct UtteranceLists {
  struct List {
    const Phrases* phrases;
    int32_t class_word;  // of the class model; -1: phrases of no class, boosted where they stand
  };
  std::vector<List> lists;
  std::vector<const Phrases*> unwanted;  // phrases that cost where they stand
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

  // The state before the first word of an utterance.
  int32_t start(UtteranceLists lists) {
    utterances_.push_back(std::move(lists));
    Set first;
    first.utterance = static_cast<int32_t>(utterances_.size()) - 1;
    if (old_.model != nullptr) first.old_state = old_.model->start;
    first.tokens.push_back({class_.model == nullptr ? 0 : class_.model->start, kOutside, 0, 0.0});
    return intern(std::move(first));
  }

  // The state after a word, and what the word scores; -inf if the grammar does not allow it (the state is then -1).
  int32_t advance(int32_t set, int32_t symbol, float* score) {
    if (no_word_[symbol]) {
      *score = 0;
      return set;
    }
    int32_t& place = after_(set, symbol);
    if (place < 0) {
      const int32_t made = place = static_cast<int32_t>(steps_.size());
      steps_.push_back({-1, 0.0f});
      double gain;
      Set next = step(sets_[set], symbol, &gain, nullptr);
      const int32_t to = next.tokens.empty() ? -1 : intern(std::move(next));
      steps_[made] = {to, static_cast<float>(gain)};
      *score = steps_[made].score;
      return to;
    }
    *score = steps_[place].score;
    return steps_[place].to;
  }

  // What ending here scores.
  float final_score(int32_t set) const {
    const Set& here = sets_[set];
    double best = kImpossible;
    double old_score = 0;
    int32_t ignored;
    if (old_.model != nullptr) old_score = old_.ask(here.old_state, old_.eos, &ignored);
    for (const Token& token : here.tokens) {
      if (token.list != kOutside) continue;
      double score = 0;
      if (class_.model != nullptr) score = mixed(class_.ask(token.state, class_.eos, &ignored), old_score);
      best = std::max(best, token.score + options_.scale * score);
    }
    if (std::isinf(old_score)) return static_cast<float>(kImpossible);
    return static_cast<float>(best - options_.scale * old_score);
  }

  int64_t size() const { return static_cast<int64_t>(sets_.size()); }
  bool has(int64_t set) const { return set >= 0 && set < size(); }

  // A stretch of a sentence that the best way through the grammar takes as a phrase.
  struct Said {
    int32_t begin, end;  // words
    int32_t list;
  };

  // Which phrases the best way takes, in order. Symbols that are no words count as words here, and none may fall
  // inside a phrase without parting it from nothing.
  std::vector<Said> explain(int32_t start, const int32_t* symbol, int64_t count) const {
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
      double score = here.score;
      int32_t ignored;
      if (class_.model != nullptr) {
        const double old_score = old_.model == nullptr ? 0.0 : old_.ask(at.old_state, old_.eos, &ignored);
        score += options_.scale * mixed(class_.ask(here.state, class_.eos, &ignored), old_score);
      }
      if (best < 0 || score > most) {
        best = static_cast<int32_t>(token);
        most = score;
      }
    }
    std::vector<Said> said;
    if (best < 0) return said;
    int32_t open = -1;  // end of the phrase we are inside of, going backwards
    for (int64_t i = count; i > 0; --i) {
      const Origin& origin = column[i].origin[best];
      if (origin.ended) {
        said.push_back({-1, static_cast<int32_t>(i), origin.list});
        open = static_cast<int32_t>(said.size()) - 1;
      }
      if (origin.entered && open >= 0) {
        said[open].begin = static_cast<int32_t>(i) - 1;
        open = -1;
      }
      best = origin.token;
    }
    std::reverse(said.begin(), said.end());
    return said;
  }

 private:
  struct Set {
    int32_t utterance = 0;
    int32_t old_state = 0;
    std::vector<Token> tokens;                           // sorted by place; none twice
    std::vector<std::pair<int32_t, int32_t>> unwanted;   // (which, state) of unwanted phrases begun
  };
  struct Step {
    int32_t to;
    float score;
  };
  // How a token came to be.
  struct Origin {
    int32_t token = -1;      // of the set before
    bool entered = false;    // the word is a phrase's first
    bool ended = false;      // the word is a phrase's last
    int32_t list = kOutside; // of the phrase that ended
  };
  struct Candidate {
    Token token;
    Origin origin;
  };

  // ln of the mixture of both models' probabilities, or what the class model says where it stands alone.
  double mixed(double class_score, double old_score) const {
    if (old_.model == nullptr) return class_score;
    const double one = std::log(options_.class_share) + class_score;
    const double other = std::log1p(-options_.class_share) + old_score;
    const double more = std::max(one, other);
    return std::isinf(more) ? more : more + std::log1p(std::exp(std::min(one, other) - more));
  }

  Set step(const Set& from, int32_t symbol, double* gain, std::vector<Origin>* origins) const {
    const UtteranceLists& utterance = utterances_[from.utterance];
    Set to;
    to.utterance = from.utterance;
    double old_score = 0;
    if (old_.model != nullptr) old_score = old_.score(from.old_state, symbol, &to.old_state);
    std::vector<Candidate> found;
    for (size_t at = 0; at < from.tokens.size(); ++at) {
      leave(from.tokens[at], static_cast<int32_t>(at), symbol, old_score, utterance, &found);
    }
    // Of two ways to one place the better one counts, of equals the first.
    std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
      return a.token.same_place(b.token) ? a.token.score > b.token.score : a.token.before(b.token);
    });
    found.erase(std::unique(found.begin(), found.end(),
                            [](const Candidate& a, const Candidate& b) { return a.token.same_place(b.token); }),
                found.end());
    bound(&found);
    double best = kImpossible;
    for (const Candidate& each : found) best = std::max(best, each.token.score);
    *gain = best - options_.scale * old_score + penalty(from, symbol, utterance, &to);
    if (std::isinf(best) || std::isinf(old_score)) {
      *gain = kImpossible;
      return to;
    }
    for (Candidate& each : found) {
      // On a grid, so that equal sets are equal bit by bit whatever way led to them.
      each.token.score = std::round((each.token.score - best) * kGrid) / kGrid;
      to.tokens.push_back(each.token);
      if (origins != nullptr) origins->push_back(each.origin);
    }
    return to;
  }

  // Add the tokens that one token becomes.
  void leave(const Token& token, int32_t number, int32_t symbol, double old_score, const UtteranceLists& utterance,
             std::vector<Candidate>* found) const {
    int32_t next = token.state;
    double plain = 0;
    if (class_.model != nullptr && (token.list == kOutside || utterance.lists[token.list].class_word < 0)) {
      plain = options_.scale * mixed(class_.score(token.state, symbol, &next), old_score);
    }
    if (token.list != kOutside) {
      const auto& list = utterance.lists[token.list];
      const int64_t arc = list.phrases->find(token.node, symbol);
      if (arc >= 0) inside(next, token.list, list, arc, token.score + plain, {number, false, false, kOutside}, found);
      return;
    }
    if (!std::isinf(plain)) found->push_back({{next, kOutside, 0, token.score + plain}, {number, false, false, kOutside}});
    for (size_t number_of = 0; number_of < utterance.lists.size(); ++number_of) {
      const auto& list = utterance.lists[number_of];
      const int64_t arc = list.phrases->find(0, symbol);
      if (arc < 0) continue;
      int32_t behind = next;
      double entry = plain;
      if (list.class_word >= 0) {
        entry = class_.ask(token.state, list.class_word, &behind);
        if (old_.model != nullptr) entry += std::log(options_.class_share);
        entry = options_.scale * entry + options_.class_boost;
      }
      inside(behind, static_cast<int32_t>(number_of), list, arc, token.score + entry,
             {number, true, false, kOutside}, found);
    }
  }

  // Add the tokens of having taken an arc among phrases.
  void inside(int32_t state, int32_t number, const UtteranceLists::List& list, int64_t arc, double score,
              Origin origin, std::vector<Candidate>* found) const {
    if (std::isinf(score)) return;
    const Phrases& phrases = *list.phrases;
    const int32_t node = phrases.dst[arc];
    score += options_.keyword_boost * phrases.bonus[arc];
    if (phrases.goes_on(node)) found->push_back({{state, number, node, score}, origin});
    if (!phrases.ends(node)) return;
    origin.ended = true;
    origin.list = number;
    found->push_back({{state, kOutside, 0, score + options_.keyword_boost * phrases.final_bonus[node]}, origin});
  }

  // Keep the best tokens, always one outside all phrases: what is inside may come to nothing.
  void bound(std::vector<Candidate>* found) const {
    const size_t most = static_cast<size_t>(options_.max_tokens);
    if (most == 0 || found->size() <= most) return;
    std::stable_sort(found->begin(), found->end(),
                     [](const Candidate& a, const Candidate& b) { return a.token.score > b.token.score; });
    const auto outside = [](const Candidate& each) { return each.token.list == kOutside; };
    const auto cut = found->begin() + static_cast<int64_t>(most);
    const auto first = std::find_if(found->begin(), found->end(), outside);
    if (first >= cut && first != found->end()) *(cut - 1) = *first;
    found->erase(cut, found->end());
    std::sort(found->begin(), found->end(),
              [](const Candidate& a, const Candidate& b) { return a.token.before(b.token); });
  }

  // What unwanted phrases that end with this word cost, a number ≤ 0; and which are under way after it.
  double penalty(const Set& from, int32_t symbol, const UtteranceLists& utterance, Set* to) const {
    double sum = 0;
    const auto take = [&](int32_t which, int32_t state) {
      const Phrases& phrases = *utterance.unwanted[which];
      const int64_t arc = phrases.find(state, symbol);
      if (arc < 0) return;
      const int32_t node = phrases.dst[arc];
      if (phrases.ends(node)) sum += options_.keyword_boost * phrases.final_bonus[node];
      if (phrases.goes_on(node)) to->unwanted.emplace_back(which, node);
    };
    for (const auto& [which, state] : from.unwanted) take(which, state);
    for (size_t which = 0; which < utterance.unwanted.size(); ++which) take(static_cast<int32_t>(which), 0);
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
    for (const auto& [which, state] : set.unwanted) {
      sum = keyed_hash_with(sum, joined(which, state));
    }
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
    if (sets_.size() >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) throw std::length_error("too many sets of tokens");
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
