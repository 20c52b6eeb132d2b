// Lattices of Sphinx.
// Covers: formats/text_lattices_formats.hpp formats/text_tokens.hpp
#include "mutate.hpp"
#include "text_lattices.hpp"

FUZZ_TARGET(mutate_text) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const fuzz::Bytes bytes(fuzz::rest(draw), 1);
  ninja::SphinxParser parser(bytes.begin(), bytes.end(), how & 1 ? 1.0001 : 0.0, how & 2);
  ninja::TextLattice made;
  fuzz::read_text(parser, 0, bytes.size(), made);
}
