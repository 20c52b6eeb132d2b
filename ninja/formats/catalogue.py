"""The formats that lattices are read from, and how each is known by its content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ninja.errors import FormatError, OptionError
from ninja.formats import choice, lines
from ninja.formats.content import BOM, Content
from ninja.formats.entries import ENTRIES, Entry, Lost
from ninja.formats.fst_binary import MAGIC, OpenfstOptions
from ninja.formats.fst_text import FstTextOptions
from ninja.formats.k2 import K2Options
from ninja.formats.kaldi.archive import KALDI, KALDI_IMAGE
from ninja.formats.kaldi.named_text import NamedTextOptions
from ninja.formats.list_options import EspnetOptions, NemoOptions
from ninja.formats.mesh import MeshOptions, is_mesh
from ninja.formats.nbest import ColumnOptions, CtmOptions, ObjectFields, SrilmOptions
from ninja.formats.pfsg import PfsgOptions, is_pfsg
from ninja.formats.plf import PlfOptions, is_plf
from ninja.formats.slf import SlfOptions, is_slf
from ninja.formats.sphinx import SphinxOptions, is_sphinx
from ninja.formats.unread import advice, refusal
from ninja.io.targets import ALIASES, EXTENSIONS
from ninja.io.targets import KALDI as KALDI_FORMS
from ninja.lattice.symbols import SpelledTable, SymbolTable

HEAD = 1 << 16  # bytes by which a format is known

Holds = Literal["lattices", "results", "nothing"]

# Of files that hold lattices whatever is in them; other files are called .txt, .json and .tsv, too.
ENDINGS = {end for ends in EXTENSIONS.values() for end in ends if end.count(".") == 1} - {
    ".txt",
    ".json",
    ".jsonl",
    ".tsv",
}

_FEW = 1 << 11  # bytes
_FST_ENTRY = re.compile(rb"\s*\S{1,4096}[ \t]" + MAGIC)
_KALDI_OBJECT = re.compile(rb"\S{1,4096} \0B")  # matrices, vectors, alignments
_PACKED = re.compile(r"\.(?:bz2|xz|lzma|zst|lz4|Z|7z|zip|tar)$")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")


def _never(_: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Readable:
    """A format that lattices are read from."""

    name: str
    options: Callable[..., Any] | None = None  # the dataclass of its options
    mark: Callable[[bytes], bool] = _never  # whether a file begins as no other format's do
    # How much of the first lines, without a mark, may be of it: 1, less where some are damaged, 0 where it is not.
    looks: Callable[[list[bytes]], float] = _never
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

    format: Readable
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
        return ENTRIES[self.format.name](content, words, self.options, lost)


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
    if KALDI_IMAGE.match(head):
        return None
    head = head.removeprefix(BOM)
    found = _fitting(head)
    if len(found) > 1:
        names = " and as ".join(each.name for each in found)
        raise FormatError(f"the file can be read as {names}; say which it is (--from {found[0].name})", name)
    if not found and (said := refusal(head) or advice(head, name)) is not None:
        raise FormatError(said, name)
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
    if name in KALDI_FORMS:
        if values:
            raise OptionError(f"{KALDI} has no options")
        return None
    for each in FORMATS:
        if each.name == name:
            return each.reader(values, encoding)
    known = ", ".join([KALDI, *(each.name for each in FORMATS)])
    raise OptionError(f"there is no format {name!r} to read; there is: {known}")


def holds_lattices(head: bytes) -> Holds:
    """Tell whether a file that begins so is meant to be read when it lies in a folder of lattices.

    Returns:
        "results": it is, if there is nothing but results; beside lattices they are what became of them.
    """
    head = head.removeprefix(BOM)
    if KALDI_IMAGE.match(head) or _FST_ENTRY.match(head) or lines.is_kaldi_text(_rows(head)):
        return "lattices"
    held: set[Holds] = {each.holds for each in _fitting(head) if each.belongs is None or each.belongs(head)}
    return "lattices" if "lattices" in held else "results" if held else "nothing"


def seems_damaged(head: bytes, name: str) -> bool:
    """Tell whether a file that is of no format must have been one of lattices, by its encoding or its name."""
    if head.startswith(_UTF_16) or (not head and _needs_content(name)):
        return True
    if refusal(head) is not None:  # packed otherwise, for one
        name = _PACKED.sub("", name)
    return _ending(name) in ENDINGS and not _KALDI_OBJECT.match(head)


def _needs_content(name: str) -> bool:
    """Tell whether a file of that name is damaged if it is empty; Kaldi's archives of nothing are not."""
    if _ending(name) in ENDINGS - {".ark"}:
        return True
    return name.endswith(".gz") and os.path.isfile(name) and os.path.getsize(name) == 0


def _ending(name: str) -> str:
    return os.path.splitext(name.removesuffix(".gz"))[1].lower()


def _fitting(head: bytes) -> list[Readable]:
    """Return the formats that a file which begins so may be of."""
    marked = [each for each in FORMATS if each.mark(head)]
    # A sentence may begin as a header does; where there is one, few lines show that the others are none.
    rows = _rows(head[:_FEW] if marked else head)
    shares = [(each, each.looks(rows)) for each in FORMATS if not any(each is one for one in marked)]
    whole = marked + [each for each, share in shares if share == 1]
    most = max(share for _, share in shares)
    if whole or not most or lines.is_kaldi_text(rows):
        return whole
    return [each for each, share in shares if share == most]  # some lines are damaged, which its reader will say


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


# Of what lies in a folder among other tables of numbers, every line must fit.


def _is_srilm_list(head: bytes) -> bool:
    return _is_srilm(head) or lines.srilm_share(_rows(head)) == 1


def _is_att_text(head: bytes) -> bool:
    rows = _rows(head)
    return lines.att_text_share(rows) == 1 and lines.has_arc(rows)


FORMATS = (
    Readable("slf", SlfOptions, is_slf),
    Readable("sphinx", SphinxOptions, is_sphinx),
    Readable("pfsg", PfsgOptions, is_pfsg),
    Readable("plf", PlfOptions, is_plf),
    Readable("mesh", MeshOptions, is_mesh),
    Readable("openfst", OpenfstOptions, lambda head: head.startswith(MAGIC)),
    Readable("fst-text", FstTextOptions, looks=lines.att_text_share, belongs=_is_att_text, ids=True),
    Readable("fst-ark", mark=lambda head: _FST_ENTRY.match(head) is not None, looks=lines.is_fst_archive),
    Readable("named-text", NamedTextOptions, looks=lines.is_named_text, ids=True),
    Readable("k2", K2Options, _is_k2),
    Readable("native", mark=lambda head: head.startswith(b"ARROW1")),
    Readable("json", ObjectFields, _is_json, belongs=_is_json_list),
    Readable("srilm", SrilmOptions, _is_srilm, lines.srilm_share, belongs=_is_srilm_list),
    Readable("columns", ColumnOptions, looks=lines.columns_share, holds="results"),
    Readable("nemo", NemoOptions, looks=lines.nemo_share, belongs=_never),
    Readable("ctm", CtmOptions, looks=lines.ctm_share, holds="results"),
    # These two are only named: the first cannot be told from any other archive, the second is a folder.
    Readable("nbest-kaldi", NamedTextOptions, ids=True),
    Readable("espnet", EspnetOptions),
)
