// Batches of lattices: an operation takes one and returns one, without Python in between. A lattice is a batch of one.
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

// A lattice with whatever owns its arrays.
struct Item {
  std::string key;
  Arcs arcs{};
  Alignments labels{};
  const int32_t* time = nullptr;  // [num_states], or null
  bool compact = true;
  int64_t origin = -1;            // the Python object, by its number, whose other fields are this one's, too; -1: none
  std::shared_ptr<void> memory;   // null: the arrays are those of the Python object
};

using Items = std::vector<Item>;

// Return an item without arrays, for a lattice that is made of another one.
inline Item item_like(const Item& item) {
  Item made;
  made.key = item.key;
  made.compact = item.compact;
  made.origin = item.origin;
  return made;
}

// Give an item the arrays of a block, which it owns from now on.
inline void adopt(Block& block, Item& item) {
  item.memory = std::shared_ptr<void>(block.memory, std::free);
  block.memory = nullptr;
  item.arcs = block.arcs();
  item.labels = block.alignments();
  item.time = block.time;
}

// The same for arrays that a kernel made.
inline void adopt(LatticeArrays&& made, Item& item) {
  auto kept = std::make_shared<LatticeArrays>(std::move(made));
  item.arcs = kept->arcs();
  item.labels = kept->alignments();
  item.time = nullptr;
  item.memory = std::move(kept);
}

// An item that failed, and why.
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

// Apply an operation to each item: `make(item, made)` fills in the arrays and returns "", or what is wrong.
template <class Make>
Results each(const Items& items, const Make& make) {
  Results results;
  results.items.reserve(items.size());
  for (size_t place = 0; place < items.size(); ++place) {
    Item made = item_like(items[place]);
    std::string wrong;
    try {
      wrong = make(items[place], made);
    } catch (const std::bad_alloc&) {
      wrong = "it takes more memory than there is; prune it first";
    }
    if (wrong.empty()) {
      results.items.push_back(std::move(made));
    } else {
      results.failures.push_back({static_cast<int64_t>(place), std::move(wrong)});
    }
  }
  return results;
}

// Apply an operation to items up to the first that needs more than it does: `make(item, made)` returns false there, and
// may have made a lattice or not. Return whether there is no such item.
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

// Call `take` with one item after the other until it returns false; returns the place of that item, -1: there is none.
template <class Take>
int64_t first_failure(const Items& items, const Take& take) {
  for (size_t place = 0; place < items.size(); ++place) {
    if (!take(items[place])) return static_cast<int64_t>(place);
  }
  return -1;
}

// The frame of each state of an item: its own times, or what its labels say, in `space`; null where they contradict.
inline const int32_t* state_times(const Item& item, std::vector<int32_t>& space) {
  if (item.time != nullptr) return first_backward_arc(item.arcs, item.time) == kConsistent ? item.time : nullptr;
  space.resize(item.arcs.num_states);
  return state_times(item.arcs, item.labels, space.data()) == kConsistent ? space.data() : nullptr;
}

template <class T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// The results of a second operation on what a first one made, with the failures of both: places are those of the first
// operation's items, of which the second saw those that did not fail.
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
