// Kernels that find or keep paths: pruning, best path, n-best paths, posteriors, pushing and minimization.
// Covers: graph/prune.hpp graph/select.hpp graph/best_path.hpp graph/nbest.hpp graph/posteriors.hpp graph/push.hpp
// Covers: graph/minimize.hpp
#include "graph/batches.hpp"
#include "graph/posteriors.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.wild = draw.ConsumeBool();
  shape.words = draw.ConsumeBool() ? 2 : 6;
  const ninja::Scales scales{draw.ConsumeIntegralInRange<int>(0, 8) / 4.0, draw.ConsumeIntegralInRange<int>(0, 8) / 4.0,
                             draw.ConsumeIntegralInRange<int>(-4, 4) / 2.0};
  const double beam = draw.ConsumeBool() ? draw.ConsumeIntegralInRange<int>(0, 40) / 8.0 : 1e300;
  const int64_t n = draw.ConsumeIntegralInRange<int64_t>(1, 30);
  const bool strings = draw.ConsumeBool(), weights = draw.ConsumeBool();
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Items items = drawn.items();
  const ninja::Results pruned = ninja::prune_each(items, scales, beam);
  const ninja::Results best = ninja::path_lattices(items, ninja::best_paths(items, scales), false);
  const ninja::Results paths = ninja::path_lattices(items, ninja::nbest_paths(items, n, scales), true);
  const ninja::Results pushed = ninja::push_each(items, strings, weights, scales.acoustic);
  const ninja::Results merged = ninja::minimize_each(items, strings, weights, scales.acoustic, 1.0 / 1024);
  ninja::PathWords words;
  const bool spelled = ninja::best_words_all(items, scales, words) < 0;
  std::vector<double> posterior(static_cast<size_t>(items[0].arcs.num_arcs));
  const bool leads = ninja::posteriors(items[0].arcs, scales, posterior.data());
  const auto num_states = static_cast<size_t>(items[0].arcs.num_states);
  std::vector<double> alpha(num_states), beta(num_states);
  ninja::forward_backward(items[0].arcs, scales, alpha.data(), beta.data());
  fuzz::expect(best.items.size() + best.failures.size() == 1 && spelled == !best.items.empty(),
               "a lattice has a best path or fails");
  // Pruning scales costs in single precision, as Kaldi does, where the largest overflow.
  fuzz::expect(shape.wild || pruned.items.size() == best.items.size(), "pruning keeps the best path");
  fuzz::expect(paths.items.empty() == best.items.empty() && static_cast<int64_t>(paths.items.size()) <= n,
               "n best paths are n at most");
  for (const ninja::Results* each : {&pruned, &best, &paths}) fuzz::expect_lattices(each->items);
  if (!shape.wild) {
    fuzz::expect_lattices(pushed.items);
    fuzz::expect_lattices(merged.items);
    for (const double each : posterior)
      fuzz::expect(!leads || (each >= 0 && each < 1 + 1e-6), "a posterior is a probability");
  }
}
