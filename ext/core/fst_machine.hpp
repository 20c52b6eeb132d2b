// Parses the image of any FST, with or without cycles, for composition with lattices.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fst_image.hpp"

namespace ninja {

// A parsed FST; see ParsedFst for errors.
struct Machine {
  ParsedFst fst;
  int64_t start = -1;
};

// Parse an image that ends at the end of the bytes.
inline Machine parse_any(const char* bytes, int64_t size) {
  Machine machine;
  fst_image::Cursor cursor(bytes, size);
  fst_image::store_error(machine.fst, [&] {
    machine.start = fst_image::get_machine(cursor, machine.fst);
    if (cursor.left() > 0) {
      throw fst_image::Malformed{std::to_string(cursor.left()) + " bytes follow the end of the FST", cursor.at()};
    }
    machine.fst.error = machine.start < 0 ? "the FST is empty: it has no start state" : fst_image::flaw(machine.fst);
  });
  return machine;
}

// Parse an image, and sort the arcs of each state by input label.
inline Machine parse_machine(const char* bytes, int64_t size) {
  Machine machine = parse_any(bytes, size);
  if (!machine.fst.error.empty()) return machine;
  ParsedFst& fst = machine.fst;
  std::vector<int64_t> order;
  std::vector<int32_t> spare;
  std::vector<double> spare_cost;
  for (size_t state = 0; state + 1 < fst.arc_begin.size(); ++state) {
    const int64_t begin = fst.arc_begin[state], end = fst.arc_begin[state + 1];
    if (std::is_sorted(fst.ilabel.begin() + begin, fst.ilabel.begin() + end)) continue;
    order.resize(static_cast<size_t>(end - begin));
    for (int64_t arc = begin; arc < end; ++arc) order[arc - begin] = arc;
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return fst.ilabel[a] < fst.ilabel[b]; });
    for (std::vector<int32_t>* column : {&fst.ilabel, &fst.olabel, &fst.dst}) {
      spare.clear();
      for (const int64_t arc : order) spare.push_back((*column)[arc]);
      std::copy(spare.begin(), spare.end(), column->begin() + begin);
    }
    spare_cost.clear();
    for (const int64_t arc : order) spare_cost.push_back(fst.cost[arc]);
    std::copy(spare_cost.begin(), spare_cost.end(), fst.cost.begin() + begin);
  }
  return machine;
}

}  // namespace ninja
