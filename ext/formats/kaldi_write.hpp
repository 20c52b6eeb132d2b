// Writes Kaldi lattices, binary and text.
// Source: OpenFst vector-fst.h (VectorFst::WriteFst), script/print-impl.h (FstPrinter::PrintState); Kaldi
// lat/kaldi-lattice.cc (WriteCompactLattice), fstext/lattice-utils-inl.h (ConvertLattice).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.hpp"
#include "core/block.hpp"
#include "core/decimal.hpp"
#include "core/lattice.hpp"
#include "core/pool.hpp"
#include "formats/native_check.hpp"

namespace ninja {

// Create a lattice with at most one label per arc and no labels on final states, like Kaldi's Lattice. States keep
// their numbers and are followed by the states of long alignments, as in Kaldi's ConvertLattice, so the result is not
// in topological order.
inline LatticeArrays expand(const Arcs& arcs, const Alignments& alignments) {
  struct Link {
    int32_t dst, word, label;
    float graph, acoustic;
  };
  LatticeArrays raw;
  std::vector<std::vector<Link>> links(arcs.num_states);
  raw.final_graph.assign(arcs.final_graph, arcs.final_graph + arcs.num_states);
  raw.final_acoustic.assign(arcs.final_acoustic, arcs.final_acoustic + arcs.num_states);
  // Add a chain of arcs with the labels [from, to) from `state` to `dst`, or to a new final state if it is -1; the
  // first arc has the costs.
  const auto chain = [&](int64_t state, int64_t dst, Link first, const int32_t* from, const int32_t* to) {
    do {
      const bool last = from + 1 >= to;
      first.label = from < to ? *from : 0;
      first.dst = static_cast<int32_t>(last && dst >= 0 ? dst : static_cast<int64_t>(links.size()));
      links[state].push_back(first);
      if (!last || dst < 0) {
        links.emplace_back();
        raw.final_graph.push_back(last ? 0.0f : kInfinity);
        raw.final_acoustic.push_back(last ? 0.0f : kInfinity);
      }
      state = first.dst;
      first = Link{0, 0, 0, 0.0f, 0.0f};
    } while (++from < to);
  };
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const int32_t* from = alignments.final_ali + alignments.final_ali_begin[state];
    const int32_t* to = alignments.final_ali + alignments.final_ali_begin[state + 1];
    if (is_final(arcs, state) && from < to) {
      chain(state, -1, Link{0, 0, 0, arcs.final_graph[state], arcs.final_acoustic[state]}, from, to);
      raw.final_graph[state] = raw.final_acoustic[state] = kInfinity;
    }
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      chain(state, arcs.dst[arc], Link{0, arcs.word[arc], 0, arcs.graph[arc], arcs.acoustic[arc]},
            alignments.ali + alignments.ali_begin[arc], alignments.ali + alignments.ali_begin[arc + 1]);
    }
  }
  for (const std::vector<Link>& leaving : links) {
    raw.arc_begin.push_back(static_cast<int64_t>(raw.dst.size()));
    for (const Link& link : leaving) {
      raw.ali_begin.push_back(static_cast<int64_t>(raw.ali.size()));
      raw.dst.push_back(link.dst);
      raw.word.push_back(link.word);
      raw.graph.push_back(link.graph);
      raw.acoustic.push_back(link.acoustic);
      if (link.label != 0) raw.ali.push_back(link.label);
    }
  }
  raw.arc_begin.push_back(static_cast<int64_t>(raw.dst.size()));
  raw.ali_begin.push_back(static_cast<int64_t>(raw.ali.size()));
  raw.final_ali_begin.assign(raw.arc_begin.size(), 0);
  return raw;
}

inline bool fits_raw(const Arcs& arcs, const Alignments& alignments) {
  if (alignments.final_ali_begin[arcs.num_states] != 0) return false;
  for (int64_t arc = 0; arc < arcs.num_arcs; ++arc) {
    if (alignments.ali_begin[arc + 1] - alignments.ali_begin[arc] > 1) return false;
  }
  return true;
}

template <class T>
char* store(char* to, T value) {
  std::memcpy(to, &value, sizeof(T));
  return to + sizeof(T);
}

inline void write_binary(std::string_view key, const Arcs& arcs, const Alignments& alignments, bool compact,
                         Output& output) {
  const int64_t num_labels = alignments.ali_begin[arcs.num_arcs];
  const int64_t num_final_labels = alignments.final_ali_begin[arcs.num_states];
  char* to = output.reserve(static_cast<int64_t>(key.size()) + 128 + 20 * arcs.num_states + 24 * arcs.num_arcs +
                            4 * (num_labels + num_final_labels) + kSlack);
  const auto text = [&to](std::string_view value) {
    std::memcpy(to, value.data(), value.size());
    to += value.size();
  };
  const std::string_view arc_type = compact ? "compactlattice44" : "lattice4";
  text(key);
  text(" ");
  to = store<int32_t>(to, 2125659606);
  to = store<int32_t>(to, 6);
  text("vector");
  to = store(to, static_cast<int32_t>(arc_type.size()));
  text(arc_type);
  to = store<int32_t>(to, 2);   // version
  to = store<int32_t>(to, 0);   // flags: no symbol tables
  to = store<uint64_t>(to, 3);  // properties: expanded, mutable; OpenFst computes the others
  to = store<int64_t>(to, 0);   // start
  to = store(to, arcs.num_states);
  to = store(to, arcs.num_arcs);
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    to = store(to, arcs.final_graph[state]);
    to = store(to, arcs.final_acoustic[state]);
    if (compact) {
      const int64_t first = alignments.final_ali_begin[state];
      const int64_t length = alignments.final_ali_begin[state + 1] - first;
      to = store(to, static_cast<int32_t>(length));
      std::memcpy(to, alignments.final_ali + first, 4 * length);
      to += 4 * length;
    }
    to = store(to, arcs.arc_begin[state + 1] - arcs.arc_begin[state]);
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int64_t first = alignments.ali_begin[arc];
      const int64_t length = alignments.ali_begin[arc + 1] - first;
      to = store(to, compact ? arcs.word[arc] : (length != 0 ? alignments.ali[first] : 0));
      to = store(to, arcs.word[arc]);
      to = store(to, arcs.graph[arc]);
      to = store(to, arcs.acoustic[arc]);
      if (compact) {
        to = store(to, static_cast<int32_t>(length));
        if (first + length + kLabelSlack <= num_labels) {
          copy_labels(reinterpret_cast<int32_t*>(to), reinterpret_cast<const char*>(alignments.ali + first), length);
        } else {
          std::memcpy(to, alignments.ali + first, 4 * length);
        }
        to += 4 * length;
      }
      to = store(to, arcs.dst[arc]);
    }
  }
  output.keep(to);
}

// Print "graph,acoustic" and, for a compact lattice, ",labels"; print nothing for the semiring's One.
inline char* print_weight(char* to, float graph, float acoustic, const int32_t* labels, int64_t num_labels,
                          bool compact) {
  if (graph == 0 && acoustic == 0 && (!compact || num_labels == 0)) return to;
  *to++ = '\t';
  to = print_cost(to, graph);
  *to++ = ',';
  to = print_cost(to, acoustic);
  if (!compact) return to;
  *to++ = ',';
  const SmallInteger* small = small_integers().data();
  for (int64_t label = 0; label < num_labels; ++label) {
    const int32_t number = labels[label];
    if (static_cast<uint32_t>(number) < 10000) {
      std::memcpy(to, small[number].text, sizeof(SmallInteger));
      to += small[number].length;
    } else {
      to = print_integer(to, number);
      *to++ = '_';
    }
  }
  return num_labels > 0 ? to - 1 : to;
}

inline void write_text(std::string_view key, const Arcs& arcs, const Alignments& alignments, bool compact,
                       Output& output) {
  const int64_t num_labels = alignments.ali_begin[arcs.num_arcs] + alignments.final_ali_begin[arcs.num_states];
  char* to = output.reserve(static_cast<int64_t>(key.size()) + 64 + 64 * arcs.num_states + 96 * arcs.num_arcs +
                            12 * num_labels + kSlack);
  std::memcpy(to, key.data(), key.size());
  to += key.size();
  *to++ = ' ';
  *to++ = '\n';
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
      const int32_t* labels = alignments.ali + alignments.ali_begin[arc];
      const int64_t length = alignments.ali_begin[arc + 1] - alignments.ali_begin[arc];
      to = print_integer(to, static_cast<int32_t>(state));
      *to++ = '\t';
      to = print_integer(to, arcs.dst[arc]);
      *to++ = '\t';
      if (!compact) {
        to = print_integer(to, length != 0 ? labels[0] : 0);
        *to++ = '\t';
      }
      to = print_integer(to, arcs.word[arc]);
      to = print_weight(to, arcs.graph[arc], arcs.acoustic[arc], labels, length, compact);
      *to++ = '\n';
    }
    // A state that is not final gets a line only if no arc leaves it.
    if (is_final(arcs, state) || arcs.arc_begin[state] == arcs.arc_begin[state + 1]) {
      to = print_integer(to, static_cast<int32_t>(state));
      to = print_weight(to, arcs.final_graph[state], arcs.final_acoustic[state],
                        alignments.final_ali + alignments.final_ali_begin[state],
                        alignments.final_ali_begin[state + 1] - alignments.final_ali_begin[state], compact);
      *to++ = '\n';
    }
  }
  *to++ = '\n';
  output.keep(to);
}

// Return whether the costs of a lattice can be read again: costs of arcs are finite, and the two final costs of a state
// are finite or both infinite. Sums of costs may overflow a float.
inline bool is_readable(const Arcs& arcs) {
  using namespace native_check;
  if (!all_finite(arcs.graph, arcs.num_arcs) || !all_finite(arcs.acoustic, arcs.num_arcs)) return false;
  bool ends = false;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    const bool is_end = finite(arcs.final_graph, state) && finite(arcs.final_acoustic, state);
    if (!is_end &&
        (bits(arcs.final_graph, state) != kInfiniteBits || bits(arcs.final_acoustic, state) != kInfiniteBits)) {
      return false;
    }
    ends |= is_end;
  }
  return ends;
}

// Write all items of a batch as compact lattices (kind 1), as raw lattices (0), or without conversion (-1). `begins`
// gets the offset of each lattice after its key. Returns false at the first lattice that could not be read again.
inline bool write_all(const Items& items, int kind, bool text, std::vector<int64_t>& begins, Output& output) {
  for (const Item& item : items) {
    if (!is_readable(item.arcs)) return false;
    const bool compact = kind < 0 ? item.compact : kind == 1;
    begins.push_back(output.size() + static_cast<int64_t>(item.key.size()) + 1);
    const auto write = [&](const Arcs& arcs, const Alignments& labels) {
      if (text) {
        write_text(item.key, arcs, labels, compact, output);
      } else {
        write_binary(item.key, arcs, labels, compact, output);
      }
    };
    if (compact || fits_raw(item.arcs, item.labels)) {
      write(item.arcs, item.labels);
    } else {
      const LatticeArrays raw = expand(item.arcs, item.labels);
      write(raw.arcs(), raw.alignments());
    }
  }
  return true;
}

}  // namespace ninja
