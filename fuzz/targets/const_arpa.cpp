// Kaldi's const-arpa.
// Covers: lm/const_arpa.hpp lm/ngram_build.hpp lm/ngram.hpp
#include "lm/const_arpa.hpp"

#include "models.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_words) {
  const fuzz::Bytes bytes(fuzz::rest(draw));
  const ninja::NumberedNgrams found = ninja::read_const_arpa(bytes.begin(), bytes.size());
  if (!found.error.empty()) return;
  fuzz::expect(static_cast<int32_t>(found.word_id.size()) == found.model.num_words(), "every word has an id");
  fuzz::ask(found.model);
}
