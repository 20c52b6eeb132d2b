// Alignment with words and phones by the fast and the general algorithm, also of invalid labels.
// Covers: align/word_align.hpp align/word_align_general.hpp align/word_align_lexicon.hpp align/align_graph.hpp
// Covers: align/align_units.hpp align/align_places.hpp align/align_result.hpp
#include "align/batches.hpp"
#include "align/word_align_general.hpp"
#include "align/word_align_lexicon.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape = fuzz::small_shape();
  shape.wild = draw.ConsumeBool();
  shape.labels = 10;
  shape.most_labels = draw.ConsumeBool() ? 3 : 8;
  shape.dead_ends = draw.ConsumeBool();
  std::vector<uint32_t> kind(1, 1);
  for (int label = 1; label <= shape.labels; ++label) {
    const auto drawn = draw.ConsumeIntegral<uint8_t>();
    const uint32_t phone = drawn & 3, place = (drawn >> 2) % 6;
    kind.push_back((1 + phone) << ninja::kPhoneShift | place << ninja::kKindShift | drawn >> 6);
    if (place == ninja::kNoKind) kind[0] = 0;
  }
  ninja::AlignOptions options{};
  options.by_phone = draw.ConsumeBool();
  options.phones_as_words = draw.ConsumeBool();
  options.reorder = draw.ConsumeBool();
  options.silence_word = draw.ConsumeIntegralInRange<int32_t>(0, 7);
  options.partial_word = draw.ConsumeIntegralInRange<int32_t>(0, 7);
  options.max_states = draw.ConsumeBool() ? 1000 : draw.ConsumeIntegralInRange<int64_t>(1, 20);
  options.max_labels = draw.ConsumeBool() ? 10000 : draw.ConsumeIntegralInRange<int64_t>(1, 200);
  const bool keep = draw.ConsumeBool(), by_lexicon = draw.ConsumeBool();
  if (options.by_phone) {
    for (size_t label = 1; label < kind.size(); ++label) {
      kind[label] = (kind[label] & ~(7u << ninja::kKindShift)) | ninja::kNonword << ninja::kKindShift;
    }
    kind[0] = 1;
  }
  std::vector<int32_t> entry;
  std::vector<int64_t> begin(1, 0);
  if (by_lexicon) {
    for (int entries = draw.ConsumeIntegralInRange<int>(0, 5); entries > 0; --entries) {
      for (int values = 2 + draw.ConsumeIntegralInRange<int>(1, 3); values > 0; --values) {
        entry.push_back(draw.ConsumeIntegralInRange<int32_t>(values > 2 ? 0 : 1, 4));
      }
      begin.push_back(static_cast<int64_t>(entry.size()));
    }
  }
  const fuzz::DrawnLattice drawn(draw, shape);
  const fuzz::Array<uint32_t> kinds(kind);
  const ninja::Labels known{kinds.data(), shape.labels};
  const ninja::Items items = drawn.items();
  ninja::Items fast;
  const bool all_well = ninja::align_all(items, known, options, fast) == ninja::AlignEnd::kAligned;
  if (all_well && !shape.wild && !shape.dead_ends) fuzz::expect_lattices(fast);
  const ninja::Alignments labels = drawn.labels();
  const int64_t num_labels = labels.ali_begin[items[0].arcs.num_arcs];
  const int64_t num_final_labels = labels.final_ali_begin[items[0].arcs.num_states];
  if (ninja::first_unknown_label(labels.ali, num_labels, known) >= 0 ||
      ninja::first_unknown_label(labels.final_ali, num_final_labels, known) >= 0) {
    return;
  }
  ninja::AlignGraph graph;
  const fuzz::Array<int32_t> entries(entry);
  const fuzz::Array<int64_t> begins(begin);
  const ninja::AlignLexicon lexicon(entries.data(), begins.data(), static_cast<int64_t>(begin.size()) - 1);
  if (by_lexicon) {
    ninja::LexiconAligner aligner(items[0].arcs, labels, known, lexicon,
                                  {6, options.partial_word, 30, options.max_states, options.max_labels});
    graph = aligner.align();
    if (aligner.unknown_word() >= 0) return;
  } else {
    ninja::GeneralAligner aligner(items[0].arcs, labels, known, options, 60);
    graph = aligner.align();
  }
  if (graph.too_large) return;
  ninja::EpsilonRemover remover(graph);
  const ninja::LatticeArrays made = keep ? remover.keep() : remover.remove(options.max_labels, graph.too_large);
  if (graph.too_large || made.final_graph.empty() || shape.wild) return;
  const ninja::Flaw flaw = fuzz::flaw_of(made.arcs(), made.alignments());
  const bool complete = !shape.dead_ends && graph.fault == ninja::AlignFault::kNone && !keep;
  if (flaw != ninja::Flaw::kNoFinal || complete) fuzz::expect_lattice(made.arcs(), made.alignments());
}
