// Minimum Bayes risk decoding, also in bands so narrow that paths touch their edges, and with written forms.
// Covers: consensus/mbr.hpp consensus/mbr_band.hpp consensus/mbr_distance.hpp consensus/mbr_lattice.hpp
// Covers: consensus/mbr_forms.hpp
#include "consensus/mbr.hpp"

#include "core/times.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.wild = draw.ConsumeBool();
  const bool search = draw.ConsumeBool(), silence = draw.ConsumeBool(), given = draw.ConsumeBool();
  const bool has_forms = draw.ConsumeBool();
  const int64_t whole = draw.ConsumeBool() ? int64_t{1} << 20 : 0, least = draw.ConsumeIntegralInRange<int64_t>(1, 4);
  const int64_t most = draw.ConsumeIntegralInRange<int64_t>(1, 64);
  std::vector<int32_t> start;
  for (int left = given ? draw.ConsumeIntegralInRange<int>(0, 6) : 0; left > 0; --left) {
    start.push_back(draw.ConsumeIntegralInRange<int32_t>(0, 5));
  }
  const ninja::Scales scales{draw.ConsumeIntegralInRange<int>(0, 8) / 4.0, draw.ConsumeIntegralInRange<int>(0, 8) / 4.0,
                             0.5};
  const bool large = draw.ConsumeIntegral<uint8_t>() == 255;
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Arcs arcs = drawn.arcs();
  std::vector<int32_t> time(static_cast<size_t>(arcs.num_states));
  if (ninja::state_times(arcs, drawn.labels(), time.data()) != ninja::kConsistent) {
    int32_t now = 0;  // as a format may give them: no arc ends before it begins
    for (int32_t& each : time) each = now += draw.ConsumeIntegralInRange<int32_t>(0, large ? 100000000 : 9);
  }
  std::vector<int32_t> form;  // each is a form of one word, or a mark without a word
  for (int64_t arc = 0; has_forms && arc < arcs.num_arcs; ++arc) {
    const int32_t drawn_form = draw.ConsumeIntegralInRange<int32_t>(-1, 2);
    form.push_back(arcs.word[arc] == 0 ? 100 * drawn_form : 4 * arcs.word[arc] + drawn_form);
  }
  const fuzz::Array<int32_t> times(time), forms(form);
  ninja::Consensus found;
  if (!ninja::decode_mbr(arcs, drawn.labels(), times.data(), has_forms ? forms.data() : nullptr, scales,
                         given ? &start : nullptr, search, silence, whole, least, most, found)) {
    return;
  }
  fuzz::expect(found.confidence.size() == found.words.size() && found.time.size() == 2 * found.words.size() &&
                   found.posterior.size() == found.word.size() && !found.bin_begin.empty() &&
                   found.bin_begin.back() == static_cast<int64_t>(found.word.size()) &&
                   std::is_sorted(found.bin_begin.begin(), found.bin_begin.end()),
               "the arrays of a result fit each other");
  if (shape.wild) return;
  fuzz::expect(std::isfinite(found.risk) && found.risk > -1e-3, "a risk is no less than 0");
  for (const float each : found.posterior) fuzz::expect(each > -1e-3 && each < 1.001, "a posterior is a probability");
}
