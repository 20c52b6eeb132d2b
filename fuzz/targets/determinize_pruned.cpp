// Pruned determinization, also within bounds that stop it; repeated calls have equal results.
// Covers: graph/determinize_pruned.hpp graph/determinize_pruned_retry.hpp graph/determinize_pruned_result.hpp
// Covers: graph/determinize_pruned_strings.hpp
#include "graph/determinize_pruned_retry.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.wild = draw.ConsumeBool();
  shape.words = draw.ConsumeBool() ? 2 : 6;
  ninja::DeterminizeBounds bounds;
  bounds.delta = draw.ConsumeBool() ? 1.0f / 1024 : 0.0f;
  bounds.max_mem = draw.ConsumeBool() ? -1 : draw.ConsumeIntegralInRange<int64_t>(1, 4000);
  bounds.max_arcs = draw.ConsumeBool() ? -1 : draw.ConsumeIntegralInRange<int64_t>(1, 10);
  bounds.max_states = draw.ConsumeBool() ? -1 : draw.ConsumeIntegralInRange<int64_t>(1, 10);
  bounds.max_loop = draw.ConsumeBool() ? -1 : draw.ConsumeIntegralInRange<int64_t>(1, 10);
  const double beam = draw.ConsumeBool() ? draw.ConsumeIntegralInRange<int>(0, 80) / 8.0 : ninja::kNever;
  const double retry_cutoff = draw.ConsumeBool() ? 0.5 : 0.0;
  const auto acoustic_scale = static_cast<float>(draw.ConsumeIntegralInRange<int>(1, 12) / 4.0);
  const fuzz::DrawnLattice drawn(draw, shape);
  const auto run = [&] {
    return ninja::determinize_pruned(drawn.arcs(), drawn.labels(), beam, acoustic_scale, retry_cutoff, bounds);
  };
  const ninja::DeterminizedLattice found = run(), again = run();
  fuzz::expect(found.num_states == again.num_states && found.stopped_by == again.stopped_by && found.ali == again.ali &&
                   found.dst == again.dst,
               "the same lattice gives the same result");
  if (found.num_states == 0) return;
  const ninja::Arcs arcs = found.arcs();
  const ninja::Flaw flaw = fuzz::flaw_of(arcs, found.alignments());
  const bool lost = flaw == ninja::Flaw::kNoFinal || flaw == ninja::Flaw::kCost || flaw == ninja::Flaw::kFinalCost;
  if (!(lost && (shape.wild || found.stopped_by != ninja::Bound::kNone)))
    fuzz::expect_lattice(arcs, found.alignments());
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    std::vector<int32_t> word(arcs.word + arcs.arc_begin[state], arcs.word + arcs.arc_begin[state + 1]);
    std::sort(word.begin(), word.end());
    word.erase(std::remove(word.begin(), word.end(), 0),
               word.end());  // labels of a final state's string go on epsilons
    fuzz::expect(std::adjacent_find(word.begin(), word.end()) == word.end(), "a state has one arc for a word");
  }
}
