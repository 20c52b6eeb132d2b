// Operations whose results may be larger: determinization, union, splitting of states, removal of epsilons.
// Covers: graph/determinize.hpp graph/union.hpp graph/epsilon.hpp graph/split_states.hpp
// Covers: graph/limit_depth.hpp graph/potential.hpp
#include "core/times.hpp"
#include "graph/determinize.hpp"
#include "graph/epsilon.hpp"
#include "graph/limit_depth.hpp"
#include "graph/split_states.hpp"
#include "graph/union.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.wild = draw.ConsumeBool();
  shape.words = draw.ConsumeBool() ? 2 : 5;
  shape.most_states = 8;
  shape.timed = draw.ConsumeBool();
  const int64_t most = draw.ConsumeBool() ? 400 : draw.ConsumeIntegralInRange<int64_t>(0, 12);
  const double acoustic_scale = draw.ConsumeIntegralInRange<int>(0, 8) / 4.0;
  const auto num_words = draw.ConsumeIntegralInRange<int32_t>(0, 3);
  std::vector<int32_t> transcript;
  for (int left = draw.ConsumeIntegralInRange<int>(0, 5); left > 0; --left) {
    transcript.push_back(draw.ConsumeIntegralInRange<int32_t>(0, 4));
  }
  const int64_t depth = draw.ConsumeIntegralInRange<int64_t>(1, 4);
  const fuzz::DrawnLattice first(draw, shape), second(draw, shape);
  const ninja::Arcs arcs = first.arcs();

  const ninja::SplitLattice split = ninja::expand_ngram(arcs, num_words, most);
  if (!split.too_large) fuzz::expect_arcs(split.arc_begin, split.dst);
  const fuzz::Array<int32_t> said(transcript);
  const ninja::SplitLattice followed =
      ninja::follow_transcript(arcs, said.data(), static_cast<int64_t>(transcript.size()), most);
  if (!followed.too_large) fuzz::expect_arcs(followed.arc_begin, followed.dst);

  std::vector<int32_t> time(static_cast<size_t>(arcs.num_states));
  if (ninja::state_times(arcs, first.labels(), time.data()) == ninja::kConsistent) {
    const int64_t frames = ninja::num_frames(arcs, first.labels(), time.data());
    std::vector<int32_t> crossing(static_cast<size_t>(frames));
    ninja::depth_per_frame(arcs, first.labels(), time.data(), frames, crossing.data());
    ninja::Selection selection;
    ninja::limit_depth(arcs, first.labels(), {acoustic_scale, 1.0, 0.0}, time.data(), depth, selection);
    fuzz::expect(selection.num_arcs <= arcs.num_arcs, "fewer arcs are left");
  }

  const ninja::EpsilonFree one = ninja::remove_epsilons(arcs, first.labels(), acoustic_scale, most, 20 * most);
  const ninja::EpsilonFree other =
      ninja::remove_epsilons(second.arcs(), second.labels(), acoustic_scale, most, 20 * most);
  if (one.too_large || one.state.empty()) return;
  const ninja::Flaw flaw = fuzz::flaw_of(one.arcs(), one.alignments());
  if (flaw != ninja::Flaw::kNone) {
    fuzz::expect(shape.wild, "without epsilons a lattice is still one");
    return;
  }
  for (const int32_t word : one.word) fuzz::expect(word != 0, "no epsilon is left");
  const ninja::GrowingLattice alone = ninja::determinize(one.arcs(), one.alignments(), acoustic_scale, most);
  if (!alone.too_large && !shape.wild) fuzz::expect_lattice(alone.arcs(), alone.alignments());
  if (other.too_large || other.state.empty() || fuzz::flaw_of(other.arcs(), other.alignments()) != ninja::Flaw::kNone) {
    return;
  }
  const auto num_states = static_cast<int64_t>(one.final_graph.size());
  const std::vector<ninja::Operand> operands{{one.arcs(), one.alignments(), 0},
                                             {other.arcs(), other.alignments(), num_states}};
  const ninja::GrowingLattice united = ninja::unite(operands, acoustic_scale, 1.0 / 1024, most, 4 * most);
  if (!united.too_large && !shape.wild) fuzz::expect_lattice(united.arcs(), united.alignments());
}
