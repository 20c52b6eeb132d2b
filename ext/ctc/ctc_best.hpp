// Selects and sorts the best of many candidates without sorting the rest.
//
// Scores fall into bins of equal width. A bin is closed when the bins above it have enough candidates: most candidates
// are then rejected by a comparison with its edge, and the rest is sorted bin by bin.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace ninja {

struct CtcCandidate {
  double score;
  int32_t slot;    // slot of the prefix
  int32_t column;  // 0 for the prefix itself; 1 + 2 * unit + begins for the prefix with one more unit
  int32_t node;    // node of the longer prefix, -1 if it does not exist yet
  bool operator<(const CtcCandidate& other) const {
    if (score != other.score) return score > other.score;
    return slot != other.slot ? slot < other.slot : column < other.column;
  }
};

class CtcBest {
 public:
  // Start to select the best `most` candidates (0 selects all) with scores from `least` to `greatest`. Candidates with
  // lower scores are rejected.
  void begin(int64_t most, double least, double greatest) {
    most_ = most > 0 ? most : std::numeric_limits<int64_t>::max();
    edge_ = std::max(least, std::numeric_limits<double>::lowest());
    const double range = greatest - least;
    const bool apart = range > 1e-6 && range < std::numeric_limits<double>::max();
    base_ = apart ? least : 0.0;
    scale_ = apart ? kBins / range : 0.0;  // 0 puts all candidates into one bin
    std::fill(count_, count_ + kBins, 0);
    open_ = 0;
    above_ = 0;
    offered_.clear();
  }

  // Return the edge; candidates with lower scores are not among the best.
  double edge() const { return edge_; }

  // Add a candidate whose score is not below the edge.
  void offer(const CtcCandidate& candidate) {
    const int32_t at = bin(candidate.score);
    if (at < open_) return;
    offered_.push_back(candidate);
    ++count_[at];
    if (++above_ - count_[open_] < most_) return;
    while (above_ - count_[open_] >= most_) above_ -= count_[open_++];
    edge_ = std::max(edge_, base_ + (open_ - kRounding) / scale_);
  }

  // The best candidates in order; valid until the next call of `begin`.
  const std::vector<CtcCandidate>& sorted() {
    int32_t begin[kBins + 1];
    begin[kBins] = 0;
    for (int32_t at = kBins; at-- > open_;) begin[at] = begin[at + 1] + count_[at];
    sorted_.resize(above_);
    for (const CtcCandidate& candidate : offered_) {
      const int32_t at = bin(candidate.score);
      if (at >= open_) sorted_[begin[at + 1]++] = candidate;
    }
    // Now begin[at + 1] is the end of bin `at`, and begin[at + 2] its beginning.
    int32_t from = 0;
    for (int32_t at = kBins; at-- > open_;) {
      if (count_[at] > 1) std::sort(sorted_.begin() + from, sorted_.begin() + from + count_[at]);
      from += count_[at];
    }
    if (above_ > most_) sorted_.resize(most_);
    return sorted_;
  }

 private:
  static constexpr int32_t kBins = 256;
  static constexpr double kRounding = 1e-6;  // fraction of a bin; exceeds the rounding error of a score near an edge

  int32_t bin(double score) const {
    const int32_t at = static_cast<int32_t>((score - base_) * scale_);
    return at < kBins ? at : kBins - 1;
  }

  int64_t most_ = 0;
  double edge_ = 0.0, base_ = 0.0, scale_ = 0.0;
  int32_t open_ = 0;   // the lowest open bin
  int64_t above_ = 0;  // candidates in open bins
  int32_t count_[kBins];
  std::vector<CtcCandidate> offered_, sorted_;
};

}  // namespace ninja
