// The path nearest to a reference, exactly and within a band.
// Covers: graph/oracle.hpp graph/align_words.hpp core/band.hpp
#include "graph/oracle.hpp"

#include "graph/align_words.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

namespace {

int64_t edits(const ninja::Oracle& found) { return found.substitutions + found.insertions + found.deletions; }

// See that arcs are a path, and return its words.
std::vector<int32_t> words_of(const ninja::Oracle& found, const ninja::Arcs& arcs) {
  std::vector<int32_t> words;
  int64_t state = 0;
  for (const int64_t arc : found.arc) {
    fuzz::expect(arc >= arcs.arc_begin[state] && arc < arcs.arc_begin[state + 1], "the arcs are a path");
    if (arcs.word[arc] != 0) words.push_back(arcs.word[arc]);
    state = arcs.dst[arc];
  }
  fuzz::expect(ninja::is_final(arcs, state), "a path ends in a final state");
  return words;
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  std::vector<int32_t> reference;
  for (int left = draw.ConsumeIntegralInRange<int>(0, 12); left > 0; --left) {
    reference.push_back(draw.ConsumeIntegralInRange<int32_t>(-1, 5));
  }
  const int64_t least = draw.ConsumeIntegralInRange<int64_t>(1, 4), most = draw.ConsumeIntegralInRange<int64_t>(1, 100);
  fuzz::Shape shape;
  shape.most_states = 16;
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Arcs arcs = drawn.arcs();
  const fuzz::Array<int32_t> words(reference);
  const auto length = static_cast<int64_t>(reference.size());
  const ninja::Oracle exact = ninja::oracle(arcs, words.data(), length);
  const ninja::Oracle banded = ninja::oracle(arcs, words.data(), length, 0, least, most);
  if (!exact.reached) return;
  const std::vector<int32_t> path = words_of(exact, arcs);
  const ninja::WordAlignment aligned =
      ninja::align_words(words.data(), length, path.data(), static_cast<int64_t>(path.size()), {1, 1, 1});
  int64_t wrong = 0;
  for (size_t pair = 0; pair < aligned.reference.size(); ++pair) {
    const int32_t one = aligned.reference[pair], other = aligned.hypothesis[pair];
    wrong += one < 0 || other < 0 || reference[one] != path[other];
  }
  fuzz::expect(edits(exact) == wrong, "the oracle counts the edits of its path");
  if (!banded.reached) return;
  words_of(banded, arcs);
  fuzz::expect(edits(banded) >= edits(exact), "no path is nearer than the nearest");
}
