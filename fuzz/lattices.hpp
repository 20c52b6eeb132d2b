// Random lattices for kernels, and the invariants of their results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/batch.hpp"
#include "core/lattice.hpp"
#include "formats/native_check.hpp"
#include "inputs.hpp"

namespace fuzz {

using ninja::Alignments;
using ninja::Arcs;
using ninja::Items;
using ninja::LatticeArrays;

struct Shape {
  int32_t most_states = 12;
  int32_t most_arcs = 4;    // of a state
  int32_t words = 4;        // ids below it
  int32_t labels = 8;       // ids from 1, below it
  int32_t most_labels = 3;  // of an arc
  bool negative_labels = false;
  bool timed = false;     // all paths to a state have as many labels as its number, which is its time
  bool dead_ends = true;  // states without arcs, so that perhaps no path reaches the end
  bool wild = true;       // also the largest finite costs
};

// The shape of lattices with so few paths that slow twins can enumerate them.
inline Shape small_shape() {
  Shape shape;
  shape.most_states = 8;
  shape.most_arcs = 3;
  return shape;
}

// Mostly small costs with few digits, so that paths tie; sometimes the largest and smallest finite numbers.
inline float draw_cost(Draw& draw, bool wild = true) {
  const uint8_t kind = draw.ConsumeIntegral<uint8_t>();
  if (kind < 248 || !wild) return static_cast<float>(static_cast<int8_t>(kind)) / 8;
  static constexpr float kRare[] = {0.0f, -0.0f, 3.4e38f, -3.4e38f, 1e-45f, 1e20f, -1e20f, 16777216.0f};
  return kRare[kind - 248];
}

inline void draw_labels(Draw& draw, const Shape& shape, int32_t frames, std::vector<int32_t>& pool) {
  int32_t left = shape.timed ? frames : draw.ConsumeIntegralInRange<int32_t>(0, shape.most_labels);
  for (; left > 0; --left) {
    pool.push_back(draw.ConsumeIntegralInRange<int32_t>(shape.negative_labels ? -shape.labels : 1, shape.labels - 1));
  }
}

// Draw a lattice with all invariants of ninja/lattice: at least one state is final, even if no path leads to it.
inline LatticeArrays draw_lattice(Draw& draw, const Shape& shape = {}) {
  LatticeArrays made;
  const int32_t num_states = draw.ConsumeIntegralInRange<int32_t>(1, shape.most_states);
  for (int32_t state = 0; state < num_states; ++state) {
    made.arc_begin.push_back(static_cast<int64_t>(made.dst.size()));
    made.final_ali_begin.push_back(static_cast<int64_t>(made.final_ali.size()));
    const uint8_t form = draw.ConsumeIntegral<uint8_t>();
    const int32_t least = shape.dead_ends ? 0 : 1;
    const int32_t num_arcs = state + 1 == num_states ? 0 : std::max(least, form % (shape.most_arcs + 1));
    for (int32_t arc = 0; arc < num_arcs; ++arc) {
      made.ali_begin.push_back(static_cast<int64_t>(made.ali.size()));
      made.dst.push_back(draw.ConsumeIntegralInRange<int32_t>(state + 1, std::min(num_states - 1, state + 4)));
      made.word.push_back(draw.ConsumeIntegralInRange<int32_t>(0, shape.words - 1));
      made.graph.push_back(draw_cost(draw, shape.wild));
      made.acoustic.push_back(draw_cost(draw, shape.wild));
      draw_labels(draw, shape, made.dst.back() - state, made.ali);
    }
    const bool is_final = state + 1 == num_states || form >= 192;
    made.final_graph.push_back(is_final ? draw_cost(draw, shape.wild) : ninja::kInfinity);
    made.final_acoustic.push_back(is_final ? draw_cost(draw, shape.wild) : ninja::kInfinity);
    if (is_final) draw_labels(draw, shape, 0, made.final_ali);
  }
  made.arc_begin.push_back(static_cast<int64_t>(made.dst.size()));
  made.ali_begin.push_back(static_cast<int64_t>(made.ali.size()));
  made.final_ali_begin.push_back(static_cast<int64_t>(made.final_ali.size()));
  return made;
}

// The language-model word of each arc: -1 for epsilons and for words of the bit set `silent`.
inline std::vector<int32_t> lm_words(const Arcs& arcs, uint8_t silent) {
  std::vector<int32_t> found;
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
    const int32_t word = arcs.word[arc];
    found.push_back(word == 0 || silent >> word & 1 ? -1 : word);
  }
  return found;
}

// A drawn lattice in arrays of exactly their lengths.
class DrawnLattice {
 public:
  explicit DrawnLattice(const LatticeArrays& from)
      : arc_begin_(from.arc_begin), ali_begin_(from.ali_begin), final_ali_begin_(from.final_ali_begin), dst_(from.dst),
        word_(from.word), ali_(from.ali), final_ali_(from.final_ali), graph_(from.graph), acoustic_(from.acoustic),
        final_graph_(from.final_graph), final_acoustic_(from.final_acoustic),
        num_states_(static_cast<int64_t>(from.final_graph.size())), num_arcs_(static_cast<int64_t>(from.dst.size())) {}
  explicit DrawnLattice(Draw& draw, const Shape& shape = {}) : DrawnLattice(draw_lattice(draw, shape)) {}

  Arcs arcs() const {
    return {num_states_,   num_arcs_,        arc_begin_.data(),   dst_.data(),           word_.data(),
            graph_.data(), acoustic_.data(), final_graph_.data(), final_acoustic_.data()};
  }
  Alignments labels() const { return {ali_begin_.data(), ali_.data(), final_ali_begin_.data(), final_ali_.data()}; }
  Items items() const {
    Items made(1);
    made[0].key = "drawn";
    made[0].arcs = arcs();
    made[0].labels = labels();
    return made;
  }

 private:
  Array<int64_t> arc_begin_, ali_begin_, final_ali_begin_;
  Array<int32_t> dst_, word_, ali_, final_ali_;
  Array<float> graph_, acoustic_, final_graph_, final_acoustic_;
  int64_t num_states_, num_arcs_;
};

// The arrays of a lattice as a row of a native file, for any word ids.
inline ninja::NativeRow native_row(const Arcs& arcs, const Alignments& labels) {
  ninja::NativeRow row;
  row.num_begins = arcs.num_states + 1;
  row.num_arcs = arcs.num_arcs;
  row.num_labels = labels.ali_begin[arcs.num_arcs];
  row.num_final_labels = labels.final_ali_begin[arcs.num_states];
  row.num_words = int64_t{1} << 31;
  row.arc_begin = arcs.arc_begin;
  row.dst = arcs.dst;
  row.word = arcs.word;
  row.graph = arcs.graph;
  row.acoustic = arcs.acoustic;
  row.ali_begin = labels.ali_begin;
  row.final_graph = arcs.final_graph;
  row.final_acoustic = arcs.final_acoustic;
  row.final_ali_begin = labels.final_ali_begin;
  return row;
}

// The first violated invariant of a lattice whose arrays have the right lengths, or kNone.
inline ninja::Flaw flaw_of(const Arcs& arcs, const Alignments& labels) {
  return ninja::check_native(native_row(arcs, labels)).flaw;
}

inline void expect_lattice(const Arcs& arcs, const Alignments& labels) {
  const ninja::Flaw flaw = flaw_of(arcs, labels);
  if (flaw != ninja::Flaw::kNone) broken("the lattice made has flaw " + std::to_string(static_cast<int>(flaw)));
  // Every label is there to be read.
  int64_t sum = 0;
  for (int64_t place = 0; place < labels.ali_begin[arcs.num_arcs]; ++place) sum += labels.ali[place];
  for (int64_t place = 0; place < labels.final_ali_begin[arcs.num_states]; ++place) sum += labels.final_ali[place];
  volatile int64_t used = sum;
  static_cast<void>(used);
}

inline void expect_lattices(const Items& items) {
  for (const ninja::Item& item : items) expect_lattice(item.arcs, item.labels);
}

// All arrays of a lattice as bytes, for comparison.
inline std::string bytes_of(const Arcs& arcs, const Alignments& labels) {
  std::string made;
  const auto add = [&made](const auto* from, int64_t count) {
    if (count > 0) made.append(reinterpret_cast<const char*>(from), static_cast<size_t>(count) * sizeof(*from));
    made += '|';
  };
  add(arcs.arc_begin, arcs.num_states + 1);
  add(arcs.dst, arcs.num_arcs);
  add(arcs.word, arcs.num_arcs);
  add(arcs.graph, arcs.num_arcs);
  add(arcs.acoustic, arcs.num_arcs);
  add(arcs.final_graph, arcs.num_states);
  add(arcs.final_acoustic, arcs.num_states);
  add(labels.ali_begin, arcs.num_arcs + 1);
  add(labels.ali, labels.ali_begin[arcs.num_arcs]);
  add(labels.final_ali_begin, arcs.num_states + 1);
  add(labels.final_ali, labels.final_ali_begin[arcs.num_states]);
  return made;
}

}  // namespace fuzz
