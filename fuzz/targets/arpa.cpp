// ARPA files, read as a whole and in pieces, with equal results.
// Covers: lm/arpa.hpp lm/ngram_build.hpp lm/ngram.hpp
#include "lm/arpa.hpp"

#include "models.hpp"
#include "mutate.hpp"

namespace {

std::string read(const std::string& file, size_t piece) {
  ninja::ArpaReader reader(static_cast<int64_t>(file.size() / 4));
  size_t at = 0, end = 0;
  while (reader.error().empty() && end < file.size()) {
    end = std::min(file.size(), std::max(end, at) + piece);
    const fuzz::Bytes bytes(file.data() + at, end - at);
    const int64_t taken = reader.feed(bytes.begin(), bytes.size());
    fuzz::expect(taken >= 0 && taken <= bytes.size(), "no more is taken than there is");
    at += static_cast<size_t>(taken);
  }
  reader.close();
  if (!reader.error().empty()) return reader.error() + std::to_string(reader.line());
  const ninja::NgramModel model = reader.finish();
  fuzz::expect(reader.words().size() == model.num_words(), "every word is spelled");
  std::string told = std::to_string(model.num_states()) + " " + std::to_string(model.num_ngrams);
  for (int32_t word = 0; word < reader.words().size(); ++word) told += " " + std::string(reader.words()[word]);
  fuzz::ask(model);
  return told;
}

}  // namespace

FUZZ_TARGET(mutate_text) {
  const uint8_t piece = draw.ConsumeIntegral<uint8_t>();
  std::string file = fuzz::rest(draw);
  if (file.empty() || file.back() != '\n') file += '\n';  // as the caller does
  const std::string whole = read(file, file.size());
  if (piece & 1) fuzz::expect(read(file, piece) == whole, "a file reads the same in pieces");
}
