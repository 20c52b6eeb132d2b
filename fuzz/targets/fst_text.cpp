// OpenFst's text.
// Covers: formats/fst_text.hpp
#include "formats/fst_text.hpp"

#include "inputs.hpp"
#include "mutate.hpp"

FUZZ_TARGET(mutate_text) {
  const bool acceptor = draw.ConsumeIntegral<uint8_t>() & 1;
  const fuzz::Bytes bytes(fuzz::rest(draw), 1);
  const ninja::FstTextLook look = ninja::look_at_fst_text(bytes.begin(), bytes.end());
  for (const std::string_view field : look.fourth) fuzz::expect(!field.empty(), "a field is not empty");
  ninja::FstText made;
  ninja::read_fst_text(bytes.begin(), bytes.end(), 1, acceptor, made);
  if (made.fault != ninja::FstTextFault::kNone) return;
  const size_t num_states = made.final_cost.size(), num_arcs = made.dst.size(),
               num_labels = made.labels.entries().size();
  fuzz::expect(num_states > 0 && made.arc_begin.size() == num_states + 1 && made.arc_begin[0] == 0 &&
                   made.arc_begin[num_states] == static_cast<int64_t>(num_arcs) && made.label.size() == num_arcs &&
                   made.cost.size() == num_arcs && (made.ids.empty() || made.ids.size() == num_labels + 1),
               "the arrays of a machine are of one size");
  fuzz::expect(num_states <= size && num_arcs <= size, "a machine is no larger than its file");
  for (size_t arc = 0; arc < num_arcs; ++arc) {
    fuzz::expect(made.dst[arc] >= 0 && made.dst[arc] < static_cast<int32_t>(num_states), "every arc enters a state");
    fuzz::expect(made.label[arc] >= 1 && made.label[arc] <= static_cast<int32_t>(num_labels), "every arc has a label");
    fuzz::expect(!std::isnan(made.cost[arc]), "every arc has a cost");
  }
}
