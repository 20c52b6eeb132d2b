// Parses the image of an FST of any shape: one that composes with lattices, cycles and all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/fst_image.hpp"

namespace ninja {

// An FST in any order, its arcs in the order of their input labels.
struct Machine {
  std::string error;
  int64_t byte = -1;  // where the image is malformed; -1: it is well formed, but of no use
  int64_t start = 0;
  ParsedFst fst;
};

inline Machine parse_machine(const char* bytes, int64_t size) {
  Machine machine;
  fst_image::Cursor cursor(bytes, size);
  try {
    machine.start = fst_image::get_machine(cursor, machine.fst);
  } catch (const fst_image::Malformed& malformed) {
    machine.error = malformed.message;
    machine.byte = malformed.byte;
    return machine;
  }
  if (machine.start < 0) {
    machine.error = "the FST is empty: it has no start state";
  } else if (cursor.left() > 0) {
    machine.error = std::to_string(cursor.left()) + " bytes follow the end of the FST";
    machine.byte = cursor.at();
  } else {
    machine.error = fst_image::flaw(machine.fst);
  }
  if (!machine.error.empty()) return machine;
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
