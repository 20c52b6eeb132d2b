// Class grammars: lists of phrases inside an n-gram model, as sets of tokens.
// Covers: context/context.hpp context/compose_context.hpp
#include "context/compose_context.hpp"
#include "context/context.hpp"
#include "lattices.hpp"
#include "models.hpp"
#include "mutate.hpp"

namespace {

constexpr int32_t kSymbols = 6;

const char* const kArpa =
    "\\data\\\nngram 1=6\nngram 2=3\n\n\\1-grams:\n-99 <s> -0.5\n-1 </s>\n-0.7 a -0.2\n-0.9 b -0.1\n-1.2 c -0.3\n"
    "-0.8 #C\n\n\\2-grams:\n-0.3 <s> a\n-0.2 a #C\n-0.6 b </s>\n\n\\end\\\n";

// A deterministic acceptor of phrases: every arc leads to a later state.
ninja::Phrases draw_phrases(fuzz::Draw& draw) {
  ninja::Phrases made;
  const int32_t num_states = draw.ConsumeIntegralInRange<int32_t>(1, 6);
  made.arc_begin.push_back(0);
  for (int32_t state = 0; state < num_states; ++state) {
    const uint8_t leaving = draw.ConsumeIntegral<uint8_t>();
    for (int32_t word = 0; word < kSymbols && state + 1 < num_states; ++word) {
      if (!(leaving >> word & 1)) continue;
      made.word.push_back(word);
      made.dst.push_back(draw.ConsumeIntegralInRange<int32_t>(state + 1, num_states - 1));
      made.bonus.push_back(fuzz::draw_cost(draw, false));
    }
    made.final_bonus.push_back(leaving & 128 ? fuzz::draw_cost(draw, false) : NAN);
    made.arc_begin.push_back(static_cast<int64_t>(made.word.size()));
  }
  return made;
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  static const ninja::NgramModel model = fuzz::read_model(kArpa);
  const std::vector<uint8_t> no_word{1, 0, 0, 0, 0, 0};
  std::vector<int32_t> word(kSymbols);
  std::vector<float> cost(kSymbols, 0);
  for (int32_t& each : word) each = draw.ConsumeIntegralInRange<int32_t>(-1, model.num_words() - 1);
  for (float& each : cost) each = fuzz::draw_cost(draw, false);
  const ninja::BoundModel bound{&model, word.data(), cost.data(), 1};
  const ninja::BoundModel old = draw.ConsumeBool() ? bound : ninja::BoundModel();
  const ninja::ContextOptions options{draw.ConsumeIntegralInRange<int>(1, 8) / 4.0, draw.ConsumeBool() ? 1.0 : 0.5,
                                      draw.ConsumeIntegralInRange<int>(-4, 8) / 2.0,
                                      draw.ConsumeIntegralInRange<int>(-4, 8) / 2.0,
                                      draw.ConsumeIntegralInRange<int32_t>(0, 6)};
  const ninja::Phrases one = draw_phrases(draw), other = draw_phrases(draw), unwanted = draw_phrases(draw);
  ninja::ContextTracker tracker(bound, old, no_word.data(), options);
  ninja::UtteranceLists lists;
  lists.lists.push_back({&one, 5});
  if (draw.ConsumeBool()) lists.lists.push_back({&other, -1});
  if (draw.ConsumeBool()) lists.unwanted.push_back(&unwanted);
  const int32_t start = tracker.start(lists);
  std::vector<int32_t> said;
  int32_t state = start;
  for (int left = draw.ConsumeIntegralInRange<int>(0, 8); left > 0 && state >= 0; --left) {
    const auto symbol = draw.ConsumeIntegralInRange<int32_t>(0, kSymbols - 1);
    float score, again;
    const int32_t next = tracker.advance(state, symbol, &score);
    fuzz::expect(tracker.advance(state, symbol, &again) == next && std::memcmp(&score, &again, 4) == 0,
                 "the grammar is deterministic");
    fuzz::expect(next < 0 || tracker.has(next), "a word leads to a state");
    if (next >= 0) said.push_back(symbol);
    state = next;
  }
  if (state >= 0) tracker.final_score(state);
  for (const auto& phrase : tracker.explain(start, said.data(), static_cast<int64_t>(said.size()))) {
    fuzz::expect(phrase.begin >= 0 && phrase.begin <= phrase.end && phrase.end <= static_cast<int32_t>(said.size()) &&
                     phrase.list < static_cast<int32_t>(lists.lists.size()),
                 "a phrase lies among the words");
  }
  fuzz::Shape shape;
  shape.words = kSymbols;
  shape.wild = draw.ConsumeBool();
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Composed made = ninja::compose_context(drawn.arcs(), &tracker, start, 0.5, 200);
  if (made.too_large || made.impossible >= 0) return;
  ninja::Block block = ninja::copy(made, drawn.arcs(), drawn.labels());
  ninja::Item item;
  ninja::adopt(block, item);
  if (!shape.wild && fuzz::flaw_of(item.arcs, item.labels) != ninja::Flaw::kNoFinal)
    fuzz::expect_lattice(item.arcs, item.labels);
}
