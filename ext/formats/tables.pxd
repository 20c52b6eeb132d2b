"""C++ declarations of Kaldi tables and printed rows; declarations only."""

from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from core.batch cimport Item, Items
from core.lattice cimport Alignments, Arcs, Block, LatticeArrays, string_view

cdef extern from "formats/kaldi_table.hpp" namespace "ninja" nogil:
    int64_t kSlack

    enum FaultKind "ninja::Fault::Kind":
        kNone "ninja::Fault::kNone"
        kLattice "ninja::Fault::kLattice"
        kFormat "ninja::Fault::kFormat"
        kSymbol "ninja::Fault::kSymbol"

    enum Scan "ninja::Scan":
        kMore "ninja::Scan::kMore"

    cdef struct Fault:
        FaultKind kind
        cbool fatal
        string message
        int64_t line
        int64_t byte

    cdef cppclass Entry:
        Entry() except +
        string_view key
        const char* object
        Block block
        Fault fault

    cdef cppclass Window:
        const char* begin
        const char* end
        int64_t offset
        int64_t bytes_behind

    cdef cppclass TableParser:
        TableParser() except +
        const uint8_t* known
        int64_t num_known
        int64_t line
        cbool broken
        int64_t parse(const Window&, vector[Entry]&) except +
        Scan parse_one(const Window&, const char*&, Entry&) except +

    void take_entry(Entry& entry, Items& items) except +

cdef extern from "formats/read_ahead.hpp" namespace "ninja" nogil:
    cdef cppclass EntryBatch:
        EntryBatch() except +
        vector[Entry] entries
        int64_t size

    enum ReaderState "ninja::FileReader::State":
        kBatch "ninja::FileReader::kBatch"
        kWait "ninja::FileReader::kWait"
        kEnd "ninja::FileReader::kEnd"
        kFailed "ninja::FileReader::kFailed"
        kTooLarge "ninja::FileReader::kTooLarge"

    cdef cppclass FileReader:
        FileReader(int, int64_t, int64_t, const uint8_t*, int64_t, int64_t, int64_t, int64_t) except +
        ReaderState next(EntryBatch&, int) except +
        int error_number()
        int64_t position()
        cbool was_forked()

        @staticmethod
        void end(FileReader*)

cdef extern from "formats/kaldi_write.hpp" namespace "ninja" nogil:
    cdef cppclass Output:
        Output() except +
        void clear()
        const char* data()
        int64_t size()

    cbool fits_raw(const Arcs&, const Alignments&)
    LatticeArrays expand(const Arcs&, const Alignments&) except +
    void write_binary(string_view, const Arcs&, const Alignments&, cbool, Output&) except +
    cbool write_all(const Items& items, int kind, cbool text, vector[int64_t]& begins, Output& output) except +
    void write_text(string_view, const Arcs&, const Alignments&, cbool, Output&) except +

cdef extern from "formats/rows_text.hpp" namespace "ninja" nogil:
    enum Kind "ninja::TextColumn::Kind":
        kIntegers "ninja::TextColumn::kIntegers"
        kNumbers "ninja::TextColumn::kNumbers"
        kNames "ninja::TextColumn::kNames"
        kRuns "ninja::TextColumn::kRuns"
    cdef struct TextColumn:
        Kind kind
        const int32_t* integer
        const double* number
        const int64_t* begin
        const int64_t* end
        const char* letters
        char separator
        cbool may_lack
    void print_rows(string_view prefix, const vector[TextColumn]& columns, int64_t first, int64_t last,
                    Output& output) except +
