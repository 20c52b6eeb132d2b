// Lattices written to Kaldi's archives, binary and text, and read again unchanged; or read from changed files.
// Covers: formats/kaldi_write.hpp formats/kaldi_table.hpp formats/kaldi_read.hpp
#include "formats/kaldi_write.hpp"

#include "archives.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.dead_ends = false;
  shape.negative_labels = draw.ConsumeBool();
  shape.labels = draw.ConsumeBool() ? 8 : 2147483647;
  shape.most_labels = draw.ConsumeBool() ? 3 : 60;
  const bool text = draw.ConsumeBool();
  const int kind = draw.ConsumeIntegralInRange<int>(-1, 1);
  const int32_t changes = draw.ConsumeIntegralInRange<int32_t>(0, 3);
  const fuzz::DrawnLattice drawn(draw, shape);
  ninja::Items items = drawn.items();
  items[0].compact = draw.ConsumeBool();
  ninja::Output output;
  std::vector<int64_t> begins;
  ninja::write_all(items, kind, text, begins, output);
  std::string file(output.data(), static_cast<size_t>(output.size()));
  for (int32_t change = 0; change < changes; ++change) {
    const size_t place = draw.ConsumeIntegralInRange<size_t>(0, file.size() - 1);
    const uint32_t word =
        draw.ConsumeBool() ? draw.ConsumeIntegral<uint32_t>() : draw.ConsumeIntegralInRange<uint32_t>(0, 300);
    const size_t width = text ? 1 : std::min<size_t>(4, file.size() - place);
    std::memcpy(&file[place], &word, width);
  }
  const fuzz::Bytes bytes(file, ninja::kSlack);
  std::vector<ninja::Entry> entries = fuzz::parse_whole(bytes);
  ninja::Items found;
  for (ninja::Entry& entry : entries) {
    if (entry.fault.kind == ninja::Fault::kNone) ninja::take_entry(entry, found);
  }
  fuzz::expect_lattices(found);
  if (changes > 0) return;
  for (const ninja::Entry& entry : entries) {
    if (entry.fault.kind != ninja::Fault::kNone) fuzz::broken("what is written is read, but: " + entry.fault.message);
  }
  fuzz::expect(found.size() == 1, "one lattice is read");
  const bool as_compact = kind < 0 ? items[0].compact : kind == 1;
  if (text || !as_compact) return;  // six digits; or states that are made, in an order of their own
  fuzz::expect(fuzz::bytes_of(found[0].arcs, found[0].labels) == fuzz::bytes_of(items[0].arcs, items[0].labels),
               "what is written is read as it was");
}
