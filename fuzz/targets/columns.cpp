// The columns of native files: lattices that pass the check satisfy all invariants, and kernels accept them.
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

// Change an element of one of the arrays.
template <class... Arrays>
void change_one(fuzz::Draw& draw, Arrays&... arrays) {
  auto skipped = draw.ConsumeIntegralInRange<int>(0, sizeof...(arrays) - 1);
  ((skipped-- == 0 ? change(draw, arrays) : void()), ...);
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  const int64_t num_words = draw.ConsumeIntegralInRange<int64_t>(0, 6);
  ninja::LatticeArrays row = fuzz::draw_lattice(draw);
  for (int changes = draw.ConsumeIntegralInRange<int>(0, 3); changes > 0; --changes) {
    change_one(draw, row.arc_begin, row.dst, row.word, row.graph, row.acoustic, row.final_graph, row.final_acoustic,
               row.ali_begin, row.final_ali_begin);
  }
  const fuzz::DrawnLattice drawn(row);
  const ninja::Arcs arcs = drawn.arcs();
  ninja::NativeRow columns = fuzz::native_row(arcs, drawn.labels());
  columns.num_labels = static_cast<int64_t>(row.ali.size());
  columns.num_final_labels = static_cast<int64_t>(row.final_ali.size());
  columns.num_words = num_words;
  const ninja::NativeFlaw found = ninja::check_native(columns);
  const bool sound = found.flaw == ninja::Flaw::kNone;
  fuzz::expect(sound == keeps_invariants(row, num_words), "the check agrees with its slow twin");
  fuzz::expect(found.place >= 0 && found.place <= std::max(arcs.num_arcs, arcs.num_states), "a flaw has a place");
  if (!sound) return;
  const ninja::Items items = drawn.items();
  fuzz::expect_lattices(ninja::prune_each(items, {1.0, 1.0, 0.0}, 4.0).items);
  fuzz::expect_lattices(ninja::path_lattices(items, ninja::best_paths(items, {1.0, 1.0, 0.0}), false).items);
}
