// Kaldi's G.fst: an OpenFst image as a back-off model.
// Covers: lm/grammar.hpp core/fst_machine.hpp core/fst_image.hpp
#include "lm/grammar.hpp"

#include "models.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_words) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const fuzz::Bytes bytes(fuzz::rest(draw));
  const ninja::Machine sorted = ninja::parse_machine(bytes.begin(), bytes.size());
  const ninja::Machine machine = ninja::parse_any(bytes.begin(), bytes.size());
  fuzz::expect(sorted.fst.error == machine.fst.error, "order makes no fault");
  if (!machine.fst.error.empty()) return;
  for (size_t state = 0; state < sorted.fst.final_cost.size(); ++state) {
    const auto begin = sorted.fst.ilabel.begin();
    fuzz::expect(std::is_sorted(begin + sorted.fst.arc_begin[state], begin + sorted.fst.arc_begin[state + 1]),
                 "arcs are sorted");
  }
  ninja::GrammarLabels label;
  label.backoff = how & 1 ? 4 : -1;
  label.bos = how & 2 ? 1 : -1;
  label.eos = how & 4 ? 2 : how & 8 ? 0 : -1;
  const ninja::NumberedNgrams found = ninja::grammar_of(machine, label);
  if (!found.error.empty()) return;
  fuzz::expect(static_cast<int32_t>(found.word_id.size()) == found.model.num_words(), "every word has an id");
  fuzz::ask(found.model);
}
