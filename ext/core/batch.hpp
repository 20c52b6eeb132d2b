// Batches of lattices: operations take a batch and return a batch without calling Python. A lattice is a batch of one.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/block.hpp"
#include "core/lattice.hpp"
#include "core/times.hpp"

namespace ninja {

// A lattice and the owner of its arrays.
struct Item {
  std::string key;
  Arcs arcs{};
  Alignments labels{};
  const int32_t* time = nullptr;  // [num_states], or null
  bool compact = true;
  int64_t origin = -1;           // number of the Python object with the other fields, or -1
  std::shared_ptr<void> memory;  // null if the Python object owns the arrays
  // Set in a lexical lattice if its arcs differ from those of the written lattice (see form_words.hpp): the index of
  // the written arc of each arc, encoded as -1 - index for the second and later words of a form.
  std::shared_ptr<const std::vector<int64_t>> written_arc;
};

using Items = std::vector<Item>;

// Return an item without arrays, for a lattice that is created from another one.
inline Item item_like(const Item& item) {
  Item made;
  made.key = item.key;
  made.compact = item.compact;
  made.origin = item.origin;
  return made;
}

// Move the arrays of a block to an item.
inline void adopt(Block& block, Item& item) {
  item.memory = std::shared_ptr<void>(block.memory, std::free);
  block.memory = nullptr;
  item.arcs = block.arcs();
  item.labels = block.alignments();
  item.time = block.time;
}

// Move the arrays that a kernel has written to an item.
inline void adopt(LatticeArrays&& made, Item& item) {
  auto kept = std::make_shared<LatticeArrays>(std::move(made));
  for (auto* labels : {&kept->ali, &kept->final_ali}) labels->reserve(1);  // not null: writers copy 0 labels by memcpy
  item.arcs = kept->arcs();
  item.labels = kept->alignments();
  item.time = nullptr;
  item.memory = std::move(kept);
}

// An item that failed, and its error.
struct Failure {
  int64_t place;
  std::string message;
};

struct Results {
  Items items;
  std::vector<Failure> failures;
  std::vector<int64_t> arc_map;  // old arc of each new arc of all items, on request
};

inline const char* const kNoPathLeads = "no path leads from the start to a final state";

// Apply an operation to each item: `make(item, made)` fills in the arrays and returns "", or an error.
template <class Make>
Results each(const Items& items, const Make& make) {
  Results results;
  results.items.reserve(items.size());
  for (size_t place = 0; place < items.size(); ++place) {
    Item made = item_like(items[place]);
    std::string wrong;
    try {
      wrong = make(items[place], made);
    } catch (const std::bad_alloc&) { wrong = "out of memory; prune it first"; }
    if (wrong.empty()) {
      results.items.push_back(std::move(made));
    } else {
      results.failures.push_back({static_cast<int64_t>(place), std::move(wrong)});
    }
  }
  return results;
}

// Apply an operation to items until `make(item, made)` returns false. Items with arrays are added to the results, the
// last one included. Return whether all items were processed.
template <class Make>
bool all(const Items& items, const Make& make, Items& results) {
  results.reserve(items.size());
  for (const Item& item : items) {
    Item made = item_like(item);
    const bool complete = make(item, made);
    if (made.memory != nullptr) results.push_back(std::move(made));
    if (!complete) return false;
  }
  return true;
}

// Call `take` for each item until it returns false; return the index of that item, or -1.
template <class Take>
int64_t first_failure(const Items& items, const Take& take) {
  for (size_t place = 0; place < items.size(); ++place) {
    if (!take(items[place])) return static_cast<int64_t>(place);
  }
  return -1;
}

// Return the frame of each state of an item, from its times or its labels (stored in `space`), or null if they are
// inconsistent.
inline const int32_t* state_times(const Item& item, std::vector<int32_t>& space) {
  if (item.time != nullptr) return first_backward_arc(item.arcs, item.time) == kConsistent ? item.time : nullptr;
  space.resize(item.arcs.num_states);
  return state_times(item.arcs, item.labels, space.data()) == kConsistent ? space.data() : nullptr;
}

// Return the frame at which the last reachable final state of an item ends, or -1 if its times or labels are
// inconsistent.
inline int64_t num_frames(const Item& item) {
  std::vector<int32_t> space;
  const int32_t* const time = state_times(item, space);
  return time == nullptr ? -1 : num_frames(item.arcs, item.labels, time);
}

template <class T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Merge the failures of two successive operations. The second operation has processed only the items that did not fail
// in the first one; the merged indices refer to the items of the first operation.
inline Results joined(std::vector<Failure> first, Results second) {
  if (first.empty()) return second;
  std::vector<Failure> failures;
  size_t at = 0;
  for (Failure& failure : second.failures) {
    while (at < first.size() && first[at].place <= failure.place + static_cast<int64_t>(at)) {
      failures.push_back(std::move(first[at++]));
    }
    failure.place += static_cast<int64_t>(at);
    failures.push_back(std::move(failure));
  }
  for (; at < first.size(); ++at) failures.push_back(std::move(first[at]));
  second.failures = std::move(failures);
  return second;
}

}  // namespace ninja
