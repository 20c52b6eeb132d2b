// The costs of word sequences in a lattice.
#pragma once

#include <vector>

#include "search/path_ends.hpp"
#include "core/trie.hpp"

namespace ninja {

// Computes the unscaled graph and acoustic cost of the best path of each word sequence, +inf if there is none.
// Sequence s is word[begin[s] : begin[s + 1]]; common prefixes are followed only once.
inline void sentence_costs(const Arcs& arcs, const Scales& scales, const int32_t* word, const int64_t* begin,
                           int64_t num_sequences, double* graph, double* acoustic) {
  Trie trie;
  std::vector<int32_t> node(begin[num_sequences]);
  add_sequences(trie, word, begin, num_sequences, node.data());
  const std::vector<double> ahead = costs_ahead(arcs, scales);
  const double anything = std::numeric_limits<double>::max();  // limit that admits any finite cost
  PathEnds places(arcs, scales, arcs.word, 0);
  std::vector<PathEnd> pool;
  std::vector<size_t> pool_begin{0};  // [nodes + 2] offsets in `pool`, beginning with the empty prefix
  places.add(PathEnds::start());
  places.close(ahead, anything, pool);
  pool_begin.push_back(pool.size());
  for (int32_t at = 0; at < trie.size(); ++at) {
    const int32_t parent = trie.parent(at);
    for (size_t from = pool_begin[parent + 1]; from < pool_begin[parent + 2]; ++from) {
      const int32_t state = pool[from].state;
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        if (arcs.word[arc] == trie.word(at)) places.add(places.behind(pool[from], arc));
      }
    }
    places.close(ahead, anything, pool);
    pool_begin.push_back(pool.size());
  }
  for (int64_t sequence = 0; sequence < num_sequences; ++sequence) {
    const int32_t last = begin[sequence] < begin[sequence + 1] ? node[begin[sequence + 1] - 1] : kTrieRoot;
    double best = kNoPath;
    graph[sequence] = acoustic[sequence] = kNoPath;
    for (size_t at = pool_begin[last + 1]; at < pool_begin[last + 2]; ++at) {
      const double total = pool[at].total + final_cost(arcs, pool[at].state, scales);
      if (!(total < best)) continue;
      best = total;
      graph[sequence] = pool[at].graph + arcs.final_graph[pool[at].state];
      acoustic[sequence] = pool[at].acoustic + arcs.final_acoustic[pool[at].state];
    }
  }
}

}  // namespace ninja
