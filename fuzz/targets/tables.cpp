// Growing tables compared with maps of the standard library: pairs, tries, histories, waves, places of alignment.
// Covers: core/pair_map.hpp core/trie.hpp search/history.hpp search/wave.hpp align/align_places.hpp
#include <map>
#include <set>

#include "align/align_places.hpp"
#include "core/pair_map.hpp"
#include "core/trie.hpp"
#include "inputs.hpp"
#include "mutate.hpp"
#include "search/wave.hpp"

FUZZ_MUTATE(mutate_drawn)

namespace {

using Pair = std::pair<int32_t, int32_t>;

// More numbers than an input has bytes. They hang on all of its bytes, so that no mutation keeps a table large: most
// stay small, which takes less time.
struct Source {
  Source(const uint8_t* data, size_t size) {
    uint32_t hash = 0x811c9dc5u;
    for (size_t at = 0; at < size; ++at) hash = (hash ^ data[at]) * 0x01000193u;
    random.seed(hash);
    const int32_t drawn = below(256);
    count = drawn == 255 ? 4000 : drawn >= 252 ? 600 : drawn % 64;
    limit = below(2) ? 400 : below(2) ? 40 : 5;
  }
  int32_t below(int32_t bound) { return static_cast<int32_t>(random() / 7 % static_cast<uint32_t>(bound)); }
  int32_t key() { return below(limit); }

  fuzz::Random random;
  int32_t limit, count;
};

void fill_pairs(Source& source) {
  ninja::PairMap map;
  std::map<Pair, int32_t> twin;
  for (int32_t number = 0; number < source.count; ++number) {
    const Pair pair{source.key() - 1, source.key()};
    fuzz::expect((map.get(pair.first, pair.second) < 0) == (twin.count(pair) == 0), "a pair is there or not");
    int32_t& place = map(pair.first, pair.second);
    const auto [known, is_new] = twin.emplace(pair, number);
    fuzz::expect(place == (is_new ? -1 : known->second), "a pair has the place it was given");
    place = known->second;
  }
  for (const auto& [pair, place] : twin) fuzz::expect(map.get(pair.first, pair.second) == place, "no pair is lost");
}

void number_pairs(Source& source) {
  ninja::StatePairs pairs(source.limit);
  std::map<Pair, int32_t> twin;
  std::vector<std::vector<Pair>> of_state(static_cast<size_t>(source.limit));  // the others with their numbers
  std::vector<int32_t> dst, expected;
  for (int32_t step = 0; step < source.count; ++step) {
    const Pair pair{source.key(), source.key()};
    const auto [known, is_new] = twin.emplace(pair, static_cast<int32_t>(twin.size()));
    fuzz::expect(pairs(pair.first, pair.second) == known->second, "pairs are numbered as they are met");
    if (is_new) of_state[pair.first].push_back({pair.second, known->second});
    if (is_new) pairs.number(known->second, static_cast<size_t>(2 * known->second));
    dst.push_back(known->second);
    expected.push_back(2 * known->second);
  }
  for (int32_t state = 0; state < source.limit; ++state) {
    int32_t at = pairs.first(state);
    for (const auto& [other, number] : of_state[state]) {
      fuzz::expect(at == number && pairs.other(at) == other, "the pairs of a state come in order");
      at = pairs.next(at);
    }
    fuzz::expect(at == -1, "a state has no other pairs");
  }
  pairs.renumber(dst);
  fuzz::expect(dst == expected, "arcs enter the new states");
}

void fill_trie(Source& source) {
  ninja::Trie trie, below;
  std::map<Pair, int32_t> twin;
  const auto check = [&](int32_t prefix, int32_t word, int32_t node) {
    const auto known = twin.emplace(Pair{prefix, word}, static_cast<int32_t>(twin.size())).first;
    fuzz::expect(node == known->second && trie.parent(node) == prefix && trie.word(node) == word,
                 "equal prefixes are one node");
  };
  std::vector<int32_t> word;
  std::vector<int64_t> begin(1, 0);
  for (int32_t number = 0; number < source.count; ++number) {
    word.push_back(source.key());
    if (source.below(4) == 0) begin.push_back(number + 1);
    const int32_t prefix = source.below(below.size() + 1) - 1;
    below.child(prefix, source.key());
  }
  begin.push_back(static_cast<int64_t>(word.size()));
  const fuzz::Array<int32_t> words(word);
  const fuzz::Array<int64_t> begins(begin);
  std::vector<int32_t> node(word.size());
  ninja::add_sequences(trie, words.data(), begins.data(), static_cast<int64_t>(begin.size()) - 1, node.data());
  for (size_t sequence = 0; sequence + 1 < begin.size(); ++sequence) {
    for (int64_t at = begin[sequence]; at < begin[sequence + 1]; ++at) {
      check(at == begin[sequence] ? ninja::kTrieRoot : node[at - 1], word[at], node[at]);
    }
  }
  const int32_t under = source.below(trie.size() + 1) - 1;
  const fuzz::Array<int32_t> parents(below.parent()), other_words(below.word());
  std::vector<int32_t> moved(static_cast<size_t>(below.size()));
  ninja::add_nodes(trie, parents.data(), other_words.data(), below.size(), under, moved.data());
  for (int32_t other = 0; other < below.size(); ++other) {
    check(below.parent(other) < 0 ? under : moved[below.parent(other)], below.word(other), moved[other]);
  }
  fuzz::expect(trie.size() == static_cast<int32_t>(twin.size()), "no node is there that nobody brought");
  for (const auto& [key, each] : twin) fuzz::expect(trie.find(key.first, key.second) == each, "no node is lost");
  fuzz::expect(trie.find(ninja::kTrieRoot, source.limit) == ninja::kNoNode, "a word that nobody brought has no node");
}

int32_t& one_of(Source& source, std::vector<int32_t>& all) {
  return all[static_cast<size_t>(source.below(static_cast<int32_t>(all.size())))];
}

// Histories that are held, asked for in waves, and dropped; slots are numbers that live until they are given back.
void ask_histories(Source& source) {
  ninja::Histories histories(1);
  ninja::Wave wave;
  std::map<int32_t, int32_t> held;                // how often; but for the root
  std::map<std::vector<int32_t>, int32_t> known;  // histories that are held
  std::map<int32_t, std::vector<int32_t>> words{{ninja::Histories::root(), {}}};
  std::set<int64_t> slots{1};
  std::vector<int32_t> holder;  // each history once for each time that it is held
  int64_t next_slot = 2;
  const auto drop = [&](int32_t history) {
    if (--held[history] == 0) known.erase(words[history]);
    histories.drop(history);
  };
  const auto give_back = [&] {
    for (const int64_t slot : histories.released()) fuzz::expect(slots.erase(slot) == 1, "a slot is given back once");
    histories.released().clear();
  };
  while (source.count > 0) {
    wave.clear();
    std::map<Pair, int32_t> asked;
    for (int32_t left = 1 + source.below(source.count); left > 0; --left, --source.count) {
      // Only what has a slot already goes on, as in a search.
      int32_t parent = ninja::Histories::root();
      if (!holder.empty() && source.below(3) > 0) parent = one_of(source, holder);
      if (histories.slot(parent) < 0) parent = ninja::Histories::root();
      const int32_t word = source.key(), history = histories.intern(parent, word);
      std::vector<int32_t> spelled = words[parent];
      spelled.push_back(word);
      if (held[history]++ == 0) words[history] = spelled;
      fuzz::expect(words[history] == spelled && known.emplace(spelled, history).first->second == history,
                   "equal strings of words are one history");
      if (source.below(8) == 0) {  // nobody asks
        drop(history);
        continue;
      }
      holder.push_back(history);
      if (source.below(8) == 0) {
        wave.make(histories, history);
      } else {
        const int32_t said = source.below(9), index = wave.ask(histories, history, said);
        const auto found = asked.emplace(Pair{history, said}, static_cast<int32_t>(asked.size())).first;
        fuzz::expect(index == found->second && wave.score_word[index] == said, "each question is asked once");
        const int64_t where = wave.score_slot[index];
        fuzz::expect(where >= 0 ? slots.count(where) == 1 : wave.advance_history[-1 - where] == history,
                     "a slot that is asked is in use or being made");
      }
      const int order = source.below(4);
      const int32_t other = one_of(source, holder);
      const std::vector<int32_t>&one = words[history], &two = words[other];
      const auto tail = [order](const std::vector<int32_t>& all) {
        return std::vector<int32_t>(all.end() - std::min<ptrdiff_t>(order, all.end() - all.begin()), all.end());
      };
      const bool same = order == 0 ? one == two : tail(one) == tail(two);
      fuzz::expect(histories.same_suffix(history, other, order) == same, "histories have the same last words or not");
      fuzz::expect(!same || histories.suffix_hash(history, order) == histories.suffix_hash(other, order),
                   "the same last words have the same hash");
    }
    for (size_t at = 0; at < wave.advance_history.size(); ++at) {
      fuzz::expect(slots.count(wave.advance_slot[at]) == 1, "a history is made from a slot that is in use");
      histories.pending(wave.advance_history[at]) = -1;
      slots.insert(next_slot);
      histories.set_slot(wave.advance_history[at], next_slot++);
    }
    for (int32_t left = source.below(static_cast<int32_t>(holder.size()) + 1); left > 0; --left) {
      std::swap(one_of(source, holder), holder.back());
      drop(holder.back());
      holder.pop_back();
    }
    give_back();
    const std::vector<int64_t> used = histories.slots();
    fuzz::expect(std::set<int64_t>(used.begin(), used.end()) == slots && used.size() == slots.size(),
                 "slots that are not given back are in use");
  }
  for (const int32_t history : holder) drop(history);
  give_back();
  fuzz::expect(slots == std::set<int64_t>{1} && histories.slots() == std::vector<int64_t>{1},
               "every slot is given back");
}

void fill_places(Source& source) {
  const int32_t most_labels = source.below(2) ? 3 : 40;
  std::vector<int32_t> label, word;
  for (int32_t each = 0; each < 2 * source.count + 64; ++each) label.push_back(source.below(source.limit > 5 ? 3 : 2));
  for (int32_t each = 0; each < 64; ++each) word.push_back(source.below(2));
  const fuzz::Array<int32_t> labels(label), words(word);
  using Content = std::pair<int32_t, std::vector<int32_t>>;  // a state and labels, or a tail and words
  std::map<Content, int32_t> tails, twin;
  ninja::Places places;
  places.clear(static_cast<size_t>(source.below(source.count + 1)));
  for (int32_t number = 0; number < source.count; ++number) {
    const int32_t length = source.below(most_labels + 1), state = source.key();
    const int32_t* from = labels.data() + source.below(static_cast<int32_t>(label.size()) - length + 1);
    const auto known = tails.emplace(Content{state, {from, from + length}}, static_cast<int32_t>(tails.size())).first;
    const int32_t tail = places.add_tail(state, {from, length});
    fuzz::expect(tail == known->second, "equal labels of a state are one tail");
    const int32_t num_words = source.below(5);
    const int32_t* said = words.data() + source.below(60);
    const Content content{tail, {said, said + num_words}};
    fuzz::expect(places.has(state, said, num_words, {from, length}) == (twin.count(content) == 1),
                 "a place is there or not");
    const auto expected = twin.emplace(content, static_cast<int32_t>(twin.size())).first;
    const int32_t place = places.add(tail, said, num_words);
    fuzz::expect(place == expected->second, "equal words of a tail are one place");
    const ninja::Place& found = places[place];
    fuzz::expect(found.tail == tail &&
                     content.second == std::vector<int32_t>(places.words(found), places.words(found) + found.num_words),
                 "a place has its words");
    if (const int32_t first = source.below(num_words + 1); source.below(4) == 0) {
      const Content rest{tail, {said + first, said + num_words}};
      const auto shorter = twin.emplace(rest, static_cast<int32_t>(twin.size())).first;
      fuzz::expect(places.add_rest(tail, place, first) == shorter->second, "the rest of a place's words is a place");
    }
  }
  fuzz::expect(places.size() == twin.size(), "no place is there that nobody added");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Source source(data, size);
  switch (source.below(5)) {
    case 0:
      fill_pairs(source);
      break;
    case 1:
      number_pairs(source);
      break;
    case 2:
      fill_trie(source);
      break;
    case 3:
      ask_histories(source);
      break;
    default:
      fill_places(source);
  }
  return 0;
}
