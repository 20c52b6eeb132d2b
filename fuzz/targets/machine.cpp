// Composition of a lattice with an FST of any shape: cycles, epsilons and failure arcs.
// Covers: graph/compose.hpp core/fst_machine.hpp
#include "core/fst_machine.hpp"
#include "graph/compose.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  const int32_t phi = draw.ConsumeIntegralInRange<int32_t>(-1, 4);
  const int64_t most = draw.ConsumeBool() ? 2000 : draw.ConsumeIntegralInRange<int64_t>(0, 12);
  const int32_t num_states = draw.ConsumeIntegralInRange<int32_t>(1, 6);
  std::vector<int64_t> arc_begin(1, 0);
  std::vector<int32_t> dst, ilabel, olabel;
  std::vector<double> cost, final_cost;
  for (int32_t state = 0; state < num_states; ++state) {
    const uint8_t form = draw.ConsumeIntegral<uint8_t>();
    int32_t label = 0;  // arcs stand in the order of their input labels
    for (int arc = form % 5; arc > 0; --arc) {
      label = std::min(label + draw.ConsumeIntegralInRange<int32_t>(0, 2), 5);
      ilabel.push_back(label);
      olabel.push_back(draw.ConsumeIntegralInRange<int32_t>(0, 5));
      dst.push_back(draw.ConsumeIntegralInRange<int32_t>(0, num_states - 1));
      cost.push_back(fuzz::draw_cost(draw));
    }
    final_cost.push_back(form & 128 ? fuzz::draw_cost(draw) : INFINITY);
    arc_begin.push_back(static_cast<int64_t>(dst.size()));
  }
  const fuzz::Array<int64_t> begins(arc_begin);
  const fuzz::Array<int32_t> dsts(dst), ilabels(ilabel), olabels(olabel);
  const fuzz::Array<double> costs(cost), final_costs(final_cost);
  const ninja::FstArcs fst{num_states,     static_cast<int64_t>(dst.size()),
                           begins.data(),  dsts.data(),
                           ilabels.data(), olabels.data(),
                           costs.data(),   final_costs.data()};
  const int64_t start = draw.ConsumeIntegralInRange<int64_t>(0, num_states - 1);
  const fuzz::DrawnLattice drawn(draw);
  const ninja::Composition composition = ninja::compose(drawn.arcs(), fst, start, phi, most);
  if (composition.too_large || composition.cycle >= 0) return;
  const size_t num_composed = composition.state_map.size(), num_arcs = composition.dst.size();
  fuzz::expect(composition.arc_begin.size() == num_composed + 1 && composition.final_cost.size() == num_composed &&
                   composition.word.size() == num_arcs && composition.arc_map.size() == num_arcs &&
                   composition.cost.size() == num_arcs,
               "the arrays of a result fit each other");
  fuzz::expect_arcs(composition.arc_begin, composition.dst);
}
