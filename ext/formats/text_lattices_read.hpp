// Parses a file into a lattice, or returns its fault; only memory errors are thrown.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "formats/slf.hpp"
#include "formats/slf_sections.hpp"
#include "formats/text_lattices_formats.hpp"
#include "formats/text_lattices_plf.hpp"

namespace ninja {

// Register spellings of the null word or of silence.
inline void add_silent(Vocabulary& words, const std::vector<std::string>& names, int32_t word) {
  for (const std::string& name : names) words.add_silent(name, word);
}

inline TextGraph whole_graph(TextTokens& parser) { return std::move(parser.text); }

inline TextGraph whole_graph(SlfParser& parser) {
  const size_t num_sublattices = parser.sections.size() - 1;
  if (num_sublattices == 0) return std::move(parser.sections[0].text);
  return SlfExpander(parser.sections, parser.size()).expand(num_sublattices);
}

// Run a parser and create the lattice.
template <class Parser>
Fault read_text(Parser& parser, int32_t fold, const char* node_name, TextLattice& lattice) {
  Fault fault;
  try {
    parser.parse();
    TextGraph graph = whole_graph(parser);
    lattice = assemble(graph, static_cast<Fold>(fold), node_name);
  } catch (const Refusal& refusal) {
    fault.kind = refusal.kind;
    fault.line = refusal.line;
    fault.message = refusal.message;
  }
  return fault;
}

}  // namespace ninja
