// Tensors of k2, whose numbers are all untrusted.
// Covers: formats/k2_image.hpp core/top_sort.hpp
#include "formats/k2_image.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const int32_t num_states =
      how & 128 ? draw.ConsumeIntegralInRange<int32_t>(0, 100000) : draw.ConsumeIntegralInRange<int32_t>(0, 9);
  const int32_t num_arcs = draw.ConsumeIntegralInRange<int32_t>(0, 20);
  std::vector<int32_t> rows, word;
  std::vector<float> lm, am;
  int32_t src = 0;
  for (int32_t arc = 0; arc < num_arcs; ++arc) {
    const uint8_t wild = draw.ConsumeIntegral<uint8_t>();
    src = std::min(src + (wild & 1), std::max(num_states - 2, 0));
    int32_t dst =
        wild & 2 ? draw.ConsumeIntegralInRange<int32_t>(0, 9) : std::min(src + 1 + (wild >> 6), num_states - 1);
    int32_t label = dst == num_states - 1 ? -1 : wild >> 4 & 3;
    if ((wild & 12) == 12) label = draw.ConsumeIntegral<int32_t>();
    if ((wild & 28) == 28) dst = draw.ConsumeIntegral<int32_t>();
    const float score = wild == 255 ? draw.ConsumeFloatingPoint<float>() : wild == 254 ? NAN : fuzz::draw_cost(draw);
    int32_t bits;
    std::memcpy(&bits, &score, sizeof(bits));
    rows.insert(rows.end(), {src, dst, label, bits});
    word.push_back(wild & 32 ? label : draw.ConsumeIntegralInRange<int32_t>(-2, 5));
    lm.push_back(wild == 253 ? INFINITY : fuzz::draw_cost(draw));
    am.push_back(fuzz::draw_cost(draw));
  }
  const fuzz::Array<int32_t> all_rows(rows), words(word);
  const fuzz::Array<float> lms(lm), ams(am);
  ninja::K2Fsa fsa;
  fsa.num_arcs = num_arcs;
  fsa.num_states = num_states;
  fsa.arcs = all_rows.data();
  if (how & 1) fsa.word = words.data();
  if (how & 2) fsa.lm = lms.data();
  if (how & 4) fsa.am = ams.data();
  fsa.as_graph = how & 8;
  const ninja::K2Plan plan = ninja::plan_k2(fsa);
  if (!plan.fault.error.empty()) return;
  ninja::Block arrays = ninja::new_block(plan.num_states, plan.num_arcs, 0, 0);
  const bool sound = ninja::fill_k2(fsa, plan, arrays).error.empty();
  std::fill_n(arrays.ali_begin, plan.num_arcs + 1, 0);
  std::fill_n(arrays.final_ali_begin, plan.num_states + 1, 0);
  ninja::Item item;
  ninja::adopt(arrays, item);
  if (sound) fuzz::expect_lattice(item.arcs, item.labels);
}
