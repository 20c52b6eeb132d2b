// The columns of our own files: what passes the check keeps every invariant, and kernels take it.
// Covers: formats/native_check.hpp
#include "graph/batches.hpp"
#include "lattices.hpp"
#include "mutate.hpp"

namespace {

bool rises(const std::vector<int64_t>& begin, int64_t end) {
  return begin.front() == 0 && begin.back() == end && std::is_sorted(begin.begin(), begin.end());
}

// The slow twin.
bool keeps_invariants(const ninja::LatticeArrays& row, int64_t num_words) {
  const auto num_states = static_cast<int64_t>(row.final_graph.size()), num_arcs = static_cast<int64_t>(row.dst.size());
  if (num_states < 1 || !rises(row.arc_begin, num_arcs)) return false;
  for (int64_t state = 0; state < num_states; ++state) {
    for (int64_t arc = row.arc_begin[state]; arc < row.arc_begin[state + 1]; ++arc) {
      if (row.dst[arc] <= state || row.dst[arc] >= num_states) return false;
    }
  }
  for (int64_t arc = 0; arc < num_arcs; ++arc) {
    if (row.word[arc] < 0 || row.word[arc] >= num_words) return false;
    if (!std::isfinite(row.graph[arc]) || !std::isfinite(row.acoustic[arc])) return false;
  }
  bool ends = false;
  for (int64_t state = 0; state < num_states; ++state) {
    for (const float cost : {row.final_graph[state], row.final_acoustic[state]}) {
      if (std::isnan(cost) || cost == -ninja::kInfinity) return false;
    }
    ends |= row.final_graph[state] < ninja::kInfinity && row.final_acoustic[state] < ninja::kInfinity;
  }
  return ends && rises(row.ali_begin, static_cast<int64_t>(row.ali.size())) &&
         rises(row.final_ali_begin, static_cast<int64_t>(row.final_ali.size()));
}

template <class T>
void change(fuzz::Draw& draw, std::vector<T>& array) {
  if (array.empty()) return;
  T value;
  if (draw.ConsumeBool()) {
    value = static_cast<T>(draw.ConsumeIntegralInRange<int32_t>(-2, 12));
  } else {
    const std::vector<uint8_t> bytes = draw.ConsumeBytes<uint8_t>(sizeof(T));
    if (bytes.size() < sizeof(T)) return;
    std::memcpy(&value, bytes.data(), sizeof(T));
  }
  array[draw.ConsumeIntegralInRange<size_t>(0, array.size() - 1)] = value;
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  const int64_t num_words = draw.ConsumeIntegralInRange<int64_t>(0, 6);
  ninja::LatticeArrays row = fuzz::draw_lattice(draw);
  for (int changes = draw.ConsumeIntegralInRange<int>(0, 3); changes > 0; --changes) {
    switch (draw.ConsumeIntegralInRange<int>(0, 8)) {
      case 0:
        change(draw, row.arc_begin);
        break;
      case 1:
        change(draw, row.dst);
        break;
      case 2:
        change(draw, row.word);
        break;
      case 3:
        change(draw, row.graph);
        break;
      case 4:
        change(draw, row.acoustic);
        break;
      case 5:
        change(draw, row.final_graph);
        break;
      case 6:
        change(draw, row.final_acoustic);
        break;
      case 7:
        change(draw, row.ali_begin);
        break;
      default:
        change(draw, row.final_ali_begin);
    }
  }
  const fuzz::DrawnLattice drawn(row);
  const ninja::Arcs arcs = drawn.arcs();
  const ninja::Alignments labels = drawn.labels();
  ninja::NativeRow given;
  given.num_begins = static_cast<int64_t>(row.arc_begin.size());
  given.num_arcs = arcs.num_arcs;
  given.num_labels = static_cast<int64_t>(row.ali.size());
  given.num_final_labels = static_cast<int64_t>(row.final_ali.size());
  given.num_words = num_words;
  given.arc_begin = arcs.arc_begin;
  given.dst = arcs.dst;
  given.word = arcs.word;
  given.graph = arcs.graph;
  given.acoustic = arcs.acoustic;
  given.ali_begin = labels.ali_begin;
  given.final_graph = arcs.final_graph;
  given.final_acoustic = arcs.final_acoustic;
  given.final_ali_begin = labels.final_ali_begin;
  const ninja::NativeFlaw found = ninja::check_native(given);
  const bool sound = found.flaw == ninja::Flaw::kNone;
  fuzz::expect(sound == keeps_invariants(row, num_words), "the check agrees with its slow twin");
  fuzz::expect(found.place >= 0 && found.place <= std::max(arcs.num_arcs, arcs.num_states), "a flaw has a place");
  if (!sound) return;
  const ninja::Items items = drawn.items();
  fuzz::expect_lattices(ninja::prune_each(items, {1.0, 1.0, 0.0}, 4.0).items);
  fuzz::expect_lattices(ninja::path_lattices(items, ninja::best_paths(items, {1.0, 1.0, 0.0}), false).items);
}
