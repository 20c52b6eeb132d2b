// Strings, and tables of subsets, for pruned determinization.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "graph/label_strings.hpp"

namespace ninja {

// A graph and an acoustic cost. As in Kaldi's determinization, both are added and compared in single precision.
struct PairCost {
  float graph = 0.0f;
  float acoustic = 0.0f;
};

inline PairCost operator+(PairCost a, PairCost b) { return {a.graph + b.graph, a.acoustic + b.acoustic}; }
inline PairCost operator-(PairCost a, PairCost b) { return {a.graph - b.graph, a.acoustic - b.acoustic}; }
inline double total(PairCost cost) { return static_cast<double>(cost.graph) + static_cast<double>(cost.acoustic); }

// 1 if the first cost is better (lower), -1 if the second is better, 0 if they are equal.
inline int compare(PairCost a, PairCost b) {
  const float first = a.graph + a.acoustic, second = b.graph + b.acoustic;
  if (first != second) return first < second ? 1 : -1;
  if (a.graph != b.graph) return a.graph < b.graph ? 1 : -1;
  return 0;
}

// Kaldi compares totals only. Here, both costs must also be equal up to rounding errors, which are larger than those of
// the totals.
inline bool nearly_equal(PairCost a, PairCost b, float delta) {
  const float graph = a.graph - b.graph, acoustic = a.acoustic - b.acoustic;
  return std::fabs((a.graph + a.acoustic) - (b.graph + b.acoustic)) <= delta && std::fabs(graph) <= 8 * delta &&
         std::fabs(acoustic) <= 8 * delta;
}

// A few strings in one buffer.
struct SpelledStrings {
  std::vector<int32_t> labels;
  std::vector<size_t> ends;

  void clear() {
    labels.clear();
    ends.clear();
  }
  void close() { ends.push_back(labels.size()); }
  const int32_t* begin(size_t string) const { return labels.data() + (string == 0 ? 0 : ends[string - 1]); }
  size_t size(size_t string) const { return static_cast<size_t>(labels.data() + ends[string] - begin(string)); }
  int64_t bytes() const { return static_cast<int64_t>(sizeof(int32_t) * labels.size()); }

  // Length of the common prefix of all strings.
  size_t shared() const {
    size_t shared = ends[0];
    for (size_t i = 1; i < ends.size() && shared > 0; ++i) {
      shared = std::min(shared, size(i));
      shared = static_cast<size_t>(std::mismatch(begin(i), begin(i) + shared, labels.data()).first - begin(i));
    }
    return shared;
  }
};

// 1 if the first string is better (shorter or, at equal lengths, with larger labels, as in Kaldi), -1 if the second is
// better, 0 if they are equal.
inline int compare_strings(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? 1 : -1;
  const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin());
  return at == a.end() ? 0 : *at > *other ? 1 : -1;
}

// A state of the lattice with the residual costs and labels of the path to it.
struct Element {
  int32_t state;
  int32_t string;
  PairCost cost;
};

// A map from subsets to values. Subsets whose costs differ by no more than delta are equal.
template <class Value>
class SubsetTable {
 public:
  explicit SubsetTable(float delta) : delta_(delta) {}

  static uint64_t hash_of(const std::vector<Element>& subset) {
    uint64_t hash = subset.size();
    for (const Element& element : subset) {
      hash = keyed_hash_with(hash, static_cast<uint64_t>(element.state) << 32 | static_cast<uint32_t>(element.string));
    }
    return hash;
  }

  // Null if the subset is new.
  const Value* find(const std::vector<Element>& subset, uint64_t hash) const {
    for (int32_t entry = chains_.first(hash); entry >= 0; entry = chains_.next(entry)) {
      if (chains_.hash(entry) == hash && same(entry, subset)) return &values_[entry];
    }
    return nullptr;
  }

  void add(const std::vector<Element>& subset, uint64_t hash, const Value& value) {
    elements_.insert(elements_.end(), subset.begin(), subset.end());
    ends_.push_back(static_cast<int64_t>(elements_.size()));
    values_.push_back(value);
    chains_.add(hash);
  }

  int64_t bytes() const {
    return static_cast<int64_t>(sizeof(Element) * elements_.size() + (28 + sizeof(Value)) * values_.size());
  }

 private:
  bool same(int32_t entry, const std::vector<Element>& subset) const {
    const Element* old = elements_.data() + (entry == 0 ? 0 : ends_[entry - 1]);
    if (elements_.data() + ends_[entry] - old != static_cast<std::ptrdiff_t>(subset.size())) return false;
    for (const Element& element : subset) {
      if (element.state != old->state || element.string != old->string) return false;
      if (!nearly_equal(element.cost, old->cost, delta_)) return false;
      ++old;
    }
    return true;
  }

  const float delta_;
  std::vector<Element> elements_;
  std::vector<int64_t> ends_;
  std::vector<Value> values_;
  Chains chains_;
};

}  // namespace ninja
