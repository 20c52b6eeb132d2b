// Lattices written as HTK's and read again: all costs are identical.
// Covers: formats/slf_write.hpp
#include "formats/slf_write.hpp"

#include "mutate.hpp"
#include "text_lattices.hpp"

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape;
  shape.dead_ends = false;
  shape.words = 3;
  const bool timed = draw.ConsumeBool();
  ninja::SlfStyle style;
  style.decimals = draw.ConsumeIntegralInRange<int>(2, 4);
  style.end = true;
  const double base = draw.ConsumeBool() ? 1 : 10;
  style.log_base = base == 1 ? 1 : std::log(base);
  std::vector<std::string> texts{"!NULL"};
  for (int word = 1; word < shape.words; ++word) {
    texts.push_back("w" + std::to_string(draw.ConsumeIntegral<uint16_t>()) + "." + std::to_string(word));
  }
  const fuzz::DrawnLattice drawn(draw, shape);
  const ninja::Arcs arcs = drawn.arcs();
  std::vector<int32_t> time(static_cast<size_t>(arcs.num_states));
  int32_t now = 0;
  for (int32_t& each : time) each = now += draw.ConsumeIntegralInRange<int32_t>(0, 9);
  if (timed) style.time = time.data();
  style.end_time = now;
  const std::string lines = ninja::slf_lines(arcs, arcs.word, texts, style);
  int64_t num_links = arcs.num_arcs;
  for (int64_t state = 0; state < arcs.num_states; ++state) num_links += ninja::is_final(arcs, state);
  const std::string head = "VERSION=1.0\nstart=0 end=" + std::to_string(arcs.num_states) +
                           "\nbase=" + (base == 1 ? "1" : "10") + "\nN=" + std::to_string(arcs.num_states + 1) +
                           " L=" + std::to_string(num_links) + "\n";
  const fuzz::Bytes bytes(head + lines, 1);
  ninja::SlfOptions options;
  options.costs = {{"l", -1, false}, {"a", -1, true}};
  ninja::SlfParser parser(bytes.begin(), bytes.end(), options);
  ninja::TextLattice made;
  fuzz::expect(fuzz::read_text(parser, 1, bytes.size(), made), "what is written is read");
  if (made.dst.size() != static_cast<size_t>(arcs.num_arcs)) return;  // an end of its own, or states left out
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
    if (made.dst[arc] != arcs.dst[arc]) return;
    const bool same = made.graph[arc] == arcs.graph[arc] && made.acoustic[arc] == arcs.acoustic[arc];
    fuzz::expect(same, "every cost reads back as it was");
  }
}
