// Entries of Kaldi's archives.
#pragma once

#include <string>
#include <vector>

#include "formats/kaldi_table.hpp"
#include "lattices.hpp"

namespace fuzz {

// Parse a whole archive; the bytes must outlive the entries.
inline std::vector<ninja::Entry> parse_whole(const Bytes& bytes) {
  ninja::TableParser parser;
  std::vector<ninja::Entry> entries;
  parser.parse({bytes.begin(), bytes.end(), 0, 0}, entries);
  return entries;
}

// Describe an entry that begins at a place of the file, without its message, which quotes the contents of the window.
inline std::string told(ninja::Entry& entry, int64_t place) {
  const ninja::Fault& fault = entry.fault;
  std::string made(entry.key);
  made += "|" + std::to_string(fault.kind) + "|" + std::to_string(fault.fatal) + "|" + std::to_string(fault.line) +
          "|" + std::to_string(fault.byte) + "|" + std::to_string(place) + "|";
  expect((fault.kind == ninja::Fault::kNone) == (entry.block.memory != nullptr), "an entry is a lattice or faulty");
  expect(fault.kind == ninja::Fault::kNone || !fault.message.empty(), "a fault has a message");
  if (entry.block.memory == nullptr) return made;
  ninja::Items items;
  ninja::take_entry(entry, items);
  expect_lattices(items);
  return made + bytes_of(items[0].arcs, items[0].labels) + (items[0].compact ? "c" : "r");
}

}  // namespace fuzz
