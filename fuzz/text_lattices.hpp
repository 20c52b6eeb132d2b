// The invariants of lattices that are read from text.
#pragma once

#include "formats/text_lattices_read.hpp"
#include "lattices.hpp"

namespace fuzz {

// Read a lattice and check it; return false if the file is refused.
template <class Parser>
bool read_text(Parser& parser, int32_t fold, int64_t num_bytes, ninja::TextLattice& made) {
  ninja::add_silent(parser.words, {"<eps>", "!NULL", "NULL"}, ninja::kNull);
  ninja::add_silent(parser.words, {"<s>", "</s>", "<sil>"}, ninja::kSilent);
  const ninja::Fault fault = ninja::read_text(parser, fold, "node", made);
  for (const ninja::Vocabulary::Entry& entry : parser.words.entries()) {
    volatile size_t length = std::string(entry.text).size();  // each word is there to be read
    static_cast<void>(length);
  }
  if (fault.kind != ninja::Fault::kNone) {
    expect(!fault.message.empty(), "a fault has a message");
    expect(fault.message.size() < 1000, "a message is short");
    return false;
  }
  LatticeArrays arrays;
  arrays.arc_begin = made.arc_begin;
  arrays.dst = made.dst;
  arrays.word = made.word;
  arrays.graph = made.graph;
  arrays.acoustic = made.acoustic;
  arrays.final_graph = made.final_graph;
  arrays.final_acoustic = made.final_acoustic;
  arrays.ali_begin.assign(made.dst.size() + 1, 0);
  arrays.final_ali_begin.assign(made.final_graph.size() + 1, 0);
  expect_lattice(arrays.arcs(), arrays.alignments());
  const size_t num_states = made.final_graph.size(), num_arcs = made.dst.size();
  expect(made.arc_begin.size() == num_states + 1 && made.word.size() == num_arcs && made.graph.size() == num_arcs &&
             made.acoustic.size() == num_arcs && made.final_acoustic.size() == num_states &&
             (made.time.empty() || made.time.size() == num_states),
         "the arrays of a lattice are of one size");
  expect(static_cast<int64_t>(num_states + num_arcs) <= 4 * num_bytes + 4, "a lattice is no larger than its file");
  const auto num_words = static_cast<int32_t>(parser.words.entries().size());
  for (const int32_t word : made.word) expect(word <= num_words, "every word has a text");
  return true;
}

}  // namespace fuzz
