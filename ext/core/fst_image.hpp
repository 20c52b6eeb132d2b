// OpenFst's binary images: vector FSTs are written from flat arrays, and vector and const FSTs are parsed into them.
// Layout (little-endian, like all machines that OpenFst's wheels support):
//   i32 magic; str "vector"; str arc type; i32 version 2; i32 flags; u64 properties; i64 start, states, arcs;
//   [symbol tables]; per state: weight, i64 arcs, arcs x {i32 input label, i32 output label, weight, i32 next state}
// where str is an i32 length and that number of bytes. A const FST has the type "const"; after the same header and
// symbols, it has its states as {weight, u32 first arc, u32 arcs, u32 input epsilons, u32 output epsilons} and then
// all arcs, both in their memory layout (log64: arcs of 24 bytes). In aligned files, each of the two arrays begins at a
// multiple of 16 bytes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/top_sort.hpp"

namespace ninja {

constexpr int32_t kFstMagic = 2125659606;
constexpr int32_t kSymbolTableMagic = 2125658996;

// A weighted transducer as flat arrays; borrowed pointers, valid for one call. State 0 is the start.
struct FstArcs {
  int64_t num_states = 0;
  int64_t num_arcs = 0;
  const int64_t* arc_begin = nullptr;  // [num_states + 1]
  const int32_t* dst = nullptr;        // [num_arcs]
  const int32_t* ilabel = nullptr;     // [num_arcs]
  const int32_t* olabel = nullptr;     // [num_arcs]
  const double* cost = nullptr;        // [num_arcs]
  const double* final_cost = nullptr;  // [num_states], +inf if not final
};

// A parsed FST with its memory: states are in topological order, and state 0 is the start. If there is an error, the
// arrays are undefined.
struct ParsedFst {
  std::string error;
  int64_t byte = -1;  // offset of the damage; -1 if the image is well formed, but not a lattice
  std::string arc_type;
  int64_t end = 0;  // number of bytes of the image
  std::vector<int64_t> arc_begin;
  std::vector<int32_t> dst, ilabel, olabel;
  std::vector<double> cost, final_cost;
  std::vector<std::string> input_symbol, output_symbol;  // symbols of attached tables
  std::vector<int64_t> input_symbol_id, output_symbol_id;
};

inline int64_t weight_bytes(const std::string& arc_type) { return arc_type == "log64" ? 8 : 4; }

// `symbols` is the size of the symbol table of each side; see write_image.
inline int64_t image_size(const FstArcs& fst, const std::string& arc_type, int64_t symbols) {
  const int64_t weight = weight_bytes(arc_type);
  return 58 + 2 * symbols + static_cast<int64_t>(arc_type.size()) + fst.num_states * (weight + 8) +
         fst.num_arcs * (weight + 12);
}

namespace fst_image {

template <typename T>
inline char* put(char* to, T value) {
  std::memcpy(to, &value, sizeof(T));
  return to + sizeof(T);
}

inline char* put_string(char* to, const std::string& text) {
  to = put(to, static_cast<int32_t>(text.size()));
  std::memcpy(to, text.data(), text.size());
  return to + text.size();
}

template <typename Weight>
inline char* put_states(char* to, const FstArcs& fst) {
  for (int64_t state = 0; state < fst.num_states; ++state) {
    to = put(to, static_cast<Weight>(fst.final_cost[state]));
    to = put(to, fst.arc_begin[state + 1] - fst.arc_begin[state]);
    for (int64_t arc = fst.arc_begin[state]; arc < fst.arc_begin[state + 1]; ++arc) {
      to = put(to, fst.ilabel[arc]);
      to = put(to, fst.olabel[arc]);
      to = put(to, static_cast<Weight>(fst.cost[arc]));
      to = put(to, fst.dst[arc]);
    }
  }
  return to;
}

// Thrown while an image is parsed, and converted to the error of the result.
struct Malformed {
  std::string message;
  int64_t byte;
};

// Run `work` and store its error in the result.
template <class Result, class Work>
void store_error(Result& result, const Work& work) {
  try {
    work();
  } catch (const Malformed& malformed) {
    result.error = malformed.message;
    result.byte = malformed.byte;
  }
}

class Cursor {
 public:
  Cursor(const char* begin, int64_t size) : begin_(begin), size_(size) {}

  template <typename T>
  T get(const char* what) {
    need(sizeof(T), what);
    T value;
    std::memcpy(&value, begin_ + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string get_string(const char* what) {
    const int64_t here = at_;
    const int32_t length = get<int32_t>(what);
    if (length < 0 || length > left()) {
      throw Malformed{std::string(what) + " declares " + std::to_string(length) + " bytes, but " +
                          std::to_string(left()) + " are left",
                      here};
    }
    std::string text(begin_ + at_, static_cast<size_t>(length));
    at_ += length;
    return text;
  }

  void need(int64_t bytes, const char* what) const {
    if (bytes > left()) throw Malformed{std::string("the image ends within ") + what, at_};
  }

  // The caller has checked the number of bytes.
  void skip(int64_t bytes) { at_ += bytes; }

  int64_t at() const { return at_; }
  int64_t left() const { return size_ - at_; }

 private:
  const char* begin_;
  int64_t size_;
  int64_t at_ = 0;
};

inline void get_symbols(Cursor& cursor, std::vector<std::string>& symbol, std::vector<int64_t>& symbol_id) {
  const int64_t here = cursor.at();
  if (cursor.get<int32_t>("a symbol table") != kSymbolTableMagic) throw Malformed{"expected a symbol table", here};
  cursor.get_string("the name of a symbol table");
  cursor.get<int64_t>("a symbol table");
  const int64_t count = cursor.get<int64_t>("a symbol table");
  if (count < 0 || count > cursor.left() / 12) {
    throw Malformed{
        "a symbol table declares " + std::to_string(count) + " symbols, which is more than the file contains", here};
  }
  for (int64_t i = 0; i < count; ++i) {
    symbol.push_back(cursor.get_string("a symbol"));
    symbol_id.push_back(cursor.get<int64_t>("a symbol table"));
  }
}

template <typename Weight>
inline void get_states(Cursor& cursor, ParsedFst& fst, int64_t num_states, std::vector<int64_t>& arc_byte) {
  const int64_t arc_bytes = 12 + static_cast<int64_t>(sizeof(Weight));
  fst.arc_begin.push_back(0);
  // Old versions write -1 for the number of states to pipes; the image is then read to its end.
  for (int64_t state = 0; num_states < 0 ? cursor.left() > 0 : state < num_states; ++state) {
    const double final_cost = cursor.get<Weight>("a state");
    const int64_t here = cursor.at();
    const int64_t count = cursor.get<int64_t>("a state");
    if (count < 0 || count > cursor.left() / arc_bytes) {
      throw Malformed{"state " + std::to_string(state) + " declares " + std::to_string(count) + " arcs, but " +
                          std::to_string(cursor.left()) + " bytes are left",
                      here};
    }
    arc_byte.push_back(cursor.at());
    fst.final_cost.push_back(final_cost);
    for (int64_t i = 0; i < count; ++i) {
      fst.ilabel.push_back(cursor.get<int32_t>("an arc"));
      fst.olabel.push_back(cursor.get<int32_t>("an arc"));
      fst.cost.push_back(cursor.get<Weight>("an arc"));
      fst.dst.push_back(cursor.get<int32_t>("an arc"));
    }
    fst.arc_begin.push_back(static_cast<int64_t>(fst.dst.size()));
  }
}

// Read a const FST; the counts are those of the header.
template <typename Weight>
inline void get_const(Cursor& cursor, ParsedFst& fst, int64_t num_states, int64_t num_arcs, bool aligned,
                      std::vector<int64_t>& arc_byte) {
  struct State {
    Weight final_cost;
    uint32_t first, count, input_epsilons, output_epsilons;
  };
  struct Arc {
    int32_t ilabel, olabel;
    Weight cost;
    int32_t dst;
  };
  const auto align = [&] {
    const int64_t padding = aligned ? (16 - cursor.at() % 16) % 16 : 0;
    cursor.need(padding, "the padding of a const FST");
    cursor.skip(padding);
  };
  align();
  if (num_states < 0 || num_states > cursor.left() / static_cast<int64_t>(sizeof(State))) {
    throw Malformed{"the header declares " + std::to_string(num_states) + " states, but " +
                        std::to_string(cursor.left()) + " bytes are left",
                    cursor.at()};
  }
  fst.arc_begin.push_back(0);
  for (int64_t state = 0; state < num_states; ++state) {
    const int64_t here = cursor.at();
    const State found = cursor.get<State>("a state");
    if (found.first != fst.arc_begin.back() || found.count > num_arcs - fst.arc_begin.back()) {
      throw Malformed{"state " + std::to_string(state) + " declares the arcs " + std::to_string(found.first) + " to " +
                          std::to_string(static_cast<int64_t>(found.first) + found.count) + " of " +
                          std::to_string(num_arcs),
                      here};
    }
    fst.final_cost.push_back(found.final_cost);
    fst.arc_begin.push_back(fst.arc_begin.back() + found.count);
  }
  if (fst.arc_begin.back() != num_arcs) {
    throw Malformed{"the header declares " + std::to_string(num_arcs) + " arcs, but the states have " +
                        std::to_string(fst.arc_begin.back()),
                    cursor.at()};
  }
  align();
  if (num_arcs > cursor.left() / static_cast<int64_t>(sizeof(Arc))) {
    throw Malformed{std::to_string(num_arcs) + " arcs, but " + std::to_string(cursor.left()) + " bytes are left",
                    cursor.at()};
  }
  for (int64_t state = 0; state < num_states; ++state)
    arc_byte.push_back(cursor.at() + fst.arc_begin[state] * sizeof(Arc));
  for (int64_t i = 0; i < num_arcs; ++i) {
    const Arc arc = cursor.get<Arc>("an arc");
    fst.ilabel.push_back(arc.ilabel);
    fst.olabel.push_back(arc.olabel);
    fst.cost.push_back(arc.cost);
    fst.dst.push_back(arc.dst);
  }
}

inline bool is_zero(double weight) { return std::isinf(weight) && weight > 0; }

// Return the reason why the FST is not a lattice, or an empty string. Arcs whose weight is the semiring's zero are
// ignored if they will be dropped.
inline std::string flaw(const ParsedFst& fst, bool without_zeros = false) {
  const int64_t num_states = static_cast<int64_t>(fst.final_cost.size());
  for (int64_t state = 0; state < num_states; ++state) {
    const double final_cost = fst.final_cost[state];
    if (std::isnan(final_cost) || (std::isinf(final_cost) && final_cost < 0)) {
      return "state " + std::to_string(state) + " has the final weight " + std::to_string(final_cost);
    }
    for (int64_t arc = fst.arc_begin[state]; arc < fst.arc_begin[state + 1]; ++arc) {
      if (std::isfinite(fst.cost[arc]) && fst.ilabel[arc] >= 0 && fst.olabel[arc] >= 0) continue;
      if (without_zeros && is_zero(fst.cost[arc])) continue;
      const std::string where =
          "arc " + std::to_string(arc - fst.arc_begin[state]) + " of state " + std::to_string(state) + " has the ";
      if (!std::isfinite(fst.cost[arc])) return where + "weight " + std::to_string(fst.cost[arc]);
      if (fst.ilabel[arc] < 0) return where + "negative input label " + std::to_string(fst.ilabel[arc]);
      if (fst.olabel[arc] < 0) return where + "negative output label " + std::to_string(fst.olabel[arc]);
    }
  }
  return "";
}

// Drop the arcs whose weight is the semiring's zero.
inline void drop_zeros(ParsedFst& fst) {
  if (std::none_of(fst.cost.begin(), fst.cost.end(), is_zero)) return;
  size_t kept = 0;
  int64_t arc = 0;
  for (size_t state = 0; state < fst.final_cost.size(); ++state) {
    for (const int64_t end = fst.arc_begin[state + 1]; arc < end; ++arc) {
      if (is_zero(fst.cost[arc])) continue;
      fst.ilabel[kept] = fst.ilabel[arc];
      fst.olabel[kept] = fst.olabel[arc];
      fst.cost[kept] = fst.cost[arc];
      fst.dst[kept] = fst.dst[arc];
      ++kept;
    }
    fst.arc_begin[state + 1] = static_cast<int64_t>(kept);
  }
  fst.ilabel.resize(kept);
  fst.olabel.resize(kept);
  fst.cost.resize(kept);
  fst.dst.resize(kept);
}

// Renumber the states, omitting those whose new number is -1.
inline void reorder(ParsedFst& fst, const std::vector<int32_t>& number) {
  ParsedFst sorted;
  sorted.arc_begin.push_back(0);
  for (const int32_t state : in_new_order(number)) {
    for (int64_t arc = fst.arc_begin[state]; arc < fst.arc_begin[state + 1]; ++arc) {
      sorted.ilabel.push_back(fst.ilabel[arc]);
      sorted.olabel.push_back(fst.olabel[arc]);
      sorted.cost.push_back(fst.cost[arc]);
      sorted.dst.push_back(number[fst.dst[arc]]);
    }
    sorted.arc_begin.push_back(static_cast<int64_t>(sorted.dst.size()));
    sorted.final_cost.push_back(fst.final_cost[state]);
  }
  fst.arc_begin.swap(sorted.arc_begin);
  fst.ilabel.swap(sorted.ilabel);
  fst.olabel.swap(sorted.olabel);
  fst.cost.swap(sorted.cost);
  fst.dst.swap(sorted.dst);
  fst.final_cost.swap(sorted.final_cost);
}

// Parse header, symbols, states and arcs in the order of the file, and check that every arc enters a state. Returns the
// start, or -1.
inline int64_t get_machine(Cursor& cursor, ParsedFst& fst) {
  if (cursor.get<int32_t>("the header") != kFstMagic)
    throw Malformed{"not an OpenFst file: the magic number is wrong", 0};
  int64_t here = cursor.at();
  const std::string fst_type = cursor.get_string("the header");
  const bool is_const = fst_type == "const";
  if (fst_type != "vector" && !is_const) {
    throw Malformed{
        "unsupported FST type \"" + fst_type.substr(0, 40) + "\"; convert it with fstconvert --fst_type=vector", here};
  }
  here = cursor.at();
  fst.arc_type = cursor.get_string("the header");
  if (fst.arc_type != "standard" && fst.arc_type != "log" && fst.arc_type != "log64") {
    throw Malformed{
        "unsupported arc type \"" + fst.arc_type.substr(0, 40) + "\"; standard, log and log64 are supported", here};
  }
  here = cursor.at();
  const int32_t version = cursor.get<int32_t>("the header");
  // Version 1 of const FSTs is an aligned version 2, from before the flag for alignment existed.
  if (version != 2 && !(is_const && version == 1)) {
    throw Malformed{"version " + std::to_string(version) + " of a " + fst_type + " FST; 2 is needed", here};
  }
  here = cursor.at();
  const int32_t flags = cursor.get<int32_t>("the header");
  const bool aligned = is_const && (version == 1 || (flags & 4));
  if (flags & ~(is_const ? 7 : 3)) throw Malformed{"unknown header flags " + std::to_string(flags), here};
  cursor.get<uint64_t>("the header");
  here = cursor.at();
  const int64_t start = cursor.get<int64_t>("the header");
  const int64_t num_states = cursor.get<int64_t>("the header");
  const int64_t num_arcs = cursor.get<int64_t>("the header");  // used in const FSTs only; 0 in most vector FSTs
  if (num_states < -1 || num_states > std::numeric_limits<int32_t>::max() || num_states > cursor.left() / 12) {
    throw Malformed{"the header declares " + std::to_string(num_states) + " states, but " +
                        std::to_string(cursor.left()) + " bytes are left",
                    here + 8};
  }
  if (flags & 1) get_symbols(cursor, fst.input_symbol, fst.input_symbol_id);
  if (flags & 2) get_symbols(cursor, fst.output_symbol, fst.output_symbol_id);

  std::vector<int64_t> arc_byte;
  if (is_const) {
    if (num_arcs < 0) throw Malformed{"the header declares " + std::to_string(num_arcs) + " arcs", here + 16};
    if (fst.arc_type == "log64") {
      get_const<double>(cursor, fst, num_states, num_arcs, aligned, arc_byte);
    } else {
      get_const<float>(cursor, fst, num_states, num_arcs, aligned, arc_byte);
    }
  } else if (fst.arc_type == "log64") {
    get_states<double>(cursor, fst, num_states, arc_byte);
  } else {
    get_states<float>(cursor, fst, num_states, arc_byte);
  }
  fst.end = cursor.at();
  const int64_t found = static_cast<int64_t>(fst.final_cost.size());
  if (start < -1 || start >= found) {
    throw Malformed{"start state " + std::to_string(start) + " of " + std::to_string(found), here};
  }
  for (int64_t state = 0; state < found; ++state) {
    for (int64_t arc = fst.arc_begin[state]; arc < fst.arc_begin[state + 1]; ++arc) {
      if (fst.dst[arc] >= 0 && fst.dst[arc] < found) continue;
      throw Malformed{"arc " + std::to_string(arc - fst.arc_begin[state]) + " of state " + std::to_string(state) +
                          " enters state " + std::to_string(fst.dst[arc]) + " of " + std::to_string(found),
                      arc_byte[state]};
    }
  }
  return start;
}

inline void parse(Cursor& cursor, ParsedFst& fst) {
  const int64_t start = get_machine(cursor, fst);
  if (start < 0) {
    fst.error = "the FST is empty: it has no start state";
    return;
  }
  fst.error = flaw(fst, true);
  if (!fst.error.empty()) return;
  drop_zeros(fst);  // before the search for cycles
  const int64_t num_states = static_cast<int64_t>(fst.final_cost.size());
  bool sorted = start == 0;
  for (int64_t state = 0; state < num_states && sorted; ++state) {
    for (int64_t arc = fst.arc_begin[state]; arc < fst.arc_begin[state + 1]; ++arc) {
      sorted = sorted && fst.dst[arc] > state;
    }
  }
  if (sorted) return;
  std::vector<int32_t> number(fst.final_cost.size());
  const std::vector<int32_t> cycle =
      top_sort(num_states, fst.arc_begin.data(), fst.dst.data(), static_cast<int32_t>(start), number.data());
  if (!cycle.empty()) {
    fst.error = "state " + std::to_string(cycle[0]) + " lies on a cycle; a lattice must be acyclic";
    return;
  }
  reorder(fst, number);
}

}  // namespace fst_image

// Write the image into a buffer of image_size() bytes, with the bytes of a symbol table for both labels or "".
inline void write_image(const FstArcs& fst, const std::string& arc_type, std::string_view symbols, char* to) {
  using namespace fst_image;
  to = put(to, kFstMagic);
  to = put_string(to, "vector");
  to = put_string(to, arc_type);
  to = put(to, int32_t{2});
  to = put(to, int32_t{symbols.empty() ? 0 : 3});
  to = put(to, uint64_t{3});  // expanded and mutable; OpenFst computes the other properties on demand
  to = put(to, int64_t{0});
  to = put(to, fst.num_states);
  to = put(to, fst.num_arcs);
  for (int side = 0; side < 2; ++side) to = std::copy(symbols.begin(), symbols.end(), to);
  if (arc_type == "log64") {
    put_states<double>(to, fst);
  } else {
    put_states<float>(to, fst);
  }
}

// Parse an image. If the start is 0 and states are in topological order, they keep their numbers; otherwise the
// reachable states are sorted.
inline ParsedFst parse_image(const char* bytes, int64_t size) {
  ParsedFst fst;
  fst_image::Cursor cursor(bytes, size);
  fst_image::store_error(fst, [&] { fst_image::parse(cursor, fst); });
  return fst;
}

}  // namespace ninja
