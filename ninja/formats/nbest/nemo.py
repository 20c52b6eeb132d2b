"""Reader and writer for NeMo n-best lists: a beams file, and a manifest with the utterance ids."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from ninja.errors import FormatError, LatticeError, OptionError, counted
from ninja.files.stream import content_of
from ninja.formats.content import Content, Pieces, check_choice, check_encoding
from ninja.formats.format import Field, Format, Read, Write, WriteSettings
from ninja.formats.nbest.lattices import list_entries
from ninja.formats.nbest.text_rows import number, rows, split
from ninja.formats.nbest.writing import ListOptions, recoded, scaled, spelled
from ninja.formats.textual import kept_costs
from ninja.lattice.lattice import ListRecord
from ninja.lattice.nbest import Hypothesis, NBest, sentence
from ninja.lattice.symbols import SymbolTable

ScoreAs = Literal["acoustic", "graph"]


def read_nemo(
    content: bytes | Callable[[], Iterable[bytes]],
    keys: Sequence[str] | None = None,
    beam: int | None = None,
    path: str | None = None,
    *,
    score_as: ScoreAs = "acoustic",
    encoding: str = "utf-8",
) -> Iterator[NBest]:
    """Read the beams that NeMo's beam search writes: lines with a sentence, a tab and a score.

    All utterances must have the same number of lines, because the file does not mark where an utterance ends.

    Args:
        content: The whole decompressed file, or a function that returns an iterable of blocks of complete lines; it is
            called twice.
        keys: Utterance ids in the order of the manifest (``manifest_keys``).  [default: 1-based numbers]
        beam: Number of lines per utterance.  [default: the number of lines divided by the number of keys]
        path: File name for messages.
        score_as: Type of cost that the score becomes. The score is a natural log-probability (higher is better) of the
            acoustic model, or of both models if the search used a language model.
        encoding: Encoding of the file.

    Raises:
        FormatError: A line is invalid, the last line lacks a newline, or the number of lines is wrong.
        OptionError: Neither keys nor a beam is specified, or the beam is below 1.

    Source: NVIDIA NeMo, scripts/asr_language_modeling/ngram_lm/eval_beamsearch_ngram_ctc.py; the documentation of its
    neural rescorer.
    """
    again = content if callable(content) else lambda: (content,)
    num_lines = _num_lines(again())
    if beam is None:
        if not keys:
            raise OptionError(
                "the utterances of these beams are unknown; specify the manifest, or the number of lines per utterance"
            )
        beam = max(num_lines // len(keys), 1)
    if beam < 1:
        raise OptionError(f"beam is {beam}, but must be 1 or more")
    count = len(keys) if keys is not None else -(-num_lines // beam)
    hypotheses = _hypotheses(again(), path, score_as, encoding)
    if num_lines != beam * count or not count:
        for _ in hypotheses:  # if a line is invalid, its error is raised instead of the error below
            pass
        expected = f"{counted(count, 'utterance')} with {counted(beam, 'line')} each"
        message = f"there are {counted(num_lines, 'line')}, but {expected}; check the manifest and the beam"
        raise FormatError(message, path)
    place = 0
    while batch := tuple(islice(hypotheses, beam)):
        yield NBest(str(place + 1) if keys is None else keys[place], batch)
        place += 1


def _num_lines(blocks: Iterable[bytes]) -> int:
    return sum(block.count(b"\n") + (not block.endswith(b"\n")) for block in blocks if block)


def _hypotheses(content: Pieces, path: str | None, score_as: ScoreAs, encoding: str) -> Iterator[Hypothesis]:
    check_score_as(score_as)
    for line, row in rows(content, path, encoding):
        text, *scores = row.split("\t")
        if len(scores) != 1:
            raise FormatError(f"expected a sentence, a tab and a score, found {row[:60]!r}", path, line=line)
        cost = -number(scores[0].strip(" "), "a score", path, line) + 0.0
        graph, acoustic = costs(cost, score_as)
        yield sentence(split(text), graph, acoustic, line)


def read_manifest(content: bytes, field: str = "audio_filepath", path: str | None = None) -> dict[str, dict[str, Any]]:
    """Read the objects in a manifest, one per line, and return them by utterance id.

    The utterance id is the value of the field `field`. If the name of this field ends with "path", the folder and the
    extension are removed from the value.
    """
    keys: dict[str, int] = {}
    objects: dict[str, dict[str, Any]] = {}
    for line, row in rows(content, path, marked=True):
        try:
            entry = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not JSON: {str(error)[:60]}", path, line=line) from error
        name = entry.get(field) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name:
            raise FormatError(f"expected an object with the field {field!r}", path, line=line)
        key = os.path.splitext(os.path.basename(name))[0] if field.endswith("path") else name
        first = keys.setdefault(key, line)
        if first != line:
            message = f"{key!r} is also the key of the utterance on line {first}; use another field as the key"
            raise FormatError(message, path, line=line)
        objects[key] = entry
    return objects


def write_nemo(
    nbest: NBest, words: SymbolTable | None = None, *, score_as: ScoreAs | Literal["total"] = "total"
) -> bytes:
    """Encode an n-best list as lines of a NeMo beams file; scores have nine significant digits."""
    lines = []
    for hypothesis in nbest.hypotheses:
        costs = {"graph": hypothesis.graph_cost, "acoustic": hypothesis.acoustic_cost}
        cost = costs.get(score_as, sum(costs.values()))
        lines.append(f"{' '.join(spelled(hypothesis, words, nbest.key))}\t{0.0 - cost:.9g}\n")
    return "".join(lines).encode()


def costs(cost: float, score_as: ScoreAs) -> tuple[float, float]:
    """Return a single cost as ``(graph cost, acoustic cost)``; the cost that `score_as` does not select is 0."""
    return (cost, 0.0) if score_as == "graph" else (0.0, cost)


def check_score_as(score_as: str) -> None:
    """Raise OptionError if ``score_as`` has an invalid value."""
    check_choice("score_as", score_as, "acoustic", "graph")


@dataclass(frozen=True, slots=True)
class NemoOptions:
    """Options for reading NeMo beams."""

    manifest: str | None = None  # manifest that lists the utterances in the order of the beams
    field: str = "audio_filepath"  # manifest field with the utterance id
    beam: int | None = None  # number of lines per utterance, if there is no manifest
    score_as: ScoreAs = "acoustic"  # type of cost that the score becomes
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def lists(self, content: Content) -> Iterable[NBest]:
        """Read the n-best lists from a file.

        Raises:
            FormatError: The file or the manifest is invalid, or neither a manifest nor a beam is specified.
        """
        path = content.name
        if self.manifest is None and self.beam is None:
            message = (
                "NeMo's files do not mark where an utterance ends; specify --from nemo:manifest=FILE or nemo:beam=N"
            )
            raise FormatError(message, path)  # not an OptionError, because the .tsv file may be in a different format
        again = content.readings()
        if self.manifest is not None:
            objects = read_manifest(content_of(self.manifest), self.field, self.manifest)
            lists = read_nemo(again, list(objects), self.beam, path, score_as=self.score_as, encoding=self.encoding)
            return (replace(nbest, record=_record(objects[nbest.key])) for nbest in lists)
        keys = None
        if self.beam and self.beam > 0:
            count = -(-_num_lines(again()) // self.beam)
            keys = [content.key] if count == 1 else [content.numbered(number) for number in range(1, count + 1)]
        return read_nemo(again, keys, self.beam, path, score_as=self.score_as, encoding=self.encoding)


def _record(entry: dict[str, Any]) -> ListRecord:
    """Store a manifest object for the JSON writer."""
    return ListRecord(entry, {}, frozenset(entry))


@dataclass(frozen=True, slots=True)
class NemoWriteOptions(ListOptions):
    """Options for ``write_nemo``."""

    score_as: Literal["total", "graph", "acoustic"] = "total"


class _Encoder:
    """Encoder for n-best lists, all of which must have the same number of hypotheses."""

    def __init__(self, settings: WriteSettings) -> None:
        self._settings = settings
        self._beam = 0

    def add(self, nbest: NBest) -> bytes:
        """Encode an n-best list as lines of a NeMo beams file.

        Raises:
            LatticeError: The number of hypotheses differs from the number in earlier lists.
        """
        length = len(nbest.hypotheses)
        if self._beam and length != self._beam:
            message = f"this list has {length} hypotheses, but earlier lists have {self._beam}; all must have the same"
            raise LatticeError(f"{message} number, so write fewer: to='nemo:n=…' (--to nemo:n=…)", key=nbest.key)
        options = self._settings.options
        joined = scaled(nbest, options) if options.score_as == "total" else nbest
        content = write_nemo(joined, self._settings.words, score_as=options.score_as)
        content = recoded(content, self._settings.encoding, nbest.key)
        self._beam = length
        return content

    def end(self) -> bytes:
        """Return no bytes, because the format has no footer."""
        return b""


def _stored_fields(keeps: frozenset[Field], options: NemoWriteOptions) -> frozenset[Field]:
    return kept_costs(keeps, options.score_as, options.acoustic_scale)


FORMAT = Format(
    name="nemo",
    about="NeMo beams: a sentence, a tab and a score per line",
    holds="nbest",
    extensions=(".tsv",),
    read=Read(list_entries(lambda content, options: options.lists(content)), NemoOptions),
    keeps=frozenset({"graph", "acoustic", "unscaled", "names"}),
    write=Write(encoder=_Encoder, options=NemoWriteOptions, keeps=_stored_fields),
)
