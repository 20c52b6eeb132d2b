// Kaldi's binary lattices: OpenFst's VectorFst image with lattice weights.
// Source: OpenFst fst.cc (FstHeader::Read), vector-fst.h (VectorFstImpl::Read); Kaldi lattice-weight.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "formats/staging.hpp"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Kaldi archives are little-endian; big-endian machines are not supported"
#endif

namespace ninja {

enum class Scan {
  kComplete,  // an entry was read, or an invalid lattice was skipped
  kMore,      // the window ends within the entry
  kFatal,     // the rest of the archive cannot be parsed
};

constexpr int32_t kOpenFstMagic = 2125659606;
constexpr int64_t kMaxLabels = 1 << 24;  // maximum number of labels of an arc: 46 hours of 10 ms frames

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

inline bool finite(float value) {
  return (load<uint32_t>(reinterpret_cast<const char*>(&value)) & 0x7f800000u) != 0x7f800000u;
}

inline std::string spell(float cost) {
  if (std::isnan(cost)) return "NaN";
  return cost > 0 ? "+infinity" : "-infinity";
}

// Record the first fault of a lattice; later faults may be consequences of it.
inline void note(Fault& fault, Fault::Kind kind, const std::string& message) {
  if (fault.kind != Fault::kNone) return;
  fault.kind = kind;
  fault.message = message;
}

inline bool sound(const StagedFinal& final) {
  return (finite(final.graph) && finite(final.acoustic)) || (final.graph == kInfinity && final.acoustic == kInfinity);
}

inline void check_final(const StagedFinal& final, int64_t state, Fault& fault) {
  if (sound(final)) return;
  const float cost =
      finite(final.graph) || (final.graph == kInfinity && !finite(final.acoustic)) ? final.acoustic : final.graph;
  note(fault, Fault::kLattice,
       "state " + std::to_string(state) + " has the final cost " + spell(cost) +
           "; only both costs together may be +infinity, where a state is not final");
}

inline void check_arc(const StagedArc& arc, int64_t number, int64_t state, int64_t num_states, Fault& fault) {
  const std::string name = "arc " + std::to_string(number) + " of state " + std::to_string(state);
  if (arc.dst < 0 || arc.dst >= num_states) {
    note(fault, Fault::kLattice,
         name + " enters state " + std::to_string(arc.dst) + ", but there are " + std::to_string(num_states) +
             " states");
  } else if (arc.word < 0) {
    note(fault, Fault::kLattice, name + " has the negative word id " + std::to_string(arc.word));
  } else if (!finite(arc.graph)) {
    note(fault, Fault::kLattice, name + " has the graph cost " + spell(arc.graph));
  } else if (!finite(arc.acoustic)) {
    note(fault, Fault::kLattice, name + " has the acoustic cost " + spell(arc.acoustic));
  }
}

// Parses one binary lattice at a time into a Staging.
class BinaryScanner {
 public:
  // Args: window [at, end), and an upper bound on the number of bytes that follow it in the file.
  // Moves `at` after the lattice if it is complete; `offset` is the offset of `at` in the file.
  Scan scan(const char*& at, const char* end, int64_t bytes_behind, int64_t offset, Staging& lattice, Fault& fault) {
    begin_ = at;
    end_ = end;
    behind_ = bytes_behind;
    offset_ = offset;
    const char* cursor = at;
    std::string weight;
    bool wide = false;
    int64_t num_states = 0;
    Scan state = header(cursor, lattice, wide, num_states, fault);
    if (state == Scan::kComplete) {
      if (lattice.compact) {
        state = wide ? body<true, double>(cursor, num_states, lattice, fault)
                     : body<true, float>(cursor, num_states, lattice, fault);
      } else {
        state = wide ? body<false, double>(cursor, num_states, lattice, fault)
                     : body<false, float>(cursor, num_states, lattice, fault);
      }
    }
    if (state == Scan::kComplete) at = cursor;
    return state;
  }

 private:
  // `lack` returns whether `size` bytes at the cursor exceed the window; `more` then checks whether the file may
  // contain them.
  bool lack(const char* cursor, int64_t size) const { return end_ - cursor < size; }

  Scan more(const char* cursor, int64_t size, const char* what, Fault& fault) {
    const int64_t left = end_ - cursor;
    if (size - left > behind_) {
      return fatal(cursor,
                   std::string("the file ends within ") + what + ": " + std::to_string(size) + " bytes are needed, " +
                       std::to_string(left + behind_) + " are left",
                   fault);
    }
    return Scan::kMore;
  }

  Scan fatal(const char* cursor, const std::string& message, Fault& fault) {
    fault = Fault();
    fault.kind = Fault::kFormat;
    fault.fatal = true;
    fault.message = message;
    fault.byte = offset_ + (cursor - begin_);
    return Scan::kFatal;
  }

  Scan text(const char*& cursor, std::string& value, const char* what, Fault& fault) {
    if (lack(cursor, 4)) return more(cursor, 4, what, fault);
    const int32_t length = load<int32_t>(cursor);
    if (length < 0 || length > 64) {
      return fatal(cursor, std::string(what) + " is " + std::to_string(length) + " bytes long", fault);
    }
    if (lack(cursor, 4 + length)) return more(cursor, 4 + length, what, fault);
    value.assign(cursor + 4, length);
    for (char& letter : value) letter = letter >= 32 && letter < 127 ? letter : '?';
    cursor += 4 + length;
    return Scan::kComplete;
  }

  Scan header(const char*& cursor, Staging& lattice, bool& wide, int64_t& num_states, Fault& fault) {
    if (lack(cursor, 4)) return more(cursor, 4, "a lattice's header", fault);
    if (load<int32_t>(cursor) != kOpenFstMagic)
      return fatal(cursor, "no lattice begins here (wrong magic number)", fault);
    cursor += 4;
    std::string fst_type, arc_type;
    const char* place = cursor;
    if (const Scan state = text(cursor, fst_type, "the FST type", fault); state != Scan::kComplete) return state;
    if (fst_type != "vector") return fatal(place, "the FST type is '" + fst_type + "', but 'vector' is needed", fault);
    place = cursor;
    if (const Scan state = text(cursor, arc_type, "the arc type", fault); state != Scan::kComplete) return state;
    lattice.compact = arc_type == "compactlattice44" || arc_type == "compactlattice84";
    wide = arc_type == "compactlattice84" || arc_type == "lattice8";
    if (!lattice.compact && arc_type != "lattice4" && arc_type != "lattice8") {
      return fatal(place, "the arc type is '" + arc_type + "', which is not a lattice", fault);
    }
    if (lack(cursor, 40)) return more(cursor, 40, "a lattice's header", fault);
    if (const int32_t version = load<int32_t>(cursor); version != 2) {
      return fatal(cursor, "the FST version is " + std::to_string(version) + ", but 2 is needed", fault);
    }
    if ((load<int32_t>(cursor + 4) & 3) != 0) {
      return fatal(cursor + 4,
                   "the lattice contains symbol tables; write it without them (fstsymbols --clear_isymbols "
                   "--clear_osymbols)",
                   fault);
    }
    lattice.start = load<int64_t>(cursor + 16);
    num_states = load<int64_t>(cursor + 24);  // the number of arcs in the header may be wrong
    const int64_t bytes = lattice.compact ? (wide ? 28 : 20) : (wide ? 24 : 16);
    if (num_states < 0 || num_states > std::numeric_limits<int32_t>::max()) {
      return fatal(cursor + 24, "the header has the number of states " + std::to_string(num_states), fault);
    }
    if (lack(cursor, 40 + num_states * bytes)) return more(cursor, 40 + num_states * bytes, "the states", fault);
    cursor += 40;
    return Scan::kComplete;
  }

  template <bool kCompact, class Real>
  Scan body(const char*& cursor, int64_t num_states, Staging& lattice, Fault& fault) {
    constexpr int64_t kWeight = 2 * sizeof(Real);
    constexpr int64_t kState = kWeight + (kCompact ? 4 : 0) + 8;  // minimum number of bytes
    constexpr int64_t kArc = 12 + kWeight + (kCompact ? 4 : 0);
    lattice.num_states = num_states;
    lattice.arc_begin.reserve(num_states + 1, 0);
    lattice.finals.reserve(num_states, 0);
    int64_t num_arcs = 0;
    bool forward = true;
    const char* at = cursor;
    for (int64_t state = 0; state < num_states; ++state) {
      if (lack(at, kState)) return more(at, kState, "a state", fault);
      StagedFinal& final = lattice.finals[state];
      final.graph = static_cast<float>(load<Real>(at));
      final.acoustic = static_cast<float>(load<Real>(at + sizeof(Real)));
      at += kWeight;
      final.labels = at;
      final.num_labels = 0;
      if constexpr (kCompact) {
        final.num_labels = load<int32_t>(at);
        if (static_cast<uint64_t>(final.num_labels) > kMaxLabels) return absurd(at, "labels", final.num_labels, fault);
        at += 4;
        final.labels = at;
        if (lack(at, 4 * final.num_labels + 8)) return more(at, 4 * final.num_labels + 8, "a state", fault);
        at += 4 * final.num_labels;
      }
      if (!sound(final)) check_final(final, state, fault);
      const int64_t arcs_here = load<int64_t>(at);
      if (arcs_here < 0 || arcs_here > std::numeric_limits<int32_t>::max()) return absurd(at, "arcs", arcs_here, fault);
      at += 8;
      if (lack(at, arcs_here * kArc)) return more(at, arcs_here * kArc, "the arcs", fault);
      lattice.arc_begin[state] = num_arcs;
      StagedArc* arc = lattice.arcs.reserve(num_arcs + arcs_here, num_arcs) + num_arcs;
      for (int64_t number = 0; number < arcs_here; ++number, ++arc) {
        if (lack(at, kArc)) return more(at, kArc, "an arc", fault);
        const int32_t ilabel = load<int32_t>(at);
        arc->word = load<int32_t>(at + 4);
        arc->graph = static_cast<float>(load<Real>(at + 8));
        arc->acoustic = static_cast<float>(load<Real>(at + 8 + sizeof(Real)));
        if constexpr (kCompact) {
          arc->num_labels = load<int32_t>(at + 8 + kWeight);
          arc->labels = at + 12 + kWeight;
          if (static_cast<uint64_t>(arc->num_labels) > kMaxLabels) {
            return absurd(at + 8 + kWeight, "labels", arc->num_labels, fault);
          }
          if (lack(at, kArc + 4 * arc->num_labels)) return more(at, kArc + 4 * arc->num_labels, "an arc", fault);
          if (ilabel != arc->word) {
            note(fault, Fault::kLattice,
                 "arc " + std::to_string(number) + " of state " + std::to_string(state) + " has two word ids, " +
                     std::to_string(ilabel) + " and " + std::to_string(arc->word));
          }
          at += kArc + 4 * arc->num_labels;
        } else {
          arc->labels = at;
          arc->num_labels = ilabel != 0;
          at += kArc;
        }
        arc->dst = load<int32_t>(at - 4);
        forward &= arc->dst > state;
        if (static_cast<uint32_t>(arc->dst) >= num_states || arc->word < 0 || !finite(arc->graph) ||
            !finite(arc->acoustic)) {
          check_arc(*arc, number, state, num_states, fault);
        }
      }
      num_arcs += arcs_here;
    }
    lattice.arc_begin[num_states] = lattice.num_arcs = num_arcs;
    lattice.forward = forward;
    cursor = at;
    return Scan::kComplete;
  }

  Scan absurd(const char* cursor, const char* what, int64_t count, Fault& fault) {
    return fatal(cursor, "a count of " + std::to_string(count) + " " + what, fault);
  }

  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  int64_t behind_ = 0;
  int64_t offset_ = 0;
};

}  // namespace ninja
