"""The formats that lattices are read from, and how each is known by its content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ninja.errors import FormatError, NinjaError, OptionError
from ninja.formats import choice, lines
from ninja.formats.content import BOM, Content
from ninja.formats.fst_archive import read_fst_archive
from ninja.formats.fst_text import FstTextOptions, read_fst_text, read_fst_text_whole
from ninja.formats.k2 import K2Options, read_k2s, read_k2s_whole
from ninja.formats.list_options import EspnetOptions, NemoOptions
from ninja.formats.mesh import MeshOptions, is_mesh, read_mesh_lattices
from ninja.formats.named_text import NamedTextOptions, read_linear_lists, read_named_text
from ninja.formats.native import NativeFile
from ninja.formats.nbest import (
    ColumnOptions,
    CtmOptions,
    NBest,
    ObjectFields,
    SrilmOptions,
    each_column_list,
    each_ctm_utterance,
    each_object,
    nbest_lattices,
    read_srilm,
)
from ninja.formats.openfst import MAGIC, read_fst
from ninja.formats.pfsg import PfsgOptions, is_pfsg, read_pfsgs
from ninja.formats.plf import PlfOptions, is_plf, read_plf, read_plf_whole
from ninja.formats.slf import SlfLattice, SlfOptions, is_slf, read_slf, read_slf_whole
from ninja.formats.sphinx import SphinxOptions, is_sphinx, read_sphinx, read_sphinx_whole
from ninja.formats.targets import EXTENSIONS
from ninja.lattice import Lattice
from ninja.openfst import lost_of_image
from ninja.symbols import SpelledTable, SymbolTable

HEAD = 1 << 16  # bytes by which a format is known
KALDI = "kaldi"
ALIASES = {"binary": KALDI, "text": KALDI, "htk": "slf", "att": "fst-text", "arrow": "native", "nbest": "json"}

Entry = tuple[str, Lattice | NinjaError]
Lost = Callable[[str, Sequence[str]], None]  # told the key of a lattice, and what reading lost of it
Holds = Literal["lattices", "results", "nothing"]
Entries = Callable[[Content, SymbolTable | None, Any, Lost | None], Iterator[Entry]]

# Of files that hold lattices whatever is in them; other files are called .txt, .json and .tsv, too.
ENDINGS = {end for ends in EXTENSIONS.values() for end in ends if end.count(".") == 1} - {
    ".txt",
    ".json",
    ".jsonl",
    ".tsv",
}

_FEW = 1 << 11  # bytes
_KALDI_IMAGE = re.compile(rb"(?:\s*\S{1,4096}[ \t])?" + MAGIC + rb".{4,60}?lattice", re.DOTALL)
_FST_ENTRY = re.compile(rb"\s*\S{1,4096}[ \t]" + MAGIC)
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


def _never(_: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Format:
    """A format that lattices are read from."""

    name: str
    title: str
    entries: Entries
    options: Callable[..., Any] | None = None  # the dataclass of its options
    mark: Callable[[bytes], bool] = _never  # whether a file begins as no other format's do
    looks: Callable[[list[bytes]], bool] = _never  # whether the first lines, without a mark, may be of it
    belongs: Callable[[bytes], bool] | None = None  # whether a file is meant that lies in a folder; None: if it fits
    holds: Holds = "lattices"
    ids: bool = False  # whether words may be ids of a table that the user must know

    def reader(self, values: Mapping[str, str], encoding: str) -> Reader:
        """Return the format with the options that the user wrote.

        Raises:
            OptionError: There is no such option, or its value is out of range.
        """
        if self.options is not None:
            return Reader(self, choice.filled(self.options, values, self.name, encoding=encoding))
        if values:
            raise OptionError(f"{self.name} has no option {next(iter(values))!r}; it has none")
        return Reader(self, None)


@dataclass(frozen=True, slots=True)
class Reader:
    """A format with its options, ready to read files."""

    format: Format
    options: Any

    def entries(self, content: Content, words: SymbolTable | None, lost: Lost | None = None) -> Iterator[Entry]:
        """Yield each key of a file with its lattice, or with what is wrong with it.

        Args:
            content: The file.
            words: Symbol table that words must be in; None: the file's own words make one, where it spells them.
            lost: Told what of a lattice is lost in reading; None: nobody asks, which is faster.

        Raises:
            NinjaError: What ends the reading of this file.
        """
        if self.format.ids and isinstance(words, SpelledTable):
            words = None  # it knows no ids; names come into it afterwards
        return self.format.entries(content, words, self.options, lost)


def recognised(head: bytes, name: str, encoding: str = "utf-8") -> Reader | None:
    """Return the format of a file that begins so; None where it is Kaldi's, or not known.

    Args:
        head: Its first ``HEAD`` bytes, or all.
        name: Of the file, for messages.
        encoding: Of text.

    Raises:
        FormatError: Two formats begin like that.
    """
    if head.startswith(_UTF_16):
        raise FormatError("the file is UTF-16; convert it with iconv -f UTF-16 -t UTF-8", name)
    if not head.strip() and _needs_content(name):
        raise FormatError("the file is empty, which no file of this name is: was it being written?", name)
    if _KALDI_IMAGE.match(head):
        return None
    head = head.removeprefix(BOM)
    found = _fitting(head)
    if len(found) > 1:
        names = " and as ".join(each.name for each in found)
        raise FormatError(f"the file can be read as {names}; say which it is (--from {found[0].name})", name)
    return found[0].reader({}, encoding) if found else None


def named(text: str, encoding: str = "utf-8") -> Reader | None:
    """Return the format that the user named, with options; None for Kaldi's own.

    Args:
        text: ``slf``, ``slf:frame_shift=0.016``.
        encoding: Of text.

    Raises:
        OptionError: There is no such format or option.
    """
    name, values = choice.parted(text)
    name = ALIASES.get(name, name)
    if name == KALDI and not values:
        return None
    for each in FORMATS:
        if each.name == name:
            return each.reader(values, encoding)
    if name == KALDI:
        raise OptionError(f"{KALDI} has no options")
    known = ", ".join([KALDI, *(each.name for each in FORMATS)])
    raise OptionError(f"there is no format {name!r} to read; there is: {known}")


def holds_lattices(head: bytes) -> Holds:
    """Tell whether a file that begins so is meant to be read when it lies in a folder of lattices.

    Returns:
        "results": it is, if there is nothing but results; beside lattices they are what became of them.
    """
    head = head.removeprefix(BOM)
    if _KALDI_IMAGE.match(head) or _FST_ENTRY.match(head) or lines.is_kaldi_text(_rows(head)):
        return "lattices"
    held: set[Holds] = {each.holds for each in _fitting(head) if each.belongs is None or each.belongs(head)}
    return "lattices" if "lattices" in held else "results" if held else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Tell whether a file that is of no format must have been one of lattices, by its encoding or its name."""
    if head.startswith(_UTF_16) or (not head and _needs_content(name)):
        return True
    return _ending(name) in ENDINGS and not _KALDI_OBJECT.match(head)


def _needs_content(name: str) -> bool:
    """Tell whether a file of that name is damaged if it is empty; Kaldi's archives of nothing are not."""
    if _ending(name) in ENDINGS - {".ark"}:
        return True
    return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0


def _ending(name: str) -> str:
    return os.path.splitext(name.removesuffix(".gz"))[1].lower()


def _fitting(head: bytes) -> list[Format]:
    """Return the formats that a file which begins so may be of."""
    marked = [each for each in FORMATS if each.mark(head)]
    # A sentence may begin as a header does; where there is one, few lines show that the others are none.
    rows = _rows(head[:_FEW] if marked else head)
    return marked + [each for each in FORMATS if each.looks(rows) and not any(each is one for one in marked)]


def _rows(head: bytes) -> list[bytes]:
    """Return the lines of a head that are whole: all, or all but the last where the file goes on."""
    rows = head.split(b"\n")
    return rows[:-1] if len(head) in (_FEW, HEAD) and len(rows) > 1 else rows


def _is_k2(head: bytes) -> bool:
    return head.startswith(b"PK\x03\x04") and b"data.pkl" in head[:512]


def _is_json(head: bytes) -> bool:
    return _JSON.match(head) is not None


def _is_json_list(head: bytes) -> bool:
    return b'"nbest"' in head


def _is_srilm(head: bytes) -> bool:
    return head.lstrip().startswith((b"NBestList1.0", b"NBestList2.0"))


def _one(read: Callable[..., Lattice], whole: Callable[..., Any] | None = None) -> Entries:
    """Make the entries of a format with one lattice in a file."""

    def entries(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
        key = content.key
        try:
            if lost is None or whole is None:
                lattice = read(content.whole(), key, content.name, words, options)
            else:
                found = whole(content.whole(), key, content.name, words, options)
                lost(key, (*found.lost, *found.extras.names(key)) if isinstance(found, SlfLattice) else found.lost)
                lattice = found.lattice
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield key, lattice

    return entries


def _openfst(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    lattice = read_fst(content.whole(), content.key, content.name)
    if lost is not None:
        lost(content.key, lost_of_image(content.whole()))
    yield content.key, lattice


def _pfsg(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return _keyed(read_pfsgs(content.whole(), content.name, words, options))


def _plf(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    rows = content.whole().split(b"\n")
    for number, row in enumerate(rows if rows[-1] else rows[:-1], start=1):
        key = content.numbered(number)
        try:
            if lost is None:
                lattice = read_plf(row, key, content.name, words, options, line=number)
            else:
                found = read_plf_whole(row, key, content.name, words, options, line=number)
                lost(key, found.lost)
                lattice = found.lattice
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield key, lattice


def _mesh(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return _keyed(read_mesh_lattices(content.whole(), content.key, content.name, words, options, lost))


def _fst_archive(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return read_fst_archive(content.whole(), content.name, None, lost)


def _named_text(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return read_named_text(content.whole(), content.name, words, options)


def _k2(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    if lost is None:
        yield from _keyed(read_k2s(content.mapped(), content.name, None, options, keys=content.numbered))
        return
    for found in read_k2s_whole(content.mapped(), content.name, None, options, keys=content.numbered):
        if isinstance(found, NinjaError):
            yield found.key or "", found
        else:
            lost(found.lattice.key, found.lost)
            yield found.lattice.key, found.lattice


def _native(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    with NativeFile(content.mapped(), content.name) as file:
        yield from file.entries()


def _lists(read: Callable[[Content, Any], Iterable[NBest | NinjaError]]) -> Entries:
    """Make the entries of a format of n-best lists: lattices whose hypotheses share their beginnings."""

    def entries(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
        return list_lattices(read(content, options), content.name, words, lost)

    return entries


def list_lattices(
    lists: Iterable[NBest | NinjaError], name: str, words: SymbolTable | None, lost: Lost | None = None
) -> Iterator[Entry]:
    """Yield the lattice of each n-best list, or what is wrong with it."""
    for each in lists:
        if isinstance(each, NinjaError):
            yield each.key or "", each
            continue
        try:
            (lattice,) = nbest_lattices([each], words, name)
        except NinjaError as error:
            error.key = error.key or each.key
            yield each.key, error
            continue
        if lost is not None:
            lost(each.key, each.lost)
        yield each.key, lattice


def _objects(content: Content, options: Any) -> Iterable[NBest | NinjaError]:
    return each_object(content.whole(), content.name, options)


def _srilm(content: Content, options: Any) -> list[NBest]:
    return [read_srilm(content.whole(), content.key, content.name, options)]


def _columns(content: Content, options: Any) -> Iterable[NBest | NinjaError]:
    return each_column_list(content.whole(), content.name, options)


def _nemo(content: Content, options: Any) -> list[NBest]:
    return list(options.lists(content.whole(), content.name))


def _ctm(content: Content, options: Any) -> Iterator[NBest | NinjaError]:
    for each in each_ctm_utterance(content.whole(), content.name, options):
        yield each if isinstance(each, NinjaError) else each.nbest


def _linear(content: Content, options: Any) -> list[NBest]:
    return read_linear_lists(content.whole(), content.name, options)


def _espnet(content: Content, options: Any) -> list[NBest]:
    return list(options.lists(content.path))


def _keyed(found: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    for each in found:
        yield each.key or "", each


FORMATS = (
    Format("slf", "HTK SLF", _one(read_slf, read_slf_whole), SlfOptions, is_slf),
    Format("sphinx", "Sphinx lattice", _one(read_sphinx, read_sphinx_whole), SphinxOptions, is_sphinx),
    Format("pfsg", "SRILM PFSG", _pfsg, PfsgOptions, is_pfsg),
    Format("plf", "Moses PLF", _plf, PlfOptions, is_plf),
    Format("mesh", "SRILM word mesh", _mesh, MeshOptions, is_mesh),
    Format("openfst", "OpenFst binary", _openfst, mark=lambda head: head.startswith(MAGIC)),
    Format(
        "fst-text",
        "OpenFst text (AT&T)",
        _one(read_fst_text, read_fst_text_whole),
        FstTextOptions,
        looks=lines.is_att_text,
        ids=True,
    ),
    Format(
        "fst-ark",
        "Kaldi archive of FSTs",
        _fst_archive,
        mark=lambda head: _FST_ENTRY.match(head) is not None,
        looks=lines.is_fst_archive,
    ),
    Format(
        "named-text",
        "Kaldi text with names of words, or keys of several",
        _named_text,
        NamedTextOptions,
        looks=lines.is_named_text,
        ids=True,
    ),
    Format("k2", "k2", _k2, K2Options, _is_k2),
    Format("native", "Ninja's own, Arrow", _native, mark=lambda head: head.startswith(b"ARROW1")),
    Format("json", "n-best lists, JSON", _lists(_objects), ObjectFields, _is_json, belongs=_is_json_list),
    Format("srilm", "n-best list, SRILM", _lists(_srilm), SrilmOptions, _is_srilm, lines.is_srilm_scores),
    Format(
        "columns",
        "n-best lists in columns, lattice-rescore",
        _lists(_columns),
        ColumnOptions,
        looks=lines.is_columns,
        holds="results",
    ),
    Format("nemo", "n-best lists, NeMo", _lists(_nemo), NemoOptions, looks=lines.is_nemo, belongs=_never),
    Format("ctm", "CTM", _lists(_ctm), CtmOptions, looks=lines.is_ctm, holds="results"),
    # These two are only named: the first cannot be told from any other archive, the second is a folder.
    Format("nbest-kaldi", "n-best lists, Kaldi", _lists(_linear), NamedTextOptions, ids=True),
    Format("espnet", "n-best lists, ESPnet", _lists(_espnet), EspnetOptions),
)
