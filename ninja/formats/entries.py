"""The lattices of a file under their keys, for each format: what its reader takes and gives, made alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ninja.errors import NinjaError
from ninja.formats.content import Content
from ninja.formats.fst_binary import lost_labels, read_fst
from ninja.formats.fst_text import read_fst_text, read_fst_text_whole
from ninja.formats.k2 import read_k2s, read_k2s_whole
from ninja.formats.kaldi import archive as kaldi
from ninja.formats.kaldi.fst_archive import read_fst_archive
from ninja.formats.kaldi.named_text import read_linear_lists, read_named_text, spells_names
from ninja.formats.mesh import read_mesh_lattices
from ninja.formats.native import NativeFile
from ninja.formats.nbest import (
    NBest,
    each_column_list,
    each_ctm_utterance,
    each_kaldi_list,
    each_of,
    joined,
    json_text,
    nbest_lattices,
    no_document,
    read_srilm,
)
from ninja.formats.pfsg import read_pfsgs
from ninja.formats.pieces import numbered_lines
from ninja.formats.plf import read_plf, read_plf_whole
from ninja.formats.slf import read_slf, read_slf_telling
from ninja.formats.sphinx import read_sphinx, read_sphinx_whole
from ninja.lattice import Lattice
from ninja.lattice.symbols import SymbolTable

Entry = tuple[str, Lattice | NinjaError]
Lost = Callable[[str, Sequence[str]], None]  # told the key of a lattice, and what reading lost of it
Entries = Callable[[Content, SymbolTable | None, Any, Lost | None], Iterator[Entry]]


def _one(read: Callable[..., Lattice], tell: Callable[..., tuple[Lattice, Sequence[str]]]) -> Entries:
    """Make the entries of a format with one lattice in a file; ``tell`` says what reading loses of it, too."""

    def entries(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
        key = content.key
        try:
            if lost is None:
                lattice = read(content.whole(), key, content.name, words, options)
            else:
                lattice, missing = tell(content.whole(), key, content.name, words, options)
                lost(lattice.key, missing)
        except NinjaError as error:
            error.key = error.key or key
            yield key, error
        else:
            yield lattice.key, lattice  # which its file may name otherwise

    return entries


def _telling(whole: Callable[..., Any]) -> Callable[..., tuple[Lattice, Sequence[str]]]:
    def tell(*arguments: Any) -> tuple[Lattice, Sequence[str]]:
        found = whole(*arguments)
        return found.lattice, found.lost

    return tell


def _openfst(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    lattice = read_fst(content.whole(), content.key, content.name, options)
    if lost is not None:
        lost(content.key, lost_labels(content.whole(), options.words))
    yield content.key, lattice


def _pfsg(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return _keyed(read_pfsgs(content.blocks(), content.name, words, options))


def _plf(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    for number, row, _ in numbered_lines(content.blocks()):
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
    return _keyed(read_mesh_lattices(content.blocks(), content.key, content.name, words, options, lost))


def _fst_archive(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return read_fst_archive(content.pieces(), content.name, None, lost)


def _named_text(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    return read_named_text(content.readings(), content.name, words, options)


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
        yield from ((each.key, each) for each in file) if content.late else file.entries()


def _lists(read: Callable[[Content, Any], Iterable[NBest | NinjaError]]) -> Entries:
    """Make the entries of a format of n-best lists: lattices whose hypotheses share their beginnings."""

    def entries(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
        return _of_lists(read(content, options), content.name, words, lost)

    return entries


def _of_lists(
    lists: Iterable[NBest | NinjaError], name: str, words: SymbolTable | None, lost: Lost | None
) -> Iterator[Entry]:
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


def _json(content: Content, words: SymbolTable | None, options: Any, lost: Lost | None) -> Iterator[Entry]:
    why = no_document(content.first_lines(), content.name, options.encoding)
    if why is None:
        entries = json_text.entries(content.whole(), content.name, options)
    else:
        entries = json_text.of_lines(content.blocks(), content.name, options, why)
    lists = each_of(entries, content.name, options, counted=lost is not None, naming=content)
    return _of_lists(lists, content.name, words, lost)


def _srilm(content: Content, options: Any) -> list[NBest]:
    return [read_srilm(content.whole(), content.key, content.name, options)]


def _columns(content: Content, options: Any) -> Iterable[NBest | NinjaError]:
    return each_column_list(content.blocks(), content.name, options)


def _nemo(content: Content, options: Any) -> Iterable[NBest]:
    found: Iterable[NBest] = options.lists(content)
    return found


def _ctm(content: Content, options: Any) -> Iterator[NBest | NinjaError]:
    for each in each_ctm_utterance(content.blocks(), content.name, options):
        yield each if isinstance(each, NinjaError) else each.nbest


def _linear(content: Content, options: Any) -> Iterable[NBest]:
    head = content.first_lines()
    if not head:
        return read_linear_lists(content.whole(), content.name, options)
    if spells_names(head):
        return each_kaldi_list(content.blocks(), content.name, encoding=options.encoding)
    return joined(_of_archive(content))


def _of_archive(content: Content) -> Iterator[Lattice]:
    """Yield the lattices of an archive of Kaldi's.

    Raises:
        NinjaError: What is wrong with the first that is unsound.
    """
    for batch in kaldi.archive(content.stream, kaldi.Vocabulary()):
        for key, found in batch.entries:
            if isinstance(found, NinjaError):
                raise found
            yield found.with_key(key)


def _espnet(content: Content, options: Any) -> list[NBest]:
    return list(options.lists(content.path))


def _keyed(found: Iterable[Lattice | NinjaError]) -> Iterator[Entry]:
    for each in found:
        yield each.key or "", each


ENTRIES: dict[str, Entries] = {
    "slf": _one(read_slf, read_slf_telling),
    "sphinx": _one(read_sphinx, _telling(read_sphinx_whole)),
    "pfsg": _pfsg,
    "plf": _plf,
    "mesh": _mesh,
    "openfst": _openfst,
    "fst-text": _one(read_fst_text, _telling(read_fst_text_whole)),
    "fst-ark": _fst_archive,
    "named-text": _named_text,
    "k2": _k2,
    "native": _native,
    "json": _json,
    "srilm": _lists(_srilm),
    "columns": _lists(_columns),
    "nemo": _lists(_nemo),
    "ctm": _lists(_ctm),
    "nbest-kaldi": _lists(_linear),
    "espnet": _lists(_espnet),
}
