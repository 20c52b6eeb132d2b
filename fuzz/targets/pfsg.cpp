// Lattices of SRILM, several in a file.
// Covers: formats/text_lattices_formats.hpp formats/text_tokens.hpp
#include "mutate.hpp"
#include "text_lattices.hpp"

FUZZ_TARGET(mutate_text) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const fuzz::Bytes bytes(fuzz::rest(draw), 1);
  int64_t at = 0, line = 1;
  while (at < bytes.size()) {
    ninja::PfsgParser parser(bytes.begin() + at, bytes.end(), line);
    ninja::TextLattice made;
    if (!fuzz::read_text(parser, how % 3, bytes.size(), made)) break;
    const int64_t stop = parser.at() - bytes.begin();
    fuzz::expect(stop > at && stop <= bytes.size(), "a lattice takes some of the bytes");
    at = stop;
    line = parser.line();
  }
}
