"""Back-off n-gram models from ARPA, Kaldi const-arpa and ``G.fst`` files, represented as a compiled automaton.

A slot is the index of an automaton state. The state represents the longest suffix of the history that affects scores.
Histories with the same state share a slot, and slots are never freed. Scores are exact: an n-gram of the model is used
even if backing off would be more probable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ninja import _lm
from ninja.errors import FormatError, ModelError, OptionError, SymbolError
from ninja.files.stream import BOM, Place, content_of, open_stream, without_mark
from ninja.lattice.symbols import EPSILON, SymbolTable
from ninja.lm.protocol import LanguageModel, OOVScore, oov_logprob
from ninja.lm.word_map import BOS, UNK, find

CHUNK = 1 << 22  # number of bytes that are parsed per call, and maximum number of bytes in a line
SHORTEST_NGRAM = 4  # minimum number of bytes in a line: a digit, a space, a word and a line end
BACKOFF = "#0"
NEVER = -99 * math.log(10.0)  # natural-log probability of <s>; its log10 is -99 in ARPA files
UNKNOWN = ("<unk>", "<UNK>")  # some versions of SRILM write <UNK>


class NgramLM(LanguageModel):
    """A back-off n-gram model as a `LanguageModel`.

    If the model has no ``<s>``, it is added, so that one sentence can follow another. If the model has no <unk>,
    `score_oovs` adds it.

    Args:
        model: The automaton.
        words: Words with the ids 0 to ``model.num_words`` − 1.
        path: Path of the model, for messages.
        unk: Id of <unk>.  [default: look up the usual spellings]

    Raises:
        ModelError: The words do not include ``</s>``.
    """

    def __init__(self, model: _lm.Model, words: Sequence[str], path: str, unk: int | None = None) -> None:
        self.model = model
        if BOS not in words:  # a grammar, for example
            words = [*words, BOS]
            model.add_begin(NEVER)
        self.vocabulary = SymbolTable(((word, number) for number, word in enumerate(words)), path)
        self.bos = self.vocabulary.id(BOS)
        eos = self.vocabulary.id("</s>")
        if eos is None:
            raise ModelError("the model has no </s>, so it cannot score the end of a sentence; train it again", path)
        self.eos = eos
        ids = (self.vocabulary.id(word) for word in UNKNOWN)
        self.unk = next((word for word in ids if word is not None), None) if unk is None else unk

    takes_oov_score = True

    def score_oovs(self, score: OOVScore) -> None:
        """See `LanguageModel.score_oovs`."""
        assert self.unk is None
        self.unk = self.model.add_unknown(oov_logprob(score, self.model.num_words))
        self.vocabulary = SymbolTable([*self.vocabulary, (UNK, self.unk)], self.vocabulary.path)
        self.unk_words = None if score == "spread" else 1
        self.oov_score = score

    @property
    def order(self) -> int:
        """Length of the longest n-gram; for a grammar, number of states in the longest back-off chain."""
        return self.model.order

    stateless = True

    def twin(self) -> NgramLM:
        """Return the model itself, because it is stateless; see `LanguageModel.twin`."""
        return self

    def start(self, count: int) -> npt.NDArray[np.int64]:
        """See `LanguageModel.start`; all slots are equal."""
        return np.full(count, self.model.start, np.int64)

    def advance(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """See `LanguageModel.advance`; histories that the model does not distinguish get the same slot."""
        return self.model.advance(*_batch(slots, words))

    def logprob(self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """See `LanguageModel.logprob`; −inf for words that a grammar does not allow."""
        return self.model.logprob(*_batch(slots, words))

    def step(
        self, slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return the results of `logprob` and `advance` from a single lookup, which takes as long as either method."""
        return self.model.step(*_batch(slots, words))

    def release(self, slots: npt.NDArray[np.int64]) -> None:
        """Do nothing: slots are never freed."""


def _batch(
    slots: npt.NDArray[np.int64], words: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    states, ids = np.ascontiguousarray(slots, np.int64), np.ascontiguousarray(words, np.int32)
    if states.ndim != 1 or states.shape != ids.shape:
        raise OptionError(f"slots have shape {states.shape} and words {ids.shape}; both must have shape [n]")
    return states, ids


def read_arpa(path: str) -> NgramLM:
    """Read an ARPA file, optionally compressed with gzip; a byte-order mark is ignored with a warning.

    Missing back-off weights are 0. N-grams whose prefix or suffix is missing, as after pruning, are scored by backing
    off.

    Raises:
        ModelError: The file is damaged or truncated, or its n-gram counts are wrong; the error specifies the line.

    Source: SRILM, ngram-format(5).
    """
    try:
        with open_stream(Place(path)) as stream:
            reader = _lm.ArpaReader(path, os.path.getsize(path) // SHORTEST_NGRAM)
            if stream.head(len(BOM)) == BOM:
                stream.readinto(memoryview(bytearray(len(BOM))))
                without_mark(BOM, path)  # warns
            buffer = bytearray(CHUNK)
            filled = 0
            while size := stream.readinto(memoryview(buffer)[filled:]):
                # Read to the end of the file, because the checksum of a gzip stream follows the data.
                filled += size
                consumed = reader.feed(memoryview(buffer)[:filled])
                buffer[: filled - consumed] = buffer[consumed:filled]
                filled -= consumed
                if filled == CHUNK:
                    raise ModelError(f"a line has more than {CHUNK} bytes; specify a valid ARPA file", path)
            if filled:
                reader.feed(bytes(buffer[:filled]) + b"\n")
    except FormatError as error:
        raise ModelError(error.message, path) from error
    model, spelled = reader.finish()
    return NgramLM(model, _decoded(spelled, path), path)


def read_const_arpa(path: str, words: SymbolTable | None = None) -> NgramLM:
    """Read a Kaldi const-arpa file (``G.carpa``), optionally compressed with gzip.

    Args:
        path: Path of the file.
        words: Symbol table.  [default: ``words.txt`` or ``words.txt.gz`` in the same directory]

    Raises:
        ModelError: The file is damaged or truncated (the error contains the byte offset), the symbol table is missing,
            or a word is not in the symbol table.
    """
    table = find(path, words, None)
    model, word_id, _, eos, unk = _lm.read_const_arpa(_content(path), path)
    if eos < 0:
        raise ModelError("the model has no </s>, so it cannot score the end of a sentence; build it again", path)
    spelled = _spelled(word_id, table, path)
    spelled[eos] = "</s>"
    return NgramLM(model, spelled, path, None if unk < 0 else unk)


def read_grammar(path: str, words: SymbolTable | None = None) -> NgramLM:
    """Read a Kaldi ``G.fst``, an OpenFst vector acceptor with back-off arcs, optionally compressed with gzip.

    Arcs labelled ``#0`` or epsilon are back-off arcs.

    Args:
        path: Path of the file.
        words: Symbol table.  [default: the table in the file, else ``words.txt`` or ``words.txt.gz`` in the same
            directory]

    Raises:
        ModelError: The file is damaged or truncated (the error contains the byte offset); two back-off arcs, or two
            arcs with the same word, leave a state; or the symbol table is missing or lacks a word.
    """
    grammar = _lm.Grammar(_content(path), path)
    table = words
    if table is None and grammar.symbols is not None:
        numbers = [number for _, number in grammar.symbols]
        table = SymbolTable(zip(_decoded([word for word, _ in grammar.symbols], path), numbers, strict=True), path)
    table = find(path, table, None)
    unused = max((number for _, number in table), default=EPSILON) + 1
    eos, bos, backoff = table.ids(["</s>", "<s>", BACKOFF])
    eos = unused if eos < 0 else eos  # final weights are the cost of </s>, even if the symbol table lacks this word
    model, word_id, _, _, _ = grammar.model(backoff, bos, eos)
    spelled = _spelled([number for number in word_id if number != eos], table, path)
    spelled.insert(int(np.searchsorted(word_id, eos)), "</s>")
    return NgramLM(model, spelled, path)


def _content(path: str) -> bytes:
    try:
        return content_of(path)
    except FormatError as error:
        raise ModelError(error.message, path) from error


def _spelled(numbers: Sequence[int] | npt.NDArray[np.int32], words: SymbolTable, path: str) -> list[str]:
    try:
        return [words.word(int(number)) for number in numbers]
    except SymbolError as error:
        raise ModelError(f"{error.message} ({words.path or 'the symbol table passed as words'})", path) from error


def _decoded(words: Sequence[bytes], path: str) -> list[str]:
    try:
        return [word.decode("utf-8") for word in words]
    except UnicodeDecodeError as error:
        raise ModelError(f"the word {error.object!r} is not UTF-8; convert the file with iconv", path) from error
