// OpenFst's binary files, vector and const, read as lattices and written again.
// Covers: core/fst_image.hpp core/top_sort.hpp
#include "core/fst_image.hpp"

#include "lattices.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_words) {
  const fuzz::Bytes bytes(fuzz::rest(draw));
  const ninja::ParsedFst fst = ninja::parse_image(bytes.begin(), bytes.size());
  if (!fst.error.empty()) return;
  const auto num_states = static_cast<int64_t>(fst.final_cost.size()), num_arcs = static_cast<int64_t>(fst.dst.size());
  fuzz::expect(fst.end <= bytes.size() && 8 * (num_states + num_arcs) <= 8 * bytes.size(),
               "an FST is no larger than its file");
  fuzz::expect(static_cast<int64_t>(fst.arc_begin.size()) == num_states + 1 && fst.ilabel.size() == fst.dst.size() &&
                   fst.olabel.size() == fst.dst.size() && fst.cost.size() == fst.dst.size(),
               "the arrays of an FST are of one size");
  fuzz::expect_arcs(fst.arc_begin, fst.dst);
  for (int64_t arc = 0; arc < num_arcs; ++arc) {
    fuzz::expect(std::isfinite(fst.cost[arc]) && fst.ilabel[arc] >= 0 && fst.olabel[arc] >= 0,
                 "every arc is one of a lattice");
  }
  const ninja::FstArcs arcs{num_states,        num_arcs,          fst.arc_begin.data(), fst.dst.data(),
                            fst.ilabel.data(), fst.olabel.data(), fst.cost.data(),      fst.final_cost.data()};
  std::string image(static_cast<size_t>(ninja::image_size(arcs, fst.arc_type, 0)), '\0');
  const fuzz::Bytes room(image);
  ninja::write_image(arcs, fst.arc_type, "", const_cast<char*>(room.begin()));
  const ninja::ParsedFst again = ninja::parse_image(room.begin(), room.size());
  fuzz::expect(again.error.empty() && again.dst == fst.dst && again.cost == fst.cost &&
                   again.final_cost == fst.final_cost && again.arc_begin == fst.arc_begin &&
                   again.ilabel == fst.ilabel && again.olabel == fst.olabel,
               "what is written is read as it was");
}
