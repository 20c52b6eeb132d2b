// Replaces the nodes of HTK lattice files that name sub-lattices by these sub-lattices.
// Source: HTK HNet.c (ExpandLattice).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "formats/slf.hpp"

namespace ninja {

class SlfExpander {
 public:
  // `most` is the maximum number of nodes and links of the result, which may grow exponentially with the nesting depth.
  SlfExpander(const std::vector<SlfSection>& sections, int64_t most) : sections_(sections) {
    constexpr int32_t kDeepest = 32;  // as in HTK
    std::vector<int64_t> size(sections.size());
    std::vector<int32_t> depth(sections.size(), 0);
    for (size_t number = 0; number < sections.size(); ++number) {
      const SlfSection& section = sections[number];
      size[number] = section.text.num_nodes + section.text.num_links();
      for (const int32_t sub : section.sub) {
        if (sub < 0) continue;
        size[number] += size[sub];
        depth[number] = std::max(depth[number], depth[sub] + 1);
        if (size[number] > most)
          refuse("the expanded sub-lattices have more than " + std::to_string(most) + " nodes and links", -1);
        if (depth[number] > kDeepest) refuse("sub-lattices are nested more than 32 levels deep", -1);
      }
    }
  }

  // Return a section with all its sub-lattices expanded, new node numbers and no times.
  TextGraph expand(size_t number) const {
    const SlfSection& section = sections_[number];
    const TextGraph& from = section.text;
    TextGraph made;
    made.word_begins = from.word_begins;
    std::vector<int32_t> entry(from.num_nodes), exit(from.num_nodes);
    for (int64_t node = 0; node < from.num_nodes; ++node) {
      const int32_t first = static_cast<int32_t>(made.num_nodes);
      const int32_t sub = section.sub.empty() ? -1 : section.sub[node];
      if (sub < 0) {
        add_node(from, node, made);
        entry[node] = exit[node] = first;
        continue;
      }
      const TextGraph inner = expand(sub);
      for (int64_t inner_node = 0; inner_node < inner.num_nodes; ++inner_node) add_node(inner, inner_node, made);
      for (int64_t link = 0; link < inner.num_links(); ++link) {
        made.add_link(first + inner.src[link], first + inner.dst[link], inner.word[link], inner.graph[link],
                      inner.acoustic[link], inner.line[link]);
      }
      entry[node] = first + inner.start;
      exit[node] = first + inner.end;
      // Costs of the node belong to the links into it, or to the links out of it if words begin at nodes.
      if (from.node_graph.empty()) continue;
      const int32_t edge = from.word_begins ? exit[node] : entry[node];
      made.node_graph[edge] += from.node_graph[node];
      made.node_acoustic[edge] += from.node_acoustic[node];
    }
    for (int64_t link = 0; link < from.num_links(); ++link) {
      made.add_link(exit[from.src[link]], entry[from.dst[link]], from.word[link], from.graph[link], from.acoustic[link],
                    from.line[link]);
    }
    made.start = entry[from.start];
    made.end = exit[from.end];
    return made;
  }

 private:
  static void add_node(const TextGraph& from, int64_t node, TextGraph& made) {
    made.node_word.push_back(from.node_word.empty() ? kNoWord : from.node_word[node]);
    made.node_graph.push_back(from.node_graph.empty() ? 0 : from.node_graph[node]);
    made.node_acoustic.push_back(from.node_graph.empty() ? 0 : from.node_acoustic[node]);
    ++made.num_nodes;
  }

  const std::vector<SlfSection>& sections_;
};

}  // namespace ninja
