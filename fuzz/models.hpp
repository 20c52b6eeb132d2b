// Back-off models: reading one from text, and the queries that every model must answer.
#pragma once

#include <string>
#include <vector>

#include "inputs.hpp"
#include "lm/arpa.hpp"

namespace fuzz {

// Read a valid ARPA file.
inline ninja::NgramModel read_model(const std::string& text) {
  ninja::ArpaReader reader(100);
  reader.feed(text.data(), static_cast<int64_t>(text.size()));
  reader.close();
  expect(reader.error().empty(), "the model is read");
  return reader.finish();
}

// Query the first states and words of a model; every result is a state.
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
