// Lattices of Moses.
// Covers: formats/text_lattices_plf.hpp
#include "mutate.hpp"
#include "text_lattices.hpp"

FUZZ_TARGET(mutate_text) {
  const uint8_t how = draw.ConsumeIntegral<uint8_t>();
  const fuzz::Bytes bytes(fuzz::rest(draw), 1);
  const int32_t graph = (how >> 4 & 3) - 1, acoustic = (how >> 6 & 3) - 1;
  ninja::PlfParser parser(bytes.begin(), bytes.end(), 1, static_cast<ninja::PlfScores>(how & 3), graph, acoustic);
  ninja::TextLattice made;
  fuzz::read_text(parser, (how >> 2 & 3) % 3, bytes.size(), made);
}
