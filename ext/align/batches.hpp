// Alignment of batches by the fast aligner.
#pragma once

#include "align/align_units.hpp"
#include "align/word_align.hpp"
#include "core/batch.hpp"
#include "core/block.hpp"

namespace ninja {

// Align lattices until the fast aligner refuses a lattice; returns the outcome of the last lattice.
inline AlignEnd align_all(const Items& items, const Labels& known, const AlignOptions& options, Items& results) {
  AlignEnd end = AlignEnd::kAligned;
  all(
      items,
      [&](const Item& item, Item& made) {
        FastAligner& aligner = spare_aligner();
        const int64_t num_labels = item.labels.ali_begin[item.arcs.num_arcs];
        const int64_t num_final_labels = item.labels.final_ali_begin[item.arcs.num_states];
        end = AlignEnd::kUnsure;
        if (num_labels + num_final_labels > 0 && first_unknown_label(item.labels.ali, num_labels, known) < 0 &&
            first_unknown_label(item.labels.final_ali, num_final_labels, known) < 0) {
          end = aligner.align(item.arcs, item.labels, known, options);
        }
        if (end != AlignEnd::kAligned) return false;
        Block to = new_block(aligner.num_states(), aligner.num_arcs(), aligner.num_labels(), 0);
        const Block written = to;
        adopt(to, made);
        aligner.write(written);
        made.compact = true;
        return true;
      },
      results);
  return end;
}

}  // namespace ninja
