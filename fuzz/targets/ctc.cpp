// The CTC search over random matrices, and the lattice of its hypotheses.
// Covers: ctc/ctc.hpp ctc/ctc_best.hpp ctc/ctc_prefixes.hpp ctc/ctc_lattice.hpp
#include "ctc/ctc.hpp"

#include "ctc/ctc_lattice.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  const int64_t num_units = draw.ConsumeIntegralInRange<int64_t>(1, 6);
  int64_t num_frames = draw.ConsumeIntegralInRange<int64_t>(0, 8);
  ninja::CtcUnits units{num_units, draw.ConsumeIntegralInRange<int64_t>(0, num_units - 1), nullptr};
  std::vector<uint8_t> kind;
  for (int64_t unit = 0; unit < num_units; ++unit) kind.push_back(draw.ConsumeIntegralInRange<uint8_t>(0, 3));
  kind[static_cast<size_t>(units.blank)] = ninja::kCtcNever;
  const fuzz::Array<uint8_t> kinds(kind);
  units.kind = kinds.data();
  // A tree of spellings, states numbered as a search in breadth meets them.
  std::vector<int64_t> child_begin(1, 0);
  std::vector<int32_t> unit, child;
  std::vector<uint8_t> is_word;
  if (draw.ConsumeBool()) {
    int32_t num_states = 1;
    for (int32_t state = 0; state < num_states; ++state) {
      const uint8_t leaving = draw.ConsumeIntegral<uint8_t>();
      for (int32_t each = 0; each < num_units && num_states < 12; ++each) {
        if (!(leaving >> each & 1)) continue;
        unit.push_back(each);
        child.push_back(num_states++);
      }
      child_begin.push_back(static_cast<int64_t>(unit.size()));
      is_word.push_back(leaving >> 6 & 1);
    }
  }
  if (unit.empty()) is_word.clear();
  const fuzz::Array<int64_t> begins(child_begin);
  const fuzz::Array<int32_t> unit_of(unit), children(child);
  const fuzz::Array<uint8_t> words(is_word);
  const ninja::CtcLexicon lexicon{static_cast<int64_t>(is_word.size()), begins.data(), unit_of.data(), children.data(),
                                  words.data()};
  // Without a beam the prefixes of eight frames are millions.
  ninja::CtcBeam beam{draw.ConsumeIntegralInRange<int64_t>(num_frames > 4 ? 1 : 0, 6), draw.ConsumeBool() ? 1e300 : 3.0,
                      draw.ConsumeIntegralInRange<int64_t>(0, num_units)};
  std::vector<double> logprob;
  for (int64_t cell = 0; cell < num_frames * num_units; ++cell) {
    const uint8_t drawn = draw.ConsumeIntegral<uint8_t>();
    logprob.push_back(drawn == 255 ? -INFINITY : drawn == 254 ? -1e300 : -drawn / 8.0);
  }
  // So many prefixes that those which no kept one comes from are forgotten.
  if (draw.ConsumeIntegral<uint8_t>() == 255 && beam.beam > 0 && num_frames > 0) {
    beam.beam *= 8;
    const std::vector<double> once = logprob;
    while (num_frames < 400) {
      logprob.insert(logprob.end(), once.begin(), once.end());
      num_frames = static_cast<int64_t>(logprob.size()) / num_units;
    }
  }
  const fuzz::Array<double> matrix(logprob);
  ninja::CtcResult found;
  ninja::CtcSearch(units, lexicon, beam).search(matrix.data(), num_frames, found);
  const size_t num_hypotheses = found.total.size(), num_words = found.node.size();
  fuzz::expect(found.word_begin.size() == num_hypotheses + 1 &&
                   found.word_begin.back() == static_cast<int64_t>(num_words) && found.first.size() == num_words &&
                   found.end.size() == num_words && found.cost.size() == num_words &&
                   found.alignment.size() == num_hypotheses * static_cast<size_t>(num_frames),
               "the arrays of a result fit each other");
  for (size_t word = 0; word < num_words; ++word) {
    fuzz::expect(found.first[word] >= 0 && found.first[word] < found.end[word] && found.end[word] <= num_frames,
                 "a word has its frames");
    fuzz::expect(found.node[word] >= 0 && found.node[word] < static_cast<int32_t>(found.parent.size()),
                 "a word has its node");
  }
  if (num_hypotheses == 0) return;
  // As ninja.decoding passes them on, with a word id for each node.
  std::vector<int64_t> number(num_hypotheses), id_begin(found.parent.size() + 1);
  std::vector<int32_t> same(found.parent.size()), id(found.parent.size());
  for (size_t each = 0; each < number.size(); ++each) number[each] = static_cast<int64_t>(each);
  for (size_t each = 0; each < same.size(); ++each) {
    same[each] = static_cast<int32_t>(each);
    id[each] = 1 + static_cast<int32_t>(each);
    id_begin[each + 1] = static_cast<int64_t>(each) + 1;
  }
  const ninja::CtcHypotheses given{static_cast<int64_t>(num_hypotheses),
                                   number.data(),
                                   found.total.data(),
                                   found.word_begin.data(),
                                   found.node.data(),
                                   found.first.data(),
                                   found.end.data(),
                                   found.cost.data(),
                                   found.alignment.data(),
                                   num_frames,
                                   static_cast<int32_t>(units.blank) + 1,
                                   static_cast<int64_t>(same.size()),
                                   same.data(),
                                   same.data(),
                                   id_begin.data(),
                                   id.data()};
  ninja::CtcLattice made;
  made.make(given);
  fuzz::expect(made.ali_begin.size() == made.dst.size() + 1, "every arc has labels");
  fuzz::expect_arcs(made.arc_begin, made.dst);
}
