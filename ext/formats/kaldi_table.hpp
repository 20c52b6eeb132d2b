// Parses Kaldi tables, which are sequences of a key, a blank and a lattice, in windows of bytes.
// Source: Kaldi util/kaldi-table-inl.h (SequentialTableReaderArchiveImpl::Next), lat/kaldi-lattice.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.hpp"
#include "formats/kaldi_read.hpp"
#include "formats/kaldi_text.hpp"
#include "formats/staging.hpp"

namespace ninja {

struct Entry {
  std::string_view key;          // points into the window
  const char* object = nullptr;  // start of the lattice in the window
  Block block;                   // arrays of the lattice; empty if the lattice is invalid
  Fault fault;
};

// Add the lattice of an entry to a batch.
inline void take_entry(Entry& entry, Items& items) {
  Item& item = items.emplace_back();
  item.key.assign(entry.key);
  item.compact = entry.block.compact;
  adopt(entry.block, item);
}

struct Window {
  const char* begin;
  const char* end;       // kSlack more bytes must be readable
  int64_t offset;        // offset of `begin` in the file
  int64_t bytes_behind;  // maximum number of bytes of the file after `end`
};

constexpr int64_t kMaxKey = 4096;

class TableParser {
 public:
  // Mask of valid words; null if all are valid.
  const uint8_t* known = nullptr;
  int64_t num_known = 0;

  int64_t line = 1;     // line of the next entry in a text archive
  bool broken = false;  // the rest of the archive cannot be read

  // Parse the entries of a window; returns the number of bytes consumed.
  int64_t parse(const Window& window, std::vector<Entry>& entries) {
    const char* at = window.begin;
    broken = false;
    while (!broken) {
      int64_t lines = 0;
      while (at < window.end && (blank(*at) || *at == '\n')) lines += *at++ == '\n';
      line += lines;
      if (at == window.end) break;
      const char* cursor = at;
      while (cursor < window.end && !blank(*cursor) && *cursor != '\n' && cursor - at <= kMaxKey) ++cursor;
      if (cursor == window.end && window.bytes_behind > 0) break;
      Entry entry;
      entry.object = at;
      entry.key = {at, static_cast<size_t>(std::min<int64_t>(cursor - at, 200))};
      if (cursor == window.end || cursor - at > kMaxKey) {
        refuse(entry, window, at, "not a Kaldi table: expected a key and a space, found " + quote(at, window.end));
      } else {
        entry.key = {at, static_cast<size_t>(cursor - at)};
        cursor += *cursor == ' ' || *cursor == '\t';
        if (cursor == window.end && window.bytes_behind > 0) break;
        if (object(window, cursor, entry) == Scan::kMore) break;
      }
      at = cursor;
      entries.push_back(std::move(entry));
    }
    return at - window.begin;
  }

  // Parse the lattice at the beginning of the window, which has no key, and move `at` to its end.
  Scan parse_one(const Window& window, const char*& at, Entry& entry) {
    broken = false;
    line = 1;
    entry.key = {at, 0};
    return object(window, at, entry);
  }

 private:
  void refuse(Entry& entry, const Window& window, const char* at, const std::string& message) {
    entry.fault.kind = Fault::kFormat;
    entry.fault.fatal = broken = true;
    entry.fault.byte = window.offset + (at - window.begin);
    entry.fault.message = message;
  }

  Scan object(const Window& window, const char*& at, Entry& entry) {
    Scan state = Scan::kFatal;
    const int64_t first_line = line;
    bool is_text = false;
    const char* cursor = entry.object = at;
    if (cursor < window.end && load<unsigned char>(cursor) == (kOpenFstMagic & 0xFF)) {
      state =
          binary_.scan(at, window.end, window.bytes_behind, window.offset + (at - window.begin), staging_, entry.fault);
    } else {
      while (cursor < window.end && blank(*cursor)) ++cursor;
      if (cursor == window.end && window.bytes_behind > 0) return Scan::kMore;
      if (cursor < window.end && (*cursor == '\n' || after_text_)) {
        is_text = true;
        int64_t last = line;
        if (*cursor == '\n') {
          ++cursor;
          ++last;
        } else {
          const void* stop = std::memchr(cursor, '\n', window.end - cursor);
          note(entry.fault, Fault::kFormat,
               "expected the key alone on its line, found " +
                   quote(cursor, stop ? static_cast<const char*>(stop) : window.end));
        }
        state = text_.scan(cursor, window.end, window.bytes_behind <= 0, last, staging_, entry.fault);
        if (state == Scan::kComplete) {
          at = cursor;
          line = last;
        }
      } else {
        refuse(entry, window, at,
               "no lattice follows the key: expected a new line (text) or the byte D6 (binary), "
               "found " +
                   quote(cursor, window.end));
      }
    }
    if (state == Scan::kMore) return state;
    broken = state == Scan::kFatal;
    after_text_ = is_text;
    if (state == Scan::kComplete && entry.fault.kind == Fault::kNone) finish(entry);
    if (entry.fault.kind != Fault::kNone && entry.fault.line < 0 && entry.fault.byte < 0) {
      if (is_text) {
        entry.fault.line = first_line;
      } else {
        entry.fault.byte = window.offset + (entry.key.data() - window.begin);
      }
    }
    return state;
  }

  // Sort the states, check the whole lattice, and create its arrays.
  void finish(Entry& entry) {
    Staging& lattice = staging_;
    Fault& fault = entry.fault;
    if (lattice.num_states == 0) return note(fault, Fault::kLattice, "the lattice is empty: it has no states");
    if (lattice.start < 0 || lattice.start >= lattice.num_states) {
      return note(fault, Fault::kLattice,
                  "the start state is " + std::to_string(lattice.start) + " of " + std::to_string(lattice.num_states) +
                      " states");
    }
    if (known != nullptr) {
      for (int64_t arc = 0; arc < lattice.num_arcs; ++arc) {
        const int32_t word = lattice.arcs[arc].word;
        if (word >= num_known || !known[word]) {
          return note(
              fault, Fault::kSymbol,
              "word id " + std::to_string(word) + " is not in the symbol table; check that it is the right table");
        }
      }
    }
    const bool sorted = lattice.start == 0 && lattice.forward;
    if (!sorted) {
      const StagedArc* arcs = lattice.arcs.begin();
      const auto dst_of = [arcs](int64_t arc) { return arcs[arc].dst; };
      const auto start = static_cast<int32_t>(lattice.start);
      if (!order_.sort(lattice.num_states, lattice.arc_begin.begin(), dst_of, start)) {
        return note(fault, Fault::kLattice, "state " + std::to_string(order_.cycle()[0]) + " lies on a cycle");
      }
    }
    bool has_final = false;
    const int64_t num_kept = sorted ? lattice.num_states : order_.num_kept;
    for (int64_t place = 0; place < num_kept && !has_final; ++place) {
      has_final = finite(lattice.finals[sorted ? place : order_.state_at[place]].graph);
    }
    if (!has_final) return note(fault, Fault::kLattice, "no state is final");
    entry.block = sorted ? settle<false>(lattice, nullptr) : settle<true>(lattice, &order_);
  }

  bool after_text_ = false;  // the last entry was text, in which parsing can resume at an empty line
  BinaryScanner binary_;
  TextScanner text_;
  Staging staging_;
  TopSorter order_;
};

}  // namespace ninja
