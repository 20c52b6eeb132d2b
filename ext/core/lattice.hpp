// The arrays of a lattice as borrowed pointers, which are valid for one call.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace ninja {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kNever = std::numeric_limits<double>::infinity();  // cost of unreachable states

// ninja/lattice/lattice.py describes the arrays and their invariants.
struct Arcs {
  int64_t num_states;
  int64_t num_arcs;
  const int64_t* arc_begin;     // [num_states + 1]
  const int32_t* dst;           // [num_arcs]
  const int32_t* word;          // [num_arcs]
  const float* graph;           // [num_arcs]
  const float* acoustic;        // [num_arcs]
  const float* final_graph;     // [num_states]
  const float* final_acoustic;  // [num_states]
};

struct Alignments {
  const int64_t* ali_begin;  // [num_arcs + 1]
  const int32_t* ali;
  const int64_t* final_ali_begin;  // [num_states + 1]
  const int32_t* final_ali;
};

// The arrays of a lattice that is being created.
struct LatticeArrays {
  std::vector<int64_t> arc_begin, ali_begin, final_ali_begin;
  std::vector<int32_t> dst, word, ali, final_ali;
  std::vector<float> graph, acoustic, final_graph, final_acoustic;

  Arcs arcs() const {
    return {static_cast<int64_t>(final_graph.size()),
            static_cast<int64_t>(dst.size()),
            arc_begin.data(),
            dst.data(),
            word.data(),
            graph.data(),
            acoustic.data(),
            final_graph.data(),
            final_acoustic.data()};
  }
  Alignments alignments() const { return {ali_begin.data(), ali.data(), final_ali_begin.data(), final_ali.data()}; }
};

inline bool is_final(const Arcs& arcs, int64_t state) {
  return arcs.final_graph[state] < kInfinity && arcs.final_acoustic[state] < kInfinity;
}

}  // namespace ninja
