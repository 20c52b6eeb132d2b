// The arrays of a lattice in one allocation: eleven allocations take longer than most kernels on a small lattice.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "core/copy_labels.hpp"
#include "core/lattice.hpp"

namespace ninja {

// ninja/lattice/lattice.py describes the arrays.
struct Block {
  void* memory = nullptr;  // freed with std::free
  bool compact = true;
  int64_t num_states = 0, num_arcs = 0, num_labels = 0, num_final_labels = 0;
  int64_t* arc_begin = nullptr;
  int64_t* ali_begin = nullptr;
  int64_t* final_ali_begin = nullptr;
  int32_t* dst = nullptr;
  int32_t* word = nullptr;
  float* graph = nullptr;
  float* acoustic = nullptr;
  float* final_graph = nullptr;
  float* final_acoustic = nullptr;
  int32_t* final_ali = nullptr;
  int32_t* ali = nullptr;
  int32_t* time = nullptr;  // [num_states], or null

  Arcs arcs() const {
    return {num_states, num_arcs, arc_begin, dst, word, graph, acoustic, final_graph, final_acoustic};
  }
  Alignments alignments() const { return {ali_begin, ali, final_ali_begin, final_ali}; }
};

// Number of readable bytes after every window, and of writable bytes after every pool of labels.
constexpr int64_t kSlack = 4 * kLabelSlack;

inline Block new_block(int64_t num_states, int64_t num_arcs, int64_t num_labels, int64_t num_final_labels,
                       bool timed = false) {
  Block block;
  block.num_states = num_states;
  block.num_arcs = num_arcs;
  block.num_labels = num_labels;
  block.num_final_labels = num_final_labels;
  const int64_t size = 8 * (2 * (num_states + 1) + num_arcs + 1) + 16 * num_arcs + 8 * num_states +
                       4 * (num_labels + num_final_labels + (timed ? num_states : 0)) + kSlack;
  block.memory = std::malloc(size);
  if (block.memory == nullptr) throw std::bad_alloc();
  char* at = static_cast<char*>(block.memory);
  const auto take = [&](auto*& array, int64_t length) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(at);
    at += length * sizeof(*array);
  };
  take(block.arc_begin, num_states + 1);
  take(block.ali_begin, num_arcs + 1);
  take(block.final_ali_begin, num_states + 1);
  take(block.dst, num_arcs);
  take(block.word, num_arcs);
  take(block.graph, num_arcs);
  take(block.acoustic, num_arcs);
  take(block.final_graph, num_states);
  take(block.final_acoustic, num_states);
  if (timed) take(block.time, num_states);
  take(block.final_ali, num_final_labels);
  take(block.ali, num_labels);  // last, because copy_labels may write beyond its end
  return block;
}

}  // namespace ninja
