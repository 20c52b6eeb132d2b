// HTK's lattices, with sub-lattices and lists of scores, under all options.
// Covers: formats/slf.hpp formats/slf_scan.hpp formats/slf_whole.hpp formats/slf_sections.hpp
// Covers: formats/text_lattices.hpp
#include "mutate.hpp"
#include "text_lattices.hpp"

FUZZ_TARGET(mutate_text) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  ninja::SlfOptions options;
  options.words = static_cast<ninja::SlfWords>((how >> 1 & 3) % 3);
  options.fill = how & 8;
  options.missing_score = -3;
  if (how & 128) {
    options.costs = {{"n", 1, false}, {"n", 0, true}, {"r", -1, false}};
  } else {
    options.costs = {
        {"l", -1, false}, {"r", -1, false}, {"language", -1, false}, {"a", -1, true}, {"acoustic", -1, true}};
  }
  const fuzz::Bytes bytes(fuzz::rest(draw), 1);
  ninja::SlfParser parser(bytes.begin(), bytes.end(), options);
  ninja::TextLattice made;
  fuzz::read_text(parser, (how >> 4 & 3) % 3, bytes.size(), made);
}
