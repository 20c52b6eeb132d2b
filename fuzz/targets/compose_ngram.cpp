// Composition with a back-off model of random n-grams, whose contexts may be missing.
// Covers: lm/compose_ngram.hpp lm/ngram_build.hpp lm/ngram.hpp core/copies.hpp core/pair_map.hpp
#include "lm/compose_ngram.hpp"

#include <map>

#include "core/batch.hpp"
#include "lattices.hpp"
#include "lm/ngram_build.hpp"
#include "models.hpp"
#include "mutate.hpp"
#include "paths.hpp"

namespace {

using Words = std::vector<int32_t>;

constexpr int32_t kBos = 0, kEos = 1;

// N-grams by their words; the slow twin of a model.
struct Table {
  std::map<Words, float> logprob, backoff;
  int32_t order = 1, num_words = 2;

  double score(const Words& history, int32_t word) const {
    double paid = 0;
    for (size_t length = std::min<size_t>(history.size(), order - 1);; --length) {
      Words ngram(history.end() - static_cast<int64_t>(length), history.end());
      const auto back = backoff.find(ngram);
      ngram.push_back(word);
      const auto found = logprob.find(ngram);
      if (found != logprob.end()) return paid + found->second;
      if (length == 0) return -INFINITY;
      if (back != backoff.end()) paid += back->second;
    }
  }
};

float draw_logprob(fuzz::Draw& draw) { return -static_cast<float>(draw.ConsumeIntegral<uint8_t>()) / 16; }

ninja::NgramModel draw_model(fuzz::Draw& draw, Table& table) {
  table.order = draw.ConsumeIntegralInRange<int32_t>(1, 4);
  table.num_words = draw.ConsumeIntegralInRange<int32_t>(2, 5);
  ninja::NgramBuilder builder(table.order);
  if (draw.ConsumeBool()) builder.reserve(table.num_words, 3);
  const auto weigh = [&](int32_t node, const Words& ngram) {
    if (node == ninja::NgramBuilder::kLeaf || draw.ConsumeBool()) return;
    builder.set_backoff(node, table.backoff[ngram] = draw_logprob(draw) / 4);
  };
  for (int32_t word = 0; word < table.num_words; ++word) {
    const float logprob = draw.ConsumeIntegralInRange<int>(0, 15) == 15 ? -INFINITY : draw_logprob(draw);
    table.logprob[{word}] = logprob;
    weigh(builder.add_word(logprob), {word});
  }
  int64_t place = 0, twice = -1;
  for (int32_t length = 2; length <= table.order; ++length) {
    builder.flush();
    std::map<Words, float> added;
    for (int left = draw.ConsumeIntegralInRange<int>(0, 40); left > 0; --left, ++place) {
      Words ngram;
      for (int32_t at = 0; at < length; ++at) {
        ngram.push_back(draw.ConsumeIntegralInRange<int32_t>(0, table.num_words - 1));
      }
      const float logprob = draw_logprob(draw);
      if (added.count(ngram) > 0) {
        if (draw.ConsumeIntegralInRange<int>(0, 31) < 31) continue;
        twice = twice < 0 ? place : twice;
      }
      const int32_t context = builder.context(ngram.data(), length - 1);
      const int32_t node = builder.add(context, ngram.back(), length, logprob, place);
      if (!added.emplace(ngram, logprob).second) continue;
      weigh(node, ngram);
    }
    table.logprob.insert(added.begin(), added.end());
  }
  builder.flush();
  fuzz::expect((builder.duplicate() < 0) == (twice < 0), "an n-gram that stands twice is found");
  ninja::NgramModel model = builder.finish(kBos);
  if (twice >= 0) table.order = 0;
  return model;
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  Table table;
  ninja::NgramModel model = draw_model(draw, table);
  if (table.order == 0) return;
  fuzz::ask(model);
  fuzz::Shape shape;
  shape.most_states = 8;
  shape.most_arcs = 3;
  shape.wild = draw.ConsumeIntegralInRange<int>(0, 3) == 3;
  shape.words = draw.ConsumeBool() ? 3 : 6;
  const int32_t unknown = draw.ConsumeBool() ? model.add(-7, model.root) : -1;
  fuzz::expect(model.bytes() > 0, "a model takes memory");
  const double scale = draw.ConsumeIntegralInRange<int>(-4, 8) / 4.0;
  const int64_t most = draw.ConsumeBool() ? 100000 : draw.ConsumeIntegralInRange<int64_t>(0, 30);
  const uint8_t silent = draw.ConsumeIntegral<uint8_t>();  // words that the model does not see
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Arcs arcs = drawn.arcs();
  std::vector<int32_t> of_arc;
  std::vector<float> cost;
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
    const int32_t word = arcs.word[arc];
    const bool seen = word != 0 && !(silent >> word & 1);
    of_arc.push_back(!seen ? -1 : word < table.num_words ? word : unknown);
    cost.push_back(word == 3 ? 0.5f : 0.0f);
  }
  const fuzz::Array<int32_t> lm_word(of_arc);
  const fuzz::Array<float> extra(cost);
  const ninja::Composed made = ninja::compose_ngram(arcs, model, lm_word.data(), extra.data(), kEos, scale, most);
  if (made.too_large) {
    fuzz::expect(most < 100000, "there are too many arcs");
    return;
  }
  const std::vector<fuzz::Path> old = fuzz::all_paths(arcs);
  if (made.impossible >= 0) {
    fuzz::expect(made.impossible <= arcs.num_arcs, "a place is one of the lattice");
    return;
  }
  fuzz::expect_copies(made, arcs);
  if (made.state_map.empty()) return;
  ninja::Block block = ninja::copy(made, arcs, drawn.labels());
  ninja::Item item;
  ninja::adopt(block, item);
  if (shape.wild) return;
  if (fuzz::num_paths(arcs) > 0) fuzz::expect_lattice(item.arcs, item.labels);
  fuzz::expect(fuzz::num_paths(item.arcs) == fuzz::num_paths(arcs), "all paths are there once");
  for (const fuzz::Path& path : fuzz::all_paths(item.arcs)) {
    Words history{kBos};
    for (const int64_t arc : path.arc) {
      double graph = arcs.graph[made.arc_map[arc]];
      if (const int32_t word = of_arc[made.arc_map[arc]]; word >= 0) {
        const double logprob = word == unknown ? -7 : table.score(history, word);
        graph += scale * (cost[made.arc_map[arc]] - logprob);
        if (word == unknown)
          history.clear();
        else
          history.push_back(word);
      }
      fuzz::expect(fuzz::near(graph, made.graph[arc]), "an arc costs what the model says");
    }
    const double end = arcs.final_graph[made.state_map[path.end]] - scale * table.score(history, kEos);
    fuzz::expect(fuzz::near(end, made.final_graph[path.end]), "an end costs what the model says");
  }
}
