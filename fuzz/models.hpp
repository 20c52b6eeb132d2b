// What every reader of a back-off model promises of what it makes.
#pragma once

#include <vector>

#include "inputs.hpp"
#include "lm/ngram.hpp"

namespace fuzz {

// Ask a model all there is to ask, where it is small, and see that every answer can be asked again.
inline void ask(const ninja::NgramModel& model) {
  const int64_t num_states = model.num_states(), num_words = model.num_words();
  expect(model.root >= 0 && model.root < std::max<int64_t>(num_states, 1), "the root is a state");
  if (num_states == 0) return;
  expect(model.start >= 0 && model.start < num_states, "the start is a state");
  std::vector<int64_t> state;
  std::vector<int32_t> word;
  for (int64_t one = 0; one < std::min<int64_t>(num_states, 40); ++one) {
    for (int32_t other = 0; other < std::min<int64_t>(num_words, 20); ++other) {
      state.push_back(one);
      word.push_back(other);
    }
  }
  std::vector<float> logprob(state.size());
  std::vector<int64_t> next(state.size());
  const auto count = static_cast<int64_t>(state.size());
  expect(model.look_up(state.data(), word.data(), count, logprob.data(), next.data()) == -1,
         "states and words are the model's");
  for (const int64_t each : next) expect(each >= 0 && each < num_states, "a word leads to a state");
}

}  // namespace fuzz
