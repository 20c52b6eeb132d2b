// Lattices unfolded so that each arc has one score, by posterior with a path cover, or along the best word prefixes; and
// the costs of sentences.
// Covers: search/unfold.hpp search/cover.hpp search/prefixes.hpp search/path_ends.hpp search/sentence_costs.hpp core/trie.hpp
#include "search/unfold.hpp"

#include "lattices.hpp"
#include "mutate.hpp"
#include "paths.hpp"
#include "search/cover.hpp"
#include "search/prefixes.hpp"
#include "search/sentence_costs.hpp"

namespace {

constexpr int32_t kEos = 99;

// An unfolding as a lattice, costs and words from the lattice that it was made of.
ninja::LatticeArrays lattice_of(const ninja::Unfolded& made, const ninja::Arcs& of) {
  ninja::LatticeArrays found;
  found.arc_begin = made.arc_begin;
  found.dst = made.dst;
  for (const int64_t arc : made.arc_map) {
    found.word.push_back(of.word[arc]);
    found.graph.push_back(of.graph[arc]);
    found.acoustic.push_back(of.acoustic[arc]);
  }
  for (size_t copy = 0; copy < made.state_map.size(); ++copy) {
    const bool ends = made.final_node[copy] != ninja::kNoNode;
    found.final_graph.push_back(ends ? of.final_graph[made.state_map[copy]] : INFINITY);
    found.final_acoustic.push_back(ends ? of.final_acoustic[made.state_map[copy]] : INFINITY);
  }
  found.ali_begin.assign(found.dst.size() + 1, 0);
  found.final_ali_begin.assign(found.final_graph.size() + 1, 0);
  return found;
}

// See what holds of every unfolding; returns it as a lattice.
ninja::LatticeArrays expect_unfolded(const ninja::Unfolded& made, const ninja::Arcs& arcs, const int32_t* lm_word) {
  fuzz::expect_copies(made, arcs);
  fuzz::expect(made.arc_node.size() == made.dst.size() && made.final_node.size() == made.state_map.size(),
               "the arrays of an unfolding fit each other");
  for (size_t copy = 0; copy < made.dst.size(); ++copy) {
    const int32_t node = made.arc_node[copy], word = lm_word[made.arc_map[copy]];
    fuzz::expect(
        word < 0 ? node == ninja::kNoNode : node >= 0 && node < made.trie.size() && made.trie.word(node) == word,
        "an arc takes the score of its word");
  }
  for (size_t copy = 0; copy < made.final_node.size(); ++copy) {
    const int32_t node = made.final_node[copy];
    fuzz::expect(node == ninja::kNoNode || (ninja::is_final(arcs, made.state_map[copy]) && node >= 0 &&
                                            node < made.trie.size() && made.trie.word(node) == kEos),
                 "a copy of a final state takes the score of the sentence end");
  }
  ninja::LatticeArrays found = lattice_of(made, arcs);
  fuzz::expect_lattice(found.arcs(), found.alignments());
  return found;
}

// The best way to each copy spells the history of the arcs that leave it.
void expect_histories_of_best_paths(const ninja::Unfolded& made, const ninja::Arcs& copies, const ninja::Scales& scales,
                                    const int32_t* lm_word) {
  for (int64_t state = 0; state < copies.num_states; ++state) {
    ninja::LatticeArrays part;  // the paths up to here
    part.arc_begin.assign(copies.arc_begin, copies.arc_begin + copies.num_states + 1);
    std::vector<float> zero(copies.num_states, INFINITY);
    zero[state] = 0;
    ninja::Arcs up_to = copies;
    up_to.final_graph = up_to.final_acoustic = zero.data();
    const std::vector<fuzz::Path> paths = fuzz::all_paths(up_to, 100);
    if (paths.empty()) continue;
    const auto cost = [&](const fuzz::Path& path) {
      return fuzz::cost_of(up_to, path, scales.acoustic, scales.lm, scales.word_penalty);
    };
    double least = INFINITY;
    for (const fuzz::Path& path : paths) least = std::min(least, cost(path));
    for (int64_t arc = copies.arc_begin[state]; arc < copies.arc_begin[state + 1]; ++arc) {
      if (made.arc_node[arc] == ninja::kNoNode) continue;
      bool spelled = false;
      for (const fuzz::Path& path : paths) {
        if (!fuzz::near(cost(path), least)) continue;
        int32_t node = ninja::kTrieRoot;
        for (const int64_t each : path.arc) {
          const int32_t word = lm_word[made.arc_map[each]];
          if (word >= 0 && node != ninja::kNoNode) node = made.trie.find(node, word);
        }
        spelled |= node == made.trie.parent(made.arc_node[arc]);
      }
      fuzz::expect(spelled, "an arc's history is that of the best way to it");
    }
  }
}

double best_of(const std::vector<fuzz::Path>& paths, const ninja::Arcs& arcs, const ninja::Scales& scales) {
  double least = INFINITY;
  for (const fuzz::Path& path : paths) {
    least = std::min(least, fuzz::cost_of(arcs, path, scales.acoustic, scales.lm, scales.word_penalty));
  }
  return least;
}

// Every arc of every path has the whole history of the path.
void expect_whole_histories(const ninja::Unfolded& made, const ninja::Arcs& copies) {
  for (const fuzz::Path& path : fuzz::all_paths(copies)) {
    int32_t node = ninja::kTrieRoot;
    for (const int64_t arc : path.arc) {
      if (made.arc_node[arc] == ninja::kNoNode) continue;
      fuzz::expect(made.trie.parent(made.arc_node[arc]) == node, "an arc has the history of its path");
      node = made.arc_node[arc];
    }
    fuzz::expect(made.trie.parent(made.final_node[path.end]) == node, "an end has the history of its path");
  }
}

void expect_sentence_costs(fuzz::Draw& draw, const ninja::Arcs& arcs, const ninja::Scales& scales,
                           const std::vector<fuzz::Path>& paths) {
  std::vector<std::vector<int32_t>> said;
  const auto words_of = [&](const fuzz::Path& path) {
    std::vector<int32_t> words;
    for (const int64_t arc : path.arc) {
      if (arcs.word[arc] != 0) words.push_back(arcs.word[arc]);
    }
    return words;
  };
  for (int left = draw.ConsumeIntegralInRange<int>(1, 5); left > 0; --left) {
    if (!paths.empty() && draw.ConsumeBool()) {
      said.push_back(words_of(paths[draw.ConsumeIntegralInRange<size_t>(0, paths.size() - 1)]));
    } else {
      said.emplace_back();
      for (int word = draw.ConsumeIntegralInRange<int>(0, 4); word > 0; --word) {
        said.back().push_back(draw.ConsumeIntegralInRange<int32_t>(1, 5));
      }
    }
  }
  std::vector<int32_t> word;
  std::vector<int64_t> begin(1, 0);
  for (const std::vector<int32_t>& each : said) {
    word.insert(word.end(), each.begin(), each.end());
    begin.push_back(static_cast<int64_t>(word.size()));
  }
  const fuzz::Array<int32_t> words(word);
  const fuzz::Array<int64_t> begins(begin);
  std::vector<double> graph(said.size()), acoustic(said.size());
  ninja::sentence_costs(arcs, scales, words.data(), begins.data(), static_cast<int64_t>(said.size()), graph.data(),
                        acoustic.data());
  if (paths.empty()) return;
  for (size_t sentence = 0; sentence < said.size(); ++sentence) {
    double least = INFINITY;
    for (const fuzz::Path& path : paths) {
      if (words_of(path) != said[sentence]) continue;
      least = std::min(least, fuzz::cost_of(arcs, path, scales.acoustic, scales.lm, scales.word_penalty));
    }
    const double found = scales.lm * graph[sentence] + scales.acoustic * acoustic[sentence] +
                         scales.word_penalty * static_cast<double>(said[sentence].size());
    fuzz::expect(least == INFINITY ? graph[sentence] == INFINITY : fuzz::near(least, found),
                 "a sentence costs what its best path costs");
  }
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape = fuzz::small_shape();
  shape.words = draw.ConsumeBool() ? 2 : 5;
  shape.wild = false;
  const ninja::Scales scales{draw.ConsumeIntegralInRange<int>(1, 8) / 4.0, draw.ConsumeBool() ? 1.0 : 0.5,
                             draw.ConsumeIntegralInRange<int>(-2, 2) / 2.0};
  const uint8_t silent = draw.ConsumeIntegral<uint8_t>();
  const double min_posterior = draw.ConsumeBool() ? 1e-300 : draw.ConsumeIntegralInRange<int>(1, 100) / 100.0;
  const double beam = draw.ConsumeBool() ? INFINITY : draw.ConsumeIntegralInRange<int>(0, 40) / 8.0;
  const int64_t max_nodes = draw.ConsumeBool() ? 0 : draw.ConsumeIntegralInRange<int64_t>(1, 12);
  const int32_t merge_order = draw.ConsumeBool() ? 0 : draw.ConsumeIntegralInRange<int32_t>(1, 3);
  const int64_t max_arcs = draw.ConsumeBool() ? 100000 : draw.ConsumeIntegralInRange<int64_t>(1, 30);
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Arcs arcs = drawn.arcs();
  const fuzz::Array<int32_t> lm_word(fuzz::lm_words(arcs, silent));
  const std::vector<fuzz::Path> paths = fuzz::all_paths(arcs);
  const double all = fuzz::num_paths(arcs);
  const bool whole_beam = beam == INFINITY && max_nodes == 0 && merge_order == 0;
  expect_sentence_costs(draw, arcs, scales, paths);
  try {
    ninja::Unfolded covered;
    const bool leads = ninja::expand_by_posterior(arcs, scales, min_posterior, max_arcs, lm_word.data(), covered);
    fuzz::expect(leads == all > 0, "there is a path or none");
    if (leads) {
      ninja::cover(arcs, scales, lm_word.data(), kEos, covered);
      const ninja::LatticeArrays copies = expect_unfolded(covered, arcs, lm_word.data());
      fuzz::expect(fuzz::num_paths(copies.arcs()) == all, "all paths are there once");
      if (all <= 60) expect_histories_of_best_paths(covered, copies.arcs(), scales, lm_word.data());
    }
  } catch (const std::overflow_error&) { fuzz::expect(max_arcs < 100000, "there are too many arcs"); }
  try {
    ninja::Prefixes grown(arcs, scales, lm_word.data(), kEos, beam, max_nodes, merge_order, max_arcs);
    fuzz::expect(grown.empty() == (all == 0), "there is a path or none");
    if (grown.empty()) return;
    ninja::Unfolded unfolded;
    grown.unfold(max_arcs, unfolded);
    const ninja::LatticeArrays copies = expect_unfolded(unfolded, arcs, lm_word.data());
    if (whole_beam) fuzz::expect(fuzz::num_paths(copies.arcs()) == all, "all paths are there once");
    if (whole_beam) expect_whole_histories(unfolded, copies.arcs());
    const std::vector<fuzz::Path> kept = fuzz::all_paths(copies.arcs(), 1000);
    if (!paths.empty() && !kept.empty()) {
      fuzz::expect(fuzz::near(best_of(kept, copies.arcs(), scales), best_of(paths, arcs, scales)),
                   "the best path is kept");
    }
  } catch (const std::overflow_error&) { fuzz::expect(max_arcs < 100000, "there are too many prefixes"); }
}
