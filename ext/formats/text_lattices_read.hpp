// One reading of a file each: what was found, or the fault; nothing is thrown but memory errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/slf.hpp"
#include "formats/slf_sections.hpp"
#include "formats/text_lattices_formats.hpp"
#include "formats/text_lattices_plf.hpp"

namespace ninja {

// Run a reading, and note what it refuses.
template <class Work>
void noting(Fault& fault, const Work& work) {
  try {
    work();
  } catch (const Refusal& refusal) {
    fault.kind = refusal.kind;
    fault.line = refusal.line;
    fault.message = refusal.message;
  }
}

inline void add_silence(Vocabulary& words, const std::vector<std::string>& names, int32_t word) {
  for (const std::string& name : names) words.add_silent(name, word);
}

class SlfReading {
 public:
  SlfOptions options;
  SlfParser parser;
  TextLattice lattice;
  Fault fault;
  int64_t num_sublattices = 0;

  SlfReading(const char* begin, const char* end, const SlfOptions& given, int32_t words, int32_t fold,
             const std::vector<std::string>& silent, const std::vector<std::string>& null)
      : options(given), parser(begin, end, options), fold_(static_cast<Fold>(fold)), size_(end - begin) {
    options.words = static_cast<SlfWords>(words);
    add_silence(parser.words, null, kNull);
    add_silence(parser.words, silent, kSilent);
  }

  void read() {
    noting(fault, [&] {
      parser.parse();
      num_sublattices = static_cast<int64_t>(parser.sections.size()) - 1;
      if (num_sublattices > 0) {
        TextGraph whole = SlfExpander(parser.sections, size_).expand(num_sublattices);
        lattice = assemble(whole, fold_, "node");
      } else {
        lattice = assemble(parser.sections[0].text, fold_, "node");
      }
    });
  }

 private:
  Fold fold_;
  int64_t size_;
};

class SphinxReading {
 public:
  TextLattice lattice;
  Fault fault;

  SphinxReading(const char* begin, const char* end, double base, bool bracketed, const std::vector<std::string>& silent)
      : parser_(begin, end, base, bracketed) {
    add_silence(parser_.words, silent, kSilent);
  }

  Vocabulary& words() { return parser_.words; }
  double base() const { return parser_.base; }
  int32_t num_frames() const { return parser_.num_frames; }
  const std::vector<int32_t>& variant() const { return parser_.variant; }
  const std::vector<int32_t>& first_end() const { return parser_.first_end; }
  const std::vector<int32_t>& last_end() const { return parser_.last_end; }

  void read() {
    noting(fault, [&] {
      parser_.parse();
      lattice = assemble(parser_.text, Fold::kNever, "node");
    });
  }

 private:
  SphinxParser parser_;
};

class PfsgReading {
 public:
  TextLattice lattice;
  Fault fault;

  PfsgReading(const char* begin, const char* end, int64_t line, int32_t fold, const std::vector<std::string>& null)
      : parser_(begin, end, line), fold_(static_cast<Fold>(fold)) {
    add_silence(parser_.words, null, kNull);
  }

  Vocabulary& words() { return parser_.words; }
  std::string_view name() const { return parser_.name; }
  const char* stop() const { return parser_.at(); }
  int64_t line() const { return parser_.line(); }

  void read() {
    noting(fault, [&] {
      parser_.parse();
      lattice = assemble(parser_.text, fold_, "node");
    });
  }

 private:
  PfsgParser parser_;
  Fold fold_;
};

class PlfReading {
 public:
  TextLattice lattice;
  Fault fault;

  PlfReading(const char* begin, const char* end, int64_t line, int32_t kind, int32_t graph, int32_t acoustic,
             int32_t fold, const std::vector<std::string>& null)
      : parser_(begin, end, line, static_cast<PlfScores>(kind), graph, acoustic), fold_(static_cast<Fold>(fold)) {
    add_silence(parser_.words, null, kNull);
  }

  Vocabulary& words() { return parser_.words; }
  const std::vector<double>& scores() const { return parser_.scores; }
  int32_t num_scores() const { return parser_.num_scores; }

  void read() {
    noting(fault, [&] {
      parser_.parse();
      lattice = assemble(parser_.text, fold_, "state");
    });
  }

 private:
  PlfParser parser_;
  Fold fold_;
};

}  // namespace ninja
