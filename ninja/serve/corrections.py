"""The class `Corrections`, which corrects transcripts with phrases from requests and from the server's phrase lists."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninja.context.correction.corrector import Change, Corrector
from ninja.context.correction.report import records
from ninja.context.correction.stage import (
    Confidences,
    CorrectedUtterance,
    Correcting,
    Words,
    corrected_list,
    make_corrector,
)
from ninja.context.entities.lists import Entities, PhraseList
from ninja.context.entities.written import WrittenWords
from ninja.errors import FormatError, Log, NinjaError, OptionError, VocabularyError
from ninja.files.stream import Stream
from ninja.formats.content import Content
from ninja.formats.format import HEAD, Format, Reader, WriteSettings, formats
from ninja.io.layouts import Plain
from ninja.io.losses import converted
from ninja.lattice import Scales
from ninja.lattice.lattice import ListLattice, check
from ninja.lattice.text import BASIC
from ninja.serve.lattices import BODY, DEFAULT_KEY, format_of
from ninja.serve.logs import log
from ninja.serve.problems import Problem

MAX_WORDS = 10_000  # maximum number of words of a hypothesis
CHANGE_FIELDS = ("utt", "begin", "end", "before", "after", "phrase", "class", "kind", "distance", "probability")
JSON_FORMAT = "json"  # format of n-best lists, which are written anew


@dataclass(frozen=True, slots=True)
class Transcript:
    """The utterances in a transcript, and its file format."""

    format: Format
    lattices: tuple[ListLattice, ...]

    @property
    def num_arcs(self) -> int:
        """Total number of arcs in all utterances."""
        return sum(lattice.num_arcs for lattice in self.lattices)


class Corrections:
    """The server's phrase lists and its corrector.

    Args:
        lists: Phrase list files by list name.
        correcting: Files and options for corrections; the phrases and scales in this object are ignored.

    Raises:
        NinjaError: A file cannot be read.
    """

    def __init__(self, lists: Mapping[str, str | os.PathLike[str]], correcting: Correcting) -> None:
        self._lists = {name: Entities.read(path, normalizer=BASIC).of("") for name, path in lists.items()}
        self._correcting = correcting
        self._corrector: Corrector | None = None

    def phrases(self, names: Sequence[str], entities: Mapping[str, Sequence[Any]]) -> tuple[PhraseList, ...]:
        """Return the phrase lists for a request.

        Args:
            names: Names of lists on the server.
            entities: Phrases by class.

        Raises:
            Problem: A list does not exist, the request contains no phrases, or a phrase is invalid.
        """
        lists = named_phrases(names, self._lists)
        if any(entities.values()):
            try:
                lists += Entities.from_dict(entities, normalizer=BASIC).of("")
            except FormatError as error:
                raise Problem(422, f"entities: {error}") from error
        if not lists:
            raise Problem(400, "the request contains no phrases; specify entities or lists")
        return lists

    def correct(
        self, lattice: ListLattice, lists: Sequence[PhraseList], until: float
    ) -> tuple[ListLattice, CorrectedUtterance]:
        """Return ``(corrected utterance, changes to its best hypothesis)``.

        All calls must come from the same thread. The first call loads the models, which takes a few seconds.

        Args:
            lattice: An utterance in a transcript.
            lists: Phrase lists.
            until: Value of ``time.monotonic()`` after which no further hypotheses are corrected.

        Raises:
            Problem: The time limit was exceeded, or a hypothesis is too long.
            VocabularyError: The utterance contains word ids instead of words.
            NinjaError: The first call cannot load the models.
        """
        if lattice.words is None:
            raise VocabularyError("the hypotheses contain word ids; send words", key=lattice.key)
        corrector = self._corrector
        if corrector is None:
            notes = Log()
            corrector = self._corrector = make_corrector(self._correcting, BASIC, notes)
            for note in notes.notes:
                log("note", {"note": note})

        def changes_of(words: Words, confidences: Confidences) -> list[Change]:
            if time.monotonic() > until:
                raise Problem(504, "the time limit has passed")
            if len(words) > MAX_WORDS:
                message = f"an utterance has {len(words)} words, but at most {MAX_WORDS} are allowed"
                raise Problem(413, f"{message}; divide it into segments", lattice.key)
            return corrector.changes(words, lists, confidences)

        return corrected_list(lattice, changes_of, Scales(), WrittenWords(lattice.words, BASIC))


def named_phrases(names: Sequence[str], lists: Mapping[str, tuple[PhraseList, ...]]) -> tuple[PhraseList, ...]:
    """Return the phrases in the named lists of the server; raise `Problem` if a list does not exist."""
    for name in names:
        if name not in lists:
            available = f"available: {', '.join(lists)}" if lists else "this server has none"
            raise Problem(422, f"there is no phrase list {name!r:.80}; {available}")
    return tuple(phrases for name in names for phrases in lists[name])


def read_transcript(body: bytes, format_name: str | None) -> Transcript:
    """Read the utterances in a transcript.

    Args:
        body: The content of a file, not compressed.
        format_name: Name of the format; None detects it.

    Raises:
        NinjaError: The body or one of its utterances cannot be read.
    """
    stream = Stream(io.BytesIO(body), BODY)
    format = format_of(stream.head(HEAD), format_name, correctable())
    if format is None or not _is_correctable(format):
        name = "the body is a Kaldi archive" if format is None else f"the format is {format.name}"
        raise OptionError(
            f"{name}, but only transcript formats ({', '.join(correctable())}) can be corrected; "
            "rescore the body instead"
        )
    content = Content(stream, "")  # the path is empty, because there is no file
    content.key = DEFAULT_KEY
    lattices: list[ListLattice] = []
    for _, entry in Reader.of(format, {}).entries(content, None):
        if isinstance(entry, NinjaError):
            entry.path = BODY
            raise entry
        check(entry)
        assert isinstance(entry, ListLattice)
        lattices.append(entry)
    if not lattices:
        raise FormatError("the body contains no utterances", BODY)
    return Transcript(format, tuple(lattices))


def write_transcript(transcript: Transcript) -> bytes:
    """Return the original document, with its words replaced by the words of the transcript's utterances.

    Raises:
        LatticeError: The format cannot represent a word.
    """
    write = transcript.format.write
    assert write is not None
    settings = WriteSettings(None if write.options is None else write.options(), None)
    encoder = Plain(write, settings) if write.encoder is None else write.encoder(settings)
    items = (converted(lattice, transcript.format, settings, with_names=True)[0] for lattice in transcript.lattices)
    return b"".join([*map(encoder.add, items), encoder.end()])


def change_records(utterances: Sequence[CorrectedUtterance]) -> list[dict[str, Any]]:
    """Return the changes to utterances as JSON objects with `CHANGE_FIELDS`."""
    return [{name: change[name] for name in CHANGE_FIELDS} for change in records(utterances)]


def correctable() -> list[str]:
    """Return the names of the transcript formats that can be corrected and written back."""
    return [format.name for format in formats() if _is_correctable(format)]


def _is_correctable(format: Format) -> bool:
    """Return whether a format is a text format that can be rewritten with changed words."""
    write = format.write
    if write is None or format.holds != "nbest" or format.name == "parquet":
        return False
    return write.rewrites_files or write.restores or format.name == JSON_FORMAT
